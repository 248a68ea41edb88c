/* What the files of the binding share: the state, a call, arguments, handles.
 *
 * Every lua_CFunction has the state as upvalue 1 and begins with lode_enter.
 * Order inside one: results are pushed first (empty userdata), then arguments
 * are parsed, then core is called; so from the moment a node is borrowed from an
 * argument no Lua allocation can run a finalizer that takes it away, and an
 * error finds nothing but userdata to clean up. Core returns a status; only
 * LODE_CHECK and lode_raise turn it into a Lua error. */
#ifndef LODE_BINDING_H
#define LODE_BINDING_H

#include <string.h>

#include "compat.h"
#include "core/linalg.h"
#include "core/node.h"
#include "core/ops.h"

/* ---- the state ------------------------------------------------------------ */

typedef enum lode_type {
  LODE_TYPE_TENSOR,
  LODE_TYPE_FACTOR,
  LODE_TYPE_STREAM,
  LODE_TYPE_EVENT,
  LODE_TYPE_GRAPH,
  LODE_TYPE_SCOPE,
  LODE_TYPE_BUFFER,
  LODE_NTYPES
} lode_type;

/* A list of handles that are released together (handle.c). */
typedef struct lode_scope {
  struct lode_scope *outer, *inner;
  struct lode_handle *first;
  const lua_State *thread; /* that opened it: to compare, never to call */
  bool open;
} lode_scope;

/* How far the collector has been driven; bytes of storages as devices weigh them, throughout. */
typedef struct lode_pace {
  int64_t seen;   /* made when last driven, and what a script has released since */
  int64_t ended;  /* made when a cycle last ended */
  int64_t live;   /* held when a cycle last ended */
  int64_t steps;  /* steps taken */
  int64_t cycles; /* full collections */
  bool running;   /* inside a step or a full collection: finalizers may call us */
  bool borrowed;  /* inside a full collection between two attempts of a core call */
} lode_pace;

/* One per lua_State: a userdata in its registry. */
typedef struct lode_lua {
  char build[48];        /* LODE_BUILD of the copy of lode that made it */
  lode_context *context; /* NULL once the state has been closed */
  lua_State *main;       /* the main thread where the registry does not know it; may be NULL */
  const void *meta[LODE_NTYPES];
  int meta_ref[LODE_NTYPES]; /* in the registry */
  int collect_ref;           /* the function that runs the collector under lua_pcall */
  int split_ref, join_ref;   /* int64 cdata to two numbers and back; LUA_NOREF: there are none */
  lode_pace pace;
  lode_scope root;   /* has all handles that are in no scope of the script's */
  lode_scope *scope; /* the innermost open one; at least the root */
  lode_stream *lost; /* given up by the collector, chained */
  lode_node **list;  /* scratch of lode_argument_tensors */
  int list_room;
  void *spare;    /* memory of a buffer that is not in use (state.c) */
  uint64_t seed;  /* of the sequence of seeds */
  uint64_t seeds; /* how many it has given */
  char own[256];  /* how the chunk names of lode's own Lua files begin */
} lode_lua;

/* Pushes the state, made if there is none yet. */
lode_lua *lode_lua_open(lua_State *L);
int64_t lode_lua_seed(lode_lua *state);

/* ---- a call ----------------------------------------------------------------- */

typedef struct lode_call {
  lua_State *L;
  lode_lua *state;
  lode_context *context;
  const char *who; /* the public function's name */
  int nargs;
} lode_call;

#if defined(__GNUC__)
#define LODE_NORETURN       __attribute__((noreturn))
#define LODE_PRINTF(at, to) __attribute__((format(printf, at, to)))
#else
#define LODE_NORETURN
#define LODE_PRINTF(at, to)
#endif

/* "cost.lua:12" of the first Lua frame outside lode's own files, or "". */
void lode_where(lua_State *L, const lode_lua *state, char *text, size_t size);
/* Raises "cost.lua:12: lode: who: ..." (printf's rules). */
LODE_NORETURN void lode_raise(const lode_call *c, const char *format, ...) LODE_PRINTF(2, 3);
/* Raises what core left in context->error. */
LODE_NORETURN void lode_raise_error(const lode_call *c);

enum { LODE_COLLECT_QUANTUM = 512 << 10 }; /* weighed bytes between two looks at the collector */

/* Frees what is dead and drives the collector; `coming`: the weight (lode_device_weight) of what the caller is
 * about to ask for. */
void lode_collector_drive(const lode_call *c, int64_t coming);
/* It has asked: what did not come counts for nothing. */
void lode_collector_came(const lode_call *c);
/* Frees what a script has released, which is no garbage to collect. */
void lode_collector_released(const lode_call *c);
/* Two full collections, after which memory may be had that could not be before. */
void lode_collector_full(const lode_call *c);
void lode_collector_helped(const lode_call *c); /* it could: counts a retry */

