/* kernels/device.h's words for a C++ compiler: what the emulator compiles device code with.
 *
 * A block has one thread. The emulated driver starts a kernel by its exported
 * function, which takes the array of parameters that cuLaunchKernel is given and the
 * number of blocks, and runs one after the other. */
#ifndef LODE_SHIM_H
#define LODE_SHIM_H

#define LODE_SHIM 1

#include <stddef.h>
#include <stdint.h>

/* What device code uses of the C library: reading <math.h> would take most of the time of a compilation. */
extern "C" {
float fabsf(float), sqrtf(float), floorf(float), fmodf(float, float);
double fabs(double), sqrt(double), floor(double), fmod(double, double);
}

static thread_local struct { uint32_t block, blocks; } lode_shim_index;

#define LODE_KERNEL(name, parameters)                                                                          \
  static void name##_body(const parameters &p);                                                                \
  extern "C" __attribute__((visibility("default"))) void name(void **arguments, uint32_t blocks) {             \
    lode_shim_index.blocks = blocks;                                                                           \
    for (uint32_t i = 0; i < blocks; i++) {                                                                    \
      lode_shim_index.block = i;                                                                               \
      name##_body(*(const parameters *)arguments[0]);                                                          \
    }                                                                                                          \
  }                                                                                                            \
  static void name##_body(const parameters &p)
#define LODE_KERNEL_BOUNDED(name, parameters, threads, blocks) LODE_KERNEL(name, parameters)
#define LODE_DEVICE                                            static inline
#define LODE_APART                                             static inline
#define LODE_SHARED                                            static thread_local
#define LODE_SYNC()                                            ((void)0)
#define LODE_FENCE()                                           ((void)0)
#define LODE_THREAD                                            0u
#define LODE_THREADS                                           1u
#define LODE_BLOCK                                             lode_shim_index.block
#define LODE_BLOCKS                                            lode_shim_index.blocks
#define LODE_EACH_THREAD(t, threads)                           for (uint32_t t = 0; t < (threads); t++)

#endif
