/* See device.h: what all devices share. The devices themselves are named in
 * csrc/devices.c alone. */
#include "device.h"

#include <stdio.h>

const char *const lode_method_names[LODE_NMETHODS] = {"auto", "general", "spd", "upper", "lower"};
const char *const lode_jit_names[LODE_NJITMODES] = {"wait", "background", "off"};

void lode_properties_add(lode_properties *properties, const char *name, const char *format, ...) {
  if (properties->count >= LODE_MAX_PROPERTIES) return;
  lode_property *property = &properties->property[properties->count++];
  snprintf(property->name, sizeof property->name, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(property->text, sizeof property->text, format, arguments);
  va_end(arguments);
}
