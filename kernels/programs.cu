/* Programs without a compiler: an interpreter, and the reductions that it and others
 * end with. The operations come from core/ops.def, as they do in a program's text. */
#include "device.h"

#include "prelude.h"

#include "core/moments.h"

#include "templates.h"

#include "programs.h"

#define LODE_RANDOM_FUNCTION LODE_DEVICE
#define LODE_RANDOM_SQRTF    sqrtf
#define LODE_RANDOM_SQRT     sqrt
#include "core/random.h"

#define LODE_ELEMENTARY_FUNCTION LODE_DEVICE
#define LODE_ELEMENTARY_APART    LODE_APART
#include "core/elementary.h"

/* The element types that a rule admits: M(dtype, T, U, ...) for each. */
#define I32(M, ...)      M(I32, int32_t, uint32_t, __VA_ARGS__)
#define I64(M, ...)      M(I64, int64_t, uint64_t, __VA_ARGS__)
#define F32(M, ...)      M(F32, float, float, __VA_ARGS__)
#define F64(M, ...)      M(F64, double, double, __VA_ARGS__)
#define BOOL(M, ...)     M(BOOL, uint8_t, uint8_t, __VA_ARGS__)
#define NUMERIC(M, ...)  I32(M, __VA_ARGS__) I64(M, __VA_ARGS__) F32(M, __VA_ARGS__) F64(M, __VA_ARGS__)
#define FLOATING(M, ...) F32(M, __VA_ARGS__) F64(M, __VA_ARGS__)
#define LOGICAL(M, ...)  BOOL(M, __VA_ARGS__)
#define COMPARE(M, ...)  BOOL(M, __VA_ARGS__) NUMERIC(M, __VA_ARGS__)
#define SELECT(M, ...)   BOOL(M, __VA_ARGS__) NUMERIC(M, __VA_ARGS__)

/* The type of a result whose operands are T. */
#define RESULT_NUMERIC(T)  T
#define RESULT_FLOATING(T) T
#define RESULT_LOGICAL(T)  T
#define RESULT_COMPARE(T)  uint8_t

/* ---- the interpreter ------------------------------------------------------------------ */

/* A tile: some elements, or some rows where the program gathers. */
typedef struct tile {
  char *slots; /* this block's, slot_bytes apart */
  int32_t slot_bytes;
  int64_t first;
  uint32_t count;
} tile;

LODE_DEVICE char *slot_of(const tile &at, int v) { return at.slots + (int64_t)v * at.slot_bytes; }

/* Elements that value v has in the tile. */
LODE_DEVICE uint32_t elements_of(const lode_interpret_parameters &p, const tile &at, int v) {
  return p.rows > 0 ? at.count * p.value[v].width : at.count;
}

/* Where element i of a value of this width lies, in elements from its access's base. */
LODE_DEVICE int64_t offset_of(const lode_interpret_parameters &p, const tile &at,
                              const lode_compact_access &access, uint32_t width, uint32_t i) {
  int64_t row = at.first + (p.rows > 0 ? i / width : i), column = p.rows > 0 ? i % width : 0;
  if (p.rows == 0) {
    column = row % p.inner;
    row /= p.inner;
  }
  int64_t offset = access.inner * column;
  LODE_NO_UNROLL
  for (int d = p.nouter - 1; d > 0; d--) {
    int64_t next = row / p.outer[d];
    offset += access.stride[d] * (row - next * p.outer[d]);
    row = next;
  }
  return p.nouter > 0 ? offset + access.stride[0] * row : offset;
}

#define EACH(n)                                                                                                \
  LODE_NO_UNROLL                                                                                               \
  for (uint32_t i = LODE_THREAD; i < (n); i += LODE_THREADS)

LODE_DEVICE int size_of(int dtype) {
  return dtype == LODE_BOOL ? 1 : dtype == LODE_I32 || dtype == LODE_F32 ? 4 : 8;
}

