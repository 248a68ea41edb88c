/* See layout.h: choosing a template, classes of accesses, and parameters. This runs for each pass, so
 * it does no more than it must; what the text alone needs is worked out in source.c. */
#include "layout.h"

#include <string.h>

#include "../core/reduce.h"
#include "kernels.h"

enum {
  LIVE_BYTES = 1200,     /* of values in a thread's registers at a time */
  ROW_OPERATIONS = 1024, /* unrolled in one text */
  READ_AHEAD = 96,       /* bytes that a thread reads at a time */
  MOST_UNROLL = 8,
  LEAST_TILES = 2, /* of a row that is not divided: the last one may be nearly empty */
  LEAST_ROWS_OF_TILES = 16,
  MANY_COLUMNS = 1 << 16, /* chunks that keep a device busy with a thread each */
  LEAST_COLUMNS = 32      /* of long sequences: those that threads of a warp read side by side */
};

/* Indices below this leave room for rounding them up to tiles. */
static const int64_t narrow_limit = INT32_MAX - (1 << 16);

/* ---- what accesses are ------------------------------------------------------ */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static int64_t row_width(const lode_program *program, const lode_args *args, const lode_value *value) {
  return program->rows ? value->width : args->inner;
}

static void classify(lode_layout *layout, int a, int64_t width) {
  const lode_args *args = layout->args;
  const lode_access *access = lode_layout_access(args, a);
  lode_access_class *class = &layout->structure.access[a];
  int dims = a >= LODE_OUT ? args->nouter - args->nreduced : args->nouter;
  int64_t span = 0;
  for (int d = 0; d < dims; d++) {
    if (access->stride[d] == 0 || args->outer[d] == 1) continue;
    class->dims |= (uint16_t)(1u << d);
    span += magnitude(access->stride[d]) * (args->outer[d] - 1);
  }
  if (width > 1 && access->inner != 0) {
    class->inner = access->inner == 1 ? LODE_STRIDE_ONE : LODE_STRIDE_ANY;
    span += magnitude(access->inner) * (width - 1);
  }
  if (span > narrow_limit) layout->structure.wide = 1;
}

static void classify_all(lode_layout *layout) {
  const lode_program *program = layout->program;
  const lode_args *args = layout->args;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA)
      classify(layout, value->index, row_width(program, args, value));
  }
  for (int o = 0; o < program->noutputs; o++) {
    int64_t width = row_width(program, args, &program->value[program->output[o]]);
    classify(layout, LODE_OUT + o, program->form == LODE_REDUCE_INNER ? 1 : width);
  }
  if (layout->kept * layout->each * args->inner > narrow_limit) layout->structure.wide = 1;
}

/* Elements that can be moved at a time along rows of `width`, at most `most`. */
static int vector_of(const lode_layout *layout, int a, lode_dtype dtype, int64_t width, int most) {
  const lode_access *access = lode_layout_access(layout->args, a);
  const lode_access_class *class = &layout->structure.access[a];
  size_t size = lode_dtype_size(dtype);
  if (class->inner != LODE_STRIDE_ONE) return 1;
  uintptr_t address = (uintptr_t)access->base + (uintptr_t)(access->offset * (int64_t)size);
  int64_t bits = width | most | (int64_t)(16 / size) | (int64_t)(address / size);
  if (address % size != 0) return 1;
  for (int d = 0; d < layout->args->nouter; d++)
    if (class->dims & 1u << d) bits |= access->stride[d];
  return (int)(bits & -bits); /* the largest power of two that divides all */
}

/* Whether rows are one stride apart over all dims that rows are counted over; which one. */
static bool row_stride(const lode_layout *layout, int a, int64_t *stride) {
  const lode_args *args = layout->args;
  const lode_access *access = lode_layout_access(args, a);
  int dims = a >= LODE_OUT ? args->nouter - args->nreduced : args->nouter;
  if (dims == 0 || args->outer[dims - 1] == 1) return false;
  *stride = access->stride[dims - 1];
  int64_t expected = *stride * args->outer[dims - 1];
  for (int d = dims - 2; d >= 0; d--) {
    if (args->outer[d] > 1 && access->stride[d] != expected) return false;
    expected *= args->outer[d]; /* an extent of 1 is never stepped along, and its stride means nothing */
  }
  return true;
}

