/* The CUDA part's entry, the device table, and what a device says of itself.
 *
 * Each member of the table enters the device's context, which the first one that needs it
 * makes, and puts back the one that the thread had, or core does so for several (enter, leave): a host program
 * may use CUDA itself. The context is the device's primary one, shared with such a host, and is never
 * given up: at the end of the process the driver goes by itself. In a child of a fork
 * members fail, or, where they cannot fail, do nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/system.h"
#include "cuda.h"
#include "part.h"

enum { OLDEST = 75 /* compute capability */ };

static int driver_version;

/* ---- contexts --------------------------------------------------------------------- */

static lode_status open_parts(lode_cuda_device *device, lode_error *error) {
  if (device->memory == NULL) LODE_TRY(lode_cuda_memory_open(device, error));
  if (device->pinned == NULL) LODE_TRY(lode_cuda_pinned_open(device, error));
  if (device->events == NULL) LODE_TRY(lode_cuda_events_open(device, error));
  return device->staging == NULL ? lode_cuda_transfer_open(device, error) : LODE_OK;
}

/* With the lock held. What failed is tried again by the next call. */
static lode_status open_device(lode_cuda_device *device, lode_error *error) {
  CUcontext before = NULL;
  if (device->context == NULL) LODE_CU(error, cuDevicePrimaryCtxRetain, &device->context, device->handle);
  LODE_CU(error, cuCtxGetCurrent, &before);
  LODE_CU(error, cuCtxSetCurrent, device->context);
  lode_status status = open_parts(device, error);
  lode_cu.cuCtxSetCurrent(before);
  return status;
}

static lode_status ensure_open(lode_cuda_device *device, lode_error *error) {
  if (atomic_load_explicit(&device->opened, memory_order_acquire)) return LODE_OK;
  lode_mutex_lock(&device->opening);
  lode_status status = atomic_load(&device->opened) ? LODE_OK : open_device(device, error);
  if (status == LODE_OK) atomic_store_explicit(&device->opened, true, memory_order_release);
  lode_mutex_unlock(&device->opening);
  return status;
}

/* Errors of the driver name the device, once. */
static lode_status name_device(lode_device *device, lode_status status, lode_error *error) {
  if ((status != LODE_SYSTEM && status != LODE_NOMEM) || error == NULL) return status;
  if (strstr(error->text, device->name) != NULL) return status;
  if (strncmp(error->text, device->name, strlen(device->name)) == 0) return status;
  lode_error text = *error;
  return lode_fail(error, status, "%s: %.480s", device->name, text.text);
}

typedef struct visit {
  CUcontext before;
  bool changed;
} visit;

static lode_status enter_opened(visit *v, lode_device *base, lode_error *error) {
  lode_cuda_device *device = lode_cuda_device_of(base);
  LODE_TRY(ensure_open(device, error));
  LODE_CU(error, cuCtxGetCurrent, &v->before);
  v->changed = v->before != device->context;
  if (v->changed) LODE_CU(error, cuCtxSetCurrent, device->context);
  return LODE_OK;
}

static lode_status enter(visit *v, lode_device *device, lode_error *error) {
  if (lode_driver_forked()) return lode_driver_refuse_fork(error);
  return name_device(device, enter_opened(v, device, error), error);
}

static void leave(const visit *v) {
  if (v->changed) lode_cu.cuCtxSetCurrent(v->before);
}

static lode_status finish(const visit *v, lode_device *device, lode_status status, lode_error *error) {
  leave(v);
  return name_device(device, status, error);
}

/* The body of a member that may fail. */
#define INSIDE(device, error, call)                                                                            \
  visit v;                                                                                                     \
  LODE_TRY(enter(&v, device, error));                                                                          \
  return finish(&v, device, call, error)

/* Whether a member that needs no device unless it was used has anything to do. */
static bool in_use(lode_device *device) {
  return !lode_driver_forked() &&
         atomic_load_explicit(&lode_cuda_device_of(device)->opened, memory_order_acquire);
}

static char unchanged; /* its address stands for a context that need not be put back */

static void *device_enter(lode_device *device) {
  visit v;
  if (!in_use(device) || enter(&v, device, NULL) != LODE_OK || !v.changed) return &unchanged;
  return v.before;
}

static void device_leave(lode_device *device, void *before) {
  (void)device;
  if (before != &unchanged) lode_cu.cuCtxSetCurrent(before);
}

/* ---- memory ------------------------------------------------------------------------ */

static lode_status device_alloc(lode_stream *stream, size_t bytes, void **block, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_alloc(stream, bytes, block, error));
}

static void device_free(lode_device *device, void *block, size_t bytes, lode_event *const *after, int count) {
  visit v;
  if (enter(&v, device, NULL) != LODE_OK) return;
  lode_cuda_free(lode_cuda_device_of(device), block, bytes, after, count);
  leave(&v);
}

static void device_trim(lode_device *device) {
  visit v;
  if (!in_use(device) || enter(&v, device, NULL) != LODE_OK) return;
  lode_cuda_trim(lode_cuda_device_of(device));
  leave(&v);
}

