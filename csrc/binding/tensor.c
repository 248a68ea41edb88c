/* The tensor userdata: properties, indexing, and what Lua's operators mean.
 *
 * Methods and properties are in two tables that every metamethod has as upvalues;
 * arithmetic operators are the operations of ops.def. */
#include <inttypes.h>
#include <string.h>

#include "binding.h"

/* ---- properties: functions of the tensor ------------------------------------------ */

static int tensor_shape(lua_State *L) {
  lode_call c = lode_enter(L, "shape");
  const lode_shape shape = lode_argument_tensor(&c, 1)->shape;
  lua_createtable(L, shape.ndim, 0);
  for (int d = 0; d < shape.ndim; d++) {
    lode_push_integer(&c, shape.dim[d]);
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

static int tensor_dtype(lua_State *L) {
  lode_call c = lode_enter(L, "dtype");
  lua_pushstring(L, lode_dtype_name((lode_dtype)lode_argument_tensor(&c, 1)->dtype));
  return 1;
}

static int tensor_device(lua_State *L) {
  lode_call c = lode_enter(L, "device");
  lua_pushstring(L, lode_argument_tensor(&c, 1)->device->name);
  return 1;
}

static int tensor_ndim(lua_State *L) {
  lode_call c = lode_enter(L, "ndim");
  lua_pushinteger(L, lode_argument_tensor(&c, 1)->shape.ndim);
  return 1;
}

static int tensor_size(lua_State *L) {
  lode_call c = lode_enter(L, "size");
  lode_push_integer(&c, lode_shape_count(&lode_argument_tensor(&c, 1)->shape));
  return 1;
}

static int tensor_transposed(lua_State *L) {
  lode_call c = lode_enter(L, "T");
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_transpose, input);
  return 1;
}

const lode_entry lode_tensor_properties[] = {{0, "shape", tensor_shape, 0},
                                             {0, "dtype", tensor_dtype, 0},
                                             {0, "device", tensor_device, 0},
                                             {0, "ndim", tensor_ndim, 0},
                                             {0, "size", tensor_size, 0},
                                             {0, "T", tensor_transposed, 0},
                                             {0, NULL, NULL, 0}};

/* ---- names that other libraries have --------------------------------------------------- */

static const struct {
  const char *name, *hint;
} names_elsewhere[] = {
    {"cat", "concat?"},
    {"unsqueeze", "expand_dims?"},
    {"transpose", "T or permute_dims?"},
    {"t", "T?"},
    {"permute", "permute_dims?"},
    {"expand", "broadcast_to?"},
    {"eq", "equal?"},
    {"ne", "not_equal?"},
    {"lt", "less?"},
    {"le", "less_equal?"},
    {"gt", "greater?"},
    {"ge", "greater_equal?"},
    {"mm", "matmul?"},
    {"bmm", "matmul?"},
    {"dot", "matmul?"},
    {"view", "reshape?"},
    {"flatten", "reshape(-1)?"},
    {"clamp", "clip?"},
    {"sub", "subtract?"},
    {"mul", "multiply?"},
    {"div", "divide?"},
    {"neg", "negative?"},
    {"argmax", "not yet in lode"},
    {"argmin", "not yet in lode"},
    {"sort", "not yet in lode"},
};

const char *lode_hint(const char *name) {
  for (size_t i = 0; i < sizeof names_elsewhere / sizeof *names_elsewhere; i++)
    if (strcmp(name, names_elsewhere[i].name) == 0) return names_elsewhere[i].hint;
  return NULL;
}

/* hint(name): what a name of another library is called here, or nil. */
static int tensor_hint(lua_State *L) {
  lua_pushstring(L, lua_type(L, 1) == LUA_TSTRING ? lode_hint(lua_tostring(L, 1)) : NULL);
  return 1;
}

/* ---- indexing ------------------------------------------------------------------------ */

/* t[{...}]: entry i, a table at the top: {} is all, {first, last[, step]} a range. Leaves its parts above it.
 */
static void range_of(const lode_call *c, int i, lode_index *out) {
  lua_State *L = c->L;
  int table = lua_gettop(L);
  size_t length = lua_rawlen(L, table);
  if (length == 0 && !lode_has_fields(c, table)) {
    out->kind = LODE_INDEX_ALL;
    return;
  }
  if (length != 2 && length != 3)
    lode_raise(c, "entry %d has %zu element%s; a range is {first, last} or {first, last, step}", i, length,
               length == 1 ? "" : "s");
  int64_t *const part[] = {&out->first, &out->last, &out->step};
  for (int k = 0; k < (int)length; k++) {
    lua_rawgeti(L, table, k + 1);
    if (!lode_integer(c, -1, part[k])) lode_raise(c, "entry %d of the index: a range is made of integers", i);
  }
  out->kind = LODE_INDEX_RANGE;
}

static int indices_of(const lode_call *c, lode_index *out) {
  lua_State *L = c->L;
  size_t length = lua_rawlen(L, 2);
  if (length > LODE_MAX_DIMS) lode_raise(c, "%zu indices, at most %d are possible", length, LODE_MAX_DIMS);
  if (length == 0 && lode_has_fields(c, 2)) lode_raise(c, "an index is a list");
  int top = lua_gettop(L);
  for (int i = 0; i < (int)length; i++) {
    out[i] = (lode_index){.kind = LODE_INDEX_SELECT, .step = 1};
    lua_rawgeti(L, 2, i + 1);
    if (lua_istable(L, -1)) range_of(c, i + 1, &out[i]);
    else if (!lode_integer(c, -1, &out[i].first))
      lode_raise(c, "entry %d of the index is %s, an integer or a range is needed", i + 1,
                 lode_describe(c, -1));
    lua_settop(L, top);
  }
  return (int)length;
}

static int index_tensor(const lode_call *c) {
  lode_handle *result = lode_handle_push(c, LODE_TYPE_TENSOR);
  lode_index index[LODE_MAX_DIMS];
  int count = 1;
  index[0] = (lode_index){.kind = LODE_INDEX_SELECT, .step = 1};
  if (lua_istable(c->L, 2)) count = indices_of(c, index);
  else if (!lode_integer(c, 2, &index[0].first))
    lode_raise(c, "an index is an integer or a table, not %s",
               lua_type(c->L, 2) == LUA_TNUMBER ? "a fraction" : lode_describe(c, 2));
  lode_node *input = lode_argument_tensor(c, 1);
  LODE_RECORD(c, result, lode_record_index, input, index, count);
  return 1;
}

bool lode_member(lua_State *L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(3));
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(4));
  lua_CFunction property = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  /* It runs in this call's frame, whose upvalue 1 is the state, as a property expects. */
  if (property == NULL) return false;
  lua_settop(L, 1);
  property(L);
  return true;
}

