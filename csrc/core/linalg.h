/* Factors: what factorizations leave behind, shared by the nodes that use it. */
#ifndef LODE_LINALG_H
#define LODE_LINALG_H

#include "node.h"

struct lode_factor {
  int refs; /* of the context's thread */
  lode_context *context;
  lode_device *device;
  lode_dtype dtype;
  lode_method method; /* as asked for */
  int64_t batch, n;
  lode_shape batch_shape;
  lode_storage *packed, *pivots, *info; /* NULL until computed */
  lode_outcome *outcome;                /* NULL until computed */
  lode_factor *next;                    /* in the context's list of zombies */
};

lode_factor *lode_factor_ref(lode_factor *factor);
void lode_factor_unref(lode_factor *factor); /* NULL is allowed */
/* A new one for the same method, sizes and device: its outcome is there, its info is `info`. */
lode_status lode_factor_again(const lode_factor *like, lode_storage *info, lode_factor **out);
/* Frees those zombies whose work is done; with `all`, waits for them. */
void lode_factor_sweep(lode_context *context, bool all);

/* Used by compute.c: run a node of that kind whose inputs are leaves. */
lode_status lode_compute_matmul(lode_node *node);
lode_status lode_compute_factor(lode_node *node);
lode_status lode_compute_solve(lode_node *node);
lode_status lode_compute_info(lode_node *node);

#endif
