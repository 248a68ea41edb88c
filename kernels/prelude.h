/* What programs are made of on the device: the words of core/ops.def's expressions
 * as overloads, and loads of elements and vectors.
 *
 * The words mean exactly what core/expr.h says, with the same bits; those of exp to pow
 * are in core/elementary.h, which is C and CUDA. Included after device.h. */
#ifndef LODE_KERNELS_PRELUDE_H
#define LODE_KERNELS_PRELUDE_H

#ifdef LODE_SHIM
#define LODE_UNROLL
#define LODE_NO_UNROLL
#define LODE_AHEAD
#else
#define LODE_UNROLL    _Pragma("unroll")
#define LODE_AHEAD     _Pragma("unroll 8") /* several loads are under way at a time */
#define LODE_NO_UNROLL _Pragma("unroll 1") /* loops that are there for the emulator, and outer ones */
#pragma nv_diag_suppress 177               /* a program uses few of the functions below */
#endif

/* ---- the words of ops.def --------------------------------------------------- */

LODE_DEVICE int32_t LODE_ABS(int32_t a) { return a < 0 ? (int32_t)(0u - (uint32_t)a) : a; }
LODE_DEVICE int64_t LODE_ABS(int64_t a) { return a < 0 ? (int64_t)(UINT64_C(0) - (uint64_t)a) : a; }
LODE_DEVICE float LODE_ABS(float a) { return fabsf(a); }
LODE_DEVICE double LODE_ABS(double a) { return fabs(a); }

LODE_DEVICE float LODE_SQRT(float a) { return sqrtf(a); }
LODE_DEVICE double LODE_SQRT(double a) { return sqrt(a); }

#define LODE_INTEGER_DIVISION(T, U)                                                                            \
  LODE_DEVICE T LODE_FLOOR_DIVIDE(T a, T b) {                                                                  \
    if (b == 0) return 0;                                                                                      \
    if (b == -1) return (T)((U)0 - (U)a);                                                                      \
    T q = a / b;                                                                                               \
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;                                                       \
  }                                                                                                            \
  LODE_DEVICE T LODE_REMAINDER(T a, T b) {                                                                     \
    if (b == 0 || b == -1) return 0;                                                                           \
    T r = a % b;                                                                                               \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                           \
  }                                                                                                            \
  LODE_DEVICE T LODE_POW(T a, T b) {                                                                           \
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                                             \
    U result = 1, base = (U)a;                                                                                 \
    for (U e = (U)b; e != 0; e >>= 1, base *= base)                                                            \
      if (e & 1) result *= base;                                                                               \
    return (T)result;                                                                                          \
  }
LODE_INTEGER_DIVISION(int32_t, uint32_t)
LODE_INTEGER_DIVISION(int64_t, uint64_t)
#undef LODE_INTEGER_DIVISION

