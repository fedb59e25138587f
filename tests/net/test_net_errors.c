/* Nets that cannot be: each bad layer, rule and call gets its status and a text that names it, and
 * leaves nothing in the ledger. */
#include "net/net_models.h"

enum { BATCH = 4 };

/* Another net of the context, for its values. */
static clprune_net *other;

TEST_UNDO(destroy_net, clprune_net_destroy(what))

static clprune_net *new_net(clprune_context *context)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(context, &(clprune_net_desc){.batch = BATCH}, &net));
    test_later(destroy_net, context, net);
    return net;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static clprune_net_value images(clprune_net *net)
{
    return clprune_net_images(net, 3, 8, 8);
}

static clprune_net_value rows(clprune_net *net)
{
    return clprune_net_rows(net, 4, 16);
}

static clprune_net_value linear(clprune_net *net)
{
    return clprune_net_linear(net, "fc", rows(net), 8);
}

static clprune_net_value conv(clprune_net *net, clprune_net_value x, clprune_net_conv desc)
{
    return clprune_net_conv2d(net, "bad", x, &desc);
}

static clprune_net_value pool(clprune_net *net, clprune_net_value x, clprune_max_pool_desc desc)
{
    return clprune_net_max_pool(net, "bad", x, &desc);
}

static clprune_net_value good_conv(clprune_net *net)
{
    return clprune_net_conv2d(net, "conv", images(net),
        &(clprune_net_conv){.out = 16, .kernel = {3, 3}, .padding = {1, 1}});
}

/* Each case builds its graph in `net`. */
#define LAYER(name, ...)                                                                           \
    static void name(clprune_net *net)                                                             \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

static const clprune_net_value zero = {0, 0};

LAYER(no_layers, (void)net)
LAYER(input_alone, rows(net))
LAYER(loss_of_input, clprune_net_mean_squared_error(net, rows(net)))
LAYER(inputs_alone, rows(net); images(net))
LAYER(unread_input, clprune_net_custom_loss(net, linear(net)); images(net))
LAYER(last_input, linear(net); images(net))
LAYER(inputs_17, for (int i = 0; i < 17; i++) rows(net); linear(net))
LAYER(grad_of_nothing, clprune_net_want_grad(net, zero); linear(net))
LAYER(grad_of_images, clprune_net_want_grad(net, images(net)); linear(net))
LAYER(grad_of_layer, clprune_net_want_grad(net, linear(net)))
LAYER(rows_of_0, clprune_net_rows(net, 0, 16))
LAYER(cols_of_0, clprune_net_rows(net, 4, 0))
LAYER(channels_of_0, clprune_net_images(net, 0, 8, 8))
LAYER(height_of_0, clprune_net_images(net, 3, 0, 8))
LAYER(images_too_large, clprune_net_images(net, 3, SIZE_MAX / 2, 4))
LAYER(pixels_of_0, clprune_net_pixels(net, 3, 8, 0))
LAYER(pixels_too_large, clprune_net_pixels(net, 3, SIZE_MAX / 2, 4))
LAYER(rows_too_large, clprune_net_rows(net, SIZE_MAX / 32, 8))
LAYER(outputs_too_large, clprune_net_linear(net, "bad", rows(net), SIZE_MAX / 32))
LAYER(zero_relu, clprune_net_relu(net, "bad", zero))
LAYER(zero_gelu, clprune_net_gelu(net, "bad", zero))
LAYER(zero_linear, clprune_net_linear(net, "bad", zero, 4))
LAYER(zero_linear_rows, clprune_net_linear_rows(net, "bad", zero, 4))
LAYER(zero_affine, clprune_net_affine(net, "bad", zero))
LAYER(zero_norm, clprune_net_batch_norm(net, "bad", zero))
LAYER(zero_mean, clprune_net_mean(net, "bad", zero))
LAYER(zero_dropout, clprune_net_dropout(net, "bad", zero, 0.5f))
LAYER(zero_scale, clprune_net_scale(net, "bad", zero, 2))
LAYER(zero_flatten, clprune_net_flatten(net, "bad", zero))
LAYER(zero_add, clprune_net_add(net, "bad", linear(net), zero))
LAYER(zero_layerscale, clprune_net_layerscale(net, "bad", zero, linear(net)))
LAYER(zero_conv, conv(net, zero, (clprune_net_conv){.out = 4, .kernel = {1, 1}}))
LAYER(zero_pool, pool(net, zero, (clprune_max_pool_desc){.kernel = {2, 2}}))
LAYER(zero_upsample, clprune_net_upsample(net, "bad", zero, 2))
LAYER(upsample_rows, clprune_net_upsample(net, "bad", rows(net), 2))
LAYER(upsample_0, clprune_net_upsample(net, "bad", clprune_net_pixels(net, 3, 4, 4), 0))
LAYER(upsample_too_large,
    clprune_net_upsample(net, "bad", clprune_net_pixels(net, 3, 4, 4), SIZE_MAX / 2))
LAYER(zero_patches, clprune_net_patch_embed(net, "bad", zero, 2, 4))
LAYER(momentum_low, clprune_net_momentum(net, -0.1f); linear(net))
LAYER(momentum_high, clprune_net_momentum(net, 1.1f); linear(net))
LAYER(momentum_nan, clprune_net_momentum(net, NAN); linear(net))
LAYER(zero_custom, linear(net); clprune_net_custom_loss(net, zero))
LAYER(custom_of_input, clprune_net_custom_loss(net, rows(net)))
LAYER(custom_and_squares, const clprune_net_value x = linear(net); clprune_net_custom_loss(net, x);
      clprune_net_mean_squared_error(net, x))
LAYER(zero_loss, linear(net); clprune_net_cross_entropy(net, zero))
LAYER(beta_below_0, clprune_net_smooth_l1(net, linear(net), -1))
LAYER(zero_labels, linear(net); clprune_net_binary_cross_entropy(net, zero))
LAYER(zero_squares, linear(net); clprune_net_mean_squared_error(net, zero))
LAYER(other_value, linear(net); clprune_net_relu(net, "bad", rows(other)))
LAYER(other_term, clprune_net_add(net, "bad", linear(net), rows(other)))
LAYER(other_loss, linear(net); clprune_net_mean_squared_error(net, linear(other)))
LAYER(later_value, clprune_net_value x = linear(net); x.id = 9; clprune_net_relu(net, "bad", x))
LAYER(no_name, clprune_net_relu(net, NULL, linear(net)))
LAYER(empty_name, clprune_net_relu(net, "", linear(net)))
LAYER(no_name_norm, clprune_net_batch_norm(net, NULL, linear(net)))
LAYER(no_name_dropout, clprune_net_dropout(net, NULL, linear(net), 1))
LAYER(no_name_add, const clprune_net_value x = linear(net);
      clprune_net_add(net, NULL, x, clprune_net_linear(net, "fc2", x, 7)))
LAYER(same_name, clprune_net_relu(net, "fc", linear(net)))
LAYER(same_name_in_part, clprune_net_part(net, "p"); clprune_net_value x = rows(net);
      x = clprune_net_relu(net, "bad", x); clprune_net_relu(net, "bad", x))
LAYER(name_of_input, clprune_net_relu(net, "rows", rows(net)))
LAYER(no_outputs, clprune_net_linear(net, "bad", rows(net), 0))
LAYER(no_row_outputs, clprune_net_linear_rows(net, "bad", rows(net), 0))
LAYER(add_cols, const clprune_net_value x = rows(net);
      clprune_net_add(net, "bad", x, clprune_net_linear(net, "fc", x, 8)))
LAYER(add_rows, const clprune_net_value x = rows(net);
      clprune_net_add(net, "bad", x, clprune_net_linear_rows(net, "fc", x, 8)))
LAYER(scale_cols, const clprune_net_value x = rows(net);
      clprune_net_layerscale(net, "bad", x, clprune_net_linear(net, "fc", x, 8)))
