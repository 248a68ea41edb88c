/* Copies between host and device.
 *
 * In: through a ring of pinned memory, since the driver copies pageable memory while the
 * caller waits. A piece of the ring is *filling* (a thread writes it), then *flying* (its
 * event is recorded behind the copy), and free again once the event is reached; pieces are freed in
 * their order, also those of different streams. A copy waits only where the ring is full, and
 * without the lock.
 *
 * Out: the caller waits anyway, so each copy has a pair of pinned buffers of its own:
 * one arrives while the host empties the other; and a stream of its own, so that it waits for no
 * work that was enqueued after what it reads. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum {
  RING = 16 << 20,
  PIECE = 4 << 20, /* of the ring at a time: the device copies one while the host fills the next */
  PIECES = 512,    /* that may be under way: more only where copies are tiny */
  ALIGNMENT = 256,
  LANDING = 2 << 20 /* bytes of one buffer on the way out */
};

typedef enum piece_state { PIECE_FILLING, PIECE_FLYING, PIECE_DONE } piece_state;

typedef struct piece {
  uint64_t start, end; /* in bytes that have passed through the ring */
  piece_state state;
  CUevent event; /* made on first use, and kept */
} piece;

typedef struct landing {
  struct landing *next;
  CUstream stream;
  char *buffer[2];
  CUevent event[2];
} landing;

struct lode_cuda_transfer {
  lode_mutex lock;
  pthread_cond_t filled; /* a piece is no longer filling */
  char *ring;            /* NULL: not used yet */
  uint64_t head;         /* where the next piece starts, if it need not start anew at the ring's start */
  unsigned first, count; /* pieces under way: piece[first % PIECES] is the oldest */
  piece piece[PIECES];
  landing *landings; /* not in use */
};

