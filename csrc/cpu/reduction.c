/* Passes that reduce what they compute, in the order of core/reduce.h.
 *
 * A sequence is what is reduced to one result. An accumulator holds `width`
 * sequences side by side: 16 partial results for the current chunk, then results
 * of earlier chunks, which are combined as a binary counter counts: level l
 * holds the result of 2^l chunks, so that neighbours at distance 1, 2, 4, ... meet
 * in that order.
 *
 *   INNER  a sequence lies in dense rows one behind the other. Short ones are
 *          reduced many at a time, straight from a tile; long ones are streams.
 *   OUTER  a column of the inner axis is a sequence: rows are added to rows.
 *
 * Few long sequences are cut into groups of 2^p chunks, reduced in parallel, and
 * the groups' results combined in the same order. */
#include <string.h>

#include "../core/reduce.h"
#include "evaluator.h"
#include "pass.h"

enum { LANES = LODE_REDUCE_LANES, CHUNK = LODE_REDUCE_CHUNK, MOST_COLUMNS = 1024, GROUPS_PER_THREAD = 4 };

/* ---- accumulators ------------------------------------------------------- */

typedef struct accumulator {
  const lode_reducer *reducer;
  int64_t width, size;
  int64_t place;  /* elements of the current chunk so far */
  int64_t chunks; /* finished */
  char *lanes;    /* [LANES, width] */
  char *levels;   /* [levels_for(...), width] */
} accumulator;

static int levels_for(int64_t chunks) {
  int levels = 1;
  while (chunks > 1) {
    chunks >>= 1;
    levels++;
  }
  return levels;
}

static size_t accumulator_bytes(int64_t width, int64_t size, int64_t chunks) {
  return (size_t)((LANES + levels_for(chunks)) * width * size);
}

static void accumulator_init(accumulator *a, const lode_plan *plan, int64_t width, char *memory) {
  a->reducer = &plan->isa->reduce[plan->program->reduction][plan->program->dtype];
  a->size = (int64_t)lode_dtype_size((lode_dtype)plan->program->dtype);
  a->width = width;
  a->place = a->chunks = 0;
  a->lanes = memory;
  a->levels = memory + LANES * width * a->size;
}

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

