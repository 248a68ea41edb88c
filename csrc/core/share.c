/* Sharing: which recorded nodes are computed in one pass.
 *
 * A node that gets memory (a cut, compute.c) is the output of a program. Cuts of
 * one shape, or of one row space (plan.h), become outputs of one program, so that
 * what they have in common is read and computed once. So do reductions of one shape
 * over the same dims, where they are not of rows. A reduction along rows
 * that only one such group uses is inlined: it becomes a value of the program,
 * and softmax or a normalization is one pass. A reduction that several groups use
 * gets memory; so does another value that several groups use, if to write it
 * once and to read it is less traffic than to make it again. A reduction of two to
 * four elements that smaller tensors give is unrolled: fused as the operations it is.
 *
 * All this is a matter of speed alone: emit.c computes a fused node wherever it
 * meets one, and asks for whatever it cannot have in its program. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum {
  UNROLLED_ROW = 4, /* elements, at most */
  UNROLLED_NODES = LODE_MAX_VALUES / 2,
  UNROLLED_REUSE = 4, /* times that the largest tensor below is read, at least */
  LOOK_BACK = 8,      /* groups looked at, to join one */
  MOST_LEAVES = 8,    /* looked at to weigh a value */
  MOST_STEPS = 64
};

/* ---- shapes ------------------------------------------------------------------------ */

static int dims_of(const lode_shape *shape, int64_t dim[LODE_MAX_DIMS]) {
  int n = 0;
  for (int d = 0; d < shape->ndim; d++)
    if (shape->dim[d] != 1) dim[n++] = shape->dim[d];
  return n;
}

int lode_row_of(const lode_shape *shape, unsigned mask) {
  int row = shape->ndim - 1;
  while (row >= 0 && shape->dim[row] == 1) row--;
  if (row < 0 || !(mask & 1u << row) || shape->dim[row] > LODE_ROW_REDUCE_MAX) return -1;
  for (int d = 0; d < row; d++)
    if ((mask & 1u << d) != 0 && shape->dim[d] != 1) return -1;
  return row;
}

int lode_row_of_reduction(const lode_node *node) {
  return node->kind == LODE_NODE_REDUCE ? lode_row_of(&node->input[0]->shape, node->as.mask) : -1;
}

bool lode_reduction_ends_pass(const lode_node *node) {
  return node->kind == LODE_NODE_REDUCE && !node->unrolled && lode_row_of_reduction(node) < 0;
}

lode_row_space lode_space_of_reduction(const lode_node *reduction) {
  lode_row_space space;
  space.ndim = dims_of(&reduction->shape, space.dim);
  space.row = reduction->input[0]->shape.dim[lode_row_of_reduction(reduction)];
  return space;
}

static bool same_space(const lode_row_space *a, const lode_row_space *b) {
  return a->ndim == b->ndim && a->row == b->row &&
         memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]) == 0;
}

/* Whole rows of the space, or one element a row. */
static bool fits_space(const lode_row_space *space, const lode_shape *shape) {
  int64_t dim[LODE_MAX_DIMS];
  int n = dims_of(shape, dim);
  if (n != space->ndim && !(n == space->ndim + 1 && dim[n - 1] == space->row)) return false;
  return memcmp(dim, space->dim, (size_t)space->ndim * sizeof dim[0]) == 0;
}

/* ---- reductions that are unrolled --------------------------------------------------------- */

/* What stands below a node: recorded nodes, counted as often as they are met, leaves, and the largest leaf. */
typedef struct below {
  int nodes, leaves;
  int64_t largest;
} below;

static void look_below(const lode_node *node, below *b) {
  if (b->nodes + b->leaves > UNROLLED_NODES) return;
  if (node->storage != NULL || node->kind == LODE_NODE_IOTA) {
    int64_t count = lode_shape_count(&node->shape);
    for (int d = 0; d < node->shape.ndim && node->storage != NULL; d++)
      if (node->stride[d] == 0 && node->shape.dim[d] > 1) count /= node->shape.dim[d];
    if (count > b->largest) b->largest = count;
    b->leaves++;
    return;
  }
  b->nodes++;
  if (node->kind == LODE_NODE_FILL) return;
  /* It will be a leaf of its size; or it is unrolled itself, which would multiply. */
  if (!lode_node_is_fused(node) && node->kind != LODE_NODE_VIEW) b->nodes = UNROLLED_NODES;
  for (int i = 0; i < node->ninputs; i++) look_below(node->input[i], b);
}

