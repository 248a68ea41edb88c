/* Chains of one instruction set (../isa.h): operations each of which takes the
 * result of the one before. Eight vectors of it, a strip, stay in registers from
 * operation to operation, so that memory is read once for each operand and
 * written once for all of them.
 *
 * A link is a function that is given the strip as its arguments, changes it, and
 * calls the next link with it, in its place: the calling conventions of x86-64 and
 * arm64 pass eight vectors in registers, and compilers that optimize make that
 * call a jump. */
#include "../isa.h"

#include "../../core/expr.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

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
