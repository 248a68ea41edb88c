/* See tile.h: evaluating a tile with a plan. */
#include "tile.h"

#include <string.h>

/* ---- rows in odometer order --------------------------------------------- */

static void index_of(const lode_args *args, int ndims, int64_t row, int64_t index[LODE_MAX_DIMS]) {
  for (int d = ndims - 1; d > 0; d--) {
    int64_t next = row / args->outer[d];
    index[d] = row - next * args->outer[d];
    row = next;
  }
  if (ndims > 0) index[0] = row;
}

static int64_t offset_of(const lode_access *access, int ndims, const int64_t index[LODE_MAX_DIMS]) {
  int64_t offset = access->offset;
  for (int d = 0; d < ndims; d++) offset += access->stride[d] * index[d];
  return offset;
}

char *lode_tile_address(const lode_plan *plan, const lode_access *access, int ndims, int64_t row,
                        int64_t column, size_t size) {
  int64_t index[LODE_MAX_DIMS];
  index_of(plan->args, ndims, row, index);
  return access->base + (offset_of(access, ndims, index) + access->inner * column) * (int64_t)size;
}

/* Rows that share all outer indices but the last: to an access, they are one stride apart. Takes up
 * to `rows` of them from `index`, which it moves on. */
static int64_t run_of_rows(const lode_args *args, int ndims, int64_t rows, int64_t index[LODE_MAX_DIMS]) {
  if (ndims == 0) return rows;
  int64_t left = args->outer[ndims - 1] - index[ndims - 1];
  if (rows < left) {
    index[ndims - 1] += rows;
    return rows;
  }
  index[ndims - 1] = 0;
  for (int d = ndims - 2; d >= 0 && ++index[d] == args->outer[d]; d--)
    if (d > 0) index[d] = 0;
  return left;
}

/* ---- the kinds of values ------------------------------------------------ */

static int64_t width_of(const lode_step *step, const lode_tile *tile) {
  return step->extent != LODE_EXTENT_FULL ? 1 : step->width != 0 ? step->width : tile->columns;
}

/* Fills dense rows of `width` at `to` from memory, or with their numbers. */
static void load(const lode_plan *plan, int v, const lode_tile *tile, char *to) {
  const lode_value *value = &plan->program->value[v];
  const lode_access *access = &plan->args->access[value->index];
  const lode_step *step = &plan->step[v];
  int ndims = plan->args->nouter;
  int64_t index[LODE_MAX_DIMS], width = width_of(step, tile),
                                stride = ndims > 0 ? access->stride[ndims - 1] : 0;
  int64_t column = step->extent == LODE_EXTENT_FULL ? access->inner * tile->column : 0;
  index_of(plan->args, ndims, tile->row,
           index); /* a copy of state's, just written, would wait for its stores */
  for (int64_t done = 0; done < tile->rows;) {
    int64_t offset = offset_of(access, ndims, index) + column;
    int64_t rows = run_of_rows(plan->args, ndims, tile->rows - done, index);
    char *place = to + done * width * step->size;
    if (value->kind == LODE_VALUE_IOTA)
      plan->isa->iota((int64_t *)(void *)place, offset, stride, access->inner, rows, width);
    else
      plan->isa->move[step->size](place, width, 1, access->base + offset * step->size, stride, access->inner,
                                  rows, width);
    done += rows;
  }
}

/* One by one, with their elements as scalars. */
static void compute_by_row(const lode_tile_state *state, const lode_plan *plan, int v, const lode_tile *tile,
                           char *to) {
  const lode_value *value = &plan->program->value[v];
  const lode_step *step = &plan->step[v];
  const char *operand[3];
  int64_t width = width_of(step, tile), pitch[3] = {0, 0, 0};
  unsigned scalars = step->scalars;
  for (int k = 0; k < 3; k++) {
    const lode_step *from = &plan->step[value->a[k]];
    operand[k] = state->at[value->a[k]];
    if (k >= lode_value_arity(value) || from->extent == LODE_EXTENT_SCALAR) continue;
    pitch[k] = from->extent == LODE_EXTENT_ROW ? from->size : width * from->size;
    if (from->extent == LODE_EXTENT_ROW) scalars |= 1u << k;
  }
  for (int64_t row = 0; row < tile->rows; row++) {
    step->loop(to, operand[0], operand[1], operand[2], width, scalars);
    to += width * step->size;
    for (int k = 0; k < 3; k++) operand[k] += pitch[k];
  }
}

