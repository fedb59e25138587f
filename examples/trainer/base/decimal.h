/*
 * decimal.h: plain decimals in lists: digits and a point, no sign, exponent, space, inf or nan.
 */
#ifndef TRAINER_DECIMAL_H
#define TRAINER_DECIMAL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Reads the decimal at *p, which then is behind it. */
static inline bool decimal_take(const char **p, double *value)
{
    char *end;
    const char *from = *p;
    *value = strtod(from, &end);
    *p = end;
    return end > from && strspn(from, "0123456789.") == (size_t)(end - from);
}

#endif
