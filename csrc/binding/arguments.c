/* Arguments: what a script passed, checked and named in messages by position.
 *
 * Strings are never taken for numbers, nor numbers with a fraction for integers.
 * An options table is the last argument, and a misspelt option is an error. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

/* ---- messages ----------------------------------------------------------------- */

static const char *describe_userdata(const lode_call *c, int index) {
  lode_handle *handle = lode_test(c, index, LODE_TYPE_TENSOR);
  if (handle != NULL) return handle->node != NULL ? "a tensor" : "a released tensor";
  handle = lode_test(c, index, LODE_TYPE_FACTOR);
  if (handle != NULL) return handle->node != NULL ? "a factor" : "a released factor";
  lode_stream_handle *stream = lode_test(c, index, LODE_TYPE_STREAM);
  if (stream != NULL) return stream->stream != NULL ? "a stream" : "a released stream";
  if (lode_test(c, index, LODE_TYPE_EVENT) != NULL) return "an event";
  return lode_test(c, index, LODE_TYPE_GRAPH) != NULL ? "a graph" : "a userdata";
}

const char *lode_describe(const lode_call *c, int index) {
  if (index > c->nargs && lua_isnil(c->L, index)) return "missing";
  switch (lua_type(c->L, index)) {
  case LUA_TNONE:
    return "missing";
  case LUA_TNIL:
    return "nil";
  case LUA_TBOOLEAN:
    return "a boolean";
  case LUA_TNUMBER:
    return "a number";
  case LUA_TSTRING:
    return "a string";
  case LUA_TTABLE:
    return "a table";
  case LUA_TFUNCTION:
    return "a function";
  case LUA_TTHREAD:
    return "a thread";
  case LUA_TUSERDATA:
    return describe_userdata(c, index);
  default:
    return lua_typename(c->L, lua_type(c->L, index));
  }
}

/* A released object says all that there is to say. */
static bool released(const char *what) { return strncmp(what, "a released", 10) == 0; }

void lode_argument_error(const lode_call *c, int index, const char *needed) {
  const char *what = lode_describe(c, index);
  if (released(what)) lode_raise(c, "argument %d is %s", index, what);
  lode_raise(c, "argument %d is %s, %s is needed", index, what, needed);
}

void lode_arguments_end(const lode_call *c, int most) {
  if (c->nargs > most)
    lode_raise(c, "%d argument%s, at most %d are taken", c->nargs, c->nargs == 1 ? "" : "s", most);
  lua_settop(c->L, most);
}

/* ---- numbers -------------------------------------------------------------------- */

static const double EXACT = 9007199254740992.0; /* 2^53: integers up to here are exact in a double */

static void from_double(double value, lode_operand *out) {
  out->number = value;
  bool within = value >= -EXACT && value <= EXACT;
  out->integer = within ? (int64_t)value : 0;
  out->integer_valued = within && (double)out->integer == value;
}

static void from_integer(int64_t value, lode_operand *out) {
  out->number = (double)value;
  out->integer_valued = true;
  out->integer = value;
}

/* An int64 or uint64 of LuaJIT's FFI, which has no C interface: Lua splits it. */
static bool from_cdata(const lode_call *c, int index, lode_operand *out) {
  lua_State *L = c->L;
  if (c->state->split_ref == LUA_NOREF) return false;
  index = lua_absindex(L, index);
  luaL_checkstack(L, 4, "lode: cdata");
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->state->split_ref);
  lua_pushvalue(L, index);
  lua_call(L, 1, 2);
  bool found = lua_type(L, -2) == LUA_TNUMBER;
  if (found)
    from_integer((int64_t)lua_tonumber(L, -2) * (INT64_C(1) << 32) + (int64_t)lua_tonumber(L, -1), out);
  lua_pop(L, 2);
  return found;
}

bool lode_number(const lode_call *c, int index, lode_operand *out) {
  int type = lua_type(c->L, index);
  if (type == LODE_TCDATA) return from_cdata(c, index, out);
  if (type != LUA_TNUMBER) return false;
#if LUA_VERSION_NUM >= 503
  if (lua_isinteger(c->L, index)) {
    from_integer((int64_t)lua_tointeger(c->L, index), out);
    return true;
  }
#endif
  from_double((double)lua_tonumber(c->L, index), out);
  return true;
}

