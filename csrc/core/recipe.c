/* See recipe.h: recording.
 *
 * Storages carry the number of their buffer, so that to note a step is to look it up. A storage that is read
 * before a step has made it was there, or came from the host: a constant. Constants, and what has been made of
 * them alone, are held; storages that vary are freed as ever. */
#include "recipe.h"

#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- life ------------------------------------------------------------------------- */

static lode_status no_memory(lode_context *context) {
  return lode_fail(&context->error, LODE_NOMEM, "graph: no host memory to record");
}

lode_status lode_recipe_new(lode_context *context, lode_recipe **out) {
  if (context->recipe != NULL)
    return lode_fail(&context->error, LODE_INVALID,
                     "graph: another graph is being recorded; inside its function, call this one's function");
  lode_recipe *recipe = calloc(1, sizeof *recipe);
  if (recipe == NULL) return no_memory(context);
  recipe->context = context;
  recipe->serial = ++context->recipes;
  *out = recipe;
  return LODE_OK;
}

void lode_step_free(lode_step *step) {
  if (step->kind == LODE_STEP_SOLVE) lode_factor_unref(step->as.solve.constant);
  if (step->kind == LODE_STEP_RUN) free(step->as.run);
  free(step);
}

void lode_recipe_free(lode_recipe *recipe) {
  for (int i = 0; i < recipe->nsteps; i++) lode_step_free(recipe->step[i]);
  for (int i = 0; i < recipe->nbuffers; i++) {
    lode_storage_unref(recipe->buffer[i].held);
    lode_fault_unref(recipe->buffer[i].fault);
  }
  free(recipe->step);
  free(recipe->buffer);
  free(recipe->input);
  free(recipe->result);
  free(recipe->sources_of);
  free(recipe->source);
  free(recipe->given);
  free(recipe->made);
  free(recipe);
}

void lode_recipe_discard(lode_recipe *recipe) {
  lode_context *context = recipe->context;
  if (context->recipe == recipe) context->recipe = NULL;
  recipe->next = context->dead_recipes;
  context->dead_recipes = recipe;
}

void lode_recipe_begin(lode_recipe *recipe) { recipe->context->recipe = recipe; }

/* Room for one more of `count` entries of `size` bytes. */
static bool grow(void *array, int count, int *room, size_t size) {
  if (count < *room) return true;
  int wanted = *room == 0 ? 8 : 2 * *room;
  void *grown = realloc(*(void **)array, (size_t)wanted * size);
  if (grown == NULL) return false;
  *(void **)array = grown;
  *room = wanted;
  return true;
}

/* ---- buffers ------------------------------------------------------------------------ */

static bool is_known(const lode_recipe *recipe, const lode_storage *storage) {
  return storage->recipe == recipe->serial;
}

static lode_status add_buffer(lode_recipe *recipe, lode_storage *storage, int *index) {
  if (!grow(&recipe->buffer, recipe->nbuffers, &recipe->buffer_room, sizeof *recipe->buffer))
    return no_memory(recipe->context);
  recipe->buffer[recipe->nbuffers] =
      (lode_buffer){.kind = LODE_BUFFER_CONSTANT, .bytes = storage->bytes, .source = -1};
  storage->recipe = recipe->serial;
  storage->buffer = recipe->nbuffers;
  *index = recipe->nbuffers++;
  return LODE_OK;
}

/* Of a leaf that is read. */
static lode_status buffer_read(lode_recipe *recipe, lode_storage *storage, lode_fault *fault, int *index) {
  if (is_known(recipe, storage)) {
    *index = storage->buffer;
  } else {
    LODE_TRY(add_buffer(recipe, storage, index));
    recipe->buffer[*index].held = lode_storage_ref(storage);
  }
  lode_buffer *buffer = &recipe->buffer[*index];
  return buffer->varies ? LODE_OK : lode_fault_merge(&buffer->fault, fault, &recipe->context->error);
}

/* Of what a step has made. */
static lode_status buffer_written(lode_recipe *recipe, lode_storage *storage, bool varies, int *index) {
  if (is_known(recipe, storage)) {
    *index = storage->buffer;
  } else {
    LODE_TRY(add_buffer(recipe, storage, index));
    if (!varies) recipe->buffer[*index].held = lode_storage_ref(storage);
  }
  lode_buffer *buffer = &recipe->buffer[*index];
  buffer->varies = buffer->varies || varies;
  return LODE_OK;
}

