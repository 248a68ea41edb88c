/* Products, factorizations and solves: recording and enqueueing.
 *
 * All three work on stacks of matrices [batch, rows, columns]; what scripts give
 * (vectors, broadcast batches) is brought to that form by views, and back. The
 * methods and their sources (LAPACK routines) are the devices' affair. */
#include "linalg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "plan.h"
#include "recipe.h"

/* ---- factors ------------------------------------------------------------------- */

lode_factor *lode_factor_ref(lode_factor *factor) {
  factor->refs++;
  return factor;
}

static lode_status outcome_new(lode_factor *factor, lode_error *error) {
  if (factor->outcome != NULL) return LODE_OK; /* of a call that did not come to its end */
  if (factor->device->api->outcome_new != NULL)
    return factor->device->api->outcome_new(factor->device, &factor->outcome, error);
  factor->outcome = calloc(1, sizeof *factor->outcome);
  return factor->outcome != NULL ? LODE_OK : lode_fail(error, LODE_NOMEM, "no host memory for an outcome");
}

static void outcome_free(lode_factor *factor) {
  if (factor->device->api->outcome_free == NULL) free(factor->outcome);
  else if (factor->outcome != NULL) factor->device->api->outcome_free(factor->device, factor->outcome);
}

static void factor_free(lode_factor *factor) {
  outcome_free(factor);
  lode_storage_unref(factor->packed);
  lode_storage_unref(factor->pivots);
  lode_storage_unref(factor->info);
  free(factor);
}

/* The device writes and reads the outcome until nothing is pending on `info`. */
static bool factor_busy(lode_factor *factor) {
  return factor->info != NULL && !lode_storage_idle(factor->info);
}

void lode_factor_unref(lode_factor *factor) {
  if (factor == NULL || --factor->refs > 0) return;
  if (!factor_busy(factor)) {
    factor_free(factor);
    return;
  }
  factor->next = factor->context->zombies;
  factor->context->zombies = factor;
}

