/* The text of passes by spread rows: a row is shared by 16 threads, which are the lanes
 * that its reductions fold (core/reduce.h), or by 32 for each of its chunks, where it has
 * several or its values are too much for 16: the lanes of a chunk's second half go on
 * with those of the first one. So a thread has every 16th element of a chunk or half of
 * one, of some rows at a time, in registers; nothing is read twice, and threads exchange
 * nothing but their lanes.
 *
 * Values have levels: a reduction of what is known at level l is known at level l + 1,
 * everything else at the highest level of its operands. A level is
 *
 *   values of one element a row
 *   loads of whole rows, all of which are under way at once
 *   a loop over elements: operations, stores
 *   reductions
 *
 * An element of a whole row is made at the first level that uses it, and is in an array
 * where a later one does too. A value v<v> is such an array, a name in the loop, or an
 * array of one element for each row that the thread has. */
#include "../core/reduce.h"
#include "source.h"

enum {
  FEW_THREADS = 64,   /* of a block, so that some load while others compute */
  MOST_THREADS = 128, /* of a block with rows of many chunks */
  ELEMENTS = 16,      /* that a thread has at a time, at least: rows of few elements are several */
  REGISTER = 4,       /* bytes */
  MOST_BYTES = 640,   /* of values in a thread's registers, which are 1020 bytes at most */
  FEW_BYTES = 200,    /* that leave room for enough threads (measured on an H200) */
  TEMPORARIES = 40,   /* besides; what keeps ptxas from spilling (measured with CUDA 13) */
  MULTIPROCESSOR_BYTES = 256 << 10, /* of registers */
  MOST_OPERATIONS = 1024,           /* unrolled in one text */
  NO_LEVEL = UINT8_MAX
};

typedef struct levels {
  int count;
  uint8_t known[LODE_MAX_VALUES]; /* from which level on it could be made */
  uint8_t made[LODE_MAX_VALUES];  /* where it is made, or loaded; NO_LEVEL: nothing uses it */
  uint8_t last[LODE_MAX_VALUES];  /* the last level whose loop uses it */
} levels;

static bool is_row(const lode_layout *layout, int v) { return layout->width[v] > 1; }

static void use(levels *l, int v, uint8_t level) {
  if (l->made[v] == NO_LEVEL || level < l->made[v]) l->made[v] = level;
  if (level > l->last[v]) l->last[v] = level;
}

/* Rows are made where they are first used; one element a row, as soon as it is known. */
static void find_levels(const lode_layout *layout, levels *l) {
  const lode_structure *s = &layout->structure;
  l->count = 1;
  for (int v = 0; v < s->nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    bool reduced = value->kind == LODE_VALUE_REDUCE;
    l->known[v] = l->last[v] = 0;
    l->made[v] = NO_LEVEL;
    for (int k = 0; k < lode_value_arity(value); k++)
      if (l->known[value->a[k]] + reduced > l->known[v])
        l->known[v] = (uint8_t)(l->known[value->a[k]] + reduced);
    if (l->known[v] >= l->count) l->count = l->known[v] + 1;
  }
  for (int o = 0; o < s->noutputs; o++) use(l, s->output[o], l->known[s->output[o]]);
  for (int v = s->nvalues - 1; v >= 0; v--) {
    const lode_value *value = &layout->program->value[v];
    if (l->made[v] == NO_LEVEL) continue;
    if (!is_row(layout, v)) l->made[v] = l->known[v];
    uint8_t at = value->kind == LODE_VALUE_REDUCE ? l->known[value->a[0]] : l->made[v];
    for (int k = 0; k < lode_value_arity(value); k++) use(l, value->a[k], at);
  }
}

/* Whether its elements stay in registers; numbers are made where they are used. */
static bool is_array(const lode_layout *layout, const levels *l, int v) {
  uint8_t kind = layout->program->value[v].kind;
  if (!is_row(layout, v) || l->made[v] == NO_LEVEL || kind == LODE_VALUE_IOTA) return false;
  return kind == LODE_VALUE_ACCESS || l->last[v] > l->made[v];
}

/* ---- whether it fits ---------------------------------------------------------------- */

static int chunks_of(const lode_layout *layout) {
  return (layout->structure.inner + LODE_REDUCE_CHUNK - 1) / LODE_REDUCE_CHUNK;
}

/* Threads that share a row. */
static int sharers_of(const lode_layout *layout) {
  return chunks_of(layout) * layout->structure.parts * LODE_REDUCE_LANES;
}

