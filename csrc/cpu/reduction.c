/* Passes that reduce what they compute, in the order of core/reduce.h.
 *
 * A sequence is what is reduced to one result, or by several outputs to a result
 * each: a tile is evaluated once, and feeds an accumulator (accumulator.h) for each.
 *
 *   INNER  a sequence lies in dense rows one behind the other. Short ones are
 *          reduced many at a time, straight from a tile; long ones are streams.
 *   OUTER  a column of the inner axis is a sequence: rows are added to rows.
 *
 * Few long sequences are cut into groups of 2^p chunks, reduced in parallel, and
 * the groups' results combined in the same order. */
#include <string.h>

#include "../core/reduce.h"
#include "accumulator.h"
#include "evaluator.h"
#include "pass.h"

enum {
  LANES = LODE_REDUCE_LANES,
  CHUNK = LODE_REDUCE_CHUNK,
  MOST_COLUMNS = 1024,
  GROUPS_PER_THREAD = 4,
  BLOCK_ROWS = 128
};

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- outputs ------------------------------------------------------------ */

/* An accumulator for each output, in one memory. */
typedef struct accumulators {
  lode_accumulator of[LODE_MAX_OUTPUTS];
} accumulators;

static size_t own_bytes(const lode_plan *plan, int output, int64_t width, int64_t chunks) {
  return (lode_accumulator_bytes(plan, output, width, chunks) + 63) / 64 * 64;
}

static size_t accumulators_bytes(const lode_plan *plan, int64_t width, int64_t chunks) {
  size_t bytes = 0;
  for (int o = 0; o < plan->program->noutputs; o++) bytes += own_bytes(plan, o, width, chunks);
  return bytes;
}

static void init_all(accumulators *set, const lode_plan *plan, int64_t width, int64_t chunks, char *memory) {
  for (int o = 0; o < plan->program->noutputs; o++) {
    lode_accumulator_init(&set->of[o], plan, o, width, memory);
    memory += own_bytes(plan, o, width, chunks);
  }
}

/* Begins the sequences that begin with this tile, of one row. */
static void begin_all(accumulators *set, lode_tile_state *state, const lode_plan *plan, const lode_tile *tile) {
  if (!lode_program_moments(plan->program)) return;
  lode_tile_evaluate(state, plan, tile);
  for (int o = 0; o < plan->program->noutputs; o++)
    lode_accumulator_begin(&set->of[o], lode_tile_output(state, plan, tile, o));
}

/* Output o's results of a tile of the kept dims, dense. */
static void store_result(const lode_plan *plan, int o, const lode_tile *tile, const char *result) {
  lode_tile_store(plan, &plan->args->out[o], plan->args->nouter - plan->args->nreduced, tile, result,
                  plan->step[plan->program->output[o]].size);
}

/* ---- groups of chunks --------------------------------------------------- */

/* How the sequences of a pass are cut: into groups of `length` elements, a power of two of chunks. */
typedef struct cut {
  int64_t sequence; /* elements of a sequence */
  int64_t length, groups;
  int64_t kept;   /* sequences, or rows of them (OUTER) */
  int64_t width;  /* OUTER: columns of a block */
  int64_t blocks; /* OUTER: blocks of columns */
  char *partial;  /* records of groups, if there are several: of each output [kept, blocks, groups] */
  size_t partial_bytes, at[LODE_MAX_OUTPUTS], record[LODE_MAX_OUTPUTS]; /* where each begins, and one's bytes */
} cut;

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

/* Where the records of groups are. */
static lode_status take_partial(const lode_plan *plan, cut *c, lode_error *error) {
  int64_t records = c->kept * c->blocks * c->groups;
  c->partial_bytes = 0;
  for (int o = 0; o < plan->program->noutputs; o++) {
    c->record[o] = (lode_record_bytes(plan, o, c->width) + 7) / 8 * 8;
    c->at[o] = c->partial_bytes;
    c->partial_bytes += (size_t)records * c->record[o];
  }
  if (c->groups == 1 || (c->partial = lode_scratch_take(c->partial_bytes)) != NULL) return LODE_OK;
  return lode_fail(error, LODE_NOMEM, "cannot have %zu bytes of workspace on cpu", c->partial_bytes);
}

