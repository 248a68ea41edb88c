/* core/moments.h's m2, for one floating element type; what must be defined is as for
 * vector.h, which has been included. Included by reduce.c alone. */

#define M2_LOAD_ONE(p)     (*(p))
#define M2_STORE_ONE(p, x) (*(p) = (x))

/* Joins `count` elements, `stride` apart, to what is known of `before` elements, for one X: a vector of lanes
 * or columns, or one of them. */
#define M2_FUNCTION(name, X, load, store)                                                                      \
  static inline __attribute__((always_inline)) void NAME(name)(T * m, T * d, const T *x, const T *first,       \
                                                               int64_t stride, T before, int count) {          \
    const X shift = load(first);                                                                               \
    const T own = (T)count;                                                                                    \
    X y[LODE_M2_BLOCK];                                                                                        \
    UNROLL for (int k = 0; k < count; k++) y[k] = load(x + k * stride) - shift;                                \
    X sum = y[0];                                                                                              \
    UNROLL for (int k = 1; k < count; k++) sum = sum + y[k];                                                   \
    X off = LODE_M2_DEVIATION(T, y[0], sum, own), squares = off * off;                                         \
    UNROLL for (int k = 1; k < count; k++) {                                                                   \
      off = LODE_M2_DEVIATION(T, y[k], sum, own);                                                              \
      squares = squares + off * off;                                                                           \
    }                                                                                                          \
    if (before > 0) {                                                                                          \
      const X so_far = load(d), apart = LODE_M2_APART(T, so_far, before, sum, own);                            \
      squares = LODE_M2_JOINED(T, load(m), before, squares, own, apart);                                       \
      sum = so_far + sum;                                                                                      \
    }                                                                                                          \
    store(m, squares);                                                                                         \
    store(d, sum);                                                                                             \
  }
M2_FUNCTION(m2_vector, V, LOAD, STORE)
M2_FUNCTION(m2_one, T, M2_LOAD_ONE, M2_STORE_ONE)

static inline __attribute__((always_inline)) void NAME(m2_all)(T *m, T *d, const T *x, const T *first,
                                                               int64_t n, int64_t stride, T before, int count) {
  int64_t i = 0;
  for (; i + WIDTH <= n; i += WIDTH) NAME(m2_vector)(m + i, d + i, x + i, first + i, stride, before, count);
  for (; i < n; i++) NAME(m2_one)(m + i, d + i, x + i, first + i, stride, before, count);
}

/* A constant count makes straight code. */
static void NAME(m2_block)(void *m, void *d, const void *x, const void *first, int64_t n, int64_t stride,
                           int64_t before, int count) {
#define M2_CASE(c)                                                                                             \
  case c:                                                                                                      \
    NAME(m2_all)(m, d, x, first, n, stride, (T)before, c);                                                     \
    break;
  switch (count) {
    M2_CASE(1)
    M2_CASE(2)
    M2_CASE(3)
    M2_CASE(4)
    M2_CASE(5)
    M2_CASE(6)
    M2_CASE(7)
    M2_CASE(8)
  }
#undef M2_CASE
}

static inline __attribute__((always_inline)) void NAME(m2_join_all)(T *m, T *d, const T *ma, const T *da, T na,
                                                                    const T *mb, const T *db, T nb, int64_t n) {
  LODE_INDEPENDENT
  for (int64_t i = 0; i < n; i++) {
    const T apart = LODE_M2_APART(T, da[i], na, db[i], nb);
    m[i] = LODE_M2_JOINED(T, ma[i], na, mb[i], nb, apart);
    d[i] = da[i] + db[i];
  }
}

static double NAME(m2_join)(void *m, void *d, const void *ma, const void *da, double na, const void *mb,
                            const void *db, double nb, int64_t n) {
  NAME(m2_join_all)(m, d, ma, da, (T)na, mb, db, (T)nb, n);
  return (double)((T)na + (T)nb);
}

static void NAME(m2_chunks)(void *mv, void *dv, const void *xv, const void *first, int64_t n) {
  T shift[LODE_REDUCE_LANES], m[LODE_REDUCE_LANES], d[LODE_REDUCE_LANES], *m_out = mv, *d_out = dv;
  const T *x = xv;
  for (int k = 0; k < LODE_REDUCE_LANES; k++) shift[k] = *(const T *)first;
  for (int64_t c = 0; c < n; c++) {
    UNROLL for (int b = 0; b < LODE_REDUCE_CHUNK / LODE_REDUCE_LANES / LODE_M2_BLOCK; b++) {
      NAME(m2_all)(m, d, x, shift, LODE_REDUCE_LANES, LODE_REDUCE_LANES, (T)(b * LODE_M2_BLOCK), LODE_M2_BLOCK);
      x += LODE_REDUCE_LANES * LODE_M2_BLOCK;
    }
    UNROLL for (int half = LODE_REDUCE_LANES / 2; half > 0; half /= 2) {
      const T each = (T)(LODE_REDUCE_CHUNK / (2 * half));
      NAME(m2_join_all)(m, d, m, d, each, m + half, d + half, each, half);
    }
    m_out[c] = m[0];
    d_out[c] = d[0];
  }
}

static const lode_moment NAME(m2) = {.block = NAME(m2_block), .join = NAME(m2_join), .chunks = NAME(m2_chunks)};

#undef M2_LOAD_ONE
#undef M2_STORE_ONE
#undef M2_FUNCTION
