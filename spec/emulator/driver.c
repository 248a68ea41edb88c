/* The NVIDIA driver for the emulator: csrc/cuda/driver.h's functions on host memory.
 *
 * Work is done by the thread that enqueues it, at once; but a stream has a clock of its
 * own, by which the work is done later, and events are reached by that clock. What a script of a spec could
 * get wrong, or lode itself, is made visible: fresh memory is filled and freed memory spoiled; blocks
 * come from malloc with their exact size, for the address sanitizer; a call without a context, with
 * another device's stream, or that frees what is not there, fails or stops the process.
 *
 *   LODE_EMULATED_GPUS=n      devices (1); 0: cuInit finds none
 *   LODE_EMULATED_MEMORY=n    bytes of each (2^30)
 *   LODE_EMULATED_POOLS=0     no memory pools
 *   LODE_EMULATED_VERSION=n   of CUDA that the driver knows (that of cuda.h)
 *   LODE_EMULATED_SLOW=n      work takes its stream n times as long again (3)
 *   LODE_EMULATED_LATE=n      microseconds until an event is reached, at least (10)
 *   LODE_EMULATED_FAIL=f:n:e  the n-th call of the function f fails with error e (CUDA_ERROR_UNKNOWN)
 *   LODE_EMULATED_LOST=1      and so do all calls after it */
#define _GNU_SOURCE
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <elf.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 8, PIECE = 2 << 20 /* what a pool takes at a time */, BUCKETS = 4096 };

struct CUctx_st {
  int device;
};

struct CUstream_st {
  int device;
  _Atomic int64_t until; /* nanoseconds of now(): when its work is done */
};

struct CUevent_st {
  int device;
  bool timed;
  atomic_bool recorded;
  _Atomic int64_t time; /* nanoseconds of now(): when it is reached */
};

struct CUmemPoolHandle_st {
  int device;
  size_t used, reserved, high;
};

struct CUlib_st {
  void *handle; /* dlopen's */
  bool loaded;  /* a shared object of its own */
};

typedef struct block {
  struct block *next;
  void *address;
  size_t bytes;
  int device;
  CUmemoryPool pool; /* NULL: of cuMemAlloc */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static bool started;
static int gpus = 1, slow, late;
static size_t memory = (size_t)1 << 30, taken[MAX_GPUS];
static block *blocks[BUCKETS];
static struct CUctx_st contexts[MAX_GPUS];
static char failing[64]; /* the function that fails; empty: none */
static long failing_call;
static int failing_error = CUDA_ERROR_UNKNOWN;
static bool loses;
static atomic_bool lost;

static _Thread_local CUcontext current;

/* ---- what every call checks ---------------------------------------------------------- */

static long setting(const char *name, long otherwise) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? atol(value) : otherwise;
}

static void read_settings(void) {
  const char *fail = getenv("LODE_EMULATED_FAIL");
  gpus = (int)setting("LODE_EMULATED_GPUS", 1);
  if (gpus > MAX_GPUS) gpus = MAX_GPUS;
  memory = (size_t)setting("LODE_EMULATED_MEMORY", (long)memory);
  slow = (int)setting("LODE_EMULATED_SLOW", 3);
  late = (int)setting("LODE_EMULATED_LATE", 10);
  loses = setting("LODE_EMULATED_LOST", 0) != 0;
  if (fail != NULL && sscanf(fail, "%63[^:]:%ld:%d", failing, &failing_call, &failing_error) < 2)
    failing[0] = '\0';
  for (int i = 0; i < MAX_GPUS; i++) contexts[i].device = i;
}

static CUresult begin(const char *name) {
  if (atomic_load(&lost)) return CUDA_ERROR_UNKNOWN;
  if (!started) return CUDA_ERROR_NOT_INITIALIZED;
  if (failing[0] == '\0' || strcmp(failing, name) != 0) return CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  bool fails = --failing_call == 0;
  pthread_mutex_unlock(&lock);
  if (!fails) return CUDA_SUCCESS;
  if (loses) atomic_store(&lost, true);
  return (CUresult)failing_error;
}

static CUresult begin_inside(const char *name) {
  CUresult result = begin(name);
  return result != CUDA_SUCCESS || current != NULL ? result : CUDA_ERROR_INVALID_CONTEXT;
}

#define CHECK(condition, result)                                                                               \
  do {                                                                                                         \
    if (!(condition)) return result;                                                                           \
  } while (0)
#define TRY(call)                                                                                              \
  do {                                                                                                         \
    CUresult try_ = (call);                                                                                    \
    if (try_ != CUDA_SUCCESS) return try_;                                                                     \
  } while (0)
