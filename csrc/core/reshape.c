/* Reshape: the same elements, row by row, under other dims.
 *
 * Where only dims of 1 come or go it is an affine view. Where the layout of a
 * leaf allows it, it is a leaf with other strides. Otherwise it is a RESHAPE
 * node, a cut: its input gets memory first, in row-major order. */
#include <inttypes.h>
#include <string.h>

#include "fault.h"
#include "node.h"
#include "plan.h"

/* Fills in the -1 and checks the count. */
static lode_status reshape_target(lode_node *input, const int64_t *dims, int count, lode_shape *shape) {
  lode_error *error = &input->context->error;
  lode_text from, to;
  if (count > LODE_MAX_DIMS)
    return lode_fail(error, LODE_INVALID, "reshape: %d dims, at most %d are possible", count, LODE_MAX_DIMS);
  int64_t size = lode_shape_count(&input->shape), known = 1;
  int open = -1;
  shape->ndim = count;
  for (int d = 0; d < count; d++) {
    shape->dim[d] = dims[d];
    if (dims[d] == -1) {
      if (open >= 0)
        return lode_fail(error, LODE_INVALID, "reshape: dims %d and %d are both -1", open + 1, d + 1);
      open = d;
      shape->dim[d] = 1;
    }
  }
  LODE_TRY(lode_shape_check(error, "reshape", shape));
  known = lode_shape_count(shape);
  if (open >= 0 && known > 0) shape->dim[open] = size / known;
  if (lode_shape_count(shape) != size || (open >= 0 && known == 0)) {
    if (open >= 0) shape->dim[open] = -1; /* as the script wrote it */
    return lode_fail(error, LODE_INVALID, "reshape: shape %s with %" PRId64 " element%s cannot become %s",
                     lode_shape_print(&input->shape, &from), size, size == 1 ? "" : "s",
                     lode_shape_print(shape, &to));
  }
  return LODE_OK;
}

/* Strides of `shape` over a leaf's elements in row-major order, if there are any. Groups of dims that
 * hold equally many elements on both sides must be uniform on the leaf's side. */
static bool reshape_strides(const lode_node *input, const lode_shape *shape, int64_t *stride) {
  int d = input->shape.ndim - 1, to = shape->ndim - 1;
  for (int i = 0; i < shape->ndim; i++) stride[i] = 0;
  if (lode_shape_count(shape) == 0) return true;
  while (to >= 0) {
    while (d >= 0 && input->shape.dim[d] == 1) d--;
    if (d < 0) return true; /* what is left are dims of 1 */
    int64_t have = input->shape.dim[d], want = 1, base = input->stride[d], step = base;
    while (to >= 0 && (want < have || shape->dim[to] == 1)) {
      if (have % (want * shape->dim[to]) != 0) { /* the group has to grow: the next dim of the leaf joins it */
        int below = d - 1;
        while (below >= 0 && input->shape.dim[below] == 1) below--;
        if (below < 0 || input->stride[below] != base * have) return false;
        have *= input->shape.dim[below];
        d = below;
        continue;
      }
      stride[to] = step;
      step *= shape->dim[to];
      want *= shape->dim[to];
      to--;
    }
    if (want != have) return false;
    d--;
  }
  return true;
}

/* Dims of 1 come and go without moving an element: an affine view also of what is not computed yet. */
static bool reshape_as_view(const lode_node *input, const lode_shape *shape, lode_view *view) {
  lode_view_identity(input, view);
  int to = 0;
  for (int d = 0; d < input->shape.ndim; d++) {
    if (input->shape.dim[d] == 1) {
      lode_view_fix(view, d, 0);
      continue;
    }
    while (to < shape->ndim && shape->dim[to] == 1) to++;
    if (to == shape->ndim || shape->dim[to] != input->shape.dim[d]) return false;
    view->src[d] = (int8_t)to++;
  }
  while (to < shape->ndim && shape->dim[to] == 1) to++;
  return to == shape->ndim;
}

/* A leaf over the input's storage, if the strides allow it; false: they do not. */
static bool alias_layout(const lode_node *input, const lode_shape *shape, int64_t *stride) {
  return input->storage != NULL && reshape_strides(input, shape, stride);
}

static void become_alias(lode_node *node, lode_node *input, const int64_t *stride) {
  lode_fault *fault = lode_fault_ref(input->fault);
  int64_t offset = input->offset;
  lode_node_settle(node, lode_storage_ref(input->storage));
  lode_fault_unref(node->fault); /* of an attempt that failed */
  node->fault = fault;
  node->offset = offset;
  memcpy(node->stride, stride, sizeof node->stride);
}

lode_status lode_record_reshape(lode_node *input, const int64_t *dims, int count, lode_node **out) {
  lode_shape shape;
  lode_view view;
  int64_t stride[LODE_MAX_DIMS];
  LODE_TRY(reshape_target(input, dims, count, &shape));
  if (input->kind == LODE_NODE_FILL || reshape_as_view(input, &shape, &view))
    return lode_record_view(input, &shape, &view, out);
  if (input->kind == LODE_NODE_IOTA)
    return lode_record_iota(input->context, "reshape", input->device, &shape, input->as.value.i64, out);
  lode_node *node =
      lode_node_new(input->context, LODE_NODE_RESHAPE, (lode_dtype)input->dtype, input->device, &shape);
  if (node == NULL) return LODE_NOMEM;
  LODE_TRY(lode_node_inputs(node, &input, 1));
  if (alias_layout(input, &shape, stride)) {
    become_alias(node, input, stride);
    *out = node;
    return LODE_OK;
  }
  return lode_node_recorded(node, out);
}

lode_status lode_compute_reshape(lode_node *node) {
  lode_node *input = node->input[0];
  int64_t stride[LODE_MAX_DIMS];
  if (alias_layout(input, &node->shape, stride)) {
    become_alias(node, input, stride);
    return LODE_OK;
  }
  return lode_plan_copy(node, input);
}