/* Copies an element of `size` bytes. */
LODE_DEVICE void copy(char *to, int64_t i, const char *from, int64_t j, int size) {
  if (size == 1) ((uint8_t *)to)[i] = ((const uint8_t *)from)[j];
  else if (size == 4) ((uint32_t *)to)[i] = ((const uint32_t *)from)[j];
  else ((uint64_t *)to)[i] = ((const uint64_t *)from)[j];
}

LODE_DEVICE void read_access(const lode_interpret_parameters &p, const tile &at, int v) {
  const lode_compact_value &value = p.value[v];
  const lode_compact_access &access = p.access[value.index];
  int size = size_of(value.dtype);
  EACH(elements_of(p, at, v))
  copy(slot_of(at, v), i, (const char *)access.base, offset_of(p, at, access, value.width, i), size);
}

LODE_DEVICE void number(const lode_interpret_parameters &p, const tile &at, int v) {
  const lode_compact_access &access = p.access[p.value[v].index];
  EACH(elements_of(p, at, v))
  ((int64_t *)slot_of(at, v))[i] = access.base + offset_of(p, at, access, p.value[v].width, i);
}

LODE_DEVICE void fill(const lode_interpret_parameters &p, const tile &at, int v) {
  int size = size_of(p.value[v].dtype);
  EACH(elements_of(p, at, v))
  copy(slot_of(at, v), i, (const char *)&p.constant[p.value[v].index], 0, size);
}

LODE_DEVICE void gather(const lode_interpret_parameters &p, const tile &at, int v) {
  const lode_compact_value &value = p.value[v];
  int size = size_of(value.dtype);
  EACH(elements_of(p, at, v)) {
    int32_t row = (int32_t)(i / value.width), column = (int32_t)(i % value.width);
    int g = value.first;
    while (column >= p.segment[g].hi) g++;
    const lode_compact_segment &s = p.segment[g];
    int32_t width = p.value[s.source].width, from = width == 1 ? 0 : s.start + s.step * (column - s.lo);
    copy(slot_of(at, v), i, slot_of(at, s.source), row * width + from, size);
  }
}

/* The element of operand k for element i of a value: an operand with one element a row stands for all of it. */
LODE_DEVICE uint32_t operand_at(const lode_interpret_parameters &p, const lode_compact_value &value, int k,
                                uint32_t i) {
  bool spread = p.rows > 0 && value.width > 1 && p.value[value.a[k]].width == 1;
  return spread ? i / value.width : i;
}

#define OPERAND(k, T) ((const T *)slot_of(at, value.a[k]))[operand_at(p, value, k, i)]

#define CAST_CASE(dtype, From, U, to)                                                                          \
  case LODE_##dtype: {                                                                                         \
    EACH(n) result[i] = LODE_CAST_##to(OPERAND(0, From));                                                      \
  } break;

#define CAST_INTO(to, To)                                                                                      \
  LODE_DEVICE void cast_##to(const lode_interpret_parameters &p, const tile &at, int v) {                      \
    const lode_compact_value &value = p.value[v];                                                              \
    To *result = (To *)slot_of(at, v);                                                                         \
    uint32_t n = elements_of(p, at, v);                                                                        \
    switch (value.from) { COMPARE(CAST_CASE, to) }                                                             \
  }
CAST_INTO(BOOL, uint8_t)
CAST_INTO(I32, int32_t)
CAST_INTO(I64, int64_t)
CAST_INTO(F32, float)
CAST_INTO(F64, double)

LODE_DEVICE void cast(const lode_interpret_parameters &p, const tile &at, int v) {
  switch (p.value[v].dtype) {
#define X(to, text, T, U, kind)                                                                                \
  case LODE_##to:                                                                                              \
    cast_##to(p, at, v);                                                                                       \
    break;
    LODE_DTYPE_MAP(X)
#undef X
  }
}

#define KEY(op, dtype) ((op)*LODE_NDTYPES + (dtype))

