/* See cache.h. Linux. A file is a header, the key, the data; its name is made of two
 * hashes of the key, in one of 256 folders. */
#define _GNU_SOURCE
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

typedef struct header {
  char magic[8];
  uint64_t key_bytes, data_bytes, checksum; /* of the data */
} header;

enum { LIMIT_MB = 256, MOST_MB = 1 << 20 };

static const char magic[8] = "lode 01\n";

/* FNV-1a, from a start of the caller's. */
static uint64_t hash(const void *data, size_t bytes, uint64_t h) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * UINT64_C(0x100000001B3);
  return h;
}

/* ---- names ------------------------------------------------------------------ */

typedef struct place {
  char folder[3][1024]; /* the cache, lode's, one of lode's: in the order to make them */
  char file[1100];
} place;

/* Only a folder of our own, that nobody else may write to, holds code that we run. */
static bool is_ours(const struct stat *about) {
  return about->st_uid == geteuid() && (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool find_place(place *p, const void *key, size_t key_bytes) {
  const char *off = lode_environment("LODE_CACHE"), *root = lode_environment("XDG_CACHE_HOME");
  const char *rest = "";
  if (off != NULL && (strcmp(off, "off") == 0 || strcmp(off, "0") == 0)) return false;
  if (root == NULL || root[0] != '/') {
    root = lode_environment("HOME");
    rest = "/.cache";
  }
  if (root == NULL || root[0] != '/' || strlen(root) > 900) return false;
  uint64_t first = hash(key, key_bytes, UINT64_C(0xCBF29CE484222325)), second = hash(key, key_bytes, first);
  snprintf(p->folder[0], sizeof p->folder[0], "%s%s", root, rest);
  snprintf(p->folder[1], sizeof p->folder[1], "%.920s/lode", p->folder[0]);
  snprintf(p->folder[2], sizeof p->folder[2], "%.930s/%02x", p->folder[1], (unsigned)(first & 0xFF));
  snprintf(p->file, sizeof p->file, "%s/%016" PRIx64 "%016" PRIx64, p->folder[2], first, second);
  return true;
}

static bool make_folders(const place *p) {
  for (int i = 0; i < 3; i++)
    if (mkdir(p->folder[i], 0700) != 0 && errno != EEXIST) return false;
  struct stat about;
  return stat(p->folder[1], &about) == 0 && is_ours(&about);
}

/* ---- files ------------------------------------------------------------------- */

/* The whole file, from malloc. */
static unsigned char *read_file(const char *path, size_t *bytes) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NULL;
  struct stat about;
  unsigned char *data = NULL;
  size_t done = 0;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && is_ours(&about) && about.st_size > 0)
    data = malloc((size_t)about.st_size);
  while (data != NULL && done < (size_t)about.st_size) {
    ssize_t got = read(fd, data + done, (size_t)about.st_size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += (size_t)got;
  }
  close(fd);
  *bytes = done;
  return data;
}

static bool write_all(int fd, const void *data, size_t bytes) {
  const char *p = data;
  while (bytes > 0) {
    ssize_t written = write(fd, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    p += written;
    bytes -= (size_t)written;
  }
  return true;
}

static bool is_valid(const unsigned char *file, size_t size, const void *key, size_t key_bytes) {
  header h;
  if (size < sizeof h) return false;
  memcpy(&h, file, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic) != 0 || h.key_bytes != key_bytes) return false;
  if (size - sizeof h < key_bytes || size - sizeof h - key_bytes != h.data_bytes) return false;
  return memcmp(file + sizeof h, key, key_bytes) == 0 &&
         hash(file + sizeof h + key_bytes, h.data_bytes, 0) == h.checksum;
}

/* ---- the limit --------------------------------------------------------------- */

typedef struct entry {
  char path[1100];
  int64_t used; /* when it was last written or read, in seconds */
  int64_t bytes;
} entry;

typedef struct entries {
  entry *list;
  size_t count, room;
  int64_t bytes;
} entries;

static void add_entry(entries *all, const char *path, const struct stat *about) {
  if (all->count == all->room) {
    size_t room = all->room == 0 ? 256 : 2 * all->room;
    entry *grown = realloc(all->list, room * sizeof *grown);
    if (grown == NULL) return;
    all->list = grown;
    all->room = room;
  }
  entry *e = &all->list[all->count++];
  snprintf(e->path, sizeof e->path, "%s", path);
  e->used = about->st_mtime;
  e->bytes = about->st_size;
  all->bytes += e->bytes;
}

static void add_folder(entries *all, const char *folder) {
  DIR *open = opendir(folder);
  if (open == NULL) return;
  for (struct dirent *file; (file = readdir(open)) != NULL;) {
    char path[1100];
    struct stat about;
    if (snprintf(path, sizeof path, "%s/%s", folder, file->d_name) >= (int)sizeof path) continue;
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode)) add_entry(all, path, &about);
  }
  closedir(open);
}

