/* Tuning files: a byte that chooses the device, then the file, as $CLPRUNE_TUNING names it. */
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>

#include "clprune/clprune.h"
#include "fuzz/fuzz.h"

void fuzz_target(fuzz_input in)
{
    const uint8_t flags = fuzz_byte(&in);
    const clprune_device_info device = {.device = "fuzz",
        .vendor = "AMD",
        .type = (flags & 1) ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_CPU,
        .vector_width = (flags & 2) ? 16 : 8,
        .compute_units = 2,
        .max_work_group = (flags & 4) ? 64 : 4096};
    clprune_context *context = NULL;
    const char *path = fuzz_write("tuning", in.data, in.size);
    FUZZ_CHECK(setenv("CLPRUNE_TUNING", path, 1) == 0);
    const clprune_status status = clprune_context_create_dry(&device, NULL, &context);
    FUZZ_CHECK((status == CLPRUNE_SUCCESS) == (context != NULL));
    if (status != CLPRUNE_SUCCESS) {
        FUZZ_CHECK(status == CLPRUNE_INVALID_ARGUMENT);
        fuzz_check_text(clprune_last_error(NULL), path);
        return;
    }
    clprune_tuning_parameter parameters[128];
    size_t count;
    FUZZ_CHECK(clprune_context_tuning(context, 128, parameters, &count) == CLPRUNE_SUCCESS);
    FUZZ_CHECK(count <= 128);
    for (size_t i = 0; i < count; ++i)
        if (parameters[i].is_set && strcmp(clprune_context_tuning_source(context), path) == 0)
            FUZZ_CHECK(parameters[i].value >= parameters[i].least &&
                       parameters[i].value <= parameters[i].most &&
                       parameters[i].value % parameters[i].multiple == 0);
    clprune_context_destroy(context);
}
