/* Size arithmetic. clprune__add, _mul and _mul3 return false if the exact result does not fit; the
 * stored result is then meaningless. */
#ifndef CLPRUNE_CORE_CHECKED_H
#define CLPRUNE_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool clprune__add(size_t a, size_t b, size_t *sum)
{
    *sum = a + b; /* wraps on overflow: then *sum < a */
    return *sum >= a;
}

static inline bool clprune__mul(size_t a, size_t b, size_t *product)
{
    *product = a * b;
    return b == 0 || *product / b == a;
}

static inline bool clprune__mul3(size_t a, size_t b, size_t c, size_t *product)
{
    size_t ab;
    if (c == 0) {
        *product = 0;
        return true;
    }
    return clprune__mul(a, b, &ab) && clprune__mul(ab, c, product);
}

/* ceil(a / b) without overflow; b > 0. */
static inline size_t clprune__ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* floor(a / b); b > 0. */
static inline ptrdiff_t clprune__floor_div(ptrdiff_t a, ptrdiff_t b)
{
    return a / b - (a % b < 0);
}

/* The smallest multiple of b that is >= a. Overflow is not checked: callers have bounded a. */
static inline size_t clprune__round_up(size_t a, size_t b)
{
    return clprune__ceil_div(a, b) * b;
}

static inline size_t clprune__min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t clprune__max(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
