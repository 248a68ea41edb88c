/* The table of the NVRTC part (nvrtc/), which the CUDA part loads to compile its first program. What is on
 * disk does without it: loading NVRTC takes longer than loading a program. */
#ifndef LODE_CUDA_NVRTC_H
#define LODE_CUDA_NVRTC_H

#include "../core/part.h"

/* Hold the promises on bits: no contraction, no subnormals flushed, divisions and square roots rounded
 * correctly. */
#define LODE_NVRTC_ALWAYS                                                                                      \
  "--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "-default-device"

typedef struct lode_nvrtc {
  lode_part_table part;
  int version; /* 1000 * major + 10 * minor, as CUDA_VERSION */
  int newest;  /* compute capability that it knows last */
  /* Compiles `source` for `capability`: a cubin, or PTX of the newest it knows for a newer device. Both out
   * texts are from malloc; *log is NULL where there is none. False: it does not compile, *log says why. */
  bool (*compile)(const char *source, int capability, char **binary, size_t *bytes, char **log);
} lode_nvrtc;

#endif
