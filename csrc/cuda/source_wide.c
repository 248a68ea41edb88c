/* The text of passes by wide rows: a block works on some rows at a time. Results of
 * operations that gathers read lie in shared memory, one array for each; everything else
 * is made where it is used, by the thread that makes an element of
 *
 *   a site   a value that is kept: one of those arrays, or the program's result
 *
 * so a site's text has the values that it needs, down to memory, constants, and sites
 * before it. Elements of memory that a gather reads are read by their index. */
#include <stdio.h>
#include <string.h>

#include "source.h"

enum { BLOCK_ELEMENTS = 2048, MOST_ROWS = 32, LANE_BYTES = 16 * 8 };

/* ---- sites and their places ------------------------------------------------------ */

static bool is_computed(const lode_value *value) {
  return value->kind == LODE_VALUE_OP || value->kind == LODE_VALUE_CAST;
}

static void need_operands(const lode_layout *layout, int v, uint8_t need[LODE_MAX_VALUES]) {
  const lode_value *value = &layout->program->value[v];
  for (int k = 0; k < lode_layout_arity(value); k++) need[value->a[k]] |= LODE_NEED_VALUE;
  if (value->kind != LODE_VALUE_GATHER) return;
  for (int g = value->first; g < value->first + value->count; g++)
    need[layout->program->segment[g].source] |= LODE_NEED_SOURCE;
}

void lode_wide_needs(const lode_layout *layout, int site, uint8_t need[LODE_MAX_VALUES]) {
  memset(need, LODE_NEED_NOT, LODE_MAX_VALUES);
  need[site] = LODE_NEED_VALUE;
  for (int v = site; v >= 0; v--)
    if ((need[v] & LODE_NEED_VALUE) != 0 && (v == site || layout->slot[v] < 0)) need_operands(layout, v, need);
}

/* Marks what gathers read. The result is a site in any case, and has no slot. */
static void find_sites(lode_layout *layout) {
  const lode_program *program = layout->program;
  memset(layout->slot, -1, sizeof layout->slot);
  for (int g = 0; g < program->nsegments; g++) {
    int source = program->segment[g].source;
    if (is_computed(&program->value[source])) layout->slot[source] = 0;
  }
}

static void find_last_sites(const lode_layout *layout, int last[LODE_MAX_VALUES]) {
  int result = layout->program->nvalues - 1;
  for (int site = 0; site <= result; site++) {
    if (site != result && layout->slot[site] < 0) continue;
    uint8_t need[LODE_MAX_VALUES];
    lode_wide_needs(layout, site, need);
    for (int v = 0; v <= site; v++)
      if (need[v] != LODE_NEED_NOT) last[v] = site;
  }
}

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

static void place_sites(lode_layout *layout) {
  const lode_program *program = layout->program;
  int last[LODE_MAX_VALUES], count = 0, result = program->nvalues - 1;
  interval used[LODE_MAX_VALUES];
  find_last_sites(layout, last);
  layout->row_bytes = layout->result = 0;
  for (int site = 0; site <= result; site++) {
    bool reduced = site == result && program->form == LODE_REDUCE_INNER;
    if (layout->slot[site] < 0 && !reduced) continue;
    int32_t bytes = reduced ? (int32_t)(layout->args->inner * 8) : bytes_of_row(layout, site);
    int32_t at = place(used, &count, bytes, site, last[site]);
    if (reduced) layout->result = at;
    else layout->slot[site] = at;
    if (at + bytes > layout->row_bytes) layout->row_bytes = at + bytes;
  }
  if (program->form == LODE_REDUCE_INNER) layout->row_bytes += LANE_BYTES; /* behind all else */
}

void lode_wide_place(lode_layout *layout) {
  lode_structure *s = &layout->structure;
  find_sites(layout);
  place_sites(layout);
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
    for (int k = 0; k < lode_layout_arity(value); k++) lode_write(w, k == 0 ? "v%d" : ", v%d", value->a[k]);
    lode_write(w, ")");
  } else {
    lode_write_leaf(w, layout, v, "base", column);
  }
  lode_write(w, ";\n");
}

/* ---- sites ---------------------------------------------------------------------------- */

