/* The CPU device: what its files share, and its one way in.
 *
 *   device.c     the table of core/device.h, transfers, describe
 *   threads.c    the thread pool        pool.c      memory
 *   stream.c     streams and events     evaluator.c programs (tile.c, isa/)
 *   linalg.c     factor, solve, product (product.c; lapack/ is a part)
 *   fork.c       what a child process inherits */
#ifndef LODE_CPU_H
#define LODE_CPU_H

#include "../core/device.h"

/* The device of this process; always there. */
lode_device *lode_cpu_open(void);

/* For counters, from inside csrc/cpu. */
extern lode_device lode_cpu_device;

#endif