lode_status lode_recipe_may_read(lode_node *node, const char *who) {
  const lode_recipe *recipe = node->context->recipe;
  if (recipe == NULL || !is_known(recipe, node->storage) || !recipe->buffer[node->storage->buffer].varies)
    return LODE_OK;
  return lode_fail(&node->context->error, LODE_INVALID,
                   "%s: the value depends on an input of the graph that is being recorded; a replay could not "
                   "do this again",
                   who);
}

/* ---- inputs --------------------------------------------------------------------------- */

static lode_status check_device(lode_recipe *recipe, const lode_node *node) {
  if (recipe->device == NULL) recipe->device = node->device;
  if (recipe->device == node->device) return LODE_OK;
  return lode_fail(&recipe->context->error, LODE_INVALID,
                   "graph: inputs on %s and %s; move one with :to(\"%s\")", recipe->device->name,
                   node->device->name, recipe->device->name);
}

/* A copy has a storage that nobody else knows: what reads it depends on the input. */
lode_status lode_recipe_add_input(lode_recipe *recipe, lode_node *node, lode_node **stand_in) {
  LODE_TRY(check_device(recipe, node));
  if (!grow(&recipe->input, recipe->ninputs, &recipe->input_room, sizeof *recipe->input))
    return no_memory(recipe->context);
  lode_node *copy;
  LODE_TRY(lode_node_copy(node, &copy));
  int index;
  lode_status status = add_buffer(recipe, copy->storage, &index);
  if (status != LODE_OK) {
    lode_node_unref(copy);
    return status;
  }
  lode_buffer *buffer = &recipe->buffer[index];
  buffer->kind = LODE_BUFFER_INPUT;
  buffer->varies = true;
  buffer->number = recipe->ninputs;
  buffer->held = lode_storage_ref(copy->storage);
  recipe->input[recipe->ninputs++] =
      (lode_recipe_input){.dtype = (lode_dtype)node->dtype, .shape = node->shape, .buffer = index};
  *stand_in = copy;
  return LODE_OK;
}

/* ---- steps ------------------------------------------------------------------------------ */

static lode_step *new_step(lode_step_kind kind) {
  lode_step *step = calloc(1, sizeof *step);
  if (step == NULL) return NULL;
  step->kind = (uint8_t)kind;
  if (kind != LODE_STEP_RUN) return step;
  step->as.run = calloc(1, sizeof *step->as.run);
  if (step->as.run != NULL) return step;
  free(step);
  return NULL;
}

static bool reads_varying(const lode_recipe *recipe, const lode_step *step) {
  for (int i = 0; i < step->nreads; i++)
    if (step->read[i] >= 0 && recipe->buffer[step->read[i]].varies) return true;
  return false;
}

/* The step's reads are filled in. Takes it, also on failure. */
static lode_status add_step(lode_recipe *recipe, lode_step *step, lode_storage *const *made, int count) {
  lode_status status = LODE_OK;
  bool varies = reads_varying(recipe, step);
  for (int i = 0; i < count && status == LODE_OK; i++)
    status = buffer_written(recipe, made[i], varies, &step->write[i]);
  step->nwrites = count;
  if (status == LODE_OK && !grow(&recipe->step, recipe->nsteps, &recipe->step_room, sizeof *recipe->step))
    status = no_memory(recipe->context);
  if (status == LODE_OK) recipe->step[recipe->nsteps++] = step;
  else lode_step_free(step);
  return status;
}

/* Fills in a step's reads; frees it on failure. */
static lode_status add_reads(lode_recipe *recipe, lode_step *step, lode_node *const *node, int count) {
  step->nreads = count;
  for (int i = 0; i < count; i++) {
    step->read[i] = -1;
    if (node[i]->storage == NULL) continue;
    lode_status status = buffer_read(recipe, node[i]->storage, node[i]->fault, &step->read[i]);
    if (status == LODE_OK) continue;
    lode_step_free(step);
    return status;
  }
  return LODE_OK;
}

