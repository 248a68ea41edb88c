/* exp, log, sin, cos, tanh and pow of floats: one text for the CPU and CUDA, so that
 * their bits are the same everywhere.
 *
 * Everything is made of + - * /, fused multiply-adds that are asked for, and integers,
 * each exactly rounded, so bits are equal wherever contraction is off. What loops are made of has no branch, no
 * table and no conversion of 64-bit integers, so that they are vectorized even for SSE2: integers are read from
 * the last bits of a sum with 1.5 * 2^23 (2^52). A library (SLEEF, say) would give other bits on CUDA, could
 * not be inlined into fused programs, and would be one more thing that a rock needs.
 *
 * Coefficients are minimax for the relative error of the whole function (Remez's exchange
 * in 200 bits), then rounded to the type. The worst errors measured, in ulp of the result,
 * subnormal ones included:
 *
 *         exp   log   sin   cos   tanh  pow
 *   f32   0.89  0.83  2.48  2.38  2.61  0.92   every third argument; pow: 5 * 10^7 random pairs
 *   f64   0.94  0.86  2.60  2.68  2.63  0.92   10^7 random arguments; pow: 3 * 10^6 pairs
 *
 * The text is C and CUDA: a device that has no `static inline` functions defines
 * LODE_ELEMENTARY_FUNCTION, and LODE_ELEMENTARY_APART for what is better not inlined, first. */
#ifndef LODE_ELEMENTARY_H
#define LODE_ELEMENTARY_H

#ifndef LODE_ELEMENTARY_FUNCTION
#include <stdint.h>
/* Always: a loop with a call in it is not vectorized. */
#define LODE_ELEMENTARY_FUNCTION static inline __attribute__((always_inline))
#define LODE_ELEMENTARY_APART    static __attribute__((noinline, unused))
#endif

/* ---- bits ---------------------------------------------------------------- */

/* bits(x) and value(bits); magnitude(x): |x|; signed(x, sign): x with its sign bit turned where that of
 * `sign` is set; either(mask, x, y): x where the mask's bits are ones, y where they are zeros. */
#define LODE_ELEMENTARY_BITS(T, U, suffix, sign_bit)                                                           \
  LODE_ELEMENTARY_FUNCTION U lode_bits_##suffix(T x) {                                                         \
    union {                                                                                                    \
      T value;                                                                                                 \
      U bits;                                                                                                  \
    } word;                                                                                                    \
    word.value = x;                                                                                            \
    return word.bits;                                                                                          \
  }                                                                                                            \
  LODE_ELEMENTARY_FUNCTION T lode_value_##suffix(U bits) {                                                     \
    union {                                                                                                    \
      T value;                                                                                                 \
      U bits;                                                                                                  \
    } word;                                                                                                    \
    word.bits = bits;                                                                                          \
    return word.value;                                                                                         \
  }                                                                                                            \
  LODE_ELEMENTARY_FUNCTION T lode_magnitude_##suffix(T x) {                                                    \
    return lode_value_##suffix(lode_bits_##suffix(x) & ~sign_bit);                                             \
  }                                                                                                            \
  LODE_ELEMENTARY_FUNCTION T lode_signed_##suffix(T x, U sign) {                                               \
    return lode_value_##suffix(lode_bits_##suffix(x) ^ (sign & sign_bit));                                     \
  }                                                                                                            \
  LODE_ELEMENTARY_FUNCTION T lode_either_##suffix(U mask, T x, T y) {                                          \
    return lode_value_##suffix((lode_bits_##suffix(x) & mask) | (lode_bits_##suffix(y) & ~mask));              \
  }
LODE_ELEMENTARY_BITS(float, uint32_t, f32, 0x80000000u)
LODE_ELEMENTARY_BITS(double, uint64_t, f64, 0x8000000000000000u)
#undef LODE_ELEMENTARY_BITS

LODE_ELEMENTARY_FUNCTION float lode_infinity_f32(void) { return lode_value_f32(0x7F800000u); }
LODE_ELEMENTARY_FUNCTION float lode_nan_f32(void) { return lode_value_f32(0x7FC00000u); }
LODE_ELEMENTARY_FUNCTION double lode_infinity_f64(void) { return lode_value_f64(0x7FF0000000000000u); }
LODE_ELEMENTARY_FUNCTION double lode_nan_f64(void) { return lode_value_f64(0x7FF8000000000000u); }

/* ---- fused multiply-add ----------------------------------------------------- */

