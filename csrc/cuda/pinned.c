/* Pinned memory in cells of 64 bytes, carved from slabs that are kept: words that
 * kernels write and the host reads, such as outcomes. With unified addressing,
 * which every 64-bit platform has, both know a cell by one address. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { CELL = 64, SLAB = 64 << 10 };

typedef struct cell {
  struct cell *next;
} cell;

struct lode_cuda_pinned {
  lode_mutex lock;
  cell *unused;
};

_Static_assert(sizeof(lode_outcome) <= CELL, "an outcome fits in a cell");

lode_status lode_cuda_pinned_open(lode_cuda_device *device, lode_error *error) {
  struct lode_cuda_pinned *pinned = calloc(1, sizeof *pinned);
  if (pinned == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for pinned memory's list");
  pthread_mutex_init(&pinned->lock, NULL);
  device->pinned = pinned;
  return LODE_OK;
}

/* With the lock held. */
static lode_status add_slab(struct lode_cuda_pinned *pinned, lode_error *error) {
  void *slab = NULL;
  CUdeviceptr seen;
  LODE_CU(error, cuMemHostAlloc, &slab, SLAB, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (lode_cu.cuMemHostGetDevicePointer(&seen, slab, 0) != CUDA_SUCCESS ||
      seen != (CUdeviceptr)(uintptr_t)slab) {
    lode_cu.cuMemFreeHost(slab);
    return lode_fail(error, LODE_SYSTEM, "the platform has no unified addressing, which lode needs");
  }
  for (size_t i = 0; i < SLAB; i += CELL) {
    cell *fresh = (cell *)((char *)slab + i);
    fresh->next = pinned->unused;
    pinned->unused = fresh;
  }
  return LODE_OK;
}

lode_status lode_cuda_pinned_new(lode_cuda_device *device, void **out, lode_error *error) {
  struct lode_cuda_pinned *pinned = device->pinned;
  lode_mutex_lock(&pinned->lock);
  lode_status status = pinned->unused != NULL ? LODE_OK : add_slab(pinned, error);
  if (status == LODE_OK) {
    cell *first = pinned->unused;
    pinned->unused = first->next;
    *out = memset(first, 0, CELL);
  }
  lode_mutex_unlock(&pinned->lock);
  return status;
}

void lode_cuda_pinned_free(lode_cuda_device *device, void *cells) {
  cell *old = cells;
  lode_mutex_lock(&device->pinned->lock);
  old->next = device->pinned->unused;
  device->pinned->unused = old;
  lode_mutex_unlock(&device->pinned->lock);
}

lode_status lode_cuda_outcome_new(lode_cuda_device *device, lode_outcome **out, lode_error *error) {
  void *cells = NULL;
  LODE_TRY(lode_cuda_pinned_new(device, &cells, error));
  *out = cells;
  return LODE_OK;
}

void lode_cuda_outcome_free(lode_cuda_device *device, lode_outcome *outcome) {
  lode_cuda_pinned_free(device, outcome);
}