static inline lode_call lode_enter(lua_State *L, const char *who) {
  lode_lua *state = lua_touserdata(L, lua_upvalueindex(1));
  lode_call c = {L, state, state->context, who, lua_gettop(L)};
  if (c.context == NULL) lode_raise(&c, "lode is closed");
  if (c.context->dead != NULL || c.context->weight_made - state->pace.seen >= LODE_COLLECT_QUANTUM)
    lode_collector_drive(&c, 0);
  return c;
}

/* Calls core. Where memory cannot be had it collects Lua's garbage and calls again. */
#define LODE_CHECK(c, call)                                                                                    \
  do {                                                                                                         \
    lode_status lode_check_ = (call);                                                                          \
    if (lode_check_ == LODE_NOMEM) {                                                                           \
      lode_collector_full(c);                                                                                  \
      lode_check_ = (call);                                                                                    \
      if (lode_check_ == LODE_OK) lode_collector_helped(c);                                                    \
    }                                                                                                          \
    if (lode_check_ != LODE_OK) lode_raise_error(c);                                                           \
  } while (0)

/* ---- userdata ----------------------------------------------------------------- */

/* Inline, because a call takes a few hundred nanoseconds and does these several times. */

/* Pushes `size` zeroed bytes with the metatable of `type`. */
static inline void *lode_push(const lode_call *c, lode_type type, size_t size) {
  void *data = lua_newuserdata(c->L, size);
  memset(data, 0, size);
  lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->state->meta_ref[type]);
  lua_setmetatable(c->L, -2);
  return data;
}

/* The userdata at `index` if it is of that type, else NULL. */
static inline void *lode_test(const lode_call *c, int index, lode_type type) {
  void *data = lua_touserdata(c->L, index); /* most values that are of no type of ours stop here */
  if (data == NULL || !lua_getmetatable(c->L, index)) return NULL;
  const void *meta = lua_topointer(c->L, -1);
  lua_pop(c->L, 1);
  return meta == c->state->meta[type] ? data : NULL;
}

/* A tensor, or a factor: a script's hold on a node. */
typedef struct lode_handle {
  lode_context *context; /* counted */
  lode_node *node;       /* counted; NULL once released */
  lode_scope *scope;     /* that it will be released with; NULL once released */
  struct lode_handle *previous, *next;
} lode_handle;

lode_handle *lode_handle_push(const lode_call *c, lode_type type); /* empty */
void lode_handle_set(lode_handle *handle, lode_node *node);        /* takes the reference */
bool lode_handle_release(lode_handle *handle);                     /* constant time; false: it was empty */
/* Lua functions of both kinds of handle. */
int lode_handle_gc(lua_State *L);
int lode_handle_releases(lua_State *L);

/* Gives up all handles for good: the state is closed. */
void lode_handles_close(lode_lua *state);

/* Calls a function of core whose last argument is the node that it makes, and puts that into `handle`. */
#define LODE_RECORD(c, handle, function, ...)                                                                  \
  do {                                                                                                         \
    lode_node *lode_recorded_ = NULL;                                                                          \
    LODE_CHECK(c, function(__VA_ARGS__, &lode_recorded_));                                                     \
    lode_handle_set(handle, lode_recorded_);                                                                   \
  } while (0)

typedef struct lode_stream_handle {
  lode_stream *stream; /* counted; NULL once released */
} lode_stream_handle;

/* Frees the streams that the collector gave up. */
void lode_streams_drain(lode_lua *state);

/* Pushes host memory that is freed by the collector at the latest. */
void *lode_buffer_push(const lode_call *c, size_t bytes);
void lode_buffer_free(const lode_call *c, int index);
int lode_buffer_gc(lua_State *L);

/* ---- arguments (arguments.c) --------------------------------------------------- */

/* "a table", "a released tensor", "missing": for messages. */
const char *lode_describe(const lode_call *c, int index);
LODE_NORETURN void lode_argument_error(const lode_call *c, int index, const char *needed);
/* No more than `most` arguments. Missing ones become nil, so that results pushed later are not taken for them.
 */
void lode_arguments_end(const lode_call *c, int most);

lode_handle *lode_argument_handle(const lode_call *c, int index, lode_type type); /* not released */
lode_node *lode_argument_tensor(const lode_call *c, int index);                   /* borrowed */
int64_t lode_argument_integer(const lode_call *c, int index);
lode_device *lode_argument_device(const lode_call *c, int index);
lode_stream *lode_argument_stream(const lode_call *c, int index); /* borrowed */

/* Reads the number at `index` into `out`, exactly; false if it is none. */
bool lode_number(const lode_call *c, int index, lode_operand *out);
bool lode_integer(const lode_call *c, int index, int64_t *out);
/* An int64 as the best that this Lua has for it. */
void lode_push_integer(const lode_call *c, int64_t value);

