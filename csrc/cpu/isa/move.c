/* Copies between strided and dense rows, fills and number rows, for one
 * instruction set (../isa.h): how views, transposes, broadcasts and concat reach
 * the dense tiles in which the evaluator computes. */
#include "../isa.h"

#include <string.h>

/* Elements are moved by their size alone, whatever type wrote them. */
typedef uint8_t __attribute__((may_alias)) size1;
typedef uint32_t __attribute__((may_alias)) size4;
typedef uint64_t __attribute__((may_alias)) size8;

/* For loops of vectors: inlined, their registers are saved by each call of who chooses among them. */
#define OUT_OF_LINE __attribute__((noinline))

/* Rows of few elements, dense on both sides: a copy of constant size is one or two instructions. */
#define NARROW(T, k)                                                                                           \
  case k:                                                                                                      \
    for (int64_t i = 0; i < rows; i++) memcpy(d + i * drow, s + i * srow, (k) * sizeof(T));                    \
    return;

/* Rows of up to 64 bytes: two copies of constant size, which overlap. */
#define OVERLAPPING(half)                                                                                      \
  if (bytes <= 2 * (half)) {                                                                                   \
    for (int64_t i = 0; i < rows; i++, d += drow, s += srow) {                                                 \
      memcpy(d, s, half);                                                                                      \
      memcpy(d + bytes - (half), s + bytes - (half), half);                                                    \
    }                                                                                                          \
    return;                                                                                                    \
  }

static OUT_OF_LINE void copy_rows(char *restrict d, int64_t drow, const char *restrict s, int64_t srow,
                                  int64_t rows, int64_t bytes) {
  if (bytes >= 8) {
    OVERLAPPING(8)
    OVERLAPPING(16)
    OVERLAPPING(32)
  }
  for (int64_t i = 0; i < rows; i++) memcpy(d + i * drow, s + i * srow, (size_t)bytes);
}

/* One element of each row. A stride that is a constant becomes loads of whole vectors and shuffles. */
#define STRIDE(k)                                                                                              \
  case k:                                                                                                      \
    for (int64_t i = 0; i < rows; i++) d[i] = s[i * (k)];                                                      \
    return;

/* One element of each row to all of a row of k: vectors, shuffled and stored one behind the other. */
#define SPREAD(k)                                                                                              \
  case k:                                                                                                      \
    for (int64_t i = 0; i < rows; i++) {                                                                       \
      _Pragma("GCC unroll 4") for (int j = 0; j < (k); j++) d[i * (k) + j] = s[i];                             \
    }                                                                                                          \
    return;

#define MOVE(T)                                                                                                \
  static void copy_rows_##T(T *d, int64_t drow, const T *s, int64_t srow, int64_t rows, int64_t columns) {     \
    if (rows > 1 && drow == columns && srow == columns) {                                                      \
      columns *= rows;                                                                                         \
      rows = 1;                                                                                                \
    }                                                                                                          \
    switch (columns) {                                                                                         \
      NARROW(T, 1)                                                                                             \
      NARROW(T, 2)                                                                                             \
      NARROW(T, 3)                                                                                             \
      NARROW(T, 4)                                                                                             \
      NARROW(T, 6)                                                                                             \
      NARROW(T, 8)                                                                                             \
    default:                                                                                                   \
      copy_rows((char *)d, drow *(int64_t)sizeof(T), (const char *)s, srow *(int64_t)sizeof(T), rows,          \
                columns *(int64_t)sizeof(T));                                                                  \
    }                                                                                                          \
  }                                                                                                            \
                                                                                                               \
  static OUT_OF_LINE void move_column_##T(T *restrict d, int64_t drow, const T *restrict s, int64_t srow,      \
                                          int64_t rows) {                                                      \
    switch (drow == 1 ? srow : -1) {                                                                           \
      STRIDE(0)                                                                                                \
      STRIDE(1)                                                                                                \
      STRIDE(2)                                                                                                \
      STRIDE(3)                                                                                                \
      STRIDE(4)                                                                                                \
    default:                                                                                                   \
      _Pragma("GCC unroll 4") for (int64_t i = 0; i < rows; i++) d[i * drow] = s[i * srow];                    \
    }                                                                                                          \
  }                                                                                                            \
                                                                                                               \
  static OUT_OF_LINE void spread_rows_##T(T *restrict d, const T *restrict s, int64_t rows, int64_t columns) { \
    switch (columns) {                                                                                         \
      SPREAD(2)                                                                                                \
      SPREAD(3)                                                                                                \
      SPREAD(4)                                                                                                \
    default:;                                                                                                  \
    }                                                                                                          \
    int64_t i = 0;                                                                                             \
    for (; (rows - i) * columns >= columns + 64 / (int64_t)sizeof(T); i++, d += columns) {                     \
      for (int64_t j = 0; j < columns; j += 64 / (int64_t)sizeof(T)) /* what is too much is written over */    \
        _Pragma("GCC unroll 64") for (int k = 0; k < 64 / (int)sizeof(T); k++) d[j + k] = s[i];                \
    }                                                                                                          \
    for (; i < rows; i++, d += columns)                                                                        \
      for (int64_t j = 0; j < columns; j++) d[j] = s[i];                                                       \
  }                                                                                                            \
                                                                                                               \
  static void fill_rows_##T(T *d, int64_t drow, const T *s, int64_t srow, int64_t rows, int64_t columns) {     \
    if (srow == 0 && drow == columns) {                                                                        \
      columns *= rows;                                                                                         \
      rows = 1;                                                                                                \
    }                                                                                                          \
    if (srow == 1 && drow == columns && columns > 1 && columns <= 128 / (int64_t)sizeof(T)) {                  \
      spread_rows_##T(d, s, rows, columns);                                                                    \
      return;                                                                                                  \
    }                                                                                                          \
    for (int64_t i = 0; i < rows; i++) {                                                                       \
      T value = s[i * srow], *to = d + i * drow;                                                               \
      for (int64_t j = 0; j < columns; j++) to[j] = value;                                                     \
    }                                                                                                          \
  }                                                                                                            \
                                                                                                               \
  static void move_##T(void *dv, int64_t drow, int64_t dcolumn, const void *sv, int64_t srow, int64_t scolumn, \
                       int64_t rows, int64_t columns) {                                                        \
    T *restrict d = dv;                                                                                        \
    const T *restrict s = sv;                                                                                  \
    if (columns == 1) {                                                                                        \
      move_column_##T(d, drow, s, srow, rows);                                                                 \
    } else if (dcolumn == 1 && scolumn == 1) {                                                                 \
      copy_rows_##T(d, drow, s, srow, rows, columns);                                                          \
    } else if (dcolumn == 1 && scolumn == 0) {                                                                 \
      fill_rows_##T(d, drow, s, srow, rows, columns);                                                          \
    } else if (rows >= 8 && (srow == 1 || srow == -1) && scolumn != 1) {                                       \
      /* down the columns: those of a transposed source are dense */                                           \
      for (int64_t j = 0; j < columns; j++)                                                                    \
        for (int64_t i = 0; i < rows; i++) d[i * drow + j * dcolumn] = s[i * srow + j * scolumn];              \
    } else {                                                                                                   \
      for (int64_t i = 0; i < rows; i++)                                                                       \
        for (int64_t j = 0; j < columns; j++) d[i * drow + j * dcolumn] = s[i * srow + j * scolumn];           \
    }                                                                                                          \
  }

