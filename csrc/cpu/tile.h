/* Evaluating a program tile by tile.
 *
 * A tile is a range of rows (outer indices, counted in odometer order) times a
 * range of columns of the inner axis, small enough for all its intermediate
 * values to stay in L1. A plan says, for one program and its arguments, where
 * each value of a tile is found and which loop makes it. Evaluating a tile gives
 * its outputs as dense rows; what becomes of those is evaluator.c's matter.
 *
 * A value is one of
 *   SCALAR  the same everywhere: made once, with the plan
 *   ROW     one element a row
 *   FULL    a dense row of more than one element a row
 * and lies in memory (an input that is dense, read where it is), in a slot of the
 * workspace, or, for a direct output, where it is to be stored. */
#ifndef LODE_CPU_TILE_H
#define LODE_CPU_TILE_H

#include "../core/program.h"
#include "isa.h"

typedef struct lode_tile {
  int64_t row, rows;
  int64_t column, columns;
} lode_tile;

/* How tiles cut the iteration space. */
typedef enum lode_cut {
  LODE_CUT_ROWS,   /* some rows, all columns; always so for a program by rows */
  LODE_CUT_SINGLE, /* one row, some columns: long rows */
  LODE_CUT_BLOCK   /* some rows, some columns: an input is dense down the columns */
} lode_cut;

typedef enum lode_extent { LODE_EXTENT_SCALAR, LODE_EXTENT_ROW, LODE_EXTENT_FULL } lode_extent;

/* What a tile has to do for a value. */
typedef enum lode_action {
  LODE_ACTION_NONE,  /* SCALAR, or made within a chain */
  LODE_ACTION_DENSE, /* in place: `origin` and `pitch` say where */
  LODE_ACTION_ROW,   /* in place, for a cut that takes one row at a time */
  LODE_ACTION_LOAD,  /* copy from memory, or number, into a slot */
  LODE_ACTION_GATHER,
  LODE_ACTION_COMPUTE, /* operands are dense, or SCALAR */
  LODE_ACTION_CHAIN,   /* the same, with operations before it whose results nothing else needs */
  LODE_ACTION_SPREAD,  /* as COMPUTE, with ROW operands in a FULL result */
  LODE_ACTION_REDUCE   /* rows to one element each */
} lode_action;

typedef struct lode_step {
  lode_loop *loop;             /* OP, CAST */
  lode_link_run *link;         /* OP that can be part of a chain */
  const lode_reducer *reducer; /* REDUCE */
  const char *origin;          /* SCALAR: the element; DENSE: element (0, 0) of the whole space */
  int64_t pitch;               /* DENSE: bytes from row to row */
  int32_t width;               /* elements in a row of a FULL value; 0: as many as the tile has columns */
  int16_t place;               /* the value with which it is made: its own, or the last of its chain */
  int16_t slot;                /* in the workspace; -1: none */
  int16_t spread[3];           /* OP, FULL: slots in which ROW operands are spread to full rows; -1: none */
  int16_t base;                /* GATHER: the segment that is copied for all rows at once, first; -1: none */
  int16_t output;              /* made where this output is stored, in no slot; -1: not so */
  uint8_t extent;              /* a lode_extent */
  uint8_t action;              /* a lode_action */
  uint8_t size;                /* bytes of an element */
  uint8_t scalars;             /* OP: which operands are one element for all that a loop makes */
  uint8_t links;               /* OP: operations of the chain that ends here; 0: of none */
  uint8_t along; /* OP of a chain: the operand that the link before makes, or the first one loads */
  bool padded;   /* CHAIN: slots all, in which there is room for whole cache lines */
  bool by_row;   /* SPREAD: row by row, instead of spreading */
  bool weave;    /* GATHER: of columns that are dense each */
  bool in_place; /* ACCESS: read where it is */
  bool periodic; /* the same in every row: stays in its slot from tile to tile */
} lode_step;

