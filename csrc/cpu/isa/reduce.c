/* The reductions of one instruction set (../isa.h), in the order of
 * core/reduce.h: along short rows, along a stream of 16 interleaved partial
 * results, and element by element between two arrays. Numbers are done with
 * vectors (vector.h, reduce_type.h), bools with plain loops here. */
#include "../isa.h"

#include <string.h>

#include "../../core/expr.h"
#include "../../core/moments.h"
#include "../../core/reduce.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

_Static_assert(LODE_REDUCE_LANES == 16, "the vectors of reduce_type.h hold 16 partial results");

#define T       int32_t
#define U       uint32_t
#define I       int32_t
#define ELEMENT 4
#define NAME(x) x##_i32
#include "reduce_type.h"
#undef T
#undef U
#undef I
#undef ELEMENT
#undef NAME

#define T       int64_t
#define U       uint64_t
#define I       int64_t
#define ELEMENT 8
#define NAME(x) x##_i64
#include "reduce_type.h"
#undef T
#undef U
#undef I
#undef ELEMENT
#undef NAME

#define T       float
#define U       float
#define I       int32_t
#define ELEMENT 4
#define NAME(x) x##_f32
#include "reduce_type.h"

#include "moments_type.h"
#undef T
#undef U
#undef I
#undef ELEMENT
#undef NAME

#define T       double
#define U       double
#define I       int64_t
#define ELEMENT 8
#define NAME(x) x##_f64
#include "reduce_type.h"

#include "moments_type.h"
#undef T
#undef U
#undef I
#undef ELEMENT
#undef NAME

/* ---- bools: order cannot matter ------------------------------------------ */

#define T uint8_t
#define REDUCE_NUMERIC(name, start, expr)
#define REDUCE_LOGICAL(name, start, expr)                                                                      \
  static void name##_rows_bool(void *outv, const void *inv, int64_t rows, int64_t width, int64_t behind) {     \
    (void)behind;                                                                                              \
    T *out = outv;                                                                                             \
    const T *in = inv;                                                                                         \
    for (int64_t r = 0; r < rows; r++, in += width) {                                                          \
      T a = (start);                                                                                           \
      for (int64_t j = 0; j < width; j++) {                                                                    \
        T b = in[j];                                                                                           \
        a = (expr);                                                                                            \
      }                                                                                                        \
      out[r] = a;                                                                                              \
    }                                                                                                          \
  }                                                                                                            \
  static void name##_chunks_bool(void *out, const void *in, int64_t n) {                                       \
    name##_rows_bool(out, in, n, LODE_REDUCE_CHUNK, 0);                                                        \
  }                                                                                                            \
  static void name##_lanes_bool(void *lanes, const void *in, int64_t n) {                                      \
    T *partial = lanes, a = *partial;                                                                          \
    const T *x = in;                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                          \
      T b = x[i];                                                                                              \
      a = (expr);                                                                                              \
    }                                                                                                          \
    *partial = a;                                                                                              \
  }                                                                                                            \
  static void name##_combine_bool(void *dv, const void *av, const void *bv, const void *cv, int64_t n,         \
                                  unsigned scalars) {                                                          \
    (void)cv, (void)scalars;                                                                                   \
    T *d = dv;                                                                                                 \
    const T *x = av, *y = bv;                                                                                  \
    LODE_INDEPENDENT                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                          \
      T a = x[i], b = y[i];                                                                                    \
      d[i] = (expr);                                                                                           \
    }                                                                                                          \
  }
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
#undef REDUCE_LOGICAL

#define REDUCE_LOGICAL(name, start, expr)                                                                      \
  reducers[LODE_RED_##name].rows = name##_rows_bool;                                                           \
  reducers[LODE_RED_##name].lanes = name##_lanes_bool;                                                         \
  reducers[LODE_RED_##name].chunks = name##_chunks_bool;                                                       \
  reducers[LODE_RED_##name].combine = name##_combine_bool;
static void fill_bool(lode_reducer *reducers) {
#define LODE_REDUCE(name, rule, identity, expr) REDUCE_##rule(name, identity, expr)
#include "../../core/ops.def"
}

/* ---- the table ---------------------------------------------------------- */

void LODE_ISA_NAME(lode_isa_reduce)(lode_isa *table) {
  lode_reducer reducers[LODE_NREDUCTIONS];
  static void (*const fill[LODE_NDTYPES])(lode_reducer *) = {
      [LODE_BOOL] = fill_bool, [LODE_I32] = fill_i32, [LODE_I64] = fill_i64,
      [LODE_F32] = fill_f32,   [LODE_F64] = fill_f64,
  };
  for (int dtype = 0; dtype < LODE_NDTYPES; dtype++) {
    memset(reducers, 0, sizeof reducers);
    fill[dtype](reducers);
    for (int r = 0; r < LODE_NREDUCTIONS; r++) table->reduce[r][dtype] = reducers[r];
  }
  table->m2[LODE_F32] = &m2_f32;
  table->m2[LODE_F64] = &m2_f64;
}
