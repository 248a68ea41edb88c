/* The table of the cuBLAS part (blas/), which holds cuBLAS and cuSOLVER: the CUDA
 * part loads it with the first call that needs it, because the libraries are large.
 *
 * All matrices here are column-major; those of order n have a leading dimension of
 * n, n > 0. Everything is enqueued on the handles' stream. No function waits, but
 * the first uses of a kernel may, while the library loads it. Errors: NOMEM where the
 * library found no memory, SYSTEM for the rest, naming the library's function. */
#ifndef LODE_CUDA_BLAS_H
#define LODE_CUDA_BLAS_H

#include "../core/part.h"

/* Handles of both libraries, for one stream at a time; the part's. */
typedef struct lode_blas lode_blas;

/* An operand of gemm: op(x), with its leading dimension and the distance to the next matrix in elements. */
typedef struct lode_blas_operand {
  const void *base;
  int64_t ld, stride;
  bool transposed;
} lode_blas_operand;

/* c[m, n], ld m, one behind the other = op(a)[m, k] * op(b)[k, n] for each of batch; m, n, k, batch > 0. */
typedef struct lode_blas_product {
  int64_t m, n, k, batch;
  lode_blas_operand a, b;
  void *c;
} lode_blas_product;

/* A triangle of a[n, n], as it is used: a or its transpose. */
typedef struct lode_blas_triangle {
  bool upper, transposed;
} lode_blas_triangle;

/* Workspace on the device. */
typedef struct lode_blas_space {
  void *block;
  size_t bytes;
} lode_blas_space;

/* For one dtype. a[n, n]; x[n, k] with a leading dimension of n; info on the device. Batched functions take
 * arrays, on the device, of pointers to the matrices, and at most INT32_MAX of them, of an order up to that. */
typedef struct lode_blas_functions {
  lode_status (*gemm)(lode_blas *blas, const lode_blas_product *product, lode_error *error);
  /* What getrf or potrf of order n need; to be asked before them. */
  lode_status (*getrf_space)(lode_blas *blas, int64_t n, size_t *bytes, lode_error *error);
  lode_status (*potrf_space)(lode_blas *blas, int64_t n, size_t *bytes, lode_error *error);
  /* LU with partial pivoting; Cholesky of the lower triangle. *info becomes 0, or LAPACK's number. */
  lode_status (*getrf)(lode_blas *blas, int64_t n, void *a, int64_t *pivots, lode_blas_space space,
                       int32_t *info, lode_error *error);
  lode_status (*potrf)(lode_blas *blas, int64_t n, void *a, lode_blas_space space, int32_t *info,
                       lode_error *error);
  lode_status (*getrf_batched)(lode_blas *blas, int64_t n, void *const *a, int32_t *pivots, int32_t *info,
                               int64_t batch, lode_error *error);
  lode_status (*potrf_batched)(lode_blas *blas, int64_t n, void *const *a, int32_t *info, int64_t batch,
                               lode_error *error);
  /* In place, with the factors above; *info only says that the arguments are right. */
  lode_status (*getrs)(lode_blas *blas, int64_t n, int64_t k, const void *a, const int64_t *pivots, void *x,
                       int32_t *info, lode_error *error);
  lode_status (*potrs)(lode_blas *blas, int64_t n, int64_t k, const void *a, void *x, int32_t *info,
                       lode_error *error);
  lode_status (*getrs_batched)(lode_blas *blas, int64_t n, int64_t k, void *const *a, const int32_t *pivots,
                               void *const *x, int64_t batch, lode_error *error);
  lode_status (*trsm)(lode_blas *blas, lode_blas_triangle triangle, int64_t n, int64_t k, const void *a,
                      void *x, lode_error *error);
  lode_status (*trsm_batched)(lode_blas *blas, lode_blas_triangle triangle, int64_t n, int64_t k,
                              void *const *a, void *const *x, int64_t batch, lode_error *error);
} lode_blas_functions;

typedef struct lode_cublas {
  lode_part_table part;
  lode_blas_functions by_dtype[LODE_NDTYPES]; /* f32, f64 */
  /* Makes handles for the current context, with work on `stream`, a CUstream; takes milliseconds. */
  lode_status (*open)(void *stream, lode_blas **out, lode_error *error);
  lode_status (*set_stream)(lode_blas *blas, void *stream, lode_error *error);
  void (*describe)(lode_properties *out);
} lode_cublas;

#endif
