/* How passes over memory are cut among threads: rows staged through shared memory,
 * and reductions in the order of core/reduce.h.
 *
 * A reduction is described by a job J with static members:
 *   T                  what is known of some elements
 *   identity(), combine(a, b)
 * which is all that a row in registers or shared memory needs, where T is the element type; and
 *   I, E, place        the type of indices, an element, what is known of a sequence
 *   at(p, k, j)        the place of sequence (kept index k, column j)
 *   get(p, place, e)   its element e
 *   add(x, place, elements, count)   adds elements that follow each other in a lane to x
 *   put(p, k, j, x)    stores its result
 *   keep(p, i, x)      stores partial result i
 *   BLOCKS             whether add has to be given whole blocks of LODE_M2_BLOCK
 *   APART              whether what 16 lanes know is too much for a thread's registers
 * Included after prelude.h and core/moments.h; used by generated programs and by programs.cu. */
#ifndef LODE_KERNELS_TEMPLATES_H
#define LODE_KERNELS_TEMPLATES_H

#define LODE_LANES               16   /* reduce.h's */
#define LODE_CHUNK               1024 /* reduce.h's */
#define LODE_STAGED_BY_REGISTERS 96   /* bytes of a thread */
#define LODE_ITEMS               256  /* lanes that a block works on at a time: (unit, lane, column) */

/* ---- rows through shared memory ----------------------------------------------- */

/* Copies `rows` rows of W elements into shared memory, PITCH apart there, V elements at a time. BLOCK: they
 * lie one behind the other. A block has ROWS threads, and neighbours read neighbouring vectors. All are under
 * way at once. */
template <int ROWS, int W, int PITCH, int V, bool BLOCK, class T, class I>
LODE_DEVICE void lode_stage(T *to, const T *from, uint32_t rows, I stride) {
  const uint32_t each = W / V, all = rows * each;
  LODE_EACH_THREAD(t, ROWS) {
    if constexpr (each * V * sizeof(T) <= LODE_STAGED_BY_REGISTERS) {
      lode_vector<T, V> x[each];
      LODE_UNROLL
      for (uint32_t i = 0; i < each; i++) {
        uint32_t e = i * ROWS + t < all ? i * ROWS + t : all - 1, q = e / each, c = (e - q * each) * V;
        x[i] = lode_load_vector<V>(BLOCK ? from + e * V : from + ((I)q * stride + (I)c));
      }
      LODE_UNROLL
      for (uint32_t i = 0; i < each; i++) {
        uint32_t e = i * ROWS + t, q = e / each, c = (e - q * each) * V;
        if (e < all) lode_store_vector<V>(to + q * PITCH + c, x[i]);
      }
    } else {
      LODE_UNROLL
      for (uint32_t i = 0; i < each; i++) {
        uint32_t e = i * ROWS + t, q = e / each, c = (e - q * each) * V;
        if (e >= all) break;
        lode_copy_to_shared<V>(to + q * PITCH + c, BLOCK ? from + e * V : from + ((I)q * stride + (I)c));
      }
    }
  }
  lode_copies_done();
}

/* The way back. */
template <int ROWS, int W, int PITCH, int V, bool BLOCK, class T, class I>
LODE_DEVICE void lode_unstage(T *to, const T *from, uint32_t rows, I stride) {
  const uint32_t each = W / V, all = rows * each;
  LODE_EACH_THREAD(t, ROWS) {
    LODE_UNROLL
    for (uint32_t i = 0; i < each; i++) {
      uint32_t e = i * ROWS + t, q = e / each, c = (e - q * each) * V;
      if (e >= all) break;
      lode_vector<T, V> v = *(const lode_vector<T, V> *)(from + q * PITCH + c);
      lode_store_vector<V>(BLOCK ? to + e * V : to + ((I)q * stride + (I)c), v);
    }
  }
}

/* A thread's own row, between shared memory and registers. */
template <int V, int W, class T> LODE_DEVICE void lode_read_row(T (&row)[W], const T *from) {
  LODE_UNROLL
  for (int i = 0; i < W; i += V) {
    lode_vector<T, V> v = *(const lode_vector<T, V> *)(from + i);
    LODE_UNROLL
    for (int e = 0; e < V; e++) row[i + e] = v.v[e];
  }
}

template <int V, int W, class T> LODE_DEVICE void lode_write_row(T *to, const T (&row)[W]) {
  LODE_UNROLL
  for (int i = 0; i < W; i += V) {
    lode_vector<T, V> v;
    LODE_UNROLL
    for (int e = 0; e < V; e++) v.v[e] = row[i + e];
    lode_store_vector<V>(to + i, v);
  }
}

