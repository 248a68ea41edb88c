/* Kernels built ahead of time (kernels/<file>.cu), and launching any kernel.
 *
 * Each file is one fatbin, embedded in the part and given to the driver by the
 * first launch of one of its kernels. Every kernel takes one parameter, a struct
 * that kernels/<file>.h declares for both sides. */
#ifndef LODE_CUDA_KERNELS_H
#define LODE_CUDA_KERNELS_H

#include "cuda.h"

/* X(file, name): kernel `name` of kernels/<file>.cu. */
#include "matrix_kernels.h"
#include "program_kernels.h"

typedef enum lode_kernel {
#define X(file, name) LODE_KERNEL_##name,
  LODE_PROGRAM_KERNEL_MAP(X) LODE_MATRIX_KERNEL_MAP(X)
#undef X
      LODE_NKERNELS
} lode_kernel;

enum { LODE_BLOCK_THREADS = 256 }; /* threads of a block, at most: kernels are compiled for it */

/* The kernel for the current context. */
lode_status lode_cuda_kernel(lode_kernel which, CUkernel *out, lode_error *error);

/* Starts `blocks` blocks (at least 1) of `threads` threads. `parameters` is the one struct. */
lode_status lode_cuda_launch(lode_stream *stream, CUkernel kernel, int64_t blocks, int threads,
                             const void *parameters, lode_error *error);
/* Both in one. */
lode_status lode_cuda_start(lode_stream *stream, lode_kernel which, int64_t blocks, int threads,
                            const void *parameters, lode_error *error);

/* Texts and binaries embedded by blobs.S. Texts end with a 0. */
extern const char lode_text_prelude[], lode_text_templates[], lode_text_random[], lode_text_elementary[];
extern const char lode_fatbin_programs[], lode_fatbin_matrix[];

#endif
