/* The defines that a kernel is compiled with, built one by one:
 *
 *     clprune__defines d = {0};
 *     clprune__define(&d, "BR", block.rows);
 *     clprune__define(&d, "BC", block.cols);
 *     TRY(clprune__launch_begin(context, &bsr_pack_kernel, &d, &launch));
 *
 * The capacity is fixed. A define that does not fit sets `overflow`, and clprune__launch_begin then
 * fails with INTERNAL_ERROR. The text is part of the key of the program cache, so the same defines
 * are written in the same order everywhere. */
#ifndef CLPRUNE_RUNTIME_DEFINES_H
#define CLPRUNE_RUNTIME_DEFINES_H

#include <stdbool.h>
#include <stddef.h>

enum { CLPRUNE__DEFINES_TEXT = 320 }; /* bytes, with the zero at the end */

typedef struct clprune__defines {
    char text[CLPRUNE__DEFINES_TEXT]; /* "-DBR=1 -DBC=16" */
    size_t length;                    /* of the text */
    bool overflow;
} clprune__defines;

/* Appends -Dname=value. After an overflow it does nothing. */
void clprune__define(clprune__defines *defines, const char *name, size_t value);

#endif