bool lode_reduction_unrolls(const lode_node *node) {
  int row = lode_row_of_reduction(node);
  if (row < 0 || node->input[0]->shape.dim[row] > UNROLLED_ROW) return false;
  int64_t width = node->input[0]->shape.dim[row], count = lode_shape_count(&node->input[0]->shape);
  below b = {.nodes = 0};
  look_below(node->input[0], &b);
  return b.nodes * width <= UNROLLED_NODES && b.leaves * width <= LODE_MAX_ACCESSES / 2 && b.largest > 0 &&
         count / b.largest >= UNROLLED_REUSE;
}

/* ---- groups -------------------------------------------------------------------------- */

static lode_status add_group(lode_planner *p, lode_node *node, const lode_row_space *space) {
  if (p->ngroups == p->group_room) {
    int room = p->group_room == 0 ? 16 : 2 * p->group_room;
    lode_group *grown = realloc(p->group, (size_t)room * sizeof *grown);
    if (grown == NULL)
      return lode_fail(&p->context->error, LODE_NOMEM, "compute: no host memory for %d passes", room);
    p->group = grown;
    p->group_room = room;
  }
  lode_group *group = &p->group[p->ngroups++];
  group->count = 0;
  group->inlines = false;
  group->space = *space;
  group->node[group->count++] = node;
  return LODE_OK;
}

static bool planned(const lode_node *node) { return lode_fuses(node) || node->kind == LODE_NODE_REDUCE; }

static bool all_fit(const lode_group *group, const lode_row_space *space) {
  for (int i = 0; i < group->count; i++)
    if (!fits_space(space, &group->node[i]->shape)) return false;
  return true;
}

/* Can the group run, or go on running, over this space? */
static bool takes_space(lode_group *group, const lode_row_space *space) {
  if (group->space.ndim >= 0) return same_space(&group->space, space);
  if (!lode_fuses(group->node[0]) || !all_fit(group, space)) return false;
  group->space = *space;
  return true;
}

static bool takes_shape(const lode_group *group, const lode_shape *shape) {
  return group->space.ndim >= 0 ? fits_space(&group->space, shape)
                                : lode_shape_equal(&group->node[0]->shape, shape);
}

/* Two reductions that end a pass: can they end the same one? */
static bool same_reduced(const lode_node *a, const lode_node *b) {
  const lode_shape *shape = &a->input[0]->shape;
  if (!lode_shape_equal(shape, &b->input[0]->shape)) return false;
  for (int d = 0; d < shape->ndim; d++)
    if (shape->dim[d] != 1 && ((a->as.mask ^ b->as.mask) & 1u << d) != 0) return false;
  return true;
}

/* The group of another cut in which the node can be an output too. `space`: of a reduction of rows; NULL for
 * others. */
static lode_group *find_group(lode_planner *p, const lode_node *node, const lode_row_space *space) {
  for (int g = p->ngroups - 1; g >= 0 && g >= p->ngroups - LOOK_BACK; g--) {
    lode_group *group = &p->group[g];
    const lode_node *first = group->node[0];
    if (group->count == LODE_MAX_OUTPUTS || first->device != node->device || first->level != node->level ||
        !planned(first))
      continue;
    if (lode_reduction_ends_pass(first) || lode_reduction_ends_pass(node)) {
      if (lode_reduction_ends_pass(first) && lode_reduction_ends_pass(node) && same_reduced(first, node))
        return group;
      continue;
    }
    if (space != NULL ? takes_space(group, space) : takes_shape(group, &node->shape)) return group;
  }
  return NULL;
}

/* ---- what a group reaches -------------------------------------------------------------- */

/* Bytes that would be read to make the node again: of its distinct leaves. */
static void count_leaves(const lode_node *node, const lode_storage **leaf, int *nleaves, int *steps,
                         size_t *bytes) {
  if (node->storage == NULL && node->cut && !node->inlined) {
    *bytes += lode_node_bytes(node);
    return;
  }
  if (node->storage != NULL) {
    for (int i = 0; i < *nleaves; i++)
      if (leaf[i] == node->storage) return;
    if (*nleaves < MOST_LEAVES) leaf[(*nleaves)++] = node->storage;
    size_t own = lode_node_bytes(node); /* of a broadcast: more than there is */
    *bytes += own < node->storage->bytes ? own : node->storage->bytes;
    return;
  }
  if (++*steps > MOST_STEPS) return;
  for (int i = 0; i < node->ninputs; i++) count_leaves(node->input[i], leaf, nleaves, steps, bytes);
}

