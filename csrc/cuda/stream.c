/* Streams, events, and how the host waits.
 *
 * An event keeps its stream alive, so that memory can be freed in that stream's order
 * (memory.c). Events are recycled with the driver's event in them. The driver's kinds differ much: on an H200
 * recording one takes 0.1 microseconds, 1 if it can be timed, and 6 if a thread can sleep until
 * it is reached, which then takes 40 to be told. So the events of all work are of the first kind, which a wait
 * asks again and again; one that has asked for long goes to sleep on a stream and an event of its own, which
 * follow the event in question.
 *
 * Nobody waits for a stream that is given up: it is put aside with an event behind its work, and destroyed by a
 * later call that may wait, or finds it done. */
#include <stdlib.h>

#include "../core/system.h"
#include "cuda.h"

enum { ASKING = 2000000 /* nanoseconds that a wait asks before it sleeps, which costs 46 microseconds */ };

typedef struct cuda_event {
  lode_event base;
  CUevent handle;
  lode_stream *stream; /* a reference */
  bool timed;
  atomic_bool reached; /* known to be */
  struct cuda_event *next;
} cuda_event;

/* What a thread sleeps on. */
typedef struct sleeper {
  struct sleeper *next;
  CUstream stream;
  CUevent event;
} sleeper;

struct lode_cuda_events {
  lode_mutex lock;
  cuda_event *unused[2];       /* untimed, timed */
  sleeper *sleepers;           /* not in use */
  lode_cuda_stream *streams;   /* that somebody holds */
  lode_cuda_stream *abandoned; /* that nobody holds; `last` is recorded behind their work */
};

