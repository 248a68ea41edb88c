/* Chains of a plan (tile.h): operations on floats, each of which is the only user of the one before. They are
 * made at the last one's place, in one loop over their operands (isa/chain.c), so all but the last have no slot
 * and are never written to L1. */
#include "tile.h"

enum { MOST_LINKS = 16, WORTH_LINKS = 4, NARROW_ROW = 16 };

/* How often each value is used: as an operand, in rows that are gathered, as an output. */
static void count_uses(const lode_program *program, int16_t uses[LODE_MAX_VALUES]) {
  for (int v = 0; v < program->nvalues; v++) uses[v] = 0;
  for (int v = 0; v < program->nvalues; v++)
    for (int k = 0; k < lode_value_arity(&program->value[v]); k++) uses[program->value[v].a[k]]++;
  for (int s = 0; s < program->nsegments; s++) uses[program->segment[s].source]++;
  for (int o = 0; o < program->noutputs; o++) uses[program->output[o]]++;
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
  return plan->isa->link[value->op][value->dtype][0][0] != NULL;
}

/* Of the operands that only v uses and that chains end in, the one of the longest; -1 if there is none. */
static int before(const lode_plan *plan, const int16_t *uses, int v) {
  const lode_value *value = &plan->program->value[v];
  int best = -1;
  for (int k = 0; k < lode_value_arity(value); k++) {
    const lode_step *from = &plan->step[value->a[k]];
    if (from->links == 0 || from->links == MOST_LINKS || uses[value->a[k]] != 1 ||
        from->periodic != plan->step[v].periodic)
      continue;
    if (best < 0 || from->links > plan->step[value->a[best]].links) best = k;
  }
  return best;
}

/* A link takes half the time of a loop, but a chain has to begin and end: two operations are as fast alone,
 * unless the divider, which is slow, can work while the others do. */
static bool pays(const lode_plan *plan, int v) {
  const lode_value *value = plan->program->value;
  int links = plan->step[v].links;
  if (links < 2 || links >= WORTH_LINKS) return links > 1;
  for (; links > 0; links--, v = value[v].a[plan->step[v].along])
    if (value[v].op == LODE_OP_divide || value[v].op == LODE_OP_sqrt) return true;
  return false;
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
    step->along = (uint8_t)(k >= 0 ? k : step->scalars & 1);
    step->links = (uint8_t)(k >= 0 ? plan->step[value->a[k]].links + 1 : 1);
    step->link = plan->isa->link[value->op][value->dtype][step->along][step->scalars != 0];
  }
  for (int v = program->nvalues - 1; v >= 0; v--) /* users come behind what they use */
    if (plan->step[v].place == v && pays(plan, v)) tie(plan, v);
}

/* Few elements, with the operations' own loops: the result is none of the operands. */
static void run_loops(const lode_tile_state *state, const lode_plan *plan, const int16_t *member, int count,
                      char *to, int64_t n) {
  for (int i = 0; i < count; i++) {
    const lode_value *value = &plan->program->value[member[i]];
    const lode_step *step = &plan->step[member[i]];
    const char *operand[2] = {state->at[value->a[0]], state->at[value->a[1]]};
    if (i > 0) operand[step->along] = to;
    step->loop(to, operand[0], operand[1], NULL, n, step->scalars);
  }
}

void lode_chain_run(const lode_tile_state *state, const lode_plan *plan, int v, char *to, int64_t n) {
  const lode_value *value = plan->program->value;
  int count = plan->step[v].links, dtype = value[v].dtype;
  int16_t member[MOST_LINKS];
  lode_link links[MOST_LINKS + 1];
  for (int i = count - 1; i >= 0; v = value[v].a[plan->step[v].along], i--) {
    links[i].run = plan->step[v].link;
    links[i].operand = state->at[value[v].a[1 - plan->step[v].along]]; /* not looked at where there is none */
    member[i] = (int16_t)v;
  }
  if (plan->step[member[count - 1]].padded) n = (n + 15) / 16 * 16;
  links[count].run = plan->isa->store[dtype];
  links[count].result = to;
  if (!plan->isa->chain[dtype](links, state->at[v], n)) run_loops(state, plan, member, count, to, n);
}
