/* See status.h. */
#include "status.h"

#include <stdio.h>

void lode_error_set(lode_error *error, const char *format, ...) {
  if (error == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
}