/* Elements of a row that a thread has. */
static int each_of(const lode_layout *layout) { return layout->structure.inner / sharers_of(layout); }

int lode_spread_threads(const lode_layout *layout) {
  return sharers_of(layout) <= FEW_THREADS ? FEW_THREADS : MOST_THREADS;
}

/* Bytes that a thread has in registers at a level for one of its rows: those that its loop begins with, or
 * those that are left. */
static int bytes_at(const lode_layout *layout, const levels *l, int level) {
  int begin = 0, end = 0, single = 0;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    int bytes = (int)lode_dtype_size((lode_dtype)value->dtype);
    if (bytes < REGISTER) bytes = REGISTER;
    if (!is_row(layout, v)) single += value->kind == LODE_VALUE_CONST ? 0 : bytes;
    bytes *= each_of(layout);
    if (value->kind == LODE_VALUE_REDUCE && l->made[v] == level + 1 && layout->structure.parts > 1 &&
        l->last[value->a[0]] <= level)
      end += bytes; /* a second part waits for the first one */
    if (!is_array(layout, l, v)) continue;
    bool loaded = value->kind == LODE_VALUE_ACCESS && l->made[v] == level;
    if ((l->made[v] < level && l->last[v] >= level) || loaded) begin += bytes;
    if (l->made[v] <= level && l->last[v] > level) end += bytes;
  }
  return single + (begin > end ? begin : end);
}

static int most_bytes(const lode_layout *layout, const levels *l) {
  int most = 0;
  for (int level = 0; level < l->count; level++) {
    int bytes = bytes_at(layout, l, level);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* How many plain operations one is like, for the compiler. */
static int weight_of(const lode_value *value) {
  static const uint8_t weights[LODE_NOPS] = {[LODE_OP_exp] = 4, [LODE_OP_log] = 4,  [LODE_OP_sin] = 8,
                                             [LODE_OP_cos] = 8, [LODE_OP_tanh] = 8, [LODE_OP_pow] = 16};
  return value->kind == LODE_VALUE_OP && weights[value->op] > 0 ? weights[value->op] : 1;
}

/* Operations on one element of a row, reductions too. -1: a reduction is not of a row. */
static int count_operations(const lode_layout *layout) {
  int count = 0;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    bool reduced = value->kind == LODE_VALUE_REDUCE;
    if (reduced && !is_row(layout, value->a[0])) return -1;
    if (is_row(layout, v) || reduced) count += weight_of(value);
  }
  return count;
}

/* Whether values fit in `most` bytes of registers; rows of a block. */
static bool find_rows(lode_layout *layout, const levels *l, int most) {
  int each = each_of(layout), rows = each < ELEMENTS ? ELEMENTS / each : 1;
  int bytes = most_bytes(layout, l), operations = count_operations(layout);
  while (rows > 1 && (rows * bytes > most || rows * each * operations > MOST_OPERATIONS)) rows /= 2;
  layout->structure.rows = (uint16_t)(rows * lode_spread_threads(layout) / sharers_of(layout));
  return operations >= 0 && rows * bytes <= most && rows * each * operations <= MOST_OPERATIONS;
}

/* A class of rows of at most a chunk has room for a multiple of this many elements: between powers of two there
 * are four classes. What a row may lack to its class is looked at element by element. */
static int32_t step_of(int64_t inner) {
  int32_t power = LODE_LEAST_ROW;
  while (power < inner) power *= 2;
  return power / 8 > LODE_REDUCE_LANES ? power / 8 : LODE_REDUCE_LANES;
}

bool lode_spread_place(lode_layout *layout) {
  lode_structure *s = &layout->structure;
  bool halves = s->inner > LODE_REDUCE_CHUNK / 2;
  levels l;
  find_levels(layout, &l);
  s->parts = s->inner > LODE_REDUCE_CHUNK ? 2 : 1;
  if (s->inner <= LODE_REDUCE_CHUNK) {
    int32_t step = step_of(s->inner);
    s->inner = (int32_t)((layout->args->inner + step - 1) / step * step);
    if (find_rows(layout, &l, halves ? FEW_BYTES : MOST_BYTES)) return true;
    s->parts = 2;
  }
  return halves && find_rows(layout, &l, MOST_BYTES);
}

/* Blocks that a multiprocessor is to have room for, so that others load while one computes. */
static int blocks_of(const lode_layout *layout, const levels *l) {
  int rows = layout->structure.rows * sharers_of(layout) / lode_spread_threads(layout), size = REGISTER,
      heaviest = 1;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    int own = (int)lode_dtype_size((lode_dtype)value->dtype), weight = weight_of(value);
    if (own > size) size = own;
    if (weight > heaviest) heaviest = weight;
  }
  return MULTIPROCESSOR_BYTES / lode_spread_threads(layout) /
         (rows * most_bytes(layout, l) + (TEMPORARIES + 2 * heaviest) * size);
}

