/* Values in and out: host memory to tensors, tensors to host memory, waits. */
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "node.h"
#include "plan.h"
#include "recipe.h"

/* ---- in ---------------------------------------------------------------------------- */

/* A bool is a byte that holds 0 or 1: operations count on it. */
static lode_status check_bools(lode_node *node, const char *who, const uint8_t *host, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (host[i] > 1)
      return lode_fail(&node->context->error, LODE_INVALID, "%s: byte %zu is %d; a bool is 0 or 1", who, i + 1,
                       host[i]);
  return LODE_OK;
}

static lode_status copy_in(lode_node *node, const char *who, const void *host) {
  lode_context *context = node->context;
  size_t bytes = lode_node_bytes(node);
  lode_stream *stream;
  if (bytes == 0) return LODE_OK;
  if (node->dtype == LODE_BOOL) LODE_TRY(check_bools(node, who, host, bytes));
  LODE_TRY(lode_context_stream(context, node->device, &stream));
  LODE_TRY(lode_context_named(
      context, who, node->device->api->copy_in(stream, node->storage->block, host, bytes, &context->error)));
  lode_count(node->device, LODE_COUNT_uploads);
  if (stream->is_inline) return LODE_OK;
  lode_event *event;
  LODE_TRY(lode_context_named(context, who, lode_context_record(context, stream, &event)));
  lode_status status = lode_storage_used(node->storage, event, true, &context->error);
  lode_event_unref(event);
  return status;
}

lode_status lode_node_from_host(lode_context *context, const char *who, lode_device *device,
                                const lode_shape *shape, lode_dtype dtype, const void *host, lode_node **out) {
  LODE_TRY(lode_shape_check(&context->error, who, shape));
  lode_node *node = lode_node_new(context, LODE_NODE_LEAF, dtype, device, shape);
  if (node == NULL) return LODE_NOMEM;
  lode_storage *storage;
  lode_status status = lode_storage_new(context, who, device, lode_node_bytes(node), &storage);
  if (status == LODE_OK) {
    lode_node_settle(node, storage);
    status = copy_in(node, who, host);
  }
  if (status != LODE_OK) lode_node_unref(node);
  else *out = node;
  return status;
}

/* May the block be overwritten? Only if no view or expression can tell, nor work pending elsewhere, nor a
 * recipe that is being recorded. */
static bool is_private(lode_node *node) {
  lode_stream *stream;
  return node->context->recipe == NULL && node->kind == LODE_NODE_LEAF && node->refs == 1 &&
         node->storage->refs == 1 && node->offset == 0 && lode_node_contiguous(node) &&
         node->storage->bytes == (lode_node_bytes(node) > 0 ? lode_node_bytes(node) : 1) &&
         lode_context_stream(node->context, node->device, &stream) == LODE_OK &&
         lode_storage_behind(node->storage, stream);
}

lode_status lode_node_upload(lode_node **node, const void *host) {
  lode_node *before = *node, *after;
  lode_context_drain(before->context);
  if (before->storage != NULL && is_private(before)) {
    LODE_TRY(copy_in(before, "upload", host));
    lode_fault_unref(before->fault); /* the old contents' failures are gone with them */
    before->fault = NULL;
    return LODE_OK;
  }
  LODE_TRY(lode_node_from_host(before->context, "upload", before->device, &before->shape,
                               (lode_dtype)before->dtype, host, &after));
  after->handles = 1;
  before->handles--;
  lode_node_unref(before);
  *node = after;
  return LODE_OK;
}

/* ---- out ---------------------------------------------------------------------------- */

/* Raises what the node depends on and is known: after a wait for it. */
static lode_status check_faults(lode_node *node) {
  lode_error *error = &node->context->error;
  LODE_TRY(lode_fault_check(node->fault, error));
  return node->kind == LODE_NODE_FACTOR ? lode_fault_check(node->own_fault, error) : LODE_OK;
}

lode_status lode_node_sync(lode_node *node, const char *who) {
  lode_context *context = node->context;
  LODE_TRY(lode_compute(context, &node, 1));
  LODE_TRY(lode_recipe_may_read(node, who));
  LODE_TRY(lode_context_named(context, who, lode_storage_wait(node->storage, &context->error)));
  return check_faults(node);
}

/* A read is one wait: for the copy, which the device orders behind what makes the contents. */
static lode_status copy_out(lode_node *node, const char *who, void *host) {
  lode_context *context = node->context;
  lode_storage *storage = node->storage;
  int64_t size = (int64_t)lode_dtype_size((lode_dtype)node->dtype);
  if (lode_node_bytes(node) == 0) return lode_node_sync(node, who);
  const char *from = (const char *)storage->block + node->offset * size;
  LODE_TRY(lode_context_named(context, who,
                              node->device->api->copy_out(node->device, host, from, lode_node_bytes(node),
                                                          storage->write, &context->error)));
  lode_count(node->device, LODE_COUNT_downloads);
  return lode_node_sync(node, who);
}

/* By a cast that changes nothing. */
lode_status lode_node_copy(lode_node *node, lode_node **out) {
  lode_context *context = node->context;
  LODE_TRY(lode_compute(context, &node, 1));
  lode_node *copy = lode_node_new(context, LODE_NODE_CAST, (lode_dtype)node->dtype, node->device, &node->shape);
  if (copy == NULL) return LODE_NOMEM;
  lode_status status = lode_node_inputs(copy, &node, 1);
  if (status == LODE_OK) status = lode_compute(context, &copy, 1);
  if (status == LODE_OK) *out = copy;
  else lode_node_unref(copy);
  return status;
}

lode_status lode_node_read(lode_node *node, const char *who, void *host) {
  lode_context *context = node->context;
  LODE_TRY(lode_compute(context, &node, 1));
  LODE_TRY(lode_recipe_may_read(node, who));
  if (lode_node_contiguous(node)) return copy_out(node, who, host);
  lode_node *dense; /* gathered on the device first: one copy leaves it */
  LODE_TRY(lode_node_copy(node, &dense));
  lode_status status = copy_out(dense, who, host);
  lode_node_unref(dense);
  return status;
}

/* ---- across -------------------------------------------------------------------------- */

lode_status lode_node_to_device(lode_node *node, lode_device *device, lode_node **out) {
  if (node->device == device) {
    *out = lode_node_ref(node);
    return LODE_OK;
  }
  size_t bytes = lode_node_bytes(node);
  void *host = malloc(bytes > 0 ? bytes : 1);
  if (host == NULL)
    return lode_fail(&node->context->error, LODE_NOMEM, "to: no host memory for %zu bytes", bytes);
  lode_status status = lode_node_read(node, "to", host);
  if (status == LODE_OK)
    status = lode_node_from_host(node->context, "to", device, &node->shape, (lode_dtype)node->dtype, host, out);
  free(host);
  return status;
}
