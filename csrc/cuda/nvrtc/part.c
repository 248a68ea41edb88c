/* The NVRTC part: compiles the source of a program.
 *
 * --modify-stack-limit=false because NVRTC 13 otherwise changes the stack limit of the
 * whole process. LODE_NVRTC_OPTIONS adds options, separated by spaces ("-lineinfo", say). */
#include "../nvrtc.h"

#include <limits.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 32, MAX_TEXT = 512, MAX_KNOWN = 64 };

typedef struct options {
  const char *list[MAX_OPTIONS];
  int count;
  bool cubin; /* PTX otherwise, which the driver compiles */
  char architecture[48];
  char more[MAX_TEXT]; /* LODE_NVRTC_OPTIONS, cut at its spaces */
} options;

/* What this NVRTC is: its version, and the compute capabilities that it knows. */
static int version, known[MAX_KNOWN], nknown;

static const char *const always[] = {LODE_NVRTC_ALWAYS};

static void add(options *o, const char *text) {
  if (o->count < MAX_OPTIONS) o->list[o->count++] = text;
}

/* The newest that it knows of those that the device can run. */
static int nearest(int capability) {
  int found = 0;
  for (int i = 0; i < nknown; i++)
    if (known[i] <= capability && known[i] > found) found = known[i];
  return found;
}

/* A cubin runs on devices of its own major version; what is newer takes PTX. */
static void set_options(options *o, int capability) {
  int target = nearest(capability);
  o->count = 0;
  o->cubin = target / 10 == capability / 10;
  snprintf(o->architecture, sizeof o->architecture, "--gpu-architecture=%s_%d", o->cubin ? "sm" : "compute",
           target);
  add(o, o->architecture);
  for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) add(o, always[i]);
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
  options o;
  *binary = *log = NULL;
  set_options(&o, capability);
  if (nvrtcCreateProgram(&program, source, "lode_program.cu", 0, NULL, NULL) != NVRTC_SUCCESS) return false;
  nvrtcResult result = nvrtcCompileProgram(program, o.count, o.list);
  *log = read_log(program);
  if (result == NVRTC_SUCCESS) *binary = read_binary(program, o.cubin, bytes);
  else if (*log == NULL) *log = strdup(nvrtcGetErrorString(result));
  nvrtcDestroyProgram(&program);
  return *binary != NULL;
}

static bool ask(void) {
  int major = 0, minor = 0;
  if (nvrtcVersion(&major, &minor) != NVRTC_SUCCESS || nvrtcGetNumSupportedArchs(&nknown) != NVRTC_SUCCESS ||
      nknown < 1 || nknown > MAX_KNOWN || nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
    return false;
  version = 1000 * major + 10 * minor;
  return true;
}

__attribute__((visibility("default"))) lode_part_entry lode_part;

lode_status lode_part(const lode_services *core, lode_part_table *table, lode_error *error) {
  table->version = LODE_PART_VERSION;
  table->build = LODE_BUILD;
  /* The loader reports it; nothing of another build's table may be touched. */
  if (core->version != LODE_PART_VERSION || strcmp(core->build, LODE_BUILD) != 0) return LODE_OK;
  lode_nvrtc *nvrtc = (lode_nvrtc *)table;
  if (!ask()) {
    core->error_set(error, "NVRTC does not say what it is");
    return LODE_UNAVAILABLE;
  }
  nvrtc->version = version;
  nvrtc->newest = nearest(INT_MAX);
  nvrtc->compile = compile;
  return LODE_OK;
}