static int by_use(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return (x->used > y->used) - (x->used < y->used);
}

/* Removes what was unused for longest until a quarter of the limit is free again. Another process may do the
 * same at the same time: a file that is gone is made again by whoever needs it. */
static void enforce_limit(const place *p, int64_t limit) {
  entries all = {.list = NULL};
  for (unsigned i = 0; i < 256; i++) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%.930s/%02x", p->folder[1], i);
    add_folder(&all, folder);
  }
  if (all.bytes > limit) {
    qsort(all.list, all.count, sizeof *all.list, by_use);
    for (size_t i = 0; i < all.count && all.bytes > limit / 4 * 3; i++)
      if (unlink(all.list[i].path) == 0) all.bytes -= all.list[i].bytes;
  }
  free(all.list);
}

/* The first write of a process looks at the folder, and then one after each sixteenth of the limit. */
static void count_written(const place *p, int64_t bytes) {
  static _Atomic int64_t since = INT64_MAX / 2;
  const char *set = lode_environment("LODE_CACHE_MB");
  int64_t limit = set != NULL ? atoll(set) : LIMIT_MB;
  limit = (limit <= 0 ? LIMIT_MB : limit > MOST_MB ? MOST_MB : limit) << 20;
  if (atomic_fetch_add(&since, bytes) + bytes < limit / 16) return;
  atomic_store(&since, 0);
  enforce_limit(p, limit);
}

/* ---- reading and writing -------------------------------------------------------- */

void *lode_cache_read(const void *key, size_t key_bytes, size_t *bytes) {
  place p;
  size_t size, before = sizeof(header) + key_bytes;
  struct stat about;
  if (!find_place(&p, key, key_bytes) || stat(p.folder[1], &about) != 0 || !is_ours(&about)) return NULL;
  unsigned char *file = read_file(p.file, &size);
  if (file == NULL) return NULL;
  if (!is_valid(file, size, key, key_bytes)) {
    free(file);
    return NULL;
  }
  utimensat(AT_FDCWD, p.file, NULL, AT_SYMLINK_NOFOLLOW); /* used just now */
  *bytes = size - before;
  memmove(file, file + before, *bytes);
  return file;
}

void lode_cache_write(const void *key, size_t key_bytes, const void *data, size_t bytes) {
  place p;
  char temporary[1200];
  header h = {.key_bytes = key_bytes, .data_bytes = bytes, .checksum = hash(data, bytes, 0)};
  memcpy(h.magic, magic, sizeof magic);
  if (!find_place(&p, key, key_bytes) || !make_folders(&p)) return;
  snprintf(temporary, sizeof temporary, "%s.XXXXXX", p.file);
  int fd = mkostemp(temporary, O_CLOEXEC);
  if (fd < 0) return;
  bool written = write_all(fd, &h, sizeof h) && write_all(fd, key, key_bytes) && write_all(fd, data, bytes);
  written = close(fd) == 0 && written;
  if (!written || rename(temporary, p.file) != 0) unlink(temporary);
  else count_written(&p, (int64_t)(sizeof h + key_bytes + bytes));
}

bool lode_cache_note(const void *key, size_t key_bytes, const char *suffix, const char *text, char *path,
                     size_t room) {
  place p;
  if (!find_place(&p, key, key_bytes) || !make_folders(&p)) return false;
  if (snprintf(path, room, "%s%s", p.file, suffix) >= (int)room) return false;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  bool written = write_all(fd, text, strlen(text));
  return close(fd) == 0 && written;
}