bool lode_layout_elementary(const lode_program *program) {
  static const bool elementary[LODE_NOPS] = {[LODE_OP_exp] = true, [LODE_OP_log] = true,  [LODE_OP_sin] = true,
                                             [LODE_OP_cos] = true, [LODE_OP_tanh] = true, [LODE_OP_pow] = true};
  for (int v = 0; v < program->nvalues; v++)
    if (program->value[v].kind == LODE_VALUE_OP && elementary[program->value[v].op]) return true;
  return false;
}

/* ---- stores by elements ------------------------------------------------------- */

/* Whether an access reads the same of each row: one thread's neighbouring rows share its reads. */
static bool same_for_rows(const lode_layout *layout, const lode_value *value) {
  return value->kind == LODE_VALUE_ACCESS && layout->structure.access[value->index].dims == 0;
}

/* Elements of a vector. One that strides is read element by element, of more lines at a time than in single
 * elements; so it makes vectors single, unless several rows share it. */
static int choose_vector(const lode_layout *layout, bool tiled) {
  const lode_program *program = layout->program;
  const lode_args *args = layout->args;
  int64_t width = args->nouter == 0 ? 16 : args->inner; /* the end of one long row is done by elements */
  int vector = 16;
  for (int o = 0; o < program->noutputs; o++)
    vector =
        vector_of(layout, LODE_OUT + o, (lode_dtype)program->value[program->output[o]].dtype, width, vector);
  for (int v = 0; v < program->nvalues && vector > 1; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind != LODE_VALUE_ACCESS) continue;
    uint8_t inner = layout->structure.access[value->index].inner;
    if (inner == LODE_STRIDE_ZERO || (inner == LODE_STRIDE_ANY && tiled && same_for_rows(layout, value)))
      continue;
    vector = vector_of(layout, value->index, (lode_dtype)value->dtype, width, vector);
  }
  return vector;
}

/* Reads of a thread that are under way at once, in bytes, decide how many vectors it has; what rows share is
 * read once. Where most of the time goes into functions, or nothing is read, one is enough. */
static int choose_unroll(const lode_layout *layout) {
  const lode_program *program = layout->program;
  const lode_structure *s = &layout->structure;
  int bytes = 0, unroll = 1;
  bool shared = false;
  if (lode_layout_elementary(program)) return 1;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind != LODE_VALUE_ACCESS || s->access[value->index].inner == LODE_STRIDE_ZERO) continue;
    if (s->tiled && same_for_rows(layout, value)) shared = true;
    else bytes += s->vector * (int)lode_dtype_size((lode_dtype)value->dtype);
  }
  while ((bytes > 0 || shared) && unroll < MOST_UNROLL && 2 * unroll * bytes <= READ_AHEAD) unroll *= 2;
  return unroll;
}

/* ---- rows ------------------------------------------------------------------------ */

static void find_widths(lode_layout *layout) {
  const lode_program *program = layout->program;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    int32_t width = 1;
    if (value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA)
      width = layout->structure.access[value->index].inner == LODE_STRIDE_ZERO
                  ? 1
                  : (int32_t)row_width(program, layout->args, value);
    if (value->kind == LODE_VALUE_GATHER) width = value->width;
    for (int k = 0; k < lode_value_arity(value) && value->kind != LODE_VALUE_REDUCE; k++)
      if (layout->width[value->a[k]] > width) width = layout->width[value->a[k]];
    layout->width[v] = width;
  }
}

