/* The table of the LAPACK part (lapack/), which core.so loads with the first
 * call that needs it: loading OpenBLAS starts threads and takes milliseconds.
 *
 * Matrices are square and dense, row-major but for getrf's, which is column-major
 * (part.c says why). */
#ifndef LODE_CPU_LAPACK_H
#define LODE_CPU_LAPACK_H

#include "../core/part.h"

/* An operand of gemm: leading dimension ld; `transposed`: columns are dense instead of rows. */
typedef struct lode_blas_operand {
  const void *base;
  int32_t ld;
  bool transposed;
} lode_blas_operand;

/* For one dtype. info: 0, or LAPACK's positive number. */
typedef struct lode_lapack_functions {
  /* c[m, n], dense = a[m, k] * b[k, n]; k > 0. */
  void (*gemm)(int32_t m, int32_t n, int32_t k, lode_blas_operand a, lode_blas_operand b, void *c);
  /* In place: LU with partial pivoting; Cholesky of the lower triangle. */
  int32_t (*getrf)(int32_t n, void *a, int32_t *pivots);
  int32_t (*potrf)(int32_t n, void *a);
  /* x[n, k], dense, becomes the solution. By method: LODE_METHOD_GENERAL, SPD, UPPER, LOWER. */
  void (*solve[LODE_NMETHODS])(int32_t n, int32_t k, const void *packed, const int32_t *pivots, void *x);
} lode_lapack_functions;

typedef struct lode_lapack {
  lode_part_table part;
  lode_lapack_functions by_dtype[LODE_NDTYPES]; /* f32, f64 */
  int (*get_threads)(void);
  void (*set_threads)(int count); /* of the whole library: others in the process may use it too */
  void (*describe)(lode_properties *out);
} lode_lapack;

#endif
