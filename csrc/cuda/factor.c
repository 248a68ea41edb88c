/* Factorizations on CUDA, by cuSOLVER and, for batches of small matrices, cuBLAS.
 *
 * packed, by method:
 *   GENERAL        LU, column-major; pivots: int64_t, or int32_t of the batched routine
 *   SPD            the lower Cholesky factor, column-major; the other triangle holds anything
 *   UPPER, LOWER   the matrix as it lies, row-major
 *
 * Nothing waits where the method is named. The choice (AUTO) waits for a look at
 * the matrices; and if they are symmetric with a positive diagonal, for what
 * becomes of Cholesky. The method is known to the host when factor returns, and
 * solve reads it from the outcome; the device writes the fault alone. */
#include "linalg.h"

static char *matrix_at(const lode_cuda_work *work, const lode_factor_args *f, int64_t index) {
  return (char *)f->packed + index * f->n * f->n * work->size;
}

/* ---- LU and Cholesky -------------------------------------------------------------- */

static lode_status lu_batched(const lode_cuda_work *work, const lode_factor_args *f, void *const *pointers,
                              lode_error *error) {
  return work->functions->getrf_batched(work->handles, f->n, pointers, f->pivots, f->info, f->batch, error);
}

static lode_status lu_one(const lode_cuda_work *work, const lode_factor_args *f, int64_t index,
                          lode_blas_space space, lode_error *error) {
  return work->functions->getrf(work->handles, f->n, matrix_at(work, f, index),
                                (int64_t *)f->pivots + index * f->n, space, f->info + index, error);
}

static lode_status cholesky_batched(const lode_cuda_work *work, const lode_factor_args *f,
                                    void *const *pointers, lode_error *error) {
  return work->functions->potrf_batched(work->handles, f->n, pointers, f->info, f->batch, error);
}

static lode_status cholesky_one(const lode_cuda_work *work, const lode_factor_args *f, int64_t index,
                                lode_blas_space space, lode_error *error) {
  return work->functions->potrf(work->handles, f->n, matrix_at(work, f, index), space, f->info + index, error);
}

typedef lode_status batched_step(const lode_cuda_work *work, const lode_factor_args *f, void *const *pointers,
                                 lode_error *error);
typedef lode_status one_step(const lode_cuda_work *work, const lode_factor_args *f, int64_t index,
                             lode_blas_space space, lode_error *error);

static lode_status all_at_once(const lode_cuda_work *work, const lode_factor_args *f, batched_step *step,
                               lode_error *error) {
  void **pointers;
  LODE_TRY(lode_cuda_check_int(f->batch, "matrices in a batch", error));
  LODE_TRY(lode_cuda_pointers(work, f->packed, f->n * f->n * work->size, NULL, 0, f->batch, &pointers, error));
  lode_status status = step(work, f, pointers, error);
  lode_cuda_give(work->stream, pointers, lode_cuda_pointers_bytes(f->batch));
  return status;
}

static lode_status one_by_one(const lode_cuda_work *work, const lode_factor_args *f, size_t bytes,
                              one_step *step, lode_error *error) {
  lode_blas_space space = {.bytes = bytes};
  LODE_TRY(lode_cuda_take(work->stream, bytes, &space.block, error));
  lode_status status = LODE_OK;
  for (int64_t i = 0; i < f->batch && status == LODE_OK; i++) status = step(work, f, i, space, error);
  lode_cuda_give(work->stream, space.block, bytes);
  return status;
}

static lode_status factor_general(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error) {
  size_t bytes;
  LODE_TRY(lode_cuda_transpose(work, f->a, f->packed, f->n, f->n, f->batch, false, error));
  if (lode_cuda_batched(f->batch, f->n)) return all_at_once(work, f, lu_batched, error);
  LODE_TRY(work->functions->getrf_space(work->handles, f->n, &bytes, error));
  return one_by_one(work, f, bytes, lu_one, error);
}

static lode_status factor_spd(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error) {
  size_t bytes;
  LODE_TRY(lode_cuda_transpose(work, f->a, f->packed, f->n, f->n, f->batch, true, error));
  if (lode_cuda_batched(f->batch, f->n)) return all_at_once(work, f, cholesky_batched, error);
  LODE_TRY(work->functions->potrf_space(work->handles, f->n, &bytes, error));
  return one_by_one(work, f, bytes, cholesky_one, error);
}

/* ---- triangles ------------------------------------------------------------------------ */

static lode_status factor_triangle(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error) {
  lode_diagonal_parameters p = {f->a, f->n, f->batch, f->info};
  lode_kernel kernel = f->dtype == LODE_F32 ? LODE_KERNEL_matrix_diagonal_f32 : LODE_KERNEL_matrix_diagonal_f64;
  size_t bytes = (size_t)(f->batch * f->n * f->n * work->size);
  LODE_TRY(lode_cuda_copy_within(work->stream, f->packed, f->a, bytes, error));
  return lode_cuda_start(work->stream, kernel, lode_cuda_blocks(work->stream, f->batch),
                         f->n <= 32 ? 32 : LODE_BLOCK_THREADS, &p, error);
}

/* ---- one method for the whole batch ------------------------------------------------------ */

typedef lode_status factor_with(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error);

