/* Outcomes of core and device functions, and where their message goes.
 *
 * Core and devices never raise, print or exit: they return a lode_status and
 * leave one line of text in the caller's lode_error. The binding alone turns
 * that into a Lua error. Messages start with the public function's name
 * ("add: shapes ..."); the binding puts "lode: " and the script's line before
 * them. */
#ifndef LODE_STATUS_H
#define LODE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lode_status {
  LODE_OK,
  LODE_INVALID,     /* the caller's mistake */
  LODE_NOMEM,       /* may be called again: what was done so far is kept */
  LODE_NUMERIC,     /* a singular or non-positive-definite matrix */
  LODE_UNAVAILABLE, /* a device or part that this build or machine lacks */
  LODE_SYSTEM       /* a thread, a driver, a library said no */
} lode_status;

/* Owned by whoever calls into core (one per Lua state, or on a stack). */
typedef struct lode_error {
  char text[512];
} lode_error;

/* Formats into `error`, which may be NULL. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void lode_error_set(lode_error *error, const char *format, ...);

static inline lode_status lode_failed(lode_status status) { return status; }

/* Sets the message and gives `status`, so that a check reads: return lode_fail(e, LODE_INVALID, "add: ...",
 * ...); The status does not pass through a call that compilers cannot see into: they know that it is not
 * LODE_OK. */
#define lode_fail(error, status, ...) lode_failed((lode_error_set(error, __VA_ARGS__), (status)))

#define LODE_TRY(call)                                                                                         \
  do {                                                                                                         \
    lode_status lode_try_ = (call);                                                                            \
    if (lode_try_ != LODE_OK) return lode_try_;                                                                \
  } while (0)

/* One line of text that stays: what a device prints of itself, say. */
typedef struct lode_text {
  char text[256];
} lode_text;

#endif