/* Ends the sequences; their results, [width], until the accumulator is used again. */
static const char *finish(accumulator *a) {
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

/* Adds n elements of one sequence (width 1). */
static void feed_elements(accumulator *a, const char *x, int64_t n) {
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

/* Adds n rows, one element to each of `width` sequences. */
static void feed_rows(accumulator *a, const char *x, int64_t n) {
  int64_t row = a->width * a->size;
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
  feed_elements(&a, in, width);
  memcpy(out, finish(&a), (size_t)size);
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

/* ---- groups of chunks --------------------------------------------------- */

/* How the sequences of a pass are cut: into groups of `length` elements, a power of two of chunks. */
typedef struct cut {
  int64_t sequence; /* elements of a sequence */
  int64_t length, groups;
  int64_t kept;   /* sequences, or rows of them (OUTER) */
  int64_t width;  /* OUTER: columns of a block */
  int64_t blocks; /* OUTER: blocks of columns */
  char *partial;  /* [kept, blocks, groups, width]: results of groups, if there are several */
} cut;

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Cuts into groups only if there are too few sequences to keep the threads busy. */
static void cut_groups(cut *c, int64_t tasks, int threads) {
  c->length = c->sequence;
  c->groups = 1;
  c->partial = NULL;
  int64_t chunks = ceiling(c->sequence, CHUNK);
  if (threads <= 1 || tasks >= threads * 2 || chunks < 2) return;
  int64_t wanted = ceiling(threads * (int64_t)GROUPS_PER_THREAD, tasks), group = 1;
  while (ceiling(chunks, group) > wanted) group *= 2;
  c->length = group * CHUNK;
  c->groups = ceiling(chunks, group);
}

static int64_t group_end(const cut *c, int64_t group) {
  int64_t end = (group + 1) * c->length;
  return end < c->sequence ? end : c->sequence;
}

/* Combines the results of groups: neighbours at distance 1, 2, 4, ... */
static void combine_groups(const lode_reducer *reducer, char *partial, int64_t groups, int64_t width,
                           int64_t size) {
  int64_t row = width * size;
  for (int64_t distance = 1; distance < groups; distance *= 2)
    for (int64_t g = 0; g + distance < groups; g += 2 * distance) {
      char *d = partial + g * row;
      reducer->combine(d, d, d + distance * row, NULL, width, 0);
    }
}

static size_t partial_bytes(const lode_pass *pass, const cut *c) {
  return (size_t)(c->kept * c->blocks * c->groups * c->width) *
         lode_dtype_size((lode_dtype)pass->plan.program->dtype);
}

/* Runs the pass, then combines the groups and stores: out(k, block) = result. */
static lode_status run_groups(lode_pass *pass, cut *c, size_t bytes, lode_error *error) {
  const lode_plan *plan = &pass->plan;
  int kept_dims = plan->args->nouter - plan->args->nreduced;
  if (c->groups > 1 && (c->partial = lode_scratch_take(partial_bytes(pass, c))) == NULL)
    return lode_fail(error, LODE_NOMEM, "cannot have %zu bytes of workspace on cpu", partial_bytes(pass, c));
  pass->form = c;
  lode_status status = lode_pass_run(pass, bytes, error);
  if (c->groups == 1) return status;
  const lode_reducer *reducer = &plan->isa->reduce[plan->program->reduction][plan->program->dtype];
  int64_t size = (int64_t)lode_dtype_size((lode_dtype)plan->program->dtype),
          result = c->groups * c->width * size;
  for (int64_t k = 0; k < c->kept && status == LODE_OK; k++) {
    for (int64_t b = 0; b < c->blocks; b++) {
      char *partial = c->partial + (k * c->blocks + b) * result;
      int64_t column = b * c->width, left = plan->args->inner - column;
      lode_tile tile = {k, 1, column,
                        plan->program->form == LODE_REDUCE_INNER ? 1
                        : left < c->width                        ? left
                                                                 : c->width};
      combine_groups(reducer, partial, c->groups, c->width, size);
      lode_tile_store(plan, &plan->args->out[0], kept_dims, &tile, partial, (size_t)size);
    }
  }
  lode_scratch_give(c->partial, partial_bytes(pass, c));
  return status;
}

/* A tile of what is reduced, as dense rows. */
static const char *tile_of(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile) {
  lode_tile_evaluate(state, plan, tile);
  return lode_tile_output(state, plan, tile, 0);
}

/* ---- INNER -------------------------------------------------------------- */

static int64_t reduced_rows(const lode_args *args) {
  int64_t rows = 1;
  for (int d = args->nouter - args->nreduced; d < args->nouter; d++) rows *= args->outer[d];
  return rows;
}

/* Units are groups of `rows` rows: whole short sequences, reduced from the tile. */
static void short_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                        int64_t count) {
  const lode_plan *plan = &pass->plan;
  const lode_args *args = plan->args;
  const lode_access *out = &args->out[0];
  const lode_reducer *reducer = &plan->isa->reduce[plan->program->reduction][plan->program->dtype];
  int64_t each = reduced_rows(args), size = (int64_t)lode_dtype_size((lode_dtype)plan->program->dtype);
  int kept_dims = args->nouter - args->nreduced;
  bool dense = lode_access_dense(out, args, kept_dims, 1);
  bool in_place = plan->step[plan->program->output[0]].in_place;
  for (int64_t unit = first; unit < first + count; unit++) {
    lode_tile tile = {unit * plan->rows, plan->rows, 0, args->inner};
    if (tile.rows > plan->nrows - tile.row) tile.rows = plan->nrows - tile.row;
    const void *result = tile_of(state, plan, &tile);
    lode_tile reduced = {tile.row / each, tile.rows / each, 0, 1};
    /* A slot has a cache line behind it; an input has its next rows. */
    int64_t behind = 64 / size, left = (plan->nrows - tile.row - tile.rows) * args->inner;
    if (in_place && left < behind) behind = left;
    char *to = dense ? out->base + (out->offset + reduced.row) * size : workspace;
    lode_tile_reduce(reducer, (size_t)size, to, result, reduced.rows, each * args->inner, behind);
    if (!dense) lode_tile_store(plan, out, kept_dims, &reduced, to, (size_t)size);
  }
}

/* Feeds elements [from, to) of sequence k. */
static void stream(accumulator *a, lode_tile_state *state, const lode_plan *plan, int64_t k, int64_t from,
                   int64_t to) {
  int64_t inner = plan->args->inner, first_row = k * reduced_rows(plan->args);
  while (from < to) {
    int64_t row = from / inner, column = from - row * inner, count;
    lode_tile tile = {first_row + row, 1, 0, inner};
    const char *result;
    if (plan->cut == LODE_CUT_ROWS) {
      int64_t rows = ceiling(to, inner) - row;
      tile.rows = rows < plan->rows ? rows : plan->rows;
      count = tile.rows * inner - column;
      result = (const char *)tile_of(state, plan, &tile) + column * a->size;
    } else {
      tile.column = column;
      tile.columns = inner - column < plan->columns ? inner - column : plan->columns;
      if (tile.columns > to - from) tile.columns = to - from;
      count = tile.columns;
      result = tile_of(state, plan, &tile);
    }
    if (count > to - from) count = to - from;
    feed_elements(a, result, count);
    from += count;
  }
}

/* Units are groups of chunks of long sequences. */
static void long_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first, int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  accumulator a;
  accumulator_init(&a, plan, 1, workspace);
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t k = unit / c->groups, group = unit - k * c->groups;
    stream(&a, state, plan, k, group * c->length, group_end(c, group));
    const char *result = finish(&a);
    lode_tile tile = {k, 1, 0, 1};
    if (c->groups > 1) memcpy(c->partial + unit * a.size, result, (size_t)a.size);
    else
      lode_tile_store(plan, &plan->args->out[0], plan->args->nouter - plan->args->nreduced, &tile, result,
                      (size_t)a.size);
  }
}

