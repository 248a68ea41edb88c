/* Copying dense memory, with all threads where that is faster than with one. */
#ifndef LODE_CPU_COPY_H
#define LODE_CPU_COPY_H

#include <stddef.h>

void lode_copy(void *to, const void *from, size_t bytes); /* may overlap only if they are the same */

#endif
