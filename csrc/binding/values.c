/* Between Lua values and elements in host memory: nested tables, numbers, text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "binding.h"

/* ---- the shape of nested tables ------------------------------------------------- */

/* A table without a first element must be empty. */
static void check_list(const lode_call *c, int index) {
  lua_State *L = c->L;
  index = lua_absindex(L, index);
  if (lua_rawlen(L, index) > 0) return;
  lua_pushnil(L);
  if (!lua_next(L, index)) return;
  lua_pop(L, 1);
  if (lua_type(L, -1) == LUA_TSTRING) lode_raise(c, "a table of values has the key '%s'", lua_tostring(L, -1));
  lode_raise(c, "a table of values is no list: it has no element 1");
}

void lode_values_shape(const lode_call *c, int index, lode_shape *shape, bool *boolean) {
  lua_State *L = c->L;
  int top = lua_gettop(L);
  luaL_checkstack(L, LODE_MAX_DIMS + 8, "lode: nested tables");
  shape->ndim = 0;
  for (lua_pushvalue(L, index); lua_istable(L, -1); lua_rawgeti(L, -1, 1)) {
    if (shape->ndim == LODE_MAX_DIMS) lode_raise(c, "tables are nested more than %d deep", LODE_MAX_DIMS);
    check_list(c, -1);
    size_t length = lua_rawlen(L, -1);
    shape->dim[shape->ndim++] = (int64_t)length;
    if (length == 0) break;
  }
  *boolean = lua_isboolean(L, -1);
  lua_settop(L, top);
}

/* ---- tables to elements ------------------------------------------------------------ */

typedef struct reader {
  const lode_call *c;
  const lode_shape *shape;
  lode_dtype dtype;
  bool strict;
  int64_t at[LODE_MAX_DIMS]; /* where we are, from 1 */
  char *out;                 /* the next element's place */
} reader;

/* "row 3" in a matrix, "row {1,3}" further inside, "element {3,2}" for what is no table. */
static const char *place(const reader *r, int depth, bool first, lode_text *text) {
  char *to = text->text;
  size_t size = sizeof text->text, used = 0;
  for (int i = 0; i < depth && used < size; i++)
    used += (size_t)snprintf(to + used, size - used, "%s%" PRId64, i > 0 ? "," : "", first ? 1 : r->at[i]);
  return text->text;
}

static void LODE_NORETURN wrong_length(const reader *r, int depth, size_t length) {
  lode_text here, first;
  const char *open = depth > 1 ? "{" : "", *close = depth > 1 ? "}" : "";
  int64_t wanted = r->shape->dim[depth];
  if (depth == 0)
    lode_raise(r->c, "%zu value%s, %" PRId64 " %s needed", length, length == 1 ? "" : "s", wanted,
               wanted == 1 ? "is" : "are");
  lode_raise(r->c, "row %s%s%s has %zu element%s, row %s%s%s has %" PRId64, open, place(r, depth, false, &here),
             close, length, length == 1 ? "" : "s", open, place(r, depth, true, &first), close, wanted);
}

static void LODE_NORETURN wrong_kind(const reader *r, int depth, const char *needed) {
  lode_text here;
  if (depth == 0) lode_raise(r->c, "the value is %s, %s is needed", lode_describe(r->c, -1), needed);
  lode_raise(r->c, "element {%s} is %s, %s is needed", place(r, depth, false, &here), lode_describe(r->c, -1),
             needed);
}

/* Integers and bools: the value must be exact in the dtype. */
static void read_exact(reader *r, int depth, const lode_operand *number) {
  lode_scalar scalar;
  lode_text here;
  lode_error error;
  if (lode_scalar_from(&error, r->c->who, number, r->dtype, &scalar) != LODE_OK) {
    snprintf(r->c->context->error.text, sizeof r->c->context->error.text, "%.400s (element {%s})", error.text,
             place(r, depth, false, &here));
    lode_raise_error(r->c);
  }
  memcpy(r->out, &scalar, lode_dtype_size(r->dtype));
}

static void read_element(reader *r, int depth) {
  lua_State *L = r->c->L;
  lode_operand number = {.node = NULL};
  bool boolean = lua_isboolean(L, -1);
  if (boolean && (!r->strict || r->dtype == LODE_BOOL))
    number =
        (lode_operand){.integer_valued = true, .integer = lua_toboolean(L, -1), .number = lua_toboolean(L, -1)};
  else if (!lode_number(r->c, -1, &number))
    wrong_kind(r, depth, r->strict && r->dtype == LODE_BOOL ? "a boolean" : "a number");
  else if (r->strict && r->dtype == LODE_BOOL) wrong_kind(r, depth, "a boolean");
  if (r->dtype == LODE_F32) *(float *)(void *)r->out = lode_narrow(number.number);
  else if (r->dtype == LODE_F64) *(double *)(void *)r->out = number.number;
  else read_exact(r, depth, &number);
  r->out += lode_dtype_size(r->dtype);
}

/* The table on the top of the stack, `depth` tables deep. */
static void read_table(reader *r, int depth) {
  lua_State *L = r->c->L;
  size_t length = lua_rawlen(L, -1);
  check_list(r->c, -1);
  if ((int64_t)length != r->shape->dim[depth]) wrong_length(r, depth, length);
  bool inner = depth + 1 < r->shape->ndim;
  for (int i = 1; i <= (int)length; i++) {
    lua_rawgeti(L, -1, i);
    r->at[depth] = i;
    if (!inner) read_element(r, depth + 1);
    else if (lua_istable(L, -1)) read_table(r, depth + 1);
    else wrong_kind(r, depth + 1, "a table");
    lua_pop(L, 1);
  }
}

