/* Kernels around linear algebra: what brings matrices to the form that cuBLAS and
 * cuSOLVER want and back, looks at them, and products without cuBLAS.
 *
 * All walk with strides over tiles, elements or matrices, so any number of blocks
 * is right. Offsets are 64-bit: a matrix of 50 000 rows has more than 2^31 elements. */
#include "device.h"

#include "matrix.h"

/* ---- transposing ---------------------------------------------------------- */

enum { TILE = LODE_TRANSPOSE_TILE, TILE_SIZE = TILE * TILE, AHEAD = 4 };

/* One tile through shared memory: rows of both sides are read and written by neighbouring threads.
 * A thread has AHEAD loads under way. */
template <typename T>
LODE_DEVICE void transpose_tile(const T *from, T *to, int64_t rows, int64_t columns, int64_t row,
                                int64_t column, bool lower, T (*tile)[TILE + 1]) {
  for (uint32_t first = LODE_THREAD; first < TILE_SIZE; first += AHEAD * LODE_THREADS) {
    T value[AHEAD];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t u = 0; u < AHEAD; u++) {
      uint32_t e = first + u * LODE_THREADS;
      int64_t i = row + e / TILE, j = column + e % TILE;
      value[u] = e < TILE_SIZE && i < rows && j < columns && !(lower && j > i) ? from[i * columns + j] : T(0);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t u = 0; u < AHEAD; u++) {
      uint32_t e = first + u * LODE_THREADS;
      if (e < TILE_SIZE) tile[e / TILE][e % TILE] = value[u];
    }
  }
  LODE_SYNC();
  for (uint32_t e = LODE_THREAD; e < TILE_SIZE; e += LODE_THREADS) {
    int64_t i = row + e % TILE, j = column + e / TILE;
    if (i < rows && j < columns && !(lower && j > i)) to[j * rows + i] = tile[e % TILE][e / TILE];
  }
  LODE_SYNC();
}

/* Matrices with few rows or columns would leave most of a tile empty: an element a thread, which reads
 * with a stride, but all of what a cache line holds is soon asked for. */
template <typename T> LODE_DEVICE void transpose_thin(const lode_transpose_parameters &p) {
  const T *from = (const T *)p.from;
  T *to = (T *)p.to;
  int64_t size = p.rows * p.columns, total = p.batch * size;
  for (int64_t e = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; e < total;
       e += (int64_t)LODE_BLOCKS * LODE_THREADS) {
    int64_t matrix = e / size, rest = e - matrix * size, j = rest / p.rows, i = rest - j * p.rows;
    if (!(p.lower && j > i)) to[e] = from[matrix * size + i * p.columns + j];
  }
}

template <typename T> LODE_DEVICE void transpose_tiles(const lode_transpose_parameters &p) {
  LODE_SHARED T tile[TILE][TILE + 1];
  int64_t down = (p.rows + TILE - 1) / TILE, across = (p.columns + TILE - 1) / TILE, tiles = down * across;
  for (int64_t item = LODE_BLOCK; item < p.batch * tiles; item += LODE_BLOCKS) {
    int64_t matrix = item / tiles, rest = item - matrix * tiles;
    int64_t row = rest / across * TILE, column = rest % across * TILE;
    if (p.lower && column > row) continue;
    int64_t base = matrix * p.rows * p.columns;
    transpose_tile((const T *)p.from + base, (T *)p.to + base, p.rows, p.columns, row, column, p.lower != 0,
                   tile);
  }
}

LODE_KERNEL(matrix_transpose_4, lode_transpose_parameters) { transpose_tiles<uint32_t>(p); }
LODE_KERNEL(matrix_transpose_8, lode_transpose_parameters) { transpose_tiles<uint64_t>(p); }
LODE_KERNEL(matrix_transpose_thin_4, lode_transpose_parameters) { transpose_thin<uint32_t>(p); }
LODE_KERNEL(matrix_transpose_thin_8, lode_transpose_parameters) { transpose_thin<uint64_t>(p); }

/* ---- arrays of pointers ----------------------------------------------------- */

LODE_KERNEL(matrix_pointers, lode_pointers_parameters) {
  for (int64_t i = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; i < p.count;
       i += (int64_t)LODE_BLOCKS * LODE_THREADS) {
    p.out[i] = p.base[0] + i * p.stride[0];
    if (p.base[1]) p.out[p.count + i] = p.base[1] + i * p.stride[1];
  }
}

/* ---- products ----------------------------------------------------------------- */

