/* Copies between strided and dense rows, fills and number rows, for one
 * instruction set (../isa.h): how views, transposes, broadcasts and concat reach
 * the dense tiles in which the evaluator computes. */
#include "../isa.h"

#include <string.h>

/* Elements are moved by their size alone, whatever type wrote them. */
typedef uint8_t __attribute__((may_alias)) size1;
typedef uint32_t __attribute__((may_alias)) size4;
typedef uint64_t __attribute__((may_alias)) size8;

/* Rows of few elements, dense on both sides: a copy of constant size is one or two instructions. */
#define NARROW(T, k)                                                                                           \
  case k:                                                                                                      \
    for (int64_t i = 0; i < rows; i++) memcpy(d + i * drow, s + i * srow, (k) * sizeof(T));                    \
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
      for (int64_t i = 0; i < rows; i++) memcpy(d + i * drow, s + i * srow, (size_t)columns * sizeof(T));      \
    }                                                                                                          \
  }                                                                                                            \
                                                                                                               \
  static void fill_rows_##T(T *d, int64_t drow, const T *s, int64_t srow, int64_t rows, int64_t columns) {     \
    if (srow == 0 && drow == columns) {                                                                        \
      columns *= rows;                                                                                         \
      rows = 1;                                                                                                \
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
    if (dcolumn == 1 && scolumn == 1) {                                                                        \
      copy_rows_##T(d, drow, s, srow, rows, columns);                                                          \
    } else if (dcolumn == 1 && scolumn == 0) {                                                                 \
      fill_rows_##T(d, drow, s, srow, rows, columns);                                                          \
    } else if (columns == 1 || (rows >= 8 && (srow == 1 || srow == -1) && scolumn != 1)) {                     \
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
  table->shift = shift;
  table->iota = iota;
}
