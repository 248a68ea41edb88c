/* The text of passes by rows: a thread evaluates a row with all its values in
 * registers, so loops over a row are unrolled and gathers only rename. Rows that lie
 * dense come and go through shared memory, where neighbouring threads move neighbouring
 * vectors. A value v<v> is an array, or one element where all of its row is the same. */
#include "source.h"

#include <stdio.h>

static bool is_array(const lode_layout *layout, int v) { return layout->width[v] > 1; }

/* "v3[j]" or "v3". */
static void write_element(lode_writer *w, const lode_layout *layout, int v, const char *column) {
  if (is_array(layout, v)) lode_write(w, "v%d[%s]", v, column);
  else lode_write(w, "v%d", v);
}

static void write_loop(lode_writer *w, int from, int to) {
  lode_write(w, "      LODE_UNROLL\n      for (int j = %d; j < %d; j++) ", from, to);
}

/* ---- values ----------------------------------------------------------------------- */

static void write_access(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  const lode_access_class *class = &layout->structure.access[value->index];
  int vector = value->kind == LODE_VALUE_ACCESS ? class->vector : 1, width = layout->width[v];
  if (class->staged != LODE_STAGE_NONE) {
    lode_write(w, "      lode_read_row<%d>(v%d, s%d + t * %d);\n", vector, v, value->index,
               lode_layout_pitch(layout, value->index, width));
  } else if (vector > 1) {
    lode_write(w,
               "      LODE_UNROLL\n      for (int j = 0; j < %d; j += %d) {\n        const lode_vector<%s, %d> "
               "x = lode_load_vector<%d>(",
               width, vector, lode_source_types[value->dtype], vector, vector);
    lode_write_pointer(w, layout, value->index);
    lode_write(w, " + (");
    lode_write_index(w, layout, value->index, "base", "j");
    lode_write(w,
               "));\n        LODE_UNROLL\n        for (int e = 0; e < %d; e++) v%d[j + e] = x.v[e];\n      }\n",
               vector, v);
  } else {
    write_loop(w, 0, width);
    lode_write(w, "v%d[j] = ", v);
    lode_write_leaf(w, layout, v, "base", "j");
    lode_write(w, ";\n");
  }
}

static void write_operation(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  lode_text name;
  write_element(w, layout, v, "j");
  lode_write(w, " = %s(", lode_source_function(layout, v, &name));
  for (int k = 0; k < lode_value_arity(value); k++) {
    if (k > 0) lode_write(w, ", ");
    write_element(w, layout, value->a[k], "j");
  }
  lode_write(w, ");\n");
}

static void write_gather(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  for (int g = value->first; g < value->first + value->count; g++) {
    const lode_segment *s = &layout->program->segment[g];
    lode_text column;
    snprintf(column.text, sizeof column.text, "%d + %d * (j - %d)", (int)s->start, (int)s->step, (int)s->lo);
    if (is_array(layout, v)) {
      write_loop(w, s->lo, s->hi);
    } else {
      snprintf(column.text, sizeof column.text, "%d", (int)s->start);
      lode_write(w, "      ");
    }
    write_element(w, layout, v, "j");
    lode_write(w, " = ");
    write_element(w, layout, s->source, column.text);
    lode_write(w, ";\n");
  }
}

static void write_reduction(lode_writer *w, const lode_layout *layout, int v) {
  int source = layout->program->value[v].a[0];
  lode_text name;
  lode_write(w, "      v%d = lode_reduce_row<%s>(v%d);\n", v, lode_source_function(layout, v, &name), source);
}

static void write_value(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  lode_write(w, "      %s v%d", lode_source_types[value->dtype], v);
  if (is_array(layout, v)) lode_write(w, "[%d]", (int)layout->width[v]);
  lode_write(w, ";\n");
  if (value->kind == LODE_VALUE_GATHER) {
    write_gather(w, layout, v);
  } else if (value->kind == LODE_VALUE_REDUCE) {
    write_reduction(w, layout, v);
  } else if (value->kind == LODE_VALUE_OP || value->kind == LODE_VALUE_CAST) {
    if (is_array(layout, v)) write_loop(w, 0, layout->width[v]);
    else lode_write(w, "      ");
    write_operation(w, layout, v);
  } else if (is_array(layout, v)) {
    write_access(w, layout, v);
  } else {
    lode_write(w, "      v%d = ", v);
    lode_write_leaf(w, layout, v, "base", "0");
    lode_write(w, ";\n");
  }
}

/* ---- outputs ------------------------------------------------------------------------ */

static int tile_of_output(const lode_layout *layout, int o) {
  const lode_access_class *out = &layout->structure.access[LODE_OUT + o];
  return out->tile > 0 ? out->tile - 1 : LODE_OUT + o;
}

