/* The CPU device: what its files share, and its one way in.
 *
 *   device.c     the table of core/device.h, transfers, describe
 *   threads.c    the thread pool          pool.c       memory
 *   stream.c     streams and events       fork.c       what a child inherits
 *   evaluator.c  passes of a program, over tiles: plan.c, tile.c
 *   reduction.c  those that end in reductions: accumulator.c, moment.c
 *   isa.c        the loops of isa/, built for each instruction set
 *   linalg.c     product (product.c), factor (structure.c), solve; lapack/ is a part */
#ifndef LODE_CPU_H
#define LODE_CPU_H

#include "../core/device.h"

/* The device of this process; always there. */
lode_device *lode_cpu_open(void);

/* For counters, from inside csrc/cpu. */
extern lode_device lode_cpu_device;

#endif
