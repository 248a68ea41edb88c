/* See status.h. */
#include "status.h"

#include <stdio.h>

const char *lode_status_text(lode_status status) {
  static const char *const text[] = {
#define X(name, text) text,
      LODE_STATUS_MAP(X)
#undef X
  };
  return (size_t)status < sizeof text / sizeof *text ? text[status] : "unknown status";
}

void lode_error_set(lode_error *error, const char *format, ...) {
  if (error == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
}
