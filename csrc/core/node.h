/* Nodes: recorded operations, and tensors whose elements exist.
 *
 * A node is in one of three states, defined here and nowhere else:
 *
 *   recorded   it says how its elements come about; it has no memory
 *   enqueued   it has memory (storage); the work that fills it may still run
 *   ready      its elements are there
 *
 * A node's value never changes. A script's tensor is a handle that points to a
 * node; upload makes it point to another (or reuses the block if nobody could
 * tell). Computing turns a recorded node into a leaf and drops its inputs.
 *
 * Functions named lode_record_* check their arguments, record, and give a new
 * reference. None of them waits or allocates device memory, except where said.
 * On failure nothing has changed and context->error says why; messages begin
 * with the public function's name. `who` is that name where it varies. Dims and
 * indices in arguments are as scripts write them: from 1, negative from the end. */
#ifndef LODE_NODE_H
#define LODE_NODE_H

#include "context.h"
#include "program.h"

typedef enum lode_state { LODE_RECORDED, LODE_ENQUEUED, LODE_READY } lode_state;

typedef enum lode_node_kind {
  LODE_NODE_LEAF, /* elements in storage, at offset + stride */
  LODE_NODE_FILL, /* one value everywhere */
  LODE_NODE_IOTA, /* i64: start + the row-major index of the element */
  LODE_NODE_OP,   /* lode_op of inputs of the same shape */
  LODE_NODE_CAST,
  LODE_NODE_VIEW,    /* an affine view of a recorded input (one of a leaf is a leaf) */
  LODE_NODE_CONCAT,  /* inputs one after the other along dim */
  LODE_NODE_RESHAPE, /* the input's elements in row-major order under other dims */
  LODE_NODE_REDUCE,  /* over the dims in mask, which are kept as 1 */
  LODE_NODE_MATMUL,  /* inputs [b, m, k] and [b, k, n] */
  LODE_NODE_FACTOR,  /* of input [b, n, n] */
  LODE_NODE_SOLVE,   /* inputs: a FACTOR node and right-hand sides [b, n, k] */
  LODE_NODE_INFO     /* i32 [b]: LAPACK's info of a FACTOR node */
} lode_node_kind;

/* Index of the input along each of its dims: start + step * (index of this view
 * along its dim src), or just start where src is -1. Beyond them nothing is set. */
typedef struct lode_view {
  int64_t start[LODE_MAX_DIMS], step[LODE_MAX_DIMS];
  int8_t src[LODE_MAX_DIMS];
} lode_view;

typedef struct lode_factor lode_factor; /* linalg.h */
typedef struct lode_fault lode_fault;   /* fault.h */

enum { LODE_INLINE_INPUTS = 3 };

/* Nodes that the collector gives back lie in the second-level cache, not the first: what recording, visiting
 * and freeing touch fills two cache lines, which a node begins with. */
struct lode_node {
  _Alignas(64) int refs;
  int handles; /* how many of refs are a script's tensors */
  uint8_t kind, dtype;
  uint16_t op;  /* lode_op or lode_reduction */
  bool keep;    /* costly to make again: computed apart and kept */
  bool passed;  /* a compute went through it once without keeping it */
  uint8_t room; /* which class of arrays `input` is from; 0: inline_input */
  /* Of the compute in progress, set when it visits the node (compute.c, share.c): */
  bool cut;      /* gets memory, unless it is inlined */
  bool inlined;  /* a reduction that is a value of another cut's program */
  bool apart;    /* gets memory before it is used, though it could be fused */
  bool reached;  /* some group's program has it */
  bool unrolled; /* a reduction that is fused as the operations it is made of */
  int level;     /* how many computations stand below that can be in no common program */
  int group;     /* of the planner's: the last that reached it */

  int weight; /* upper bound of the recorded nodes below, itself included */
  int ninputs;
  uint64_t mark;   /* the context's epoch when last visited */
  uint64_t wanted; /* the same, when last asked for by a compute */
  lode_context *context;
  lode_device *device;

  lode_node **input; /* inline_input, or one of the context's arrays where there are more */
  lode_node *inline_input[LODE_INLINE_INPUTS];
  lode_storage *storage; /* NULL while recorded */
  lode_fault *fault;     /* numerical failures that the value depends on; NULL: none */
  lode_fault *own_fault; /* SOLVE, FACTOR: what its failure is called; NULL: it does not raise */
  lode_node *next;       /* in the context's lists */

  lode_shape shape;
  union {
    lode_scalar value;   /* FILL; IOTA: start in i64 */
    int dim;             /* CONCAT */
    unsigned mask;       /* REDUCE */
    lode_view view;      /* VIEW */
    lode_factor *factor; /* FACTOR, SOLVE, INFO: counted */
  } as;

  int64_t offset; /* with storage: in elements, as are */
  int64_t stride[LODE_MAX_DIMS];
};

/* ---- references and state ------------------------------------------------ */