#define BEGIN(name)  TRY(begin(#name))        /* the name without cuda.h's version */
#define INSIDE(name) TRY(begin_inside(#name)) /* a context is current */
#define ON(name, stream)                                                                                       \
  do {                                                                                                         \
    TRY(begin_inside(#name));                                                                                  \
    CHECK((stream) != NULL && (stream)->device == current->device, CUDA_ERROR_INVALID_HANDLE);                 \
  } while (0)

static void stop(const char *what) {
  fprintf(stderr, "emulator: %s\n", what);
  abort();
}

/* ---- time ------------------------------------------------------------------------------ */

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void busy_until(CUstream stream, int64_t time) {
  int64_t before = atomic_load(&stream->until);
  while (time > before && !atomic_compare_exchange_weak(&stream->until, &before, time)) {
  }
}

/* Work of the stream began at `start` and has been done. For the emulated libraries too. */
__attribute__((visibility("default"))) void lode_emulated_worked(CUstream stream, int64_t start);

void lode_emulated_worked(CUstream stream, int64_t start) {
  int64_t end = now(), until = atomic_load(&stream->until);
  busy_until(stream, (until > end ? until : end) + slow * (end - start));
}

static void *pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

/* ---- the driver ------------------------------------------------------------------------ */

CUresult cuInit(unsigned flags) {
  CHECK(flags == 0, CUDA_ERROR_INVALID_VALUE);
  pthread_mutex_lock(&lock);
  if (!started) read_settings();
  started = true;
  pthread_mutex_unlock(&lock);
  BEGIN(cuInit);
  return gpus > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
  *version = (int)setting("LODE_EMULATED_VERSION", CUDA_VERSION);
  return CUDA_SUCCESS;
}

static const struct {
  CUresult result;
  const char *name, *text;
} errors[] = {
#define E(name, text)                                                                                          \
  { name, #name, text }
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef E
};

static CUresult error_text(CUresult error, const char **out, bool name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].result != error) continue;
    *out = name ? errors[i].name : errors[i].text;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **text) { return error_text(error, text, true); }
CUresult cuGetErrorString(CUresult error, const char **text) { return error_text(error, text, false); }

/* ---- devices ----------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count) {
  BEGIN(cuDeviceGetCount);
  *count = gpus;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  BEGIN(cuDeviceGet);
  CHECK(ordinal >= 0 && ordinal < gpus, CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  BEGIN(cuDeviceGetName);
  CHECK(device >= 0 && device < gpus, CUDA_ERROR_INVALID_DEVICE);
  snprintf(name, (size_t)size, "Emulated GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *id, CUdevice device) {
  BEGIN(cuDeviceGetUuid);
  CHECK(device >= 0 && device < gpus, CUDA_ERROR_INVALID_DEVICE);
  memset(id->bytes, 0xE0 + device, sizeof id->bytes);
  return CUDA_SUCCESS;
}

static const struct {
  CUdevice_attribute which;
  int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 8 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  BEGIN(cuDeviceGetAttribute);
  CHECK(device >= 0 && device < gpus, CUDA_ERROR_INVALID_DEVICE);
  if (which == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
    *value = setting("LODE_EMULATED_POOLS", 1) != 0;
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    if (attributes[i].which != which) continue;
    *value = attributes[i].value;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  BEGIN(cuDeviceTotalMem);
  CHECK(device >= 0 && device < gpus, CUDA_ERROR_INVALID_DEVICE);
  *bytes = memory;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  BEGIN(cuDevicePrimaryCtxRetain);
  CHECK(device >= 0 && device < gpus, CUDA_ERROR_INVALID_DEVICE);
  *context = &contexts[device];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  if (!started) return CUDA_ERROR_NOT_INITIALIZED;
  *context = current;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (!started) return CUDA_ERROR_NOT_INITIALIZED;
  current = context;
  return CUDA_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------
 *
 * The functions without CUDA's names with the lock held. */

static block **place_of(const void *address) {
  block **link = &blocks[(uintptr_t)address / 256 % BUCKETS];
  while (*link != NULL && (*link)->address != address) link = &(*link)->next;
  return link;
}

static CUresult add_block(CUdeviceptr *out, size_t bytes, int device, CUmemoryPool pool) {
  block *made = malloc(sizeof *made);
  void *address;
  if (made == NULL || posix_memalign(&address, 256, bytes) != 0) {
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memset(address, 0xA7, bytes);
  block **link = &blocks[(uintptr_t)address / 256 % BUCKETS];
  *made = (block){*link, address, bytes, device, pool};
  *link = made;
  *out = (CUdeviceptr)(uintptr_t)address;
  return CUDA_SUCCESS;
}

static void remove_block(block **link) {
  block *old = *link;
  *link = old->next;
  memset(old->address, 0xD5, old->bytes);
  free(old->address);
  free(old);
}

static CUresult plain_alloc(CUdeviceptr *out, size_t bytes, int device) {
  if (bytes > memory - taken[device]) return CUDA_ERROR_OUT_OF_MEMORY;
  TRY(add_block(out, bytes, device, NULL));
  taken[device] += bytes;
  return CUDA_SUCCESS;
}

static CUresult pool_alloc(CUdeviceptr *out, size_t bytes, CUmemoryPool pool) {
  if (bytes > memory) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t need = pool->used + bytes, more = 0;
  if (need > pool->reserved) more = (need - pool->reserved + PIECE - 1) / PIECE * PIECE;
  if (more > memory - taken[pool->device]) return CUDA_ERROR_OUT_OF_MEMORY;
  TRY(add_block(out, bytes, pool->device, pool));
  taken[pool->device] += more;
  pool->reserved += more;
  pool->used = need;
  if (pool->reserved > pool->high) pool->high = pool->reserved;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *left, size_t *total) {
  INSIDE(cuMemGetInfo);
  pthread_mutex_lock(&lock);
  *left = memory - taken[current->device];
  *total = memory;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  INSIDE(cuMemAlloc);
  CHECK(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  pthread_mutex_lock(&lock);
  CUresult result = plain_alloc(out, bytes, current->device);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult cuMemFree(CUdeviceptr address) {
  INSIDE(cuMemFree);
  pthread_mutex_lock(&lock);
  block **link = place_of(pointer(address));
  if (*link == NULL || (*link)->pool != NULL) stop("cuMemFree of what cuMemAlloc has not given");
  taken[(*link)->device] -= (*link)->bytes;
  remove_block(link);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  INSIDE(cuMemHostAlloc);
  CHECK((flags & CU_MEMHOSTALLOC_PORTABLE) != 0, CUDA_ERROR_INVALID_VALUE);
  if (posix_memalign(out, 4096, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(*out, 0xA7, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *address) {
  INSIDE(cuMemFreeHost);
  free(address);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *host, unsigned flags) {
  INSIDE(cuMemHostGetDevicePointer);
  CHECK(flags == 0, CUDA_ERROR_INVALID_VALUE);
  *out = (CUdeviceptr)(uintptr_t)host;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties) {
  BEGIN(cuMemPoolCreate);
  CHECK(setting("LODE_EMULATED_POOLS", 1) != 0, CUDA_ERROR_NOT_SUPPORTED);
  CHECK(properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  CHECK(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->device = properties->location.id;
  return CUDA_SUCCESS;
}

/* The release threshold is not emulated: what is free stays with the pool until it is trimmed. */
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value) {
  BEGIN(cuMemPoolSetAttribute);
  CHECK(pool != NULL && value != NULL, CUDA_ERROR_INVALID_VALUE);
  return which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value) {
  BEGIN(cuMemPoolGetAttribute);
  pthread_mutex_lock(&lock);
  cuuint64_t found = which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ? pool->high : pool->reserved;
  if (which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) found = pool->used;
  pthread_mutex_unlock(&lock);
  *(cuuint64_t *)value = found;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  BEGIN(cuMemPoolTrimTo);
  pthread_mutex_lock(&lock);
  size_t least = pool->used > keep ? pool->used : keep;
  least = (least + PIECE - 1) / PIECE * PIECE;
  if (least < pool->reserved) {
    taken[pool->device] -= pool->reserved - least;
    pool->reserved = least;
  }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ON(cuMemAllocFromPoolAsync, stream);
  CHECK(bytes > 0 && pool->device == stream->device, CUDA_ERROR_INVALID_VALUE);
  pthread_mutex_lock(&lock);
  CUresult result = pool_alloc(out, bytes, pool);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  ON(cuMemFreeAsync, stream);
  pthread_mutex_lock(&lock);
  block **link = place_of(pointer(address));
  if (*link == NULL || (*link)->pool == NULL) stop("cuMemFreeAsync of what no pool has given");
  (*link)->pool->used -= (*link)->bytes;
  remove_block(link);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

/* ---- work --------------------------------------------------------------------------------- */

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  ON(cuMemcpyHtoDAsync, stream);
  int64_t start = now();
  memcpy(pointer(to), from, bytes);
  lode_emulated_worked(stream, start);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ON(cuMemcpyDtoHAsync, stream);
  int64_t start = now();
  memcpy(to, pointer(from), bytes);
  lode_emulated_worked(stream, start);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ON(cuMemcpyDtoDAsync, stream);
  int64_t start = now();
  memmove(pointer(to), pointer(from), bytes);
  lode_emulated_worked(stream, start);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  ON(cuMemsetD8Async, stream);
  int64_t start = now();
  memset(pointer(to), value, bytes);
  lode_emulated_worked(stream, start);
  return CUDA_SUCCESS;
}

/* A GPU knows nothing of the host's rounding and of its flushing of subnormals. */
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                        unsigned tz, unsigned shared, CUstream stream, void **parameters, void **extra) {
  ON(cuLaunchKernel, stream);
  CHECK(function != NULL && parameters != NULL && extra == NULL, CUDA_ERROR_INVALID_VALUE);
  CHECK(x >= 1 && x <= INT32_MAX && y == 1 && z == 1, CUDA_ERROR_INVALID_VALUE);
  CHECK(threads >= 1 && threads <= 256 && ty == 1 && tz == 1 && shared == 0, CUDA_ERROR_INVALID_VALUE);
  void (*kernel)(void **arguments, uint32_t blocks);
  *(void **)&kernel = (void *)function;
  int64_t start = now();
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  kernel(parameters, x);
  fesetenv(&before);
  lode_emulated_worked(stream, start);
  return CUDA_SUCCESS;
}

/* ---- streams and events ---------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  INSIDE(cuStreamCreate);
  CHECK(flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->device = current->device;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  ON(cuStreamDestroy, stream);
  stream->device = -1;
  free(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  ON(cuStreamWaitEvent, stream);
  CHECK(event != NULL && flags == CU_EVENT_WAIT_DEFAULT, CUDA_ERROR_INVALID_VALUE);
  if (!event->recorded) stop("a stream waits for an event that was never recorded");
  busy_until(stream, atomic_load(&event->time));
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned flags) {
  INSIDE(cuEventCreate);
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->device = current->device;
  (*out)->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  INSIDE(cuEventDestroy);
  free(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  ON(cuEventRecord, stream);
  CHECK(event != NULL && event->device == stream->device, CUDA_ERROR_INVALID_HANDLE);
  int64_t time = now(), until = atomic_load(&stream->until);
  if (until > time) time = until;
  atomic_store(&event->time, time + late * 1000);
  event->recorded = true;
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  INSIDE(cuEventQuery);
  return now() < atomic_load(&event->time) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  INSIDE(cuEventSynchronize);
  int64_t left = atomic_load(&event->time) - now();
  struct timespec time = {left / 1000000000, left % 1000000000};
  while (left > 0 && nanosleep(&time, &time) != 0) {
  }
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  INSIDE(cuEventElapsedTime);
  CHECK(start->recorded && end->recorded && start->timed && end->timed, CUDA_ERROR_INVALID_HANDLE);
  int64_t first = atomic_load(&start->time), last = atomic_load(&end->time);
  CHECK(now() >= first && now() >= last, CUDA_ERROR_NOT_READY);
  *milliseconds = (float)((double)(last - first) * 1e-6);
  return CUDA_SUCCESS;
}

/* ---- kernels ----------------------------------------------------------------------------------- */

/* The linker writes the table of sections last. */
static size_t object_bytes(const void *image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  return header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
}

static bool write_all(int file, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(file, bytes, count);
    if (written <= 0) return false;
    bytes += written;
    count -= (size_t)written;
  }
  return true;
}

/* A shared object that the emulated NVRTC has made. */
static void *open_object(const void *image) {
  const char *folder = getenv("TMPDIR");
  char name[512];
  snprintf(name, sizeof name, "%.400s/lode-emulator-XXXXXX", folder != NULL && *folder ? folder : "/tmp");
  int file = mkstemp(name);
  if (file < 0) return NULL;
  void *handle = write_all(file, image, object_bytes(image)) ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL) fprintf(stderr, "emulator: %s\n", dlerror());
  close(file);
  unlink(name);
  return handle;
}

/* This library, which the kernels of kernels/ are linked into. */
static void *open_self(void) {
  Dl_info info;
  if (dladdr((void *)(uintptr_t)open_object, &info) == 0) return NULL;
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *options, void **values,
                           unsigned count, CUlibraryOption *library_options, void **library_values,
                           unsigned library_count) {
  (void)options, (void)values, (void)library_options, (void)library_values;
  BEGIN(cuLibraryLoadData);
  CHECK(image != NULL && count == 0 && library_count == 0, CUDA_ERROR_INVALID_VALUE);
  bool object = memcmp(image, ELFMAG, SELFMAG) == 0;
  void *handle = object ? open_object(image) : open_self();
  if (handle == NULL) return CUDA_ERROR_INVALID_IMAGE;
  *out = malloc(sizeof **out);
  if (*out == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  **out = (struct CUlib_st){handle, object};
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
  BEGIN(cuLibraryUnload);
  if (library->loaded) dlclose(library->handle);
  free(library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
  BEGIN(cuLibraryGetKernel);
  *out = (CUkernel)dlsym(library->handle, name);
  return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* NVRTC itself, which the emulated one calls, looks for this and does without it. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_SUPPORTED;
}
