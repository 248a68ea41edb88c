/* What the files of the CUDA device share.
 *
 *   driver      the driver's functions, and its errors as statuses
 *   trace       LODE_TRACE
 *   device      the device table, contexts, what a device says of itself
 *   memory      device memory and workspaces; blocks: what is known of each block
 *   pinned      outcomes, and other words that kernels write for the host
 *   stream      streams, events, waits
 *   transfer    copies, the pinned ring
 *   kernels     kernels built ahead of time (kernels/), launching
 *   jit         compiled programs by their key; compile: the disk and the compile thread; nvrtc/ is a part
 *   program     running a program; layout: its template, key and parameters; source, source_rows, source_wide:
 * its text; interpret: without a compiler; pieces: reductions of what had to be stored first linalg      what
 * product, factor and solve share: handles, batches, small kernels; blas/ is a part
 *
 * Only device.c's table is called from outside. Each of its members enters the device's context and
 * leaves it again; all functions below are called inside. Nothing is called in a child of a fork. */
#ifndef LODE_CUDA_H
#define LODE_CUDA_H

#include "../core/device.h"
#include "../core/mutex.h"
#include "driver.h"

enum { LODE_RECENT = 32 }; /* programs that a stream remembers, of some ten KiB each */

typedef struct lode_cuda_device {
  lode_device base;
  int index;
  CUdevice handle;
  int capability; /* 10 * major + minor: 90 */
  int multiprocessors;
  int64_t total;          /* bytes of memory */
  bool has_pools;         /* stream-ordered memory pools: there may be none under virtual GPUs */
  _Atomic int64_t budget; /* bytes; 0: none. May be set before the device is opened */
  lode_mutex opening;     /* guards the first use */
  _Atomic bool opened;    /* the context is made, what follows is set */
  CUcontext context;
  struct lode_cuda_memory *memory;    /* memory.c */
  struct lode_cuda_pinned *pinned;    /* pinned.c */
  struct lode_cuda_events *events;    /* stream.c */
  struct lode_cuda_transfer *staging; /* transfer.c */
} lode_cuda_device;

typedef struct lode_cuda_stream {
  lode_stream base;
  CUstream handle;
  struct lode_cuda_front *front;           /* memory.c: free blocks, for work on this stream */
  struct lode_cuda_blas *blas;             /* linalg.c: handles of cuBLAS and cuSOLVER, made on first use */
  struct lode_recent *recent[LODE_RECENT]; /* recent.c: programs that it ran lately, or NULL */
  CUevent last;                            /* stream.c: behind all its work, once nobody holds the stream */
  struct lode_cuda_stream *next; /* stream.c: of the device's streams, or of those that nobody holds */
} lode_cuda_stream;

static inline lode_cuda_device *lode_cuda_device_of(lode_device *device) { return (lode_cuda_device *)device; }
static inline lode_cuda_stream *lode_cuda_stream_of(lode_stream *stream) { return (lode_cuda_stream *)stream; }
static inline lode_cuda_device *lode_cuda_home(const lode_stream *stream) {
  return (lode_cuda_device *)stream->device;
}

/* ---- memory.c ---------------------------------------------------------------- */

lode_status lode_cuda_memory_open(lode_cuda_device *device, lode_error *error);
lode_status lode_cuda_alloc(lode_stream *stream, size_t bytes, void **block, lode_error *error);
void lode_cuda_free(lode_cuda_device *device, void *block, size_t bytes, lode_event *const *after, int count);
void lode_cuda_trim(lode_cuda_device *device);
void lode_cuda_memory_usage(lode_cuda_device *device, lode_memory *out);
void lode_cuda_budget_changed(lode_cuda_device *device); /* device->budget is another one */
lode_status lode_cuda_front_new(lode_cuda_stream *stream, lode_error *error);
/* Gives what the stream kept for reuse back; called when it is freed, with its work done. */
void lode_cuda_front_free(lode_cuda_stream *stream);

/* A workspace for work enqueued on `stream` between both calls. bytes may be 0: *block is then NULL.
 * On NOMEM the ladder is climbed by core, which calls the whole operation again. */