/* Up to which value each is needed; what a gather is made from lives as long as the gather. */
static void find_last_uses(const lode_program *program, int last[LODE_MAX_VALUES]) {
  for (int v = 0; v < program->nvalues; v++) last[v] = v;
  for (int o = 0; o < program->noutputs; o++) last[program->output[o]] = program->nvalues - 1;
  for (int v = program->nvalues - 1; v >= 0; v--) {
    const lode_value *value = &program->value[v];
    for (int k = 0; k < lode_value_arity(value); k++)
      if (last[value->a[k]] < v) last[value->a[k]] = v;
    if (value->kind != LODE_VALUE_GATHER) continue;
    for (int g = value->first; g < value->first + value->count; g++) {
      int source = program->segment[g].source;
      if (last[source] < last[v]) last[source] = last[v];
    }
  }
}

/* Bytes of a value in registers: gathers rename, numbers and constants are made where they are used. */
static int64_t register_bytes(const lode_layout *layout, int v) {
  const lode_value *value = &layout->program->value[v];
  bool held = lode_value_arity(value) > 0 || value->kind == LODE_VALUE_ACCESS;
  return held ? layout->width[v] * (int64_t)lode_dtype_size((lode_dtype)value->dtype) : 0;
}

static bool fits_registers(const lode_layout *layout) {
  const lode_program *program = layout->program;
  int last[LODE_MAX_VALUES];
  int64_t ended[LODE_MAX_VALUES] = {0}, operations = 0, live = 0;
  find_last_uses(program, last);
  for (int v = 0; v < program->nvalues; v++) {
    if (layout->width[v] > LODE_ROW_REGISTERS) return false;
    operations += layout->width[v];
    live += register_bytes(layout, v);
    ended[last[v]] += register_bytes(layout, v);
    if (live > LIVE_BYTES) return false;
    live -= ended[v];
  }
  return operations <= ROW_OPERATIONS;
}

/* Elements between rows in shared memory: an odd number of vectors, so that rows begin in different banks. */
int lode_layout_pitch(const lode_layout *layout, int a, int width) {
  int vector = layout->structure.access[a].vector;
  return (width / vector | 1) * vector;
}

/* Shared memory for one row of an access that is staged; 0 if it is not worth it, or cannot be. */
static int stage_bytes(lode_layout *layout, int a, lode_dtype dtype, int width) {
  lode_access_class *class = &layout->structure.access[a];
  int64_t stride;
  if (width < 2 || class->inner != LODE_STRIDE_ONE) return 0;
  class->vector = (uint8_t)vector_of(layout, a, dtype, width, 16);
  if (class->vector == width || !row_stride(layout, a, &stride) || stride == 0) return 0;
  class->staged = stride == width ? LODE_STAGE_BLOCK : LODE_STAGE_STRIDED;
  return lode_layout_pitch(layout, a, width) * (int)lode_dtype_size(dtype);
}

int lode_layout_value(const lode_layout *layout, int a) {
  if (a >= LODE_OUT) return layout->structure.output[a - LODE_OUT];
  for (int v = 0; v < layout->structure.nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if ((value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA) && value->index == a) return v;
  }
  return -1;
}

static bool is_taken(const lode_layout *layout, int a) {
  for (int o = 0; o < layout->program->noutputs; o++)
    if (layout->structure.access[LODE_OUT + o].tile == 1 + a) return true;
  return false;
}

/* A result takes the place of an input of the same kind: a thread has read its row when it writes it. */
static bool find_tile(lode_layout *layout, int place) {
  lode_access_class *out = &layout->structure.access[place];
  const lode_value *stored = &layout->program->value[lode_layout_value(layout, place)];
  for (int v = 0; v < layout->program->nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind != LODE_VALUE_ACCESS || value->dtype != stored->dtype) continue;
    const lode_access_class *class = &layout->structure.access[value->index];
    if (class->staged == LODE_STAGE_NONE || class->vector != out->vector ||
        layout->width[v] != layout->args->inner || is_taken(layout, value->index))
      continue;
    out->tile = (uint8_t)(1 + value->index);
    return true;
  }
  return false;
}

