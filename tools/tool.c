#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

clprune_precision parse_precision(const char *program, const char *text)
{
    for (clprune_precision p = CLPRUNE_PRECISION_FP32; clprune_precision_name(p) != NULL; p++)
        if (strcmp(text, clprune_precision_name(p)) == 0)
            return p;
    fprintf(stderr, "%s: --precision: \"%s\" is not fp32, tf32 or bf16\n", program, text);
    exit(2);
}
