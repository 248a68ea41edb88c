/* Reductions in pieces: some of the space is stored, dense, in a workspace, reduced
 * there by kernels/programs.cu, and so on. Pieces are whole sequences, or of one
 * sequence whole groups of chunks, so that the order of core/reduce.h holds: groups give
 * partial results, which are combined at the end. */
#include <string.h>

#include "../core/reduce.h"
#include "interpret.h"
#include "kernels.h"
#include "layout.h"

enum { PIECE_BYTES = 32 << 20 };

/* One reduction, or some columns of it. */
typedef struct reduction {
  lode_stream *stream;
  const lode_program *program; /* as it is reduced */
  const lode_args *args;       /* of all columns of this part */
  lode_cuda_store *store;
  lode_program stored; /* the same without the reduction */
  lode_args stored_args;
  int64_t kept, each;        /* products of extents */
  int64_t sequence, columns; /* elements of a sequence; sequences side by side */
  lode_cut cut;
  int64_t span;  /* elements of a group */
  int64_t most;  /* elements of a piece */
  char *piece;   /* [most] elements, and a row more on both sides */
  char *first;   /* [columns]: where a sequence is cut, its first elements, and a row more on both sides */
  char *partial; /* [kept, groups, columns]; NULL: one group */
  size_t size, piece_bytes, first_bytes, partial_bytes;
} reduction;

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

static lode_result result_of(const lode_program *program, const lode_args *args, int o) {
  const lode_access *access = &args->out[o];
  lode_result out = {.inner = program->form == LODE_REDUCE_INNER ? 0 : access->inner,
                     .ndims = args->nouter - args->nreduced};
  out.base = access->base + access->offset * (int64_t)lode_dtype_size(lode_output_dtype(program, o));
  memcpy(out.extent, args->outer, (size_t)out.ndims * sizeof out.extent[0]);
  memcpy(out.stride, access->stride, (size_t)out.ndims * sizeof out.stride[0]);
  return out;
}

/* Bytes of a partial result. */
static size_t partial_size(const lode_program *program, int o) {
  return lode_dtype_size(lode_output_dtype(program, o)) * (size_t)lode_partial_size(program->reduction[o]);
}

size_t lode_cuda_partial_bytes(const lode_program *program, int64_t count, char *memory,
                               char *partial[LODE_MAX_OUTPUTS]) {
  size_t bytes = 0;
  for (int o = 0; o < program->noutputs; o++) {
    partial[o] = memory != NULL ? memory + bytes : NULL;
    bytes += ((size_t)count * partial_size(program, o) + 255) / 256 * 256;
  }
  return bytes;
}

static void count_extents(const lode_args *args, int64_t *kept, int64_t *each) {
  *kept = *each = 1;
  for (int d = 0; d < args->nouter; d++) *(d < args->nouter - args->nreduced ? kept : each) *= args->outer[d];
}

/* Groups of all outputs that a block has at a time. */
static int64_t span_of(const lode_program *program, int64_t columns) {
  size_t most = 1;
  for (int o = 0; o < program->noutputs; o++)
    if (partial_size(program, o) > most) most = partial_size(program, o);
  int64_t least = LODE_COMBINE_BYTES / (int64_t)most / (columns > 1 ? LODE_COMBINE_COLUMNS : 1), runs = 1;
  while (2 * runs <= least && runs < LODE_COMBINE_RUNS) runs *= 2;
  return runs * LODE_COMBINE_RUN;
}