LAYER(rate_of_1, clprune_net_dropout(net, "bad", linear(net), 1))
LAYER(rate_below_0, clprune_net_dropout(net, "bad", linear(net), -0.5f))
LAYER(attention_rate, clprune_net_attention(net, "bad", linear(net),
                          &(clprune_net_attn){.heads = 6, .kv_heads = 1, .rate = 1}))
LAYER(attention_null, clprune_net_attention(net, "bad", linear(net), NULL))
LAYER(attention_heads,
    clprune_net_attention(net, "bad", linear(net), &(clprune_net_attn){.heads = 5, .kv_heads = 2}))
LAYER(attention_many,
    clprune_net_attention(net, "bad", linear(net),
        &(clprune_net_attn){.heads = (SIZE_MAX / 2) + 1, .kv_heads = SIZE_MAX / 4 + 1}))
LAYER(attention_too_many,
    clprune_net_attention(net, "bad", linear(net), &(clprune_net_attn){.heads = SIZE_MAX / 3 + 1}))
LAYER(attention_reserved, clprune_net_attention(net, "bad", linear(net),
                              &(clprune_net_attn){.heads = 6, .kv_heads = 1, .reserved = {0, 1}}))
LAYER(attention_queries, clprune_net_attention(net, "bad", linear(net),
                             &(clprune_net_attn){.heads = 6, .kv_heads = 1, .queries = 99}))
LAYER(positions_none, clprune_net_positions_of(net, "bad", linear(net), 0, 0, 4))
LAYER(positions_parts, clprune_net_positions_of(net, "bad", linear(net), 0, 3, 4))
LAYER(positions_table, clprune_net_positions_of(net, "bad", linear(net), 0, 4, 3))
LAYER(positions_behind, clprune_net_positions_of(net, "bad", linear(net), 2, 4, 5))
LAYER(positions_large, clprune_net_positions_of(net, "bad", linear(net), 0, 1, SIZE_MAX / 4))
LAYER(rate_nan, clprune_net_dropout(net, "bad", linear(net), NAN))
LAYER(conv_null, clprune_net_conv2d(net, "bad", images(net), NULL))
LAYER(conv_no_outputs, conv(net, images(net), (clprune_net_conv){.kernel = {3, 3}}))
LAYER(conv_no_kernel, conv(net, images(net), (clprune_net_conv){.out = 4}))
LAYER(conv_large, conv(net, images(net), (clprune_net_conv){.out = 4, .kernel = {9, 9}}))
LAYER(conv_dilated,
    conv(net, images(net), (clprune_net_conv){.out = 4, .kernel = {3, 3}, .dilation = {4, 4}}))
static clprune_net_value gate(clprune_net *net, bool rows)
{
    const clprune_net_value x = good_conv(net);
    return clprune_net_gate(net, "bad", x,
        rows ? clprune_net_slice(net, "s", x, CLPRUNE_AXIS_ROWS, 0, 2)
             : clprune_net_linear(net, "l", clprune_net_mean(net, "m", x), 4));
}
LAYER(gate_rows, gate(net, true))
LAYER(gate_cols, gate(net, false))
static clprune_net_value concat(
    clprune_net *net, clprune_net_value a, size_t height, clprune_axis axis)
{
    const clprune_net_conv desc = {.out = 4, .kernel = {height, 1}, .stride = {height, 1}};
    return clprune_net_concat(net, "bad", a, clprune_net_conv2d(net, "c", a, &desc), axis);
}
LAYER(concat_rows, concat(net, good_conv(net), 2, CLPRUNE_AXIS_FEATURES))
LAYER(concat_cols, concat(net, good_conv(net), 1, CLPRUNE_AXIS_ROWS))
LAYER(concat_axis, concat(net, good_conv(net), 1, (clprune_axis)3))
/* 2 x 3 and 3 x 2 pixels. */
static clprune_net_value concat_images_of(clprune_net *net)
{
    const clprune_net_value x = clprune_net_pixels(net, 4, 4, 3);
    const clprune_net_conv wide = {.out = 4, .kernel = {2, 1}, .stride = {2, 1}};
    const clprune_net_conv tall = {.out = 4, .kernel = {2, 2}};
    return clprune_net_concat(net, "bad", clprune_net_conv2d(net, "a", x, &wide),
        clprune_net_conv2d(net, "b", x, &tall), CLPRUNE_AXIS_FEATURES);
}
LAYER(concat_images, concat_images_of(net))
static clprune_net_value resample(clprune_net *net, uint32_t second, uint32_t from, float weight)
{
    const clprune_net_axis one = {
        1, (const uint32_t[]){0, second}, (const uint32_t[]){from, 0}, (const float[]){weight, 1}};
    return clprune_net_resample(net, "bad", clprune_net_pixels(net, 4, 4, 3), &one, &one);
}
LAYER(resample_rows, clprune_net_resample(net, "bad", rows(net), NULL, NULL))
LAYER(resample_null, clprune_net_resample(net, "bad", good_conv(net), NULL, NULL))
LAYER(resample_entries, resample(net, INT32_MAX, 0, 1))
LAYER(resample_pixel, resample(net, 1, 3, 1))
LAYER(resample_weight, resample(net, 2, 0, NAN))
static clprune_net_value gather(clprune_net *net, size_t cols, size_t wide, uint32_t second)
{
    const clprune_net_places places = {
        1, cols, {wide > 0, wide}, (const uint32_t[]){CLPRUNE_NET_NOWHERE, second}};
    return clprune_net_gather(net, "bad", clprune_net_rows(net, 4, 3), &places);
}
LAYER(gather_null, clprune_net_gather(net, "bad", rows(net), NULL))
LAYER(gather_none, gather(net, 0, 0, 0))
LAYER(gather_many, gather(net, SIZE_MAX, 0, 0))
LAYER(gather_grid, gather(net, 2, 2, 0))
LAYER(gather_late, gather(net, 2, 1, 12))
LAYER(slice_none, clprune_net_slice(net, "bad", rows(net), CLPRUNE_AXIS_FEATURES, 0, 0))
LAYER(slice_late, clprune_net_slice(net, "bad", rows(net), CLPRUNE_AXIS_FEATURES, SIZE_MAX, 1))
LAYER(slice_axis, clprune_net_slice(net, "bad", rows(net), (clprune_axis)2, 0, 1))
static const clprune_permute_desc pixels_first = {2, {64, 16}, {1, 0}};
static const clprune_permute_desc three_axes = {3, {16, 12, 3}, {0, 2, 1}},
                                  one_twice = {2, {64, 16}, {1, 1}};
static const clprune_extent no_grid = {0, 0}, half_grid = {6, 12};
LAYER(param_twice,
    clprune_net_positions(net, "conv.weight", clprune_net_flatten(net, "flat", good_conv(net))))
LAYER(permute_axes, clprune_net_permute(net, "bad", good_conv(net), &three_axes, 16, no_grid))
LAYER(permute_twice, clprune_net_permute(net, "bad", good_conv(net), &one_twice, 16, no_grid))
LAYER(permute_rows, clprune_net_permute(net, "bad", good_conv(net), &pixels_first, 17, no_grid))
LAYER(permute_image, clprune_net_permute(net, "bad", good_conv(net), &pixels_first, 16, half_grid))
LAYER(permute_none, clprune_net_permute(net, "bad", good_conv(net), NULL, 16, no_grid))
LAYER(conv_groups,
    conv(net, images(net), (clprune_net_conv){.out = 4, .kernel = {3, 3}, .groups = 2}))
LAYER(cell_other, clprune_net_recurrent(net, "bad", linear(net),
                      &(clprune_recurrent_desc){.cell = (clprune_cell)4}, true))
LAYER(cell_reserved, clprune_net_recurrent(net, "bad", linear(net),
                         &(clprune_recurrent_desc){.reserved = {0, 1}}, true))
LAYER(cell_states, clprune_net_recurrent_from(net, "bad",
                       clprune_net_linear(net, "z", clprune_net_rows(net, 4, 3), 12), linear(net),
                       &(clprune_recurrent_desc){.cell = CLPRUNE_CELL_GRU}, true))
