/* Running programs on the CPU: passes over an iteration space in tiles (tile.h),
 * whose results are stored or reduced, in parallel when there is enough work. */
#ifndef LODE_CPU_EVALUATOR_H
#define LODE_CPU_EVALUATOR_H

#include "../core/program.h"

/* Runs the program now. NOMEM when there is no memory for workspace; otherwise it cannot fail. */
lode_status lode_evaluate(const lode_program *program, const lode_args *args, lode_error *error);

/* Memory that is needed for one call, kept for the next. NULL when there is none. */
void *lode_scratch_take(size_t bytes);
void lode_scratch_give(void *scratch, size_t bytes);

/* fork.c */
void lode_evaluator_fork_prepare(void);
void lode_evaluator_fork_release(void); /* parent and child */

#endif
