/* Accumulators: what a reduction has seen so far, in the order of core/reduce.h.
 *
 * An accumulator holds `width` sequences side by side: 16 partial results for the
 * current chunk, then results of earlier chunks, which are combined as a binary
 * counter counts: level l holds the result of 2^l chunks, so that neighbours at
 * distance 1, 2, 4, ... meet in that order.
 *
 * A record is what is known when a sequence ends, or a group of its chunks: it begins
 * with the results, [width]. Records of groups are combined in the same order. */
#ifndef LODE_CPU_ACCUMULATOR_H
#define LODE_CPU_ACCUMULATOR_H

#include "tile.h"

typedef struct lode_accumulator {
  const lode_reducer *reducer;
  const lode_moment *moment; /* NULL but for m2 (moment.c) */
  int64_t width, size;       /* size: bytes of an element */
  int64_t place;             /* elements of the current chunk so far */
  int64_t chunks;            /* finished */
  char *lanes;               /* [16, width] */
  char *levels;              /* [levels, width] */
  /* m2: */
  char *record;     /* what finish gives */
  char *first;      /* the first elements of the sequences */
  char *waiting;    /* rows that make no block yet, */
  int64_t rows;     /* and how many there are */
  double count[64]; /* by level: elements */
} lode_accumulator;

/* Bytes of memory for sequences of at most `chunks` chunks; bytes of a record. */
size_t lode_accumulator_bytes(const lode_plan *plan, int output, int64_t width, int64_t chunks);
size_t lode_record_bytes(const lode_plan *plan, int output, int64_t width);

/* For what an output is reduced by. */
void lode_accumulator_init(lode_accumulator *a, const lode_plan *plan, int output, int64_t width, char *memory);

/* Begins sequences, whose first elements are at `first`. */
void lode_accumulator_begin(lode_accumulator *a, const char *first);

/* Adds n elements of one sequence (width 1); n rows, one element to each of `width` sequences. */
void lode_feed_elements(lode_accumulator *a, const char *x, int64_t n);
void lode_feed_rows(lode_accumulator *a, const char *x, int64_t n);

/* m2: adds rows that are `pitch` elements apart: LODE_REDUCE_LANES * LODE_M2_BLOCK, or the last ones. Not to be
 * mixed with the above. */
void lode_feed_apart(lode_accumulator *a, const char *x, int64_t pitch, int64_t rows);

/* Ends the sequences: their record, until the accumulator is used again. */
const char *lode_accumulator_finish(lode_accumulator *a);

/* out[r] = the reduction of in[r * width .. + width), as an output is reduced. `behind`: as for
 * lode_reduce_rows. */
void lode_reduce_sequences(const lode_plan *plan, int output, void *out, const void *in, int64_t rows,
                           int64_t width, int64_t behind);

/* left = left o right. */
void lode_record_combine(const lode_plan *plan, int output, int64_t width, char *left, const char *right);

#endif