/* a b + c, rounded once. Where there is no instruction for it, as in the x86-64 baseline, it is made of sums
 * and products that vectorize, since the C library's is a call an element: S. Boldo and G. Melquiond, Emulation
 * of FMA and Correctly Rounded Sums (IEEE Trans. Computers 57(4), 2008): the rest of the sum is rounded to odd.
 * Right where nothing overflows, |a| and |b| are below 2^996, and the product's error is normal or does not
 * matter. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
#ifdef __CUDACC__
LODE_ELEMENTARY_FUNCTION float lode_fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
LODE_ELEMENTARY_FUNCTION double lode_fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
#else
LODE_ELEMENTARY_FUNCTION float lode_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LODE_ELEMENTARY_FUNCTION double lode_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif
#else
typedef struct lode_sum {
  double sum, error;
} lode_sum;

/* a + b and its error, exactly (Knuth). */
LODE_ELEMENTARY_FUNCTION lode_sum lode_two_sum(double a, double b) {
  double sum = a + b, part = sum - a;
  lode_sum s = {sum, (a - (sum - part)) + (b - part)};
  return s;
}

/* a + b, rounded to odd: an inexact sum whose last bit is even moves towards its error. */
LODE_ELEMENTARY_FUNCTION double lode_odd_sum(double a, double b) {
  lode_sum s = lode_two_sum(a, b);
  uint64_t bits = lode_bits_f64(s.sum), away = (lode_bits_f64(s.error) ^ bits) >> 63;
  uint64_t step = lode_magnitude_f64(s.error) > 0.0 ? 1 - 2 * away : 0;
  return lode_value_f64(bits + (step & ((bits & 1) - 1)));
}

LODE_ELEMENTARY_FUNCTION float lode_fma_f32(float a, float b, float c) {
  return (float)lode_odd_sum((double)a * (double)b, (double)c);
}

/* Rounded to 26 bits, so that products of heads and rests are exact (Dekker). */
LODE_ELEMENTARY_FUNCTION double lode_half_digits(double x) {
  return lode_value_f64((lode_bits_f64(x) + 0x4000000u) & 0xFFFFFFFFF8000000u);
}

LODE_ELEMENTARY_FUNCTION double lode_fma_f64(double a, double b, double c) {
  double p = a * b, ahead = lode_half_digits(a), bhead = lode_half_digits(b), arest = a - ahead,
         brest = b - bhead;
  double error = arest * brest - (((p - ahead * bhead) - arest * bhead) - ahead * brest);
  lode_sum low = lode_two_sum(c, error), high = lode_two_sum(p, low.sum);
  return high.sum + lode_odd_sum(high.error, low.error);
}
#endif

/* ---- exp ------------------------------------------------------------------- */

/* (exp(r) - 1 - r) / r^2 for |r| < 0.347. */

LODE_ELEMENTARY_FUNCTION float lode_exp_bend_f32(float r) {
  float q = 0x1.6a244cp-10f;
  q = lode_fma_f32(q, r, 0x1.1239f2p-7f);
  q = lode_fma_f32(q, r, 0x1.5558f2p-5f);
  q = lode_fma_f32(q, r, 0x1.555492p-3f);
  return lode_fma_f32(q, r, 0x1.fffffcp-2f);
}

/* Even and odd powers apart: half as many operations wait for each other. */
LODE_ELEMENTARY_FUNCTION double lode_exp_bend_f64(double r) {
  double z = r * r, odd = 0x1.af76c68180af5p-26, even = 0x1.28a2b56bab0fdp-22;
  odd = lode_fma_f64(odd, z, 0x1.71dde9f2b67c8p-19);
  even = lode_fma_f64(even, z, 0x1.a019a67c59731p-16);
  odd = lode_fma_f64(odd, z, 0x1.a01a01b5e1b37p-13);
  even = lode_fma_f64(even, z, 0x1.6c16c17f3a667p-10);
  odd = lode_fma_f64(odd, z, 0x1.111111110e6b4p-7);
  even = lode_fma_f64(even, z, 0x1.55555555520eap-5);
  odd = lode_fma_f64(odd, z, 0x1.555555555555cp-3);
  even = lode_fma_f64(even, z, 0x1.0000000000005p-1);
  return lode_fma_f64(odd, r, even);
}

/* x - n log(2), log(2) in two pieces; n times the first is exact. */

LODE_ELEMENTARY_FUNCTION float lode_exp_rest_f32(float x, float n) {
  return lode_fma_f32(n, -0x1.7f7d1cp-20f, lode_fma_f32(n, -0x1.62e4p-1f, x));
}
LODE_ELEMENTARY_FUNCTION double lode_exp_rest_f64(double x, double n) {
  return lode_fma_f64(n, -0x1.ef35793c7673p-45, lode_fma_f64(n, -0x1.62e42fefa38p-1, x));
}

/* exp(x) of its rest r. The sum t, x / log(2) rounded, ends in n + 2 * bias; 2^n is multiplied in two steps, so
 * that results that are subnormal are rounded once. */

#define LODE_EXP_WHOLE_F32 (12582912.0f + 254.0f)
#define LODE_EXP_WHOLE_F64 (6755399441055744.0 + 2046.0)