LODE_DEVICE float LODE_FLOOR_DIVIDE(float a, float b) { return floorf(a / b); }
LODE_DEVICE double LODE_FLOOR_DIVIDE(double a, double b) { return floor(a / b); }
LODE_DEVICE float LODE_REMAINDER(float a, float b) {
  float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
LODE_DEVICE double LODE_REMAINDER(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Identities of reductions, by element type. */
template <class T> struct lode_limits;
#define LODE_INTEGER_LIMITS(T, low, high)                                                                      \
  template <> struct lode_limits<T> {                                                                          \
    LODE_DEVICE T sum() { return 0; }                                                                          \
    LODE_DEVICE T greatest() { return high; }                                                                  \
    LODE_DEVICE T least() { return low; }                                                                      \
  };
LODE_INTEGER_LIMITS(uint8_t, 0, 1)
LODE_INTEGER_LIMITS(int32_t, INT32_MIN, INT32_MAX)
LODE_INTEGER_LIMITS(int64_t, INT64_MIN, INT64_MAX)
#undef LODE_INTEGER_LIMITS

LODE_DEVICE float lode_infinity() {
  union {
    uint32_t u;
    float f;
  } bits;
  bits.u = 0x7F800000u;
  return bits.f;
}

#define LODE_FLOATING_LIMITS(T)                                                                                \
  template <> struct lode_limits<T> {                                                                          \
    LODE_DEVICE T sum() { return (T)-0.0; }                                                                    \
    LODE_DEVICE T greatest() { return (T)lode_infinity(); }                                                    \
    LODE_DEVICE T least() { return (T)-lode_infinity(); }                                                      \
  };
LODE_FLOATING_LIMITS(float)
LODE_FLOATING_LIMITS(double)
#undef LODE_FLOATING_LIMITS

#define LODE_SUM_IDENTITY lode_limits<T>::sum()
#define LODE_GREATEST     lode_limits<T>::greatest()
#define LODE_LEAST        lode_limits<T>::least()

/* Casts that are not C's. limit: high + 1, exact as a float. */
#define LODE_CAST_FLOAT_TO_INT(T, a, low, high, limit)                                                         \
  ((a) != (a) ? (T)0 : (a) < (low) ? (T)(low) : (a) >= (limit) ? (T)(high) : (T)(a))
LODE_DEVICE int32_t LODE_CAST_I32(float a) {
  return LODE_CAST_FLOAT_TO_INT(int32_t, a, -2147483648.0f, INT32_MAX, 2147483648.0f);
}
LODE_DEVICE int32_t LODE_CAST_I32(double a) {
  return LODE_CAST_FLOAT_TO_INT(int32_t, a, -2147483648.0, INT32_MAX, 2147483648.0);
}
LODE_DEVICE int32_t LODE_CAST_I32(int64_t a) { return (int32_t)(uint32_t)(uint64_t)a; }
LODE_DEVICE int32_t LODE_CAST_I32(int32_t a) { return a; }
LODE_DEVICE int32_t LODE_CAST_I32(uint8_t a) { return a; }
LODE_DEVICE int64_t LODE_CAST_I64(float a) {
  return LODE_CAST_FLOAT_TO_INT(int64_t, a, -9223372036854775808.0f, INT64_MAX, 9223372036854775808.0f);
}
LODE_DEVICE int64_t LODE_CAST_I64(double a) {
  return LODE_CAST_FLOAT_TO_INT(int64_t, a, -9223372036854775808.0, INT64_MAX, 9223372036854775808.0);
}
LODE_DEVICE int64_t LODE_CAST_I64(int64_t a) { return a; }
LODE_DEVICE int64_t LODE_CAST_I64(int32_t a) { return a; }
LODE_DEVICE int64_t LODE_CAST_I64(uint8_t a) { return a; }
#undef LODE_CAST_FLOAT_TO_INT
#define LODE_CAST_BOOL(a) ((uint8_t)((a) != 0))
#define LODE_CAST_F32(a)  ((float)(a))
#define LODE_CAST_F64(a)  ((double)(a))

/* ---- constants: bit patterns in words ---------------------------------------- */

template <class T> LODE_DEVICE T lode_constant(int64_t word) {
  union {
    int64_t word;
    T value;
  } bits;
  bits.word = word;
  return bits.value;
}

/* ---- memory ------------------------------------------------------------------- */

/* V elements, moved in one instruction: an address must be a multiple of their size. */
template <class T, int V> struct alignas(sizeof(T) * V) lode_vector { T v[V]; };

/* Plain loads: NVRTC's __ldg is inline assembly, so that what several elements share would be read for each. */
template <class T> LODE_DEVICE T lode_load(const T *x) { return *x; }
template <int V, class T> LODE_DEVICE lode_vector<T, V> lode_load_vector(const T *x) {
  return *(const lode_vector<T, V> *)x;
}

/* Elements on their way from global to shared memory, without a register; lode_copies_done() waits for a
 * thread's own. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int V, class T> LODE_DEVICE void lode_copy_to_shared(T *to, const T *from) {
  const int bytes = sizeof(T) * V;
  const uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
  else if constexpr (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(place), "l"(from));
  else if constexpr (bytes == 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from));
  else *(lode_vector<T, V> *)to = lode_load_vector<V>(from);
}
LODE_DEVICE void lode_copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
template <int V, class T> LODE_DEVICE void lode_copy_to_shared(T *to, const T *from) {
  *(lode_vector<T, V> *)to = lode_load_vector<V>(from);
}
LODE_DEVICE void lode_copies_done() {}
#endif
template <int V, class T> LODE_DEVICE void lode_store_vector(T *x, const lode_vector<T, V> &v) {
  *(lode_vector<T, V> *)x = v;
}

#endif
