/* What product.c, factor.c and solve.c share: the cuBLAS part, a stream's handles, and the kernels that
 * all need (linalg.c). */
#ifndef LODE_CUDA_LINALG_H
#define LODE_CUDA_LINALG_H

#include "../../kernels/matrix.h"
#include "blas.h"
#include "cuda.h"
#include "kernels.h"

/* What linear algebra on a stream works with. */
typedef struct lode_cuda_work {
  lode_stream *stream;
  lode_dtype dtype;
  int64_t size; /* bytes of an element */
  const lode_blas_functions *functions;
  lode_blas *handles;
  int32_t *seen; /* pinned words, for who waits at once */
} lode_cuda_work;

/* UNAVAILABLE with the reason where the part cannot be had. Loads it, and makes the stream's handles. */
lode_status lode_cuda_work_enter(lode_stream *stream, lode_dtype dtype, lode_cuda_work *out, lode_error *error);

/* Whether a batch is factored and solved by the batched routines, in one call, or one matrix after the
 * other. What is factored so must be solved so: pivots are int32_t here, int64_t there. */
bool lode_cuda_batched(int64_t batch, int64_t n);

/* Batched routines count in ints. */
lode_status lode_cuda_check_int(int64_t value, const char *what, lode_error *error);

/* Blocks for `items` that they walk over with strides: as many as the device takes at once, at most. */
int64_t lode_cuda_blocks(const lode_stream *stream, int64_t items);

/* to[batch, columns, rows] = from[batch, rows, columns], transposed; `lower`: its lower triangle alone. */
lode_status lode_cuda_transpose(const lode_cuda_work *work, const void *from, void *to, int64_t rows,
                                int64_t columns, int64_t batch, bool lower, lode_error *error);

/* Pointers to `batch` matrices of `a`, and behind them to those of `x`, if it is not NULL; strides in bytes.
 * Given back with lode_cuda_give, lode_cuda_pointers_bytes(batch). */
lode_status lode_cuda_pointers(const lode_cuda_work *work, const void *a, int64_t a_stride, void *x,
                               int64_t x_stride, int64_t batch, void ***out, lode_error *error);
static inline size_t lode_cuda_pointers_bytes(int64_t batch) { return (size_t)batch * 2 * sizeof(void *); }

#endif
