/* The reductions of core/ops.def that take numbers, for one element type; see
 * vector.h for what must be defined. Included by reduce.c alone. */
#include "vector.h"

/* The 16 partial results of a row, folded into one vector. The row has `whole` elements in groups of
 * 16, then a tail that begins in `tails` more vectors: keep[g] selects the lanes that it fills, fill[g]
 * has the identity in the others. */
#define ROW_FUNCTION(name)                                                                                     \
  static inline __attribute__((always_inline)) V NAME(name##_row)(const T *x, int64_t whole, int tails,        \
                                                                  V none, const MASK *keep, const V *fill) {   \
    V p[GROUPS];                                                                                               \
    if (whole > 0) {                                                                                           \
      UNROLL for (int g = 0; g < GROUPS; g++) p[g] = LOAD(x + g * WIDTH);                                      \
      for (int64_t i = 16; i < whole; i += 16) {                                                               \
        UNROLL for (int g = 0; g < GROUPS; g++) p[g] = VECTOR_##name(p[g], LOAD(x + i + g * WIDTH));           \
      }                                                                                                        \
    } else {                                                                                                   \
      UNROLL for (int g = 0; g < GROUPS; g++) p[g] = none;                                                     \
    }                                                                                                          \
    UNROLL for (int g = 0; g < GROUPS; g++) {                                                                  \
      if (g < tails) p[g] = VECTOR_##name(p[g], MERGE(keep[g], LOAD(x + whole + g * WIDTH), fill[g]));         \
    }                                                                                                          \
    UNROLL for (int half = GROUPS / 2; half > 0; half /= 2) {                                                  \
      UNROLL for (int k = 0; k < half; k++) p[k] = VECTOR_##name(p[k], p[k + half]);                           \
    }                                                                                                          \
    return p[0];                                                                                               \
  }

/* As many rows as a vector has elements, at a time. `whole` and `tails` are constants in the common
 * cases, so that a row is straight code. */
