/* Recording reductions. Their order of combination is in reduce.h.
 *
 * A variance is the mean of squared deviations. Of rows it is recorded as that, since
 * there a pass by rows makes it of values that it has, and fuses it with what else is done with
 * the rows. All else would be read twice, so it is one reduction, m2 (moments.h), which reads it
 * once; and with the mean, where that is computed too, since both end the same pass (share.c).
 * Shape and dims alone decide, so that bits never depend on what is fused. */
#include "reduce.h"

#include <inttypes.h>
#include <string.h>

#include "plan.h"

static lode_status accumulator(lode_node *input, lode_reduction reduction, lode_dtype *out) {
  lode_dtype dtype = (lode_dtype)input->dtype;
  const lode_op_info *info = &lode_reductions[reduction];
  *out = dtype;
  if (reduction == LODE_RED_sum || reduction == LODE_RED_prod) {
    if (lode_dtype_kind(dtype) != LODE_KIND_FLOAT) *out = LODE_I64;
  } else if (info->rule == LODE_RULE_NUMERIC && dtype == LODE_BOOL) {
    return lode_fail(&input->context->error, LODE_INVALID,
                     "%s: dtype bool is not possible here; use all or any", info->name);
  } else if (info->rule == LODE_RULE_LOGICAL && dtype != LODE_BOOL) {
    return lode_fail(&input->context->error, LODE_INVALID,
                     "%s: dtype %s is not possible here; compare first, as in "
                     "x:not_equal(0)",
                     info->name, lode_dtype_name(dtype));
  }
  return LODE_OK;
}

/* What a reduction of no elements gives: a sum is 0 (not -0.0), a product 1. */
static lode_status empty_result(lode_node *input, lode_reduction reduction, lode_dtype dtype,
                                const lode_shape *shape, lode_node **out) {
  const char *who = lode_reductions[reduction].name;
  lode_text text;
  if (reduction == LODE_RED_min || reduction == LODE_RED_max)
    return lode_fail(&input->context->error, LODE_INVALID, "%s: no elements to reduce in shape %s", who,
                     lode_shape_print(&input->shape, &text));
  bool one = reduction == LODE_RED_prod || reduction == LODE_RED_all;
  lode_operand number = {.integer_valued = true, .integer = one, .number = one};
  lode_scalar value;
  LODE_TRY(lode_scalar_from(&input->context->error, who, &number, dtype, &value));
  return lode_record_fill(input->context, who, input->device, shape, dtype, value, out);
}

static lode_status drop_dims(lode_node **node, unsigned mask) {
  int64_t dims[LODE_MAX_DIMS];
  int count = 0;
  for (int d = 0; d < LODE_MAX_DIMS; d++)
    if (mask & 1u << d) dims[count++] = d + 1;
  if (count == 0) return LODE_OK;
  lode_node *squeezed = NULL;
  lode_status status = lode_record_squeeze(*node, dims, count, &squeezed);
  lode_node_unref(*node);
  *node = squeezed;
  return status;
}

static lode_status reduce_node(lode_node *input, lode_reduction reduction, unsigned mask, lode_dtype dtype,
                               lode_node **out) {
  lode_context *context = input->context;
  lode_shape shape = input->shape;
  int64_t reduced = 1;
  for (int d = 0; d < shape.ndim; d++) {
    if (!(mask & 1u << d)) continue;
    reduced *= shape.dim[d];
    shape.dim[d] = 1;
  }
  if (reduced == 0) return empty_result(input, reduction, dtype, &shape, out);
  lode_node *converted;
  LODE_TRY(lode_record_cast(input, dtype, &converted));
  if (mask == 0) { /* also of a 0-d tensor: each element alone */
    *out = converted;
    return LODE_OK;
  }
  lode_node *node = lode_node_new(context, LODE_NODE_REDUCE, dtype, input->device, &shape);
  lode_status status = node == NULL ? LODE_NOMEM : lode_node_inputs(node, &converted, 1);
  lode_node_unref(converted);
  if (status != LODE_OK) {
    lode_node_unref(node);
    return status;
  }
  node->op = (uint16_t)reduction;
  node->as.mask = mask;
  return lode_node_recorded(node, out);
}

lode_status lode_record_reduce(lode_node *input, lode_reduction reduction, const int64_t *dims, int count,
                               bool keepdims, lode_node **out) {
  unsigned mask;
  lode_dtype dtype;
  lode_node *node;
  LODE_TRY(lode_dims_resolve(input, lode_reductions[reduction].name, dims, count, lode_dims_all(input), &mask));
  LODE_TRY(accumulator(input, reduction, &dtype));
  LODE_TRY(reduce_node(input, reduction, mask, dtype, &node));
  if (!keepdims) LODE_TRY(drop_dims(&node, mask));
  *out = node;
  return LODE_OK;
}

