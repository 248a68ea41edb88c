/* The text of passes by wide rows: a block works on some rows at a time. A value that
 * is kept lies in shared memory, one array for each; everything else is made where it
 * is used, by the thread that makes an element of a site. A site is the evaluation of
 *
 *   a kept value     what gathers read of operations; rows that several sites use; a
 *                    value of one element a row that whole rows use; every reduction
 *   the outputs      those of whole rows together, and those of one element a row
 *
 * so a site's text has the values that it needs, down to memory, constants and values
 * kept before it. Elements of memory that a gather reads are read by their index. */
#include <stdio.h>
#include <string.h>

#include "../core/reduce.h"
#include "kernels.h"
#include "source.h"

enum {
  BLOCK_ELEMENTS = 2048,
  MOST_ROWS = 32,
  WARP = 32,
  LANE_PITCH = LODE_REDUCE_LANES + 1, /* rows of lanes begin in different banks */
  ROWS_SITE = LODE_MAX_VALUES,        /* the outputs of whole rows; values are sites by their own number */
  ELEMENTS_SITE,                      /* and those of one element a row */
  SEVERAL_SITES,
  NO_SITE
};

/* ---- what is kept -------------------------------------------------------------------- */

static bool is_computed(const lode_value *value) { return lode_value_arity(value) > 0; }

/* The site that uses each value. */
typedef struct uses {
  uint8_t site[LODE_MAX_VALUES];
  bool gathered[LODE_MAX_VALUES]; /* read by a gather, at any column */
  bool widened[LODE_MAX_VALUES];  /* one element a row, used along the row */
} uses;

static void use(const lode_layout *layout, uses *u, int v, int site, int32_t width) {
  u->site[v] = u->site[v] == NO_SITE || u->site[v] == site ? (uint8_t)site : SEVERAL_SITES;
  if (layout->width[v] == 1 && width > 1) u->widened[v] = true;
}

static void use_operands(const lode_layout *layout, uses *u, int v, int site) {
  const lode_value *value = &layout->program->value[v];
  for (int k = 0; k < lode_value_arity(value); k++) use(layout, u, value->a[k], site, layout->width[v]);
  if (value->kind != LODE_VALUE_GATHER) return;
  for (int g = value->first; g < value->first + value->count; g++) {
    use(layout, u, layout->program->segment[g].source, site, layout->width[v]);
    u->gathered[layout->program->segment[g].source] = true;
  }
}

static bool is_kept(const lode_layout *layout, const uses *u, int v, bool spare) {
  const lode_value *value = &layout->program->value[v];
  if (value->kind == LODE_VALUE_REDUCE) return true;
  if (!is_computed(value)) return false;
  return u->gathered[v] || u->widened[v] || (!spare && layout->width[v] > 1 && u->site[v] == SEVERAL_SITES);
}

/* Kept values get slot 0. `spare`: rows that can be made again are. */
static void find_kept(lode_layout *layout, bool spare) {
  const lode_structure *s = &layout->structure;
  uses u;
  memset(&u, 0, sizeof u);
  memset(u.site, NO_SITE, sizeof u.site);
  memset(layout->slot, -1, sizeof layout->slot);
  for (int o = 0; o < s->noutputs; o++) {
    int32_t width = layout->width[s->output[o]];
    use(layout, &u, s->output[o], width > 1 ? ROWS_SITE : ELEMENTS_SITE, width);
  }
  for (int v = s->nvalues - 1; v >= 0; v--) {
    if (u.site[v] == NO_SITE) continue;
    bool kept = is_kept(layout, &u, v, spare);
    if (kept) layout->slot[v] = 0;
    use_operands(layout, &u, v, kept ? v : u.site[v]);
  }
}

/* What a site has of a value: its element at the site's own column, or any, that a gather reads by index. */
enum { NEEDS_ELEMENT = 1, NEEDS_ROW = 2 };

/* What a site needs of the values before: `need` has its own set. */
static void find_needs(const lode_layout *layout, int site, uint8_t need[LODE_MAX_VALUES]) {
  for (int v = layout->structure.nvalues - 1; v >= 0; v--) {
    const lode_value *value = &layout->program->value[v];
    if ((need[v] & NEEDS_ELEMENT) == 0 || (layout->slot[v] >= 0 && v != site)) continue;
    for (int k = 0; k < lode_value_arity(value); k++) need[value->a[k]] |= NEEDS_ELEMENT;
    if (value->kind != LODE_VALUE_GATHER) continue;
    for (int g = value->first; g < value->first + value->count; g++)
      need[layout->program->segment[g].source] |= NEEDS_ROW;
  }
}