void lode_values_read(const lode_call *c, int index, const lode_shape *shape, lode_dtype dtype, bool strict,
                      void *out) {
  reader r = {.c = c, .shape = shape, .dtype = dtype, .strict = strict, .out = out};
  luaL_checkstack(c->L, LODE_MAX_DIMS + 8, "lode: nested tables");
  lua_pushvalue(c->L, index);
  if (shape->ndim == 0) read_element(&r, 0);
  else read_table(&r, 0);
  lua_pop(c->L, 1);
}

/* ---- elements to Lua values ----------------------------------------------------------- */

void lode_values_push_one(const lode_call *c, lode_dtype dtype, const void *element) {
  lode_scalar value;
  memcpy(&value, element, lode_dtype_size(dtype));
  switch (dtype) {
  case LODE_BOOL:
    lua_pushboolean(c->L, value.b);
    break;
  case LODE_I32:
    lua_pushinteger(c->L, value.i32);
    break;
  case LODE_I64:
    lode_push_integer(c, value.i64);
    break;
  case LODE_F32:
    lua_pushnumber(c->L, (lua_Number)lode_widen(value.f32));
    break;
  default:
    lua_pushnumber(c->L, (lua_Number)value.f64);
    break;
  }
}

/* Pushes the table of the dims from `depth` on; returns the place behind its elements. */
static const char *push_level(const lode_call *c, const lode_shape *shape, lode_dtype dtype, int depth,
                              const char *from) {
  if (depth == shape->ndim) {
    lode_values_push_one(c, dtype, from);
    return from + lode_dtype_size(dtype);
  }
  int64_t length = shape->dim[depth];
  if (length >= INT32_MAX)
    lode_raise(c, "dim %d has %" PRId64 " elements: too many for a table", depth + 1, length);
  lua_createtable(c->L, (int)length, 0);
  for (int i = 1; i <= (int)length; i++) {
    from = push_level(c, shape, dtype, depth + 1, from);
    lua_rawseti(c->L, -2, i);
  }
  return from;
}

void lode_values_push(const lode_call *c, const lode_shape *shape, lode_dtype dtype, const void *elements) {
  luaL_checkstack(c->L, LODE_MAX_DIMS + 8, "lode: nested tables");
  push_level(c, shape, dtype, 0, elements);
}

/* ---- text ----------------------------------------------------------------------------------- */

enum { SHOWN = 64 }; /* elements that tostring shows */

static const char *const state_text[] = {"recorded", "enqueued", "ready"};

/* Elements can be shown when they lie in memory that the host can read at once. */
static bool showable(lode_node *node) {
  return lode_node_state(node) == LODE_READY && node->fault == NULL &&
         lode_shape_count(&node->shape) <= SHOWN && strcmp(node->device->name, "cpu") == 0;
}

typedef struct printer {
  char text[SHOWN * 32 + 512];
  size_t used;
} printer;

static void LODE_PRINTF(2, 3) print(printer *p, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(p->text + p->used, sizeof p->text - p->used, format, arguments);
  va_end(arguments);
  if (length > 0) p->used += (size_t)length;
  if (p->used >= sizeof p->text) p->used = sizeof p->text - 1;
}

/* C libraries print the sign of a NaN, which means nothing. */
static void print_float(printer *p, int digits, double x) {
  if (isnan(x)) print(p, "nan");
  else print(p, "%.*g", digits, x);
}

static void print_element(printer *p, lode_dtype dtype, const char *element) {
  lode_scalar value;
  memcpy(&value, element, lode_dtype_size(dtype));
  switch (dtype) {
  case LODE_BOOL:
    print(p, "%s", value.b ? "true" : "false");
    break;
  case LODE_I32:
    print(p, "%" PRId32, value.i32);
    break;
  case LODE_I64:
    print(p, "%" PRId64, value.i64);
    break;
  case LODE_F32:
    print_float(p, 7, (double)value.f32);
    break;
  default:
    print_float(p, 15, value.f64);
    break;
  }
}

static void print_level(printer *p, const lode_node *node, int depth, int64_t offset) {
  lode_dtype dtype = (lode_dtype)node->dtype;
  if (depth == node->shape.ndim) {
    const char *block = node->storage->block;
    print_element(p, dtype, block + offset * (int64_t)lode_dtype_size(dtype));
    return;
  }
  print(p, "{");
  for (int64_t i = 0; i < node->shape.dim[depth] && p->used + 1 < sizeof p->text; i++) {
    if (i > 0) print(p, ", ");
    print_level(p, node, depth + 1, offset + i * node->stride[depth]);
  }
  print(p, "}");
}

void lode_values_print(lua_State *L, lode_node *node) {
  lode_text shape;
  printer p = {.used = 0};
  print(&p, "tensor %s %s on %s", lode_dtype_name((lode_dtype)node->dtype),
        lode_shape_print(&node->shape, &shape), node->device->name);
  if (showable(node)) {
    print(&p, " ");
    print_level(&p, node, 0, node->offset);
  } else {
    print(&p, " (%s)", state_text[lode_node_state(node)]);
  }
  lua_pushlstring(L, p.text, p.used);
}
