/* Solves on CUDA with what factor.c made.
 *
 * One right-hand side is solved in place. Several, x[n, k], are brought to
 * column-major order in a workspace and back: next to the solve that costs little. */
#include "linalg.h"

/* A solve with x column-major. */
typedef struct solving {
  lode_cuda_work work;
  const lode_solve_args *args;
  void *x;
} solving;

static const char *matrix_at(const solving *s, int64_t index) {
  return (const char *)s->args->packed + index * s->args->n * s->args->n * s->work.size;
}

static char *side_at(const solving *s, int64_t index) {
  return (char *)s->x + index * s->args->n * s->args->k * s->work.size;
}

/* ---- one system ------------------------------------------------------------------ */

typedef lode_status solve_one(const solving *s, int64_t index, int32_t *info, lode_error *error);

static lode_status general_one(const solving *s, int64_t index, int32_t *info, lode_error *error) {
  const lode_solve_args *p = s->args;
  return s->work.functions->getrs(s->work.handles, p->n, p->k, matrix_at(s, index),
                                  (const int64_t *)p->pivots + index * p->n, side_at(s, index), info, error);
}

static lode_status spd_one(const solving *s, int64_t index, int32_t *info, lode_error *error) {
  return s->work.functions->potrs(s->work.handles, s->args->n, s->args->k, matrix_at(s, index),
                                  side_at(s, index), info, error);
}

/* Row-major upper is column-major lower, and the other way round. */
static const lode_blas_triangle upper_as_it_lies = {.upper = false, .transposed = true},
                                lower_as_it_lies = {.upper = true, .transposed = true};

static lode_status upper_one(const solving *s, int64_t index, int32_t *info, lode_error *error) {
  (void)info;
  return s->work.functions->trsm(s->work.handles, upper_as_it_lies, s->args->n, s->args->k, matrix_at(s, index),
                                 side_at(s, index), error);
}

static lode_status lower_one(const solving *s, int64_t index, int32_t *info, lode_error *error) {
  (void)info;
  return s->work.functions->trsm(s->work.handles, lower_as_it_lies, s->args->n, s->args->k, matrix_at(s, index),
                                 side_at(s, index), error);
}

static lode_status one_by_one(const solving *s, solve_one *step, lode_error *error) {
  void *info; /* says that the arguments are right, which the status says too */
  LODE_TRY(lode_cuda_take(s->work.stream, sizeof(int32_t), &info, error));
  lode_status status = LODE_OK;
  for (int64_t i = 0; i < s->args->batch && status == LODE_OK; i++) status = step(s, i, info, error);
  lode_cuda_give(s->work.stream, info, sizeof(int32_t));
  return status;
}

/* ---- a batch at once ---------------------------------------------------------------- */

typedef lode_status solve_batch(const solving *s, void *const *a, void *const *x, lode_error *error);

static lode_status general_batch(const solving *s, void *const *a, void *const *x, lode_error *error) {
  const lode_solve_args *p = s->args;
  LODE_TRY(lode_cuda_check_int(p->k, "right-hand sides", error));
  return s->work.functions->getrs_batched(s->work.handles, p->n, p->k, a, p->pivots, x, p->batch, error);
}

static lode_status triangle_batch(const solving *s, lode_blas_triangle triangle, void *const *a, void *const *x,
                                  lode_error *error) {
  return s->work.functions->trsm_batched(s->work.handles, triangle, s->args->n, s->args->k, a, x,
                                         s->args->batch, error);
}

/* L L^T, column-major. */
static lode_status spd_batch(const solving *s, void *const *a, void *const *x, lode_error *error) {
  LODE_TRY(triangle_batch(s, (lode_blas_triangle){.upper = false, .transposed = false}, a, x, error));
  return triangle_batch(s, (lode_blas_triangle){.upper = false, .transposed = true}, a, x, error);
}

static lode_status upper_batch(const solving *s, void *const *a, void *const *x, lode_error *error) {
  return triangle_batch(s, upper_as_it_lies, a, x, error);
}

static lode_status lower_batch(const solving *s, void *const *a, void *const *x, lode_error *error) {
  return triangle_batch(s, lower_as_it_lies, a, x, error);
}

static lode_status all_at_once(const solving *s, solve_batch *step, lode_error *error) {
  const lode_solve_args *p = s->args;
  void **pointers;
  LODE_TRY(lode_cuda_check_int(p->batch, "matrices in a batch", error));
  LODE_TRY(lode_cuda_pointers(&s->work, p->packed, p->n * p->n * s->work.size, s->x, p->n * p->k * s->work.size,
                              p->batch, &pointers, error));
  lode_status status = step(s, pointers, pointers + p->batch, error);
  lode_cuda_give(s->work.stream, pointers, lode_cuda_pointers_bytes(p->batch));
  return status;
}

/* ---- any ------------------------------------------------------------------------------ */

static const struct {
  solve_one *one;
  solve_batch *batch;
} by_method[LODE_NMETHODS] = {[LODE_METHOD_GENERAL] = {general_one, general_batch},
                              [LODE_METHOD_SPD] = {spd_one, spd_batch},
                              [LODE_METHOD_UPPER] = {upper_one, upper_batch},
                              [LODE_METHOD_LOWER] = {lower_one, lower_batch}};

static lode_status solve_columns(const solving *s, lode_error *error) {
  int32_t method = atomic_load(&s->args->outcome->method); /* factor() has stored it */
  if (lode_cuda_batched(s->args->batch, s->args->n)) return all_at_once(s, by_method[method].batch, error);
  return one_by_one(s, by_method[method].one, error);
}

/* x[n, k], row-major, by way of a workspace. */
static lode_status solve_rows(solving *s, lode_error *error) {
  const lode_solve_args *p = s->args;
  size_t bytes = (size_t)(p->batch * p->n * p->k * s->work.size);
  LODE_TRY(lode_cuda_take(s->work.stream, bytes, &s->x, error));
  lode_status status = lode_cuda_transpose(&s->work, p->x, s->x, p->n, p->k, p->batch, false, error);
  if (status == LODE_OK) status = solve_columns(s, error);
  if (status == LODE_OK) status = lode_cuda_transpose(&s->work, s->x, p->x, p->k, p->n, p->batch, false, error);
  lode_cuda_give(s->work.stream, s->x, bytes);
  return status;
}

/* NaN where there is no solution. */
static lode_status spoil(const solving *s, lode_error *error) {
  const lode_solve_args *p = s->args;
  lode_spoil_parameters parameters = {p->info, p->x, p->batch, p->n * p->k};
  int64_t items = (p->batch * p->n * p->k + LODE_BLOCK_THREADS - 1) / LODE_BLOCK_THREADS;
  return lode_cuda_start(s->work.stream,
                         s->work.size == 8 ? LODE_KERNEL_matrix_spoil_8 : LODE_KERNEL_matrix_spoil_4,
                         lode_cuda_blocks(s->work.stream, items), LODE_BLOCK_THREADS, &parameters, error);
}

lode_status lode_cuda_solve(lode_stream *stream, const lode_solve_args *args, lode_error *error) {
  solving s = {.args = args, .x = args->x};
  if (args->batch == 0 || args->n == 0 || args->k == 0) return LODE_OK;
  LODE_TRY(lode_cuda_work_enter(stream, args->dtype, &s.work, error));
  if (args->k == 1) LODE_TRY(solve_columns(&s, error));
  else LODE_TRY(solve_rows(&s, error));
  return spoil(&s, error);
}
