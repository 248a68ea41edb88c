/* The elementwise operations and casts of one instruction set (../isa.h), made
 * from core/ops.def: for each operation and each element type that its rule
 * admits, plain loops that the compiler vectorizes.
 *
 * An operand that is one element gets a loop of its own, with the element in a
 * register. Reductions are in reduce.c, copies in move.c. */
#include "../isa.h"

#include "../../core/expr.h"
#include "../../core/random.h"

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

#define UNUSED __attribute__((unused))
#define EACH                                                                                                   \
  LODE_INDEPENDENT                                                                                             \
  for (int64_t i = 0; i < n; i++)

/* Loops of one vector instruction take twice as long where they happen to straddle a line of code;
 * unrolled, they do not. For the types of most work, since it is paid in size. */
#define EACH_BOOL EACH
#define EACH_I32  EACH
#define EACH_I64  EACH
#define EACH_F32  _Pragma("GCC unroll 4") EACH
#define EACH_F64  EACH_F32

/* ---- one and two operands ----------------------------------------------- */

#define UNARY_LOOP(dtype, T_, U_, name, R, expr)                                                               \
  static void name##_##dtype(void *dv, const void *av, const void *bv, const void *cv, int64_t n,              \
                             unsigned scalars) {                                                               \
    typedef T_ T UNUSED;                                                                                       \
    typedef U_ U UNUSED;                                                                                       \
    (void)bv, (void)cv, (void)scalars;                                                                         \
    R(T) *d = dv;                                                                                              \
    const T *x = av;                                                                                           \
    EACH_##dtype {                                                                                             \
      T a = x[i];                                                                                              \
      d[i] = (R(T))(expr);                                                                                     \
    }                                                                                                          \
  }

/* Blocks are made as if nothing were far; then, if anything was, that again. `d` may be `x`, so what
 * was read is kept. */
#define FAR_BLOCK 128
#define UNARY_FAR_LOOP(dtype, T, U, name, R, is_far, far, near)                                                \
  static void name##_##dtype(void *dv, const void *av, const void *bv, const void *cv, int64_t count,          \
                             unsigned scalars) {                                                               \
    (void)bv, (void)cv, (void)scalars;                                                                         \
    for (int64_t begin = 0; begin < count; begin += FAR_BLOCK) {                                               \
      const int64_t n = count - begin < FAR_BLOCK ? count - begin : FAR_BLOCK;                                 \
      const T *x = (const T *)av + begin;                                                                      \
      R(T) *d = (R(T) *)dv + begin;                                                                            \
      T kept[FAR_BLOCK];                                                                                       \
      int any = 0;                                                                                             \
      EACH {                                                                                                   \
        T a = kept[i] = x[i];                                                                                  \
        any |= is_far;                                                                                         \
      }                                                                                                        \
      EACH {                                                                                                   \
        T a = kept[i];                                                                                         \
        d[i] = near;                                                                                           \
      }                                                                                                        \
      if (!any) continue;                                                                                      \
      for (int64_t i = 0; i < n; i++) {                                                                        \
        T a = kept[i];                                                                                         \
        if (is_far) d[i] = far;                                                                                \
      }                                                                                                        \
    }                                                                                                          \
  }

#define BINARY_LOOP(dtype, T_, U_, name, R, expr)                                                              \
  static void name##_##dtype(void *dv, const void *av, const void *bv, const void *cv, int64_t n,              \
                             unsigned scalars) {                                                               \
    typedef T_ T UNUSED;                                                                                       \
    typedef U_ U UNUSED;                                                                                       \
    (void)cv;                                                                                                  \
    R(T) *d = dv;                                                                                              \
    const T *x = av, *y = bv;                                                                                  \
    if (scalars == 0) {                                                                                        \
      EACH_##dtype {                                                                                           \
        T a = x[i], b = y[i];                                                                                  \
        d[i] = (R(T))(expr);                                                                                   \
      }                                                                                                        \
    } else if (scalars == 1) {                                                                                 \
      T a = *x;                                                                                                \
      EACH_##dtype {                                                                                           \
        T b = y[i];                                                                                            \
        d[i] = (R(T))(expr);                                                                                   \
      }                                                                                                        \
    } else if (scalars == 2) {                                                                                 \
      T b = *y;                                                                                                \
      EACH_##dtype {                                                                                           \
        T a = x[i];                                                                                            \
        d[i] = (R(T))(expr);                                                                                   \
      }                                                                                                        \
    } else {                                                                                                   \
      T a = *x, b = *y;                                                                                        \
      R(T) r = (R(T))(expr);                                                                                   \
      EACH d[i] = r;                                                                                           \
    }                                                                                                          \
  }