LODE_ELEMENTARY_FUNCTION float lode_exp_of_rest_f32(float x, float t, float r) {
  float y = lode_fma_f32(r, lode_fma_f32(r, lode_exp_bend_f32(r), 1.0f), 1.0f);
  uint32_t n = lode_bits_f32(t), half = n >> 1;
  y = y * lode_value_f32(half << 23) * lode_value_f32((n - half) << 23);
  y = x > 89.0f ? lode_infinity_f32() : y;
  return x < -104.0f ? 0.0f : y;
}

LODE_ELEMENTARY_FUNCTION double lode_exp_of_rest_f64(double x, double t, double r) {
  double y = lode_fma_f64(r, lode_fma_f64(r, lode_exp_bend_f64(r), 1.0), 1.0);
  uint64_t n = lode_bits_f64(t), half = n >> 1;
  y = y * lode_value_f64(half << 52) * lode_value_f64((n - half) << 52);
  y = x > 710.0 ? lode_infinity_f64() : y;
  return x < -746.0 ? 0.0 : y;
}

LODE_ELEMENTARY_FUNCTION float lode_exp_f32(float x) {
  float t = lode_fma_f32(x, 0x1.715476p+0f, LODE_EXP_WHOLE_F32);
  return lode_exp_of_rest_f32(x, t, lode_exp_rest_f32(x, t - LODE_EXP_WHOLE_F32));
}

LODE_ELEMENTARY_FUNCTION double lode_exp_f64(double x) {
  double t = lode_fma_f64(x, 0x1.71547652b82fep+0, LODE_EXP_WHOLE_F64);
  return lode_exp_of_rest_f64(x, t, lode_exp_rest_f64(x, t - LODE_EXP_WHOLE_F64));
}

/* exp(x + low), low far below x's last digit: the rest is rounded once. */

LODE_ELEMENTARY_FUNCTION float lode_exp_sum_f32(float x, float low) {
  float t = lode_fma_f32(x, 0x1.715476p+0f, LODE_EXP_WHOLE_F32), n = t - LODE_EXP_WHOLE_F32;
  return lode_exp_of_rest_f32(x, t, lode_fma_f32(n, -0x1.62e4p-1f, x) - lode_fma_f32(n, 0x1.7f7d1cp-20f, -low));
}

LODE_ELEMENTARY_FUNCTION double lode_exp_sum_f64(double x, double low) {
  double t = lode_fma_f64(x, 0x1.71547652b82fep+0, LODE_EXP_WHOLE_F64), n = t - LODE_EXP_WHOLE_F64;
  double less = lode_fma_f64(n, 0x1.ef35793c7673p-45, -low);
  return lode_exp_of_rest_f64(x, t, lode_fma_f64(n, -0x1.62e42fefa38p-1, x) - less);
}

/* ---- tanh ------------------------------------------------------------------ */

/* tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 = 2^n (r + ...) + (2^n - 1): nothing cancels near 0. */

LODE_ELEMENTARY_FUNCTION float lode_tanh_f32(float x) {
  const float whole = 12582912.0f + 127.0f;
  float a = lode_magnitude_f32(x);
  a = a > 10.0f ? 20.0f : 2.0f * a;
  float t = lode_fma_f32(a, 0x1.715476p+0f, whole), r = lode_exp_rest_f32(a, t - whole);
  float power = lode_value_f32(lode_bits_f32(t) << 23);
  float e = lode_fma_f32(power, lode_fma_f32(r * r, lode_exp_bend_f32(r), r), power - 1.0f);
  return lode_signed_f32(e / (e + 2.0f), lode_bits_f32(x));
}

LODE_ELEMENTARY_FUNCTION double lode_tanh_f64(double x) {
  const double whole = 6755399441055744.0 + 1023.0;
  double a = lode_magnitude_f64(x);
  a = a > 20.0 ? 40.0 : 2.0 * a;
  double t = lode_fma_f64(a, 0x1.71547652b82fep+0, whole), r = lode_exp_rest_f64(a, t - whole);
  double power = lode_value_f64(lode_bits_f64(t) << 52);
  double e = lode_fma_f64(power, lode_fma_f64(r * r, lode_exp_bend_f64(r), r), power - 1.0);
  return lode_signed_f64(e / (e + 2.0), lode_bits_f64(x));
}

/* ---- log ------------------------------------------------------------------- */

/* x > 0 as 2^e (1 + f), where 1 + f is from `least` (its bits are given) to twice that. Subnormal ones
 * are scaled up before. */

typedef struct lode_parts_f32 {
  float e, f;
} lode_parts_f32;
typedef struct lode_parts_f64 {
  double e, f;
} lode_parts_f64;

