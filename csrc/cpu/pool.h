/* The CPU device's memory: blocks in size classes, kept for reuse, because a
 * fresh page costs more than the arithmetic on it.
 *
 * All functions may be called from any thread. They implement the members of
 * core/device.h of the same names. */
#ifndef LODE_CPU_POOL_H
#define LODE_CPU_POOL_H

#include "../core/device.h"

lode_status lode_pool_alloc(lode_stream *stream, size_t bytes, void **block, lode_error *error);
void lode_pool_free(lode_device *device, void *block, size_t bytes, lode_event *const *after, int count);
void lode_pool_trim(lode_device *device);
void lode_pool_memory(lode_device *device, lode_memory *out);
void lode_pool_set_budget(lode_device *device, int64_t bytes);

/* fork.c */
void lode_pool_fork_prepare(void);
void lode_pool_fork_release(void); /* parent and child */

#endif
