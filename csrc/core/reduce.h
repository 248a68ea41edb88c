/* The one order in which reductions combine their elements.
 *
 * It depends on the number of elements alone, so that strides, axes, blocks,
 * threads, instruction sets and devices all give the same bits. For elements
 * e[0..n) in logical row-major order of the reduced dims:
 *
 *   1. They are cut into chunks of LODE_REDUCE_CHUNK; the last may be short.
 *   2. A chunk has LODE_REDUCE_LANES partial results, all starting from the
 *      identity. Element i of the chunk goes into partial i mod LANES, in order.
 *   3. The partials are folded by halves: p[k] = p[k] o p[k + 8] for k < 8, then
 *      4, 2, 1; p[0] is the chunk's result.
 *   4. Chunk results are combined pairwise: neighbours at distance 1, then 2, 4,
 *      ... (result[k] = result[k] o result[k + d] for k a multiple of 2d, where
 *      k + d exists) until result[0] is left.
 *
 * "o" is the expression of ops.def with a = left, b = right. A short chunk's
 * untouched partials are folded like the others; identities change nothing. */
#ifndef LODE_REDUCE_H
#define LODE_REDUCE_H

enum { LODE_REDUCE_LANES = 16, LODE_REDUCE_CHUNK = 1024 };

#endif
