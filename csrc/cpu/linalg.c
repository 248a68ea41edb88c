/* See linalg.h: choosing the algorithm, the LAPACK part, and its threads.
 *
 * OpenBLAS has threads of its own, whose number belongs to the whole process. It
 * is set around calls, under a lock that is held during them, and put back. */
#include "linalg.h"

#include <math.h>
#include <string.h>

#include "../core/control.h"
#include "../core/mutex.h"
#include "copy.h"
#include "cpu.h"
#include "fork.h"
#include "isa.h"
#include "lapack.h"
#include "stream.h"
#include "threads.h"

enum {
  ONE_THREAD_BELOW = 100, /* order below which OpenBLAS's threads cost more than they bring */
  SMALL_PRODUCT = 4096    /* multiplications up to which our own loops are as fast */
};

/* ---- the part ----------------------------------------------------------- */

static struct {
  lode_mutex loading; /* guards `state` and `reason`; never held for long */
  lode_mutex calls;   /* around calls into LAPACK, which may take seconds */
  enum { NOT_ASKED, LOADED, ABSENT } state;
  lode_error reason;
  lode_lapack table;
} part = {.loading = LODE_MUTEX_INIT, .calls = LODE_MUTEX_INIT};

void lode_linalg_fork_prepare(void) {
  lode_mutex_lock(&part.calls);
  lode_mutex_lock(&part.loading);
}

void lode_linalg_fork_release(void) {
  lode_mutex_unlock(&part.loading);
  lode_mutex_unlock(&part.calls);
}

/* A part that is absent stays so: what is beside lode does not change while it runs. */
static lode_status load(lode_error *error) {
  lode_mutex_lock(&part.loading);
  if (part.state == NOT_ASKED) {
#ifdef LODE_HAVE_LAPACK
    part.state = lode_part_load("lapack", &part.table.part, &part.reason) == LODE_OK ? LOADED : ABSENT;
    if (part.state == LOADED) lode_fork_watch();
#else
    part.state = ABSENT;
    lode_fail(&part.reason, LODE_UNAVAILABLE, "lode was built without LAPACK");
#endif
  }
  lode_status status =
      part.state == LOADED ? LODE_OK : lode_fail(error, LODE_UNAVAILABLE, "%s", part.reason.text);
  lode_mutex_unlock(&part.loading);
  return status;
}

void lode_linalg_describe(lode_properties *out) {
  lode_mutex_lock(&part.loading);
  if (part.state == LOADED) part.table.describe(out);
  else if (part.state == ABSENT) lode_properties_add(out, "lapack", "%.200s", part.reason.text);
  else
#ifdef LODE_HAVE_LAPACK
    lode_properties_add(out, "lapack", "not loaded yet");
#else
    lode_properties_add(out, "lapack", "built without LAPACK");
#endif
  lode_mutex_unlock(&part.loading);
}

/* Runs task(context, i) for i in [0, batch), with LAPACK to itself. Many small matrices are spread
 * over our threads with one of LAPACK's each; few large ones are done in turn, with all of LAPACK's. */
static void with_lapack(lode_task *task, void *context, int64_t batch, int64_t order) {
  int count = lode_threads_count();
  bool spread = batch > 1 && (order < ONE_THREAD_BELOW || batch >= count * 4);
  int wanted = spread || order < ONE_THREAD_BELOW ? 1 : count;
  lode_mutex_lock(&part.calls);
  int before = part.table.get_threads();
  if (before != wanted) part.table.set_threads(wanted);
  lode_threads_run(task, context, batch,
                   spread && (double)batch * (double)order * (double)order > 1e4 ? count : 1);
  if (before != wanted) part.table.set_threads(before);
  lode_mutex_unlock(&part.calls);
}

/* ---- product ------------------------------------------------------------ */

/* An operand in BLAS's terms; false if its strides cannot be expressed. */
static bool blas_operand(const lode_matrix *x, int64_t rows, int64_t columns, lode_blas_operand *out) {
  bool by_rows = x->column == 1 && (x->row >= columns || rows == 1);
  bool by_columns = x->row == 1 && (x->column >= rows || columns == 1);
  int64_t ld = by_rows ? x->row : x->column, least = by_rows ? columns : rows;
  if (ld < least) ld = least;
  *out = (lode_blas_operand){x->base, (int32_t)ld, !by_rows};
  return (by_rows || by_columns) && ld <= INT32_MAX;
}

typedef struct blas_product {
  const lode_product_args *args;
  lode_blas_operand a, b;
} blas_product;

