/* See pool.h.
 *
 * A block is a header of one cache line and the bytes handed out. The capacity
 * of both is rounded up to one of eight classes for each power of two (waste
 * below an eighth). Small blocks come from the C library, large ones straight
 * from the system in huge pages. A freed block goes to the list of its class, or,
 * if work that uses it is still enqueued, to a queue that allocations sweep.
 *
 * Under the address sanitizer everything that is not handed out is poisoned:
 * free blocks, headers, and the slack behind a block. */
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/mutex.h"
#include "../core/system.h"
#include "cpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define POOL_SANITIZED 1
#endif
#ifdef POOL_SANITIZED
#include <sanitizer/asan_interface.h>
#define POISON(address, bytes)   __asan_poison_memory_region(address, bytes)
#define UNPOISON(address, bytes) __asan_unpoison_memory_region(address, bytes)
#else
#define POISON(address, bytes)   ((void)(address), (void)(bytes))
#define UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
  ALIGNMENT = 64,
  SLACK = 64,      /* readable bytes behind a block */
  FIRST_SHIFT = 9, /* classes are multiples of 64 up to 512, then eighths of powers of two */
  CLASSES = 8 + 8 * (63 - FIRST_SHIFT),
  LARGE = 256 << 10,  /* capacity from which blocks are pages of their own */
  CHECKED = 16 << 20, /* capacity from which the system is asked what is available first */
  INLINE_EVENTS = 4,
  SWEEP = 8 /* queued blocks that one allocation looks at */
};

typedef struct block {
  struct block *next;
  uint32_t klass;
  int32_t count; /* events to wait for; more than INLINE_EVENTS are behind `many` */
  union {
    lode_event *few[INLINE_EVENTS];
    lode_event **many;
  } after;
  _Alignas(ALIGNMENT) char bytes[];
} block;

static struct {
  lode_mutex lock;
  block *list[CLASSES];
  block *queue, **queue_end; /* blocks with events that may not be reached yet, oldest first */
  lode_memory memory;
} pool = {.lock = LODE_MUTEX_INIT, .queue_end = &pool.queue};

static atomic_int fill = -1; /* LODE_DEBUG_FILL: -1 not looked at yet */

/* ---- classes ------------------------------------------------------------ */

/* The class whose capacity is the least that holds `total` bytes (up to 2^62). */
static uint32_t class_of(size_t total) {
  if (total <= (size_t)1 << FIRST_SHIFT) return (uint32_t)((total + ALIGNMENT - 1) / ALIGNMENT) - 1;
  int shift = 63 - __builtin_clzll(total - 1);
  size_t eighths = ((total - 1) >> (shift - 3)) + 1; /* 9..16 */
  return (uint32_t)(8 + (shift - FIRST_SHIFT) * 8 + (int)(eighths - 9));
}

static size_t class_capacity(uint32_t klass) {
  if (klass < 8) return (size_t)(klass + 1) * ALIGNMENT;
  uint32_t shift = FIRST_SHIFT + (klass - 8) / 8;
  return (size_t)((klass - 8) % 8 + 9) << (shift - 3);
}

/* ---- the system --------------------------------------------------------- */

static block *system_take(uint32_t klass) {
  size_t capacity = class_capacity(klass);
  block *made = capacity >= LARGE ? lode_pages_take(capacity) : aligned_alloc(ALIGNMENT, capacity);
  if (made == NULL) return NULL;
  made->klass = klass;
  pool.memory.reserved += (int64_t)capacity;
  if (pool.memory.reserved > pool.memory.peak_reserved) pool.memory.peak_reserved = pool.memory.reserved;
  return made;
}

static void system_give(block *old) {
  size_t capacity = class_capacity(old->klass);
  pool.memory.reserved -= (int64_t)capacity;
  UNPOISON(old, capacity);
  if (capacity >= LARGE) lode_pages_give(old, capacity);
  else free(old);
}

/* What may still be taken. Pages that were mapped and never touched do not show in the system's
 * number yet; what exceeds the resident set is surely untouched. */
static int64_t available(void) {
  int64_t left = lode_memory_available(), resident = lode_memory_resident();
  if (left < 0) return left;
  int64_t untouched = resident >= 0 && pool.memory.reserved > resident ? pool.memory.reserved - resident : 0;
  return left > untouched ? left - untouched : 0;
}

