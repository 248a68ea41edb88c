/* Running programs by the interpreter of kernels/programs.cu: each block evaluates
 * tiles, value by value, into slots of a workspace that stays in the device's cache. */
#include "interpret.h"

#include <string.h>

#include "kernels.h"

enum { BLOCKS_PER_MULTIPROCESSOR = 4, WORKSPACE_BYTES = 64 << 20 };

_Static_assert(sizeof(lode_interpret_parameters) <= 4096, "parameters of a kernel have 4096 bytes");

static lode_compact_access compact_access(const lode_access *access, lode_dtype dtype, int nouter) {
  lode_compact_access compact = {.inner = access->inner};
  bool memory = access->base != NULL;
  compact.base = memory ? (int64_t)(intptr_t)(access->base + access->offset * (int64_t)lode_dtype_size(dtype))
                        : access->offset;
  memcpy(compact.stride, access->stride, (size_t)nouter * sizeof compact.stride[0]);
  return compact;
}

static void compact_value(lode_interpret_parameters *p, const lode_program *program, const lode_args *args,
                          int v) {
  const lode_value *value = &program->value[v];
  lode_compact_value *compact = &p->value[v];
  *compact = (lode_compact_value){.kind = value->kind, .dtype = value->dtype, .op = (uint8_t)value->op};
  compact->width = (uint16_t)(program->rows ? value->width : 0);
  compact->from = program->value[value->a[0]].dtype;
  for (int k = 0; k < 3; k++) compact->a[k] = (uint8_t)value->a[k];
  compact->index = (uint8_t)value->index;
  compact->first = (uint8_t)value->first;
  compact->count = (uint8_t)value->count;
  if (value->kind == LODE_VALUE_ACCESS || value->kind == LODE_VALUE_IOTA)
    p->access[value->index] =
        compact_access(&args->access[value->index], (lode_dtype)value->dtype, args->nouter);
  if (value->kind == LODE_VALUE_CONST) memcpy(&p->constant[value->index], &args->consts[value->index], 8);
}

static void compact_segments(lode_interpret_parameters *p, const lode_program *program) {
  for (int g = 0; g < program->nsegments; g++) {
    const lode_segment *s = &program->segment[g];
    p->segment[g] =
        (lode_compact_segment){s->source, (int16_t)s->lo, (int16_t)s->hi, (int16_t)s->start, (int16_t)s->step};
  }
}

/* By rows: rows of a tile, of which the widest value has at most LODE_TILE elements, or which is one row. */
static void fix_tile(lode_interpret_parameters *p, const lode_program *program) {
  int32_t widest = 1;
  for (int v = 0; v < program->nvalues; v++)
    if (program->value[v].width > widest) widest = program->value[v].width;
  if (program->rows) p->rows = widest < LODE_TILE ? LODE_TILE / widest : 1;
  p->slot_bytes = (widest > LODE_TILE ? widest : LODE_TILE) * 8;
}

lode_status lode_cuda_interpret_store(lode_stream *stream, const lode_program *program, const lode_args *args,
                                      int64_t first, int64_t count, lode_error *error) {
  lode_interpret_parameters p;
  memset(&p, 0, sizeof p);
  p.nvalues = program->nvalues;
  p.nouter = args->nouter;
  fix_tile(&p, program);
  p.inner = args->inner;
  p.first = first;
  p.count = count;
  memcpy(p.outer, args->outer, (size_t)args->nouter * sizeof p.outer[0]);
  for (int v = 0; v < program->nvalues; v++) compact_value(&p, program, args, v);
  compact_segments(&p, program);
  p.noutputs = program->noutputs;
  for (int o = 0; o < program->noutputs; o++) {
    p.output[o] = (uint8_t)program->output[o];
    p.out[o] =
        compact_access(&args->out[o], (lode_dtype)program->value[program->output[o]].dtype, args->nouter);
  }
  int64_t each = program->rows ? p.rows : LODE_TILE, tiles = (count + each - 1) / each;
  int64_t block_bytes = program->nvalues * (int64_t)p.slot_bytes, most = WORKSPACE_BYTES / block_bytes;
  int64_t blocks = lode_cuda_home(stream)->multiprocessors * (int64_t)BLOCKS_PER_MULTIPROCESSOR;
  if (blocks > most) blocks = most;
  if (blocks > tiles) blocks = tiles;
  void *slots;
  LODE_TRY(lode_cuda_take(stream, (size_t)(blocks * block_bytes), &slots, error));
  p.slots = slots;
  lode_status status = lode_cuda_start(stream, LODE_KERNEL_interpret, blocks, LODE_TILE, &p, error);
  lode_cuda_give(stream, slots, (size_t)(blocks * block_bytes));
  return status;
}

lode_status lode_cuda_interpret(lode_stream *stream, const lode_program *program, const lode_args *args,
                                lode_error *error) {
  if (program->form != LODE_REDUCE_NONE)
    return lode_cuda_reduce_pieces(stream, program, args, lode_cuda_interpret_store, error);
  int64_t count = program->rows ? 1 : args->inner;
  for (int d = 0; d < args->nouter; d++) count *= args->outer[d];
  return lode_cuda_interpret_store(stream, program, args, 0, count, error);
}
