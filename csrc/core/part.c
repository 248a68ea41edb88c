/* See part.h. */
#include "part.h"

#include <stdio.h>
#include <string.h>

#include "system.h"

#ifndef LODE_BUILD
#define LODE_BUILD "unknown"
#endif

static const lode_services services = {
    LODE_PART_VERSION, LODE_BUILD, lode_error_set, lode_properties_add, lode_libraries_each,
};

lode_status lode_part_load(const char *name, lode_part_table *table, lode_error *error) {
  char path[1024];
  lode_error reason;
  if (lode_library_folder(&services, path, sizeof path, &reason) != LODE_OK)
    return lode_fail(error, LODE_UNAVAILABLE, "%s part: %.400s", name, reason.text);
  size_t used = strlen(path);
  if ((size_t)snprintf(path + used, sizeof path - used, "%s.so", name) >= sizeof path - used)
    return lode_fail(error, LODE_UNAVAILABLE, "%s part: the name of its folder is too long", name);

  void *library;
  if (lode_library_open(path, &library, &reason) != LODE_OK)
    return lode_fail(error, LODE_UNAVAILABLE, "%s part: %.400s", name, reason.text);
  lode_part_entry *entry;
  void *symbol = lode_library_symbol(library, "lode_part");
  memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function */
  if (entry == NULL) return lode_fail(error, LODE_UNAVAILABLE, "%s part: %s is not a part of lode", name, path);

  lode_status status = entry(&services, table, &reason);
  if (status != LODE_OK) return lode_fail(error, LODE_UNAVAILABLE, "%s part: %.400s", name, reason.text);
  if (table->version != LODE_PART_VERSION || table->build == NULL || strcmp(table->build, LODE_BUILD) != 0)
    return lode_fail(error, LODE_UNAVAILABLE, "%s part is from another build: %.100s, and lode is %.100s", name,
                     table->build != NULL ? table->build : "unknown", LODE_BUILD);
  return LODE_OK;
}
