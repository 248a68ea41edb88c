/* See recipe.h: from what was noted to what a replay does.
 *
 * A step is kept if a result needs it and what it makes depends on an input. What is made in parts (a concat's
 * boxes, a right-hand side that a solve overwrites) is made anew as a whole: a buffer of which one part varies
 * varies, before anything reads it, and the steps that make the parts of one buffer make the same buffers. */
#include <stdlib.h>
#include <string.h>

#include "recipe.h"

/* ---- what is needed --------------------------------------------------------------------- */

static bool is_needed(const lode_recipe *recipe, const lode_step *step) {
  for (int i = 0; i < step->nwrites; i++) {
    const lode_buffer *buffer = &recipe->buffer[step->write[i]];
    if (buffer->varies && buffer->needed) return true;
  }
  return false;
}

static void drop_steps(lode_recipe *recipe) {
  int kept = recipe->nsteps; /* from the end: what a step needs is made before it */
  for (int s = recipe->nsteps - 1; s >= 0; s--) {
    lode_step *step = recipe->step[s];
    if (!is_needed(recipe, step)) {
      lode_step_free(step);
      continue;
    }
    for (int i = 0; i < step->nreads; i++)
      if (step->read[i] >= 0) recipe->buffer[step->read[i]].needed = true;
    recipe->step[--kept] = step;
  }
  recipe->nsteps -= kept;
  for (int s = 0; s < recipe->nsteps; s++) recipe->step[s] = recipe->step[kept + s];
}

static void drop_memory(lode_recipe *recipe) {
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->needed && !buffer->varies) continue;
    lode_storage_unref(buffer->held);
    lode_fault_unref(buffer->fault);
    buffer->held = NULL;
    buffer->fault = NULL;
  }
}

/* ---- places ---------------------------------------------------------------------------------- */

static void use(lode_buffer *buffer, int step) {
  if (buffer->last < 0) buffer->first = step;
  buffer->last = step;
}

/* A factor's info outlives the replay with the fault that looks at it. */
static void sort_buffers(lode_recipe *recipe) {
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    buffer->last = -1;
    if (buffer->varies && buffer->kind != LODE_BUFFER_INPUT) buffer->kind = LODE_BUFFER_SCRATCH;
  }
  for (int s = 0; s < recipe->nsteps; s++) {
    const lode_step *step = recipe->step[s];
    for (int i = 0; i < step->nreads; i++)
      if (step->read[i] >= 0) use(&recipe->buffer[step->read[i]], s);
    for (int i = 0; i < step->nwrites; i++) use(&recipe->buffer[step->write[i]], s);
    if (step->kind == LODE_STEP_FACTOR) recipe->buffer[step->write[LODE_STEP_INFO]].kind = LODE_BUFFER_RESULT;
  }
  for (int r = 0; r < recipe->nresults; r++) {
    lode_buffer *buffer = &recipe->buffer[recipe->result[r].buffer];
    if (buffer->kind == LODE_BUFFER_SCRATCH) buffer->kind = LODE_BUFFER_RESULT;
  }
}

enum { ALIGNMENT = 256 }; /* of what devices hand out, or more */

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static bool in_scratch(const lode_buffer *buffer) {
  return buffer->kind == LODE_BUFFER_SCRATCH && buffer->last >= 0;
}

static bool overlap(const lode_buffer *a, const lode_buffer *b) {
  return a->first <= b->last && b->first <= a->last && a->place < b->place + rounded(b->bytes) &&
         b->place < a->place + rounded(a->bytes);
}

/* A buffer that has its place, and is in the way of buffer `b` at its own; or NULL. */
static const lode_buffer *in_the_way(const lode_recipe *recipe, int b) {
  for (int i = 0; i < b; i++) {
    const lode_buffer *other = &recipe->buffer[i];
    if (in_scratch(other) && overlap(&recipe->buffer[b], other)) return other;
  }
  return NULL;
}

/* The first place, from the begin, that no buffer before it has while it lives. */
static void find_place(lode_recipe *recipe, int b) {
  lode_buffer *buffer = &recipe->buffer[b];
  const lode_buffer *other;
  buffer->place = 0;
  while ((other = in_the_way(recipe, b)) != NULL) buffer->place = other->place + rounded(other->bytes);
  size_t end = buffer->place + rounded(buffer->bytes);
  if (end > recipe->scratch) recipe->scratch = end;
}

static void find_places(lode_recipe *recipe) {
  recipe->scratch = 0;
  for (int b = 0; b < recipe->nbuffers; b++)
    if (in_scratch(&recipe->buffer[b])) find_place(recipe, b);
}

/* ---- factors and faults -------------------------------------------------------------------------- */

static const lode_step *maker_of(const lode_recipe *recipe, int packed) {
  for (int s = 0; s < recipe->nsteps; s++)
    if (recipe->step[s]->kind == LODE_STEP_FACTOR && recipe->step[s]->write[LODE_STEP_PACKED] == packed)
      return recipe->step[s];
  return NULL;
}

