/* Streams and events of the CPU device.
 *
 * Work is a job: a function and a copy of its arguments. An inline stream does
 * it at once in the caller; an explicit one has a worker thread and a bounded
 * queue, and a caller that finds the queue full waits for room. The functions
 * named as members of core/device.h implement them. */
#ifndef LODE_CPU_STREAM_H
#define LODE_CPU_STREAM_H

#include "../core/device.h"

enum { LODE_JOB_BYTES = 5632 }; /* room for the arguments of the largest job: a program and its args */

typedef lode_status lode_job(const void *arguments, lode_error *error);

/* Does job(arguments), now or later; `bytes` are copied from `arguments` where it is later. What
 * a job answers later is returned by the next sync of the stream. */
lode_status lode_stream_enqueue(lode_stream *stream, lode_job *job, const void *arguments, size_t bytes,
                                lode_error *error);
/* Whether all work of the stream is done. Never waits. */
bool lode_stream_idle(lode_stream *stream);

lode_status lode_cpu_stream_new(lode_device *device, bool is_inline, lode_stream **out, lode_error *error);
void lode_cpu_stream_free(lode_stream *stream);
lode_status lode_cpu_stream_sync(lode_stream *stream, lode_error *error);
lode_status lode_cpu_stream_wait(lode_stream *stream, lode_event *event, lode_error *error);
lode_status lode_cpu_event_record(lode_stream *stream, bool timed, lode_event **out, lode_error *error);
bool lode_cpu_event_ready(lode_event *event);
lode_status lode_cpu_event_wait(lode_event *event, bool *waited, lode_error *error);
lode_status lode_cpu_event_seconds(lode_event *start, lode_event *end, double *seconds, lode_error *error);
void lode_cpu_event_free(lode_event *event);

/* fork.c. prepare waits until every explicit stream is idle, and keeps it so. */
void lode_streams_fork_prepare(void);
void lode_streams_fork_parent(void);
void lode_streams_fork_child(void);

#endif
