/* luaopen_lode_core: puts the registration tables of all files together.
 *
 * It returns a table of two: `lode`, the functions of the module, and private
 * ones for lua/lode/init.lua, which gives scripts the module. Nothing is global.
 * Opened again in the same state it finds the state and the metatables and fills
 * them anew. */
#include "binding.h"

#if defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

EXPORT int luaopen_lode_core(lua_State *L);

/* Stack slots while registering. Methods of a type are at METHODS + type. */
enum { STATE = 1, PRIVATE, MODULE, METHODS };

static const lode_entry *const all_entries[] = {
    lode_creation_entries, lode_elementwise_entries, lode_shape_entries,  lode_reduce_entries,
    lode_transfer_entries, lode_linalg_entries,      lode_device_entries, lode_scope_entries,
    lode_state_entries,    lode_tensor_entries,      lode_factor_entries, lode_stream_entries,
    lode_event_entries,    lode_graph_entries};

static const struct {
  unsigned flag;
  int table;
} places[] = {{LODE_IN_PRIVATE, PRIVATE},
              {LODE_IN_MODULE, MODULE},
              {LODE_IN_TENSOR, METHODS + LODE_TYPE_TENSOR},
              {LODE_IN_FACTOR, METHODS + LODE_TYPE_FACTOR},
              {LODE_IN_STREAM, METHODS + LODE_TYPE_STREAM},
              {LODE_IN_EVENT, METHODS + LODE_TYPE_EVENT},
              {LODE_IN_GRAPH, METHODS + LODE_TYPE_GRAPH}};

enum { NPLACES = sizeof places / sizeof *places, NTABLES = sizeof all_entries / sizeof *all_entries };

static void register_entry(lua_State *L, const lode_entry *entry) {
  for (int i = 0; i < NPLACES; i++) {
    if (!(entry->in & places[i].flag)) continue;
    lua_pushvalue(L, STATE);
    lua_pushinteger(L, entry->value);
    lua_pushcclosure(L, entry->function, 2);
    lua_setfield(L, places[i].table, entry->name);
  }
}

/* The properties of a type, functions without upvalues: they run in the frame of __index. */
static void push_properties(lua_State *L, const lode_entry *entry) {
  lua_newtable(L);
  for (; entry != NULL && entry->name != NULL; entry++) {
    lua_pushcfunction(L, entry->function);
    lua_setfield(L, -2, entry->name);
  }
}

/* Into the metatable below the properties, which are on the top. */
static void register_meta(lua_State *L, const lode_entry *entry, int type) {
  int properties = lua_gettop(L);
  for (; entry != NULL && entry->name != NULL; entry++) {
    lua_pushvalue(L, STATE);
    lua_pushinteger(L, entry->value);
    lua_pushvalue(L, METHODS + type);
    lua_pushvalue(L, properties);
    lua_pushcclosure(L, entry->function, 4);
    lua_setfield(L, properties - 1, entry->name);
  }
}

static void register_type(lua_State *L, const lode_lua *state, lode_type type, const char *name,
                          const lode_entry *meta, const lode_entry *properties) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->meta_ref[type]);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  push_properties(L, properties);
  register_meta(L, meta, type);
  if (type == LODE_TYPE_TENSOR) register_meta(L, lode_operator_meta, type);
  lua_pop(L, 2);
}

int luaopen_lode_core(lua_State *L) {
  lua_settop(L, 0);
  luaL_checkstack(L, METHODS + LODE_NTYPES + 16, "lode");
  lode_lua *state = lode_lua_open(L);
  for (int table = PRIVATE; table < METHODS + LODE_NTYPES; table++) lua_newtable(L);
  for (int i = 0; i < NTABLES; i++)
    for (const lode_entry *entry = all_entries[i]; entry->name != NULL; entry++) register_entry(L, entry);
  register_type(L, state, LODE_TYPE_TENSOR, "lode.tensor", lode_tensor_meta, lode_tensor_properties);
  register_type(L, state, LODE_TYPE_FACTOR, "lode.factor", lode_factor_meta, lode_factor_properties);
  register_type(L, state, LODE_TYPE_STREAM, "lode.stream", lode_stream_meta, lode_stream_properties);
  register_type(L, state, LODE_TYPE_EVENT, "lode.event", lode_event_meta, lode_event_properties);
  register_type(L, state, LODE_TYPE_GRAPH, "lode.graph", lode_graph_meta, lode_graph_properties);
  register_type(L, state, LODE_TYPE_SCOPE, "lode.scope", lode_scope_meta, NULL);
  register_type(L, state, LODE_TYPE_BUFFER, "lode.buffer", lode_buffer_meta, NULL);
  lua_pushvalue(L, METHODS + LODE_TYPE_STREAM);
  lua_setfield(L, PRIVATE, "stream_methods");
  lua_pushvalue(L, MODULE);
  lua_setfield(L, PRIVATE, "lode");
  lua_settop(L, PRIVATE);
  return 1;
}
