/* Planning: what makes a node's elements, or a group's, box by box.
 *
 * A box is the whole iteration space (space.c), unless a concat along a dim that is
 * not evaluated by rows cuts it: then each part is a run of its own, into its place
 * of the result. What does not fit in one program is halved. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "recipe.h"
#include "reduce.h"
#include "trace.h"

enum { MANY_BOXES = 64 };

typedef enum run_result { RUN_OK, RUN_FULL, RUN_MATERIALIZE, RUN_FAILED } run_result;

lode_planner *lode_planner_of(lode_context *context) {
  if (context->planner == NULL) {
    context->planner = calloc(1, sizeof *context->planner);
    if (context->planner == NULL)
      lode_fail(&context->error, LODE_NOMEM, "lode: no host memory for the planner");
    else context->planner->context = context;
  }
  return context->planner;
}

void lode_planner_free(lode_planner *planner) {
  if (planner == NULL) return;
  free(planner->stack.node);
  free(planner->seen.node);
  free(planner->cut.node);
  free(planner->group);
  free(planner->touched);
  free(planner);
}

/* ---- a run ------------------------------------------------------------------------------ */

/* The accesses, a bit each, that the values up to `last` depend on. */
static void find_reach(const lode_program *program, uint32_t reach[LODE_MAX_VALUES]) {
  _Static_assert(LODE_MAX_ACCESSES <= 32, "a bit for each access");
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    bool access = value->kind == LODE_VALUE_ACCESS;
    reach[v] = access ? 1u << value->index : 0;
    for (int k = 0; k < lode_value_arity(value); k++) reach[v] |= reach[value->a[k]];
    if (value->kind != LODE_VALUE_GATHER) continue;
    for (int g = value->first; g < value->first + value->count; g++)
      reach[v] |= reach[program->segment[g].source];
  }
}

/* A result carries the faults of what it depends on, and no others. */
static lode_status note_faults(lode_planner *p, const lode_plan_job *job) {
  const lode_program *program = &p->program;
  uint32_t faulty = 0, reach[LODE_MAX_VALUES];
  for (int i = 0; i < program->naccesses; i++)
    if (p->access_node[i]->fault != NULL) faulty |= 1u << i;
  if (faulty == 0) return LODE_OK;
  find_reach(program, reach);
  for (int o = 0; o < job->noutputs; o++)
    for (int i = 0; i < program->naccesses; i++)
      if ((reach[program->output[o]] & faulty & 1u << i) != 0)
        LODE_TRY(lode_fault_merge(job->output[o].fault, p->access_node[i]->fault, &p->context->error));
  return LODE_OK;
}

static lode_status note_run(lode_planner *p, const lode_plan_job *job) {
  lode_storage *made[LODE_MAX_OUTPUTS];
  uint32_t values[LODE_MAX_VALUES], reach[LODE_MAX_OUTPUTS];
  find_reach(&p->program, values);
  for (int o = 0; o < job->noutputs; o++) {
    made[o] = job->output[o].storage;
    reach[o] = values[p->program.output[o]];
  }
  return lode_recipe_run(p->context->recipe, &p->program, &p->args, p->access_node, made, reach);
}

static lode_status enqueue(lode_planner *p, const lode_plan_job *job) {
  lode_context *context = p->context;
  lode_device *device = job->output[0].source->device;
  lode_stream *stream;
  LODE_TRY(lode_context_stream(context, device, &stream));
  for (int i = 0; i < p->program.naccesses; i++) {
    lode_node *node = p->access_node[i];
    if (node->storage != NULL) LODE_TRY(lode_compute_touch(context, stream, node->storage, false));
  }
  LODE_TRY(note_faults(p, job));
  for (int o = 0; o < job->noutputs; o++)
    LODE_TRY(lode_compute_touch(context, stream, job->output[o].storage, true));
  lode_program *program = &p->program;
  program->rows = p->inner >= 0;
  program->form = (uint8_t)job->form;
  for (int o = 0; o < job->noutputs; o++) program->reduction[o] = job->output[o].reduction;
  if (lode_tracing()) lode_explain_pass(device, program, &p->args);
  lode_status status;
  LODE_WITH_LADDER(context, device, status, device->api->run(stream, program, &p->args, &context->error));
  LODE_TRY(lode_context_named(context, "compute", status));
  lode_count(device, LODE_COUNT_programs);
  return context->recipe != NULL ? note_run(p, job) : LODE_OK;
}

