/* What a child process inherits of the CPU device: a consistent one without
 * threads, which start again when they are needed. */
#ifndef LODE_CPU_FORK_H
#define LODE_CPU_FORK_H

void lode_fork_watch(void); /* once, when the device is opened */

#endif
