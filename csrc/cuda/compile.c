/* See compile.h. */
#include "compile.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/cache.h"
#include "../core/system.h"
#include "../core/trace.h"
#include "nvrtc.h"

enum { STACK_BYTES = 16 << 20 };

/* ---- the part ---------------------------------------------------------------- */

static struct {
  lode_mutex lock;
  enum { NOT_ASKED, LOADED, ABSENT } state;
  lode_error reason;
  lode_nvrtc table;
} part = {.lock = LODE_MUTEX_INIT};

static lode_status load(void) {
#ifdef LODE_HAVE_NVRTC
  return lode_part_load("nvrtc", &part.table.part, &part.reason);
#else
  return lode_fail(&part.reason, LODE_UNAVAILABLE, "lode was built without NVRTC");
#endif
}

static lode_status available(lode_error *error) {
  lode_mutex_lock(&part.lock);
  if (part.state == NOT_ASKED) {
    part.state = load() == LODE_OK ? LOADED : ABSENT;
    if (part.state == ABSENT) lode_trace("programs are interpreted: %s", part.reason.text);
  }
  lode_status status =
      part.state == LOADED ? LODE_OK : lode_fail(error, LODE_UNAVAILABLE, "%s", part.reason.text);
  lode_mutex_unlock(&part.lock);
  return status;
}

void lode_compile_describe(lode_properties *out) {
  lode_mutex_lock(&part.lock);
  if (part.state == LOADED)
    lode_properties_add(out, "nvrtc", "%d.%d, up to compute capability %d.%d", part.table.version / 1000,
                        part.table.version / 10 % 100, part.table.newest / 10, part.table.newest % 10);
  else if (part.state == ABSENT) lode_properties_add(out, "nvrtc", "%.200s", part.reason.text);
  else
#ifdef LODE_HAVE_NVRTC
    lode_properties_add(out, "nvrtc", "not loaded yet");
#else
    lode_properties_add(out, "nvrtc", "built without NVRTC");
#endif
  lode_mutex_unlock(&part.lock);
}

/* ---- one job ------------------------------------------------------------------ */

/* What makes a binary right: the source, and what it is compiled for and with. The version is that of the
 * toolkit that lode was built with: which NVRTC will be found is not known before it is loaded, and that takes
 * longer than what is on disk. So a binary outlives an upgrade of NVRTC alone, as does PTX that was made since
 * the old one did not know the GPU: the options hold the bits whichever compiles. */
static char *disk_key(const lode_compile_job *job, size_t *bytes) {
  static const char *const always[] = {LODE_NVRTC_ALWAYS};
  const char *more = lode_environment("LODE_NVRTC_OPTIONS");
  if (more == NULL) more = "";
  size_t room = strlen(more) + strlen(job->source) + 64, used;
  for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) room += strlen(always[i]) + 1;
  char *key = malloc(room);
  if (key == NULL) return NULL;
  used = (size_t)snprintf(key, room, "sm_%d CUDA %d %s", job->device->capability, CUDA_VERSION, more);
  for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
    used += (size_t)snprintf(key + used, room - used, " %s", always[i]);
  used += (size_t)snprintf(key + used, room - used, "\n%s", job->source);
  *bytes = used;
  return key;
}

static lode_status load_binary(lode_compile_job *job, const void *binary) {
  CUlibrary library;
  LODE_CU(&job->error, cuLibraryLoadData, &library, binary, NULL, NULL, 0, NULL, NULL, 0);
  CUresult result = lode_cu.cuLibraryGetKernel(&job->kernel, library, "lode_program");
  if (result != CUDA_SUCCESS) lode_cu.cuLibraryUnload(library);
  return lode_driver_check(result, "cuLibraryGetKernel", &job->error);
}

