/* Recording elementwise operations: dtypes, broadcasting, powers. */
#include "node.h"

/* ---- dtypes ------------------------------------------------------------------ */

/* The dtype in which operands [first, arity) meet; numbers have no say. */
static bool promoted(const lode_operand *operand, int first, int arity, lode_dtype *out) {
  bool any = false;
  for (int i = first; i < arity; i++) {
    if (operand[i].node == NULL) continue;
    lode_dtype dtype = (lode_dtype)operand[i].node->dtype;
    *out = any ? lode_dtype_promote(*out, dtype) : dtype;
    any = true;
  }
  return any;
}

static lode_status refuse_dtype(lode_context *context, lode_op op, lode_dtype dtype, const char *way_out) {
  return lode_fail(&context->error, LODE_INVALID, "%s: dtype %s is not possible here; %s", lode_ops[op].name,
                   lode_dtype_name(dtype), way_out);
}

/* What operands are converted to, and what comes out. */
static lode_status apply_rule(lode_context *context, lode_op op, const lode_operand *operand, lode_dtype *in,
                              lode_dtype *out) {
  const lode_op_info *info = &lode_ops[op];
  int first = info->rule == LODE_RULE_SELECT ? 1 : 0;
  *in = context->default_dtype; /* where(c, 1, 2): numbers alone */
  promoted(operand, first, info->arity, in);
  *out = *in;
  switch (info->rule) {
  case LODE_RULE_NUMERIC:
    if (*in == LODE_BOOL) return refuse_dtype(context, op, *in, "convert with :to(\"i32\") or another dtype");
    break;
  case LODE_RULE_FLOATING:
    if (lode_dtype_kind(*in) != LODE_KIND_FLOAT) *in = context->default_dtype;
    *out = *in;
    break;
  case LODE_RULE_COMPARE:
    *out = LODE_BOOL;
    break;
  case LODE_RULE_LOGICAL:
    if (*in != LODE_BOOL)
      return refuse_dtype(context, op, *in, "bool is needed: compare first, as in x:not_equal(0)");
    break;
  case LODE_RULE_SELECT:
    if (operand[0].node == NULL || operand[0].node->dtype != LODE_BOOL)
      return lode_fail(
          &context->error, LODE_INVALID, "%s: the condition must be a bool tensor, it is %s", info->name,
          operand[0].node == NULL ? "a number" : lode_dtype_name((lode_dtype)operand[0].node->dtype));
    break;
  case LODE_RULE_COUNTER:
    break; /* made by lode_record_random alone */
  }
  return LODE_OK;
}

/* ---- operands ----------------------------------------------------------------- */

static lode_status common_device(lode_context *context, const char *who, const lode_operand *operand, int arity,
                                 lode_device **out) {
  *out = NULL;
  for (int i = 0; i < arity; i++) {
    lode_node *node = operand[i].node;
    if (node == NULL) continue;
    if (*out == NULL) *out = node->device;
    if (node->device != *out)
      return lode_fail(&context->error, LODE_INVALID, "%s: inputs on %s and %s; move one with :to(\"%s\")", who,
                       (*out)->name, node->device->name, (*out)->name);
  }
  if (*out == NULL)
    return lode_fail(&context->error, LODE_INVALID, "%s: at least one input must be a tensor", who);
  return LODE_OK;
}

static lode_status common_shape(lode_context *context, const char *who, const lode_operand *operand, int arity,
                                lode_shape *out) {
  bool any = false;
  for (int i = 0; i < arity; i++) {
    if (operand[i].node == NULL) continue;
    const lode_shape *shape = &operand[i].node->shape;
    if (!any) *out = *shape;
    any = true;
    if (lode_shape_equal(out, shape)) continue;
    lode_shape so_far = *out;
    LODE_TRY(lode_shape_broadcast(&context->error, who, &so_far, shape, out));
  }
  return LODE_OK;
}

/* A new reference to the operand as a node of that dtype and shape. */
static lode_status operand_node(lode_context *context, const char *who, const lode_operand *operand,
                                lode_dtype dtype, lode_device *device, const lode_shape *shape,
                                lode_node **out) {
  if (operand->node == NULL) {
    lode_scalar value;
    LODE_TRY(lode_scalar_from(&context->error, who, operand, dtype, &value));
    return lode_record_fill(context, who, device, shape, dtype, value, out);
  }
  if (operand->node->dtype == dtype && lode_shape_equal(&operand->node->shape, shape)) {
    *out = lode_node_ref(operand->node);
    return LODE_OK;
  }
  lode_node *cast;
  LODE_TRY(lode_record_cast(operand->node, dtype, &cast));
  lode_status status = lode_record_broadcast(cast, who, shape, out);
  lode_node_unref(cast);
  return status;
}

