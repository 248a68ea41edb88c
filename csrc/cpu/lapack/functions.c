/* The functions of ../lapack.h for f32 and f64; part.c says how row-major
 * matrices are handled. */
#include "functions.h"

#include <cblas.h>
#include <string.h>

/* Solves X^T op(A) = B^T or op(A) x = b with the triangle `uplo` of column-major a. `transposed` is for
 * one right-hand side, where the solve is from the left. */
#define TRIANGULAR(S, T)                                                                                       \
  static void triangular_##S(int32_t n, int32_t k, const T *a, enum CBLAS_UPLO uplo, bool transposed,          \
                             enum CBLAS_DIAG diagonal, T *x) {                                                 \
    if (k == 1)                                                                                                \
      cblas_##S##trsv(CblasColMajor, uplo, transposed ? CblasTrans : CblasNoTrans, diagonal, n, a, n, x, 1);   \
    else                                                                                                       \
      cblas_##S##trsm(CblasColMajor, CblasRight, uplo, transposed ? CblasNoTrans : CblasTrans, diagonal, k, n, \
                      1, a, n, x, k);                                                                          \
  }

/* Exchanges rows of x as the factorization did. */
#define EXCHANGE(S, T)                                                                                         \
  static void exchange_##S(int32_t n, int32_t k, const int32_t *pivots, T *x) {                                \
    for (int32_t i = 0; i < n; i++) {                                                                          \
      int32_t j = pivots[i] - 1;                                                                               \
      if (j != i) cblas_##S##swap(k, x + (int64_t)i * k, 1, x + (int64_t)j * k, 1);                            \
    }                                                                                                          \
  }

#define SOLVE(S, T)                                                                                            \
  /* A = P L U, column-major. */                                                                               \
  static void solve_general_##S(int32_t n, int32_t k, const void *packed, const int32_t *pivots, void *x) {    \
    exchange_##S(n, k, pivots, x);                                                                             \
    triangular_##S(n, k, packed, CblasLower, false, CblasUnit, x);                                             \
    triangular_##S(n, k, packed, CblasUpper, false, CblasNonUnit, x);                                          \
  }                                                                                                            \
  /* A = U^T U. */                                                                                             \
  static void solve_spd_##S(int32_t n, int32_t k, const void *packed, const int32_t *pivots, void *x) {        \
    (void)pivots;                                                                                              \
    triangular_##S(n, k, packed, CblasUpper, true, CblasNonUnit, x);                                           \
    triangular_##S(n, k, packed, CblasUpper, false, CblasNonUnit, x);                                          \
  }                                                                                                            \
  /* Row-major upper is column-major lower, and the other way round. */                                        \
  static void solve_upper_##S(int32_t n, int32_t k, const void *packed, const int32_t *pivots, void *x) {      \
    (void)pivots;                                                                                              \
    triangular_##S(n, k, packed, CblasLower, true, CblasNonUnit, x);                                           \
  }                                                                                                            \
  static void solve_lower_##S(int32_t n, int32_t k, const void *packed, const int32_t *pivots, void *x) {      \
    (void)pivots;                                                                                              \
    triangular_##S(n, k, packed, CblasUpper, true, CblasNonUnit, x);                                           \
  }

/* LAPACK's Fortran interface; the last argument of potrf is the length of a string. */
#define FACTOR(S, T)                                                                                           \
  extern void S##getrf_(const int32_t *m, const int32_t *n, T *a, const int32_t *lda, int32_t *pivots,         \
                        int32_t *info);                                                                        \
  extern void S##potrf_(const char *uplo, const int32_t *n, T *a, const int32_t *lda, int32_t *info,           \
                        size_t length);                                                                        \
  static int32_t getrf_##S(int32_t n, void *a, int32_t *pivots) {                                              \
    int32_t info;                                                                                              \
    S##getrf_(&n, &n, a, &n, pivots, &info);                                                                   \
    return info;                                                                                               \
  }                                                                                                            \
  static int32_t potrf_##S(int32_t n, void *a) {                                                               \
    int32_t info;                                                                                              \
    S##potrf_("U", &n, a, &n, &info, 1);                                                                       \
    return info;                                                                                               \
  }

/* One row or one column of results is a matrix times a vector, which gemm of older OpenBLAS does
 * at a fraction of the speed. c is cleared first, so that no version reads what was there. */
#define GEMM(S, T)                                                                                             \
  static void times_vector_##S(int32_t rows, int32_t columns, lode_blas_operand a, const T *x, int32_t step,   \
                               T *y) {                                                                         \
    memset(y, 0, (size_t)rows * sizeof(T));                                                                    \
    if (a.transposed)                                                                                          \
      cblas_##S##gemv(CblasColMajor, CblasNoTrans, rows, columns, 1, a.base, a.ld, x, step, 1, y, 1);          \
    else cblas_##S##gemv(CblasColMajor, CblasTrans, columns, rows, 1, a.base, a.ld, x, step, 1, y, 1);         \
  }                                                                                                            \
  static void gemm_##S(int32_t m, int32_t n, int32_t k, lode_blas_operand a, lode_blas_operand b, void *c) {   \
    if (n == 1) {                                                                                              \
      times_vector_##S(m, k, a, b.base, b.transposed ? 1 : b.ld, c);                                           \
    } else if (m == 1) {                                                                                       \
      lode_blas_operand turned = {b.base, b.ld, !b.transposed};                                                \
      times_vector_##S(n, k, turned, a.base, a.transposed ? a.ld : 1, c);                                      \
    } else {                                                                                                   \
      cblas_##S##gemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,                                 \
                      b.transposed ? CblasTrans : CblasNoTrans, m, n, k, 1, a.base, a.ld, b.base, b.ld, 0, c,  \
                      n);                                                                                      \
    }                                                                                                          \
  }

#define FILL(S, T, name)                                                                                       \
  TRIANGULAR(S, T)                                                                                             \
  EXCHANGE(S, T)                                                                                               \
  SOLVE(S, T)                                                                                                  \
  FACTOR(S, T)                                                                                                 \
  GEMM(S, T)                                                                                                   \
  void lode_lapack_fill_##name(lode_lapack_functions *functions) {                                             \
    functions->gemm = gemm_##S;                                                                                \
    functions->getrf = getrf_##S;                                                                              \
    functions->potrf = potrf_##S;                                                                              \
    functions->solve[LODE_METHOD_GENERAL] = solve_general_##S;                                                 \
    functions->solve[LODE_METHOD_SPD] = solve_spd_##S;                                                         \
    functions->solve[LODE_METHOD_UPPER] = solve_upper_##S;                                                     \
    functions->solve[LODE_METHOD_LOWER] = solve_lower_##S;                                                     \
  }

FILL(s, float, f32)
FILL(d, double, f64)