static void need_site(const lode_layout *layout, int site, uint8_t need[LODE_MAX_VALUES]) {
  const lode_structure *s = &layout->structure;
  memset(need, 0, LODE_MAX_VALUES);
  if (site < LODE_MAX_VALUES) need[site] = NEEDS_ELEMENT;
  for (int o = 0; o < s->noutputs; o++)
    if ((layout->width[s->output[o]] > 1 ? ROWS_SITE : ELEMENTS_SITE) == site)
      need[s->output[o]] = NEEDS_ELEMENT;
  find_needs(layout, site, need);
}

/* ---- places in shared memory ------------------------------------------------------------- */

typedef struct interval {
  int32_t from, to;
  int last; /* the site after which it is free */
} interval;

/* The lowest place that no array in use has. */
static int32_t place(interval *used, int *count, int32_t bytes, int site, int last) {
  int32_t from = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < *count; i++) {
      if (used[i].last < site || used[i].to <= from || used[i].from >= from + bytes) continue;
      from = used[i].to;
      moved = true;
    }
  }
  used[(*count)++] = (interval){from, from + bytes, last};
  return from;
}

static int32_t bytes_of_row(const lode_layout *layout, int v) {
  int32_t bytes = layout->width[v] * (int32_t)lode_dtype_size((lode_dtype)layout->program->value[v].dtype);
  return (bytes + 7) / 8 * 8;
}

static int chunks_of(const lode_layout *layout, int v) {
  int32_t width = layout->width[layout->program->value[v].a[0]];
  return (width + LODE_REDUCE_CHUNK - 1) / LODE_REDUCE_CHUNK;
}

static void find_last_sites(const lode_layout *layout, int last[LODE_MAX_VALUES]) {
  uint8_t need[LODE_MAX_VALUES];
  for (int site = 0; site <= ELEMENTS_SITE; site++) {
    if (site < LODE_MAX_VALUES && (site >= layout->structure.nvalues || layout->slot[site] < 0)) continue;
    need_site(layout, site, need);
    for (int v = 0; v < layout->structure.nvalues; v++)
      if (need[v] != 0) last[v] = site;
  }
}

static void place_kept(lode_layout *layout) {
  int last[LODE_MAX_VALUES], count = 0, chunks = 0;
  interval used[LODE_MAX_VALUES];
  find_last_sites(layout, last);
  layout->row_bytes = 0;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    if (layout->slot[v] < 0) continue;
    int32_t bytes = bytes_of_row(layout, v);
    layout->slot[v] = place(used, &count, bytes, v, last[v]);
    if (layout->slot[v] + bytes > layout->row_bytes) layout->row_bytes = layout->slot[v] + bytes;
    if (layout->program->value[v].kind == LODE_VALUE_REDUCE && chunks_of(layout, v) > chunks)
      chunks = chunks_of(layout, v);
  }
  layout->lanes = layout->row_bytes;
  layout->row_bytes += chunks * LANE_PITCH * 8;
}

void lode_wide_place(lode_layout *layout) {
  lode_structure *s = &layout->structure;
  for (int spare = 0; spare < 2; spare++) {
    find_kept(layout, spare != 0);
    place_kept(layout);
    if (layout->row_bytes <= LODE_SHARED_BYTES) break;
  }
  s->global = layout->row_bytes > LODE_SHARED_BYTES;
  int rows = MOST_ROWS;
  while (rows > 1 && (rows * s->inner > BLOCK_ELEMENTS || rows * layout->row_bytes > LODE_SHARED_BYTES))
    rows /= 2;
  s->rows = (uint16_t)rows;
}

/* ---- values at a column ------------------------------------------------------------- */

/* An element of an array in shared memory, at row q. */
static void write_kept(lode_writer *w, const lode_layout *layout, int v, const char *column) {
  if (layout->width[v] > 1) lode_write(w, "m%d[q * %d + (%s)]", v, (int)layout->width[v], column);
  else lode_write(w, "m%d[q]", v);
}

static void write_source(lode_writer *w, const lode_layout *layout, int v, const char *column) {
  if (layout->slot[v] >= 0) write_kept(w, layout, v, column);
  else lode_write_leaf(w, layout, v, "base", column);
}

