/* Computing: which recorded nodes get memory, in which order, and on what they wait.
 *
 * Most recorded nodes never get memory: they are fused into the program of a
 * node that does. A cut is a node that does: the ones asked for, reductions
 * (unless share.c inlines or unrolls them), reshapes, products, factors and solves, their
 * inputs where they need memory, and values that are costly to make again. A
 * script's handle on an intermediate may be live or garbage, and nobody can tell
 * before the collector has run: so one that a compute passes through for the
 * second time, with a handle still on it, becomes a cut. It is made twice at
 * most, and dead handles cost nothing. */
#include <stdlib.h>
#include <string.h>

#include "hash.h"
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

static bool is_held(const lode_node *node) { return node->keep || (node->passed && node->handles > 0); }

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
    return is_held(node) && lode_node_is_fused(node);
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

static lode_status add_cut(lode_planner *p, lode_node *node) {
  if (node->cut) return LODE_OK;
  node->cut = true;
  return push(p->context, &p->cut, node);
}

/* ---- common subexpressions -------------------------------------------------------- */

static uint64_t mix_view(uint64_t hash, const lode_view *view, int ndim) {
  for (int d = 0; d < ndim; d++) {
    uint64_t step = view->src[d] >= 0 ? (uint64_t)view->step[d] : 0;
    hash = lode_hash_mix(lode_hash_mix(hash, (uint64_t)view->start[d]), step << 8 | (uint8_t)view->src[d]);
  }
  return hash;
}

/* Of all that same_value compares, what tells nodes apart. */
static size_t hash_of(const lode_node *node) {
  uint64_t hash = lode_hash_mix(node->kind | (uint64_t)node->dtype << 8 | (uint64_t)node->op << 16,
                                (uintptr_t)node->storage);
  for (int i = 0; i < node->ninputs; i++) hash = lode_hash_mix(hash, (uintptr_t)node->input[i]);
  for (int d = 0; d < node->shape.ndim; d++) hash = lode_hash_mix(hash, (uint64_t)node->shape.dim[d]);
  if (node->storage != NULL) hash = lode_hash_mix(hash, (uint64_t)node->offset);
  else if (node->kind == LODE_NODE_FILL || node->kind == LODE_NODE_IOTA)
    hash = lode_hash_mix(hash, (uint64_t)node->as.value.i64);
  else if (node->kind == LODE_NODE_VIEW) hash = mix_view(hash, &node->as.view, node->input[0]->shape.ndim);
  else if (node->kind == LODE_NODE_REDUCE) hash = lode_hash_mix(hash, node->as.mask);
  else if (node->kind == LODE_NODE_CONCAT) hash = lode_hash_mix(hash, (uint64_t)node->as.dim);
  return (size_t)(hash >> 40) % LODE_SAME_ENTRIES;
}

/* The elements of both are alike, and made of the same nodes. */
static bool same_value(const lode_node *a, const lode_node *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->op != b->op || a->storage != b->storage ||
      a->device != b->device || a->offset != b->offset || a->ninputs != b->ninputs ||
      !lode_shape_equal(&a->shape, &b->shape))
    return false;
  for (int i = 0; i < a->ninputs; i++)
    if (a->input[i] != b->input[i]) return false;
  switch ((lode_node_kind)a->kind) {
  case LODE_NODE_LEAF:
    return memcmp(a->stride, b->stride, (size_t)a->shape.ndim * sizeof a->stride[0]) == 0;
  case LODE_NODE_FILL:
  case LODE_NODE_IOTA:
    return memcmp(&a->as.value, &b->as.value, sizeof a->as.value) == 0;
  case LODE_NODE_CONCAT:
    return a->as.dim == b->as.dim;
  case LODE_NODE_REDUCE:
    return a->as.mask == b->as.mask;
  case LODE_NODE_VIEW:
    return lode_view_same(&a->as.view, &b->as.view, a->input[0]->shape.ndim);
  case LODE_NODE_OP:
  case LODE_NODE_CAST:
    return true;
  default: /* factors and what hangs on them have lines of their own to blame */
    return false;
  }
}

/* The first node met in this compute that has the same value. The table has room for more nodes than a graph
 * has (node.c); computes of very many roots may overfill it, and then miss some. */
static lode_node *first_alike(lode_planner *p, uint64_t epoch, lode_node *node) {
  enum { PROBES = 16 };
  size_t at = hash_of(node);
  for (int i = 0; i < PROBES; i++, at = (at + 1) % LODE_SAME_ENTRIES) {
    if (p->same[at].epoch != epoch) {
      p->same[at].epoch = epoch;
      p->same[at].node = node;
      return node;
    }
    if (same_value(p->same[at].node, node)) return p->same[at].node;
  }
  return node;
}

/* Whoever recorded it: what is alike becomes one input. */
static void unify_inputs(lode_planner *p, uint64_t epoch, lode_node *node) {
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *first = first_alike(p, epoch, node->input[i]);
    if (first == node->input[i]) continue;
    lode_node *dropped = node->input[i];
    node->input[i] = lode_node_ref(first);
    lode_node_unref(dropped);
  }
}