/* ---- boxes ------------------------------------------------------------------------------ */

static lode_emit_result emit_outputs(lode_planner *p, const lode_plan_job *job) {
  lode_emit_result result = LODE_EMIT_OK;
  lode_emit_start(p);
  for (int o = 0; o < job->noutputs && result == LODE_EMIT_OK; o++)
    result = lode_emit(p, job->output[o].source, &job->output[o].map, job->output[o].whole);
  return result;
}

/* Runs the box [lo, hi), cut where a concat asks. Recursion: at most once for each nested concat. */
static run_result run_box(lode_planner *p, lode_plan_job *job, int inner, const int64_t *lo, const int64_t *hi,
                          lode_status *status) {
  int64_t from[LODE_MAX_DIMS], to[LODE_MAX_DIMS];
  memcpy(from, lo, sizeof from);
  memcpy(to, hi, sizeof to);
  for (;;) {
    memcpy(p->lo, from, sizeof from);
    memcpy(p->hi, to, sizeof to);
    p->inner = inner;
    lode_emit_result result = emit_outputs(p, job);
    if (result == LODE_EMIT_FULL) return RUN_FULL;
    if (result == LODE_EMIT_FIRST) return RUN_MATERIALIZE;
    if (result == LODE_EMIT_OK) {
      if (p->inner >= 0) lode_space_drop_rows(p);
      lode_space_fill_args(p, job);
      job->boxes++;
      *status = enqueue(p, job);
      return *status == LODE_OK ? RUN_OK : RUN_FAILED;
    }
    int d = p->split_dim;
    /* A reduction cannot be cut; and concats of concats would multiply their parts. */
    bool many = job->boxes > MANY_BOXES && p->split_node != lode_node_base(job->output[0].source);
    if (job->group[d] == LODE_DIM_REDUCED || many) {
      lode_explain_cut(p->split_node, "a concat along a dim that is reduced, or of too many parts");
      return RUN_MATERIALIZE;
    }
    int64_t at = p->split_at, end = to[d];
    to[d] = at;
    run_result left = run_box(p, job, inner, from, to, status);
    if (left != RUN_OK) return left;
    from[d] = at;
    to[d] = end;
  }
}

static run_result run_space(lode_planner *p, lode_plan_job *job, int inner, lode_status *status) {
  int64_t lo[LODE_MAX_DIMS] = {0}, hi[LODE_MAX_DIMS] = {0};
  memcpy(hi, p->extent, sizeof hi);
  return run_box(p, job, inner, lo, hi, status);
}

/* ---- relief: a graph that is too much for one program ------------------------------------- */

/* A view that repeats whole dims and moves no element along one. */
static bool only_repeats(const lode_node *view) {
  const lode_shape *shape = &view->input[0]->shape;
  for (int d = 0; d < shape->ndim; d++) {
    int src = view->as.view.src[d];
    if (shape->dim[d] != 1 && (src < 0 || view->as.view.start[d] != 0 || view->as.view.step[d] != 1 ||
                               view->shape.dim[src] != shape->dim[d]))
      return false;
  }
  return true;
}

/* Does a recorded view or concat stand below? Then rows may save work. `moves`: not one that only repeats. */
static bool has_views(lode_node *node, bool moves, uint64_t epoch) {
  if (node->storage != NULL || node->mark == epoch) return false;
  node->mark = epoch;
  if (node->kind == LODE_NODE_CONCAT || (node->kind == LODE_NODE_VIEW && !(moves && only_repeats(node))))
    return true;
  for (int i = 0; i < node->ninputs; i++)
    if (has_views(node->input[i], moves, epoch)) return true;
  return false;
}