/* Combines the records of groups, neighbours at distance 1, 2, 4, ..., and stores: out(k, block) = result. */
static void combine_groups(const lode_plan *plan, const cut *c, int o, int64_t k, int64_t b) {
  int64_t column = b * c->width, left = plan->args->inner - column,
          width = plan->program->form == LODE_REDUCE_INNER ? 1
                  : left < c->width                        ? left
                                                           : c->width;
  int64_t record = (int64_t)c->record[o];
  char *partial = c->partial + c->at[o] + (k * c->blocks + b) * c->groups * record;
  for (int64_t distance = 1; distance < c->groups; distance *= 2)
    for (int64_t g = 0; g + distance < c->groups; g += 2 * distance)
      lode_record_combine(plan, o, width, partial + g * record, partial + (g + distance) * record);
  lode_tile tile = {k, 1, column, width};
  store_result(plan, o, &tile, partial);
}

/* Runs the pass, then combines the groups. */
static lode_status run_groups(lode_pass *pass, cut *c, lode_error *error) {
  const lode_plan *plan = &pass->plan;
  LODE_TRY(take_partial(plan, c, error));
  pass->form = c;
  lode_status status =
      lode_pass_run(pass, accumulators_bytes(plan, c->width, ceiling(c->length, CHUNK)), error);
  if (c->groups == 1) return status;
  for (int o = 0; o < plan->program->noutputs && status == LODE_OK; o++)
    for (int64_t k = 0; k < c->kept; k++)
      for (int64_t b = 0; b < c->blocks; b++) combine_groups(plan, c, o, k, b);
  lode_scratch_give(c->partial, c->partial_bytes);
  return status;
}

/* Ends the sequences of a unit: their results, or the records of their group. */
static void finish(const cut *c, accumulators *set, const lode_plan *plan, int64_t unit,
                   const lode_tile *tile) {
  for (int o = 0; o < plan->program->noutputs; o++) {
    const char *record = lode_accumulator_finish(&set->of[o]);
    if (c->groups == 1) store_result(plan, o, tile, record);
    else
      memcpy(c->partial + c->at[o] + (size_t)unit * c->record[o], record,
             lode_record_bytes(plan, o, tile->columns));
  }
}

/* ---- INNER -------------------------------------------------------------- */

static int64_t reduced_rows(const lode_args *args) {
  int64_t rows = 1;
  for (int d = args->nouter - args->nreduced; d < args->nouter; d++) rows *= args->outer[d];
  return rows;
}

/* Reduces the sequences of a tile, `each` rows of it each, by output o. */
static void reduce_short(lode_tile_state *state, const lode_plan *plan, int o, const lode_tile *tile,
                         int64_t each, char *workspace) {
  const lode_args *args = plan->args;
  const lode_step *step = &plan->step[plan->program->output[o]];
  const lode_access *out = &args->out[o];
  int64_t size = step->size,
          behind = 64 / size; /* a slot has a cache line behind it; an input, its next rows */
  int64_t left = (plan->nrows - tile->row - tile->rows) * args->inner;
  if (step->in_place && left < behind) behind = left;
  const void *rows = lode_tile_output(state, plan, tile, o);
  lode_tile reduced = {tile->row / each, tile->rows / each, 0, 1};
  bool dense = lode_access_dense(out, args, args->nouter - args->nreduced, 1);
  char *to = dense ? out->base + (out->offset + reduced.row) * size : workspace;
  lode_reduce_sequences(plan, o, to, rows, reduced.rows, each * args->inner, behind);
  if (!dense) store_result(plan, o, &reduced, to);
}