static int tensor_index(lua_State *L) {
  bool named = lua_type(L, 2) == LUA_TSTRING;
  if (named && lode_member(L)) return 1;
  lode_call c = lode_enter(L, "index");
  lua_settop(L, 2);
  if (named) {
    const char *name = lua_tostring(L, 2), *hint = lode_hint(name);
    if (hint != NULL) lode_raise(&c, "a tensor has no field '%s' (%s)", name, hint);
    lode_raise(&c, "a tensor has no field '%s'", name);
  }
  return index_tensor(&c);
}

int lode_object_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING && lode_member(L)) return 1;
  lode_call c = lode_enter(L, "index");
  const char *what = lode_describe(&c, 1);
  if (lua_type(L, 2) == LUA_TSTRING) lode_raise(&c, "%s has no field '%s'", what, lua_tostring(L, 2));
  lode_raise(&c, "%s has no elements", what);
}

static int tensor_newindex(lua_State *L) {
  lode_call c = lode_enter(L, "index");
  if (lua_type(L, 2) == LUA_TSTRING)
    lode_raise(&c, "a tensor has no fields to set (here '%s')", lua_tostring(L, 2));
  lode_raise(&c,
             "the elements of a tensor are not assigned to; make a new one with where or concat, or upload");
}

static int tensor_len(lua_State *L) {
  lode_call c = lode_enter(L, "#");
  const lode_shape *shape = &lode_argument_tensor(&c, 1)->shape;
  if (shape->ndim == 0) lode_raise(&c, "a tensor without dims has no length");
  lode_push_integer(&c, shape->dim[0]);
  return 1;
}

static int tensor_order(lua_State *L) {
  lode_call c = lode_enter(L, lua_tointeger(L, lua_upvalueindex(2)) ? "<=" : "<");
  lode_raise(&c, "Lua's comparisons give one boolean; use a:less(b), a:less_equal(b), a:greater(b) and so on");
}

static int tensor_tostring(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "tostring", 1};
  lode_handle *handle = lode_test(&c, 1, LODE_TYPE_TENSOR);
  if (handle == NULL || handle->node == NULL) lua_pushliteral(L, "tensor (released)");
  else lode_values_print(L, handle->node);
  return 1;
}

const lode_entry lode_tensor_meta[] = {{0, "__gc", lode_handle_gc, 0},
                                       {0, "__close", lode_handle_releases, 0},
                                       {0, "__index", tensor_index, 0},
                                       {0, "__newindex", tensor_newindex, 0},
                                       {0, "__len", tensor_len, 0},
                                       {0, "__lt", tensor_order, 0},
                                       {0, "__le", tensor_order, 1},
                                       {0, "__tostring", tensor_tostring, 0},
                                       {0, NULL, NULL, 0}};

const lode_entry lode_tensor_entries[] = {{LODE_IN_TENSOR | LODE_IN_FACTOR, "release", lode_handle_releases, 0},
                                          {LODE_IN_PRIVATE, "hint", tensor_hint, 0},
                                          {0, NULL, NULL, 0}};
