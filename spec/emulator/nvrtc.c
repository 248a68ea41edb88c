/* NVRTC for the emulator: a program is compiled by NVRTC itself, for the oldest and the
 * newest architecture that it knows, which must succeed; and by the C++ compiler with
 * shim.h, whose shared object is what the emulated driver runs.
 *
 * LODE_EMULATED_ARCHS=0 leaves NVRTC itself out, for quick runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvrtc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct _nvrtcProgram {
  char *source, *log;
  char *object; /* a shared object, of `bytes` bytes */
  size_t bytes;
};

/* ---- NVRTC itself ----------------------------------------------------------------- */

static struct {
  void *handle;
  int oldest, newest;
#define X(name) __typeof__(name) *name;
#define FUNCTIONS(X)                                                                                           \
  X(nvrtcCreateProgram)                                                                                        \
  X(nvrtcCompileProgram)                                                                                       \
  X(nvrtcDestroyProgram)                                                                                       \
  X(nvrtcGetProgramLogSize)                                                                                    \
  X(nvrtcGetProgramLog)                                                                                        \
  X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs) X(nvrtcVersion) X(nvrtcGetErrorString)
  FUNCTIONS(X)
#undef X
} real;

static void open_real(void) {
  real.handle = dlopen(REAL_NVRTC, RTLD_NOW | RTLD_LOCAL);
  if (real.handle == NULL) {
    fprintf(stderr, "emulator: %s\n", dlerror());
    return;
  }
#define X(name) *(void **)&real.name = dlsym(real.handle, #name);
  FUNCTIONS(X)
#undef X
  int count = 0, list[64];
  real.nvrtcGetNumSupportedArchs(&count);
  if (count < 1 || count > 64) return;
  real.nvrtcGetSupportedArchs(list);
  real.oldest = real.newest = list[0];
  for (int i = 1; i < count; i++) {
    if (list[i] < real.oldest) real.oldest = list[i];
    if (list[i] > real.newest) real.newest = list[i];
  }
}

static bool have_real(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_real);
  return real.handle != NULL && real.newest > 0;
}

static void append_log(nvrtcProgram program, const char *text) {
  size_t before = program->log != NULL ? strlen(program->log) : 0;
  char *grown = realloc(program->log, before + strlen(text) + 1);
  if (grown == NULL) return;
  strcpy(grown + before, text);
  program->log = grown;
}

/* The options are lode's, but for the architecture. */
static bool compile_for(nvrtcProgram program, int architecture, int count, const char *const *options) {
  nvrtcProgram inner;
  char name[40];
  const char *list[64];
  size_t bytes = 0;
  int major = 0, minor = 0;
  if (count >= 63 || real.nvrtcVersion(&major, &minor) != NVRTC_SUCCESS ||
      real.nvrtcCreateProgram(&inner, program->source, "lode_program.cu", 0, NULL, NULL) != NVRTC_SUCCESS)
    return false;
  snprintf(name, sizeof name, "--gpu-architecture=sm_%d", architecture);
  for (int i = 0; i < count; i++)
    list[i] = strncmp(options[i], "--gpu-architecture", 18) == 0 ? name : options[i];
  if (major >= 13) list[count++] = "--Ofast-compile=max"; /* what matters here is that it compiles */
  nvrtcResult result = real.nvrtcCompileProgram(inner, count, list);
  if (result != NVRTC_SUCCESS) {
    append_log(program, name);
    append_log(program, ": ");
    append_log(program, real.nvrtcGetErrorString(result));
    append_log(program, "\n");
    char *log = real.nvrtcGetProgramLogSize(inner, &bytes) == NVRTC_SUCCESS ? malloc(bytes + 1) : NULL;
    if (log != NULL && real.nvrtcGetProgramLog(inner, log) == NVRTC_SUCCESS) append_log(program, log);
    free(log);
  }
  real.nvrtcDestroyProgram(&inner);
  return result == NVRTC_SUCCESS;
}

/* ---- the C++ compiler ---------------------------------------------------------------- */

