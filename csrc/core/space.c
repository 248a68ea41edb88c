/* The iteration space of a pass, and the arguments of its run.
 *
 * Dims of 1 are left out of the space. A reduction's space is its input's, in
 * one of two orders (program.h): INNER where the last dim is reduced, OUTER where
 * it is kept. By rows of a row space (plan.h) it is those dims and the row. Before a
 * run, neighbouring dims that all accesses walk in one stride are merged, so that
 * most programs have few dims and long inner axes. */
#include <string.h>

#include "job.h"

/* ---- the space ------------------------------------------------------------------ */

static void clear_map(lode_map *map) {
  memset(map, 0, sizeof *map);
  memset(map->src, -1, sizeof map->src);
}

static void add_dim(lode_planner *p, lode_plan_job *job, int d, lode_dim_group group, const int64_t *stride) {
  int i = p->ndim++;
  p->extent[i] = job->output[0].source->shape.dim[d];
  job->group[i] = group;
  for (int o = 0; o < job->noutputs; o++) {
    lode_plan_output *output = &job->output[o];
    output->stride[i] = group == LODE_DIM_REDUCED ? 0 : stride[d];
    output->map.src[d] = (int8_t)i;
    output->map.step[d] = 1;
  }
}

/* Row-major strides of the result, by dim of the source (reduced dims count as 1). */
static void result_strides(const lode_plan_job *job, int64_t *stride) {
  lode_shape shape = job->output[0].source->shape;
  for (int d = 0; d < shape.ndim; d++)
    if (job->mask & 1u << d) shape.dim[d] = 1;
  lode_shape_strides(&shape, stride);
}

/* All sources have one shape. */
static void lay_out_shape(lode_planner *p, lode_plan_job *job) {
  const lode_shape *shape = &job->output[0].source->shape;
  int64_t stride[LODE_MAX_DIMS];
  int last = -1, first_inner = shape->ndim;
  unsigned reduced = 0;
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->dim[d] == 1) continue;
    last = d;
    reduced |= job->mask & 1u << d;
  }
  job->form = reduced == 0 ? LODE_REDUCE_NONE : reduced & 1u << last ? LODE_REDUCE_INNER : LODE_REDUCE_OUTER;
  if (job->form == LODE_REDUCE_OUTER)
    while (first_inner > 0 && !(reduced & 1u << (first_inner - 1))) first_inner--;
  result_strides(job, stride);
  for (int pass = LODE_DIM_KEPT; pass <= LODE_DIM_KEPT_INNER; pass++) {
    for (int d = 0; d < shape->ndim; d++) {
      int own = reduced & 1u << d ? LODE_DIM_REDUCED : d >= first_inner ? LODE_DIM_KEPT_INNER : LODE_DIM_KEPT;
      if (shape->dim[d] != 1 && own == pass) add_dim(p, job, d, (lode_dim_group)own, stride);
    }
  }
}

/* The space's dims, then the row's: a source has them all, or all but the last. */
static void lay_out_rows(lode_planner *p, lode_plan_job *job) {
  const lode_row_space *space = job->space;
  p->ndim = space->ndim + 1;
  memcpy(p->extent, space->dim, (size_t)space->ndim * sizeof p->extent[0]);
  p->extent[space->ndim] = space->row;
  job->form = LODE_REDUCE_NONE;
  for (int i = 0; i < p->ndim; i++) job->group[i] = LODE_DIM_KEPT;
  for (int o = 0; o < job->noutputs; o++) {
    lode_plan_output *output = &job->output[o];
    const lode_shape *shape = &output->source->shape;
    int64_t stride[LODE_MAX_DIMS];
    int i = 0;
    lode_shape_strides(shape, stride);
    output->stride[space->ndim] = 0;
    for (int d = 0; d < shape->ndim; d++) {
      if (shape->dim[d] == 1) continue;
      output->map.src[d] = (int8_t)i;
      output->map.step[d] = 1;
      output->stride[i++] = stride[d];
    }
    output->whole = i == p->ndim;
  }
}

void lode_space_lay_out(lode_planner *p, lode_plan_job *job) {
  p->ndim = 0;
  for (int o = 0; o < job->noutputs; o++) {
    clear_map(&job->output[o].map);
    job->output[o].whole = true;
  }
  if (job->space != NULL) lay_out_rows(p, job);
  else lay_out_shape(p, job);
}

/* ---- arguments of a run ------------------------------------------------------------ */

