/* The chains of one element type; see vector.h for what must be defined, and
 * DTYPE, the type's number. Included by chain.c alone. */
#include "vector.h"

/* How a link is called: the strip begins at element i of all arrays. */
typedef void NAME(link)(const lode_link *link, int64_t i, VECTORS);

static inline V NAME(roots)(V a) {
  V r;
  UNROLL for (int k = 0; k < WIDTH; k++) r[k] = LODE_SQRT(a[k]);
  return r;
}

UNARIES(UNARY_LINK)
BINARIES(BINARY_LINKS)
WHERE_LINK(_array_array, ARRAY_OR_ARRAY, ARRAY, ARRAY)
WHERE_LINK(_array_number, ARRAY_OR_NUMBER, ARRAY, NUMBER)
WHERE_LINK(_number_array, NUMBER_OR_ARRAY, NUMBER, ARRAY)
WHERE_LINK(_number_number, NUMBER_OR_NUMBER, NUMBER, NUMBER)

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
  UNARIES(UNARY_ENTRY)
  BINARIES(BINARY_ENTRIES)
  ENTRIES(where, _array_array, _array_number, _number_array, _number_number)
  table->store[DTYPE] = RUN(NAME(store));
  table->chain[DTYPE] = NAME(chain);
}