#define LODE_UNARY(name, rule, expr) rule(UNARY_LOOP, name, RESULT_##rule, expr)
#define LODE_UNARY_FAR(name, rule, is_far, far, near)                                                          \
  rule(UNARY_FAR_LOOP, name, RESULT_##rule, is_far, far, near)
#define LODE_BINARY(name, rule, expr) rule(BINARY_LOOP, name, RESULT_##rule, expr)
#include "../../core/ops.def"

/* ---- selection: a is bool, b and c have the element type ---------------- */

#define TERNARY_BODY(A, B, C, expr)                                                                            \
  EACH {                                                                                                       \
    uint8_t a = A;                                                                                             \
    T b = B, c = C;                                                                                            \
    d[i] = (expr);                                                                                             \
  }                                                                                                            \
  break;

#define TERNARY_LOOP(dtype, T_, U_, name, expr)                                                                \
  static void name##_##dtype(void *dv, const void *av, const void *bv, const void *cv, int64_t n,              \
                             unsigned scalars) {                                                               \
    typedef T_ T;                                                                                              \
    typedef U_ U UNUSED;                                                                                       \
    T *d = dv;                                                                                                 \
    const uint8_t *x = av, x0 = *x;                                                                            \
    const T *y = bv, *z = cv, y0 = *y, z0 = *z;                                                                \
    switch (scalars) {                                                                                         \
    case 0:                                                                                                    \
      TERNARY_BODY(x[i], y[i], z[i], expr)                                                                     \
    case 1:                                                                                                    \
      TERNARY_BODY(x0, y[i], z[i], expr)                                                                       \
    case 2:                                                                                                    \
      TERNARY_BODY(x[i], y0, z[i], expr)                                                                       \
    case 3:                                                                                                    \
      TERNARY_BODY(x0, y0, z[i], expr)                                                                         \
    case 4:                                                                                                    \
      TERNARY_BODY(x[i], y[i], z0, expr)                                                                       \
    case 5:                                                                                                    \
      TERNARY_BODY(x0, y[i], z0, expr)                                                                         \
    case 6:                                                                                                    \
      TERNARY_BODY(x[i], y0, z0, expr)                                                                         \
    default:                                                                                                   \
      TERNARY_BODY(x0, y0, z0, expr)                                                                           \
    }                                                                                                          \
  }

#define LODE_TERNARY(name, rule, expr) rule(TERNARY_LOOP, name, expr)
#include "../../core/ops.def"

/* ---- counters: a is the counter, b the seed, both i64 ------------------- */

#define COUNTER_LOOP(dtype, T, U, name, expr)                                                                  \
  static void name##_##dtype(void *dv, const void *av, const void *bv, const void *cv, int64_t n,              \
                             unsigned scalars) {                                                               \
    (void)cv;                                                                                                  \
    T *d = dv;                                                                                                 \
    const int64_t *x = av, *y = bv;                                                                            \
    const int64_t xstep = (scalars & 1) != 0 ? 0 : 1;                                                          \
    if ((scalars & 2) != 0 && xstep != 0) {                                                                    \
      int64_t b = *y;                                                                                          \
      EACH {                                                                                                   \
        int64_t a = x[i];                                                                                      \
        d[i] = (expr);                                                                                         \
      }                                                                                                        \
      return;                                                                                                  \
    }                                                                                                          \
    const int64_t ystep = (scalars & 2) != 0 ? 0 : 1;                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                          \
      int64_t a = x[i * xstep], b = y[i * ystep];                                                              \
      d[i] = (expr);                                                                                           \
    }                                                                                                          \
  }

