/* A mutex: the one lock that core uses. Core starts no thread, but Lua states
 * on several threads share its process-wide tables. */
#ifndef LODE_MUTEX_H
#define LODE_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t lode_mutex;

#define LODE_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

static inline void lode_mutex_lock(lode_mutex *mutex) { pthread_mutex_lock(mutex); }
static inline void lode_mutex_unlock(lode_mutex *mutex) { pthread_mutex_unlock(mutex); }

#endif
