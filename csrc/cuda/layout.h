/* The layout of a program: how its pass is cut among threads, what its text is made
 * from, and the parameters of a launch.
 *
 * The structure (lode_structure, with the program's values and segments) is all that
 * the text depends on, and is the key that compiled programs are found by. What changes
 * from run to run - pointers, strides that are used, extents, scalars - are
 * parameters: pointers first, then 64-bit words. */
#ifndef LODE_CUDA_LAYOUT_H
#define LODE_CUDA_LAYOUT_H

#include "../core/program.h"

/* How a pass is cut. */
typedef enum lode_template {
  LODE_TEMPLATE_ELEMENTS, /* stores; a thread for each vector of elements */
  LODE_TEMPLATE_ROWS,     /* by rows of few elements: a thread for each, values in registers */
  LODE_TEMPLATE_SPREAD, /* by rows that the registers of 16 to 128 threads have room for: see source_spread.c */
  LODE_TEMPLATE_WIDE,   /* by rows that are too much for registers: values in shared memory */
  LODE_TEMPLATE_COLUMNS, /* reductions of one chunk: a thread for each sequence */
  LODE_TEMPLATE_LANES    /* reductions: a thread for each lane of a chunk */
} lode_template;

typedef enum lode_stride_class { LODE_STRIDE_ZERO, LODE_STRIDE_ONE, LODE_STRIDE_ANY } lode_stride_class;

/* ROWS: how rows come from memory, or go there. */
typedef enum lode_stage {
  LODE_STAGE_NONE,    /* by their own thread */
  LODE_STAGE_STRIDED, /* through shared memory, a row at a time */
  LODE_STAGE_BLOCK    /* through shared memory; rows lie one behind the other */
} lode_stage;

enum {
  LODE_OUT = LODE_MAX_ACCESSES, /* the outputs, among accesses */
  LODE_PLACES = LODE_OUT + LODE_MAX_OUTPUTS,
  LODE_ROW_REGISTERS = 32, /* elements of a row in registers, at most */
  LODE_SHARED_BYTES = 48 << 10,
  LODE_LEAST_ROW = 64,    /* any_row: of `inner` */
  LODE_SMALL_EXTENT = 64, /* inner extents up to this are part of the structure where they are divided by */
  LODE_MAX_POINTERS = LODE_PLACES + LODE_MAX_OUTPUTS,
  LODE_MAX_WORDS = LODE_PLACES * (LODE_MAX_DIMS + 2) + LODE_MAX_CONSTS + LODE_MAX_DIMS + 16,
  LODE_KEY_BYTES = 2800
};

typedef struct lode_access_class {
  uint16_t dims;  /* outer dims along which it moves: a bit each */
  uint8_t inner;  /* a lode_stride_class */
  uint8_t vector; /* elements that can be moved at a time along a row */
  uint8_t staged; /* a lode_stage */
  uint8_t tile;   /* outputs, staged: 1 + the access whose place in shared memory it takes; 0: its own */
} lode_access_class;

typedef struct lode_structure {
  uint8_t cut; /* a lode_template */
  uint8_t form, reduction[LODE_MAX_OUTPUTS];
  uint8_t wide;   /* offsets are 64-bit */
  uint8_t vector; /* ELEMENTS: elements that are moved at a time */
  uint8_t unroll; /* ELEMENTS: vectors of a thread */
  uint8_t
      tiled; /* ELEMENTS: a thread's vectors are of neighbouring rows, and only blocks are divided among rows */
  uint8_t nouter, nreduced; /* dims that rows are counted over */
  uint8_t columns;          /* LANES: templates.h's C */
  uint8_t global;           /* WIDE: values lie in a workspace, because shared memory is too small */
  uint8_t by_rows;
  uint8_t any_row; /* SPREAD, WIDE: `inner` is what rows may have; what they have is a parameter */
  uint8_t parts;   /* SPREAD: of a chunk, each of which has its own threads */
  uint8_t noutputs, output[LODE_MAX_OUTPUTS];
  uint16_t rows; /* ROWS, SPREAD, WIDE: of a block */
  uint16_t nvalues, naccesses, nsegments;
  int32_t inner; /* the inner extent; 0: a parameter; any_row: as many or some more */
  lode_access_class access[LODE_PLACES];
} lode_structure;

/* How long sequences are cut among blocks, in the words of templates.h: units of C columns, groups of 2^group
 * chunks, as many groups. */
typedef struct lode_cut {
  int C, group;
  int64_t groups;
} lode_cut;

lode_cut lode_layout_cut(int64_t columns, int64_t length);

/* Places of parameters are indices into pointer[] or word[]; -1: there is none. */
typedef struct lode_layout {
  const lode_program *program;
  const lode_args *args;
  lode_structure structure;
  int64_t kept, each;   /* products of the kept and of the reduced outer extents */
  int64_t first, count; /* ROWS, SPREAD, WIDE: the rows to do */
  int64_t length;       /* reductions: of a sequence */
  int64_t columns;      /* reductions: sequences side by side */
  lode_cut cut;         /* LANES; COLUMNS: a group is a chunk */

  /* ROWS, SPREAD, WIDE: elements in a row of each value: 1 also where a row is one element repeated. any_row:
   * `inner` where there is more than one. */
  int32_t width[LODE_MAX_VALUES];
  /* WIDE: where a value that is kept lies, in bytes for each row of the block; -1: it is made where it is used.
   * `lanes` is where rows are reduced. */
  int32_t slot[LODE_MAX_VALUES], lanes, row_bytes;

  int npointers, nwords;
  char *pointer[LODE_MAX_POINTERS];
  int64_t word[LODE_MAX_WORDS];
  int16_t at_pointer[LODE_PLACES], at_offset[LODE_PLACES], at_inner[LODE_PLACES];
  int16_t at_stride[LODE_PLACES][LODE_MAX_DIMS];
  int16_t at_const[LODE_MAX_CONSTS], at_extent[LODE_MAX_DIMS];
  int16_t at_space;                                /* the inner extent, where structure.inner does not say */
  int16_t at_kept, at_length, at_group, at_groups; /* reductions: see source.c */
  int16_t at_workspace;                            /* WIDE; LANES, COLUMNS: for each output a pointer */
  int16_t at_first, at_count;
} lode_layout;

/* Whether a program is one pass: one by rows with a reduction of its own is stored first, and reduced then. */
bool lode_layout_one_pass(const lode_program *program);

/* Whether a program uses core/elementary.h's functions. */
bool lode_layout_elementary(const lode_program *program);

/* Makes the layout of rows [first, first + count); count < 0: of all. */
void lode_layout_make(lode_layout *layout, const lode_program *program, const lode_args *args, int64_t first,
                      int64_t count);

/* The key: bytes written to `key`. */
size_t lode_layout_key(const lode_layout *layout, char key[LODE_KEY_BYTES]);

/* ROWS: elements between rows of an access in shared memory. */
int lode_layout_pitch(const lode_layout *layout, int a, int width);

/* Where a value's access, or an output's, is described. */
static inline const lode_access *lode_layout_access(const lode_args *args, int a) {
  return a >= LODE_OUT ? &args->out[a - LODE_OUT] : &args->access[a];
}

/* The value that an access reads or an output stores. */
int lode_layout_value(const lode_layout *layout, int a);

/* source_wide.c: gives values a place in shared memory. */
void lode_wide_place(lode_layout *layout);
/* source_spread.c: says how many rows a block has. False where values are too much for registers. */
bool lode_spread_place(lode_layout *layout);
/* Of a block. */
int lode_spread_threads(const lode_layout *layout);

#endif
