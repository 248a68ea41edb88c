/* What a child process inherits of the CPU device: a consistent one without
 * threads, which start again when they are needed. */
#ifndef LODE_CPU_FORK_H
#define LODE_CPU_FORK_H

/* Registers for fork: when the device is opened, and again when a library has been loaded that
 * registers too. The latest registration is called first, and work in that library must have
 * ended before it is told of the fork (OpenBLAS ends its threads there). */
void lode_fork_watch(void);

#endif