/* ---- reductions in one thread --------------------------------------------------- */

/* Folds the first FILLED lanes by halves; the others are identities, which change nothing. Recursion, because
 * a loop that halves is not unrolled, and lanes have to stay in registers. */
template <class J, int FILLED, int HALF = LODE_LANES / 2>
LODE_DEVICE typename J::T lode_fold(typename J::T (&lane)[LODE_LANES]) {
  LODE_UNROLL
  for (int k = 0; k < HALF && k + HALF < FILLED; k++) lane[k] = J::combine(lane[k], lane[k + HALF]);
  if constexpr (HALF > 1) return lode_fold<J, (FILLED < HALF ? FILLED : HALF), HALF / 2>(lane);
  else return lane[0];
}

/* A row in registers, of at most one chunk. identity o x is x. */
template <class J, int W> LODE_DEVICE typename J::T lode_reduce_row(const typename J::T (&row)[W]) {
  typename J::T lane[LODE_LANES];
  LODE_UNROLL
  for (int i = 0; i < W; i++)
    lane[i % LODE_LANES] = i < LODE_LANES ? row[i] : J::combine(lane[i % LODE_LANES], row[i]);
  return lode_fold<J, (W < LODE_LANES ? W : LODE_LANES)>(lane);
}

/* The lanes of a row's chunks, PITCH apart, in shared memory. */
template <class J, int CHUNKS, int PITCH>
LODE_DEVICE typename J::T lode_reduce_chunks(const typename J::T *lanes) {
  typename J::T chunk[CHUNKS];
  LODE_UNROLL
  for (int c = 0; c < CHUNKS; c++) {
    typename J::T lane[LODE_LANES];
    LODE_UNROLL
    for (int k = 0; k < LODE_LANES; k++) lane[k] = lanes[c * PITCH + k];
    chunk[c] = lode_fold<J, LODE_LANES>(lane);
  }
  LODE_UNROLL
  for (int distance = 1; distance < CHUNKS; distance *= 2) {
    LODE_UNROLL
    for (int c = 0; c + distance < CHUNKS; c += 2 * distance)
      chunk[c] = J::combine(chunk[c], chunk[c + distance]);
  }
  return chunk[0];
}

/* ---- rows spread over threads ------------------------------------------------------ */

/* A row's chunks are cut into PARTS, and each lane of a part is a thread's, with EACH elements. Threads and
 * these places of a block's rows go round: a thread has place LODE_THREAD + g * THREADS for all g below OWN,
 * each in another row. What places have from one fold to the next is in arrays of OWN, which are registers; the
 * shim's one thread has all places. Several parts of one chunk may be shorter than those of a whole one. */
#ifdef LODE_SHIM
#define LODE_SPREAD_THREADS(n) 1
#else
#define LODE_SPREAD_THREADS(n) n
#endif

struct lode_spread {
  uint32_t q; /* the row, of the block's */
  int32_t j;  /* the first column; others follow LODE_LANES apart */
};

template <int CHUNKS, int PARTS, int EACH, int THREADS> LODE_DEVICE lode_spread lode_spread_of(uint32_t g) {
  const uint32_t t = LODE_THREAD + g * THREADS, part = t / LODE_LANES % (CHUNKS * PARTS);
  lode_spread at;
  at.q = t / (CHUNKS * PARTS * LODE_LANES);
  at.j = (int32_t)(part / PARTS * LODE_CHUNK + part % PARTS * (EACH * LODE_LANES) + t % LODE_LANES);
  return at;
}

/* Elements that may be beyond the row, 0 there. Predicates, because branches would come between elements that
 * are to be under way at once. lode_start: an address that offsets are added to where they are used, rather
 * than kept in a register each. */
#ifdef LODE_SHIM
template <class T> LODE_DEVICE T *lode_start(T *x) { return x; }
template <class T> LODE_DEVICE T lode_load_if(const T *x, bool in) { return in ? *x : (T)0; }
LODE_DEVICE int32_t lode_loaded() { return 0; }
template <class T> LODE_DEVICE void lode_store_if(T *x, T value, bool in) {
  if (in) *x = value;
}
#else
template <class T> LODE_DEVICE T *lode_start(T *x) {
  asm("" : "+l"(x));
  return x;
}
#define LODE_MOVE_IF(T, type, move, constraint)                                                                \
  LODE_DEVICE void lode_word_load_if(T &word, const void *x, bool in) {                                        \
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov." #type " %0, 0; @p ld.global." #move " %0, [%1];}" \
                 : "=" constraint(word)                                                                        \
                 : "l"(x), "r"((uint32_t)in));                                                                 \
  }                                                                                                            \
  LODE_DEVICE void lode_word_store_if(void *x, T word, bool in) {                                              \
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global." #move " [%0], %1;}"                      \
                 :                                                                                             \
                 : "l"(x), constraint(word), "r"((uint32_t)in)                                                 \
                 : "memory");                                                                                  \
  }
