/* See stream.h.
 *
 * An event holds no reference on its stream: it is a flag and the time at which
 * it was set. Those who wait for events share one condition variable, since
 * waiting is rare and a reached event with nobody waiting must cost nothing. */
#include "stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../core/mutex.h"
#include "../core/system.h"
#include "cpu.h"
#include "threads.h"

enum { QUEUE = 64, SPINS = 2000 /* some 20 us: less than a sleep costs */ };

typedef struct cpu_event {
  lode_event base;
  atomic_bool reached;
  int64_t time;       /* lode_clock() when it was reached; written before `reached`, as are: */
  lode_status failed; /* of the first job that failed between the event before it on the stream and it */
  lode_error error;
} cpu_event;

typedef struct job {
  lode_job *run;
  _Alignas(16) char arguments[LODE_JOB_BYTES];
} job;

typedef struct cpu_stream {
  lode_stream base;
  lode_mutex lock; /* guards all below */
  pthread_cond_t work, done;
  pthread_t thread;
  bool alive; /* `thread` exists */
  bool stop;
  lode_status failed; /* of the first job that failed since the last event */
  lode_error error;
  lode_status lost; /* of the first since the last sync that an event has taken */
  lode_error lost_error;
  atomic_int pending; /* jobs enqueued and not finished; written under the lock */
  unsigned head;      /* the oldest job, of `pending`; a job stays in its place while it runs */
  job *queue;         /* [QUEUE]; NULL for an inline stream */
  struct cpu_stream *next;
} cpu_stream;

static lode_mutex streams_lock = LODE_MUTEX_INIT;
static cpu_stream *streams; /* explicit ones */

static const pthread_cond_t fresh_condition = PTHREAD_COND_INITIALIZER;

/* ---- events ------------------------------------------------------------- */

static lode_mutex reach_lock = LODE_MUTEX_INIT;
static pthread_cond_t reach_condition = PTHREAD_COND_INITIALIZER;
static atomic_int reach_waiters;

/* Events that are kept for reuse. Who finds them busy goes to the system: so nobody waits here who holds
 * another lock, and a fork need not take it (a child that finds it busy for ever loses nothing but the reuse).
 */
enum { SPARE_EVENTS = 128 };

static struct {
  atomic_flag busy;
  int count;
  cpu_event *event[SPARE_EVENTS];
} spare = {.busy = ATOMIC_FLAG_INIT};

static cpu_event *event_new(void) {
  cpu_event *event = NULL;
  if (!atomic_flag_test_and_set_explicit(&spare.busy, memory_order_acquire)) {
    if (spare.count > 0) event = spare.event[--spare.count];
    atomic_flag_clear_explicit(&spare.busy, memory_order_release);
  }
  return event != NULL ? event : malloc(sizeof *event);
}

void lode_cpu_event_free(lode_event *event) {
  if (!atomic_flag_test_and_set_explicit(&spare.busy, memory_order_acquire)) {
    if (spare.count < SPARE_EVENTS) {
      spare.event[spare.count++] = (cpu_event *)event;
      event = NULL;
    }
    atomic_flag_clear_explicit(&spare.busy, memory_order_release);
  }
  free(event);
}

static void reach(cpu_event *event) {
  event->time = lode_clock();
  atomic_store(&event->reached, true);
  if (atomic_load(&reach_waiters) == 0) return;
  lode_mutex_lock(&reach_lock);
  pthread_cond_broadcast(&reach_condition);
  lode_mutex_unlock(&reach_lock);
}

bool lode_cpu_event_ready(lode_event *event) {
  return atomic_load_explicit(&((cpu_event *)event)->reached, memory_order_acquire);
}

static void block_until_reached(cpu_event *event) {
  for (int i = 0; i < SPINS; i++) {
    if (lode_cpu_event_ready(&event->base)) return;
    lode_cpu_relax();
  }
  lode_mutex_lock(&reach_lock);
  atomic_fetch_add(&reach_waiters, 1); /* before the last look: reach() looks the other way round */
  while (!atomic_load(&event->reached)) pthread_cond_wait(&reach_condition, &reach_lock);
  atomic_fetch_sub(&reach_waiters, 1);
  lode_mutex_unlock(&reach_lock);
}

lode_status lode_cpu_event_wait(lode_event *event, bool *waited, lode_error *error) {
  const cpu_event *own = (cpu_event *)event;
  *waited = !lode_cpu_event_ready(event);
  if (*waited) {
    lode_count(event->device, LODE_COUNT_waits);
    block_until_reached((cpu_event *)event);
  }
  return own->failed == LODE_OK ? LODE_OK : lode_fail(error, own->failed, "%s", own->error.text);
}

