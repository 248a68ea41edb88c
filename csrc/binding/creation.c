/* Functions that make tensors from nothing or from Lua values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "binding.h"

static const char *const creation_options[] = {"dtype", "device", NULL};
static const char *const random_options[] = {"dtype", "device", "seed", NULL};
static const char *const tensor_options[] = {"dtype", "device", "shape", NULL};

/* ---- fills ------------------------------------------------------------------------- */

static lode_operand number_of(int64_t value) {
  return (lode_operand){.integer_valued = true, .integer = value, .number = (double)value};
}

static int fill(const lode_call *c, const lode_shape *shape, int options, const lode_operand *value,
                lode_dtype otherwise) {
  lode_dtype dtype = lode_option_dtype(c, options, otherwise);
  lode_device *device = lode_option_device(c, options);
  lode_scalar scalar;
  LODE_CHECK(c, lode_scalar_from(&c->context->error, c->who, value, dtype, &scalar));
  lode_handle *result = lode_handle_push(c, LODE_TYPE_TENSOR);
  LODE_RECORD(c, result, lode_record_fill, c->context, c->who, device, shape, dtype, scalar);
  return 1;
}

/* zeros(shape, options), ones(shape, options): upvalue 2 is the value. */
static int creation_constant(lua_State *L) {
  int64_t value = (int64_t)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, value ? "ones" : "zeros");
  lode_shape shape;
  int options = lode_options(&c, lode_argument_shape(&c, 1, &shape), creation_options);
  const lode_operand number = number_of(value);
  return fill(&c, &shape, options, &number, c.context->default_dtype);
}

static void one_shape(const lode_call *c, int index, lode_shape *shape) {
  if (lua_istable(c->L, index)) {
    lode_argument_shape(c, index, shape);
    return;
  }
  shape->ndim = 1;
  shape->dim[0] = lode_argument_integer(c, index);
  LODE_CHECK(c, lode_shape_check(&c->context->error, c->who, shape));
}

/* A number or a boolean; the dtype that it has by itself. */
static lode_dtype value_at(const lode_call *c, int index, lode_operand *out) {
  if (lua_isboolean(c->L, index)) {
    *out = number_of(lua_toboolean(c->L, index));
    return LODE_BOOL;
  }
  if (!lode_number(c, index, out)) lode_argument_error(c, index, "a number or a boolean");
  return c->context->default_dtype;
}

/* full(shape, value, options) */
static int creation_full(lua_State *L) {
  lode_call c = lode_enter(L, "full");
  lode_shape shape;
  one_shape(&c, 1, &shape);
  lode_operand value = {.node = NULL};
  lode_dtype dtype = value_at(&c, 2, &value);
  return fill(&c, &shape, lode_options(&c, 3, creation_options), &value, dtype);
}

/* eye(rows, columns, options); columns as rows if left out */
static int creation_eye(lua_State *L) {
  lode_call c = lode_enter(L, "eye");
  lode_shape shape;
  int options = lode_argument_integers(&c, 1, "size", shape.dim, 2, &shape.ndim);
  if (shape.ndim == 0) lode_raise(&c, "no size is given");
  if (shape.ndim == 1) shape.dim[1] = shape.dim[0];
  shape.ndim = 2;
  LODE_CHECK(&c, lode_shape_check(&c.context->error, c.who, &shape));
  options = lode_options(&c, options, creation_options);
  lode_dtype dtype = lode_option_dtype(&c, options, c.context->default_dtype);
  lode_device *device = lode_option_device(&c, options);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_RECORD(&c, result, lode_record_eye, c.context, device, dtype, shape.dim[0], shape.dim[1]);
  return 1;
}

/* ---- sequences ------------------------------------------------------------------------ */

static void number_at(const lode_call *c, int index, lode_operand *out) {
  *out = (lode_operand){.node = NULL};
  if (!lode_number(c, index, out)) lode_argument_error(c, index, "a number");
  if (!isfinite(out->number)) lode_raise(c, "argument %d is not finite", index);
}

/* How many of start, start + step, ... lie before stop. */
static int64_t arange_count(const lode_call *c, const lode_operand *start, const lode_operand *stop,
                            const lode_operand *step) {
  if (step->number == 0) lode_raise(c, "the step is 0");
  if (start->integer_valued && stop->integer_valued && step->integer_valued) {
    bool up = step->integer > 0;
    int64_t low = up ? start->integer : stop->integer, high = up ? stop->integer : start->integer;
    if (high <= low) return 0;
    uint64_t span = (uint64_t)high - (uint64_t)low,
             each = up ? (uint64_t)step->integer : 0 - (uint64_t)step->integer;
    uint64_t whole = span / each + (span % each != 0);
    if (whole > INT64_MAX) lode_raise(c, "more than 2^63 elements");
    return (int64_t)whole;
  }
  double count = ceil(lode_steps(start->number, stop->number, step->number));
  if (count >= 9e18) lode_raise(c, "more than 2^63 elements");
  return count > 0 ? (int64_t)count : 0;
}