#define UNARY_CASE(dtype, T_, U_, name, R, expr)                                                               \
  case KEY(LODE_OP_##name, LODE_##dtype): {                                                                    \
    typedef T_ T;                                                                                              \
    typedef U_ U;                                                                                              \
    EACH(n) {                                                                                                  \
      T a = OPERAND(0, T);                                                                                     \
      ((R(T) *)slot_of(at, v))[i] = (R(T))(expr);                                                              \
    }                                                                                                          \
  } break;

#define BINARY_CASE(dtype, T_, U_, name, R, expr)                                                              \
  case KEY(LODE_OP_##name, LODE_##dtype): {                                                                    \
    typedef T_ T;                                                                                              \
    typedef U_ U;                                                                                              \
    EACH(n) {                                                                                                  \
      T a = OPERAND(0, T), b = OPERAND(1, T);                                                                  \
      ((R(T) *)slot_of(at, v))[i] = (R(T))(expr);                                                              \
    }                                                                                                          \
  } break;

#define TERNARY_CASE(dtype, T_, U_, name, expr)                                                                \
  case KEY(LODE_OP_##name, LODE_##dtype): {                                                                    \
    typedef T_ T;                                                                                              \
    EACH(n) {                                                                                                  \
      uint8_t a = OPERAND(0, uint8_t);                                                                         \
      T b = OPERAND(1, T), c = OPERAND(2, T);                                                                  \
      ((T *)slot_of(at, v))[i] = (expr);                                                                       \
    }                                                                                                          \
  } break;

#define COUNTER_CASE(dtype, T_, U_, name, expr)                                                                \
  case KEY(LODE_OP_##name, LODE_##dtype): {                                                                    \
    EACH(n) {                                                                                                  \
      int64_t a = OPERAND(0, int64_t), b = OPERAND(1, int64_t);                                                \
      ((T_ *)slot_of(at, v))[i] = (expr);                                                                      \
    }                                                                                                          \
  } break;

#define LODE_UNARY(name, rule, expr)   rule(UNARY_CASE, name, RESULT_##rule, expr)
#define LODE_BINARY(name, rule, expr)  rule(BINARY_CASE, name, RESULT_##rule, expr)
#define LODE_TERNARY(name, rule, expr) rule(TERNARY_CASE, name, expr)
#define LODE_COUNTER(name, f32, f64)   F32(COUNTER_CASE, name, f32) F64(COUNTER_CASE, name, f64)

/* By operation and element type: of what is compared, or of the result. The same in all threads. */
LODE_DEVICE void operate(const lode_interpret_parameters &p, const tile &at, int v) {
  const lode_compact_value &value = p.value[v];
  uint32_t n = elements_of(p, at, v);
  bool compares = value.dtype == LODE_BOOL && value.op != LODE_OP_where;
  switch (KEY(value.op, compares ? value.from : value.dtype)) {
#include "core/ops.def"
  }
}

/* A thread for each row: its lanes, folded, chunk by chunk; chunks combine as a binary counter counts. */
template <class J> LODE_DEVICE typename J::T reduce_row(const typename J::T *x, uint32_t width) {
  typename J::T level[8]; /* rows have at most 2^7 chunks */
  uint32_t chunks = 0;
  for (uint32_t first = 0; first < width; first += LODE_CHUNK, chunks++) {
    typename J::T lane[LODE_LANES];
    LODE_UNROLL
    for (int k = 0; k < LODE_LANES; k++) lane[k] = J::identity();
    uint32_t end = width - first < LODE_CHUNK ? width : first + LODE_CHUNK;
    for (uint32_t e = first; e < end; e += LODE_LANES) {
      LODE_UNROLL
      for (int k = 0; k < LODE_LANES; k++)
        if (e + k < end) lane[k] = J::combine(lane[k], x[e + k]);
    }
    typename J::T sum = lode_fold<J, LODE_LANES>(lane);
    int l = 0;
    for (uint32_t c = chunks; (c & 1) != 0; c >>= 1) sum = J::combine(level[l++], sum);
    level[l] = sum;
  }
  int l = 0;
  while ((chunks >> l & 1) == 0) l++;
  typename J::T result = level[l];
  for (l++; chunks >> l != 0; l++)
    if ((chunks >> l & 1) != 0) result = J::combine(level[l], result);
  return result;
}

