/* What the operating system is asked for. Together with csrc/cpu/threads.c,
 * system.c holds all system calls of lode, so that another system is a port of
 * these two files. */
#ifndef LODE_SYSTEM_H
#define LODE_SYSTEM_H

#include "status.h"

int64_t lode_clock(void); /* nanoseconds, monotonic, from an arbitrary start */

/* An environment variable; NULL when it is unset or empty. */
const char *lode_environment(const char *name);

/* Memory from the system in whole pages, zeroed, aligned to 64 at least; large pieces are aligned
 * to and backed by huge pages where the system has them. NULL when there is none. */
void *lode_pages_take(size_t bytes);
void lode_pages_give(void *pages, size_t bytes);

/* Bytes that this process may still get without swapping or being killed: the least of what
 * the machine and the control groups above the process leave. -1: unknown. */
int64_t lode_memory_available(void);
int64_t lode_memory_resident(void); /* bytes that this process has touched; -1: unknown */

int lode_processors(void); /* that this process may use: affinity and control groups; at least 1 */
const char *lode_processor_name(lode_text *text);

/* Shared libraries. open: local symbols, bound now; SYSTEM with the loader's reason. */
lode_status lode_library_open(const char *path, void **library, lode_error *error);
void *lode_library_symbol(void *library, const char *name);
void lode_libraries_each(void (*visit)(void *context, const char *path), void *context);
/* The folder of the file that `address` (code or data) was loaded from, with a '/' at its end. */
lode_status lode_library_folder(const void *address, char *text, size_t size, lode_error *error);

#endif
