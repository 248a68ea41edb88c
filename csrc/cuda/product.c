/* Matrix products on CUDA: by cuBLAS for large ones of floats, in full precision
 * (never TF32); by kernels of our own (kernels/matrix.cu) for integers, small
 * matrices, and where cuBLAS is absent.
 *
 * Our own sum over k in ascending order from +0, like the CPU's. */
#include "linalg.h"

enum {
  SMALL_PRODUCT = 4096, /* multiplications up to which our own kernel is as fast */
  THIN = 8              /* rows or columns of c that leave most of a tile empty */
};

/* ---- our own ------------------------------------------------------------------ */

static const lode_kernel tiles[LODE_NDTYPES] = {[LODE_I32] = LODE_KERNEL_matrix_product_4,
                                                [LODE_I64] = LODE_KERNEL_matrix_product_8,
                                                [LODE_F32] = LODE_KERNEL_matrix_product_f32,
                                                [LODE_F64] = LODE_KERNEL_matrix_product_f64};
static const lode_kernel thin[LODE_NDTYPES] = {[LODE_I32] = LODE_KERNEL_matrix_product_thin_4,
                                               [LODE_I64] = LODE_KERNEL_matrix_product_thin_8,
                                               [LODE_F32] = LODE_KERNEL_matrix_product_thin_f32,
                                               [LODE_F64] = LODE_KERNEL_matrix_product_thin_f64};

static double multiplications(const lode_product_args *p) { return (double)p->m * (double)p->n * (double)p->k; }

static lode_product_operand operand(const lode_matrix *x) {
  return (lode_product_operand){x->base, x->batch, x->row, x->column};
}

static lode_status own_product(lode_stream *stream, const lode_product_args *args, lode_error *error) {
  bool is_thin = multiplications(args) <= SMALL_PRODUCT || args->m < THIN || args->n < THIN;
  int64_t down = (args->m + LODE_PRODUCT_TILE - 1) / LODE_PRODUCT_TILE,
          across = (args->n + LODE_PRODUCT_TILE - 1) / LODE_PRODUCT_TILE;
  int64_t items = is_thin ? (args->batch * args->m * args->n + LODE_BLOCK_THREADS - 1) / LODE_BLOCK_THREADS
                          : args->batch * down * across;
  lode_product_parameters p = {.a = operand(&args->a),
                               .b = operand(&args->b),
                               .c = args->c,
                               .batch = args->batch,
                               .m = args->m,
                               .n = args->n,
                               .k = args->k};
  return lode_cuda_start(stream, (is_thin ? thin : tiles)[args->dtype], lode_cuda_blocks(stream, items),
                         LODE_BLOCK_THREADS, &p, error);
}

/* ---- cuBLAS ---------------------------------------------------------------------- */

/* An operand as BLAS sees it, column-major: x^T where rows are dense, x (to be transposed) where columns
 * are; false if its strides cannot be expressed. */
static bool blas_operand(const lode_matrix *x, int64_t rows, int64_t columns, lode_blas_operand *out) {
  bool by_rows = x->column == 1 && (x->row >= columns || rows == 1);
  bool by_columns = x->row == 1 && (x->column >= rows || columns == 1);
  int64_t ld = by_rows ? x->row : x->column, least = by_rows ? columns : rows;
  *out = (lode_blas_operand){x->base, ld < least ? least : ld, x->batch, !by_rows};
  return by_rows || by_columns;
}

/* cuBLAS knows no negative strides from matrix to matrix. */
static lode_status one_by_one(const lode_cuda_work *work, const lode_blas_product *all, lode_error *error) {
  lode_blas_product p = *all;
  p.batch = 1;
  p.a.stride = p.b.stride = 0;
  for (int64_t i = 0; i < all->batch; i++) {
    p.a.base = (const char *)all->a.base + i * all->a.stride * work->size;
    p.b.base = (const char *)all->b.base + i * all->b.stride * work->size;
    p.c = (char *)all->c + i * p.m * p.n * work->size;
    LODE_TRY(work->functions->gemm(work->handles, &p, error));
  }
  return LODE_OK;
}

/* c^T = b^T a^T: column-major c^T is c, row-major. */
static lode_status blas_product(const lode_cuda_work *work, const lode_product_args *args, lode_blas_operand a,
                                lode_blas_operand b, lode_error *error) {
  lode_blas_product p = {
      .m = args->n, .n = args->m, .k = args->k, .batch = args->batch, .a = b, .b = a, .c = args->c};
  if (a.stride < 0 || b.stride < 0) return one_by_one(work, &p, error);
  return work->functions->gemm(work->handles, &p, error);
}

static bool worth_blas(const lode_product_args *args) {
  return lode_dtype_kind(args->dtype) == LODE_KIND_FLOAT && multiplications(args) > SMALL_PRODUCT;
}

lode_status lode_cuda_product(lode_stream *stream, const lode_product_args *args, lode_error *error) {
  lode_cuda_work work;
  lode_blas_operand a, b;
  if (args->batch == 0 || args->m == 0 || args->n == 0) return LODE_OK;
  if (!worth_blas(args) || !blas_operand(&args->a, args->m, args->k, &a) ||
      !blas_operand(&args->b, args->k, args->n, &b))
    return own_product(stream, args, error);
  lode_status status = lode_cuda_work_enter(stream, args->dtype, &work, error);
  if (status == LODE_UNAVAILABLE) return own_product(stream, args, error);
  return status == LODE_OK ? blas_product(&work, args, a, b, error) : status;
}