lode_status lode_cuda_take(lode_stream *stream, size_t bytes, void **block, lode_error *error);
void lode_cuda_give(lode_stream *stream, void *block, size_t bytes);

/* ---- pinned.c ------------------------------------------------------------------ */

lode_status lode_cuda_pinned_open(lode_cuda_device *device, lode_error *error);
lode_status lode_cuda_outcome_new(lode_cuda_device *device, lode_outcome **out, lode_error *error);
void lode_cuda_outcome_free(lode_cuda_device *device, lode_outcome *outcome);
/* Pinned host memory of 64 bytes, zeroed, that kernels may write to by the same address. */
lode_status lode_cuda_pinned_new(lode_cuda_device *device, void **out, lode_error *error);
void lode_cuda_pinned_free(lode_cuda_device *device, void *pinned);

/* ---- stream.c ----------------------------------------------------------------- */

lode_status lode_cuda_events_open(lode_cuda_device *device, lode_error *error);
/* An event that can be waited for, not timed. */
lode_status lode_cuda_event_handle_new(CUevent *out, lode_error *error);
/* Waits as all waits do: asks for up to two milliseconds, then sleeps; a wait that was one is counted. */
lode_status lode_cuda_await(lode_cuda_device *device, CUevent event, bool *waited, lode_error *error);
/* The same for a wait that belongs to one that is counted. */
lode_status lode_cuda_await_uncounted(lode_cuda_device *device, CUevent event, bool *waited, lode_error *error);
/* Waits for all work that the device's streams, those that nobody holds too, have been given so far. */
void lode_cuda_drain(lode_cuda_device *device);
lode_status lode_cuda_stream_new(lode_cuda_device *device, lode_stream **out, lode_error *error);
void lode_cuda_stream_free(lode_stream *stream);
lode_status lode_cuda_stream_sync(lode_stream *stream, lode_error *error);
/* Orders later work on a stream of the driver's behind the event. */
lode_status lode_cuda_event_order(lode_event *event, CUstream stream, lode_error *error);
lode_status lode_cuda_stream_wait(lode_stream *stream, lode_event *event, lode_error *error);
/* timed: for event_seconds; it costs the caller and the device a microsecond more. */
lode_status lode_cuda_event_record(lode_stream *stream, bool timed, lode_event **out, lode_error *error);
bool lode_cuda_event_ready(lode_event *event);
lode_status lode_cuda_event_wait(lode_event *event, bool *waited, lode_error *error);
lode_status lode_cuda_event_seconds(lode_event *start, lode_event *end, double *seconds, lode_error *error);
void lode_cuda_event_free(lode_event *event);

/* ---- transfer.c ---------------------------------------------------------------- */

lode_status lode_cuda_transfer_open(lode_cuda_device *device,
                                    lode_error *error); /* takes no pinned memory yet */
lode_status lode_cuda_copy_in(lode_stream *stream, void *block, const void *host, size_t bytes,
                              lode_error *error);
lode_status lode_cuda_copy_out(lode_cuda_device *device, void *host, const void *block, size_t bytes,
                               lode_event *after, lode_error *error);
lode_status lode_cuda_copy_within(lode_stream *stream, void *to, const void *from, size_t bytes,
                                  lode_error *error);

/* ---- program.c, linalg.c --------------------------------------------------------- */

lode_status lode_cuda_run(lode_stream *stream, const lode_program *program, const lode_args *args,
                          lode_error *error);
lode_status lode_cuda_product(lode_stream *stream, const lode_product_args *args, lode_error *error);
lode_status lode_cuda_factor(lode_stream *stream, const lode_factor_args *args, lode_error *error);
lode_status lode_cuda_solve(lode_stream *stream, const lode_solve_args *args, lode_error *error);
/* Gives the stream's handles back; called when it is freed, with its work done. */
void lode_cuda_blas_free(lode_cuda_stream *stream);

/* "cublas", "cusolver", "nvrtc" with versions, or why they are absent; asks nothing that is not loaded. */
void lode_cuda_linalg_describe(lode_cuda_device *device, lode_properties *out);
void lode_cuda_jit_describe(lode_cuda_device *device, lode_properties *out);

#endif