static inline lode_node *lode_node_ref(lode_node *node) {
  node->refs++;
  return node;
}
void lode_node_unref(lode_node *node);       /* NULL is allowed; never recursive */
lode_state lode_node_state(lode_node *node); /* never waits */
/* Bytes of all its elements, each counted once. */
static inline size_t lode_node_bytes(const lode_node *node) {
  return (size_t)lode_shape_count(&node->shape) * lode_dtype_size((lode_dtype)node->dtype);
}
/* One of the kinds that need no memory because programs compute them on the way. */
static inline bool lode_node_is_fused(const lode_node *node) {
  return node->kind == LODE_NODE_OP || node->kind == LODE_NODE_CAST || node->kind == LODE_NODE_CONCAT;
}
bool lode_node_contiguous(const lode_node *node); /* a leaf in row-major order without gaps */

void lode_nodes_free(lode_context *context); /* gives the memory of all nodes back; none may be left */
/* Used inside core: a node with one reference, no inputs and no storage. `as` is the caller's to set. */
lode_node *lode_node_new(lode_context *context, lode_node_kind kind, lode_dtype dtype, lode_device *device,
                         const lode_shape *shape);
lode_status lode_node_inputs(lode_node *node, lode_node *const *input, int count); /* takes references */
/* Room for inputs that the caller adds, references that pass to the node. */
lode_status lode_node_room(lode_node *node, int count);
/* Ends recording: weighs the node, and computes what it is made of if the graph has grown too large. Takes the
 * reference, which passes to *out or, on failure, is dropped. */
lode_status lode_node_recorded(lode_node *node, lode_node **out);
/* Turns a recorded node into a leaf over `storage` (row-major; the reference passes on). */
void lode_node_settle(lode_node *node, lode_storage *storage);

/* ---- recording: elementwise ---------------------------------------------- */

/* A tensor, or a Lua number (integer: exact in `integer`), which takes the dtype of
 * the tensors it meets: it never widens, and 0.5 with an integer tensor is an error. */
typedef struct lode_operand {
  lode_node *node; /* borrowed; NULL for a number */
  bool integer_valued;
  int64_t integer;
  double number;
} lode_operand;

/* Broadcasts and promotes; inserts casts. pow by a small number becomes products. */
lode_status lode_record_op(lode_context *context, lode_op op, const lode_operand *operand, lode_node **out);
lode_status lode_record_cast(lode_node *input, lode_dtype dtype, lode_node **out);
/* ---- a script's numbers (number.c) ---------------------------------------- */

/* A number as a scalar of `dtype`: INVALID if it is not exact there (integers and bool). */
lode_status lode_scalar_from(lode_error *error, const char *who, const lode_operand *number, lode_dtype dtype,
                             lode_scalar *out);
float lode_narrow(double x); /* rounded to nearest, whatever the host's control word says */
double lode_widen(float x);  /* exact, likewise */
double lode_steps(double from, double to, double step); /* (to - from) / step, likewise */

/* ---- recording: creation ------------------------------------------------- */

lode_status lode_record_fill(lode_context *context, const char *who, lode_device *device,
                             const lode_shape *shape, lode_dtype dtype, lode_scalar value, lode_node **out);
/* i64 start, start + 1, ... in row-major order: what the other generators are made of. */
lode_status lode_record_iota(lode_context *context, const char *who, lode_device *device,
                             const lode_shape *shape, int64_t start, lode_node **out);
/* start + step * i, i < count; for floats computed in f64, rounded once. */
lode_status lode_record_arange(lode_context *context, const char *who, lode_device *device, lode_dtype dtype,
                               const lode_operand *start, const lode_operand *step, int64_t count,
                               lode_node **out);
lode_status lode_record_eye(lode_context *context, lode_device *device, lode_dtype dtype, int64_t rows,
                            int64_t columns, lode_node **out);
/* op: LODE_OP_rand ([0, 1)) or LODE_OP_randn (mean 0, deviation 1); dtype f32 or f64. */
lode_status lode_record_random(lode_context *context, lode_op op, lode_device *device, const lode_shape *shape,
                               lode_dtype dtype, int64_t seed, lode_node **out);

/* ---- recording: shape (view.c, reshape.c, concat.c) ---------------------- */

/* Used inside core. The caller has made sure that the view stays inside the input, and its shape within bounds.
 */
void lode_view_identity(const lode_node *input, lode_view *view);
void lode_view_fix(lode_view *view, int dim, int64_t start); /* one index along the input's dim */
/* `outer` of `inner` of something with ndim dims, as one view. */
lode_view lode_view_compose(const lode_view *outer, const lode_view *inner, int ndim);
/* Whether two views of something with ndim dims are the same. */
bool lode_view_same(const lode_view *a, const lode_view *b, int ndim);
/* What a recorded view looks at; the node itself if it is none. */
lode_node *lode_node_base(lode_node *node);
/* Turns a VIEW node whose base has memory into a leaf; false: the base is still recorded. */
bool lode_view_settle(lode_node *node);
lode_status lode_record_view(lode_node *input, const lode_shape *shape, const lode_view *view, lode_node **out);

