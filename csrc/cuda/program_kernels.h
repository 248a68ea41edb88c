/* The kernels of kernels/programs.cu. */
#ifndef LODE_CUDA_PROGRAM_KERNELS_H
#define LODE_CUDA_PROGRAM_KERNELS_H

#define LODE_PROGRAM_KERNEL_MAP(X)                                                                             \
  X(programs, interpret)                                                                                       \
  X(programs, reduce)                                                                                          \
  X(programs, combine)

#endif
