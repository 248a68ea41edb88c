/* The NVRTC part: compiles the source of a program.
 *
 * Flags hold the promises on bits: no contraction, no subnormals flushed, divisions
 * and square roots rounded correctly. --modify-stack-limit=false because NVRTC 13
 * otherwise changes the stack limit of the whole process. LODE_NVRTC_OPTIONS adds
 * options, separated by spaces ("-lineinfo", say). */
#include "../nvrtc.h"

#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 32, MAX_TEXT = 512 };

typedef struct options {
  const char *list[MAX_OPTIONS];
  int count;
  char architecture[32];
  char more[MAX_TEXT]; /* LODE_NVRTC_OPTIONS, cut at its spaces */
} options;

static int newest; /* compute capability that this NVRTC knows last */

static void add(options *o, const char *text) {
  if (o->count < MAX_OPTIONS) o->list[o->count++] = text;
}

static void set_options(options *o, int capability, bool cubin, int version) {
  snprintf(o->architecture, sizeof o->architecture, "--gpu-architecture=%s_%d", cubin ? "sm" : "compute",
           cubin ? capability : newest);
  add(o, o->architecture);
  add(o, "--std=c++17");
  add(o, "--fmad=false");
  add(o, "--ftz=false");
  add(o, "--prec-div=true");
  add(o, "--prec-sqrt=true");
  add(o, "-default-device");
  if (version >= 12040) add(o, "--minimal");
  if (version >= 13000) add(o, "--modify-stack-limit=false");
  const char *more = getenv("LODE_NVRTC_OPTIONS");
  if (more == NULL || strlen(more) >= sizeof o->more) return;
  strcpy(o->more, more);
  char *rest = NULL;
  for (char *word = strtok_r(o->more, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
    add(o, word);
}

static char *read_log(nvrtcProgram program) {
  size_t bytes = 0;
  if (nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes <= 1) return NULL;
  char *log = malloc(bytes);
  if (log == NULL || nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS) return log;
  free(log);
  return NULL;
}

static char *read_binary(nvrtcProgram program, bool cubin, size_t *bytes) {
  nvrtcResult sized = cubin ? nvrtcGetCUBINSize(program, bytes) : nvrtcGetPTXSize(program, bytes);
  char *binary = sized == NVRTC_SUCCESS && *bytes > 0 ? malloc(*bytes) : NULL;
  if (binary == NULL) return NULL;
  if ((cubin ? nvrtcGetCUBIN(program, binary) : nvrtcGetPTX(program, binary)) == NVRTC_SUCCESS) return binary;
  free(binary);
  return NULL;
}

static bool compile(const char *source, int capability, char **binary, size_t *bytes, char **log) {
  nvrtcProgram program;
  options o = {.count = 0};
  int major = 0, minor = 0;
  bool cubin = capability <= newest;
  *binary = *log = NULL;
  nvrtcVersion(&major, &minor);
  set_options(&o, capability, cubin, 1000 * major + 10 * minor);
  if (nvrtcCreateProgram(&program, source, "lode_program.cu", 0, NULL, NULL) != NVRTC_SUCCESS) return false;
  nvrtcResult result = nvrtcCompileProgram(program, o.count, o.list);
  *log = read_log(program);
  if (result == NVRTC_SUCCESS) *binary = read_binary(program, cubin, bytes);
  else if (*log == NULL) *log = strdup(nvrtcGetErrorString(result));
  nvrtcDestroyProgram(&program);
  return *binary != NULL;
}

static int find_newest(void) {
  int count = 0, found = 0;
  if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) return 0;
  int *list = malloc((size_t)count * sizeof *list);
  if (list != NULL && nvrtcGetSupportedArchs(list) == NVRTC_SUCCESS)
    for (int i = 0; i < count; i++)
      if (list[i] > found) found = list[i];
  free(list);
  return found;
}

__attribute__((visibility("default"))) lode_part_entry lode_part;

lode_status lode_part(const lode_services *core, lode_part_table *table, lode_error *error) {
  table->version = LODE_PART_VERSION;
  table->build = LODE_BUILD;
  /* The loader reports it; nothing of another build's table may be touched. */
  if (core->version != LODE_PART_VERSION || strcmp(core->build, LODE_BUILD) != 0) return LODE_OK;
  lode_nvrtc *nvrtc = (lode_nvrtc *)table;
  int major = 0, minor = 0;
  newest = find_newest();
  if (nvrtcVersion(&major, &minor) != NVRTC_SUCCESS || newest == 0) {
    core->error_set(error, "NVRTC does not say what it is");
    return LODE_UNAVAILABLE;
  }
  nvrtc->version = 1000 * major + 10 * minor;
  nvrtc->newest = newest;
  nvrtc->compile = compile;
  return LODE_OK;
}
