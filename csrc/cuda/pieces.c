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
  char *partial; /* [kept, groups, columns]; NULL: one group */
  size_t size, piece_bytes, partial_bytes;
} reduction;

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

static lode_result result_of(const lode_program *program, const lode_args *args) {
  lode_result out = {.inner = program->form == LODE_REDUCE_INNER ? 0 : args->out[0].inner,
                     .ndims = args->nouter - args->nreduced};
  out.base = args->out[0].base + args->out[0].offset * (int64_t)lode_dtype_size((lode_dtype)program->dtype);
  memcpy(out.extent, args->outer, (size_t)out.ndims * sizeof out.extent[0]);
  memcpy(out.stride, args->out[0].stride, (size_t)out.ndims * sizeof out.stride[0]);
  return out;
}

static void count_extents(const lode_args *args, int64_t *kept, int64_t *each) {
  *kept = *each = 1;
  for (int d = 0; d < args->nouter; d++) *(d < args->nouter - args->nreduced ? kept : each) *= args->outer[d];
}

/* A pass leaves a result of LODE_COMBINE_ELEMENTS / columns groups, until one is left of each sequence. */
lode_status lode_cuda_combine(lode_stream *stream, const lode_program *program, const lode_args *args,
                              char *partial, int64_t groups, lode_error *error) {
  int64_t kept, each, columns = program->form == LODE_REDUCE_INNER ? 1 : args->inner;
  count_extents(args, &kept, &each);
  int64_t tiles = ceiling(columns, LODE_COMBINE_COLUMNS), span = LODE_COMBINE_ELEMENTS;
  if (columns > 1) span /= LODE_COMBINE_COLUMNS;
  size_t bytes = 0;
  if (groups > span)
    bytes = (size_t)(kept * ceiling(groups, span) * columns) * lode_dtype_size((lode_dtype)program->dtype);
  void *other;
  LODE_TRY(lode_cuda_take(stream, bytes, &other, error));
  lode_combine_parameters p = {.from = partial, .to = other, .kept = kept, .columns = columns, .span = span};
  p.dtype = program->dtype;
  p.reduction = program->reduction;
  p.out = result_of(program, args);
  lode_status status = LODE_OK;
  for (int64_t left; groups > 1 && status == LODE_OK; groups = left) {
    left = ceiling(groups, span);
    p.groups = groups;
    status = lode_cuda_start(stream, LODE_KERNEL_combine, kept * tiles * left, LODE_BLOCK_THREADS, &p, error);
    char *from = p.from;
    p.from = p.to;
    p.to = from;
  }
  lode_cuda_give(stream, other, bytes);
  return status;
}

/* ---- pieces --------------------------------------------------------------------- */

/* Stores elements [from, to) of the space; whole rows of a program by rows. Element `from` is then at
 * *x. */
static lode_status store_piece(reduction *r, int64_t from, int64_t to, const char **x, lode_error *error) {
  int64_t inner = r->args->inner, each = r->stored.rows ? inner : 1, first = from / each;
  lode_access *out = &r->stored_args.out[0];
  int64_t stride = inner;
  memset(out, 0, sizeof *out);
  out->base = r->piece;
  out->offset = -first * each;
  out->inner = 1;
  for (int d = r->args->nouter - 1; d >= 0; stride *= r->args->outer[d--]) out->stride[d] = stride;
  *x = r->piece + (from - first * each) * (int64_t)r->size;
  return r->store(r->stream, &r->stored, &r->stored_args, first, ceiling(to, each) - first, error);
}

/* Reduces dense sequences at x: `kept` of them from kept index `first` on, elements [from, from + length). */
static lode_status reduce_piece(const reduction *r, const char *x, int64_t first, int64_t kept, int64_t from,
                                int64_t length, lode_error *error) {
  lode_reduce_parameters p = {.x = x,
                              .partial = r->partial,
                              .first = first,
                              .kept = kept,
                              .columns = r->columns,
                              .length = length,
                              .before = from / r->span,
                              .groups = ceiling(length, r->span),
                              .all = r->cut.groups,
                              .dtype = r->program->dtype,
                              .reduction = r->program->reduction,
                              .C = r->cut.C,
                              .group = r->cut.group,
                              .out = result_of(r->program, r->args)};
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
    LODE_TRY(store_piece(r, k * elements, (k + kept) * elements, &x, error));
    LODE_TRY(reduce_piece(r, x, k, kept, 0, r->sequence, error));
  }
  return LODE_OK;
}

/* Several groups of one sequence at a time. */
static lode_status parts_of_sequences(reduction *r, lode_error *error) {
  int64_t most = r->most / (r->span * r->columns) * r->span;
  for (int64_t k = 0; k < r->kept; k++) {
    int64_t start = k * r->sequence * r->columns;
    for (int64_t from = 0; from < r->sequence; from += most) {
      int64_t length = r->sequence - from < most ? r->sequence - from : most;
      const char *x;
      LODE_TRY(store_piece(r, start + from * r->columns, start + (from + length) * r->columns, &x, error));
      LODE_TRY(reduce_piece(r, x, k, 1, from, length, error));
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
  r->size = lode_dtype_size((lode_dtype)r->program->dtype);
  r->cut = lode_layout_cut(r->columns, r->sequence);
  r->span = (int64_t)LODE_REDUCE_CHUNK << r->cut.group;
  r->most = PIECE_BYTES / (int64_t)r->size;
  int64_t all = r->kept * r->sequence * r->columns;
  if (r->most > all) r->most = all;
  r->piece_bytes = (size_t)(r->most + 2 * r->args->inner * r->stored.rows) * r->size;
  r->partial_bytes = r->cut.groups > 1 ? (size_t)(r->kept * r->cut.groups * r->columns) * r->size : 0;
  r->stored_args = *r->args;
  r->stored_args.nreduced = 0;
}

static lode_status run_part(reduction *r, lode_error *error) {
  void *piece = NULL, *partial = NULL;
  describe(r);
  LODE_TRY(lode_cuda_take(r->stream, r->piece_bytes, &piece, error));
  lode_status status = lode_cuda_take(r->stream, r->partial_bytes, &partial, error);
  if (status == LODE_OK) {
    r->piece = piece;
    r->partial = partial;
    status = r->sequence * r->columns <= r->most ? whole_sequences(r, error) : parts_of_sequences(r, error);
    if (status == LODE_OK && r->cut.groups > 1)
      status = lode_cuda_combine(r->stream, r->program, r->args, r->partial, r->cut.groups, error);
    lode_cuda_give(r->stream, partial, r->partial_bytes);
  }
  lode_cuda_give(r->stream, piece, r->piece_bytes);
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

lode_status lode_cuda_reduce_pieces(lode_stream *stream, const lode_program *program, const lode_args *args,
                                    lode_cuda_store *store, lode_error *error) {
  reduction r = {.stream = stream, .program = program, .args = args, .store = store, .stored = *program};
  r.stored.form = LODE_REDUCE_NONE;
  int64_t most = PIECE_BYTES / (int64_t)lode_dtype_size((lode_dtype)program->dtype) / LODE_REDUCE_CHUNK;
  if (program->form == LODE_REDUCE_INNER || args->inner <= most) return run_part(&r, error);
  for (int64_t from = 0; from < args->inner; from += most) { /* a chunk of all columns would be too large */
    lode_args part =
        columns_of(args, program->naccesses, from, args->inner - from < most ? args->inner - from : most);
    r.args = &part;
    LODE_TRY(run_part(&r, error));
  }
  return LODE_OK;
}
