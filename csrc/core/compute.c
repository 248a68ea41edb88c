/* Computing: which recorded nodes get memory, in which order, and on what they wait.
 *
 * Most recorded nodes never get memory: they are fused into the program of a
 * node that does. A cut is a node that does: the ones asked for, reductions,
 * reshapes, products, factors and solves, their inputs where they need memory,
 * and values that are costly to make again. A script's handle on an intermediate
 * may be live or garbage, and nobody can tell before the collector has run: so
 * one that a compute passes through for the second time, with a handle still on
 * it, becomes a cut. It is made twice at most, and dead handles cost nothing. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- lists of nodes --------------------------------------------------------------- */

static lode_status push(lode_context *context, lode_node_list *list, lode_node *node) {
  if (list->count == list->room) {
    int room = list->room == 0 ? 64 : 2 * list->room;
    lode_node **grown = realloc(list->node, (size_t)room * sizeof *grown);
    if (grown == NULL)
      return lode_fail(&context->error, LODE_NOMEM, "compute: no host memory for %d nodes", room);
    list->node = grown;
    list->room = room;
  }
  list->node[list->count++] = node;
  return LODE_OK;
}

/* ---- cuts --------------------------------------------------------------------------- */

static bool is_cut(const lode_node *node) {
  switch ((lode_node_kind)node->kind) {
  case LODE_NODE_REDUCE:
  case LODE_NODE_RESHAPE:
  case LODE_NODE_MATMUL:
  case LODE_NODE_FACTOR:
  case LODE_NODE_SOLVE:
  case LODE_NODE_INFO:
    return true;
  default:
    return node->keep || (node->passed && node->handles > 0 && lode_node_is_fused(node));
  }
}

/* Do the inputs of a node have to have memory of their own? */
static bool needs_memory(const lode_node *node, int i) {
  switch ((lode_node_kind)node->kind) {
  case LODE_NODE_RESHAPE:
  case LODE_NODE_MATMUL:
  case LODE_NODE_FACTOR:
    return true;
  case LODE_NODE_SOLVE:
    return i == 0;
  default:
    return false;
  }
}

/* Recorded nodes below `root`, in the order of their inputs, into `seen`, and the cuts among them into
 * `cut`, of which the roots are some. Post-order by an explicit stack: a node is finished when it is on top for
 * the second time. */
static lode_status visit(lode_planner *p, uint64_t epoch, lode_node *root) {
  LODE_TRY(push(p->context, &p->stack, root));
  while (p->stack.count > 0) {
    lode_node *node = p->stack.node[p->stack.count - 1];
    if (node->storage != NULL || node->mark == epoch) { /* a leaf, or done on another way */
      p->stack.count--;
      continue;
    }
    if (node->mark != epoch - 1) { /* first time: inputs first */
      node->mark = epoch - 1;
      for (int i = node->ninputs - 1; i >= 0; i--) LODE_TRY(push(p->context, &p->stack, node->input[i]));
      continue;
    }
    p->stack.count--;
    node->mark = epoch;
    LODE_TRY(push(p->context, &p->seen, node));
    if (is_cut(node) || node->wanted == epoch) LODE_TRY(push(p->context, &p->cut, node));
  }
  return LODE_OK;
}

static lode_status push_once(lode_planner *p, uint64_t epoch, lode_node *node) {
  if (node->ordered == epoch) return LODE_OK;
  LODE_TRY(push(p->context, &p->ordered, node));
  node->ordered = epoch;
  return LODE_OK;
}

