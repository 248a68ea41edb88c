/* See threads.h.
 *
 * A loop is announced by a sequence number. A worker that sees it change enters
 * (counts itself into `inside`), looks whether the loop is still open, claims
 * tasks by an atomic counter until none is left, and leaves. The caller does the
 * same, then closes the loop and waits for those inside: never for a thread that
 * still sleeps. Entering and closing are sequentially consistent, so that either
 * the worker sees the loop closed or the caller sees the worker inside.
 *
 * Workers spin for a short time after a loop, since the next one often follows
 * at once, then park on a condition variable: waking a parked thread takes tens
 * of microseconds, a spinning one starts within one. Left alone, the kernel wakes
 * it on the caller's processor, where the two take turns: measured, loops of up to
 * 0.8 ms then gain nothing. So before workers are woken they are kept off the
 * processor that the caller is on. */
#define _GNU_SOURCE
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../core/control.h"
#include "../core/mutex.h"
#include "../core/system.h"

enum { SPIN_NANOSECONDS = 30000, SPINS_PER_LOOK = 32, SPINS_BEFORE_YIELD = 1000, WAKE_TURNS = 16 };

/* What is written by one side and read by others sits in its own cache line. */
#define LINE _Alignas(64)

static struct {
  LINE atomic_bool busy;     /* a caller owns the fields of the loop */
  LINE atomic_uint sequence; /* changes when a loop is announced */
  LINE atomic_bool open;     /* tasks may be claimed */
  LINE atomic_int inside;    /* workers that may look at the loop */
  LINE _Atomic int64_t next; /* task to claim */
  LINE lode_task *task;      /* the loop: written while it is closed and nobody is inside */
  void *context;
  int64_t count;
  int workers;

  LINE lode_mutex lock; /* guards all below */
  pthread_cond_t wake;
  atomic_int parked;
  atomic_int started; /* workers that exist: 1..started */
  int excluded;       /* the processor that workers are kept off; -1: none */
  pthread_t thread[LODE_MAX_THREADS];
} pool = {.lock = LODE_MUTEX_INIT, .wake = PTHREAD_COND_INITIALIZER, .excluded = -1};

static atomic_int wished;  /* by lode_threads_set */
static atomic_int allowed; /* processors and environment; 0: not looked at yet */

void lode_cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

int lode_threads_count(void) {
  int limit = atomic_load_explicit(&allowed, memory_order_relaxed);
  if (limit == 0) {
    limit = lode_processors();
    const char *text = lode_environment("LODE_NUM_THREADS");
    long number = text != NULL ? strtol(text, NULL, 10) : 0;
    if (number > 0 && number < limit) limit = (int)number;
    if (limit > LODE_MAX_THREADS) limit = LODE_MAX_THREADS;
    atomic_store_explicit(&allowed, limit, memory_order_relaxed);
  }
  int wish = atomic_load_explicit(&wished, memory_order_relaxed);
  return wish > 0 && wish < limit ? wish : limit;
}

/* Loops that would have found the workers still spinning, had there been one before: one in WAKE_TURNS wakes
 * them, so that where they park again at once (other processes want the processors) little is lost. */
bool lode_threads_ready(int64_t work) {
  static _Atomic int64_t expected_end;
  static atomic_int turns;
  int64_t now = lode_clock();
  bool close = now - atomic_load_explicit(&expected_end, memory_order_relaxed) < SPIN_NANOSECONDS;
  atomic_store_explicit(&expected_end, now + work, memory_order_relaxed);
  if (atomic_load_explicit(&pool.started, memory_order_relaxed) > 0 &&
      atomic_load_explicit(&pool.parked, memory_order_relaxed) == 0)
    return true;
  if (!close) atomic_store_explicit(&turns, 0, memory_order_relaxed);
  else if (atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) + 1 >= WAKE_TURNS) {
    atomic_store_explicit(&turns, 0, memory_order_relaxed);
    return true;
  }
  return false;
}

void lode_threads_set(int count) { atomic_store_explicit(&wished, count, memory_order_relaxed); }

bool lode_thread_start(void *thread, void *(*body)(void *), void *argument) {
  pthread_t made;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool ok = pthread_create(&made, NULL, body, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!ok) return false;
  if (thread != NULL) *(pthread_t *)thread = made;
  else pthread_detach(made);
  return true;
}

/* ---- workers ------------------------------------------------------------ */

static void claim(int worker) {
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
    if (index >= pool.count) return;
    pool.task(pool.context, index, worker);
  }
}