static lode_status record(lode_context *context, lode_op op, const lode_operand *operand, lode_dtype in,
                          lode_dtype dtype, lode_device *device, const lode_shape *shape, lode_node **out) {
  const lode_op_info *info = &lode_ops[op];
  lode_node *node = lode_node_new(context, LODE_NODE_OP, dtype, device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->op = (uint16_t)op;
  for (int i = 0; i < info->arity; i++) {
    lode_dtype wanted = info->rule == LODE_RULE_SELECT && i == 0 ? LODE_BOOL : in;
    lode_status status = operand_node(context, info->name, &operand[i], wanted, device, shape, &node->input[i]);
    if (status != LODE_OK) {
      lode_node_unref(node);
      return status;
    }
    node->ninputs++;
  }
  return lode_node_recorded(node, out);
}

/* ---- powers --------------------------------------------------------------------- */

static lode_operand of_node(lode_node *node) { return (lode_operand){.node = node}; }

static lode_operand of_integer(int64_t n) {
  return (lode_operand){.integer_valued = true, .integer = n, .number = (double)n};
}

/* Applies `op` to *node (and to `other`, where it is not NULL), replacing the reference. */
static lode_status apply(lode_context *context, lode_op op, lode_node **node, lode_node *other) {
  lode_operand operand[2] = {of_node(*node), of_node(other)};
  lode_node *result;
  LODE_TRY(lode_record_op(context, op, operand, &result));
  lode_node_unref(*node);
  *node = result;
  return LODE_OK;
}

/* x^n for the exponents that are cheaper and no less exact as products; *done says whether. x^0.5 is the square
 * root, as in NumPy: it differs from pow at -0.0 and -inf alone. */
static lode_status small_power(lode_context *context, lode_node *x, const lode_operand *exponent, bool *done,
                               lode_node **out) {
  double n = exponent->integer_valued ? (double)exponent->integer : exponent->number;
  bool floating = lode_dtype_kind((lode_dtype)x->dtype) == LODE_KIND_FLOAT;
  *done =
      x->dtype != LODE_BOOL && (n == 1 || n == 2 || n == 3 || n == 4 || (floating && (n == -1 || n == 0.5)));
  if (!*done) return LODE_OK;
  lode_node *node = lode_node_ref(x);
  lode_status status = LODE_OK;
  if (n == 0.5) status = apply(context, LODE_OP_sqrt, &node, NULL);
  if (n == 2 || n == 3 || n == 4) status = apply(context, LODE_OP_square, &node, NULL);
  if (status == LODE_OK && n == 4) status = apply(context, LODE_OP_square, &node, NULL);
  if (status == LODE_OK && n == 3) status = apply(context, LODE_OP_multiply, &node, x);
  if (status == LODE_OK && n < 0) {
    lode_operand operand[2] = {of_integer(1), of_node(node)};
    lode_node *inverse;
    status = lode_record_op(context, LODE_OP_divide, operand, &inverse);
    if (status == LODE_OK) {
      lode_node_unref(node);
      node = inverse;
    }
  }
  if (status != LODE_OK) lode_node_unref(node);
  else *out = node;
  return status;
}

lode_status lode_record_op(lode_context *context, lode_op op, const lode_operand *operand, lode_node **out) {
  const lode_op_info *info = &lode_ops[op];
  lode_device *device;
  lode_dtype in, dtype;
  lode_shape shape;
  LODE_TRY(common_device(context, info->name, operand, info->arity, &device));
  LODE_TRY(apply_rule(context, op, operand, &in, &dtype));
  if (op == LODE_OP_pow && operand[0].node != NULL && operand[1].node == NULL) {
    bool done;
    LODE_TRY(small_power(context, operand[0].node, &operand[1], &done, out));
    if (done) return LODE_OK;
  }
  LODE_TRY(common_shape(context, info->name, operand, info->arity, &shape));
  return record(context, op, operand, in, dtype, device, &shape, out);
}

lode_status lode_record_cast(lode_node *input, lode_dtype dtype, lode_node **out) {
  if (input->dtype == dtype) {
    *out = lode_node_ref(input);
    return LODE_OK;
  }
  lode_node *node = lode_node_new(input->context, LODE_NODE_CAST, dtype, input->device, &input->shape);
  if (node == NULL) return LODE_NOMEM;
  LODE_TRY(lode_node_inputs(node, &input, 1));
  return lode_node_recorded(node, out);
}
