/* Making the plan of tile.h: what each value of a program is, where it lies, and
 * how the iteration space is cut. This runs once for each pass, also for passes
 * over a few elements, so it does no more than it must. Evaluating is in tile.c. */
#include <string.h>

#include "tile.h"

enum {
  L1_BYTES = 24 << 10,  /* of 32 or more: tables, code and stack want their share */
  MOST_ELEMENTS = 1024, /* beyond, dispatch is no longer a cost and L1 is */
  LEAST_ELEMENTS = 128,
  ELEMENTS_IN_PLACE = 16 << 10, /* where nothing is computed: only what reads them has a use for L1 */
  WHOLE_ROWS = 512,             /* inner extents up to this are not cut */
  WHOLE_SEQUENCES = 1024,       /* the same for reductions along the inner axis: one chunk of reduce.h */
  BLOCK_COLUMNS = 64,
  LONG_ROW = 128,         /* from here on a row is worth a call of its own */
  FAR_BYTES = 12 << 20,   /* inputs beyond come from memory, and prefetching them pays: from L3 it costs */
  NEAR_BYTES = 256 << 10, /* what was read this far back is still in L2 */
  FEW_STEPS = 3           /* below, there is nothing to compute while lines come */
};

bool lode_access_dense(const lode_access *access, const lode_args *args, int ndims, int64_t width) {
  if (width > 1 && access->inner != 1) return false;
  for (int d = ndims - 1; d >= 0; d--) {
    if (args->outer[d] > 1 && access->stride[d] != width) return false;
    width *= args->outer[d];
  }
  return true;
}

/* ---- what values are ---------------------------------------------------- */

static int64_t width_of(const lode_plan *plan, int v) {
  int32_t width = plan->program->value[v].width;
  return width != 0 ? width : plan->args->inner;
}

static bool varies_by_row(const lode_access *access, const lode_args *args) {
  for (int d = 0; d < args->nouter; d++)
    if (access->stride[d] != 0 && args->outer[d] > 1) return true;
  return false;
}

static bool is_output(const lode_program *program, int v) {
  for (int o = 0; o < program->noutputs; o++)
    if (program->output[o] == v) return true;
  return false;
}

int64_t lode_plan_output_width(const lode_program *program, const lode_args *args, int output) {
  return program->rows && program->value[program->output[output]].width == 1 ? 1 : args->inner;
}

static void classify_access(lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  const lode_access *access = &plan->args->access[value->index];
  lode_step *step = &plan->step[v];
  int64_t width = width_of(plan, v);
  bool by_column = width > 1 && access->inner != 0, by_row = varies_by_row(access, plan->args);
  bool memory = value->kind == LODE_VALUE_ACCESS;
  step->extent = by_column ? LODE_EXTENT_FULL : by_row ? LODE_EXTENT_ROW : LODE_EXTENT_SCALAR;
  step->origin = memory ? access->base + access->offset * step->size : NULL;
  if (step->extent == LODE_EXTENT_SCALAR) {
    plan->scalar[v].i64 = access->offset;
    if (!memory) step->origin = (const char *)&plan->scalar[v];
    return;
  }
  step->action = LODE_ACTION_LOAD;
  if (by_column && plan->cut == LODE_CUT_SINGLE) {
    if (memory && access->inner == 1) step->action = LODE_ACTION_ROW;
  } else if (memory && !(by_column && plan->cut == LODE_CUT_BLOCK) &&
             lode_access_dense(access, plan->args, plan->args->nouter, by_column ? width : 1)) {
    step->action = LODE_ACTION_DENSE;
    step->pitch = (by_column ? width : 1) * step->size;
  }
  step->in_place = step->action != LODE_ACTION_LOAD;
  step->periodic = by_column && !by_row && !step->in_place && !is_output(plan->program, v);
  if (step->action != LODE_ACTION_DENSE) plan->odometer = true;
}

lode_dtype lode_plan_loop_dtype(const lode_program *program, const lode_value *value) {
  lode_rule rule = lode_ops[value->op].rule;
  return (lode_dtype)(rule == LODE_RULE_COMPARE ? program->value[value->a[0]].dtype : value->dtype);
}

