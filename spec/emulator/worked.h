/* What the emulated libraries share.
 *
 * Device work does not depend on the floating-point environment of the caller: it is
 * put aside meanwhile. And work tells the emulated driver how long it took, so that events
 * behind it are not reached at once. The driver is another library of the process, found by its name. */
#ifndef LODE_EMULATOR_WORKED_H
#define LODE_EMULATOR_WORKED_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static inline fenv_t environment_enter(void) {
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  return before;
}

static inline void environment_leave(fenv_t *before) { fesetenv(before); }

/* To the end of the function that says it. */
#define DEFAULT_ENVIRONMENT()                                                                                  \
  __attribute__((cleanup(environment_leave))) fenv_t environment_ = environment_enter()

static inline int64_t work_begins(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline void work_ends(void *stream, int64_t start) {
  void (*worked)(void *, int64_t) = NULL;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *symbol = driver != NULL ? dlsym(driver, "lode_emulated_worked") : NULL;
  memcpy(&worked, &symbol, sizeof worked);
  if (worked != NULL && stream != NULL) worked(stream, start);
  if (driver != NULL) dlclose(driver);
}

#endif
