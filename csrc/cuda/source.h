/* The text of a program. source.c writes what all templates share and the passes by
 * elements, columns and lanes; source_rows.c, source_spread.c and source_wide.c the others. */
#ifndef LODE_CUDA_SOURCE_H
#define LODE_CUDA_SOURCE_H

#include "layout.h"

/* The text of a layout's kernel, "lode_program": from malloc, NULL without memory. `layout` is a lode_layout;
 * nothing of it is read but what its key holds, and the places of parameters. */
char *lode_source(const void *layout);

/* A text that grows. */
typedef struct lode_writer {
  char *text;
  size_t length, room;
  bool failed; /* no memory */
} lode_writer;

void lode_write(lode_writer *w, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

extern const char *const lode_source_types[LODE_NDTYPES]; /* "float", ... */

/* The function of an OP, or the cast of a CAST: its name, to be followed by operands in parentheses. The job
 * (templates.h) of a REDUCE. */
const char *lode_source_function(const lode_layout *layout, int v, lode_text *text);
/* "+ offset" of an access, as an index of type I: of its row at `base`, column `column` (an expression). */
void lode_write_index(lode_writer *w, const lode_layout *layout, int a, const char *base, const char *column);
/* A value's element read from memory, a number, or a constant: an expression of its type. */
void lode_write_leaf(lode_writer *w, const lode_layout *layout, int v, const char *base, const char *column);
/* The pointer of an access, typed; and with the index of an output's element added. */
void lode_write_pointer(lode_writer *w, const lode_layout *layout, int a);
void lode_write_store(lode_writer *w, const lode_layout *layout, int o, const char *base, const char *column);

/* source_rows.c, source_spread.c, source_wide.c: kernels. */
void lode_source_rows(lode_writer *w, const lode_layout *layout);
void lode_source_spread(lode_writer *w, const lode_layout *layout);
void lode_source_wide(lode_writer *w, const lode_layout *layout);

#endif
