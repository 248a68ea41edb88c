/* Matrix products by plain loops (linalg.h): for integers, which BLAS does not
 * have, for small matrices, and where the LAPACK part is absent.
 *
 * A block of b is packed into dense rows, then rows of c are updated with it one
 * after the other. An element of c is the sum over k in ascending order from +0, so
 * its bits do not depend on strides, blocks or threads. */
#include <string.h>

#include "../core/control.h"
#include "evaluator.h"
#include "isa.h"
#include "linalg.h"
#include "threads.h"

enum { BLOCK_K = 128, BLOCK_N = 128, ROWS_AT_LEAST = 8 };

static const double nanoseconds_per_update = 0.3, worth_threads = 100e3;

/* c[rows, columns] += a[rows, depth] * packed[depth, BLOCK_N]; integers wrap, as unsigned. */
#define UPDATE(DTYPE, text, T, U, kind)                                                                        \
  static void update_##DTYPE(U *restrict c, int64_t n, const U *a, int64_t row, int64_t column,                \
                             const U *restrict packed, int64_t rows, int64_t columns, int64_t depth) {         \
    for (int64_t i = 0; i < rows; i++, c += n, a += row)                                                       \
      for (int64_t p = 0; p < depth; p++) {                                                                    \
        const U x = a[p * column], *b = packed + p * BLOCK_N;                                                  \
        for (int64_t j = 0; j < columns; j++) c[j] = (U)(c[j] + (U)(x * b[j]));                                \
      }                                                                                                        \
  }                                                                                                            \
  static void update_any_##DTYPE(void *c, int64_t n, const void *a, int64_t row, int64_t column,               \
                                 const void *packed, int64_t rows, int64_t columns, int64_t depth) {           \
    update_##DTYPE(c, n, a, row, column, packed, rows, columns, depth);                                        \
  }
LODE_DTYPE_MAP(UPDATE)

typedef void update(void *c, int64_t n, const void *a, int64_t row, int64_t column, const void *packed,
                    int64_t rows, int64_t columns, int64_t depth);

static update *const updates[LODE_NDTYPES] = {
#define ENTRY(DTYPE, text, T, U, kind) update_any_##DTYPE,
    LODE_DTYPE_MAP(ENTRY)
#undef ENTRY
};

typedef struct product {
  const lode_product_args *args;
  int64_t rows, parts; /* of c, in a task; tasks of one matrix */
  size_t packed_bytes; /* for each worker */
  char *packed;
} product;

static void multiply(void *context, int64_t index, int worker) {
  const product *work = context;
  const lode_product_args *p = work->args;
  int64_t size = (int64_t)lode_dtype_size(p->dtype), matrix = index / work->parts;
  int64_t first = (index - matrix * work->parts) * work->rows,
          rows = p->m - first < work->rows ? p->m - first : work->rows;
  char *packed = work->packed + (size_t)worker * work->packed_bytes;
  char *c = (char *)p->c + (matrix * p->m + first) * p->n * size;
  const char *a = (const char *)p->a.base + (matrix * p->a.batch + first * p->a.row) * size;
  const char *b = (const char *)p->b.base + matrix * p->b.batch * size;
  uint64_t control = lode_control_enter();
  memset(c, 0, (size_t)(rows * p->n * size));
  for (int64_t j = 0; j < p->n; j += BLOCK_N) {
    int64_t columns = p->n - j < BLOCK_N ? p->n - j : BLOCK_N;
    for (int64_t k = 0; k < p->k; k += BLOCK_K) {
      int64_t depth = p->k - k < BLOCK_K ? p->k - k : BLOCK_K;
      lode_isa_current()->move[size](packed, BLOCK_N, 1, b + (k * p->b.row + j * p->b.column) * size, p->b.row,
                                     p->b.column, depth, columns);
      updates[p->dtype](c + j * size, p->n, a + k * p->a.column * size, p->a.row, p->a.column, packed, rows,
                        columns, depth);
    }
  }
  lode_control_leave(control);
}

lode_status lode_product_loops(const lode_product_args *args, lode_error *error) {
  double each = (double)args->m * (double)args->n * (double)args->k * nanoseconds_per_update;
  int workers = each * (double)args->batch < worth_threads ? 1 : lode_threads_count();
  product work = {.args = args, .rows = args->m};
  if (workers > 1 && args->batch < workers * 4) work.rows = (args->m + workers * 2 - 1) / (workers * 2);
  if (work.rows < ROWS_AT_LEAST) work.rows = ROWS_AT_LEAST;
  if (args->m == 0 || args->n == 0) return LODE_OK;
  work.parts = (args->m + work.rows - 1) / work.rows;
  work.packed_bytes = (size_t)BLOCK_K * BLOCK_N * lode_dtype_size(args->dtype);
  size_t bytes = work.packed_bytes * (size_t)workers;
  work.packed = lode_scratch_take(bytes);
  if (work.packed == NULL)
    return lode_fail(error, LODE_NOMEM, "cannot have %zu bytes of workspace on cpu", bytes);
  lode_threads_run(multiply, &work, args->batch * work.parts, workers);
  lode_scratch_give(work.packed, bytes);
  return LODE_OK;
}