/* Units are groups of `rows` rows: whole short sequences, reduced from the tile. */
static void short_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                        int64_t count) {
  const lode_plan *plan = &pass->plan;
  int64_t each = reduced_rows(plan->args);
  for (int64_t unit = first; unit < first + count; unit++) {
    lode_tile tile = {unit * plan->rows, plan->rows, 0, plan->args->inner};
    if (tile.rows > plan->nrows - tile.row) tile.rows = plan->nrows - tile.row;
    lode_tile_evaluate(state, plan, &tile);
    for (int o = 0; o < plan->program->noutputs; o++) reduce_short(state, plan, o, &tile, each, workspace);
  }
}

/* Feeds elements [from, to) of sequence k. */
static void stream(accumulators *set, lode_tile_state *state, const lode_plan *plan, int64_t k, int64_t from,
                   int64_t to) {
  int64_t inner = plan->args->inner, first_row = k * reduced_rows(plan->args);
  while (from < to) {
    int64_t row = from / inner, column = from - row * inner, count, skipped = 0;
    lode_tile tile = {first_row + row, 1, 0, inner};
    if (plan->cut == LODE_CUT_ROWS) {
      int64_t rows = ceiling(to, inner) - row;
      tile.rows = rows < plan->rows ? rows : plan->rows;
      count = tile.rows * inner - column;
      skipped = column;
    } else {
      tile.column = column;
      tile.columns = inner - column < plan->columns ? inner - column : plan->columns;
      if (tile.columns > to - from) tile.columns = to - from;
      count = tile.columns;
    }
    if (count > to - from) count = to - from;
    lode_tile_evaluate(state, plan, &tile);
    for (int o = 0; o < plan->program->noutputs; o++) {
      const char *x = lode_tile_output(state, plan, &tile, o);
      lode_feed_elements(&set->of[o], x + skipped * set->of[o].size, count);
    }
    from += count;
  }
}

/* Units are groups of chunks of long sequences. */
static void long_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first, int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  accumulators set;
  init_all(&set, plan, 1, ceiling(c->length, CHUNK), workspace);
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t k = unit / c->groups, group = unit - k * c->groups;
    lode_tile tile = {k, 1, 0, 1};
    lode_tile first_row = {k * reduced_rows(plan->args), 1, 0,
                           plan->cut == LODE_CUT_ROWS ? plan->args->inner : 1};
    begin_all(&set, state, plan, &first_row);
    stream(&set, state, plan, k, group * c->length, group_end(c, group));
    finish(c, &set, plan, unit, &tile);
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
  return run_groups(pass, &c, error);
}

/* ---- OUTER -------------------------------------------------------------- */

/* m2 of an input that lies in memory in rows, of which a tile would have one: then BLOCK_ROWS are taken there.
 */
static bool lies_apart(const lode_plan *plan, int o) {
  return lode_output_moment(plan->program, o) && plan->args->nreduced == 1 &&
         plan->step[plan->program->output[o]].action == LODE_ACTION_ROW;
}

/* Adds a tile's rows, for the outputs that take them from tiles. */
static void add_tile(accumulators *set, lode_tile_state *state, const lode_plan *plan, const lode_tile *tile) {
  lode_tile_evaluate(state, plan, tile);
  for (int o = 0; o < plan->program->noutputs; o++)
    if (!lies_apart(plan, o)) lode_feed_rows(&set->of[o], lode_tile_output(state, plan, tile, o), tile->rows);
}

/* Adds rows where they lie, for the others. */
static void add_apart(accumulators *set, const lode_plan *plan, const lode_tile *tile) {
  for (int o = 0; o < plan->program->noutputs; o++) {
    if (!lies_apart(plan, o)) continue;
    const lode_access *access = &plan->args->access[plan->program->value[plan->program->output[o]].index];
    int ndims = plan->args->nouter;
    const char *x = lode_tile_address(plan, access, ndims, tile->row, tile->column, (size_t)set->of[o].size);
    lode_feed_apart(&set->of[o], x, access->stride[ndims - 1], tile->rows);
  }
}