static void choose_staging(lode_layout *layout) {
  const lode_program *program = layout->program;
  enum { LEAST_ROWS = 32, MOST_ROWS = 128 };
  int total = 0;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind != LODE_VALUE_ACCESS) continue;
    int bytes = stage_bytes(layout, value->index, (lode_dtype)value->dtype, layout->width[v]);
    if ((total + bytes) * LEAST_ROWS > LODE_SHARED_BYTES)
      layout->structure.access[value->index].staged = LODE_STAGE_NONE;
    else total += bytes;
  }
  for (int o = 0; o < program->noutputs; o++) {
    const lode_value *value = &program->value[program->output[o]];
    int bytes = stage_bytes(layout, LODE_OUT + o, (lode_dtype)value->dtype, value->width);
    if (bytes == 0 || find_tile(layout, LODE_OUT + o)) continue;
    if ((total + bytes) * LEAST_ROWS > LODE_SHARED_BYTES)
      layout->structure.access[LODE_OUT + o].staged = LODE_STAGE_NONE;
    else total += bytes;
  }
  int rows = MOST_ROWS;
  while (rows * total > LODE_SHARED_BYTES) rows /= 2;
  layout->structure.rows = (uint16_t)rows;
}

/* False where values are too much for registers. */
static bool choose_rows(lode_layout *layout) {
  find_widths(layout);
  if (!fits_registers(layout)) return false;
  layout->structure.cut = LODE_TEMPLATE_ROWS;
  layout->structure.inner = (int32_t)layout->args->inner;
  choose_staging(layout);
  return true;
}

/* Where no row is made of pieces, and all have one length, that is a parameter. */
static bool has_any_row(const lode_layout *layout) {
  for (int v = 0; v < layout->program->nvalues; v++)
    if (layout->width[v] != 1 && layout->width[v] != layout->args->inner) return false;
  return layout->program->nsegments == 0;
}

static void choose_inner(lode_layout *layout) {
  lode_structure *s = &layout->structure;
  s->inner = (int32_t)layout->args->inner;
  s->any_row = has_any_row(layout);
  if (!s->any_row) return;
  s->inner = LODE_LEAST_ROW;
  while (s->inner < layout->args->inner) s->inner *= 2;
}

static void choose_wide(lode_layout *layout) {
  lode_structure *s = &layout->structure;
  int32_t power = s->inner;
  bool spread = s->any_row && layout->args->inner > LODE_ROW_REGISTERS && lode_spread_place(layout);
  if (!spread && s->any_row) s->inner = power;
  s->cut = spread ? LODE_TEMPLATE_SPREAD : LODE_TEMPLATE_WIDE;
  for (int v = 0; v < layout->program->nvalues && s->any_row; v++)
    if (layout->width[v] != 1) layout->width[v] = s->inner;
  if (!spread) lode_wide_place(layout);
}

/* ---- reductions -------------------------------------------------------------------- */

lode_cut lode_layout_cut(int64_t columns, int64_t length) {
  lode_cut cut = {.C = 1, .group = 0};
  int64_t chunks = (length + LODE_REDUCE_CHUNK - 1) / LODE_REDUCE_CHUNK;
  while (cut.C < columns && cut.C < LODE_REDUCE_LANES) cut.C *= 2;
  while (1 << cut.group < chunks && cut.C << cut.group < LODE_REDUCE_LANES) cut.group++;
  cut.groups = (chunks + (1 << cut.group) - 1) >> cut.group;
  return cut;
}

/* Whether sequences lie side by side rather than one behind the other. */
static bool across(const lode_layout *layout) {
  for (int v = 0; v < layout->program->nvalues; v++) {
    const lode_value *value = &layout->program->value[v];
    if (value->kind == LODE_VALUE_ACCESS && layout->structure.access[value->index].inner == LODE_STRIDE_ANY)
      return true;
  }
  return false;
}