#define LODE_COUNTER(name, f32, f64) F32(COUNTER_LOOP, name, f32) F64(COUNTER_LOOP, name, f64)
#include "../../core/ops.def"

/* ---- casts -------------------------------------------------------------- */

#define CAST_LOOP(from, From, to, To, expr)                                                                    \
  static void cast_##from##_##to(void *dv, const void *av, const void *bv, const void *cv, int64_t n,          \
                                 unsigned scalars) {                                                           \
    (void)bv, (void)cv, (void)scalars;                                                                         \
    To *d = dv;                                                                                                \
    const From *x = av;                                                                                        \
    EACH {                                                                                                     \
      From a = x[i];                                                                                           \
      d[i] = (expr);                                                                                           \
    }                                                                                                          \
  }

/* X(from, its type, to, its type, conversion) */
#define CASTS(X)                                                                                               \
  X(BOOL, uint8_t, BOOL, uint8_t, a)                                                                           \
  X(BOOL, uint8_t, I32, int32_t, (int32_t)a)                                                                   \
  X(BOOL, uint8_t, I64, int64_t, (int64_t)a)                                                                   \
  X(BOOL, uint8_t, F32, float, (float)a)                                                                       \
  X(BOOL, uint8_t, F64, double, (double)a)                                                                     \
  X(I32, int32_t, BOOL, uint8_t, a != 0)                                                                       \
  X(I32, int32_t, I32, int32_t, a)                                                                             \
  X(I32, int32_t, I64, int64_t, (int64_t)a)                                                                    \
  X(I32, int32_t, F32, float, (float)a)                                                                        \
  X(I32, int32_t, F64, double, (double)a)                                                                      \
  X(I64, int64_t, BOOL, uint8_t, a != 0)                                                                       \
  X(I64, int64_t, I32, int32_t, (int32_t)(uint32_t)(uint64_t)a)                                                \
  X(I64, int64_t, I64, int64_t, a)                                                                             \
  X(I64, int64_t, F32, float, (float)a)                                                                        \
  X(I64, int64_t, F64, double, (double)a)                                                                      \
  X(F32, float, BOOL, uint8_t, a != 0)                                                                         \
  X(F32, float, I32, int32_t, LODE_CAST_F_I32(a))                                                              \
  X(F32, float, I64, int64_t, LODE_CAST_F_I64(a))                                                              \
  X(F32, float, F32, float, a)                                                                                 \
  X(F32, float, F64, double, (double)a)                                                                        \
  X(F64, double, BOOL, uint8_t, a != 0)                                                                        \
  X(F64, double, I32, int32_t, LODE_CAST_F_I32(a))                                                             \
  X(F64, double, I64, int64_t, LODE_CAST_F_I64(a))                                                             \
  X(F64, double, F32, float, (float)a)                                                                         \
  X(F64, double, F64, double, a)
CASTS(CAST_LOOP)

/* ---- the table ---------------------------------------------------------- */

void LODE_ISA_NAME(lode_isa_loops)(lode_isa *table) {
#define ENTRY(dtype, T, U, name)       table->op[LODE_OP_##name][LODE_##dtype] = name##_##dtype;
#define LODE_UNARY(name, rule, expr)   rule(ENTRY, name)
#define LODE_BINARY(name, rule, expr)  rule(ENTRY, name)
#define LODE_TERNARY(name, rule, expr) rule(ENTRY, name)
#define LODE_COUNTER(name, f32, f64)   F32(ENTRY, name) F64(ENTRY, name)
#include "../../core/ops.def"
#define CAST_ENTRY(from, From, to, To, expr) table->cast[LODE_##from][LODE_##to] = cast_##from##_##to;
  CASTS(CAST_ENTRY)
}
