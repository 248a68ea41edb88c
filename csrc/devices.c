/* The devices of this process: the only file that names them (device.h).
 *
 * The CPU is part of lode's own module. CUDA devices come from a part, which is
 * loaded, and asks the driver, when a script first counts devices or names one
 * that is not the CPU. */
#include <stdio.h>
#include <string.h>

#include "core/device.h"
#include "core/mutex.h"
#include "cpu/cpu.h"
#include "cuda/part.h"

enum { MAX_DEVICES = 16, MAX_CUDA = MAX_DEVICES - 1 };

/* `asking` is held while the parts start drivers, which may take seconds; `lock`, taken inside of it, never for
 * long. A fork waits for both, so that a child finds them free. */
static lode_mutex asking = LODE_MUTEX_INIT, lock = LODE_MUTEX_INIT;
static lode_device_entry entries[MAX_DEVICES];
static int count;  /* the CPU is entries[0] */
static bool asked; /* for devices beyond the CPU; guarded by `asking` */
static lode_jit_mode jit = LODE_JIT_WAIT;

static void fork_prepare(void) {
  lode_mutex_lock(&asking);
  lode_mutex_lock(&lock);
}

static void fork_release(void) {
  lode_mutex_unlock(&lock);
  lode_mutex_unlock(&asking);
}

/* With `lock` held. */
static void add(const char *name, lode_device *device, const char *reason) {
  lode_device_entry *entry = &entries[count++];
  entry->name = name;
  entry->device = device;
  snprintf(entry->reason, sizeof entry->reason, "%.255s", reason);
  if (device != NULL) atomic_store(&device->jit, jit);
}

static lode_status ask_cuda(lode_device **devices, int room, int *found, lode_error *error) {
#ifdef LODE_HAVE_CUDA
  static lode_cuda_part part; /* its functions stay valid: parts are never unloaded */
  LODE_TRY(lode_part_load("cuda", &part.part, error));
  return part.enumerate(devices, room, found, error);
#else
  (void)devices;
  (void)room;
  (void)found;
  return lode_fail(error, LODE_UNAVAILABLE, "lode was built without CUDA");
#endif
}

static int open_cpu(void) {
  lode_mutex_lock(&lock);
  if (count == 0) {
    lode_device *cpu = lode_cpu_open();
    add(cpu->name, cpu, "");
    pthread_atfork(fork_prepare, fork_release, fork_release);
  }
  int result = count;
  lode_mutex_unlock(&lock);
  return result;
}

/* A kind of which no device is there has one entry that says why. */
static void open_others(void) {
  lode_device *cuda[MAX_CUDA];
  lode_error reason;
  int found = 0;
  lode_status status = ask_cuda(cuda, MAX_CUDA, &found, &reason);
  lode_mutex_lock(&lock);
  if (status != LODE_OK) add("cuda", NULL, reason.text);
  else
    for (int i = 0; i < found; i++) add(cuda[i]->name, cuda[i], "");
  lode_mutex_unlock(&lock);
}

int lode_devices_count(void) {
  open_cpu();
  lode_mutex_lock(&asking);
  if (!asked) open_others();
  asked = true;
  int result = open_cpu();
  lode_mutex_unlock(&asking);
  return result;
}

const lode_device_entry *lode_devices_get(int index) {
  return index >= 0 && index < lode_devices_count() ? &entries[index] : NULL;
}

/* Whether `entry` is called `name`, or is of the kind `name` ("cuda" for "cuda:0"). */
static bool matches(const lode_device_entry *entry, const char *name) {
  size_t length = strlen(name);
  return *name != '\0' && strncmp(entry->name, name, length) == 0 &&
         (entry->name[length] == '\0' || entry->name[length] == ':');
}

/* Whether `name` is a device of the kind that `entry` says is absent ("cuda:1" for "cuda"). */
static bool absent(const lode_device_entry *entry, const char *name) {
  size_t length = strlen(entry->name);
  return entry->device == NULL && strncmp(entry->name, name, length) == 0 &&
         (name[length] == '\0' || name[length] == ':');
}

lode_status lode_devices_find(lode_error *error, const char *who, const char *name, lode_device **out) {
  int all = open_cpu();
  if (!matches(&entries[0], name)) all = lode_devices_count();
  lode_text names = {""};
  size_t used = 0;
  for (int i = 0; i < all; i++) {
    if (entries[i].device != NULL && matches(&entries[i], name)) {
      *out = entries[i].device;
      return LODE_OK;
    }
    if (absent(&entries[i], name))
      return lode_fail(error, LODE_UNAVAILABLE, "%s: there is no device '%.32s': %s", who, name,
                       entries[i].reason);
    if (entries[i].device == NULL || used >= sizeof names.text) continue;
    int written =
        snprintf(names.text + used, sizeof names.text - used, "%s%s", used > 0 ? ", " : "", entries[i].name);
    if (written > 0) used += (size_t)written;
  }
  return lode_fail(error, LODE_INVALID, "%s: unknown device '%.32s' (there are: %s)", who, name, names.text);
}

void lode_devices_set_jit(lode_jit_mode mode) {
  lode_mutex_lock(&lock);
  jit = mode;
  for (int i = 0; i < count; i++)
    if (entries[i].device != NULL) atomic_store(&entries[i].device->jit, mode);
  lode_mutex_unlock(&lock);
}

lode_jit_mode lode_devices_jit(void) {
  lode_mutex_lock(&lock);
  lode_jit_mode mode = jit;
  lode_mutex_unlock(&lock);
  return mode;
}