/* An element a thread: for small matrices, and for those with few rows or columns. */
template <typename T> LODE_DEVICE void product_thin(const lode_product_parameters &p) {
  int64_t size = p.m * p.n, total = p.batch * size;
  for (int64_t e = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; e < total;
       e += (int64_t)LODE_BLOCKS * LODE_THREADS) {
    int64_t matrix = e / size, rest = e - matrix * size, i = rest / p.n, j = rest - i * p.n;
    const T *a = (const T *)p.a.base + matrix * p.a.batch + i * p.a.row;
    const T *b = (const T *)p.b.base + matrix * p.b.batch + j * p.b.column;
    T sum = 0;
    for (int64_t k = 0; k < p.k; k++) sum = sum + a[k * p.a.column] * b[k * p.b.row];
    ((T *)p.c)[e] = sum;
  }
}

enum { SIDE = LODE_PRODUCT_TILE, DEPTH = 16, EACH = 4, LANES = SIDE / EACH, WORKERS = LANES * LANES };

/* to[depth][line] of an operand whose lines (rows of a, columns of b) lie `line` apart and whose
 * elements along k lie `step` apart. Neighbouring threads read what lies side by side. */
template <typename T>
LODE_DEVICE void load_slab(const T *from, int64_t line, int64_t step, int64_t lines, int64_t depth,
                           T (*to)[SIDE + 1]) {
  for (uint32_t e = LODE_THREAD; e < SIDE * DEPTH; e += LODE_THREADS) {
    uint32_t l = step == 1 ? e / DEPTH : e % SIDE, d = step == 1 ? e % DEPTH : e / SIDE;
    to[d][l] = l < lines && d < depth ? from[l * line + d * step] : T(0);
  }
}

/* A tile of c; each of WORKERS sums EACH * EACH elements. Where a block has fewer threads, it goes
 * through the operands again for those left. Zeros behind the end of k change no sum: none is -0. */
template <typename T>
LODE_DEVICE void product_tile(const T *a, const T *b, T *c, int64_t row, int64_t column,
                              const lode_product_parameters &p, T (*left)[SIDE + 1], T (*right)[SIDE + 1]) {
  a += row * p.a.row;
  b += column * p.b.column;
  for (uint32_t first = 0; first < WORKERS; first += LODE_THREADS) {
    uint32_t worker = (first + LODE_THREAD) % WORKERS, y = worker / LANES, x = worker % LANES;
    T sum[EACH][EACH] = {};
    for (int64_t k = 0; k < p.k; k += DEPTH) {
      load_slab(a + k * p.a.column, p.a.row, p.a.column, p.m - row, p.k - k, left);
      load_slab(b + k * p.b.row, p.b.column, p.b.row, p.n - column, p.k - k, right);
      LODE_SYNC();
      for (uint32_t d = 0; d < DEPTH; d++)
        for (uint32_t u = 0; u < EACH; u++)
          for (uint32_t v = 0; v < EACH; v++)
            sum[u][v] = sum[u][v] + left[d][y + u * LANES] * right[d][x + v * LANES];
      LODE_SYNC();
    }
    for (uint32_t u = 0; u < EACH; u++)
      for (uint32_t v = 0; v < EACH; v++) {
        int64_t i = row + y + u * LANES, j = column + x + v * LANES;
        if (i < p.m && j < p.n) c[i * p.n + j] = sum[u][v];
      }
  }
}

template <typename T> LODE_DEVICE void product_tiles(const lode_product_parameters &p) {
  LODE_SHARED T left[DEPTH][SIDE + 1];
  LODE_SHARED T right[DEPTH][SIDE + 1];
  int64_t down = (p.m + SIDE - 1) / SIDE, across = (p.n + SIDE - 1) / SIDE, tiles = down * across;
  for (int64_t item = LODE_BLOCK; item < p.batch * tiles; item += LODE_BLOCKS) {
    int64_t matrix = item / tiles, rest = item - matrix * tiles;
    product_tile((const T *)p.a.base + matrix * p.a.batch, (const T *)p.b.base + matrix * p.b.batch,
                 (T *)p.c + matrix * p.m * p.n, rest / across * SIDE, rest % across * SIDE, p, left, right);
  }
}