static void multiply(void *context, int64_t index, int worker) {
  (void)worker;
  const blas_product *work = context;
  const lode_product_args *p = work->args;
  int64_t size = (int64_t)lode_dtype_size(p->dtype);
  lode_blas_operand a = work->a, b = work->b;
  a.base = (const char *)a.base + index * p->a.batch * size;
  b.base = (const char *)b.base + index * p->b.batch * size;
  part.table.by_dtype[p->dtype].gemm((int32_t)p->m, (int32_t)p->n, (int32_t)p->k, a, b,
                                     (char *)p->c + index * p->m * p->n * size);
}

static bool worth_blas(const lode_product_args *p) {
  return lode_dtype_kind(p->dtype) == LODE_KIND_FLOAT && p->m > 0 && p->n > 0 && p->k > 0 &&
         (double)p->m * (double)p->n * (double)p->k > SMALL_PRODUCT;
}

static lode_status run_product(const void *arguments, lode_error *error) {
  const lode_product_args *p = arguments;
  blas_product work = {.args = p};
  if (!worth_blas(p) || load(NULL) != LODE_OK || p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX ||
      !blas_operand(&p->a, p->m, p->k, &work.a) || !blas_operand(&p->b, p->k, p->n, &work.b))
    return lode_product_loops(p, error);
  uint64_t control = lode_control_enter();
  double order = cbrt((double)p->m * (double)p->n * (double)p->k);
  with_lapack(multiply, &work, p->batch, (int64_t)order);
  lode_control_leave(control);
  return LODE_OK;
}

lode_status lode_linalg_product(lode_stream *stream, const lode_product_args *args, lode_error *error) {
  return lode_stream_enqueue(stream, run_product, args, sizeof *args, error);
}

/* ---- factor ------------------------------------------------------------- */

static size_t matrix_bytes(lode_dtype dtype, int64_t n) { return (size_t)(n * n) * lode_dtype_size(dtype); }

typedef struct factoring {
  const lode_factor_args *args;
  lode_method method;
} factoring;

/* Cholesky reads and writes one triangle; the other is not worth copying. */
static void copy_lower(char *to, const char *from, int64_t n, int64_t size) {
  for (int64_t i = 0; i < n; i++) memcpy(to + i * n * size, from + i * n * size, (size_t)((i + 1) * size));
}

typedef struct transposing {
  char *to;
  const char *from;
  int64_t n, size;
} transposing;

enum { BAND = 64, BLOCK = 32 }; /* rows of a task; a block of both sides lies in L1 */

static void transpose_band(void *context, int64_t index, int worker) {
  (void)worker;
  const transposing *t = context;
  int64_t n = t->n, first = index * BAND, last = first + BAND < n ? first + BAND : n;
  lode_move *move = lode_isa_current()->move[t->size];
  for (int64_t i = first; i < last; i += BLOCK) {
    int64_t rows = last - i < BLOCK ? last - i : BLOCK;
    for (int64_t j = 0; j < n; j += BLOCK) {
      int64_t columns = n - j < BLOCK ? n - j : BLOCK;
      move(t->to + (i * n + j) * t->size, n, 1, t->from + (j * n + i) * t->size, 1, n, rows, columns);
    }
  }
}

static void transpose(char *to, const char *from, int64_t n, int64_t size) {
  transposing t = {to, from, n, size};
  lode_threads_run(transpose_band, &t, (n + BAND - 1) / BAND,
                   n * n * size > 256 << 10 ? lode_threads_count() : 1);
}

static void factor(void *context, int64_t index, int worker) {
  (void)worker;
  const factoring *work = context;
  const lode_factor_args *f = work->args;
  const lode_lapack_functions *lapack = &part.table.by_dtype[f->dtype];
  size_t bytes = matrix_bytes(f->dtype, f->n);
  const char *a = (const char *)f->a + (size_t)index * bytes;
  char *packed = (char *)f->packed + (size_t)index * bytes;
  int32_t info = 0;
  if (f->n == 0) {
    /* nothing to do, and LAPACK would print that it dislikes a leading dimension of 0 */
  } else if (work->method == LODE_METHOD_SPD) {
    copy_lower(packed, a, f->n, (int64_t)lode_dtype_size(f->dtype));
    info = lapack->potrf((int32_t)f->n, packed);
  } else if (work->method == LODE_METHOD_GENERAL) {
    transpose(packed, a, f->n, (int64_t)lode_dtype_size(f->dtype));
    info = lapack->getrf((int32_t)f->n, packed, (int32_t *)f->pivots + index * f->n);
  } else {
    lode_copy(packed, a, bytes);
    info = lode_structure_zero_diagonal(f->dtype, f->n, packed);
  }
  f->info[index] = info;
}

