/* One pass of a program over its iteration space: what the three forms of
 * evaluator.c and reduction.c share. */
#ifndef LODE_CPU_PASS_H
#define LODE_CPU_PASS_H

#include "tile.h"

typedef struct lode_pass lode_pass;

/* One thread's part of a pass. */
typedef struct lode_pass_worker {
  bool started;
  lode_tile_state state;
} lode_pass_worker;

struct lode_pass {
  lode_plan plan;
  int threads;            /* that the pass is worth */
  size_t plan_bytes;      /* of a worker's workspace, for the plan; what the form wants is behind */
  size_t workspace_bytes; /* of a worker's workspace, all of it */
  char *memory;           /* [threads]: worker, workspace */
  int64_t per_task;       /* units in a task */
  int64_t units;
  void (*unit)(lode_pass *pass, lode_tile_state *state, char *workspace, int64_t first, int64_t count);
  const void *form; /* the form's own description */
};

/* How many threads the pass is worth, from the plan's estimate. */
void lode_pass_weigh(lode_pass *pass);

/* Runs pass->unit over all units. `bytes` of workspace for the form are added for each thread. */
lode_status lode_pass_run(lode_pass *pass, size_t bytes, lode_error *error);

/* The forms of reduction (reduction.c): run a pass whose plan is made. */
lode_status lode_reduce_inner(lode_pass *pass, lode_error *error);
lode_status lode_reduce_outer(lode_pass *pass, lode_error *error);

#endif
