/* The context: what belongs to one Lua state (or one host thread).
 *
 * It owns nodes and storages, remembers defaults and streams, and carries the
 * error text. Used by one thread at a time. Counted by the state and by each
 * handle, so that finalizers may come in any order. */
#ifndef LODE_CONTEXT_H
#define LODE_CONTEXT_H

#include "device.h"
#include "storage.h"

enum { LODE_MAX_DEVICES = 16, LODE_INPUT_CLASSES = 16 };

typedef struct lode_node lode_node;
typedef struct lode_slab lode_slab; /* node.c */
typedef struct lode_planner lode_planner;

struct lode_context {
  int refs;
  lode_error error;
  lode_device *default_device;
  lode_dtype default_dtype; /* of new tensors, and of floating results of integers */

  /* Streams by device: [.][0] the state's own, made on first use; [.][1] the one
   * that lode.with has chosen, or NULL. */
  struct {
    lode_device *device;
    lode_stream *own, *chosen;
  } stream[LODE_MAX_DEVICES];

  lode_slab *slabs;                              /* all nodes lie in them */
  lode_node *unused_nodes;                       /* headers kept for reuse */
  lode_node **unused_inputs[LODE_INPUT_CLASSES]; /* arrays of more inputs than fit in a header (node.c) */
  lode_storage *unused_storages;
  lode_node *dead;                  /* handles given up by the collector, not yet unreferenced */
  struct lode_factor *zombies;      /* factors whose device work must end before they are freed */
  struct lode_recipe *recipe;       /* being recorded, or NULL */
  struct lode_recipe *dead_recipes; /* given up, not yet freed */
  uint32_t recipes;                 /* ever made */
  lode_planner *planner;            /* scratch, made on first use */
  uint64_t epoch;                   /* marks visited nodes */

  /* The last event of each stream that work of this context went to, until it is known to be reached. */
  lode_event **pending;
  int npending, pending_room;
  lode_device *short_of; /* the device whose memory was last not enough */

  int64_t held;      /* bytes of storages alive */
  int64_t allocated; /* bytes of storages ever made */
  /* The same as devices weigh it (garbage_shift): what drives the collector. */
  int64_t weight_held, weight_made;
  int64_t computes; /* graphs computed, by request or because they grew too large */
};

lode_status lode_context_new(lode_context **out, lode_error *error);
lode_context *lode_context_ref(lode_context *context);
void lode_context_unref(lode_context *context);

/* The stream that work of this context on `device` goes to now. Borrowed. */
lode_status lode_context_stream(lode_context *context, lode_device *device, lode_stream **out);
/* The state's own stream, whatever has been chosen. Borrowed. */
lode_status lode_context_own_stream(lode_context *context, lode_device *device, lode_stream **out);
/* The stream that was chosen for it, or NULL. Borrowed. */
lode_stream *lode_context_chosen(lode_context *context, lode_device *device);
/* Chooses a stream for its device (a reference is taken); NULL for `stream` returns to the own one. */
lode_status lode_context_choose(lode_context *context, lode_device *device, lode_stream *stream);

/* Passes a device's answer on; its message gets the public function's name before it. */
lode_status lode_context_named(lode_context *context, const char *who, lode_status status);

/* Gives up a handle in constant time, calling no device: for the collector. */
void lode_context_discard(lode_context *context, lode_node *node);
/* Frees what was given up. Called on entry of every function that allocates. */
void lode_context_drain(lode_context *context);
/* An event behind all work on `stream` so far, which lode_context_sync will wait for too. If it cannot be
 * had the stream's work is waited for: nothing is left that nobody could trace. */
lode_status lode_context_record(lode_context *context, lode_stream *stream, lode_event **out);
/* Waits for all work of this context on `device`, whatever stream it went to. */
lode_status lode_context_sync(lode_context *context, lode_device *device);

#endif
