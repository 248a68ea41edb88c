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
    lode_write_pointer(w, layout, value->index, (lode_dtype)value->dtype);
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
  for (int k = 0; k < lode_layout_arity(value); k++) {
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

static void write_value(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  lode_write(w, "      %s v%d", lode_source_types[value->dtype], v);
  if (is_array(layout, v)) lode_write(w, "[%d]", (int)layout->width[v]);
  lode_write(w, ";\n");
  if (value->kind == LODE_VALUE_GATHER) {
    write_gather(w, layout, v);
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

/* ---- the result --------------------------------------------------------------------- */

/* The last value as an array "row", also where it is one element. */
static void write_row(lode_writer *w, const lode_layout *layout) {
  int last = layout->structure.nvalues - 1, width = layout->structure.inner;
  lode_write(w, "      %s row[%d];\n", lode_source_types[layout->structure.dtype], width);
  write_loop(w, 0, width);
  lode_write(w, "row[j] = ");
  write_element(w, layout, last, "j");
  lode_write(w, ";\n");
}

static int out_tile(const lode_layout *layout) {
  const lode_access_class *out = &layout->structure.access[LODE_OUT];
  return out->tile > 0 ? out->tile - 1 : LODE_OUT;
}

static void write_result(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  const lode_access_class *out = &s->access[LODE_OUT];
  write_row(w, layout);
  if (out->staged != LODE_STAGE_NONE) {
    lode_write(w, "      lode_write_row<%d>(s%d + t * %d, row);\n", out->vector, out_tile(layout),
               lode_layout_pitch(layout, LODE_OUT, s->inner));
    return;
  }
  if (s->form == LODE_REDUCE_INNER) {
    lode_write(w, "      (");
  } else if (out->vector > 1) {
    lode_write(w, "      lode_write_row<%d>(", out->vector);
  } else {
    write_loop(w, 0, s->inner);
    lode_write(w, "(");
  }
  lode_write_pointer(w, layout, LODE_OUT, (lode_dtype)s->dtype);
  if (s->form == LODE_REDUCE_INNER) {
    lode_write(w, ")[");
    lode_write_index(w, layout, LODE_OUT, "base", "0");
    lode_write(w, "] = lode_reduce_row<lode_job>(row);\n");
  } else if (out->vector > 1) {
    lode_write(w, " + (");
    lode_write_index(w, layout, LODE_OUT, "base", "0");
    lode_write(w, "), row);\n");
  } else {
    lode_write(w, ")[");
    lode_write_index(w, layout, LODE_OUT, "base", "j");
    lode_write(w, "] = row[j];\n");
  }
}

/* ---- staging ----------------------------------------------------------------------------- */

static int width_of_access(const lode_layout *layout, int a) {
  if (a == LODE_OUT) return layout->structure.inner;
  for (int v = 0; v < layout->structure.nvalues; v++)
    if (layout->program->value[v].kind == LODE_VALUE_ACCESS && layout->program->value[v].index == a)
      return layout->width[v];
  return 1;
}

static lode_dtype dtype_of_access(const lode_layout *layout, int a) {
  for (int v = 0; v < layout->structure.nvalues; v++)
    if (a != LODE_OUT && layout->program->value[v].kind == LODE_VALUE_ACCESS &&
        layout->program->value[v].index == a)
      return (lode_dtype)layout->program->value[v].dtype;
  return (lode_dtype)layout->structure.dtype;
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
  if (a == LODE_OUT) lode_write(w, "    lode_unstage<%d, %d, %d, %s>(", width, pitch, class->vector, block);
  else
    lode_write(w, "    lode_stage<%d, %d, %d, %d, %s>(s%d, ", layout->structure.rows, width, pitch,
               class->vector, block, a);
  lode_write_pointer(w, layout, a, dtype_of_access(layout, a));
  lode_write(w, " + row0 * ");
  write_row_stride(w, layout, a);
  if (a == LODE_OUT)
    lode_write(w, ", (const %s *)s%d", lode_source_types[layout->structure.dtype], out_tile(layout));
  lode_write(w, ", rows, ");
  write_row_stride(w, layout, a);
  lode_write(w, ");\n");
}

/* ---- the kernel ------------------------------------------------------------------------------ */

void lode_source_rows(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  bool reads = false, writes = is_staged(layout, LODE_OUT);
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n");
  write_tiles(w, layout);
  lode_write(w, "  const int64_t first = p.w[%d], count = p.w[%d];\n", layout->at_first, layout->at_count);
  lode_write(
      w, "  for (int64_t done = (int64_t)LODE_BLOCK * %d; done < count; done += (int64_t)LODE_BLOCKS * %d) {\n",
      s->rows, s->rows);
  lode_write(w,
             "    const I row0 = (I)(first + done);\n"
             "    const uint32_t rows = count - done < %d ? (uint32_t)(count - done) : %d;\n",
             s->rows, s->rows);
  for (int a = 0; a < LODE_MAX_ACCESSES; a++) {
    if (!is_staged(layout, a)) continue;
    write_move(w, layout, a);
    reads = true;
  }
  if (reads) lode_write(w, "    LODE_SYNC();\n");
  lode_write(w, "    for (uint32_t t = LODE_THREAD; t < rows; t += LODE_THREADS) {\n"
                "      const lode_base base = lode_at(p, row0 + (I)t);\n");
  for (int v = 0; v < s->nvalues; v++) write_value(w, layout, v);
  write_result(w, layout);
  lode_write(w, "    }\n");
  if (writes) {
    lode_write(w, "    LODE_SYNC();\n");
    write_move(w, layout, LODE_OUT);
  }
  if (reads || writes) lode_write(w, "    LODE_SYNC();\n");
  lode_write(w, "  }\n}\n");
}
