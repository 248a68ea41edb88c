/* See source.h.
 *
 * A program's text, from top to bottom: the prelude, random.h, elementary.h and the templates where
 * they are used; its parameters; the operations that it uses, made from ops.def; the
 * struct lode_base, which holds for each access where a row begins, and lode_at, which
 * finds it; the job of a reduction; the kernel. Values are called v0, v1, ... */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

/* ---- writing --------------------------------------------------------------------- */

static bool make_room(lode_writer *w, size_t more) {
  if (w->failed) return false;
  if (w->length + more < w->room) return true;
  size_t room = (w->length + more) * 2;
  char *text = realloc(w->text, room);
  if (text == NULL) {
    w->failed = true;
    return false;
  }
  w->text = text;
  w->room = room;
  return true;
}

void lode_write(lode_writer *w, const char *format, ...) {
  va_list list;
  char line[512]; /* all but embedded texts are shorter */
  va_start(list, format);
  int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof line || !make_room(w, (size_t)length + 1)) {
    w->failed = true;
    return;
  }
  memcpy(w->text + w->length, line, (size_t)length + 1);
  w->length += (size_t)length;
}

static void write_text(lode_writer *w, const char *text) {
  size_t length = strlen(text);
  if (!make_room(w, length + 1)) return;
  memcpy(w->text + w->length, text, length + 1);
  w->length += length;
}

/* ---- tables ------------------------------------------------------------------------ */

const char *const lode_source_types[LODE_NDTYPES] = {
#define X(name, text, T, U, kind) [LODE_##name] = #T,
    LODE_DTYPE_MAP(X)
#undef X
};

static const char *const wraps[LODE_NDTYPES] = {
#define X(name, text, T, U, kind) [LODE_##name] = #U,
    LODE_DTYPE_MAP(X)
#undef X
};

static const char *const casts[LODE_NDTYPES] = {
#define X(name, text, T, U, kind) [LODE_##name] = "LODE_CAST_" #name,
    LODE_DTYPE_MAP(X)
#undef X
};

/* An expression keeps its words: they are not expanded where they are made a string. */
static const char *const expressions[LODE_NOPS] = {
#define LODE_UNARY(name, rule, expr)   [LODE_OP_##name] = #expr,
#define LODE_BINARY(name, rule, expr)  [LODE_OP_##name] = #expr,
#define LODE_TERNARY(name, rule, expr) [LODE_OP_##name] = #expr,
#define LODE_COUNTER(name, f32, f64)   [LODE_OP_##name] = #f32,
#include "../core/ops.def"
};

static const char *const counters_f64[LODE_NOPS] = {
#define LODE_COUNTER(name, f32, f64) [LODE_OP_##name] = #f64,
#include "../core/ops.def"
};

static const struct {
  const char *identity, *expression;
} reductions[LODE_NREDUCTIONS] = {
#define LODE_REDUCE(name, rule, identity, expr) [LODE_RED_##name] = {#identity, #expr},
#include "../core/ops.def"
};

/* ---- operations ------------------------------------------------------------------------ */

/* The element type T of an operation's expression: of what is compared, or of the result. */
static lode_dtype element_type(const lode_program *program, const lode_value *value) {
  bool compare = lode_ops[value->op].rule == LODE_RULE_COMPARE;
  return (lode_dtype)(compare ? program->value[value->a[0]].dtype : value->dtype);
}

const char *lode_source_function(const lode_layout *layout, int v, lode_text *text) {
  const lode_value *value = &layout->program->value[v];
  if (value->kind == LODE_VALUE_REDUCE) {
    snprintf(text->text, sizeof text->text, "lode_%s_of_%s", lode_reductions[value->op].name,
             lode_dtype_name((lode_dtype)value->dtype));
    return text->text;
  }
  if (value->kind == LODE_VALUE_CAST) return casts[value->dtype];
  snprintf(text->text, sizeof text->text, "lode_op_%s_%s", lode_ops[value->op].name,
           lode_dtype_name(element_type(layout->program, value)));
  return text->text;
}