static void choose_reduction(lode_layout *layout) {
  const lode_args *args = layout->args;
  lode_structure *s = &layout->structure;
  bool inner = layout->program->form == LODE_REDUCE_INNER;
  int64_t chunks = (layout->length + LODE_REDUCE_CHUNK - 1) / LODE_REDUCE_CHUNK;
  bool many = layout->kept * layout->columns * chunks >= MANY_COLUMNS;
  bool beside =
      inner ? chunks == 1 && across(layout)
            : chunks == 1 || (layout->columns >= LEAST_COLUMNS && !lode_program_moments(layout->program));
  if (inner && args->nreduced > 0 && args->inner <= LODE_SMALL_EXTENT) s->inner = (int32_t)args->inner;
  s->cut = LODE_TEMPLATE_COLUMNS;
  layout->cut = (lode_cut){.C = 1, .groups = chunks};
  if (layout->length <= LODE_ROW_REGISTERS || (many && beside)) return;
  s->cut = LODE_TEMPLATE_LANES;
  layout->cut = lode_layout_cut(layout->columns, layout->length);
  s->columns = (uint8_t)layout->cut.C;
}

static void choose_elements(lode_layout *layout) {
  layout->structure.cut = LODE_TEMPLATE_ELEMENTS;
  if (layout->args->nouter > 0 && layout->args->inner <= LODE_SMALL_EXTENT)
    layout->structure.inner = (int32_t)layout->args->inner;
  lode_structure *s = &layout->structure;
  int vector = choose_vector(layout, true);
  s->tiled =
      layout->args->inner >= LEAST_TILES * LODE_BLOCK_THREADS * vector && layout->kept >= LEAST_ROWS_OF_TILES;
  s->vector = (uint8_t)(s->tiled ? vector : choose_vector(layout, false));
  s->unroll = (uint8_t)choose_unroll(layout);
}

static void choose_template(lode_layout *layout) {
  const lode_program *program = layout->program;
  if (program->rows && choose_rows(layout)) return;
  if (program->rows) {
    choose_inner(layout);
    choose_wide(layout);
  } else if (program->form != LODE_REDUCE_NONE) choose_reduction(layout);
  else choose_elements(layout);
}

/* ---- parameters ---------------------------------------------------------------------- */

static int16_t add_word(lode_layout *layout, int64_t word) {
  layout->word[layout->nwords] = word;
  return (int16_t)layout->nwords++;
}

static void add_access(lode_layout *layout, int a, lode_dtype dtype) {
  const lode_access *access = lode_layout_access(layout->args, a);
  const lode_access_class *class = &layout->structure.access[a];
  if (access->base != NULL) {
    layout->at_pointer[a] = (int16_t)layout->npointers;
    layout->pointer[layout->npointers++] = access->base + access->offset * (int64_t)lode_dtype_size(dtype);
  } else {
    layout->at_offset[a] = add_word(layout, access->offset);
  }
  for (int d = 0; d < layout->args->nouter; d++)
    if (class->dims & 1u << d) layout->at_stride[a][d] = add_word(layout, access->stride[d]);
  if (class->inner == LODE_STRIDE_ANY) layout->at_inner[a] = add_word(layout, access->inner);
}

static void add_parameters(lode_layout *layout) {
  const lode_program *program = layout->program;
  const lode_args *args = layout->args;
  lode_structure *s = &layout->structure;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA)
      add_access(layout, value->index, (lode_dtype)value->dtype);
    if (value->kind == LODE_VALUE_CONST) {
      lode_scalar constant = {.i64 = 0};
      memcpy(&constant, &args->consts[value->index], lode_dtype_size((lode_dtype)value->dtype));
      layout->at_const[value->index] = add_word(layout, constant.i64);
    }
  }
  for (int o = 0; o < program->noutputs; o++)
    add_access(layout, LODE_OUT + o, (lode_dtype)program->value[program->output[o]].dtype);
  for (int d = 0; d < args->nouter; d++) layout->at_extent[d] = add_word(layout, args->outer[d]);
  if (s->inner == 0 || s->any_row) layout->at_space = add_word(layout, args->inner);
  layout->at_first = add_word(layout, layout->first);
  layout->at_count = add_word(layout, layout->count);
  layout->at_kept = add_word(layout, layout->kept);
  bool reduces = s->cut == LODE_TEMPLATE_LANES || s->cut == LODE_TEMPLATE_COLUMNS;
  if (reduces) {
    layout->at_length = add_word(layout, layout->length);
    layout->at_group = add_word(layout, layout->cut.group);
    layout->at_groups = add_word(layout, layout->cut.groups);
  }
  layout->at_workspace = (int16_t)layout->npointers; /* pointers are set for the launch */
  for (int o = 0; o < (reduces ? program->noutputs : 1); o++) layout->pointer[layout->npointers++] = NULL;
}