/* Operands that have one element a row are spread to full rows first, where rows are short. */
static void compute_spread(lode_tile_state *state, const lode_plan *plan, int v, const lode_tile *tile,
                           char *to) {
  const lode_value *value = &plan->program->value[v];
  const lode_step *step = &plan->step[v];
  const char *operand[3];
  int64_t width = width_of(step, tile);
  if (tile->rows == 1 || step->by_row) {
    compute_by_row(state, plan, v, tile, to);
    return;
  }
  for (int k = 0; k < 3; k++) {
    const lode_step *from = &plan->step[value->a[k]];
    operand[k] = state->at[value->a[k]];
    if (k >= lode_value_arity(value) || from->extent != LODE_EXTENT_ROW) continue;
    char *spread = state->workspace + (size_t)step->spread[k] * plan->slot_bytes;
    plan->isa->move[from->size](spread, width, 1, operand[k], 1, 0, tile->rows, width);
    operand[k] = spread;
  }
  step->loop(to, operand[0], operand[1], operand[2], tile->rows * width, step->scalars);
}

static void weave(const lode_tile_state *state, const lode_plan *plan, const lode_value *value,
                  const lode_tile *tile, char *to) {
  const void *from[4];
  for (int s = 0; s < value->count; s++) from[s] = state->at[plan->program->segment[value->first + s].source];
  plan->isa->weave[lode_dtype_size((lode_dtype)value->dtype)](to, from, tile->rows, value->count);
}

/* One segment that is as wide as the row but for a shift is copied for all rows at once, which puts
 * wrong elements where other segments belong; those are copied over them. */
static void gather(const lode_tile_state *state, const lode_plan *plan, int v, const lode_tile *tile,
                   char *to) {
  const lode_value *value = &plan->program->value[v];
  const lode_step *step = &plan->step[v];
  lode_move *move = plan->isa->move[step->size];
  int64_t width = width_of(step, tile), rows = tile->rows, size = step->size;
  if (step->weave) {
    weave(state, plan, value, tile, to);
    return;
  }
  if (step->base >= 0) {
    const lode_segment *s = &plan->program->segment[step->base];
    plan->isa->shift(to + s->lo * size, state->at[s->source] + s->start * size,
                     ((rows - 1) * width + s->hi - s->lo) * size);
  }
  for (int g = value->first; g < value->first + value->count; g++) {
    if (g == step->base) continue;
    const lode_segment *s = &plan->program->segment[g];
    const lode_step *from = &plan->step[s->source];
    int64_t row = from->extent == LODE_EXTENT_SCALAR ? 0 : width_of(from, tile);
    int64_t column = from->extent == LODE_EXTENT_FULL ? 1 : 0;
    move(to + s->lo * size, width, 1, state->at[s->source] + s->start * column * size, row, s->step * column,
         rows, s->hi - s->lo);
  }
}

static void reduce(const lode_tile_state *state, const lode_plan *plan, int v, const lode_tile *tile,
                   char *to) {
  int source = plan->program->value[v].a[0];
  const lode_step *step = &plan->step[v], *from = &plan->step[source];
  int64_t width = width_of(from, tile), behind = 64 / step->size;
  if (from->slot < 0) { /* an input has its next rows behind it; a slot, a cache line */
    int64_t left = from->in_place ? (plan->nrows - tile->row - tile->rows) * width : 0;
    if (left < behind) behind = left;
  }
  lode_tile_reduce(step->reducer, step->size, to, state->at[source], tile->rows, width, behind);
}

/* ---- tiles -------------------------------------------------------------- */

void lode_tile_start(lode_tile_state *state, const lode_plan *plan, char *workspace) {
  state->workspace = workspace;
  state->kept = (lode_tile){0, 0, 0, 0};
  for (int v = 0; v < plan->program->nvalues; v++) {
    const lode_step *step = &plan->step[v];
    state->at[v] = step->slot >= 0 ? workspace + (size_t)step->slot * plan->slot_bytes : step->origin;
  }
}

/* Whether the periodic values in their slots serve this tile too. */
static bool keeps(lode_tile_state *state, const lode_tile *tile) {
  if (tile->rows <= state->kept.rows && tile->column == state->kept.column &&
      tile->columns == state->kept.columns)
    return true;
  state->kept = *tile;
  return false;
}

/* Where a direct output's tile is stored. */
static char *place_of(const lode_plan *plan, int output, const lode_tile *tile, size_t size) {
  const lode_access *out = &plan->args->out[output];
  int64_t width = lode_plan_output_width(plan->program, plan->args, output);
  if (plan->cut == LODE_CUT_ROWS) return out->base + (out->offset + tile->row * width) * (int64_t)size;
  return lode_tile_address(plan, out, plan->args->nouter, tile->row, tile->column, size);
}

/* Where the tile of an input is that is read in place. */
static inline const char *in_place(const lode_tile_state *state, const lode_plan *plan, int v,
                                   const lode_tile *tile) {
  const lode_step *step = &plan->step[v];
  if (step->action == LODE_ACTION_DENSE) return step->origin + tile->row * step->pitch;
  const lode_access *access = &plan->args->access[plan->program->value[v].index];
  return access->base + (offset_of(access, plan->args->nouter, state->index) + tile->column) * step->size;
}

