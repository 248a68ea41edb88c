/* Running a program: its layout, the kernel that was compiled for it, its
 * launch. What is not compiled, yet or at all, is interpreted. */
#include <string.h>

#include "../core/reduce.h"
#include "../core/trace.h"
#include "interpret.h"
#include "jit.h"
#include "kernels.h"
#include "layout.h"
#include "recent.h"
#include "source.h"

enum {
  MOST_BLOCKS = 1 << 20,  /* kernels walk on with the stride of their grid; those by elements and rows do not */
  GLOBAL_BLOCKS = 8,      /* WIDE in a workspace: the same */
  GLOBAL_BYTES = 64 << 20 /* WIDE: all blocks' workspaces, at most */
};

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

static lode_status find(lode_stream *stream, const lode_layout *layout, CUkernel *kernel, lode_error *error) {
  char key[LODE_KEY_BYTES];
  lode_jit_request request = {.key = key, .source = lode_source, .context = layout};
  request.key_bytes = lode_layout_key(layout, key);
  return lode_jit_find(lode_cuda_home(stream), &request, kernel, error);
}

static const char *const templates[] = {
    [LODE_TEMPLATE_ELEMENTS] = "elements",  [LODE_TEMPLATE_ROWS] = "rows",
    [LODE_TEMPLATE_SPREAD] = "spread rows", [LODE_TEMPLATE_WIDE] = "wide rows",
    [LODE_TEMPLATE_COLUMNS] = "columns",    [LODE_TEMPLATE_LANES] = "lanes",
};

/* ---- launching ------------------------------------------------------------------ */

