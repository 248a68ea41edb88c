/* The loops that do the CPU device's arithmetic, as one table for each
 * instruction set: csrc/cpu/isa/ is compiled once for each, and the best one
 * that the processor has is chosen when the device is opened.
 *
 * All loops work on dense or strided arrays in memory and know nothing of
 * programs. They give the same bits in every instruction set. */
#ifndef LODE_CPU_ISA_H
#define LODE_CPU_ISA_H

#include "../core/ops.h"

/* d[i] = f(a[i], b[i], c[i]) for i in [0, n). Bit k of `scalars` says that operand k is one element
 * that stands for all. d may be the same array as an operand whose elements have the same size. */
typedef void lode_loop(void *d, const void *a, const void *b, const void *c, int64_t n, unsigned scalars);

/* d(i, j) = s(i, j) for i in [0, rows), j in [0, columns): element (i, j) of x lies at x + i * xrow
 * + j * xcolumn elements. The arrays do not overlap. */
typedef void lode_move(void *d, int64_t drow, int64_t dcolumn, const void *s, int64_t srow, int64_t scolumn,
                       int64_t rows, int64_t columns);

/* out[r] = the reduction of in[r * width .. + width), in reduce.h's order; width <= one chunk. `behind`:
 * elements behind in[rows * width] that may be read, whatever they hold. */
typedef void lode_reduce_rows(void *out, const void *in, int64_t rows, int64_t width, int64_t behind);

/* lanes[i mod 16] = lanes[i mod 16] o in[i] for i in [0, n). */
typedef void lode_reduce_lanes(void *lanes, const void *in, int64_t n);

/* out[k] = the reduction of the k'th chunk of in. */
typedef void lode_reduce_chunks(void *out, const void *in, int64_t n);

/* What a reduction needs, for one dtype. */
typedef struct lode_reducer {
  lode_reduce_rows *rows;
  lode_reduce_lanes *lanes;
  lode_reduce_chunks *chunks;
  lode_loop *combine; /* d[i] = a[i] o b[i] */
} lode_reducer;

/* What core/moments.h's m2 needs, for one floating dtype. Arrays m and d hold what is known of some elements.
 */
typedef struct lode_moment {
  /* For i in [0, n): joins x[i + k * stride], k < count <= LODE_M2_BLOCK, less first[i], to what is known of
   * `before` elements at m[i], d[i]. */
  void (*block)(void *m, void *d, const void *x, const void *first, int64_t n, int64_t stride, int64_t before,
                int count);
  /* For i in [0, n): what is known of na elements and then of nb; returns their number, rounded to the dtype.
   */
  double (*join)(void *m, void *d, const void *ma, const void *da, double na, const void *mb, const void *db,
                 double nb, int64_t n);
  /* What is known of the k'th whole chunk of x, for k in [0, n). */
  void (*chunks)(void *m, void *d, const void *x, const void *first, int64_t n);
} lode_moment;

/* A chain is a list of operations on one float type, each of which takes the result of the one before and
 * other operands, or none; then a store. They pass what they have computed on in registers, so the functions'
 * types are chain.c's own matter. `where` takes two entries of the list, and the mask of a comparison that the
 * chain holds; a chain does not end in such a mask. */
typedef void lode_link_run(void);
typedef struct lode_link {
  lode_link_run *run;
  union {
    const void *operand; /* an array, or one number */
    void *result;        /* of the store: none of the operands */
  };
} lode_link;

typedef struct lode_isa {
  const char *name;
  /* By operation and element type of the operands (of the last one for `where`, of the result for
   * counters). NULL where the operation's rule excludes the type. */
  lode_loop *op[LODE_NOPS][LODE_NDTYPES];
  lode_loop *cast[LODE_NDTYPES][LODE_NDTYPES]; /* [from][to] */
  /* The links of chains, by operation and element type as above; then by the position of the operand that
   * comes from the link before, and whether the other one is a number. For `where`: whether b is, whether c
   * is. NULL where there is none. */
  lode_link_run *link[LODE_NOPS][LODE_NDTYPES][2][2];
  lode_link_run *store[LODE_NDTYPES];
  /* Runs a chain that begins with an array of n elements; false, where these are too few. */
  bool (*chain[LODE_NDTYPES])(const lode_link *links, const void *first, int64_t n);
  lode_reducer reduce[LODE_NREDUCTIONS][LODE_NDTYPES]; /* nothing for m2 */
  const lode_moment *m2[LODE_NDTYPES];                 /* NULL: not of this dtype */
  lode_move *move[9];                                  /* by element size: 1, 4, 8 */
  /* d(i, j) = from[j](i) for 2 to 4 dense columns, by element size. */
  void (*weave[9])(void *d, const void *const *from, int64_t rows, int columns);
  /* Copies bytes (a multiple of an element's) within L1, the one from the other displaced by a few
   * elements. */
  void (*shift)(void *d, const void *s, int64_t bytes);
  /* d[i * columns + j] = start + i * row + j * column, wrapping. */
  void (*iota)(int64_t *d, int64_t start, int64_t row, int64_t column, int64_t rows, int64_t columns);
} lode_isa;

/* The instruction set in use. */
const lode_isa *lode_isa_current(void);

/* For each variant, four files fill their part of the table. */
#define LODE_ISA_DECLARE(isa)                                                                                  \
  void lode_isa_loops_##isa(lode_isa *table);                                                                  \
  void lode_isa_chain_##isa(lode_isa *table);                                                                  \
  void lode_isa_reduce_##isa(lode_isa *table);                                                                 \
  void lode_isa_move_##isa(lode_isa *table);
LODE_ISA_DECLARE(baseline)
LODE_ISA_DECLARE(avx2)
LODE_ISA_DECLARE(avx512)

#define LODE_ISA_PASTE_(name, isa) name##_##isa
#define LODE_ISA_PASTE(name, isa)  LODE_ISA_PASTE_(name, isa)
#define LODE_ISA_NAME(name)        LODE_ISA_PASTE(name, LODE_ISA)

/* The next loop carries nothing from one turn to the next, though its pointers may be equal. */
#if defined(__clang__)
#define LODE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LODE_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
