/* Chains of one instruction set (../isa.h): operations each of which takes the
 * result of the one before. Eight vectors of it, a strip, stay in registers from
 * operation to operation, so that memory is read once for each operand and
 * written once for all of them. What a comparison gives is a mask, elements of
 * the size of its operands, so that a selection by it converts nothing.
 *
 * A link is a function that is given the strip as its arguments, changes it, and
 * calls the next link with it, in its place: the calling conventions of x86-64 and
 * arm64 pass eight vectors in registers, and compilers that optimize make that
 * call a jump. The functions of one element type are in chain_type.h. */
#include "../isa.h"

#include "../../core/expr.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define STRIP   (8 * WIDTH) /* elements: 128 at most */
#define VECTORS V p0, V p1, V p2, V p3, V p4, V p5, V p6, V p7
#define NEXT(k) ((NAME(link) *)link[k].run)(link + (k), i, p0, p1, p2, p3, p4, p5, p6, p7)

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
  M(maximum, VECTOR_max(a, b))                                                                                 \
  M(equal, a == b)                                                                                             \
  M(not_equal, a != b)                                                                                         \
  M(less, a < b)                                                                                               \
  M(less_equal, a <= b)                                                                                        \
  M(greater, a > b)                                                                                            \
  M(greater_equal, a >= b)

/* Changes all vectors of the strip, as HOW says; how an operand's vectors come. */
#define ALL(HOW, name)                                                                                         \
  p0 = HOW(name, p0, 0);                                                                                       \
  p1 = HOW(name, p1, 1);                                                                                       \
  p2 = HOW(name, p2, 2);                                                                                       \
  p3 = HOW(name, p3, 3);                                                                                       \
  p4 = HOW(name, p4, 4);                                                                                       \
  p5 = HOW(name, p5, 5);                                                                                       \
  p6 = HOW(name, p6, 6);                                                                                       \
  p7 = HOW(name, p7, 7);
#define ARRAY(x, k) const T *x = (const T *)link[k].operand + i
#define NUMBER(x, k)                                                                                           \
  const V x = *(const T *)link[k].operand - (V) { 0 } /* -0.0 too */

#define ALONE(name, p, k)            NAME(name##_vector)(p)
#define WITH_ARRAY(name, p, k)       NAME(name##_vector)(p, LOAD(x + (k)*WIDTH))
#define ARRAY_WITH(name, p, k)       NAME(name##_vector)(LOAD(x + (k)*WIDTH), p)
#define WITH_NUMBER(name, p, k)      NAME(name##_vector)(p, x)
#define NUMBER_WITH(name, p, k)      NAME(name##_vector)(x, p)
#define ARRAY_OR_ARRAY(name, p, k)   CHOOSE((MASK)p, LOAD(x + (k)*WIDTH), LOAD(y + (k)*WIDTH))
#define ARRAY_OR_NUMBER(name, p, k)  CHOOSE((MASK)p, LOAD(x + (k)*WIDTH), y)
#define NUMBER_OR_ARRAY(name, p, k)  CHOOSE((MASK)p, x, LOAD(y + (k)*WIDTH))
#define NUMBER_OR_NUMBER(name, p, k) CHOOSE((MASK)p, x, y)

#define LINK(name, variant, HOW, operand)                                                                      \
  static void NAME(name##variant)(const lode_link *link, int64_t i, VECTORS) {                                 \
    operand;                                                                                                   \
    ALL(HOW, name)                                                                                             \
    NEXT(1);                                                                                                   \
  }
#define UNARY_LINK(name, expr)                                                                                 \
  static inline V NAME(name##_vector)(V a) { return (V)(expr); }                                               \
  LINK(name, _link, ALONE, (void)0)
#define BINARY_LINKS(name, expr)                                                                               \
  static inline V NAME(name##_vector)(V a, V b) { return (V)(expr); }                                          \
  LINK(name, _with_array, WITH_ARRAY, ARRAY(x, 0))                                                             \
  LINK(name, _array_with, ARRAY_WITH, ARRAY(x, 0))                                                             \
  LINK(name, _with_number, WITH_NUMBER, NUMBER(x, 0))                                                          \
  LINK(name, _number_with, NUMBER_WITH, NUMBER(x, 0))

/* The strip is the mask. */
#define WHERE_LINK(variant, HOW, B, C)                                                                         \
  static void NAME(where##variant)(const lode_link *link, int64_t i, VECTORS) {                                \
    B(x, 0);                                                                                                   \
    C(y, 1);                                                                                                   \
    ALL(HOW, where)                                                                                            \
    NEXT(2);                                                                                                   \
  }

#define RUN(function) ((lode_link_run *)(function))
#define ENTRIES(name, by_00, by_01, by_10, by_11)                                                              \
  table->link[LODE_OP_##name][DTYPE][0][0] = RUN(NAME(name##by_00));                                           \
  table->link[LODE_OP_##name][DTYPE][0][1] = RUN(NAME(name##by_01));                                           \
  table->link[LODE_OP_##name][DTYPE][1][0] = RUN(NAME(name##by_10));                                           \
  table->link[LODE_OP_##name][DTYPE][1][1] = RUN(NAME(name##by_11));
#define UNARY_ENTRY(name, expr)    table->link[LODE_OP_##name][DTYPE][0][0] = RUN(NAME(name##_link));
#define BINARY_ENTRIES(name, expr) ENTRIES(name, _with_array, _with_number, _array_with, _number_with)

#define T       float
#define U       float
#define I       int32_t
#define ELEMENT 4
#define DTYPE   LODE_F32
#define NAME(x) x##_f32
#include "chain_type.h"
#undef T
#undef U
#undef I
#undef ELEMENT
#undef DTYPE
#undef NAME

#define T       double
#define U       double
#define I       int64_t
#define ELEMENT 8
#define DTYPE   LODE_F64
#define NAME(x) x##_f64
#include "chain_type.h"

void LODE_ISA_NAME(lode_isa_chain)(lode_isa *table) {
  fill_f32(table);
  fill_f64(table);
}