static void device_memory(lode_device *device, lode_memory *out) {
  visit v;
  memset(out, 0, sizeof *out);
  out->budget = atomic_load(&lode_cuda_device_of(device)->budget);
  out->available = -1;
  if (!in_use(device) || enter(&v, device, NULL) != LODE_OK) return;
  lode_cuda_memory_usage(lode_cuda_device_of(device), out);
  leave(&v);
}

static void device_set_budget(lode_device *device, int64_t bytes) {
  visit v;
  atomic_store(&lode_cuda_device_of(device)->budget, bytes > 0 ? bytes : 0);
  if (!in_use(device) || enter(&v, device, NULL) != LODE_OK) return;
  lode_cuda_budget_changed(lode_cuda_device_of(device));
  leave(&v);
}

static lode_status device_outcome_new(lode_device *device, lode_outcome **out, lode_error *error) {
  INSIDE(device, error, lode_cuda_outcome_new(lode_cuda_device_of(device), out, error));
}

static void device_outcome_free(lode_device *device, lode_outcome *outcome) {
  if (!lode_driver_forked()) lode_cuda_outcome_free(lode_cuda_device_of(device), outcome);
}

/* ---- transfers and compute ------------------------------------------------------------ */

static lode_status device_copy_in(lode_stream *stream, void *block, const void *host, size_t bytes,
                                  lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_copy_in(stream, block, host, bytes, error));
}

static lode_status device_copy_out(lode_device *device, void *host, const void *block, size_t bytes,
                                   lode_event *after, lode_error *error) {
  INSIDE(device, error, lode_cuda_copy_out(lode_cuda_device_of(device), host, block, bytes, after, error));
}

static lode_status device_copy_within(lode_stream *stream, void *to, const void *from, size_t bytes,
                                      lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_copy_within(stream, to, from, bytes, error));
}

static lode_status device_run(lode_stream *stream, const lode_program *program, const lode_args *args,
                              lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_run(stream, program, args, error));
}

static lode_status device_product(lode_stream *stream, const lode_product_args *args, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_product(stream, args, error));
}

static lode_status device_factor(lode_stream *stream, const lode_factor_args *args, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_factor(stream, args, error));
}

static lode_status device_solve(lode_stream *stream, const lode_solve_args *args, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_solve(stream, args, error));
}

/* ---- streams and events ------------------------------------------------------------------ */

/* A state's own stream is one like others: work is never done by the caller. */
static lode_status device_stream_new(lode_device *device, bool is_inline, lode_stream **out,
                                     lode_error *error) {
  (void)is_inline;
  INSIDE(device, error, lode_cuda_stream_new(lode_cuda_device_of(device), out, error));
}

static void device_stream_free(lode_stream *stream) {
  visit v;
  if (enter(&v, stream->device, NULL) != LODE_OK) return;
  lode_cuda_stream_free(stream);
  leave(&v);
}

static lode_status device_stream_sync(lode_stream *stream, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_stream_sync(stream, error));
}

static lode_status device_stream_wait(lode_stream *stream, lode_event *event, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_stream_wait(stream, event, error));
}

static lode_status device_event_record(lode_stream *stream, bool timed, lode_event **out, lode_error *error) {
  INSIDE(stream->device, error, lode_cuda_event_record(stream, timed, out, error));
}

/* True where nothing can be asked any more: who waits then is told. */
static bool device_event_ready(lode_event *event) {
  visit v;
  if (enter(&v, event->device, NULL) != LODE_OK) return true;
  bool ready = lode_cuda_event_ready(event);
  leave(&v);
  return ready;
}

static lode_status device_event_wait(lode_event *event, bool *waited, lode_error *error) {
  *waited = false;
  INSIDE(event->device, error, lode_cuda_event_wait(event, waited, error));
}

static lode_status device_event_seconds(lode_event *start, lode_event *end, double *seconds,
                                        lode_error *error) {
  INSIDE(start->device, error, lode_cuda_event_seconds(start, end, seconds, error));
}

/* It is kept: no call to the driver. */
static void device_event_free(lode_event *event) {
  if (!lode_driver_forked()) lode_cuda_event_free(event);
}

/* ---- what it is ------------------------------------------------------------------------------ */

static int attribute(const lode_cuda_device *device, CUdevice_attribute which) {
  int value = 0;
  return lode_cu.cuDeviceGetAttribute(&value, which, device->handle) == CUDA_SUCCESS ? value : 0;
}

static void add_id(const lode_cuda_device *device, lode_properties *out) {
  CUuuid id;
  char text[48] = "GPU";
  if (lode_cu.cuDeviceGetUuid(&id, device->handle) != CUDA_SUCCESS) return;
  for (int i = 0; i < 16; i++) {
    const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%02x", dash, (unsigned)(unsigned char)id.bytes[i]);
  }
  lode_properties_add(out, "id", "%s", text);
}