lode_status lode_reduce_inner(lode_pass *pass, lode_error *error) {
  lode_plan *plan = &pass->plan;
  int64_t inner = plan->args->inner, each = reduced_rows(plan->args), elements = lode_plan_elements(plan);
  cut c = {.sequence = each * inner, .kept = plan->nrows / each, .width = 1, .blocks = 1};
  if (plan->cut == LODE_CUT_ROWS && c.sequence <= CHUNK) {
    int64_t sequences = elements / c.sequence;
    sequences = sequences >= 16 ? sequences / 16 * 16 : sequences < 1 ? 1 : sequences;
    if (sequences > c.kept) sequences = c.kept;
    pass->plan_bytes = lode_plan_size(plan, sequences * each, inner);
    pass->units = ceiling(c.kept, sequences);
    pass->unit = short_units;
    return lode_pass_run(pass, (size_t)(sequences * plan->element), error);
  }
  int64_t rows = plan->cut == LODE_CUT_ROWS && elements > inner ? elements / inner : 1;
  pass->plan_bytes = lode_plan_size(plan, rows, plan->cut == LODE_CUT_ROWS ? inner : elements);
  cut_groups(&c, c.kept, pass->threads);
  pass->units = c.kept * c.groups;
  pass->unit = long_units;
  return run_groups(pass, &c, accumulator_bytes(1, plan->element, ceiling(c.length, CHUNK)), error);
}

/* ---- OUTER -------------------------------------------------------------- */

/* Adds rows [from, to) of kept index k, in a block of columns. */
static void add_rows(accumulator *a, lode_tile_state *state, const lode_plan *plan, int64_t first, int64_t from,
                     int64_t to, int64_t column) {
  while (from < to) {
    lode_tile tile = {first + from, to - from < plan->rows ? to - from : plan->rows, column, a->width};
    feed_rows(a, tile_of(state, plan, &tile), tile.rows);
    from += tile.rows;
  }
}

