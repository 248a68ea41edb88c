/* The device interface: all that core knows of a device.
 *
 * A device is a lode_device with a versioned table of functions. A new device
 * is a new folder and a line in csrc/devices.c. Members marked (optional) may
 * be NULL; the default stands beside them. All functions may be called from
 * several threads at once (each Lua state has its own), except that one stream
 * is driven by one thread at a time.
 *
 * Order and waiting. Work is enqueued on a stream and done in its order. A
 * member waits for earlier work only where its comment says so; when it returns
 * LODE_OK the work is enqueued, and its inputs may be changed or freed only by
 * later work on the same stream or after an event recorded behind it. An inline
 * stream (lode_stream.is_inline) does the work before it returns, so nothing on it is
 * ever pending. */
#ifndef LODE_DEVICE_H
#define LODE_DEVICE_H

#include <stdatomic.h>

#include "program.h"
#include "status.h"

enum { LODE_DEVICE_VERSION = 4 };

typedef struct lode_device lode_device;

/* ---- streams and events ------------------------------------------------- */

/* A device's stream begins with this. Counted: shared by the storages made on
 * it. Each state's default stream is made by stream_new(device, true). */
typedef struct lode_stream {
  lode_device *device;
  atomic_int refs;
  bool is_inline;           /* work is done by the caller, at once */
  struct lode_stream *next; /* for whoever holds the last reference: a list of those to free */
} lode_stream;

/* A point in a stream. Counted; begins a device's event. */
typedef struct lode_event {
  lode_device *device;
  const lode_stream *stream; /* that it was recorded on: to compare, not to follow */
  atomic_int refs;
} lode_event;

/* ---- linear algebra ----------------------------------------------------- */

/* An operand of a product: element (i, j) of matrix m of the batch lies at
 * base + (m * batch + i * row + j * column) elements; row or column is 1. */
typedef struct lode_matrix {
  void *base;
  int64_t batch, row, column;
} lode_matrix;

/* c[m, n] = a[m, k] * b[k, n] for each of `batch`; c is row-major and dense. k may be 0. */
typedef struct lode_product_args {
  lode_dtype dtype; /* i32 i64 f32 f64 */
  int64_t batch, m, n, k;
  lode_matrix a, b;
  void *c;
} lode_product_args;

typedef enum lode_method {
  LODE_METHOD_AUTO,    /* look at the matrix: triangular, symmetric (Cholesky, LU if that fails), general */
  LODE_METHOD_GENERAL, /* LU with partial pivoting */
  LODE_METHOD_SPD,     /* Cholesky; reads the lower triangle */
  LODE_METHOD_UPPER,   /* triangular: nothing to factor; the other triangle is not read */
  LODE_METHOD_LOWER,
  LODE_NMETHODS
} lode_method;

extern const char *const lode_method_names[LODE_NMETHODS]; /* "auto", "general", ... */

/* What becomes of a factorization, in memory that host and device both see
 * (outcome_new). A device writes it once, when the work is done; never if factor() did not return OK. */
typedef struct lode_outcome {
  _Atomic int32_t method; /* the lode_method that was used */
  _Atomic int64_t fault;  /* 0, or batch index << 32 | LAPACK's info (> 0) of the first failure */
} lode_outcome;

/* Factors `batch` matrices a[n, n], row-major and dense, into packed[n, n].
 * What `packed` holds is the device's affair. A matrix that
 * fails leaves info > 0 (LAPACK's: the zero pivot, or the order of the minor, from 1). */
typedef struct lode_factor_args {
  lode_dtype dtype; /* f32 f64 */
  int64_t batch, n;
  lode_method method;
  const void *a;
  void *packed;
  void *pivots;  /* [batch, n] of 8 bytes each; what they hold is the device's affair too */
  int32_t *info; /* [batch] */
  lode_outcome *outcome;
} lode_factor_args;

/* x[n, k] of each system, row-major and dense, holds the right-hand sides and
 * is overwritten; NaN where info says that the factorization failed. */
typedef struct lode_solve_args {
  lode_dtype dtype;
  int64_t batch, n, k;
  const void *packed;
  const void *pivots;
  const int32_t *info;
  const lode_outcome *outcome; /* its method says what `packed` is, read when the work is done */
  void *x;
} lode_solve_args;

/* ---- what a device counts and says of itself ---------------------------- */

/* X(name): monotonic counters, in lode.stats() under these names. Core counts what it asks for
 * (programs to downloads, retries), devices what only they can see (launches, waits, allocations). */