/* The numbers of a list, or of consecutive arguments from `index` on. Returns the index behind them. */
int lode_argument_integers(const lode_call *c, int index, const char *what, int64_t *out, int most, int *count);
int lode_argument_shape(const lode_call *c, int index, lode_shape *out);
/* dims: nil, a number or a list; count 0 means none given. */
void lode_argument_dims(const lode_call *c, int index, int64_t dims[LODE_MAX_DIMS], int *count);
/* Nodes of a list of tensors, borrowed, in an array of the state's. A finalizer may empty the script's list:
 * after anything that runs Lua, a second attempt of LODE_CHECK also, it is read anew. */
lode_node **lode_argument_tensors(const lode_call *c, int index, int *count);

/* The options table at `index`, the last argument: 0 if there is none. Only `names` (NULL at the end) may
 * occur. */
int lode_options(const lode_call *c, int index, const char *const *names);
bool lode_is_options(const lode_call *c, int index); /* a table with no list in it, but fields */
bool lode_has_fields(const lode_call *c, int index); /* the same, of a table known to have no list */
/* Pushes options[name] and returns true if it is there. */
bool lode_option(const lode_call *c, int options, const char *name);
lode_dtype lode_option_dtype(const lode_call *c, int options, lode_dtype otherwise);
lode_device *lode_option_device(const lode_call *c, int options);
double lode_option_number(const lode_call *c, int options, const char *name, double otherwise);
bool lode_option_boolean(const lode_call *c, int options, const char *name);
/* A dtype's or a device's name at `index`. */
lode_dtype lode_dtype_at(const lode_call *c, int index);
lode_device *lode_device_at(const lode_call *c, int index);
/* Either of them: true if it is a dtype's. */
bool lode_dtype_or_device_at(const lode_call *c, int index, lode_dtype *dtype, lode_device **device);

/* ---- elements and Lua values (values.c) ------------------------------------------ */

/* The shape of nested tables; *boolean: the first element is one. */
void lode_values_shape(const lode_call *c, int index, lode_shape *shape, bool *boolean);
/* Nested tables of that shape into dense memory. `strict`: a boolean counts only as a bool. */
void lode_values_read(const lode_call *c, int index, const lode_shape *shape, lode_dtype dtype, bool strict,
                      void *out);
void lode_values_push(const lode_call *c, const lode_shape *shape, lode_dtype dtype, const void *elements);
void lode_values_push_one(const lode_call *c, lode_dtype dtype, const void *element);
/* Pushes "tensor f32 [3] on cpu {1, 2, 3}". */
void lode_values_print(lua_State *L, lode_node *node);

/* ---- registration ------------------------------------------------------------------ */

/* Where a function is found: in the module, as a method of a type, or among the
 * private ones that lua/lode/init.lua uses. */
enum {
  LODE_IN_MODULE = 1,
  LODE_IN_TENSOR = 2,
  LODE_IN_FACTOR = 4,
  LODE_IN_STREAM = 8,
  LODE_IN_EVENT = 16,
  LODE_IN_GRAPH = 32,
  LODE_IN_PRIVATE = 64
};

typedef struct lode_entry {
  unsigned in;
  const char *name;
  lua_CFunction function;
  int value; /* upvalue 2 */
} lode_entry;

/* Tables end with a name of NULL. Metamethods have the type's methods as upvalue
 * 3 and its properties, functions of the object, as upvalue 4. */
extern const lode_entry lode_creation_entries[];
extern const lode_entry lode_shape_entries[];
extern const lode_entry lode_reduce_entries[];
extern const lode_entry lode_transfer_entries[];
extern const lode_entry lode_linalg_entries[];
extern const lode_entry lode_device_entries[];
extern const lode_entry lode_scope_entries[];
extern const lode_entry lode_state_entries[];
extern const lode_entry lode_elementwise_entries[];
extern const lode_entry lode_tensor_entries[];
extern const lode_entry lode_factor_entries[];
extern const lode_entry lode_stream_entries[];
extern const lode_entry lode_event_entries[];
extern const lode_entry lode_graph_entries[];
extern const lode_entry lode_operator_meta[];
extern const lode_entry lode_tensor_meta[], lode_tensor_properties[];
extern const lode_entry lode_factor_meta[], lode_factor_properties[];
extern const lode_entry lode_stream_meta[], lode_stream_properties[];
extern const lode_entry lode_event_meta[], lode_event_properties[];
extern const lode_entry lode_graph_meta[], lode_graph_properties[];
extern const lode_entry lode_scope_meta[], lode_buffer_meta[];

/* __index of types without numbers: a method, or a property. */
int lode_object_index(lua_State *L);
/* What a name that other libraries have is called here ("concat?"); NULL: it is not known. */
const char *lode_hint(const char *name);
/* What is under the string at 2: true, and the value is pushed. */
bool lode_member(lua_State *L);

#endif
