/* Recording tensors that come from nothing: fills, counters, random numbers. */
#include <string.h>

#include "node.h"

lode_status lode_record_fill(lode_context *context, const char *who, lode_device *device,
                             const lode_shape *shape, lode_dtype dtype, lode_scalar value, lode_node **out) {
  LODE_TRY(lode_shape_check(&context->error, who, shape));
  lode_node *node = lode_node_new(context, LODE_NODE_FILL, dtype, device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.value = value;
  *out = node;
  return LODE_OK;
}

lode_status lode_record_iota(lode_context *context, const char *who, lode_device *device,
                             const lode_shape *shape, int64_t start, lode_node **out) {
  LODE_TRY(lode_shape_check(&context->error, who, shape));
  lode_node *node = lode_node_new(context, LODE_NODE_IOTA, LODE_I64, device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.value.i64 = start;
  *out = node;
  return LODE_OK;
}

/* *node = op(*node, number), replacing the reference also on failure (with NULL). */
static lode_status with_number(lode_context *context, const char *who, lode_op op, lode_node **node,
                               const lode_operand *number) {
  lode_scalar unused; /* a number that does not fit is the caller's mistake, and named as such */
  lode_node *result = NULL;
  lode_status status = lode_scalar_from(&context->error, who, number, (lode_dtype)(*node)->dtype, &unused);
  if (status == LODE_OK) {
    lode_operand operand[2] = {{.node = *node}, *number};
    status = lode_record_op(context, op, operand, &result);
  }
  lode_node_unref(*node);
  *node = result;
  return status;
}

static lode_status with_cast(lode_node **node, lode_dtype dtype) {
  lode_node *result = NULL;
  lode_status status = lode_record_cast(*node, dtype, &result);
  lode_node_unref(*node);
  *node = result;
  return status;
}

lode_status lode_record_arange(lode_context *context, const char *who, lode_device *device, lode_dtype dtype,
                               const lode_operand *start, const lode_operand *step, int64_t count,
                               lode_node **out) {
  lode_shape shape = {.ndim = 1, .dim = {count}};
  lode_node *node;
  bool floating = lode_dtype_kind(dtype) == LODE_KIND_FLOAT;
  LODE_TRY(lode_record_iota(context, who, device, &shape, 0, &node));
  lode_status status = with_cast(&node, floating ? LODE_F64 : LODE_I64);
  if (status == LODE_OK) status = with_number(context, who, LODE_OP_multiply, &node, step);
  if (status == LODE_OK) status = with_number(context, who, LODE_OP_add, &node, start);
  if (status == LODE_OK) status = with_cast(&node, dtype);
  if (status == LODE_OK) *out = node;
  return status;
}

lode_status lode_record_eye(lode_context *context, lode_device *device, lode_dtype dtype, int64_t rows,
                            int64_t columns, lode_node **out) {
  lode_shape down = {.ndim = 2, .dim = {rows, 1}}, across = {.ndim = 1, .dim = {columns}};
  lode_node *i, *j, *equal;
  LODE_TRY(lode_record_iota(context, "eye", device, &down, 0, &i));
  lode_status status = lode_record_iota(context, "eye", device, &across, 0, &j);
  if (status == LODE_OK) {
    lode_operand operand[2] = {{.node = i}, {.node = j}};
    status = lode_record_op(context, LODE_OP_equal, operand, &equal);
    lode_node_unref(j);
  }
  lode_node_unref(i);
  if (status != LODE_OK) return status;
  status = with_cast(&equal, dtype);
  *out = equal;
  return status;
}

lode_status lode_record_random(lode_context *context, lode_op op, lode_device *device, const lode_shape *shape,
                               lode_dtype dtype, int64_t seed, lode_node **out) {
  const char *who = lode_ops[op].name;
  if (lode_dtype_kind(dtype) != LODE_KIND_FLOAT)
    return lode_fail(&context->error, LODE_INVALID, "%s: dtype %s is not possible here; f32 or f64 is needed",
                     who, lode_dtype_name(dtype));
  lode_node *input[2] = {NULL, NULL}, *node = NULL;
  lode_scalar key = {.i64 = seed};
  LODE_TRY(lode_record_iota(context, who, device, shape, 0, &input[0]));
  lode_status status = lode_record_fill(context, who, device, shape, LODE_I64, key, &input[1]);
  if (status == LODE_OK) {
    node = lode_node_new(context, LODE_NODE_OP, dtype, device, shape);
    status = node == NULL ? LODE_NOMEM : lode_node_inputs(node, input, 2);
  }
  lode_node_unref(input[0]);
  lode_node_unref(input[1]);
  if (status != LODE_OK) {
    lode_node_unref(node);
    return status;
  }
  node->op = (uint16_t)op;
  node->keep = true; /* ten rounds of Philox an element: made once, not again for each use */
  return lode_node_recorded(node, out);
}
