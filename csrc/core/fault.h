/* Faults: numerical failures that are not known yet, and who asked for them.
 *
 * A factorization notes its failure in an outcome (device.h) when the work is
 * done. Nodes that depend on it carry a fault: one, or a set of those that are
 * still unknown. Faults known to be none are dropped when sets are merged, so a
 * set is no larger than work is pending; the first that failed is what a sync
 * raises. */
#ifndef LODE_FAULT_H
#define LODE_FAULT_H

#include "linalg.h"

enum { LODE_FAULT_WHO = 16, LODE_FAULT_WHERE = 128 };

struct lode_fault {
  int refs;
  lode_factor *factor;          /* NULL in a set */
  char who[LODE_FAULT_WHO];     /* "solve" */
  char where[LODE_FAULT_WHERE]; /* the script's line that recorded it; may be empty */
  int count;                    /* of a set: in the order in which they were met, each once */
  lode_fault *member[];
};

lode_fault *lode_fault_new(lode_factor *factor, const char *who, const char *where);
lode_fault *lode_fault_ref(lode_fault *fault); /* NULL gives NULL */
void lode_fault_unref(lode_fault *fault);
/* Adds `more` (borrowed) to *fault, dropping what is known to be none. */
lode_status lode_fault_merge(lode_fault **fault, lode_fault *more, lode_error *error);
/* After the work is done: NUMERIC with the message of the first failure, or OK. */
lode_status lode_fault_check(lode_fault *fault, lode_error *error);

#endif
