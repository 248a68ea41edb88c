/* Recording affine views: index, permute, expand, squeeze, flip, broadcast.
 *
 * A view of a leaf is a leaf over the same storage; a view of a recorded node is
 * a VIEW node, which the planner folds into index arithmetic. Reshape, which is
 * not affine in each dim, is in reshape.c. */
#include <inttypes.h>
#include <string.h>

#include "fault.h"
#include "node.h"

lode_status lode_dim_resolve(lode_error *error, const char *who, int64_t dim, int ndim, int *out) {
  int64_t from_zero = dim > 0 ? dim - 1 : dim + ndim;
  if (dim == 0 || from_zero < 0 || from_zero >= ndim)
    return lode_fail(error, LODE_INVALID, "%s: dim %" PRId64 " of a tensor with %d dim%s%s", who, dim, ndim,
                     ndim == 1 ? "" : "s", dim == 0 ? " (dims are counted from 1)" : "");
  *out = (int)from_zero;
  return LODE_OK;
}

/* ---- any affine view ---------------------------------------------------------- */

/* Where the elements of `input`, a leaf, that the view names lie: becomes the layout of `node`. */
static void lay_out(lode_node *node, const lode_node *input, const lode_view *view) {
  memset(node->stride, 0, (size_t)node->shape.ndim * sizeof node->stride[0]);
  node->offset = input->offset;
  for (int d = 0; d < input->shape.ndim; d++) {
    node->offset += view->start[d] * input->stride[d];
    if (view->src[d] >= 0) node->stride[view->src[d]] = view->step[d] * input->stride[d];
  }
}

/* Makes `node`, a view of `input`, a leaf over its storage. */
static void settle_on(lode_node *node, lode_node *input) {
  lode_view view = node->as.view;
  lode_node_ref(input); /* settling lets go of it */
  lode_fault *fault = lode_fault_ref(input->fault);
  lode_node_settle(node, lode_storage_ref(input->storage));
  lode_fault_unref(node->fault); /* of an attempt that failed */
  node->fault = fault;
  lay_out(node, input, &view);
  lode_node_unref(input);
}

