/* Elementwise operations: one function for all of ops.def, in the module, as
 * methods and as operators. */
#include "binding.h"

/* Numbers first: reading one may run Lua (int64 cdata), after which no node may be borrowed yet. */
static void read_operands(const lode_call *c, int count, lode_operand *out) {
  lode_handle *handle[3];
  bool any = false;
  for (int i = 0; i < count; i++) {
    out[i].node = NULL;
    handle[i] = lode_test(c, i + 1, LODE_TYPE_TENSOR);
    if (handle[i] != NULL && handle[i]->node != NULL) any = true;
    else if (!lode_number(c, i + 1, &out[i])) lode_argument_error(c, i + 1, "a tensor or a number");
  }
  if (!any) lode_raise(c, "no argument is a tensor");
  for (int i = 0; i < count; i++)
    if (handle[i] != NULL && (out[i].node = handle[i]->node) == NULL)
      lode_argument_error(c, i + 1, "a tensor or a number");
}

static int record_operation(lode_call *c, lode_op op) {
  lode_handle *result = lode_handle_push(c, LODE_TYPE_TENSOR);
  lode_operand operand[3];
  read_operands(c, lode_ops[op].arity, operand);
  LODE_RECORD(c, result, lode_record_op, c->context, op, operand);
  return 1;
}

static int operation(lua_State *L) {
  lode_op op = (lode_op)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, lode_ops[op].name);
  lode_arguments_end(&c, lode_ops[op].arity);
  return record_operation(&c, op);
}

/* Lua passes the operand of unary minus twice. */
static int operator_called(lua_State *L) {
  lode_op op = (lode_op)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, lode_ops[op].name);
  lua_settop(L, lode_ops[op].arity);
  return record_operation(&c, op);
}

/* *node becomes op(*node, bound), where a bound is given. */
static lode_status limit(const lode_call *c, lode_op op, const lode_operand *bound, bool given,
                         lode_node **node) {
  if (!given) return LODE_OK;
  lode_operand operand[2] = {{.node = *node}, *bound};
  lode_node *limited;
  LODE_TRY(lode_record_op(c->context, op, operand, &limited));
  lode_node_unref(*node);
  *node = limited;
  return LODE_OK;
}

static lode_status clip(const lode_call *c, const lode_operand *operand, const bool *given, lode_node **out) {
  lode_node *node = lode_node_ref(operand[0].node);
  lode_status status = limit(c, LODE_OP_maximum, &operand[1], given[1], &node);
  if (status == LODE_OK) status = limit(c, LODE_OP_minimum, &operand[2], given[2], &node);
  if (status == LODE_OK) *out = node;
  else lode_node_unref(node);
  return status;
}

/* clip(x, lo, hi) = minimum(maximum(x, lo), hi); either bound may be nil. */
static int elementwise_clip(lua_State *L) {
  lode_call c = lode_enter(L, "clip");
  lode_arguments_end(&c, 3);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  bool given[3] = {true, !lua_isnil(L, 2), !lua_isnil(L, 3)};
  lode_operand operand[3] = {{.node = NULL}, {.node = NULL}, {.node = NULL}};
  for (int i = 1; i < 3; i++)
    if (given[i] && lode_test(&c, i + 1, LODE_TYPE_TENSOR) == NULL && !lode_number(&c, i + 1, &operand[i]))
      lode_argument_error(&c, i + 1, "a tensor or a number");
  for (int i = 0; i < 3; i++)
    if (i == 0 || (given[i] && lode_test(&c, i + 1, LODE_TYPE_TENSOR) != NULL))
      operand[i].node = lode_argument_tensor(&c, i + 1);
  LODE_RECORD(&c, result, clip, &c, operand, given);
  return 1;
}

#define EVERYWHERE (LODE_IN_MODULE | LODE_IN_TENSOR)

const lode_entry lode_elementwise_entries[] = {
#define LODE_UNARY(name, rule, expr)   {EVERYWHERE, #name, operation, LODE_OP_##name},
#define LODE_BINARY(name, rule, expr)  {EVERYWHERE, #name, operation, LODE_OP_##name},
#define LODE_TERNARY(name, rule, expr) {EVERYWHERE, #name, operation, LODE_OP_##name},
#include "core/ops.def"
    {EVERYWHERE, "clip", elementwise_clip, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_operator_meta[] = {{0, "__add", operator_called, LODE_OP_add},
                                         {0, "__sub", operator_called, LODE_OP_subtract},
                                         {0, "__mul", operator_called, LODE_OP_multiply},
                                         {0, "__div", operator_called, LODE_OP_divide},
                                         {0, "__idiv", operator_called, LODE_OP_floor_divide},
                                         {0, "__mod", operator_called, LODE_OP_remainder},
                                         {0, "__pow", operator_called, LODE_OP_pow},
                                         {0, "__unm", operator_called, LODE_OP_negative},
                                         {0, NULL, NULL, 0}};
