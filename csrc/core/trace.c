/* See trace.h. */
#include "trace.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "system.h"

bool lode_tracing(void) {
  static atomic_int tracing = -1; /* -1: not looked at yet */
  int known = atomic_load_explicit(&tracing, memory_order_relaxed);
  if (known < 0) {
    const char *set = lode_environment("LODE_TRACE");
    known = set != NULL && strcmp(set, "0") != 0;
    atomic_store_explicit(&tracing, known, memory_order_relaxed);
  }
  return known != 0;
}

void lode_trace(const char *format, ...) {
  if (!lode_tracing()) return;
  char line[64 << 10]; /* a compiler's log, in one write */
  int used = snprintf(line, sizeof line, "lode: ");
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used += more < (int)sizeof line - used - 1 ? more : (int)sizeof line - used - 2;
  line[used++] = '\n';
  if (write(STDERR_FILENO, line, (size_t)used) < 0) return; /* nobody is there to be told */
}
