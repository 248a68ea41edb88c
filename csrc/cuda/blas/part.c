/* The cuBLAS part: what ../blas.h promises, by cuBLAS and cuSOLVER. Handles,
 * errors and versions are here, the functions for each dtype in functions.c.
 *
 * The libraries are linked, so the loader says which of them is missing. */
#include <stdlib.h>
#include <string.h>

#include "functions.h"

static const lode_services *services;

/* ---- errors --------------------------------------------------------------- */

lode_status lode_cublas_check(cublasStatus_t status, const char *what, lode_error *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return LODE_OK;
  services->error_set(error, "%s: %s", what, cublasGetStatusName(status));
  return status == CUBLAS_STATUS_ALLOC_FAILED ? LODE_NOMEM : LODE_SYSTEM;
}

lode_status lode_cusolver_check(cusolverStatus_t status, const char *what, lode_error *error) {
  static const char *const name[] = {"SUCCESS",       "NOT_INITIALIZED", "ALLOC_FAILED",     "INVALID_VALUE",
                                     "ARCH_MISMATCH", "MAPPING_ERROR",   "EXECUTION_FAILED", "INTERNAL_ERROR"};
  if (status == CUSOLVER_STATUS_SUCCESS) return LODE_OK;
  if ((size_t)status < sizeof name / sizeof *name)
    services->error_set(error, "%s: CUSOLVER_STATUS_%s", what, name[status]);
  else services->error_set(error, "%s: cuSOLVER's status %d", what, (int)status);
  return status == CUSOLVER_STATUS_ALLOC_FAILED ? LODE_NOMEM : LODE_SYSTEM;
}

/* ---- handles ---------------------------------------------------------------- */

lode_status lode_cusolver_host(lode_blas *blas, size_t bytes, lode_error *error) {
  if (bytes <= blas->host_bytes) return LODE_OK;
  void *host = realloc(blas->host, bytes);
  if (host == NULL) {
    services->error_set(error, "no host memory for %zu bytes of cuSOLVER's workspace", bytes);
    return LODE_NOMEM;
  }
  blas->host = host;
  blas->host_bytes = bytes;
  return LODE_OK;
}

static lode_status set_stream(lode_blas *blas, void *stream, lode_error *error) {
  LODE_CUBLAS(error, cublasSetStream, blas->cublas, (cudaStream_t)stream);
  LODE_CUSOLVER(error, cusolverDnSetStream, blas->cusolver, (cudaStream_t)stream);
  return LODE_OK;
}

static void destroy(lode_blas *blas) {
  if (blas->params != NULL) cusolverDnDestroyParams(blas->params);
  if (blas->cusolver != NULL) cusolverDnDestroy(blas->cusolver);
  if (blas->cublas != NULL) cublasDestroy(blas->cublas);
  free(blas);
}

/* A handle that cannot be made is said to be NOT_INITIALIZED also where memory is what lacks. */
static lode_status create(lode_blas *blas, lode_error *error) {
  cublasStatus_t first = cublasCreate(&blas->cublas);
  lode_status status = lode_cublas_check(first, "cublasCreate (it needs memory of the GPU)", error);
  if (status != LODE_OK) return first == CUBLAS_STATUS_NOT_INITIALIZED ? LODE_NOMEM : status;
  cusolverStatus_t second = cusolverDnCreate(&blas->cusolver);
  status = lode_cusolver_check(second, "cusolverDnCreate (it needs memory of the GPU)", error);
  if (status != LODE_OK) return second == CUSOLVER_STATUS_NOT_INITIALIZED ? LODE_NOMEM : status;
  LODE_CUSOLVER(error, cusolverDnCreateParams, &blas->params);
  return LODE_OK;
}

static lode_status open_handles(void *stream, lode_blas **out, lode_error *error) {
  lode_blas *blas = calloc(1, sizeof *blas);
  if (blas == NULL) {
    services->error_set(error, "no host memory for handles of cuBLAS");
    return LODE_NOMEM;
  }
  lode_status status = create(blas, error);
  if (status == LODE_OK) status = set_stream(blas, stream, error);
  if (status != LODE_OK) destroy(blas);
  else *out = blas;
  return status;
}

/* ---- the part ------------------------------------------------------------------ */

static void describe(lode_properties *out) {
  int version[3] = {0};
  for (int i = 0; i < 3; i++) cublasGetProperty((libraryPropertyType)(MAJOR_VERSION + i), &version[i]);
  services->properties_add(out, "cublas", "%d.%d.%d", version[0], version[1], version[2]);
  for (int i = 0; i < 3; i++) cusolverGetProperty((libraryPropertyType)(MAJOR_VERSION + i), &version[i]);
  services->properties_add(out, "cusolver", "%d.%d.%d", version[0], version[1], version[2]);
}

__attribute__((visibility("default"))) lode_part_entry lode_part;

lode_status lode_part(const lode_services *core, lode_part_table *table, lode_error *error) {
  table->version = LODE_PART_VERSION;
  table->build = LODE_BUILD;
  /* Core reports it; nothing of another build's table may be touched. */
  if (core->version != LODE_PART_VERSION || strcmp(core->build, LODE_BUILD) != 0) return LODE_OK;
  (void)error;
  services = core;
  lode_cublas *cublas = (lode_cublas *)table;
  lode_blas_fill_f32(&cublas->by_dtype[LODE_F32]);
  lode_blas_fill_f64(&cublas->by_dtype[LODE_F64]);
  cublas->open = open_handles;
  cublas->set_stream = set_stream;
  cublas->describe = describe;
  return LODE_OK;
}