static void write_operation(lode_writer *w, const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  lode_rule rule = lode_ops[value->op].rule;
  lode_dtype element = element_type(layout->program, value);
  bool counter = rule == LODE_RULE_COUNTER;
  const char *T = lode_source_types[element], *operand = counter ? "int64_t" : T;
  const char *expression = counter && element == LODE_F64 ? counters_f64[value->op] : expressions[value->op];
  lode_text name;
  lode_write(w, "LODE_DEVICE %s %s(%s a", lode_source_types[value->dtype],
             lode_source_function(layout, v, &name), rule == LODE_RULE_SELECT ? "uint8_t" : operand);
  for (int k = 1; k < lode_ops[value->op].arity; k++) lode_write(w, ", %s %c", operand, "abc"[k]);
  lode_write(w, ") {\n  typedef %s T;\n  typedef %s U;\n  return (%s)(%s);\n}\n", T, wraps[element],
             lode_source_types[value->dtype], expression);
}

/* Each operation and element type once. */
static void write_operations(lode_writer *w, const lode_layout *layout) {
  bool written[LODE_NOPS][LODE_NDTYPES] = {{false}};
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind != LODE_VALUE_OP) continue;
    bool *done = &written[value->op][element_type(layout->program, value)];
    if (!*done) write_operation(w, layout, v);
    *done = true;
  }
}

/* The members of a job (templates.h) that all have. */
static void write_combination(lode_writer *w, int reduction, lode_dtype dtype) {
  lode_write(w, "  typedef %s T;\n  LODE_DEVICE T identity() { return (T)(%s); }\n", lode_source_types[dtype],
             reductions[reduction].identity);
  lode_write(w, "  LODE_DEVICE T combine(T a, T b) {\n    typedef %s U;\n    return (T)(%s);\n  }\n",
             wraps[dtype], reductions[reduction].expression);
}

/* A struct for each reduction of rows and element type, once. */
static void write_reductions(lode_writer *w, const lode_layout *layout) {
  bool written[LODE_NREDUCTIONS][LODE_NDTYPES] = {{false}};
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind != LODE_VALUE_REDUCE || written[value->op][value->dtype]) continue;
    lode_text name;
    lode_write(w, "struct %s {\n", lode_source_function(layout, v, &name));
    write_combination(w, value->op, (lode_dtype)value->dtype);
    lode_write(w, "};\n");
    written[value->op][value->dtype] = true;
  }
}

static bool counts(const lode_layout *layout) {
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind == LODE_VALUE_OP && lode_ops[value->op].rule == LODE_RULE_COUNTER) return true;
  }
  return false;
}

/* ---- indices ------------------------------------------------------------------------------ */

static void write_extent(lode_writer *w, const lode_layout *layout) {
  if (layout->structure.inner != 0) lode_write(w, "%d", (int)layout->structure.inner);
  else lode_write(w, "(I)p.w[%d]", layout->at_space);
}

/* Names i<from>, ... i<to - 1> the indices of `counter` over these dims. Indices are not negative, and
 * division is quicker without a sign. */
static void write_unravel(lode_writer *w, const lode_layout *layout, int from, int to, const char *counter) {
  if (from == to) return;
  lode_write(w, "  N q = (N)%s;\n", counter);
  for (int d = to - 1; d > from; d--) {
    int extent = layout->at_extent[d];
    lode_write(w, "  const I i%d = (I)(q %% (N)p.w[%d]);\n  q /= (N)p.w[%d];\n", d, extent, extent);
  }
  lode_write(w, "  const I i%d = (I)q;\n", from);
}

/* " + (I)p.w[..] * i<d>" for each stride over dims [from, to). */
static void write_strides(lode_writer *w, const lode_layout *layout, int a, int from, int to) {
  for (int d = from; d < to; d++)
    if (layout->structure.access[a].dims & 1u << d)
      lode_write(w, " + (I)p.w[%d] * i%d", layout->at_stride[a][d], d);
}

static unsigned kept_dims(const lode_layout *layout) {
  return (1u << (layout->structure.nouter - layout->structure.nreduced)) - 1;
}

