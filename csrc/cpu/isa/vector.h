/* Vectors of one element type, for reductions along short rows: there, plain
 * loops over 16 partial results are many times slower than what follows.
 *
 * Written with the compilers' portable vectors, so one text serves every
 * instruction set. reduce_type.h includes this once for each element type, with
 *   T, U        the element type and its wrap type (core/dtype.h)
 *   I           the signed integer of the same size, for masks
 *   ELEMENT     bytes of an element, as a literal: 4 or 8
 *   NAME(x)     x with a suffix of its own for the type */

/* Included once for each element type: forget the last one's. */
#undef CHOOSE
#undef FLIGHT
#undef FOLD_ROWS
#undef FOLD_STEP
#undef GROUPS
#undef HIGH1
#undef HIGH2
#undef HIGH3
#undef HIGH4
#undef LOAD
#undef LOW1
#undef LOW2
#undef LOW3
#undef LOW4
#undef MASK
#undef MERGE
#undef REGISTER
#undef ROW_ORDER
#undef SHUFFLE
#undef STEPS
#undef STORE
#undef V
#undef VECTOR_max
#undef VECTOR_min
#undef VECTOR_prod
#undef VECTOR_sum
#undef WIDTH

#if defined(__AVX512F__)
#define REGISTER 64
#elif defined(__AVX2__)
#define REGISTER 32
#else
#define REGISTER 16
#endif

/* Elements of a register, and registers that hold the 16 partial results. */
#define WIDTH  (REGISTER / ELEMENT)
#define GROUPS (16 / WIDTH)
#define FLIGHT (8 / GROUPS) /* chunks under way at once: eight registers */

typedef T NAME(vector) __attribute__((vector_size(REGISTER)));
typedef U NAME(wrap) __attribute__((vector_size(REGISTER)));
typedef I NAME(mask) __attribute__((vector_size(REGISTER)));
typedef T NAME(loose) __attribute__((vector_size(REGISTER), aligned(ELEMENT), may_alias));

#define V               NAME(vector)
#define MASK            NAME(mask)
#define LOAD(p)         ((V)(*(const NAME(loose) *)(p)))
#define STORE(p, v)     (*(NAME(loose) *)(p) = (NAME(loose))(v))
#define CHOOSE(m, a, b) ((V)(((m) & (MASK)(a)) | (~(m) & (MASK)(b))))
#define MERGE(m, a, b)  ((V)(((m) & (MASK)(a)) | (MASK)(b))) /* CHOOSE, where b is 0 wherever m is set */

/* The reductions of core/ops.def on vectors: the same values, element by element. */
#define VECTOR_sum(a, b)  ((V)((NAME(wrap))(a) + (NAME(wrap))(b)))
#define VECTOR_prod(a, b) ((V)((NAME(wrap))(a) * (NAME(wrap))(b)))
#define VECTOR_min(a, b)  CHOOSE((MASK)((a) < (b)) | (MASK)((a) != (a)), a, b)
#define VECTOR_max(a, b)  CHOOSE((MASK)((a) > (b)) | (MASK)((a) != (a)), a, b)

/* One step of the fold by halves, for two vectors at once. Both hold groups of g partial results;
 * LOW takes the first half of each group, HIGH the second, so that LOW o HIGH has groups of g / 2.
 * Where the groups go is chosen so that each is one shuffle; ROW_ORDER says which rows must be
 * paired for the results to come out in order. */
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if REGISTER == 64 && ELEMENT == 4
#define STEPS       4
#define LOW1(a, b)  SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH1(a, b) SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define HIGH2(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#define LOW3(a, b)  SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
#define HIGH3(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)
#define LOW4(a, b)  SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define HIGH4(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ROW_ORDER                                                                                              \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#elif REGISTER == 64
#define STEPS       3
#define LOW1(a, b)  SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH1(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define LOW3(a, b)  SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define HIGH3(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ROW_ORDER                                                                                              \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#elif REGISTER == 32 && ELEMENT == 4 /* shuffles within 128 bits after the first step */
#define STEPS       3
#define LOW1(a, b)  SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH1(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW3(a, b)  SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define HIGH3(a, b) SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define ROW_ORDER                                                                                              \
  { 0, 4, 1, 5, 2, 6, 3, 7 }
#elif REGISTER == 32
#define STEPS       2
#define LOW1(a, b)  SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH1(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 4, 2, 6)
#define HIGH2(a, b) SHUFFLE(a, b, 1, 5, 3, 7)
#define ROW_ORDER                                                                                              \
  { 0, 2, 1, 3 }
#elif ELEMENT == 4
#define STEPS       2
#define LOW1(a, b)  SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH1(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 2, 4, 6)
#define HIGH2(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#define ROW_ORDER                                                                                              \
  { 0, 1, 2, 3 }
#else
#define STEPS       1
#define LOW1(a, b)  SHUFFLE(a, b, 0, 2)
#define HIGH1(a, b) SHUFFLE(a, b, 1, 3)
#define ROW_ORDER                                                                                              \
  { 0, 1 }
#endif

/* folded[WIDTH] vectors of one row each become folded[0], whose element r is row r's result. */
#define FOLD_STEP(op, s, count)                                                                                \
  UNROLL for (int k_ = 0; k_ < (count); k_++) folded[k_] =                                                     \
      op(LOW##s(folded[2 * k_], folded[2 * k_ + 1]), HIGH##s(folded[2 * k_], folded[2 * k_ + 1]));
#if STEPS == 4
#define FOLD_ROWS(op) FOLD_STEP(op, 1, 8) FOLD_STEP(op, 2, 4) FOLD_STEP(op, 3, 2) FOLD_STEP(op, 4, 1)
#elif STEPS == 3
#define FOLD_ROWS(op) FOLD_STEP(op, 1, 4) FOLD_STEP(op, 2, 2) FOLD_STEP(op, 3, 1)
#elif STEPS == 2
#define FOLD_ROWS(op) FOLD_STEP(op, 1, 2) FOLD_STEP(op, 2, 1)
#else
#define FOLD_ROWS(op) FOLD_STEP(op, 1, 1)
#endif
