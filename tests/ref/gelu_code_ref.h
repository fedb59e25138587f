/* Reference of the GELU-derivative codes: the slope in double, codes in bytes, the error of
 * levels. */
#ifndef CLPRUNE_GELU_CODE_REF_H
#define CLPRUNE_GELU_CODE_REF_H

#include <stddef.h>

/* Phi(h) + h * phi(h); 0 and 1 at the infinities. */
double gelu_code_ref_slope(double h);

/* Read code c of a row of codes of `bits` bits; write it, if its bits are 0. */
unsigned gelu_code_ref_get(const unsigned char *row, unsigned bits, size_t c);
void gelu_code_ref_set(unsigned char *row, unsigned bits, size_t c, unsigned code);

/* The distance from s to the nearest of `count` levels. */
double gelu_code_ref_distance(double s, size_t count, const double *levels);

/* The mean of s(h) in each level's cell (the values nearest to it), for h ~ N(0, sigma^2) with log
 * sigma uniform between the two logs; *square receives the mean square of s - level. */
void gelu_code_ref_means(double sigma_low, double sigma_high, size_t count, const double *levels,
    double *means, double *square);

#endif
