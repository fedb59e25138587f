#include "runtime/launch/defines.h"

#include <stdio.h>

void clprune__define(clprune__defines *defines, const char *name, size_t value)
{
    const size_t left = sizeof defines->text - defines->length;
    const char *space = defines->length > 0 ? " " : "";
    char *end = defines->text + defines->length;
    if (defines->overflow)
        return;
    const int written = snprintf(end, left, "%s-D%s=%zu", space, name, value);
    if (written < 0 || (size_t)written >= left) {
        *end = '\0'; /* no half of a define */
        defines->overflow = true;
        return;
    }
    defines->length += (size_t)written;
}
