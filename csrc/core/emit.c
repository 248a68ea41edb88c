/* Emission: the graph under one node as the values of a program.
 *
 * Each value is made of (node, map) pairs, found again if one was met before; and
 * what is computed alike from the same values is one value, whoever recorded it.
 * Two ways of following views and concat:
 *
 *   pulled   (planner->inner < 0) The map is composed with each view on the way
 *            down, so that only accesses remain; a concat resolves to the one
 *            part that holds the whole box, or asks for the box to be split.
 *   by rows  (planner->inner >= 0) A node is evaluated once over the full extent
 *            of the dim that follows the inner axis, and views and concats along
 *            that dim become gathers from such rows. So a recorded value that
 *            several views use is computed once; and a reduction of such rows is
 *            a value like others, of one element a row.
 *
 * "Natural" below: the map of that dim is start 0, step 1, its full extent.
 * Recursion is as deep as the recorded graph, which node.c bounds. */
#include <string.h>

#include "reduce.h"

#include "plan.h"

enum { MAX_GATHER = 32 }; /* pieces in one row */

typedef struct gather {
  int count;
  lode_segment segment[MAX_GATHER];
} gather;

static lode_emit_result emit_value(lode_planner *p, lode_node *node, const lode_map *map, int *out);

/* ---- values ------------------------------------------------------------------ */

static int find_value(const lode_planner *p, const lode_node *node, const lode_map *map) {
  for (int i = 0; i < p->nmet; i++)
    if (p->met[i].node == node && lode_view_same(&p->met[i].map, map, node->shape.ndim)) return p->met[i].value;
  return -1;
}

/* Remembers what (node, map) has become. */
static lode_emit_result note_value(lode_planner *p, lode_node *node, const lode_map *map, int value) {
  if (p->nmet == LODE_MAX_MET) return LODE_EMIT_FULL;
  p->met[p->nmet].node = node;
  p->met[p->nmet].map = *map;
  p->met[p->nmet++].value = value;
  return LODE_EMIT_OK;
}

static lode_value *add_value(lode_planner *p, lode_value_kind kind, lode_dtype dtype) {
  if (p->program.nvalues == LODE_MAX_VALUES) return NULL;
  lode_value *value = &p->program.value[p->program.nvalues++];
  memset(value, 0, sizeof *value);
  value->kind = (uint8_t)kind;
  value->dtype = (uint8_t)dtype;
  return value;
}

static int last_value(const lode_planner *p) { return p->program.nvalues - 1; }

/* The dim of `node` that follows the inner axis, or -1. */
static int inner_dim(const lode_planner *p, const lode_node *node, const lode_map *map) {
  if (p->inner < 0) return -1;
  for (int d = 0; d < node->shape.ndim; d++)
    if (map->src[d] == p->inner) return d;
  return -1;
}

/* ---- accesses ------------------------------------------------------------------ */

static bool same_access(const lode_planner *p, int i, const lode_access *access, const int64_t *stride) {
  return p->args.access[i].base == access->base && p->args.access[i].offset == access->offset &&
         p->args.access[i].inner == access->inner &&
         memcmp(p->access_stride[i], stride, sizeof p->access_stride[i]) == 0;
}

/* A value that reads `width` elements a row (0 when pulled) along dim `row` of a leaf or an iota, from `before`
 * elements before its first on. */
