/* The planner: from recorded nodes to programs on a device.
 *
 * emit.c turns the graph under one node into the values of a program, for one
 * box of the iteration space; plan.c lays out that space, cuts it into boxes
 * where concat needs it, merges dims and runs; compute.c decides which nodes get
 * memory, and in which order. */
#ifndef LODE_PLAN_H
#define LODE_PLAN_H

#include "fault.h"
#include "node.h"

/* How a node's dims follow the iteration: index along dim d is
 * start[d] + step[d] * i[src[d]], or start[d] where src[d] is -1. */
typedef lode_view lode_map;

typedef enum lode_emit_result {
  LODE_EMIT_OK,
  LODE_EMIT_SPLIT, /* the box crosses the parts of a concat: split at planner->split_* */
  LODE_EMIT_FULL   /* too much for one program */
} lode_emit_result;

typedef struct lode_node_list {
  lode_node **node;
  int count, room;
} lode_node_list;

struct lode_planner {
  lode_context *context;

  /* compute.c's lists: kept, so that a loop allocates nothing once they are long enough. */
  lode_node_list stack, seen, cut, ordered;

  /* The iteration space: ndim dims of extent[], row-major; the box [lo, hi) in it. `inner` is the dim
   * whose rows are evaluated whole, or -1: then all dims are alike. */
  int ndim, inner;
  int64_t extent[LODE_MAX_DIMS], lo[LODE_MAX_DIMS], hi[LODE_MAX_DIMS];

  lode_program program;
  lode_args args;
  /* By access: its strides over the dims of the space, and the node that it reads (borrowed). */
  int64_t access_stride[LODE_MAX_ACCESSES][LODE_MAX_DIMS];
  lode_node *access_node[LODE_MAX_ACCESSES];
  /* By value: what it was made from, for finding it again. */
  lode_node *value_node[LODE_MAX_VALUES];
  lode_map value_map[LODE_MAX_VALUES];

  int split_dim;
  int64_t split_at;
  lode_node *split_node; /* the concat that asked */

  /* Storages used by the compute in progress on a stream that is not inline: counted. */
  struct {
    lode_storage *storage;
    lode_stream *stream;
    bool writes;
  } * touched;
  int ntouched, touched_room;
};

lode_planner *lode_planner_of(lode_context *context); /* made on first use; NULL: no host memory */
void lode_planner_free(lode_planner *planner);        /* NULL is allowed */

/* emit.c: the values of `node` over the planner's box, the last one being the result at full width. */
lode_emit_result lode_emit(lode_planner *planner, lode_node *node, const lode_map *map);

/* plan.c: run what makes `node`'s elements (its inputs that are cuts are leaves already). */
lode_status lode_plan_run(lode_node *node);
/* The elements of `source` (a leaf, any layout) in row-major order in memory of node's own. */
lode_status lode_plan_copy(lode_node *node, lode_node *source);
/* The elements of `source`, recorded or not, into row-major `storage`. */
lode_status lode_plan_into(lode_node *source, lode_storage *storage, lode_fault **fault);

/* compute.c, for those that enqueue: order the stream behind a storage's writer and remember its use. */
lode_status lode_compute_touch(lode_context *context, lode_stream *stream, lode_storage *storage, bool writes);
/* reshape.c */
lode_status lode_compute_reshape(lode_node *node);

#endif
