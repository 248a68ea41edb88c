/* The LAPACK part: what ../lapack.h promises, by OpenBLAS.
 *
 * Row-major memory of A is A^T column-major. For Cholesky and triangles that is
 * as good as A, and is used as it lies. For LU it is not: factoring A^T = P L U and
 * solving with the transposed flag leaves residuals 1.2 to 1.3 times those of A =
 * P L U, so getrf is given A column-major (linalg.c copies it so; a copy is needed
 * anyway). Many right-hand sides X[n, k] lie as X^T, k rows by n columns: P's
 * exchanges are of rows of X, and the triangular solves are from the right.
 *
 * LAPACK is called by its Fortran names. LAPACKE would add nothing here: it scans
 * for NaN and its row-major forms transpose twice; and where a distribution keeps
 * it in a library of its own, it brings a second BLAS into the process. */
#define _GNU_SOURCE /* dladdr */
#include "../lapack.h"

#include <cblas.h>
#include <dlfcn.h>
#include <string.h>

#include "functions.h"

_Static_assert(sizeof(blasint) == sizeof(int32_t), "pivots are passed to LAPACK as they are");

extern void dgetrf_(void); /* for its address alone */
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int count) __attribute__((weak));

static const lode_services *services;

static int get_threads(void) { return openblas_get_num_threads != NULL ? openblas_get_num_threads() : 1; }

static void set_threads(int count) {
  if (openblas_set_num_threads != NULL) openblas_set_num_threads(count);
}

/* ---- what was loaded ---------------------------------------------------- */

/* Kinds of runtimes of which a process should have one: two start threads that do not know of
 * each other. */
typedef struct runtimes {
  char blas[256], openmp[256];
  int nblas, nopenmp;
} runtimes;

static void note(char *list, int *count, const char *name, const char *prefix) {
  size_t used = strlen(list), left = 255 - used;
  if (strncmp(name, prefix, strlen(prefix)) != 0) return;
  if (strlen(name) + 2 > left) return;
  if (*count > 0) strcat(list, ", ");
  strcat(list, name);
  ++*count;
}

static void look(void *context, const char *path) {
  static const char *const blas[] = {"libopenblas", "libscipy_openblas", "libmkl_rt",
                                     "libblis",     "libblas.",          "libcblas."};
  static const char *const openmp[] = {"libgomp", "libomp.", "libiomp5"};
  runtimes *found = context;
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  for (size_t i = 0; i < sizeof blas / sizeof *blas; i++) note(found->blas, &found->nblas, name, blas[i]);
  for (size_t i = 0; i < sizeof openmp / sizeof *openmp; i++)
    note(found->openmp, &found->nopenmp, name, openmp[i]);
}

static void describe(lode_properties *out) {
  if (openblas_get_config != NULL)
    services->properties_add(out, "lapack", "%s, %s, threads %d", openblas_get_config(),
                             openblas_get_corename != NULL ? openblas_get_corename() : "?", get_threads());
  Dl_info info;
  const char *file = dladdr((void *)(uintptr_t)dgetrf_, &info) != 0 ? info.dli_fname : "unknown";
  services->properties_add(out, "lapack file", "%.200s", file);
  if (openblas_get_config == NULL || strstr(file, "liblapack") != NULL)
    services->properties_add(out, "warning", "LAPACK is the slow reference one: install OpenBLAS");
  runtimes found = {"", "", 0, 0};
  services->libraries_each(look, &found);
  if (found.nblas > 1)
    services->properties_add(out, "warning", "several BLAS in this process: %.180s", found.blas);
  if (found.nopenmp > 1)
    services->properties_add(out, "warning", "several OpenMP runtimes in this process: %.160s", found.openmp);
}

/* ---- the part ----------------------------------------------------------- */

__attribute__((visibility("default"))) lode_part_entry lode_part;

lode_status lode_part(const lode_services *core, lode_part_table *table, lode_error *error) {
  table->version = LODE_PART_VERSION;
  table->build = LODE_BUILD;
  /* Core reports it; nothing of another build's table may be touched. */
  if (core->version != LODE_PART_VERSION || strcmp(core->build, LODE_BUILD) != 0) return LODE_OK;
  (void)error;
  services = core;
  lode_lapack *lapack = (lode_lapack *)table;
  lode_lapack_fill_f32(&lapack->by_dtype[LODE_F32]);
  lode_lapack_fill_f64(&lapack->by_dtype[LODE_F64]);
  lapack->get_threads = get_threads;
  lapack->set_threads = set_threads;
  lapack->describe = describe;
  return LODE_OK;
}
