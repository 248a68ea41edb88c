/* Functions that give the same elements another order or shape, and concat. */
#include <string.h>

#include "binding.h"

static int shape_permute_dims(lua_State *L) {
  lode_call c = lode_enter(L, "permute_dims");
  int64_t dims[LODE_MAX_DIMS];
  int count;
  lode_arguments_end(&c, lode_argument_integers(&c, 2, "dim", dims, LODE_MAX_DIMS, &count) - 1);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_permute, input, dims, count);
  return 1;
}

static int shape_expand_dims(lua_State *L) {
  lode_call c = lode_enter(L, "expand_dims");
  lode_arguments_end(&c, 2);
  int64_t dim = lode_argument_integer(&c, 2);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_expand_dims, input, dim);
  return 1;
}

static int shape_squeeze(lua_State *L) {
  lode_call c = lode_enter(L, "squeeze");
  int64_t dims[LODE_MAX_DIMS];
  int count;
  lode_arguments_end(&c, 2);
  lode_argument_dims(&c, 2, dims, &count);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_squeeze, input, dims, count);
  return 1;
}

static int shape_flip(lua_State *L) {
  lode_call c = lode_enter(L, "flip");
  int64_t dims[LODE_MAX_DIMS];
  int count;
  lode_arguments_end(&c, 2);
  lode_argument_dims(&c, 2, dims, &count);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_flip, input, dims, count);
  return 1;
}

static int shape_reshape(lua_State *L) {
  lode_call c = lode_enter(L, "reshape");
  int64_t dims[LODE_MAX_DIMS];
  int count;
  lode_arguments_end(&c, lode_argument_integers(&c, 2, "dim", dims, LODE_MAX_DIMS, &count) - 1);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_reshape, input, dims, count);
  return 1;
}

static int shape_broadcast_to(lua_State *L) {
  lode_call c = lode_enter(L, "broadcast_to");
  lode_shape shape;
  lode_arguments_end(&c, lode_argument_shape(&c, 2, &shape) - 1);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_broadcast, input, c.who, &shape);
  return 1;
}

/* ---- several tensors into one -------------------------------------------------------- */

typedef lode_status (*joiner)(lode_context *context, lode_node *const *input, int count, int64_t dim,
                              lode_node **out);

static lode_status join_list(const lode_call *c, joiner function, int64_t dim, lode_node **out) {
  int count;
  lode_node **input = lode_argument_tensors(c, 1, &count);
  return function(c->context, input, count, dim, out);
}

/* list of tensors, dim (1 if it is left out) */
static int join(lua_State *L, const char *who, joiner function) {
  lode_call c = lode_enter(L, who);
  if (lode_test(&c, 1, LODE_TYPE_TENSOR) != NULL)
    lode_raise(&c, "argument 1 is a tensor, a list of tensors is needed: %s({a, b}, dim)", who);
  lode_arguments_end(&c, 2);
  int64_t dim = lua_isnoneornil(L, 2) ? 1 : lode_argument_integer(&c, 2);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_RECORD(&c, result, join_list, &c, function, dim);
  return 1;
}

static int shape_concat(lua_State *L) { return join(L, "concat", lode_record_concat); }
static int shape_stack(lua_State *L) { return join(L, "stack", lode_record_stack); }

#define EVERYWHERE (LODE_IN_MODULE | LODE_IN_TENSOR)

const lode_entry lode_shape_entries[] = {{EVERYWHERE, "permute_dims", shape_permute_dims, 0},
                                         {EVERYWHERE, "expand_dims", shape_expand_dims, 0},
                                         {EVERYWHERE, "squeeze", shape_squeeze, 0},
                                         {EVERYWHERE, "flip", shape_flip, 0},
                                         {EVERYWHERE, "reshape", shape_reshape, 0},
                                         {EVERYWHERE, "broadcast_to", shape_broadcast_to, 0},
                                         {LODE_IN_MODULE, "concat", shape_concat, 0},
                                         {LODE_IN_MODULE, "stack", shape_stack, 0},
                                         {0, NULL, NULL, 0}};
