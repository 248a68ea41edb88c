/* Programs: what the planner makes and a device runs.
 *
 * A program is one pass over one iteration space: outer dims (odometer order)
 * times an inner axis. It is a straight list of values, each computed from
 * earlier ones, some of which are stored; or some of them are reduced. Views,
 * broadcasts and concat have become index arithmetic: an access is affine in the
 * iteration index. A program by rows evaluates each row of the inner axis whole:
 * there a gather builds a row from pieces of other rows, and a row may be reduced
 * to one element that the same row's other values use.
 *
 * lode_program holds the structure (operations, dtypes, edges, short widths:
 * what a compiled form may be cached under); lode_args holds what changes from
 * run to run (pointers, extents, strides, scalars). */
#ifndef LODE_PROGRAM_H
#define LODE_PROGRAM_H

#include "ops.h"
#include "shape.h"

enum {
  LODE_MAX_VALUES = 64,   /* in one program */
  LODE_MAX_ACCESSES = 24, /* inputs, counted once per distinct access */
  LODE_MAX_CONSTS = 24,
  LODE_MAX_SEGMENTS = 64,
  LODE_MAX_OUTPUTS = 4,
  LODE_SHORT_ROW = 32,       /* rows up to this are reduced whole in any case */
  LODE_ROW_MAX = 256,        /* inner extents up to this are evaluated as whole rows where views gain by it */
  LODE_ROW_REDUCE_MAX = 4096 /* the same where what a row reduces to is used with the row */
};

typedef enum lode_value_kind {
  LODE_VALUE_ACCESS, /* args.access[index]: an element read from memory */
  LODE_VALUE_IOTA,   /* args.access[index]: the offset itself, as i64; no memory */
  LODE_VALUE_CONST,  /* args.consts[index], the same everywhere */
  LODE_VALUE_OP,     /* lode_op `op` of a[0..arity) */
  LODE_VALUE_CAST,   /* a[0] converted from its dtype to this one: saturating, NaN to 0 */
  LODE_VALUE_GATHER, /* a row made of segments [first, first + count) */
  LODE_VALUE_REDUCE  /* lode_reduction `op` of the row a[0], in reduce.h's order: one element a row */
} lode_value_kind;

typedef struct lode_value {
  uint8_t kind;
  uint8_t dtype; /* of the result; an OP's operands have the dtype that its rule says */
  uint16_t op;
  int16_t a[3];         /* operands: indices of earlier values */
  int16_t index;        /* into args.access or args.consts */
  int16_t first, count; /* GATHER */
  int32_t width;        /* elements in a row of this value. 0: the program's inner extent
                         * (the only width in a program not by rows); 1: one element a row,
                         * which as an OP's operand stands for all of the row */
} lode_value;

/* How many of a[] are operands, evaluated where the value is. */
static inline int lode_value_arity(const lode_value *value) {
  return value->kind == LODE_VALUE_OP                                         ? lode_ops[value->op].arity
         : value->kind == LODE_VALUE_CAST || value->kind == LODE_VALUE_REDUCE ? 1
                                                                              : 0;
}

/* Row elements [lo, hi) are elements start + step * (j - lo) of `source`'s row.
 * step may be 0 (repeat) or negative. Segments of a gather are in order and
 * cover its row. A source is never itself a gather. */
typedef struct lode_segment {
  int16_t source;
  int32_t lo, hi, start, step;
} lode_segment;

/* INNER: each kept index reduces the sequence of all (reduced outer dims, inner
 * axis) elements, in that order. OUTER: each (kept index, inner index) reduces
 * the sequence over the reduced outer dims. The order of combination is
 * reduce.h's, and does not depend on which form was chosen. */
typedef enum lode_reduce_form { LODE_REDUCE_NONE, LODE_REDUCE_INNER, LODE_REDUCE_OUTER } lode_reduce_form;

typedef struct lode_program {
  int nvalues;
  int naccesses; /* entries of args.access used by values; outputs are apart */
  int nconsts;
  int nsegments;
  int noutputs;
  uint8_t form;                        /* a lode_reduce_form, of all outputs */
  uint8_t reduction[LODE_MAX_OUTPUTS]; /* by output, where form is not NONE: a lode_reduction of its value */
  bool rows;                           /* rows are evaluated whole: some value is a gather or a reduction */
  int16_t output[LODE_MAX_OUTPUTS]; /* values; by rows, one of width 1 is stored as one element a row where the
                                     * inner extent is another. Several may be one value, reduced in several
                                     * ways */
  lode_value value[LODE_MAX_VALUES];
  lode_segment segment[LODE_MAX_SEGMENTS];
} lode_program;

/* A reduction gives the dtype of what it reduces. */
static inline lode_dtype lode_output_dtype(const lode_program *program, int output) {
  return (lode_dtype)program->value[program->output[output]].dtype;
}

/* Whether output o is reduced to m2 (moments.h): it has to see the first element of its sequence before the
 * others, and what is known of a lane is much. */
static inline bool lode_output_moment(const lode_program *program, int output) {
  return program->form != LODE_REDUCE_NONE && program->reduction[output] == LODE_RED_m2;
}

static inline bool lode_program_moments(const lode_program *program) {
  for (int o = 0; o < program->noutputs; o++)
    if (lode_output_moment(program, o)) return true;
  return false;
}

/* Where element (outer index i[], inner index j) lies, counted in elements:
 * offset + sum(stride[d] * i[d]) + inner * j. Strides may be 0 or negative. */
typedef struct lode_access {
  char *base; /* device memory of element 0; NULL for IOTA */
  int64_t offset;
  int64_t inner;
  int64_t stride[LODE_MAX_DIMS];
} lode_access;

typedef struct lode_args {
  int nouter;                            /* outer dims: first the kept ones, then the reduced ones */
  int nreduced;                          /* how many of them are reduced (form INNER or OUTER) */
  int64_t outer[LODE_MAX_DIMS];          /* extents, none of them 0 */
  int64_t inner;                         /* extent of the inner axis, not 0 */
  lode_access access[LODE_MAX_ACCESSES]; /* strides over all outer dims; for a value with a width of
                                          * its own, `inner` steps through that row */
  lode_access out[LODE_MAX_OUTPUTS];     /* strides over the kept outer dims; inner unless form is INNER */
  lode_scalar consts[LODE_MAX_CONSTS];
} lode_args;

#endif