LAYER(cell_gates, clprune_net_recurrent(
                      net, "bad", clprune_net_linear(net, "three", linear(net), 3), NULL, false))
LAYER(cell_steps, clprune_net_recurrent(net, "bad", clprune_net_linear(net, "four", linear(net), 4),
                      &(clprune_recurrent_desc){.steps = 3}, false))
LAYER(conv_reserved,
    conv(net, images(net), (clprune_net_conv){.out = 4, .kernel = {3, 3}, .reserved = {0, 1}}))
LAYER(conv_reserved_0,
    conv(net, images(net), (clprune_net_conv){.out = 4, .kernel = {3, 3}, .reserved = {7}}))
LAYER(conv_rows, conv(net, rows(net), (clprune_net_conv){.out = 4, .kernel = {1, 1}}))
LAYER(patch_rows, clprune_net_patch_embed(net, "bad", rows(net), 2, 4))
LAYER(patch_value, clprune_net_patch_embed(net, "bad", good_conv(net), 2, 4))
LAYER(patch_odd, clprune_net_patch_embed(net, "bad", images(net), 3, 4))
LAYER(patch_of_0, clprune_net_patch_embed(net, "bad", images(net), 0, 4))
LAYER(patch_no_outputs, clprune_net_patch_embed(net, "bad", images(net), 2, 0))
LAYER(pool_null, clprune_net_max_pool(net, "bad", good_conv(net), NULL))
LAYER(pool_rows, pool(net, linear(net), (clprune_max_pool_desc){.kernel = {2, 2}}))
LAYER(pool_taps, pool(net, good_conv(net), (clprune_max_pool_desc){.kernel = {5, 5}}))
LAYER(pool_large, pool(net, good_conv(net), (clprune_max_pool_desc){.kernel = {1, 9}}))
LAYER(pool_padding,
    pool(net, good_conv(net), (clprune_max_pool_desc){.kernel = {2, 2}, .padding = {2, 2}}))
LAYER(pool_reserved,
    pool(net, good_conv(net), (clprune_max_pool_desc){.kernel = {2, 2}, .reserved = {1}}))
LAYER(relu_images, clprune_net_relu(net, "bad", images(net)))
LAYER(linear_images, clprune_net_linear(net, "bad", images(net), 4))
LAYER(mean_images, clprune_net_mean(net, "bad", images(net)))
LAYER(zero_embedding, clprune_net_embedding(net, "bad", zero, 5, 4))
LAYER(embedded_rows, clprune_net_embedding(net, "bad", rows(net), 5, 4))
LAYER(embedded_images, clprune_net_embedding(net, "bad", images(net), 5, 4))
LAYER(embedding_of_0, clprune_net_embedding(net, "bad", clprune_net_tokens(net, 4), 0, 4))
LAYER(embedding_no_cols, clprune_net_embedding(net, "bad", clprune_net_tokens(net, 4), 5, 0))
LAYER(embedding_too_large,
    clprune_net_embedding(net, "bad", clprune_net_tokens(net, 4), SIZE_MAX / 8, 4))
LAYER(tokens_of_0, clprune_net_tokens(net, 0))
LAYER(linear_tokens, clprune_net_linear(net, "bad", clprune_net_tokens(net, 4), 4))
LAYER(patch_tokens, clprune_net_patch_embed(net, "bad", clprune_net_tokens(net, 4), 1, 4))
LAYER(zero_positions, clprune_net_positions(net, "bad", zero))
LAYER(positions_tokens, clprune_net_positions(net, "bad", clprune_net_tokens(net, 4)))
LAYER(zero_class, clprune_net_class_token(net, "bad", zero))
LAYER(class_tokens, clprune_net_class_token(net, "bad", clprune_net_tokens(net, 4)))
LAYER(zero_row, clprune_net_row(net, "bad", zero, 0))
LAYER(row_of_input, clprune_net_row(net, "bad", images(net), 0))
LAYER(row_too_large, clprune_net_row(net, "bad", rows(net), 4))
LAYER(zero_rotary, clprune_net_rotary(net, "bad", zero, 1, 1, 0, 1e4f, false))
LAYER(rotary_odd, clprune_net_rotary(net, "bad", rows(net), 3, 2, 0, 1e4f, false))
LAYER(rotary_no_heads, clprune_net_rotary(net, "bad", rows(net), 0, 2, 0, 1e4f, false))
LAYER(rotary_many, clprune_net_rotary(net, "bad", rows(net), 2, SIZE_MAX / 2, 0, 1e4f, false))
LAYER(rotary_part, clprune_net_rotary(net, "bad", rows(net), 2, 1, 3, 1e4f, false))
LAYER(rotary_wide, clprune_net_rotary(net, "bad", rows(net), 2, 1, 6, 1e4f, false))
LAYER(rotary_theta, clprune_net_rotary(net, "bad", rows(net), 2, 1, 0, 1, false))
static const double angle = 1, no_angle = NAN;
static clprune_net_value turn(clprune_net *net, clprune_net_angles angles)
{
    return clprune_net_rotary_by(net, "bad", rows(net), 2, 1, &angles);
}
LAYER(zero_angles, clprune_net_rotary_by(net, "bad", zero, 2, 1,
                       &(clprune_net_angles){.pairs = 1, .frequencies = &angle}))
LAYER(angles_none, clprune_net_rotary_by(net, "bad", rows(net), 2, 1, NULL))
LAYER(angles_no_pairs, turn(net, (clprune_net_angles){.frequencies = &angle}))
LAYER(angles_many, turn(net, (clprune_net_angles){.pairs = SIZE_MAX, .frequencies = &angle}))
LAYER(angles_empty, turn(net, (clprune_net_angles){.pairs = 1}))
LAYER(angles_both, turn(net, (clprune_net_angles){
                                 .pairs = 1, .frequencies = &angle, .angles = (const float[4]){0}}))
LAYER(angles_wide, turn(net, (clprune_net_angles){.pairs = 9, .frequencies = (const double[9]){0}}))
LAYER(angles_nan, turn(net, (clprune_net_angles){.pairs = 1, .frequencies = &no_angle}))
LAYER(angles_inf,
    turn(net, (clprune_net_angles){.pairs = 1, .angles = (const float[4]){0, 0, 0, INFINITY}}))
LAYER(
    angles_factor, turn(net, (clprune_net_angles){.pairs = 1, .frequencies = &angle, .factor = -1}))
LAYER(angles_reserved,
    turn(net, (clprune_net_angles){.pairs = 1, .frequencies = &angle, .reserved = {0, 1}}))
LAYER(zero_glu, clprune_net_glu(net, "bad", zero, CLPRUNE_ACTIVATION_GELU))
LAYER(glu_relu, clprune_net_glu(net, "bad", rows(net), CLPRUNE_ACTIVATION_RELU))
LAYER(glu_relu6, clprune_net_glu(net, "bad", rows(net), CLPRUNE_ACTIVATION_RELU6))
LAYER(glu_none, clprune_net_glu(net, "bad", rows(net), (clprune_activation)99))
LAYER(cap_of_0, clprune_net_token_loss(net, "a", linear(net), 5); clprune_net_cap_logits(net, 0))
LAYER(cap_of_nan, clprune_net_token_loss(net, "a", linear(net), 5);
      clprune_net_cap_logits(net, NAN))
LAYER(cap_alone, clprune_net_cap_logits(net, 1))
LAYER(cap_of_logits, clprune_net_cross_entropy(net, linear(net)); clprune_net_cap_logits(net, 1))
LAYER(bias_alone, clprune_net_bias_logits(net))
LAYER(bias_twice, clprune_net_token_loss(net, "a", linear(net), 5); clprune_net_bias_logits(net);
      clprune_net_bias_logits(net))
