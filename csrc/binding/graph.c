/* The graph userdata: a recipe that is called with new inputs (core/recipe.h).
 *
 * lode.graph is in lua/lode/init.lua: it calls the script's function between graph_begin and graph_end, under
 * pcall, and gives a recording up by graph_cancel. One that nobody ends is given up by the collector. */
#include "binding.h"
#include "core/recipe.h"

typedef struct graph_handle {
  lode_context *context; /* counted */
  lode_recipe *recipe;   /* NULL once released */
} graph_handle;

static graph_handle *graph_at_1(const lode_call *c) {
  graph_handle *handle = lode_test(c, 1, LODE_TYPE_GRAPH);
  if (handle == NULL) lode_argument_error(c, 1, "a graph");
  return handle;
}

static lode_recipe *recipe_at_1(const lode_call *c) {
  lode_recipe *recipe = graph_at_1(c)->recipe;
  if (recipe == NULL) lode_raise(c, "the graph has been released");
  return recipe;
}

static bool give_up(graph_handle *handle) {
  if (handle->recipe == NULL) return false;
  lode_recipe_discard(handle->recipe);
  handle->recipe = NULL;
  return true;
}

/* ---- recording ----------------------------------------------------------------------- */

/* Puts a stand-in in the place of the tensor at `index`. */
static void add_input(const lode_call *c, lode_recipe *recipe, int index) {
  lode_handle *stand_in = lode_handle_push(c, LODE_TYPE_TENSOR);
  lode_handle *handle = lode_test(c, index, LODE_TYPE_TENSOR);
  if (handle->node == NULL) lode_raise(c, "argument %d is a released tensor", index + 1); /* 1: the function */
  LODE_RECORD(c, stand_in, lode_recipe_add_input, recipe, handle->node);
  lua_replace(c->L, index);
}

/* graph_begin(...): a graph that is being recorded, and what its function is to be called with. */
static int graph_begin(lua_State *L) {
  lode_call c = lode_enter(L, "graph");
  luaL_checkstack(L, 8, "lode: graph");
  graph_handle *handle = lode_push(&c, LODE_TYPE_GRAPH, sizeof *handle);
  handle->context = lode_context_ref(c.context);
  LODE_CHECK(&c, lode_recipe_new(c.context, &handle->recipe));
  for (int i = 1; i <= c.nargs; i++)
    if (lode_test(&c, i, LODE_TYPE_TENSOR) != NULL) add_input(&c, handle->recipe, i);
  if (handle->recipe->ninputs == 0) lode_raise(&c, "no argument is a tensor: there is nothing to replay with");
  lode_recipe_begin(handle->recipe);
  lua_insert(L, 1);
  return c.nargs + 1;
}

static lode_status end_recording(const lode_call *c, lode_node **result, int count) {
  for (int i = 0; i < count; i++) {
    lode_handle *handle = lode_test(c, i + 2, LODE_TYPE_TENSOR);
    if (handle == NULL || handle->node == NULL)
      lode_raise(c, "result %d of the function is %s, a tensor is needed", i + 1, lode_describe(c, i + 2));
    result[i] = handle->node;
  }
  return lode_recipe_end(recipe_at_1(c), result, count);
}

/* graph_end(graph, ...): computes and remembers what the function returned. Returns the graph. */
static int graph_end(lua_State *L) {
  lode_call c = lode_enter(L, "graph");
  int count = c.nargs - 1;
  if (count == 0) lode_raise(&c, "the function returns nothing, tensors are needed");
  lode_node **result = lode_buffer_push(&c, (size_t)count * sizeof(lode_node *));
  LODE_CHECK(&c, end_recording(&c, result, count));
  lode_buffer_free(&c, -1);
  lua_settop(L, 1);
  return 1;
}

/* graph_cancel(graph) */
static int graph_cancel(lua_State *L) {
  lode_call c = lode_enter(L, "graph");
  give_up(graph_at_1(&c));
  return 0;
}

/* ---- replaying ----------------------------------------------------------------------- */

static lode_status replay(const lode_call *c) {
  lode_recipe *recipe = recipe_at_1(c);
  for (int i = 0; i < recipe->ninputs; i++) {
    lode_handle *handle = lode_test(c, i + 2, LODE_TYPE_TENSOR);
    if (handle == NULL || handle->node == NULL)
      lode_raise(c, "input %d is %s, a tensor is needed", i + 1, lode_describe(c, i + 2));
    recipe->given[i] = handle->node;
  }
  return lode_recipe_replay(recipe);
}

/* graph(...): new results. Only tensors are taken; everything else is the graph's own. */
static int graph_call(lua_State *L) {
  lode_call c = lode_enter(L, "graph");
  const lode_recipe *recipe = recipe_at_1(&c);
  int inputs = recipe->ninputs, results = recipe->nresults, first = c.nargs + 1;
  if (c.nargs - 1 != inputs)
    lode_raise(&c, "%d input%s, the graph was recorded with %d", c.nargs - 1, c.nargs == 2 ? "" : "s", inputs);
  luaL_checkstack(L, results + 4, "lode: graph");
  for (int i = 0; i < results; i++) lode_handle_push(&c, LODE_TYPE_TENSOR);
  LODE_CHECK(&c, replay(&c));
  recipe = graph_at_1(&c)->recipe;
  for (int i = 0; i < results; i++) lode_handle_set(lua_touserdata(L, first + i), recipe->made[i]);
  return results;
}

/* ---- the object ---------------------------------------------------------------------------- */

/* release(): also __close. While a core call waits for memory its operands are borrowed. */
static int graph_release(lua_State *L) {
  lode_call c = lode_enter(L, "release");
  graph_handle *handle = graph_at_1(&c);
  bool released = !c.state->pace.borrowed && give_up(handle);
  lode_collector_released(&c);
  lua_pushboolean(L, released);
  return 1;
}

static int graph_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "gc", 1};
  graph_handle *handle = lode_test(&c, 1, LODE_TYPE_GRAPH);
  if (handle == NULL || handle->context == NULL) return 0;
  lode_context *context = handle->context;
  give_up(handle);
  handle->context = NULL;
  lode_context_unref(context);
  return 0;
}

static int graph_device(lua_State *L) {
  lode_call c = lode_enter(L, "device");
  lua_pushstring(L, recipe_at_1(&c)->device->name);
  return 1;
}

static int graph_tostring(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "tostring", 1};
  graph_handle *handle = lode_test(&c, 1, LODE_TYPE_GRAPH);
  if (handle == NULL || handle->recipe == NULL) {
    lua_pushliteral(L, "graph (released)");
    return 1;
  }
  const lode_recipe *recipe = handle->recipe;
  lua_pushfstring(L, "graph of %d step%s on %s, inputs: %d, results: %d", recipe->nsteps,
                  recipe->nsteps == 1 ? "" : "s", recipe->device->name, recipe->ninputs, recipe->nresults);
  return 1;
}

const lode_entry lode_graph_properties[] = {{0, "device", graph_device, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_graph_meta[] = {
    {0, "__call", graph_call, 0},         {0, "__gc", graph_gc, 0},
    {0, "__close", graph_release, 0},     {0, "__index", lode_object_index, 0},
    {0, "__tostring", graph_tostring, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_graph_entries[] = {{LODE_IN_PRIVATE, "graph_begin", graph_begin, 0},
                                         {LODE_IN_PRIVATE, "graph_end", graph_end, 0},
                                         {LODE_IN_PRIVATE, "graph_cancel", graph_cancel, 0},
                                         {LODE_IN_GRAPH, "release", graph_release, 0},
                                         {0, NULL, NULL, 0}};
