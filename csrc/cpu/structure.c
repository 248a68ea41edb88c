/* Looking at a matrix to choose how to solve with it (linalg.h). Each look stops
 * at the first element that says no, so that for most matrices it costs nothing.
 * NaN is neither zero nor equal to anything, so a matrix with NaN is general. */
#include "linalg.h"

enum { BLOCK = 32 }; /* two blocks of f64 take 16 KB of L1 */

#define STRUCTURE(T, name)                                                                                     \
  static bool zeros_##name(const T *x, int64_t n) {                                                            \
    bool zero = true;                                                                                          \
    for (int64_t i = 0; i < n && zero;) {                                                                      \
      int64_t end = i + 64 < n ? i + 64 : n;                                                                   \
      for (; i < end; i++) zero &= x[i] == 0;                                                                  \
    }                                                                                                          \
    return zero;                                                                                               \
  }                                                                                                            \
  static bool upper_##name(int64_t n, const T *a) {                                                            \
    for (int64_t i = 1; i < n; i++)                                                                            \
      if (!zeros_##name(a + i * n, i)) return false;                                                           \
    return true;                                                                                               \
  }                                                                                                            \
  static bool lower_##name(int64_t n, const T *a) {                                                            \
    for (int64_t i = 0; i + 1 < n; i++)                                                                        \
      if (!zeros_##name(a + i * n + i + 1, n - i - 1)) return false;                                           \
    return true;                                                                                               \
  }                                                                                                            \
  static bool same_block_##name(int64_t n, const T *a, int64_t row, int64_t column) {                          \
    int64_t rows = n - row < BLOCK ? n - row : BLOCK, columns = n - column < BLOCK ? n - column : BLOCK;       \
    const T *x = a + row * n + column, *y = a + column * n + row;                                              \
    bool same = true;                                                                                          \
    for (int64_t i = 0; i < rows; i++)                                                                         \
      for (int64_t j = 0; j < columns; j++) same &= x[i * n + j] == y[j * n + i];                              \
    return same;                                                                                               \
  }                                                                                                            \
  static bool symmetric_##name(int64_t n, const T *a) {                                                        \
    for (int64_t i = 0; i < n; i++)                                                                            \
      if (!(a[i * n + i] > 0)) return false;                                                                   \
    for (int64_t i = 0; i < n; i += BLOCK)                                                                     \
      for (int64_t j = 0; j <= i; j += BLOCK)                                                                  \
        if (!same_block_##name(n, a, i, j)) return false;                                                      \
    return true;                                                                                               \
  }                                                                                                            \
  static int32_t zero_diagonal_##name(int64_t n, const T *a) {                                                 \
    for (int64_t i = 0; i < n; i++)                                                                            \
      if (a[i * n + i] == 0) return (int32_t)(i + 1);                                                          \
    return 0;                                                                                                  \
  }
STRUCTURE(float, f32)
STRUCTURE(double, f64)

#define IS(T, name)                                                                                            \
  static bool is_##name(lode_structure structure, int64_t n, const T *a) {                                     \
    switch (structure) {                                                                                       \
    case LODE_STRUCTURE_UPPER:                                                                                 \
      return upper_##name(n, a);                                                                               \
    case LODE_STRUCTURE_LOWER:                                                                                 \
      return lower_##name(n, a);                                                                               \
    case LODE_STRUCTURE_SYMMETRIC:                                                                             \
      break;                                                                                                   \
    }                                                                                                          \
    return symmetric_##name(n, a); /* with a positive diagonal: else Cholesky must fail */                     \
  }
IS(float, f32)
IS(double, f64)

bool lode_structure_is(lode_structure structure, lode_dtype dtype, int64_t n, const void *a) {
  return dtype == LODE_F32 ? is_f32(structure, n, a) : is_f64(structure, n, a);
}

int32_t lode_structure_zero_diagonal(lode_dtype dtype, int64_t n, const void *a) {
  return dtype == LODE_F32 ? zero_diagonal_f32(n, a) : zero_diagonal_f64(n, a);
}
