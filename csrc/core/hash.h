/* Hashing of words, for tables inside the process. */
#ifndef LODE_HASH_H
#define LODE_HASH_H

#include <stdint.h>

/* A hash that has seen one word more. Its upper half is mixed best. */
static inline uint64_t lode_hash_mix(uint64_t hash, uint64_t word) {
  return (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
}

#endif