lode_status lode_cuda_events_open(lode_cuda_device *device, lode_error *error) {
  struct lode_cuda_events *events = calloc(1, sizeof *events);
  if (events == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for the streams of a device");
  pthread_mutex_init(&events->lock, NULL);
  device->events = events;
  return LODE_OK;
}

/* ---- waiting -------------------------------------------------------------- */

lode_status lode_cuda_event_handle_new(CUevent *out, lode_error *error) {
  LODE_CU(error, cuEventCreate, out, CU_EVENT_DISABLE_TIMING);
  return LODE_OK;
}

static void keep_sleeper(struct lode_cuda_events *events, sleeper *one) {
  lode_mutex_lock(&events->lock);
  one->next = events->sleepers;
  events->sleepers = one;
  lode_mutex_unlock(&events->lock);
}

/* NULL where none can be had. One that is incomplete is completed by the next that takes it. */
static sleeper *take_sleeper(struct lode_cuda_events *events) {
  lode_mutex_lock(&events->lock);
  sleeper *one = events->sleepers;
  if (one != NULL) events->sleepers = one->next;
  lode_mutex_unlock(&events->lock);
  if (one == NULL) one = calloc(1, sizeof *one);
  if (one == NULL) return NULL;
  bool complete =
      (one->stream != NULL || lode_cu.cuStreamCreate(&one->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) &&
      (one->event != NULL ||
       lode_cu.cuEventCreate(&one->event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  if (complete) return one;
  keep_sleeper(events, one);
  return NULL;
}

/* Without a sleeper the driver waits, busily. */
static CUresult sleep_until(lode_cuda_device *device, CUevent event) {
  sleeper *one = take_sleeper(device->events);
  if (one == NULL) return lode_cu.cuEventSynchronize(event);
  CUresult result = lode_cu.cuStreamWaitEvent(one->stream, event, CU_EVENT_WAIT_DEFAULT);
  if (result == CUDA_SUCCESS) result = lode_cu.cuEventRecord(one->event, one->stream);
  if (result == CUDA_SUCCESS) result = lode_cu.cuEventSynchronize(one->event);
  keep_sleeper(device->events, one);
  return result;
}

lode_status lode_cuda_await(lode_cuda_device *device, CUevent event, bool *waited, lode_error *error) {
  lode_status status = lode_cuda_await_uncounted(device, event, waited, error);
  if (*waited) lode_count(&device->base, LODE_COUNT_waits);
  return status;
}

lode_status lode_cuda_await_uncounted(lode_cuda_device *device, CUevent event, bool *waited,
                                      lode_error *error) {
  CUresult result = lode_cu.cuEventQuery(event);
  *waited = result == CUDA_ERROR_NOT_READY;
  if (*waited) {
    int64_t end = lode_clock() + ASKING;
    while (result == CUDA_ERROR_NOT_READY && lode_clock() < end) result = lode_cu.cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY) result = sleep_until(device, event);
  }
  return lode_driver_check(result, "waiting for the device", error);
}

/* ---- events ---------------------------------------------------------------- */

static lode_status make_event(lode_cuda_device *device, bool timed, cuda_event **out, lode_error *error) {
  cuda_event *event = calloc(1, sizeof *event);
  if (event == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for an event");
  event->base.device = &device->base;
  event->timed = timed;
  CUresult result = lode_cu.cuEventCreate(&event->handle, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) free(event);
  else *out = event;
  return lode_driver_check(result, "cuEventCreate", error);
}

static lode_status take_event(lode_cuda_device *device, bool timed, cuda_event **out, lode_error *error) {
  struct lode_cuda_events *events = device->events;
  lode_mutex_lock(&events->lock);
  cuda_event *event = events->unused[timed];
  if (event != NULL) events->unused[timed] = event->next;
  lode_mutex_unlock(&events->lock);
  *out = event;
  return event != NULL ? LODE_OK : make_event(device, timed, out, error);
}

static void keep_event(struct lode_cuda_events *events, cuda_event *event) {
  lode_mutex_lock(&events->lock);
  event->next = events->unused[event->timed];
  events->unused[event->timed] = event;
  lode_mutex_unlock(&events->lock);
}

lode_status lode_cuda_event_record(lode_stream *stream, bool timed, lode_event **out, lode_error *error) {
  lode_cuda_device *device = lode_cuda_home(stream);
  cuda_event *event;
  LODE_TRY(take_event(device, timed, &event, error));
  CUresult result = lode_cu.cuEventRecord(event->handle, lode_cuda_stream_of(stream)->handle);
  if (result != CUDA_SUCCESS) {
    keep_event(device->events, event);
    return lode_driver_check(result, "cuEventRecord", error);
  }
  event->base.stream = stream;
  event->stream = lode_stream_ref(stream);
  atomic_init(&event->base.refs, 1);
  atomic_init(&event->reached, false);
  *out = &event->base;
  return LODE_OK;
}

/* True also where the device has failed: who waits then is told. */
bool lode_cuda_event_ready(lode_event *base) {
  cuda_event *event = (cuda_event *)base;
  if (atomic_load_explicit(&event->reached, memory_order_acquire)) return true;
  CUresult result = lode_cu.cuEventQuery(event->handle);
  if (result == CUDA_SUCCESS) atomic_store_explicit(&event->reached, true, memory_order_release);
  return result != CUDA_ERROR_NOT_READY;
}

lode_status lode_cuda_event_wait(lode_event *base, bool *waited, lode_error *error) {
  cuda_event *event = (cuda_event *)base;
  *waited = false;
  if (atomic_load_explicit(&event->reached, memory_order_acquire)) return LODE_OK;
  LODE_TRY(lode_cuda_await(lode_cuda_device_of(base->device), event->handle, waited, error));
  atomic_store_explicit(&event->reached, true, memory_order_release);
  return LODE_OK;
}

lode_status lode_cuda_event_seconds(lode_event *start, lode_event *end, double *seconds, lode_error *error) {
  if (!lode_cuda_event_ready(start) || !lode_cuda_event_ready(end))
    return lode_fail(error, LODE_INVALID, "an event has not been reached yet");
  if (!((cuda_event *)start)->timed || !((cuda_event *)end)->timed)
    return lode_fail(error, LODE_INVALID, "an event was not recorded to be timed");
  float milliseconds;
  LODE_CU(error, cuEventElapsedTime, &milliseconds, ((cuda_event *)start)->handle, ((cuda_event *)end)->handle);
  *seconds = (double)milliseconds * 1e-3;
  return LODE_OK;
}

void lode_cuda_event_free(lode_event *base) {
  cuda_event *event = (cuda_event *)base;
  lode_stream *stream = event->stream;
  keep_event(lode_cuda_device_of(base->device)->events, event);
  lode_stream_unref(stream);
}

/* ---- streams ----------------------------------------------------------------- */

/* With its work done, or the device lost. What its front gives back must be seen by a synchronize, or trim
 * would not get it (memory.c). */
static void destroy(lode_cuda_stream *stream) {
  if (stream->blas != NULL) lode_cuda_blas_free(stream);
  if (stream->front != NULL) {
    lode_cuda_front_free(stream);
    lode_cu.cuEventRecord(stream->last, stream->handle);
    lode_cu.cuEventSynchronize(stream->last);
  }
  if (stream->last != NULL) lode_cu.cuEventDestroy(stream->last);
  for (int i = 0; i < LODE_RECENT; i++) free(stream->recent[i]);
  if (stream->handle != NULL) lode_cu.cuStreamDestroy(stream->handle);
  free(stream);
}

/* Destroys the abandoned streams whose work is done. */
static void sweep(struct lode_cuda_events *events) {
  lode_cuda_stream *done = NULL;
  lode_mutex_lock(&events->lock);
  for (lode_cuda_stream **link = &events->abandoned; *link != NULL;) {
    lode_cuda_stream *stream = *link;
    if (lode_cu.cuEventQuery(stream->last) == CUDA_ERROR_NOT_READY) {
      link = &stream->next;
      continue;
    }
    *link = stream->next;
    stream->next = done;
    done = stream;
  }
  lode_mutex_unlock(&events->lock);
  while (done != NULL) {
    lode_cuda_stream *stream = done;
    done = stream->next;
    destroy(stream);
  }
}

static lode_status make(lode_cuda_stream *stream, lode_error *error) {
  LODE_CU(error, cuStreamCreate, &stream->handle, CU_STREAM_NON_BLOCKING);
  LODE_TRY(lode_cuda_event_handle_new(&stream->last, error));
  return lode_cuda_front_new(stream, error);
}

lode_status lode_cuda_stream_new(lode_cuda_device *device, lode_stream **out, lode_error *error) {
  struct lode_cuda_events *events = device->events;
  sweep(events);
  lode_cuda_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a stream");
  stream->base.device = &device->base;
  atomic_init(&stream->base.refs, 1);
  lode_status status = make(stream, error);
  if (status != LODE_OK) {
    destroy(stream);
    return status;
  }
  lode_mutex_lock(&events->lock);
  stream->next = events->streams;
  events->streams = stream;
  lode_mutex_unlock(&events->lock);
  *out = &stream->base;
  return LODE_OK;
}

void lode_cuda_stream_free(lode_stream *base) {
  lode_cuda_stream *stream = lode_cuda_stream_of(base);
  struct lode_cuda_events *events = lode_cuda_home(base)->events;
  lode_cu.cuEventRecord(stream->last, stream->handle);
  lode_mutex_lock(&events->lock);
  lode_cuda_stream **link = &events->streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  stream->next = events->abandoned;
  events->abandoned = stream;
  lode_mutex_unlock(&events->lock);
}

lode_status lode_cuda_stream_sync(lode_stream *stream, lode_error *error) {
  lode_cuda_device *device = lode_cuda_home(stream);
  cuda_event *event;
  LODE_TRY(take_event(device, false, &event, error));
  CUresult result = lode_cu.cuEventRecord(event->handle, lode_cuda_stream_of(stream)->handle);
  bool waited;
  lode_status status = result == CUDA_SUCCESS ? lode_cuda_await(device, event->handle, &waited, error)
                                              : lode_driver_check(result, "cuEventRecord", error);
  keep_event(device->events, event);
  return status;
}

lode_status lode_cuda_stream_wait(lode_stream *stream, lode_event *base, lode_error *error) {
  cuda_event *event = (cuda_event *)base;
  if (event->stream == stream) return LODE_OK;
  return lode_cuda_event_order(base, lode_cuda_stream_of(stream)->handle, error);
}

lode_status lode_cuda_event_order(lode_event *base, CUstream stream, lode_error *error) {
  cuda_event *event = (cuda_event *)base;
  if (atomic_load_explicit(&event->reached, memory_order_acquire)) return LODE_OK;
  LODE_CU(error, cuStreamWaitEvent, stream, event->handle, CU_EVENT_WAIT_DEFAULT);
  return LODE_OK;
}

/* Records an event on every stream that somebody holds: a list. With the driver or the memory failing, streams
 * are left out. */
static cuda_event *mark_all(lode_cuda_device *device) {
  cuda_event *marks = NULL, *mark;
  struct lode_cuda_events *events = device->events;
  lode_mutex_lock(&events->lock);
  for (lode_cuda_stream *stream = events->streams; stream != NULL; stream = stream->next) {
    mark = events->unused[false];
    if (mark != NULL) events->unused[false] = mark->next;
    else if (make_event(device, false, &mark, NULL) != LODE_OK) break;
    lode_cu.cuEventRecord(mark->handle, stream->handle);
    mark->next = marks;
    marks = mark;
  }
  lode_mutex_unlock(&events->lock);
  return marks;
}

/* Nobody else knows of an abandoned stream once it is off the list: so it is waited for without the lock. */
static void drain_abandoned(lode_cuda_device *device) {
  struct lode_cuda_events *events = device->events;
  lode_mutex_lock(&events->lock);
  lode_cuda_stream *stream = events->abandoned;
  events->abandoned = NULL;
  lode_mutex_unlock(&events->lock);
  while (stream != NULL) {
    lode_cuda_stream *next = stream->next;
    bool waited;
    if (lode_cuda_await(device, stream->last, &waited, NULL) == LODE_OK)
      lode_cu.cuEventSynchronize(stream->last);
    destroy(stream);
    stream = next;
  }
}

/* The second synchronize returns at once, and is for the memory pool: it does not count asking. */
void lode_cuda_drain(lode_cuda_device *device) {
  cuda_event *marks = mark_all(device);
  while (marks != NULL) {
    cuda_event *mark = marks;
    bool waited;
    marks = mark->next;
    if (lode_cuda_await(device, mark->handle, &waited, NULL) == LODE_OK)
      lode_cu.cuEventSynchronize(mark->handle);
    keep_event(device->events, mark);
  }
  drain_abandoned(device);
}
