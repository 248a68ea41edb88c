/* See kernels.h. A library and its kernels belong to no context: the driver loads them into each device's
 * by itself. So there is one table for the process. */
#include "kernels.h"

#include "../core/trace.h"

typedef enum library_id {
#define LODE_FILE_MAP(X) X(programs) X(matrix)
#define X(file)          FILE_##file,
  LODE_FILE_MAP(X)
#undef X
      LIBRARIES
} library_id;

static const char *const images[LIBRARIES] = {
#define X(file) lode_fatbin_##file,
    LODE_FILE_MAP(X)
#undef X
};

static const struct {
  const char *name;
  library_id file;
} kernels[] = {
#define X(file, name) {#name, FILE_##file},
    LODE_PROGRAM_KERNEL_MAP(X) LODE_MATRIX_KERNEL_MAP(X)
#undef X
};

static lode_mutex lock = LODE_MUTEX_INIT;
static CUlibrary libraries[LIBRARIES];         /* NULL: not loaded yet */
static _Atomic(CUkernel) found[LODE_NKERNELS]; /* NULL: not asked for yet */

/* With the lock held. */
static lode_status look_up(lode_kernel which, CUkernel *out, lode_error *error) {
  CUlibrary *library = &libraries[kernels[which].file];
  if (*library == NULL) {
    LODE_CU(error, cuLibraryLoadData, library, images[kernels[which].file], NULL, NULL, 0, NULL, NULL, 0);
    lode_trace("loaded the library of %s", kernels[which].name);
  }
  LODE_CU(error, cuLibraryGetKernel, out, *library, kernels[which].name);
  return LODE_OK;
}

lode_status lode_cuda_kernel(lode_kernel which, CUkernel *out, lode_error *error) {
  *out = atomic_load_explicit(&found[which], memory_order_acquire);
  if (*out != NULL) return LODE_OK;
  lode_mutex_lock(&lock);
  lode_status status = look_up(which, out, error);
  if (status == LODE_OK) atomic_store_explicit(&found[which], *out, memory_order_release);
  lode_mutex_unlock(&lock);
  return status;
}

/* A grid has at most 2^31 - 1 blocks. */
lode_status lode_cuda_launch(lode_stream *stream, CUkernel kernel, int64_t blocks, int threads,
                             const void *parameters, lode_error *error) {
  union { /* the driver takes parameters without const, and does not write to them */
    const void *given;
    void *passed;
  } pointer = {parameters};
  void *arguments[] = {pointer.passed};
  if (blocks > INT32_MAX)
    return lode_fail(error, LODE_INVALID, "%lld blocks of %d threads on %s; at most %d are possible",
                     (long long)blocks, threads, stream->device->name, INT32_MAX);
  LODE_CU(error, cuLaunchKernel, (CUfunction)kernel, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0,
          lode_cuda_stream_of(stream)->handle, arguments, NULL);
  lode_count(stream->device, LODE_COUNT_launches);
  return LODE_OK;
}

lode_status lode_cuda_start(lode_stream *stream, lode_kernel which, int64_t blocks, int threads,
                            const void *parameters, lode_error *error) {
  CUkernel kernel;
  LODE_TRY(lode_cuda_kernel(which, &kernel, error));
  if (lode_tracing())
    lode_trace("%s: %s, %lld blocks of %d", stream->device->name, kernels[which].name, (long long)blocks,
               threads);
  if (blocks > INT32_MAX) blocks = INT32_MAX; /* these walk on with the stride of their grid */
  return lode_cuda_launch(stream, kernel, blocks, threads, parameters, error);
}
