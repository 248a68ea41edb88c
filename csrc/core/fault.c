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

void lode_fault_unref(lode_fault *fault) {
  if (fault == NULL || --fault->refs > 0) return;
  for (int i = 0; i < fault->count; i++) lode_fault_unref(fault->member[i]);
  lode_factor_unref(fault->factor);
  free(fault);
}

/* ---- what is known ------------------------------------------------------- */

static int64_t outcome_of(const lode_fault *fault) { return atomic_load(&fault->factor->outcome->fault); }

static bool is_known(const lode_fault *fault) {
  lode_storage *info = fault->factor->info;
  return info != NULL && lode_storage_ready(info);
}

/* One fault is a set of itself. */
static int count_of(const lode_fault *fault) {
  return fault == NULL ? 0 : fault->factor != NULL ? 1 : fault->count;
}

static lode_fault *member_of(lode_fault *fault, int i) {
  return fault->factor != NULL ? fault : fault->member[i];
}

/* The first that is known to have failed. Borrowed. */
static lode_fault *first_failure(lode_fault *fault) {
  for (int i = 0; i < count_of(fault); i++) {
    lode_fault *member = member_of(fault, i);
    if (is_known(member) && outcome_of(member) != 0) return member;
  }
  return NULL;
}

/* ---- merging ---------------------------------------------------------------- */

/* Adds to `set` (borrowed references) those of `fault` that are not known to have come out well. */
static int add_unknown(lode_fault *fault, lode_fault **set, int count) {
  for (int i = 0; i < count_of(fault); i++) {
    lode_fault *member = member_of(fault, i);
    bool there = is_known(member) && outcome_of(member) == 0;
    for (int k = 0; k < count && !there; k++) there = set[k] == member;
    if (!there) set[count++] = member;
  }
  return count;
}

static lode_fault *set_of(lode_fault **member, int count) {
  if (count <= 1) return count == 0 ? NULL : lode_fault_ref(member[0]);
  lode_fault *set = calloc(1, sizeof *set + (size_t)count * sizeof set->member[0]);
  if (set == NULL) return NULL;
  set->refs = 1;
  set->count = count;
  for (int i = 0; i < count; i++) set->member[i] = lode_fault_ref(member[i]);
  return set;
}

lode_status lode_fault_merge(lode_fault **fault, lode_fault *more, lode_error *error) {
  if (more == NULL || more == *fault) return LODE_OK;
  lode_fault *failed = first_failure(*fault), *result; /* one failure is enough to raise: the first */
  if (failed == NULL) failed = first_failure(more);
  if (failed != NULL) {
    result = lode_fault_ref(failed);
  } else {
    lode_fault **member = malloc((size_t)(count_of(*fault) + count_of(more)) * sizeof *member);
    if (member == NULL) return lode_fail(error, LODE_NOMEM, "lode: no host memory to note a failure");
    int count = add_unknown(more, member, add_unknown(*fault, member, 0));
    result = set_of(member, count);
    free(member);
    if (result == NULL && count > 0)
      return lode_fail(error, LODE_NOMEM, "lode: no host memory to note a failure");
  }
  lode_fault_unref(*fault);
  *fault = result;
  return LODE_OK;
}

lode_status lode_fault_check(lode_fault *fault, lode_error *error) {
  fault = first_failure(fault);
  if (fault == NULL) return LODE_OK;
  int64_t packed = outcome_of(fault);
  int method = atomic_load(&fault->factor->outcome->method);
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
