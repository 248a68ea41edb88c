/* The words that device code is written with: types, kernels, threads.
 *
 * The same text is compiled by nvcc (kernels/), by NVRTC (as part of a program's
 * source), and by a C++ compiler for the specs that run without a GPU, where
 * spec/emulator/shim.h gives the same words other meanings: a block has one thread
 * there. So a kernel
 *
 *   - takes one parameter, a struct, by the name p;
 *   - walks with strides of LODE_THREADS and is right for any number of them (1 to 256) and of blocks; or is
 *     launched with as many of both as its text says, and has the work of one thread in LODE_EACH_THREAD;
 *   - meets its block's other threads in LODE_SYNC() alone, which all threads reach or none;
 *   - uses no atomics, no dynamic shared memory, no dim but x, and warp intrinsics only where the shim has a
 *     form of its own (templates.h's rows that are spread). */
#ifndef LODE_KERNELS_DEVICE_H
#define LODE_KERNELS_DEVICE_H

#ifndef LODE_SHIM

#ifdef __CUDACC_RTC__ /* there are no headers */
typedef unsigned char uint8_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN   (-2147483647 - 1)
#define INT32_MAX   2147483647
#define INT64_MIN   (-9223372036854775807LL - 1)
#define INT64_MAX   9223372036854775807LL
#define UINT64_C(x) x##ULL
#else
#include <stdint.h>
#endif

#define LODE_KERNEL(name, parameters)                                                                          \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ parameters p)
/* Blocks of at most `threads`, of which `blocks` are to find room for their registers on a multiprocessor; more
 * than it has threads for would be ignored (1024 with compute capability 7.5, later 1536 at least). */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define LODE_MULTIPROCESSOR_THREADS 1024
#else
#define LODE_MULTIPROCESSOR_THREADS 1536
#endif
#define LODE_KERNEL_BOUNDED(name, parameters, threads, blocks)                                                 \
  extern "C" __global__ void __launch_bounds__(threads, (blocks) * (threads) < LODE_MULTIPROCESSOR_THREADS     \
                                                            ? (blocks)                                         \
                                                            : LODE_MULTIPROCESSOR_THREADS / (threads))         \
      name(const __grid_constant__ parameters p)
#define LODE_DEVICE  static __device__ __forceinline__
#define LODE_APART   static __device__ __noinline__
#define LODE_SHARED  __shared__
#define LODE_SYNC()  __syncthreads()
#define LODE_FENCE() __threadfence_system()
#define LODE_THREAD  ((uint32_t)threadIdx.x)
#define LODE_THREADS ((uint32_t)blockDim.x)
#define LODE_BLOCK   ((uint32_t)blockIdx.x)
#define LODE_BLOCKS  ((uint32_t)gridDim.x)
/* Before a compound statement: it is done for each of the block's threads, t, by that thread. */
#define LODE_EACH_THREAD(t, threads) if (const uint32_t t = LODE_THREAD; true)

#endif

#endif