static lode_status launch(lode_stream *stream, CUkernel kernel, const lode_layout *layout, int64_t blocks,
                          int threads, lode_error *error) {
  int64_t parameters[LODE_MAX_POINTERS + LODE_MAX_WORDS];
  size_t pointers = (size_t)layout->npointers * sizeof layout->pointer[0];
  memcpy(parameters, layout->pointer, pointers);
  memcpy((char *)parameters + pointers, layout->word, (size_t)layout->nwords * sizeof layout->word[0]);
  bool strides = layout->structure.cut != LODE_TEMPLATE_ELEMENTS && layout->structure.cut != LODE_TEMPLATE_ROWS;
  if (strides && blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
  if (lode_tracing())
    lode_trace("%s: a program by %s, %lld blocks of %d", stream->device->name, templates[layout->structure.cut],
               (long long)blocks, threads);
  return lode_cuda_launch(stream, kernel, blocks, threads, parameters, error);
}

static lode_status launch_elements(lode_stream *stream, CUkernel kernel, lode_layout *layout,
                                   lode_error *error) {
  const lode_structure *s = &layout->structure;
  int64_t tile = (int64_t)LODE_BLOCK_THREADS * s->vector, inner = layout->args->inner;
  int64_t blocks = s->tiled ? ceiling(layout->kept, s->unroll) * ceiling(inner, tile)
                            : ceiling(layout->kept * inner, tile * s->unroll);
  return launch(stream, kernel, layout, blocks, LODE_BLOCK_THREADS, error);
}

static lode_status launch_rows(lode_stream *stream, CUkernel kernel, lode_layout *layout, lode_error *error) {
  int rows = layout->structure.rows;
  return launch(stream, kernel, layout, ceiling(layout->count, rows), rows, error);
}

static lode_status launch_spread(lode_stream *stream, CUkernel kernel, lode_layout *layout, lode_error *error) {
  return launch(stream, kernel, layout, ceiling(layout->count, layout->structure.rows),
                lode_spread_threads(layout), error);
}

static lode_status launch_wide(lode_stream *stream, CUkernel kernel, lode_layout *layout, lode_error *error) {
  int64_t blocks = ceiling(layout->count, layout->structure.rows);
  if (!layout->structure.global) return launch(stream, kernel, layout, blocks, LODE_BLOCK_THREADS, error);
  int64_t each = layout->row_bytes * (int64_t)layout->structure.rows, most = GLOBAL_BYTES / each;
  int64_t fill = lode_cuda_home(stream)->multiprocessors * (int64_t)GLOBAL_BLOCKS;
  if (most > fill) most = fill;
  if (blocks > most) blocks = most;
  void *workspace;
  LODE_TRY(lode_cuda_take(stream, (size_t)(blocks * each), &workspace, error));
  layout->pointer[layout->at_workspace] = workspace;
  lode_status status = launch(stream, kernel, layout, blocks, LODE_BLOCK_THREADS, error);
  lode_cuda_give(stream, workspace, (size_t)(blocks * each));
  return status;
}

/* Several groups of a sequence leave partial results, which are combined. */
static lode_status launch_reduction(lode_stream *stream, CUkernel kernel, lode_layout *layout, int64_t blocks,
                                    lode_error *error) {
  const lode_cut *cut = &layout->cut;
  char *partial[LODE_MAX_OUTPUTS];
  void *workspace;
  int64_t results = cut->groups > 1 ? layout->kept * layout->columns * cut->groups : 0;
  size_t bytes = lode_cuda_partial_bytes(layout->program, results, NULL, partial);
  LODE_TRY(lode_cuda_take(stream, bytes, &workspace, error));
  lode_cuda_partial_bytes(layout->program, results, workspace, partial);
  for (int o = 0; o < layout->structure.noutputs; o++) layout->pointer[layout->at_workspace + o] = partial[o];
  lode_status status = launch(stream, kernel, layout, blocks, LODE_BLOCK_THREADS, error);
  if (status == LODE_OK && cut->groups > 1)
    status = lode_cuda_combine(stream, layout->program, layout->args, partial, cut->groups, error);
  lode_cuda_give(stream, workspace, bytes);
  return status;
}

static lode_status launch_columns(lode_stream *stream, CUkernel kernel, lode_layout *layout,
                                  lode_error *error) {
  int64_t chunks = layout->kept * layout->columns * layout->cut.groups;
  return launch_reduction(stream, kernel, layout, ceiling(chunks, LODE_BLOCK_THREADS), error);
}

static lode_status launch_lanes(lode_stream *stream, CUkernel kernel, lode_layout *layout, lode_error *error) {
  const lode_cut *cut = &layout->cut;
  int64_t units = layout->kept * ceiling(layout->columns, cut->C) * cut->groups << cut->group;
  return launch_reduction(stream, kernel, layout, ceiling(units * cut->C, LODE_REDUCE_LANES), error);
}

static lode_status launch_layout(lode_stream *stream, CUkernel kernel, lode_layout *layout, lode_error *error) {
  static lode_status (*const by_template[])(lode_stream *, CUkernel, lode_layout *, lode_error *) = {
      [LODE_TEMPLATE_ELEMENTS] = launch_elements, [LODE_TEMPLATE_ROWS] = launch_rows,
      [LODE_TEMPLATE_SPREAD] = launch_spread,     [LODE_TEMPLATE_WIDE] = launch_wide,
      [LODE_TEMPLATE_COLUMNS] = launch_columns,   [LODE_TEMPLATE_LANES] = launch_lanes,
  };
  return by_template[layout->structure.cut](stream, kernel, layout, error);
}

/* ---- entry ----------------------------------------------------------------------- */

/* Rows [first, first + count) of a program by rows that is reduced afterwards. */
static lode_status store_rows(lode_stream *stream, const lode_program *program, const lode_args *args,
                              int64_t first, int64_t count, lode_error *error) {
  lode_layout layout;
  CUkernel kernel;
  lode_layout_make(&layout, program, args, first, count);
  LODE_TRY(find(stream, &layout, &kernel, error));
  if (kernel != NULL) return launch_layout(stream, kernel, &layout, error);
  return lode_cuda_interpret_store(stream, program, args, first, count, error);
}

lode_status lode_cuda_run(lode_stream *stream, const lode_program *program, const lode_args *args,
                          lode_error *error) {
  if (!lode_layout_one_pass(program)) return lode_cuda_reduce_pieces(stream, program, args, store_rows, error);
  lode_recent *recent = lode_recent_find(stream, program, args);
  if (recent != NULL) return launch_layout(stream, recent->kernel, &recent->layout, error);
  lode_layout layout;
  CUkernel kernel;
  lode_layout_make(&layout, program, args, 0, -1);
  LODE_TRY(find(stream, &layout, &kernel, error));
  if (kernel == NULL) return lode_cuda_interpret(stream, program, args, error);
  lode_recent_note(stream, &layout, kernel);
  return launch_layout(stream, kernel, &layout, error);
}