lode_status lode_cuda_transfer_open(lode_cuda_device *device, lode_error *error) {
  struct lode_cuda_transfer *staging = calloc(1, sizeof *staging);
  if (staging == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for the staging ring");
  pthread_mutex_init(&staging->lock, NULL);
  pthread_cond_init(&staging->filled, NULL);
  device->staging = staging;
  return LODE_OK;
}

static lode_status pinned_buffer(size_t bytes, char **out, lode_error *error) {
  void *made = NULL;
  if (*out != NULL) return LODE_OK;
  LODE_CU(error, cuMemHostAlloc, &made, bytes, CU_MEMHOSTALLOC_PORTABLE);
  *out = made;
  return LODE_OK;
}

static CUdeviceptr device_address(const void *block) { return (CUdeviceptr)(uintptr_t)block; }

/* ---- the ring ---------------------------------------------------------------- */

/* All with the lock held. */

static piece *oldest(struct lode_cuda_transfer *staging) { return &staging->piece[staging->first % PIECES]; }

/* Takes pieces off that are done. A lost device's are never reached: its copies fail by themselves. */
static void reclaim(struct lode_cuda_transfer *staging) {
  while (staging->count > 0) {
    const piece *old = oldest(staging);
    if (old->state == PIECE_FILLING) return;
    if (old->state == PIECE_FLYING && lode_cu.cuEventQuery(old->event) == CUDA_ERROR_NOT_READY) return;
    staging->first++;
    staging->count--;
  }
}

/* A piece in one part, if there is room: NULL otherwise. */
static piece *claim(struct lode_cuda_transfer *staging, size_t bytes) {
  reclaim(staging);
  if (staging->count == 0) staging->head = 0;
  if (staging->count == PIECES) return NULL;
  uint64_t start = staging->head, rest = RING - start % RING;
  if (rest < bytes) start += rest;
  uint64_t tail = staging->count > 0 ? oldest(staging)->start : start;
  if (start + bytes - tail > RING) return NULL;
  piece *next = &staging->piece[(staging->first + staging->count) % PIECES];
  next->start = start;
  next->end = start + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  next->state = PIECE_FILLING;
  staging->head = next->end;
  staging->count++;
  return next;
}

/* Until the oldest piece may be done, leaving the lock meanwhile. Its event may be recorded anew by then: that
 * makes the wait longer, not wrong. */
static lode_status wait_for_room(lode_cuda_device *device, struct lode_cuda_transfer *staging,
                                 lode_error *error) {
  const piece *old = oldest(staging);
  if (old->state == PIECE_FILLING) {
    pthread_cond_wait(&staging->filled, &staging->lock);
    return LODE_OK;
  }
  CUevent event = old->event;
  bool waited;
  lode_mutex_unlock(&staging->lock);
  lode_status status = lode_cuda_await(device, event, &waited, error);
  lode_mutex_lock(&staging->lock);
  return status;
}

static lode_status claim_piece(lode_cuda_device *device, size_t bytes, piece **out, lode_error *error) {
  struct lode_cuda_transfer *staging = device->staging;
  lode_mutex_lock(&staging->lock);
  lode_status status = pinned_buffer(RING, &staging->ring, error);
  *out = NULL;
  while (status == LODE_OK && (*out = claim(staging, bytes)) == NULL)
    status = wait_for_room(device, staging, error);
  lode_mutex_unlock(&staging->lock);
  return status;
}

static lode_status send(lode_stream *stream, piece *p, void *block, const void *host, size_t bytes,
                        lode_error *error) {
  char *pinned = lode_cuda_home(stream)->staging->ring + p->start % RING;
  CUstream handle = lode_cuda_stream_of(stream)->handle;
  memcpy(pinned, host, bytes);
  if (p->event == NULL) LODE_TRY(lode_cuda_event_handle_new(&p->event, error));
  LODE_CU(error, cuMemcpyHtoDAsync, device_address(block), pinned, bytes, handle);
  LODE_CU(error, cuEventRecord, p->event, handle);
  return LODE_OK;
}

static lode_status copy_piece(lode_stream *stream, void *block, const void *host, size_t bytes,
                              lode_error *error) {
  lode_cuda_device *device = lode_cuda_home(stream);
  struct lode_cuda_transfer *staging = device->staging;
  piece *p;
  LODE_TRY(claim_piece(device, bytes, &p, error));
  lode_status status = send(stream, p, block, host, bytes, error);
  lode_mutex_lock(&staging->lock);
  p->state = status == LODE_OK ? PIECE_FLYING : PIECE_DONE;
  pthread_cond_broadcast(&staging->filled);
  lode_mutex_unlock(&staging->lock);
  return status;
}

lode_status lode_cuda_copy_in(lode_stream *stream, void *block, const void *host, size_t bytes,
                              lode_error *error) {
  for (size_t done = 0; done < bytes; done += PIECE) {
    size_t left = bytes - done;
    lode_status status =
        copy_piece(stream, (char *)block + done, (const char *)host + done, left < PIECE ? left : PIECE, error);
    if (status == LODE_OK) continue;
    lode_cuda_stream_sync(stream, NULL); /* nobody will know of the pieces that are under way */
    return status;
  }
  return LODE_OK;
}

/* ---- out ------------------------------------------------------------------------ */

static lode_status complete(landing *pair, lode_error *error) {
  if (pair->stream == NULL) LODE_CU(error, cuStreamCreate, &pair->stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < 2; i++) {
    LODE_TRY(pinned_buffer(LANDING, &pair->buffer[i], error));
    if (pair->event[i] == NULL) LODE_TRY(lode_cuda_event_handle_new(&pair->event[i], error));
  }
  return LODE_OK;
}

static void give_landing(struct lode_cuda_transfer *staging, landing *pair) {
  lode_mutex_lock(&staging->lock);
  pair->next = staging->landings;
  staging->landings = pair;
  lode_mutex_unlock(&staging->lock);
}

/* One that no other thread uses; one that could not be completed is tried again by the next. */
static lode_status take_landing(struct lode_cuda_transfer *staging, landing **out, lode_error *error) {
  lode_mutex_lock(&staging->lock);
  landing *pair = staging->landings;
  if (pair != NULL) staging->landings = pair->next;
  lode_mutex_unlock(&staging->lock);
  if (pair == NULL) pair = calloc(1, sizeof *pair);
  if (pair == NULL) return lode_fail(error, LODE_NOMEM, "no host memory for a copy");
  lode_status status = complete(pair, error);
  if (status != LODE_OK) give_landing(staging, pair);
  *out = pair;
  return status;
}

/* Enqueues the copy of the part that starts at `done`. */
static lode_status request(landing *pair, const char *block, size_t done, size_t bytes, lode_error *error) {
  int which = (int)(done / LANDING % 2);
  size_t left = bytes - done;
  LODE_CU(error, cuMemcpyDtoHAsync, pair->buffer[which], device_address(block + done),
          left < LANDING ? left : LANDING, pair->stream);
  LODE_CU(error, cuEventRecord, pair->event[which], pair->stream);
  return LODE_OK;
}

/* Where a part is waited for, later ones are too: the wait is one, and counted once. */
static lode_status arrive(lode_cuda_device *device, CUevent event, bool *waited, lode_error *error) {
  bool again = false;
  if (!*waited) return lode_cuda_await(device, event, waited, error);
  return lode_cuda_await_uncounted(device, event, &again, error);
}

static lode_status receive(lode_cuda_device *device, landing *pair, char *host, const char *block, size_t bytes,
                           lode_error *error) {
  bool waited = false;
  LODE_TRY(request(pair, block, 0, bytes, error));
  for (size_t done = 0; done < bytes; done += LANDING) {
    int which = (int)(done / LANDING % 2);
    size_t left = bytes - done;
    if (left > LANDING) LODE_TRY(request(pair, block, done + LANDING, bytes, error));
    LODE_TRY(arrive(device, pair->event[which], &waited, error));
    memcpy(host + done, pair->buffer[which], left < LANDING ? left : LANDING);
  }
  return LODE_OK;
}

lode_status lode_cuda_copy_out(lode_cuda_device *device, void *host, const void *block, size_t bytes,
                               lode_event *after, lode_error *error) {
  struct lode_cuda_transfer *staging = device->staging;
  landing *pair;
  if (bytes == 0) return LODE_OK;
  LODE_TRY(take_landing(staging, &pair, error));
  lode_status status = after != NULL ? lode_cuda_event_order(after, pair->stream, error) : LODE_OK;
  if (status == LODE_OK) status = receive(device, pair, host, block, bytes, error);
  /* A copy that may still be under way must not arrive in a buffer that another uses: the pair is given up. */
  if (status == LODE_OK) give_landing(staging, pair);
  return status;
}

lode_status lode_cuda_copy_within(lode_stream *stream, void *to, const void *from, size_t bytes,
                                  lode_error *error) {
  LODE_CU(error, cuMemcpyDtoDAsync, device_address(to), device_address(from), bytes,
          lode_cuda_stream_of(stream)->handle);
  return LODE_OK;
}