static void add_hardware(const lode_cuda_device *device, lode_properties *out) {
  char name[128] = "unknown";
  lode_cu.cuDeviceGetName(name, sizeof name, device->handle);
  lode_properties_add(out, "name", "%s", name);
  add_id(device, out);
  lode_properties_add(out, "memory", "%.1f GiB", (double)device->total / (1 << 30));
  lode_properties_add(out, "L2", "%.1f MiB", attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) / 1048576.0);
  lode_properties_add(out, "compute capability", "%d.%d", device->capability / 10, device->capability % 10);
  lode_properties_add(out, "multiprocessors", "%d", device->multiprocessors);
  lode_properties_add(out, "fp32:fp64 ratio", "%d:1",
                      attribute(device, CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO));
}

static void describe(lode_device *base, lode_properties *out) {
  lode_cuda_device *device = lode_cuda_device_of(base);
  if (lode_driver_forked()) {
    lode_properties_add(out, "warning", "the process was forked after CUDA was started: no use of it here");
    return;
  }
  add_hardware(device, out);
  lode_properties_add(out, "driver", "CUDA %d.%d", driver_version / 1000, driver_version % 1000 / 10);
  lode_properties_add(out, "built with", "CUDA %d.%d", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  lode_properties_add(out, "memory pools", "%s", device->has_pools ? "yes" : "no");
  lode_properties_add(out, "jit", "%s", lode_jit_names[atomic_load(&base->jit)]);
  lode_cuda_jit_describe(device, out);
  lode_cuda_linalg_describe(device, out);
}

static const lode_device_api api = {
    .version = LODE_DEVICE_VERSION,
    .garbage_shift = 3,
    .describe = describe,
    .alloc = device_alloc,
    .free = device_free,
    .trim = device_trim,
    .memory = device_memory,
    .set_budget = device_set_budget,
    .copy_in = device_copy_in,
    .copy_out = device_copy_out,
    .copy_within = device_copy_within,
    .run = device_run,
    .product = device_product,
    .factor = device_factor,
    .solve = device_solve,
    .outcome_new = device_outcome_new,
    .outcome_free = device_outcome_free,
    .stream_new = device_stream_new,
    .stream_free = device_stream_free,
    .stream_sync = device_stream_sync,
    .stream_wait = device_stream_wait,
    .event_record = device_event_record,
    .event_ready = device_event_ready,
    .event_wait = device_event_wait,
    .event_seconds = device_event_seconds,
    .event_free = device_event_free,
    .enter = device_enter,
    .leave = device_leave,
};

/* ---- finding devices ---------------------------------------------------------------------------- */

static bool pools_allowed(void) {
  const char *mode = lode_environment("LODE_CUDA_POOL");
  return mode == NULL || strcmp(mode, "0") != 0;
}

static lode_status examine(lode_cuda_device *device, int index, lode_error *error) {
  size_t total = 0;
  device->index = index;
  LODE_CU(error, cuDeviceGet, &device->handle, index);
  LODE_CU(error, cuDeviceTotalMem, &total, device->handle);
  device->total = (int64_t)total;
  int major, minor;
  LODE_CU(error, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->handle);
  LODE_CU(error, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->handle);
  LODE_CU(error, cuDeviceGetAttribute, &device->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
          device->handle);
  device->capability = 10 * major + minor;
  device->has_pools = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0 && pools_allowed();
  if (device->capability < OLDEST)
    return lode_fail(error, LODE_UNAVAILABLE, "GPU %d has compute capability %d.%d, and %d.%d is needed", index,
                     device->capability / 10, device->capability % 10, OLDEST / 10, OLDEST % 10);
  return LODE_OK;
}

static lode_status add_device(int index, lode_device **out, lode_error *error) {
  lode_cuda_device *device = calloc(1, sizeof *device);
  if (device == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a device");
  lode_status status = examine(device, index, error);
  if (status != LODE_OK) {
    free(device);
    return status;
  }
  device->base.api = &api;
  snprintf(device->base.name, sizeof device->base.name, "cuda:%d", index % 1000); /* so that it surely fits */
  pthread_mutex_init(&device->opening, NULL);
  *out = &device->base;
  return LODE_OK;
}

/* GPUs that are too old are left out, as long as there is one that is not. */
static lode_status enumerate(lode_device **devices, int room, int *count, lode_error *error) {
  int shown = 0;
  lode_status status = lode_fail(error, LODE_UNAVAILABLE, "the NVIDIA driver shows no GPU to this process");
  LODE_TRY(lode_driver_load(error));
  LODE_CU(error, cuDriverGetVersion, &driver_version);
  LODE_CU(error, cuDeviceGetCount, &shown);
  *count = 0;
  for (int i = 0; i < shown && *count < room; i++) {
    lode_status added = add_device(i, &devices[*count], error);
    if (added == LODE_OK) ++*count;
    else status = added;
  }
  return *count > 0 ? LODE_OK : status;
}

/* ---- the part ----------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) lode_part_entry lode_part;

lode_status lode_part(const lode_services *core, lode_part_table *table, lode_error *error) {
  (void)error;
  table->version = LODE_PART_VERSION;
  table->build = LODE_BUILD;
  /* Core reports it; nothing of another build's table may be touched. */
  if (core->version != LODE_PART_VERSION || strcmp(core->build, LODE_BUILD) != 0) return LODE_OK;
  ((lode_cuda_part *)table)->enumerate = enumerate;
  return LODE_OK;
}