lode_status lode_cpu_event_seconds(lode_event *start, lode_event *end, double *seconds, lode_error *error) {
  if (!lode_cpu_event_ready(start) || !lode_cpu_event_ready(end))
    return lode_fail(error, LODE_INVALID, "an event has not been reached yet");
  *seconds = (double)(((cpu_event *)end)->time - ((cpu_event *)start)->time) * 1e-9;
  return LODE_OK;
}

typedef struct event_arguments {
  lode_event *event;  /* a reference */
  cpu_stream *stream; /* for run_record */
} event_arguments;

/* What failed on the stream since its last event is this one's, and a sync's. */
static void take_failure(cpu_stream *stream, cpu_event *event) {
  lode_mutex_lock(&stream->lock);
  event->failed = stream->failed;
  if (event->failed != LODE_OK) {
    event->error = stream->error;
    stream->failed = LODE_OK;
    if (stream->lost == LODE_OK) {
      stream->lost = event->failed;
      stream->lost_error = event->error;
    }
  }
  lode_mutex_unlock(&stream->lock);
}

static lode_status run_record(const void *arguments, lode_error *error) {
  (void)error;
  const event_arguments *own = arguments;
  take_failure(own->stream, (cpu_event *)own->event);
  reach((cpu_event *)own->event);
  lode_event_unref(own->event);
  return LODE_OK;
}

static lode_status run_wait(const void *arguments, lode_error *error) {
  (void)error;
  lode_event *event = ((const event_arguments *)arguments)->event;
  block_until_reached((cpu_event *)event);
  lode_event_unref(event);
  return LODE_OK;
}

lode_status lode_cpu_event_record(lode_stream *stream, bool timed, lode_event **out, lode_error *error) {
  (void)timed; /* all are: reading the clock costs nothing */
  cpu_event *event = event_new();
  if (event == NULL) return lode_fail(error, LODE_NOMEM, "no memory for an event");
  event->base.device = stream->device;
  event->base.stream = stream;
  atomic_init(&event->base.refs, 1);
  atomic_init(&event->reached, false);
  event->time = 0;
  event->failed = LODE_OK;
  if (lode_stream_idle(stream)) {
    if (!stream->is_inline) take_failure((cpu_stream *)stream, event);
    reach(event);
  } else {
    event_arguments arguments = {lode_event_ref(&event->base), (cpu_stream *)stream};
    lode_status status = lode_stream_enqueue(stream, run_record, &arguments, sizeof arguments, error);
    if (status != LODE_OK) {
      lode_cpu_event_free(&event->base);
      return status;
    }
  }
  *out = &event->base;
  return LODE_OK;
}

lode_status lode_cpu_stream_wait(lode_stream *stream, lode_event *event, lode_error *error) {
  bool waited;
  if (lode_cpu_event_ready(event)) return LODE_OK;
  if (stream->is_inline) return lode_cpu_event_wait(event, &waited, error);
  event_arguments arguments = {lode_event_ref(event), NULL};
  lode_status status = lode_stream_enqueue(stream, run_wait, &arguments, sizeof arguments, error);
  if (status != LODE_OK) lode_event_unref(event);
  return status;
}

/* ---- the worker of an explicit stream ----------------------------------- */

static void note_failure(cpu_stream *stream, lode_status status, const lode_error *error) {
  if (status == LODE_OK || stream->failed != LODE_OK) return;
  stream->failed = status;
  stream->error = *error;
}

static void *work(void *argument) {
  cpu_stream *stream = argument;
  lode_error error;
  lode_mutex_lock(&stream->lock);
  for (;;) {
    while (stream->pending == 0 && !stream->stop) pthread_cond_wait(&stream->work, &stream->lock);
    if (stream->pending == 0) break;
    job *oldest = &stream->queue[stream->head % QUEUE];
    lode_mutex_unlock(&stream->lock);
    lode_status status = oldest->run(oldest->arguments, &error);
    lode_mutex_lock(&stream->lock);
    note_failure(stream, status, &error);
    stream->head++;
    atomic_fetch_sub_explicit(&stream->pending, 1, memory_order_release);
    pthread_cond_broadcast(&stream->done);
  }
  lode_mutex_unlock(&stream->lock);
  return NULL;
}

/* Waits, with the lock held, until at most `most` jobs are pending; whether it had to. */
static bool await_pending(cpu_stream *stream, int most) {
  bool waited = stream->pending > most;
  while (stream->pending > most) pthread_cond_wait(&stream->done, &stream->lock);
  return waited;
}