lode_status lode_factor_again(const lode_factor *like, lode_storage *info, lode_factor **out) {
  lode_factor *factor = malloc(sizeof *factor);
  lode_error *error = &like->context->error;
  if (factor == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a factor");
  *factor = *like;
  factor->refs = 1;
  lode_status status = outcome_new(factor, error);
  if (status != LODE_OK) {
    free(factor);
    return status;
  }
  factor->info = lode_storage_ref(info);
  *out = factor;
  return LODE_OK;
}

static void wait_for(lode_factor *factor) {
  lode_storage *info = factor->info;
  lode_storage_wait(info, NULL);
  for (int i = 0; i < info->nuses; i++) {
    bool waited;
    info->device->api->event_wait(info->use[i], &waited, NULL);
  }
}

void lode_factor_sweep(lode_context *context, bool all) {
  lode_factor **link = &context->zombies;
  while (*link != NULL) {
    lode_factor *factor = *link;
    if (all) wait_for(factor);
    if (factor_busy(factor)) {
      link = &factor->next;
      continue;
    }
    *link = factor->next;
    factor_free(factor);
  }
}

/* ---- bringing operands to form --------------------------------------------------- */

/* Replaces *node by a reshape of it; on failure by NULL. */
static lode_status reshape(lode_node **node, const lode_shape *shape) {
  lode_node *result = NULL;
  lode_status status = lode_record_reshape(*node, shape->dim, shape->ndim, &result);
  lode_node_unref(*node);
  *node = result;
  return status;
}

/* Broadcasts the dims before the last two to `batch` and folds them into one. */
static lode_status as_stack(lode_node *input, const char *who, const lode_shape *batch, lode_node **out) {
  const lode_shape *shape = &input->shape;
  lode_shape full = *batch;
  full.dim[full.ndim++] = shape->dim[shape->ndim - 2];
  full.dim[full.ndim++] = shape->dim[shape->ndim - 1];
  lode_node *node;
  LODE_TRY(lode_record_broadcast(input, who, &full, &node));
  lode_shape stack = {.ndim = 3,
                      .dim = {lode_shape_count(batch), full.dim[full.ndim - 2], full.dim[full.ndim - 1]}};
  lode_status status = reshape(&node, &stack);
  *out = node;
  return status;
}

static lode_shape batch_of(const lode_shape *shape) {
  lode_shape batch = *shape;
  batch.ndim -= 2;
  return batch;
}

/* ---- matmul -------------------------------------------------------------------------- */

static lode_status check_matmul(lode_node *a, lode_node *b) {
  lode_error *error = &a->context->error;
  lode_text left, right;
  if (a->device != b->device)
    return lode_fail(error, LODE_INVALID, "matmul: inputs on %s and %s; move one with :to(\"%s\")",
                     a->device->name, b->device->name, a->device->name);
  if (a->shape.ndim == 0 || b->shape.ndim == 0)
    return lode_fail(error, LODE_INVALID, "matmul: shapes %s and %s; both need at least one dim",
                     lode_shape_print(&a->shape, &left), lode_shape_print(&b->shape, &right));
  int64_t k = a->shape.dim[a->shape.ndim - 1], other = b->shape.dim[b->shape.ndim > 1 ? b->shape.ndim - 2 : 0];
  if (k != other)
    return lode_fail(error, LODE_INVALID,
                     "matmul: shapes %s and %s do not match (%" PRId64 " column%s, %" PRId64 " row%s)",
                     lode_shape_print(&a->shape, &left), lode_shape_print(&b->shape, &right), k,
                     k == 1 ? "" : "s", other, other == 1 ? "" : "s");
  return LODE_OK;
}

static lode_status matmul_stacks(lode_node *a, lode_node *b, lode_node **out) {
  lode_shape shape = {.ndim = 3, .dim = {a->shape.dim[0], a->shape.dim[1], b->shape.dim[2]}};
  LODE_TRY(lode_shape_check(&a->context->error, "matmul", &shape));
  lode_node *node = lode_node_new(a->context, LODE_NODE_MATMUL, (lode_dtype)a->dtype, a->device, &shape);
  if (node == NULL) return LODE_NOMEM;
  LODE_TRY(lode_node_inputs(node, (lode_node *const[]){a, b}, 2));
  return lode_node_recorded(node, out);
}

/* a: [..., m, k], b: [..., k, n], of one dtype. */
static lode_status matmul_matrices(lode_node *a, lode_node *b, lode_node **out) {
  lode_shape left = batch_of(&a->shape), right = batch_of(&b->shape), batch;
  lode_node *stack_a, *stack_b, *product;
  LODE_TRY(lode_shape_broadcast(&a->context->error, "matmul", &left, &right, &batch));
  if (batch.ndim + 2 > LODE_MAX_DIMS)
    return lode_fail(&a->context->error, LODE_INVALID, "matmul: %d dims, at most %d are possible",
                     batch.ndim + 2, LODE_MAX_DIMS);
  LODE_TRY(as_stack(a, "matmul", &batch, &stack_a));
  lode_status status = as_stack(b, "matmul", &batch, &stack_b);
  if (status == LODE_OK) {
    status = matmul_stacks(stack_a, stack_b, &product);
    lode_node_unref(stack_b);
  }
  lode_node_unref(stack_a);
  if (status != LODE_OK) return status;
  lode_shape shape = batch;
  shape.dim[shape.ndim++] = a->shape.dim[a->shape.ndim - 2];
  shape.dim[shape.ndim++] = b->shape.dim[b->shape.ndim - 1];
  status = reshape(&product, &shape);
  *out = product;
  return status;
}

/* A vector on the left is a row, on the right a column; the dim of 1 goes from the result. */
static lode_status matmul_vectors(lode_node *a, lode_node *b, lode_node **out) {
  lode_node *row = NULL, *column = NULL, *result = NULL;
  bool left = a->shape.ndim == 1, right = b->shape.ndim == 1;
  lode_status status = left ? lode_record_expand_dims(a, 1, &row) : LODE_OK;
  if (status == LODE_OK && right) status = lode_record_expand_dims(b, 2, &column);
  if (status == LODE_OK) status = matmul_matrices(left ? row : a, right ? column : b, &result);
  lode_node_unref(row);
  lode_node_unref(column);
  if (status != LODE_OK) return status;
  int64_t drop[2];
  int count = 0;
  if (right) drop[count++] = -1;
  if (left) drop[count++] = right ? -2 : result->shape.ndim - 1;
  if (count == 0) *out = lode_node_ref(result);
  else status = lode_record_squeeze(result, drop, count, out);
  lode_node_unref(result);
  return status;
}

lode_status lode_record_matmul(lode_node *a, lode_node *b, lode_node **out) {
  LODE_TRY(check_matmul(a, b));
  lode_dtype dtype = lode_dtype_promote((lode_dtype)a->dtype, (lode_dtype)b->dtype);
  if (dtype == LODE_BOOL)
    return lode_fail(&a->context->error, LODE_INVALID,
                     "matmul: dtype bool is not possible here; convert with :to(\"i32\")");
  lode_node *left, *right;
  LODE_TRY(lode_record_cast(a, dtype, &left));
  lode_status status = lode_record_cast(b, dtype, &right);
  if (status == LODE_OK) {
    status = matmul_vectors(left, right, out);
    lode_node_unref(right);
  }
  lode_node_unref(left);
  return status;
}

/* ---- factor and solve: recording ------------------------------------------------------- */

static lode_status new_factor(lode_node *a, const char *who, lode_method method, lode_factor **out) {
  lode_factor *factor = calloc(1, sizeof *factor);
  if (factor == NULL) return lode_fail(&a->context->error, LODE_NOMEM, "%s: no host memory for a factor", who);
  factor->refs = 1;
  factor->context = a->context;
  factor->device = a->device;
  factor->dtype = (lode_dtype)a->dtype;
  factor->method = method;
  factor->batch_shape = batch_of(&a->shape);
  factor->batch = lode_shape_count(&factor->batch_shape);
  factor->n = a->shape.dim[a->shape.ndim - 1];
  *out = factor;
  return LODE_OK;
}

/* A FACTOR, SOLVE or INFO node that shares `factor`. */
static lode_status factor_node(lode_node_kind kind, lode_factor *factor, lode_dtype dtype, lode_device *device,
                               const lode_shape *shape, lode_node *const *input, int count, lode_node **out) {
  lode_node *node = lode_node_new(factor->context, kind, dtype, device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.factor = lode_factor_ref(factor);
  LODE_TRY(lode_node_inputs(node, input, count));
  *out = node;
  return LODE_OK;
}

/* Gives the node the fault that its failure will be raised as. Steals the node on failure. */
static lode_status may_raise(lode_node *node, const char *who, const char *where) {
  node->own_fault = lode_fault_new(node->as.factor, who, where);
  if (node->own_fault != NULL) return LODE_OK;
  lode_fail(&node->context->error, LODE_NOMEM, "%s: no host memory to note a failure", who);
  lode_node_unref(node);
  return LODE_NOMEM;
}

/* a: [..., n, n] of a floating dtype. */
static lode_status record_factor(lode_node *a, const char *who, lode_method method, const char *where,
                                 bool raises, lode_node **out) {
  lode_factor *factor = NULL;
  lode_node *stack, *node = NULL;
  lode_shape batch = batch_of(&a->shape);
  LODE_TRY(as_stack(a, who, &batch, &stack));
  lode_status status = new_factor(a, who, method, &factor);
  if (status == LODE_OK) {
    status = factor_node(LODE_NODE_FACTOR, factor, factor->dtype, a->device, &stack->shape, &stack, 1, &node);
    lode_factor_unref(factor);
  }
  lode_node_unref(stack);
  if (status == LODE_OK && raises) status = may_raise(node, who, where);
  return status == LODE_OK ? lode_node_recorded(node, out) : status;
}

lode_status lode_record_factor(lode_node *a, const char *who, lode_method method, const char *where,
                               bool raises, lode_node **out) {
  lode_context *context = a->context;
  lode_text text;
  int ndim = a->shape.ndim;
  if (ndim < 2 || a->shape.dim[ndim - 1] != a->shape.dim[ndim - 2])
    return lode_fail(&context->error, LODE_INVALID, "%s: shape %s is not a square matrix or a batch of them",
                     who, lode_shape_print(&a->shape, &text));
  lode_dtype dtype = (lode_dtype)a->dtype;
  if (lode_dtype_kind(dtype) != LODE_KIND_FLOAT) dtype = context->default_dtype;
  lode_node *converted;
  LODE_TRY(lode_record_cast(a, dtype, &converted));
  lode_status status = record_factor(converted, who, method, where, raises, out);
  lode_node_unref(converted);
  return status;
}

/* Are b's dims [batch..., n], one right-hand side each? */
static bool is_vector(const lode_factor *factor, const lode_shape *b) {
  const lode_shape *batch = &factor->batch_shape;
  if (b->ndim != batch->ndim + 1) return false;
  for (int d = 0; d < batch->ndim; d++)
    if (b->dim[d] != batch->dim[d]) return false;
  return b->dim[b->ndim - 1] == factor->n;
}

static lode_status mismatched(lode_node *a, lode_node *b, const char *who) {
  lode_factor *factor = a->as.factor;
  lode_shape system = factor->batch_shape;
  lode_text left, right;
  system.dim[system.ndim++] = factor->n;
  system.dim[system.ndim++] = factor->n;
  return lode_fail(&a->context->error, LODE_INVALID,
                   "%s: matrix %s and right-hand side %s do not match (it needs %" PRId64 " row%s)", who,
                   lode_shape_print(&system, &left), lode_shape_print(&b->shape, &right), factor->n,
                   factor->n == 1 ? "" : "s");
}

/* b as [batch, n, k], and the shape that the solution has. */
static lode_status right_hand_sides(lode_node *a, lode_node *b, const char *who, lode_node **out,
                                    lode_shape *shape) {
  lode_factor *factor = a->as.factor;
  lode_node *matrix = NULL;
  lode_status status = LODE_OK;
  *shape = factor->batch_shape;
  if (is_vector(factor, &b->shape)) {
    shape->dim[shape->ndim++] = factor->n;
    status = lode_record_expand_dims(b, -1, &matrix);
  } else if (b->shape.ndim >= 2 && b->shape.dim[b->shape.ndim - 2] == factor->n &&
             b->shape.ndim <= factor->batch_shape.ndim + 2) {
    shape->dim[shape->ndim++] = factor->n;
    shape->dim[shape->ndim++] = b->shape.dim[b->shape.ndim - 1];
    matrix = lode_node_ref(b);
  } else {
    return mismatched(a, b, who);
  }
  if (status == LODE_OK) status = as_stack(matrix, who, &factor->batch_shape, out);
  lode_node_unref(matrix);
  return status;
}

static lode_status record_solve(lode_node *a, lode_node *b, const char *who, const char *where, bool raises,
                                lode_node **out) {
  lode_node *stack = NULL, *node = NULL;
  lode_shape shape;
  lode_status status = right_hand_sides(a, b, who, &stack, &shape);
  if (status != LODE_OK) return status;
  lode_node *input[2] = {a, stack};
  status = factor_node(LODE_NODE_SOLVE, a->as.factor, a->as.factor->dtype, a->device, &stack->shape, input, 2,
                       &node);
  lode_node_unref(stack);
  if (status == LODE_OK && raises) status = may_raise(node, who, where);
  if (status == LODE_OK) status = lode_node_recorded(node, &node);
  if (status == LODE_OK) {
    status = reshape(&node, &shape);
    *out = node;
  }
  return status;
}

lode_status lode_record_solve(lode_node *factor, lode_node *b, const char *who, const char *where, bool raises,
                              lode_node **out) {
  if (factor->device != b->device)
    return lode_fail(&b->context->error, LODE_INVALID,
                     "%s: matrix on %s and right-hand side on %s; move one with :to(\"%s\")", who,
                     factor->device->name, b->device->name, factor->device->name);
  lode_node *converted;
  LODE_TRY(lode_record_cast(b, factor->as.factor->dtype, &converted));
  lode_status status = record_solve(factor, converted, who, where, raises, out);
  lode_node_unref(converted);
  return status;
}

lode_status lode_record_info(lode_node *factor, lode_node **out) {
  lode_shape shape = {.ndim = 1, .dim = {factor->as.factor->batch}};
  lode_node *node;
  LODE_TRY(factor_node(LODE_NODE_INFO, factor->as.factor, LODE_I32, factor->device, &shape, &factor, 1, &node));
  LODE_TRY(lode_node_recorded(node, &node));
  lode_status status = reshape(&node, &factor->as.factor->batch_shape);
  *out = node;
  return status;
}

/* ---- computing: products ------------------------------------------------------------------ */

/* Can BLAS read it as it lies: one stride of 1, the other at least as long as a row or column? */
static bool as_matrix(const lode_node *node, lode_matrix *out) {
  int64_t rows = node->shape.dim[1], columns = node->shape.dim[2];
  int64_t row = node->stride[1], column = node->stride[2];
  if (columns == 1 && rows > 1 && row >= 1) column = 1;
  if (rows == 1) row = column == 1 || columns == 1 ? columns : 1;
  if (rows == 1 && columns == 1) column = 1;
  bool by_row = column == 1 && row >= columns, by_column = row == 1 && column >= rows;
  size_t size = lode_dtype_size((lode_dtype)node->dtype);
  *out = (lode_matrix){.base = (char *)node->storage->block + node->offset * (int64_t)size,
                       .batch = node->stride[0],
                       .row = row,
                       .column = column};
  return by_row || by_column;
}

/* *node, or a dense copy of it: a reference either way. */
static lode_status dense(lode_node *node, bool as_it_is, lode_node **out) {
  if (as_it_is) {
    *out = lode_node_ref(node);
    return LODE_OK;
  }
  lode_node *copy =
      lode_node_new(node->context, LODE_NODE_CAST, (lode_dtype)node->dtype, node->device, &node->shape);
  if (copy == NULL) return LODE_NOMEM;
  lode_status status = lode_plan_copy(copy, node);
  if (status != LODE_OK) lode_node_unref(copy);
  else *out = copy;
  return status;
}

static lode_status run_product(lode_node *node, lode_node *a, lode_node *b, lode_storage *c) {
  lode_context *context = node->context;
  lode_stream *stream;
  LODE_TRY(lode_context_stream(context, node->device, &stream));
  LODE_TRY(lode_compute_touch(context, stream, a->storage, false));
  LODE_TRY(lode_compute_touch(context, stream, b->storage, false));
  LODE_TRY(lode_compute_touch(context, stream, c, true));
  LODE_TRY(lode_fault_merge(&node->fault, a->fault, &context->error));
  LODE_TRY(lode_fault_merge(&node->fault, b->fault, &context->error));
  lode_product_args args = {.dtype = (lode_dtype)node->dtype,
                            .batch = node->shape.dim[0],
                            .m = node->shape.dim[1],
                            .n = node->shape.dim[2],
                            .k = a->shape.dim[2],
                            .c = c->block};
  as_matrix(a, &args.a);
  as_matrix(b, &args.b);
  if (lode_shape_count(&node->shape) == 0) return LODE_OK;
  lode_explain_work(node, "a product");
  lode_count(node->device, LODE_COUNT_products);
  lode_status status;
  LODE_WITH_LADDER(context, node->device, status, node->device->api->product(stream, &args, &context->error));
  LODE_TRY(lode_context_named(context, "matmul", status));
  return context->recipe == NULL ? LODE_OK : lode_recipe_product(context->recipe, &args, a, b, c);
}

lode_status lode_compute_matmul(lode_node *node) {
  lode_matrix unused;
  lode_node *a, *b;
  lode_storage *c;
  LODE_TRY(dense(node->input[0], as_matrix(node->input[0], &unused), &a));
  lode_status status = dense(node->input[1], as_matrix(node->input[1], &unused), &b);
  if (status == LODE_OK) {
    status = lode_storage_new(node->context, "matmul", node->device, lode_node_bytes(node), &c);
    if (status == LODE_OK) {
      status = run_product(node, a, b, c);
      if (status == LODE_OK) lode_node_settle(node, c);
      else lode_storage_unref(c);
    }
    lode_node_unref(b);
  }
  lode_node_unref(a);
  return status;
}

/* ---- computing: factors and solves ----------------------------------------------------------- */

/* The public function that asked, as far as it is known: solve_ex keeps no fault. */
static const char *called(const lode_node *node) {
  return node->own_fault != NULL ? node->own_fault->who : "solve";
}

static lode_status factor_storages(lode_node *node, lode_factor *factor) {
  lode_context *context = node->context;
  size_t entries = (size_t)factor->batch * (size_t)factor->n;
  size_t bytes = entries * (size_t)factor->n * lode_dtype_size(factor->dtype);
  const char *who = called(node);
  LODE_TRY(lode_context_named(context, who, outcome_new(factor, &context->error)));
  LODE_TRY(lode_storage_new(context, who, node->device, bytes, &factor->packed));
  LODE_TRY(lode_storage_new(context, who, node->device, entries * sizeof(int64_t), &factor->pivots));
  return lode_storage_new(context, who, node->device, (size_t)factor->batch * sizeof(int32_t), &factor->info);
}

static lode_status run_factor(lode_node *node, lode_node *a, lode_factor *factor) {
  lode_context *context = node->context;
  lode_stream *stream;
  LODE_TRY(lode_context_stream(context, node->device, &stream));
  LODE_TRY(lode_compute_touch(context, stream, a->storage, false));
  LODE_TRY(lode_compute_touch(context, stream, factor->packed, true));
  LODE_TRY(lode_compute_touch(context, stream, factor->pivots, true));
  LODE_TRY(lode_compute_touch(context, stream, factor->info, true));
  LODE_TRY(lode_fault_merge(&node->fault, a->fault, &context->error));
  size_t size = lode_dtype_size(factor->dtype);
  lode_factor_args args = {.dtype = factor->dtype,
                           .batch = factor->batch,
                           .n = factor->n,
                           .method = factor->method,
                           .a = (char *)a->storage->block + a->offset * (int64_t)size,
                           .packed = factor->packed->block,
                           .pivots = factor->pivots->block,
                           .info = factor->info->block,
                           .outcome = factor->outcome};
  lode_explain_work(node, "a factorization");
  lode_count(node->device, LODE_COUNT_factors);
  lode_status status;
  LODE_WITH_LADDER(context, node->device, status, node->device->api->factor(stream, &args, &context->error));
  LODE_TRY(lode_context_named(context, called(node), status));
  return context->recipe == NULL ? LODE_OK : lode_recipe_factor(context->recipe, &args, a, factor);
}

static void drop_storages(lode_factor *factor) {
  lode_storage_unref(factor->packed);
  lode_storage_unref(factor->pivots);
  lode_storage_unref(factor->info);
  factor->packed = factor->pivots = factor->info = NULL;
}

/* The node keeps its kind and its factor: what solves with it need. Its storage is the packed factor. */
lode_status lode_compute_factor(lode_node *node) {
  lode_factor *factor = node->as.factor;
  lode_node *a;
  LODE_TRY(dense(node->input[0], lode_node_contiguous(node->input[0]), &a));
  lode_status status = factor_storages(node, factor);
  if (status == LODE_OK) status = run_factor(node, a, factor);
  lode_node_unref(a);
  if (status != LODE_OK) {
    drop_storages(factor);
    return status;
  }
  lode_node *before = node->input[0];
  node->ninputs = 0;
  node->weight = 0;
  node->storage = lode_storage_ref(factor->packed);
  lode_shape_strides(&node->shape, node->stride);
  lode_node_unref(before);
  return LODE_OK;
}

static lode_status run_solve(lode_node *node, lode_storage *x) {
  lode_context *context = node->context;
  lode_factor *factor = node->as.factor;
  lode_stream *stream;
  LODE_TRY(lode_plan_into(node->input[1], x, &node->fault));
  LODE_TRY(lode_context_stream(context, node->device, &stream));
  LODE_TRY(lode_compute_touch(context, stream, factor->packed, false));
  LODE_TRY(lode_compute_touch(context, stream, factor->pivots, false));
  LODE_TRY(lode_compute_touch(context, stream, factor->info, false));
  LODE_TRY(lode_compute_touch(context, stream, x, true));
  lode_solve_args args = {.dtype = factor->dtype,
                          .batch = factor->batch,
                          .n = factor->n,
                          .k = node->shape.dim[2],
                          .packed = factor->packed->block,
                          .pivots = factor->pivots->block,
                          .info = factor->info->block,
                          .outcome = factor->outcome,
                          .x = x->block};
  if (lode_shape_count(&node->shape) > 0) {
    lode_explain_work(node, "a solve");
    lode_count(node->device, LODE_COUNT_solves);
    lode_status status = node->device->api->solve(stream, &args, &context->error);
    if (status == LODE_NOMEM) { /* as LODE_WITH_LADDER, but x may have been overwritten */
      lode_storage_relieve(context, node->device);
      LODE_TRY(lode_plan_into(node->input[1], x, &node->fault));
      status = node->device->api->solve(stream, &args, &context->error);
    }
    LODE_TRY(lode_context_named(context, called(node), status));
    if (context->recipe != NULL) LODE_TRY(lode_recipe_solve(context->recipe, &args, node, x));
  }
  LODE_TRY(lode_fault_merge(&node->fault, node->input[0]->fault, &context->error));
  return lode_fault_merge(&node->fault, node->own_fault, &context->error);
}

lode_status lode_compute_solve(lode_node *node) {
  lode_storage *x;
  LODE_TRY(lode_storage_new(node->context, "solve", node->device, lode_node_bytes(node), &x));
  lode_status status = run_solve(node, x);
  if (status != LODE_OK) lode_storage_unref(x);
  else lode_node_settle(node, x);
  return status;
}

lode_status lode_compute_info(lode_node *node) {
  lode_factor *factor = node->as.factor;
  LODE_TRY(lode_fault_merge(&node->fault, node->input[0]->fault, &node->context->error));
  lode_node_settle(node, lode_storage_ref(factor->info));
  return LODE_OK;
}
