/* Chains of a plan (tile.h): operations on floats, each of which is the only user of the one before. They are
 * made at the last one's place, in one loop over their operands (isa/chain.c), so all but the last have no slot
 * and are never written to L1. */
#include "tile.h"

#include "../core/trace.h"

enum { MOST_LINKS = 16, WORTH_LINKS = 4, NARROW_ROW = 16, FEW = 128 /* elements of the longest strip */ };

/* How often each value is used: as an operand, in rows that are gathered, as an output. */
static void count_uses(const lode_program *program, int16_t uses[LODE_MAX_VALUES]) {
  for (int v = 0; v < program->nvalues; v++) uses[v] = 0;
  for (int v = 0; v < program->nvalues; v++)
    for (int k = 0; k < lode_value_arity(&program->value[v]); k++) uses[program->value[v].a[k]]++;
  for (int s = 0; s < program->nsegments; s++) uses[program->segment[s].source]++;
  for (int o = 0; o < program->noutputs; o++) uses[program->output[o]]++;
}

static lode_link_run *link_of(const lode_plan *plan, int v, int i, int j) {
  const lode_value *value = &plan->program->value[v];
  return plan->isa->link[value->op][lode_plan_loop_dtype(plan->program, value)][i][j];
}

/* Whether there is a link for an operation. Where rows are taken together, one element a row is spread over
 * full rows first; where they are taken one by one, it is a number. */
static bool has_link(const lode_plan *plan, int v) {
  const lode_value *value = &plan->program->value[v];
  const lode_step *step = &plan->step[v];
  if (value->kind != LODE_VALUE_OP || step->extent == LODE_EXTENT_SCALAR) return false;
  if (step->extent == LODE_EXTENT_ROW && plan->args->inner > NARROW_ROW) return false;
  for (int k = 0; k < lode_value_arity(value); k++)
    if ((step->scalars >> k & 1) == 0 && plan->step[value->a[k]].extent != step->extent) return false;
  return link_of(plan, v, 0, 0) != NULL;
}

static lode_rule rule_of(const lode_plan *plan, int v) { return lode_ops[plan->program->value[v].op].rule; }

/* Of the operands that only v uses and that chains end in, the one of the longest; -1 if there is none. A
 * selection goes on with a comparison of its own type, and nothing else does. */
static int before(const lode_plan *plan, const int16_t *uses, int v) {
  const lode_value *value = &plan->program->value[v];
  bool selects = rule_of(plan, v) == LODE_RULE_SELECT;
  int best = -1;
  for (int k = 0; k < (selects ? 1 : lode_value_arity(value)); k++) {
    int u = value->a[k];
    const lode_step *from = &plan->step[u];
    if (from->links == 0 || from->links == MOST_LINKS || uses[u] != 1 ||
        from->periodic != plan->step[v].periodic)
      continue;
    if (selects && (rule_of(plan, u) != LODE_RULE_COMPARE ||
                    lode_plan_loop_dtype(plan->program, &plan->program->value[u]) != value->dtype))
      continue;
    if (best < 0 || from->links > plan->step[value->a[best]].links) best = k;
  }
  return best;
}

/* Whether an operand takes a slot for as long as a chain is not made. */
static bool takes_slot(const lode_plan *plan, int v, int k) {
  const lode_step *step = &plan->step[v], *from = &plan->step[plan->program->value[v].a[k]];
  return (step->scalars >> k & 1) == 0 && !from->in_place && !from->periodic;
}

/* A link takes half the time of a loop, but a chain has to begin and end, so two operations are as fast alone;
 * and its operands wait for one another, which makes for smaller tiles. Not if the divider, which is slow, can
 * work while the others do, or if bools need not be made of a comparison. */
static bool pays(const lode_plan *plan, int v) {
  const lode_value *value = plan->program->value;
  int links = plan->step[v].links, waiting = 0;
  if (links < 2 || rule_of(plan, v) == LODE_RULE_COMPARE) return false;
  for (int left = links; left > 0; left--, v = value[v].a[plan->step[v].along]) {
    if (value[v].op == LODE_OP_divide || value[v].op == LODE_OP_sqrt || rule_of(plan, v) == LODE_RULE_SELECT)
      return true;
    for (int k = 0; k < lode_value_arity(&value[v]); k++)
      waiting += (left == 1 || k != plan->step[v].along) && takes_slot(plan, v, k);
  }
  return links >= WORTH_LINKS && 2 * waiting <= links;
}

