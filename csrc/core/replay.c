/* See recipe.h: replaying.
 *
 * The loop over the steps is all that a replay asks of a device. One that can take them as a whole (a GPU's own
 * graphs) would get them there, by an optional member of its table. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "recipe.h"

/* ---- inputs ------------------------------------------------------------------------------- */

static lode_status check_input(lode_recipe *recipe, int i, const lode_node *node) {
  const lode_recipe_input *input = &recipe->input[i];
  lode_error *error = &recipe->context->error;
  lode_text given, wanted;
  if (node->dtype != input->dtype || !lode_shape_equal(&node->shape, &input->shape))
    return lode_fail(error, LODE_INVALID, "graph: input %d is %s %s, the graph was recorded with %s %s", i + 1,
                     lode_dtype_name((lode_dtype)node->dtype), lode_shape_print(&node->shape, &given),
                     lode_dtype_name(input->dtype), lode_shape_print(&input->shape, &wanted));
  if (node->device != recipe->device)
    return lode_fail(error, LODE_INVALID,
                     "graph: input %d is on %s, the graph was recorded on %s; move it with :to(\"%s\")", i + 1,
                     node->device->name, recipe->device->name, recipe->device->name);
  return LODE_OK;
}

static void drop_inputs(lode_recipe *recipe) {
  for (int i = 0; i < recipe->ninputs; i++) {
    lode_node_unref(recipe->input[i].now);
    recipe->input[i].now = NULL;
  }
}

/* Programs walk an input in row-major order without gaps: one that lies otherwise is copied. */
static lode_status take_inputs(lode_recipe *recipe) {
  lode_node *const *input = recipe->given;
  for (int i = 0; i < recipe->ninputs; i++) LODE_TRY(check_input(recipe, i, input[i]));
  LODE_TRY(lode_compute(recipe->context, input, recipe->ninputs));
  for (int i = 0; i < recipe->ninputs; i++) {
    lode_recipe_input *own = &recipe->input[i];
    if (lode_node_contiguous(input[i])) own->now = lode_node_ref(input[i]);
    else LODE_TRY(lode_node_copy(input[i], &own->now));
    int64_t size = (int64_t)lode_dtype_size(own->dtype);
    lode_buffer *buffer = &recipe->buffer[own->buffer];
    buffer->now = own->now->storage;
    buffer->base = (char *)buffer->now->block + own->now->offset * size;
    recipe->source[i] = own->now->fault;
  }
  return LODE_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

static lode_status take_results(lode_recipe *recipe, lode_stream *stream) {
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->kind != LODE_BUFFER_RESULT) continue;
    LODE_TRY(lode_storage_new(recipe->context, "graph", recipe->device, buffer->bytes, &buffer->now));
    buffer->base = buffer->now->block;
    LODE_TRY(lode_compute_touch(recipe->context, stream, buffer->now, true));
  }
  return LODE_OK;
}

static lode_status take_scratch(lode_recipe *recipe, lode_stream *stream, lode_storage **scratch) {
  if (recipe->scratch == 0) return LODE_OK;
  LODE_TRY(lode_storage_new(recipe->context, "graph", recipe->device, recipe->scratch, scratch));
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->kind == LODE_BUFFER_SCRATCH) buffer->base = (char *)(*scratch)->block + buffer->place;
  }
  return lode_compute_touch(recipe->context, stream, *scratch, true);
}

/* Orders the stream behind what the steps read. */
static lode_status touch_read(lode_recipe *recipe, lode_stream *stream) {
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->last < 0) continue;
    if (buffer->kind == LODE_BUFFER_INPUT)
      LODE_TRY(lode_compute_touch(recipe->context, stream, buffer->now, false));
    if (buffer->kind != LODE_BUFFER_CONSTANT) continue;
    LODE_TRY(lode_compute_touch(recipe->context, stream, buffer->held, false));
  }
  return LODE_OK;
}