static void write_output(lode_writer *w, const lode_layout *layout, int o) {
  const lode_structure *s = &layout->structure;
  const lode_access_class *out = &s->access[LODE_OUT + o];
  int v = s->output[o];
  if (out->staged != LODE_STAGE_NONE) {
    lode_write(w, "      lode_write_row<%d>(s%d + t * %d, v%d);\n", out->vector, tile_of_output(layout, o),
               lode_layout_pitch(layout, LODE_OUT + o, layout->width[v]), v);
    return;
  }
  if (out->vector > 1) {
    lode_write(w, "      lode_write_row<%d>(", out->vector);
    lode_write_store(w, layout, o, "base", "0");
    lode_write(w, ", v%d);\n", v);
    return;
  }
  if (is_array(layout, v)) write_loop(w, 0, layout->width[v]);
  else lode_write(w, "      ");
  lode_write(w, "*(");
  lode_write_store(w, layout, o, "base", is_array(layout, v) ? "j" : "0");
  lode_write(w, ") = ");
  write_element(w, layout, v, "j");
  lode_write(w, ";\n");
}

/* ---- staging ----------------------------------------------------------------------------- */

static int width_of_access(const lode_layout *layout, int a) {
  return layout->width[lode_layout_value(layout, a)];
}

static lode_dtype dtype_of_access(const lode_layout *layout, int a) {
  return (lode_dtype)layout->program->value[lode_layout_value(layout, a)].dtype;
}

static bool is_staged(const lode_layout *layout, int a) {
  return layout->structure.access[a].staged != LODE_STAGE_NONE;
}

/* s<a>, aligned for its vectors. */
static void write_tiles(lode_writer *w, const lode_layout *layout) {
  for (int a = 0; a < LODE_PLACES; a++) {
    const lode_access_class *class = &layout->structure.access[a];
    if (!is_staged(layout, a) || class->tile > 0) continue;
    const char *T = lode_source_types[dtype_of_access(layout, a)];
    int pitch = lode_layout_pitch(layout, a, width_of_access(layout, a));
    lode_write(w, "  LODE_SHARED lode_vector<%s, %d> m%d[%d];\n  %s *s%d = (%s *)m%d;\n", T, class->vector, a,
               layout->structure.rows * pitch / class->vector, T, a, T, a);
  }
}

/* The stride between rows, which is the last dim's. */
static void write_row_stride(lode_writer *w, const lode_layout *layout, int a) {
  const lode_structure *s = &layout->structure;
  int last = s->nouter - s->nreduced - 1;
  if (s->access[a].staged == LODE_STAGE_BLOCK) lode_write(w, "(I)%d", width_of_access(layout, a));
  else lode_write(w, "(I)p.w[%d]", layout->at_stride[a][last]);
}

static void write_move(lode_writer *w, const lode_layout *layout, int a) {
  const lode_access_class *class = &layout->structure.access[a];
  int width = width_of_access(layout, a), pitch = lode_layout_pitch(layout, a, width);
  const char *block = class->staged == LODE_STAGE_BLOCK ? "true" : "false";
  if (a >= LODE_OUT)
    lode_write(w, "  lode_unstage<%d, %d, %d, %d, %s>(", layout->structure.rows, width, pitch, class->vector,
               block);
  else
    lode_write(w, "  lode_stage<%d, %d, %d, %d, %s>(s%d, ", layout->structure.rows, width, pitch, class->vector,
               block, a);
  lode_write_pointer(w, layout, a);
  lode_write(w, " + row0 * ");
  write_row_stride(w, layout, a);
  if (a >= LODE_OUT)
    lode_write(w, ", (const %s *)s%d", lode_source_types[dtype_of_access(layout, a)],
               tile_of_output(layout, a - LODE_OUT));
  lode_write(w, ", rows, ");
  write_row_stride(w, layout, a);
  lode_write(w, ");\n");
}

/* ---- the kernel ------------------------------------------------------------------------------ */

void lode_source_rows(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  bool reads = false, writes = false;
  for (int o = 0; o < s->noutputs; o++) writes = writes || is_staged(layout, LODE_OUT + o);
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n");
  write_tiles(w, layout);
  lode_write(
      w,
      "  const int64_t done = (int64_t)LODE_BLOCK * %d, left = p.w[%d] - done;\n"
      "  const I row0 = (I)(p.w[%d] + done);\n  const uint32_t rows = left < %d ? (uint32_t)left : %d;\n",
      s->rows, layout->at_count, layout->at_first, s->rows, s->rows);
  for (int a = 0; a < LODE_MAX_ACCESSES; a++) {
    if (!is_staged(layout, a)) continue;
    write_move(w, layout, a);
    reads = true;
  }
  if (reads) lode_write(w, "  LODE_SYNC();\n");
  lode_write(
      w, "  LODE_EACH_THREAD(t, %d) if (t < rows) {\n      const lode_base base = lode_at(p, row0 + (I)t);\n",
      s->rows);
  for (int v = 0; v < s->nvalues; v++) write_value(w, layout, v);
  for (int o = 0; o < s->noutputs; o++) write_output(w, layout, o);
  lode_write(w, "  }\n");
  if (writes) {
    lode_write(w, "  LODE_SYNC();\n");
    for (int o = 0; o < s->noutputs; o++)
      if (is_staged(layout, LODE_OUT + o)) write_move(w, layout, LODE_OUT + o);
  }
  lode_write(w, "}\n");
}
