/* Reference of 8-bit moments: levels by their definition, and the two beside a value by trying all. */
#ifndef CLPRUNE_MOMENT_CODE_REF_H
#define CLPRUNE_MOMENT_CODE_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOMENT_BLOCK = 256, MOMENT_CODES = 256 };

/* The level of each code. With a sign it is the highest bit. */
void moment_levels(bool has_sign, double levels[MOMENT_CODES]);

/* Half of the gap between the levels around x. */
double moment_half_gap(const double levels[MOMENT_CODES], double x);

#endif
