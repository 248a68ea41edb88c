/* One pass that is planned: what it stores, and its iteration space (space.c). */
#ifndef LODE_JOB_H
#define LODE_JOB_H

#include "plan.h"

/* What becomes of a dim of the iteration space; the order in which the space has them. */
typedef enum lode_dim_group { LODE_DIM_KEPT, LODE_DIM_REDUCED, LODE_DIM_KEPT_INNER } lode_dim_group;

/* What is stored. */
typedef struct lode_plan_output {
  lode_node *node;   /* that becomes a leaf over the storage; NULL: none does */
  lode_node *source; /* whose elements are emitted; they may then be reduced */
  uint8_t reduction; /* then: a lode_reduction */
  lode_storage *storage;
  lode_map map;                  /* source's dims over the space */
  bool whole;                    /* by rows: all of the row; or one element */
  int64_t stride[LODE_MAX_DIMS]; /* by dim of the space; 0 where reduced */
  lode_fault **fault;            /* what the accesses depend on is added here */
} lode_plan_output;

/* What is to be run. */
typedef struct lode_plan_job {
  lode_plan_output output[LODE_MAX_OUTPUTS]; /* of one shape, or all over `space` */
  int noutputs;
  const lode_row_space *space; /* NULL: the space is the sources' shape */
  lode_reduce_form form;
  unsigned mask;                       /* reduced dims of the sources */
  lode_dim_group group[LODE_MAX_DIMS]; /* by dim of the space */
  int boxes;                           /* run so far */
} lode_plan_job;

/* Lays out the planner's space, and how the outputs follow it. */
void lode_space_lay_out(lode_planner *planner, lode_plan_job *job);
/* The planner's args for the box [lo, hi), from what emission has left in access_stride. */
void lode_space_fill_args(lode_planner *planner, const lode_plan_job *job);
/* After emission by rows: goes on as if not by rows, where nothing needs them. */
void lode_space_drop_rows(lode_planner *planner);

#endif