typedef struct lode_plan {
  const lode_program *program;
  const lode_args *args;
  const lode_isa *isa;
  lode_cut cut;
  bool keeps;                    /* some value is periodic */
  bool odometer;                 /* some access needs the index of a row */
  bool direct[LODE_MAX_OUTPUTS]; /* its value is made where it is stored */
  int16_t
      spread_slot[LODE_MAX_OUTPUTS]; /* where one that is SCALAR or ROW is spread to full rows; -1: nowhere */
  int16_t far[LODE_MAX_ACCESSES];    /* inputs in place that come from memory: prefetched for the next tile */
  int nfar;
  int nworking; /* steps that do something for a tile */
  uint64_t
      full_slots; /* bit k: slot k holds full rows at times, not one element a row; slots from 64 on: no bit */
  int32_t nslots;
  int32_t widest;        /* elements in the widest row */
  int32_t element;       /* bytes of the largest element */
  int64_t nrows;         /* product of the outer extents */
  int64_t rows, columns; /* of a tile, at most */
  size_t slot_bytes;
  double cost; /* nanoseconds for one element of the iteration space, estimated */
  lode_scalar scalar[LODE_MAX_VALUES];
  lode_step step[LODE_MAX_VALUES];
} lode_plan;

/* Makes the plan. Outputs are direct where rows are stored one behind the other. */
void lode_plan_make(lode_plan *plan, const lode_program *program, const lode_args *args);

/* The element type by which the loops of an operation are found: see isa.h. */
lode_dtype lode_plan_loop_dtype(const lode_program *program, const lode_value *value);

/* Finds what is made in chains, when all values are classified. (chain.c) */
void lode_chains_find(lode_plan *plan);

/* Elements that an output stores for each row. */
int64_t lode_plan_output_width(const lode_program *program, const lode_args *args, int output);

/* Elements of the iteration space that a tile should have, for its values to stay in L1. */
int64_t lode_plan_elements(const lode_plan *plan);

/* Fixes the largest tile; bytes of workspace that a thread then needs. */
size_t lode_plan_size(lode_plan *plan, int64_t rows, int64_t columns);

/* One thread's state: where the values of the current tile are. */
typedef struct lode_tile_state {
  char *workspace;
  lode_tile kept;                  /* what the periodic values in their slots are of */
  int64_t index[LODE_MAX_DIMS];    /* outer indices of the current tile's first row */
  const char *at[LODE_MAX_VALUES]; /* each value's element (0, 0) */
} lode_tile_state;

void lode_tile_start(lode_tile_state *state, const lode_plan *plan, char *workspace);

/* Evaluates a tile: direct outputs are stored. */
void lode_tile_evaluate(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile);

/* Makes n elements of the value in which a chain ends. (chain.c) */
void lode_chain_run(const lode_tile_state *state, const lode_plan *plan, int v, char *to, int64_t n);

/* After it: an output's value as dense rows. */
const void *lode_tile_output(lode_tile_state *state, const lode_plan *plan, const lode_tile *tile, int output);

/* Stores dense rows of a tile, elements of `size` bytes, through an access over the first ndims outer dims. */
void lode_tile_store(const lode_plan *plan, const lode_access *access, int ndims, const lode_tile *tile,
                     const void *rows, size_t size);

/* Where element (row, column) is, through an access over the first ndims outer dims. */
char *lode_tile_address(const lode_plan *plan, const lode_access *access, int ndims, int64_t row,
                        int64_t column, size_t size);

/* out[r] = the reduction of in[r * width .. + width), in reduce.h's order, for any width. `behind`: as for
 * lode_reduce_rows. (accumulator.c) */
void lode_tile_reduce(const lode_reducer *reducer, size_t size, void *out, const void *in, int64_t rows,
                      int64_t width, int64_t behind);

/* Whether rows of `width` elements, over the first ndims outer dims, lie dense one behind the other. */
bool lode_access_dense(const lode_access *access, const lode_args *args, int ndims, int64_t width);

#endif