bool lode_integer(const lode_call *c, int index, int64_t *out) {
  lode_operand number;
  if (!lode_number(c, index, &number) || !number.integer_valued) return false;
  *out = number.integer;
  return true;
}

void lode_push_integer(const lode_call *c, int64_t value) {
  lua_State *L = c->L;
#if LUA_VERSION_NUM >= 503
  lua_pushinteger(L, (lua_Integer)value);
#else
  bool exact = value <= (int64_t)EXACT && value >= -(int64_t)EXACT;
  if (exact || c->state->join_ref == LUA_NOREF) {
    lua_pushnumber(L, (lua_Number)value);
    return;
  }
  int64_t low = value & INT64_C(0xffffffff);
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->state->join_ref);
  lua_pushnumber(L, (lua_Number)((value - low) / (INT64_C(1) << 32)));
  lua_pushnumber(L, (lua_Number)low);
  lua_call(L, 2, 1);
#endif
}

/* Text of a number that was refused. */
static const char *print_number(const lode_call *c, int index, lode_text *text) {
  if (lua_type(c->L, index) == LUA_TNUMBER)
    snprintf(text->text, sizeof text->text, "%.17g", (double)lua_tonumber(c->L, index));
  else snprintf(text->text, sizeof text->text, "%s", lode_describe(c, index));
  return text->text;
}

/* ---- single arguments -------------------------------------------------------------- */

lode_handle *lode_argument_handle(const lode_call *c, int index, lode_type type) {
  lode_handle *handle = lode_test(c, index, type);
  if (handle == NULL || handle->node == NULL)
    lode_argument_error(c, index, type == LODE_TYPE_TENSOR ? "a tensor" : "a factor");
  return handle;
}

lode_node *lode_argument_tensor(const lode_call *c, int index) {
  return lode_argument_handle(c, index, LODE_TYPE_TENSOR)->node;
}

int64_t lode_argument_integer(const lode_call *c, int index) {
  int64_t value;
  lode_text text;
  if (lode_integer(c, index, &value)) return value;
  if (lua_type(c->L, index) != LUA_TNUMBER) lode_argument_error(c, index, "an integer");
  lode_raise(c, "argument %d is %s, an integer is needed", index, print_number(c, index, &text));
}

lode_stream *lode_argument_stream(const lode_call *c, int index) {
  lode_stream_handle *handle = lode_test(c, index, LODE_TYPE_STREAM);
  if (handle == NULL || handle->stream == NULL) lode_argument_error(c, index, "a stream");
  return handle->stream;
}

lode_device *lode_device_at(const lode_call *c, int index) {
  lode_device *device;
  LODE_CHECK(c, lode_devices_find(&c->context->error, c->who, lua_tostring(c->L, index), &device));
  return device;
}

lode_device *lode_argument_device(const lode_call *c, int index) {
  if (lua_isnoneornil(c->L, index)) return c->context->default_device;
  if (lua_type(c->L, index) != LUA_TSTRING) lode_argument_error(c, index, "a device's name");
  return lode_device_at(c, index);
}

static void append_name(lode_text *names, const char *name) {
  size_t used = strlen(names->text);
  snprintf(names->text + used, sizeof names->text - used, "%s%s", used > 0 ? ", " : "", name);
}

static const char *dtype_names(lode_text *names) {
  names->text[0] = '\0';
  for (int i = 0; i < LODE_NDTYPES; i++) append_name(names, lode_dtype_name((lode_dtype)i));
  return names->text;
}

lode_dtype lode_dtype_at(const lode_call *c, int index) {
  lode_dtype dtype;
  const char *name = lua_tostring(c->L, index);
  if (lode_dtype_find(name, &dtype)) return dtype;
  lode_text names;
  lode_raise(c, "unknown dtype '%s' (there are %s)", name, dtype_names(&names));
}