/* arange(stop, options), arange(start, stop[, step], options): stop itself is left out. */
static int creation_arange(lua_State *L) {
  lode_call c = lode_enter(L, "arange");
  int numbers = 0;
  while (numbers < 3 && numbers < c.nargs && !lua_istable(L, numbers + 1) && !lua_isnil(L, numbers + 1))
    numbers++;
  if (numbers == 0) lode_argument_error(&c, 1, "a number");
  lode_operand start = number_of(0), stop, step = number_of(1);
  number_at(&c, numbers == 1 ? 1 : 2, &stop);
  if (numbers > 1) number_at(&c, 1, &start);
  if (numbers > 2) number_at(&c, 3, &step);
  int64_t count = arange_count(&c, &start, &stop, &step);
  int options = lode_options(&c, numbers + 1, creation_options);
  lode_dtype dtype = lode_option_dtype(&c, options, c.context->default_dtype);
  lode_device *device = lode_option_device(&c, options);
  if (count > 0 && lode_dtype_kind(dtype) != LODE_KIND_FLOAT && start.integer_valued && step.integer_valued) {
    lode_scalar unused; /* the last element is the largest or the smallest: it has to fit */
    lode_operand last =
        number_of((int64_t)((uint64_t)start.integer + (uint64_t)(count - 1) * (uint64_t)step.integer));
    LODE_CHECK(&c, lode_scalar_from(&c.context->error, c.who, &last, dtype, &unused));
  }
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_RECORD(&c, result, lode_record_arange, c.context, c.who, device, dtype, &start, &step, count);
  return 1;
}

typedef struct linspace {
  lode_device *device;
  lode_dtype dtype;
  lode_operand start, stop, step;
  int64_t count;
} linspace;

/* where(index == count - 1, stop, arange): start + i * step need not end at stop exactly. */
static lode_status record_linspace(lode_context *context, const linspace *a, lode_node **out) {
  lode_node *sequence = NULL, *index = NULL, *last = NULL;
  lode_shape shape = {.ndim = 1, .dim = {a->count}};
  lode_status status =
      lode_record_arange(context, "linspace", a->device, a->dtype, &a->start, &a->step, a->count, &sequence);
  if (status == LODE_OK) status = lode_record_iota(context, "linspace", a->device, &shape, 0, &index);
  if (status == LODE_OK)
    status = lode_record_op(context, LODE_OP_equal, (lode_operand[]){{.node = index}, number_of(a->count - 1)},
                            &last);
  if (status == LODE_OK)
    status = lode_record_op(context, LODE_OP_where,
                            (lode_operand[]){{.node = last}, a->stop, {.node = sequence}}, out);
  lode_node_unref(sequence);
  lode_node_unref(index);
  lode_node_unref(last);
  return status;
}

/* linspace(start, stop, count, options): both ends are included. */
static int creation_linspace(lua_State *L) {
  lode_call c = lode_enter(L, "linspace");
  linspace a;
  number_at(&c, 1, &a.start);
  number_at(&c, 2, &a.stop);
  a.count = lode_argument_integer(&c, 3);
  if (a.count < 0) lode_raise(&c, "%" PRId64 " elements", a.count);
  int options = lode_options(&c, 4, creation_options);
  a.dtype = lode_option_dtype(&c, options, c.context->default_dtype);
  a.device = lode_option_device(&c, options);
  if (lode_dtype_kind(a.dtype) != LODE_KIND_FLOAT)
    lode_raise(&c, "dtype %s; f32 or f64 is needed", lode_dtype_name(a.dtype));
  if (a.count == 1) a.stop = a.start;
  double step = a.count > 1 ? lode_steps(a.start.number, a.stop.number, (double)(a.count - 1)) : 0;
  a.step = (lode_operand){.number = step};
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_RECORD(&c, result, record_linspace, c.context, &a);
  return 1;
}

/* ---- random numbers --------------------------------------------------------------------- */

/* rand(shape, options), randn(shape, options): upvalue 2 is the operation. */
static int creation_random(lua_State *L) {
  lode_op op = (lode_op)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, lode_ops[op].name);
  lode_shape shape;
  int options = lode_options(&c, lode_argument_shape(&c, 1, &shape), random_options);
  lode_dtype dtype = lode_option_dtype(&c, options, c.context->default_dtype);
  lode_device *device = lode_option_device(&c, options);
  if (lode_dtype_kind(dtype) != LODE_KIND_FLOAT)
    lode_raise(&c, "dtype %s; f32 or f64 is needed", lode_dtype_name(dtype));
  int64_t seed;
  if (!lode_option(&c, options, "seed")) seed = lode_lua_seed(c.state);
  else if (!lode_integer(&c, -1, &seed))
    lode_raise(&c, "option seed is %s, an integer is needed", lode_describe(&c, -1));
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_RECORD(&c, result, lode_record_random, c.context, op, device, &shape, dtype, seed);
  return 1;
}