static bool moves_over_rows(const lode_layout *layout, int a) {
  return (layout->structure.access[a].dims & kept_dims(layout)) != 0;
}

static bool is_used(const lode_layout *layout, int a) {
  return a < layout->structure.naccesses || (a >= LODE_OUT && a < LODE_OUT + layout->structure.noutputs);
}

/* struct lode_base and lode_at: where each access is for kept index k. Offsets of numbers are added where they
 * are used. */
static void write_base(lode_writer *w, const lode_layout *layout) {
  int kept = layout->structure.nouter - layout->structure.nreduced;
  lode_write(w, "struct lode_base {\n");
  for (int a = 0; a < LODE_PLACES; a++)
    if (is_used(layout, a) && moves_over_rows(layout, a)) lode_write(w, "  I a%d;\n", a);
  lode_write(w, "};\nLODE_DEVICE lode_base lode_at(const lode_parameters &p, I k) {\n  lode_base base;\n");
  write_unravel(w, layout, 0, kept, "k");
  for (int a = 0; a < LODE_PLACES; a++) {
    if (!is_used(layout, a) || !moves_over_rows(layout, a)) continue;
    lode_write(w, "  base.a%d = 0", a);
    write_strides(w, layout, a, 0, kept);
    lode_write(w, ";\n");
  }
  lode_write(w, "  return base;\n}\n");
}

void lode_write_index(lode_writer *w, const lode_layout *layout, int a, const char *base, const char *column) {
  const lode_structure *s = &layout->structure;
  lode_write(w, "(I)0");
  if (moves_over_rows(layout, a)) lode_write(w, " + %s.a%d", base, a);
  if (a < LODE_OUT) write_strides(w, layout, a, s->nouter - s->nreduced, s->nouter);
  if (s->access[a].inner == LODE_STRIDE_ONE) lode_write(w, " + (I)(%s)", column);
  if (s->access[a].inner == LODE_STRIDE_ANY)
    lode_write(w, " + (I)p.w[%d] * (I)(%s)", layout->at_inner[a], column);
}

void lode_write_pointer(lode_writer *w, const lode_layout *layout, int a) {
  lode_dtype dtype = (lode_dtype)layout->program->value[lode_layout_value(layout, a)].dtype;
  lode_write(w, "(%s%s *)p.b[%d]", a >= LODE_OUT ? "" : "const ", lode_source_types[dtype],
             layout->at_pointer[a]);
}

void lode_write_store(lode_writer *w, const lode_layout *layout, int o, const char *base, const char *column) {
  lode_write_pointer(w, layout, LODE_OUT + o);
  lode_write(w, " + (");
  lode_write_index(w, layout, LODE_OUT + o, base, column);
  lode_write(w, ")");
}

void lode_write_leaf(lode_writer *w, const lode_layout *layout, int v, const char *base, const char *column) {
  const lode_value *value = &layout->program->value[v];
  if (value->kind == LODE_VALUE_CONST) {
    lode_write(w, "lode_constant<%s>(p.w[%d])", lode_source_types[value->dtype],
               layout->at_const[value->index]);
    return;
  }
  if (value->kind == LODE_VALUE_IOTA) {
    lode_write(w, "(p.w[%d] + (int64_t)(", layout->at_offset[value->index]);
  } else {
    lode_write(w, "lode_load(");
    lode_write_pointer(w, layout, value->index);
    lode_write(w, " + (");
  }
  lode_write_index(w, layout, value->index, base, column);
  lode_write(w, "))");
}

/* ---- one element, or a vector of them ---------------------------------------------------------- */

static bool is_leaf(const lode_value *value) {
  return value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA || value->kind == LODE_VALUE_CONST;
}