/* ---- values ------------------------------------------------------------------------- */

static void write_name(lode_writer *w, const lode_layout *layout, const levels *l, int v) {
  lode_write(w, "v%d", v);
  if (is_array(layout, l, v)) lode_write(w, "[g][i]");
  else if (!is_row(layout, v) && layout->program->value[v].kind != LODE_VALUE_CONST) lode_write(w, "[g]");
}

/* What is in arrays, for the rows at hand. */
static void write_arrays(lode_writer *w, const lode_layout *layout, const levels *l) {
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (l->made[v] == NO_LEVEL || value->kind == LODE_VALUE_CONST) continue;
    if (is_array(layout, l, v)) lode_write(w, "    %s v%d[OWN][EACH];\n", lode_source_types[value->dtype], v);
    else if (!is_row(layout, v)) lode_write(w, "    %s v%d[OWN];\n", lode_source_types[value->dtype], v);
  }
}

static void write_constants(lode_writer *w, const lode_layout *layout) {
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind != LODE_VALUE_CONST) continue;
    lode_write(w, "  const %s v%d = ", lode_source_types[value->dtype], v);
    lode_write_leaf(w, layout, v, "base", "0");
    lode_write(w, ";\n");
  }
}

static void write_operation(lode_writer *w, const lode_layout *layout, const levels *l, int v) {
  const lode_value *value = &layout->program->value[v];
  lode_text name;
  lode_write(w, "%s(", lode_source_function(layout, v, &name));
  for (int k = 0; k < lode_value_arity(value); k++) {
    if (k > 0) lode_write(w, ", ");
    write_name(w, layout, l, value->a[k]);
  }
  lode_write(w, ");\n");
}

/* ---- a level -------------------------------------------------------------------------- */

/* Whether what follows loads waits for all of them (templates.h's lode_loaded). */
static bool waits_for_loads(const lode_layout *layout) {
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (is_row(layout, v) && value->kind == LODE_VALUE_ACCESS && lode_dtype_size((lode_dtype)value->dtype) == 8)
      return true;
  }
  return false;
}

/* Rows that do not exist are the last one again; they are not stored. */
static void begin_rows(lode_writer *w, const lode_layout *layout) {
  lode_write(w,
             "    LODE_UNROLL\n    for (uint32_t g = 0; g < OWN; g++) {\n"
             "      const lode_spread at = lode_spread_of<CHUNKS, PARTS, EACH, THREADS>(g);\n"
             "      const lode_base base = lode_at(p, row0 + (I)(at.q < rows ? at.q : rows - 1));\n"
             "      const int32_t left = row - at.j%s, stored = at.q < rows ? left : 0;\n",
             waits_for_loads(layout) ? " + late" : "");
}

static bool is_loaded(const lode_layout *layout, const levels *l, int v, int level) {
  return l->made[v] == level && is_row(layout, v) && layout->program->value[v].kind == LODE_VALUE_ACCESS;
}

/* Elements that surely exist need not be looked at; but where loads are to come first, something of what
 * follows them has to wait for `late`: of a chain of elements it is the first one. */
static const char *sure_elements(const lode_layout *layout, const levels *l, int level) {
  bool loads = false, operations = false;
  for (int v = 0; v < layout->structure.nvalues; v++) {
    loads = loads || is_loaded(layout, l, v, level);
    operations = operations ||
                 (l->made[v] == level && is_row(layout, v) && lode_value_arity(&layout->program->value[v]) > 0);
  }
  if (!loads || !waits_for_loads(layout)) return "i < SURE || ";
  return operations ? "" : "(i > 0 && i < SURE) || ";
}

static void begin_elements(lode_writer *w, const char *sure) {
  lode_write(w,
             "      LODE_UNROLL\n      for (int i = 0; i < EACH; i++) {\n"
             "        const int32_t j = at.j + i * LODE_LANES;\n"
             "        const bool in = %si * LODE_LANES < left;\n",
             sure);
}