/* Integers wrap, as unsigned. */
LODE_KERNEL(matrix_product_4, lode_product_parameters) { product_tiles<uint32_t>(p); }
LODE_KERNEL(matrix_product_8, lode_product_parameters) { product_tiles<uint64_t>(p); }
LODE_KERNEL(matrix_product_f32, lode_product_parameters) { product_tiles<float>(p); }
LODE_KERNEL(matrix_product_f64, lode_product_parameters) { product_tiles<double>(p); }
LODE_KERNEL(matrix_product_thin_4, lode_product_parameters) { product_thin<uint32_t>(p); }
LODE_KERNEL(matrix_product_thin_8, lode_product_parameters) { product_thin<uint64_t>(p); }
LODE_KERNEL(matrix_product_thin_f32, lode_product_parameters) { product_thin<float>(p); }
LODE_KERNEL(matrix_product_thin_f64, lode_product_parameters) { product_thin<double>(p); }

/* ---- structure ------------------------------------------------------------------ */

/* NaN is neither zero nor equal to anything nor positive: a matrix with NaN is general. As bits 1 <<
 * LODE_NOT_...: what element x = a[i, j] and its mirror image y = a[j, i] say, for i >= j. */
template <typename T> LODE_DEVICE uint32_t look(T x, T y, int64_t i, int64_t j) {
  if (i == j) return x > T(0) ? 0u : 1u << LODE_NOT_SPD;
  return (x == T(0) ? 0u : 1u << LODE_NOT_UPPER) | (y == T(0) ? 0u : 1u << LODE_NOT_LOWER) |
         (x == y ? 0u : 1u << LODE_NOT_SPD);
}

enum { ALL_SEEN = (1 << LODE_NLOOKS) - 1 };

LODE_DEVICE uint32_t already_seen(const int32_t *seen) {
  uint32_t bits = 0;
  for (int look = 0; look < LODE_NLOOKS; look++)
    bits |= ((const volatile int32_t *)seen)[look] ? 1u << look : 0u;
  return bits;
}

LODE_DEVICE void note(uint32_t bits, int32_t *seen) {
  for (int look = 0; look < LODE_NLOOKS; look++)
    if (bits >> look & 1) ((volatile int32_t *)seen)[look] = 1; /* whoever else writes writes the same */
}

/* A tile of the lower triangle against its mirror image; both are read along rows. */
template <typename T>
LODE_DEVICE uint32_t look_at_tile(const T *a, int64_t n, int64_t row, int64_t column, T (*tile)[TILE + 1]) {
  uint32_t bits = 0;
  for (uint32_t e = LODE_THREAD; e < TILE_SIZE; e += LODE_THREADS) {
    int64_t i = row + e / TILE, j = column + e % TILE;
    if (i < n && j < n) tile[e / TILE][e % TILE] = a[i * n + j];
  }
  LODE_SYNC();
  for (uint32_t e = LODE_THREAD; e < TILE_SIZE; e += LODE_THREADS) {
    int64_t i = row + e % TILE, j = column + e / TILE;
    if (i < n && j <= i) bits |= look(tile[e % TILE][e / TILE], a[j * n + i], i, j);
  }
  return bits;
}

/* A block stops when everything is known: for most matrices after its first tile. */
template <typename T> LODE_DEVICE void structure_tiles(const lode_structure_parameters &p) {
  LODE_SHARED T tile[TILE][TILE + 1];
  LODE_SHARED uint32_t known;
  LODE_SHARED int32_t found[LODE_NLOOKS];
  int64_t side = (p.n + TILE - 1) / TILE, tiles = side * side;
  for (int64_t item = LODE_BLOCK; item < p.batch * tiles; item += LODE_BLOCKS) {
    int64_t matrix = item / tiles, rest = item - matrix * tiles;
    int64_t row = rest / side * TILE, column = rest % side * TILE;
    if (column > row) continue;
    if (LODE_THREAD == 0) {
      known = already_seen(p.seen);
      for (int look = 0; look < LODE_NLOOKS; look++) found[look] = 0;
    }
    LODE_SYNC();
    uint32_t before = known;
    if (before == ALL_SEEN) return;
    note(look_at_tile((const T *)p.a + matrix * p.n * p.n, p.n, row, column, tile), found);
    LODE_SYNC();
    if (LODE_THREAD == 0)
      for (int look = 0; look < LODE_NLOOKS; look++)
        if (found[look] && !(before >> look & 1)) note(1u << look, p.seen);
    LODE_SYNC();
  }
}

