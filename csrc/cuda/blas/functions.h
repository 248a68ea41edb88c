/* What the files of the cuBLAS part share. */
#ifndef LODE_CUDA_BLAS_FUNCTIONS_H
#define LODE_CUDA_BLAS_FUNCTIONS_H

#include <cublas_v2.h>
#include <cusolverDn.h>

#include "../blas.h"

struct lode_blas {
  cublasHandle_t cublas;
  cusolverDnHandle_t cusolver;
  cusolverDnParams_t params;
  void *host; /* workspace that cuSOLVER wants on the host during a call */
  size_t host_bytes;
};

/* As statuses and messages; `what` is the library's function. */
lode_status lode_cublas_check(cublasStatus_t status, const char *what, lode_error *error);
lode_status lode_cusolver_check(cusolverStatus_t status, const char *what, lode_error *error);

#define LODE_CUBLAS(error, name, ...)   LODE_TRY(lode_cublas_check(name(__VA_ARGS__), #name, error))
#define LODE_CUSOLVER(error, name, ...) LODE_TRY(lode_cusolver_check(name(__VA_ARGS__), #name, error))

/* blas->host with at least `bytes`. */
lode_status lode_cusolver_host(lode_blas *blas, size_t bytes, lode_error *error);

void lode_blas_fill_f32(lode_blas_functions *functions);
void lode_blas_fill_f64(lode_blas_functions *functions);

#endif