LODE_ELEMENTARY_FUNCTION lode_parts_f32 lode_parts_of_f32(float x, uint32_t least) {
  float scaled = x < 0x1p-126f ? x * 0x1p24f : x;
  uint32_t shifted = lode_bits_f32(scaled) - least;
  lode_parts_f32 parts = {(float)((int32_t)shifted >> 23) - (x < 0x1p-126f ? 24.0f : 0.0f),
                          lode_value_f32((shifted & 0x007FFFFFu) + least) - 1.0f};
  return parts;
}

/* e + 1023, not negative, is put below 2^52 as a double. */
LODE_ELEMENTARY_FUNCTION lode_parts_f64 lode_parts_of_f64(double x, uint64_t least) {
  double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
  uint64_t shifted = lode_bits_f64(scaled) + (0x3FF0000000000000u - least);
  double e = lode_value_f64((shifted >> 52) | 0x4330000000000000u);
  lode_parts_f64 parts = {e - (x < 0x1p-1022 ? 0x1p52 + 1077.0 : 0x1p52 + 1023.0),
                          lode_value_f64((shifted & 0x000FFFFFFFFFFFFFu) + least) - 1.0};
  return parts;
}

#define LODE_TWO_THIRDS_F32 0x3F2AAAABu
#define LODE_ROOT_HALF_F32  0x3F3504F3u
#define LODE_ROOT_HALF_F64  0x3FE6A09E667F3BCDu

/* log(x) = e log(2) + f - f^2 / 2 + ..., where the first two summands are added with the error of their sum. */

LODE_ELEMENTARY_FUNCTION float lode_log_f32(float x) {
  lode_parts_f32 parts = lode_parts_of_f32(x, LODE_TWO_THIRDS_F32);
  float e = parts.e, f = parts.f, z = f * f;
  float p = -0x1.0e293ep-3f;
  p = lode_fma_f32(p, f, 0x1.1df36ep-3f);
  p = lode_fma_f32(p, f, -0x1.f03ccap-4f);
  p = lode_fma_f32(p, f, 0x1.1ef192p-3f);
  p = lode_fma_f32(p, f, -0x1.55b7ep-3f);
  p = lode_fma_f32(p, f, 0x1.99ce42p-3f);
  p = lode_fma_f32(p, f, -0x1.fffe5ep-3f);
  p = lode_fma_f32(p, f, 0x1.55550cp-2f);
  float whole = e * 0x1.62e4p-1f, high = whole + f;
  float low = (f - (high - whole)) + lode_fma_f32(e, 0x1.7f7d1cp-20f, lode_fma_f32(f * z, p, -0.5f * z));
  float y = x < lode_infinity_f32() ? high + low : x;
  return x > 0.0f ? y : x == 0.0f ? -lode_infinity_f32() : lode_nan_f32();
}

/* With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + ...). */
LODE_ELEMENTARY_FUNCTION double lode_log_f64(double x) {
  lode_parts_f64 parts = lode_parts_of_f64(x, LODE_ROOT_HALF_F64);
  double e = parts.e, f = parts.f;
  double s = f / (2.0 + f), z = s * s, w = z * z, half = 0.5 * f * f;
  double odd = 0x1.2f0456bec5596p-3, even = 0x1.39a1db0dfe819p-3;
  odd = lode_fma_f64(odd, w, 0x1.74663d61ba284p-3);
  even = lode_fma_f64(even, w, 0x1.c71c521286be3p-3);
  odd = lode_fma_f64(odd, w, 0x1.24924941e2f34p-2);
  even = lode_fma_f64(even, w, 0x1.999999997ff08p-2);
  odd = lode_fma_f64(odd, w, 0x1.5555555555592p-1);
  double whole = e * 0x1.62e42fefa38p-1, high = whole + f;
  double low = (f - (high - whole)) +
               lode_fma_f64(e, 0x1.ef35793c7673p-45,
                            lode_fma_f64(s, lode_fma_f64(z, lode_fma_f64(z, even, odd), half), -half));
  double y = x < lode_infinity_f64() ? high + low : x;
  return x > 0.0 ? y : x == 0.0 ? -lode_infinity_f64() : lode_nan_f64();
}

/* ---- sin and cos ------------------------------------------------------------ */

/* |x| = n pi/2 + r with |r| < 0.786. Where n is small, the first three pieces of pi/2 times n are exact; what
 * is farther is reduced by lode_far_angle, which has branches and a table: loops do that apart. */

#define LODE_FAR_F32 6433.0f
#define LODE_FAR_F64 6588396.0