static void write_single(lode_writer *w, const lode_layout *layout, const levels *l, int v) {
  const lode_value *value = &layout->program->value[v];
  if (value->kind == LODE_VALUE_CONST || value->kind == LODE_VALUE_REDUCE) return;
  lode_write(w, "      v%d[g] = ", v);
  if (lode_value_arity(value) > 0) {
    write_operation(w, layout, l, v);
  } else {
    lode_write_leaf(w, layout, v, "base", "0");
    lode_write(w, ";\n");
  }
}

/* From a thread's first element of an access to its element i. */
static void write_step(lode_writer *w, const lode_layout *layout, int a) {
  if (layout->structure.access[a].inner == LODE_STRIDE_ANY) lode_write(w, "(I)p.w[%d] * ", layout->at_inner[a]);
  lode_write(w, "(I)(i * LODE_LANES)");
}

static void write_load(lode_writer *w, const lode_layout *layout, int v) {
  int a = layout->program->value[v].index;
  lode_write(w, "      const %s *const from%d = lode_start(",
             lode_source_types[layout->program->value[v].dtype], v);
  lode_write_pointer(w, layout, a);
  lode_write(w, " + (");
  lode_write_index(w, layout, a, "base", "at.j");
  lode_write(w, "));\n");
  begin_elements(w, "i < SURE || ");
  lode_write(w, "        v%d[g][i] = lode_load_if(from%d + ", v, v);
  write_step(w, layout, a);
  lode_write(w, ", in);\n      }\n");
}

/* One element a row, and whole rows from memory. */
static void write_begin(lode_writer *w, const lode_layout *layout, const levels *l, int level) {
  bool loads = false;
  begin_rows(w, layout);
  for (int v = 0; v < layout->structure.nvalues; v++) {
    if (l->made[v] != level) continue;
    if (!is_row(layout, v)) write_single(w, layout, l, v);
    if (!is_loaded(layout, l, v, level)) continue;
    write_load(w, layout, v);
    loads = true;
  }
  lode_write(w, loads && waits_for_loads(layout) ? "    }\n    late = lode_loaded();\n" : "    }\n");
}

static void write_element(lode_writer *w, const lode_layout *layout, const levels *l, int v) {
  lode_write(w, "        ");
  if (!is_array(layout, l, v)) lode_write(w, "const %s ", lode_source_types[layout->program->value[v].dtype]);
  write_name(w, layout, l, v);
  lode_write(w, " = ");
  if (lode_value_arity(&layout->program->value[v]) > 0) {
    write_operation(w, layout, l, v);
  } else {
    lode_write_leaf(w, layout, v, "base", "j");
    lode_write(w, ";\n");
  }
}

static bool is_reduced(const lode_layout *layout, const levels *l, int v, int level) {
  return layout->program->value[v].kind == LODE_VALUE_REDUCE && l->made[v] == level + 1;
}

/* x<v>: what reduction v takes. Elements beyond the row are identities, which change nothing on either side;
 * what is in an array becomes the same, so that it has no registers of its own. */
static void write_reduced(lode_writer *w, const lode_layout *layout, const levels *l, int v) {
  int source = layout->program->value[v].a[0];
  lode_text job;
  lode_write(w, "        x%d[g][i] = in ? ", v);
  write_name(w, layout, l, source);
  lode_write(w, " : %s::identity();\n", lode_source_function(layout, v, &job));
  if (is_array(layout, l, source)) lode_write(w, "        v%d[g][i] = x%d[g][i];\n", source, v);
}

static bool is_stored(const lode_layout *layout, const levels *l, int o, int level) {
  int v = layout->structure.output[o];
  return is_row(layout, v) && l->known[v] == level;
}

/* to<o>: where a thread's first element of an output goes. */
static void write_starts(lode_writer *w, const lode_layout *layout, const levels *l, int level) {
  for (int o = 0; o < layout->structure.noutputs; o++) {
    if (!is_stored(layout, l, o, level)) continue;
    const lode_value *value = &layout->program->value[layout->structure.output[o]];
    lode_write(w, "      %s *const to%d = lode_start(", lode_source_types[value->dtype], o);
    lode_write_store(w, layout, o, "base", "at.j");
    lode_write(w, ");\n");
  }
}

