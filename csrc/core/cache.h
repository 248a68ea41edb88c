/* The user's cache on disk: $XDG_CACHE_HOME/lode, or ~/.cache/lode. What is made
 * again at need is kept there under a key, which is stored beside it and compared in
 * full: a name that collides, a file that is damaged or of another version is as if
 * it were not there. Files are written apart and renamed, so that processes may
 * write the same one at once. A folder that cannot be used, or that others may
 * write to, is none; LODE_CACHE=off (or 0) switches the cache off. LODE_CACHE_MB limits
 * its size: what was unused for longest goes. No call fails. */
#ifndef LODE_CACHE_H
#define LODE_CACHE_H

#include "status.h"

/* The bytes kept under `key`, from malloc; NULL where there are none. */
void *lode_cache_read(const void *key, size_t key_bytes, size_t *bytes);
void lode_cache_write(const void *key, size_t key_bytes, const void *data, size_t bytes);

/* A text for a person, beside what is kept under `key`; `path` is told where. False: it could not be written.
 */
bool lode_cache_note(const void *key, size_t key_bytes, const char *suffix, const char *text, char *path,
                     size_t room);

#endif