/* sin(r + quadrant pi/2). */
LODE_ELEMENTARY_FUNCTION float lode_sine_f32(float r, uint32_t quadrant) {
  float z = r * r;
  float s = -0x1.9955bp-13f;
  s = lode_fma_f32(s, z, 0x1.11077cp-7f);
  s = lode_fma_f32(s, z, -0x1.555546p-3f);
  float c = 0x1.99e0f2p-16f;
  c = lode_fma_f32(c, z, -0x1.6c0c1ap-10f);
  c = lode_fma_f32(c, z, 0x1.55554ap-5f);
  float y = lode_either_f32(0u - (quadrant & 1u), 1.0f - lode_fma_f32(-z * z, c, 0.5f * z),
                            lode_fma_f32(r * z, s, r));
  return lode_signed_f32(y, quadrant << 30);
}

LODE_ELEMENTARY_FUNCTION double lode_sine_f64(double r, uint64_t quadrant) {
  double z = r * r;
  double s = 0x1.5d9342406badep-33;
  s = lode_fma_f64(s, z, -0x1.ae5e676d708ap-26);
  s = lode_fma_f64(s, z, 0x1.71de3579ca7cdp-19);
  s = lode_fma_f64(s, z, -0x1.a01a019c14e5ap-13);
  s = lode_fma_f64(s, z, 0x1.111111110f8ap-7);
  s = lode_fma_f64(s, z, -0x1.5555555555549p-3);
  double c = -0x1.8fb0cbad4fb32p-37;
  c = lode_fma_f64(c, z, 0x1.1ee9f0a7aead3p-29);
  c = lode_fma_f64(c, z, -0x1.27e4f811e5ecfp-22);
  c = lode_fma_f64(c, z, 0x1.a01a019cbe8a1p-16);
  c = lode_fma_f64(c, z, -0x1.6c16c16c1521ap-10);
  c = lode_fma_f64(c, z, 0x1.555555555554cp-5);
  double y =
      lode_either_f64(0u - (quadrant & 1u), 1.0 - lode_fma_f64(-z * z, c, 0.5 * z), lode_fma_f64(r * z, s, r));
  return lode_signed_f64(y, quadrant << 62);
}

/* sin(|x| + ahead pi/2), |x| not far. */
LODE_ELEMENTARY_FUNCTION float lode_near_f32(float x, uint32_t ahead) {
  const float whole = 12582912.0f;
  float a = lode_magnitude_f32(x), t = a * 0x1.45f306p-1f + whole, n = t - whole;
  float r = a - n * 0x1.922p+0f + n * 0x1.2aep-18f + n * 0x1.deap-31f - n * 0x1.184698p-44f;
  return lode_sine_f32(r, lode_bits_f32(t) + ahead);
}

LODE_ELEMENTARY_FUNCTION double lode_near_f64(double x, uint64_t ahead) {
  const double whole = 6755399441055744.0;
  double a = lode_magnitude_f64(x), t = a * 0x1.45f306dc9c883p-1 + whole, n = t - whole;
  double r = a - n * 0x1.921fb544p+0 - n * 0x1.0b4611a8p-34 + n * 0x1.d9cceba4p-66 - n * 0x1.b839a252049c1p-104;
  return lode_sine_f64(r, lode_bits_f64(t) + ahead);
}

LODE_ELEMENTARY_FUNCTION float lode_sin_near_f32(float x) {
  return lode_signed_f32(lode_near_f32(x, 0), lode_bits_f32(x));
}
LODE_ELEMENTARY_FUNCTION double lode_sin_near_f64(double x) {
  return lode_signed_f64(lode_near_f64(x, 0), lode_bits_f64(x));
}
LODE_ELEMENTARY_FUNCTION float lode_cos_near_f32(float x) { return lode_near_f32(x, 1); }
LODE_ELEMENTARY_FUNCTION double lode_cos_near_f64(double x) { return lode_near_f64(x, 1); }

/* ---- sin and cos, far ---------------------------------------------------------- */

/* 32 bits of 2/pi, from the given one on; the first 64 are zeros before the point. */
LODE_ELEMENTARY_FUNCTION uint32_t lode_two_over_pi(int bit) {
  static const uint32_t words[] = {
      0x00000000u, 0x00000000u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u,
      0xFE5163ABu, 0xDEBBC561u, 0xB7246E3Au, 0x424DD2E0u, 0x06492EEAu, 0x09D1921Cu, 0xFE1DEB1Cu, 0xB129A73Eu,
      0xE88235F5u, 0x2EBB4484u, 0xE99C7026u, 0xB45F7E41u, 0x3991D639u, 0x835339F4u, 0x9C845F8Bu, 0xBDF9283Bu,
      0x1FF897FFu, 0xDE05980Fu, 0xEF2F118Bu, 0x5A0A6D1Fu, 0x6D367ECFu, 0x27CB09B7u, 0x4F463F66u, 0x9E5FEA2Du,
      0x7527BAC7u, 0xEBE5F17Bu, 0x3D0739F7u, 0x8A5292EAu, 0x6BFB5FB1u, 0x1F8D5D08u, 0x56033046u, 0xFC7B6BABu};
  uint64_t two = (uint64_t)words[bit >> 5] << 32 | words[(bit >> 5) + 1];
  return (uint32_t)(two << (bit & 31) >> 32);
}

