#include "support/fault_control.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "clprune/context.h"

bool fault_find_layer(fault_controls *controls)
{
    const char *path = getenv("OPENCL_LAYERS");
    void *layer = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
    if (layer == NULL)
        return false;
    *(void **)&controls->arm = dlsym(layer, "fault_arm");
    *(void **)&controls->fired = dlsym(layer, "fault_fired");
    *(void **)&controls->calls = dlsym(layer, "fault_calls");
    *(void **)&controls->alive = dlsym(layer, "fault_alive");
    size_t count;
    return controls->arm != NULL && controls->fired != NULL && controls->calls != NULL &&
           controls->alive != NULL && clprune_device_list(0, NULL, &count) == CLPRUNE_SUCCESS &&
           controls->calls() > 0;
}