/* Returns a sequence number that is not `seen`. */
static unsigned await(unsigned seen) {
  int64_t start = 0;
  for (int spins = 0;; spins++) {
    unsigned now = atomic_load_explicit(&pool.sequence, memory_order_acquire);
    if (now != seen) return now;
    lode_cpu_relax();
    if (spins % SPINS_PER_LOOK != 0) continue;
    int64_t time = lode_clock();
    if (start == 0) start = time;
    if (time - start > SPIN_NANOSECONDS) break;
  }
  lode_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.parked, 1); /* before the last look: the announcer looks the other way round */
  unsigned now;
  while ((now = atomic_load(&pool.sequence)) == seen) pthread_cond_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.parked, 1);
  lode_mutex_unlock(&pool.lock);
  return now;
}

static void *work(void *argument) {
  int worker = (int)(intptr_t)argument;
  lode_control_enter(); /* for good: nothing else runs in this thread */
  unsigned seen = 0;
  for (;;) {
    seen = await(seen);
    atomic_fetch_add(&pool.inside, 1);
    if (atomic_load(&pool.open) && worker < pool.workers) claim(worker);
    atomic_fetch_sub(&pool.inside, 1);
  }
  return NULL;
}

static void start_workers(int count) {
  if (atomic_load_explicit(&pool.started, memory_order_relaxed) >= count) return;
  lode_mutex_lock(&pool.lock);
  int started = atomic_load_explicit(&pool.started, memory_order_relaxed);
  while (started < count && lode_thread_start(&pool.thread[started], work, (void *)(intptr_t)(started + 1))) {
    pthread_detach(pool.thread[started++]);
    pool.excluded = -1; /* the new one does not know */
  }
  atomic_store_explicit(&pool.started, started, memory_order_relaxed);
  lode_mutex_unlock(&pool.lock);
}

/* ---- loops -------------------------------------------------------------- */

/* Keeps the workers off the caller's processor; the lock is held. */
static void exclude_own_processor(void) {
  int processor = sched_getcpu();
  cpu_set_t set;
  if (processor < 0 || processor >= CPU_SETSIZE || processor == pool.excluded) return;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  CPU_CLR(processor, &set);
  if (CPU_COUNT(&set) == 0) return; /* the host has bound this thread: its workers have nowhere else to go */
  for (int i = 0; i < atomic_load_explicit(&pool.started, memory_order_relaxed); i++)
    pthread_setaffinity_np(pool.thread[i], sizeof set, &set);
  pool.excluded = processor;
}

static void announce(void) {
  atomic_store(&pool.open, true);
  atomic_fetch_add(&pool.sequence, 1);
  if (atomic_load(&pool.parked) == 0) return;
  lode_mutex_lock(&pool.lock);
  exclude_own_processor();
  pthread_cond_broadcast(&pool.wake);
  lode_mutex_unlock(&pool.lock);
}

/* Waits for the workers that are at their last task. On a machine with more threads than processors
 * one of them may not be running, and needs this one's processor. */
static void leave(void) {
  for (int spins = 0; atomic_load(&pool.inside) != 0; spins++) {
    if (spins < SPINS_BEFORE_YIELD) lode_cpu_relax();
    else sched_yield();
  }
}

void lode_threads_run(lode_task *task, void *context, int64_t count, int workers) {
  if (workers <= 1 || count <= 1 || atomic_exchange_explicit(&pool.busy, true, memory_order_acquire)) {
    for (int64_t i = 0; i < count; i++) task(context, i, 0);
    return;
  }
  start_workers(workers - 1);
  pool.task = task;
  pool.context = context;
  pool.count = count;
  pool.workers = workers;
  atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
  announce();
  claim(0);
  atomic_store(&pool.open, false);
  leave();
  atomic_store_explicit(&pool.busy, false, memory_order_release);
}

/* ---- fork --------------------------------------------------------------- */

void lode_threads_fork_prepare(void) { lode_mutex_lock(&pool.lock); }

void lode_threads_fork_parent(void) { lode_mutex_unlock(&pool.lock); }

/* The workers are not here. A loop of another thread may have been running; that thread is not
 * here either. */
void lode_threads_fork_child(void) {
  static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
  pool.wake = fresh;
  atomic_store(&pool.started, 0);
  pool.excluded = -1;
  atomic_store(&pool.parked, 0);
  atomic_store(&pool.inside, 0);
  atomic_store(&pool.open, false);
  atomic_store(&pool.busy, false);
  atomic_store(&allowed, 0);
  lode_mutex_unlock(&pool.lock);
}
