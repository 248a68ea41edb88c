/* See dtype.h. */
#include "dtype.h"

#include <string.h>

static const struct {
  const char *name;
  size_t size;
  lode_kind kind;
} dtypes[LODE_NDTYPES] = {
#define X(name, text, T, U, kind) {text, sizeof(T), kind},
    LODE_DTYPE_MAP(X)
#undef X
};

const char *lode_dtype_name(lode_dtype dtype) { return dtypes[dtype].name; }

size_t lode_dtype_size(lode_dtype dtype) { return dtypes[dtype].size; }

lode_kind lode_dtype_kind(lode_dtype dtype) { return dtypes[dtype].kind; }

bool lode_dtype_find(const char *name, lode_dtype *dtype) {
  for (int i = 0; i < LODE_NDTYPES; i++) {
    if (strcmp(name, dtypes[i].name) == 0) {
      *dtype = (lode_dtype)i;
      return true;
    }
  }
  return false;
}

lode_dtype lode_dtype_promote(lode_dtype a, lode_dtype b) { return a > b ? a : b; }
