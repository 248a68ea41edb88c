/* The table of the NVRTC part (nvrtc/), which the CUDA part loads to compile its first program. */
#ifndef LODE_CUDA_NVRTC_H
#define LODE_CUDA_NVRTC_H

#include "../core/part.h"

typedef struct lode_nvrtc {
  lode_part_table part;
  int version; /* 1000 * major + 10 * minor, as CUDA_VERSION */
  int newest;  /* compute capability that it knows last */
  /* What `source` is compiled with for a device, one option a line, from malloc: a part of the key of what
   * comes of it. */
  char *(*options)(int capability);
  /* Compiles `source` for `capability`: a cubin, or PTX of the newest it knows for a newer device. Both out
   * texts are from malloc; *log is NULL where there is none. False: it does not compile, *log says why. */
  bool (*compile)(const char *source, int capability, char **binary, size_t *bytes, char **log);
} lode_nvrtc;

#endif