/* In an environment of its own: what is preloaded into this process is not for it. */
static bool run(char *command) {
  char path[2048];
  snprintf(path, sizeof path, "PATH=%s", getenv("PATH") != NULL ? getenv("PATH") : "/usr/bin:/bin");
  char *arguments[] = {"sh", "-c", command, NULL}, *environment[] = {path, NULL};
  pid_t child;
  int status;
  if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environment) != 0) return false;
  while (waitpid(child, &status, 0) < 0)
    ;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  if (size > 0) data = malloc((size_t)size + 1);
  if (data != NULL) {
    *bytes = fread(data, 1, (size_t)size, file);
    data[*bytes] = '\0';
  }
  fclose(file);
  return data;
}

static bool write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return false;
  fputs(text, file);
  return fclose(file) == 0;
}

static bool compile_by_shim(nvrtcProgram program) {
  char folder[] = "/tmp/lode-emulator-XXXXXX", source[64], object[64], log[64], command[4096];
  if (mkdtemp(folder) == NULL) return false;
  snprintf(source, sizeof source, "%s/source", folder);
  snprintf(object, sizeof object, "%s/object", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(command, sizeof command, "%s -w -shared -o %s %s > %s 2>&1", SHIM_CXX, object, source, log);
  bool compiled = write_file(source, program->source) && run(command);
  if (compiled) program->object = read_file(object, &program->bytes);
  else {
    size_t bytes;
    char *text = read_file(log, &bytes);
    append_log(program, text != NULL ? text : "the C++ compiler could not be run\n");
    free(text);
  }
  unlink(source);
  unlink(object);
  unlink(log);
  rmdir(folder);
  return program->object != NULL;
}

/* ---- NVRTC's interface ------------------------------------------------------------------ */

EXPORT nvrtcResult nvrtcVersion(int *major, int *minor) {
  return have_real() ? real.nvrtcVersion(major, minor) : NVRTC_ERROR_INTERNAL_ERROR;
}

EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
  return have_real() ? real.nvrtcGetNumSupportedArchs(count) : NVRTC_ERROR_INTERNAL_ERROR;
}

EXPORT nvrtcResult nvrtcGetSupportedArchs(int *list) {
  return have_real() ? real.nvrtcGetSupportedArchs(list) : NVRTC_ERROR_INTERNAL_ERROR;
}

EXPORT const char *nvrtcGetErrorString(nvrtcResult result) {
  return have_real() ? real.nvrtcGetErrorString(result) : "NVRTC itself is missing";
}

EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int nheaders,
                                      const char *const *headers, const char *const *include_names) {
  (void)name, (void)headers, (void)include_names;
  nvrtcProgram program = calloc(1, sizeof *program);
  if (program == NULL || nheaders != 0) return NVRTC_ERROR_INVALID_INPUT;
  program->source = strdup(source);
  *out = program;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
  const char *archs = getenv("LODE_EMULATED_ARCHS");
  if (archs == NULL || strcmp(archs, "0") != 0) {
    if (!have_real() || !compile_for(program, real.oldest, count, options) ||
        !compile_for(program, real.newest, count, options))
      return NVRTC_ERROR_COMPILATION;
  }
  return compile_by_shim(program) ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
  *bytes = program->log != NULL ? strlen(program->log) + 1 : 1;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  strcpy(log, program->log != NULL ? program->log : "");
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  *bytes = program->bytes;
  return program->object != NULL ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *binary) {
  memcpy(binary, program->object, program->bytes);
  return NVRTC_SUCCESS;
}

/* Never asked for: the emulated device is one that NVRTC knows. */
EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
  (void)program;
  *bytes = 0;
  return NVRTC_ERROR_INVALID_PROGRAM;
}

EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *text) {
  (void)program, (void)text;
  return NVRTC_ERROR_INVALID_PROGRAM;
}

EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  free((*program)->source);
  free((*program)->log);
  free((*program)->object);
  free(*program);
  *program = NULL;
  return NVRTC_SUCCESS;
}
