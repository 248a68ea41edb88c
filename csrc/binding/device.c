/* Functions about devices: what is there, what they did, and the defaults. */
#include <inttypes.h>
#include <string.h>

#include "binding.h"
#include "core/system.h"

/* ---- what is there --------------------------------------------------------------------- */

static void set_string(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

/* A list of {name, value}, and the values by name. */
static void push_properties(lua_State *L, const lode_properties *properties) {
  lua_createtable(L, properties->count, properties->count);
  for (int i = 0; i < properties->count; i++) {
    const lode_property *property = &properties->property[i];
    lua_createtable(L, 2, 0);
    lua_pushstring(L, property->name);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, property->text);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
    set_string(L, property->name, property->text);
  }
}

/* devices(): a list of {name, available, reason, properties}. */
static int device_devices(lua_State *L) {
  lode_call c = lode_enter(L, "devices");
  lode_arguments_end(&c, 0);
  int count = lode_devices_count();
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    const lode_device_entry *entry = lode_devices_get(i);
    lode_properties properties = {.count = 0};
    if (entry->device != NULL) entry->device->api->describe(entry->device, &properties);
    lua_createtable(L, 0, 4);
    set_string(L, "name", entry->name);
    lua_pushboolean(L, entry->device != NULL);
    lua_setfield(L, -2, "available");
    if (entry->device == NULL) set_string(L, "reason", entry->reason);
    push_properties(L, &properties);
    lua_setfield(L, -2, "properties");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- statistics and memory --------------------------------------------------------------- */

static void set_count(const lode_call *c, const char *name, int64_t value) {
  lode_push_integer(c, value);
  lua_setfield(c->L, -2, name);
}

static void set_counters(const lode_call *c, lode_device *device) {
#define X(name)                                                                                                \
  set_count(c, #name, (int64_t)atomic_load_explicit(&device->counter[LODE_COUNT_##name], memory_order_relaxed));
  LODE_COUNTER_MAP(X)
#undef X
}

/* stats(device): counters and memory (bytes) of the device, `computes` and `collector` of this state. */
static int device_stats(lua_State *L) {
  lode_call c = lode_enter(L, "stats");
  lode_arguments_end(&c, 1);
  lode_device *device = lode_argument_device(&c, 1);
  lode_memory memory;
  device->api->memory(device, &memory);
  lua_createtable(L, 0, LODE_NCOUNTERS + 8);
  set_counters(&c, device);
  set_count(&c, "used", memory.used);
  set_count(&c, "reserved", memory.reserved);
  set_count(&c, "peak_used", memory.peak_used);
  set_count(&c, "peak_reserved", memory.peak_reserved);
  set_count(&c, "budget", memory.budget);
  set_count(&c, "available", memory.available);
  set_count(&c, "computes", c.context->computes);
  lua_createtable(L, 0, 4);
  set_count(&c, "steps", c.state->pace.steps);
  set_count(&c, "cycles", c.state->pace.cycles);
  set_count(&c, "held", c.context->held);
  set_count(&c, "allocated", c.context->allocated);
  lua_setfield(L, -2, "collector");
  return 1;
}

/* set_budget(bytes, device): what `reserved` may reach; 0: no limit. */
static int device_set_budget(lua_State *L) {
  lode_call c = lode_enter(L, "set_budget");
  lode_arguments_end(&c, 2);
  int64_t bytes = lode_argument_integer(&c, 1);
  lode_device *device = lode_argument_device(&c, 2);
  if (bytes < 0) lode_raise(&c, "argument 1 is negative");
  device->api->set_budget(device, bytes);
  return 0;
}

/* trim(device): gives memory kept for reuse back to the system. */
static int device_trim(lua_State *L) {
  lode_call c = lode_enter(L, "trim");
  lode_arguments_end(&c, 1);
  lode_device *device = lode_argument_device(&c, 1);
  device->api->trim(device);
  return 0;
}

/* sync(device): waits for all work of this state, on that device or on all of them. */
static int device_sync(lua_State *L) {
  lode_call c = lode_enter(L, "sync");
  lode_arguments_end(&c, 1);
  lode_device *only = lua_isnoneornil(L, 1) ? NULL : lode_argument_device(&c, 1);
  for (int i = 0; i < LODE_MAX_DEVICES; i++) {
    lode_device *device = c.context->stream[i].device;
    if (device == NULL || (only != NULL && device != only)) continue;
    LODE_CHECK(&c, lode_context_named(c.context, c.who, lode_context_sync(c.context, device)));
  }
  return 0;
}

/* ---- threads and time ----------------------------------------------------------------------- */

static int device_set_threads(lua_State *L) {
  lode_call c = lode_enter(L, "set_threads");
  lode_arguments_end(&c, 2);
  int64_t count = lode_argument_integer(&c, 1);
  lode_device *device = lode_argument_device(&c, 2);
  if (count < 0 || count > 4096) lode_raise(&c, "argument 1 is %" PRId64 ", 0 to 4096 is possible", count);
  if (device->api->set_threads != NULL) device->api->set_threads(device, (int)count);
  return 0;
}

static int device_get_threads(lua_State *L) {
  lode_call c = lode_enter(L, "get_threads");
  lode_arguments_end(&c, 1);
  lode_device *device = lode_argument_device(&c, 1);
  lua_pushinteger(L, device->api->get_threads != NULL ? device->api->get_threads(device) : 0);
  return 1;
}

/* clock(): seconds, monotonic, from an arbitrary start. */
static int device_clock(lua_State *L) {
  lua_pushnumber(L, (lua_Number)lode_clock() * 1e-9);
  return 1;
}

/* ---- compiling -------------------------------------------------------------------------------- */

/* jit(): the mode. jit(mode) sets it for all devices of the process. What lode.jit reads and writes. */
static int device_jit(lua_State *L) {
  lode_call c = lode_enter(L, "jit");
  if (lua_gettop(L) > 0) {
    if (lua_type(L, 1) != LUA_TSTRING)
      lode_raise(&c, "a %s is no mode (there are \"wait\", \"background\", \"off\")", luaL_typename(L, 1));
    const char *name = lua_tostring(L, 1);
    int mode = 0;
    while (mode < LODE_NJITMODES && strcmp(lode_jit_names[mode], name) != 0) mode++;
    if (mode == LODE_NJITMODES) lode_raise(&c, "'%s' is no mode (there are wait, background, off)", name);
    lode_devices_set_jit((lode_jit_mode)mode);
  }
  lua_pushstring(L, lode_jit_names[lode_devices_jit()]);
  return 1;
}

/* ---- defaults ---------------------------------------------------------------------------------- */

static int set_default(const lode_call *c, int index) {
  static const char *const options_known[] = {"device", "dtype", NULL};
  int options = lode_options(c, index, options_known);
  if (options == 0) lode_argument_error(c, index, "a table of options");
  lode_device *device = lode_option_device(c, options);
  lode_dtype dtype = lode_option_dtype(c, options, c->context->default_dtype);
  if (lode_dtype_kind(dtype) != LODE_KIND_FLOAT)
    lode_raise(c, "dtype %s; f32 or f64 is needed", lode_dtype_name(dtype));
  c->context->default_device = device;
  c->context->default_dtype = dtype;
  return 0;
}

/* set_default{device = , dtype = } */
static int device_set_default(lua_State *L) {
  lode_call c = lode_enter(L, "set_default");
  return set_default(&c, 1);
}

/* set_default(who, options), for lode.with: `who` is what errors name. */
static int device_set_default_for(lua_State *L) {
  lode_call c = lode_enter(L, luaL_checkstring(L, 1));
  return set_default(&c, 2);
}

static int device_get_default(lua_State *L) {
  lode_call c = lode_enter(L, "get_default");
  lode_arguments_end(&c, 0);
  lua_createtable(L, 0, 2);
  set_string(L, "device", c.context->default_device->name);
  set_string(L, "dtype", lode_dtype_name(c.context->default_dtype));
  return 1;
}

const lode_entry lode_device_entries[] = {{LODE_IN_MODULE, "devices", device_devices, 0},
                                          {LODE_IN_MODULE, "stats", device_stats, 0},
                                          {LODE_IN_MODULE, "set_budget", device_set_budget, 0},
                                          {LODE_IN_MODULE, "trim", device_trim, 0},
                                          {LODE_IN_MODULE, "sync", device_sync, 0},
                                          {LODE_IN_MODULE, "set_threads", device_set_threads, 0},
                                          {LODE_IN_MODULE, "get_threads", device_get_threads, 0},
                                          {LODE_IN_MODULE, "clock", device_clock, 0},
                                          {LODE_IN_MODULE, "set_default", device_set_default, 0},
                                          {LODE_IN_PRIVATE, "jit", device_jit, 0},
                                          {LODE_IN_PRIVATE, "set_default", device_set_default_for, 0},
                                          {LODE_IN_MODULE, "get_default", device_get_default, 0},
                                          {0, NULL, NULL, 0}};
