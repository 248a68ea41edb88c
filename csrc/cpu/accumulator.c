/* See accumulator.h. */
#include "accumulator.h"

#include <string.h>

#include "../core/reduce.h"
#include "moment.h"

enum { LANES = LODE_REDUCE_LANES, CHUNK = LODE_REDUCE_CHUNK };

typedef lode_accumulator accumulator;

static const lode_reducer *reducer_of(const lode_plan *plan, int output) {
  return &plan->isa->reduce[plan->program->reduction[output]][lode_output_dtype(plan->program, output)];
}

static const lode_moment *moment_of(const lode_plan *plan, int output) {
  return lode_output_moment(plan->program, output) ? plan->isa->m2[lode_output_dtype(plan->program, output)]
                                                   : NULL;
}

static int64_t size_of(const lode_plan *plan, int output) {
  return (int64_t)lode_dtype_size(lode_output_dtype(plan->program, output));
}

/* ---- memory -------------------------------------------------------------- */

static int levels_for(int64_t chunks) {
  int levels = 1;
  while (chunks > 1) {
    chunks >>= 1;
    levels++;
  }
  return levels;
}

size_t lode_accumulator_bytes(const lode_plan *plan, int output, int64_t width, int64_t chunks) {
  if (moment_of(plan, output) != NULL)
    return lode_moment_bytes(width, size_of(plan, output), levels_for(chunks));
  return (size_t)((LANES + levels_for(chunks)) * width * size_of(plan, output));
}

size_t lode_record_bytes(const lode_plan *plan, int output, int64_t width) {
  if (moment_of(plan, output) != NULL) return lode_moment_record(width, size_of(plan, output));
  return (size_t)(width * size_of(plan, output));
}

void lode_accumulator_init(accumulator *a, const lode_plan *plan, int output, int64_t width, char *memory) {
  a->reducer = reducer_of(plan, output);
  a->moment = moment_of(plan, output);
  a->size = size_of(plan, output);
  a->width = width;
  a->place = a->chunks = 0;
  if (a->moment != NULL) {
    lode_moment_init(a, memory);
    return;
  }
  a->lanes = memory;
  a->levels = memory + LANES * width * a->size;
}

void lode_accumulator_begin(accumulator *a, const char *first) {
  if (a->moment != NULL) lode_moment_begin(a, first);
}

/* ---- chunks -------------------------------------------------------------- */

/* d = a o b, for n rows of the accumulator. */
static void combine(const accumulator *a, char *d, const char *x, const char *y, int64_t n) {
  a->reducer->combine(d, x, y, NULL, n * a->width, 0);
}

/* Folds the first `filled` partial results by halves; the others would be identities. */
static void fold(const accumulator *a, int64_t filled) {
  for (int64_t half = LANES / 2; half > 0; half /= 2) {
    if (filled <= half) continue;
    combine(a, a->lanes, a->lanes, a->lanes + half * a->width * a->size, filled - half);
    filled = half;
  }
}

/* Counts a chunk; its result may be written over. */
static void count_chunk(accumulator *a, char *result) {
  int64_t row = a->width * a->size;
  char *level = a->levels;
  for (int64_t c = a->chunks; (c & 1) != 0; c >>= 1, level += row) combine(a, result, level, result, 1);
  memcpy(level, result, (size_t)row);
  a->chunks++;
}

static void finish_chunk(accumulator *a) {
  fold(a, a->place < LANES ? a->place : LANES);
  count_chunk(a, a->lanes);
  a->place = 0;
}

const char *lode_accumulator_finish(accumulator *a) {
  if (a->moment != NULL) return lode_moment_finish(a);
  if (a->place > 0) finish_chunk(a);
  int64_t row = a->width * a->size;
  const char *result = NULL;
  char *level = a->levels;
  for (int64_t c = a->chunks; c != 0; c >>= 1, level += row) {
    if ((c & 1) == 0) continue;
    if (result != NULL) combine(a, level, level, result, 1);
    result = level;
  }
  a->chunks = 0;
  return result;
}

