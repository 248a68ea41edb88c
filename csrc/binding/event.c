/* The event userdata: a point in a stream that can be asked about and waited for. */
#include "binding.h"

typedef struct event_handle {
  lode_device *device;
  lode_event *event; /* NULL until recorded */
} event_handle;

static event_handle *event_at(const lode_call *c, int index) {
  event_handle *handle = lode_test(c, index, LODE_TYPE_EVENT);
  if (handle == NULL) lode_argument_error(c, index, "an event");
  return handle;
}

static event_handle *recorded_at(const lode_call *c, int index) {
  event_handle *handle = event_at(c, index);
  if (handle->event == NULL) lode_raise(c, "argument %d is an event that has not been recorded", index);
  return handle;
}

/* event({device = }) */
static int event_new(lua_State *L) {
  static const char *const options_known[] = {"device", NULL};
  lode_call c = lode_enter(L, "event");
  lode_device *device = lode_option_device(&c, lode_options(&c, 1, options_known));
  event_handle *handle = lode_push(&c, LODE_TYPE_EVENT, sizeof *handle);
  handle->device = device;
  return 1;
}

/* record(e, stream): behind all work of the stream so far; the device's current stream if left out. */
static int event_record(lua_State *L) {
  lode_call c = lode_enter(L, "record");
  lode_arguments_end(&c, 2);
  event_handle *handle = event_at(&c, 1);
  lode_stream *stream;
  if (!lua_isnoneornil(L, 2)) stream = lode_argument_stream(&c, 2);
  else LODE_CHECK(&c, lode_context_stream(c.context, handle->device, &stream));
  if (stream->device != handle->device)
    lode_raise(&c, "a stream on %s, but the event is on %s", stream->device->name, handle->device->name);
  lode_event *event;
  LODE_CHECK(&c,
             lode_context_named(c.context, c.who,
                                handle->device->api->event_record(stream, true, &event, &c.context->error)));
  lode_event_unref(handle->event);
  handle->event = event;
  lua_settop(L, 1);
  return 1;
}

static int event_ready(lua_State *L) {
  lode_call c = lode_enter(L, "ready");
  lode_arguments_end(&c, 1);
  event_handle *handle = recorded_at(&c, 1);
  lua_pushboolean(L, handle->device->api->event_ready(handle->event));
  return 1;
}

/* Returns whether it had to wait. */
static int event_wait(lua_State *L) {
  lode_call c = lode_enter(L, "wait");
  lode_arguments_end(&c, 1);
  event_handle *handle = recorded_at(&c, 1);
  bool waited = false;
  LODE_CHECK(&c,
             lode_context_named(c.context, c.who,
                                handle->device->api->event_wait(handle->event, &waited, &c.context->error)));
  lua_pushboolean(L, waited);
  return 1;
}

/* elapsed(e, later): seconds between them as the device did the work. Both must have been reached. */
static int event_elapsed(lua_State *L) {
  lode_call c = lode_enter(L, "elapsed");
  lode_arguments_end(&c, 2);
  event_handle *start = recorded_at(&c, 1), *end = recorded_at(&c, 2);
  if (start->device != end->device)
    lode_raise(&c, "events on %s and %s", start->device->name, end->device->name);
  double seconds = 0;
  LODE_CHECK(&c, lode_context_named(
                     c.context, c.who,
                     start->device->api->event_seconds(start->event, end->event, &seconds, &c.context->error)));
  lua_pushnumber(L, (lua_Number)seconds);
  return 1;
}

static bool give_up(event_handle *handle) {
  lode_event *event = handle->event;
  handle->event = NULL;
  lode_event_unref(event);
  return event != NULL;
}

static int event_release(lua_State *L) {
  lode_call c = lode_enter(L, "release");
  lua_pushboolean(L, give_up(event_at(&c, 1)));
  return 1;
}

static int event_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "gc", 1};
  event_handle *handle = lode_test(&c, 1, LODE_TYPE_EVENT);
  if (handle != NULL) give_up(handle);
  return 0;
}

static int event_device(lua_State *L) {
  lode_call c = lode_enter(L, "device");
  lua_pushstring(L, event_at(&c, 1)->device->name);
  return 1;
}

static int event_tostring(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "tostring", 1};
  event_handle *handle = lode_test(&c, 1, LODE_TYPE_EVENT);
  if (handle == NULL || handle->device == NULL) lua_pushliteral(L, "event");
  else
    lua_pushfstring(L, "event on %s%s", handle->device->name, handle->event == NULL ? " (not recorded)" : "");
  return 1;
}

const lode_entry lode_event_properties[] = {{0, "device", event_device, 0}, {0, NULL, NULL, 0}};

const lode_entry lode_event_meta[] = {{0, "__gc", event_gc, 0},
                                      {0, "__close", event_release, 0},
                                      {0, "__index", lode_object_index, 0},
                                      {0, "__tostring", event_tostring, 0},
                                      {0, NULL, NULL, 0}};

const lode_entry lode_event_entries[] = {{LODE_IN_MODULE, "event", event_new, 0},
                                         {LODE_IN_EVENT, "record", event_record, 0},
                                         {LODE_IN_EVENT, "ready", event_ready, 0},
                                         {LODE_IN_EVENT, "wait", event_wait, 0},
                                         {LODE_IN_EVENT, "elapsed", event_elapsed, 0},
                                         {LODE_IN_EVENT, "release", event_release, 0},
                                         {0, NULL, NULL, 0}};
