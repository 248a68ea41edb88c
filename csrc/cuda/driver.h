/* The NVIDIA driver's API (libcuda), loaded when a script first asks for a CUDA
 * device. lode calls the driver itself and not the CUDA runtime: contexts are
 * explicit, so a host's own are left alone, and nothing but the driver is needed
 * where programs run.
 *
 * A function is called as lode_cu.cuMemAllocAsync(...): cuda.h's macros give member
 * and symbol the same versioned name. */
#ifndef LODE_CUDA_DRIVER_H
#define LODE_CUDA_DRIVER_H

#include <cuda.h>

#include "../core/status.h"

#define LODE_DRIVER_MAP(X)                                                                                     \
  X(cuInit)                                                                                                    \
  X(cuDriverGetVersion)                                                                                        \
  X(cuGetErrorName)                                                                                            \
  X(cuGetErrorString)                                                                                          \
  X(cuDeviceGetCount)                                                                                          \
  X(cuDeviceGet)                                                                                               \
  X(cuDeviceGetName)                                                                                           \
  X(cuDeviceGetUuid)                                                                                           \
  X(cuDeviceGetAttribute)                                                                                      \
  X(cuDeviceTotalMem)                                                                                          \
  X(cuDevicePrimaryCtxRetain)                                                                                  \
  X(cuCtxGetCurrent)                                                                                           \
  X(cuCtxSetCurrent)                                                                                           \
  X(cuMemGetInfo)                                                                                              \
  X(cuMemAlloc)                                                                                                \
  X(cuMemFree)                                                                                                 \
  X(cuMemHostAlloc)                                                                                            \
  X(cuMemFreeHost)                                                                                             \
  X(cuMemHostGetDevicePointer)                                                                                 \
  X(cuMemPoolCreate)                                                                                           \
  X(cuMemPoolSetAttribute)                                                                                     \
  X(cuMemPoolGetAttribute)                                                                                     \
  X(cuMemPoolTrimTo)                                                                                           \
  X(cuMemAllocFromPoolAsync)                                                                                   \
  X(cuMemFreeAsync)                                                                                            \
  X(cuMemcpyHtoDAsync)                                                                                         \
  X(cuMemcpyDtoHAsync)                                                                                         \
  X(cuMemcpyDtoDAsync)                                                                                         \
  X(cuMemsetD8Async)                                                                                           \
  X(cuStreamCreate)                                                                                            \
  X(cuStreamDestroy)                                                                                           \
  X(cuStreamWaitEvent)                                                                                         \
  X(cuEventCreate)                                                                                             \
  X(cuEventDestroy)                                                                                            \
  X(cuEventRecord)                                                                                             \
  X(cuEventQuery)                                                                                              \
  X(cuEventSynchronize)                                                                                        \
  X(cuEventElapsedTime)                                                                                        \
  X(cuLibraryLoadData)                                                                                         \
  X(cuLibraryUnload)                                                                                           \
  X(cuLibraryGetKernel)                                                                                        \
  X(cuLaunchKernel)

typedef struct lode_driver {
#define X(name) __typeof__(name) *name;
  LODE_DRIVER_MAP(X)
#undef X
} lode_driver;

extern lode_driver lode_cu;

/* Loads libcuda and calls cuInit, once. UNAVAILABLE with the reason: no driver, too old, no device. */
lode_status lode_driver_load(lode_error *error);

/* Whether this process was forked from one that had loaded the driver: nothing of the driver works here. */
bool lode_driver_forked(void);
lode_status lode_driver_refuse_fork(lode_error *error); /* the error that says so */

/* `result` of the driver's function `what` as a status and a message: OUT_OF_MEMORY is NOMEM, the rest
 * SYSTEM. OK for CUDA_SUCCESS. */
lode_status lode_driver_check(CUresult result, const char *what, lode_error *error);

/* Calls a function of the driver and returns from the caller with a status if it fails. */
#define LODE_CU(error, name, ...) LODE_TRY(lode_driver_check(lode_cu.name(__VA_ARGS__), #name, error))

#endif