typedef struct lode_angle {
  double rest;
  uint64_t quadrant;
} lode_angle;

/* Payne and Hanek's reduction of a finite x >= 4: r, and n as the quadrant. x is a 53-bit
 * integer times 2^e. Bits of 2/pi that make multiples of 4 with it are skipped; of the product with the
 * next 192, the lowest 192 are n mod 4 in two bits and a fraction of which 137 are right. No more than
 * 62 of them are zeros at the beginning, for any double. */
LODE_ELEMENTARY_APART lode_angle lode_far_angle(double x) {
  uint64_t bits = lode_bits_f64(x), carry = 0, below = 0;
  uint32_t low = (uint32_t)bits, high = ((uint32_t)(bits >> 32) & 0x000FFFFFu) | 0x00100000u, product[6];
  int first = (int)(bits >> 52) - 1075 - 2 + 64;
  for (int k = 5; k >= 0; k--) {
    uint64_t word = lode_two_over_pi(first + 32 * k), p = word * low, q = below * high;
    uint64_t sum = (p & 0xFFFFFFFFu) + (q & 0xFFFFFFFFu) + carry;
    product[k] = (uint32_t)sum;
    carry = (sum >> 32) + (p >> 32) + (q >> 32);
    below = word;
  }
  uint64_t top = (uint64_t)product[0] << 32 | product[1], rest = (uint64_t)product[2] << 32 | product[3];
  uint64_t negative = top >> 61 & 1;
  uint64_t quadrant = (top + 0x2000000000000000u) >> 62;
  top &= 0x3FFFFFFFFFFFFFFFu;
  if (negative != 0) {
    top = 0x4000000000000000u - top - (rest != 0);
    rest = 0 - rest;
  }
  double r = ((double)top * 0x1p-62 + (double)rest * 0x1p-126) * 1.57079632679489661923;
  lode_angle angle = {negative != 0 ? -r : r, quadrant};
  return angle;
}

/* sin(|x| + ahead pi/2), |x| far, infinite or NaN. */
LODE_ELEMENTARY_FUNCTION double lode_far_f64(double x, uint64_t ahead) {
  double a = lode_magnitude_f64(x);
  if (!(a < lode_infinity_f64())) return lode_nan_f64();
  lode_angle angle = lode_far_angle(a);
  return lode_sine_f64(angle.rest, angle.quadrant + ahead);
}

LODE_ELEMENTARY_FUNCTION float lode_far_f32(float x, uint32_t ahead) {
  float a = lode_magnitude_f32(x);
  if (!(a < lode_infinity_f32())) return lode_nan_f32();
  lode_angle angle = lode_far_angle((double)a);
  return lode_sine_f32((float)angle.rest, (uint32_t)angle.quadrant + ahead);
}

LODE_ELEMENTARY_FUNCTION float lode_sin_far_f32(float x) {
  return lode_signed_f32(lode_far_f32(x, 0), lode_bits_f32(x));
}
LODE_ELEMENTARY_FUNCTION double lode_sin_far_f64(double x) {
  return lode_signed_f64(lode_far_f64(x, 0), lode_bits_f64(x));
}
LODE_ELEMENTARY_FUNCTION float lode_cos_far_f32(float x) { return lode_far_f32(x, 1); }
LODE_ELEMENTARY_FUNCTION double lode_cos_far_f64(double x) { return lode_far_f64(x, 1); }

LODE_ELEMENTARY_FUNCTION int lode_is_far_f32(float x) { return !(lode_magnitude_f32(x) < LODE_FAR_F32); }
LODE_ELEMENTARY_FUNCTION int lode_is_far_f64(double x) { return !(lode_magnitude_f64(x) < LODE_FAR_F64); }

/* ---- pow --------------------------------------------------------------------------- */

/* log |x| as a sum of two numbers, the second far below the first, then exp of its product with y. With
 * s = f / (2 + f), log(1 + f) = 2 s + s^3 (2/3 + s^2 (2/5 + ...)): all but what is beyond 2/3 is calculated in
 * pairs. A product's error is fma(a, b, -(a b)). */

