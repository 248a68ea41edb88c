/* See shape.h. */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>

lode_status lode_shape_check(lode_error *error, const char *who, const lode_shape *shape) {
  lode_text text;
  if (shape->ndim > LODE_MAX_DIMS)
    return lode_fail(error, LODE_INVALID, "%s: %d dims, at most %d are possible", who, shape->ndim,
                     LODE_MAX_DIMS);
  /* Empty dims are left out, so that [2^40, 0, 2^40] is refused too: views of it would overflow. */
  int64_t bytes = 8;
  for (int d = 0; d < shape->ndim; d++) {
    int64_t n = shape->dim[d];
    if (n < 0) return lode_fail(error, LODE_INVALID, "%s: dim %d of a shape is %" PRId64, who, d + 1, n);
    if (n > 0 && __builtin_mul_overflow(bytes, n, &bytes))
      return lode_fail(error, LODE_INVALID, "%s: shape %s has more bytes than 64 bits can count", who,
                       lode_shape_print(shape, &text));
  }
  return LODE_OK;
}

int64_t lode_shape_count(const lode_shape *shape) {
  int64_t count = 1;
  for (int d = 0; d < shape->ndim; d++) count *= shape->dim[d];
  return count;
}

/* Extent of `shape` at dim d of a shape with ndim dims, matched from the last. */
static int64_t aligned_extent(const lode_shape *shape, int ndim, int d) {
  int own = d - (ndim - shape->ndim);
  return own < 0 ? 1 : shape->dim[own];
}

lode_status lode_shape_broadcast(lode_error *error, const char *who, const lode_shape *a, const lode_shape *b,
                                 lode_shape *out) {
  int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  out->ndim = ndim;
  for (int d = 0; d < ndim; d++) {
    int64_t m = aligned_extent(a, ndim, d), n = aligned_extent(b, ndim, d);
    if (m != n && m != 1 && n != 1) {
      lode_text left, right;
      return lode_fail(error, LODE_INVALID,
                       "%s: shapes %s and %s do not broadcast (dim %d: %" PRId64 " and %" PRId64 ")", who,
                       lode_shape_print(a, &left), lode_shape_print(b, &right), d + 1, m, n);
    }
    out->dim[d] = m == 1 ? n : m;
  }
  return lode_shape_check(error, who, out);
}

void lode_shape_strides(const lode_shape *shape, int64_t stride[LODE_MAX_DIMS]) {
  int64_t step = 1;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    stride[d] = step;
    step *= shape->dim[d] > 0 ? shape->dim[d] : 1;
  }
}

bool lode_shape_contiguous(const lode_shape *shape, const int64_t stride[LODE_MAX_DIMS]) {
  int64_t step = 1;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    if (shape->dim[d] == 0) return true;
    if (shape->dim[d] != 1 && stride[d] != step) return false;
    step *= shape->dim[d];
  }
  return true;
}

const char *lode_shape_print(const lode_shape *shape, lode_text *text) {
  size_t at = 0, size = sizeof text->text;
  at += (size_t)snprintf(text->text, size, "[");
  for (int d = 0; d < shape->ndim && d < LODE_MAX_DIMS; d++)
    at += (size_t)snprintf(text->text + at, size - at, d == 0 ? "%" PRId64 : ",%" PRId64, shape->dim[d]);
  snprintf(text->text + at, size - at, "]");
  return text->text;
}