/* A node is finished: its inputs are, and stand before it in the lists. */
static lode_status finish_node(lode_planner *p, uint64_t epoch, lode_node *node) {
  bool wanted = node->wanted == epoch;
  node->cut = node->apart = node->reached = node->inlined = false;
  node->group = -1;
  node->level = 0;
  unify_inputs(p, epoch, node);
  node->unrolled = lode_reduction_unrolls(node);
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *input = node->input[i];
    if (input->storage != NULL) continue;
    if (needs_memory(node, i)) {
      input->inlined = false;
      LODE_TRY(add_cut(p, input));
    }
    bool apart = input->cut && !input->inlined && !lode_fuses(input) && lode_row_of_reduction(input) < 0;
    int level = input->level + apart;
    if (level > node->level) node->level = level;
  }
  LODE_TRY(push(p->context, &p->seen, node));
  lode_node_ref(node); /* unifying and settling drop inputs: the lists hold what they name until the end */
  bool cut = wanted || (is_cut(node) && !(node->unrolled && !is_held(node)));
  if (!cut || (!wanted && first_alike(p, epoch, node) != node)) return LODE_OK;
  node->inlined = !wanted && !is_held(node) && !node->unrolled && lode_row_of_reduction(node) >= 0;
  return add_cut(p, node);
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
    LODE_TRY(finish_node(p, epoch, node));
  }
  return LODE_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

/* A view is a leaf over its base's memory if the base is no larger than the view. Of a larger base only the
 * part in view is computed. */
static bool view_wants_base(lode_node *node) {
  return node->storage == NULL && node->kind == LODE_NODE_VIEW &&
         lode_shape_count(&lode_node_base(node)->shape) <= lode_shape_count(&node->shape);
}

static lode_status compute_view(lode_node *node) {
  if (lode_view_settle(node)) return LODE_OK;
  if (!view_wants_base(node)) return lode_plan_run(node);
  LODE_TRY(lode_compute_first(lode_node_base(node)));
  lode_view_settle(node);
  return LODE_OK;
}

static lode_status compute_node(lode_node *node) {
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

/* Its inputs that need memory may not have it yet, where a group's program is ahead of the list of cuts. */
lode_status lode_compute_first(lode_node *node) {
  if (node->storage != NULL) return LODE_OK;
  node->apart = false;
  for (int i = 0; i < node->ninputs; i++)
    if (needs_memory(node, i)) LODE_TRY(lode_compute_first(node->input[i]));
  return compute_node(node);
}

/* A cut, with the others of its group. */
static lode_status compute_cut(lode_planner *p, lode_node *node) {
  if (node->storage != NULL || node->inlined) return LODE_OK;
  const lode_group *group = &p->group[node->group];
  if (group->count == 1 && !group->inlines) return lode_compute_first(node);
  return lode_plan_run_group(p, node->group);
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

lode_status lode_compute_finish(lode_context *context) {
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

static lode_status run_cuts(lode_planner *p, uint64_t epoch, lode_node *const *root, int count) {
  for (int i = 0; i < count; i++) {
    root[i]->wanted = epoch;
    if (view_wants_base(root[i])) lode_node_base(root[i])->wanted = epoch;
  }
  for (int i = 0; i < count; i++)
    if (root[i]->storage == NULL) LODE_TRY(visit(p, epoch, root[i]));
  LODE_TRY(lode_share(p));
  for (int i = 0; i < p->cut.count; i++) LODE_TRY(compute_cut(p, p->cut.node[i]));
  note_passed(&p->seen);
  return LODE_OK;
}

static lode_status compute_all(lode_planner *p, lode_node *const *root, int count) {
  uint64_t epoch = p->context->epoch += 2; /* epoch - 1: entered, epoch: finished */
  p->stack.count = p->seen.count = p->cut.count = 0;
  lode_status status = run_cuts(p, epoch, root, count);
  for (int i = 0; i < p->seen.count; i++) lode_node_unref(p->seen.node[i]);
  return status;
}

static lode_status compute_and_finish(lode_planner *p, lode_node *const *node, int count) {
  lode_context *context = p->context;
  lode_status status = compute_all(p, node, count);
  context->computes++;
  if (status == LODE_OK) return lode_compute_finish(context);
  lode_error first = context->error; /* what failed first is what is said */
  lode_compute_finish(context);
  context->error = first;
  return status;
}

lode_status lode_compute(lode_context *context, lode_node *const *node, int count) {
  lode_context_drain(context);
  bool any = false;
  for (int i = 0; i < count; i++) any = any || node[i]->storage == NULL;
  if (!any) return LODE_OK;
  lode_planner *p = lode_planner_of(context);
  if (p == NULL) return LODE_NOMEM;
  lode_device *device = node[0]->device; /* all the others' too, in most computes */
  void *before = lode_device_enter(device);
  lode_status status = compute_and_finish(p, node, count);
  lode_device_leave(device, before);
  return status;
}
