/* The stream userdata: an order of work of its own on a device.
 *
 * s:run(fn, ...) is lode.with{stream = s}, in lua/lode/init.lua. */
#include "binding.h"

/* stream(device) */
static int stream_new(lua_State *L) {
  lode_call c = lode_enter(L, "stream");
  lode_arguments_end(&c, 1);
  lode_device *device = lode_argument_device(&c, 1);
  lode_streams_drain(c.state);
  lode_stream_handle *handle = lode_push(&c, LODE_TYPE_STREAM, sizeof *handle);
  LODE_CHECK(&c,
             lode_context_named(c.context, c.who,
                                device->api->stream_new(device, false, &handle->stream, &c.context->error)));
  return 1;
}

static int stream_sync(lua_State *L) {
  lode_call c = lode_enter(L, "sync");
  lode_arguments_end(&c, 1);
  lode_stream *stream = lode_argument_stream(&c, 1);
  LODE_CHECK(&c,
             lode_context_named(c.context, c.who, stream->device->api->stream_sync(stream, &c.context->error)));
  return 1;
}

static bool give_up(lode_stream_handle *handle) {
  lode_stream *stream = handle->stream;
  handle->stream = NULL;
  lode_stream_unref(stream);
  return stream != NULL;
}

static int stream_release(lua_State *L) {
  lode_call c = lode_enter(L, "release");
  lode_stream_handle *handle = lode_test(&c, 1, LODE_TYPE_STREAM);
  if (handle == NULL) lode_argument_error(&c, 1, "a stream");
  lua_pushboolean(L, give_up(handle));
  return 1;
}

void lode_streams_drain(lode_lua *state) {
  while (state->lost != NULL) {
    lode_stream *stream = state->lost;
    state->lost = stream->next;
    lode_stream_unref(stream);
  }
}

/* Freeing a stream may wait for its work, which a finalizer must not: the state does it later. */
static int stream_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "gc", 1};
  lode_stream_handle *handle = lode_test(&c, 1, LODE_TYPE_STREAM);
  if (handle == NULL || handle->stream == NULL) return 0;
  lode_stream *stream = handle->stream;
  bool shared = atomic_load(&stream->refs) > 1; /* others will free it: no list may hold it */
  if (c.state->context == NULL || shared) {
    give_up(handle);
    return 0;
  }
  handle->stream = NULL;
  stream->next = c.state->lost;
  c.state->lost = stream;
  return 0;
}

static int stream_tostring(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "tostring", 1};
  lode_stream_handle *handle = lode_test(&c, 1, LODE_TYPE_STREAM);
  if (handle == NULL || handle->stream == NULL) lua_pushliteral(L, "stream (released)");
  else lua_pushfstring(L, "stream on %s", handle->stream->device->name);
  return 1;
}

static int stream_device(lua_State *L) {
  lode_call c = lode_enter(L, "device");
  lua_pushstring(L, lode_argument_stream(&c, 1)->device->name);
  return 1;
}

/* choose(device, stream): where work on the device goes from now on; nil for the state's own stream.
 * Returns what was chosen before, as a handle of its own, or nil. */
static int stream_choose(lua_State *L) {
  lode_call c = lode_enter(L, "with");
  lode_device *device = lode_argument_device(&c, 1);
  lode_stream_handle *before = lode_push(&c, LODE_TYPE_STREAM, sizeof *before);
  lode_stream *stream = lua_isnoneornil(L, 2) ? NULL : lode_argument_stream(&c, 2);
  before->stream = lode_context_chosen(c.context, device);
  if (before->stream != NULL) lode_stream_ref(before->stream);
  LODE_CHECK(&c, lode_context_choose(c.context, device, stream));
  if (before->stream == NULL) lua_pushnil(L);
  return 1;
}

const lode_entry lode_stream_properties[] = {{0, "device", stream_device, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_stream_meta[] = {{0, "__gc", stream_gc, 0},
                                       {0, "__close", stream_release, 0},
                                       {0, "__index", lode_object_index, 0},
                                       {0, "__tostring", stream_tostring, 0},
                                       {0, NULL, NULL, 0}};

const lode_entry lode_stream_entries[] = {
    {LODE_IN_MODULE, "stream", stream_new, 0},        {LODE_IN_STREAM, "sync", stream_sync, 0},
    {LODE_IN_STREAM, "release", stream_release, 0},   {LODE_IN_PRIVATE, "choose", stream_choose, 0},
    {LODE_IN_PRIVATE, "device_of", stream_device, 0}, {0, NULL, NULL, 0}};
