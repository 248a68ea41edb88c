/* The three verbs, and values from and to the host.
 *
 * upload and compute do not wait. sync, item, totable and download compute what
 * they need and wait for that one tensor. */
#include <inttypes.h>
#include <string.h>

#include "binding.h"

/* ---- upload ------------------------------------------------------------------------- */

/* The block can be reused only where the handle alone holds the node. Dead handles of views and
 * expressions hold it too, so the collector is driven before a new block is taken. */
static void upload_bytes(const lode_call *c, lode_handle *handle, const void *bytes) {
  const lode_storage *storage = handle->node->storage;
  if (handle->node->refs > 1 || storage == NULL || storage->refs > 1)
    lode_collector_drive(c, lode_device_weight(handle->node->device, lode_node_bytes(handle->node)));
  handle = lode_argument_handle(c, 1, LODE_TYPE_TENSOR);
  LODE_CHECK(c, lode_node_upload(&handle->node, bytes));
  lode_collector_came(c);
}

static void upload_string(const lode_call *c, lode_handle *handle) {
  size_t length, needed = lode_node_bytes(handle->node);
  const char *bytes = lua_tolstring(c->L, 2, &length);
  lode_text text;
  if (length != needed)
    lode_raise(c, "%zu byte%s, but %s %s has %zu", length, length == 1 ? "" : "s",
               lode_dtype_name((lode_dtype)handle->node->dtype), lode_shape_print(&handle->node->shape, &text),
               needed);
  upload_bytes(c, handle, bytes);
}

static void check_shape(const lode_call *c, const lode_shape *given, const lode_shape *wanted) {
  lode_text from, to;
  if (!lode_shape_equal(given, wanted))
    lode_raise(c, "values of shape %s for a tensor of shape %s", lode_shape_print(given, &from),
               lode_shape_print(wanted, &to));
}

static void upload_table(const lode_call *c, lode_handle *handle) {
  lode_shape shape;
  bool boolean;
  lode_values_shape(c, 2, &shape, &boolean);
  check_shape(c, &shape, &handle->node->shape);
  lode_dtype dtype = (lode_dtype)handle->node->dtype;
  void *buffer = lode_buffer_push(c, lode_node_bytes(handle->node));
  int at = lua_gettop(c->L);
  lode_values_read(c, 2, &shape, dtype, false, buffer);
  upload_bytes(c, lode_argument_handle(c, 1, LODE_TYPE_TENSOR), buffer);
  lode_buffer_free(c, at);
}

/* A number is everywhere: no memory is needed before the tensor is used. */
static void upload_number(const lode_call *c, lode_handle *handle, const lode_operand *number) {
  lode_node *node = handle->node;
  lode_scalar value;
  LODE_CHECK(c, lode_scalar_from(&c->context->error, c->who, number, (lode_dtype)node->dtype, &value));
  LODE_RECORD(c, handle, lode_record_fill, c->context, c->who, node->device, &node->shape,
              (lode_dtype)node->dtype, value);
}

static void upload_tensor(const lode_call *c, lode_handle *handle) {
  lode_node *source = lode_argument_tensor(c, 2), *node = handle->node;
  check_shape(c, &source->shape, &node->shape);
  if (source->dtype != node->dtype)
    lode_raise(c, "a tensor of dtype %s for one of %s; x:to converts",
               lode_dtype_name((lode_dtype)source->dtype), lode_dtype_name((lode_dtype)node->dtype));
  LODE_RECORD(c, handle, lode_node_to_device, source, node->device);
}

/* upload(t, value): new contents from a table, a number, a boolean, a byte string or a tensor. Returns t. */
static int transfer_upload(lua_State *L) {
  lode_call c = lode_enter(L, "upload");
  lode_arguments_end(&c, 2);
  if (c.state->pace.borrowed) lode_raise(&c, "called by a finalizer while memory is being collected");
  lode_handle *handle = lode_argument_handle(&c, 1, LODE_TYPE_TENSOR);
  lode_operand number = {.node = NULL};
  if (lua_type(L, 2) == LUA_TSTRING) upload_string(&c, handle);
  else if (lua_istable(L, 2)) upload_table(&c, handle);
  else if (lode_test(&c, 2, LODE_TYPE_TENSOR) != NULL) upload_tensor(&c, handle);
  else if (lua_isboolean(L, 2) && handle->node->dtype == LODE_BOOL)
    upload_number(&c, handle, &(lode_operand){.integer_valued = true, .integer = lua_toboolean(L, 2)});
  else if (lode_number(&c, 2, &number))
    upload_number(&c, lode_argument_handle(&c, 1, LODE_TYPE_TENSOR), &number);
  else lode_argument_error(&c, 2, "a table, a number, a byte string or a tensor");
  lua_settop(L, 1);
  return 1;
}

/* ---- to the host ----------------------------------------------------------------------- */

/* Pushes a buffer with all elements; fills in what they are. */
static void *read_all(const lode_call *c, lode_shape *shape, lode_dtype *dtype) {
  lode_arguments_end(c, 1);
  lode_node *node = lode_argument_tensor(c, 1);
  *shape = node->shape;
  *dtype = (lode_dtype)node->dtype;
  void *buffer = lode_buffer_push(c, lode_node_bytes(node));
  node = lode_argument_tensor(c, 1);
  LODE_CHECK(c, lode_node_read(node, c->who, buffer));
  return buffer;
}

