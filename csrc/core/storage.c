/* See storage.h. */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"

static lode_storage *header_new(lode_context *context) {
  lode_storage *storage = context->unused_storages;
  if (storage != NULL) context->unused_storages = storage->next;
  else storage = malloc(sizeof *storage);
  if (storage != NULL) memset(storage, 0, sizeof *storage);
  return storage;
}

static void header_free(lode_context *context, lode_storage *storage) {
  storage->next = context->unused_storages;
  context->unused_storages = storage;
}

static int64_t weight_of(const lode_storage *storage) {
  return lode_device_weight(storage->device, storage->bytes);
}

void lode_storage_relieve(lode_context *context, lode_device *device) {
  context->short_of = device;
  lode_context_drain(context);
  device->api->trim(device);
}

lode_status lode_storage_new(lode_context *context, const char *who, lode_device *device, size_t bytes,
                             lode_storage **out) {
  lode_stream *stream;
  lode_status status = lode_context_stream(context, device, &stream);
  if (status != LODE_OK) return lode_context_named(context, who, status);
  lode_storage *storage = header_new(context);
  if (storage == NULL) return lode_fail(&context->error, LODE_NOMEM, "%s: no host memory for a storage", who);
  if (bytes == 0) bytes = 1;
  LODE_WITH_LADDER(context, device, status,
                   device->api->alloc(stream, bytes, &storage->block, &context->error));
  if (status != LODE_OK) {
    header_free(context, storage);
    return lode_context_named(context, who, status);
  }
  storage->refs = 1;
  storage->context = context;
  storage->device = device;
  storage->bytes = bytes;
  context->held += (int64_t)bytes;
  context->allocated += (int64_t)bytes;
  context->weight_held += weight_of(storage);
  context->weight_made += weight_of(storage);
  *out = storage;
  return LODE_OK;
}

lode_storage *lode_storage_ref(lode_storage *storage) {
  storage->refs++;
  return storage;
}

void lode_storage_unref(lode_storage *storage) {
  if (storage == NULL || --storage->refs > 0) return;
  lode_event *after[LODE_MAX_USES + 1];
  int count = 0;
  for (int i = 0; i < storage->nuses; i++) after[count++] = storage->use[i];
  if (storage->write != NULL) after[count++] = storage->write;
  storage->device->api->free(storage->device, storage->block, storage->bytes, after, count);
  storage->context->held -= (int64_t)storage->bytes;
  storage->context->weight_held -= weight_of(storage);
  header_free(storage->context, storage);
}

/* Waits for the writer and forgets it; one whose work failed stays, so that every read says so. */
static lode_status drop_write(lode_storage *storage, lode_error *error) {
  bool waited;
  LODE_TRY(storage->device->api->event_wait(storage->write, &waited, error));
  lode_event_unref(storage->write);
  storage->write = NULL;
  return LODE_OK;
}

bool lode_storage_ready(lode_storage *storage) {
  if (storage->writing) return false;
  if (storage->write == NULL) return true;
  if (!storage->device->api->event_ready(storage->write)) return false;
  drop_write(storage, NULL);
  return true;
}

/* Forgets readers that are done. */
static void sweep_uses(lode_storage *storage) {
  int kept = 0;
  for (int i = 0; i < storage->nuses; i++) {
    if (storage->device->api->event_ready(storage->use[i])) lode_event_unref(storage->use[i]);
    else storage->use[kept++] = storage->use[i];
  }
  storage->nuses = kept;
}

bool lode_storage_idle(lode_storage *storage) {
  sweep_uses(storage);
  return !storage->touched && lode_storage_ready(storage) && storage->nuses == 0;
}

bool lode_storage_behind(lode_storage *storage, const lode_stream *stream) {
  if (storage->touched) return false;
  sweep_uses(storage);
  for (int i = 0; i < storage->nuses; i++)
    if (storage->use[i]->stream != stream) return false;
  return lode_storage_ready(storage) || storage->write->stream == stream;
}

static lode_status event_wait(lode_device *device, lode_event *event, lode_error *error) {
  bool waited = false;
  LODE_TRY(device->api->event_wait(event, &waited, error));
  return LODE_OK;
}

lode_status lode_storage_wait(lode_storage *storage, lode_error *error) {
  return storage->write == NULL ? LODE_OK : drop_write(storage, error);
}

lode_status lode_storage_order(lode_storage *storage, lode_stream *stream, lode_error *error) {
  if (storage->writing || storage->write == NULL) return LODE_OK; /* writing: on the same stream */
  if (lode_storage_ready(storage)) return lode_storage_wait(storage, error);
  return storage->device->api->stream_wait(stream, storage->write, error);
}

lode_status lode_storage_used(lode_storage *storage, lode_event *event, bool writes, lode_error *error) {
  if (writes) {
    lode_event_unref(storage->write);
    storage->write = lode_event_ref(event);
    return LODE_OK;
  }
  for (int i = 0; i < storage->nuses; i++) {
    if (storage->use[i]->stream != event->stream) continue;
    lode_event_unref(storage->use[i]); /* the later event of a stream stands for the earlier ones */
    storage->use[i] = lode_event_ref(event);
    return LODE_OK;
  }
  if (storage->nuses == LODE_MAX_USES) sweep_uses(storage);
  if (storage->nuses == LODE_MAX_USES) {
    LODE_TRY(event_wait(storage->device, storage->use[0], error));
    sweep_uses(storage);
  }
  storage->use[storage->nuses++] = lode_event_ref(event);
  return LODE_OK;
}