/* ---- lists -------------------------------------------------------------- */

static void keep(block *old) {
  POISON(old->bytes, class_capacity(old->klass) - sizeof *old);
  old->next = pool.list[old->klass];
  pool.list[old->klass] = old;
}

static block *reuse(uint32_t klass) {
  block *old = pool.list[klass];
  if (old != NULL) pool.list[klass] = old->next;
  return old;
}

static lode_event **events_of(block *old) {
  return old->count > INLINE_EVENTS ? old->after.many : old->after.few;
}

/* Drops the references of events that are reached; whether all were. */
static bool settle(block *old) {
  lode_event **events = events_of(old), **all = events;
  bool many = old->count > INLINE_EVENTS;
  int left = old->count;
  while (left > 0 && events[left - 1]->device->api->event_ready(events[left - 1]))
    lode_event_unref(events[--left]);
  if (left > 0 && many) { /* stays where it is; the array must not be taken for a short one */
    if (left > INLINE_EVENTS) {
      old->count = left;
      return false;
    }
    lode_event *few[INLINE_EVENTS];
    memcpy(few, all, (size_t)left * sizeof *few);
    memcpy(old->after.few, few, (size_t)left * sizeof *few);
  }
  old->count = left;
  if (many) free(all);
  return left == 0;
}

/* Moves blocks of the queue whose events are reached to their lists, looking at `most`. */
static void sweep(int most) {
  block **link = &pool.queue;
  while (*link != NULL && most-- > 0) {
    block *old = *link;
    if (!settle(old)) {
      link = &old->next;
      continue;
    }
    *link = old->next;
    if (pool.queue_end == &old->next) pool.queue_end = link;
    keep(old);
  }
}

/* Gives kept blocks back, the largest first, until `reserved` is at most `target`. */
static void release_down_to(int64_t target) {
  for (int k = CLASSES - 1; k >= 0; k--)
    while (pool.list[k] != NULL && pool.memory.reserved > target) system_give(reuse((uint32_t)k));
}

/* ---- the interface ------------------------------------------------------ */

static lode_status no_memory(size_t bytes, lode_error *error) {
  char budget[40] = "no budget";
  if (pool.memory.budget > 0) snprintf(budget, sizeof budget, "budget %lld", (long long)pool.memory.budget);
  return lode_fail(
      error, LODE_NOMEM, "cannot have %zu bytes on cpu: used %lld, reserved %lld, %s, available %lld", bytes,
      (long long)pool.memory.used, (long long)pool.memory.reserved, budget, (long long)available());
}

/* A block that the lists do not have. */
static block *obtain(uint32_t klass) {
  int64_t capacity = (int64_t)class_capacity(klass), budget = pool.memory.budget;
  if (budget > 0 && pool.memory.reserved + capacity > budget) {
    if (capacity > budget) return NULL;
    release_down_to(budget - capacity);
    if (pool.memory.reserved + capacity > budget) return NULL;
  }
  if (capacity >= CHECKED) {
    int64_t left = available();
    if (left >= 0 && left < capacity) {
      release_down_to(0);
      left = available();
      if (left < capacity) return NULL;
    }
  }
  block *made = system_take(klass);
  if (made == NULL) {
    release_down_to(0);
    made = system_take(klass);
  }
  if (made != NULL) lode_count(&lode_cpu_device, LODE_COUNT_system_allocations);
  return made;
}

static block *find(size_t bytes) {
  uint32_t klass = class_of(bytes + sizeof(block) + SLACK);
  if (pool.queue != NULL) sweep(SWEEP);
  block *found = reuse(klass);
  if (found == NULL && pool.queue != NULL) {
    sweep(INT32_MAX);
    found = reuse(klass);
  }
  return found != NULL ? found : obtain(klass);
}

static void debug_fill(block *b) {
  if (fill < 0) fill = lode_environment("LODE_DEBUG_FILL") != NULL;
  if (fill == 0) return;
  UNPOISON(b->bytes, class_capacity(b->klass) - sizeof *b);
  memset(b->bytes, 0xA5, class_capacity(b->klass) - sizeof *b);
}

