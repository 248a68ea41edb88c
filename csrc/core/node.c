/* See node.h: references, states, and the bound on what is recorded. */
#include "node.h"

#include <stdlib.h>

#include "fault.h"
#include "linalg.h"

enum {
  MAX_GRAPH = 256, /* recorded nodes under one: more are computed at once */
  SLAB = 32
};

/* Nodes come from the system this many at a time, and go back with the context. */
struct lode_slab {
  lode_slab *next;
  lode_node node[SLAB];
};

/* ---- references ---------------------------------------------------------- */

static bool has_factor(const lode_node *node) {
  return node->kind == LODE_NODE_FACTOR || node->kind == LODE_NODE_SOLVE || node->kind == LODE_NODE_INFO;
}

/* Arrays of inputs that are not inline, of class 1 to LODE_INPUT_CLASSES, are kept for reuse: a class holds
 * twice as many as the one before. Of an unused array the first entry is the next one. */
static int class_room(int klass) { return LODE_INLINE_INPUTS << klass; }

static void give_inputs(lode_node *node) {
  if (node->room > 0) {
    lode_node ***unused = &node->context->unused_inputs[node->room - 1];
    node->input[0] = (lode_node *)(void *)*unused;
    *unused = node->input;
  }
  node->room = 0;
  node->input = node->inline_input;
}

lode_status lode_node_room(lode_node *node, int count) {
  int klass = 0;
  while (class_room(klass) < count) klass++;
  if (klass == 0) return LODE_OK;
  lode_context *context = node->context;
  lode_node **array = klass <= LODE_INPUT_CLASSES ? context->unused_inputs[klass - 1] : NULL;
  if (array != NULL) context->unused_inputs[klass - 1] = (lode_node **)(void *)array[0];
  else if (klass <= LODE_INPUT_CLASSES) array = malloc((size_t)class_room(klass) * sizeof *array);
  if (array == NULL) return lode_fail(&context->error, LODE_NOMEM, "lode: no host memory for %d inputs", count);
  node->room = (uint8_t)klass;
  node->input = array;
  return LODE_OK;
}

/* Lets go of the inputs; those left without a reference join the list. */
static lode_node *drop_inputs(lode_node *node, lode_node *list) {
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *input = node->input[i];
    if (--input->refs > 0) continue;
    input->next = list;
    list = input;
  }
  node->ninputs = 0;
  give_inputs(node);
  return list;
}

static lode_node *destroy(lode_node *node, lode_node *list) {
  list = drop_inputs(node, list);
  if (has_factor(node)) lode_factor_unref(node->as.factor);
  if (node->storage != NULL) lode_storage_unref(node->storage);
  if (node->fault != NULL) lode_fault_unref(node->fault);
  if (node->own_fault != NULL) lode_fault_unref(node->own_fault);
  node->next = node->context->unused_nodes;
  node->context->unused_nodes = node;
  return list;
}

static void destroy_all(lode_node *list) {
  while (list != NULL) {
    lode_node *node = list;
    list = destroy(node, node->next);
  }
}

void lode_node_unref(lode_node *node) {
  if (node == NULL || --node->refs > 0) return;
  node->next = NULL;
  destroy_all(node);
}

/* ---- making nodes --------------------------------------------------------- */

static lode_node *take_unused(lode_context *context) {
  lode_node *node = context->unused_nodes;
  if (node == NULL) {
    lode_slab *slab = aligned_alloc(_Alignof(lode_slab), sizeof *slab);
    if (slab == NULL) return NULL;
    slab->next = context->slabs;
    context->slabs = slab;
    for (int i = 0; i < SLAB; i++) slab->node[i].next = i + 1 < SLAB ? &slab->node[i + 1] : NULL;
    node = slab->node;
  }
  context->unused_nodes = node->next;
  if (node->next != NULL) __builtin_prefetch(&node->next->next); /* the next one to be taken */
  return node;
}

void lode_nodes_free(lode_context *context) {
  for (lode_slab *slab = context->slabs, *next; slab != NULL; slab = next) {
    next = slab->next;
    free(slab);
  }
  for (int i = 0; i < LODE_INPUT_CLASSES; i++) {
    for (lode_node **array = context->unused_inputs[i], **next; array != NULL; array = next) {
      next = (lode_node **)(void *)array[0];
      free(array);
    }
  }
}

