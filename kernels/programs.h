/* The parameters of the kernels in programs.cu, for both sides. */
#ifndef LODE_KERNELS_PROGRAMS_H
#define LODE_KERNELS_PROGRAMS_H

#include "core/program.h"

/* ---- interpret: a program, as it is stored -------------------------------------- */

enum {
  LODE_TILE = 256 /* elements of a value that a block has at a time; or a row, where that is more */
};

/* lode_value and lode_segment, as small as they can be: parameters have 4096 bytes. */
typedef struct lode_compact_value {
  uint8_t kind, dtype, op, from; /* from: the dtype of operand 0 */
  uint8_t a[3], index;
  uint8_t first, count;
  uint16_t width; /* elements in a row; 0: the program is not by rows */
} lode_compact_value;

typedef struct lode_compact_segment {
  int16_t source, lo, hi, start, step;
} lode_compact_segment;

/* The pointer, or the number, of element 0, and strides. */
typedef struct lode_compact_access {
  int64_t base, inner, stride[LODE_MAX_DIMS];
} lode_compact_access;

typedef struct lode_interpret_parameters {
  lode_compact_access access[LODE_MAX_ACCESSES], out[LODE_MAX_OUTPUTS];
  int64_t constant[LODE_MAX_CONSTS];
  int64_t outer[LODE_MAX_DIMS], inner;
  int64_t first, count;          /* elements to do; rows, where the program is by rows */
  char *slots;                   /* [blocks, nvalues] of slot_bytes */
  int32_t nvalues, nouter, rows; /* rows: of a tile; 0: the program is not by rows */
  int32_t slot_bytes;
  int32_t noutputs;
  uint8_t output[LODE_MAX_OUTPUTS];
  lode_compact_value value[LODE_MAX_VALUES];
  lode_compact_segment segment[LODE_MAX_SEGMENTS];
} lode_interpret_parameters;

/* ---- reduce, combine --------------------------------------------------------------- */

/* Where results go: kept indices are counted over these dims. */
typedef struct lode_result {
  char *base; /* of element 0 */
  int64_t inner;
  int64_t extent[LODE_MAX_DIMS], stride[LODE_MAX_DIMS];
  int32_t ndims;
} lode_result;

/* Dense sequences x[kept, length, columns]; those of kept index k are first_kept + k of the results. Of `all`
 * groups of a sequence's chunks these are from `before` on. */
typedef struct lode_reduce_parameters {
  const char *x;
  const char
      *first; /* of each sequence, its first element: first_stride elements from kept index to kept index */
  int64_t first_stride;
  char *partial; /* [results, all, columns]; NULL: one group, results are stored */
  int64_t first_kept, kept, columns, length, before, groups, all;
  int32_t dtype, reduction, C, group; /* C, group: templates.h */
  lode_result out;
} lode_reduce_parameters;

/* Of one output: combines from[kept, groups, columns] pairwise, `span` (a power of two) groups in a block: to
 * to[kept, groups / span, columns], or to where results go, if there is no more than one span. */
typedef struct lode_combine_output {
  char *from, *to;
  int32_t dtype, reduction;
  lode_result out;
} lode_combine_output;

typedef struct lode_combine_parameters {
  int64_t kept, columns, groups, span;
  int32_t noutputs;
  lode_combine_output output[LODE_MAX_OUTPUTS];
} lode_combine_parameters;

/* Columns of a block where there is more than one; groups that a thread combines in registers, a power of two;
 * what is then left of a block's columns, and in bytes. Many small blocks take less time than few large ones.
 */
enum { LODE_COMBINE_COLUMNS = 16, LODE_COMBINE_RUN = 8, LODE_COMBINE_RUNS = 32, LODE_COMBINE_BYTES = 16 << 10 };

/* Elements' sizes that a partial result takes: of m2, templates.h's lode_m2<E>::T. */
static inline int lode_partial_size(int reduction) { return reduction == LODE_RED_m2 ? 3 : 1; }

#endif