void lode_record_combine(const lode_plan *plan, int output, int64_t width, char *left, const char *right) {
  const lode_moment *moment = moment_of(plan, output);
  if (moment != NULL) lode_moment_combine(moment, width, size_of(plan, output), left, right);
  else reducer_of(plan, output)->combine(left, left, right, NULL, width, 0);
}

/* ---- feeding ------------------------------------------------------------- */

/* Adds n whole chunks of one sequence (width 1), between two chunks. */
static void feed_chunks(accumulator *a, const char *x, int64_t n) {
  while (n > 0) {
    int64_t count = n < LANES ? n : LANES;
    a->reducer->chunks(a->lanes, x, count);
    for (int64_t k = 0; k < count; k++) count_chunk(a, a->lanes + k * a->size);
    x += count * CHUNK * a->size;
    n -= count;
  }
}

void lode_feed_elements(accumulator *a, const char *x, int64_t n) {
  if (a->moment != NULL) { /* a row of one element each */
    lode_moment_feed(a, x, n);
    return;
  }
  while (n > 0) {
    if (a->place == 0 && n >= CHUNK) {
      int64_t chunks = n / CHUNK;
      feed_chunks(a, x, chunks);
      x += chunks * CHUNK * a->size;
      n -= chunks * CHUNK;
      continue;
    }
    int64_t lane = a->place % LANES, count = CHUNK - a->place < n ? CHUNK - a->place : n;
    if (a->place < LANES) { /* identity o x is x */
      if (count > LANES - lane) count = LANES - lane;
      memcpy(a->lanes + lane * a->size, x, (size_t)(count * a->size));
    } else if (lane != 0) {
      if (count > LANES - lane) count = LANES - lane;
      char *d = a->lanes + lane * a->size;
      a->reducer->combine(d, d, x, NULL, count, 0);
    } else {
      a->reducer->lanes(a->lanes, x, count);
    }
    a->place += count;
    x += count * a->size;
    n -= count;
    if (a->place == CHUNK) finish_chunk(a);
  }
}

void lode_feed_rows(accumulator *a, const char *x, int64_t n) {
  int64_t row = a->width * a->size;
  if (a->moment != NULL) {
    lode_moment_feed(a, x, n);
    return;
  }
  while (n > 0) {
    int64_t lane = a->place % LANES, count = LANES - lane < n ? LANES - lane : n;
    char *d = a->lanes + lane * row;
    if (a->place < LANES) memcpy(d, x, (size_t)(count * row)); /* identity o x is x */
    else combine(a, d, d, x, count);
    a->place += count;
    x += count * row;
    n -= count;
    if (a->place == CHUNK) finish_chunk(a);
  }
}

/* One sequence, width 1. */
static void reduce_row(const lode_reducer *reducer, int64_t size, char *out, const char *in, int64_t width) {
  _Alignas(64) char memory[(LANES + 64) * 8]; /* levels for any width */
  accumulator a = {
      .reducer = reducer, .width = 1, .size = size, .lanes = memory, .levels = memory + LANES * size};
  lode_feed_elements(&a, in, width);
  memcpy(out, lode_accumulator_finish(&a), (size_t)size);
}

void lode_tile_reduce(const lode_reducer *reducer, size_t size, void *out, const void *in, int64_t rows,
                      int64_t width, int64_t behind) {
  enum { FEW_ROWS = 8, SHORT_ROW = 64 }; /* a few rows are done sooner one by one, unless they are short */
  if (width <= SHORT_ROW || (rows >= FEW_ROWS && width <= CHUNK)) {
    reducer->rows(out, in, rows, width, behind);
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    reduce_row(reducer, (int64_t)size, (char *)out + r * (int64_t)size,
               (const char *)in + r * width * (int64_t)size, width);
}

void lode_feed_apart(accumulator *a, const char *x, int64_t pitch, int64_t rows) {
  lode_moment_block(a, x, pitch, rows);
}

void lode_reduce_sequences(const lode_plan *plan, int output, void *out, const void *in, int64_t rows,
                           int64_t width, int64_t behind) {
  const lode_moment *moment = moment_of(plan, output);
  if (moment != NULL) lode_moment_sequences(moment, size_of(plan, output), out, in, rows, width);
  else lode_tile_reduce(reducer_of(plan, output), (size_t)size_of(plan, output), out, in, rows, width, behind);
}
