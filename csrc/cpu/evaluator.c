/* See evaluator.h. Here: passes that store what they compute, the division of a
 * pass among threads, and workspace. Reductions are in reduction.c. */
#include "evaluator.h"

#include <stdlib.h>
#include <string.h>

#include "../core/control.h"
#include "../core/mutex.h"
#include "pass.h"
#include "threads.h"

/* Nanoseconds of work from which threads are worth it, all of it and for each of them. Waking a parked one
 * takes some 50 us and costs the caller 15; one that still spins after a loop starts within one. */
typedef struct worth {
  double threads, thread;
} worth;
static const worth parked = {100e3, 40e3}, awake = {20e3, 8e3};

/* Tasks are long enough for claiming them to be free, and short enough to end together. */
static const double task_length = 15e3; /* ns */

enum {
  TASKS_PER_THREAD = 8,
  BLOCK_ROWS = 64 /* of a tile that is read down the columns: several cache lines of each */
};

/* ---- scratch memory ----------------------------------------------------- */

/* For AddressSanitizer a scratch is as long as was asked, none is kept, and there is a gap that nobody may
 * touch behind each worker's workspace: so it sees what runs over. */
#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED 1
#endif
#endif
#ifdef GUARDED
#include <sanitizer/asan_interface.h>
#else
#define GUARDED                               0
#define ASAN_POISON_MEMORY_REGION(from, size) ((void)(from), (void)(size))
#endif

enum { SCRATCH_KEPT = 8, SCRATCH_BYTES = GUARDED ? 0 : 512 << 10, GAP = GUARDED ? 64 : 0 };

static struct {
  lode_mutex lock;
  void *kept[SCRATCH_KEPT];
  int count;
} scratches = {.lock = LODE_MUTEX_INIT};

static void *scratch_new(size_t bytes) {
  void *scratch;
  return posix_memalign(&scratch, 64, bytes) == 0 ? scratch : NULL;
}

void *lode_scratch_take(size_t bytes) {
  if (bytes > SCRATCH_BYTES) return scratch_new(bytes);
  void *scratch = NULL;
  lode_mutex_lock(&scratches.lock);
  if (scratches.count > 0) scratch = scratches.kept[--scratches.count];
  lode_mutex_unlock(&scratches.lock);
  return scratch != NULL ? scratch : scratch_new(SCRATCH_BYTES);
}

void lode_scratch_give(void *scratch, size_t bytes) {
  if (bytes <= SCRATCH_BYTES) {
    lode_mutex_lock(&scratches.lock);
    if (scratches.count < SCRATCH_KEPT) {
      scratches.kept[scratches.count++] = scratch;
      scratch = NULL;
    }
    lode_mutex_unlock(&scratches.lock);
  }
  free(scratch);
}

void lode_evaluator_fork_prepare(void) { lode_mutex_lock(&scratches.lock); }
void lode_evaluator_fork_release(void) { lode_mutex_unlock(&scratches.lock); }

/* ---- passes ------------------------------------------------------------- */

void lode_pass_weigh(lode_pass *pass) {
  double work = pass->plan.cost * (double)pass->plan.nrows * (double)pass->plan.args->inner;
  pass->threads = 1;
  if (work < awake.threads) return;
  const worth *least = work < parked.threads && lode_threads_ready((int64_t)work) ? &awake : &parked;
  if (work < least->threads) return;
  double most = work / least->thread;
  int count = lode_threads_count();
  pass->threads = most < count ? (int)most : count;
}

static void run_task(void *context, int64_t index, int worker) {
  lode_pass *pass = context;
  size_t stride = pass->workspace_bytes + (sizeof(lode_pass_worker) + 63) / 64 * 64;
  char *workspace = pass->memory + (size_t)worker * stride;
  lode_pass_worker *own = (lode_pass_worker *)(void *)(workspace + pass->workspace_bytes);
  if (!own->started) {
    lode_tile_start(&own->state, &pass->plan, workspace);
    own->started = true;
  }
  int64_t first = index * pass->per_task, left = pass->units - first;
  pass->unit(pass, &own->state, workspace + pass->plan_bytes, first,
             left < pass->per_task ? left : pass->per_task);
}

static int64_t tasks_of(lode_pass *pass) {
  double work = pass->plan.cost * (double)pass->plan.nrows * (double)pass->plan.args->inner;
  int64_t tasks = pass->threads * (int64_t)TASKS_PER_THREAD, most = (int64_t)(work / task_length);
  if (tasks > most) tasks = most;
  if (tasks < pass->threads) tasks = pass->threads;
  if (tasks > pass->units) tasks = pass->units;
  pass->per_task = (pass->units + tasks - 1) / tasks;
  return (pass->units + pass->per_task - 1) / pass->per_task;
}