static void evaluate(lode_tile_state *state, const lode_plan *plan, int v, const lode_tile *tile, bool kept) {
  const lode_step *step = &plan->step[v];
  const lode_value *value = &plan->program->value[v];
  const char **at = state->at;
  char *to = NULL;
  if (kept && step->periodic) return;
  if (step->slot >= 0) to = state->workspace + (size_t)step->slot * plan->slot_bytes;
  if (step->output >= 0) at[v] = to = place_of(plan, step->output, tile, step->size);
  switch ((lode_action)step->action) {
  case LODE_ACTION_NONE:
    return;
  case LODE_ACTION_DENSE:
  case LODE_ACTION_ROW:
    at[v] = in_place(state, plan, v, tile);
    return;
  case LODE_ACTION_LOAD:
    load(plan, v, tile, to);
    return;
  case LODE_ACTION_GATHER:
    gather(state, plan, v, tile, to);
    return;
  case LODE_ACTION_COMPUTE: /* operands that an operation does not have are index 0, and not looked at */
    step->loop(to, at[value->a[0]], at[value->a[1]], at[value->a[2]], tile->rows * width_of(step, tile),
               step->scalars);
    return;
  case LODE_ACTION_CHAIN:
    lode_chain_run(state, plan, v, to, tile->rows * width_of(step, tile));
    return;
  case LODE_ACTION_SPREAD:
    compute_spread(state, plan, v, tile, to);
    return;
  case LODE_ACTION_REDUCE:
    reduce(state, plan, v, tile, to);
    return;
  }
}

/* The lines behind this tile's, of the inputs that come from memory, asked for in shares between the steps
 * that work: the processor's own prefetcher stops at the end of each page, and a burst holds up the loads
 * that follow. What is asked for behind an array's end does no harm. */
typedef struct ahead {
  int count;
  struct {
    uintptr_t next, end;
    uintptr_t share; /* bytes */
  } input[LODE_MAX_ACCESSES];
} ahead;

static __attribute__((noinline)) void look_ahead(ahead *a, const lode_tile_state *state, const lode_plan *plan,
                                                 const lode_tile *tile) {
  a->count = plan->nfar;
  for (int i = 0; i < a->count; i++) {
    const lode_step *step = &plan->step[plan->far[i]];
    uintptr_t bytes = (uintptr_t)(tile->rows * width_of(step, tile) * step->size);
    a->input[i].next = (uintptr_t)in_place(state, plan, plan->far[i], tile) + bytes;
    a->input[i].end = a->input[i].next + bytes;
    a->input[i].share = (bytes / (uintptr_t)plan->nworking + 63) / 64 * 64;
  }
}

static __attribute__((noinline)) void prefetch_share(ahead *a) { /* not in the loop of who calls it */
  __asm__ __volatile__(""); /* else gcc takes this for a function without effect, and drops the call */
  for (int i = 0; i < a->count; i++) {
    uintptr_t next = a->input[i].next, end = next + a->input[i].share;
    if (end > a->input[i].end) end = a->input[i].end;
    for (; next < end; next += 64) __builtin_prefetch((const void *)next);
    a->input[i].next = next;
  }
}

void lode_tile_evaluate(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile) {
  ahead a;
  a.count = 0;
  if (plan->odometer) index_of(plan->args, plan->args->nouter, tile->row, state->index);
  bool kept = plan->keeps && keeps(state, tile), far = plan->nfar > 0;
  if (far) look_ahead(&a, state, plan, tile);
  for (int v = 0; v < plan->program->nvalues; v++) {
    if (far && plan->step[v].action >= LODE_ACTION_LOAD) prefetch_share(&a);
    evaluate(state, plan, v, tile, kept);
  }
}

const void *lode_tile_output(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile, int output) {
  int v = plan->program->output[output];
  const lode_step *step = &plan->step[v];
  if (plan->spread_slot[output] < 0) return state->at[v];
  char *place = state->workspace + (size_t)plan->spread_slot[output] * plan->slot_bytes;
  int64_t columns = lode_plan_output_width(plan->program, plan->args, output) == 1 ? 1 : tile->columns;
  plan->isa->move[step->size](place, columns, 1, state->at[v], step->extent == LODE_EXTENT_ROW, 0, tile->rows,
                              columns);
  return place;
}

void lode_tile_store(const lode_plan *plan, const lode_access *access, int ndims, const lode_tile *tile,
                     const void *dense, size_t size) {
  const char *from = dense;
  int64_t index[LODE_MAX_DIMS], stride = ndims > 0 ? access->stride[ndims - 1] : 0;
  index_of(plan->args, ndims, tile->row, index);
  for (int64_t done = 0; done < tile->rows;) {
    int64_t offset = offset_of(access, ndims, index) + access->inner * tile->column;
    int64_t rows = run_of_rows(plan->args, ndims, tile->rows - done, index);
    plan->isa->move[size](access->base + offset * (int64_t)size, stride, access->inner,
                          from + done * tile->columns * (int64_t)size, tile->columns, 1, rows, tile->columns);
    done += rows;
  }
}