#define LODE_COUNTER_MAP(X)                                                                                    \
  X(programs)           /* passes over memory: one per run() */                                                \
  X(launches)           /* kernels of lode's own started on a GPU, for programs and linear algebra */          \
  X(compiles)           /* programs compiled at run time (NVRTC) */                                            \
  X(loads)              /* compiled programs read from disk */                                                 \
  X(products)           /* matrix products */                                                                  \
  X(factors)            /* factorizations */                                                                   \
  X(solves)             /* triangular solves with a factor */                                                  \
  X(uploads)            /* copies from host memory */                                                          \
  X(downloads)          /* copies to host memory */                                                            \
  X(waits)              /* times that a host thread had to wait for the device */                              \
  X(allocations)        /* blocks handed out */                                                                \
  X(system_allocations) /* blocks that came from the system, not from the pool */                              \
  X(retries)            /* allocations that succeeded only after the ladder (storage.h) */

typedef enum lode_counter {
#define X(name) LODE_COUNT_##name,
  LODE_COUNTER_MAP(X)
#undef X
      LODE_NCOUNTERS
} lode_counter;

typedef struct lode_memory {
  int64_t used;     /* bytes in blocks that somebody holds */
  int64_t reserved; /* bytes taken from the system: used + kept for reuse */
  int64_t peak_used, peak_reserved;
  int64_t budget;    /* bytes that `reserved` may reach, or `used` where memory comes in large pieces (a
                      * GPU's pool, by 32 MiB); 0: no limit but the system's */
  int64_t available; /* what the system says is left for us; -1 unknown */
} lode_memory;

typedef struct lode_property {
  char name[24];
  char text[232];
} lode_property;

enum { LODE_MAX_PROPERTIES = 24 };

typedef struct lode_properties {
  int count;
  lode_property property[LODE_MAX_PROPERTIES];
} lode_properties;

