/* Random numbers with a counter: element i of a tensor is a pure function of
 * (seed, i), so that it is the same on every device, in every order and for any
 * number of threads.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011): counter = (low i, high i, 0, 0), key = the seed's words.
 *
 * Normal numbers are Box and Muller's, with polynomials of our own. Everything
 * is made of + - * / sqrt and integers, each exactly rounded, so bits are equal
 * wherever contraction is off. The text is C and CUDA: a device that has no
 * `static inline` functions, or spells the square root otherwise, defines
 * LODE_RANDOM_FUNCTION, LODE_RANDOM_SQRTF and LODE_RANDOM_SQRT first. */
#ifndef LODE_RANDOM_H
#define LODE_RANDOM_H

#ifndef LODE_RANDOM_FUNCTION
#include <math.h>
#include <stdint.h>
#define LODE_RANDOM_FUNCTION static inline
#define LODE_RANDOM_SQRTF    sqrtf
#define LODE_RANDOM_SQRT     sqrt
#endif

typedef struct lode_philox_words {
  uint32_t w0, w1, w2, w3;
} lode_philox_words;

LODE_RANDOM_FUNCTION lode_philox_words lode_philox_round(lode_philox_words c, uint32_t k0, uint32_t k1) {
  uint64_t p0 = (uint64_t)0xD2511F53u * c.w0;
  uint64_t p1 = (uint64_t)0xCD9E8D57u * c.w2;
  lode_philox_words next = {(uint32_t)(p1 >> 32) ^ c.w1 ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.w3 ^ k1,
                            (uint32_t)p0};
  return next;
}

/* Ten rounds, each with the key moved on by the golden ratio and sqrt(3) - 1; written out, because
 * loops around them are vectorized only if there is no loop inside. */
LODE_RANDOM_FUNCTION lode_philox_words lode_philox(lode_philox_words c, uint32_t k0, uint32_t k1) {
  const uint32_t d0 = 0x9E3779B9u, d1 = 0xBB67AE85u;
  c = lode_philox_round(c, k0, k1);
  c = lode_philox_round(c, k0 + d0, k1 + d1);
  c = lode_philox_round(c, k0 + 2 * d0, k1 + 2 * d1);
  c = lode_philox_round(c, k0 + 3 * d0, k1 + 3 * d1);
  c = lode_philox_round(c, k0 + 4 * d0, k1 + 4 * d1);
  c = lode_philox_round(c, k0 + 5 * d0, k1 + 5 * d1);
  c = lode_philox_round(c, k0 + 6 * d0, k1 + 6 * d1);
  c = lode_philox_round(c, k0 + 7 * d0, k1 + 7 * d1);
  c = lode_philox_round(c, k0 + 8 * d0, k1 + 8 * d1);
  return lode_philox_round(c, k0 + 9 * d0, k1 + 9 * d1);
}