/* How many elements of `input` each result is made of. */
static lode_status count_reduced(lode_node *input, const char *who, const int64_t *dims, int count,
                                 int64_t *reduced) {
  unsigned mask;
  LODE_TRY(lode_dims_resolve(input, who, dims, count, lode_dims_all(input), &mask));
  *reduced = 1;
  for (int d = 0; d < input->shape.ndim; d++)
    if (mask & 1u << d) *reduced *= input->shape.dim[d];
  return LODE_OK;
}

static lode_status to_floating(lode_node *input, lode_node **out) {
  bool floating = lode_dtype_kind((lode_dtype)input->dtype) == LODE_KIND_FLOAT;
  return lode_record_cast(input, floating ? (lode_dtype)input->dtype : input->context->default_dtype, out);
}

/* A sum or m2 over `divisor`: 0 / 0, which is NaN, for no elements, as NumPy has it. `input` is floating. The
 * division is of the small result, so it is an operation like others, that fuses with what follows. */
static lode_status over(lode_node *input, lode_reduction reduction, const int64_t *dims, int count,
                        bool keepdims, double divisor, lode_node **out) {
  lode_node *reduced;
  LODE_TRY(lode_record_reduce(input, reduction, dims, count, keepdims, &reduced));
  lode_operand operand[2] = {{.node = reduced}, {.number = divisor}};
  lode_status status = lode_record_op(input->context, LODE_OP_divide, operand, out);
  lode_node_unref(reduced);
  return status;
}

lode_status lode_record_mean(lode_node *input, const int64_t *dims, int count, bool keepdims, lode_node **out) {
  int64_t reduced;
  lode_node *converted;
  LODE_TRY(count_reduced(input, "mean", dims, count, &reduced));
  LODE_TRY(to_floating(input, &converted));
  lode_status status = over(converted, LODE_RED_sum, dims, count, keepdims, (double)reduced, out);
  lode_node_unref(converted);
  return status;
}

/* The operation of one or two nodes; takes no references. */
static lode_status apply(lode_op op, lode_node *a, lode_node *b, lode_node **out) {
  lode_operand operand[2] = {{.node = a}, {.node = b}};
  return lode_record_op(a->context, op, operand, out);
}

static lode_status squared_deviations(lode_node *x, const int64_t *dims, int count, int64_t reduced,
                                      lode_node **out) {
  lode_node *mean, *deviation = NULL;
  LODE_TRY(over(x, LODE_RED_sum, dims, count, true, (double)reduced, &mean));
  lode_status status = apply(LODE_OP_subtract, x, mean, &deviation);
  if (status == LODE_OK) status = apply(LODE_OP_square, deviation, NULL, out);
  lode_node_unref(mean);
  lode_node_unref(deviation);
  return status;
}

/* `x` is floating; `reduced` of its elements make each result. */
static lode_status variance(lode_node *x, const int64_t *dims, int count, int64_t reduced, bool keepdims,
                            double divisor, lode_node **out) {
  unsigned mask;
  lode_node *squares;
  LODE_TRY(lode_dims_resolve(x, "var", dims, count, lode_dims_all(x), &mask));
  if (reduced > 1 && lode_row_of(&x->shape, mask) < 0)
    return over(x, LODE_RED_m2, dims, count, keepdims, divisor, out);
  LODE_TRY(squared_deviations(x, dims, count, reduced, &squares));
  lode_status status = over(squares, LODE_RED_sum, dims, count, keepdims, divisor, out);
  lode_node_unref(squares);
  return status;
}

lode_status lode_record_variance(lode_node *input, const int64_t *dims, int count, bool keepdims,
                                 double correction, bool root, lode_node **out) {
  int64_t reduced;
  lode_node *x, *squared = NULL;
  LODE_TRY(count_reduced(input, root ? "std" : "var", dims, count, &reduced));
  double divisor = (double)reduced > correction ? (double)reduced - correction : 0;
  LODE_TRY(to_floating(input, &x));
  lode_status status = variance(x, dims, count, reduced, keepdims, divisor, root ? &squared : out);
  if (status == LODE_OK && root) status = apply(LODE_OP_sqrt, squared, NULL, out);
  lode_node_unref(x);
  lode_node_unref(squared);
  return status;
}