LAYER(zero_swiglu, clprune_net_swiglu(net, "bad", zero))
LAYER(swiglu_odd, clprune_net_swiglu(net, "bad", clprune_net_linear(net, "fc", rows(net), 7)))
LAYER(zero_head_norm, clprune_net_head_norm(net, "bad", zero, 0, 1, 1))
LAYER(head_norm_0, clprune_net_head_norm(net, "bad", rows(net), 0, 0, 1))
LAYER(head_norm_empty, clprune_net_head_norm(net, "bad", rows(net), 0, 1, 0))
LAYER(head_norm_wide, clprune_net_head_norm(net, "bad", rows(net), 5, 3, 4))
LAYER(head_norm_many, clprune_net_head_norm(net, "bad", rows(net), 8, SIZE_MAX / 4, 4))
LAYER(zero_rms, clprune_net_rms_norm(net, "bad", zero))
LAYER(no_groups, clprune_net_group_norm(net, "bad", rows(net), 0))
LAYER(other_groups, clprune_net_group_norm(net, "bad", rows(net), 3))
LAYER(head_of_0, clprune_net_token_loss(net, "bad", linear(net), 0))
LAYER(head_too_large, clprune_net_token_loss(net, "bad", linear(net), SIZE_MAX / 8))
LAYER(head_of_zero, linear(net); clprune_net_token_loss(net, "bad", zero, 5))
LAYER(head_of_input, clprune_net_token_loss(net, "bad", rows(net), 5))
LAYER(head_no_name, clprune_net_token_loss(net, NULL, linear(net), 5))
LAYER(head_empty_name, clprune_net_token_loss(net, "", linear(net), 5))
LAYER(head_taken, clprune_net_token_loss(net, "fc", linear(net), 5))
LAYER(head_twice, const clprune_net_value x = linear(net); clprune_net_token_loss(net, "a", x, 5);
      clprune_net_token_loss(net, "b", x, 5))
LAYER(head_name, const clprune_net_value x = linear(net); clprune_net_token_loss(net, "a", x, 5);
      clprune_net_relu(net, "a", x))
LAYER(head_tie, clprune_net_token_loss(net, "head", linear(net), 5);
      clprune_net_tie(net, "head.weight", "fc.weight"))
LAYER(tie_frozen, clprune_net_value x = clprune_net_linear(net, "a", rows(net), 16);
      (void)clprune_net_linear(net, "b", x, 16); clprune_net_freeze(net, "a.weight");
      clprune_net_tie(net, "b.weight", "a.weight"))
LAYER(tie_on, clprune_net_value x = rows(net); x = clprune_net_linear(net, "a", x, 16);
      x = clprune_net_linear(net, "b", x, 16); clprune_net_linear(net, "c", x, 16);
      clprune_net_tie(net, "a.weight", "b.weight"); clprune_net_tie(net, "b.weight", "c.weight"))
LAYER(tie_to_tied, clprune_net_value x = rows(net); x = clprune_net_linear(net, "a", x, 16);
      x = clprune_net_linear(net, "b", x, 16); clprune_net_linear(net, "c", x, 16);
      clprune_net_tie(net, "b.weight", "c.weight"); clprune_net_tie(net, "a.weight", "b.weight"))
LAYER(weight_too_large,
    clprune_net_linear(net, "bad", clprune_net_rows(net, 1, SIZE_MAX / 64), SIZE_MAX / 64))
LAYER(two_losses, const clprune_net_value x = linear(net); clprune_net_mean_squared_error(net, x);
      clprune_net_mean_squared_error(net, x))
LAYER(unread, const clprune_net_value x = linear(net);
      clprune_net_relu(net, "bad", clprune_net_gelu(net, "gelu", x));
      clprune_net_mean_squared_error(net, clprune_net_linear(net, "fc2", x, 4)))
LAYER(unread_norm, const clprune_net_value x = linear(net); clprune_net_batch_norm(net, "bad", x);
      clprune_net_mean_squared_error(net, x))
LAYER(first_error, clprune_net_relu(net, "bad", zero); clprune_net_relu(net, "later", zero))

typedef struct layer_row {
    const char *name;
    void (*build)(clprune_net *net);
    clprune_status status;
    const char *part; /* of the text */
} layer_row;

#define ROW(build, status, part)                                                                   \
    {                                                                                              \
#build, build, CLPRUNE_##status, part                                                      \
    }

