/* LODE_TRACE=1: lines on stderr, "lode: ...", that tell what is done and why: passes and
 * what they are made of, why a pass was cut, what is compiled, loaded and launched. */
#ifndef LODE_TRACE_H
#define LODE_TRACE_H

#include <stdbool.h>

bool lode_tracing(void);

/* A line, written at once, so that threads do not mix theirs; nothing where there is no tracing. */
void lode_trace(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

#endif
