/* The kernels of kernels/matrix.cu. */
#ifndef LODE_CUDA_MATRIX_KERNELS_H
#define LODE_CUDA_MATRIX_KERNELS_H

#define LODE_MATRIX_KERNEL_MAP(X)                                                                              \
  X(matrix, matrix_transpose_4)                                                                                \
  X(matrix, matrix_transpose_8)                                                                                \
  X(matrix, matrix_transpose_thin_4)                                                                           \
  X(matrix, matrix_transpose_thin_8)                                                                           \
  X(matrix, matrix_pointers)                                                                                   \
  X(matrix, matrix_product_4)                                                                                  \
  X(matrix, matrix_product_8)                                                                                  \
  X(matrix, matrix_product_f32)                                                                                \
  X(matrix, matrix_product_f64)                                                                                \
  X(matrix, matrix_product_thin_4)                                                                             \
  X(matrix, matrix_product_thin_8)                                                                             \
  X(matrix, matrix_product_thin_f32)                                                                           \
  X(matrix, matrix_product_thin_f64)                                                                           \
  X(matrix, matrix_structure_f32)                                                                              \
  X(matrix, matrix_structure_f64)                                                                              \
  X(matrix, matrix_structure_thin_f32)                                                                         \
  X(matrix, matrix_structure_thin_f64)                                                                         \
  X(matrix, matrix_diagonal_f32)                                                                               \
  X(matrix, matrix_diagonal_f64)                                                                               \
  X(matrix, matrix_fault)                                                                                      \
  X(matrix, matrix_spoil_4)                                                                                    \
  X(matrix, matrix_spoil_8)

#endif
