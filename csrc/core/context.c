/* See context.h. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "linalg.h"
#include "node.h"
#include "plan.h"
#include "recipe.h"

lode_status lode_context_new(lode_context **out, lode_error *error) {
  lode_device *cpu;
  LODE_TRY(lode_devices_find(error, "lode", "cpu", &cpu));
  lode_context *context = calloc(1, sizeof *context);
  if (context == NULL) return lode_fail(error, LODE_NOMEM, "lode: no host memory for a context");
  context->refs = 1;
  context->default_device = cpu;
  context->default_dtype = LODE_F32;
  *out = context;
  return LODE_OK;
}

lode_context *lode_context_ref(lode_context *context) {
  context->refs++;
  return context;
}

void lode_context_unref(lode_context *context) {
  if (--context->refs > 0) return;
  lode_context_drain(context);
  lode_factor_sweep(context, true);
  for (int i = 0; i < LODE_MAX_DEVICES; i++) {
    lode_stream_unref(context->stream[i].chosen);
    lode_stream_unref(context->stream[i].own);
  }
  lode_nodes_free(context);
  for (lode_storage *storage = context->unused_storages, *next; storage != NULL; storage = next) {
    next = storage->next;
    free(storage);
  }
  for (int i = 0; i < context->npending; i++) lode_event_unref(context->pending[i]);
  free(context->pending);
  lode_planner_free(context->planner);
  free(context);
}

static int slot_of(lode_context *context, lode_device *device) {
  int i = 0;
  while (i < LODE_MAX_DEVICES && context->stream[i].device != NULL && context->stream[i].device != device) i++;
  if (i < LODE_MAX_DEVICES) context->stream[i].device = device;
  return i;
}

lode_status lode_context_own_stream(lode_context *context, lode_device *device, lode_stream **out) {
  int i = slot_of(context, device);
  if (i == LODE_MAX_DEVICES) return lode_fail(&context->error, LODE_SYSTEM, "lode: more than %d devices", i);
  if (context->stream[i].own == NULL)
    LODE_TRY(device->api->stream_new(device, true, &context->stream[i].own, &context->error));
  *out = context->stream[i].own;
  return LODE_OK;
}

lode_status lode_context_stream(lode_context *context, lode_device *device, lode_stream **out) {
  int i = slot_of(context, device);
  if (i == LODE_MAX_DEVICES || context->stream[i].chosen == NULL)
    return lode_context_own_stream(context, device, out);
  *out = context->stream[i].chosen;
  return LODE_OK;
}

lode_stream *lode_context_chosen(lode_context *context, lode_device *device) {
  int i = slot_of(context, device);
  return i < LODE_MAX_DEVICES ? context->stream[i].chosen : NULL;
}

lode_status lode_context_choose(lode_context *context, lode_device *device, lode_stream *stream) {
  int i = slot_of(context, device);
  if (i == LODE_MAX_DEVICES) return lode_fail(&context->error, LODE_SYSTEM, "lode: more than %d devices", i);
  lode_stream *before = context->stream[i].chosen;
  context->stream[i].chosen = stream != NULL ? lode_stream_ref(stream) : NULL;
  lode_stream_unref(before);
  return LODE_OK;
}

void lode_context_discard(lode_context *context, lode_node *node) {
  node->handles--;
  if (node->refs > 1) {
    node->refs--;
    return;
  }
  node->next = context->dead;
  context->dead = node;
}

void lode_context_drain(lode_context *context) {
  while (context->dead != NULL) {
    lode_node *node = context->dead;
    context->dead = node->next;
    lode_node_unref(node);
  }
  while (context->dead_recipes != NULL) {
    lode_recipe *recipe = context->dead_recipes;
    context->dead_recipes = recipe->next;
    lode_recipe_free(recipe);
  }
  if (context->zombies != NULL) lode_factor_sweep(context, false);
}

lode_status lode_context_named(lode_context *context, const char *who, lode_status status) {
  if (status == LODE_OK) return LODE_OK;
  lode_error error = context->error;
  return lode_fail(&context->error, status, "%s: %.480s", who, error.text);
}

/* ---- work in flight ------------------------------------------------------- */

static bool make_room(lode_context *context) {
  int kept = 0;
  for (int i = 0; i < context->npending; i++) {
    lode_event *event = context->pending[i];
    if (event->device->api->event_ready(event)) lode_event_unref(event);
    else context->pending[kept++] = event;
  }
  context->npending = kept;
  if (kept < context->pending_room) return true;
  int room = kept == 0 ? 8 : 2 * kept;
  lode_event **grown = realloc(context->pending, (size_t)room * sizeof *grown);
  if (grown == NULL) return false;
  context->pending = grown;
  context->pending_room = room;
  return true;
}

/* The later event of a stream stands for the earlier ones. */
static bool note_event(lode_context *context, lode_event *event) {
  for (int i = 0; i < context->npending; i++) {
    if (context->pending[i]->stream != event->stream) continue;
    lode_event_unref(context->pending[i]);
    context->pending[i] = lode_event_ref(event);
    return true;
  }
  if (context->npending == context->pending_room && !make_room(context)) return false;
  context->pending[context->npending++] = lode_event_ref(event);
  return true;
}

lode_status lode_context_record(lode_context *context, lode_stream *stream, lode_event **out) {
  lode_status status = stream->device->api->event_record(stream, false, out, &context->error);
  if (status == LODE_OK && !note_event(context, *out)) {
    lode_event_unref(*out);
    status = lode_fail(&context->error, LODE_NOMEM, "lode: no host memory to note an event");
  }
  if (status != LODE_OK) stream->device->api->stream_sync(stream, NULL);
  return status;
}

lode_status lode_context_sync(lode_context *context, lode_device *device) {
  lode_status status = LODE_OK;
  int kept = 0;
  for (int i = 0; i < context->npending; i++) {
    lode_event *event = context->pending[i];
    if (event->device != device) {
      context->pending[kept++] = event;
      continue;
    }
    bool waited;
    lode_status reached = device->api->event_wait(event, &waited, &context->error);
    if (status == LODE_OK) status = reached;
    lode_event_unref(event);
  }
  context->npending = kept;
  int i = slot_of(context, device);
  if (status == LODE_OK && i < LODE_MAX_DEVICES && context->stream[i].own != NULL)
    status = device->api->stream_sync(context->stream[i].own, &context->error);
  return status;
}
