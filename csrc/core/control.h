/* The floating-point control word. Engines and audio code set flush-to-zero or
 * another rounding in their threads; lode's results must not change with them,
 * so whoever evaluates, or rounds a script's number, sets the default and puts the
 * host's back. */
#ifndef LODE_CONTROL_H
#define LODE_CONTROL_H

#include <stdint.h>

#if defined(__x86_64__)
/* Exceptions masked, round to nearest, no flush to zero, denormals are numbers. */
enum { LODE_CONTROL_DEFAULT = 0x1f80, LODE_CONTROL_FLAGS = 0x3f };
static inline uint64_t lode_control_get(void) { return __builtin_ia32_stmxcsr(); }
static inline void lode_control_set(uint64_t word) { __builtin_ia32_ldmxcsr((unsigned)word); }
#elif defined(__aarch64__)
enum { LODE_CONTROL_DEFAULT = 0, LODE_CONTROL_FLAGS = 0 };
static inline uint64_t lode_control_get(void) {
  uint64_t word;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(word));
  return word;
}
static inline void lode_control_set(uint64_t word) { __asm__ __volatile__("msr fpcr, %0" : : "r"(word)); }
#else
enum { LODE_CONTROL_DEFAULT = 0, LODE_CONTROL_FLAGS = 0 };
static inline uint64_t lode_control_get(void) { return 0; }
static inline void lode_control_set(uint64_t word) { (void)word; }
#endif

/* Returns the word to give to lode_control_leave. Writing is slow, so it is done only if needed. */
static inline uint64_t lode_control_enter(void) {
  uint64_t word = lode_control_get();
  if ((word & ~(uint64_t)LODE_CONTROL_FLAGS) != LODE_CONTROL_DEFAULT) lode_control_set(LODE_CONTROL_DEFAULT);
  return word;
}

static inline void lode_control_leave(uint64_t word) {
  if ((word & ~(uint64_t)LODE_CONTROL_FLAGS) != LODE_CONTROL_DEFAULT) lode_control_set(word);
}

#endif
