/* See system.h. Linux. */
#define _GNU_SOURCE
#include "system.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int64_t lode_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *lode_environment(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

/* ---- pages -------------------------------------------------------------- */

enum { HUGE_PAGE = 2 << 20 };

static size_t page_round(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

void *lode_pages_take(size_t bytes) {
  size_t size = page_round(bytes);
  size_t extra = size >= HUGE_PAGE ? HUGE_PAGE : 0;
  if (size < bytes || size + extra < size) return NULL;
  char *pages = mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  if (extra == 0) return pages;
  char *aligned = pages + (HUGE_PAGE - (uintptr_t)pages % HUGE_PAGE) % HUGE_PAGE;
  size_t before = (size_t)(aligned - pages);
  if (before > 0) munmap(pages, before);
  if (extra > before) munmap(aligned + size, extra - before);
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

void lode_pages_give(void *pages, size_t bytes) { munmap(pages, page_round(bytes)); }

/* ---- small files of /proc and /sys -------------------------------------- */

/* The number after `key` in a text file (at its start if key is ""); -1 when there is none. */
static int64_t file_number(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  char line[256];
  long long number = -1;
  size_t length = strlen(key);
  while (number < 0 && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%lld", &number) != 1) number = -1;
  fclose(file);
  return number;
}

/* Calls visit with the folder of each control group (version 2) from the process's own upwards. */
static void each_group(void (*visit)(void *context, const char *folder), void *context) {
  char path[512] = "/sys/fs/cgroup";
  size_t root = strlen(path);
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return;
  char line[sizeof path - 64];
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "0::/", 4) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(path + root, sizeof path - root, "%s", line + 3);
  }
  fclose(file);
  for (;;) {
    visit(context, path);
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) < root) break;
    *slash = '\0';
  }
}

static int64_t group_number(const char *folder, const char *name, const char *key) {
  char path[768];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return file_number(path, key);
}

/* ---- memory ------------------------------------------------------------- */

static void least_memory(void *context, const char *folder) {
  int64_t *least = context;
  int64_t limit = group_number(folder, "memory.max", "");
  int64_t used = group_number(folder, "memory.current", "");
  if (limit < 0 || used < 0) return;
  int64_t cache = group_number(folder, "memory.stat", "inactive_file ");
  int64_t left = limit - used + (cache > 0 ? cache : 0);
  if (left < 0) left = 0;
  if (*least < 0 || left < *least) *least = left;
}

int64_t lode_memory_available(void) {
  int64_t kilobytes = file_number("/proc/meminfo", "MemAvailable:");
  int64_t least = kilobytes < 0 ? -1 : kilobytes * 1024;
  each_group(least_memory, &least);
  return least;
}

int64_t lode_memory_resident(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL) return -1;
  long long pages = -1;
  if (fscanf(file, "%*s %lld", &pages) != 1) pages = -1;
  fclose(file);
  return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

/* ---- processors --------------------------------------------------------- */

static void least_processors(void *context, const char *folder) {
  int *least = context;
  char path[768];
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  long long quota, period;
  if (fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
    long long whole = (quota + period - 1) / period;
    if (whole < *least) *least = whole < 1 ? 1 : (int)whole;
  }
  fclose(file);
}

int lode_processors(void) {
  cpu_set_t set;
  int count = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (count < 1) count = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (count < 1) count = 1;
  each_group(least_processors, &count);
  return count;
}

const char *lode_processor_name(lode_text *text) {
  snprintf(text->text, sizeof text->text, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return text->text;
  char line[512];
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0) continue;
    const char *colon = strchr(line, ':');
    if (colon == NULL) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(text->text, sizeof text->text, "%.200s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  fclose(file);
  return text->text;
}

/* ---- shared libraries --------------------------------------------------- */

lode_status lode_library_open(const char *path, void **library, lode_error *error) {
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*library != NULL) return LODE_OK;
  const char *reason = dlerror();
  return lode_fail(error, LODE_SYSTEM, "%s", reason != NULL ? reason : path);
}

void *lode_library_symbol(void *library, const char *name) { return dlsym(library, name); }

typedef struct each_library {
  void (*visit)(void *context, const char *path);
  void *context;
} each_library;

static int visit_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  each_library *each = data;
  if (info->dlpi_name != NULL) each->visit(each->context, info->dlpi_name);
  return 0;
}

void lode_libraries_each(void (*visit)(void *context, const char *path), void *context) {
  each_library each = {visit, context};
  dl_iterate_phdr(visit_library, &each);
}

lode_status lode_library_folder(const void *address, char *text, size_t size, lode_error *error) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
    return lode_fail(error, LODE_SYSTEM, "the file that lode was loaded from has no name");
  const char *slash = strrchr(info.dli_fname, '/');
  int length = slash == NULL ? 0 : (int)(slash - info.dli_fname + 1);
  int written =
      slash == NULL ? snprintf(text, size, "./") : snprintf(text, size, "%.*s", length, info.dli_fname);
  if (written < 0 || (size_t)written >= size)
    return lode_fail(error, LODE_SYSTEM, "the name of lode's folder is too long");
  return LODE_OK;
}
