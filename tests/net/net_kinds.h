/* A layer of each kind, for tests of what all kinds have in common. */
#ifndef CLPRUNE_TEST_NET_KINDS_H
#define CLPRUNE_TEST_NET_KINDS_H

#include "clprune/net.h"

static const clprune_net_conv kind_conv = {.out = 8, .kernel = {3, 3}, .padding = {1, 1}};
static const clprune_net_conv kind_transposed = {.out = 8,
    .kernel = {3, 3},
    .stride = {2, 1},
    .padding = {1, 1},
    .bias = true,
    .output_padding = {1, 0}};
/* A pixel of zeros, a mean, a pixel. */
static const clprune_net_axis kind_axis = {.out = 3,
    .first = (const uint32_t[]){0, 0, 2, 3},
    .from = (const uint32_t[]){0, 1, 0},
    .weight = (const float[]){0.5f, 0.5f, 1}};
/* Of a pixel of 8 features or more: one of them again and again, nothing, a part in another order.
 */
static const clprune_net_places kind_places = {
    3, 2, {0, 0}, (const uint32_t[]){5, 5, CLPRUNE_NET_NOWHERE, 1, 0, 5}};
static const clprune_max_pool_desc kind_pool = {.kernel = {2, 2}};
static const clprune_permute_desc kind_order = {3, {4, 2, 8}, {1, 2, 0}}; /* of 64 elements */
static const clprune_extent kind_grid = {0, 0};
static const clprune_net_angles kind_angles = {
    .pairs = 1, .frequencies = (const double[]){0.5}, .factor = 1.5f, .adjacent = true};
static const clprune_net_products kind_products = {
    .parts = 2, .heads = 2, .transpose_b = true, .y_below = true, .factor = 0.5f};
static const clprune_recurrent_desc kind_lstm = {.steps = 2, .reverse = true};
static const clprune_net_attn kind_attn = {.heads = 6, .kv_heads = 1, .cap = 2};

/* clprune_net_NAME(net, name, ...); x is an image of even sides of 8 features, or a multiple. */
#define NET_KINDS(KIND)                                                                            \
    KIND(linear, x, 8)                                                                             \
    KIND(project, x, 8)                                                                            \
    KIND(linear_rows, x, 8)                                                                        \
    KIND(conv2d, x, &kind_conv)                                                                    \
    KIND(conv_transpose2d, x, &kind_transposed)                                                    \
    KIND(batch_norm, x)                                                                            \
    KIND(affine, x)                                                                                \
    KIND(layer_norm, x)                                                                            \
    KIND(group_norm, x, 4)                                                                         \
    KIND(layerscale, x, x)                                                                         \
    KIND(gelu, x)                                                                                  \
    KIND(gelu_tanh, x)                                                                             \
    KIND(silu, x)                                                                                  \
    KIND(sigmoid, x)                                                                               \
    KIND(hard_sigmoid, x)                                                                          \
    KIND(hard_swish, x)                                                                            \
    KIND(relu6, x)                                                                                 \
    KIND(reciprocal, x)                                                                            \
    KIND(tanh, x)                                                                                  \
    KIND(swiglu, x)                                                                                \
    KIND(glu, x, CLPRUNE_ACTIVATION_GELU_TANH)                                                     \
    KIND(rms_norm, x)                                                                              \
    KIND(head_norm, x, 1, 2, 3)                                                                    \
    KIND(rotary, x, 2, 1, 2, 1e4f, true)                                                           \
    KIND(rotary_by, x, 2, 1, &kind_angles)                                                         \
    KIND(response, x)                                                                              \
    KIND(relu, x)                                                                                  \
    KIND(add, x, x)                                                                                \
    KIND(gate, x, x)                                                                               \
    KIND(concat, x, x, CLPRUNE_AXIS_FEATURES)                                                      \
    KIND(slice, x, CLPRUNE_AXIS_ROWS, 1, 2)                                                        \
    KIND(resample, x, &kind_axis, &kind_axis)                                                      \
    KIND(gather, x, &kind_places)                                                                  \
    KIND(permute, x, &kind_order, 8, kind_grid)                                                    \
    KIND(max_pool, x, &kind_pool)                                                                  \
    KIND(upsample, x, 2)                                                                           \
    KIND(mean, x)                                                                                  \
    KIND(dropout, x, 0.5f)                                                                         \
    KIND(drop_path, x, 0.5f)                                                                       \
    KIND(scale, x, 2)                                                                              \
    KIND(flatten, x)                                                                               \
    KIND(attention, x, &kind_attn)                                                                 \
    KIND(cross_attention, x, x, 2, 1, 0)                                                           \
    KIND(product, x, x, &kind_products)                                                            \
    KIND(recurrent, x, &kind_lstm, true)                                                           \
    KIND(softmax, x)                                                                               \
    KIND(positions, x)                                                                             \
    KIND(positions_of, x, 0, 1, 3)                                                                 \
    KIND(class_token, x)                                                                           \
    KIND(row, x, 0)

typedef struct net_kind {
    const char *name;
    clprune_net_value (*add)(clprune_net *net, const char *name, clprune_net_value x);
} net_kind;

#define NET_KIND_ADD(kind, ...)                                                                    \
    static clprune_net_value add_##kind(clprune_net *net, const char *name, clprune_net_value x)   \
    {                                                                                              \
        return clprune_net_##kind(net, name, __VA_ARGS__);                                         \
    }
NET_KINDS(NET_KIND_ADD)

#define NET_KIND_ROW(kind, ...) {#kind, add_##kind},
static const net_kind kinds[] = {NET_KINDS(NET_KIND_ROW)};

#endif
