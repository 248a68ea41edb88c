/* Parts: shared objects beside lode's own, loaded by the first call that needs
 * them, so that heavy libraries (LAPACK, CUDA, ...) cost nothing before.
 *
 * Lua loads modules with local symbols, so a part cannot link against core: it
 * exports one function, lode_part, that is given core's services and fills a
 * table of its own. Each kind of part declares its table, which begins with a
 * lode_part_table; whoever needs the part owns the table. */
#ifndef LODE_PART_H
#define LODE_PART_H

#include "device.h"

enum { LODE_PART_VERSION = 1 };

/* What core gives to a part. */
typedef struct lode_services {
  uint32_t version; /* LODE_PART_VERSION of core */
  const char *build;
  void (*error_set)(lode_error *error, const char *format, ...);
  void (*properties_add)(lode_properties *properties, const char *name, const char *format, ...);
  void (*libraries_each)(void (*visit)(void *context, const char *path), void *context);
} lode_services;

/* The first member of each part's table. The part sets both; they are compared with core's own
 * before anything else in the table is looked at. */
typedef struct lode_part_table {
  uint32_t version;
  const char *build; /* LODE_BUILD that the part was compiled with */
} lode_part_table;

typedef lode_status lode_part_entry(const lode_services *services, lode_part_table *table, lode_error *error);

/* Loads "<name>.so" from the folder that lode itself was loaded from and fills `table`.
 * UNAVAILABLE with the reason otherwise. The library stays loaded for good. Not locked. */
lode_status lode_part_load(const char *name, lode_part_table *table, lode_error *error);

#endif