#define MANY_ROWS_FUNCTION(name)                                                                               \
  static inline __attribute__((always_inline)) void NAME(name##_many_rows)(                                    \
      T * out, const T *in, int64_t rows, int64_t width, int64_t whole, int tails, V none, const MASK *keep,   \
      const V *fill) {                                                                                         \
    static const int order[WIDTH] = ROW_ORDER;                                                                 \
    V folded[WIDTH];                                                                                           \
    for (int64_t r = 0; r < rows; r += WIDTH, in += WIDTH * width) {                                           \
      UNROLL for (int k = 0; k < WIDTH; k++) folded[k] =                                                       \
          NAME(name##_row)(in + order[k] * width, whole, tails, none, keep, fill);                             \
      FOLD_ROWS(VECTOR_##name)                                                                                 \
      STORE(out + r, folded[0]);                                                                               \
    }                                                                                                          \
  }

/* One row from a copy, behind which there is something to read. */
#define ONE_ROW_FUNCTION(name)                                                                                 \
  static T NAME(name##_one_row)(const T *in, int64_t width, int64_t whole, int tails, V none,                  \
                                const MASK *keep, const V *fill) {                                             \
    V folded[WIDTH];                                                                                           \
    T copy[LODE_REDUCE_CHUNK + 16];                                                                            \
    memcpy(copy, in, (size_t)width * sizeof(T));                                                               \
    memset(copy + width, 0, 16 * sizeof(T));                                                                   \
    for (int k = 0; k < WIDTH; k++) folded[k] = none;                                                          \
    folded[0] = NAME(name##_row)(copy, whole, tails, none, keep, fill);                                        \
    FOLD_ROWS(VECTOR_##name)                                                                                   \
    return folded[0][0];                                                                                       \
  }

#define ROWS_FUNCTION(name, start)                                                                             \
  static void NAME(name##_rows)(void *outv, const void *inv, int64_t rows, int64_t width, int64_t behind) {    \
    T *out = outv;                                                                                             \
    const T *in = inv;                                                                                         \
    int64_t whole = width & ~(int64_t)15, tail = width - whole, many = rows / WIDTH * WIDTH;                   \
    int tails = (int)((tail + WIDTH - 1) / WIDTH);                                                             \
    V none, fill[GROUPS];                                                                                      \
    MASK keep[GROUPS];                                                                                         \
    for (int l = 0; l < WIDTH; l++) none[l] = (start);                                                         \
    for (int l = 0; l < 16; l++) keep[l / WIDTH][l % WIDTH] = l < tail ? -1 : 0;                               \
    for (int g = 0; g < GROUPS; g++) fill[g] = (V)(~keep[g] & (MASK)none);                                     \
    while (many > 0 && (rows - many) * width + behind < tails * WIDTH - tail) many -= WIDTH;                   \
    if (whole == 0 && tails == 1) NAME(name##_many_rows)(out, in, many, width, 0, 1, none, keep, fill);        \
    else if (whole == 16 && tails == 0) NAME(name##_many_rows)(out, in, many, width, 16, 0, none, keep, fill); \
    else if (whole == 16 && tails == 1) NAME(name##_many_rows)(out, in, many, width, 16, 1, none, keep, fill); \
    else NAME(name##_many_rows)(out, in, many, width, whole, tails, none, keep, fill);                         \
    for (int64_t r = many; r < rows; r++)                                                                      \
      out[r] = NAME(name##_one_row)(in + r * width, width, whole, tails, none, keep, fill);                    \
  }

#define LANES_FUNCTION(name, expr)                                                                             \
  static void NAME(name##_lanes)(void *lanes, const void *in, int64_t n) {                                     \
    T *partial = lanes;                                                                                        \
    const T *x = in;                                                                                           \
    V p[GROUPS];                                                                                               \
    UNROLL for (int g = 0; g < GROUPS; g++) p[g] = LOAD(partial + g * WIDTH);                                  \
    for (; n >= 16; n -= 16, x += 16) {                                                                        \
      UNROLL for (int g = 0; g < GROUPS; g++) p[g] = VECTOR_##name(p[g], LOAD(x + g * WIDTH));                 \
    }                                                                                                          \
    UNROLL for (int g = 0; g < GROUPS; g++) STORE(partial + g * WIDTH, p[g]);                                  \
    for (int64_t i = 0; i < n; i++) {                                                                          \
      T a = partial[i], b = x[i];                                                                              \
      partial[i] = (expr);                                                                                     \
    }                                                                                                          \
  }

/* Whole chunks, several of which are under way at once, since each is a chain of operations that wait for
 * one another. */
#define CHUNKS_FUNCTION(name, expr)                                                                            \
  static inline __attribute__((always_inline)) void NAME(name##_some_chunks)(T * out, const T *in,             \
                                                                             int count) {                      \
    V p[FLIGHT][GROUPS];                                                                                       \
    UNROLL for (int c = 0; c < count; c++) {                                                                   \
      UNROLL for (int g = 0; g < GROUPS; g++) p[c][g] = LOAD(in + c * LODE_REDUCE_CHUNK + g * WIDTH);          \
    }                                                                                                          \
    for (int i = 16; i < LODE_REDUCE_CHUNK; i += 16) {                                                         \
      UNROLL for (int c = 0; c < count; c++) {                                                                 \
        UNROLL for (int g = 0; g < GROUPS; g++) p[c][g] =                                                      \
            VECTOR_##name(p[c][g], LOAD(in + c * LODE_REDUCE_CHUNK + i + g * WIDTH));                          \
      }                                                                                                        \
    }                                                                                                          \
    UNROLL for (int c = 0; c < count; c++) {                                                                   \
      T lane[WIDTH];                                                                                           \
      UNROLL for (int half = GROUPS / 2; half > 0; half /= 2) {                                                \
        UNROLL for (int k = 0; k < half; k++) p[c][k] = VECTOR_##name(p[c][k], p[c][k + half]);                \
      }                                                                                                        \
      STORE(lane, p[c][0]);                                                                                    \
      UNROLL for (int half = WIDTH / 2; half > 0; half /= 2) {                                                 \
        UNROLL for (int k = 0; k < half; k++) {                                                                \
          T a = lane[k], b = lane[k + half];                                                                   \
          lane[k] = (expr);                                                                                    \
        }                                                                                                      \
      }                                                                                                        \
      out[c] = lane[0];                                                                                        \
    }                                                                                                          \
  }                                                                                                            \
  static void NAME(name##_chunks)(void *outv, const void *inv, int64_t n) {                                    \
    T *out = outv;                                                                                             \
    const T *in = inv;                                                                                         \
    for (; n >= FLIGHT; n -= FLIGHT, out += FLIGHT, in += FLIGHT * LODE_REDUCE_CHUNK)                          \
      NAME(name##_some_chunks)(out, in, FLIGHT);                                                               \
    for (; n > 0; n--, out++, in += LODE_REDUCE_CHUNK) NAME(name##_some_chunks)(out, in, 1);                   \
  }

#define COMBINE_FUNCTION(name, expr)                                                                           \
  static void NAME(name##_combine)(void *dv, const void *av, const void *bv, const void *cv, int64_t n,        \
                                   unsigned scalars) {                                                         \
    (void)cv, (void)scalars;                                                                                   \
    T *d = dv;                                                                                                 \
    const T *x = av, *y = bv;                                                                                  \
    _Pragma("GCC unroll 4") LODE_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                 \
      T a = x[i], b = y[i];                                                                                    \
      d[i] = (expr);                                                                                           \
    }                                                                                                          \
  }

#define REDUCE_LOGICAL(name, start, expr)
#define REDUCE_NUMERIC(name, start, expr)                                                                      \
  ROW_FUNCTION(name)                                                                                           \
  MANY_ROWS_FUNCTION(name)                                                                                     \
  ONE_ROW_FUNCTION(name)                                                                                       \
  ROWS_FUNCTION(name, start)                                                                                   \
  LANES_FUNCTION(name, expr)                                                                                   \
  CHUNKS_FUNCTION(name, expr)                                                                                  \
  COMBINE_FUNCTION(name, expr)
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
#undef REDUCE_NUMERIC

#define REDUCE_NUMERIC(name, start, expr)                                                                      \
  reducers[LODE_RED_##name].rows = NAME(name##_rows);                                                          \
  reducers[LODE_RED_##name].lanes = NAME(name##_lanes);                                                        \
  reducers[LODE_RED_##name].chunks = NAME(name##_chunks);                                                      \
  reducers[LODE_RED_##name].combine = NAME(name##_combine);

static void NAME(fill)(lode_reducer *reducers) {
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
}

#undef REDUCE_NUMERIC
#undef REDUCE_LOGICAL
#undef ROW_FUNCTION
#undef MANY_ROWS_FUNCTION
#undef ONE_ROW_FUNCTION
#undef ROWS_FUNCTION
#undef LANES_FUNCTION
#undef CHUNKS_FUNCTION
#undef COMBINE_FUNCTION
