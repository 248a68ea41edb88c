/* The programs that a stream ran lately, with their layouts and kernels: the same pass over other memory, or
 * with other scalars, goes from there to its launch. To lay out a small program and find its kernel takes
 * longer than to see that it is one of these. A stream is driven by one thread at a time, so there is no lock.
 */
#ifndef LODE_CUDA_RECENT_H
#define LODE_CUDA_RECENT_H

#include "cuda.h"
#include "layout.h"

typedef struct lode_recent {
  lode_layout layout; /* of the program and the arguments below, or of what was found last */
  CUkernel kernel;
  lode_program program;
  lode_args args;
} lode_recent;

/* The one that runs the program with these arguments: its layout has their addresses and scalars. Or NULL. */
lode_recent *lode_recent_find(lode_stream *stream, const lode_program *program, const lode_args *args);
/* Remembers the layout of a whole program, and its kernel. Where there is no host memory, nothing. */
void lode_recent_note(lode_stream *stream, const lode_layout *layout, CUkernel kernel);

#endif
