/* See blocks.h. A hash table with chains; records are recycled. */
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

#include "../core/hash.h"

enum { FIRST_BUCKETS = 256 };

/* Addresses are multiples of 256 at least. The multiplier is 2^64 divided by the golden ratio (Knuth). */
static lode_cuda_block **bucket_of(const lode_cuda_blocks *blocks, CUdeviceptr address) {
  uint64_t hash = lode_hash_mix(0, (uint64_t)(address >> 8));
  return &blocks->bucket[(size_t)(hash >> 32) & (blocks->buckets - 1)];
}

/* Twice the buckets. Where there is no memory for them, chains get longer. */
static void grow(lode_cuda_blocks *blocks) {
  lode_cuda_blocks wider = *blocks;
  wider.buckets = blocks->buckets > 0 ? 2 * blocks->buckets : FIRST_BUCKETS;
  wider.bucket = calloc(wider.buckets, sizeof(lode_cuda_block *));
  if (wider.bucket == NULL) return;
  for (size_t i = 0; i < blocks->buckets; i++) {
    for (lode_cuda_block *block = blocks->bucket[i], *next; block != NULL; block = next) {
      next = block->chain;
      lode_cuda_block **place = bucket_of(&wider, block->address);
      block->chain = *place;
      *place = block;
    }
  }
  free(blocks->bucket);
  *blocks = wider;
}

lode_cuda_block *lode_cuda_blocks_add(lode_cuda_blocks *blocks, CUdeviceptr address) {
  if (blocks->count >= blocks->buckets) grow(blocks);
  if (blocks->buckets == 0) return NULL;
  lode_cuda_block *block = blocks->unused;
  if (block != NULL) blocks->unused = block->chain;
  else block = malloc(sizeof *block);
  if (block == NULL) return NULL;
  memset(block, 0, sizeof *block);
  block->address = address;
  lode_cuda_block **place = bucket_of(blocks, address);
  block->chain = *place;
  *place = block;
  blocks->count++;
  return block;
}

lode_cuda_block *lode_cuda_blocks_find(const lode_cuda_blocks *blocks, CUdeviceptr address) {
  if (blocks->buckets == 0) return NULL;
  lode_cuda_block *block = *bucket_of(blocks, address);
  while (block != NULL && block->address != address) block = block->chain;
  return block;
}

void lode_cuda_blocks_remove(lode_cuda_blocks *blocks, lode_cuda_block *block) {
  lode_cuda_block **link = bucket_of(blocks, block->address);
  while (*link != block) link = &(*link)->chain;
  *link = block->chain;
  block->chain = blocks->unused;
  blocks->unused = block;
  blocks->count--;
}