static void classify_operation(lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  bool cast = value->kind == LODE_VALUE_CAST;
  int arity = cast ? 1 : lode_ops[value->op].arity;
  const void *operand[3] = {NULL, NULL, NULL};
  step->loop = cast ? plan->isa->cast[plan->program->value[value->a[0]].dtype][value->dtype]
                    : plan->isa->op[value->op][lode_plan_loop_dtype(plan->program, value)];
  bool periodic = !is_output(plan->program, v);
  for (int k = 0; k < arity; k++) {
    const lode_step *from = &plan->step[value->a[k]];
    operand[k] = from->origin;
    if (from->extent > step->extent) step->extent = from->extent;
    if (from->extent == LODE_EXTENT_SCALAR || (from->extent == LODE_EXTENT_ROW && plan->cut == LODE_CUT_SINGLE))
      step->scalars |= (uint8_t)(1 << k);
    if (from->extent != LODE_EXTENT_SCALAR) periodic = periodic && from->periodic;
  }
  step->action = LODE_ACTION_COMPUTE;
  step->periodic = periodic && step->extent == LODE_EXTENT_FULL;
  if (step->extent != LODE_EXTENT_SCALAR) return;
  step->action = LODE_ACTION_NONE;
  step->loop(&plan->scalar[v], operand[0], operand[1], operand[2], 1, 0);
  step->origin = (const char *)&plan->scalar[v];
}

/* Whether all segments of a row are one element, of values with one element a row. */
static bool weaves(const lode_plan *plan, const lode_value *value, int64_t width) {
  if (value->count != width || width < 2 || width > 4) return false;
  for (int s = value->first; s < value->first + value->count; s++)
    if (plan->step[plan->program->segment[s].source].extent != LODE_EXTENT_ROW) return false;
  return true;
}

static void classify_gather(lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  int64_t width = width_of(plan, v), longest = width / 2;
  step->extent = width > 1 ? LODE_EXTENT_FULL : LODE_EXTENT_ROW;
  step->action = LODE_ACTION_GATHER;
  step->weave = weaves(plan, value, width);
  for (int s = value->first; s < value->first + value->count; s++) {
    const lode_segment *segment = &plan->program->segment[s];
    if (segment->step != 1 || plan->step[segment->source].extent != LODE_EXTENT_FULL ||
        width_of(plan, segment->source) != width || segment->hi - segment->lo < longest)
      continue;
    longest = segment->hi - segment->lo;
    step->base = (int16_t)s;
  }
}

/* Its operand is a row of more than one element: emit.c sees to it. */
static void classify_reduction(lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  step->extent = LODE_EXTENT_ROW;
  step->action = LODE_ACTION_REDUCE;
  step->reducer = &plan->isa->reduce[value->op][value->dtype];
}

/* Nanoseconds for one element, where it is far from what a vector instruction takes. */
static const float slow_operations[LODE_NOPS] = {
    [LODE_OP_sqrt] = 0.3f,         [LODE_OP_exp] = 1,       [LODE_OP_log] = 1.5f, [LODE_OP_sin] = 1.5f,
    [LODE_OP_cos] = 1.5f,          [LODE_OP_tanh] = 1.2f,   [LODE_OP_pow] = 8,    [LODE_OP_divide] = 0.3f,
    [LODE_OP_floor_divide] = 1.5f, [LODE_OP_remainder] = 5, [LODE_OP_rand] = 4,   [LODE_OP_randn] = 8,
};

static double cost_of(const lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  const lode_step *step = &plan->step[v];
  double each = 0.015 * step->size;
  if (value->kind == LODE_VALUE_REDUCE) return each;
  if (step->extent == LODE_EXTENT_SCALAR || step->periodic) return 0.005;
  if (value->kind == LODE_VALUE_OP && slow_operations[value->op] > 0) each = slow_operations[value->op];
  if (step->in_place) each = 0.03 * step->size; /* reading memory */
  if (value->kind == LODE_VALUE_ACCESS && !step->in_place) each = 0.1 * step->size;
  return step->extent == LODE_EXTENT_ROW ? each / (double)plan->args->inner : each;
}