/* A job of templates.h as far as all have it: dense jobs add where elements lie. */
#define JOB(dtype, T_, U_, name, start, expr)                                                                  \
  struct name##_job_##dtype {                                                                                  \
    typedef T_ T;                                                                                              \
    typedef U_ U;                                                                                              \
    LODE_DEVICE T identity() { return (start); }                                                               \
    LODE_DEVICE T combine(T a, T b) { return (expr); }                                                         \
  };
#define LODE_REDUCE(name, rule, start, expr) rule(JOB, name, start, expr)
#include "core/ops.def"

#define ROW_CASE(dtype, T, U, name)                                                                            \
  case KEY(LODE_RED_##name, LODE_##dtype): {                                                                   \
    EACH(n)                                                                                                    \
    ((T *)slot_of(at, v))[i] = reduce_row<name##_job_##dtype>((const T *)from + (int64_t)i * width, width);    \
  } break;

LODE_DEVICE void reduce_rows(const lode_interpret_parameters &p, const tile &at, int v) {
  const lode_compact_value &value = p.value[v];
  const char *from = slot_of(at, value.a[0]);
  uint32_t n = at.count, width = p.value[value.a[0]].width;
  switch (KEY(value.op, value.dtype)) {
#define LODE_REDUCE(name, rule, start, expr) rule(ROW_CASE, name)
#include "core/ops.def"
  }
}

LODE_DEVICE void evaluate(const lode_interpret_parameters &p, const tile &at, int v) {
  switch (p.value[v].kind) {
  case LODE_VALUE_ACCESS:
    read_access(p, at, v);
    break;
  case LODE_VALUE_IOTA:
    number(p, at, v);
    break;
  case LODE_VALUE_CONST:
    fill(p, at, v);
    break;
  case LODE_VALUE_OP:
    operate(p, at, v);
    break;
  case LODE_VALUE_CAST:
    cast(p, at, v);
    break;
  case LODE_VALUE_GATHER:
    gather(p, at, v);
    break;
  case LODE_VALUE_REDUCE:
    reduce_rows(p, at, v);
    break;
  }
}

LODE_DEVICE void store(const lode_interpret_parameters &p, const tile &at, int o) {
  int v = p.output[o], size = size_of(p.value[v].dtype);
  EACH(elements_of(p, at, v))
  copy((char *)p.out[o].base, offset_of(p, at, p.out[o], p.value[v].width, i), slot_of(at, v), i, size);
}

/* Not by rows, a thread meets its own elements only; rows are read across. */
LODE_KERNEL(interpret, lode_interpret_parameters) {
  const uint32_t most = p.rows > 0 ? (uint32_t)p.rows : LODE_TILE;
  tile at;
  at.slots = p.slots + (int64_t)LODE_BLOCK * p.nvalues * p.slot_bytes;
  at.slot_bytes = p.slot_bytes;
  for (int64_t done = (int64_t)LODE_BLOCK * most; done < p.count; done += (int64_t)LODE_BLOCKS * most) {
    at.first = p.first + done;
    at.count = p.count - done < most ? (uint32_t)(p.count - done) : most;
    for (int v = 0; v < p.nvalues; v++) {
      evaluate(p, at, v);
      if (p.rows > 0) LODE_SYNC();
    }
    for (int o = 0; o < p.noutputs; o++) store(p, at, o);
    if (p.rows > 0) LODE_SYNC();
  }
}

/* ---- reductions ---------------------------------------------------------------------------- */