static const char *device_names(lode_text *names) {
  names->text[0] = '\0';
  for (int i = 0; i < lode_devices_count(); i++)
    if (lode_devices_get(i)->device != NULL) append_name(names, lode_devices_get(i)->name);
  return names->text;
}

bool lode_dtype_or_device_at(const lode_call *c, int index, lode_dtype *dtype, lode_device **device) {
  const char *name = lua_tostring(c->L, index);
  if (lode_dtype_find(name, dtype)) return true;
  lode_status status = lode_devices_find(&c->context->error, c->who, name, device);
  lode_text dtypes, devices;
  if (status == LODE_INVALID)
    lode_raise(c, "'%.64s' is neither a dtype (%s) nor a device (%s)", name, dtype_names(&dtypes),
               device_names(&devices));
  if (status != LODE_OK) lode_raise_error(c);
  return false;
}

/* ---- lists ---------------------------------------------------------------------------- */

bool lode_has_fields(const lode_call *c, int index) {
  lua_pushnil(c->L);
  if (!lua_next(c->L, index)) return false;
  lua_pop(c->L, 2);
  return true;
}

bool lode_is_options(const lode_call *c, int index) {
  return lua_istable(c->L, index) && lua_rawlen(c->L, index) == 0 && lode_has_fields(c, index);
}

static int64_t list_entry(const lode_call *c, int index, const char *what, int i) {
  int64_t value;
  lode_text text;
  lua_rawgeti(c->L, index, i);
  if (!lode_integer(c, -1, &value))
    lode_raise(c, "%s %d is %s, an integer is needed", what, i, print_number(c, -1, &text));
  lua_pop(c->L, 1);
  return value;
}

static int integers_of_list(const lode_call *c, int index, const char *what, int64_t *out, int most) {
  if (lode_is_options(c, index)) lode_raise(c, "argument %d is a table without a list of integers", index);
  size_t length = lua_rawlen(c->L, index);
  if (length > (size_t)most) lode_raise(c, "%zu %ss, at most %d are possible", length, what, most);
  for (int i = 0; i < (int)length; i++) out[i] = list_entry(c, index, what, i + 1);
  return (int)length;
}

int lode_argument_integers(const lode_call *c, int index, const char *what, int64_t *out, int most,
                           int *count) {
  if (lua_istable(c->L, index)) {
    *count = integers_of_list(c, index, what, out, most);
    return index + 1;
  }
  if (lua_type(c->L, index) != LUA_TNUMBER && lua_type(c->L, index) != LODE_TCDATA)
    lode_argument_error(c, index, "a list of integers or an integer");
  for (*count = 0; index <= c->nargs && !lua_istable(c->L, index) && !lua_isnil(c->L, index); index++) {
    if (*count == most) lode_raise(c, "more than %d %ss", most, what);
    out[(*count)++] = lode_argument_integer(c, index);
  }
  return index;
}

int lode_argument_shape(const lode_call *c, int index, lode_shape *out) {
  int next = lode_argument_integers(c, index, "dim", out->dim, LODE_MAX_DIMS, &out->ndim);
  LODE_CHECK(c, lode_shape_check(&c->context->error, c->who, out));
  return next;
}

void lode_argument_dims(const lode_call *c, int index, int64_t dims[LODE_MAX_DIMS], int *count) {
  *count = 0;
  if (lua_isnoneornil(c->L, index)) return;
  if (lua_istable(c->L, index)) {
    *count = integers_of_list(c, index, "dim", dims, LODE_MAX_DIMS);
    if (*count == 0) lode_raise(c, "argument %d is an empty list of dims; leave it out for all dims", index);
    return;
  }
  if (lua_type(c->L, index) != LUA_TNUMBER) lode_argument_error(c, index, "a dim or a list of dims");
  dims[0] = lode_argument_integer(c, index);
  *count = 1;
}