static void classify(lode_plan *plan, int v) {
  static void (*const by_kind[])(lode_plan *, int) = {
      [LODE_VALUE_ACCESS] = classify_access, [LODE_VALUE_IOTA] = classify_access,
      [LODE_VALUE_OP] = classify_operation,  [LODE_VALUE_CAST] = classify_operation,
      [LODE_VALUE_GATHER] = classify_gather, [LODE_VALUE_REDUCE] = classify_reduction,
  };
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  *step = (lode_step){.slot = -1, .spread = {-1, -1, -1}, .base = -1, .output = -1};
  step->size = (uint8_t)lode_dtype_size((lode_dtype)value->dtype);
  if (step->size > plan->element) plan->element = step->size;
  if (value->kind == LODE_VALUE_CONST) step->origin = (const char *)&plan->args->consts[value->index];
  else by_kind[value->kind](plan, v);
  if (step->extent == LODE_EXTENT_FULL) {
    step->width = value->width != 0 ? value->width : plan->program->rows ? (int32_t)plan->args->inner : 0;
    if (step->width > plan->widest) plan->widest = step->width;
  }
  plan->cost += cost_of(plan, v);
}

/* ---- where values lie --------------------------------------------------- */

typedef struct slots {
  int16_t free[LODE_MAX_VALUES * 4];
  int nfree;
  int16_t last_use[LODE_MAX_VALUES];
} slots;

static int16_t take(lode_plan *plan, slots *s) {
  return s->nfree > 0 ? s->free[--s->nfree] : (int16_t)plan->nslots++;
}

/* Notes that a slot holds full rows at times. */
static void note_full(lode_plan *plan, int16_t slot) {
  if (slot >= 0 && slot < 64) plan->full_slots |= (uint64_t)1 << slot;
}

/* What is made once and kept needs a slot that no earlier value writes in the next tile. */
static int16_t take_for(lode_plan *plan, slots *s, const lode_step *step) {
  return step->periodic ? (int16_t)plan->nslots++ : take(plan, s);
}

static void use(slots *s, int u, int16_t place) {
  if (s->last_use[u] < place) s->last_use[u] = place;
}

static void find_last_uses(const lode_plan *plan, slots *s) {
  const lode_program *program = plan->program;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    int16_t place = plan->step[v].place;
    s->last_use[v] = place;
    for (int k = 0; k < lode_value_arity(value); k++) use(s, value->a[k], place);
    if (value->kind != LODE_VALUE_GATHER) continue;
    for (int g = value->first; g < value->first + value->count; g++) use(s, program->segment[g].source, place);
  }
  for (int o = 0; o < program->noutputs; o++) s->last_use[program->output[o]] = INT16_MAX;
}

/* Frees the slot of value `u`, if `v` was the last to use it. */
static void retire(lode_plan *plan, slots *s, int u, int v) {
  lode_step *step = &plan->step[u];
  if (s->last_use[u] != v || step->slot < 0 || step->periodic) return;
  s->free[s->nfree++] = step->slot;
  s->last_use[u] = -1; /* an operand may be named twice */
}

/* The slot of an operand that ends here and has the result's shape; -1 if there is none. */
static int16_t inherit(lode_plan *plan, slots *s, int v, int arity) {
  const lode_value *value = &plan->program->value[v];
  for (int k = 0; k < arity; k++) {
    const lode_step *from = &plan->step[value->a[k]], *step = &plan->step[v];
    if (s->last_use[value->a[k]] != v || from->slot < 0 || from->periodic || step->periodic ||
        from->size != step->size || from->extent != step->extent || from->width != step->width)
      continue;
    s->last_use[value->a[k]] = -1;
    return from->slot;
  }
  return -1;
}

/* The chain's slot is none of its operands': they are read again where strips overlap. */
static void place_chain(lode_plan *plan, slots *s, int last) {
  const lode_value *value = plan->program->value;
  lode_step *step = &plan->step[last];
  step->padded = step->output < 0;
  if (step->output < 0) step->slot = take_for(plan, s, step);
  for (int links = step->links, v = last; links > 0; links--, v = value[v].a[plan->step[v].along]) {
    const lode_step *own = &plan->step[v];
    for (int k = 0; k < lode_value_arity(&value[v]); k++) {
      bool memory = (links == 1 || k != own->along) && (own->scalars >> k & 1) == 0;
      if (memory && plan->step[value[v].a[k]].slot < 0) step->padded = false; /* an input, or an output */
      retire(plan, s, value[v].a[k], last);
    }
  }
}

