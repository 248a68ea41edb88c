/* The parameters of the kernels in matrix.cu, for both sides. Matrices are dense and row-major, one
 * behind the other, where strides are not given; strides count elements. */
#ifndef LODE_KERNELS_MATRIX_H
#define LODE_KERNELS_MATRIX_H

#include <stdint.h>

/* Extents of the tiles that blocks work on: what the host counts blocks by. */
#define LODE_TRANSPOSE_TILE 32
#define LODE_STRUCTURE_TILE 32
#define LODE_PRODUCT_TILE   64

/* to[batch, columns, rows] = from[batch, rows, columns], transposed. */
typedef struct lode_transpose_parameters {
  const void *from;
  void *to;
  int64_t rows, columns, batch;
  int32_t lower; /* rows == columns: only the lower triangle is read; the rest of `to` is left as it is */
} lode_transpose_parameters;

/* out[i] = base[0] + i * stride[0], in bytes, for `count` matrices; then the same of base[1], if it is not
 * NULL: the arrays of pointers that batched routines take. */
typedef struct lode_pointers_parameters {
  char *base[2];
  int64_t stride[2];
  int64_t count;
  char **out;
} lode_pointers_parameters;

/* c[m, n] = a[m, k] * b[k, n] for each of `batch`; the sum over k in ascending order from +0. */
typedef struct lode_product_operand {
  const void *base;
  int64_t batch, row, column;
} lode_product_operand;

typedef struct lode_product_parameters {
  lode_product_operand a, b;
  void *c;
  int64_t batch, m, n, k;
} lode_product_parameters;

/* What speaks against a kind of matrix, in any of the batch; all zero before. */
enum { LODE_NOT_UPPER, LODE_NOT_LOWER, LODE_NOT_SPD, LODE_NLOOKS };

typedef struct lode_structure_parameters {
  const void *a; /* [batch, n, n] */
  int64_t n, batch;
  int32_t *seen; /* [LODE_NLOOKS]: becomes 1 */
} lode_structure_parameters;

/* info[batch] = the first zero on the diagonal, from 1, or 0. */
typedef struct lode_diagonal_parameters {
  const void *a; /* [batch, n, n] */
  int64_t n, batch;
  int32_t *info;
} lode_diagonal_parameters;

/* *fault = batch index << 32 | info of the first matrix with info > 0, or 0. One block. */
typedef struct lode_fault_parameters {
  const int32_t *info;
  int64_t batch;
  int64_t *fault; /* of the host */
} lode_fault_parameters;

/* x[batch, each] = NaN where info is not 0. */
typedef struct lode_spoil_parameters {
  const int32_t *info;
  void *x;
  int64_t batch, each;
} lode_spoil_parameters;

#endif
