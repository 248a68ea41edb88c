/* The functions of ../blas.h for f32 and f64: arguments brought to the form of
 * cuBLAS and cuSOLVER. 64-bit interfaces everywhere but in the batched
 * factorizations, which have none.
 *
 * cuSOLVER's 64-bit interface names dtypes by value, so it needs no text for each;
 * cuBLAS names functions by letter. */
#include "functions.h"

static cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }
static cublasFillMode_t fill(bool upper) { return upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER; }

/* ---- cuSOLVER ----------------------------------------------------------------- */

static lode_status getrf_space(lode_blas *blas, cudaDataType type, int64_t n, size_t *bytes,
                               lode_error *error) {
  size_t host;
  LODE_CUSOLVER(error, cusolverDnXgetrf_bufferSize, blas->cusolver, blas->params, n, n, type, NULL, n, type,
                bytes, &host);
  return lode_cusolver_host(blas, host, error);
}

static lode_status getrf(lode_blas *blas, cudaDataType type, int64_t n, void *a, int64_t *pivots,
                         lode_blas_space space, int32_t *info, lode_error *error) {
  LODE_CUSOLVER(error, cusolverDnXgetrf, blas->cusolver, blas->params, n, n, type, a, n, pivots, type,
                space.block, space.bytes, blas->host, blas->host_bytes, info);
  return LODE_OK;
}

static lode_status getrs(lode_blas *blas, cudaDataType type, int64_t n, int64_t k, const void *a,
                         const int64_t *pivots, void *x, int32_t *info, lode_error *error) {
  LODE_CUSOLVER(error, cusolverDnXgetrs, blas->cusolver, blas->params, CUBLAS_OP_N, n, k, type, a, n, pivots,
                type, x, n, info);
  return LODE_OK;
}

static lode_status potrf_space(lode_blas *blas, cudaDataType type, int64_t n, size_t *bytes,
                               lode_error *error) {
  size_t host;
  LODE_CUSOLVER(error, cusolverDnXpotrf_bufferSize, blas->cusolver, blas->params, CUBLAS_FILL_MODE_LOWER, n,
                type, NULL, n, type, bytes, &host);
  return lode_cusolver_host(blas, host, error);
}

static lode_status potrf(lode_blas *blas, cudaDataType type, int64_t n, void *a, lode_blas_space space,
                         int32_t *info, lode_error *error) {
  LODE_CUSOLVER(error, cusolverDnXpotrf, blas->cusolver, blas->params, CUBLAS_FILL_MODE_LOWER, n, type, a, n,
                type, space.block, space.bytes, blas->host, blas->host_bytes, info);
  return LODE_OK;
}

static lode_status potrs(lode_blas *blas, cudaDataType type, int64_t n, int64_t k, const void *a, void *x,
                         int32_t *info, lode_error *error) {
  LODE_CUSOLVER(error, cusolverDnXpotrs, blas->cusolver, blas->params, CUBLAS_FILL_MODE_LOWER, n, k, type, a, n,
                type, x, n, info);
  return LODE_OK;
}

#define CUSOLVER(S, T, type)                                                                                   \
  static lode_status getrf_space_##S(lode_blas *blas, int64_t n, size_t *bytes, lode_error *error) {           \
    return getrf_space(blas, type, n, bytes, error);                                                           \
  }                                                                                                            \
  static lode_status potrf_space_##S(lode_blas *blas, int64_t n, size_t *bytes, lode_error *error) {           \
    return potrf_space(blas, type, n, bytes, error);                                                           \
  }                                                                                                            \
  static lode_status getrf_##S(lode_blas *blas, int64_t n, void *a, int64_t *pivots, lode_blas_space space,    \
                               int32_t *info, lode_error *error) {                                             \
    return getrf(blas, type, n, a, pivots, space, info, error);                                                \
  }                                                                                                            \
  static lode_status potrf_##S(lode_blas *blas, int64_t n, void *a, lode_blas_space space, int32_t *info,      \
                               lode_error *error) {                                                            \
    return potrf(blas, type, n, a, space, info, error);                                                        \
  }                                                                                                            \
  static lode_status getrs_##S(lode_blas *blas, int64_t n, int64_t k, const void *a, const int64_t *pivots,    \
                               void *x, int32_t *info, lode_error *error) {                                    \
    return getrs(blas, type, n, k, a, pivots, x, info, error);                                                 \
  }                                                                                                            \
  static lode_status potrs_##S(lode_blas *blas, int64_t n, int64_t k, const void *a, void *x, int32_t *info,   \
                               lode_error *error) {                                                            \
    return potrs(blas, type, n, k, a, x, info, error);                                                         \
  }                                                                                                            \
  static lode_status potrf_batched_##S(lode_blas *blas, int64_t n, void *const *a, int32_t *info,              \
                                       int64_t batch, lode_error *error) {                                     \
    LODE_CUSOLVER(error, cusolverDn##S##potrfBatched, blas->cusolver, CUBLAS_FILL_MODE_LOWER, (int)n,          \
                  (T **)(uintptr_t)a, (int)n, info, (int)batch);                                               \
    return LODE_OK;                                                                                            \
  }