static bool merges(const lode_planner *p, const lode_plan_job *job, int outer, int inner) {
  int64_t n = p->hi[inner] - p->lo[inner];
  if (job->group[outer] != job->group[inner]) return false;
  for (int o = 0; o < job->noutputs; o++)
    if (job->output[o].stride[outer] != job->output[o].stride[inner] * n) return false;
  for (int i = 0; i < p->program.naccesses; i++)
    if (p->access_stride[i][outer] != p->access_stride[i][inner] * n) return false;
  return true;
}

/* The dims left after merging, each named by its innermost one; extents in `extent`. `count` is at
 * most p->ndim. The inner dim of rows stays by itself and is not listed. */
static int merge_dims(const lode_planner *p, const lode_plan_job *job, int *dim, int64_t *extent) {
  int count = 0;
  for (int d = 0; d < p->ndim; d++) {
    int64_t n = p->hi[d] - p->lo[d];
    if (d == p->inner || n == 1) continue;
    if (count > 0 && merges(p, job, dim[count - 1], d)) {
      extent[count - 1] *= n;
      dim[count - 1] = d;
      continue;
    }
    dim[count] = d;
    extent[count++] = n;
  }
  return count;
}

static void add_outer(lode_planner *p, const lode_plan_job *job, int d, int64_t extent) {
  lode_args *args = &p->args;
  int at = args->nouter++;
  args->outer[at] = extent;
  for (int o = 0; o < job->noutputs; o++) args->out[o].stride[at] = job->output[o].stride[d];
  for (int i = 0; i < p->program.naccesses; i++) args->access[i].stride[at] = p->access_stride[i][d];
}

/* Which group the inner axis is taken from. */
static lode_dim_group inner_group(const lode_plan_job *job) {
  return job->form == LODE_REDUCE_INNER   ? LODE_DIM_REDUCED
         : job->form == LODE_REDUCE_OUTER ? LODE_DIM_KEPT_INNER
                                          : LODE_DIM_KEPT;
}

void lode_space_fill_args(lode_planner *p, const lode_plan_job *job) {
  lode_args *args = &p->args;
  int dim[LODE_MAX_DIMS], inner = -1;
  int64_t extent[LODE_MAX_DIMS];
  int count = merge_dims(p, job, dim, extent);
  args->nouter = args->nreduced = 0;
  args->inner = p->inner < 0 ? 1 : p->extent[p->inner];
  for (int o = 0; o < job->noutputs; o++) {
    const lode_plan_output *output = &job->output[o];
    lode_access *out = &args->out[o];
    out->base = output->storage->block;
    out->offset = 0;
    out->inner = p->inner < 0 ? 0 : output->stride[p->inner];
    for (int d = 0; d < p->ndim; d++) out->offset += output->stride[d] * p->lo[d];
  }
  for (int i = 0; i < p->program.naccesses; i++)
    for (int d = 0; d < p->ndim; d++) args->access[i].offset += p->access_stride[i][d] * p->lo[d];
  if (p->inner < 0 && count > 0 && job->group[dim[count - 1]] == inner_group(job)) {
    inner = dim[--count];
    args->inner = extent[count];
    for (int o = 0; o < job->noutputs; o++) args->out[o].inner = job->output[o].stride[inner];
    for (int i = 0; i < p->program.naccesses; i++) args->access[i].inner = p->access_stride[i][inner];
  }
  for (int i = 0; i < count; i++)
    if (job->group[dim[i]] != LODE_DIM_REDUCED) add_outer(p, job, dim[i], extent[i]);
  for (int i = 0; i < count; i++) {
    if (job->group[dim[i]] != LODE_DIM_REDUCED) continue;
    add_outer(p, job, dim[i], extent[i]);
    args->nreduced++;
  }
}

/* Rows turned out not to be needed if every value has the full width: then all dims are alike. */
void lode_space_drop_rows(lode_planner *p) {
  int32_t width = (int32_t)p->extent[p->inner];
  for (int i = 0; i < p->program.nvalues; i++) {
    const lode_value *value = &p->program.value[i];
    if (value->kind == LODE_VALUE_GATHER || value->kind == LODE_VALUE_REDUCE ||
        (value->kind != LODE_VALUE_CONST && value->width != width))
      return;
  }
  for (int i = 0; i < p->program.nvalues; i++) p->program.value[i].width = 0;
  for (int i = 0; i < p->program.naccesses; i++) p->access_stride[i][p->inner] = p->args.access[i].inner;
  p->inner = -1;
}
