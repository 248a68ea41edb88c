/* The factor userdata: a factorization that solves for many right-hand sides.
 *
 * It is recorded like a tensor; compute, sync and release are those of tensors. */
#include "binding.h"

static lode_handle *factor_at_1(const lode_call *c) { return lode_argument_handle(c, 1, LODE_TYPE_FACTOR); }

static int factor_solve(lua_State *L) {
  lode_call c = lode_enter(L, "solve");
  lode_arguments_end(&c, 2);
  char where[128];
  lode_where(L, c.state, where, sizeof where);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *factor = factor_at_1(&c)->node, *b = lode_argument_tensor(&c, 2);
  LODE_RECORD(&c, result, lode_record_solve, factor, b, c.who, where, true);
  return 1;
}

static int factor_solve_ex(lua_State *L) {
  lode_call c = lode_enter(L, "solve_ex");
  lode_arguments_end(&c, 2);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_handle *info = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *factor = factor_at_1(&c)->node, *b = lode_argument_tensor(&c, 2);
  LODE_RECORD(&c, info, lode_record_info, factor);
  LODE_RECORD(&c, result, lode_record_solve, factor, b, c.who, "", false);
  return 2;
}

static int factor_info(lua_State *L) {
  lode_call c = lode_enter(L, "info");
  lode_arguments_end(&c, 1);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *factor = factor_at_1(&c)->node;
  LODE_RECORD(&c, result, lode_record_info, factor);
  return 1;
}

/* ---- properties ---------------------------------------------------------------------- */

static int factor_n(lua_State *L) {
  lode_call c = lode_enter(L, "n");
  const lode_shape *shape = &factor_at_1(&c)->node->shape;
  lode_push_integer(&c, shape->dim[shape->ndim - 1]);
  return 1;
}

static int factor_dtype(lua_State *L) {
  lode_call c = lode_enter(L, "dtype");
  lua_pushstring(L, lode_dtype_name((lode_dtype)factor_at_1(&c)->node->dtype));
  return 1;
}

static int factor_device(lua_State *L) {
  lode_call c = lode_enter(L, "device");
  lua_pushstring(L, factor_at_1(&c)->node->device->name);
  return 1;
}

static int factor_tostring(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "tostring", 1};
  lode_handle *handle = lode_test(&c, 1, LODE_TYPE_FACTOR);
  if (handle == NULL || handle->node == NULL) {
    lua_pushliteral(L, "factor (released)");
    return 1;
  }
  const lode_node *node = handle->node;
  lode_text text;
  lua_pushfstring(L, "factor %s %s on %s", lode_dtype_name((lode_dtype)node->dtype),
                  lode_shape_print(&node->shape, &text), node->device->name);
  return 1;
}

const lode_entry lode_factor_properties[] = {
    {0, "n", factor_n, 0}, {0, "dtype", factor_dtype, 0}, {0, "device", factor_device, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_factor_meta[] = {{0, "__gc", lode_handle_gc, 0},
                                       {0, "__close", lode_handle_releases, 0},
                                       {0, "__index", lode_object_index, 0},
                                       {0, "__tostring", factor_tostring, 0},
                                       {0, NULL, NULL, 0}};

const lode_entry lode_factor_entries[] = {{LODE_IN_FACTOR, "solve", factor_solve, 0},
                                          {LODE_IN_FACTOR, "solve_ex", factor_solve_ex, 0},
                                          {LODE_IN_FACTOR, "info", factor_info, 0},
                                          {0, NULL, NULL, 0}};