/* Reads what is read once for all elements of the vector at column j: x<v>. */
static void write_reads(lode_writer *w, const lode_layout *layout, int vector) {
  const lode_program *program = layout->program;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (!is_leaf(value)) continue;
    const char *T = lode_source_types[value->dtype];
    uint8_t inner = value->kind == LODE_VALUE_ACCESS && vector > 1
                        ? layout->structure.access[value->index].inner
                        : LODE_STRIDE_ZERO;
    if (inner == LODE_STRIDE_ANY) {
      lode_write(w, "  lode_vector<%s, %d> x%d;\n  LODE_UNROLL\n  for (int e = 0; e < %d; e++) x%d.v[e] = ", T,
                 vector, v, vector, v);
      lode_write_leaf(w, layout, v, "base", "j + e");
      lode_write(w, ";\n");
    } else if (inner == LODE_STRIDE_ONE) {
      lode_write(w, "  const lode_vector<%s, %d> x%d = lode_load_vector<%d>(", T, vector, v, vector);
      lode_write_pointer(w, layout, value->index);
      lode_write(w, " + (");
      lode_write_index(w, layout, value->index, "base", "j");
      lode_write(w, "));\n");
    } else {
      lode_write(w, "  const %s x%d = ", T, v);
      lode_write_leaf(w, layout, v, "base", "j");
      lode_write(w, ";\n");
    }
  }
}

/* Element e of the vector: v<v>. */
static void write_values(lode_writer *w, const lode_layout *layout, int vector) {
  const lode_program *program = layout->program;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &program->value[v];
    lode_write(w, "    const %s v%d = ", lode_source_types[value->dtype], v);
    if (is_leaf(value)) {
      uint8_t inner =
          value->kind == LODE_VALUE_CONST ? LODE_STRIDE_ZERO : layout->structure.access[value->index].inner;
      bool along = vector > 1 && inner != LODE_STRIDE_ZERO;
      lode_write(w, along && value->kind == LODE_VALUE_ACCESS ? "x%d.v[e]" : "x%d", v);
      if (along && value->kind == LODE_VALUE_IOTA)
        lode_write(w, inner == LODE_STRIDE_ONE ? " + e" : " + p.w[%d] * e", layout->at_inner[value->index]);
    } else {
      lode_text name;
      lode_write(w, "%s(", lode_source_function(layout, v, &name));
      for (int k = 0; k < lode_value_arity(value); k++) lode_write(w, k == 0 ? "v%d" : ", v%d", value->a[k]);
      lode_write(w, ")");
    }
    lode_write(w, ";\n");
  }
}

/* lode_elements<vector>: elements j, ... of the row at `base`, reduced index r; o<o> for each output. */
static void write_elements(lode_writer *w, const lode_layout *layout, int vector) {
  const lode_structure *s = &layout->structure;
  lode_write(w, "struct lode_result%d {\n", vector);
  for (int o = 0; o < s->noutputs; o++)
    lode_write(w, "  lode_vector<%s, %d> o%d;\n", lode_source_types[layout->program->value[s->output[o]].dtype],
               vector, o);
  lode_write(
      w,
      "};\nLODE_DEVICE lode_result%d lode_elements%d(const lode_parameters &p, const lode_base &base, I r, "
      "I j) {\n  lode_result%d result;\n",
      vector, vector, vector);
  write_unravel(w, layout, s->nouter - s->nreduced, s->nouter, "r");
  write_reads(w, layout, vector);
  lode_write(w, "  LODE_UNROLL\n  for (int e = 0; e < %d; e++) {\n", vector);
  write_values(w, layout, vector);
  for (int o = 0; o < s->noutputs; o++) lode_write(w, "    result.o%d.v[e] = v%d;\n", o, s->output[o]);
  lode_write(w, "  }\n  return result;\n}\n");
}

/* Names vector u of a thread: its row k and first element j, clamped to what exists, and whether it does. */
static void write_place(lode_writer *w, const lode_layout *layout, int vector) {
  const lode_structure *s = &layout->structure;
  if (s->tiled) {
    lode_write(
        w,
        "      const N i = from + t, r = row + (N)u, rows = (N)p.w[%d];\n      const bool exists = i < count "
        "&& "
        "r < rows;\n      const I k = (I)(r < rows ? r : rows - 1), j = (I)(i < count ? i : count - 1) * %d;\n",
        layout->at_kept, vector);
    return;
  }
  lode_write(
      w,
      "      const N at = from + (N)(u * %d) + t, i = at < count ? at : count - 1;\n      const bool exists = "
      "at < count;\n",
      LODE_BLOCK_THREADS);
  if (s->nouter == 0) {
    lode_write(w, "      const I k = 0, j = (I)i * %d;\n", vector);
    return;
  }
  lode_write(w, "      const N each = (N)(");
  write_extent(w, layout);
  lode_write(w, " / %d), row = i / each;\n      const I k = (I)row, j = (I)(i - row * each) * %d;\n", vector,
             vector);
}

