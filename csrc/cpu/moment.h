/* The accumulator of core/moments.h's m2 (accumulator.h's functions, for an output
 * that is reduced by it). */
#ifndef LODE_CPU_MOMENT_H
#define LODE_CPU_MOMENT_H

#include "accumulator.h"

size_t lode_moment_bytes(int64_t width, int64_t size, int levels);
size_t lode_moment_record(int64_t width, int64_t size);
void lode_moment_init(lode_accumulator *a, char *memory);
void lode_moment_begin(lode_accumulator *a, const char *first);
void lode_moment_feed(lode_accumulator *a, const char *x, int64_t rows);
void lode_moment_block(lode_accumulator *a, const char *x, int64_t pitch, int64_t rows);
const char *lode_moment_finish(lode_accumulator *a);
void lode_moment_combine(const lode_moment *moment, int64_t width, int64_t size, char *left, const char *right);
void lode_moment_sequences(const lode_moment *moment, int64_t size, char *out, const char *in, int64_t rows,
                           int64_t width);

#endif
