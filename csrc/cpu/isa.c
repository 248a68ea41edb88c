/* See isa.h: which instruction sets were built, and the choice among them. */
#include "isa.h"

#include <string.h>

#include "../core/mutex.h"
#include "../core/system.h"

typedef struct variant {
  const char *name;
  bool (*supported)(void);
  void (*fill[4])(lode_isa *table);
} variant;

#define VARIANT(isa)                                                                                           \
  {                                                                                                            \
#isa, has_##isa, {                                                                                         \
      lode_isa_loops_##isa, lode_isa_chain_##isa, lode_isa_reduce_##isa, lode_isa_move_##isa                   \
    }                                                                                                          \
  }

static bool has_baseline(void) { return true; }
#ifdef LODE_ISA_AVX2
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#ifdef LODE_ISA_AVX512
/* x86-64-v4; the builtin also looks whether the system saves the registers. */
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

/* Best last. */
static const variant variants[] = {
    VARIANT(baseline),
#ifdef LODE_ISA_AVX2
    VARIANT(avx2),
#endif
#ifdef LODE_ISA_AVX512
    VARIANT(avx512),
#endif
};

static lode_isa table;

static void choose(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  const variant *best = NULL;
  const char *wanted = lode_environment("LODE_ISA");
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    if (!variants[i].supported()) continue;
    best = &variants[i];
    if (wanted != NULL && strcmp(wanted, best->name) == 0) break;
  }
  table.name = best->name;
  for (int i = 0; i < 4; i++) best->fill[i](&table);
}

const lode_isa *lode_isa_current(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, choose);
  return &table;
}
