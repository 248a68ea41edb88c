/* cuSOLVER for machines without a GPU: what lode calls of it, on host memory, by
 * OpenBLAS. Built as libcusolver.so.12 for the specs.
 *
 * Calls are done at once. Arguments that cuSOLVER refuses are refused here.
 * Workspaces have the size that callers must provide, and are written to, so that
 * one that is too small or gone is seen by an address sanitizer. */
#include "worked.h"

#include <cusolverDn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct cusolverDnContext {
  cudaStream_t stream;
};

struct cusolverDnParams {
  int unused;
};

enum { HOST_BYTES = 64 };

/* ---- handles ----------------------------------------------------------------- */

EXPORT cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return *handle != NULL ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

EXPORT cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  if (handle == NULL) return CUSOLVER_STATUS_NOT_INITIALIZED;
  free(handle);
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (handle == NULL) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *params) {
  *params = calloc(1, sizeof **params);
  return *params != NULL ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

EXPORT cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  free(params);
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int *value) {
  static const int version[] = {12, 0, 4};
  if (type < MAJOR_VERSION || type > PATCH_LEVEL) return CUSOLVER_STATUS_INVALID_VALUE;
  *value = version[type];
  return CUSOLVER_STATUS_SUCCESS;
}

/* ---- LAPACK by dtype ------------------------------------------------------------- */

#define LAPACK(s, T)                                                                                           \
  extern void s##getrf_(const int *, const int *, T *, const int *, int *, int *);                             \
  extern void s##getrs_(const char *, const int *, const int *, const T *, const int *, const int *, T *,      \
                        const int *, int *, size_t);                                                           \
  extern void s##potrf_(const char *, const int *, T *, const int *, int *, size_t);                           \
  extern void s##potrs_(const char *, const int *, const int *, const T *, const int *, T *, const int *,      \
                        int *, size_t);

LAPACK(s, float)
LAPACK(d, double)

static bool is_f64(cudaDataType type) { return type == CUDA_R_64F; }
static size_t element(cudaDataType type) { return is_f64(type) ? sizeof(double) : sizeof(float); }
static const char *triangle(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_LOWER ? "L" : "U"; }

static void potrf(cublasFillMode_t fill, int n, cudaDataType type, void *a, int lda, int *info) {
  if (is_f64(type)) dpotrf_(triangle(fill), &n, a, &lda, info, 1);
  else spotrf_(triangle(fill), &n, a, &lda, info, 1);
}

/* ---- what is refused --------------------------------------------------------------- */

static bool is_type(cudaDataType type, cudaDataType other) {
  return type == other && (type == CUDA_R_32F || type == CUDA_R_64F);
}

/* OpenBLAS counts in ints. */
static bool is_matrix(int64_t n, int64_t ld) { return n >= 0 && ld >= (n > 1 ? n : 1) && ld <= INT_MAX; }

#define REFUSE(handle, params, condition)                                                                      \
  DEFAULT_ENVIRONMENT();                                                                                       \
  do {                                                                                                         \
    if ((handle) == NULL || (params) == NULL) return CUSOLVER_STATUS_NOT_INITIALIZED;                          \
    if (condition) return CUSOLVER_STATUS_INVALID_VALUE;                                                       \
  } while (0)

static cusolverStatus_t use_space(void *device, size_t device_bytes, size_t device_needed, void *host,
                                  size_t host_bytes) {
  if (device_bytes < device_needed || host_bytes < HOST_BYTES || device == NULL || host == NULL)
    return CUSOLVER_STATUS_INVALID_WORKSPACE;
  memset(device, 0x7f, device_needed);
  memset(host, 0x7f, HOST_BYTES);
  return CUSOLVER_STATUS_SUCCESS;
}

/* ---- LU ---------------------------------------------------------------------------- */

static size_t getrf_bytes(int64_t m, int64_t n, cudaDataType type) {
  return (size_t)(m * n + 1) * element(type);
}