/* ---- entry -------------------------------------------------------------------------------- */

bool lode_layout_one_pass(const lode_program *program) {
  return !program->rows || program->form == LODE_REDUCE_NONE;
}

void lode_layout_make(lode_layout *layout, const lode_program *program, const lode_args *args, int64_t first,
                      int64_t count) {
  /* Arrays of words need no clearing; places of parameters are -1. */
  memset(&layout->structure, 0, sizeof layout->structure);
  memset(layout->at_pointer, -1, sizeof *layout - offsetof(lode_layout, at_pointer));
  layout->program = program;
  layout->args = args;
  layout->kept = layout->each = 1;
  layout->first = first;
  layout->count = count;
  layout->npointers = layout->nwords = 0;
  for (int d = 0; d < args->nouter; d++) {
    if (d < args->nouter - args->nreduced) layout->kept *= args->outer[d];
    else layout->each *= args->outer[d];
  }
  if (count < 0) layout->count = layout->kept;
  bool inner = program->form == LODE_REDUCE_INNER;
  layout->length = inner ? layout->each * args->inner : layout->each;
  layout->columns = inner ? 1 : args->inner;
  lode_structure *s = &layout->structure;
  s->form = program->form;
  s->by_rows = program->rows;
  s->noutputs = (uint8_t)program->noutputs;
  for (int o = 0; o < program->noutputs && o < LODE_MAX_OUTPUTS; o++)
    s->output[o] = (uint8_t)program->output[o];
  for (int o = 0; o < program->noutputs && program->form != LODE_REDUCE_NONE; o++)
    s->reduction[o] = program->reduction[o];
  s->nouter = (uint8_t)args->nouter;
  s->nreduced = (uint8_t)args->nreduced;
  s->nvalues = (uint16_t)program->nvalues;
  s->naccesses = (uint16_t)program->naccesses;
  s->nsegments = (uint16_t)program->nsegments;
  s->vector = 1;
  for (int a = 0; a < LODE_PLACES; a++) s->access[a].vector = 1;
  classify_all(layout);
  choose_template(layout);
  add_parameters(layout);
}

_Static_assert(sizeof(lode_value) == 20, "values have no padding: they are compared as bytes");
_Static_assert(sizeof(lode_structure) + LODE_MAX_VALUES * sizeof(lode_value) +
                       LODE_MAX_SEGMENTS * 5 * sizeof(int16_t) <=
                   LODE_KEY_BYTES,
               "a key holds the structure, all values and all segments");
_Static_assert((LODE_MAX_POINTERS + LODE_MAX_WORDS) * sizeof(int64_t) <= 4096, "what a launch may take");

/* Segments hold padding, so their members are copied one by one. */
size_t lode_layout_key(const lode_layout *layout, char key[LODE_KEY_BYTES]) {
  const lode_program *program = layout->program;
  char *to = key;
  memcpy(to, &layout->structure, sizeof layout->structure);
  to += sizeof layout->structure;
  for (int v = 0; v < program->nvalues; v++, to += sizeof program->value[0]) {
    lode_value value = program->value[v];
    if (layout->structure.any_row && value.width != 1) value.width = layout->structure.inner;
    memcpy(to, &value, sizeof value);
  }
  for (int g = 0; g < program->nsegments; g++, to += 5 * sizeof(int16_t)) {
    const lode_segment *s = &program->segment[g];
    const int16_t packed[] = {s->source, (int16_t)s->lo, (int16_t)s->hi, (int16_t)s->start, (int16_t)s->step};
    memcpy(to, packed, sizeof packed);
  }
  return (size_t)(to - key);
}
