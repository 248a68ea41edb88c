/* What the host knows of each block of device memory, found by its address: device
 * memory itself cannot hold a header. Not locked: its user (memory.c) is. */
#ifndef LODE_CUDA_BLOCKS_H
#define LODE_CUDA_BLOCKS_H

#include "cuda.h"

typedef struct lode_cuda_block {
  struct lode_cuda_block *next;  /* in a list of free blocks */
  struct lode_cuda_block *chain; /* in its bucket, or among unused records */
  CUdeviceptr address;
  size_t capacity;
  int klass;                    /* under which it is kept when free; -1: it is not */
  struct lode_cuda_front *home; /* in the order of whose stream it may be used and freed */
  lode_event **after;           /* references, from malloc: what uses it, while that is not known to be done */
  int pending;                  /* how many */
} lode_cuda_block;

typedef struct lode_cuda_blocks {
  lode_cuda_block **bucket;
  size_t buckets; /* a power of two, or 0 */
  size_t count;
  lode_cuda_block *unused;
} lode_cuda_blocks;

/* A record, zeroed but for `address`, that find() finds. NULL without host memory. */
lode_cuda_block *lode_cuda_blocks_add(lode_cuda_blocks *blocks, CUdeviceptr address);
lode_cuda_block *lode_cuda_blocks_find(const lode_cuda_blocks *blocks, CUdeviceptr address);
void lode_cuda_blocks_remove(lode_cuda_blocks *blocks, lode_cuda_block *block);

#endif