lode_node *lode_node_new(lode_context *context, lode_node_kind kind, lode_dtype dtype, lode_device *device,
                         const lode_shape *shape) {
  lode_node *node = take_unused(context);
  if (node == NULL) {
    lode_fail(&context->error, LODE_NOMEM, "lode: no host memory for a tensor");
    return NULL;
  }
  node->refs = 1;
  node->handles = 0;
  node->kind = (uint8_t)kind;
  node->dtype = (uint8_t)dtype;
  node->op = 0;
  node->keep = node->passed = false;
  node->room = 0;
  node->weight = 1;
  node->ninputs = 0;
  node->cut = node->inlined = node->apart = node->reached = node->unrolled = false;
  node->level = 0;
  node->group = -1;
  node->mark = node->wanted = 0;
  node->context = context;
  node->device = device;
  node->input = node->inline_input;
  node->storage = NULL;
  node->fault = node->own_fault = NULL;
  node->next = NULL;
  node->shape = *shape;
  node->offset = 0;
  return node;
}

lode_status lode_node_inputs(lode_node *node, lode_node *const *input, int count) {
  LODE_TRY(lode_node_room(node, count));
  for (int i = 0; i < count; i++) node->input[i] = lode_node_ref(input[i]);
  node->ninputs = count;
  return LODE_OK;
}

void lode_node_settle(lode_node *node, lode_storage *storage) {
  if (has_factor(node)) lode_factor_unref(node->as.factor);
  node->kind = LODE_NODE_LEAF;
  node->storage = storage;
  node->offset = 0;
  node->weight = 0;
  lode_shape_strides(&node->shape, node->stride);
  lode_node *list = drop_inputs(node, NULL);
  destroy_all(list);
}

/* ---- the bound on recorded graphs ------------------------------------------ */

/* Counts recorded nodes under `node`, each once, up to MAX_GRAPH + 1. */
static int count_recorded(lode_node *node) {
  lode_node *stack[MAX_GRAPH + 2];
  uint64_t epoch = ++node->context->epoch;
  int depth = 0, count = 0;
  stack[depth++] = node;
  node->mark = epoch;
  while (depth > 0 && count <= MAX_GRAPH) {
    lode_node *top = stack[--depth];
    count++;
    for (int i = 0; i < top->ninputs; i++) {
      lode_node *input = top->input[i];
      if (input->storage != NULL || input->mark == epoch) continue;
      input->mark = epoch;
      if (count + depth > MAX_GRAPH) return MAX_GRAPH + 1;
      stack[depth++] = input;
    }
  }
  return count;
}

static int weigh(lode_node *node) {
  int64_t weight = 1;
  for (int i = 0; i < node->ninputs; i++)
    if (node->input[i]->storage == NULL) weight += node->input[i]->weight;
  if (weight <= MAX_GRAPH) return (int)weight;
  return count_recorded(node);
}

/* Gives memory to what the node is made of: the bases of views, not the views, which may be broadcasts of
 * any size; and not to fills and iotas, which are made anew wherever they are used. */
static lode_status compute_inputs(lode_node *node) {
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *base = lode_node_base(node->input[i]);
    if (base->kind == LODE_NODE_FILL || base->kind == LODE_NODE_IOTA) continue;
    LODE_TRY(lode_compute(node->context, &base, 1));
  }
  return LODE_OK;
}

lode_status lode_node_recorded(lode_node *node, lode_node **out) {
  node->weight = weigh(node);
  if (node->weight > MAX_GRAPH) {
    lode_status status = compute_inputs(node);
    if (status != LODE_OK) {
      lode_node_unref(node);
      return status;
    }
    node->weight = count_recorded(node);
  }
  *out = node;
  return LODE_OK;
}

/* ---- state ------------------------------------------------------------------ */

lode_state lode_node_state(lode_node *node) {
  if (node->storage == NULL) return LODE_RECORDED;
  return lode_storage_ready(node->storage) ? LODE_READY : LODE_ENQUEUED;
}

bool lode_node_contiguous(const lode_node *node) {
  return node->storage != NULL && lode_shape_contiguous(&node->shape, node->stride);
}
