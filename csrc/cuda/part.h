/* The table of the CUDA part, cuda.so, which csrc/devices.c loads when a script
 * first asks for devices beyond the CPU. The part holds all of csrc/cuda and loads
 * the driver; NVRTC (nvrtc.so), and cuBLAS with cuSOLVER (cublas.so), are parts of
 * its own. */
#ifndef LODE_CUDA_PART_H
#define LODE_CUDA_PART_H

#include "../core/part.h"

typedef struct lode_cuda_part {
  lode_part_table part;
  /* The GPUs that the driver shows, at most `room`; they live as long as the process. No context
   * is made. UNAVAILABLE with the reason where there is none. */
  lode_status (*enumerate)(lode_device **devices, int room, int *count, lode_error *error);
} lode_cuda_part;

#endif
