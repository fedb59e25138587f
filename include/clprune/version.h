/* The version of the headers, and that of the library a program runs with. */
#ifndef CLPRUNE_VERSION_H
#define CLPRUNE_VERSION_H

#include <stdint.h>

#include "clprune/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of these headers. */
#define CLPRUNE_VERSION_MAJOR 0
#define CLPRUNE_VERSION_MINOR 1
#define CLPRUNE_VERSION_PATCH 0
#define CLPRUNE_VERSION       "0.1.0"
#define CLPRUNE_VERSION_NUMBER                                                                     \
    (CLPRUNE_VERSION_MAJOR * 10000 + CLPRUNE_VERSION_MINOR * 100 + CLPRUNE_VERSION_PATCH)

/* Of the library that is loaded: major * 10000 + minor * 100 + patch. Compare it with
 * CLPRUNE_VERSION_NUMBER. Before 1.0 a library serves programs built with headers of the same major
 * and minor number. */
CLPRUNE_API uint32_t clprune_version(void);

/* The same as text, "major.minor.patch"; static storage. */
CLPRUNE_API const char *clprune_version_string(void);

#ifdef __cplusplus
}
#endif
#endif
