/* Element types, and the one table of what each is. */
#ifndef LODE_DTYPE_H
#define LODE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, printed name, C type T, wrap type U, kind)
 * U is the type in which T's arithmetic is done: the unsigned counterpart of an
 * integer (so that overflow wraps and is never undefined), T itself for floats.
 * A bool is a byte that holds 0 or 1. Order is the order of promotion. */
#define LODE_DTYPE_MAP(X)                                                                                      \
  X(BOOL, "bool", uint8_t, uint8_t, LODE_KIND_BOOL)                                                            \
  X(I32, "i32", int32_t, uint32_t, LODE_KIND_INT)                                                              \
  X(I64, "i64", int64_t, uint64_t, LODE_KIND_INT)                                                              \
  X(F32, "f32", float, float, LODE_KIND_FLOAT)                                                                 \
  X(F64, "f64", double, double, LODE_KIND_FLOAT)

typedef enum lode_kind { LODE_KIND_BOOL, LODE_KIND_INT, LODE_KIND_FLOAT } lode_kind;

typedef enum lode_dtype {
#define X(name, text, T, U, kind) LODE_##name,
  LODE_DTYPE_MAP(X)
#undef X
      LODE_NDTYPES
} lode_dtype;

/* A value of any dtype: a scalar argument of a program. */
typedef union lode_scalar {
  uint8_t b;
  int32_t i32;
  int64_t i64;
  float f32;
  double f64;
} lode_scalar;

const char *lode_dtype_name(lode_dtype dtype);
size_t lode_dtype_size(lode_dtype dtype); /* bytes of one element */
lode_kind lode_dtype_kind(lode_dtype dtype);
/* Finds a dtype by its printed name; false if there is none. */
bool lode_dtype_find(const char *name, lode_dtype *dtype);
/* The dtype that both fit: bool < i32 < i64 < f32 < f64. Any integer with f32
 * is f32, as in PyTorch; the array API standard leaves mixed kinds open. */
lode_dtype lode_dtype_promote(lode_dtype a, lode_dtype b);

#endif