static lode_node **list_room(const lode_call *c, size_t length) {
  lode_lua *state = c->state;
  if (length <= (size_t)state->list_room) return state->list;
  lode_node **list = realloc(state->list, 2 * length * sizeof *list);
  if (list == NULL) lode_raise(c, "no host memory for a list of %zu tensors", length);
  state->list = list;
  state->list_room = 2 * (int)length;
  return list;
}

lode_node **lode_argument_tensors(const lode_call *c, int index, int *count) {
  lua_State *L = c->L;
  size_t length = lua_istable(L, index) ? lua_rawlen(L, index) : 0;
  if (length == 0 && (!lua_istable(L, index) || lode_has_fields(c, index)))
    lode_argument_error(c, index, "a list of tensors");
  if (length > INT16_MAX) lode_raise(c, "%zu tensors, at most %d are possible", length, INT16_MAX);
  lode_node **nodes = list_room(c, length);
  for (int i = 0; i < (int)length; i++) {
    lua_rawgeti(L, index, i + 1);
    lode_handle *handle = lode_test(c, -1, LODE_TYPE_TENSOR);
    if (handle == NULL || handle->node == NULL) {
      const char *what = lode_describe(c, -1);
      lode_raise(c, "element %d is %s%s", i + 1, what, released(what) ? "" : ", a tensor is needed");
    }
    nodes[i] = handle->node;
    lua_pop(L, 1);
  }
  *count = (int)length;
  return nodes;
}

/* ---- options ---------------------------------------------------------------------------- */

static bool option_known(const char *const *names, const char *name) {
  while (*names != NULL && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}

static void LODE_NORETURN option_unknown(const lode_call *c, const char *const *names, const char *name) {
  char list[128] = "";
  for (int i = 0; names[i] != NULL; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  lode_raise(c, "unknown option '%s' (there are %s)", name, list);
}

int lode_options(const lode_call *c, int index, const char *const *names) {
  lua_State *L = c->L;
  lode_arguments_end(c, index);
  if (lua_isnoneornil(L, index)) return 0;
  if (!lua_istable(L, index)) lode_argument_error(c, index, "a table of options");
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) lode_argument_error(c, index, "a table of options by name");
    if (!option_known(names, lua_tostring(L, -2))) option_unknown(c, names, lua_tostring(L, -2));
  }
  return index;
}

bool lode_option(const lode_call *c, int options, const char *name) {
  if (options == 0) return false;
  lua_pushstring(c->L, name);
  lua_rawget(c->L, options);
  if (!lua_isnil(c->L, -1)) return true;
  lua_pop(c->L, 1);
  return false;
}

static void LODE_NORETURN option_error(const lode_call *c, const char *name, const char *needed) {
  lode_raise(c, "option %s is %s, %s is needed", name, lode_describe(c, -1), needed);
}

lode_dtype lode_option_dtype(const lode_call *c, int options, lode_dtype otherwise) {
  if (!lode_option(c, options, "dtype")) return otherwise;
  if (lua_type(c->L, -1) != LUA_TSTRING) option_error(c, "dtype", "a dtype's name");
  lode_dtype dtype = lode_dtype_at(c, -1);
  lua_pop(c->L, 1);
  return dtype;
}

lode_device *lode_option_device(const lode_call *c, int options) {
  if (!lode_option(c, options, "device")) return c->context->default_device;
  if (lua_type(c->L, -1) != LUA_TSTRING) option_error(c, "device", "a device's name");
  lode_device *device = lode_device_at(c, -1);
  lua_pop(c->L, 1);
  return device;
}

double lode_option_number(const lode_call *c, int options, const char *name, double otherwise) {
  if (!lode_option(c, options, name)) return otherwise;
  if (lua_type(c->L, -1) != LUA_TNUMBER) option_error(c, name, "a number");
  double value = lua_tonumber(c->L, -1);
  lua_pop(c->L, 1);
  return value;
}

bool lode_option_boolean(const lode_call *c, int options, const char *name) {
  if (!lode_option(c, options, name)) return false;
  if (!lua_isboolean(c->L, -1)) option_error(c, name, "a boolean");
  bool value = lua_toboolean(c->L, -1);
  lua_pop(c->L, 1);
  return value;
}
