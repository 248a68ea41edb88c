/* The CPU device's own threads, for work that is one loop over tasks.
 *
 * One pool for the process, started by the first loop that wants it. It runs
 * one loop at a time, and whoever starts the loop takes part; a caller that
 * finds the pool busy runs its loop alone. Not OpenMP: a plug-in must survive
 * fork, and must share its process with any other runtime. */
#ifndef LODE_CPU_THREADS_H
#define LODE_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

enum { LODE_MAX_THREADS = 256 };

/* Task `index` of a loop. `worker` is below the `workers` that the loop was started with, and no
 * two tasks that run at the same time see the same one; the caller is 0. */
typedef void lode_task(void *context, int64_t index, int worker);

/* Runs tasks 0..count with at most `workers` threads, the caller among them; returns when all are
 * done. Tasks are claimed in order. */
void lode_threads_run(lode_task *task, void *context, int64_t count, int workers);

/* Threads that a loop may use: the least of the processors of this process, LODE_NUM_THREADS and
 * what was set (0: no wish). */
int lode_threads_count(void);
void lode_threads_set(int count);

/* Before a loop over `work` nanoseconds, too few to wake threads for: whether others take part at once, as
 * they spin after the last loop, or such loops follow one another so closely that waking them pays. */
bool lode_threads_ready(int64_t work);

/* A helper thread with all signals blocked, so that the host's handlers never run in it. Joinable
 * into `thread` (a pthread_t) when that is not NULL, else detached. */
bool lode_thread_start(void *thread, void *(*body)(void *), void *argument);

void lode_cpu_relax(void); /* one turn of a spinning loop */

/* fork.c: around a fork, in the parent before, in the parent after, in the child. */
void lode_threads_fork_prepare(void);
void lode_threads_fork_parent(void);
void lode_threads_fork_child(void);

#endif
