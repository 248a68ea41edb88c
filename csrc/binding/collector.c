/* Driving Lua's collector by the bytes that it does not see.
 *
 * A handle is a hundred bytes to Lua and may hold megabytes. So the collector is
 * driven in steps, in proportion to the bytes that storages have taken (those of a GPU count
 * for an eighth: device.h's garbage_shift; those that a script has released for nothing): by the
 * time that one `period` of them has been allocated, a whole cycle is done.
 * Steps are taken only on entry of a C function, when nothing is borrowed; never
 * from a finalizer, and never while the script has stopped the collector
 * (LUA_GCISRUNNING says so; PUC 5.1 alone cannot be asked).
 *
 * A generational collector (5.4) answers a step with a young collection, which
 * leaves old garbage alone. Where held bytes grow in spite of the steps, one full
 * collection is made, as that collector makes its own major ones, and counted. */
#include <limits.h>

#include "binding.h"

enum {
  FLOOR = 4 << 20, /* of what devices weigh; less than this held needs no driving, and a period is no shorter */
  SLACK = 12 << 20,     /* bytes held beyond the live ones that steps alone may leave */
  FULL_COLLECTIONS = 2, /* the first finalizes, the second frees what finalizers let go */
  FULL_ATTEMPTS = 16    /* finalizers that raise cut a full collection short */
};

/* Heaps of step units in a period. Units are KiB allocated, of which 5.1 and LuaJIT make twice as much work: a
 * cycle is done after 1.1 heaps. Elsewhere the factor is another (1 in 5.3), and a pause of one heap is counted
 * first. */
#if LUA_VERSION_NUM == 501
static const double WORK = 1.25;
#else
static const double WORK = 4;
#endif

/* One protected run; true: a cycle has ended. `amount`: see collect() in state.c. */
static bool run_collector(const lode_call *c, int amount, bool *raised) {
  lua_State *L = c->L;
  *raised = false;
  if (!lua_checkstack(L, 4)) return false;
  c->state->pace.running = true;
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->state->collect_ref);
  lua_pushinteger(L, amount);
  *raised = lua_pcall(L, 1, 1, 0) != 0;
  bool ended = !*raised && lua_toboolean(L, -1);
  lua_pop(L, 1);
  c->state->pace.running = false;
  return ended;
}

static bool allowed(const lode_call *c) {
#ifdef LUA_GCISRUNNING
  return lua_gc(c->L, LUA_GCISRUNNING, 0) != 0;
#else
  (void)c;
  return true;
#endif
}

static void cycle_ended(const lode_call *c) {
  lode_pace *pace = &c->state->pace;
  pace->ended = c->context->weight_made;
  pace->live = c->context->weight_held;
}

static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes between two cycles: as many as are live; not so few that a large Lua heap, whose size
 * is what a cycle costs, is walked for little. */
static int64_t period_of(const lode_call *c) {
  int64_t heap = (int64_t)lua_gc(c->L, LUA_GCCOUNT, 0) << 10;
  return greater(greater(c->state->pace.live, FLOOR), heap / 4);
}

static void step(const lode_call *c, int64_t bytes, int64_t period) {
  double heap = (double)lua_gc(c->L, LUA_GCCOUNT, 0) + 1;
  double share = bytes < period ? (double)bytes / (double)period : 1;
  double amount = WORK * heap * share + 1;
  bool raised;
  bool ended = run_collector(c, amount < INT_MAX / 1024 ? (int)amount : INT_MAX / 1024, &raised);
  c->state->pace.steps++;
  lode_context_drain(c->context);
  if (ended) cycle_ended(c);
}

static void collect_all(const lode_call *c) {
  for (int done = 0, attempt = 0; done < FULL_COLLECTIONS && attempt < FULL_ATTEMPTS; attempt++) {
    bool raised;
    run_collector(c, -1, &raised);
    if (!raised) done++;
  }
  c->state->pace.cycles++;
  lode_context_drain(c->context);
  cycle_ended(c);
}

void lode_collector_drive(const lode_call *c, int64_t coming) {
  lode_pace *pace = &c->state->pace;
  lode_context *context = c->context;
  if (pace->running) return;
  lode_context_drain(context);
  lode_streams_drain(c->state);
  int64_t bytes = context->weight_made - pace->seen + coming;
  if (bytes < LODE_COLLECT_QUANTUM) return;
  pace->seen = context->weight_made + coming;
  if (pace->live > context->weight_held) pace->live = context->weight_held;
  if (context->weight_held + coming < FLOOR || !allowed(c)) return;
  int64_t period = period_of(c);
  step(c, bytes, period);
  bool late = context->weight_made - pace->ended > 2 * period;
  if (late && context->weight_held > pace->live + greater(pace->live / 2, SLACK)) collect_all(c);
}

void lode_collector_released(const lode_call *c) {
  lode_pace *pace = &c->state->pace;
  lode_context *context = c->context;
  if (pace->running) return;
  int64_t before = context->weight_held;
  lode_context_drain(context);
  pace->seen += before - context->weight_held;
  lode_collector_came(c);
}

void lode_collector_came(const lode_call *c) {
  lode_pace *pace = &c->state->pace;
  if (pace->seen > c->context->weight_made) pace->seen = c->context->weight_made;
}

void lode_collector_full(const lode_call *c) {
  lode_pace *pace = &c->state->pace;
  if (pace->running || !lua_checkstack(c->L, 8)) return; /* which may raise, so before `borrowed` */
  lode_collector_came(c);                                /* what was coming may never be */
  pace->borrowed = true;
  collect_all(c);
  pace->borrowed = false;
}

void lode_collector_helped(const lode_call *c) {
  if (c->context->short_of != NULL) lode_count(c->context->short_of, LODE_COUNT_retries);
}
