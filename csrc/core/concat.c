/* Recording concat and stack: no copy, the planner turns them into index arithmetic. */
#include <inttypes.h>

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

/* A new reference to a part: the input itself, or with a dim of 1 where it is stacked. */
static lode_status part_of(lode_node *input, int dim, bool stacked, lode_dtype dtype, lode_node **out) {
  if (!stacked) return lode_record_cast(input, dtype, out);
  lode_node *expanded;
  LODE_TRY(lode_record_expand_dims(input, dim + 1, &expanded));
  lode_status status = lode_record_cast(expanded, dtype, out);
  lode_node_unref(expanded);
  return status;
}

/* The node is made first: the parts, of which those without elements are left out, go straight into it. */
static lode_status join(lode_node *const *input, int count, int dim, bool stacked, const lode_shape *shape,
                        lode_node **out) {
  lode_context *context = input[0]->context;
  LODE_TRY(lode_shape_check(&context->error, "concat", shape));
  lode_dtype dtype = (lode_dtype)input[0]->dtype;
  for (int i = 1; i < count; i++) dtype = lode_dtype_promote(dtype, (lode_dtype)input[i]->dtype);
  lode_node *node = lode_node_new(context, LODE_NODE_CONCAT, dtype, input[0]->device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.dim = dim;
  lode_status status = lode_node_room(node, count);
  for (int i = 0; i < count && status == LODE_OK; i++) {
    if (!stacked && input[i]->shape.dim[dim] == 0) continue;
    status = part_of(input[i], dim, stacked, dtype, &node->input[node->ninputs]);
    if (status == LODE_OK) node->ninputs++;
  }
  if (status == LODE_OK && node->ninputs > 1) return lode_node_recorded(node, out);
  if (status == LODE_OK && node->ninputs == 1) *out = lode_node_ref(node->input[0]);
  else if (status == LODE_OK) status = lode_record_cast(input[0], dtype, out);
  lode_node_unref(node);
  return status;
}

lode_status lode_record_concat(lode_context *context, lode_node *const *input, int count, int64_t dim,
                               lode_node **out) {
  lode_error *error = &context->error;
  if (count == 0) return lode_fail(error, LODE_INVALID, "concat: no inputs");
  int d;
  LODE_TRY(lode_dim_resolve(error, "concat", dim, input[0]->shape.ndim, &d));
  lode_shape shape = input[0]->shape;
  for (int i = 1; i < count; i++) {
    LODE_TRY(check_part(input, i, d));
    if (__builtin_add_overflow(shape.dim[d], input[i]->shape.dim[d], &shape.dim[d]))
      return lode_fail(error, LODE_INVALID, "concat: dim %d has more elements than 64 bits can count", d + 1);
  }
  return join(input, count, d, false, &shape, out);
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
  lode_node *one;
  LODE_TRY(lode_record_expand_dims(input[0], d + 1, &one));
  lode_shape shape = one->shape;
  lode_node_unref(one);
  shape.dim[d] = count;
  for (int i = 1; i < count; i++) LODE_TRY(check_part(input, i, d));
  return join(input, count, d, true, &shape, out);
}