lode_status lode_stream_enqueue(lode_stream *base, lode_job *run, const void *arguments, size_t bytes,
                                lode_error *error) {
  if (base->is_inline) return run(arguments, error);
  cpu_stream *stream = (cpu_stream *)base;
  lode_mutex_lock(&stream->lock);
  if (!stream->alive) stream->alive = lode_thread_start(&stream->thread, work, stream);
  if (!stream->alive) {
    lode_mutex_unlock(&stream->lock);
    return lode_fail(error, LODE_SYSTEM, "the system refuses a thread for a stream");
  }
  if (await_pending(stream, QUEUE - 1)) lode_count(base->device, LODE_COUNT_waits);
  job *next = &stream->queue[(stream->head + (unsigned)stream->pending) % QUEUE];
  next->run = run;
  memcpy(next->arguments, arguments, bytes);
  atomic_fetch_add_explicit(&stream->pending, 1, memory_order_relaxed);
  pthread_cond_signal(&stream->work);
  lode_mutex_unlock(&stream->lock);
  return LODE_OK;
}

bool lode_stream_idle(lode_stream *base) {
  return base->is_inline || atomic_load_explicit(&((cpu_stream *)base)->pending, memory_order_acquire) == 0;
}

/* ---- streams ------------------------------------------------------------ */

lode_status lode_cpu_stream_new(lode_device *device, bool is_inline, lode_stream **out, lode_error *error) {
  cpu_stream *stream = calloc(1, sizeof *stream);
  if (stream != NULL && !is_inline && (stream->queue = malloc(QUEUE * sizeof *stream->queue)) == NULL) {
    free(stream);
    stream = NULL;
  }
  if (stream == NULL) return lode_fail(error, LODE_NOMEM, "no memory for a stream");
  stream->base.device = device;
  stream->base.is_inline = is_inline;
  atomic_init(&stream->base.refs, 1);
  *out = &stream->base;
  if (is_inline) return LODE_OK;
  pthread_mutex_init(&stream->lock, NULL);
  stream->work = stream->done = fresh_condition;
  lode_mutex_lock(&streams_lock);
  stream->next = streams;
  streams = stream;
  lode_mutex_unlock(&streams_lock);
  return LODE_OK;
}

static void unlist(cpu_stream *stream) {
  lode_mutex_lock(&streams_lock);
  cpu_stream **link = &streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  lode_mutex_unlock(&streams_lock);
}

void lode_cpu_stream_free(lode_stream *base) {
  cpu_stream *stream = (cpu_stream *)base;
  if (!base->is_inline) {
    unlist(stream);
    lode_mutex_lock(&stream->lock);
    stream->stop = true;
    bool alive = stream->alive;
    pthread_cond_signal(&stream->work);
    lode_mutex_unlock(&stream->lock);
    if (alive) pthread_join(stream->thread, NULL); /* it finishes what is pending first */
    pthread_cond_destroy(&stream->work);
    pthread_cond_destroy(&stream->done);
    pthread_mutex_destroy(&stream->lock);
    free(stream->queue);
  }
  free(stream);
}

lode_status lode_cpu_stream_sync(lode_stream *base, lode_error *error) {
  if (base->is_inline) return LODE_OK;
  cpu_stream *stream = (cpu_stream *)base;
  bool waited = !lode_stream_idle(base);
  for (int i = 0; i < SPINS && !lode_stream_idle(base); i++) lode_cpu_relax();
  lode_mutex_lock(&stream->lock);
  await_pending(stream, 0);
  bool late = stream->failed != LODE_OK && stream->lost == LODE_OK;
  lode_status status = late ? stream->failed : stream->lost;
  if (status != LODE_OK) lode_fail(error, status, "%s", late ? stream->error.text : stream->lost_error.text);
  stream->lost = LODE_OK;
  lode_mutex_unlock(&stream->lock);
  if (waited) lode_count(base->device, LODE_COUNT_waits);
  return status;
}

/* ---- fork --------------------------------------------------------------- */

void lode_streams_fork_prepare(void) {
  lode_mutex_lock(&streams_lock);
  for (cpu_stream *stream = streams; stream != NULL; stream = stream->next) {
    lode_mutex_lock(&stream->lock);
    await_pending(stream, 0);
  }
  lode_mutex_lock(&reach_lock);
}

static void release(void) {
  lode_mutex_unlock(&reach_lock);
  for (cpu_stream *stream = streams; stream != NULL; stream = stream->next) lode_mutex_unlock(&stream->lock);
  lode_mutex_unlock(&streams_lock);
}

void lode_streams_fork_parent(void) { release(); }

/* The workers are not here; each stream starts a new one when it is given work. */
void lode_streams_fork_child(void) {
  for (cpu_stream *stream = streams; stream != NULL; stream = stream->next) {
    stream->alive = false;
    stream->work = stream->done = fresh_condition;
  }
  reach_condition = fresh_condition;
  atomic_store(&reach_waiters, 0);
  release();
}