/* seed(n): what rand and randn give from now on, where no seed is given, depends on n alone. */
static int creation_seed(lua_State *L) {
  lode_call c = lode_enter(L, "seed");
  lode_arguments_end(&c, 1);
  c.state->seed = (uint64_t)lode_argument_integer(&c, 1);
  c.state->seeds = 0;
  return 0;
}

/* ---- tensor(value, options) --------------------------------------------------------------- */

static int from_host(const lode_call *c, int options, const lode_shape *shape, lode_dtype dtype,
                     const void *host) {
  lode_device *device = lode_option_device(c, options);
  lode_handle *result = lode_handle_push(c, LODE_TYPE_TENSOR);
  lode_collector_drive(c, lode_device_weight(device, (size_t)lode_shape_count(shape) * lode_dtype_size(dtype)));
  LODE_RECORD(c, result, lode_node_from_host, c->context, c->who, device, shape, dtype, host);
  lode_collector_came(c);
  return 1;
}

static int from_string(const lode_call *c, int options) {
  lode_shape shape;
  lode_text text;
  if (!lode_option(c, options, "shape")) lode_raise(c, "a byte string needs the options shape and dtype");
  one_shape(c, lua_gettop(c->L), &shape);
  if (!lode_option(c, options, "dtype")) lode_raise(c, "a byte string needs the options shape and dtype");
  lode_dtype dtype = lode_option_dtype(c, options, LODE_F32);
  size_t length, needed = (size_t)lode_shape_count(&shape) * lode_dtype_size(dtype);
  const char *bytes = lua_tolstring(c->L, 1, &length);
  if (length != needed)
    lode_raise(c, "%zu byte%s, but %s %s has %zu", length, length == 1 ? "" : "s", lode_dtype_name(dtype),
               lode_shape_print(&shape, &text), needed);
  return from_host(c, options, &shape, dtype, bytes);
}

static int from_table(const lode_call *c, int options) {
  lode_shape shape;
  bool boolean;
  lode_values_shape(c, 1, &shape, &boolean);
  LODE_CHECK(c, lode_shape_check(&c->context->error, c->who, &shape));
  bool given = lode_option(c, options, "dtype");
  lode_dtype dtype = lode_option_dtype(c, options, boolean ? LODE_BOOL : c->context->default_dtype);
  void *buffer = lode_buffer_push(c, (size_t)lode_shape_count(&shape) * lode_dtype_size(dtype));
  int at = lua_gettop(c->L);
  lode_values_read(c, 1, &shape, dtype, !given, buffer);
  from_host(c, options, &shape, dtype, buffer);
  lode_buffer_free(c, at);
  return 1;
}

static int creation_tensor(lua_State *L) {
  lode_call c = lode_enter(L, "tensor");
  int options = lode_options(&c, 2, tensor_options);
  int type = lua_type(L, 1);
  if (type == LUA_TSTRING) return from_string(&c, options);
  if (lode_option(&c, options, "shape"))
    lode_raise(&c, "option shape is for byte strings; use reshape or full");
  if (type == LUA_TTABLE) return from_table(&c, options);
  lode_handle *handle = lode_test(&c, 1, LODE_TYPE_TENSOR);
  if (handle != NULL)
    lode_raise(&c, "argument 1 is a tensor already; x:to{...} gives it another dtype or device");
  lode_operand value = {.node = NULL};
  if (type != LUA_TBOOLEAN && type != LUA_TNUMBER && type != LODE_TCDATA)
    lode_argument_error(&c, 1, "a table, a number, a boolean or a string");
  lode_dtype dtype = value_at(&c, 1, &value);
  return fill(&c, &(lode_shape){.ndim = 0}, options, &value, dtype);
}

const lode_entry lode_creation_entries[] = {{LODE_IN_MODULE, "tensor", creation_tensor, 0},
                                            {LODE_IN_MODULE, "zeros", creation_constant, 0},
                                            {LODE_IN_MODULE, "ones", creation_constant, 1},
                                            {LODE_IN_MODULE, "full", creation_full, 0},
                                            {LODE_IN_MODULE, "eye", creation_eye, 0},
                                            {LODE_IN_MODULE, "arange", creation_arange, 0},
                                            {LODE_IN_MODULE, "linspace", creation_linspace, 0},
                                            {LODE_IN_MODULE, "rand", creation_random, LODE_OP_rand},
                                            {LODE_IN_MODULE, "randn", creation_random, LODE_OP_randn},
                                            {LODE_IN_MODULE, "seed", creation_seed, 0},
                                            {0, NULL, NULL, 0}};