/* Segments are in order and cover the row. */
static void write_gather(lode_writer *w, const lode_layout *layout, int v, const char *column) {
  const lode_value *value = &layout->program->value[v];
  int last = value->first + value->count - 1;
  lode_write(w, "      %s v%d;\n", lode_source_types[value->dtype], v);
  for (int g = value->first; g <= last; g++) {
    const lode_segment *s = &layout->program->segment[g];
    lode_text from;
    snprintf(from.text, sizeof from.text, "%d + %d * ((int32_t)%s - %d)", (int)s->start, (int)s->step, column,
             (int)s->lo);
    lode_write(w, g == value->first ? "      " : "      else ");
    if (g < last) lode_write(w, "if (%s < %d) ", column, (int)s->hi);
    lode_write(w, "v%d = ", v);
    write_source(w, layout, s->source, from.text);
    lode_write(w, ";\n");
  }
}

static void write_value(lode_writer *w, const lode_layout *layout, int v, bool kept) {
  const lode_value *value = &layout->program->value[v];
  const char *column = layout->width[v] > 1 ? "j" : "0";
  if (!kept && value->kind == LODE_VALUE_GATHER) {
    write_gather(w, layout, v, column);
    return;
  }
  lode_write(w, "      const %s v%d = ", lode_source_types[value->dtype], v);
  if (kept) {
    write_kept(w, layout, v, column);
  } else if (is_computed(value)) {
    lode_text name;
    lode_write(w, "%s(", lode_source_function(layout, v, &name));
    for (int k = 0; k < lode_value_arity(value); k++) lode_write(w, k == 0 ? "v%d" : ", v%d", value->a[k]);
    lode_write(w, ")");
  } else {
    lode_write_leaf(w, layout, v, "base", column);
  }
  lode_write(w, ";\n");
}

/* The values that a site needs, at column j; what only a gather reads is read there. */
static void write_needs(lode_writer *w, const lode_layout *layout, int site) {
  uint8_t need[LODE_MAX_VALUES];
  need_site(layout, site, need);
  for (int v = 0; v < layout->structure.nvalues; v++) {
    bool reduced = v == site && layout->program->value[v].kind == LODE_VALUE_REDUCE;
    if ((need[v] & NEEDS_ELEMENT) != 0 && !reduced)
      write_value(w, layout, v, v != site && layout->slot[v] >= 0);
  }
}

/* ---- sites ---------------------------------------------------------------------------- */

/* Threads that share a row whose length is a parameter: a block's rows keep all threads busy, and neighbours
 * read neighbouring elements. */
static int threads_of_row(const lode_layout *layout) {
  int threads = LODE_BLOCK_THREADS / layout->structure.rows;
  return threads < WARP ? WARP : threads;
}

/* A loop over the elements of rows that are `width` wide; returns how many braces end it. */
static int write_site_loop(lode_writer *w, const lode_layout *layout, int width) {
  if (layout->structure.any_row && width > 1) {
    int threads = threads_of_row(layout);
    lode_write(w,
               "    for (uint32_t t = LODE_THREAD; t < rows * %d; t += LODE_THREADS) {\n"
               "      const uint32_t q = t / %d;\n      const lode_base base = lode_at(p, row0 + (I)q);\n",
               threads, threads);
    lode_write(w, "      LODE_AHEAD\n      for (int32_t j = (int32_t)(t %% %d); j < row; j += %d) {\n", threads,
               threads);
    return 2;
  }
  lode_write(w, "    for (uint32_t t = LODE_THREAD; t < rows * %d; t += LODE_THREADS) {\n", width);
  lode_write(w, "      const uint32_t q = t / %d;\n      const int32_t j = (int32_t)(t - q * %d);\n", width,
             width);
  lode_write(w, "      const lode_base base = lode_at(p, row0 + (I)q);\n");
  return 1;
}

static void end_site_loop(lode_writer *w, int braces) {
  while (braces-- > 0) lode_write(w, "    }\n");
}

static void write_kept_site(lode_writer *w, const lode_layout *layout, int v) {
  int braces = write_site_loop(w, layout, (int)layout->width[v]);
  write_needs(w, layout, v);
  lode_write(w, "      ");
  write_kept(w, layout, v, "j");
  lode_write(w, " = v%d;\n", v);
  end_site_loop(w, braces);
  lode_write(w, "    LODE_SYNC();\n");
}

