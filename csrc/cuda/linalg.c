/* Linear algebra on CUDA (cuda.h): the cuBLAS part and handles. product.c, factor.c
 * and solve.c do the work.
 *
 * Row-major memory is the transpose in cuBLAS's order. Products and triangles are
 * used as they lie. LU and Cholesky get a transposed copy (a copy is needed
 * anyway): LU's residuals are better so (../cpu/lapack/part.c), and cuSOLVER is faster
 * with lower triangles.
 *
 * Handles belong to a stream: made by the first call on it that needs them, which
 * takes milliseconds; when the stream is freed they wait for the next one of the
 * device. They are never destroyed: the library outlives every Lua state. */
#include "linalg.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../core/part.h"

/* ---- the part ----------------------------------------------------------------- */

struct lode_cuda_blas {
  lode_cuda_device *device;
  lode_blas *handles;
  int32_t *seen;
  struct lode_cuda_blas *next;
};

static struct {
  lode_mutex lock; /* guards all of this; held while the part is loaded */
  enum { NOT_ASKED, LOADED, ABSENT } state;
  lode_error reason;
  lode_cublas table;
  struct lode_cuda_blas *idle; /* of streams that are gone */
} part = {.lock = LODE_MUTEX_INIT};

/* A part that is absent stays so: what is beside lode does not change while it runs. */
static lode_status load(lode_error *error) {
  lode_mutex_lock(&part.lock);
  if (part.state == NOT_ASKED) {
#ifdef LODE_HAVE_CUBLAS
    part.state = lode_part_load("cublas", &part.table.part, &part.reason) == LODE_OK ? LOADED : ABSENT;
#else
    part.state = ABSENT;
    lode_fail(&part.reason, LODE_UNAVAILABLE, "lode was built without cuBLAS and cuSOLVER");
#endif
  }
  lode_status status =
      part.state == LOADED ? LODE_OK : lode_fail(error, LODE_UNAVAILABLE, "%s", part.reason.text);
  lode_mutex_unlock(&part.lock);
  return status;
}

void lode_cuda_linalg_describe(lode_cuda_device *device, lode_properties *out) {
  (void)device;
  lode_mutex_lock(&part.lock);
  if (part.state == LOADED) part.table.describe(out);
  else if (part.state == ABSENT) lode_properties_add(out, "cublas", "%.200s", part.reason.text);
  else
#ifdef LODE_HAVE_CUBLAS
    lode_properties_add(out, "cublas", "not loaded yet");
#else
    lode_properties_add(out, "cublas", "built without cuBLAS and cuSOLVER");
#endif
  lode_mutex_unlock(&part.lock);
}

/* ---- handles -------------------------------------------------------------------- */

static struct lode_cuda_blas *take_idle(lode_cuda_device *device) {
  lode_mutex_lock(&part.lock);
  struct lode_cuda_blas **link = &part.idle;
  while (*link != NULL && (*link)->device != device) link = &(*link)->next;
  struct lode_cuda_blas *blas = *link;
  if (blas != NULL) *link = blas->next;
  lode_mutex_unlock(&part.lock);
  return blas;
}

static void make_idle(struct lode_cuda_blas *blas) {
  lode_mutex_lock(&part.lock);
  blas->next = part.idle;
  part.idle = blas;
  lode_mutex_unlock(&part.lock);
}

/* The libraries do not say how much memory they wanted: what lode holds of it says whether trimming helps. */
static lode_status open_handles(lode_cuda_stream *stream, lode_blas **out, lode_error *error) {
  lode_error reason;
  lode_status status = part.table.open(stream->handle, out, &reason);
  if (status == LODE_OK) return LODE_OK;
  if (status != LODE_NOMEM) return lode_fail(error, status, "%s", reason.text);
  lode_memory memory;
  lode_cuda_memory_usage(lode_cuda_home(&stream->base), &memory);
  return lode_fail(error, LODE_NOMEM,
                   "%.200s; lode uses %" PRId64 " bytes, has %" PRId64 " reserved (budget %" PRId64
                   "), and %" PRId64 " are free",
                   reason.text, memory.used, memory.reserved, memory.budget, memory.available);
}

