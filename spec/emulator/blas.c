/* cuBLAS for machines without a GPU: what lode calls of it, on host memory, by
 * OpenBLAS. Built as libcublas.so.13 for the specs.
 *
 * Calls are done at once. Arguments that cuBLAS refuses are refused here. */
#include "worked.h"

#include <cublas_v2.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct cublasContext {
  cudaStream_t stream;
};

/* ---- handles ----------------------------------------------------------------- */

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == NULL) return CUBLAS_STATUS_NOT_INITIALIZED;
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == NULL) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
  static const int version[] = {13, 1, 0};
  if (type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = version[type];
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  default:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
}

/* ---- what is refused ------------------------------------------------------------- */

/* What is not below 0 and fits in an int, which OpenBLAS counts in. */
static bool is_count(int64_t value) { return value >= 0 && value <= INT_MAX; }

static bool is_stored(int64_t rows, int64_t ld) { return is_count(ld) && ld >= (rows > 1 ? rows : 1); }

static const char *letter(cublasOperation_t operation) { return operation == CUBLAS_OP_N ? "N" : "T"; }
static const char *triangle(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_LOWER ? "L" : "U"; }
static const char *diagonal(cublasDiagType_t kind) { return kind == CUBLAS_DIAG_UNIT ? "U" : "N"; }
static bool is_real(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

static bool is_triangle(cublasFillMode_t fill, cublasOperation_t operation) {
  return is_real(operation) && (fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER);
}

#define REFUSE(handle, condition)                                                                              \
  DEFAULT_ENVIRONMENT();                                                                                       \
  do {                                                                                                         \
    if ((handle) == NULL) return CUBLAS_STATUS_NOT_INITIALIZED;                                                \
    if (condition) return CUBLAS_STATUS_INVALID_VALUE;                                                         \
  } while (0)

/* ---- the functions --------------------------------------------------------------- */

#define BLAS(S, s, T)                                                                                          \
  extern void s##gemm_(const char *, const char *, const int *, const int *, const int *, const T *,           \
                       const T *, const int *, const T *, const int *, const T *, T *, const int *, size_t,    \
                       size_t);                                                                                \
  extern void s##trsm_(const char *, const char *, const char *, const char *, const int *, const int *,       \
                       const T *, const T *, const int *, T *, const int *, size_t, size_t, size_t, size_t);   \
  extern void s##trsv_(const char *, const char *, const char *, const int *, const T *, const int *, T *,     \
                       const int *, size_t, size_t, size_t);                                                   \
  extern void s##getrf_(const int *, const int *, T *, const int *, int *, int *);                             \
  extern void s##getrs_(const char *, const int *, const int *, const T *, const int *, const int *, T *,      \
                        const int *, int *, size_t);                                                           \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##gemmStridedBatched_64(                                                      \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,      \
      const T *alpha, const T *a, int64_t lda, long long a_stride, const T *b, int64_t ldb,                    \
      long long b_stride, const T *beta, T *c, int64_t ldc, long long c_stride, int64_t batch) {               \
    REFUSE(handle, !is_real(ta) || !is_real(tb) || !is_count(m) || !is_count(n) || !is_count(k) ||             \
                       batch < 0 || !is_stored(ta == CUBLAS_OP_N ? m : k, lda) ||                              \
                       !is_stored(tb == CUBLAS_OP_N ? k : n, ldb) || !is_stored(m, ldc) || alpha == NULL ||    \
                       beta == NULL || a_stride < 0 || b_stride < 0 || c_stride < 0);                          \
    int rows = (int)m, columns = (int)n, depth = (int)k, la = (int)lda, lb = (int)ldb, lc = (int)ldc;          \
    int64_t start = work_begins();                                                                             \
    for (int64_t i = 0; i < batch; i++)                                                                        \
      s##gemm_(letter(ta), letter(tb), &rows, &columns, &depth, alpha, a + i * a_stride, &la,                  \
               b + i * b_stride, &lb, beta, c + i * c_stride, &lc, 1, 1);                                      \
    work_ends(handle->stream, start);                                                                          \
    return CUBLAS_STATUS_SUCCESS;                                                                              \
  }                                                                                                            \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##trsm_v2_64(cublasHandle_t handle, cublasSideMode_t side,                    \
                                              cublasFillMode_t fill, cublasOperation_t operation,              \
                                              cublasDiagType_t kind, int64_t m, int64_t n, const T *alpha,     \
                                              const T *a, int64_t lda, T *b, int64_t ldb) {                    \
    REFUSE(handle, !is_triangle(fill, operation) || !is_count(m) || !is_count(n) ||                            \
                       !is_stored(side == CUBLAS_SIDE_LEFT ? m : n, lda) || !is_stored(m, ldb) ||              \
                       alpha == NULL);                                                                         \
    int rows = (int)m, columns = (int)n, la = (int)lda, lb = (int)ldb;                                         \
    s##trsm_(side == CUBLAS_SIDE_LEFT ? "L" : "R", triangle(fill), letter(operation), diagonal(kind), &rows,   \
             &columns, alpha, a, &la, b, &lb, 1, 1, 1, 1);                                                     \
    return CUBLAS_STATUS_SUCCESS;                                                                              \
  }                                                                                                            \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##trsmBatched_64(                                                             \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t operation,        \
      cublasDiagType_t kind, int64_t m, int64_t n, const T *alpha, const T *const a[], int64_t lda,            \
      T *const b[], int64_t ldb, int64_t batch) {                                                              \
    REFUSE(handle, batch < 0 || a == NULL || b == NULL);                                                       \
    for (int64_t i = 0; i < batch; i++) {                                                                      \
      cublasStatus_t status =                                                                                  \
          cublas##S##trsm_v2_64(handle, side, fill, operation, kind, m, n, alpha, a[i], lda, b[i], ldb);       \
      if (status != CUBLAS_STATUS_SUCCESS) return status;                                                      \
    }                                                                                                          \
    return CUBLAS_STATUS_SUCCESS;                                                                              \
  }                                                                                                            \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##trsv_v2_64(cublasHandle_t handle, cublasFillMode_t fill,                    \
                                              cublasOperation_t operation, cublasDiagType_t kind, int64_t n,   \
                                              const T *a, int64_t lda, T *x, int64_t step) {                   \
    REFUSE(handle, !is_triangle(fill, operation) || !is_count(n) || !is_stored(n, lda) || step == 0 ||         \
                       step > INT_MAX || step < -INT_MAX);                                                     \
    int order = (int)n, la = (int)lda, lx = (int)step;                                                         \
    s##trsv_(triangle(fill), letter(operation), diagonal(kind), &order, a, &la, x, &lx, 1, 1, 1);              \
    return CUBLAS_STATUS_SUCCESS;                                                                              \
  }                                                                                                            \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##getrfBatched(cublasHandle_t handle, int n, T *const a[], int lda,           \
                                                int *pivots, int *info, int batch) {                           \
    REFUSE(handle, n < 0 || !is_stored(n, lda) || batch < 0 || a == NULL || pivots == NULL || info == NULL);   \
    for (int i = 0; i < batch; i++) s##getrf_(&n, &n, a[i], &lda, pivots + (int64_t)i * n, &info[i]);          \
    return CUBLAS_STATUS_SUCCESS;                                                                              \
  }                                                                                                            \
                                                                                                               \
  EXPORT cublasStatus_t cublas##S##getrsBatched(cublasHandle_t handle, cublasOperation_t operation, int n,     \
                                                int k, const T *const a[], int lda, const int *pivots,         \
                                                T *const b[], int ldb, int *info, int batch) {                 \
    REFUSE(handle, !is_real(operation) || n < 0 || k < 0 || !is_stored(n, lda) || !is_stored(n, ldb) ||        \
                       batch < 0 || a == NULL || pivots == NULL || b == NULL || info == NULL);                 \
    *info = 0;                                                                                                 \
    for (int i = 0; i < batch && *info == 0; i++)                                                              \
      s##getrs_(letter(operation), &n, &k, a[i], &lda, pivots + (int64_t)i * n, b[i], &ldb, info, 1);          \
    return *info == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;                                   \
  }

BLAS(S, s, float)
BLAS(D, d, double)