EXPORT cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                    int64_t m, int64_t n, cudaDataType type, const void *a,
                                                    int64_t lda, cudaDataType compute, size_t *device_bytes,
                                                    size_t *host_bytes) {
  (void)a;
  REFUSE(handle, params, n < 0 || !is_matrix(m, lda) || !is_type(type, compute));
  *device_bytes = getrf_bytes(m, n, type);
  *host_bytes = HOST_BYTES;
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                         int64_t n, cudaDataType type, void *a, int64_t lda, int64_t *pivots,
                                         cudaDataType compute, void *device, size_t device_bytes, void *host,
                                         size_t host_bytes, int *info) {
  REFUSE(handle, params,
         n < 0 || !is_matrix(m, lda) || !is_type(type, compute) || a == NULL || pivots == NULL || info == NULL);
  cusolverStatus_t status = use_space(device, device_bytes, getrf_bytes(m, n, type), host, host_bytes);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  int rows = (int)m, columns = (int)n, ld = (int)lda, count = rows < columns ? rows : columns;
  int *swaps = malloc((size_t)(count + 1) * sizeof *swaps);
  if (swaps == NULL) return CUSOLVER_STATUS_ALLOC_FAILED;
  if (is_f64(type)) dgetrf_(&rows, &columns, a, &ld, swaps, info);
  else sgetrf_(&rows, &columns, a, &ld, swaps, info);
  for (int i = 0; i < count; i++) pivots[i] = swaps[i];
  free(swaps);
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                         cublasOperation_t operation, int64_t n, int64_t k, cudaDataType type,
                                         const void *a, int64_t lda, const int64_t *pivots, cudaDataType type_b,
                                         void *b, int64_t ldb, int *info) {
  REFUSE(handle, params,
         k < 0 || k > INT_MAX || !is_matrix(n, lda) || !is_matrix(n, ldb) || !is_type(type, type_b) ||
             a == NULL || pivots == NULL || b == NULL || info == NULL);
  int order = (int)n, sides = (int)k, ld = (int)lda, ld_b = (int)ldb;
  int *swaps = malloc((size_t)(n + 1) * sizeof *swaps);
  if (swaps == NULL) return CUSOLVER_STATUS_ALLOC_FAILED;
  for (int64_t i = 0; i < n; i++) swaps[i] = (int)pivots[i];
  const char *letter = operation == CUBLAS_OP_N ? "N" : "T";
  if (is_f64(type)) dgetrs_(letter, &order, &sides, a, &ld, swaps, b, &ld_b, info, 1);
  else sgetrs_(letter, &order, &sides, a, &ld, swaps, b, &ld_b, info, 1);
  free(swaps);
  return CUSOLVER_STATUS_SUCCESS;
}

/* ---- Cholesky ------------------------------------------------------------------------ */

static size_t potrf_bytes(int64_t n, cudaDataType type) { return (size_t)(n + 1) * element(type); }

EXPORT cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                    cublasFillMode_t fill, int64_t n, cudaDataType type,
                                                    const void *a, int64_t lda, cudaDataType compute,
                                                    size_t *device_bytes, size_t *host_bytes) {
  (void)a;
  (void)fill;
  REFUSE(handle, params, !is_matrix(n, lda) || !is_type(type, compute));
  *device_bytes = potrf_bytes(n, type);
  *host_bytes = HOST_BYTES;
  return CUSOLVER_STATUS_SUCCESS;
}

EXPORT cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                         cublasFillMode_t fill, int64_t n, cudaDataType type, void *a,
                                         int64_t lda, cudaDataType compute, void *device, size_t device_bytes,
                                         void *host, size_t host_bytes, int *info) {
  REFUSE(handle, params, !is_matrix(n, lda) || !is_type(type, compute) || a == NULL || info == NULL);
  cusolverStatus_t status = use_space(device, device_bytes, potrf_bytes(n, type), host, host_bytes);
  if (status == CUSOLVER_STATUS_SUCCESS) potrf(fill, (int)n, type, a, (int)lda, info);
  return status;
}

EXPORT cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                         cublasFillMode_t fill, int64_t n, int64_t k, cudaDataType type,
                                         const void *a, int64_t lda, cudaDataType type_b, void *b, int64_t ldb,
                                         int *info) {
  REFUSE(handle, params,
         k < 0 || k > INT_MAX || !is_matrix(n, lda) || !is_matrix(n, ldb) || !is_type(type, type_b) ||
             a == NULL || b == NULL || info == NULL);
  int order = (int)n, sides = (int)k, ld = (int)lda, ld_b = (int)ldb;
  if (is_f64(type)) dpotrs_(triangle(fill), &order, &sides, a, &ld, b, &ld_b, info, 1);
  else spotrs_(triangle(fill), &order, &sides, a, &ld, b, &ld_b, info, 1);
  return CUSOLVER_STATUS_SUCCESS;
}

/* Like the real one, spoils the triangle that it is not given. */
#define POTRF_BATCHED(S, T, type)                                                                              \
  EXPORT cusolverStatus_t cusolverDn##S##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, \
                                                      T *a[], int lda, int *info, int batch) {                 \
    REFUSE(handle, handle, !is_matrix(n, lda) || batch < 0 || a == NULL || info == NULL);                      \
    for (int i = 0; i < batch; i++) {                                                                          \
      for (int64_t column = 0; column < n; column++)                                                           \
        for (int64_t row = 0; row < n; row++)                                                                  \
          if (fill == CUBLAS_FILL_MODE_LOWER ? row < column : row > column) a[i][column * lda + row] = 12345;  \
      potrf(fill, n, type, a[i], lda, &info[i]);                                                               \
    }                                                                                                          \
    return CUSOLVER_STATUS_SUCCESS;                                                                            \
  }

POTRF_BATCHED(S, float, CUDA_R_32F)
POTRF_BATCHED(D, double, CUDA_R_64F)