static int transfer_download(lua_State *L) {
  lode_call c = lode_enter(L, "download");
  lode_shape shape;
  lode_dtype dtype;
  const char *buffer = read_all(&c, &shape, &dtype);
  lua_pushlstring(L, buffer, (size_t)lode_shape_count(&shape) * lode_dtype_size(dtype));
  lode_buffer_free(&c, -2);
  return 1;
}

static int transfer_totable(lua_State *L) {
  lode_call c = lode_enter(L, "totable");
  lode_shape shape;
  lode_dtype dtype;
  const void *buffer = read_all(&c, &shape, &dtype);
  int at = lua_gettop(L);
  lode_values_push(&c, &shape, dtype, buffer);
  lode_buffer_free(&c, at);
  return 1;
}

static int transfer_item(lua_State *L) {
  lode_call c = lode_enter(L, "item");
  lode_arguments_end(&c, 1);
  lode_node *node = lode_argument_tensor(&c, 1);
  lode_text text;
  int64_t count = lode_shape_count(&node->shape);
  if (count != 1)
    lode_raise(&c, "shape %s has %" PRId64 " elements, one is needed", lode_shape_print(&node->shape, &text),
               count);
  lode_dtype dtype = (lode_dtype)node->dtype;
  lode_scalar value;
  LODE_CHECK(&c, lode_node_read(node, c.who, &value));
  lode_values_push_one(&c, dtype, &value);
  return 1;
}

/* ---- to another dtype or device ------------------------------------------------------------ */

typedef struct target {
  bool dtype_given;
  lode_dtype dtype;
  lode_device *device; /* NULL: where it is */
} target;

static void read_target(const lode_call *c, target *out) {
  static const char *const options_known[] = {"dtype", "device", NULL};
  *out = (target){.dtype_given = false, .dtype = LODE_F32, .device = NULL};
  if (lua_type(c->L, 2) == LUA_TSTRING) {
    lode_arguments_end(c, 2);
    out->dtype_given = lode_dtype_or_device_at(c, 2, &out->dtype, &out->device);
    return;
  }
  if (!lua_istable(c->L, 2)) lode_argument_error(c, 2, "a dtype, a device or a table of options");
  int options = lode_options(c, 2, options_known);
  out->dtype_given = lode_option(c, options, "dtype");
  out->dtype = lode_option_dtype(c, options, LODE_F32);
  if (lode_option(c, options, "device")) out->device = lode_option_device(c, options);
}

static lode_status convert(lode_node *input, const target *to, lode_node **out) {
  lode_node *cast;
  LODE_TRY(lode_record_cast(input, to->dtype_given ? to->dtype : (lode_dtype)input->dtype, &cast));
  lode_status status = lode_node_to_device(cast, to->device != NULL ? to->device : input->device, out);
  lode_node_unref(cast);
  return status;
}

/* to("f64"), to("cuda"), to{dtype = , device = }. Values are converted as numbers: saturating, NaN to 0. */
static int transfer_to(lua_State *L) {
  lode_call c = lode_enter(L, "to");
  target to;
  read_target(&c, &to);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, convert, input, &to);
  return 1;
}

/* ---- compute, sync, ready -------------------------------------------------------------------- */

static lode_node *node_of(const lode_call *c, int index) {
  lode_handle *handle = lode_test(c, index, LODE_TYPE_FACTOR);
  return handle != NULL && handle->node != NULL ? handle->node : lode_argument_tensor(c, index);
}

/* compute(a, b, ...): enqueues what they need as one graph. Returns its arguments. */
static int transfer_compute(lua_State *L) {
  lode_call c = lode_enter(L, "compute");
  lode_node *few[16], **nodes = few;
  if (c.nargs > 16) nodes = lua_newuserdata(L, (size_t)c.nargs * sizeof *nodes);
  for (int i = 0; i < c.nargs; i++) nodes[i] = node_of(&c, i + 1);
  LODE_CHECK(&c, lode_compute(c.context, nodes, c.nargs));
  lua_settop(L, c.nargs);
  return c.nargs;
}

/* sync(x): computes x if it is only recorded, waits for it, raises its numerical failures. Returns x. */
static int transfer_sync(lua_State *L) {
  lode_call c = lode_enter(L, "sync");
  lode_arguments_end(&c, 1);
  lode_node *node = node_of(&c, 1);
  LODE_CHECK(&c, lode_node_sync(node, c.who));
  return 1;
}

static int transfer_ready(lua_State *L) {
  lode_call c = lode_enter(L, "ready");
  lode_arguments_end(&c, 1);
  lua_pushboolean(L, lode_node_state(node_of(&c, 1)) == LODE_READY);
  return 1;
}

#define EVERYWHERE (LODE_IN_MODULE | LODE_IN_TENSOR)

const lode_entry lode_transfer_entries[] = {{LODE_IN_TENSOR, "upload", transfer_upload, 0},
                                            {LODE_IN_TENSOR, "download", transfer_download, 0},
                                            {LODE_IN_TENSOR, "totable", transfer_totable, 0},
                                            {LODE_IN_TENSOR, "item", transfer_item, 0},
                                            {LODE_IN_TENSOR, "to", transfer_to, 0},
                                            {EVERYWHERE | LODE_IN_FACTOR, "compute", transfer_compute, 0},
                                            {LODE_IN_TENSOR | LODE_IN_FACTOR, "sync", transfer_sync, 0},
                                            {LODE_IN_TENSOR | LODE_IN_FACTOR, "ready", transfer_ready, 0},
                                            {0, NULL, NULL, 0}};
