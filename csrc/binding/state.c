/* The state: what lode keeps for one lua_State, and the userdata that it makes.
 *
 * The state is a userdata in the registry under a string key, found again when
 * the module is opened again. It holds one reference on the context; so does each
 * handle, so that finalizers may come in any order at lua_close. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "core/system.h"

#ifndef LODE_BUILD
#define LODE_BUILD "unknown"
#endif

static const char state_key[] = "lode.state";

static const char *const type_name[LODE_NTYPES] = {"lode.tensor", "lode.factor", "lode.stream", "lode.event",
                                                   "lode.graph",  "lode.scope",  "lode.buffer"};

static int state_gc(lua_State *L) {
  lode_lua *state = lua_touserdata(L, 1);
  lode_context *context = state->context;
  state->context = NULL;
  if (context == NULL) return 0;
  lode_handles_close(state);
  lode_streams_drain(state);
  free(state->list);
  free(state->spare);
  lode_context_unref(context);
  return 0;
}

/* Runs the collector: argument 1 is KiB of work for a step, or -1 for all. Called
 * under lua_pcall, because a foreign finalizer may raise. */
static int collect(lua_State *L) {
  int amount = (int)lua_tointeger(L, 1);
  int ended = amount < 0 ? lua_gc(L, LUA_GCCOLLECT, 0) == 0 : lua_gc(L, LUA_GCSTEP, amount) == 1;
  lua_pushboolean(L, ended);
  return 1;
}

static void find_main(lua_State *L, lode_lua *state) {
#ifdef LUA_RIDX_MAINTHREAD
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  state->main = lua_tothread(L, -1);
  lua_pop(L, 1);
#else
  if (lua_pushthread(L)) state->main = L;
  lua_pop(L, 1);
#endif
}

/* SplitMix64: G. Steele et al., "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

int64_t lode_lua_seed(lode_lua *state) {
  return (int64_t)mix(state->seed + ++state->seeds * UINT64_C(0x9e3779b97f4a7c15));
}

/* Anchors what the state needs in the registry. May raise: the state is a userdata already. */
static void fill_state(lua_State *L, lode_lua *state) {
  for (int i = 0; i < LODE_NTYPES; i++) {
    luaL_newmetatable(L, type_name[i]);
    state->meta[i] = lua_topointer(L, -1);
    state->meta_ref[i] = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  lua_pushcfunction(L, collect);
  state->collect_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  state->split_ref = state->join_ref = LUA_NOREF;
  find_main(L, state);
  state->seed = mix((uint64_t)lode_clock() ^ mix((uint64_t)(uintptr_t)state));
}

static lode_lua *state_new(lua_State *L) {
  lode_lua *state = lua_newuserdata(L, sizeof *state);
  memset(state, 0, sizeof *state);
  snprintf(state->build, sizeof state->build, "%s", LODE_BUILD);
  state->scope = &state->root;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  fill_state(L, state);
  lode_error error;
  if (lode_context_new(&state->context, &error) != LODE_OK) luaL_error(L, "%s", error.text);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, state_key);
  return state;
}

lode_lua *lode_lua_open(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, state_key);
  lode_lua *state = lua_touserdata(L, -1);
  if (state != NULL && strcmp(state->build, LODE_BUILD) != 0)
    luaL_error(L, "lode: another copy of lode (%s) is loaded in this Lua state; this one is %s", state->build,
               LODE_BUILD);
  if (state != NULL && state->context != NULL) {
    if (state->main == NULL) find_main(L, state);
    return state;
  }
  lua_pop(L, 1);
  return state_new(L);
}

/* ---- userdata ----------------------------------------------------------------- */

/* Up to SPARE bytes are a size of their own, and one such buffer is kept: a loop that uploads or reads small
 * tensors allocates nothing. */
enum { SPARE = 16 << 10 };

typedef struct buffer {
  void *memory;
  bool small; /* SPARE bytes */
} buffer;

static void *buffer_memory(lode_lua *state, bool small, size_t bytes) {
  void *spare = small ? state->spare : NULL;
  if (spare != NULL) state->spare = NULL;
  return spare != NULL ? spare : malloc(small ? SPARE : bytes);
}

void *lode_buffer_push(const lode_call *c, size_t bytes) {
  buffer *box = lode_push(c, LODE_TYPE_BUFFER, sizeof *box);
  box->small = bytes <= SPARE;
  box->memory = buffer_memory(c->state, box->small, bytes);
  if (box->memory == NULL) {
    lode_collector_full(c);
    box->memory = buffer_memory(c->state, box->small, bytes);
  }
  if (box->memory == NULL) lode_raise(c, "no host memory for %zu bytes", bytes);
  return box->memory;
}

static void buffer_free(lode_lua *state, buffer *box) {
  bool kept = box->small && state->spare == NULL && state->context != NULL; /* a closed state keeps nothing */
  if (kept) state->spare = box->memory;
  else free(box->memory);
  box->memory = NULL;
}

void lode_buffer_free(const lode_call *c, int index) { buffer_free(c->state, lua_touserdata(c->L, index)); }

int lode_buffer_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "buffer", 1};
  buffer *box = lode_test(&c, 1, LODE_TYPE_BUFFER);
  if (box != NULL) buffer_free(c.state, box);
  return 0;
}

const lode_entry lode_buffer_meta[] = {{0, "__gc", lode_buffer_gc, 0}, {0, NULL, NULL, 0}};

/* ---- what lua/lode/init.lua tells ------------------------------------------------ */

/* hide(): frames of the files beside the caller's are lode's own, and no error points to them. */
static int state_hide(lua_State *L) {
  lode_call c = lode_enter(L, "hide");
  lua_Debug ar;
  c.state->own[0] = '\0';
  if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S", &ar) || ar.source[0] != '@') return 0;
  const char *slash = strrchr(ar.source, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - ar.source) + 1;
  if (length == 0 || length >= sizeof c.state->own) return 0;
  memcpy(c.state->own, ar.source, length);
  c.state->own[length] = '\0';
  return 0;
}

/* int64(split, join): split(cdata) gives the high and low 32 bits, join makes a cdata of them. */
static int state_int64(lua_State *L) {
  lode_call c = lode_enter(L, "int64");
  luaL_unref(L, LUA_REGISTRYINDEX, c.state->split_ref);
  luaL_unref(L, LUA_REGISTRYINDEX, c.state->join_ref);
  lua_settop(L, 2);
  c.state->join_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  c.state->split_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* raise(who, message) */
static int state_raise(lua_State *L) {
  lode_call c = lode_enter(L, luaL_checkstring(L, 1));
  lode_raise(&c, "%s", luaL_checkstring(L, 2));
}

const lode_entry lode_state_entries[] = {{LODE_IN_PRIVATE, "hide", state_hide, 0},
                                         {LODE_IN_PRIVATE, "int64", state_int64, 0},
                                         {LODE_IN_PRIVATE, "raise", state_raise, 0},
                                         {0, NULL, NULL, 0}};
