/* The devices of this process: the only file that names them (device.h). */
#include <stdio.h>
#include <string.h>

#include "core/device.h"
#include "core/mutex.h"
#include "cpu/cpu.h"

enum { MAX_DEVICES = 16 };

static lode_mutex lock = LODE_MUTEX_INIT;
static lode_device_entry entries[MAX_DEVICES];
static int count; /* 0: not asked yet */

static void add(const char *name, lode_device *device, const char *reason) {
  lode_device_entry *entry = &entries[count++];
  entry->name = name;
  entry->device = device;
  snprintf(entry->reason, sizeof entry->reason, "%s", reason);
}

int lode_devices_count(void) {
  lode_mutex_lock(&lock);
  if (count == 0) {
    lode_device *cpu = lode_cpu_open();
    add(cpu->name, cpu, "");
    add("cuda", NULL, "built without CUDA");
  }
  int result = count;
  lode_mutex_unlock(&lock);
  return result;
}

const lode_device_entry *lode_devices_get(int index) {
  return index >= 0 && index < lode_devices_count() ? &entries[index] : NULL;
}

/* Whether `entry` is called `name`, or is of the kind `name` ("cuda" for "cuda:0"). */
static bool matches(const lode_device_entry *entry, const char *name) {
  size_t length = strlen(name);
  return strncmp(entry->name, name, length) == 0 && (entry->name[length] == '\0' || entry->name[length] == ':');
}

/* Whether `name` is a device of the kind that `entry` says is absent ("cuda:1" for "cuda"). */
static bool absent(const lode_device_entry *entry, const char *name) {
  size_t length = strlen(entry->name);
  return entry->device == NULL && strncmp(entry->name, name, length) == 0 &&
         (name[length] == '\0' || name[length] == ':');
}

lode_status lode_devices_find(lode_error *error, const char *who, const char *name, lode_device **out) {
  int all = lode_devices_count();
  lode_text names = {""};
  size_t used = 0;
  for (int i = 0; i < all; i++) {
    if (entries[i].device != NULL && *name != '\0' && matches(&entries[i], name)) {
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