/* A walk over the recorded nodes below one, inputs first. It looks for the fused node of at most `most`
 * elements whose place in that order is nearest to `wanted`; `place` counts. */
typedef struct graph_search {
  uint64_t epoch;
  int64_t most;
  int place, wanted, distance;
  lode_node *best;
} graph_search;

static void search_below(lode_node *node, graph_search *search) {
  for (int i = 0; i < node->ninputs; i++) {
    lode_node *input = node->input[i];
    if (input->storage != NULL || input->mark == search->epoch) continue;
    input->mark = search->epoch;
    search_below(input, search);
    search->place++;
    int distance = abs(search->place - search->wanted);
    if (!lode_fuses(input) || (search->best != NULL && distance >= search->distance) ||
        lode_shape_count(&input->shape) > search->most)
      continue;
    search->best = input;
    search->distance = distance;
  }
}

/* Computes the node that stands in the middle, so that what is left is about half; one that is larger than the
 * result (what an unrolled reduction reduces) only where there is no other. */
static lode_status relieve(lode_node *source) {
  graph_search all = {.epoch = ++source->context->epoch};
  search_below(source, &all);
  int64_t size = lode_shape_count(&source->shape);
  graph_search half = {.epoch = ++source->context->epoch, .most = size, .wanted = all.place / 2};
  search_below(source, &half);
  if (half.best == NULL) {
    half = (graph_search){.epoch = ++source->context->epoch, .most = INT64_MAX, .wanted = all.place / 2};
    search_below(source, &half);
  }
  if (half.best != NULL) lode_explain_cut(half.best, "what is above and below it does not fit in one program");
  if (half.best == NULL)
    return lode_fail(&source->context->error, LODE_SYSTEM, "compute: an operation does not fit in one program");
  return lode_compute_first(half.best);
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* One attempt. RUN_MATERIALIZE: planner->split_node is wanted first. */
static run_result try_job(lode_planner *p, lode_plan_job *job, lode_status *status) {
  *status = LODE_OK;
  job->boxes = 0;
  p->row_max = LODE_ROW_MAX;
  lode_space_lay_out(p, job);
  if (job->space != NULL) {
    p->row_max = LODE_ROW_REDUCE_MAX;
    return run_space(p, job, p->ndim - 1, status);
  }
  int last = p->ndim - 1;
  bool rows = false;
  uint64_t epoch = ++p->context->epoch;
  for (int o = 0; o < job->noutputs && !rows; o++)
    rows =
        last >= 0 && p->extent[last] <= LODE_ROW_MAX && has_views(job->output[o].source, job->mask != 0, epoch);
  run_result result = run_space(p, job, rows ? last : -1, status);
  return result == RUN_FULL && rows ? run_space(p, job, -1, status) : result;
}

/* An output is the reduction of what is emitted, rather than a value of the program. All of a job are. */
static void reduce_apart(lode_plan_job *job, lode_plan_output *output, lode_node *node) {
  job->space = NULL;
  job->mask = node->as.mask;
  output->source = node->input[0];
  output->reduction = (uint8_t)node->op;
}

static lode_status run_job(lode_plan_job *job) {
  lode_node *node = job->output[0].source;
  lode_planner *p = lode_planner_of(node->context);
  if (p == NULL) return LODE_NOMEM;
  if (lode_shape_count(&node->shape) == 0) return LODE_OK;
  for (;;) {
    lode_status status;
    p->running = LODE_ALONE;
    p->alone = node;
    run_result result = try_job(p, job, &status);
    if (result == RUN_OK || result == RUN_FAILED) return status;
    if (result == RUN_MATERIALIZE) LODE_TRY(lode_compute_first(p->split_node));
    else if (job->space != NULL) reduce_apart(job, &job->output[0], node);
    else LODE_TRY(relieve(job->output[0].source));
  }
}

static const char *who_asks(const lode_node *node) {
  return node->kind == LODE_NODE_OP ? lode_ops[node->op].name : "compute";
}

static lode_status run_into_new(lode_node *node, lode_plan_job *job) {
  lode_plan_output *output = &job->output[0];
  LODE_TRY(
      lode_storage_new(node->context, who_asks(node), node->device, lode_node_bytes(node), &output->storage));
  output->fault = &node->fault;
  lode_status status = run_job(job);
  bool made = node->storage != NULL; /* on the way, for another */
  if (status != LODE_OK || made) lode_storage_unref(output->storage);
  else lode_node_settle(node, output->storage);
  return status;
}

/* Whether a reduction is done by rows: short ones, and those of rows that views and concats are made in. */
static bool wants_rows(lode_node *node) {
  int row = lode_row_of_reduction(node);
  if (row < 0) return false;
  int64_t width = node->input[0]->shape.dim[row];
  return width <= LODE_SHORT_ROW ||
         (width <= LODE_ROW_MAX && has_views(node->input[0], true, ++node->context->epoch));
}

lode_status lode_plan_run(lode_node *node) {
  lode_plan_job job = {.noutputs = 1};
  lode_row_space space;
  job.output[0].source = node;
  if (node->kind == LODE_NODE_REDUCE && !node->unrolled && wants_rows(node)) {
    space = lode_space_of_reduction(node);
    job.space = &space;
  } else if (node->kind == LODE_NODE_REDUCE && !node->unrolled) {
    reduce_apart(&job, &job.output[0], node);
  }
  return run_into_new(node, &job);
}

lode_status lode_plan_copy(lode_node *node, lode_node *source) {
  lode_plan_job job = {.noutputs = 1};
  job.output[0].source = source;
  return run_into_new(node, &job);
}

lode_status lode_plan_into(lode_node *source, lode_storage *storage, lode_fault **fault) {
  lode_plan_job job = {.noutputs = 1};
  job.output[0] = (lode_plan_output){.source = source, .storage = storage, .fault = fault};
  return run_job(&job);
}

/* ---- groups ------------------------------------------------------------------------------------ */

/* Memory for those of the group that have none yet. */
static lode_status begin_group(const lode_group *group, lode_plan_job *job) {
  memset(job, 0, sizeof *job);
  job->space = group->space.ndim >= 0 ? &group->space : NULL;
  for (int i = 0; i < group->count; i++) {
    lode_node *node = group->node[i];
    lode_plan_output *output = &job->output[job->noutputs];
    if (node->storage != NULL) continue;
    LODE_TRY(
        lode_storage_new(node->context, who_asks(node), node->device, lode_node_bytes(node), &output->storage));
    output->node = output->source = node;
    output->fault = &node->fault;
    if (lode_reduction_ends_pass(node)) reduce_apart(job, output, node);
    job->noutputs++;
  }
  return LODE_OK;
}

static void end_group(lode_plan_job *job, bool done) {
  for (int o = 0; o < job->noutputs; o++) {
    lode_plan_output *output = &job->output[o];
    if (done) lode_node_settle(output->node, output->storage);
    else lode_storage_unref(output->storage);
  }
}

static lode_status run_each(const lode_group *group) {
  for (int i = group->count - 1; i >= 0; i--) LODE_TRY(lode_compute_first(group->node[i]));
  return LODE_OK;
}

lode_status lode_plan_run_group(lode_planner *p, int g) {
  for (;;) {
    const lode_group *group = &p->group[g];
    lode_plan_job job;
    lode_status status = begin_group(group, &job);
    if (status != LODE_OK || job.noutputs == 0) {
      end_group(&job, false);
      return status;
    }
    if (lode_shape_count(&job.output[0].source->shape) == 0) {
      end_group(&job, true);
      continue;
    }
    p->running = g;
    p->alone = NULL;
    run_result result = try_job(p, &job, &status);
    end_group(&job, result == RUN_OK);
    if (result == RUN_FULL) {
      lode_explain_cut(group->node[0], "apart from others, with which it does not fit in one program");
      return run_each(group);
    }
    if (result != RUN_MATERIALIZE) return status;
    LODE_TRY(lode_compute_first(p->split_node));
  }
}