#define LODE_ELEMENTARY_PAIRS(T, suffix, third, rest_of_third)                                                 \
  typedef struct lode_pair_##suffix {                                                                          \
    T head, rest;                                                                                              \
  } lode_pair_##suffix;                                                                                        \
  /* f / (2 + f). */                                                                                           \
  LODE_ELEMENTARY_FUNCTION lode_pair_##suffix lode_quotient_##suffix(T f) {                                    \
    T d = 2 + f, inverse = 1 / d, head = f * inverse;                                                          \
    lode_pair_##suffix s = {head, (lode_fma_##suffix(-head, d, f) - head * (f - (d - 2))) * inverse};          \
    return s;                                                                                                  \
  }                                                                                                            \
  /* s^3 (2/3 + beyond). */                                                                                    \
  LODE_ELEMENTARY_FUNCTION lode_pair_##suffix lode_tail_##suffix(lode_pair_##suffix s, T beyond) {             \
    T g = third + beyond, grest = (beyond - (g - third)) + rest_of_third, z = s.head * s.head, p = z * g;      \
    T zrest = lode_fma_##suffix(s.head, s.head, -z) + 2 * s.head * s.rest;                                     \
    T prest = lode_fma_##suffix(z, g, -p) + (z * grest + zrest * g), head = s.head * p;                        \
    lode_pair_##suffix tail = {head, lode_fma_##suffix(s.head, p, -head) + (s.head * prest + s.rest * p)};     \
    return tail;                                                                                               \
  }                                                                                                            \
  /* whole + 2 s + tail + low, each far below the last. */                                                     \
  LODE_ELEMENTARY_FUNCTION lode_pair_##suffix lode_total_##suffix(T whole, lode_pair_##suffix s, T beyond,     \
                                                                  T low) {                                     \
    lode_pair_##suffix tail = lode_tail_##suffix(s, beyond);                                                   \
    T sum = whole + 2 * s.head, high = sum + tail.head;                                                        \
    low = (2 * s.head - (sum - whole)) + (tail.head - (high - sum)) + (2 * s.rest + (tail.rest + low));        \
    lode_pair_##suffix log = {high + low, 0};                                                                  \
    log.rest = low - (log.head - high);                                                                        \
    return log;                                                                                                \
  }
LODE_ELEMENTARY_PAIRS(float, f32, 0x1.555556p-1f, -0x1.555556p-26f)
LODE_ELEMENTARY_PAIRS(double, f64, 0x1.5555555555555p-1, 0x1.5555555555555p-55)
#undef LODE_ELEMENTARY_PAIRS

/* log(x), x > 0 and finite. */

LODE_ELEMENTARY_FUNCTION lode_pair_f32 lode_log_pair_f32(float x) {
  lode_parts_f32 parts = lode_parts_of_f32(x, LODE_ROOT_HALF_F32);
  lode_pair_f32 s = lode_quotient_f32(parts.f);
  float z = (s.head + s.rest) * (s.head + s.rest);
  float p = 0x1.dfa264p-3f;
  p = lode_fma_f32(p, z, 0x1.24527cp-2f);
  p = lode_fma_f32(p, z, 0x1.999ap-2f);
  return lode_total_f32(parts.e * 0x1.62e4p-1f, s, z * p, parts.e * 0x1.7f7d1cp-20f);
}

LODE_ELEMENTARY_FUNCTION lode_pair_f64 lode_log_pair_f64(double x) {
  lode_parts_f64 parts = lode_parts_of_f64(x, LODE_ROOT_HALF_F64);
  lode_pair_f64 s = lode_quotient_f64(parts.f);
  double z = (s.head + s.rest) * (s.head + s.rest), w = z * z;
  double odd = 0x1.eac62186ef46dp-4, even = 0x1.de3d64211dcc7p-4;
  odd = lode_fma_f64(odd, w, 0x1.11206f737cf5ep-3);
  even = lode_fma_f64(even, w, 0x1.3b1364c7e10c5p-3);
  odd = lode_fma_f64(odd, w, 0x1.745d18295a146p-3);
  even = lode_fma_f64(even, w, 0x1.c71c71c5968c1p-3);
  odd = lode_fma_f64(odd, w, 0x1.2492492492f51p-2);
  even = lode_fma_f64(even, w, 0x1.9999999999996p-2);
  return lode_total_f64(parts.e * 0x1.62e42fefa38p-1, s, z * (even + z * odd), parts.e * 0x1.ef35793c7673p-45);
}

/* a^y, a > 0 and finite. Greater |y| than the bounds give 0, 1 or infinity too, since |log(a)| is 0 or at least
 * half a digit of 1. */

LODE_ELEMENTARY_FUNCTION float lode_pow_magnitude_f32(float a, float y) {
  lode_pair_f32 log = lode_log_pair_f32(a);
  float b = y > 0x1p36f ? 0x1p36f : y;
  b = b < -0x1p36f ? -0x1p36f : b;
  float high = b * log.head, low = lode_fma_f32(b, log.head, -high) + b * log.rest, sum = high + low;
  return lode_exp_sum_f32(sum, low - (sum - high));
}