/* A view of a leaf is a leaf. */
static lode_status view_of_leaf(lode_node *input, const lode_shape *shape, const lode_view *view,
                                lode_node **out) {
  lode_node *node =
      lode_node_new(input->context, LODE_NODE_LEAF, (lode_dtype)input->dtype, input->device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->weight = 0;
  node->storage = lode_storage_ref(input->storage);
  node->fault = lode_fault_ref(input->fault);
  lay_out(node, input, view);
  *out = node;
  return LODE_OK;
}

lode_view lode_view_compose(const lode_view *outer, const lode_view *inner, int ndim) {
  lode_view result;
  for (int d = 0; d < ndim; d++) {
    int via = inner->src[d];
    bool fixed = via < 0 || outer->src[via] < 0;
    result.start[d] = inner->start[d] + (via < 0 ? 0 : inner->step[d] * outer->start[via]);
    result.src[d] = (int8_t)(fixed ? -1 : outer->src[via]);
    result.step[d] = fixed ? 0 : inner->step[d] * outer->step[via];
  }
  return result;
}

bool lode_view_same(const lode_view *a, const lode_view *b, int ndim) {
  for (int d = 0; d < ndim; d++)
    if (a->src[d] != b->src[d] || a->start[d] != b->start[d] || (a->src[d] >= 0 && a->step[d] != b->step[d]))
      return false;
  return true;
}

lode_node *lode_node_base(lode_node *node) {
  while (node->storage == NULL && node->kind == LODE_NODE_VIEW) node = node->input[0];
  return node;
}

bool lode_view_settle(lode_node *node) {
  lode_node *input = node->input[0];
  if (input->storage == NULL && (input->kind != LODE_NODE_VIEW || !lode_view_settle(input))) return false;
  settle_on(node, input);
  return true;
}

lode_status lode_record_view(lode_node *input, const lode_shape *shape, const lode_view *view,
                             lode_node **out) {
  lode_context *context = input->context;
  if (input->storage != NULL) return view_of_leaf(input, shape, view, out);
  if (input->kind == LODE_NODE_FILL)
    return lode_record_fill(context, "view", input->device, shape, (lode_dtype)input->dtype, input->as.value,
                            out);
  lode_node *node = lode_node_new(context, LODE_NODE_VIEW, (lode_dtype)input->dtype, input->device, shape);
  if (node == NULL) return LODE_NOMEM;
  node->as.view = *view;
  if (input->kind == LODE_NODE_VIEW) { /* a view of a view is one of its base */
    node->as.view = lode_view_compose(view, &input->as.view, input->input[0]->shape.ndim);
    input = input->input[0];
  }
  LODE_TRY(lode_node_inputs(node, &input, 1));
  if (input->storage == NULL) return lode_node_recorded(node, out);
  lode_view_settle(node);
  *out = node;
  return LODE_OK;
}

/* The view that changes nothing, to start from. */
void lode_view_identity(const lode_node *input, lode_view *view) {
  for (int d = 0; d < input->shape.ndim; d++) {
    view->start[d] = 0;
    view->step[d] = 1;
    view->src[d] = (int8_t)d;
  }
}

void lode_view_fix(lode_view *view, int d, int64_t start) {
  view->src[d] = -1;
  view->start[d] = start;
  view->step[d] = 0;
}

/* ---- index ---------------------------------------------------------------------- */

static int64_t from_end(int64_t index, int64_t extent) { return index < 0 ? index + extent + 1 : index; }

static lode_status select_one(lode_node *input, int d, int64_t index, lode_view *view) {
  int64_t n = input->shape.dim[d], i = from_end(index, n);
  if (i < 1 || i > n)
    return lode_fail(&input->context->error, LODE_INVALID, "index: %" PRId64 " in dim %d, which has %" PRId64,
                     index, d + 1, n);
  lode_view_fix(view, d, i - 1);
  return LODE_OK;
}

static lode_status select_range(lode_node *input, int d, const lode_index *index, int to, lode_view *view,
                                lode_shape *shape) {
  lode_error *error = &input->context->error;
  int64_t n = input->shape.dim[d], step = index->step;
  int64_t first = from_end(index->first, n), last = from_end(index->last, n);
  if (step == 0) return lode_fail(error, LODE_INVALID, "index: a range in dim %d has step 0", d + 1);
  if (index->first == 0 && n > 0)
    return lode_fail(error, LODE_INVALID, "index: a range in dim %d starts at 0; indices start at 1", d + 1);
  /* {-1, 0}-like ends are the empty range only where they stand just beside the start. */
  if (index->last == 0) last = 0;
  if (first < 0 || first > n + 1 || last < 0 || last > n + 1)
    first = last = -1; /* outside; nothing overflows */
  bool empty = first >= 0 && (step > 0 ? last == first - 1 : last == first + 1);
  bool inside =
      first >= 1 && first <= n && last >= 1 && last <= n && (step > 0 ? last >= first : last <= first);
  bool beside = empty && first >= (step > 0 ? 1 : 0) && first <= (step > 0 ? n + 1 : n);
  if (!inside && !beside)
    return lode_fail(error, LODE_INVALID,
                     "index: range {%" PRId64 ", %" PRId64 ", %" PRId64 "} in dim %d, which has %" PRId64,
                     index->first, index->last, step, d + 1, n);
  view->src[d] = (int8_t)to;
  view->start[d] = empty ? 0 : first - 1;
  view->step[d] = step;
  /* step may be as large as int64: the count is found without forming last - first + step */
  shape->dim[to] =
      empty ? 0 : (step > 0 ? (last - first) / step : (first - last) / -(step + (step == INT64_MIN))) + 1;
  if (shape->dim[to] <= 1) view->step[d] = 1;
  return LODE_OK;
}

lode_status lode_record_index(lode_node *input, const lode_index *index, int count, lode_node **out) {
  lode_error *error = &input->context->error;
  lode_text text;
  if (count > input->shape.ndim)
    return lode_fail(error, LODE_INVALID, "index: %d %s for shape %s", count, count == 1 ? "index" : "indices",
                     lode_shape_print(&input->shape, &text));
  lode_view view;
  lode_view_identity(input, &view);
  lode_shape shape = {.ndim = 0};
  for (int d = 0; d < input->shape.ndim; d++) {
    lode_index_kind kind = d < count ? index[d].kind : LODE_INDEX_ALL;
    if (kind == LODE_INDEX_SELECT) {
      LODE_TRY(select_one(input, d, index[d].first, &view));
      continue;
    }
    int to = shape.ndim++;
    view.src[d] = (int8_t)to;
    shape.dim[to] = input->shape.dim[d];
    if (kind == LODE_INDEX_RANGE) LODE_TRY(select_range(input, d, &index[d], to, &view, &shape));
  }
  return lode_record_view(input, &shape, &view, out);
}

/* ---- order and number of dims ------------------------------------------------------ */

lode_status lode_record_permute(lode_node *input, const int64_t *dims, int count, lode_node **out) {
  lode_error *error = &input->context->error;
  int ndim = input->shape.ndim;
  if (count != ndim)
    return lode_fail(error, LODE_INVALID, "permute_dims: %d dim%s given for a tensor with %d", count,
                     count == 1 ? "" : "s", ndim);
  lode_view view;
  lode_view_identity(input, &view);
  lode_shape shape = {.ndim = ndim};
  unsigned seen = 0;
  for (int to = 0; to < ndim; to++) {
    int d;
    LODE_TRY(lode_dim_resolve(error, "permute_dims", dims[to], ndim, &d));
    if (seen & 1u << d) return lode_fail(error, LODE_INVALID, "permute_dims: dim %d is given twice", d + 1);
    seen |= 1u << d;
    view.src[d] = (int8_t)to;
    shape.dim[to] = input->shape.dim[d];
  }
  return lode_record_view(input, &shape, &view, out);
}

lode_status lode_record_transpose(lode_node *input, lode_node **out) {
  if (input->shape.ndim != 2) {
    lode_text text;
    return lode_fail(&input->context->error, LODE_INVALID,
                     "T: shape %s has %d dim%s, 2 are needed; permute_dims takes any number",
                     lode_shape_print(&input->shape, &text), input->shape.ndim,
                     input->shape.ndim == 1 ? "" : "s");
  }
  return lode_record_permute(input, (const int64_t[]){2, 1}, 2, out);
}

lode_status lode_record_expand_dims(lode_node *input, int64_t dim, lode_node **out) {
  lode_error *error = &input->context->error;
  lode_shape shape = {.ndim = input->shape.ndim + 1};
  int at;
  if (shape.ndim > LODE_MAX_DIMS)
    return lode_fail(error, LODE_INVALID, "expand_dims: %d dims, at most %d are possible", shape.ndim,
                     LODE_MAX_DIMS);
  LODE_TRY(lode_dim_resolve(error, "expand_dims", dim, shape.ndim, &at));
  lode_view view;
  lode_view_identity(input, &view);
  for (int to = 0, d = 0; to < shape.ndim; to++) {
    shape.dim[to] = to == at ? 1 : input->shape.dim[d];
    if (to != at) view.src[d++] = (int8_t)to;
  }
  return lode_record_view(input, &shape, &view, out);
}

lode_status lode_dims_resolve(lode_node *input, const char *who, const int64_t *dims, int count, unsigned all,
                              unsigned *mask) {
  *mask = count == 0 ? all : 0;
  for (int i = 0; i < count; i++) {
    int d;
    LODE_TRY(lode_dim_resolve(&input->context->error, who, dims[i], input->shape.ndim, &d));
    if (*mask & 1u << d)
      return lode_fail(&input->context->error, LODE_INVALID, "%s: dim %d is given twice", who, d + 1);
    *mask |= 1u << d;
  }
  return LODE_OK;
}

lode_status lode_record_squeeze(lode_node *input, const int64_t *dims, int count, lode_node **out) {
  unsigned ones = 0, mask;
  for (int d = 0; d < input->shape.ndim; d++)
    if (input->shape.dim[d] == 1) ones |= 1u << d;
  LODE_TRY(lode_dims_resolve(input, "squeeze", dims, count, ones, &mask));
  lode_view view;
  lode_view_identity(input, &view);
  lode_shape shape = {.ndim = 0};
  for (int d = 0; d < input->shape.ndim; d++) {
    if (!(mask & 1u << d)) {
      view.src[d] = (int8_t)shape.ndim;
      shape.dim[shape.ndim++] = input->shape.dim[d];
      continue;
    }
    if (input->shape.dim[d] != 1)
      return lode_fail(&input->context->error, LODE_INVALID, "squeeze: dim %d has %" PRId64 ", not 1", d + 1,
                       input->shape.dim[d]);
    lode_view_fix(&view, d, 0);
  }
  return lode_record_view(input, &shape, &view, out);
}

lode_status lode_record_flip(lode_node *input, const int64_t *dims, int count, lode_node **out) {
  unsigned mask;
  LODE_TRY(lode_dims_resolve(input, "flip", dims, count, lode_dims_all(input), &mask));
  lode_view view;
  lode_view_identity(input, &view);
  for (int d = 0; d < input->shape.ndim; d++) {
    if (!(mask & 1u << d) || input->shape.dim[d] == 0) continue;
    view.start[d] = input->shape.dim[d] - 1;
    view.step[d] = -1;
  }
  return lode_record_view(input, &input->shape, &view, out);
}

lode_status lode_record_broadcast(lode_node *input, const char *who, const lode_shape *shape, lode_node **out) {
  if (lode_shape_equal(&input->shape, shape)) {
    *out = lode_node_ref(input);
    return LODE_OK;
  }
  lode_error *error = &input->context->error;
  lode_shape both;
  lode_text from, to;
  LODE_TRY(lode_shape_check(error, who, shape));
  LODE_TRY(lode_shape_broadcast(error, who, &input->shape, shape, &both));
  if (!lode_shape_equal(&both, shape))
    return lode_fail(error, LODE_INVALID, "%s: shape %s cannot become %s", who,
                     lode_shape_print(&input->shape, &from), lode_shape_print(shape, &to));
  lode_view view;
  lode_view_identity(input, &view);
  int shift = shape->ndim - input->shape.ndim;
  for (int d = 0; d < input->shape.ndim; d++) {
    view.src[d] = (int8_t)(d + shift);
    if (input->shape.dim[d] != shape->dim[d + shift]) lode_view_fix(&view, d, 0);
  }
  return lode_record_view(input, shape, &view, out);
}
