/* See driver.h.
 *
 * What loading came to is remembered, also a failure: a driver that is absent stays
 * absent in this process. A fork leaves the child without the driver's threads and
 * mappings, so it is noted, and every entry of the device asks. */
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../core/mutex.h"
#include "../core/system.h"

lode_driver lode_cu;

static lode_mutex lock = LODE_MUTEX_INIT;
static bool tried;
static lode_status outcome;
static lode_error reason;

static atomic_bool forked;

static void note_fork(void) { atomic_store(&forked, true); }

bool lode_driver_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

lode_status lode_driver_refuse_fork(lode_error *error) {
  return lode_fail(error, LODE_UNAVAILABLE,
                   "the process was forked after CUDA was started, which does not survive that; use a GPU only "
                   "after the fork, or start a new process (the cpu works)");
}

/* ---- loading -------------------------------------------------------------- */

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name) /* with cuda.h's macros expanded: "cuMemAlloc_v2" */

typedef struct symbol {
  const char *name;
  void **place;
} symbol;

static const symbol symbols[] = {
#define X(name) {TEXT(name), (void **)(void *)&lode_cu.name},
    LODE_DRIVER_MAP(X)
#undef X
};

enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static void version_text(char text[16], int version) {
  lode_error made;
  lode_error_set(&made, "%d.%d", version / 1000, version % 1000 / 10);
  memcpy(text, made.text, 15);
  text[15] = '\0';
}

/* Kernels are built for one major version of CUDA; its drivers run them, and later ones. */
static lode_status check_version(lode_error *error) {
  int version = 0;
  char theirs[16], ours[16];
  if (lode_cu.cuDriverGetVersion == NULL || lode_cu.cuDriverGetVersion(&version) != CUDA_SUCCESS)
    return lode_fail(error, LODE_UNAVAILABLE, "the NVIDIA driver does not say its version");
  version_text(theirs, version);
  version_text(ours, CUDA_VERSION);
  if (version / 1000 >= CUDA_VERSION / 1000) return LODE_OK;
  return lode_fail(
      error, LODE_UNAVAILABLE,
      "the NVIDIA driver knows CUDA %s, lode was built with CUDA %s and needs a driver for CUDA %d.0 or "
      "newer: update the driver, or build lode with an older CUDA",
      theirs, ours, CUDA_VERSION / 1000);
}

static lode_status resolve(void *library, lode_error *error) {
  const char *missing = NULL;
  for (int i = 0; i < SYMBOLS; i++) {
    *symbols[i].place = lode_library_symbol(library, symbols[i].name);
    if (*symbols[i].place == NULL && missing == NULL) missing = symbols[i].name;
  }
  LODE_TRY(check_version(error));
  if (missing == NULL) return LODE_OK;
  return lode_fail(error, LODE_UNAVAILABLE, "the NVIDIA driver has no %s: update it", missing);
}

static lode_status start(lode_error *error) {
  if (pthread_atfork(NULL, NULL, note_fork) != 0)
    return lode_fail(error, LODE_UNAVAILABLE, "no host memory to watch for forks");
  CUresult result = lode_cu.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    return lode_fail(error, LODE_UNAVAILABLE, "the NVIDIA driver shows no GPU to this process");
  lode_error text;
  if (lode_driver_check(result, "cuInit", &text) != LODE_OK)
    return lode_fail(error, LODE_UNAVAILABLE, "the NVIDIA driver does not start: %.400s", text.text);
  return LODE_OK;
}

static lode_status load(lode_error *error) {
  void *library;
  lode_error text;
  if (lode_library_open("libcuda.so.1", &library, &text) != LODE_OK)
    return lode_fail(error, LODE_UNAVAILABLE, "no NVIDIA driver: %.400s", text.text);
  LODE_TRY(resolve(library, error));
  return start(error);
}

lode_status lode_driver_load(lode_error *error) {
  if (lode_driver_forked()) return lode_driver_refuse_fork(error);
  lode_mutex_lock(&lock);
  if (!tried) {
    outcome = load(&reason);
    tried = true;
  }
  lode_mutex_unlock(&lock);
  return outcome == LODE_OK ? LODE_OK : lode_fail(error, outcome, "%s", reason.text);
}

/* ---- errors --------------------------------------------------------------- */

/* Those after which nothing on the device works any more in this process. */
static bool is_final(CUresult result) {
  static const CUresult final[] = {
      CUDA_ERROR_ILLEGAL_ADDRESS,      CUDA_ERROR_LAUNCH_TIMEOUT,    CUDA_ERROR_ASSERT,
      CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_LAUNCH_FAILED,     CUDA_ERROR_ILLEGAL_INSTRUCTION,
      CUDA_ERROR_MISALIGNED_ADDRESS,   CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_INVALID_ADDRESS_SPACE,
      CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_PC,        CUDA_ERROR_UNKNOWN,
  };
  for (size_t i = 0; i < sizeof final / sizeof *final; i++)
    if (result == final[i]) return true;
  return false;
}

lode_status lode_driver_check(CUresult result, const char *what, lode_error *error) {
  if (result == CUDA_SUCCESS) return LODE_OK;
  const char *name = NULL, *text = NULL;
  if (lode_cu.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) name = "an unknown error";
  if (lode_cu.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL) text = "no text";
  return lode_fail(error, result == CUDA_ERROR_OUT_OF_MEMORY ? LODE_NOMEM : LODE_SYSTEM, "%s: %s (%d, %s)%s",
                   what, name, (int)result, text,
                   is_final(result) ? "; this GPU is lost to the process, other devices are not" : "");
}