static void write_element_stores(lode_writer *w, const lode_layout *layout, int vector, const char *result) {
  for (int o = 0; o < layout->structure.noutputs; o++) {
    lode_write(w, "      lode_store_vector<%d>(", vector);
    lode_write_store(w, layout, o, "base", "j");
    lode_write(w, ", %s.o%d);\n", result, o);
  }
}

/* Neighbouring vectors by neighbouring threads. All reads come before all stores; past the end, the last vector
 * is read, and not stored. */
static void write_element_tile(lode_writer *w, const lode_layout *layout, int vector) {
  int unroll = layout->structure.unroll;
  lode_write(w, "  LODE_EACH_THREAD(t, %d) {\n    lode_result%d result[%d];\n", LODE_BLOCK_THREADS, vector,
             unroll);
  for (int store = 0; store < 2; store++) {
    lode_write(w, "    LODE_UNROLL\n    for (int u = 0; u < %d; u++) {\n", unroll);
    write_place(w, layout, vector);
    if (store) lode_write(w, "      if (!exists) continue;\n");
    lode_write(w, "      const lode_base base = lode_at(p, k);\n");
    if (store) write_element_stores(w, layout, vector, "result[u]");
    else lode_write(w, "      result[u] = lode_elements%d(p, base, 0, j);\n", vector);
    lode_write(w, "    }\n");
  }
  lode_write(w, "  }\n");
}

/* One long row may end with less than a vector: `count` vectors are before. */
static void write_element_rest(lode_writer *w, const lode_layout *layout) {
  lode_write(w, "  if (LODE_BLOCK == 0) LODE_EACH_THREAD(t, %d) {\n      const N i = count * %d + t;\n",
             LODE_BLOCK_THREADS, layout->structure.vector);
  lode_write(
      w, "      if (i < total) {\n      const I k = 0, j = (I)i;\n      const lode_base base = lode_at(p, k);\n"
         "      const lode_result1 result = lode_elements1(p, base, 0, j);\n");
  write_element_stores(w, layout, 1, "result");
  lode_write(w, "      }\n  }\n");
}