LODE_MOVE_IF(int32_t, b32, b32, "r")
LODE_MOVE_IF(int64_t, b64, b64, "l")
LODE_MOVE_IF(uint32_t, b32, u8, "r") /* of 1 byte */
#undef LODE_MOVE_IF
template <int BYTES> struct lode_register;
template <> struct lode_register<1> { typedef uint32_t type; };
template <> struct lode_register<4> { typedef int32_t type; };
template <> struct lode_register<8> { typedef int64_t type; };
template <class T> union lode_bits {
  typename lode_register<sizeof(T)>::type word;
  T value;
};
template <class T> LODE_DEVICE T lode_load_if(const T *x, bool in) {
  lode_bits<T> bits;
  lode_word_load_if(bits.word, x, in);
  return bits.value;
}
/* 0, which is known after all loads before: ptxas would otherwise begin with f64 that are there, and wait for
 * each before the next is asked for. */
LODE_DEVICE int32_t lode_loaded() {
  int32_t none;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, 0, 0; barrier.red.or.pred q, 0, p; selp.u32 %0, 1, 0, q;}"
               : "=r"(none)::"memory");
  return none;
}
template <class T> LODE_DEVICE void lode_store_if(T *x, T value, bool in) {
  lode_bits<T> bits;
  if (sizeof(T) < sizeof bits.word) bits.word = 0;
  bits.value = value;
  lode_word_store_if(x, bits.word, in);
}
#endif

/* Reduces rows whose elements are x: all places of a row get its result. */
#ifdef LODE_SHIM
template <class J, int CHUNKS, int PARTS, int OWN, int EACH>
LODE_DEVICE void lode_reduce_spread(typename J::T (&result)[OWN], const typename J::T (&x)[OWN][EACH]) {
  enum { PLACES = CHUNKS * PARTS * LODE_LANES };
  for (int row = 0; row < OWN; row += PLACES) {
    typename J::T lane[CHUNKS * LODE_LANES];
    for (int k = 0; k < CHUNKS * LODE_LANES; k++) {
      int place = row + k / LODE_LANES * PARTS * LODE_LANES + k % LODE_LANES;
      lane[k] = J::identity();
      for (int i = 0; i < PARTS * EACH; i++)
        lane[k] = J::combine(lane[k], x[place + i / EACH * LODE_LANES][i % EACH]);
    }
    for (int k = 0; k < PLACES; k++) result[row + k] = lode_reduce_chunks<J, CHUNKS, LODE_LANES>(lane);
  }
}
#else
/* The chunks of a row are neighbouring warps. */
template <class J, int CHUNKS> LODE_DEVICE typename J::T lode_combine_warps(typename J::T x) {
  LODE_SHARED typename J::T chunk[4];
  const uint32_t warp = LODE_THREAD / 32, first = warp / CHUNKS * CHUNKS;
  static_assert(CHUNKS == 2 || CHUNKS == 4, "of a block's four warps");
  if (LODE_THREAD % 32 == 0) chunk[warp] = x;
  LODE_SYNC();
  x = J::combine(chunk[first], chunk[first + 1]);
  if (CHUNKS > 2) x = J::combine(x, J::combine(chunk[first + 2], chunk[first + 3]));
  LODE_SYNC();
  return x;
}

/* A second part goes on with the lanes of the first one. A fold keeps its order for the first lane alone, whose
 * partners are right of it: that is the one which counts. */
