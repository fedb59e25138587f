/* Prints the layout of the structures that library.py and net/structures.py in
 * examples/pytorch/clprune declare once more: a line "structure size" each, and
 * "structure.member offset size" for its members. test_pytorch.py compares. */
#include <stddef.h>
#include <stdio.h>

#include "clprune/clprune.h"

typedef struct member {
    const char *name;
    size_t offset, size;
} member;

static void print(const char *structure, size_t size, const member *members, size_t count)
{
    printf("%s %zu\n", structure, size);
    for (size_t i = 0; i < count; i++)
        printf("%s.%s %zu %zu\n", structure, members[i].name, members[i].offset, members[i].size);
}

#define STRUCTURE(type, ...)                                                                       \
    do {                                                                                           \
        typedef type structure;                                                                    \
        const member members[] = {__VA_ARGS__};                                                    \
        print(#type, sizeof(type), members, sizeof members / sizeof *members);                     \
    } while (0)
#define M(name) ((member){#name, offsetof(structure, name), sizeof(((structure *)0)->name)})

int main(void)
{
    STRUCTURE(clprune_keep, M(form), M(sparsity), M(block), M(norm), M(criterion), M(value_type),
        M(index_type), M(bits), M(group), M(rounding), M(cell), M(grid_height), M(grid_width),
        M(centre), M(rotate), M(reserved));
    STRUCTURE(clprune_saved_sizes, M(bytes), M(values_bytes), M(index_bytes), M(dense_bytes));
    STRUCTURE(clprune_mat, M(buffer), M(offset), M(rows), M(cols), M(ld), M(type));
    STRUCTURE(clprune_net_value, M(net), M(id));
    STRUCTURE(clprune_extent, M(height), M(width));
    STRUCTURE(clprune_net_conv, M(out), M(kernel), M(stride), M(padding), M(dilation), M(groups),
        M(bias), M(output_padding), M(reserved));
    STRUCTURE(clprune_max_pool_desc, M(kernel), M(stride), M(padding), M(ceil), M(reserved));
    STRUCTURE(clprune_net_angles, M(pairs), M(frequencies), M(angles), M(factor), M(adjacent),
        M(reserved));
    STRUCTURE(clprune_net_attn, M(heads), M(kv_heads), M(queries), M(causal), M(rate), M(window),
        M(bias), M(cap), M(reserved));
    STRUCTURE(clprune_net_bias, M(table), M(entries), M(index), M(masks), M(mask), M(reserved));
    STRUCTURE(clprune_net_products, M(parts), M(heads), M(transpose_a), M(transpose_b), M(a_below),
        M(b_below), M(y_below), M(factor), M(reserved));
    STRUCTURE(clprune_recurrent_desc, M(cell), M(steps), M(reverse), M(reserved));
    STRUCTURE(clprune_permute_desc, M(rank), M(extents), M(order));
    STRUCTURE(clprune_net_desc, M(batch), M(adds), M(drops_grads), M(shares_statistics), M(infers),
        M(weights_of), M(rows_at_once), M(reserved));
    STRUCTURE(clprune_net_rule, M(pattern), M(again), M(keep));
    STRUCTURE(clprune_net_keep, M(preset), M(keep), M(gelu_bits), M(products), M(extra_work),
        M(store), M(rules), M(rules_count), M(reserved));
    STRUCTURE(clprune_net_weight, M(name), M(rank), M(shape), M(inputs), M(image), M(output),
        M(value), M(reserved));
    STRUCTURE(clprune_net_state, M(name), M(mat), M(reserved));
    STRUCTURE(clprune_ints, M(buffer), M(offset));
    STRUCTURE(clprune_image_bytes, M(buffer), M(offset), M(levels));
    STRUCTURE(clprune_net_input, M(images), M(rows), M(rows_grad), M(tokens), M(reserved));
    STRUCTURE(clprune_net_data, M(batch), M(images), M(rows), M(labels), M(smoothing), M(targets),
        M(add), M(scale), M(tokens), M(lengths), M(output_grad), M(event), M(first),
        M(other_labels), M(shares), M(starts), M(more), M(more_count), M(rows_grad), M(weights),
        M(class_weights), M(positive_weights), M(reserved));
    STRUCTURE(clprune_param, M(name), M(value), M(grad), M(decay), M(reserved));
    STRUCTURE(clprune_optimizer_desc, M(kind), M(momentum), M(beta1), M(beta2), M(eps),
        M(weight_decay), M(state_bits), M(nesterov), M(reserved));
    STRUCTURE(clprune_optimizer_info, M(name), M(slots), M(desc), M(lr), M(weight_decay),
        M(in_parts), M(reserved));
    STRUCTURE(clprune_context_options, M(device), M(cache_dir), M(mem_limit), M(kernels),
        M(allocator), M(log), M(log_user), M(precision), M(thread_safe), M(reserved));
    STRUCTURE(clprune_device_info, M(platform_index), M(device_index), M(platform), M(device),
        M(vendor), M(driver), M(version), M(type), M(global_memory), M(local_memory),
        M(max_allocation), M(compute_units), M(vector_width), M(max_work_group), M(reserved));
    STRUCTURE(clprune_memory_usage, M(live), M(peak), M(count));
    STRUCTURE(clprune_plan_totals, M(commands), M(arena_bytes), M(live_bytes), M(buffer_bytes),
        M(scratch_bytes), M(other_bytes));
    return 0;
}