LODE_RANDOM_FUNCTION lode_philox_words lode_random_words(uint64_t index, uint64_t seed) {
  lode_philox_words counter = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
  return lode_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* ---- uniform in [0, 1) -------------------------------------------------- */

LODE_RANDOM_FUNCTION float lode_uniform_f32(uint64_t index, uint64_t seed) {
  lode_philox_words w = lode_random_words(index, seed);
  return (float)(int32_t)(w.w0 >> 8) * 0x1p-24f;
}

LODE_RANDOM_FUNCTION double lode_uniform_f64(uint64_t index, uint64_t seed) {
  lode_philox_words w = lode_random_words(index, seed);
  /* 32 and 21 bits, each exact, as is their sum. */
  return (double)w.w0 * 0x1p-32 + (double)(int32_t)(w.w1 >> 11) * 0x1p-53;
}

/* ---- normal ------------------------------------------------------------- */

/* log(x) for normal x in (0, 1]: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), and
 * log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716, by its Taylor series. */
LODE_RANDOM_FUNCTION float lode_random_logf(float x) {
  union {
    float f;
    uint32_t u;
  } bits;
  bits.f = x;
  uint32_t shifted = bits.u - 0x3F3504F3u; /* the bits of sqrt(1/2) */
  int32_t e = (int32_t)shifted >> 23;
  bits.u = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float s = (bits.f - 1.0f) / (bits.f + 1.0f), z = s * s;
  float p = 2.0f / 9.0f;
  p = p * z + 2.0f / 7.0f;
  p = p * z + 2.0f / 5.0f;
  p = p * z + 2.0f / 3.0f;
  /* log(2) in two pieces: the first times any e is exact. */
  return (float)e * 0.693115234375f + (s * (p * z) + (2.0f * s + (float)e * 3.1946185e-5f));
}

LODE_RANDOM_FUNCTION double lode_random_log(double x) {
  union {
    double f;
    uint64_t u;
  } bits;
  bits.f = x;
  uint64_t shifted = bits.u - 0x3FE6A09E667F3BCDu;
  int32_t e = (int32_t)(uint32_t)(shifted >> 32) >> 20;
  bits.u = (shifted & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu;
  double s = (bits.f - 1.0) / (bits.f + 1.0), z = s * s;
  double p = 2.0 / 21.0;
  p = p * z + 2.0 / 19.0;
  p = p * z + 2.0 / 17.0;
  p = p * z + 2.0 / 15.0;
  p = p * z + 2.0 / 13.0;
  p = p * z + 2.0 / 11.0;
  p = p * z + 2.0 / 9.0;
  p = p * z + 2.0 / 7.0;
  p = p * z + 2.0 / 5.0;
  p = p * z + 2.0 / 3.0;
  return (double)e * 0x1.62e42fefa38p-1 + (s * (p * z) + (2.0 * s + (double)e * 0x1.ef35793c7673p-45));
}

/* cos(2 pi u) for u = turn / 2^32: the quadrant and the signed rest come from the integer, exactly;
 * the rest is within pi / 4, where Taylor's polynomials are short. */
LODE_RANDOM_FUNCTION float lode_random_cosf(uint32_t turn) {
  uint32_t centred = turn + 0x20000000u;
  uint32_t quadrant = centred >> 30;
  float x = (float)((int32_t)(centred & 0x3FFFFFFFu) - 0x20000000) * 1.46291808e-9f; /* 2 pi / 2^32 */
  float z = x * x;
  float c = 1.0f / 40320.0f;
  c = c * z - 1.0f / 720.0f;
  c = c * z + 1.0f / 24.0f;
  c = c * z - 0.5f;
  c = c * z + 1.0f;
  float s = 1.0f / 362880.0f;
  s = s * z - 1.0f / 5040.0f;
  s = s * z + 1.0f / 120.0f;
  s = s * z - 1.0f / 6.0f;
  s = s * z * x + x;
  float value = (quadrant & 1) != 0 ? s : c;
  return quadrant == 1 || quadrant == 2 ? -value : value;
}

LODE_RANDOM_FUNCTION double lode_random_cos(uint64_t turn) {
  uint64_t centred = turn + 0x2000000000000000u;
  uint32_t quadrant = (uint32_t)(centred >> 62);
  /* The rest in pieces of 30 and 24 bits; the last 8 bits are below a double's precision. */
  int32_t high = (int32_t)((uint32_t)(centred >> 32) & 0x3FFFFFFFu) - 0x20000000;
  int32_t low = (int32_t)((uint32_t)centred >> 8);
  double x = ((double)high * 0x1p-32 + (double)low * 0x1p-56) * 6.283185307179586476925;
  double z = x * x;
  double c = 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = c * z + 1.0;
  double s = 1.0 / 355687428096000.0;
  s = s * z - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = s * z * x + x;
  double value = (quadrant & 1) != 0 ? s : c;
  return quadrant == 1 || quadrant == 2 ? -value : value;
}

/* The radius comes from a number in (0, 1]: its least value, 2^-32 or 2^-53, bounds |normal| by
 * 6.7 or 8.6. */
LODE_RANDOM_FUNCTION float lode_normal_f32(uint64_t index, uint64_t seed) {
  lode_philox_words w = lode_random_words(index, seed);
  float u = (float)(int32_t)(w.w0 >> 1) * 0x1p-31f + 0x1p-32f;
  return LODE_RANDOM_SQRTF(-2.0f * lode_random_logf(u)) * lode_random_cosf(w.w1);
}

LODE_RANDOM_FUNCTION double lode_normal_f64(uint64_t index, uint64_t seed) {
  lode_philox_words w = lode_random_words(index, seed);
  double u = (double)w.w0 * 0x1p-32 + (double)(int32_t)(w.w1 >> 12) * 0x1p-52 + 0x1p-53;
  return LODE_RANDOM_SQRT(-2.0 * lode_random_log(u)) * lode_random_cos((uint64_t)w.w2 << 32 | w.w3);
}

#endif
