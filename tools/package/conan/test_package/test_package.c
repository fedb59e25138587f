/* Links the library that was packaged, and opens a device. A machine without one is no failure. */
#include <clprune/clprune.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(clprune_version_string(), CLPRUNE_VERSION) != 0) {
        fprintf(stderr, "the library is %s, its headers are %s\n", clprune_version_string(),
            CLPRUNE_VERSION);
        return 1;
    }
    clprune_context *context;
    const clprune_status status = clprune_context_create(NULL, NULL, &context);
    printf("clprune %s: %s\n", clprune_version_string(),
        status == CLPRUNE_SUCCESS ? "opened a device" : clprune_last_error(NULL));
    clprune_context_destroy(context);
    return status == CLPRUNE_SUCCESS || status == CLPRUNE_NO_DEVICE ? 0 : 1;
}