/* Units are (kept index, block of columns, group of chunks). */
static void outer_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                        int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  const lode_args *args = plan->args;
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t group = unit % c->groups, block = unit / c->groups % c->blocks, k = unit / c->groups / c->blocks;
    int64_t column = block * c->width,
            width = args->inner - column < c->width ? args->inner - column : c->width;
    accumulator a;
    accumulator_init(&a, plan, width, workspace);
    add_rows(&a, state, plan, k * c->sequence, group * c->length, group_end(c, group), column);
    const char *result = finish(&a);
    lode_tile tile = {k, 1, column, width};
    if (c->groups > 1) memcpy(c->partial + unit * c->width * a.size, result, (size_t)(width * a.size));
    else lode_tile_store(plan, &args->out[0], args->nouter - args->nreduced, &tile, result, (size_t)a.size);
  }
}

/* Units are groups of `rows` rows, each several whole sequences of few rows. */
static void outer_short_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                              int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  const lode_args *args = plan->args;
  accumulator a;
  accumulator_init(&a, plan, args->inner, workspace);
  for (int64_t unit = first; unit < first + count; unit++) {
    lode_tile tile = {unit * plan->rows, plan->rows, 0, args->inner};
    if (tile.rows > plan->nrows - tile.row) tile.rows = plan->nrows - tile.row;
    const char *result = tile_of(state, plan, &tile);
    for (int64_t row = 0; row < tile.rows; row += c->sequence, result += c->sequence * args->inner * a.size) {
      lode_tile reduced = {(tile.row + row) / c->sequence, 1, 0, args->inner};
      feed_rows(&a, result, c->sequence);
      fold(&a, c->sequence < LANES ? c->sequence : LANES);
      a.place = 0;
      lode_tile_store(plan, &args->out[0], args->nouter - args->nreduced, &reduced, a.lanes, (size_t)a.size);
    }
  }
}

lode_status lode_reduce_outer(lode_pass *pass, lode_error *error) {
  lode_plan *plan = &pass->plan;
  int64_t inner = plan->args->inner, elements = lode_plan_elements(plan), each = reduced_rows(plan->args);
  cut c = {
      .sequence = each, .length = each, .groups = 1, .kept = plan->nrows / each, .width = inner, .blocks = 1};
  if (plan->cut == LODE_CUT_ROWS && each < CHUNK && 2 * each * inner <= elements && c.kept > 1) {
    int64_t sequences = elements / (each * inner);
    if (sequences > c.kept) sequences = c.kept;
    pass->plan_bytes = lode_plan_size(plan, sequences * each, inner);
    pass->units = ceiling(c.kept, sequences);
    pass->unit = outer_short_units;
    pass->form = &c;
    return lode_pass_run(pass, accumulator_bytes(inner, plan->element, 1), error);
  }
  if (plan->cut != LODE_CUT_ROWS) {
    c.width = plan->cut == LODE_CUT_BLOCK ? elements / LANES : MOST_COLUMNS * 4 / plan->element;
    if (pass->threads > 1 && c.kept * ceiling(inner, c.width) < pass->threads * 2 && each < CHUNK * 2)
      c.width = ceiling(inner, pass->threads * (int64_t)GROUPS_PER_THREAD);
    if (c.width < 64) c.width = 64;
    if (c.width > inner) c.width = inner;
    c.blocks = ceiling(inner, c.width);
  }
  int64_t rows = plan->cut == LODE_CUT_SINGLE ? 1 : elements / c.width;
  rows = rows >= LANES ? rows / LANES * LANES : rows < 1 ? 1 : rows;
  if (rows > each) rows = each;
  pass->plan_bytes = lode_plan_size(plan, rows, c.width);
  cut_groups(&c, c.kept * c.blocks, pass->threads);
  pass->units = c.kept * c.blocks * c.groups;
  pass->unit = outer_units;
  return run_groups(pass, &c, accumulator_bytes(c.width, plan->element, ceiling(c.length, CHUNK)), error);
}