LODE_ELEMENTARY_FUNCTION double lode_pow_magnitude_f64(double a, double y) {
  lode_pair_f64 log = lode_log_pair_f64(a);
  double b = y > 0x1p66 ? 0x1p66 : y;
  b = b < -0x1p66 ? -0x1p66 : b;
  double high = b * log.head, low = lode_fma_f64(b, log.head, -high) + b * log.rest, sum = high + low;
  return lode_exp_sum_f64(sum, low - (sum - high));
}

/* C's special cases. Parity is read from the low bit of |y| + 2^23 (2^52), or of |y| itself where that has no
 * fraction; beyond 2^24 (2^53) all are even. */
#define LODE_ELEMENTARY_POW(T, U, suffix, unit)                                                                \
  LODE_ELEMENTARY_FUNCTION T lode_pow_##suffix(T x, T y) {                                                     \
    const T infinity = lode_infinity_##suffix(), whole = (T)unit;                                              \
    T a = lode_magnitude_##suffix(x), b = lode_magnitude_##suffix(y);                                          \
    T sum = b < whole ? b + whole : b;                                                                         \
    T rounded = b < whole ? sum - whole : b;                                                                   \
    U odd = b < 2 * whole ? lode_bits_##suffix(sum) : 0;                                                       \
    odd = rounded == b ? odd : 0;                                                                              \
    T r = lode_pow_magnitude_##suffix(a, y);                                                                   \
    T of_infinity = y < 0 ? (T)0 : infinity, of_zero = y < 0 ? infinity : (T)0;                                \
    r = a == infinity ? of_infinity : r;                                                                       \
    r = a == 0 ? of_zero : r;                                                                                  \
    r = lode_signed_##suffix(r, lode_bits_##suffix(x) & (odd << (8 * sizeof(U) - 1)));                         \
    T negative = rounded == b ? r : lode_nan_##suffix();                                                       \
    negative = a == infinity ? r : negative;                                                                   \
    r = x < 0 ? negative : r;                                                                                  \
    r = x == x ? r : x;                                                                                        \
    r = y == y ? r : y;                                                                                        \
    r = x == 1 ? (T)1 : r;                                                                                     \
    return y == 0 ? (T)1 : r;                                                                                  \
  }
LODE_ELEMENTARY_POW(float, uint32_t, f32, 8388608.0)
LODE_ELEMENTARY_POW(double, uint64_t, f64, 4503599627370496.0)
#undef LODE_ELEMENTARY_POW

/* ---- the words of ops.def -------------------------------------------------------------- */

#ifdef __cplusplus
#define LODE_ELEMENTARY_WORD(word, function)                                                                   \
  LODE_ELEMENTARY_FUNCTION float word(float a) { return function##_f32(a); }                                   \
  LODE_ELEMENTARY_FUNCTION double word(double a) { return function##_f64(a); }
LODE_ELEMENTARY_WORD(LODE_EXP, lode_exp)
LODE_ELEMENTARY_WORD(LODE_LOG, lode_log)
LODE_ELEMENTARY_WORD(LODE_SIN, lode_sin_near)
LODE_ELEMENTARY_WORD(LODE_COS, lode_cos_near)
LODE_ELEMENTARY_WORD(LODE_TANH, lode_tanh)
LODE_ELEMENTARY_WORD(LODE_SIN_FAR, lode_sin_far)
LODE_ELEMENTARY_WORD(LODE_COS_FAR, lode_cos_far)
#undef LODE_ELEMENTARY_WORD
LODE_ELEMENTARY_FUNCTION int LODE_IS_FAR(float a) { return lode_is_far_f32(a); }
LODE_ELEMENTARY_FUNCTION int LODE_IS_FAR(double a) { return lode_is_far_f64(a); }
LODE_ELEMENTARY_FUNCTION float LODE_POW(float a, float b) { return lode_pow_f32(a, b); }
LODE_ELEMENTARY_FUNCTION double LODE_POW(double a, double b) { return lode_pow_f64(a, b); }
#else /* LODE_POW is in expr.h, with that of integers. */
#define LODE_ELEMENTARY_WORD(name, a) _Generic((a), float : name##_f32, default : name##_f64)(a)
#define LODE_EXP(a)                   LODE_ELEMENTARY_WORD(lode_exp, a)
#define LODE_LOG(a)                   LODE_ELEMENTARY_WORD(lode_log, a)
#define LODE_SIN(a)                   LODE_ELEMENTARY_WORD(lode_sin_near, a)
#define LODE_COS(a)                   LODE_ELEMENTARY_WORD(lode_cos_near, a)
#define LODE_TANH(a)                  LODE_ELEMENTARY_WORD(lode_tanh, a)
#define LODE_SIN_FAR(a)               LODE_ELEMENTARY_WORD(lode_sin_far, a)
#define LODE_COS_FAR(a)               LODE_ELEMENTARY_WORD(lode_cos_far, a)
#define LODE_IS_FAR(a)                LODE_ELEMENTARY_WORD(lode_is_far, a)
#endif

#endif
