#include "net/kinds/kinds.h"

const clprune__net_way *const clprune__net_ways[] = {clprune__net_identities,
    clprune__net_stem_ways, clprune__net_input_ways, clprune__net_linear_ways,
    clprune__net_affine_ways, clprune__net_layerscale_ways, clprune__net_activation_ways,
    clprune__net_pool_ways, clprune__net_batch_norm_ways, clprune__net_conv_ways,
    clprune__net_add_ways, clprune__net_element_ways, clprune__net_layer_norm_ways,
    clprune__net_attention_ways, clprune__net_token_ways, clprune__net_lora_ways, NULL};
