/* See jit.h. A table of entries by the hash of their keys; entries are never freed, as
 * their kernels are not: a process meets few structures, since scalars, addresses and
 * extents, but for those of short rows and of rows made of pieces, are no part of a key. */
#include "jit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"

typedef struct entry {
  lode_compile_job job; /* first: done() is given the job */
  struct entry *next;   /* in its bucket */
  uint64_t hash;
  enum { PENDING, READY, FAILED } state; /* PENDING: the compile thread has it */
  int capability;
  size_t key_bytes;
  unsigned char key[];
} entry;

static struct {
  lode_mutex lock;
  pthread_cond_t changed; /* some entry is no longer pending */
  entry **bucket;
  size_t nbuckets, count;
} table = {.lock = LODE_MUTEX_INIT, .changed = PTHREAD_COND_INITIALIZER};

/* Eight bytes at a time, each mixed by a multiplication whose high half folds back (Steele and Vigna's
 * constant). */
static uint64_t hash(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t h = bytes;
  for (; bytes > 0; p += 8) {
    uint64_t word = 0;
    size_t count = bytes < 8 ? bytes : 8;
    memcpy(&word, p, count);
    h = (h ^ word) * UINT64_C(0xD1342543DE82EF95);
    h ^= h >> 32;
    bytes -= count;
  }
  return h;
}

static entry *find(const lode_jit_request *request, int capability, uint64_t h) {
  if (table.nbuckets == 0) return NULL;
  for (entry *e = table.bucket[h % table.nbuckets]; e != NULL; e = e->next)
    if (e->hash == h && e->capability == capability && e->key_bytes == request->key_bytes &&
        memcmp(e->key, request->key, request->key_bytes) == 0)
      return e;
  return NULL;
}

static bool grow(void) {
  size_t wanted = table.nbuckets == 0 ? 64 : table.nbuckets * 2;
  if (table.count < table.nbuckets) return true;
  entry **bucket = calloc(wanted, sizeof *bucket);
  if (bucket == NULL) return table.nbuckets > 0;
  for (size_t i = 0; i < table.nbuckets; i++)
    for (entry *e = table.bucket[i], *next; e != NULL; e = next) {
      next = e->next;
      e->next = bucket[e->hash % wanted];
      bucket[e->hash % wanted] = e;
    }
  free(table.bucket);
  table.bucket = bucket;
  table.nbuckets = wanted;
  return true;
}

static void done(lode_compile_job *job) {
  entry *e = (entry *)job;
  lode_mutex_lock(&table.lock);
  e->state = job->status == LODE_OK ? READY : FAILED;
  pthread_cond_broadcast(&table.changed);
  lode_mutex_unlock(&table.lock);
}

/* Hands an entry to the compile thread. With the lock held. */
static lode_status begin(lode_cuda_device *device, const lode_jit_request *request, entry *e,
                         lode_error *error) {
  char *source = request->source(request->context);
  if (source == NULL) return lode_fail(error, LODE_NOMEM, "no host memory to compile a program");
  e->job = (lode_compile_job){.device = device, .source = source, .done = done};
  e->state = PENDING;
  lode_status status = lode_compile_enqueue(&e->job, error);
  if (status != LODE_OK) free(source);
  return status;
}

/* A pending entry for the request. With the lock held. */
static lode_status add(lode_cuda_device *device, const lode_jit_request *request, uint64_t h, entry **out,
                       lode_error *error) {
  entry *e = calloc(1, sizeof *e + request->key_bytes);
  if (e == NULL || !grow()) {
    free(e);
    return lode_fail(error, LODE_NOMEM, "no host memory to compile a program");
  }
  e->hash = h;
  e->capability = device->capability;
  e->key_bytes = request->key_bytes;
  memcpy(e->key, request->key, request->key_bytes);
  lode_status status = begin(device, request, e, error);
  if (status != LODE_OK) {
    free(e);
    return status;
  }
  e->next = table.bucket[h % table.nbuckets];
  table.bucket[h % table.nbuckets] = e;
  table.count++;
  *out = e;
  return LODE_OK;
}

/* With the lock held. Without NVRTC there is no kernel, which is no error. */
static lode_status settle(entry *e, lode_jit_mode mode, CUkernel *kernel, lode_error *error) {
  while (mode == LODE_JIT_WAIT && e->state == PENDING) pthread_cond_wait(&table.changed, &table.lock);
  if (e->state == READY) *kernel = e->job.kernel;
  if (e->state == FAILED && mode == LODE_JIT_WAIT && e->job.status != LODE_UNAVAILABLE)
    return lode_fail(error, e->job.status, "%.400s", e->job.error.text);
  return LODE_OK;
}

lode_status lode_jit_find(lode_cuda_device *device, const lode_jit_request *request, CUkernel *kernel,
                          lode_error *error) {
  lode_jit_mode mode = (lode_jit_mode)atomic_load_explicit(&device->base.jit, memory_order_relaxed);
  *kernel = NULL;
  if (mode == LODE_JIT_OFF) return LODE_OK;
  uint64_t h = hash(request->key, request->key_bytes);
  lode_mutex_lock(&table.lock);
  entry *e = find(request, device->capability, h);
  lode_status status = LODE_OK;
  if (e == NULL) status = add(device, request, h, &e, error);
  else if (e->state == FAILED && e->job.status == LODE_NOMEM) /* there may be some now */
    status = begin(device, request, e, error);
  if (status == LODE_OK) status = settle(e, mode, kernel, error);
  lode_mutex_unlock(&table.lock);
  return status;
}

void lode_cuda_jit_describe(lode_cuda_device *device, lode_properties *out) {
  (void)device;
  lode_compile_describe(out);
}
