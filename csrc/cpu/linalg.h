/* Products, factorizations and solves on the CPU: core/device.h's members of
 * these names. The work is done by the LAPACK part; products of integers, small
 * ones, and all where the part is absent are done by loops of our own. */
#ifndef LODE_CPU_LINALG_H
#define LODE_CPU_LINALG_H

#include "../core/device.h"

lode_status lode_linalg_product(lode_stream *stream, const lode_product_args *args, lode_error *error);
lode_status lode_linalg_factor(lode_stream *stream, const lode_factor_args *args, lode_error *error);
lode_status lode_linalg_solve(lode_stream *stream, const lode_solve_args *args, lode_error *error);

/* What LAPACK is, if it is loaded already. */
void lode_linalg_describe(lode_properties *out);

/* product.c: c = a * b by plain loops, for one matrix of the batch at a time; in parallel when large. */
lode_status lode_product_loops(const lode_product_args *args, lode_error *error);

/* structure.c: whether a[n, n], dense, is of a kind. */
typedef enum lode_structure {
  LODE_STRUCTURE_UPPER,
  LODE_STRUCTURE_LOWER,
  LODE_STRUCTURE_SYMMETRIC
} lode_structure;
bool lode_structure_is(lode_structure structure, lode_dtype dtype, int64_t n, const void *a);
int32_t lode_structure_zero_diagonal(lode_dtype dtype, int64_t n, const void *a); /* from 1; 0: none */

/* fork.c */
void lode_linalg_fork_prepare(void);
void lode_linalg_fork_release(void); /* parent and child */

#endif
