/* Recipes: device work that is recorded once and replayed with other inputs (lode.graph).
 *
 * While a recipe is recorded, context->recipe, whoever enqueues work notes it as a step (recipe.c): the device
 * call with its arguments, in which each address stands for a buffer. seal.c then drops what is not needed.
 * What depends on no input has been computed and is a constant; everything else is done anew by each replay
 * (replay.c), with no node recorded and nothing planned: addresses are put into the steps' arguments, in place.
 *
 * A replay's results have memory of their own, as those of a compute have. Its temporaries lie in one block,
 * their scratch, where those that do not live at the same time share bytes. */
#ifndef LODE_RECIPE_H
#define LODE_RECIPE_H

#include "fault.h"
#include "linalg.h"
#include "node.h"

typedef struct lode_recipe lode_recipe;

/* ---- making and replaying ---------------------------------------------------------------- */

/* INVALID while another recipe is being recorded. */
lode_status lode_recipe_new(lode_context *context, lode_recipe **out);
/* Adds an input. `stand_in`, a copy of the node's elements, is what is to be used in its place. */
lode_status lode_recipe_add_input(lode_recipe *recipe, lode_node *node, lode_node **stand_in);
/* From here to lode_recipe_end or lode_recipe_discard the context's work is noted. */
void lode_recipe_begin(lode_recipe *recipe);
/* Computes the results and ends the recording. After NOMEM it may be called again. */
lode_status lode_recipe_end(lode_recipe *recipe, lode_node *const *result, int count);
/* Gives a recipe up in constant time, calling no device; lode_context_drain frees it. */
void lode_recipe_discard(lode_recipe *recipe);
void lode_recipe_free(lode_recipe *recipe);

/* Enqueues all steps for recipe->given, which are computed first where they are recorded, and makes
 * recipe->made: new references. Does not wait, but where a compute would. */
lode_status lode_recipe_replay(lode_recipe *recipe);

/* INVALID where the host asks for elements that depend on an input of the recipe being recorded. */
lode_status lode_recipe_may_read(lode_node *node, const char *who);

/* ---- noting, for those that enqueue: after the work has been --------------------------------- */

/* `read`: by access the node, without storage where it is no memory. `reach`: by output the accesses, a bit
 * each, that it depends on. */
lode_status lode_recipe_run(lode_recipe *recipe, const lode_program *program, const lode_args *args,
                            lode_node *const *read, lode_storage *const *made, const uint32_t *reach);
lode_status lode_recipe_product(lode_recipe *recipe, const lode_product_args *args, lode_node *a, lode_node *b,
                                lode_storage *c);
lode_status lode_recipe_factor(lode_recipe *recipe, const lode_factor_args *args, lode_node *a,
                               lode_factor *factor);
lode_status lode_recipe_solve(lode_recipe *recipe, const lode_solve_args *args, lode_node *node,
                              lode_storage *x);

/* ---- inside ------------------------------------------------------------------------------------- */

typedef enum lode_buffer_kind {
  LODE_BUFFER_INPUT,    /* the replay's */
  LODE_BUFFER_CONSTANT, /* made, or found, while recording */
  LODE_BUFFER_RESULT,   /* a storage of its own in each replay */
  LODE_BUFFER_SCRATCH   /* a place in the replay's scratch */
} lode_buffer_kind;

typedef struct lode_buffer {
  uint8_t kind;
  bool varies; /* depends on an input: not a constant */
  bool needed; /* by a step that is kept, or it is a result */
  int number;  /* INPUT: which one */
  size_t bytes;
  size_t place;       /* SCRATCH: bytes from its begin */
  int first, last;    /* steps that use it; last < 0: none */
  lode_storage *held; /* CONSTANT; while recording, whatever does not vary, and the inputs' stand-ins */
  lode_fault *fault;  /* CONSTANT: what reading it may raise */
  int source;         /* CONSTANT with a fault: its source; else -1 */
  /* Of the replay in progress: */
  lode_storage *now; /* INPUT: borrowed of its node; RESULT: counted, NULL between replays */
  char *base;        /* of its first element */
} lode_buffer;

typedef enum lode_step_kind {
  LODE_STEP_RUN,
  LODE_STEP_PRODUCT,
  LODE_STEP_FACTOR, /* writes packed, pivots, info */
  LODE_STEP_SOLVE,  /* reads packed, pivots, info; writes x, over the right-hand sides */
  LODE_NSTEPKINDS
} lode_step_kind;

enum { LODE_STEP_PACKED, LODE_STEP_PIVOTS, LODE_STEP_INFO, LODE_STEP_FACTOR_BUFFERS };

/* Large: apart. */
typedef struct lode_step_run {
  lode_program program;
  lode_args args;
  uint32_t reach[LODE_MAX_OUTPUTS];
} lode_step_run;

typedef struct lode_step {
  uint8_t kind;
  int nreads, nwrites;
  int read[LODE_MAX_ACCESSES]; /* buffers; -1: no memory */
  int write[LODE_MAX_OUTPUTS];
  union {
    lode_step_run *run;
    struct {
      lode_product_args args;
      ptrdiff_t a, b; /* bytes from the buffers' begins */
    } product;
    struct {
      lode_factor_args args;
      ptrdiff_t a;
      lode_factor like; /* what was asked for: without storages and outcome */
      lode_factor *now; /* the replay's: counted */
    } factor;
    struct {
      lode_solve_args args;
      lode_factor *constant;        /* counted; NULL: `made` */
      const struct lode_step *made; /* the step whose factor it is */
      bool raises;
      int source; /* of its fault, if it raises */
      char who[LODE_FAULT_WHO], where[LODE_FAULT_WHERE];
    } solve;
  } as;
} lode_step;

/* A result: a leaf over a buffer. */
typedef struct lode_recipe_result {
  int buffer;
  lode_dtype dtype;
  lode_device *device;
  lode_shape shape;
  int64_t offset; /* elements, as are */
  int64_t stride[LODE_MAX_DIMS];
} lode_recipe_result;

typedef struct lode_recipe_input {
  lode_dtype dtype;
  lode_shape shape;
  int buffer;
  lode_node *now; /* the replay's, contiguous: counted */
} lode_recipe_input;

struct lode_recipe {
  lode_context *context;
  lode_device *device; /* that all inputs are on, and all that depends on them */
  uint32_t serial;     /* in the storages that have a buffer here */
  lode_recipe_input *input;
  int ninputs, input_room;
  lode_buffer *buffer;
  int nbuffers, buffer_room;
  lode_step **step;
  int nsteps, step_room;
  lode_recipe_result *result;
  int nresults;
  size_t scratch;    /* bytes */
  lode_node **given; /* [ninputs], borrowed: set by whoever replays */
  lode_node **made;  /* [nresults], whose references pass to them */

  /* Where faults come from: inputs, by number; then constants that have one; then solves that may raise. By
   * result a set of them, a bit each, `words` words long. */
  int nsources, words;
  uint64_t *sources_of;
  lode_fault **source; /* of the replay in progress; solves': counted; the others': borrowed */

  lode_recipe *next; /* in the context's list of the dead */
};

/* seal.c: what is left to be done by a replay, and where. On failure (NOMEM) it may be called again. */
lode_status lode_recipe_seal(lode_recipe *recipe);
void lode_step_free(lode_step *step); /* recipe.c */

#endif
