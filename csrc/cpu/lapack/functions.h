/* Fill the functions of ../lapack.h for one dtype. */
#ifndef LODE_CPU_LAPACK_FUNCTIONS_H
#define LODE_CPU_LAPACK_FUNCTIONS_H

#include "../lapack.h"

void lode_lapack_fill_f32(lode_lapack_functions *functions);
void lode_lapack_fill_f64(lode_lapack_functions *functions);

#endif