static bool all_are(lode_structure structure, const lode_factor_args *f) {
  size_t bytes = matrix_bytes(f->dtype, f->n);
  for (int64_t m = 0; m < f->batch; m++)
    if (!lode_structure_is(structure, f->dtype, f->n, (const char *)f->a + (size_t)m * bytes)) return false;
  return true;
}

/* One method for the whole batch. */
static lode_method choose(const lode_factor_args *f) {
  if (f->method != LODE_METHOD_AUTO) return f->method;
  if (all_are(LODE_STRUCTURE_UPPER, f)) return LODE_METHOD_UPPER;
  if (all_are(LODE_STRUCTURE_LOWER, f)) return LODE_METHOD_LOWER;
  return all_are(LODE_STRUCTURE_SYMMETRIC, f) ? LODE_METHOD_SPD : LODE_METHOD_GENERAL;
}

static int64_t first_fault(const lode_factor_args *f) {
  for (int64_t m = 0; m < f->batch; m++)
    if (f->info[m] != 0) return (int64_t)((uint64_t)m << 32 | (uint32_t)f->info[m]);
  return 0;
}

static lode_status run_factor(const void *arguments, lode_error *error) {
  (void)error;
  const lode_factor_args *f = arguments;
  uint64_t control = lode_control_enter();
  factoring work = {f, choose(f)};
  with_lapack(factor, &work, f->batch, f->n);
  int64_t fault = first_fault(f);
  if (fault != 0 && f->method == LODE_METHOD_AUTO && work.method == LODE_METHOD_SPD) {
    work.method = LODE_METHOD_GENERAL; /* symmetric, and not positive definite */
    with_lapack(factor, &work, f->batch, f->n);
    fault = first_fault(f);
  }
  atomic_store(&f->outcome->method, work.method);
  atomic_store(&f->outcome->fault, fault);
  lode_control_leave(control);
  return LODE_OK;
}

static lode_status check_order(int64_t n, int64_t k, lode_error *error) {
  if (n <= INT32_MAX && k <= INT32_MAX) return load(error);
  return lode_fail(error, LODE_INVALID, "LAPACK here takes up to %d rows and columns", INT32_MAX);
}

lode_status lode_linalg_factor(lode_stream *stream, const lode_factor_args *args, lode_error *error) {
  LODE_TRY(check_order(args->n, 1, error));
  return lode_stream_enqueue(stream, run_factor, args, sizeof *args, error);
}

/* ---- solve -------------------------------------------------------------- */

typedef struct solving {
  const lode_solve_args *args;
  lode_method method;
} solving;

static void fill_nan(lode_dtype dtype, void *x, int64_t n) {
  lode_scalar nan;
  if (dtype == LODE_F32) nan.f32 = NAN;
  else nan.f64 = (double)NAN;
  lode_isa_current()->move[lode_dtype_size(dtype)](x, n, 1, &nan, 0, 0, 1, n);
}

static void solve(void *context, int64_t index, int worker) {
  (void)worker;
  const solving *work = context;
  const lode_solve_args *s = work->args;
  const char *packed = (const char *)s->packed + (size_t)index * matrix_bytes(s->dtype, s->n);
  void *x = (char *)s->x + (size_t)(index * s->n * s->k) * lode_dtype_size(s->dtype);
  if (s->info[index] != 0) {
    fill_nan(s->dtype, x, s->n * s->k);
    return;
  }
  part.table.by_dtype[s->dtype].solve[work->method]((int32_t)s->n, (int32_t)s->k, packed,
                                                    (const int32_t *)s->pivots + index * s->n, x);
}

static lode_status run_solve(const void *arguments, lode_error *error) {
  (void)error;
  const lode_solve_args *s = arguments;
  if (s->n == 0 || s->k == 0) return LODE_OK;
  uint64_t control = lode_control_enter();
  solving work = {s, (lode_method)atomic_load(&s->outcome->method)};
  with_lapack(solve, &work, s->batch, s->n);
  lode_control_leave(control);
  return LODE_OK;
}

lode_status lode_linalg_solve(lode_stream *stream, const lode_solve_args *args, lode_error *error) {
  LODE_TRY(check_order(args->n, args->k, error));
  return lode_stream_enqueue(stream, run_solve, args, sizeof *args, error);
}
