/* Products, solves and factorizations. */
#include <string.h>

#include "binding.h"

static const char *const solve_options[] = {"assume", NULL};

enum { WHERE = 128 }; /* as much of a script's line as a fault keeps (core/fault.h) */

static int linalg_matmul(lua_State *L) {
  lode_call c = lode_enter(L, "matmul");
  lode_arguments_end(&c, 2);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *a = lode_argument_tensor(&c, 1), *b = lode_argument_tensor(&c, 2);
  LODE_RECORD(&c, result, lode_record_matmul, a, b);
  return 1;
}

static lode_method method_of(const lode_call *c, int options) {
  if (!lode_option(c, options, "assume")) return LODE_METHOD_AUTO;
  const char *name = lua_type(c->L, -1) == LUA_TSTRING ? lua_tostring(c->L, -1) : lode_describe(c, -1);
  for (int i = 0; i < LODE_NMETHODS; i++)
    if (strcmp(name, lode_method_names[i]) == 0) return (lode_method)i;
  lode_raise(c, "unknown assume '%s' (there are auto, general, spd, upper, lower)", name);
}

/* ---- solve ------------------------------------------------------------------------------ */

typedef struct system {
  const lode_call *c;
  lode_method method;
  bool raises;
  char where[WHERE];
} system_of;

/* x, and info where it is asked for. */
static lode_status solve(const system_of *s, lode_node *a, lode_node *b, lode_node **info, lode_node **out) {
  lode_node *factor, *x;
  LODE_TRY(lode_record_factor(a, s->c->who, s->method, s->where, s->raises, &factor));
  lode_status status = lode_record_solve(factor, b, s->c->who, s->where, s->raises, &x);
  if (status == LODE_OK && info != NULL) {
    status = lode_record_info(factor, info);
    if (status != LODE_OK) lode_node_unref(x);
  }
  lode_node_unref(factor);
  if (status == LODE_OK) *out = x;
  return status;
}

static void read_system(const lode_call *c, bool raises, system_of *out) {
  int options = lode_options(c, 3, solve_options);
  *out = (system_of){.c = c, .method = method_of(c, options), .raises = raises};
  lode_where(c->L, c->state, out->where, sizeof out->where);
}

/* solve(A, b, options): x with A x = b. A singular A raises where x is first waited for. */
static int linalg_solve(lua_State *L) {
  lode_call c = lode_enter(L, "solve");
  system_of s;
  read_system(&c, true, &s);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *a = lode_argument_tensor(&c, 1), *b = lode_argument_tensor(&c, 2);
  LODE_RECORD(&c, result, solve, &s, a, b, NULL);
  return 1;
}

/* solve_ex(A, b, options): x and info (i32, one a system: 0, or LAPACK's number of the failure). */
static int linalg_solve_ex(lua_State *L) {
  lode_call c = lode_enter(L, "solve_ex");
  system_of s;
  read_system(&c, false, &s);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_handle *info = lode_handle_push(&c, LODE_TYPE_TENSOR);
  lode_node *a = lode_argument_tensor(&c, 1), *b = lode_argument_tensor(&c, 2), *number = NULL;
  LODE_RECORD(&c, result, solve, &s, a, b, &number);
  lode_handle_set(info, number);
  return 2;
}

/* lu(A), cholesky(A): upvalue 2 is the method. */
static int linalg_factor(lua_State *L) {
  lode_method method = (lode_method)lua_tointeger(L, lua_upvalueindex(2));
  lode_call c = lode_enter(L, method == LODE_METHOD_SPD ? "cholesky" : "lu");
  lode_arguments_end(&c, 1);
  char where[WHERE];
  lode_where(L, c.state, where, sizeof where);
  lode_handle *result = lode_handle_push(&c, LODE_TYPE_FACTOR);
  lode_node *a = lode_argument_tensor(&c, 1);
  LODE_RECORD(&c, result, lode_record_factor, a, c.who, method, where, true);
  return 1;
}

#define EVERYWHERE (LODE_IN_MODULE | LODE_IN_TENSOR)

const lode_entry lode_linalg_entries[] = {{EVERYWHERE, "matmul", linalg_matmul, 0},
                                          {EVERYWHERE, "solve", linalg_solve, 0},
                                          {EVERYWHERE, "solve_ex", linalg_solve_ex, 0},
                                          {EVERYWHERE, "lu", linalg_factor, LODE_METHOD_GENERAL},
                                          {EVERYWHERE, "cholesky", linalg_factor, LODE_METHOD_SPD},
                                          {0, NULL, NULL, 0}};
