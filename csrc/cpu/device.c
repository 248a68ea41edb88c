/* The CPU device's table, its transfers, and what it says of itself. */
#include <stdlib.h>
#include <string.h>

#include "../core/mutex.h"
#include "../core/system.h"
#include "copy.h"
#include "cpu.h"
#include "evaluator.h"
#include "fork.h"
#include "isa.h"
#include "linalg.h"
#include "pool.h"
#include "stream.h"
#include "threads.h"

enum {
  COPY_PIECE = 256 << 10,  /* what a thread copies at a time */
  COPY_ALONE = 2 << 20,    /* up to here one thread is as fast */
  STAGED_AT_MOST = 4 << 20 /* uploads behind other work up to this are buffered; larger ones wait */
};

/* ---- copies ------------------------------------------------------------- */

typedef struct copying {
  char *to;
  const char *from;
  size_t bytes;
} copying;

static void copy_piece(void *context, int64_t index, int worker) {
  (void)worker;
  const copying *copy = context;
  size_t start = (size_t)index * COPY_PIECE, left = copy->bytes - start;
  memcpy(copy->to + start, copy->from + start, left < COPY_PIECE ? left : COPY_PIECE);
}

void lode_copy(void *to, const void *from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  copying copy = {to, from, bytes};
  if (bytes <= COPY_ALONE) memcpy(to, from, bytes);
  else
    lode_threads_run(copy_piece, &copy, (int64_t)((bytes + COPY_PIECE - 1) / COPY_PIECE), lode_threads_count());
}

typedef struct transfer {
  void *to;
  const void *from;
  size_t bytes;
  void *staged; /* freed after the copy; NULL: none */
} transfer;

static lode_status run_transfer(const void *arguments, lode_error *error) {
  (void)error;
  const transfer *t = arguments;
  lode_copy(t->to, t->from, t->bytes);
  free(t->staged);
  return LODE_OK;
}

static lode_status copy_in(lode_stream *stream, void *block, const void *host, size_t bytes,
                           lode_error *error) {
  if (!lode_stream_idle(stream)) {
    transfer t = {block, NULL, bytes, bytes <= STAGED_AT_MOST ? malloc(bytes > 0 ? bytes : 1) : NULL};
    if (t.staged != NULL) {
      t.from = memcpy(t.staged, host, bytes);
      lode_status status = lode_stream_enqueue(stream, run_transfer, &t, sizeof t, error);
      if (status != LODE_OK) free(t.staged);
      return status;
    }
    LODE_TRY(lode_cpu_stream_sync(stream, error));
  }
  lode_copy(block, host, bytes);
  return LODE_OK;
}

static lode_status copy_out(lode_device *device, void *host, const void *block, size_t bytes, lode_event *after,
                            lode_error *error) {
  (void)device;
  bool waited;
  if (after != NULL) LODE_TRY(lode_cpu_event_wait(after, &waited, error));
  lode_copy(host, block, bytes);
  return LODE_OK;
}

static lode_status copy_within(lode_stream *stream, void *to, const void *from, size_t bytes,
                               lode_error *error) {
  transfer t = {to, from, bytes, NULL};
  return lode_stream_enqueue(stream, run_transfer, &t, sizeof t, error);
}

/* ---- programs ----------------------------------------------------------- */

typedef struct run_arguments {
  lode_program program;
  lode_args args;
} run_arguments;

_Static_assert(sizeof(run_arguments) <= LODE_JOB_BYTES, "a job holds a program and its arguments");

static lode_status run_program(const void *arguments, lode_error *error) {
  const run_arguments *run = arguments;
  return lode_evaluate(&run->program, &run->args, error);
}

static lode_status run(lode_stream *stream, const lode_program *program, const lode_args *args,
                       lode_error *error) {
  if (stream->is_inline) return lode_evaluate(program, args, error);
  run_arguments copy = {*program, *args};
  return lode_stream_enqueue(stream, run_program, &copy, sizeof copy, error);
}

/* ---- what it is --------------------------------------------------------- */

static void describe(lode_device *device, lode_properties *out) {
  (void)device;
  lode_text text;
  lode_properties_add(out, "processor", "%s", lode_processor_name(&text));
  lode_properties_add(out, "threads", "%d", lode_threads_count());
  lode_properties_add(out, "instructions", "%s", lode_isa_current()->name);
  lode_linalg_describe(out);
}

static void set_threads(lode_device *device, int count) {
  (void)device;
  lode_threads_set(count);
}

static int get_threads(lode_device *device) {
  (void)device;
  return lode_threads_count();
}

static const lode_device_api api = {
    .version = LODE_DEVICE_VERSION,
    .describe = describe,
    .alloc = lode_pool_alloc,
    .free = lode_pool_free,
    .trim = lode_pool_trim,
    .memory = lode_pool_memory,
    .set_budget = lode_pool_set_budget,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .run = run,
    .product = lode_linalg_product,
    .factor = lode_linalg_factor,
    .solve = lode_linalg_solve,
    .stream_new = lode_cpu_stream_new,
    .stream_free = lode_cpu_stream_free,
    .stream_sync = lode_cpu_stream_sync,
    .stream_wait = lode_cpu_stream_wait,
    .event_record = lode_cpu_event_record,
    .event_ready = lode_cpu_event_ready,
    .event_wait = lode_cpu_event_wait,
    .event_seconds = lode_cpu_event_seconds,
    .event_free = lode_cpu_event_free,
    .set_threads = set_threads,
    .get_threads = get_threads,
};

lode_device lode_cpu_device = {.api = &api, .name = "cpu"};

lode_device *lode_cpu_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, lode_fork_watch);
  return &lode_cpu_device;
}