/* Makes one chain of the operations that end in v. */
static void tie(lode_plan *plan, int v) {
  const lode_value *value = plan->program->value;
  plan->step[v].action = LODE_ACTION_CHAIN;
  for (int links = plan->step[v].links, u = v; links > 1; links--) {
    u = value[u].a[plan->step[u].along];
    plan->step[u].action = LODE_ACTION_NONE;
    plan->step[u].place = (int16_t)v;
  }
}

static void explain(const lode_step *last) {
  lode_trace("cpu: a chain of %d operations%s%s", last->links,
             last->extent == LODE_EXTENT_ROW ? ", one element a row" : "",
             last->periodic ? ", the same in every row" : "");
}

void lode_chains_find(lode_plan *plan) {
  int16_t uses[LODE_MAX_VALUES];
  const lode_program *program = plan->program;
  count_uses(program, uses);
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    lode_step *step = &plan->step[v];
    step->place = (int16_t)v;
    if (!has_link(plan, v)) continue;
    int k = before(plan, uses, v);
    bool selects = rule_of(plan, v) == LODE_RULE_SELECT;
    if (selects && k < 0) continue;
    step->along = (uint8_t)(k >= 0 ? k : step->scalars & 1);
    step->links = (uint8_t)(k >= 0 ? plan->step[value->a[k]].links + 1 : 1);
    step->link = selects ? link_of(plan, v, step->scalars >> 1 & 1, step->scalars >> 2 & 1)
                         : link_of(plan, v, step->along, step->scalars != 0);
  }
  for (int v = program->nvalues - 1; v >= 0; v--) /* users come behind what they use */
    if (plan->step[v].place == v && pays(plan, v)) {
      tie(plan, v);
      if (lode_tracing()) explain(&plan->step[v]);
    }
}

/* Few elements, with the operations' own loops. The result is none of the operands, so what leads to it is made
 * in its place; but bools, which have another size. */
static void run_loops(const lode_tile_state *state, const lode_plan *plan, const int16_t *member, int count,
                      char *to, int64_t n) {
  char bools[FEW];
  const char *so_far = NULL;
  for (int i = 0; i < count; i++) {
    const lode_value *value = &plan->program->value[member[i]];
    const lode_step *step = &plan->step[member[i]];
    const char *operand[3] = {state->at[value->a[0]], state->at[value->a[1]], state->at[value->a[2]]};
    char *place = rule_of(plan, member[i]) == LODE_RULE_COMPARE ? bools : to;
    if (i > 0) operand[step->along] = so_far;
    step->loop(place, operand[0], operand[1], operand[2], n, step->scalars);
    so_far = place;
  }
}

/* Operands that an operation does not have are not looked at. */
static lode_link *add_links(lode_link *end, const lode_tile_state *state, const lode_value *value,
                            const lode_step *step) {
  if (lode_value_arity(value) == 3) (--end)->operand = state->at[value->a[2]];
  (--end)->operand = state->at[value->a[1 - step->along]];
  end->run = step->link;
  return end;
}

void lode_chain_run(const lode_tile_state *state, const lode_plan *plan, int last, char *to, int64_t n) {
  const lode_value *value = plan->program->value;
  int count = plan->step[last].links, dtype = value[last].dtype, v = last;
  int16_t member[MOST_LINKS];
  lode_link links[2 * MOST_LINKS + 1], *begin = &links[2 * MOST_LINKS];
  begin->run = plan->isa->store[dtype];
  begin->result = to;
  for (int i = count - 1; i >= 0; v = value[v].a[plan->step[v].along], i--) {
    begin = add_links(begin, state, &value[v], &plan->step[v]);
    member[i] = (int16_t)v;
  }
  if (plan->step[last].padded) n = (n + 15) / 16 * 16;
  if (!plan->isa->chain[dtype](begin, state->at[v], n)) run_loops(state, plan, member, count, to, n);
}