static lode_emit_result emit_access(lode_planner *p, lode_node *node, const lode_map *map, int row,
                                    int64_t before, int32_t width, int *out) {
  bool memory = node->storage != NULL;
  int64_t along[LODE_MAX_DIMS], stride[LODE_MAX_DIMS] = {0};
  lode_access access = {.base = memory ? node->storage->block : NULL};
  access.offset = (memory ? node->offset : node->as.value.i64) - before;
  if (memory) memcpy(along, node->stride, sizeof along);
  else lode_shape_strides(&node->shape, along);
  for (int d = 0; d < node->shape.ndim; d++) {
    access.offset += along[d] * map->start[d];
    if (d == row) access.inner = along[d] * map->step[d];
    else if (map->src[d] >= 0) stride[map->src[d]] += along[d] * map->step[d];
  }
  if (access.inner == 0 && p->inner >= 0) width = 1;
  lode_dtype dtype = (lode_dtype)node->dtype;
  for (int i = 0; i < p->program.nvalues; i++) {
    const lode_value *value = &p->program.value[i];
    if ((value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA) && value->dtype == dtype &&
        value->width == width && same_access(p, value->index, &access, stride)) {
      *out = i;
      return LODE_EMIT_OK;
    }
  }
  int index = p->program.naccesses;
  if (index == LODE_MAX_ACCESSES) return LODE_EMIT_FULL;
  lode_value *value = add_value(p, memory ? LODE_VALUE_ACCESS : LODE_VALUE_IOTA, dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->index = (int16_t)index;
  value->width = width;
  p->program.naccesses++;
  p->args.access[index] = access;
  memcpy(p->access_stride[index], stride, sizeof stride);
  p->access_node[index] = node;
  *out = last_value(p);
  return LODE_EMIT_OK;
}

/* A leaf or an iota in its natural row. */
static lode_emit_result emit_leaf(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  int row = inner_dim(p, node, map);
  int32_t width = p->inner < 0 ? 0 : row < 0 ? 1 : (int32_t)node->shape.dim[row];
  return emit_access(p, node, map, row, 0, width, out);
}

static lode_emit_result emit_const(lode_planner *p, lode_node *node, int *out) {
  for (int i = 0; i < p->program.nvalues; i++) {
    const lode_value *other = &p->program.value[i];
    if (other->kind == LODE_VALUE_CONST && other->dtype == node->dtype &&
        memcmp(&p->args.consts[other->index], &node->as.value, sizeof node->as.value) == 0) {
      *out = i;
      return LODE_EMIT_OK;
    }
  }
  int index = p->program.nconsts;
  if (index == LODE_MAX_CONSTS) return LODE_EMIT_FULL;
  lode_value *value = add_value(p, LODE_VALUE_CONST, (lode_dtype)node->dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->index = (int16_t)index;
  value->width = p->inner < 0 ? 0 : 1;
  p->args.consts[index] = node->as.value;
  p->program.nconsts++;
  *out = last_value(p);
  return LODE_EMIT_OK;
}

/* ---- operations ------------------------------------------------------------------ */

/* The value just added, or an earlier one that is made alike, which then replaces it. */
static int settle_value(lode_planner *p) {
  int last = last_value(p);
  for (int i = 0; i < last; i++) {
    if (memcmp(&p->program.value[i], &p->program.value[last], sizeof p->program.value[0]) != 0) continue;
    p->program.nvalues--;
    return i;
  }
  return last;
}

static lode_emit_result emit_op(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  int operand[3] = {0};
  int32_t width = 0;
  for (int i = 0; i < node->ninputs; i++) {
    lode_emit_result result = emit_value(p, node->input[i], map, &operand[i]);
    if (result != LODE_EMIT_OK) return result;
    int32_t own = p->program.value[operand[i]].width;
    if (own > width) width = own;
  }
  lode_value_kind kind = node->kind == LODE_NODE_CAST ? LODE_VALUE_CAST : LODE_VALUE_OP;
  lode_value *value = add_value(p, kind, (lode_dtype)node->dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->op = node->op;
  value->width = width;
  for (int i = 0; i < node->ninputs; i++) value->a[i] = (int16_t)operand[i];
  *out = settle_value(p);
  return LODE_EMIT_OK;
}

/* ---- views and concat: pulled ------------------------------------------------------ */

/* How the input of a view follows the iteration. */
static lode_map compose(const lode_node *view, const lode_map *map) {
  return lode_view_compose(map, &view->as.view, view->input[0]->shape.ndim);
}

/* The part of a concat that holds index `at`, and where it begins. */
static lode_node *part_at(const lode_node *concat, int64_t at, int64_t *begin, int64_t *end) {
  *end = 0;
  for (int i = 0;; i++) {
    *begin = *end;
    *end += concat->input[i]->shape.dim[concat->as.dim];
    if (at < *end || i == concat->ninputs - 1) return concat->input[i];
  }
}

/* The part that holds the whole box; asks for a split where it crosses into another. */
static lode_emit_result choose_part(lode_planner *p, lode_node *concat, lode_map *map, lode_node **part) {
  int dim = concat->as.dim, s = map->src[dim];
  int64_t start = map->start[dim], step = s < 0 ? 0 : map->step[dim], begin, end;
  int64_t first = s < 0 ? start : start + step * p->lo[s];
  *part = part_at(concat, first, &begin, &end);
  map->start[dim] = start - begin;
  if (step == 0) return LODE_EMIT_OK;
  int64_t last = start + step * (p->hi[s] - 1);
  if (last >= begin && last < end) return LODE_EMIT_OK;
  /* the first index of the iteration that leaves the part */
  p->split_at = step > 0 ? (end - start + step - 1) / step : (start - begin) / -step + 1;
  p->split_dim = s;
  p->split_node = concat;
  return LODE_EMIT_SPLIT;
}

static lode_emit_result emit_pulled(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  lode_map at = *map;
  while (node->storage == NULL && (node->kind == LODE_NODE_VIEW || node->kind == LODE_NODE_CONCAT)) {
    if (node->kind == LODE_NODE_VIEW) {
      at = compose(node, &at);
      node = node->input[0];
      continue;
    }
    lode_node *part;
    lode_emit_result result = choose_part(p, node, &at, &part);
    if (result != LODE_EMIT_OK) return result;
    node = part;
  }
  return emit_value(p, node, &at, out);
}

/* ---- views and concat: by rows ------------------------------------------------------ */

static lode_emit_result collect(lode_planner *p, gather *g, lode_node *node, const lode_map *map, int32_t lo,
                                int32_t hi);

static lode_emit_result add_segment(gather *g, int source, int32_t lo, int32_t hi, int32_t start,
                                    int32_t step) {
  if (g->count == MAX_GATHER) return LODE_EMIT_FULL;
  g->segment[g->count++] =
      (lode_segment){.source = (int16_t)source, .lo = lo, .hi = hi, .start = start, .step = step};
  return LODE_EMIT_OK;
}

/* Pieces [lo, hi) of a concat along the inner axis: one for each part that is met. */
static lode_emit_result collect_parts(lode_planner *p, gather *g, lode_node *concat, const lode_map *map,
                                      int32_t lo, int32_t hi) {
  int dim = concat->as.dim;
  int64_t start = map->start[dim], step = map->step[dim], n = hi - lo;
  for (int64_t t = 0; t < n;) {
    int64_t begin, end, stop = n;
    lode_node *part = part_at(concat, start + step * t, &begin, &end);
    if (step > 0) stop = (end - start + step - 1) / step;
    if (step < 0) stop = (start - begin) / -step + 1;
    if (stop > n) stop = n;
    lode_map at = *map;
    at.start[dim] = start + step * t - begin;
    lode_emit_result result = collect(p, g, part, &at, (int32_t)(lo + t), (int32_t)(lo + stop));
    if (result != LODE_EMIT_OK) return result;
    t = stop;
  }
  return LODE_EMIT_OK;
}

/* Is the leaf a window of columns in an array of longer rows, all in its storage? Then several windows of one
 * array, and the array itself, can share an access to whole rows. */
static bool find_window(const lode_node *node, int row, int64_t *pitch, int64_t *column) {
  if (row < 0 || node->storage == NULL || node->stride[row] != 1) return false;
  int64_t first = node->offset, last = node->offset, least = 0, width = node->shape.dim[row];
  for (int d = 0; d < node->shape.ndim; d++) {
    int64_t stride = node->stride[d], size = stride < 0 ? -stride : stride,
            span = stride * (node->shape.dim[d] - 1);
    if (d == row || span == 0) continue;
    if (least == 0 || size < least) least = size;
    if (span > 0) last += span;
    else first += span;
  }
  if (least <= width || least > LODE_ROW_MAX) return false;
  for (int d = 0; d < node->shape.ndim; d++)
    if (d != row && node->shape.dim[d] > 1 && node->stride[d] % least != 0) return false;
  *pitch = least;
  *column = node->offset % least;
  int64_t end = (last - *column + least) * (int64_t)lode_dtype_size((lode_dtype)node->dtype);
  return *column + width <= least && first >= *column && end <= (int64_t)node->storage->bytes;
}

/* A piece that comes from one value: its natural row, the row that it is a window of, or a stretch of a wide
 * leaf. */
static lode_emit_result collect_base(lode_planner *p, gather *g, lode_node *node, const lode_map *map,
                                     int32_t lo, int32_t hi) {
  int row = inner_dim(p, node, map), source;
  bool leaf = node->storage != NULL || node->kind == LODE_NODE_IOTA;
  bool wide = row >= 0 && node->shape.dim[row] > p->row_max;
  int64_t start = row < 0 ? 0 : map->start[row], step = row < 0 ? 0 : map->step[row], pitch, column;
  lode_map natural = *map;
  lode_emit_result result;
  if (row >= 0) {
    natural.start[row] = 0;
    natural.step[row] = 1;
  }
  if (wide && !leaf) return LODE_EMIT_FULL;
  if (find_window(node, row, &pitch, &column)) {
    result = emit_access(p, node, &natural, row, column, (int32_t)pitch, &source);
    start += column;
  } else if (wide) {
    result = emit_access(p, node, map, row, 0, hi - lo, &source);
    start = 0;
    step = 1;
  } else {
    result = emit_value(p, node, &natural, &source);
  }
  if (result != LODE_EMIT_OK) return result;
  bool one = p->program.value[source].width == 1;
  return add_segment(g, source, lo, hi, one ? 0 : (int32_t)start, one ? 0 : (int32_t)step);
}

/* Elements [lo, hi) of the row being built are the node's, from map's start of the inner dim on. */
static lode_emit_result collect(lode_planner *p, gather *g, lode_node *node, const lode_map *map, int32_t lo,
                                int32_t hi) {
  lode_map at = *map;
  while (node->storage == NULL) {
    if (node->kind == LODE_NODE_VIEW) {
      at = compose(node, &at);
      node = node->input[0];
    } else if (node->kind == LODE_NODE_CONCAT) {
      if (at.src[node->as.dim] == p->inner) return collect_parts(p, g, node, &at, lo, hi);
      lode_node *part;
      lode_emit_result result = choose_part(p, node, &at, &part);
      if (result != LODE_EMIT_OK) return result;
      node = part;
    } else {
      break;
    }
  }
  return collect_base(p, g, node, &at, lo, hi);
}

static bool same_segments(const lode_program *program, const lode_value *value, const gather *g) {
  if (value->count != g->count) return false;
  for (int i = 0; i < g->count; i++) {
    const lode_segment *a = &program->segment[value->first + i], *b = &g->segment[i];
    if (a->source != b->source || a->lo != b->lo || a->hi != b->hi || a->start != b->start ||
        a->step != b->step)
      return false;
  }
  return true;
}

static lode_emit_result add_gather(lode_planner *p, const gather *g, lode_dtype dtype, int32_t width,
                                   int *out) {
  lode_program *program = &p->program;
  for (int i = 0; i < program->nvalues; i++) {
    const lode_value *other = &program->value[i];
    if (other->kind != LODE_VALUE_GATHER || other->width != width || !same_segments(program, other, g))
      continue;
    *out = i;
    return LODE_EMIT_OK;
  }
  if (program->nsegments + g->count > LODE_MAX_SEGMENTS) return LODE_EMIT_FULL;
  lode_value *value = add_value(p, LODE_VALUE_GATHER, dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->width = width;
  value->first = (int16_t)program->nsegments;
  value->count = (int16_t)g->count;
  memcpy(&program->segment[program->nsegments], g->segment, (size_t)g->count * sizeof g->segment[0]);
  program->nsegments += g->count;
  *out = last_value(p);
  return LODE_EMIT_OK;
}

/* All of a row from one whose element stands for it. */
static lode_emit_result spread(lode_planner *p, int32_t width, int *value) {
  gather whole = {.count = 1, .segment = {{.source = (int16_t)*value, .lo = 0, .hi = width}}};
  if (p->program.value[*value].width == width) return LODE_EMIT_OK;
  return add_gather(p, &whole, (lode_dtype)p->program.value[*value].dtype, width, value);
}

static lode_emit_result emit_gather(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  gather g = {.count = 0};
  int row = inner_dim(p, node, map);
  int32_t width = row < 0 ? 1 : (int32_t)node->shape.dim[row];
  lode_emit_result result = collect(p, &g, node, map, 0, width);
  if (result != LODE_EMIT_OK) return result;
  const lode_segment *only = &g.segment[0];
  int32_t own = p->program.value[only->source].width;
  if (g.count == 1 && (own == 1 || (own == width && only->start == 0 && only->step == 1))) {
    *out = only->source; /* a row of one element stands for all of the row */
    return LODE_EMIT_OK;
  }
  return add_gather(p, &g, (lode_dtype)node->dtype, width, out);
}

/* ---- reductions that are unrolled ------------------------------------------------------- */

static const lode_op as_operation[LODE_NREDUCTIONS] = {
    [LODE_RED_sum] = LODE_OP_add,     [LODE_RED_prod] = LODE_OP_multiply,   [LODE_RED_min] = LODE_OP_minimum,
    [LODE_RED_max] = LODE_OP_maximum, [LODE_RED_all] = LODE_OP_logical_and, [LODE_RED_any] = LODE_OP_logical_or,
};

static lode_emit_result combine(lode_planner *p, const lode_node *node, int *left, int right) {
  int32_t width = p->program.value[*left].width, other = p->program.value[right].width;
  lode_value *value = add_value(p, LODE_VALUE_OP, (lode_dtype)node->dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->op = (uint16_t)as_operation[node->op];
  value->width = width > other ? width : other;
  value->a[0] = (int16_t)*left;
  value->a[1] = (int16_t)right;
  *left = settle_value(p);
  return LODE_EMIT_OK;
}

/* Each element is a lane of reduce.h's; the lanes that are left are identities, and change nothing. */
static lode_emit_result emit_unrolled(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  int row = lode_row_of_reduction(node), lane[LODE_REDUCE_LANES], filled = (int)node->input[0]->shape.dim[row];
  lode_map at = *map;
  at.src[row] = -1;
  at.step[row] = 0;
  for (int j = 0; j < filled; j++) {
    at.start[row] = j;
    lode_emit_result result = emit_value(p, node->input[0], &at, &lane[j]);
    if (result != LODE_EMIT_OK) return result;
  }
  for (int half = LODE_REDUCE_LANES / 2; half > 0; half /= 2) {
    for (int k = 0; k + half < filled && k < half; k++) {
      lode_emit_result result = combine(p, node, &lane[k], lane[k + half]);
      if (result != LODE_EMIT_OK) return result;
    }
    if (filled > half) filled = half;
  }
  *out = lane[0];
  return LODE_EMIT_OK;
}

/* ---- reductions of rows ---------------------------------------------------------------- */

/* A reduction along the dim that the inner axis can follow, where it belongs to the group; any other has to be
 * computed first. */
static lode_emit_result emit_reduce(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  int row = lode_row_of_reduction(node), source;
  if (node->unrolled) return emit_unrolled(p, node, map, out);
  p->split_node = node;
  if ((node->group != p->running && node != p->alone) || p->inner < 0 || row < 0 ||
      inner_dim(p, node, map) >= 0)
    return LODE_EMIT_FIRST;
  lode_map whole = *map;
  whole.src[row] = (int8_t)p->inner;
  whole.start[row] = 0;
  whole.step[row] = 1;
  lode_emit_result result = emit_value(p, node->input[0], &whole, &source);
  if (result == LODE_EMIT_OK) result = spread(p, (int32_t)node->input[0]->shape.dim[row], &source);
  if (result != LODE_EMIT_OK) return result;
  lode_value *value = add_value(p, LODE_VALUE_REDUCE, (lode_dtype)node->dtype);
  if (value == NULL) return LODE_EMIT_FULL;
  value->op = node->op;
  value->width = 1;
  value->a[0] = (int16_t)source;
  *out = settle_value(p);
  return LODE_EMIT_OK;
}

/* ---- entry ---------------------------------------------------------------------------- */

static lode_emit_result emit_node(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  if (node->storage != NULL) return emit_leaf(p, node, map, out);
  if (node->apart) {
    p->split_node = node;
    return LODE_EMIT_FIRST;
  }
  switch ((lode_node_kind)node->kind) {
  case LODE_NODE_FILL:
    return emit_const(p, node, out);
  case LODE_NODE_IOTA:
    return emit_leaf(p, node, map, out);
  case LODE_NODE_OP:
  case LODE_NODE_CAST:
    return emit_op(p, node, map, out);
  case LODE_NODE_VIEW:
  case LODE_NODE_CONCAT:
    return p->inner < 0 ? emit_pulled(p, node, map, out) : emit_gather(p, node, map, out);
  case LODE_NODE_REDUCE:
    return emit_reduce(p, node, map, out);
  default: /* computed on its own */
    p->split_node = node;
    return LODE_EMIT_FIRST;
  }
}

static lode_emit_result emit_value(lode_planner *p, lode_node *node, const lode_map *map, int *out) {
  *out = find_value(p, node, map);
  if (*out >= 0) return LODE_EMIT_OK;
  lode_emit_result result = emit_node(p, node, map, out);
  return result == LODE_EMIT_OK ? note_value(p, node, map, *out) : result;
}

void lode_emit_start(lode_planner *p) {
  p->program.nvalues = p->program.naccesses = p->program.nconsts = p->program.nsegments = 0;
  p->program.noutputs = p->nmet = 0;
}

lode_emit_result lode_emit(lode_planner *p, lode_node *node, const lode_map *map, bool whole) {
  int value;
  lode_emit_result result = emit_value(p, node, map, &value);
  if (result == LODE_EMIT_OK && p->inner >= 0 && whole)
    result = spread(p, (int32_t)p->extent[p->inner], &value);
  if (result == LODE_EMIT_OK) p->program.output[p->program.noutputs++] = (int16_t)value;
  return result;
}
