#include "resnet_keep.h"

#include <stdio.h> /* snprintf */

#include "trainer/model/trainer_model.h"

#define ONLY_MASK KEEP_SET(CLPRUNE_FORM_MASK)

static const keep_entry entries[] = {
    [KEEP_CONV1] = {.name = "conv1", .never = "the product would run twice"},
    [KEEP_RELU1] = {.name = "relu1", .again = "max(bn1(conv1), 0)"},
    [KEEP_CONV2] = {.name = "conv2", .never = "the product would run twice"},
    [KEEP_DOWN] = {.name = "downsample", .never = "the product would run twice"},
    [KEEP_OUT] = {.name = "out", .again = "max(bn2(conv2) + shortcut, 0)"},
    [KEEP_MASK1] = {.name = "mask1",
        .again = "bn1(conv1) > 0",
        .recompute = {.dense = KEEP_SET(KEEP_CONV1)},
        .only = ONLY_MASK},
    [KEEP_MASK2] = {.name = "mask2",
        .again = "bn2(conv2) + shortcut > 0",
        .recompute = {.dense = KEEP_SET(KEEP_CONV2) | KEEP_SET(KEEP_DOWN)},
        .only = ONLY_MASK},
    [KEEP_IMAGE] = {.name = "image", .place = "stem", .again = "the batch of the step"},
    [KEEP_STEM] = {.name = "conv", .place = "stem", .again = "W image"},
    [KEEP_STEM_RELU] = {.name = "relu", .place = "stem", .again = "max(bn(conv), 0)"},
    [KEEP_POOL] = {.name = "pool", .place = "stem", .never = "all blocks are made from it"},
    [KEEP_STEM_MASK] = {.name = "mask",
        .place = "stem",
        .again = "bn(conv) > 0",
        .only = ONLY_MASK},
    [KEEP_LAST] = {.name = "out", .place = "last", .again = "only its sign is needed: mask2"},
};

static const char *const preset_names[] = {
    "dense", "paper", "pruned", "pooled", "exact", "compact", "auto", NULL};

/* For auto: the recomputed tensors of compact, then none in the blocks. Outputs of convolutions are
 * only quantised: pruned or pooled, they give batch norms' gradients a larger error than codes of 2
 * bits. */
static const char *const frames[] = {"qrqqrbb"
                                     "rrrkr"
                                     "r",
    "qkqqkbb"
    "rrrkr"
    "r",
    NULL};

/* One letter per tensor: conv1, relu1, conv2, downsample, out, mask1, mask2; the stem's image,
 * conv, relu, pool, mask; the last out. */
