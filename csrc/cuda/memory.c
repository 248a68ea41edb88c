/* Device memory, in the order of streams.
 *
 * A block belongs to a *home*: the stream that it was allocated for, in whose order it may be used
 * and freed. It comes from a memory pool of our own, and goes back by cuMemFreeAsync on its home: at once
 * where only that stream still uses it; otherwise it waits in a *queue* until the events of the others are
 * reached, which allocations look at. (Freed on another stream, even one that waits for all of them, the
 * pool would not give it to its home again before the host synchronizes: seen on an H200 with a driver for
 * CUDA 13.0, where a loop over two streams grew without bound.) Nothing here waits, but for trim.
 *
 * The pool's calls take about a microsecond, much against a small kernel's two: so before it stands a
 * *front* for each stream, lists of free blocks that later work on the same stream may have at once: many small
 * ones, and a few large ones of each size, which go back before the pool would have to grow.
 *
 * Where the driver has no pools (some virtual GPUs; LODE_CUDA_POOL=0 tries it out), blocks of all sizes are
 * kept in fronts. They are cuMemAlloc's, and only trim gives them back: cuMemFree waits for the device.
 *
 * LODE_CUDA_POOL=exact: blocks of exactly the size asked for, none of them kept, so that a
 * sanitizer over the emulator sees what is read or written beside them.
 *
 * One lock a device guards all this. Blocks are freed under it, so that a front's stream cannot go
 * meanwhile; they are allocated without it, since a pool that grows takes milliseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/system.h"
#include "blocks.h"
#include "cuda.h"

enum {
  GRAIN = 512,       /* capacities are multiples of it; what the driver aligns to */
  SMALL_CLASSES = 8, /* GRAIN << 0..7: up to SMALL bytes, powers of two */
  SMALL = GRAIN << (SMALL_CLASSES - 1),
  SMALL_SHIFT = 16,                                 /* SMALL is 2^16 */
  CLASSES = SMALL_CLASSES + 8 * (62 - SMALL_SHIFT), /* then eighths of powers of two */
  KEPT = 64,        /* small blocks of a class in a front over a pool, under a budget */
  LARGE_KEPT = 4,   /* large ones; none under a budget */
  PIECE = 32 << 20, /* a pool takes memory from the system in pieces of this, if not more is asked for */
  SWEEP = 8         /* blocks of the queue that one allocation looks at */
};

typedef struct lode_cuda_front {
  struct lode_cuda_front *next; /* of the device's */
  lode_cuda_stream *stream;     /* NULL once it is gone: then the blocks may be used in any order */
  int64_t holders;              /* blocks whose home this is, and the stream */
  int kept[CLASSES];
  size_t small; /* bytes of small blocks that are kept */
  lode_cuda_block *list[CLASSES];
} lode_cuda_front;

struct lode_cuda_memory {
  lode_mutex lock;
  CUmemoryPool pool; /* NULL: without */
  CUstream freeing;  /* for blocks whose home is gone */
  bool exact, fill;  /* LODE_CUDA_POOL=exact, LODE_DEBUG_FILL */
  bool limited;      /* there is a budget */
  CUevent mark;      /* for trim */
  lode_cuda_blocks blocks;
  lode_cuda_front *fronts;
  lode_memory usage;                   /* reserved: as of the last look, where there is a pool */
  lode_cuda_block *queue, **queue_end; /* blocks that wait for their events, oldest first */
  lode_cuda_front idle;                /* without a pool: blocks that any stream may have */
};

/* ---- opening ---------------------------------------------------------------- */

static lode_status make_pool(lode_cuda_device *device, struct lode_cuda_memory *memory, lode_error *error) {
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle}};
  LODE_CU(error, cuMemPoolCreate, &memory->pool, &properties);
  return LODE_OK;
}

