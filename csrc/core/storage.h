/* Storages: blocks of device memory, with what is still pending on them.
 *
 * A storage belongs to one context and is touched by its thread alone; only the
 * device, behind the events, touches the bytes. Counted: by the nodes whose
 * elements lie in it and by the compute in progress. */
#ifndef LODE_STORAGE_H
#define LODE_STORAGE_H

#include "device.h"

typedef struct lode_context lode_context;

enum { LODE_MAX_USES = 4 };

typedef struct lode_storage {
  int refs;
  int nuses;
  lode_context *context; /* owner; kept alive by it */
  lode_device *device;
  void *block;
  size_t bytes;                   /* as asked for */
  lode_event *write;              /* reached when the contents are there; NULL: they are */
  lode_event *use[LODE_MAX_USES]; /* the last reader on each of so many streams, if not known to be done */
  uint32_t recipe;                /* the last recipe that gave it a buffer, and which (recipe.c); 0: none */
  int buffer;
  bool touched, writing;     /* used, written by the compute in progress: its event is not recorded yet */
  struct lode_storage *next; /* in the context's list of unused headers */
} lode_storage;

/* Allocation goes up a ladder before it gives up: drop what is dead, then trim
 * the device. NOMEM after that leaves all as it was; the binding then collects
 * Lua's garbage and calls again. The device that was short is context->short_of. */
lode_status lode_storage_new(lode_context *context, const char *who, lode_device *device, size_t bytes,
                             lode_storage **out);
/* For any other call of a device that answered NOMEM: does the ladder's first steps, so that the caller may
 * call once more. */
void lode_storage_relieve(lode_context *context, lode_device *device);
/* `call` once more where the first time found no memory: an expression that gives a lode_status. */
#define LODE_WITH_LADDER(context, device, status, call)                                                        \
  do {                                                                                                         \
    (status) = (call);                                                                                         \
    if ((status) != LODE_NOMEM) break;                                                                         \
    lode_storage_relieve(context, device);                                                                     \
    (status) = (call);                                                                                         \
    if ((status) == LODE_OK) lode_count(device, LODE_COUNT_retries);                                           \
  } while (0)

lode_storage *lode_storage_ref(lode_storage *storage);
void lode_storage_unref(lode_storage *storage); /* NULL is allowed */

bool lode_storage_ready(lode_storage *storage); /* contents are there; never waits */
bool lode_storage_idle(lode_storage *storage);  /* nothing pending, neither writer nor readers */
/* Nothing pending but on `stream`: later work there may overwrite the contents. */
bool lode_storage_behind(lode_storage *storage, const lode_stream *stream);
lode_status lode_storage_wait(lode_storage *storage, lode_error *error);
/* Orders later work on `stream` behind the storage's writer. */
lode_status lode_storage_order(lode_storage *storage, lode_stream *stream, lode_error *error);
/* Notes that work up to `event` reads (or, with `writes`, makes) the contents. Waits only where more
 * than LODE_MAX_USES streams read the same storage at once. */
lode_status lode_storage_used(lode_storage *storage, lode_event *event, bool writes, lode_error *error);

#endif
