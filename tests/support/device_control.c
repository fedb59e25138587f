#include <stdlib.h>

#include "clprune/context.h"
#include "support/device_layer.h"
#include "support/test_folder.h"

void device_layer_set(const char *settings)
{
    test_environment("DEVICE_LAYER", settings);
}

bool device_layer_is_loaded(void)
{
    clprune_device_info info;
    size_t count = 0;
    device_layer_set("group=1");
    const clprune_status status = clprune_device_list(1, &info, &count);
    device_layer_set(NULL);
    return status == CLPRUNE_SUCCESS && count > 0 && info.max_work_group == 1;
}