/* What is kept for reuse beyond the threshold goes back to the system when the device is next waited for. */
static lode_status set_threshold(lode_cuda_device *device, lode_error *error) {
  int64_t budget = atomic_load(&device->budget);
  cuuint64_t threshold = budget > 0 ? (cuuint64_t)budget : UINT64_MAX;
  if (device->memory->pool == NULL) return LODE_OK;
  LODE_CU(error, cuMemPoolSetAttribute, device->memory->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  return LODE_OK;
}

static lode_status open_memory(lode_cuda_device *device, struct lode_cuda_memory *memory, lode_error *error) {
  if (device->has_pools) LODE_TRY(make_pool(device, memory, error));
  LODE_CU(error, cuStreamCreate, &memory->freeing, CU_STREAM_NON_BLOCKING);
  LODE_TRY(lode_cuda_event_handle_new(&memory->mark, error));
  memory->limited = atomic_load(&device->budget) > 0;
  device->memory = memory;
  return set_threshold(device, error);
}

lode_status lode_cuda_memory_open(lode_cuda_device *device, lode_error *error) {
  struct lode_cuda_memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a device's memory");
  const char *mode = lode_environment("LODE_CUDA_POOL");
  pthread_mutex_init(&memory->lock, NULL);
  memory->exact = device->has_pools && mode != NULL && strcmp(mode, "exact") == 0;
  memory->fill = lode_environment("LODE_DEBUG_FILL") != NULL;
  memory->queue_end = &memory->queue;
  lode_status status = open_memory(device, memory, error);
  if (device->memory == NULL) free(memory); /* the next call tries again */
  return status;
}

/* ---- classes ------------------------------------------------------------------ */

/* The class that holds `bytes` (up to 2^61); -1: blocks are not kept. */
static int class_of(const struct lode_cuda_memory *memory, size_t bytes) {
  if (memory->exact) return -1;
  if (bytes <= SMALL) return bytes <= GRAIN ? 0 : 64 - __builtin_clzll((bytes - 1) / GRAIN);
  int shift = 63 - __builtin_clzll(bytes - 1);
  size_t eighths = ((bytes - 1) >> (shift - 3)) + 1; /* 9..16 */
  return SMALL_CLASSES + (shift - SMALL_SHIFT) * 8 + (int)(eighths - 9);
}

/* Large blocks of a pool are as large as was asked for; without one, as their class, so that they serve again.
 */
static size_t capacity_of(const struct lode_cuda_memory *memory, int klass, size_t bytes) {
  if (memory->exact) return bytes;
  if (klass < SMALL_CLASSES) return (size_t)GRAIN << klass;
  if (memory->pool != NULL) return (bytes + GRAIN - 1) / GRAIN * GRAIN;
  int shift = SMALL_SHIFT + (klass - SMALL_CLASSES) / 8;
  return (size_t)((klass - SMALL_CLASSES) % 8 + 9) << (shift - 3);
}

/* ---- fronts ---------------------------------------------------------------------
 *
 * With the lock held. */

static void let_go(lode_cuda_front *front) {
  if (front != NULL && --front->holders == 0) free(front);
}

static void set_home(lode_cuda_block *block, lode_cuda_front *front) {
  if (block->home == front) return;
  let_go(block->home);
  block->home = front;
  if (front != NULL) front->holders++;
}

static void push(lode_cuda_front *front, lode_cuda_block *block) {
  front->kept[block->klass]++;
  if (block->klass < SMALL_CLASSES) front->small += block->capacity;
  block->next = front->list[block->klass];
  front->list[block->klass] = block;
}

/* The block that was kept last of those that hold `bytes`, or NULL. */
static lode_cuda_block *pop(lode_cuda_front *front, int klass, size_t bytes) {
  lode_cuda_block **link = &front->list[klass], *block;
  while (*link != NULL && (*link)->capacity < bytes) link = &(*link)->next;
  if ((block = *link) == NULL) return NULL;
  front->kept[klass]--;
  if (klass < SMALL_CLASSES) front->small -= block->capacity;
  *link = block->next;
  return block;
}

static void forget(struct lode_cuda_memory *memory, lode_cuda_block *block) {
  set_home(block, NULL);
  lode_cuda_blocks_remove(&memory->blocks, block);
}

/* Back to the pool, in the order of `stream`. */
static void give_back(struct lode_cuda_memory *memory, lode_cuda_block *block, CUstream stream) {
  lode_cu.cuMemFreeAsync(block->address, stream);
  forget(memory, block);
}

/* Whether a front over a pool keeps one block more. Of small ones as many as Lua's collector frees at a time
 * (what is less than a PIECE of garbage does not drive it), or most would go to the pool and come from there.
 */
static bool has_room(const struct lode_cuda_memory *memory, const lode_cuda_front *front, int klass,
                     size_t capacity) {
  if (klass < 0) return false;
  if (klass >= SMALL_CLASSES) return !memory->limited && front->kept[klass] < LARGE_KEPT;
  return memory->limited ? front->kept[klass] < KEPT : front->small + capacity <= PIECE;
}

/* For use, or back to the pool, in the order of its home. */
static void return_home(struct lode_cuda_memory *memory, lode_cuda_block *block) {
  lode_cuda_front *home = block->home;
  bool alive = home != NULL && home->stream != NULL;
  if (memory->pool == NULL) {
    if (!alive) set_home(block, NULL);
    push(alive ? home : &memory->idle, block);
  } else if (alive && has_room(memory, home, block->klass, block->capacity)) {
    push(home, block);
  } else {
    give_back(memory, block, alive ? home->stream->handle : memory->freeing);
  }
}

/* Drops the references of events that are reached; whether all were. */
static bool settle(lode_cuda_block *block) {
  while (block->pending > 0 && lode_cuda_event_ready(block->after[block->pending - 1]))
    lode_event_unref(block->after[--block->pending]);
  if (block->pending > 0) return false;
  free(block->after);
  block->after = NULL;
  return true;
}

/* Sends blocks of the queue home whose events are reached, looking at `most`. */
static void sweep_queue(struct lode_cuda_memory *memory, int most) {
  lode_cuda_block **link = &memory->queue;
  while (*link != NULL && most-- > 0) {
    lode_cuda_block *block = *link;
    if (!settle(block)) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    if (memory->queue_end == &block->next) memory->queue_end = link;
    return_home(memory, block);
  }
}

static lode_cuda_block *reuse(struct lode_cuda_memory *memory, lode_cuda_front *front, int klass,
                              size_t bytes) {
  lode_cuda_block *block = pop(front, klass, bytes);
  if (block == NULL && memory->queue != NULL) {
    sweep_queue(memory, SWEEP);
    block = pop(front, klass, bytes);
  }
  if (block != NULL || memory->pool != NULL) return block;
  block = pop(&memory->idle, klass, bytes);
  if (block != NULL) set_home(block, front);
  return block;
}

/* Gives up a front's blocks from `first` class on; without a pool, they go to `list`. */
static void empty_front(struct lode_cuda_memory *memory, lode_cuda_front *front, int first,
                        lode_cuda_block **list) {
  for (int klass = first; klass < CLASSES; klass++) {
    for (lode_cuda_block *block = pop(front, klass, 0); block != NULL; block = pop(front, klass, 0)) {
      if (memory->pool != NULL) {
        give_back(memory, block, front->stream->handle);
        continue;
      }
      set_home(block, NULL);
      block->next = *list;
      *list = block;
    }
  }
}

/* To the pool: what is kept of classes from `first` on, and what waits in the queue no longer. */
static void give_back_from(struct lode_cuda_memory *memory, int first) {
  sweep_queue(memory, INT32_MAX);
  for (lode_cuda_front *front = memory->fronts; front != NULL; front = front->next)
    empty_front(memory, front, first, NULL);
}

/* ---- allocating ------------------------------------------------------------------ */

static int64_t pool_size(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t size = 0;
  return lode_cu.cuMemPoolGetAttribute(pool, which, &size) == CUDA_SUCCESS ? (int64_t)size : 0;
}

/* With the lock held: whether the system was asked for more since the last look. */
static bool look(struct lode_cuda_memory *memory) {
  int64_t before = memory->usage.reserved;
  if (memory->pool == NULL) return false;
  memory->usage.reserved = pool_size(memory->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  int64_t peak = pool_size(memory->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  if (peak > memory->usage.peak_reserved) memory->usage.peak_reserved = peak;
  return memory->usage.reserved > before;
}

static lode_status no_memory(lode_cuda_device *device, size_t bytes, lode_error *error) {
  lode_memory usage;
  char budget[40] = "no budget";
  lode_cuda_memory_usage(device, &usage);
  if (usage.budget > 0) snprintf(budget, sizeof budget, "budget %lld", (long long)usage.budget);
  return lode_fail(
      error, LODE_NOMEM, "cannot have %zu bytes on %s: used %lld, reserved %lld, %s, available %lld", bytes,
      device->base.name, (long long)usage.used, (long long)usage.reserved, budget, (long long)usage.available);
}

/* A pool may pass the budget by the piece that it took last. False: by more. */
static bool within_budget(lode_cuda_device *device) {
  struct lode_cuda_memory *memory = device->memory;
  int64_t budget = atomic_load(&device->budget);
  lode_mutex_lock(&memory->lock);
  if (look(memory)) lode_count(&device->base, LODE_COUNT_system_allocations);
  int64_t reserved = memory->usage.reserved;
  if (budget > 0 && reserved > budget + PIECE) {
    lode_cu.cuMemPoolTrimTo(memory->pool, (size_t)budget);
    look(memory);
    reserved = memory->usage.reserved;
  }
  lode_mutex_unlock(&memory->lock);
  return budget == 0 || reserved <= budget + PIECE;
}

/* Bytes that the pool has and nobody holds. */
static int64_t spare(CUmemoryPool pool) {
  return pool_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) -
         pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

/* Before the pool grows, it gets back what is kept of large blocks. A pool that cannot grow enough has taken
 * all there is when it says so: it is not asked for what the system does not have. */
static bool can_have(struct lode_cuda_memory *memory, size_t capacity) {
  size_t left, total;
  if ((int64_t)capacity <= spare(memory->pool)) return true;
  lode_mutex_lock(&memory->lock);
  give_back_from(memory, SMALL_CLASSES);
  lode_mutex_unlock(&memory->lock);
  int64_t more = (int64_t)capacity - spare(memory->pool);
  return more <= PIECE || lode_cu.cuMemGetInfo(&left, &total) != CUDA_SUCCESS || (size_t)more <= left;
}

static lode_status from_pool(lode_cuda_device *device, CUstream stream, size_t capacity, CUdeviceptr *address,
                             lode_error *error) {
  CUmemoryPool pool = device->memory->pool;
  if (!can_have(device->memory, capacity)) return lode_failed(LODE_NOMEM);
  int64_t before = pool_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  CUresult result = lode_cu.cuMemAllocFromPoolAsync(address, capacity, pool, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    lode_cu.cuMemPoolTrimTo(pool, (size_t)before); /* what it took in vain */
  LODE_TRY(lode_driver_check(result, "cuMemAllocFromPoolAsync", error));
  if (within_budget(device)) return LODE_OK;
  lode_cu.cuMemFreeAsync(*address, stream);
  return lode_failed(LODE_NOMEM);
}

static lode_status from_system(lode_cuda_device *device, size_t capacity, CUdeviceptr *address,
                               lode_error *error) {
  struct lode_cuda_memory *memory = device->memory;
  LODE_CU(error, cuMemAlloc, address, capacity);
  lode_count(&device->base, LODE_COUNT_system_allocations);
  lode_mutex_lock(&memory->lock);
  memory->usage.reserved += (int64_t)capacity;
  if (memory->usage.reserved > memory->usage.peak_reserved)
    memory->usage.peak_reserved = memory->usage.reserved;
  lode_mutex_unlock(&memory->lock);
  return LODE_OK;
}

static void release_address(struct lode_cuda_memory *memory, CUstream stream, CUdeviceptr address) {
  if (memory->pool != NULL) lode_cu.cuMemFreeAsync(address, stream);
  else lode_cu.cuMemFree(address);
}

/* A block that the front does not have. */
static lode_status obtain(lode_cuda_device *device, lode_cuda_stream *stream, int klass, size_t capacity,
                          lode_cuda_block **out, lode_error *error) {
  struct lode_cuda_memory *memory = device->memory;
  CUdeviceptr address;
  if (memory->pool != NULL) LODE_TRY(from_pool(device, stream->handle, capacity, &address, error));
  else LODE_TRY(from_system(device, capacity, &address, error));
  lode_mutex_lock(&memory->lock);
  lode_cuda_block *block = lode_cuda_blocks_add(&memory->blocks, address);
  if (block != NULL) {
    block->capacity = capacity;
    block->klass = klass;
    set_home(block, stream->front);
  } else {
    release_address(memory, stream->handle, address);
    if (memory->pool == NULL) memory->usage.reserved -= (int64_t)capacity;
  }
  lode_mutex_unlock(&memory->lock);
  *out = block;
  return block != NULL ? LODE_OK : lode_fail(error, LODE_NOMEM, "no host memory for a block's record");
}

static bool affords(lode_cuda_device *device, const struct lode_cuda_memory *memory, size_t capacity,
                    bool fresh) {
  int64_t budget = atomic_load(&device->budget), held = memory->usage.used;
  if (memory->pool == NULL && fresh) held = memory->usage.reserved;
  return budget == 0 || held + (int64_t)capacity <= budget;
}

/* Takes the capacity into account at once, so that threads do not pass the budget together. *out: NULL
 * where the block has to be obtained. */
static bool take_kept(lode_cuda_device *device, lode_cuda_stream *stream, int klass, size_t capacity,
                      lode_cuda_block **out) {
  struct lode_cuda_memory *memory = device->memory;
  *out = NULL;
  lode_mutex_lock(&memory->lock);
  sweep_queue(memory, SWEEP);
  if (klass >= 0) *out = reuse(memory, stream->front, klass, capacity);
  if (*out != NULL) capacity = (*out)->capacity;
  bool granted = affords(device, memory, capacity, *out == NULL);
  if (granted) {
    memory->usage.used += (int64_t)capacity;
    if (memory->usage.used > memory->usage.peak_used) memory->usage.peak_used = memory->usage.used;
  } else if (*out != NULL) {
    push(stream->front, *out);
  }
  lode_mutex_unlock(&memory->lock);
  return granted;
}

lode_status lode_cuda_alloc(lode_stream *base, size_t bytes, void **out, lode_error *error) {
  lode_cuda_device *device = lode_cuda_home(base);
  lode_cuda_stream *stream = lode_cuda_stream_of(base);
  struct lode_cuda_memory *memory = device->memory;
  lode_cuda_block *block;
  if (bytes > (size_t)1 << 61) return no_memory(device, bytes, error);
  int klass = class_of(memory, bytes);
  size_t capacity = capacity_of(memory, klass, bytes);
  if (!take_kept(device, stream, klass, capacity, &block)) return no_memory(device, bytes, error);
  if (block == NULL) {
    lode_status status = obtain(device, stream, klass, capacity, &block, error);
    if (status != LODE_OK) {
      lode_mutex_lock(&memory->lock);
      memory->usage.used -= (int64_t)capacity;
      lode_mutex_unlock(&memory->lock);
      return status == LODE_NOMEM ? no_memory(device, bytes, error) : status;
    }
  }
  lode_count(&device->base, LODE_COUNT_allocations);
  if (memory->fill) lode_cu.cuMemsetD8Async(block->address, 0xA5, capacity, stream->handle);
  *out = (void *)(uintptr_t)block->address;
  return LODE_OK;
}

/* ---- freeing ---------------------------------------------------------------------
 *
 * With the lock held. */

/* Whether the event is, or will be, reached before later work of the block's home. */
static bool is_behind(const lode_cuda_block *block, lode_event *event) {
  const lode_cuda_front *home = block->home;
  if (home != NULL && home->stream != NULL && event->stream == &home->stream->base) return true;
  return lode_cuda_event_ready(event);
}

/* Where there is no memory to remember the events, they are waited for: the one exception to "never waits". */
static bool remember(lode_cuda_block *block, lode_event *const *after, int count) {
  block->after = malloc((size_t)count * sizeof *after);
  if (block->after != NULL) {
    memcpy(block->after, after, (size_t)count * sizeof *after);
    block->pending = count;
    return true;
  }
  for (int i = 0; i < count; i++) {
    bool waited;
    lode_cuda_event_wait(after[i], &waited, NULL);
  }
  return false;
}

/* Whether the events were kept. */
static bool return_block(struct lode_cuda_memory *memory, lode_cuda_block *block, lode_event *const *after,
                         int count) {
  int others = 0;
  for (int i = 0; i < count; i++) others += !is_behind(block, after[i]);
  if (others == 0 || !remember(block, after, count)) {
    return_home(memory, block);
    return false;
  }
  block->next = NULL;
  *memory->queue_end = block;
  memory->queue_end = &block->next;
  return true;
}

void lode_cuda_free(lode_cuda_device *device, void *address, size_t bytes, lode_event *const *after,
                    int count) {
  (void)bytes;
  struct lode_cuda_memory *memory = device->memory;
  bool kept = false;
  lode_mutex_lock(&memory->lock);
  lode_cuda_block *block = lode_cuda_blocks_find(&memory->blocks, (CUdeviceptr)(uintptr_t)address);
  if (block != NULL) {
    memory->usage.used -= (int64_t)block->capacity;
    kept = return_block(memory, block, after, count);
  }
  lode_mutex_unlock(&memory->lock);
  for (int i = 0; i < count && !kept; i++) lode_event_unref(after[i]);
}

lode_status lode_cuda_take(lode_stream *stream, size_t bytes, void **block, lode_error *error) {
  *block = NULL;
  return bytes == 0 ? LODE_OK : lode_cuda_alloc(stream, bytes, block, error);
}

void lode_cuda_give(lode_stream *stream, void *address, size_t bytes) {
  (void)bytes;
  struct lode_cuda_memory *memory = lode_cuda_home(stream)->memory;
  if (address == NULL) return;
  lode_mutex_lock(&memory->lock);
  lode_cuda_block *block = lode_cuda_blocks_find(&memory->blocks, (CUdeviceptr)(uintptr_t)address);
  if (block != NULL) {
    memory->usage.used -= (int64_t)block->capacity;
    return_home(memory, block);
  }
  lode_mutex_unlock(&memory->lock);
}

/* ---- a stream comes and goes ----------------------------------------------------- */

lode_status lode_cuda_front_new(lode_cuda_stream *stream, lode_error *error) {
  struct lode_cuda_memory *memory = lode_cuda_home(&stream->base)->memory;
  lode_cuda_front *front = calloc(1, sizeof *front);
  if (front == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a stream");
  front->stream = stream;
  front->holders = 1;
  lode_mutex_lock(&memory->lock);
  front->next = memory->fronts;
  memory->fronts = front;
  lode_mutex_unlock(&memory->lock);
  stream->front = front;
  return LODE_OK;
}

void lode_cuda_front_free(lode_cuda_stream *stream) {
  struct lode_cuda_memory *memory = lode_cuda_home(&stream->base)->memory;
  lode_cuda_block *list = NULL;
  lode_mutex_lock(&memory->lock);
  empty_front(memory, stream->front, 0, &list);
  while (list != NULL) {
    lode_cuda_block *block = list;
    list = block->next;
    push(&memory->idle, block);
  }
  lode_cuda_front **link = &memory->fronts;
  while (*link != stream->front) link = &(*link)->next;
  *link = stream->front->next;
  stream->front->stream = NULL;
  let_go(stream->front);
  stream->front = NULL;
  lode_mutex_unlock(&memory->lock);
}

/* ---- giving back to the system ------------------------------------------------------ */

/* All blocks that are kept: to the pool, or, without one, a list of what cuMemFree may have once the
 * work enqueued so far is done. */
static lode_cuda_block *collect(struct lode_cuda_memory *memory) {
  lode_cuda_block *list = NULL;
  lode_mutex_lock(&memory->lock);
  sweep_queue(memory, INT32_MAX);
  for (lode_cuda_front *front = memory->fronts; front != NULL; front = front->next)
    empty_front(memory, front, 0, &list);
  empty_front(memory, &memory->idle, 0, &list);
  lode_mutex_unlock(&memory->lock);
  return list;
}

static void give_to_system(struct lode_cuda_memory *memory, lode_cuda_block *list) {
  lode_mutex_lock(&memory->lock);
  while (list != NULL) {
    lode_cuda_block *block = list;
    list = block->next;
    lode_cu.cuMemFree(block->address);
    memory->usage.reserved -= (int64_t)block->capacity;
    forget(memory, block);
  }
  lode_mutex_unlock(&memory->lock);
}

/* The first wait is for the queue; the second, for what goes back to the pool: it gives the system only what
 * a synchronize has seen to be free, on every stream. */
void lode_cuda_trim(lode_cuda_device *device) {
  struct lode_cuda_memory *memory = device->memory;
  lode_cuda_drain(device);
  lode_cuda_block *list = collect(memory);
  lode_cuda_drain(device);
  if (lode_cu.cuEventRecord(memory->mark, memory->freeing) == CUDA_SUCCESS)
    lode_cu.cuEventSynchronize(memory->mark);
  give_to_system(memory, list);
  if (memory->pool != NULL) lode_cu.cuMemPoolTrimTo(memory->pool, 0);
  lode_mutex_lock(&memory->lock);
  look(memory);
  lode_mutex_unlock(&memory->lock);
}

void lode_cuda_budget_changed(lode_cuda_device *device) {
  struct lode_cuda_memory *memory = device->memory;
  int64_t budget = atomic_load(&device->budget);
  set_threshold(device, NULL);
  lode_mutex_lock(&memory->lock);
  memory->limited = budget > 0;
  if (budget > 0 && memory->pool != NULL) {
    give_back_from(memory, 0);
    lode_cu.cuMemPoolTrimTo(memory->pool, (size_t)budget);
  }
  lode_mutex_unlock(&memory->lock);
}

void lode_cuda_memory_usage(lode_cuda_device *device, lode_memory *out) {
  struct lode_cuda_memory *memory = device->memory;
  size_t left = 0, total;
  bool known = lode_cu.cuMemGetInfo(&left, &total) == CUDA_SUCCESS;
  lode_mutex_lock(&memory->lock);
  look(memory);
  *out = memory->usage;
  lode_mutex_unlock(&memory->lock);
  out->budget = atomic_load(&device->budget);
  out->available = known ? (int64_t)left : -1;
}
