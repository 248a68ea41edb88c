/* The reductions of core/ops.def that take numbers, for one element type; see
 * vector.h for what must be defined. Included by reduce.c alone. */
#include "vector.h"

/* The 16 partial results of a row, folded into one vector. `none` is the identity; keep[g] selects the
 * lanes that the row's last, incomplete 16 elements fill; nothing is read at `end` or beyond. */
#define ROW_FUNCTION(name)                                                                                     \
  static inline __attribute__((always_inline)) V NAME(name##_row)(const T *x, int64_t width, const T *end,     \
                                                                  V none, const MASK *keep) {                  \
    V p[GROUPS];                                                                                               \
    T rest[16];                                                                                                \
    int64_t j = width & ~(int64_t)15, tail = width - j;                                                        \
    if (j > 0) {                                                                                               \
      UNROLL for (int g = 0; g < GROUPS; g++) p[g] = LOAD(x + g * WIDTH);                                      \
      for (int64_t i = 16; i < j; i += 16) {                                                                   \
        UNROLL for (int g = 0; g < GROUPS; g++) p[g] = VECTOR_##name(p[g], LOAD(x + i + g * WIDTH));           \
      }                                                                                                        \
    } else {                                                                                                   \
      UNROLL for (int g = 0; g < GROUPS; g++) p[g] = none;                                                     \
    }                                                                                                          \
    if (tail > 0) {                                                                                            \
      x += j;                                                                                                  \
      if (end - x < 16) x = memcpy(rest, x, (size_t)tail * sizeof(T));                                         \
      UNROLL for (int g = 0; g < GROUPS; g++) {                                                                \
        if (tail > g * WIDTH) p[g] = VECTOR_##name(p[g], CHOOSE(keep[g], LOAD(x + g * WIDTH), none));          \
      }                                                                                                        \
    }                                                                                                          \
    UNROLL for (int half = GROUPS / 2; half > 0; half /= 2) {                                                  \
      UNROLL for (int k = 0; k < half; k++) p[k] = VECTOR_##name(p[k], p[k + half]);                           \
    }                                                                                                          \
    return p[0];                                                                                               \
  }

#define ROWS_FUNCTION(name, start)                                                                          \
  static void NAME(name##_rows)(void *outv, const void *inv, int64_t rows, int64_t width) {                    \
    static const int order[WIDTH] = ROW_ORDER;                                                                 \
    T *out = outv;                                                                                             \
    const T *in = inv, *end = in + rows * width;                                                               \
    V none, folded[WIDTH];                                                                                     \
    MASK keep[GROUPS];                                                                                         \
    for (int l = 0; l < WIDTH; l++) none[l] = (start);                                                      \
    for (int l = 0; l < 16; l++) keep[l / WIDTH][l % WIDTH] = l < (width & 15) ? -1 : 0;                       \
    for (; rows >= WIDTH; rows -= WIDTH, in += WIDTH * width, out += WIDTH) {                                  \
      UNROLL for (int k = 0; k < WIDTH; k++) folded[k] =                                                       \
          NAME(name##_row)(in + order[k] * width, width, end, none, keep);                                     \
      FOLD_ROWS(VECTOR_##name)                                                                                 \
      STORE(out, folded[0]);                                                                                   \
    }                                                                                                          \
    if (rows == 0) return;                                                                                     \
    for (int k = 0; k < WIDTH; k++)                                                                            \
      folded[k] = order[k] < rows ? NAME(name##_row)(in + order[k] * width, width, end, none, keep) : none;    \
    FOLD_ROWS(VECTOR_##name)                                                                                   \
    for (int r = 0; r < rows; r++) out[r] = folded[0][r];                                                      \
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

#define COMBINE_FUNCTION(name, expr)                                                                           \
  static void NAME(name##_combine)(void *dv, const void *av, const void *bv, const void *cv, int64_t n,        \
                                   unsigned scalars) {                                                         \
    (void)cv, (void)scalars;                                                                                   \
    T *d = dv;                                                                                                 \
    const T *x = av, *y = bv;                                                                                  \
    LODE_INDEPENDENT                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                          \
      T a = x[i], b = y[i];                                                                                    \
      d[i] = (expr);                                                                                           \
    }                                                                                                          \
  }

#define REDUCE_LOGICAL(name, start, expr)
#define REDUCE_NUMERIC(name, start, expr)                                                                   \
  ROW_FUNCTION(name)                                                                                           \
  ROWS_FUNCTION(name, start)                                                                                \
  LANES_FUNCTION(name, expr)                                                                                   \
  COMBINE_FUNCTION(name, expr)
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
#undef REDUCE_NUMERIC

#define REDUCE_NUMERIC(name, start, expr)                                                                   \
  reducers[LODE_RED_##name].rows = NAME(name##_rows);                                                          \
  reducers[LODE_RED_##name].lanes = NAME(name##_lanes);                                                        \
  reducers[LODE_RED_##name].combine = NAME(name##_combine);                                                    \
  memcpy(&reducers[LODE_RED_##name].identity, &(T){start}, sizeof(T));

static void NAME(fill)(lode_reducer *reducers) {
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
}

#undef REDUCE_NUMERIC
#undef REDUCE_LOGICAL
#undef ROW_FUNCTION
#undef ROWS_FUNCTION
#undef LANES_FUNCTION
#undef COMBINE_FUNCTION
