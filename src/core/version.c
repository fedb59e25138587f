#include "clprune/version.h"

uint32_t clprune_version(void)
{
    return CLPRUNE_VERSION_NUMBER;
}

const char *clprune_version_string(void)
{
    return CLPRUNE_VERSION;
}