/* Small matrices: an element a thread. */
template <typename T> LODE_DEVICE void structure_thin(const lode_structure_parameters &p) {
  const T *a = (const T *)p.a;
  int64_t size = p.n * p.n, total = p.batch * size;
  uint32_t bits = already_seen(p.seen), before = bits;
  for (int64_t e = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; e < total && bits != ALL_SEEN;
       e += (int64_t)LODE_BLOCKS * LODE_THREADS) {
    int64_t matrix = e / size, rest = e - matrix * size, i = rest / p.n, j = rest - i * p.n;
    if (j <= i) bits |= look(a[e], a[matrix * size + j * p.n + i], i, j);
  }
  note(bits & ~before, p.seen);
}

LODE_KERNEL(matrix_structure_f32, lode_structure_parameters) { structure_tiles<float>(p); }
LODE_KERNEL(matrix_structure_f64, lode_structure_parameters) { structure_tiles<double>(p); }
LODE_KERNEL(matrix_structure_thin_f32, lode_structure_parameters) { structure_thin<float>(p); }
LODE_KERNEL(matrix_structure_thin_f64, lode_structure_parameters) { structure_thin<double>(p); }

/* ---- failures ---------------------------------------------------------------------- */

enum { MOST_THREADS = 256 };

/* The least value of the block, which all threads take part in and get. */
LODE_DEVICE int64_t block_minimum(int64_t value, int64_t *shared) {
  shared[LODE_THREAD] = value;
  for (uint32_t width = 1; width < LODE_THREADS; width *= 2) {
    LODE_SYNC();
    uint32_t other = LODE_THREAD + width;
    if (LODE_THREAD % (2 * width) == 0 && other < LODE_THREADS && shared[other] < shared[LODE_THREAD])
      shared[LODE_THREAD] = shared[other];
  }
  LODE_SYNC();
  int64_t least = shared[0];
  LODE_SYNC();
  return least;
}

template <typename T> LODE_DEVICE void diagonal_zero(const lode_diagonal_parameters &p) {
  LODE_SHARED int64_t least[MOST_THREADS];
  for (int64_t matrix = LODE_BLOCK; matrix < p.batch; matrix += LODE_BLOCKS) {
    const T *a = (const T *)p.a + matrix * p.n * p.n;
    int64_t first = p.n;
    for (int64_t i = LODE_THREAD; i < p.n && first == p.n; i += LODE_THREADS)
      if (a[i * p.n + i] == T(0)) first = i;
    first = block_minimum(first, least);
    if (LODE_THREAD == 0) p.info[matrix] = first < p.n ? (int32_t)(first + 1) : 0;
  }
}

LODE_KERNEL(matrix_diagonal_f32, lode_diagonal_parameters) { diagonal_zero<float>(p); }
LODE_KERNEL(matrix_diagonal_f64, lode_diagonal_parameters) { diagonal_zero<double>(p); }

/* The first of AHEAD * LODE_THREADS infos that is a failure, or p.batch: with all loads under way at once. */
LODE_DEVICE int64_t first_failure(const lode_fault_parameters &p, int64_t from) {
  int64_t first = p.batch;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t u = 0; u < AHEAD; u++) {
    int64_t i = from + u * LODE_THREADS + LODE_THREAD;
    if (i < p.batch && p.info[i] > 0 && i < first) first = i;
  }
  return first;
}

LODE_KERNEL(matrix_fault, lode_fault_parameters) {
  LODE_SHARED int64_t least[MOST_THREADS];
  int64_t first = p.batch;
  for (int64_t i = 0; i < p.batch && first == p.batch; i += AHEAD * LODE_THREADS) first = first_failure(p, i);
  first = block_minimum(first, least);
  if (LODE_BLOCK == 0 && LODE_THREAD == 0) {
    *(volatile int64_t *)p.fault =
        first < p.batch ? (int64_t)((uint64_t)first << 32 | (uint32_t)p.info[first]) : 0;
    LODE_FENCE();
  }
}

template <typename T> LODE_DEVICE void spoil(const lode_spoil_parameters &p, T nan) {
  int64_t total = p.batch * p.each;
  for (int64_t e = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; e < total;
       e += (int64_t)LODE_BLOCKS * LODE_THREADS)
    if (p.info[e / p.each] != 0) ((T *)p.x)[e] = nan;
}

LODE_KERNEL(matrix_spoil_4, lode_spoil_parameters) { spoil<uint32_t>(p, 0x7fc00000u); }
LODE_KERNEL(matrix_spoil_8, lode_spoil_parameters) { spoil<uint64_t>(p, UINT64_C(0x7ff8000000000000)); }