static void write_stores(lode_writer *w, const lode_layout *layout, const levels *l, int level) {
  for (int o = 0; o < layout->structure.noutputs; o++) {
    if (!is_stored(layout, l, o, level)) continue;
    lode_write(w, "        lode_store_if(to%d + ", o);
    write_step(w, layout, LODE_OUT + o);
    lode_write(w, ", ");
    write_name(w, layout, l, layout->structure.output[o]);
    lode_write(w, ", i * LODE_LANES < stored);\n");
  }
}

/* Numbers are made at each level that may use them. */
static void write_loop(lode_writer *w, const lode_layout *layout, const levels *l, int level) {
  begin_rows(w, layout);
  write_starts(w, layout, l, level);
  begin_elements(w, sure_elements(layout, l, level));
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    bool made = lode_value_arity(value) > 0 ? l->made[v] == level
                                            : value->kind == LODE_VALUE_IOTA && l->made[v] <= level;
    if (is_row(layout, v) && made) write_element(w, layout, l, v);
  }
  write_stores(w, layout, l, level);
  for (int v = 0; v < layout->structure.nvalues; v++)
    if (is_reduced(layout, l, v, level)) write_reduced(w, layout, l, v);
  lode_write(w, "      }\n    }\n");
}

static void write_level(lode_writer *w, const lode_layout *layout, const levels *l, int level) {
  lode_text job;
  for (int v = 0; v < layout->structure.nvalues; v++)
    if (is_reduced(layout, l, v, level))
      lode_write(w, "    %s x%d[OWN][EACH];\n", lode_source_types[layout->program->value[v].dtype], v);
  write_begin(w, layout, l, level);
  write_loop(w, layout, l, level);
  for (int v = 0; v < layout->structure.nvalues; v++)
    if (is_reduced(layout, l, v, level))
      lode_write(w, "    lode_reduce_spread<%s, CHUNKS, PARTS>(v%d, x%d);\n",
                 lode_source_function(layout, v, &job), v, v);
}

/* ---- the kernel ------------------------------------------------------------------------- */

/* One element a row, by the first of its threads. */
static void write_singles(lode_writer *w, const lode_layout *layout, const levels *l) {
  const lode_structure *s = &layout->structure;
  begin_rows(w, layout);
  for (int o = 0; o < s->noutputs; o++) {
    if (is_row(layout, s->output[o])) continue;
    lode_write(w, "      if (at.j == 0 && at.q < rows) *(");
    lode_write_store(w, layout, o, "base", "0");
    lode_write(w, ") = ");
    write_name(w, layout, l, s->output[o]);
    lode_write(w, ";\n");
  }
  lode_write(w, "    }\n");
}

/* SURE: elements of a thread that the shortest row of this class has. */
static void write_shape(lode_writer *w, const lode_layout *layout) {
  const lode_structure *s = &layout->structure;
  int sure = chunks_of(layout) > 1 ? 0 : each_of(layout) - step_of(s->inner) / LODE_REDUCE_LANES;
  lode_write(w, "  enum { ROWS = %d, CHUNKS = %d, PARTS = %d, EACH = %d, SURE = %d };\n", s->rows,
             chunks_of(layout), s->parts, each_of(layout), sure);
  lode_write(
      w,
      "  enum { THREADS = LODE_SPREAD_THREADS(%d), OWN = ROWS * CHUNKS * PARTS * LODE_LANES / THREADS };\n"
      "  const int32_t row = (int32_t)p.w[%d];\n%s",
      lode_spread_threads(layout), layout->at_space, waits_for_loads(layout) ? "  int32_t late = 0;\n" : "");
}

void lode_source_spread(lode_writer *w, const lode_layout *layout) {
  levels l;
  find_levels(layout, &l);
  lode_write(w, "LODE_KERNEL_BOUNDED(lode_program, lode_parameters, %d, %d) {\n", lode_spread_threads(layout),
             blocks_of(layout, &l));
  write_shape(w, layout);
  write_constants(w, layout);
  lode_write(
      w,
      "  const int64_t first = p.w[%d], count = p.w[%d];\n"
      "  for (int64_t done = (int64_t)LODE_BLOCK * ROWS; done < count; done += (int64_t)LODE_BLOCKS * ROWS) "
      "{\n    const I row0 = (I)(first + done);\n"
      "    const uint32_t rows = count - done < ROWS ? (uint32_t)(count - done) : ROWS;\n",
      layout->at_first, layout->at_count);
  write_arrays(w, layout, &l);
  for (int level = 0; level < l.count; level++) {
    write_level(w, layout, &l, level);
  }
  write_singles(w, layout, &l);
  lode_write(w, "  }\n}\n");
}