/* Also what makes outcomes to be looked at is given up: whoever needs it holds it. */
static void give_back(lode_recipe *recipe, lode_storage *scratch) {
  lode_storage_unref(scratch);
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->kind != LODE_BUFFER_RESULT) continue;
    lode_storage_unref(buffer->now);
    buffer->now = NULL;
  }
  for (int s = 0; s < recipe->nsteps; s++) {
    lode_step *step = recipe->step[s];
    if (step->kind == LODE_STEP_SOLVE && step->as.solve.raises) {
      lode_fault_unref(recipe->source[step->as.solve.source]);
      recipe->source[step->as.solve.source] = NULL;
    }
    if (step->kind != LODE_STEP_FACTOR) continue;
    lode_factor_unref(step->as.factor.now);
    step->as.factor.now = NULL;
  }
}

/* ---- steps ------------------------------------------------------------------------------------ */

static char *base_of(const lode_recipe *recipe, int buffer) { return recipe->buffer[buffer].base; }

static lode_status run_again(lode_recipe *recipe, lode_step *step, lode_stream *stream) {
  lode_args *args = &step->as.run->args;
  for (int i = 0; i < step->nreads; i++)
    if (step->read[i] >= 0) args->access[i].base = base_of(recipe, step->read[i]);
  for (int o = 0; o < step->nwrites; o++) args->out[o].base = base_of(recipe, step->write[o]);
  LODE_TRY(recipe->device->api->run(stream, &step->as.run->program, args, &recipe->context->error));
  lode_count(recipe->device, LODE_COUNT_programs);
  return LODE_OK;
}

static lode_status product_again(lode_recipe *recipe, lode_step *step, lode_stream *stream) {
  lode_product_args *args = &step->as.product.args;
  args->a.base = base_of(recipe, step->read[0]) + step->as.product.a;
  args->b.base = base_of(recipe, step->read[1]) + step->as.product.b;
  args->c = base_of(recipe, step->write[0]);
  LODE_TRY(recipe->device->api->product(stream, args, &recipe->context->error));
  lode_count(recipe->device, LODE_COUNT_products);
  return LODE_OK;
}

static lode_status factor_again(lode_recipe *recipe, lode_step *step, lode_stream *stream) {
  lode_factor_args *args = &step->as.factor.args;
  const int *write = step->write;
  lode_error *error = &recipe->context->error;
  LODE_TRY(lode_factor_again(&step->as.factor.like, recipe->buffer[write[LODE_STEP_INFO]].now,
                             &step->as.factor.now));
  args->a = base_of(recipe, step->read[0]) + step->as.factor.a;
  args->packed = base_of(recipe, write[LODE_STEP_PACKED]);
  args->pivots = base_of(recipe, write[LODE_STEP_PIVOTS]);
  args->info = (int32_t *)(void *)base_of(recipe, write[LODE_STEP_INFO]);
  args->outcome = step->as.factor.now->outcome;
  LODE_TRY(recipe->device->api->factor(stream, args, error));
  lode_count(recipe->device, LODE_COUNT_factors);
  return LODE_OK;
}

static lode_status solve_again(lode_recipe *recipe, lode_step *step, lode_stream *stream) {
  lode_solve_args *args = &step->as.solve.args;
  const int *read = step->read;
  lode_error *error = &recipe->context->error;
  lode_factor *factor =
      step->as.solve.made != NULL ? step->as.solve.made->as.factor.now : step->as.solve.constant;
  if (step->as.solve.raises) {
    lode_fault *fault = lode_fault_new(factor, step->as.solve.who, step->as.solve.where);
    if (fault == NULL) return lode_fail(error, LODE_NOMEM, "no host memory to note a failure");
    recipe->source[step->as.solve.source] = fault;
  }
  args->packed = base_of(recipe, read[LODE_STEP_PACKED]);
  args->pivots = base_of(recipe, read[LODE_STEP_PIVOTS]);
  args->info = (const int32_t *)(const void *)base_of(recipe, read[LODE_STEP_INFO]);
  args->outcome = factor->outcome;
  args->x = base_of(recipe, step->write[0]);
  LODE_TRY(recipe->device->api->solve(stream, args, error));
  lode_count(recipe->device, LODE_COUNT_solves);
  return LODE_OK;
}

static lode_status enqueue_steps(lode_recipe *recipe, lode_stream *stream) {
  static lode_status (*const again[LODE_NSTEPKINDS])(lode_recipe *, lode_step *, lode_stream *) = {
      run_again, product_again, factor_again, solve_again};
  for (int s = 0; s < recipe->nsteps; s++)
    LODE_TRY(again[recipe->step[s]->kind](recipe, recipe->step[s], stream));
  return LODE_OK;
}

