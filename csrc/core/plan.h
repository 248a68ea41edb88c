/* The planner: from recorded nodes to programs on a device.
 *
 * compute.c decides which nodes get memory, and in which order; share.c which of
 * them are computed in one pass; plan.c makes a pass, cut into boxes where a concat
 * needs it; space.c lays out its iteration space and fills in the arguments; emit.c
 * turns the graph below into the values of a program, for one box; explain.c tells. */
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
  LODE_EMIT_FIRST, /* planner->split_node has to be computed before */
  LODE_EMIT_FULL   /* too much for one program */
} lode_emit_result;

enum { LODE_MAX_MET = 2 * LODE_MAX_VALUES, LODE_SAME_ENTRIES = 1024, LODE_ALONE = -2 };

typedef struct lode_node_list {
  lode_node **node;
  int count, room;
} lode_node_list;

/* share.c: what is computed together, in one pass. A row space is the shape over which a program by rows runs:
 * the dims that rows are counted over, without those of 1, and the length of rows. */
typedef struct lode_row_space {
  int ndim; /* -1: none */
  int64_t dim[LODE_MAX_DIMS];
  int64_t row; /* 0: not known, nothing is as long as a row yet */
} lode_row_space;

/* Cuts that are outputs of one program: over one space; or reductions of one shape over the same dims. */
typedef struct lode_group {
  lode_node *node[LODE_MAX_OUTPUTS];
  int count;
  bool inlines; /* some reduction is a value of the program */
  lode_row_space space;
} lode_group;

/* The dim whose rows are reduced, if such dims of such a shape are one that rows lie along; or -1. */
int lode_row_of(const lode_shape *shape, unsigned mask);
int lode_row_of_reduction(const lode_node *node);                   /* of its input's; -1 also if it is none */
lode_row_space lode_space_of_reduction(const lode_node *reduction); /* of such a one */
/* A reduction that ends a pass: of whatever is not rows (share.c). */
bool lode_reduction_ends_pass(const lode_node *node);
/* A reduction of a few elements that come from smaller tensors (the squared differences of all pairs of
 * points): no rows lie in memory, so it is done as operations on its elements, in reduce.h's order. Computed
 * once a compute: node->unrolled. */
bool lode_reduction_unrolls(const lode_node *node);
/* Fused into programs, whether by its kind or unrolled. */
static inline bool lode_fuses(const lode_node *node) { return lode_node_is_fused(node) || node->unrolled; }
/* Makes the groups of planner->cut, whose nodes compute.c has prepared. */
lode_status lode_share(lode_planner *planner);

struct lode_planner {
  lode_context *context;

  /* compute.c's lists: kept, so that a loop allocates nothing once they are long enough. */
  lode_node_list stack, seen, cut;
  struct { /* nodes by their value; of the compute whose epoch it is */
    lode_node *node;
    uint64_t epoch;
  } same[LODE_SAME_ENTRIES];
  lode_group *group; /* share.c's */
  int ngroups, group_room;

  /* The iteration space: ndim dims of extent[], row-major; the box [lo, hi) in it. `inner` is the dim
   * whose rows are evaluated whole, or -1: then all dims are alike. */
  int ndim, inner;
  int64_t extent[LODE_MAX_DIMS], lo[LODE_MAX_DIMS], hi[LODE_MAX_DIMS];

  lode_program program;
  lode_args args;
  /* By access: its strides over the dims of the space, and the node that it reads (borrowed). */
  int64_t access_stride[LODE_MAX_ACCESSES][LODE_MAX_DIMS];
  lode_node *access_node[LODE_MAX_ACCESSES];
  /* What nodes have become, to find it again. */
  struct {
    lode_node *node;
    lode_map map;
    int value;
  } met[LODE_MAX_MET];
  int nmet;
  int running;      /* the group whose program is made: its reductions are values; LODE_ALONE: none */
  lode_node *alone; /* then: the node whose program it is */
  int64_t row_max;  /* the longest row that is evaluated whole */

  int split_dim;
  int64_t split_at;
  lode_node *split_node; /* the concat that asked; or what has to be computed first */

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

/* emit.c: begins a program; adds the values of `node` over the planner's box, and it as an output: `whole` by
 * rows of the inner extent, or else one element a row. */
void lode_emit_start(lode_planner *planner);
lode_emit_result lode_emit(lode_planner *planner, lode_node *node, const lode_map *map, bool whole);

/* plan.c: run what makes `node`'s elements. What has to be computed before is computed. */
lode_status lode_plan_run(lode_node *node);
/* The same for a group, in one pass; in several where that cannot be. */
lode_status lode_plan_run_group(lode_planner *planner, int group);
/* The elements of `source` (a leaf, any layout) in row-major order in memory of node's own. */
lode_status lode_plan_copy(lode_node *node, lode_node *source);
/* The elements of `source`, recorded or not, into row-major `storage`. */
lode_status lode_plan_into(lode_node *source, lode_storage *storage, lode_fault **fault);

/* explain.c, for LODE_TRACE: a pass; other work; a node that gets memory that nobody asked for, and why. */
void lode_explain_pass(const lode_device *device, const lode_program *program, const lode_args *args);
void lode_explain_work(const lode_node *node, const char *what); /* other work: what makes `node` */
void lode_explain_cut(const lode_node *node, const char *why);
const char *lode_explain_reduction(const lode_node *node);

/* compute.c: gives memory to a node that a program has to read. */
lode_status lode_compute_first(lode_node *node);
/* For those that enqueue: order the stream behind a storage's writer and remember its use. */
lode_status lode_compute_touch(lode_context *context, lode_stream *stream, lode_storage *storage, bool writes);
/* Ends what began with the first touch: records the event of each stream that was touched. */
lode_status lode_compute_finish(lode_context *context);
/* reshape.c */
lode_status lode_compute_reshape(lode_node *node);

#endif
