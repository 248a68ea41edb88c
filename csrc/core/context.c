/* See context.h. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "linalg.h"
#include "node.h"
#include "plan.h"

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
  for (lode_node *node = context->unused_nodes, *next; node != NULL; node = next) {
    next = node->next;
    free(node);
  }
  for (lode_storage *storage = context->unused_storages, *next; storage != NULL; storage = next) {
    next = storage->next;
    free(storage);
  }
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
  if (context->zombies != NULL) lode_factor_sweep(context, false);
}

lode_status lode_context_sync(lode_context *context, lode_device *device) {
  int i = slot_of(context, device);
  if (i == LODE_MAX_DEVICES) return LODE_OK;
  if (context->stream[i].own != NULL)
    LODE_TRY(device->api->stream_sync(context->stream[i].own, &context->error));
  if (context->stream[i].chosen != NULL)
    LODE_TRY(device->api->stream_sync(context->stream[i].chosen, &context->error));
  return LODE_OK;
}