/* ---- results ------------------------------------------------------------------------------------ */

static lode_status add_faults(const lode_recipe *recipe, int r, lode_node *node) {
  const uint64_t *set = recipe->sources_of + (size_t)r * (size_t)recipe->words;
  for (int i = 0; i < recipe->nsources; i++)
    if ((set[i / 64] >> i % 64 & 1) != 0)
      LODE_TRY(lode_fault_merge(&node->fault, recipe->source[i], &recipe->context->error));
  return LODE_OK;
}

static lode_status make_result(const lode_recipe *recipe, int r, lode_node **out) {
  const lode_recipe_result *result = &recipe->result[r];
  const lode_buffer *buffer = &recipe->buffer[result->buffer];
  lode_node *node =
      lode_node_new(recipe->context, LODE_NODE_LEAF, result->dtype, result->device, &result->shape);
  if (node == NULL) return LODE_NOMEM;
  node->weight = 0;
  node->storage = lode_storage_ref(buffer->kind == LODE_BUFFER_CONSTANT ? buffer->held : buffer->now);
  node->offset = result->offset;
  if (buffer->kind == LODE_BUFFER_INPUT) node->offset += recipe->input[buffer->number].now->offset;
  memcpy(node->stride, result->stride, sizeof node->stride);
  lode_status status = add_faults(recipe, r, node);
  if (status != LODE_OK) lode_node_unref(node);
  else *out = node;
  return status;
}

static lode_status make_results(const lode_recipe *recipe) {
  for (int r = 0; r < recipe->nresults; r++) {
    lode_status status = make_result(recipe, r, &recipe->made[r]);
    if (status == LODE_OK) continue;
    while (--r >= 0) lode_node_unref(recipe->made[r]);
    return status;
  }
  return LODE_OK;
}

/* ---- entry ------------------------------------------------------------------------------------------ */

static lode_status enqueue(lode_recipe *recipe, lode_stream *stream, lode_storage **scratch) {
  LODE_TRY(touch_read(recipe, stream));
  LODE_TRY(take_results(recipe, stream));
  LODE_TRY(take_scratch(recipe, stream, scratch));
  LODE_TRY(lode_context_named(recipe->context, "graph", enqueue_steps(recipe, stream)));
  return make_results(recipe);
}

/* One attempt: steps overwrite nothing but what the attempt has taken. */
static lode_status attempt(lode_recipe *recipe) {
  lode_context *context = recipe->context;
  lode_stream *stream;
  lode_storage *scratch = NULL;
  LODE_TRY(lode_context_stream(context, recipe->device, &stream));
  lode_status status = enqueue(recipe, stream, &scratch);
  lode_error first = context->error; /* what failed first is what is said */
  lode_status finished = lode_compute_finish(context);
  if (status != LODE_OK) context->error = first;
  give_back(recipe, scratch);
  if (status != LODE_OK || finished == LODE_OK) return status;
  for (int r = 0; r < recipe->nresults; r++) lode_node_unref(recipe->made[r]);
  return finished;
}

/* LODE_WITH_LADDER's way, for all steps at once: a solve has overwritten what it would need again. */
static lode_status attempt_twice(lode_recipe *recipe) {
  lode_status status = attempt(recipe);
  if (status != LODE_NOMEM) return status;
  lode_storage_relieve(recipe->context, recipe->device);
  status = attempt(recipe);
  if (status == LODE_OK) lode_count(recipe->device, LODE_COUNT_retries);
  return status;
}

lode_status lode_recipe_replay(lode_recipe *recipe) {
  lode_context *context = recipe->context;
  if (context->recipe != NULL)
    return lode_fail(&context->error, LODE_INVALID,
                     "graph: a graph is being recorded; inside its function, call this one's function");
  if (lode_planner_of(context) == NULL) return LODE_NOMEM;
  void *before = lode_device_enter(recipe->device);
  lode_status status = take_inputs(recipe);
  if (status == LODE_OK) status = attempt_twice(recipe);
  drop_inputs(recipe);
  lode_device_leave(recipe->device, before);
  context->computes++;
  return status;
}