/* A pass leaves a result of `span` groups, until one is left of each sequence. */
lode_status lode_cuda_combine(lode_stream *stream, const lode_program *program, const lode_args *args,
                              char *const partial[LODE_MAX_OUTPUTS], int64_t groups, lode_error *error) {
  int64_t kept, each, columns = program->form == LODE_REDUCE_INNER ? 1 : args->inner;
  count_extents(args, &kept, &each);
  int64_t tiles = ceiling(columns, LODE_COMBINE_COLUMNS), span = span_of(program, columns);
  char *other[LODE_MAX_OUTPUTS];
  int64_t results = groups > span ? kept * ceiling(groups, span) * columns : 0;
  size_t bytes = lode_cuda_partial_bytes(program, results, NULL, other);
  void *memory;
  LODE_TRY(lode_cuda_take(stream, bytes, &memory, error));
  lode_cuda_partial_bytes(program, results, memory, other);
  lode_combine_parameters p = {.kept = kept, .columns = columns, .span = span, .noutputs = program->noutputs};
  for (int o = 0; o < program->noutputs; o++)
    p.output[o] = (lode_combine_output){.from = partial[o],
                                        .to = other[o],
                                        .dtype = lode_output_dtype(program, o),
                                        .reduction = program->reduction[o],
                                        .out = result_of(program, args, o)};
  lode_status status = LODE_OK;
  for (int64_t left; groups > 1 && status == LODE_OK; groups = left) {
    left = ceiling(groups, span);
    p.groups = groups;
    status = lode_cuda_start(stream, LODE_KERNEL_combine, kept * tiles * left * p.noutputs, LODE_BLOCK_THREADS,
                             &p, error);
    for (int o = 0; o < p.noutputs; o++) {
      char *from = p.output[o].from;
      p.output[o].from = p.output[o].to;
      p.output[o].to = from;
    }
  }
  lode_cuda_give(stream, memory, bytes);
  return status;
}

/* ---- pieces --------------------------------------------------------------------- */

/* Stores elements [from, to) of the space in `memory`; whole rows of a program by rows. Element `from` is then
 * at *x. */
static lode_status store_piece(reduction *r, char *memory, int64_t from, int64_t to, const char **x,
                               lode_error *error) {
  int64_t inner = r->args->inner, each = r->stored.rows ? inner : 1, first = from / each;
  lode_access *out = &r->stored_args.out[0];
  int64_t stride = inner;
  memset(out, 0, sizeof *out);
  out->base = memory;
  out->offset = -first * each;
  out->inner = 1;
  for (int d = r->args->nouter - 1; d >= 0; stride *= r->args->outer[d--]) out->stride[d] = stride;
  *x = memory + (from - first * each) * (int64_t)r->size;
  return r->store(r->stream, &r->stored, &r->stored_args, first, ceiling(to, each) - first, error);
}

/* Reduces dense sequences at x, of which the first elements are at `first`: `kept` of them from kept index k
 * on, elements [from, from + length). */
static lode_status reduce_piece(const reduction *r, const char *x, const char *first, int64_t k, int64_t kept,
                                int64_t from, int64_t length, lode_error *error) {
  lode_reduce_parameters p = {.x = x,
                              .first = first,
                              .first_stride = length * r->columns,
                              .partial = r->partial,
                              .first_kept = k,
                              .kept = kept,
                              .columns = r->columns,
                              .length = length,
                              .before = from / r->span,
                              .groups = ceiling(length, r->span),
                              .all = r->cut.groups,
                              .dtype = lode_output_dtype(r->program, 0),
                              .reduction = r->program->reduction[0],
                              .C = r->cut.C,
                              .group = r->cut.group,
                              .out = result_of(r->program, r->args, 0)};
  int64_t units = kept * ceiling(r->columns, p.C) * p.groups << p.group;
  return lode_cuda_start(r->stream, LODE_KERNEL_reduce, ceiling(units * p.C, LODE_REDUCE_LANES),
                         LODE_BLOCK_THREADS, &p, error);
}

/* Several whole sequences at a time. */
static lode_status whole_sequences(reduction *r, lode_error *error) {
  int64_t elements = r->sequence * r->columns, most = r->most / elements;
  for (int64_t k = 0; k < r->kept; k += most) {
    int64_t kept = r->kept - k < most ? r->kept - k : most;
    const char *x;
    LODE_TRY(store_piece(r, r->piece, k * elements, (k + kept) * elements, &x, error));
    LODE_TRY(reduce_piece(r, x, x, k, kept, 0, r->sequence, error));
  }
  return LODE_OK;
}

/* Several groups of one sequence at a time. */
static lode_status parts_of_sequences(reduction *r, lode_error *error) {
  int64_t most = r->most / (r->span * r->columns) * r->span;
  for (int64_t k = 0; k < r->kept; k++) {
    int64_t start = k * r->sequence * r->columns;
    const char *first;
    LODE_TRY(store_piece(r, r->first, start, start + r->columns, &first, error));
    for (int64_t from = 0; from < r->sequence; from += most) {
      int64_t length = r->sequence - from < most ? r->sequence - from : most;
      const char *x;
      LODE_TRY(
          store_piece(r, r->piece, start + from * r->columns, start + (from + length) * r->columns, &x, error));
      LODE_TRY(reduce_piece(r, x, first, k, 1, from, length, error));
    }
  }
  return LODE_OK;
}