static factor_with *const by_method[LODE_NMETHODS] = {[LODE_METHOD_GENERAL] = factor_general,
                                                      [LODE_METHOD_SPD] = factor_spd,
                                                      [LODE_METHOD_UPPER] = factor_triangle,
                                                      [LODE_METHOD_LOWER] = factor_triangle};

static lode_status factor_as(lode_method method, const lode_cuda_work *work, const lode_factor_args *f,
                             lode_error *error) {
  LODE_TRY(by_method[method](work, f, error));
  lode_fault_parameters p = {f->info, f->batch, (int64_t *)(uintptr_t)&f->outcome->fault};
  LODE_TRY(lode_cuda_start(work->stream, LODE_KERNEL_matrix_fault, 1, f->batch <= 32 ? 32 : LODE_BLOCK_THREADS,
                           &p, error));
  atomic_store(&f->outcome->method, method);
  return LODE_OK;
}

/* Until all work of the stream so far is done. */
static lode_status wait_here(lode_stream *stream, lode_error *error) {
  lode_event *event;
  bool waited;
  LODE_TRY(lode_cuda_event_record(stream, false, &event, error));
  lode_status status = lode_cuda_event_wait(event, &waited, error);
  lode_event_unref(event);
  return status;
}

enum { SMALL = 32 }; /* matrices that a tile would not be filled by */

static lode_status start_look(const lode_cuda_work *work, const lode_factor_args *f, int32_t *seen,
                              lode_error *error) {
  bool is_small = f->n <= SMALL, single = f->dtype == LODE_F32;
  lode_structure_parameters p = {f->a, f->n, f->batch, seen};
  int64_t side = (f->n + LODE_STRUCTURE_TILE - 1) / LODE_STRUCTURE_TILE;
  int64_t items = is_small ? (f->batch * f->n * f->n + LODE_BLOCK_THREADS - 1) / LODE_BLOCK_THREADS
                           : f->batch * side * side;
  lode_kernel kernel =
      is_small ? single ? LODE_KERNEL_matrix_structure_thin_f32 : LODE_KERNEL_matrix_structure_thin_f64
      : single ? LODE_KERNEL_matrix_structure_f32
               : LODE_KERNEL_matrix_structure_f64;
  return lode_cuda_start(work->stream, kernel, lode_cuda_blocks(work->stream, items), LODE_BLOCK_THREADS, &p,
                         error);
}

/* What the matrices are not, to work->seen; waits. The kernel's blocks stop at what others have seen, so
 * their words lie on the device. */
static lode_status look(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error) {
  enum { BYTES = LODE_NLOOKS * sizeof(int32_t) };
  CUstream stream = lode_cuda_stream_of(work->stream)->handle;
  void *seen;
  LODE_TRY(lode_cuda_take(work->stream, BYTES, &seen, error));
  lode_status status = lode_driver_check(
      lode_cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)seen, 0, BYTES, stream), "cuMemsetD8Async", error);
  if (status == LODE_OK) status = start_look(work, f, seen, error);
  if (status == LODE_OK)
    status =
        lode_driver_check(lode_cu.cuMemcpyDtoHAsync(work->seen, (CUdeviceptr)(uintptr_t)seen, BYTES, stream),
                          "cuMemcpyDtoHAsync", error);
  lode_cuda_give(work->stream, seen, BYTES);
  return status == LODE_OK ? wait_here(work->stream, error) : status;
}

static lode_status choose(const lode_cuda_work *work, const lode_factor_args *f, lode_method *method,
                          lode_error *error) {
  LODE_TRY(look(work, f, error));
  *method = !work->seen[LODE_NOT_UPPER]   ? LODE_METHOD_UPPER
            : !work->seen[LODE_NOT_LOWER] ? LODE_METHOD_LOWER
            : !work->seen[LODE_NOT_SPD]   ? LODE_METHOD_SPD
                                          : LODE_METHOD_GENERAL;
  return LODE_OK;
}

/* A symmetric matrix that is not positive definite is general. */
static lode_status factor_auto(const lode_cuda_work *work, const lode_factor_args *f, lode_error *error) {
  lode_method method;
  LODE_TRY(choose(work, f, &method, error));
  LODE_TRY(factor_as(method, work, f, error));
  if (method != LODE_METHOD_SPD) return LODE_OK;
  LODE_TRY(wait_here(work->stream, error));
  return atomic_load(&f->outcome->fault) == 0 ? LODE_OK : factor_as(LODE_METHOD_GENERAL, work, f, error);
}

/* Matrices of no rows are solved by any method. */
static lode_status factor_nothing(lode_stream *stream, const lode_factor_args *f, lode_error *error) {
  atomic_store(&f->outcome->method, f->method == LODE_METHOD_AUTO ? LODE_METHOD_UPPER : f->method);
  atomic_store(&f->outcome->fault, 0);
  if (f->batch == 0) return LODE_OK;
  LODE_CU(error, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)f->info, 0, (size_t)f->batch * sizeof(int32_t),
          lode_cuda_stream_of(stream)->handle);
  return LODE_OK;
}

lode_status lode_cuda_factor(lode_stream *stream, const lode_factor_args *args, lode_error *error) {
  lode_cuda_work work;
  if (args->batch == 0 || args->n == 0) return factor_nothing(stream, args, error);
  LODE_TRY(lode_cuda_work_enter(stream, args->dtype, &work, error));
  if (args->method == LODE_METHOD_AUTO) return factor_auto(&work, args, error);
  return factor_as(args->method, &work, args, error);
}