static void write_elements_kernel(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  int vector = s->vector;
  bool rest = vector > 1 && s->nouter == 0;
  write_elements(w, layout, vector);
  if (rest) write_elements(w, layout, 1);
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n  const N total = (N)(");
  write_extent(w, layout);
  if (s->tiled) {
    lode_write(
        w,
        "), count = total / %d;\n  const uint32_t tiles = (uint32_t)((count + %d) / %d), group = LODE_BLOCK / "
        "tiles;\n  const N row = (N)group * %d, from = (N)(LODE_BLOCK - group * tiles) * %d;\n",
        vector, LODE_BLOCK_THREADS - 1, LODE_BLOCK_THREADS, s->unroll, LODE_BLOCK_THREADS);
  } else {
    lode_write(w, ") * (N)p.w[%d], count = total / %d, from = (N)LODE_BLOCK * %d;\n", layout->at_kept, vector,
               LODE_BLOCK_THREADS * s->unroll);
  }
  if (rest) lode_write(w, "  if (count > 0)\n");
  write_element_tile(w, layout, vector);
  if (rest) write_element_rest(w, layout);
  lode_write(w, "}\n");
}

/* ---- reductions ----------------------------------------------------------------------------------- */

static const char *type_of_output(const lode_layout *layout, int o) {
  return lode_source_types[layout->program->value[layout->structure.output[o]].dtype];
}

/* lode_output<o>: how output o is reduced. */
static void write_outputs(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  for (int o = 0; o < s->noutputs; o++) {
    if (lode_output_moment(layout->program, o)) {
      lode_write(w, "typedef lode_%s<%s> lode_output%d;\n", lode_reductions[s->reduction[o]].name,
                 type_of_output(layout, o), o);
      continue;
    }
    lode_write(w, "struct lode_reduction%d {\n", o);
    write_combination(w, s->reduction[o], (lode_dtype)layout->program->value[s->output[o]].dtype);
    lode_write(w, "};\ntypedef lode_plain<lode_reduction%d> lode_output%d;\n", o, o);
  }
}

/* What is known is known of each output: its members are taken one by one. */
static void write_members(lode_writer *w, const lode_layout *layout) {
  int noutputs = layout->structure.noutputs;
  lode_write(w, "  struct T {\n");
  for (int o = 0; o < noutputs; o++) lode_write(w, "    lode_output%d::T o%d;\n", o, o);
  lode_write(w, "  };\n  LODE_DEVICE T identity() {\n    T x;\n");
  for (int o = 0; o < noutputs; o++) lode_write(w, "    x.o%d = lode_output%d::identity();\n", o, o);
  lode_write(w, "    return x;\n  }\n  LODE_DEVICE T combine(T a, const T &b) {\n");
  for (int o = 0; o < noutputs; o++)
    lode_write(w, "    a.o%d = lode_output%d::combine(a.o%d, b.o%d);\n", o, o, o, o);
  lode_write(w, "    return a;\n  }\n  template <int M>\n"
                "  LODE_DEVICE void add(T &x, const place &at, const E (&e)[M], int count) {\n");
  for (int o = 0; o < noutputs; o++)
    lode_write(w,
               "    lode_output%d::E e%d[M];\n    LODE_UNROLL\n    for (int i = 0; i < M; i++) e%d[i] = "
               "e[i].o%d.v[0];\n    lode_output%d::add(x.o%d, e%d, count, at.first.o%d.v[0]);\n",
               o, o, o, o, o, o, o, o);
  lode_write(w, "  }\n");
}

/* Where results go. */
static void write_puts(lode_writer *w, const lode_layout *layout) {
  int noutputs = layout->structure.noutputs;
  lode_write(w, "  LODE_DEVICE void put(const lode_parameters &p, I k, I j, const T &x) {\n"
                "    const lode_base base = lode_at(p, k);\n");
  for (int o = 0; o < noutputs; o++) {
    lode_write(w, "    *(");
    lode_write_store(w, layout, o, "base", "j");
    lode_write(w, ") = lode_output%d::result(x.o%d);\n", o, o);
  }
  lode_write(w, "  }\n  LODE_DEVICE void keep(const lode_parameters &p, int64_t i, const T &x) {\n");
  for (int o = 0; o < noutputs; o++)
    lode_write(w, "    ((lode_output%d::T *)p.b[%d])[i] = x.o%d;\n", o, layout->at_workspace + o, o);
  lode_write(w, "  }\n");
}

static void write_get(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  lode_write(w, "  LODE_DEVICE E get(const lode_parameters &p, const place &at, I e) {\n");
  if (s->form == LODE_REDUCE_OUTER) {
    lode_write(w, "    return lode_elements1(p, at.base, e, at.j);\n  }\n");
  } else if (s->nreduced == 0) {
    lode_write(w, "    return lode_elements1(p, at.base, 0, e);\n  }\n");
  } else {
    lode_write(w, "    const N n = (N)(");
    write_extent(w, layout);
    lode_write(w, "), r = (N)e / n;\n    return lode_elements1(p, at.base, (I)r, (I)((N)e - r * n));\n  }\n");
  }
}

/* What templates.h calls a job; `place` is a row's base, a column, and the first element where it is used. */
static void write_job(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  bool blocks = lode_program_moments(layout->program);
  write_outputs(w, layout);
  lode_write(w,
             "struct lode_place {\n  lode_base base;\n  I j;\n  lode_result1 first;\n};\n"
             "struct lode_job {\n  typedef ::I I;\n  typedef lode_place place;\n  typedef lode_result1 E;\n");
  lode_write(w, "  enum { BLOCKS = %d, APART = %d };\n", blocks, blocks || s->noutputs > 1);
  write_members(w, layout);
  write_get(w, layout);
  lode_write(w,
             "  LODE_DEVICE place at(const lode_parameters &p, I k, I j) {\n    place at;\n"
             "    at.base = lode_at(p, k);\n    at.j = j;\n%s    return at;\n  }\n",
             blocks ? "    at.first = get(p, at, 0);\n" : "");
  write_puts(w, layout);
  lode_write(w, "};\n");
}

static void write_count_of_columns(lode_writer *w, const lode_layout *layout) {
  if (layout->structure.form == LODE_REDUCE_INNER) lode_write(w, "1");
  else lode_write(w, "p.w[%d]", layout->at_space);
}

static void write_columns_kernel(lode_writer *w, const lode_layout *layout) {
  write_elements(w, layout, 1);
  write_job(w, layout);
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n  lode_reduce_columns<lode_job>(p, p.w[%d], ",
             layout->at_kept);
  write_count_of_columns(w, layout);
  lode_write(w, ", (I)p.w[%d], p.w[%d]);\n}\n", layout->at_length, layout->at_groups);
}

static void write_lanes_kernel(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  write_elements(w, layout, 1);
  write_job(w, layout);
  lode_write(w, "LODE_KERNEL(lode_program, lode_parameters) {\n  LODE_SHARED lode_job::T lanes[LODE_ITEMS];\n");
  lode_write(w, "  lode_reduce_shape s;\n  s.kept = p.w[%d];\n  s.columns = ", layout->at_kept);
  write_count_of_columns(w, layout);
  lode_write(w, ";\n  s.C = %d;\n  s.group = (uint32_t)p.w[%d];\n  s.groups = p.w[%d];\n", s->columns,
             layout->at_group, layout->at_groups);
  lode_write(w, "  lode_reduce_lanes<lode_job>(p, lanes, s, (I)p.w[%d], s.groups > 1, 0, s.groups);\n}\n",
             layout->at_length);
}

/* ---- entry --------------------------------------------------------------------------------------------- */

static void write_head(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  write_text(w, lode_text_prelude);
  if (counts(layout)) {
    write_text(w, "#define LODE_RANDOM_FUNCTION LODE_DEVICE\n#define LODE_RANDOM_SQRTF sqrtf\n"
                  "#define LODE_RANDOM_SQRT sqrt\n");
    write_text(w, lode_text_random);
  }
  if (lode_layout_elementary(layout->program)) {
    write_text(w, "#define LODE_ELEMENTARY_FUNCTION LODE_DEVICE\n#define LODE_ELEMENTARY_APART LODE_APART\n");
    write_text(w, lode_text_elementary);
  }
  if (s->cut != LODE_TEMPLATE_ELEMENTS) write_text(w, lode_text_templates);
  lode_write(w, "typedef %s I;\ntypedef u%s N;\n", s->wide ? "int64_t" : "int32_t",
             s->wide ? "int64_t" : "int32_t");
  lode_write(w, "struct lode_parameters {\n  char *b[%d];\n  int64_t w[%d];\n};\n", layout->npointers,
             layout->nwords);
  write_operations(w, layout);
  write_base(w, layout);
  write_reductions(w, layout);
}

char *lode_source(const void *context) {
  static void (*const by_template[])(lode_writer *, const lode_layout *) = {
      [LODE_TEMPLATE_ELEMENTS] = write_elements_kernel, [LODE_TEMPLATE_ROWS] = lode_source_rows,
      [LODE_TEMPLATE_SPREAD] = lode_source_spread,      [LODE_TEMPLATE_WIDE] = lode_source_wide,
      [LODE_TEMPLATE_COLUMNS] = write_columns_kernel,   [LODE_TEMPLATE_LANES] = write_lanes_kernel,
  };
  const lode_layout *layout = context;
  lode_writer w = {.text = NULL};
  write_head(&w, layout);
  by_template[layout->structure.cut](&w, layout);
  if (!w.failed) return w.text;
  free(w.text);
  return NULL;
}
