/* See recent.h. Each program has one place, by its hash; a later one takes it.
 *
 * What is compared is all that layout.c reads: all of the program, and of the arguments extents, strides, and
 * the addresses as far as vectors must be aligned. Bases, offsets and scalars are parameters, and are put in
 * anew. */
#include "recent.h"

#include <stdlib.h>
#include <string.h>

#include "../core/hash.h"

enum { ALIGNMENT = 16 }; /* bytes of the widest vector: layout.c's vector_of() */

/* What tells programs apart: operations with their operands, and extents. */
static lode_recent **place_of(lode_stream *stream, const lode_program *program, const lode_args *args) {
  uint64_t hash = (uint64_t)args->inner;
  for (int d = 0; d < args->nouter; d++) hash = lode_hash_mix(hash, (uint64_t)args->outer[d]);
  for (int v = 0; v < program->nvalues; v++) {
    uint64_t word;
    memcpy(&word, &program->value[v], sizeof word);
    hash = lode_hash_mix(hash, word);
  }
  return &lode_cuda_stream_of(stream)->recent[(hash >> 32) % LODE_RECENT];
}

/* ---- what is the same ------------------------------------------------------------------ */

static bool same_segments(const lode_program *a, const lode_program *b) {
  for (int i = 0; i < a->nsegments; i++) { /* they hold padding */
    const lode_segment *s = &a->segment[i], *t = &b->segment[i];
    if (s->source != t->source || s->lo != t->lo || s->hi != t->hi || s->start != t->start ||
        s->step != t->step)
      return false;
  }
  return true;
}

static bool same_program(const lode_program *a, const lode_program *b) {
  return a->nvalues == b->nvalues && a->naccesses == b->naccesses && a->nsegments == b->nsegments &&
         a->noutputs == b->noutputs && a->form == b->form && a->rows == b->rows &&
         memcmp(a->reduction, b->reduction, (size_t)a->noutputs) == 0 &&
         memcmp(a->output, b->output, (size_t)a->noutputs * sizeof a->output[0]) == 0 &&
         memcmp(a->value, b->value, (size_t)a->nvalues * sizeof a->value[0]) == 0 && same_segments(a, b);
}

static uintptr_t address_of(const lode_access *access, lode_dtype dtype) {
  return (uintptr_t)access->base + (uintptr_t)(access->offset * (int64_t)lode_dtype_size(dtype));
}

/* An iota has no address, and its offset is a parameter. */
static bool same_access(const lode_access *a, const lode_access *b, lode_dtype dtype, int dims) {
  return a->inner == b->inner && memcmp(a->stride, b->stride, (size_t)dims * sizeof a->stride[0]) == 0 &&
         (a->base == NULL || (address_of(a, dtype) ^ address_of(b, dtype)) % ALIGNMENT == 0);
}

static bool is_read(const lode_value *value) {
  return value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA;
}

/* Of one program. */
static bool same_args(const lode_program *program, const lode_args *a, const lode_args *b) {
  if (a->nouter != b->nouter || a->nreduced != b->nreduced || a->inner != b->inner ||
      memcmp(a->outer, b->outer, (size_t)a->nouter * sizeof a->outer[0]) != 0)
    return false;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (is_read(value) &&
        !same_access(&a->access[value->index], &b->access[value->index], (lode_dtype)value->dtype, a->nouter))
      return false;
  }
  for (int o = 0; o < program->noutputs; o++)
    if (!same_access(&a->out[o], &b->out[o], lode_output_dtype(program, o), a->nouter - a->nreduced))
      return false;
  return true;
}

/* ---- parameters ------------------------------------------------------------------------ */

static void put_access(lode_layout *layout, int a, lode_dtype dtype) {
  const lode_access *access = lode_layout_access(layout->args, a);
  if (layout->at_pointer[a] >= 0)
    layout->pointer[layout->at_pointer[a]] = access->base + access->offset * (int64_t)lode_dtype_size(dtype);
  else layout->word[layout->at_offset[a]] = access->offset;
}

static void put_parameters(lode_layout *layout) {
  const lode_program *program = layout->program;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (is_read(value)) put_access(layout, value->index, (lode_dtype)value->dtype);
    if (value->kind == LODE_VALUE_CONST)
      memcpy(&layout->word[layout->at_const[value->index]], &layout->args->consts[value->index],
             lode_dtype_size((lode_dtype)value->dtype));
  }
  for (int o = 0; o < program->noutputs; o++) put_access(layout, LODE_OUT + o, lode_output_dtype(program, o));
}

/* ---- entry ------------------------------------------------------------------------------- */

lode_recent *lode_recent_find(lode_stream *stream, const lode_program *program, const lode_args *args) {
  if (atomic_load_explicit(&stream->device->jit, memory_order_relaxed) == LODE_JIT_OFF) return NULL;
  lode_recent *recent = *place_of(stream, program, args);
  if (recent == NULL || !same_program(&recent->program, program) || !same_args(program, &recent->args, args))
    return NULL;
  recent->layout.program = program;
  recent->layout.args = args;
  put_parameters(&recent->layout);
  return recent;
}

void lode_recent_note(lode_stream *stream, const lode_layout *layout, CUkernel kernel) {
  lode_recent **place = place_of(stream, layout->program, layout->args);
  if (*place == NULL) *place = malloc(sizeof **place);
  if (*place == NULL) return;
  (*place)->layout = *layout;
  (*place)->kernel = kernel;
  (*place)->program = *layout->program;
  (*place)->args = *layout->args;
}