/* Resolves a script's dim (1..ndim or -1..-ndim) to 0..ndim-1. */
lode_status lode_dim_resolve(lode_error *error, const char *who, int64_t dim, int ndim, int *out);
/* Script dims of `input`, each given once, as a bit mask; count 0 gives `all`. */
lode_status lode_dims_resolve(lode_node *input, const char *who, const int64_t *dims, int count, unsigned all,
                              unsigned *mask);
/* The mask of all its dims. */
static inline unsigned lode_dims_all(const lode_node *input) { return (1u << input->shape.ndim) - 1; }

typedef enum lode_index_kind { LODE_INDEX_SELECT, LODE_INDEX_RANGE, LODE_INDEX_ALL } lode_index_kind;

/* One entry of t[{...}]: an index, a range with both ends included and a step, or all. */
typedef struct lode_index {
  lode_index_kind kind;
  int64_t first, last, step;
} lode_index;

/* Missing trailing entries mean all. {a, a - 1} is the empty range (for step 1; {a, a + 1, -1} backwards). */
lode_status lode_record_index(lode_node *input, const lode_index *index, int count, lode_node **out);
lode_status lode_record_permute(lode_node *input, const int64_t *dims, int count, lode_node **out);
lode_status lode_record_transpose(lode_node *input, lode_node **out);                /* T: needs 2 dims */
lode_status lode_record_expand_dims(lode_node *input, int64_t dim, lode_node **out); /* dim of the result */
lode_status lode_record_squeeze(lode_node *input, const int64_t *dims, int count,
                                lode_node **out); /* 0: all ones */
lode_status lode_record_flip(lode_node *input, const int64_t *dims, int count,
                             lode_node **out); /* 0: all dims */
lode_status lode_record_broadcast(lode_node *input, const char *who, const lode_shape *shape, lode_node **out);
/* One entry may be -1. Where the layout does not allow a view, compute copies. */
lode_status lode_record_reshape(lode_node *input, const int64_t *dims, int count, lode_node **out);
lode_status lode_record_concat(lode_context *context, lode_node *const *input, int count, int64_t dim,
                               lode_node **out);
lode_status lode_record_stack(lode_context *context, lode_node *const *input, int count, int64_t dim,
                              lode_node **out);

/* ---- recording: reductions ------------------------------------------------ */

/* dims as scripts write them, count 0: all. Sums and products of bool and i32 are i64. */
lode_status lode_record_reduce(lode_node *input, lode_reduction reduction, const int64_t *dims, int count,
                               bool keepdims, lode_node **out);
/* Integers and bool become the default dtype first. */
lode_status lode_record_mean(lode_node *input, const int64_t *dims, int count, bool keepdims, lode_node **out);
/* The sum of squared deviations from the mean, over the count less `correction`; how it is made: reduce.c.
 * `root`: its square root (std). dtypes as for the mean. */
lode_status lode_record_variance(lode_node *input, const int64_t *dims, int count, bool keepdims,
                                 double correction, bool root, lode_node **out);

/* ---- recording: products and solves (linalg.c) ---------------------------- */

/* Vectors, matrices, batches with broadcasting, as the array API standard's matmul. */
lode_status lode_record_matmul(lode_node *a, lode_node *b, lode_node **out);
/* a: [..., n, n], f32 or f64 (integers become the default dtype). `where` is the script's line ("cost.lua:12"),
 * copied; `raises`: a failure is raised by what depends on it. */
lode_status lode_record_factor(lode_node *a, const char *who, lode_method method, const char *where,
                               bool raises, lode_node **out);
/* b: [n], [..., n] or [..., n, k]: [n] and [n, k] for one system; for batches [..., n, k], or [..., n] of
 * exactly the batch's shape and n. Gives x of b's shape (batch dims broadcast). */
lode_status lode_record_solve(lode_node *factor, lode_node *b, const char *who, const char *where, bool raises,
                              lode_node **out);
lode_status lode_record_info(lode_node *factor, lode_node **out);

/* ---- values in and out ----------------------------------------------------- */

/* A leaf with the host's elements (dense, row-major, count * size bytes). */
lode_status lode_node_from_host(lode_context *context, const char *who, lode_device *device,
                                const lode_shape *shape, lode_dtype dtype, const void *host, lode_node **out);
/* New contents for the handle *node (a handle's reference, replaced where needed): same shape and dtype. Reuses
 * the block if nobody else can see it and nothing is pending on it. Does not wait. */
lode_status lode_node_upload(lode_node **node, const void *host);
/* The elements of another device's tensor (a copy; the same node if it is there already). */
lode_status lode_node_to_device(lode_node *node, lode_device *device, lode_node **out);

/* A copy of its elements in memory of their own, dense and row-major; the node is computed first. */
lode_status lode_node_copy(lode_node *node, lode_node **out);

/* Enqueues what the nodes need; those that have elements are left alone. Does not wait. */
lode_status lode_compute(lode_context *context, lode_node *const *node, int count);
/* compute, wait for this node alone, raise NUMERIC failures it depends on. */
lode_status lode_node_sync(lode_node *node, const char *who);
/* compute, wait for a copy of all elements to `host`, dense and row-major, and raise as sync does. */
lode_status lode_node_read(lode_node *node, const char *who, void *host);

#endif
