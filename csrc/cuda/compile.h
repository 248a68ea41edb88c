/* The compile thread: sources in, kernels out, by way of the disk (core/cache.h) or
 * NVRTC. NVRTC's parser wants more than a megabyte of stack, which a coroutine or a
 * thread of the host may not have: so nothing is compiled on a caller's thread. */
#ifndef LODE_CUDA_COMPILE_H
#define LODE_CUDA_COMPILE_H

#include "cuda.h"

typedef struct lode_compile_job {
  struct lode_compile_job *next;
  lode_cuda_device *device;
  char *source; /* from malloc; the job's until it is done */
  /* What came of it, set before done() is called on the compile thread. UNAVAILABLE: it is not on disk, and
   * there is no NVRTC. */
  lode_status status;
  CUkernel kernel; /* of the function lode_program; its library stays loaded */
  lode_error error;
  void (*done)(struct lode_compile_job *job);
} lode_compile_job;

/* Hands the job to the thread; SYSTEM where none can be started. */
lode_status lode_compile_enqueue(lode_compile_job *job, lode_error *error);
/* "13.0", or why it is absent; loads nothing. */
void lode_compile_describe(lode_properties *out);

#endif