template <class T> LODE_DEVICE void put_result(const lode_result &out, int64_t k, int64_t j, T x) {
  int64_t offset = out.inner * j;
  LODE_NO_UNROLL
  for (int d = out.ndims - 1; d > 0; d--) {
    int64_t next = k / out.extent[d];
    offset += out.stride[d] * (k - next * out.extent[d]);
    k = next;
  }
  if (out.ndims > 0) offset += out.stride[0] * k;
  ((T *)out.base)[offset] = x;
}

/* A job of templates.h over dense memory, of one output R. */
template <class R> struct dense : R {
  typedef typename R::T T;
  typedef typename R::E E;
  typedef int64_t I;
  typedef struct {
    int64_t at;
    E first;
  } place;
  enum { APART = R::BLOCKS };
  LODE_DEVICE place at(const lode_reduce_parameters &p, I k, I j) {
    place at;
    at.at = k * p.length * p.columns + j;
    at.first = lode_load((const E *)p.first + (k * p.first_stride + j));
    return at;
  }
  LODE_DEVICE E get(const lode_reduce_parameters &p, const place &at, I e) {
    return lode_load((const E *)p.x + (at.at + e * p.columns));
  }
  template <int N> LODE_DEVICE void add(T &sum, const place &at, const E (&x)[N], int count) {
    R::add(sum, x, count, at.first);
  }
  LODE_DEVICE void put(const lode_reduce_parameters &p, I k, I j, T x) {
    put_result(p.out, p.first_kept + k, j, R::result(x));
  }
  LODE_DEVICE void keep(const lode_reduce_parameters &p, int64_t i, T x) { ((T *)p.partial)[i] = x; }
};