lode_status lode_recipe_run(lode_recipe *recipe, const lode_program *program, const lode_args *args,
                            lode_node *const *read, lode_storage *const *made, const uint32_t *reach) {
  lode_step *step = new_step(LODE_STEP_RUN);
  if (step == NULL) return no_memory(recipe->context);
  step->as.run->program = *program;
  step->as.run->args = *args;
  memcpy(step->as.run->reach, reach, (size_t)program->noutputs * sizeof *reach);
  LODE_TRY(add_reads(recipe, step, read, program->naccesses));
  return add_step(recipe, step, made, program->noutputs);
}

static ptrdiff_t bytes_into(const lode_node *node) {
  return (ptrdiff_t)(node->offset * (int64_t)lode_dtype_size((lode_dtype)node->dtype));
}

lode_status lode_recipe_product(lode_recipe *recipe, const lode_product_args *args, lode_node *a, lode_node *b,
                                lode_storage *c) {
  lode_step *step = new_step(LODE_STEP_PRODUCT);
  if (step == NULL) return no_memory(recipe->context);
  step->as.product.args = *args;
  step->as.product.a = bytes_into(a);
  step->as.product.b = bytes_into(b);
  LODE_TRY(add_reads(recipe, step, (lode_node *const[]){a, b}, 2));
  return add_step(recipe, step, &c, 1);
}

lode_status lode_recipe_factor(lode_recipe *recipe, const lode_factor_args *args, lode_node *a,
                               lode_factor *factor) {
  lode_step *step = new_step(LODE_STEP_FACTOR);
  if (step == NULL) return no_memory(recipe->context);
  step->as.factor.args = *args;
  step->as.factor.a = bytes_into(a);
  step->as.factor.like = *factor;
  LODE_TRY(add_reads(recipe, step, &a, 1));
  lode_storage *const made[LODE_STEP_FACTOR_BUFFERS] = {factor->packed, factor->pivots, factor->info};
  return add_step(recipe, step, made, LODE_STEP_FACTOR_BUFFERS);
}

lode_status lode_recipe_solve(lode_recipe *recipe, const lode_solve_args *args, lode_node *node,
                              lode_storage *x) {
  lode_step *step = new_step(LODE_STEP_SOLVE);
  if (step == NULL) return no_memory(recipe->context);
  lode_factor *factor = node->as.factor;
  lode_storage *const read[LODE_STEP_FACTOR_BUFFERS] = {factor->packed, factor->pivots, factor->info};
  const lode_fault *own = node->own_fault;
  step->as.solve.args = *args;
  step->as.solve.constant = lode_factor_ref(factor);
  step->as.solve.raises = own != NULL;
  if (own != NULL) {
    memcpy(step->as.solve.who, own->who, sizeof own->who);
    memcpy(step->as.solve.where, own->where, sizeof own->where);
  }
  step->nreads = LODE_STEP_FACTOR_BUFFERS;
  for (int i = 0; i < LODE_STEP_FACTOR_BUFFERS; i++) {
    lode_status status = buffer_read(recipe, read[i], node->input[0]->fault, &step->read[i]);
    if (status == LODE_OK) continue;
    lode_step_free(step);
    return status;
  }
  return add_step(recipe, step, &x, 1);
}

/* ---- the end ------------------------------------------------------------------------------ */

static lode_status note_result(lode_recipe *recipe, lode_node *node, lode_recipe_result *result) {
  LODE_TRY(buffer_read(recipe, node->storage, node->fault, &result->buffer));
  result->dtype = (lode_dtype)node->dtype;
  result->device = node->device;
  result->shape = node->shape;
  result->offset = node->offset;
  memcpy(result->stride, node->stride, (size_t)node->shape.ndim * sizeof node->stride[0]);
  return LODE_OK;
}

lode_status lode_recipe_end(lode_recipe *recipe, lode_node *const *result, int count) {
  lode_context *context = recipe->context;
  LODE_TRY(lode_compute(context, result, count));
  free(recipe->result);
  recipe->result = calloc((size_t)count, sizeof *recipe->result);
  if (recipe->result == NULL) return no_memory(context);
  for (recipe->nresults = 0; recipe->nresults < count; recipe->nresults++)
    LODE_TRY(note_result(recipe, result[recipe->nresults], &recipe->result[recipe->nresults]));
  LODE_TRY(lode_recipe_seal(recipe));
  context->recipe = NULL;
  return LODE_OK;
}