static void forget_made(lode_factor *factor) {
  factor->packed = factor->pivots = factor->info = NULL;
  factor->outcome = NULL;
  factor->next = NULL;
}

/* Solves use the factor that the replay makes, or the one that is a constant. */
static void link_factors(lode_recipe *recipe) {
  for (int s = 0; s < recipe->nsteps; s++) {
    lode_step *step = recipe->step[s];
    if (step->kind == LODE_STEP_FACTOR) forget_made(&step->as.factor.like);
    if (step->kind != LODE_STEP_SOLVE) continue;
    step->as.solve.made = maker_of(recipe, step->read[LODE_STEP_PACKED]);
    if (step->as.solve.made == NULL) continue;
    lode_factor_unref(step->as.solve.constant);
    step->as.solve.constant = NULL;
  }
}

static void number_sources(lode_recipe *recipe) {
  recipe->nsources = recipe->ninputs;
  for (int b = 0; b < recipe->nbuffers; b++)
    if (recipe->buffer[b].fault != NULL) recipe->buffer[b].source = recipe->nsources++;
  for (int s = 0; s < recipe->nsteps; s++)
    if (recipe->step[s]->kind == LODE_STEP_SOLVE && recipe->step[s]->as.solve.raises)
      recipe->step[s]->as.solve.source = recipe->nsources++;
  recipe->words = (recipe->nsources + 63) / 64;
}

static void set_bit(uint64_t *set, int i) { set[i / 64] |= UINT64_C(1) << i % 64; }

static void add_set(uint64_t *to, const uint64_t *from, int words) {
  for (int w = 0; w < words; w++) to[w] |= from[w];
}

/* What a step makes depends on what it reads: in a program, on the accesses that reach the output. */
static void add_sources(const lode_recipe *recipe, const lode_step *step, uint64_t *sets) {
  int words = recipe->words;
  for (int o = 0; o < step->nwrites; o++) {
    uint64_t *to = sets + (size_t)step->write[o] * (size_t)words;
    for (int i = 0; i < step->nreads; i++) {
      bool reaches = step->kind != LODE_STEP_RUN || (step->as.run->reach[o] & 1u << i) != 0;
      if (step->read[i] >= 0 && reaches) add_set(to, sets + (size_t)step->read[i] * (size_t)words, words);
    }
    if (step->kind == LODE_STEP_SOLVE && step->as.solve.raises) set_bit(to, step->as.solve.source);
  }
}

/* By buffer the sources that it depends on. */
static void find_sources(const lode_recipe *recipe, uint64_t *sets) {
  size_t words = (size_t)recipe->words;
  for (int b = 0; b < recipe->nbuffers; b++) {
    const lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->kind == LODE_BUFFER_INPUT) set_bit(sets + (size_t)b * words, buffer->number);
    else if (buffer->source >= 0) set_bit(sets + (size_t)b * words, buffer->source);
  }
  for (int s = 0; s < recipe->nsteps; s++) add_sources(recipe, recipe->step[s], sets);
  for (int r = 0; r < recipe->nresults; r++)
    memcpy(recipe->sources_of + (size_t)r * words, sets + (size_t)recipe->result[r].buffer * words,
           words * sizeof *sets);
}

/* ---- all of it --------------------------------------------------------------------------------------- */

/* In place of what an attempt before has left. */
static bool new_array(void *array, size_t count, size_t size) {
  free(*(void **)array);
  *(void **)array = calloc(count, size);
  return *(void **)array != NULL;
}

static lode_status take_host_memory(lode_recipe *recipe, uint64_t **sets) {
  size_t inputs = (size_t)recipe->ninputs, results = (size_t)recipe->nresults, words = (size_t)recipe->words;
  *sets = NULL;
  if (new_array(&recipe->source, (size_t)recipe->nsources, sizeof *recipe->source) &&
      new_array(&recipe->sources_of, results * words, sizeof *recipe->sources_of) &&
      new_array(&recipe->given, inputs, sizeof *recipe->given) &&
      new_array(&recipe->made, results, sizeof *recipe->made) &&
      new_array(sets, (size_t)recipe->nbuffers * words, sizeof **sets))
    return LODE_OK;
  return lode_fail(&recipe->context->error, LODE_NOMEM, "graph: no host memory to record");
}

static void know_constants(lode_recipe *recipe) {
  for (int b = 0; b < recipe->nbuffers; b++) {
    lode_buffer *buffer = &recipe->buffer[b];
    if (buffer->held != NULL) buffer->base = buffer->held->block;
    if (buffer->source >= 0) recipe->source[buffer->source] = buffer->fault;
  }
}

lode_status lode_recipe_seal(lode_recipe *recipe) {
  for (int r = 0; r < recipe->nresults; r++) recipe->buffer[recipe->result[r].buffer].needed = true;
  drop_steps(recipe);
  drop_memory(recipe);
  sort_buffers(recipe);
  find_places(recipe);
  link_factors(recipe);
  number_sources(recipe);
  uint64_t *sets;
  LODE_TRY(take_host_memory(recipe, &sets));
  find_sources(recipe, sets);
  free(sets);
  know_constants(recipe);
  return LODE_OK;
}
