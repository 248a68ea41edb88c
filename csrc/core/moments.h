/* The sum of squared deviations from the mean, in one pass over the elements: m2.
 *
 * What is known of n elements x is n, their sum d and their m2, both after the first
 * element of the whole sequence has been subtracted: where all lie far from 0, what is
 * left of them is small and mostly exact, and a variance needs no other digits. Two such
 * states are joined by the formula of Chan, Golub and LeVeque (Updating formulae and a
 * pairwise algorithm for computing sample variances, 1979); nothing large is ever
 * subtracted from something large. If the first element is itself far from all others, its
 * own share of m2 is so much larger than what was lost by subtracting it. Elements further
 * from the first than T reaches have infinite deviations, of which NaN comes.
 *
 * The order is reduce.h's, with one step more: a lane takes its elements in blocks of
 * LODE_M2_BLOCK. Of a block the sum is taken first, in order, then the squares of the
 * deviations from the block's mean, in order; and the block is joined to the lane. A side
 * of no elements changes nothing. Numbers of elements have type T too, and are rounded as
 * they are added.
 *
 * The text is C and CUDA: macros over values of one floating type T. */
#ifndef LODE_MOMENTS_H
#define LODE_MOMENTS_H

#define LODE_M2_BLOCK 8

/* x without the mean of n numbers whose sum is d. */
#define LODE_M2_DEVIATION(T, x, d, n) ((x) - (d) * ((T)1 / (n)))
/* How far the means of two sides are apart. */
#define LODE_M2_APART(T, da, na, db, nb) ((db) * ((T)1 / (nb)) - (da) * ((T)1 / (na)))
/* m2 of both sides. */
#define LODE_M2_JOINED(T, ma, na, mb, nb, apart)                                                               \
  (((ma) + (mb)) + (apart) * (apart) * ((na) * (nb) * ((T)1 / ((na) + (nb)))))

#endif
