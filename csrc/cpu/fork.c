/* See fork.h. The locks are taken in the order in which they nest anywhere:
 * streams (idle from then on), linear algebra, evaluator, threads, memory. */
#include "fork.h"

#include <pthread.h>

#include "evaluator.h"
#include "linalg.h"
#include "pool.h"
#include "stream.h"
#include "threads.h"

/* How many of our registrations this fork has called; the first one prepares, the last one lets go. Two
 * threads may fork at once. */
static _Thread_local int called;

static void prepare(void) {
  if (called++ > 0) return;
  lode_streams_fork_prepare();
  lode_linalg_fork_prepare();
  lode_evaluator_fork_prepare();
  lode_threads_fork_prepare();
  lode_pool_fork_prepare();
}

static void parent(void) {
  if (--called > 0) return;
  lode_pool_fork_release();
  lode_threads_fork_parent();
  lode_evaluator_fork_release();
  lode_linalg_fork_release();
  lode_streams_fork_parent();
}

static void child(void) {
  if (--called > 0) return;
  lode_pool_fork_release();
  lode_threads_fork_child();
  lode_evaluator_fork_release();
  lode_linalg_fork_release();
  lode_streams_fork_child();
}

void lode_fork_watch(void) { pthread_atfork(prepare, parent, child); }
