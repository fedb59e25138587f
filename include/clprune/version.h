/* The version of the headers, and the version of the loaded library. */
#ifndef CLPRUNE_VERSION_H
#define CLPRUNE_VERSION_H

#include <stdint.h>

#include "clprune/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers. */
#define CLPRUNE_VERSION_MAJOR 0
#define CLPRUNE_VERSION_MINOR 1
#define CLPRUNE_VERSION_PATCH 0
#define CLPRUNE_VERSION       "0.1.0"

/* The same as one number: major * 10000 + minor * 100 + patch. */
#define CLPRUNE_VERSION_NUMBER                                                                     \
    (CLPRUNE_VERSION_MAJOR * 10000 + CLPRUNE_VERSION_MINOR * 100 + CLPRUNE_VERSION_PATCH)

/* The version of the loaded library: major * 10000 + minor * 100 + patch. Compare it with
 * CLPRUNE_VERSION_NUMBER. Before 1.0 a library is compatible with programs built with headers of
 * the same major and minor number. */
CLPRUNE_API uint32_t clprune_version(void);

/* The version of the loaded library as text, "major.minor.patch"; static storage. */
CLPRUNE_API const char *clprune_version_string(void);

#ifdef __cplusplus
}
#endif
#endif