static const layer_row layer_rows[] = {ROW(no_layers, INVALID_ARGUMENT, "no layers"),
    ROW(loss_of_input, INVALID_ARGUMENT, "mean_squared_error: its value is the input"),
    ROW(inputs_alone, INVALID_ARGUMENT, "no layers"),
    ROW(unread_input, INVALID_ARGUMENT, "nothing reads the output of layer images.1"),
    ROW(last_input, INVALID_ARGUMENT, "nothing reads the input images.1"),
    ROW(inputs_17, INVALID_ARGUMENT, "at most 16 inputs"),
    ROW(grad_of_nothing, INVALID_ARGUMENT, "clprune_net_want_grad: its input is no value"),
    ROW(grad_of_images, INVALID_ARGUMENT, "images is no input of rows or pixels"),
    ROW(grad_of_layer, INVALID_ARGUMENT, "fc is no input of rows or pixels"),
    ROW(input_alone, INVALID_ARGUMENT, "no layers"),
    ROW(rows_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(cols_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(channels_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(height_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(images_too_large, SIZE_OVERFLOW, "images of "),
    ROW(upsample_rows, INVALID_SIZE, "layer bad: its input is not an image"),
    ROW(upsample_0, INVALID_ARGUMENT, "layer bad: its factor is 0"),
    ROW(upsample_too_large, SIZE_OVERFLOW, "layer bad: a factor of "),
    ROW(pixels_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(pixels_too_large, SIZE_OVERFLOW, "pixels of "),
    ROW(rows_too_large, SIZE_OVERFLOW, "layer rows: 4 samples of "),
    ROW(outputs_too_large, SIZE_OVERFLOW, "layer bad: 4 samples of "),
    ROW(zero_relu, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_gelu, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_linear, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_linear_rows, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_affine, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_norm, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_mean, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_dropout, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_scale, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_flatten, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_add, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_layerscale, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_conv, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_pool, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_upsample, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_patches, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(zero_loss, INVALID_ARGUMENT, "cross_entropy: its input is no value"),
    ROW(beta_below_0, INVALID_ARGUMENT, "smooth_l1: beta is -1"),
    ROW(zero_labels, INVALID_ARGUMENT, "binary_cross_entropy: its input is no value"),
    ROW(zero_squares, INVALID_ARGUMENT, "mean_squared_error: its input is no value"),
    ROW(other_value, INVALID_ARGUMENT, "layer bad: its input is no value of this net"),
    ROW(other_term, INVALID_ARGUMENT, "layer bad: its input is no value of this net"),
    ROW(other_loss, INVALID_ARGUMENT, "no value of this net"),
    ROW(later_value, INVALID_ARGUMENT, "layer bad: its input is no value of this net"),
    ROW(no_name, INVALID_ARGUMENT, "a layer of kind relu has no name"),
    ROW(empty_name, INVALID_ARGUMENT, "a layer of kind relu has no name"),
    ROW(no_name_norm, INVALID_ARGUMENT, "a layer of kind batch_norm has no name"),
    ROW(no_name_dropout, INVALID_ARGUMENT, "rate is 1"),
    ROW(no_name_add, INVALID_SIZE, "expected the same shape"),
    ROW(same_name, INVALID_ARGUMENT, "two layers are called fc"),
    ROW(same_name_in_part, INVALID_ARGUMENT, "two layers are called p.bad"),
    ROW(name_of_input, INVALID_ARGUMENT, "two layers are called rows"),
    ROW(no_outputs, INVALID_SIZE, "layer bad has no outputs"),
    ROW(no_row_outputs, INVALID_SIZE, "layer bad has no outputs"),
    ROW(add_cols, INVALID_SIZE, "layer bad: its inputs are 4 x 16 and 4 x 8"),
    ROW(add_rows, INVALID_SIZE, "layer bad: its inputs are 4 x 16 and 8 x 16"),
    ROW(scale_cols, INVALID_SIZE, "layer bad: its inputs are 4 x 16 and 4 x 8"),
    ROW(rate_of_1, INVALID_ARGUMENT, "layer bad: its rate is 1"),
    ROW(rate_below_0, INVALID_ARGUMENT, "layer bad: its rate is -0.5"),
    ROW(attention_rate, INVALID_ARGUMENT, "layer bad: its rate is 1"),
    ROW(attention_null, INVALID_SIZE, "layer bad: "),
    ROW(attention_heads, INVALID_SIZE, "layer bad: "),
    ROW(attention_many, INVALID_SIZE, "layer bad: "),
    ROW(attention_too_many, INVALID_SIZE, "layer bad: "),
    ROW(attention_reserved, INVALID_ARGUMENT, "layer bad: a reserved field is not 0"),
    ROW(attention_queries, INVALID_SIZE, "layer bad: 99 queries, expected at most the 4 rows"),
    ROW(positions_none, INVALID_SIZE,
        "layer bad: 0 rows from 0 of a table of 4, expected a divisor"),
    ROW(positions_parts, INVALID_SIZE,
        "layer bad: 3 rows from 0 of a table of 4, expected a divisor"),
    ROW(positions_behind, INVALID_SIZE, "layer bad: 4 rows from 2 of a table of 5"),
    ROW(positions_table, INVALID_SIZE, "layer bad: 4 rows from 0 of a table of 3"),
    ROW(positions_large, SIZE_OVERFLOW, "layer bad: a table of "),
    ROW(rate_nan, INVALID_ARGUMENT, "layer bad: its rate is nan"),
    ROW(momentum_low, INVALID_ARGUMENT, "momentum is -0.1, expected a value in [0, 1]"),
    ROW(momentum_high, INVALID_ARGUMENT, "momentum is 1.1"),
    ROW(momentum_nan, INVALID_ARGUMENT, "momentum is nan"),
    ROW(zero_custom, INVALID_ARGUMENT, "custom_loss"),
    ROW(custom_of_input, INVALID_ARGUMENT, "custom_loss: its value is the input"),
    ROW(custom_and_squares, INVALID_ARGUMENT, "the net has two losses"),
    ROW(conv_null, INVALID_ARGUMENT, "layer bad has no outputs"),
    ROW(conv_no_outputs, INVALID_ARGUMENT, "layer bad has no outputs"),
    ROW(conv_no_kernel, INVALID_SIZE, "layer bad: "), ROW(conv_large, INVALID_SIZE, "layer bad: "),
    ROW(conv_dilated, INVALID_SIZE, "layer bad: "),
    ROW(gate_rows, INVALID_SIZE, "layer bad: its gates are 2 x 16, expected 1 x 16 or "),
    ROW(gate_cols, INVALID_SIZE, "layer bad: its gates are 1 x 4, expected 1 x 16"),
    ROW(concat_images, INVALID_SIZE, "layer bad: its inputs are images of 2 x 3 and 3 x 2"),
    ROW(concat_rows, INVALID_SIZE, "expected equal rows"),
    ROW(concat_cols, INVALID_SIZE, "x 16 and "),
    ROW(concat_axis, INVALID_ARGUMENT, "its axis is 3"),
    ROW(gather_null, INVALID_SIZE, "layer bad: its places are NULL, none"),
    ROW(gather_none, INVALID_SIZE, "layer bad: its places are NULL, none"),
    ROW(gather_many, INVALID_SIZE, "more than 1073741823, or no image of their grid"),
    ROW(gather_grid, INVALID_SIZE, "more than 1073741823, or no image of their grid"),
    ROW(gather_late, INVALID_ARGUMENT,
        "layer bad: element 1 is from 12, expected at most 11, or NOWHERE"),
    ROW(resample_rows, INVALID_SIZE, "layer bad: its input is not an image"),
    ROW(resample_null, INVALID_ARGUMENT, "layer bad: its height has no rows"),
    ROW(resample_entries, INVALID_ARGUMENT, "entries of row 0 of its height are 0 to 2147483647"),
    ROW(resample_pixel, INVALID_ARGUMENT,
        "its width is 1 of pixel 3, expected a finite number of 0 to 2"),
    ROW(resample_weight, INVALID_ARGUMENT, "its height is nan of pixel 0"),
    ROW(slice_none, INVALID_SIZE, "layer bad: 0 columns from 0, expected at least 1 of 0 to "),
    ROW(slice_late, INVALID_SIZE, "layer bad: 1 columns from "),
    ROW(slice_axis, INVALID_ARGUMENT, "layer bad: its axis is 2"),
    ROW(param_twice, INVALID_ARGUMENT, "two parameters are called conv.weight"),
    ROW(permute_axes, INVALID_SIZE, "layer bad: its axes are no order of 64 x 16 elements"),
    ROW(permute_twice, INVALID_SIZE, "layer bad: its axes are no order"),
    ROW(permute_rows, INVALID_SIZE, "these are no rows of 17"),
    ROW(permute_image, INVALID_SIZE, "no image of 6 x 12"),
    ROW(permute_none, INVALID_SIZE, "layer bad: its axes are no order"),
    ROW(conv_groups, INVALID_SIZE, "groups is 2, expected a divisor of the 3 input"),
    ROW(cell_other, INVALID_ARGUMENT, "layer bad: its cell is 4"),
    ROW(cell_reserved, INVALID_ARGUMENT, "or a reserved field is not 0"),
    ROW(cell_states, INVALID_SIZE, "layer bad: its first states are 4 x 8, expected 1 x 4"),
    ROW(cell_gates, INVALID_SIZE, "layer bad: 3 columns are not 4 gates"),
    ROW(cell_steps, INVALID_SIZE, "3 steps do not divide the 4 rows"),
    ROW(conv_reserved, INVALID_ARGUMENT, "reserved"),
    ROW(conv_reserved_0, INVALID_ARGUMENT, "reserved"),
    ROW(conv_rows, INVALID_ARGUMENT, "layer bad: its input is not an image"),
    ROW(patch_rows, INVALID_ARGUMENT, "layer bad: its input is not the images"),
    ROW(patch_value, INVALID_ARGUMENT, "layer bad: its input is not the images"),
    ROW(patch_odd, INVALID_SIZE, "layer bad: 4 features of patches of 3 x 3"),
    ROW(patch_of_0, INVALID_SIZE, "layer bad: "),
    ROW(patch_no_outputs, INVALID_SIZE, "layer bad: "),
    ROW(pool_null, INVALID_SIZE, "layer bad: desc is NULL"),
    ROW(pool_rows, INVALID_SIZE, "layer bad: its input is not an image"),
    ROW(pool_taps, INVALID_ARGUMENT, "layer bad: a kernel of 5 x 5"),
    ROW(pool_large, INVALID_SIZE, "layer bad: "), ROW(pool_padding, INVALID_SIZE, "layer bad: "),
    ROW(pool_reserved, INVALID_SIZE, "reserved"), ROW(relu_images, INVALID_ARGUMENT, "layer bad"),
    ROW(linear_images, INVALID_ARGUMENT, "layer bad"),
    ROW(mean_images, INVALID_ARGUMENT, "layer bad"),
    ROW(zero_embedding, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(embedded_rows, INVALID_ARGUMENT, "layer bad: its input is not the tokens"),
    ROW(embedded_images, INVALID_ARGUMENT, "layer bad (embedding) reads the images"),
    ROW(embedding_of_0, INVALID_SIZE, "layer bad: a vocabulary of 0 x 4"),
    ROW(embedding_no_cols, INVALID_SIZE, "layer bad: a vocabulary of 5 x 0"),
    ROW(embedding_too_large, SIZE_OVERFLOW, "layer bad: a vocabulary of "),
    ROW(tokens_of_0, INVALID_SIZE, "input has a size of 0"),
    ROW(linear_tokens, INVALID_ARGUMENT, "layer bad (linear) reads the tokens"),
    ROW(patch_tokens, INVALID_ARGUMENT, "layer bad (patch_embed) reads the tokens"),
    ROW(zero_positions, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(positions_tokens, INVALID_ARGUMENT, "layer bad (positions) reads the tokens"),
    ROW(zero_class, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(class_tokens, INVALID_ARGUMENT, "layer bad (class token) reads the tokens"),
    ROW(zero_row, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(row_of_input, INVALID_ARGUMENT, "layer bad (row) reads the images"),
    ROW(row_too_large, INVALID_SIZE, "layer bad: its row is 4, expected less than 4"),
    ROW(zero_rotary, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(rotary_odd, INVALID_SIZE, "layer bad: its input has 16 columns"),
    ROW(rotary_no_heads, INVALID_SIZE, "layer bad: its input has 16 columns"),
    ROW(rotary_many, INVALID_SIZE, "layer bad: its input has 16 columns"),
    ROW(rotary_part, INVALID_SIZE, "is turned, not 3"),
    ROW(rotary_wide, INVALID_SIZE, "is turned, not 6"),
    ROW(rotary_theta, INVALID_ARGUMENT, "layer bad: its theta is 1"),
    ROW(zero_angles, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(angles_none, INVALID_ARGUMENT, "layer bad: it has no pairs, or not one of"),
    ROW(angles_no_pairs, INVALID_ARGUMENT, "layer bad: it has no pairs, or not one of"),
    ROW(angles_many, INVALID_ARGUMENT, "layer bad: it has no pairs, or not one of"),
    ROW(angles_empty, INVALID_ARGUMENT, "layer bad: it has no pairs, or not one of"),
    ROW(angles_both, INVALID_ARGUMENT, "layer bad: it has no pairs, or not one of"),
    ROW(angles_wide, INVALID_SIZE, "is turned, not 18"),
    ROW(angles_nan, INVALID_ARGUMENT, "layer bad: angle 0 is nan"),
    ROW(angles_inf, INVALID_ARGUMENT, "layer bad: angle 3 is inf"),
    ROW(angles_factor, INVALID_ARGUMENT, "layer bad: its factor is -1"),
    ROW(angles_reserved, INVALID_ARGUMENT, "zero-initialise clprune_net_angles"),
    ROW(zero_glu, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(glu_relu, INVALID_ARGUMENT, "layer bad: its activation is 0"),
    ROW(glu_relu6, INVALID_ARGUMENT, "layer bad: its activation is 5"),
    ROW(glu_none, INVALID_ARGUMENT, "layer bad: its activation is 99"),
    ROW(cap_of_0, INVALID_ARGUMENT, "the cap of logits is 0"),
    ROW(cap_of_nan, INVALID_ARGUMENT, "the cap of logits is nan"),
    ROW(cap_alone, INVALID_ARGUMENT, "no token loss before it"),
    ROW(cap_of_logits, INVALID_ARGUMENT, "no token loss before it"),
    ROW(bias_alone, INVALID_ARGUMENT, "no token loss before it"),
    ROW(bias_twice, INVALID_ARGUMENT, "two parameters are called a.bias"),
    ROW(zero_swiglu, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(swiglu_odd, INVALID_SIZE, "layer bad: its input has 7 columns"),
    ROW(zero_head_norm, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(head_norm_0, INVALID_SIZE, "those of 0 heads"),
    ROW(head_norm_empty, INVALID_SIZE, "1 heads of 0"),
    ROW(head_norm_wide, INVALID_SIZE,
        "layer bad: its input has 16 columns, expected those of 3 heads"),
    ROW(head_norm_many, INVALID_SIZE, "layer bad: its input has 16 columns"),
    ROW(zero_rms, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(no_groups, INVALID_SIZE,
        "layer bad: it has 0 groups, expected a divisor of the 16 features"),
    ROW(other_groups, INVALID_SIZE, "layer bad: it has 3 groups"),
    ROW(head_of_0, INVALID_SIZE, "bad: its vocabulary is 0"),
    ROW(head_too_large, SIZE_OVERFLOW, "bad: a weight of "),
    ROW(head_of_zero, INVALID_ARGUMENT, "layer bad: its input is no value"),
    ROW(head_of_input, INVALID_ARGUMENT, "bad: its value is the input"),
    ROW(head_no_name, INVALID_ARGUMENT, "a token loss has no name"),
    ROW(head_empty_name, INVALID_ARGUMENT, "a token loss has no name"),
    ROW(head_taken, INVALID_ARGUMENT, "two layers are called fc"),
    ROW(head_twice, INVALID_ARGUMENT, "two losses"),
    ROW(head_name, INVALID_ARGUMENT, "two layers are called a"),
    ROW(head_tie, INVALID_ARGUMENT, "head.weight is 5 x 8, but fc.weight is 8 x 16;"),
    ROW(tie_frozen, INVALID_ARGUMENT, "a.weight is frozen and b.weight is not;"),
    ROW(tie_on, INVALID_ARGUMENT, "a.weight is tied to b.weight; tie both to c.weight"),
    ROW(tie_to_tied, INVALID_ARGUMENT, "b.weight is tied to c.weight itself"),
    ROW(weight_too_large, SIZE_OVERFLOW, "the bytes of parameter bad.weight"),
    ROW(two_losses, INVALID_ARGUMENT, "two losses"),
    ROW(unread, INVALID_ARGUMENT, "nothing reads the output of layer bad"),
    ROW(unread_norm, INVALID_ARGUMENT, "nothing reads the output of layer bad"),
    ROW(first_error, INVALID_ARGUMENT, "layer bad")};

static uint64_t booked(const clprune_context *context)
{
    return clprune_memory_query(context, CLPRUNE_MEMORY_PARAMETERS).live +
           clprune_memory_query(context, CLPRUNE_MEMORY_GRADIENTS).live +
           clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
}

static void bad_layer(void **state)
{
    const layer_row *row = *state;
    clprune_context *context = test_context();
    other = new_net(context);
    clprune_net *net = new_net(context);
    const uint64_t count = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count;
    row->build(net);
    TEST_FAILS(clprune_net_settle(net, NULL), row->status, row->part);
    TEST_FAILS(clprune_net_init(net, 1), CLPRUNE_INVALID_ARGUMENT, "not settled");
    /* settling fails for the same reason, and nothing runs */
    const clprune_net_data data = {.batch = 1};
    TEST_FAILS(clprune_net_settle(net, NULL), row->status, row->part);
    TEST_FAILS(clprune_net_forward(net, &data, true), CLPRUNE_INVALID_ARGUMENT, "not settled");
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, count);
    test_end(net);
    assert_int_equal(booked(context), 0);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static const clprune_net_rule some_rules[] = {{"fc*", .keep = {.form = CLPRUNE_FORM_DENSE}},
    {"nothing", .again = true}, {NULL, .again = true},
    {"fc1", .keep = {.form = CLPRUNE_FORM_GELU_CODE, .bits = 8}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_MASK}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 3}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 1.5f}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_PRUNED, .block = {1, 0}}},
    {"fc1", .keep = {.form = (clprune_form)99}}, {"fc1", .keep = {.reserved = {1}}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .group = 17}},
    {"fc1", .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16, .rotate = true}}};

typedef struct keep_row {
    const char *name;
    clprune_net_keep keep;
    const char *part;
} keep_row;

#define RULE(i) .rules = &some_rules[i], .rules_count = 1

static const keep_row keep_rows[] = {{"preset 5", {.preset = (clprune_net_preset)5}, "preset is 5"},
    {"preset -1", {.preset = (clprune_net_preset)-1}, "preset is -1"},
    {"reserved", {.reserved = {0, 0, 0, 1}}, "reserved"},
    {"store", {.store = CLPRUNE_VALUES_FP16}, "store is 1"},
    {"rules NULL", {.rules_count = 1}, "rules"},
    {"no such tensor", {RULE(1)}, "no tensor matches the rule nothing"},
    {"no pattern", {RULE(2)}, "rule 0 has no pattern"},
    {"two rules", {.rules = some_rules, .rules_count = 2}, "no tensor matches the rule nothing"},
    {"gelu code", {RULE(3)}, "does not restore"}, {"mask", {RULE(4)}, "does not restore"},
    {"bits 3", {RULE(5)}, "rule fc1 for tensor fc1: "},
    {"sparsity", {RULE(6)}, "rule fc1 for tensor fc1: "},
    {"block", {RULE(7)}, "rule fc1 for tensor fc1: "},
    {"form", {RULE(8)}, "rule fc1 for tensor fc1: "},
    {"reserved of a form", {RULE(9)}, "rule fc1 for tensor fc1: "},
    {"group", {RULE(10)}, "rule fc1 for tensor fc1: "},
    {"rotated bf16", {RULE(11)}, "rotate is set"},
#define FORM(preset_name, form_name)                                                               \
    {                                                                                              \
#preset_name ", " #form_name, {.preset = CLPRUNE_NET_##preset_name,                        \
                                      .keep = {.form = CLPRUNE_FORM_##form_name } },               \
                                          "keep.form is"                                           \
    }
    FORM(COMPACT, POOLED), FORM(COMPACT, MEAN), FORM(COMPACT, MASK), FORM(COMPACT, GELU_CODE),
    FORM(LEAST, POOLED), FORM(LEAST, MEAN), FORM(LEAST, MASK), FORM(LEAST, GELU_CODE),
    {"compact, rotated bf16", {.preset = CLPRUNE_NET_COMPACT, .keep = {.bits = 16, .rotate = true}},
        "rotate is set"},
    {"compact bits 3", {.preset = CLPRUNE_NET_COMPACT, .keep = {.bits = 3}}, "bits"},
    {"least bits 5", {.preset = CLPRUNE_NET_LEAST, .keep = {.bits = 5}}, "bits"},
    {"compact form 99", {.preset = CLPRUNE_NET_COMPACT, .keep = {.form = (clprune_form)99}},
        "form is 99"},
    {"least form 99", {.preset = CLPRUNE_NET_LEAST, .keep = {.form = (clprune_form)99}},
        "form is 99"},
    {"inputs mask", {.preset = CLPRUNE_NET_INPUTS, .keep = {.form = CLPRUNE_FORM_MASK}},
        "does not restore"},
    {"inputs gelu code",
        {.preset = CLPRUNE_NET_INPUTS, .keep = {.form = CLPRUNE_FORM_GELU_CODE, .bits = 8}},
        "does not restore"},
    {"inputs sparsity",
        {.preset = CLPRUNE_NET_INPUTS, .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 2}},
        "sparsity"},
    {"gelu bits", {.preset = CLPRUNE_NET_DENSE, .gelu_bits = 3}, "gelu_bits is 3"},
    {"inputs form", {.preset = CLPRUNE_NET_INPUTS, .keep = {.form = (clprune_form)7}}, "form"}};

static void add_mlp(clprune_net *net)
{
    clprune_net_value x = clprune_net_linear(net, "fc1", rows(net), 32);
    x = clprune_net_linear(net, "fc2", clprune_net_gelu(net, "gelu", x), 32);
    x = clprune_net_linear(net, "fc3", clprune_net_relu(net, "relu", x), 16);
    clprune_net_mean_squared_error(net, x);
}

static void never(void *user, const clprune_net_tensor *tensor)
{
    (void)tensor;
    fail_msg("%s", (const char *)user);
}

static void never_written(void *user, const char *text)
{
    (void)user;
    fail_msg("a net that could not be settled is printed: %s", text);
}

static void bad_keep(void **state)
{
    const keep_row *row = *state;
    clprune_context *context = test_context();
    const uint64_t count = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count;
    clprune_net *net = new_net(context);
    add_mlp(net);
    TEST_FAILS(clprune_net_settle(net, &row->keep), CLPRUNE_INVALID_ARGUMENT, row->part);
    TEST_FAILS(clprune_net_forward(net, &(clprune_net_data){.batch = 1}, true),
        CLPRUNE_INVALID_ARGUMENT, "not settled");
    TEST_FAILS(clprune_net_print(net, CLPRUNE_NET_TABLE, never_written, NULL),
        CLPRUNE_INVALID_ARGUMENT, "not settled");
    clprune_net_visit(net, never, "a net that could not be settled has tensors");
    test_end(net);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, count);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void creation(NO_ROW)
{
    clprune_context *context = test_context();
    clprune_net *net = (clprune_net *)&net;
    TEST_FAILS_IN(NULL, clprune_net_create(NULL, &(clprune_net_desc){.batch = 1}, &net),
        CLPRUNE_INVALID_ARGUMENT, "context");
    assert_null(net);
    TEST_FAILS(clprune_net_create(context, NULL, &net), CLPRUNE_INVALID_ARGUMENT, "desc");
    TEST_FAILS(clprune_net_create(context, &(clprune_net_desc){.batch = 1}, NULL),
        CLPRUNE_INVALID_ARGUMENT, "net is NULL");
    TEST_FAILS(clprune_net_create(context, &(clprune_net_desc){.batch = 0}, &net),
        CLPRUNE_INVALID_ARGUMENT, "batch is 0");
    TEST_FAILS(
        clprune_net_create(context, &(clprune_net_desc){.batch = 1, .reserved = {0, 1}}, &net),
        CLPRUNE_INVALID_ARGUMENT, "reserved");
    assert_null(net);
    clprune_net_destroy(NULL);
}

/* A net of NULL: layers return no value, calls a status. */
static void null_net(NO_ROW)
{
    const clprune_net_value x = {1, 1};
    const clprune_net_conv conv_desc = {.out = 1, .kernel = {1, 1}};
    const clprune_max_pool_desc pool_desc = {.kernel = {1, 1}};
    const clprune_net_data data = {.batch = 1};
    const clprune_net_value values[] = {clprune_net_images(NULL, 1, 1, 1),
        clprune_net_rows(NULL, 1, 1), clprune_net_pixels(NULL, 1, 1, 1),
        clprune_net_upsample(NULL, "a", x, 2), clprune_net_patch_embed(NULL, "a", x, 1, 1),
        clprune_net_conv2d(NULL, "a", x, &conv_desc), clprune_net_linear(NULL, "a", x, 1),
        clprune_net_linear_rows(NULL, "a", x, 1), clprune_net_batch_norm(NULL, "a", x),
        clprune_net_affine(NULL, "a", x), clprune_net_layerscale(NULL, "a", x, x),
        clprune_net_gelu(NULL, "a", x), clprune_net_relu(NULL, "a", x),
        clprune_net_add(NULL, "a", x, x), clprune_net_max_pool(NULL, "a", x, &pool_desc),
        clprune_net_mean(NULL, "a", x), clprune_net_dropout(NULL, "a", x, 0.5f),
        clprune_net_scale(NULL, "a", x, 1), clprune_net_flatten(NULL, "a", x)};
    for (size_t i = 0; i < COUNT_OF(values); i++)
        assert_true(values[i].id == 0);
    size_t count = 5;
    clprune_net_part(NULL, "a");
    clprune_net_lora_dropout(NULL, 0.5f);
    clprune_net_cross_entropy(NULL, x);
    clprune_net_mean_squared_error(NULL, x);
    clprune_net_set_seed(NULL, 1);
    clprune_net_visit(NULL, never, "a net of NULL has tensors");
    assert_null(clprune_net_params(NULL, &count));
    assert_int_equal(count, 0);
    count = 5;
    assert_null(clprune_net_states(NULL, &count));
    assert_int_equal(count, 0);
    assert_null(clprune_net_params(NULL, NULL));
    assert_null(clprune_net_states(NULL, NULL));
    assert_null(clprune_net_output(NULL, 1).buffer);
    TEST_FAILS_IN(NULL, clprune_net_settle(NULL, NULL), CLPRUNE_INVALID_ARGUMENT, "net");
    TEST_FAILS_IN(NULL, clprune_net_init(NULL, 1), CLPRUNE_INVALID_ARGUMENT, "net");
    TEST_FAILS_IN(NULL, clprune_net_forward(NULL, &data, true), CLPRUNE_INVALID_ARGUMENT, "net");
    TEST_FAILS_IN(NULL, clprune_net_loss(NULL, &data, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT),
        CLPRUNE_INVALID_ARGUMENT, "net");
    TEST_FAILS_IN(NULL, clprune_net_backward(NULL, &data), CLPRUNE_INVALID_ARGUMENT, "net");
}

static void before_settle(NO_ROW)
{
    clprune_net *net = new_net(test_context());
    const clprune_net_data data = {.batch = 1};
    size_t count = 5;
    add_mlp(net);
    assert_null(clprune_net_params(net, &count));
    assert_int_equal(count, 0);
    assert_null(clprune_net_states(net, &count));
    clprune_net_visit(net, never, "a net that is not settled has tensors");
    assert_null(clprune_net_output(net, 1).buffer);
    clprune_net_set_seed(net, 3);
    TEST_FAILS(clprune_net_init(net, 1), CLPRUNE_INVALID_ARGUMENT, "not settled");
    TEST_FAILS(clprune_net_forward(net, &data, true), CLPRUNE_INVALID_ARGUMENT, "not settled");
    TEST_FAILS(clprune_net_loss(net, &data, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT),
        CLPRUNE_INVALID_ARGUMENT, "not settled");
    TEST_FAILS(clprune_net_backward(net, &data), CLPRUNE_INVALID_ARGUMENT, "not settled");
}

/* Bad data of a net that works before and afterwards. */
static void bad_data(NO_ROW)
{
    net_job job = net_open(test_context(), &net_models[3], BATCH, NULL);
    const float *want = net_step_grads(&job);
    clprune_net_data data = job.data;
    for (size_t batch = 0; batch <= BATCH + 1; batch += BATCH + 1) {
        data.batch = batch;
        TEST_FAILS(clprune_net_forward(job.net, &data, true), CLPRUNE_INVALID_SIZE, "the batch is");
        TEST_FAILS(clprune_net_loss(job.net, &data, job.loss, CLPRUNE_NO_MAT), CLPRUNE_INVALID_SIZE,
            "the batch is");
        TEST_FAILS(clprune_net_backward(job.net, &data), CLPRUNE_INVALID_SIZE, "the batch is");
    }
    TEST_FAILS(clprune_net_forward(job.net, NULL, true), CLPRUNE_INVALID_ARGUMENT, "data");
    TEST_FAILS(clprune_net_loss(job.net, NULL, job.loss, CLPRUNE_NO_MAT), CLPRUNE_INVALID_ARGUMENT,
        "data");
    TEST_FAILS(clprune_net_backward(job.net, NULL), CLPRUNE_INVALID_ARGUMENT, "data");
    data = job.data;
    data.rows = CLPRUNE_NO_MAT;
    TEST_FAILS(clprune_net_forward(job.net, &data, true), CLPRUNE_INVALID_SIZE, NULL);
    data = job.data;
    data.rows = test_new_mat(job.context, data.rows.rows, data.rows.cols - 1);
    TEST_FAILS(clprune_net_forward(job.net, &data, true), CLPRUNE_INVALID_SIZE, NULL);
    data.rows = clprune_mat_rows(job.data.rows, 0, job.data.rows.rows - 1);
    TEST_FAILS(clprune_net_forward(job.net, &data, true), CLPRUNE_INVALID_SIZE, "data.rows has");
    data = job.data;
    data.targets = CLPRUNE_NO_MAT;
    TEST_OK(clprune_net_forward(job.net, &data, true));
    TEST_FAILS(
        clprune_net_loss(job.net, &data, job.loss, CLPRUNE_NO_MAT), CLPRUNE_INVALID_SIZE, NULL);
    TEST_FAILS(clprune_net_loss(job.net, &job.data, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT),
        CLPRUNE_INVALID_SIZE, "loss");
    TEST_FAILS(clprune_net_loss(job.net, &job.data, job.loss, job.loss), CLPRUNE_INVALID_ARGUMENT,
        "hit is given");
    clprune_net_visit(job.net, NULL, NULL);
    assert_null(clprune_net_output(job.net, BATCH + 1).buffer);
    test_same_floats("gradients", 1, job.elements, net_step_grads(&job), want, "after errors");
    /* a layer, a loss, another settling */
    clprune_net_relu(job.net, "late", clprune_net_rows(job.net, 1, 1));
    TEST_FAILS(clprune_net_settle(job.net, NULL), CLPRUNE_INVALID_ARGUMENT, NULL);
}

static void settled(NO_ROW)
{
    clprune_net *net = new_net(test_context());
    add_mlp(net);
    TEST_OK(clprune_net_settle(net, NULL));
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT, "settled already");
    const clprune_net_value x = {0, 0};
    assert_true(clprune_net_relu(net, "late", x).id == 0);
}

/* A net without a loss infers only. */
static void no_loss(NO_ROW)
{
    clprune_net *net = new_net(test_context());
    const clprune_mat loss = test_new_mat(test_context(), BATCH, 1),
                      x = test_new_mat_of(
                          test_context(), "x", 4 * BATCH, 16, test_new_normal(1, 4 * BATCH * 16));
    const clprune_net_data data = {.batch = BATCH, .rows = x};
    (void)linear(net);
    TEST_OK(clprune_net_settle(net, NULL));
    TEST_OK(clprune_net_init(net, 1));
    TEST_OK(clprune_net_forward(net, &data, false));
    TEST_FAILS(
        clprune_net_loss(net, &data, loss, CLPRUNE_NO_MAT), CLPRUNE_INVALID_ARGUMENT, "no loss");
    TEST_FAILS(clprune_net_backward(net, &data), CLPRUNE_INVALID_ARGUMENT, "no loss");
    assert_int_equal(clprune_net_output(net, BATCH).rows, 4 * BATCH);
}

/* Every budget below that of the net: settling fails, and nothing stays booked. */
static void budgets(void **state)
{
    const net_model *model = *state;
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_COMPACT};
    clprune_net *net = new_net(test_context());
    clprune_memory_reset_peak(test_context());
    const uint64_t before = clprune_memory_query(test_context(), CLPRUNE_MEMORY_TOTAL).live;
    model->build(net, model);
    TEST_OK(clprune_net_settle(net, &keep));
    const uint64_t needed =
        clprune_memory_query(test_context(), CLPRUNE_MEMORY_TOTAL).live - before;
    for (size_t i = 0; i < 12; i++) {
        clprune_context *small =
            test_open((clprune_context_options){.mem_limit = 1 + (size_t)(needed * i / 12),
                .kernels = clprune_context_kernels(test_context())});
        const uint64_t live = clprune_memory_query(small, CLPRUNE_MEMORY_TOTAL).live;
        clprune_net *large = new_net(small);
        model->build(large, model);
        TEST_FAILS_IN(small, clprune_net_settle(large, &keep), CLPRUNE_OUT_OF_DEVICE_MEMORY, NULL);
        TEST_FAILS_IN(small, clprune_net_forward(large, &(clprune_net_data){.batch = 1}, true),
            CLPRUNE_INVALID_ARGUMENT, "not settled");
        TEST_FAILS_IN(small, clprune_net_init(large, 1), CLPRUNE_INVALID_ARGUMENT, "not settled");
        test_end(large);
        assert_int_equal(clprune_memory_query(small, CLPRUNE_MEMORY_TOTAL).live, live);
        test_end(small);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, bad_layer, layer_rows, "layers: %s");
    TEST_ADD_EACH(&list, bad_keep, keep_rows, "keeping: %s");
    test_add(&list, creation, NULL, "creation");
    test_add(&list, null_net, NULL, "a net of NULL");
    test_add(&list, before_settle, NULL, "before it is settled");
    test_add(&list, bad_data, NULL, "bad data");
    test_add(&list, settled, NULL, "settled twice");
    test_add(&list, no_loss, NULL, "without a loss");
    TEST_ADD_EACH(&list, budgets, net_models, "a budget too small for %s");
    test_add(
        &list, budgets, &net_token_models[NET_TIED_BACK], "a budget too small for tied weights");
    return test_run_on_each_device("net_errors", &list);
}
