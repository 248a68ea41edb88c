/* The chains of one element type; see vector.h for what must be defined, and
 * DTYPE, the type's number. Included by chain.c alone. */
#include "vector.h"

#define STRIP   (8 * WIDTH) /* elements */
#define VECTORS V p0, V p1, V p2, V p3, V p4, V p5, V p6, V p7

/* How a link is called: the strip begins at element i of all arrays. */
typedef void NAME(link)(const lode_link *link, int64_t i, VECTORS);

#define NEXT ((NAME(link) *)link[1].run)(link + 1, i, p0, p1, p2, p3, p4, p5, p6, p7)

/* Applies an operation to all vectors of the strip, as HOW says. */
#define ALL(HOW, name)                                                                                         \
  p0 = HOW(name, p0, 0);                                                                                       \
  p1 = HOW(name, p1, 1);                                                                                       \
  p2 = HOW(name, p2, 2);                                                                                       \
  p3 = HOW(name, p3, 3);                                                                                       \
  p4 = HOW(name, p4, 4);                                                                                       \
  p5 = HOW(name, p5, 5);                                                                                       \
  p6 = HOW(name, p6, 6);                                                                                       \
  p7 = HOW(name, p7, 7);
#define ALONE(name, p, k)       NAME(name##_vector)(p)
#define WITH_ARRAY(name, p, k)  NAME(name##_vector)(p, LOAD(x + (k)*WIDTH))
#define ARRAY_WITH(name, p, k)  NAME(name##_vector)(LOAD(x + (k)*WIDTH), p)
#define WITH_NUMBER(name, p, k) NAME(name##_vector)(p, number)
#define NUMBER_WITH(name, p, k) NAME(name##_vector)(number, p)

#define LINK(name, variant, HOW, operand)                                                                      \
  static void NAME(name##variant)(const lode_link *link, int64_t i, VECTORS) {                                 \
    operand;                                                                                                   \
    ALL(HOW, name)                                                                                             \
    NEXT;                                                                                                      \
  }
#define ARRAY const T *x = (const T *)link->operand + i
#define NUMBER                                                                                                 \
  const V number = *(const T *)link->operand - (V) { 0 } /* -0.0 too */

static inline V NAME(roots)(V a) {
  V r;
  UNROLL for (int k = 0; k < WIDTH; k++) r[k] = LODE_SQRT(a[k]);
  return r;
}

#define UNARY_LINK(name, expr)                                                                                 \
  static inline V NAME(name##_vector)(V a) { return (V)(expr); }                                               \
  LINK(name, _link, ALONE, (void)0)

#define BINARY_LINKS(name, expr)                                                                               \
  static inline V NAME(name##_vector)(V a, V b) { return (V)(expr); }                                          \
  LINK(name, _with_array, WITH_ARRAY, ARRAY)                                                                   \
  LINK(name, _array_with, ARRAY_WITH, ARRAY)                                                                   \
  LINK(name, _with_number, WITH_NUMBER, NUMBER)                                                                \
  LINK(name, _number_with, NUMBER_WITH, NUMBER)

/* Operations of core/ops.def on vectors: the same values, element by element. */
#define UNARIES(M)                                                                                             \
  M(negative, (T)-1 * a)                                                                                       \
  M(abs, (MASK)a &(I)((UINT64_C(1) << (8 * ELEMENT - 1)) - 1))                                                 \
  M(square, a *a)                                                                                              \
  M(sqrt, NAME(roots)(a))
#define BINARIES(M)                                                                                            \
  M(add, a + b)                                                                                                \
  M(subtract, a - b)                                                                                           \
  M(multiply, a *b)                                                                                            \
  M(divide, a / b)                                                                                             \
  M(minimum, VECTOR_min(a, b))                                                                                 \
  M(maximum, VECTOR_max(a, b))
UNARIES(UNARY_LINK)
BINARIES(BINARY_LINKS)

static void NAME(store)(const lode_link *link, int64_t i, VECTORS) {
  T *x = (T *)link->result + i;
  STORE(x, p0);
  STORE(x + WIDTH, p1);
  STORE(x + 2 * WIDTH, p2);
  STORE(x + 3 * WIDTH, p3);
  STORE(x + 4 * WIDTH, p4);
  STORE(x + 5 * WIDTH, p5);
  STORE(x + 6 * WIDTH, p6);
  STORE(x + 7 * WIDTH, p7);
}

/* The last strip may overlap the one before: the result is none of the operands. */
static bool NAME(chain)(const lode_link *link, const void *first, int64_t n) {
  if (n < STRIP) return false;
  for (int64_t i = 0; i < n; i += STRIP) {
    if (i > n - STRIP) i = n - STRIP;
    const T *x = (const T *)first + i;
    ((NAME(link) *)link->run)(link, i, LOAD(x), LOAD(x + WIDTH), LOAD(x + 2 * WIDTH), LOAD(x + 3 * WIDTH),
                              LOAD(x + 4 * WIDTH), LOAD(x + 5 * WIDTH), LOAD(x + 6 * WIDTH),
                              LOAD(x + 7 * WIDTH));
  }
  return true;
}

static void NAME(fill)(lode_isa *table) {
#define RUN(function)           ((lode_link_run *)(function))
#define UNARY_ENTRY(name, expr) table->link[LODE_OP_##name][DTYPE][0][0] = RUN(NAME(name##_link));
#define BINARY_ENTRIES(name, expr)                                                                             \
  table->link[LODE_OP_##name][DTYPE][0][0] = RUN(NAME(name##_with_array));                                     \
  table->link[LODE_OP_##name][DTYPE][0][1] = RUN(NAME(name##_with_number));                                    \
  table->link[LODE_OP_##name][DTYPE][1][0] = RUN(NAME(name##_array_with));                                     \
  table->link[LODE_OP_##name][DTYPE][1][1] = RUN(NAME(name##_number_with));
  UNARIES(UNARY_ENTRY)
  BINARIES(BINARY_ENTRIES)
  table->store[DTYPE] = RUN(NAME(store));
  table->chain[DTYPE] = NAME(chain);
}

#undef ALL
#undef ALONE
#undef ARRAY
#undef ARRAY_WITH
#undef BINARIES
#undef BINARY_ENTRIES
#undef BINARY_LINKS
#undef LINK
#undef NEXT
#undef NUMBER
#undef NUMBER_WITH
#undef RUN
#undef STRIP
#undef UNARIES
#undef UNARY_ENTRY
#undef UNARY_LINK
#undef VECTORS
#undef WITH_ARRAY
#undef WITH_NUMBER
