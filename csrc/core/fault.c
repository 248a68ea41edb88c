/* See fault.h. */
#include "fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lode_fault *lode_fault_new(lode_factor *factor, const char *who, const char *where) {
  lode_fault *fault = calloc(1, sizeof *fault);
  if (fault == NULL) return NULL;
  fault->refs = 1;
  fault->factor = lode_factor_ref(factor);
  snprintf(fault->who, sizeof fault->who, "%s", who);
  snprintf(fault->where, sizeof fault->where, "%s", where == NULL ? "" : where);
  return fault;
}

lode_fault *lode_fault_ref(lode_fault *fault) {
  if (fault != NULL) fault->refs++;
  return fault;
}

/* Trees are no deeper than work is pending (lode_fault_merge), so recursion is bounded. */
void lode_fault_unref(lode_fault *fault) {
  if (fault == NULL || --fault->refs > 0) return;
  lode_fault_unref(fault->left);
  lode_fault_unref(fault->right);
  lode_factor_unref(fault->factor);
  free(fault);
}

static int64_t outcome_of(lode_fault *fault) { return atomic_load(&fault->factor->outcome.fault); }

/* Steals a reference and gives one back, without the parts that came out well. */
static lode_fault *prune(lode_fault *fault) {
  if (fault == NULL) return NULL;
  if (fault->factor != NULL) {
    lode_storage *info = fault->factor->info;
    bool well = info != NULL && lode_storage_ready(info) && outcome_of(fault) == 0;
    if (!well) return fault;
    lode_fault_unref(fault);
    return NULL;
  }
  fault->left = prune(fault->left);
  fault->right = prune(fault->right);
  if (fault->left != NULL && fault->right != NULL) return fault;
  lode_fault *rest = lode_fault_ref(fault->left != NULL ? fault->left : fault->right);
  lode_fault_unref(fault);
  return rest;
}

/* The first leaf that is known to have failed. */
static lode_fault *first_failure(lode_fault *fault) {
  if (fault == NULL) return NULL;
  if (fault->factor == NULL) {
    lode_fault *left = first_failure(fault->left);
    return left != NULL ? left : first_failure(fault->right);
  }
  lode_storage *info = fault->factor->info;
  return info != NULL && lode_storage_ready(info) && outcome_of(fault) != 0 ? fault : NULL;
}

lode_status lode_fault_merge(lode_fault **fault, lode_fault *more, lode_error *error) {
  if (more == NULL || more == *fault) return LODE_OK;
  lode_fault *left = prune(*fault), *right = prune(lode_fault_ref(more));
  *fault = left;
  if (left == NULL) {
    *fault = right;
    return LODE_OK;
  }
  if (right == NULL || left == right || first_failure(left) != NULL) {
    lode_fault_unref(right); /* one failure is enough to raise: the first */
    return LODE_OK;
  }
  lode_fault *both = calloc(1, sizeof *both);
  if (both == NULL) {
    lode_fault_unref(right);
    return lode_fail(error, LODE_NOMEM, "lode: no host memory to note a failure");
  }
  both->refs = 1;
  both->left = left;
  both->right = right;
  *fault = both;
  return LODE_OK;
}

lode_status lode_fault_check(lode_fault *fault, lode_error *error) {
  fault = first_failure(fault);
  if (fault == NULL) return LODE_OK;
  int64_t packed = outcome_of(fault);
  int method = atomic_load(&fault->factor->outcome.method);
  int32_t info = (int32_t)(packed & INT32_MAX);
  int64_t batch = packed >> 32;
  char which[48] = "", where[160] = "";
  if (fault->factor->batch_shape.ndim > 0) snprintf(which, sizeof which, " %" PRId64, batch + 1);
  if (fault->where[0] != '\0') snprintf(where, sizeof where, " (recorded at %s)", fault->where);
  if (method == LODE_METHOD_SPD)
    return lode_fail(error, LODE_NUMERIC, "%s: matrix%s is not positive definite (leading minor of order %d)%s",
                     fault->who, which, info, where);
  return lode_fail(error, LODE_NUMERIC, "%s: matrix%s is singular: pivot %d of %" PRId64 " is exactly zero%s",
                   fault->who, which, info, fault->factor->n, where);
}