/* ---- one part -------------------------------------------------------------------- */

static void describe(reduction *r) {
  bool inner = r->program->form == LODE_REDUCE_INNER;
  count_extents(r->args, &r->kept, &r->each);
  r->columns = inner ? 1 : r->args->inner;
  r->sequence = inner ? r->each * r->args->inner : r->each;
  r->size = lode_dtype_size(lode_output_dtype(r->program, 0));
  r->cut = lode_layout_cut(r->columns, r->sequence);
  r->span = (int64_t)LODE_REDUCE_CHUNK << r->cut.group;
  r->most = PIECE_BYTES / (int64_t)r->size;
  int64_t all = r->kept * r->sequence * r->columns;
  if (r->most > all) r->most = all;
  r->piece_bytes = (size_t)(r->most + 2 * r->args->inner * r->stored.rows) * r->size;
  r->first_bytes = (size_t)(r->columns + 2 * r->args->inner * r->stored.rows) * r->size;
  r->partial_bytes =
      r->cut.groups > 1 ? (size_t)(r->kept * r->cut.groups * r->columns) * partial_size(r->program, 0) : 0;
  r->stored_args = *r->args;
  r->stored_args.nreduced = 0;
}

static lode_status run_in_memory(reduction *r, lode_error *error) {
  if (r->sequence * r->columns <= r->most) LODE_TRY(whole_sequences(r, error));
  else LODE_TRY(parts_of_sequences(r, error));
  if (r->cut.groups == 1) return LODE_OK;
  char *const partial[LODE_MAX_OUTPUTS] = {r->partial};
  return lode_cuda_combine(r->stream, r->program, r->args, partial, r->cut.groups, error);
}

static lode_status run_part(reduction *r, lode_error *error) {
  void *memory;
  describe(r);
  size_t piece = (r->piece_bytes + 255) / 256 * 256, first = (r->first_bytes + 255) / 256 * 256;
  size_t bytes = piece + first + r->partial_bytes;
  LODE_TRY(lode_cuda_take(r->stream, bytes, &memory, error));
  r->piece = memory;
  r->first = r->piece + piece;
  r->partial = r->partial_bytes > 0 ? r->first + first : NULL;
  lode_status status = run_in_memory(r, error);
  lode_cuda_give(r->stream, memory, bytes);
  return status;
}

/* Columns [from, from + count) of a program not by rows. */
static lode_args columns_of(const lode_args *args, int naccesses, int64_t from, int64_t count) {
  lode_args part = *args;
  part.inner = count;
  for (int a = 0; a < naccesses; a++) part.access[a].offset += part.access[a].inner * from;
  part.out[0].offset += part.out[0].inner * from;
  return part;
}

static lode_status reduce_one(lode_stream *stream, const lode_program *program, const lode_args *args,
                              lode_cuda_store *store, lode_error *error) {
  reduction r = {.stream = stream, .program = program, .args = args, .store = store, .stored = *program};
  r.stored.form = LODE_REDUCE_NONE;
  int64_t most = PIECE_BYTES / (int64_t)lode_dtype_size(lode_output_dtype(program, 0)) / LODE_REDUCE_CHUNK;
  if (program->form == LODE_REDUCE_INNER || args->inner <= most) return run_part(&r, error);
  for (int64_t from = 0; from < args->inner; from += most) { /* a chunk of all columns would be too large */
    lode_args part =
        columns_of(args, program->naccesses, from, args->inner - from < most ? args->inner - from : most);
    r.args = &part;
    LODE_TRY(run_part(&r, error));
  }
  return LODE_OK;
}

lode_status lode_cuda_reduce_pieces(lode_stream *stream, const lode_program *program, const lode_args *args,
                                    lode_cuda_store *store, lode_error *error) {
  lode_program one = *program;
  lode_args own = *args;
  one.noutputs = 1;
  for (int o = 0; o < program->noutputs; o++) {
    one.output[0] = program->output[o];
    one.reduction[0] = program->reduction[o];
    own.out[0] = args->out[o];
    LODE_TRY(reduce_one(stream, &one, &own, store, error));
  }
  return LODE_OK;
}
