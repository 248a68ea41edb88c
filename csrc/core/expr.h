/* The guarded macros that ops.def's expressions use, for C.
 *
 * Generic over the element type by C11 _Generic. The CUDA device writes the
 * same names as overloads; those of elementary functions are in elementary.h for
 * both. Nothing here depends on the instruction set, the rounding mode or the
 * locale; no macro evaluates to undefined behaviour. */
#ifndef LODE_EXPR_H
#define LODE_EXPR_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "elementary.h"

#define LODE_SQRT(a) _Generic((a), float : sqrtf, default : sqrt)(a)

static inline int32_t lode_abs_i32(int32_t a) { return a < 0 ? (int32_t)(0u - (uint32_t)a) : a; }
static inline int64_t lode_abs_i64(int64_t a) { return a < 0 ? (int64_t)(UINT64_C(0) - (uint64_t)a) : a; }

#define LODE_ABS(a)                                                                                            \
  _Generic((a), float : fabsf, double : fabs, int32_t : lode_abs_i32, int64_t : lode_abs_i64)(a)

/* Floored, as Lua's // and %. Integers: division by zero gives 0, and the most
 * negative number divided by -1 wraps to itself. Floats: fmod is exact. */
#define LODE_INTEGER_DIVISION(T, U, suffix)                                                                    \
  static inline T lode_floor_divide_##suffix(T a, T b) {                                                       \
    if (b == 0) return 0;                                                                                      \
    if (b == -1) return (T)((U)0 - (U)a);                                                                      \
    T q = a / b;                                                                                               \
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;                                                       \
  }                                                                                                            \
  static inline T lode_remainder_##suffix(T a, T b) {                                                          \
    if (b == 0 || b == -1) return 0;                                                                           \
    T r = a % b;                                                                                               \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                           \
  }                                                                                                            \
  /* By squaring, wrapping; a negative exponent is the integer part of 1 / a^-b, 0 for a = 0. */               \
  static inline T lode_pow_##suffix(T a, T b) {                                                                \
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                                             \
    U result = 1, base = (U)a;                                                                                 \
    for (U e = (U)b; e != 0; e >>= 1, base *= base)                                                            \
      if (e & 1) result *= base;                                                                               \
    return (T)result;                                                                                          \
  }
LODE_INTEGER_DIVISION(int32_t, uint32_t, i32)
LODE_INTEGER_DIVISION(int64_t, uint64_t, i64)
#undef LODE_INTEGER_DIVISION

static inline float lode_floor_divide_f32(float a, float b) { return floorf(a / b); }
static inline double lode_floor_divide_f64(double a, double b) { return floor(a / b); }

static inline float lode_remainder_f32(float a, float b) {
  float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline double lode_remainder_f64(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define LODE_BY_TYPE(name, a)                                                                                  \
  _Generic((a), float : name##_f32, double : name##_f64, int32_t : name##_i32, int64_t : name##_i64)
#define LODE_FLOOR_DIVIDE(a, b) LODE_BY_TYPE(lode_floor_divide, a)(a, b)
#define LODE_REMAINDER(a, b)    LODE_BY_TYPE(lode_remainder, a)(a, b)
#define LODE_POW(a, b)          LODE_BY_TYPE(lode_pow, a)(a, b)

/* Identities of reductions, by element type T. */
#define LODE_SUM_IDENTITY _Generic((T)0, float : -0.0f, double : -0.0, int32_t : 0, int64_t : 0, default : 0)
#define LODE_GREATEST                                                                                          \
  _Generic((T)0, float                                                                                         \
           : INFINITY, double                                                                                  \
           : (double)INFINITY, int32_t                                                                         \
           : INT32_MAX, int64_t                                                                                \
           : INT64_MAX, default : 1)
#define LODE_LEAST                                                                                             \
  _Generic((T)0, float                                                                                         \
           : -INFINITY, double                                                                                 \
           : -(double)INFINITY, int32_t                                                                        \
           : INT32_MIN, int64_t                                                                                \
           : INT64_MIN, default : 0)

/* Casts: floats to integers saturate, NaN gives 0; integers wrap; anything to
 * bool is "not 0" (so NaN is true). */
#define LODE_CAST_FLOAT_TO_INT(T, a, low, high, limit) /* limit: high + 1, exact as a float */                 \
  ((a) != (a) ? (T)0 : (a) < (low) ? (T)(low) : (a) >= (limit) ? (T)(high) : (T)(a))
#define LODE_CAST_F_I32(a) LODE_CAST_FLOAT_TO_INT(int32_t, a, INT32_MIN, INT32_MAX, 2147483648.0)
#define LODE_CAST_F_I64(a) LODE_CAST_FLOAT_TO_INT(int64_t, a, INT64_MIN, INT64_MAX, 9223372036854775808.0)

#endif