/* Adds "name = text" to `properties` (printf's rules). */
void lode_properties_add(lode_properties *properties, const char *name, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* ---- the table ---------------------------------------------------------- */

typedef struct lode_device_api {
  uint32_t version; /* LODE_DEVICE_VERSION of the header that it was built with */

  /* What drives Lua's collector is bytes >> this: a cycle takes tens of microseconds, which is a kernel where
   * memory is fast, and garbage of some tens of megabytes is little where there is much of it. */
  int garbage_shift;

  /* Facts for lode.devices(), in the order to print. Loads nothing heavy: a
   * part is asked only if it is loaded already. */
  void (*describe)(lode_device *device, lode_properties *out);

  /* Memory. alloc: at least `bytes` (> 0), aligned to 64, for work on `stream` at once and on others
   * behind an event recorded on it; NOMEM with numbers in the message when it cannot be had. free: constant
   * time, never fails, never waits, safe from any thread; the block is reused only once all `after` events are
   * reached (their references pass to the device). trim: gives what is kept for reuse back to the system;
   * waits. */
  lode_status (*alloc)(lode_stream *stream, size_t bytes, void **block, lode_error *error);
  void (*free)(lode_device *device, void *block, size_t bytes, lode_event *const *after, int count);
  void (*trim)(lode_device *device);
  void (*memory)(lode_device *device, lode_memory *out);
  void (*set_budget)(lode_device *device, int64_t bytes);

  /* Transfers. copy_in: the host memory may be reused on return. copy_out: of contents that
   * are there behind `after` (NULL: now); waits until the bytes have arrived, and fails as event_wait does.
   * copy_within: device to device. All are dense. */
  lode_status (*copy_in)(lode_stream *stream, void *block, const void *host, size_t bytes, lode_error *error);
  lode_status (*copy_out)(lode_device *device, void *host, const void *block, size_t bytes, lode_event *after,
                          lode_error *error);
  lode_status (*copy_within)(lode_stream *stream, void *to, const void *from, size_t bytes, lode_error *error);

  /* Compute. Arguments are copied before return. run never fails for its values; linear algebra
   * answers UNAVAILABLE, saying why, where its part cannot be had. All may answer NOMEM, for a workspace, and
   * are then called again with the same arguments (solve with x made anew). */
  lode_status (*run)(lode_stream *stream, const lode_program *program, const lode_args *args,
                     lode_error *error);
  lode_status (*product)(lode_stream *stream, const lode_product_args *args, lode_error *error);
  lode_status (*factor)(lode_stream *stream, const lode_factor_args *args, lode_error *error);
  lode_status (*solve)(lode_stream *stream, const lode_solve_args *args, lode_error *error);
  /* Memory for an outcome, zeroed. (optional, both: the host's own memory) */
  lode_status (*outcome_new)(lode_device *device, lode_outcome **out, lode_error *error);
  void (*outcome_free)(lode_device *device, lode_outcome *outcome); /* nothing that writes it is pending */

  /* Streams and events. stream_new: a new reference. stream_free: called when the last reference
   * goes; work already enqueued is still done, and the call may wait for it. stream_sync waits for
   * all work enqueued. stream_wait: later work on `stream` happens after `event` (for an inline
   * stream this waits at once). event_record: a new event behind all work of the stream so far; `timed`:
   * event_seconds may ask it. event_ready never waits. event_wait: says whether it had to wait, and fails if
   * work between the stream's event before this one and this one did (which stream_sync says too).
   * event_seconds: from `start` to `end` as the device did the work; both must be reached (INVALID otherwise).
   */
  lode_status (*stream_new)(lode_device *device, bool is_inline, lode_stream **out, lode_error *error);
  void (*stream_free)(lode_stream *stream);
  lode_status (*stream_sync)(lode_stream *stream, lode_error *error);
  lode_status (*stream_wait)(lode_stream *stream, lode_event *event, lode_error *error);
  lode_status (*event_record)(lode_stream *stream, bool timed, lode_event **out, lode_error *error);
  bool (*event_ready)(lode_event *event);
  lode_status (*event_wait)(lode_event *event, bool *waited, lode_error *error);
  lode_status (*event_seconds)(lode_event *start, lode_event *end, double *seconds, lode_error *error);
  void (*event_free)(lode_event *event); /* when the last reference goes */

  /* What a thread must have current to use the device (a driver's context): each member sees to it by itself,
   * and finds it between these two, which spares a compute what that takes. enter gives what leave puts back;
   * it never fails: members say so. (optional, both) */
  void *(*enter)(lode_device *device);
  void (*leave)(lode_device *device, void *before);

  /* Host threads that the device computes with. (optional: the device uses none, set is ignored) */
  void (*set_threads)(lode_device *device, int count); /* 0: as many as the process may use */
  int (*get_threads)(lode_device *device);
} lode_device_api;

/* When programs are compiled for a device that compiles them: lode.jit. */
typedef enum lode_jit_mode {
  LODE_JIT_WAIT,       /* before their first run */
  LODE_JIT_BACKGROUND, /* by a thread, while the device's interpreter runs them */
  LODE_JIT_OFF,        /* never: the interpreter runs them */
  LODE_NJITMODES
} lode_jit_mode;

extern const char *const lode_jit_names[LODE_NJITMODES]; /* "wait", "background", "off" */

struct lode_device {
  const lode_device_api *api;
  char name[16];   /* "cpu", "cuda:0": unique */
  _Atomic int jit; /* a lode_jit_mode, set by scripts (devices.c) */
  _Atomic uint64_t counter[LODE_NCOUNTERS];
};

static inline void lode_count(lode_device *device, lode_counter which) {
  atomic_fetch_add_explicit(&device->counter[which], 1, memory_order_relaxed);
}

/* What `bytes` of it count for where Lua's collector is driven. */
static inline int64_t lode_device_weight(const lode_device *device, size_t bytes) {
  return (int64_t)bytes >> device->api->garbage_shift;
}

static inline void *lode_device_enter(lode_device *device) {
  return device->api->enter != NULL ? device->api->enter(device) : NULL;
}

static inline void lode_device_leave(lode_device *device, void *before) {
  if (device->api->leave != NULL) device->api->leave(device, before);
}

/* ---- the devices of this process (devices.c) ---------------------------- */

/* Devices are process-wide, made on first use and never freed: their threads
 * and driver contexts outlive every Lua state. Kinds that are absent have a
 * name and a reason instead. */
typedef struct lode_device_entry {
  const char *name;    /* "cpu", "cuda:0", or the kind where none is there: "cuda" */
  lode_device *device; /* NULL: absent */
  char reason[256];    /* why it is absent; empty otherwise */
} lode_device_entry;

/* The CPU is there at once; to count the others, or to find one by name, asks their parts, which asks
 * the driver: nothing does so before a script does. */
int lode_devices_count(void);
const lode_device_entry *lode_devices_get(int index);
/* By name; a kind alone ("cuda") means its first device. UNAVAILABLE with the reason, or INVALID
 * with the names that exist; `who` is the public function. */
lode_status lode_devices_find(lode_error *error, const char *who, const char *name, lode_device **out);
/* lode.jit, for all devices of the process, also those that are not asked for yet. */
void lode_devices_set_jit(lode_jit_mode mode);
lode_jit_mode lode_devices_jit(void);

/* ---- references --------------------------------------------------------- */

static inline lode_stream *lode_stream_ref(lode_stream *stream) {
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
  return stream;
}

static inline void lode_stream_unref(lode_stream *stream) {
  if (stream != NULL && atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) == 1)
    stream->device->api->stream_free(stream);
}

static inline lode_event *lode_event_ref(lode_event *event) {
  atomic_fetch_add_explicit(&event->refs, 1, memory_order_relaxed);
  return event;
}

static inline void lode_event_unref(lode_event *event) {
  if (event != NULL && atomic_fetch_sub_explicit(&event->refs, 1, memory_order_acq_rel) == 1)
    event->device->api->event_free(event);
}

#endif