static void write_site(lode_writer *w, const lode_layout *layout, int site) {
  const lode_structure *s = &layout->structure;
  bool result = site == s->nvalues - 1;
  int width = result ? s->inner : layout->width[site];
  uint8_t need[LODE_MAX_VALUES];
  lode_wide_needs(layout, site, need);
  lode_write(w, "    for (uint32_t t = LODE_THREAD; t < rows * %d; t += LODE_THREADS) {\n", width);
  lode_write(w, "      const uint32_t q = t / %d;\n      const int32_t j = (int32_t)(t - q * %d);\n", width,
             width);
  lode_write(w, "      const lode_base base = lode_at(p, row0 + (I)q);\n");
  for (int v = 0; v <= site; v++)
    if ((need[v] & LODE_NEED_VALUE) != 0) write_value(w, layout, v, v != site && layout->slot[v] >= 0);
  if (!result) {
    lode_write(w, "      m%d[t] = v%d;\n    }\n    LODE_SYNC();\n", site, site);
  } else if (s->form == LODE_REDUCE_INNER) {
    lode_write(w, "      row[t] = v%d;\n    }\n    LODE_SYNC();\n", site);
  } else {
    lode_write(w, "      (");
    lode_write_pointer(w, layout, LODE_OUT, (lode_dtype)s->dtype);
    lode_write(w, ")[");
    lode_write_index(w, layout, LODE_OUT, "base", "j");
    lode_write(w, "] = v%d;\n    }\n", site);
  }
}

/* Rows in shared memory are reduced lane by lane, then folded, a thread for each row. */
static void write_reduction(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  const char *T = lode_source_types[s->dtype];
  lode_write(w,
             "    for (uint32_t t = LODE_THREAD; t < rows * LODE_LANES; t += LODE_THREADS) {\n"
             "      const uint32_t q = t / LODE_LANES;\n      %s x = lode_job::identity();\n",
             T);
  lode_write(w,
             "      for (uint32_t e = t %% LODE_LANES; e < %d; e += LODE_LANES) x = lode_job::combine(x, row[q "
             "* %d + e]);\n",
             s->inner, s->inner);
  lode_write(w, "      lanes[t] = x;\n    }\n    LODE_SYNC();\n");
  lode_write(w,
             "    for (uint32_t q = LODE_THREAD; q < rows; q += LODE_THREADS) {\n"
             "      const lode_base base = lode_at(p, row0 + (I)q);\n      %s lane[LODE_LANES];\n",
             T);
  lode_write(w, "      LODE_UNROLL\n      for (uint32_t k = 0; k < LODE_LANES; k++) lane[k] = lanes[q * "
                "LODE_LANES + k];\n      (");
  lode_write_pointer(w, layout, LODE_OUT, (lode_dtype)s->dtype);
  lode_write(w, ")[");
  lode_write_index(w, layout, LODE_OUT, "base", "0");
  lode_write(w, "] = lode_fold<lode_job, LODE_LANES>(lane);\n    }\n");
}

/* ---- the kernel -------------------------------------------------------------------------- */

static void write_array(lode_writer *w, const lode_layout *layout, lode_dtype dtype, const char *name, int v,
                        int32_t at) {
  const char *T = lode_source_types[dtype];
  lode_write(w, "  %s *const %s", T, name);
  if (v >= 0) lode_write(w, "%d", v);
  lode_write(w, " = (%s *)(memory + %d);\n", T, at * layout->structure.rows);
}

static void write_arrays(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  int bytes = layout->row_bytes * s->rows;
  if (s->global) {
    lode_write(w, "  char *const memory = p.b[%d] + (int64_t)LODE_BLOCK * %d;\n", layout->at_workspace, bytes);
  } else {
    lode_write(w, "  LODE_SHARED uint64_t shared[%d];\n  char *const memory = (char *)shared;\n",
               bytes > 0 ? bytes / 8 : 1);
  }
  for (int v = 0; v < s->nvalues; v++)
    if (layout->slot[v] >= 0)
      write_array(w, layout, (lode_dtype)layout->program->value[v].dtype, "m", v, layout->slot[v]);
  if (s->form != LODE_REDUCE_INNER) return;
  write_array(w, layout, (lode_dtype)s->dtype, "row", -1, layout->result);
  write_array(w, layout, (lode_dtype)s->dtype, "lanes", -1, layout->row_bytes - LANE_BYTES);
}

void lode_source_wide(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  int result = s->nvalues - 1;
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n");
  write_arrays(w, layout);
  lode_write(w, "  const int64_t first = p.w[%d], count = p.w[%d];\n", layout->at_first, layout->at_count);
  lode_write(
      w, "  for (int64_t done = (int64_t)LODE_BLOCK * %d; done < count; done += (int64_t)LODE_BLOCKS * %d) {\n",
      s->rows, s->rows);
  lode_write(w,
             "    const I row0 = (I)(first + done);\n"
             "    const uint32_t rows = count - done < %d ? (uint32_t)(count - done) : %d;\n",
             s->rows, s->rows);
  for (int v = 0; v < result; v++)
    if (layout->slot[v] >= 0) write_site(w, layout, v);
  write_site(w, layout, result);
  if (s->form == LODE_REDUCE_INNER) write_reduction(w, layout);
  lode_write(w, "    LODE_SYNC();\n  }\n}\n");
}