/* ---- cuBLAS ---------------------------------------------------------------------- */

#define CUBLAS(S, T)                                                                                           \
  static const T one_##S = 1, zero_##S = 0;                                                                    \
  static lode_status gemm_##S(lode_blas *blas, const lode_blas_product *p, lode_error *error) {                \
    LODE_CUBLAS(error, cublas##S##gemmStridedBatched_64, blas->cublas, operation(p->a.transposed),             \
                operation(p->b.transposed), p->m, p->n, p->k, &one_##S, p->a.base, p->a.ld, p->a.stride,       \
                p->b.base, p->b.ld, p->b.stride, &zero_##S, p->c, p->m, p->m * p->n, p->batch);                \
    return LODE_OK;                                                                                            \
  }                                                                                                            \
  static lode_status getrf_batched_##S(lode_blas *blas, int64_t n, void *const *a, int32_t *pivots,            \
                                       int32_t *info, int64_t batch, lode_error *error) {                      \
    LODE_CUBLAS(error, cublas##S##getrfBatched, blas->cublas, (int)n, (T *const *)a, (int)n, pivots, info,     \
                (int)batch);                                                                                   \
    return LODE_OK;                                                                                            \
  }                                                                                                            \
  static lode_status getrs_batched_##S(lode_blas *blas, int64_t n, int64_t k, void *const *a,                  \
                                       const int32_t *pivots, void *const *x, int64_t batch,                   \
                                       lode_error *error) {                                                    \
    int info; /* of the arguments, on the host; the status says the same */                                    \
    LODE_CUBLAS(error, cublas##S##getrsBatched, blas->cublas, CUBLAS_OP_N, (int)n, (int)k,                     \
                (const T *const *)a, (int)n, pivots, (T *const *)x, (int)n, &info, (int)batch);                \
    return LODE_OK;                                                                                            \
  }                                                                                                            \
  static lode_status trsm_##S(lode_blas *blas, lode_blas_triangle triangle, int64_t n, int64_t k,              \
                              const void *a, void *x, lode_error *error) {                                     \
    cublasOperation_t op = operation(triangle.transposed);                                                     \
    if (k == 1)                                                                                                \
      LODE_CUBLAS(error, cublas##S##trsv_64, blas->cublas, fill(triangle.upper), op, CUBLAS_DIAG_NON_UNIT, n,  \
                  a, n, x, 1);                                                                                 \
    else                                                                                                       \
      LODE_CUBLAS(error, cublas##S##trsm_64, blas->cublas, CUBLAS_SIDE_LEFT, fill(triangle.upper), op,         \
                  CUBLAS_DIAG_NON_UNIT, n, k, &one_##S, a, n, x, n);                                           \
    return LODE_OK;                                                                                            \
  }                                                                                                            \
  static lode_status trsm_batched_##S(lode_blas *blas, lode_blas_triangle triangle, int64_t n, int64_t k,      \
                                      void *const *a, void *const *x, int64_t batch, lode_error *error) {      \
    LODE_CUBLAS(error, cublas##S##trsmBatched_64, blas->cublas, CUBLAS_SIDE_LEFT, fill(triangle.upper),        \
                operation(triangle.transposed), CUBLAS_DIAG_NON_UNIT, n, k, &one_##S, (const T *const *)a, n,  \
                (T *const *)x, n, batch);                                                                      \
    return LODE_OK;                                                                                            \
  }

#define FILL(S, name)                                                                                          \
  void lode_blas_fill_##name(lode_blas_functions *functions) {                                                 \
    *functions = (lode_blas_functions){.gemm = gemm_##S,                                                       \
                                       .getrf_space = getrf_space_##S,                                         \
                                       .potrf_space = potrf_space_##S,                                         \
                                       .getrf = getrf_##S,                                                     \
                                       .potrf = potrf_##S,                                                     \
                                       .getrf_batched = getrf_batched_##S,                                     \
                                       .potrf_batched = potrf_batched_##S,                                     \
                                       .getrs = getrs_##S,                                                     \
                                       .potrs = potrs_##S,                                                     \
                                       .getrs_batched = getrs_batched_##S,                                     \
                                       .trsm = trsm_##S,                                                       \
                                       .trsm_batched = trsm_batched_##S};                                      \
  }

CUSOLVER(S, float, CUDA_R_32F)
CUSOLVER(D, double, CUDA_R_64F)
CUBLAS(S, float)
CUBLAS(D, double)
FILL(S, f32)
FILL(D, f64)
