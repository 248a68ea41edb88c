/* See moment.h.
 *
 * What is known of some elements is two numbers, m and d (core/moments.h), that lie in
 * arrays of their own, the one behind the other: [16, width] each for lanes, [width] each for a
 * level, and for a record, behind which the number of elements stands. A lane takes its
 * elements in blocks of 8, so rows are gathered in a buffer until there are 128 of them,
 * unless they come as many at a time, or lie in memory. */
#include "moment.h"

#include <string.h>

#include "../core/moments.h"
#include "../core/reduce.h"

enum {
  LANES = LODE_REDUCE_LANES,
  CHUNK = LODE_REDUCE_CHUNK,
  BLOCK_ROWS = LANES * LODE_M2_BLOCK,
  NARROW = 64, /* below, loops go over the columns of all lanes at once */
  AT_A_TIME = 16
};

typedef lode_accumulator accumulator;

static int64_t spread_of(int64_t width) { return width < NARROW ? LANES : 1; }

size_t lode_moment_record(int64_t width, int64_t size) {
  return (size_t)(2 * width * size + 7) / 8 * 8 + sizeof(double);
}

/* The record first, which has to be aligned; then lanes, the first elements, the buffer, levels. As many rows
 * for every width: what has room for one has room for all that are smaller. */
size_t lode_moment_bytes(int64_t width, int64_t size, int levels) {
  int64_t rows = 2 * LANES + 2 * levels + LANES + BLOCK_ROWS;
  return lode_moment_record(width, size) + (size_t)(rows * width * size);
}

void lode_moment_init(accumulator *a, char *memory) {
  int64_t row = a->width * a->size;
  a->record = memory;
  a->lanes = memory + lode_moment_record(a->width, a->size);
  a->first = a->lanes + 2 * LANES * row;
  a->waiting = a->first + spread_of(a->width) * row;
  a->levels = a->waiting + BLOCK_ROWS * row;
  a->rows = 0;
}

void lode_moment_begin(accumulator *a, const char *first) {
  int64_t row = a->width * a->size;
  for (int64_t k = 0; k < spread_of(a->width); k++) memcpy(a->first + k * row, first, (size_t)row);
}

/* ---- chunks --------------------------------------------------------------- */

/* What is known, in the form of m and d that are `apart` bytes apart: a row of it. */
typedef struct known {
  char *m, *d;
  double n;
} known;

static known level_of(const accumulator *a, int level) {
  int64_t row = a->width * a->size;
  char *m = a->levels + 2 * level * row;
  return (known){m, m + row, a->count[level]};
}

static known lane_of(const accumulator *a, int64_t lane, double n) {
  int64_t row = a->width * a->size;
  return (known){a->lanes + lane * row, a->lanes + (LANES + lane) * row, n};
}

/* to = left o right, for `rows` rows that follow each other. */
static void join(const accumulator *a, known *to, const known *left, const known *right, int64_t rows) {
  to->n =
      a->moment->join(to->m, to->d, left->m, left->d, left->n, right->m, right->d, right->n, rows * a->width);
}

/* Counts a chunk; what is known of it may be written over. */
static void count_chunk(accumulator *a, known chunk) {
  size_t row = (size_t)(a->width * a->size);
  int level = 0;
  for (int64_t c = a->chunks; (c & 1) != 0; c >>= 1, level++) {
    known earlier = level_of(a, level);
    join(a, &chunk, &earlier, &chunk, 1);
  }
  known at = level_of(a, level);
  memcpy(at.m, chunk.m, row);
  memcpy(at.d, chunk.d, row);
  a->count[level] = chunk.n;
  a->chunks++;
}

static void finish_chunk(accumulator *a) {
  int64_t n[LANES];
  for (int64_t k = 0; k < LANES; k++) n[k] = (a->place - k + LANES - 1) / LANES;
  for (int64_t half = LANES / 2; half > 0; half /= 2) {
    int64_t step = a->place == CHUNK ? half : 1; /* lanes that have seen as many can be joined at once */
    for (int64_t k = 0; k < half; k += step) {
      known left = lane_of(a, k, (double)n[k]), right = lane_of(a, k + half, (double)n[k + half]);
      if (n[k + half] > 0) join(a, &left, &left, &right, step);
    }
    for (int64_t k = 0; k < half; k++) n[k] += n[k + half];
  }
  count_chunk(a, lane_of(a, 0, (double)n[0]));
  a->place = 0;
}

/* ---- feeding --------------------------------------------------------------- */