template <class J, int CHUNKS, int PARTS, int OWN, int EACH>
LODE_DEVICE void lode_reduce_spread(typename J::T (&result)[OWN], const typename J::T (&x)[OWN][EACH]) {
  enum { ALL = 0xFFFFFFFFu };
  LODE_UNROLL
  for (int g = 0; g < OWN; g++) {
    typename J::T lane = x[g][0];
    LODE_UNROLL
    for (int i = 1; i < EACH; i++) lane = J::combine(lane, x[g][i]);
    if (PARTS > 1) {
      lane = __shfl_xor_sync(ALL, lane, LODE_LANES);
      LODE_UNROLL
      for (int i = 0; i < EACH; i++) lane = J::combine(lane, x[g][i]);
    }
    result[g] = lane;
  }
  LODE_UNROLL
  for (int half = LODE_LANES / 2; half > 0; half /= 2) {
    LODE_UNROLL
    for (int g = 0; g < OWN; g++) result[g] = J::combine(result[g], __shfl_xor_sync(ALL, result[g], half));
  }
  LODE_UNROLL
  for (int g = 0; g < OWN; g++) {
    result[g] = __shfl_sync(ALL, result[g], (PARTS - 1) * LODE_LANES, PARTS * LODE_LANES);
    if constexpr (CHUNKS > 1) result[g] = lode_combine_warps<J, CHUNKS>(result[g]);
  }
}
#endif

/* ---- what is known of some elements ------------------------------------------------- */

/* Reduction R, whose T is an element, as an output of a job. */
template <class R> struct lode_plain : R {
  typedef typename R::T T;
  typedef T E;
  enum { BLOCKS = 0 };
  template <int N> LODE_DEVICE void add(T &sum, const E (&x)[N], int count, E) {
    LODE_UNROLL
    for (int i = 0; i < N; i++)
      if (i < count) sum = R::combine(sum, x[i]);
  }
  LODE_DEVICE E result(T x) { return x; }
};

/* core/moments.h's m2 of elements X. */
template <class X> struct lode_m2 {
  typedef X E;
  struct T {
    X m, d, n;
  };
  enum { BLOCKS = 1 };
  LODE_DEVICE T identity() {
    T none = {0, 0, 0};
    return none;
  }
  LODE_DEVICE T combine(T a, T b) {
    if (!(b.n > 0)) return a;
    if (!(a.n > 0)) return b;
    const X apart = LODE_M2_APART(X, a.d, a.n, b.d, b.n);
    a.m = LODE_M2_JOINED(X, a.m, a.n, b.m, b.n, apart);
    a.d = a.d + b.d;
    a.n = a.n + b.n;
    return a;
  }
  /* A block, of at least one element. */
  template <int N> LODE_DEVICE void add(T &sum, const E (&x)[N], int count, E first) {
    T block = {0, x[0] - first, (X)count};
    LODE_UNROLL
    for (int i = 1; i < N; i++)
      if (i < count) block.d = block.d + (x[i] - first);
    LODE_UNROLL
    for (int i = 0; i < N; i++) {
      if (i >= count) continue;
      const X off = LODE_M2_DEVIATION(X, x[i] - first, block.d, block.n);
      block.m = i == 0 ? off * off : block.m + off * off;
    }
    sum = combine(sum, block);
  }
  LODE_DEVICE E result(T x) { return x.m; }
};

/* One lane of a chunk: elements first, first + LANES, ... below end; AHEAD loads are under way while as many
 * elements are added. */
template <class J, class P>
LODE_DEVICE typename J::T lode_reduce_lane(const P &p, const typename J::place &place, typename J::I first,
                                           typename J::I end) {
  enum { AHEAD = LODE_M2_BLOCK, STEPS = LODE_CHUNK / LODE_LANES / AHEAD };
  typename J::T sum = J::identity();
  typename J::I e = first;
  if constexpr (J::BLOCKS) {
    /* A lane of a whole chunk, unrolled: numbers of elements and their inverses are constants. */
    if (e + (STEPS * AHEAD - 1) * LODE_LANES < end) {
      typename J::E x[AHEAD], next[AHEAD];
      LODE_UNROLL
      for (int i = 0; i < AHEAD; i++) x[i] = J::get(p, place, e + i * LODE_LANES);
      LODE_UNROLL
      for (int step = 1; step <= STEPS; step++) {
        LODE_UNROLL
        for (int i = 0; i < AHEAD && step < STEPS; i++)
          next[i] = J::get(p, place, e + (step * AHEAD + i) * LODE_LANES);
        J::add(sum, place, x, AHEAD);
        LODE_UNROLL
        for (int i = 0; i < AHEAD && step < STEPS; i++) x[i] = next[i];
      }
      return sum;
    }
  }
  if (e + (AHEAD - 1) * LODE_LANES < end) {
    typename J::E x[AHEAD];
    LODE_UNROLL
    for (int i = 0; i < AHEAD; i++) x[i] = J::get(p, place, e + i * LODE_LANES);
    e += AHEAD * LODE_LANES;
    LODE_NO_UNROLL
    for (; e + (AHEAD - 1) * LODE_LANES < end; e += AHEAD * LODE_LANES) {
      typename J::E next[AHEAD];
      LODE_UNROLL
      for (int i = 0; i < AHEAD; i++) next[i] = J::get(p, place, e + i * LODE_LANES);
      J::add(sum, place, x, AHEAD);
      LODE_UNROLL
      for (int i = 0; i < AHEAD; i++) x[i] = next[i];
    }
    J::add(sum, place, x, AHEAD);
  }
  if constexpr (J::BLOCKS) {
    if (e < end) {
      typename J::E x[AHEAD];
      const int count = (int)((end - e + LODE_LANES - 1) / LODE_LANES);
      LODE_UNROLL
      for (int i = 0; i < AHEAD; i++) x[i] = J::get(p, place, i < count ? e + i * LODE_LANES : e);
      J::add(sum, place, x, count);
    }
  } else {
    LODE_NO_UNROLL
    for (; e < end; e += LODE_LANES) {
      typename J::E x[1] = {J::get(p, place, e)};
      J::add(sum, place, x, 1);
    }
  }
  return sum;
}