static void place_operation(lode_plan *plan, slots *s, int v) {
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  int arity = lode_value_arity(value);
  for (int k = 0; k < arity && step->extent == LODE_EXTENT_FULL; k++) {
    if (plan->step[value->a[k]].extent != LODE_EXTENT_ROW || (step->scalars >> k & 1) != 0) continue;
    step->action = LODE_ACTION_SPREAD;
    step->by_row = plan->cut == LODE_CUT_ROWS && width_of(plan, v) >= LONG_ROW;
    if (!step->by_row) step->spread[k] = take(plan, s);
    note_full(plan, step->spread[k]);
  }
  if (step->output < 0) step->slot = inherit(plan, s, v, arity);
  if (step->output < 0 && step->slot < 0) step->slot = take_for(plan, s, step);
  for (int k = 0; k < arity; k++) {
    retire(plan, s, value->a[k], v);
    if (step->spread[k] >= 0) s->free[s->nfree++] = step->spread[k];
  }
}

static void place(lode_plan *plan, slots *s, int v) {
  const lode_value *value = &plan->program->value[v];
  lode_step *step = &plan->step[v];
  if (step->action < LODE_ACTION_LOAD) return;
  if (step->action == LODE_ACTION_CHAIN) {
    place_chain(plan, s, v);
    return;
  }
  if (lode_value_arity(value) > 0) {
    place_operation(plan, s, v);
    return;
  }
  if (step->output < 0) step->slot = take_for(plan, s, step);
  if (value->kind != LODE_VALUE_GATHER) return;
  for (int g = value->first; g < value->first + value->count; g++)
    retire(plan, s, plan->program->segment[g].source, v);
}

/* ---- how the space is cut ----------------------------------------------- */

/* Whether an input is read along the last outer dim with stride 1 and along rows with another. */
static bool transposed(const lode_program *program, const lode_args *args) {
  if (args->nouter == 0) return false;
  int last = args->nouter - 1;
  if (args->outer[last] < 8) return false;
  for (int v = 0; v < program->nvalues; v++) {
    if (program->value[v].kind != LODE_VALUE_ACCESS) continue;
    const lode_access *access = &args->access[program->value[v].index];
    if (access->inner > 1 && access->stride[last] == 1) return true;
  }
  return args->out[0].inner > 1 && last < args->nouter - args->nreduced && args->out[0].stride[last] == 1;
}

static lode_cut choose_cut(const lode_program *program, const lode_args *args) {
  bool along = program->form == LODE_REDUCE_INNER;
  if (program->rows) return LODE_CUT_ROWS;
  if (!along && args->inner > BLOCK_COLUMNS && transposed(program, args)) return LODE_CUT_BLOCK;
  return args->inner <= (along ? WHOLE_SEQUENCES : WHOLE_ROWS) ? LODE_CUT_ROWS : LODE_CUT_SINGLE;
}

/* Where an output's value is made, or spread to full rows first. */
static void place_output(lode_plan *plan, int o) {
  const lode_program *program = plan->program;
  int v = program->output[o];
  lode_step *step = &plan->step[v];
  int64_t width = lode_plan_output_width(program, plan->args, o);
  bool spread = width > 1 && step->extent != LODE_EXTENT_FULL;
  if (spread || step->extent == LODE_EXTENT_SCALAR) plan->spread_slot[o] = (int16_t)plan->nslots++;
  if (spread || step->action < LODE_ACTION_LOAD || step->output >= 0 || plan->cut == LODE_CUT_BLOCK ||
      program->form != LODE_REDUCE_NONE)
    return;
  if (!lode_access_dense(&plan->args->out[o], plan->args, plan->args->nouter, width)) return;
  plan->direct[o] = true;
  step->output = (int16_t)o;
}