/* Lanes [from, to) take `count` rows each. */
static void add_lanes(accumulator *a, const char *x, int64_t pitch, int64_t from, int64_t to, int64_t count) {
  int64_t step = spread_of(a->width) == LANES && pitch == a->width ? to - from : 1;
  for (int64_t k = from; k < to && count > 0; k += step) {
    known lane = lane_of(a, k, 0);
    a->moment->block(lane.m, lane.d, x + k * pitch * a->size, a->first, step * a->width, LANES * pitch,
                     a->place / LANES, (int)count);
  }
}

/* Adds rows of one block for each lane: BLOCK_ROWS, or what is left at the end. */
void lode_moment_block(accumulator *a, const char *x, int64_t pitch, int64_t rows) {
  add_lanes(a, x, pitch, 0, rows % LANES, rows / LANES + 1);
  add_lanes(a, x, pitch, rows % LANES, LANES, rows / LANES);
  a->place += rows;
  if (a->place == CHUNK) finish_chunk(a);
}

/* Adds n whole chunks of one sequence (width 1), between two chunks. */
static void add_chunks(accumulator *a, const char *x, int64_t n) {
  double m[AT_A_TIME], d[AT_A_TIME];
  for (int64_t done = 0, count; done < n; done += count) {
    count = n - done < AT_A_TIME ? n - done : AT_A_TIME;
    a->moment->chunks(m, d, x + done * CHUNK * a->size, a->first, count);
    for (int64_t k = 0; k < count; k++)
      count_chunk(a, (known){(char *)m + k * a->size, (char *)d + k * a->size, CHUNK});
  }
}

void lode_moment_feed(accumulator *a, const char *x, int64_t rows) {
  int64_t row = a->width * a->size;
  for (int64_t count; rows > 0; rows -= count, x += count * row) {
    if (a->rows == 0 && a->place == 0 && a->width == 1 && rows >= CHUNK) {
      count = rows / CHUNK * CHUNK;
      add_chunks(a, x, rows / CHUNK);
    } else if (a->rows == 0 && rows >= BLOCK_ROWS) {
      count = BLOCK_ROWS;
      lode_moment_block(a, x, a->width, count);
    } else {
      count = BLOCK_ROWS - a->rows < rows ? BLOCK_ROWS - a->rows : rows;
      memcpy(a->waiting + a->rows * row, x, (size_t)(count * row));
      a->rows += count;
      if (a->rows < BLOCK_ROWS) continue;
      a->rows = 0;
      lode_moment_block(a, a->waiting, a->width, BLOCK_ROWS);
    }
  }
}

/* ---- records --------------------------------------------------------------- */

static known record_of(char *record, int64_t width, int64_t size) {
  known at = {record, record + width * size, 0};
  memcpy(&at.n, record + lode_moment_record(width, size) - sizeof at.n, sizeof at.n);
  return at;
}

static void note_count(char *record, int64_t width, int64_t size, double n) {
  memcpy(record + lode_moment_record(width, size) - sizeof n, &n, sizeof n);
}

const char *lode_moment_finish(accumulator *a) {
  size_t row = (size_t)(a->width * a->size);
  if (a->rows > 0) lode_moment_block(a, a->waiting, a->width, a->rows);
  if (a->place > 0) finish_chunk(a);
  known result = {NULL, NULL, 0};
  int level = 0;
  for (int64_t c = a->chunks; c != 0; c >>= 1, level++) {
    if ((c & 1) == 0) continue;
    known earlier = level_of(a, level);
    if (result.m != NULL) join(a, &earlier, &earlier, &result, 1);
    result = earlier;
  }
  memcpy(a->record, result.m, row);
  memcpy(a->record + row, result.d, row);
  note_count(a->record, a->width, a->size, result.n);
  a->chunks = a->rows = 0;
  return a->record;
}

void lode_moment_combine(const lode_moment *moment, int64_t width, int64_t size, char *left,
                         const char *right) {
  char *other = (char *)(uintptr_t)right; /* it is only read */
  known a = record_of(left, width, size), b = record_of(other, width, size);
  note_count(left, width, size, moment->join(a.m, a.d, a.m, a.d, a.n, b.m, b.d, b.n, width));
}

void lode_moment_sequences(const lode_moment *moment, int64_t size, char *out, const char *in, int64_t rows,
                           int64_t width) {
  _Alignas(
      64) char memory[(2 + 1 + 2 * LANES + LANES + BLOCK_ROWS + 2) * 8]; /* of at most one chunk, width 1 */
  accumulator a = {.moment = moment, .width = 1, .size = size};
  lode_moment_init(&a, memory);
  for (int64_t r = 0; r < rows; r++, in += width * size) {
    lode_moment_begin(&a, in);
    lode_moment_feed(&a, in, width);
    memcpy(out + r * size, lode_moment_finish(&a), (size_t)size);
  }
}