/* Adds rows to their sequences: a block of m2's at a time, if some lie apart. */
static void add_rows(accumulators *set, lode_tile_state *state, const lode_plan *plan, const lode_tile *all) {
  bool tiles = false, apart = false;
  for (int o = 0; o < plan->program->noutputs; o++) *(lies_apart(plan, o) ? &apart : &tiles) = true;
  int64_t end = all->row + all->rows, most = apart ? BLOCK_ROWS : all->rows;
  for (lode_tile block = *all; block.row < end; block.row += most) {
    block.rows = end - block.row < most ? end - block.row : most;
    lode_tile part = block;
    for (int64_t done = 0; done < block.rows && tiles; done += part.rows, part.row += part.rows) {
      part.rows = block.rows - done < plan->rows ? block.rows - done : plan->rows;
      add_tile(set, state, plan, &part);
    }
    add_apart(set, plan, &block);
  }
}

/* Units are (kept index, block of columns, group of chunks). */
static void outer_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                        int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  for (int64_t unit = first; unit < first + count; unit++) {
    int64_t group = unit % c->groups, block = unit / c->groups % c->blocks, k = unit / c->groups / c->blocks;
    int64_t column = block * c->width, left = plan->args->inner - column;
    lode_tile tile = {k, 1, column, left < c->width ? left : c->width}, rows = tile;
    accumulators set;
    init_all(&set, plan, tile.columns, ceiling(c->length, CHUNK), workspace);
    rows.row = k * c->sequence;
    begin_all(&set, state, plan, &rows);
    rows.row += group * c->length;
    rows.rows = group_end(c, group) - group * c->length;
    add_rows(&set, state, plan, &rows);
    finish(c, &set, plan, unit, &tile);
  }
}

/* Units are groups of `rows` rows, each several whole sequences of few rows. */
static void outer_short_units(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first,
                              int64_t count) {
  const cut *c = pass->form;
  const lode_plan *plan = &pass->plan;
  int64_t inner = plan->args->inner;
  accumulators set;
  init_all(&set, plan, inner, 1, workspace);
  for (int64_t unit = first; unit < first + count; unit++) {
    lode_tile tile = {unit * plan->rows, plan->rows, 0, inner};
    if (tile.rows > plan->nrows - tile.row) tile.rows = plan->nrows - tile.row;
    lode_tile_evaluate(state, plan, &tile);
    for (int o = 0; o < plan->program->noutputs; o++) {
      lode_accumulator *a = &set.of[o];
      const char *x = lode_tile_output(state, plan, &tile, o);
      for (int64_t row = 0; row < tile.rows; row += c->sequence, x += c->sequence * inner * a->size) {
        lode_tile reduced = {(tile.row + row) / c->sequence, 1, 0, inner};
        lode_accumulator_begin(a, x);
        lode_feed_rows(a, x, c->sequence);
        store_result(plan, o, &reduced, lode_accumulator_finish(a));
      }
    }
  }
}

lode_status lode_reduce_outer(lode_pass *pass, lode_error *error) {
  lode_plan *plan = &pass->plan;
  int64_t inner = plan->args->inner, elements = lode_plan_elements(plan), each = reduced_rows(plan->args);
  bool moment = lode_program_moments(plan->program);
  cut c = {
      .sequence = each, .length = each, .groups = 1, .kept = plan->nrows / each, .width = inner, .blocks = 1};
  if (plan->cut == LODE_CUT_ROWS && each < CHUNK && 2 * each * inner <= elements && c.kept > 1) {
    int64_t sequences = elements / (each * inner);
    if (sequences > c.kept) sequences = c.kept;
    pass->plan_bytes = lode_plan_size(plan, sequences * each, inner);
    pass->units = ceiling(c.kept, sequences);
    pass->unit = outer_short_units;
    pass->form = &c;
    return lode_pass_run(pass, accumulators_bytes(plan, inner, 1), error);
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
  if (moment && plan->nworking == 0 && plan->cut == LODE_CUT_ROWS && rows < BLOCK_ROWS) rows = BLOCK_ROWS;
  if (rows > each) rows = each;
  pass->plan_bytes = lode_plan_size(plan, rows, c.width);
  cut_groups(&c, c.kept * c.blocks, pass->threads);
  pass->units = c.kept * c.blocks * c.groups;
  pass->unit = outer_units;
  return run_groups(pass, &c, error);
}
