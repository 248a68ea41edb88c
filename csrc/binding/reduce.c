/* Reductions: one function for all of ops.def; mean, var and std. */
#include "binding.h"

static const char *const options_known[] = {"keepdims", NULL};
static const char *const variance_options[] = {"keepdims", "correction", NULL};

typedef struct arguments {
  int64_t dims[LODE_MAX_DIMS];
  int count; /* 0: all dims */
  bool keepdims;
} arguments;

/* x, dims, options: each of the latter may be left out. Returns where the options are. */
static int read_arguments(const lode_call *c, const char *const *known, arguments *out) {
  out->count = 0;
  bool dims_given = !lode_is_options(c, 2);
  if (dims_given) lode_argument_dims(c, 2, out->dims, &out->count);
  int options = lode_options(c, dims_given ? 3 : 2, known);
  out->keepdims = lode_option_boolean(c, options, "keepdims");
  return options;
}

static int reduce(lua_State *L) {
  lode_reduction which = (lode_reduction)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, lode_reductions[which].name);
  arguments a;
  read_arguments(&c, options_known, &a);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_reduce, input, which, a.dims, a.count, a.keepdims);
  return 1;
}

static int reduce_mean(lua_State *L) {
  lode_call c = lode_enter(L, "mean");
  arguments a;
  read_arguments(&c, options_known, &a);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_mean, input, a.dims, a.count, a.keepdims);
  return 1;
}

/* Upvalue 2: whether it is std. */
static int reduce_variance(lua_State *L) {
  bool root = lua_tointeger(L, lua_upvalueindex(2)) != 0;
  lode_call c = lode_enter(L, root ? "std" : "var");
  arguments a;
  double correction = lode_option_number(&c, read_arguments(&c, variance_options, &a), "correction", 0);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *input = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_variance, input, a.dims, a.count, a.keepdims, correction, root);
  return 1;
}

#define EVERYWHERE (LODE_IN_MODULE | LODE_IN_TENSOR)

const lode_entry lode_reduce_entries[] = {
#define LODE_REDUCE(name, rule, identity, expr) {EVERYWHERE, #name, reduce, LODE_RED_##name},
#include "core/ops.def"
    {EVERYWHERE, "mean", reduce_mean, 0},
    {EVERYWHERE, "var", reduce_variance, 0},
    {EVERYWHERE, "std", reduce_variance, 1},
    {0, NULL, NULL, 0}};
