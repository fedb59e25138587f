/* Prints the layout of the structures that clprune.py and clprune_net.py in
 * examples/pytorch declare once more: a line
 * "structure size" each, and "structure.member offset size" for its members. test_pytorch.py
 * compares. */
#include <stddef.h>
#include <stdio.h>

#include "clprune/clprune.h"

#define STRUCTURE(type) printf("%s %zu\n", #type, sizeof(type))
#define MEMBER(type, member)                                                                       \
    printf("%s.%s %zu %zu\n", #type, #member, offsetof(type, member), sizeof(((type *)0)->member))

int main(void)
{
    STRUCTURE(clprune_keep);
    MEMBER(clprune_keep, form);
    MEMBER(clprune_keep, sparsity);
    MEMBER(clprune_keep, block);
    MEMBER(clprune_keep, norm);
    MEMBER(clprune_keep, criterion);
    MEMBER(clprune_keep, value_type);
    MEMBER(clprune_keep, index_type);
    MEMBER(clprune_keep, bits);
    MEMBER(clprune_keep, group);
    MEMBER(clprune_keep, rounding);
    MEMBER(clprune_keep, cell);
    MEMBER(clprune_keep, grid_height);
    MEMBER(clprune_keep, grid_width);
    MEMBER(clprune_keep, centre);
    MEMBER(clprune_keep, rotate);
    MEMBER(clprune_keep, reserved);
    STRUCTURE(clprune_saved_sizes);
    MEMBER(clprune_saved_sizes, bytes);
    MEMBER(clprune_saved_sizes, values_bytes);
    MEMBER(clprune_saved_sizes, index_bytes);
    MEMBER(clprune_saved_sizes, dense_bytes);
    STRUCTURE(clprune_mat);
    MEMBER(clprune_mat, buffer);
    MEMBER(clprune_mat, offset);
    MEMBER(clprune_mat, rows);
    MEMBER(clprune_mat, cols);
    MEMBER(clprune_mat, ld);
    MEMBER(clprune_mat, type);
    STRUCTURE(clprune_net_value);
    MEMBER(clprune_net_value, net);
    MEMBER(clprune_net_value, id);
    STRUCTURE(clprune_extent);
    MEMBER(clprune_extent, height);
    MEMBER(clprune_extent, width);
    STRUCTURE(clprune_net_conv);
    MEMBER(clprune_net_conv, out);
    MEMBER(clprune_net_conv, kernel);
    MEMBER(clprune_net_conv, stride);
    MEMBER(clprune_net_conv, padding);
    MEMBER(clprune_net_conv, dilation);
    MEMBER(clprune_net_conv, bias);
    MEMBER(clprune_net_conv, reserved);
    STRUCTURE(clprune_max_pool_desc);
    MEMBER(clprune_max_pool_desc, kernel);
    MEMBER(clprune_max_pool_desc, stride);
    MEMBER(clprune_max_pool_desc, padding);
    MEMBER(clprune_max_pool_desc, reserved);
    STRUCTURE(clprune_net_attn);
    MEMBER(clprune_net_attn, heads);
    MEMBER(clprune_net_attn, kv_heads);
    MEMBER(clprune_net_attn, queries);
    MEMBER(clprune_net_attn, causal);
    MEMBER(clprune_net_attn, rate);
    MEMBER(clprune_net_attn, reserved);
    STRUCTURE(clprune_net_desc);
    MEMBER(clprune_net_desc, batch);
    MEMBER(clprune_net_desc, adds);
    MEMBER(clprune_net_desc, drops_grads);
    MEMBER(clprune_net_desc, shares_statistics);
    MEMBER(clprune_net_desc, weights_of);
    MEMBER(clprune_net_desc, reserved);
    STRUCTURE(clprune_net_rule);
    MEMBER(clprune_net_rule, pattern);
    MEMBER(clprune_net_rule, again);
    MEMBER(clprune_net_rule, keep);
    STRUCTURE(clprune_net_keep);
    MEMBER(clprune_net_keep, preset);
    MEMBER(clprune_net_keep, keep);
    MEMBER(clprune_net_keep, gelu_bits);
    MEMBER(clprune_net_keep, products);
    MEMBER(clprune_net_keep, extra_work);
    MEMBER(clprune_net_keep, store);
    MEMBER(clprune_net_keep, rules);
    MEMBER(clprune_net_keep, rules_count);
    MEMBER(clprune_net_keep, reserved);
    STRUCTURE(clprune_net_weight);
    MEMBER(clprune_net_weight, name);
    MEMBER(clprune_net_weight, rank);
    MEMBER(clprune_net_weight, shape);
    MEMBER(clprune_net_weight, inputs);
    MEMBER(clprune_net_weight, image);
    MEMBER(clprune_net_weight, output);
    MEMBER(clprune_net_weight, value);
    MEMBER(clprune_net_weight, reserved);
    STRUCTURE(clprune_net_state);
    MEMBER(clprune_net_state, name);
    MEMBER(clprune_net_state, mat);
    STRUCTURE(clprune_image_bytes);
    MEMBER(clprune_image_bytes, buffer);
    MEMBER(clprune_image_bytes, offset);
    MEMBER(clprune_image_bytes, levels);
    STRUCTURE(clprune_net_data);
    MEMBER(clprune_net_data, batch);
    MEMBER(clprune_net_data, images);
    MEMBER(clprune_net_data, rows);
    MEMBER(clprune_net_data, labels);
    MEMBER(clprune_net_data, smoothing);
    MEMBER(clprune_net_data, targets);
    MEMBER(clprune_net_data, add);
    MEMBER(clprune_net_data, scale);
    MEMBER(clprune_net_data, tokens);
    MEMBER(clprune_net_data, lengths);
    STRUCTURE(clprune_param);
    MEMBER(clprune_param, name);
    MEMBER(clprune_param, value);
    MEMBER(clprune_param, grad);
    MEMBER(clprune_param, decay);
    MEMBER(clprune_param, reserved);
    STRUCTURE(clprune_optimizer_desc);
    MEMBER(clprune_optimizer_desc, kind);
    MEMBER(clprune_optimizer_desc, momentum);
    MEMBER(clprune_optimizer_desc, beta1);
    MEMBER(clprune_optimizer_desc, beta2);
    MEMBER(clprune_optimizer_desc, eps);
    MEMBER(clprune_optimizer_desc, weight_decay);
    MEMBER(clprune_optimizer_desc, state_bits);
    MEMBER(clprune_optimizer_desc, reserved);
    STRUCTURE(clprune_context_options);
    MEMBER(clprune_context_options, device);
    MEMBER(clprune_context_options, cache_dir);
    MEMBER(clprune_context_options, mem_limit);
    MEMBER(clprune_context_options, kernels);
    MEMBER(clprune_context_options, allocator);
    MEMBER(clprune_context_options, log);
    MEMBER(clprune_context_options, log_user);
    MEMBER(clprune_context_options, precision);
    MEMBER(clprune_context_options, thread_safe);
    MEMBER(clprune_context_options, reserved);
    STRUCTURE(clprune_device_info);
    MEMBER(clprune_device_info, platform_index);
    MEMBER(clprune_device_info, device_index);
    MEMBER(clprune_device_info, platform);
    MEMBER(clprune_device_info, device);
    MEMBER(clprune_device_info, vendor);
    MEMBER(clprune_device_info, driver);
    MEMBER(clprune_device_info, version);
    MEMBER(clprune_device_info, type);
    MEMBER(clprune_device_info, global_memory);
    MEMBER(clprune_device_info, local_memory);
    MEMBER(clprune_device_info, max_allocation);
    MEMBER(clprune_device_info, compute_units);
    MEMBER(clprune_device_info, vector_width);
    MEMBER(clprune_device_info, max_work_group);
    MEMBER(clprune_device_info, reserved);
    STRUCTURE(clprune_memory_usage);
    MEMBER(clprune_memory_usage, live);
    MEMBER(clprune_memory_usage, peak);
    MEMBER(clprune_memory_usage, count);
    return 0;
}