#define REDUCE(dtype, T, U, name, R)                                                                           \
  case KEY(LODE_RED_##name, LODE_##dtype):                                                                     \
    reduce<dense<R>>(p, lanes);                                                                                \
    break;
#define REDUCE_CASE(dtype, T, U, name) REDUCE(dtype, T, U, name, lode_plain<name##_job_##dtype>)
#define MOMENT_CASE(dtype, T, U, name) REDUCE(dtype, T, U, name, lode_##name<T>)

template <class J> LODE_DEVICE void reduce(const lode_reduce_parameters &p, void *lanes) {
  lode_reduce_shape s;
  s.kept = p.kept;
  s.columns = p.columns;
  s.C = (uint32_t)p.C;
  s.group = (uint32_t)p.group;
  s.groups = p.groups;
  const int64_t before = p.first_kept * p.all + p.before; /* partial results are those of all kept indices */
  lode_reduce_lanes<J>(p, (typename J::T *)lanes, s, p.length, p.partial != nullptr, before, p.all);
}

LODE_KERNEL(reduce, lode_reduce_parameters) {
  LODE_SHARED uint64_t lanes[3 * LODE_ITEMS];
  switch (KEY(p.reduction, p.dtype)) {
#define LODE_REDUCE(name, rule, start, expr) rule(REDUCE_CASE, name)
#define LODE_MOMENT(name, rule)              rule(MOMENT_CASE, name)
#include "core/ops.def"
  }
}

/* `count` groups at x, ..., each `stride` elements on: neighbours at distance 1, 2, 4, ... */
template <class R>
LODE_DEVICE typename R::T combine_run(const typename R::T *x, int64_t stride, uint32_t count) {
  typename R::T run[LODE_COMBINE_RUN];
  LODE_UNROLL
  for (uint32_t i = 0; i < LODE_COMBINE_RUN; i++) run[i] = x[i < count ? i * stride : 0];
  LODE_UNROLL
  for (uint32_t distance = 1; distance < LODE_COMBINE_RUN; distance *= 2) {
    LODE_UNROLL
    for (uint32_t i = 0; i + distance < LODE_COMBINE_RUN; i += 2 * distance)
      if (i + distance < count) run[i] = R::combine(run[i], run[i + distance]);
  }
  return run[0];
}

/* Neighbours at distance 1, 2, 4, ..., farther ones in shared memory: a span of groups of some columns of one
 * kept index. */
template <class R> LODE_DEVICE void combine_groups(const lode_combine_parameters &p, int o, void *shared) {
  typedef typename R::T T;
  const lode_combine_output &output = p.output[o];
  T *x = (T *)shared;
  const int64_t tiles = (p.columns + LODE_COMBINE_COLUMNS - 1) / LODE_COMBINE_COLUMNS;
  const int64_t spans = (p.groups + p.span - 1) / p.span;
  const int64_t units = p.kept * tiles * spans, before = o * units % LODE_BLOCKS;
  LODE_NO_UNROLL
  for (int64_t unit = (LODE_BLOCK + LODE_BLOCKS - before) % LODE_BLOCKS; unit < units; unit += LODE_BLOCKS) {
    const int64_t set = unit / spans, span = unit - set * spans, k = set / tiles;
    const int64_t column = (set - k * tiles) * LODE_COMBINE_COLUMNS, group = span * p.span;
    const uint32_t columns = p.columns - column < LODE_COMBINE_COLUMNS ? (uint32_t)(p.columns - column)
                                                                       : (uint32_t)LODE_COMBINE_COLUMNS;
    const uint32_t groups = (uint32_t)(p.groups - group < p.span ? p.groups - group : p.span);
    const T *from = (const T *)output.from + ((k * p.groups + group) * p.columns + column);
    const uint32_t runs = (groups + LODE_COMBINE_RUN - 1) / LODE_COMBINE_RUN;
    LODE_NO_UNROLL
    for (uint32_t t = LODE_THREAD; t < runs * columns; t += LODE_THREADS) {
      const uint32_t begin = t / columns * LODE_COMBINE_RUN;
      x[t] = combine_run<R>(from + (begin * p.columns + t % columns), p.columns, groups - begin);
    }
    LODE_NO_UNROLL
    for (uint32_t distance = 1; distance < runs; distance *= 2) {
      LODE_SYNC();
      const uint32_t pairs = (runs - distance - 1) / (2 * distance) + 1;
      LODE_NO_UNROLL
      for (uint32_t t = LODE_THREAD; t < pairs * columns; t += LODE_THREADS) {
        T *left = x + (t / columns * 2 * distance * columns + t % columns);
        *left = R::combine(*left, left[distance * columns]);
      }
    }
    LODE_SYNC();
    for (uint32_t j = LODE_THREAD; j < columns; j += LODE_THREADS) {
      if (spans == 1) put_result(output.out, k, column + j, R::result(x[j]));
      else ((T *)output.to)[(k * spans + span) * p.columns + column + j] = x[j];
    }
    LODE_SYNC();
  }
}

#define COMBINE(dtype, T, U, name, R)                                                                          \
  case KEY(LODE_RED_##name, LODE_##dtype):                                                                     \
    combine_groups<R>(p, o, shared);                                                                           \
    break;
#define COMBINE_CASE(dtype, T, U, name)   COMBINE(dtype, T, U, name, lode_plain<name##_job_##dtype>)
#define COMBINE_MOMENT(dtype, T, U, name) COMBINE(dtype, T, U, name, lode_##name<T>)

/* Blocks go through the units of one output after the other. */
LODE_KERNEL(combine, lode_combine_parameters) {
  LODE_SHARED uint64_t shared[LODE_COMBINE_BYTES / 8];
  LODE_NO_UNROLL
  for (int o = 0; o < p.noutputs; o++) {
    switch (KEY(p.output[o].reduction, p.output[o].dtype)) {
#define LODE_REDUCE(name, rule, start, expr) rule(COMBINE_CASE, name)
#define LODE_MOMENT(name, rule)              rule(COMBINE_MOMENT, name)
#include "core/ops.def"
    }
  }
}
