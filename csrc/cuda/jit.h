/* Programs compiled at run time, found by their structure.
 *
 * Process-wide and locked; finding one that is in memory takes no more than a hash
 * of the key. What is not in memory is looked for on disk, then compiled by NVRTC
 * on a thread of its own (its parser needs more stack than a coroutine or a thread
 * of the host may have). */
#ifndef LODE_CUDA_JIT_H
#define LODE_CUDA_JIT_H

#include "cuda.h"

/* What has to be compiled: asked for only where it must be. */
typedef struct lode_jit_request {
  const void *key; /* the structure: equal keys have equal text */
  size_t key_bytes;
  /* The text, a C string from malloc; NULL without memory. Its kernel is called "lode_program". */
  char *(*source)(const void *context);
  const void *context;
} lode_jit_request;

/* The kernel of `request` for the device, as lode.jit says: compiled now (wait); or NULL, which is OK, to
 * let the interpreter run the program, while it is compiled (background), for good (off), or because NVRTC
 * is not there. SYSTEM where the text does not compile; the log is traced. */
lode_status lode_jit_find(lode_cuda_device *device, const lode_jit_request *request, CUkernel *kernel,
                          lode_error *error);

#endif