lode_status lode_pass_run(lode_pass *pass, size_t bytes, lode_error *error) {
  int64_t tasks = pass->threads > 1 ? tasks_of(pass) : 1;
  if (tasks <= 1) {
    tasks = pass->threads = 1;
    pass->per_task = pass->units;
  }
  if (pass->threads > tasks) pass->threads = (int)tasks;
  pass->plan_bytes = (pass->plan_bytes + 63) / 64 * 64;
  pass->workspace_bytes = (pass->plan_bytes + bytes + GAP + 63) / 64 * 64;
  size_t stride = pass->workspace_bytes + (sizeof(lode_pass_worker) + 63) / 64 * 64;
  size_t all = stride * (size_t)pass->threads;
  pass->memory = lode_scratch_take(all);
  if (pass->memory == NULL)
    return lode_fail(error, LODE_NOMEM, "cannot have %zu bytes of workspace on cpu", all);
  for (int t = 0; t < pass->threads; t++) {
    char *workspace = pass->memory + (size_t)t * stride, *own = workspace + pass->workspace_bytes;
    char *end = workspace + pass->plan_bytes + bytes;
    ASAN_POISON_MEMORY_REGION(end, own - end);
    ((lode_pass_worker *)(void *)own)->started = false;
  }
  lode_threads_run(run_task, pass, tasks, pass->threads);
  lode_scratch_give(pass->memory, all);
  return LODE_OK;
}

/* ---- storing ------------------------------------------------------------ */

static void store_outputs(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile) {
  const lode_program *program = plan->program;
  for (int o = 0; o < program->noutputs; o++) {
    if (plan->direct[o]) continue;
    lode_tile part = *tile;
    if (lode_plan_output_width(program, plan->args, o) == 1) part.columns = 1;
    lode_tile_store(plan, &plan->args->out[o], plan->args->nouter, &part,
                    lode_tile_output(state, plan, tile, o), plan->step[program->output[o]].size);
  }
}

/* Units are tiles: along the columns of each group of rows; or down the rows of each group of columns, where
 * what is the same in every row is kept from tile to tile. */
static void store_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                        int64_t count) {
  (void)workspace;
  const lode_plan *plan = &pass->plan;
  const lode_args *args = plan->args;
  int64_t across = (args->inner + plan->columns - 1) / plan->columns;
  int64_t down = (plan->nrows + plan->rows - 1) / plan->rows, each = plan->keeps ? down : across;
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t slow = unit / each, fast = unit - slow * each, row = plan->keeps ? fast : slow,
            column = plan->keeps ? slow : fast;
    lode_tile tile = {row * plan->rows, plan->rows, column * plan->columns, plan->columns};
    if (tile.rows > plan->nrows - tile.row) tile.rows = plan->nrows - tile.row;
    if (tile.columns > args->inner - tile.column) tile.columns = args->inner - tile.column;
    lode_tile_evaluate(state, plan, &tile);
    store_outputs(state, plan, &tile);
  }
}

static lode_status run_store(lode_pass *pass, lode_error *error) {
  lode_plan *plan = &pass->plan;
  int64_t inner = plan->args->inner, elements = lode_plan_elements(plan);
  int64_t rows = 1, columns = inner;
  if (plan->cut == LODE_CUT_ROWS) {
    rows = elements / inner;
    rows = rows >= 16 ? rows / 16 * 16 : rows < 1 ? 1 : rows;
  } else if (plan->cut == LODE_CUT_BLOCK) {
    rows = BLOCK_ROWS;
    columns = elements / BLOCK_ROWS;
  } else {
    columns = elements;
  }
  if (rows > plan->nrows) rows = plan->nrows;
  if (columns > inner) columns = inner;
  pass->plan_bytes = lode_plan_size(plan, rows, columns);
  pass->units = ((plan->nrows + rows - 1) / rows) * ((inner + columns - 1) / columns);
  pass->unit = store_units;
  return lode_pass_run(pass, 0, error);
}

lode_status lode_evaluate(const lode_program *program, const lode_args *args, lode_error *error) {
  static lode_status (*const by_form[])(lode_pass *, lode_error *) = {
      [LODE_REDUCE_NONE] = run_store,
      [LODE_REDUCE_INNER] = lode_reduce_inner,
      [LODE_REDUCE_OUTER] = lode_reduce_outer,
  };
  lode_pass pass;
  uint64_t control = lode_control_enter();
  lode_plan_make(&pass.plan, program, args);
  lode_pass_weigh(&pass);
  lode_status status = by_form[program->form](&pass, error);
  lode_control_leave(control);
  return status;
}