/* ---- a thread for each chunk of a sequence -------------------------------------------- */

/* Elements [begin, end) of a sequence, at most a chunk, lane by lane, in the order in which folding by halves
 * joins neighbours. */
template <class J, class P>
LODE_DEVICE typename J::T lode_reduce_by_lanes(const P &p, const typename J::place &place, typename J::I begin,
                                               typename J::I end) {
  typename J::T level[5];
  LODE_NO_UNROLL
  for (int i = 0; i < LODE_LANES; i++) {
    const int lane = (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3;
    typename J::T x = lode_reduce_lane<J>(p, place, begin + (typename J::I)lane, end);
    int l = 0;
    LODE_NO_UNROLL
    for (int c = i; (c & 1) != 0; c >>= 1) x = J::combine(level[l++], x);
    level[l] = x;
  }
  return level[4];
}

/* The same with all lanes in registers. */
template <class J, class P>
LODE_DEVICE typename J::T lode_reduce_all_lanes(const P &p, const typename J::place &place, typename J::I begin,
                                                typename J::I end) {
  typename J::T lane[LODE_LANES];
  LODE_UNROLL
  for (int i = 0; i < LODE_LANES; i++) lane[i] = J::identity();
  typename J::I e = begin;
  LODE_NO_UNROLL
  for (; e + LODE_LANES <= end; e += LODE_LANES) {
    typename J::E x[LODE_LANES][1];
    LODE_UNROLL
    for (int i = 0; i < LODE_LANES; i++) x[i][0] = J::get(p, place, e + i);
    LODE_UNROLL
    for (int i = 0; i < LODE_LANES; i++) J::add(lane[i], place, x[i], 1);
  }
  LODE_UNROLL
  for (int i = 0; i < LODE_LANES; i++) {
    if (e + i >= end) continue;
    typename J::E x[1] = {J::get(p, place, e + i)};
    J::add(lane[i], place, x, 1);
  }
  return lode_fold<J, LODE_LANES>(lane);
}

/* Chunks of sequences, neighbouring columns by neighbouring threads. Where a sequence has several, their
 * results are kept to be combined. */
template <class J, class P>
LODE_DEVICE void lode_reduce_columns(const P &p, int64_t kept, int64_t columns, typename J::I length,
                                     int64_t chunks) {
  typedef typename J::I I;
  LODE_NO_UNROLL
  for (int64_t s = (int64_t)LODE_BLOCK * LODE_THREADS + LODE_THREAD; s < kept * chunks * columns;
       s += (int64_t)LODE_BLOCKS * LODE_THREADS) {
    I row = columns == 1 ? (I)s : kept * chunks == 1 ? 0 : (I)s / (I)columns, j = (I)s - row * (I)columns;
    I k = chunks == 1 ? row : row / (I)chunks, begin = (row - k * (I)chunks) * LODE_CHUNK;
    I end = length - begin < LODE_CHUNK ? length : begin + LODE_CHUNK;
    typename J::place place = J::at(p, k, j);
    typename J::T x;
    if constexpr (J::APART) x = lode_reduce_by_lanes<J>(p, place, begin, end);
    else x = lode_reduce_all_lanes<J>(p, place, begin, end);
    if (chunks == 1) J::put(p, k, j, x);
    else J::keep(p, s, x);
  }
}

/* ---- a thread for each lane ----------------------------------------------------------- */

/* How a block's items stand to sequences. A block has 16 / C units of 16 lanes and C columns; a unit is one
 * chunk, and G = 2^group units that follow each other are one group of chunks, whose results are combined in
 * the block. C and G are powers of two, C * G at most 16. */
typedef struct lode_reduce_shape {
  int64_t kept, columns, groups; /* sequences are kept * columns; groups of a sequence */
  uint32_t C, group;
} lode_reduce_shape;

template <class I> struct lode_reduce_item {
  I k, j, chunk, group;
  bool exists;
};

template <class I>
LODE_DEVICE lode_reduce_item<I> lode_reduce_item_of(const lode_reduce_shape &s, I first, uint32_t t) {
  lode_reduce_item<I> item;
  I unit = first + (I)(t / (LODE_LANES * s.C)), set = unit >> s.group, groups = (I)s.groups;
  I tiles = ((I)s.columns + (I)s.C - 1) / (I)s.C;
  I row = groups == 1 ? set : set / groups;
  item.group = set - row * groups;
  item.chunk = (item.group << s.group) + (unit & (((I)1 << s.group) - 1));
  item.k = tiles == 1 ? row : row / tiles;
  item.j = (row - item.k * tiles) * (I)s.C + (I)(t % s.C);
  item.exists = item.k < (I)s.kept && item.j < (I)s.columns;
  return item;
}

/* Long sequences. Results are kept as partial result (k * all + before + group) * columns + j: of all `all`
 * groups of a sequence, these are from `before` on; or, where not `partial`, put: then there is one group.
 * `lanes` is shared memory for LODE_ITEMS results. */
template <class J, class P>
LODE_DEVICE void lode_reduce_lanes(const P &p, typename J::T *lanes, lode_reduce_shape s, typename J::I length,
                                   bool partial, int64_t before, int64_t all) {
  typedef typename J::T T;
  typedef typename J::I I;
  const uint32_t unit_items = LODE_LANES * s.C, G = 1u << s.group;
  const I units = (I)(LODE_LANES / s.C);
  const I total = (I)s.kept * (((I)s.columns + (I)s.C - 1) / (I)s.C) * (I)s.groups * (I)G;
  LODE_NO_UNROLL
  for (I first = (I)LODE_BLOCK * units; first < total; first += (I)LODE_BLOCKS * units) {
    LODE_NO_UNROLL
    for (uint32_t t = LODE_THREAD; t < LODE_ITEMS; t += LODE_THREADS) {
      lode_reduce_item<I> item = lode_reduce_item_of<I>(s, first, t);
      T x = J::identity();
      I begin = item.chunk * LODE_CHUNK;
      if (item.exists && begin < length) {
        I end = length - begin < LODE_CHUNK ? length : begin + LODE_CHUNK;
        x = lode_reduce_lane<J>(p, J::at(p, item.k, item.j), begin + (I)(t / s.C % LODE_LANES), end);
      }
      lanes[t] = x;
    }
    LODE_NO_UNROLL
    for (uint32_t half = LODE_LANES / 2; half > 0; half /= 2) {
      LODE_SYNC();
      LODE_NO_UNROLL
      for (uint32_t t = LODE_THREAD; t < LODE_ITEMS; t += LODE_THREADS)
        if (t / s.C % LODE_LANES < half) lanes[t] = J::combine(lanes[t], lanes[t + half * s.C]);
    }
    LODE_NO_UNROLL
    for (uint32_t distance = 1; distance < G; distance *= 2) {
      LODE_SYNC();
      LODE_NO_UNROLL
      for (uint32_t t = LODE_THREAD; t < LODE_ITEMS; t += LODE_THREADS)
        if (t / s.C % LODE_LANES == 0 && t / unit_items % (2 * distance) == 0)
          lanes[t] = J::combine(lanes[t], lanes[t + distance * unit_items]);
    }
    LODE_NO_UNROLL
    for (uint32_t t = LODE_THREAD; t < LODE_ITEMS; t += LODE_THREADS) { /* a thread has written what it reads */
      if (t / s.C % LODE_LANES != 0 || t / unit_items % G != 0) continue;
      lode_reduce_item<I> item = lode_reduce_item_of<I>(s, first, t);
      if (!item.exists) continue;
      if (!partial) J::put(p, item.k, item.j, lanes[t]);
      else J::keep(p, ((int64_t)item.k * all + before + item.group) * s.columns + item.j, lanes[t]);
    }
    LODE_SYNC();
  }
}

#endif