static lode_status make(lode_cuda_stream *stream, struct lode_cuda_blas **out, lode_error *error) {
  lode_cuda_device *device = lode_cuda_home(&stream->base);
  struct lode_cuda_blas *blas = calloc(1, sizeof *blas);
  if (blas == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for handles of cuBLAS");
  blas->device = device;
  void *pinned = NULL;
  lode_status status = lode_cuda_pinned_new(device, &pinned, error);
  if (status == LODE_OK) {
    status = open_handles(stream, &blas->handles, error);
    if (status != LODE_OK) lode_cuda_pinned_free(device, pinned);
  }
  blas->seen = pinned;
  if (status != LODE_OK) free(blas);
  else *out = blas;
  return status;
}

/* For a stream that has none yet. */
static lode_status handles_of(lode_cuda_stream *stream, struct lode_cuda_blas **out, lode_error *error) {
  struct lode_cuda_blas *blas = take_idle(lode_cuda_home(&stream->base));
  if (blas == NULL) {
    LODE_TRY(make(stream, &blas, error));
  } else {
    lode_status status = part.table.set_stream(blas->handles, stream->handle, error);
    if (status != LODE_OK) {
      make_idle(blas);
      return status;
    }
  }
  *out = stream->blas = blas;
  return LODE_OK;
}

void lode_cuda_blas_free(lode_cuda_stream *stream) {
  if (stream->blas != NULL) make_idle(stream->blas);
  stream->blas = NULL;
}

lode_status lode_cuda_work_enter(lode_stream *stream, lode_dtype dtype, lode_cuda_work *out,
                                 lode_error *error) {
  struct lode_cuda_blas *blas = lode_cuda_stream_of(stream)->blas;
  if (blas == NULL) {
    LODE_TRY(load(error));
    LODE_TRY(handles_of(lode_cuda_stream_of(stream), &blas, error));
  }
  *out = (lode_cuda_work){.stream = stream,
                          .dtype = dtype,
                          .size = (int64_t)lode_dtype_size(dtype),
                          .functions = &part.table.by_dtype[dtype],
                          .handles = blas->handles,
                          .seen = blas->seen};
  return LODE_OK;
}

/* ---- what is chosen by size ------------------------------------------------------- */

/* The batched routines do all matrices at once, but each by few threads: they win where matrices are many
 * or small. The line is JAX's (jaxlib/gpu/solver_kernels_ffi.cc). */
bool lode_cuda_batched(int64_t batch, int64_t n) { return batch > 1 && n / batch <= 128; }

lode_status lode_cuda_check_int(int64_t value, const char *what, lode_error *error) {
  if (value <= INT32_MAX) return LODE_OK;
  return lode_fail(error, LODE_INVALID, "%" PRId64 " %s; cuBLAS takes up to %d: split them", value, what,
                   INT32_MAX);
}

enum { BLOCKS_PER_MULTIPROCESSOR = 16 };

int64_t lode_cuda_blocks(const lode_stream *stream, int64_t items) {
  int64_t most = (int64_t)lode_cuda_home(stream)->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
  return items < 1 ? 1 : items < most ? items : most;
}

/* ---- shared kernels ------------------------------------------------------------------ */

enum { THIN = 16, SMALL = 32 * 32 }; /* tiles of 32 x 32 would be mostly empty */

lode_status lode_cuda_transpose(const lode_cuda_work *work, const void *from, void *to, int64_t rows,
                                int64_t columns, int64_t batch, bool lower, lode_error *error) {
  bool wide = work->size == 8, thin = rows < THIN || columns < THIN || rows * columns <= SMALL;
  int64_t down = (rows + LODE_TRANSPOSE_TILE - 1) / LODE_TRANSPOSE_TILE,
          across = (columns + LODE_TRANSPOSE_TILE - 1) / LODE_TRANSPOSE_TILE;
  lode_kernel kernel = thin   ? wide ? LODE_KERNEL_matrix_transpose_thin_8 : LODE_KERNEL_matrix_transpose_thin_4
                       : wide ? LODE_KERNEL_matrix_transpose_8
                              : LODE_KERNEL_matrix_transpose_4;
  lode_transpose_parameters p = {from, to, rows, columns, batch, lower};
  int64_t items =
      thin ? (rows * columns * batch + LODE_BLOCK_THREADS - 1) / LODE_BLOCK_THREADS : down * across * batch;
  return lode_cuda_start(work->stream, kernel, lode_cuda_blocks(work->stream, items), LODE_BLOCK_THREADS, &p,
                         error);
}

lode_status lode_cuda_pointers(const lode_cuda_work *work, const void *a, int64_t a_stride, void *x,
                               int64_t x_stride, int64_t batch, void ***out, lode_error *error) {
  size_t bytes = lode_cuda_pointers_bytes(batch);
  void *block;
  LODE_TRY(lode_cuda_take(work->stream, bytes, &block, error));
  lode_pointers_parameters p = {{(char *)(uintptr_t)a, x}, {a_stride, x_stride}, batch, block};
  int64_t blocks = lode_cuda_blocks(work->stream, (batch + LODE_BLOCK_THREADS - 1) / LODE_BLOCK_THREADS);
  lode_status status =
      lode_cuda_start(work->stream, LODE_KERNEL_matrix_pointers, blocks, LODE_BLOCK_THREADS, &p, error);
  if (status != LODE_OK) lode_cuda_give(work->stream, block, bytes);
  else *out = block;
  return status;
}
