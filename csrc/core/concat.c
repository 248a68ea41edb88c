/* Recording concat and stack: no copy, the planner turns them into index arithmetic. */
#include <inttypes.h>
#include <stdlib.h>

#include "node.h"

static lode_status check_part(lode_node *const *input, int i, int dim) {
  lode_error *error = &input[0]->context->error;
  const lode_shape *first = &input[0]->shape, *shape = &input[i]->shape;
  if (input[i]->device != input[0]->device)
    return lode_fail(error, LODE_INVALID, "concat: inputs on %s and %s; move one with :to(\"%s\")",
                     input[0]->device->name, input[i]->device->name, input[0]->device->name);
  if (shape->ndim != first->ndim)
    return lode_fail(error, LODE_INVALID, "concat: input %d has %d dim%s, input 1 has %d", i + 1, shape->ndim,
                     shape->ndim == 1 ? "" : "s", first->ndim);
  for (int d = 0; d < shape->ndim; d++)
    if (d != dim && shape->dim[d] != first->dim[d])
      return lode_fail(error, LODE_INVALID, "concat: dim %d of input %d is %" PRId64 ", input 1 has %" PRId64,
                       d + 1, i + 1, shape->dim[d], first->dim[d]);
  return LODE_OK;
}

/* The parts converted to one dtype; those without elements are left out. `part` has room for
 * all, `*kept` references are given. */
static lode_status convert_parts(lode_node *const *input, int count, int dim, lode_dtype dtype,
                                 lode_node **part, int *kept) {
  *kept = 0;
  for (int i = 0; i < count; i++) {
    if (input[i]->shape.dim[dim] == 0) continue;
    LODE_TRY(lode_record_cast(input[i], dtype, &part[*kept]));
    ++*kept;
  }
  return LODE_OK;
}

static lode_status concat_of(lode_context *context, lode_node *const *part, int count, lode_dtype dtype,
                             int dim, const lode_shape *shape, lode_node **out) {
  lode_node *node = lode_node_new(context, LODE_NODE_CONCAT, dtype, part[0]->device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.dim = dim;
  lode_status status = lode_node_inputs(node, part, count);
  if (status != LODE_OK) {
    lode_node_unref(node);
    return status;
  }
  return lode_node_recorded(node, out);
}

lode_status lode_record_concat(lode_context *context, lode_node *const *input, int count, int64_t dim,
                               lode_node **out) {
  lode_error *error = &context->error;
  if (count == 0) return lode_fail(error, LODE_INVALID, "concat: no inputs");
  int d;
  LODE_TRY(lode_dim_resolve(error, "concat", dim, input[0]->shape.ndim, &d));
  lode_shape shape = input[0]->shape;
  lode_dtype dtype = (lode_dtype)input[0]->dtype;
  shape.dim[d] = 0;
  for (int i = 0; i < count; i++) {
    LODE_TRY(check_part(input, i, d));
    if (__builtin_add_overflow(shape.dim[d], input[i]->shape.dim[d], &shape.dim[d]))
      return lode_fail(error, LODE_INVALID, "concat: dim %d has more elements than 64 bits can count", d + 1);
    dtype = lode_dtype_promote(dtype, (lode_dtype)input[i]->dtype);
  }
  LODE_TRY(lode_shape_check(error, "concat", &shape));
  lode_node **part = malloc((size_t)count * sizeof *part);
  if (part == NULL) return lode_fail(error, LODE_NOMEM, "concat: no host memory for %d inputs", count);
  int kept;
  lode_status status = convert_parts(input, count, d, dtype, part, &kept);
  if (status == LODE_OK && kept == 1) {
    *out = lode_node_ref(part[0]);
  } else if (status == LODE_OK && kept == 0) {
    status = lode_record_cast(input[0], dtype, out);
  } else if (status == LODE_OK) {
    status = concat_of(context, part, kept, dtype, d, &shape, out);
  }
  for (int i = 0; i < kept; i++) lode_node_unref(part[i]);
  free(part);
  return status;
}

lode_status lode_record_stack(lode_context *context, lode_node *const *input, int count, int64_t dim,
                              lode_node **out) {
  lode_error *error = &context->error;
  if (count == 0) return lode_fail(error, LODE_INVALID, "stack: no inputs");
  for (int i = 1; i < count; i++) {
    lode_text first, other;
    if (!lode_shape_equal(&input[i]->shape, &input[0]->shape))
      return lode_fail(error, LODE_INVALID, "stack: shape of input %d is %s, input 1 has %s", i + 1,
                       lode_shape_print(&input[i]->shape, &other), lode_shape_print(&input[0]->shape, &first));
  }
  int d;
  LODE_TRY(lode_dim_resolve(error, "stack", dim, input[0]->shape.ndim + 1, &d));
  lode_node **part = malloc((size_t)count * sizeof *part);
  if (part == NULL) return lode_fail(error, LODE_NOMEM, "stack: no host memory for %d inputs", count);
  lode_status status = LODE_OK;
  int made = 0;
  while (made < count && status == LODE_OK) {
    status = lode_record_expand_dims(input[made], d + 1, &part[made]);
    if (status == LODE_OK) made++;
  }
  if (status == LODE_OK) status = lode_record_concat(context, part, count, d + 1, out);
  for (int i = 0; i < made; i++) lode_node_unref(part[i]);
  free(part);
  return status;
}
