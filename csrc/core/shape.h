/* Shapes and strides: dims counted from 0 here, from 1 in what scripts see. */
#ifndef LODE_SHAPE_H
#define LODE_SHAPE_H

#include "status.h"

enum { LODE_MAX_DIMS = 8 };

typedef struct lode_shape {
  int ndim;
  int64_t dim[LODE_MAX_DIMS];
} lode_shape;

/* Checks ndim, signs, and that elements and their bytes (at most 8 each) fit in
 * 63 bits. `who` is the public function named in the message. */
lode_status lode_shape_check(lode_error *error, const char *who, const lode_shape *shape);
int64_t lode_shape_count(const lode_shape *shape); /* elements; 1 for a 0-d shape */
static inline bool lode_shape_equal(const lode_shape *a, const lode_shape *b) {
  bool same = a->ndim == b->ndim;
  for (int d = 0; d < a->ndim && same; d++) same = a->dim[d] == b->dim[d];
  return same;
}
/* NumPy's rule: dims are matched from the last; 1 stretches. */
lode_status lode_shape_broadcast(lode_error *error, const char *who, const lode_shape *a, const lode_shape *b,
                                 lode_shape *out);
/* Row-major strides in elements. */
void lode_shape_strides(const lode_shape *shape, int64_t stride[LODE_MAX_DIMS]);
bool lode_shape_contiguous(const lode_shape *shape, const int64_t stride[LODE_MAX_DIMS]);

/* "[1000,20]" into `text`, for messages. Returns text.text. */
const char *lode_shape_print(const lode_shape *shape, lode_text *text);

#endif