/* Each lane of each chunk by a thread; then a thread folds the lanes of a row and combines its chunks. */
static void write_reduction(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  int width = (int)layout->width[value->a[0]], chunks = chunks_of(layout, v);
  const char *T = lode_source_types[value->dtype];
  lode_text job;
  lode_source_function(layout, v, &job);
  lode_write(w,
             "    for (uint32_t t = LODE_THREAD; t < rows * %d; t += LODE_THREADS) {\n"
             "      const uint32_t q = t / %d, lane = t %% LODE_LANES, chunk = t / LODE_LANES %% %d;\n"
             "      const lode_base base = lode_at(p, row0 + (I)q);\n",
             chunks * LODE_REDUCE_LANES, chunks * LODE_REDUCE_LANES, chunks);
  lode_text length;
  if (layout->structure.any_row) snprintf(length.text, sizeof length.text, "row");
  else snprintf(length.text, sizeof length.text, "%d", width);
  lode_write(w,
             "      const int32_t last = ((int32_t)chunk + 1) * LODE_CHUNK, end = last < %s ? last : %s;\n"
             "      %s x = %s::identity();\n      LODE_AHEAD\n"
             "      for (int32_t j = (int32_t)(chunk * LODE_CHUNK + lane); j < end; j += LODE_LANES) {\n",
             length.text, length.text, T, job.text);
  write_needs(w, layout, v);
  lode_write(w,
             "      x = %s::combine(x, v%d);\n      }\n      ((%s *)lanes)[t / LODE_LANES * %d + lane] = x;\n",
             job.text, value->a[0], T, LANE_PITCH);
  lode_write(w, "    }\n    LODE_SYNC();\n");
  lode_write(w,
             "    for (uint32_t q = LODE_THREAD; q < rows; q += LODE_THREADS)\n"
             "      m%d[q] = lode_reduce_chunks<%s, %d, %d>((const %s *)lanes + q * %d);\n    LODE_SYNC();\n",
             v, job.text, chunks, LANE_PITCH, T, chunks * LANE_PITCH);
}

static void write_outputs(lode_writer *w, const lode_layout *layout, int site) {
  const lode_structure *s = &layout->structure;
  int braces = 0;
  for (int o = 0; o < s->noutputs; o++) {
    int width = (int)layout->width[s->output[o]];
    if ((width > 1 ? ROWS_SITE : ELEMENTS_SITE) != site) continue;
    if (braces == 0) {
      braces = write_site_loop(w, layout, width);
      write_needs(w, layout, site);
    }
    lode_write(w, "      *(");
    lode_write_store(w, layout, o, "base", "j");
    lode_write(w, ") = v%d;\n", s->output[o]);
  }
  end_site_loop(w, braces);
}

/* ---- the kernel -------------------------------------------------------------------------- */

static void write_arrays(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  int bytes = layout->row_bytes * s->rows;
  if (s->global) {
    lode_write(w, "  char *const memory = p.b[%d] + (int64_t)LODE_BLOCK * %d;\n", layout->at_workspace, bytes);
  } else {
    lode_write(w, "  LODE_SHARED uint64_t shared[%d];\n  char *const memory = (char *)shared;\n",
               bytes > 0 ? bytes / 8 : 1);
  }
  for (int v = 0; v < s->nvalues; v++) {
    if (layout->slot[v] < 0) continue;
    const char *T = lode_source_types[layout->program->value[v].dtype];
    lode_write(w, "  %s *const m%d = (%s *)(memory + %d);\n", T, v, T, (int)layout->slot[v] * s->rows);
  }
  lode_write(w, "  char *const lanes = memory + %d;\n", (int)layout->lanes * s->rows);
}

void lode_source_wide(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n");
  write_arrays(w, layout);
  if (s->any_row) lode_write(w, "  const int32_t row = (int32_t)p.w[%d];\n", layout->at_space);
  lode_write(w, "  const int64_t first = p.w[%d], count = p.w[%d];\n", layout->at_first, layout->at_count);
  lode_write(
      w, "  for (int64_t done = (int64_t)LODE_BLOCK * %d; done < count; done += (int64_t)LODE_BLOCKS * %d) {\n",
      s->rows, s->rows);
  lode_write(w,
             "    const I row0 = (I)(first + done);\n"
             "    const uint32_t rows = count - done < %d ? (uint32_t)(count - done) : %d;\n",
             s->rows, s->rows);
  for (int v = 0; v < s->nvalues; v++) {
    if (layout->slot[v] < 0) continue;
    if (layout->program->value[v].kind == LODE_VALUE_REDUCE) write_reduction(w, layout, v);
    else write_kept_site(w, layout, v);
  }
  write_outputs(w, layout, ROWS_SITE);
  write_outputs(w, layout, ELEMENTS_SITE);
  lode_write(w, "    LODE_SYNC();\n  }\n}\n");
}