/* Whether of two inputs the one behind finds what the one ahead has read: windows of one array. */
static bool follows(const lode_access *behind, const lode_access *ahead, int64_t size) {
  return behind->base == ahead->base && behind->offset <= ahead->offset &&
         (ahead->offset - behind->offset) * size < NEAR_BYTES;
}

/* Notes that input v is prefetched, unless another one runs ahead of it. */
static void add_far(lode_plan *plan, int v) {
  const lode_value *value = plan->program->value;
  const lode_access *access = plan->args->access, *own = &access[value[v].index];
  int64_t size = plan->step[v].size;
  int kept = 0;
  for (int i = 0; i < plan->nfar; i++)
    if (follows(own, &access[value[plan->far[i]].index], size)) return;
  for (int i = 0; i < plan->nfar; i++)
    if (!follows(&access[value[plan->far[i]].index], own, size)) plan->far[kept++] = plan->far[i];
  plan->far[kept++] = (int16_t)v;
  plan->nfar = kept;
}

/* Which inputs are prefetched. */
static void find_far(lode_plan *plan) {
  double each = 0;
  plan->nfar = plan->nworking = 0;
  for (int v = 0; v < plan->program->nvalues; v++) {
    const lode_step *step = &plan->step[v];
    plan->nworking += step->action >= LODE_ACTION_LOAD;
    if (step->in_place && step->extent == LODE_EXTENT_FULL) add_far(plan, v);
  }
  for (int i = 0; i < plan->nfar; i++)
    each += (double)width_of(plan, plan->far[i]) * plan->step[plan->far[i]].size;
  if (each * (double)plan->nrows < FAR_BYTES || plan->nworking < FEW_STEPS) plan->nfar = 0;
}

void lode_plan_make(lode_plan *plan, const lode_program *program, const lode_args *args) {
  plan->program = program;
  plan->args = args;
  plan->isa = lode_isa_current();
  plan->cut = choose_cut(program, args);
  plan->odometer = plan->keeps = false;
  plan->full_slots = 0;
  plan->nslots = plan->widest = plan->element = 0;
  plan->cost = 0;
  plan->nrows = 1;
  for (int d = 0; d < args->nouter; d++) plan->nrows *= args->outer[d];

  slots s;
  s.nfree = 0;
  for (int v = 0; v < program->nvalues; v++) {
    classify(plan, v);
    plan->keeps = plan->keeps || plan->step[v].periodic;
  }
  lode_chains_find(plan);
  find_last_uses(plan, &s);
  for (int o = 0; o < program->noutputs; o++) {
    plan->direct[o] = false;
    plan->spread_slot[o] = -1;
    place_output(plan, o);
  }
  for (int v = 0; v < program->nvalues; v++) {
    place(plan, &s, v);
    if (plan->step[v].extent == LODE_EXTENT_FULL) note_full(plan, plan->step[v].slot);
  }
  find_far(plan);
}

int64_t lode_plan_elements(const lode_plan *plan) {
  if (plan->nworking == 0) return ELEMENTS_IN_PLACE;
  int full = 1 + __builtin_popcountll(plan->full_slots); /* one for what is stored */
  for (int v = 0; v < plan->program->nvalues; v++) full += plan->step[v].in_place;
  /* Slots of one element a row take a fraction of the others' room. */
  int64_t inner = plan->cut == LODE_CUT_ROWS ? plan->args->inner : 1;
  int64_t narrow = plan->nslots - __builtin_popcountll(plan->full_slots);
  int64_t each = full * inner + narrow, all = (full + narrow) * inner;
  int64_t elements = L1_BYTES * inner / (each * plan->element), most = MOST_ELEMENTS * all / each;
  if (elements > most) elements = most;
  return elements < LEAST_ELEMENTS ? LEAST_ELEMENTS : elements / 16 * 16;
}

size_t lode_plan_size(lode_plan *plan, int64_t rows, int64_t columns) {
  plan->rows = rows;
  plan->columns = columns;
  int64_t width = plan->widest > columns ? plan->widest : columns;
  size_t bytes = (size_t)(rows * width * plan->element);
  /* One cache line more, so that slots do not all begin in the same set. */
  plan->slot_bytes = (bytes + 63) / 64 * 64 + 64;
  return plan->slot_bytes * (size_t)plan->nslots;
}