MOVE(size1)
MOVE(size4)
MOVE(size8)

/* Dense columns side by side. */
#define WEAVE(T)                                                                                               \
  static void weave_##T(void *dv, const void *const *from, int64_t rows, int columns) {                        \
    T *restrict d = dv;                                                                                        \
    const T *restrict s0 = from[0], *restrict s1 = from[1], *restrict s2 = from[columns > 2 ? 2 : 0],          \
                      *restrict s3 = from[columns - 1];                                                        \
    if (columns == 2) {                                                                                        \
      for (int64_t i = 0; i < rows; i++) d[2 * i] = s0[i], d[2 * i + 1] = s1[i];                               \
    } else if (columns == 3) {                                                                                 \
      for (int64_t i = 0; i < rows; i++) d[3 * i] = s0[i], d[3 * i + 1] = s1[i], d[3 * i + 2] = s2[i];         \
    } else {                                                                                                   \
      for (int64_t i = 0; i < rows; i++)                                                                       \
        d[4 * i] = s0[i], d[4 * i + 1] = s1[i], d[4 * i + 2] = s2[i], d[4 * i + 3] = s3[i];                    \
    }                                                                                                          \
  }

WEAVE(size1)
WEAVE(size4)
WEAVE(size8)

/* Stores are aligned, because stores across cache lines cost more than such loads. */
static void shift(void *dv, const void *sv, int64_t bytes) {
  typedef uint64_t __attribute__((may_alias, aligned(1))) unaligned;
  char *d = dv;
  const char *s = sv;
  int64_t head = (int64_t)(-(uintptr_t)d % 64);
  if (head > bytes) head = bytes;
  for (int64_t i = 0; i < head; i++) d[i] = s[i];
  size8 *restrict to = __builtin_assume_aligned(d + head, 64);
  const unaligned *restrict from = (const unaligned *)(const void *)(s + head);
  int64_t words = (bytes - head) / 8;
  _Pragma("GCC unroll 4") for (int64_t i = 0; i < words; i++) to[i] = from[i];
  for (int64_t i = head + words * 8; i < bytes; i++) d[i] = s[i];
}

static void iota(int64_t *d, int64_t start, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  uint64_t first = (uint64_t)start, step = (uint64_t)column;
  for (int64_t i = 0; i < rows; i++, first += (uint64_t)row, d += columns)
    for (int64_t j = 0; j < columns; j++) d[j] = (int64_t)(first + (uint64_t)j * step);
}

void LODE_ISA_NAME(lode_isa_move)(lode_isa *table) {
  table->move[1] = move_size1;
  table->move[4] = move_size4;
  table->move[8] = move_size8;
  table->weave[1] = weave_size1;
  table->weave[4] = weave_size4;
  table->weave[8] = weave_size8;
  table->shift = shift;
  table->iota = iota;
}
