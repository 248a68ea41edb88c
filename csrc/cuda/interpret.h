/* Programs without a compiler, and reductions in pieces. */
#ifndef LODE_CUDA_INTERPRET_H
#define LODE_CUDA_INTERPRET_H

#include "../../kernels/programs.h"
#include "cuda.h"

/* Runs any program by kernels built ahead of time. */
lode_status lode_cuda_interpret(lode_stream *stream, const lode_program *program, const lode_args *args,
                                lode_error *error);

/* Stores elements [first, first + count) of a program of form NONE, counted over the whole space; rows, where
 * it gathers. */
typedef lode_status lode_cuda_store(lode_stream *stream, const lode_program *program, const lode_args *args,
                                    int64_t first, int64_t count, lode_error *error);
lode_cuda_store lode_cuda_interpret_store;

/* pieces.c: reductions of what `store` stores, one output after the other, each a piece at a time, so that the
 * workspace is bounded. */
lode_status lode_cuda_reduce_pieces(lode_stream *stream, const lode_program *program, const lode_args *args,
                                    lode_cuda_store *store, lode_error *error);

/* pieces.c: bytes of `count` partial results of each output; where each output's are, if they are in `memory`.
 */
size_t lode_cuda_partial_bytes(const lode_program *program, int64_t count, char *memory,
                               char *partial[LODE_MAX_OUTPUTS]);

/* pieces.c: combines each output's partial[kept, groups, columns] and stores the results. */
lode_status lode_cuda_combine(lode_stream *stream, const lode_program *program, const lode_args *args,
                              char *const partial[LODE_MAX_OUTPUTS], int64_t groups, lode_error *error);

#endif