static const keep_preset_row presets[] = {
    {"dddddrr"
     "ddddr"
     "d",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep what autograd keeps"},
    {"dpddprb"
     "ddrpr"
     "r",
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INDEX_INT32,
        "keep the inputs of convolutions pruned to their largest blocks"},
    {"dpddprb"
     "ddrpr"
     "r",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same tensors with sampled blocks around the mean of each image, which make the weight "
        "gradients unbiased",
        .centre = CLPRUNE_CENTRE_SAMPLE},
    {"doddorb"
     "odror"
     "r",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the means of the inputs of convolutions over cells of pixels (arXiv 2409.11902)"},
    {"drddrrr"
     "rrrdr"
     "r",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the outputs of convolutions and compute the same gradients from them"},
    {"qrqqrbb"
     "rrrqr"
     "r",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep them as codes of --code-bits bits, and the signs as bits"},
    {"dddddrr"
     "ddddr"
     "d",
        CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "measure the gradient errors of each tensor's forms, and choose within --memory-limit",
        frames, .centre = CLPRUNE_CENTRE_SAMPLE},
};

/* Presets with dense's gradients come first. */
static const keep_rung ladder[] = {
    {"dense", 0},
    {"exact", 0},
    {"compact", 8},
    {"compact", 4},
    {"compact", 2},
};

resnet_shape resnet_keep_shape(const resnet_arch *arch, size_t block, size_t entry)
{
    resnet_unit units[RESNET_UNITS];
    const size_t count = resnet_arch_units(arch, units), blocks = resnet_arch_blocks(arch);
    const resnet_unit *stem = &units[0], *last = &units[count - 1];
    switch (entry) {
    case KEEP_IMAGE:
        return (resnet_shape){arch->image, RESNET_CHANNELS};
    case KEEP_STEM:
    case KEEP_STEM_RELU:
    case KEEP_STEM_MASK:
        return (resnet_shape){stem->to, stem->out};
    case KEEP_POOL:
        return (resnet_shape){arch->pools ? resnet_arch_first_side(arch) : 0, stem->out};
    case KEEP_LAST:
        return (resnet_shape){last->to, last->out};
    default:
        break;
    }
    resnet_shape shape = {0, 1};
    for (size_t i = 1; i < count; ++i)
        if (units[i].block == block && (entry != KEEP_DOWN || units[i].role == RESNET_DOWN) &&
            (entry != KEEP_OUT || block + 1 < blocks))
            shape = (resnet_shape){units[i].to, units[i].out};
    return shape;
}

static keep_shape shape(const trainer_sizes *sizes, size_t block, size_t entry)
{
    const resnet_arch arch = resnet_arch_of(sizes);
    const resnet_shape s = resnet_keep_shape(&arch, block, entry);
    return (keep_shape){s.side * s.side, s.channels, .grid_height = s.side, .grid_width = s.side};
}

static const keep_rule *rule_of(
    const resnet_arch *arch, const keep_rule *rules, size_t block, size_t entry)
{
    return &rules[keep_rule_at(&resnet_keep_table, resnet_arch_blocks(arch), block, entry)];
}

/* entry if it is kept, but not dense; else KEEP_ALL. */
static size_t inexact(const resnet_arch *arch, const keep_rule *rules, size_t block, size_t entry)
{
    const keep_rule *rule = rule_of(arch, rules, block, entry);
    return rule->recomputed || keep_has_form(rule, CLPRUNE_FORM_DENSE) ? KEEP_ALL : entry;
}

static bool has_down(const resnet_arch *arch, size_t block)
{
    return resnet_keep_shape(arch, block, KEEP_DOWN).side > 0;
}

/* What makes a block's x of the backward pass differ from the forward pass's: an entry of block
 * *at, or KEEP_ALL: nothing. */
static size_t inexact_x(const resnet_arch *arch, size_t block, const keep_rule *rules, size_t *at)
{
    for (size_t i = block; i-- > 0;) { /* back to the stores that x comes from */
        *at = i;
        if (!rule_of(arch, rules, i, KEEP_OUT)->recomputed)
            return inexact(arch, rules, i, KEEP_OUT);
        if (inexact(arch, rules, i, KEEP_CONV2) != KEEP_ALL)
            return KEEP_CONV2;
        if (has_down(arch, i))
            return inexact(arch, rules, i, KEEP_DOWN);
    }
    *at = resnet_arch_blocks(arch);
    if (arch->pools)
        return inexact(arch, rules, *at, KEEP_POOL);
    return inexact(arch, rules, *at,
        rule_of(arch, rules, *at, KEEP_STEM_RELU)->recomputed ? KEEP_STEM : KEEP_STEM_RELU);
}

bool resnet_keep_check(const resnet_arch *arch, size_t block, const keep_rule *rules, size_t *other,
    char *why, size_t size)
{
    const bool stem = block == resnet_arch_blocks(arch);
    const size_t mask = stem ? KEEP_STEM_MASK : KEEP_MASK2;
    size_t entry = KEEP_ALL;
    *other = block;
    if (!rule_of(arch, rules, block, mask)->recomputed)
        return true;
    if (!stem && !has_down(arch, block))
        entry = inexact_x(arch, block, rules, other);
    else if (stem && !(arch->pools && rule_of(arch, rules, block, KEEP_STEM_RELU)->recomputed))
        entry = inexact(arch, rules, block, KEEP_STEM); /* resnet_stem_fused needs no signs */
    if (entry == KEEP_ALL)
        return true;
    char where[32];
    (void)snprintf(where, sizeof where, "blocks.%zu", *other);
    (void)snprintf(why, size, "%s cannot be recomputed while %s %s is %s", entries[mask].name,
        entry < KEEP_IN_BLOCK ? where : entries[entry].place, entries[entry].name,
        clprune_form_name(rule_of(arch, rules, *other, entry)->keep.form));
    return false;
}

static bool check(const trainer_sizes *sizes, size_t block, const keep_rule *rules, size_t *other,
    char *why, size_t size)
{
    const resnet_arch arch = resnet_arch_of(sizes);
    return resnet_keep_check(&arch, block, rules, other, why, size);
}

const keep_table resnet_keep_table = {
    .entries = entries,
    .in_block = KEEP_IN_BLOCK,
    .count = KEEP_ALL,
    .shape = shape,
    .check = check,
    .preset_names = preset_names,
    .presets = presets,
    .ladder = ladder,
    .rungs = sizeof ladder / sizeof *ladder,
};