static bool load_from_disk(lode_compile_job *job, const char *key, size_t key_bytes) {
  size_t bytes;
  int64_t start = lode_clock();
  void *binary = lode_cache_read(key, key_bytes, &bytes);
  if (binary == NULL) return false;
  bool loaded = load_binary(job, binary) == LODE_OK;
  free(binary);
  if (!loaded) return false;
  lode_count(&job->device->base, LODE_COUNT_loads);
  lode_trace("%s: loaded a program from disk in %.2f ms", job->device->base.name,
             (double)(lode_clock() - start) * 1e-6);
  return true;
}

/* The source is kept where binaries are, to be looked at. */
static void trace_compiled(const lode_compile_job *job, const char *key, size_t key_bytes, bool compiled,
                           double ms, const char *log) {
  char place[1200];
  bool kept = key != NULL && lode_cache_note(key, key_bytes, ".cu", job->source, place, sizeof place);
  lode_trace("%s: %s a program in %.2f ms%s%s%s%s", job->device->base.name,
             compiled ? "compiled" : "could not compile", ms, kept ? "; its source is " : "", kept ? place : "",
             log != NULL ? "\n" : "", log != NULL ? log : "");
}

static lode_status compile(lode_compile_job *job, const char *key, size_t key_bytes) {
  char *binary = NULL, *log = NULL;
  size_t bytes = 0;
  int64_t start = lode_clock();
  bool compiled = part.table.compile(job->source, job->device->capability, &binary, &bytes, &log);
  if (lode_tracing()) trace_compiled(job, key, key_bytes, compiled, (double)(lode_clock() - start) * 1e-6, log);
  free(log);
  if (!compiled)
    return lode_fail(
        &job->error, LODE_SYSTEM,
        "NVRTC could not compile the program%s; LODE_TRACE=1 prints its log, lode.jit = \"off\" does "
        "without it",
        lode_environment("LODE_NVRTC_OPTIONS") != NULL ? " (LODE_NVRTC_OPTIONS is set)" : "");
  lode_count(&job->device->base, LODE_COUNT_compiles);
  lode_status status = load_binary(job, binary);
  if (status == LODE_OK && key != NULL) lode_cache_write(key, key_bytes, binary, bytes);
  free(binary);
  return status;
}

static void work(lode_compile_job *job) {
  size_t key_bytes = 0;
  char *key = disk_key(job, &key_bytes);
  if (key != NULL && load_from_disk(job, key, key_bytes)) job->status = LODE_OK;
  else if ((job->status = available(&job->error)) == LODE_OK) job->status = compile(job, key, key_bytes);
  free(key);
  free(job->source);
  job->source = NULL;
  job->done(job);
}

/* ---- the thread ----------------------------------------------------------------- */

static struct {
  lode_mutex lock;
  pthread_cond_t wake;
  bool started;
  lode_compile_job *first, **last;
} queue = {.lock = LODE_MUTEX_INIT, .wake = PTHREAD_COND_INITIALIZER};

static void *serve(void *unused) {
  (void)unused;
  for (;;) {
    lode_mutex_lock(&queue.lock);
    while (queue.first == NULL) pthread_cond_wait(&queue.wake, &queue.lock);
    lode_compile_job *job = queue.first;
    queue.first = job->next;
    if (queue.first == NULL) queue.last = &queue.first;
    lode_mutex_unlock(&queue.lock);
    work(job);
  }
  return NULL;
}

/* With the lock held. The thread takes no signals: they are the host's. */
static lode_status start(lode_error *error) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  if (queue.started) return LODE_OK;
  queue.last = &queue.first;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int failure = pthread_create(&thread, &attributes, serve, NULL);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure != 0)
    return lode_fail(error, LODE_SYSTEM, "cannot start the compile thread: %s", strerror(failure));
  queue.started = true;
  return LODE_OK;
}

lode_status lode_compile_enqueue(lode_compile_job *job, lode_error *error) {
  lode_mutex_lock(&queue.lock);
  lode_status status = start(error);
  if (status == LODE_OK) {
    job->next = NULL;
    *queue.last = job;
    queue.last = &job->next;
    pthread_cond_signal(&queue.wake);
  }
  lode_mutex_unlock(&queue.lock);
  return status;
}