/* To write and read it once is less than to read what it is made of again. */
static bool is_worth_memory(const lode_node *node) {
  if (node->kind != LODE_NODE_OP) return false;
  const lode_storage *leaf[MOST_LEAVES];
  int nleaves = 0, steps = 0;
  size_t bytes = 0;
  count_leaves(node, leaf, &nleaves, &steps, &bytes);
  return bytes > 2 * lode_node_bytes(node);
}

/* An inlined reduction that turns out not to fit becomes a cut of its own: it comes later in the list of cuts,
 * which is gone through backwards. */
static void reach_reduction(lode_planner *p, int g, lode_node *node) {
  lode_row_space own = lode_space_of_reduction(node);
  lode_group *group = &p->group[g];
  node->inlined = takes_space(group, &own);
  group->inlines = group->inlines || node->inlined;
}

/* Could the group store this cut too? If not, the cut has memory when the group's program reads it. */
static bool may_join(const lode_planner *p, lode_group *group, const lode_node *cut) {
  const lode_node *first = group->node[0];
  if (cut->level != first->level || cut->device != first->device) return false;
  if (!lode_fuses(cut)) { /* a reduction that was asked for; one that several groups use is done apart */
    if (cut->wanted != p->context->epoch || lode_row_of_reduction(cut) < 0) return false;
    lode_row_space own = lode_space_of_reduction(cut);
    return takes_space(group, &own);
  }
  if (group->space.ndim >= 0) return fits_space(&group->space, &cut->shape);
  int64_t a[LODE_MAX_DIMS], b[LODE_MAX_DIMS];
  int n = dims_of(&first->shape, a), m = dims_of(&cut->shape, b), least = n < m ? n : m;
  return n - m <= 1 && m - n <= 1 && memcmp(a, b, (size_t)least * sizeof a[0]) == 0;
}

static void reach(lode_planner *p, int g, lode_node *node) {
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *input = node->input[i];
    if (input->storage != NULL || (input->reached && input->group == g)) continue;
    if (input->cut && !input->inlined && !may_join(p, &p->group[g], input)) continue;
    bool shared = input->reached;
    input->reached = true;
    if (input->inlined) {
      if (shared) input->inlined = false;
      else reach_reduction(p, g, input);
      if (!input->inlined) continue;
    } else if (shared && !input->cut && is_worth_memory(input)) {
      input->apart = true;
      lode_explain_cut(input, "several passes use it, and making it again reads more than storing it");
      continue;
    }
    input->group = g;
    reach(p, g, input);
  }
}

static lode_status place_cut(lode_planner *p, lode_node *node) {
  bool row = node->kind == LODE_NODE_REDUCE && !node->unrolled && lode_row_of_reduction(node) >= 0;
  lode_row_space own = {.ndim = -1};
  if (row) own = lode_space_of_reduction(node);
  lode_group *group = NULL;
  if (planned(node)) group = find_group(p, node, row ? &own : NULL);
  if (group != NULL) group->node[group->count++] = node;
  else LODE_TRY(add_group(p, node, &own));
  int g = group != NULL ? (int)(group - p->group) : p->ngroups - 1;
  node->reached = true;
  node->group = g;
  if (node->kind != LODE_NODE_VIEW || !lode_node_base(node)->cut)
    reach(p, g, node); /* else it has memory by then */
  return LODE_OK;
}

/* ---- entry ------------------------------------------------------------------------------- */

static void explain(const lode_planner *p) {
  for (int i = 0; i < p->cut.count; i++) {
    const lode_node *node = p->cut.node[i];
    if (node->kind == LODE_NODE_REDUCE && !node->inlined && node->wanted != p->context->epoch)
      lode_explain_cut(node, lode_explain_reduction(node));
  }
}

lode_status lode_share(lode_planner *p) {
  p->ngroups = 0;
  for (int i = p->cut.count - 1; i >= 0; i--) {
    lode_node *node = p->cut.node[i];
    if (!node->inlined) LODE_TRY(place_cut(p, node));
  }
  if (lode_tracing()) explain(p);
  return LODE_OK;
}