/* What is to be computed, in order: a node's inputs that need memory come before it. */
static lode_status order_cuts(lode_planner *p, uint64_t epoch) {
  for (int i = 0; i < p->cut.count; i++) {
    lode_node *node = p->cut.node[i];
    for (int k = 0; k < node->ninputs; k++)
      if (needs_memory(node, k) && node->input[k]->storage == NULL)
        LODE_TRY(push_once(p, epoch, node->input[k]));
    LODE_TRY(push_once(p, epoch, node));
  }
  return LODE_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

/* A view is a leaf over its base's memory if the base has some, or is no larger than the view (a broadcast):
 * then it gets some. Of a larger base only the part in view is computed. */
static lode_status compute_view(lode_node *node) {
  if (lode_view_settle(node)) return LODE_OK;
  lode_node *base = lode_node_base(node);
  if (lode_shape_count(&base->shape) > lode_shape_count(&node->shape)) return lode_plan_run(node);
  LODE_TRY(lode_plan_run(base));
  lode_view_settle(node);
  return LODE_OK;
}

static lode_status compute_node(lode_node *node) {
  if (node->storage != NULL) return LODE_OK; /* made on the way to another */
  switch ((lode_node_kind)node->kind) {
  case LODE_NODE_VIEW:
    return compute_view(node);
  case LODE_NODE_RESHAPE:
    return lode_compute_reshape(node);
  case LODE_NODE_MATMUL:
    return lode_compute_matmul(node);
  case LODE_NODE_FACTOR:
    return lode_compute_factor(node);
  case LODE_NODE_SOLVE:
    return lode_compute_solve(node);
  case LODE_NODE_INFO:
    return lode_compute_info(node);
  default:
    return lode_plan_run(node);
  }
}

lode_status lode_compute_touch(lode_context *context, lode_stream *stream, lode_storage *storage, bool writes) {
  LODE_TRY(lode_storage_order(storage, stream, &context->error));
  if (stream->is_inline) return LODE_OK;
  lode_planner *p = context->planner;
  if (p->ntouched == p->touched_room) {
    int room = p->touched_room == 0 ? 64 : 2 * p->touched_room;
    void *grown = realloc(p->touched, (size_t)room * sizeof *p->touched);
    if (grown == NULL)
      return lode_fail(&context->error, LODE_NOMEM, "compute: no host memory for %d uses", room);
    p->touched = grown;
    p->touched_room = room;
  }
  p->touched[p->ntouched].storage = lode_storage_ref(storage);
  p->touched[p->ntouched].stream = stream;
  p->touched[p->ntouched++].writes = writes;
  storage->touched = true;
  storage->writing = storage->writing || writes;
  return LODE_OK;
}

/* One event for what this compute enqueued on `stream`, remembered by what it read and made. */
static lode_status mark_used(lode_context *context, lode_stream *stream) {
  lode_planner *p = context->planner;
  lode_event *event;
  lode_status status = lode_context_named(context, "compute", lode_context_record(context, stream, &event));
  if (status != LODE_OK) return status;
  for (int i = 0; i < p->ntouched; i++) {
    if (p->touched[i].stream != stream) continue;
    lode_status used = lode_storage_used(p->touched[i].storage, event, p->touched[i].writes, &context->error);
    if (status == LODE_OK) status = used;
  }
  lode_event_unref(event);
  return status;
}

static lode_status finish(lode_context *context) {
  lode_planner *p = context->planner;
  lode_status status = LODE_OK;
  lode_stream *marked_streams[LODE_MAX_DEVICES]; /* a compute uses one stream a device */
  int nmarked = 0;
  for (int i = 0; i < p->ntouched; i++) {
    lode_stream *stream = p->touched[i].stream;
    bool done = false;
    for (int k = 0; k < nmarked && !done; k++) done = marked_streams[k] == stream;
    if (done) continue;
    marked_streams[nmarked++] = stream;
    lode_status marked = mark_used(context, stream);
    if (status == LODE_OK) status = marked;
  }
  for (int i = 0; i < p->ntouched; i++) {
    p->touched[i].storage->touched = p->touched[i].storage->writing = false;
    lode_storage_unref(p->touched[i].storage);
  }
  p->ntouched = 0;
  return status;
}

static void note_passed(const lode_node_list *seen) {
  for (int i = 0; i < seen->count; i++)
    if (seen->node[i]->storage == NULL && seen->node[i]->handles > 0) seen->node[i]->passed = true;
}

static lode_status compute_all(lode_planner *p, lode_node *const *root, int count) {
  uint64_t epoch = p->context->epoch += 2; /* epoch - 1: entered, epoch: finished */
  p->stack.count = p->seen.count = p->cut.count = p->ordered.count = 0;
  for (int i = 0; i < count; i++) root[i]->wanted = epoch;
  for (int i = 0; i < count; i++)
    if (root[i]->storage == NULL) LODE_TRY(visit(p, epoch, root[i]));
  LODE_TRY(order_cuts(p, epoch));
  /* Settling drops inputs: the lists hold what they name until the end. */
  for (int i = 0; i < p->seen.count; i++) lode_node_ref(p->seen.node[i]);
  lode_status status = LODE_OK;
  for (int i = 0; i < p->ordered.count && status == LODE_OK; i++) status = compute_node(p->ordered.node[i]);
  if (status == LODE_OK) note_passed(&p->seen);
  for (int i = 0; i < p->seen.count; i++) lode_node_unref(p->seen.node[i]);
  return status;
}

lode_status lode_compute(lode_context *context, lode_node *const *node, int count) {
  lode_context_drain(context);
  bool any = false;
  for (int i = 0; i < count; i++) any = any || node[i]->storage == NULL;
  if (!any) return LODE_OK;
  lode_planner *p = lode_planner_of(context);
  if (p == NULL) return LODE_NOMEM;
  lode_status status = compute_all(p, node, count);
  context->computes++;
  if (status == LODE_OK) return finish(context);
  lode_error first = context->error; /* what failed first is what is said */
  finish(context);
  context->error = first;
  return status;
}