lode_status lode_pool_alloc(lode_stream *stream, size_t bytes, void **out, lode_error *error) {
  lode_mutex_lock(&pool.lock);
  block *found = bytes < (size_t)1 << 61 ? find(bytes) : NULL;
  if (found == NULL) {
    lode_status status = no_memory(bytes, error);
    lode_mutex_unlock(&pool.lock);
    return status;
  }
  size_t capacity = class_capacity(found->klass);
  pool.memory.used += (int64_t)capacity;
  if (pool.memory.used > pool.memory.peak_used) pool.memory.peak_used = pool.memory.used;
  lode_mutex_unlock(&pool.lock);

  lode_count(stream->device, LODE_COUNT_allocations);
  debug_fill(found);
  UNPOISON(found->bytes, bytes);
  POISON(found->bytes + bytes, capacity - sizeof *found - bytes);
  *out = found->bytes;
  return LODE_OK;
}

/* Keeps the references to events that are not reached yet; the rest are dropped. */
static int pending(lode_event *const *after, int count, lode_event **kept) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    if (after[i]->device->api->event_ready(after[i])) lode_event_unref(after[i]);
    else kept[left++] = after[i];
  }
  return left;
}

/* Where there is no memory to remember the events, they are waited for: the one exception to
 * "never waits", with more than four events and not a byte left. */
static void remember(block *old, lode_event *const *after, int count) {
  lode_event **kept = old->after.few;
  if (count > INLINE_EVENTS) kept = malloc((size_t)count * sizeof *kept);
  if (kept == NULL) {
    for (int i = 0; i < count; i++) {
      bool waited;
      after[i]->device->api->event_wait(after[i], &waited, NULL);
      lode_event_unref(after[i]);
    }
    old->count = 0;
    return;
  }
  old->count = pending(after, count, kept);
  if (count <= INLINE_EVENTS) return;
  if (old->count > INLINE_EVENTS) {
    old->after.many = kept;
  } else {
    memcpy(old->after.few, kept, (size_t)old->count * sizeof *kept);
    free(kept);
  }
}

void lode_pool_free(lode_device *device, void *bytes, size_t size, lode_event *const *after, int count) {
  (void)device, (void)size;
  block *old = (block *)((char *)bytes - sizeof(block));
  remember(old, after, count);
  if (old->count == 0) debug_fill(old);
  lode_mutex_lock(&pool.lock);
  pool.memory.used -= (int64_t)class_capacity(old->klass);
  if (old->count == 0) {
    keep(old);
  } else {
    old->next = NULL;
    *pool.queue_end = old;
    pool.queue_end = &old->next;
  }
  lode_mutex_unlock(&pool.lock);
}

/* Waits without the lock, since other threads may have to free before the events are reached. */
static void wait_for_queue(void) {
  for (;;) {
    lode_mutex_lock(&pool.lock);
    sweep(INT32_MAX);
    lode_event *event =
        pool.queue != NULL ? lode_event_ref(events_of(pool.queue)[pool.queue->count - 1]) : NULL;
    lode_mutex_unlock(&pool.lock);
    if (event == NULL) return;
    bool waited;
    event->device->api->event_wait(event, &waited, NULL);
    lode_event_unref(event);
  }
}

void lode_pool_trim(lode_device *device) {
  (void)device;
  wait_for_queue();
  lode_mutex_lock(&pool.lock);
  release_down_to(0);
  lode_mutex_unlock(&pool.lock);
}

void lode_pool_memory(lode_device *device, lode_memory *out) {
  (void)device;
  lode_mutex_lock(&pool.lock);
  *out = pool.memory;
  out->available = available();
  lode_mutex_unlock(&pool.lock);
}

void lode_pool_set_budget(lode_device *device, int64_t bytes) {
  (void)device;
  lode_mutex_lock(&pool.lock);
  pool.memory.budget = bytes > 0 ? bytes : 0;
  if (bytes > 0) release_down_to(bytes);
  lode_mutex_unlock(&pool.lock);
}

void lode_pool_fork_prepare(void) { lode_mutex_lock(&pool.lock); }
void lode_pool_fork_release(void) { lode_mutex_unlock(&pool.lock); }
