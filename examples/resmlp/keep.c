#include "keep.h"

#include "arch.h"
#include "trainer/model/trainer_model.h"

static const keep_entry entries[] = {
    [KEEP_X] = {.name = "x", .never = "everything else is made from it"},
    [KEEP_NORM1] = {.name = "norm1",
        .again = "affine1(x)",
        .recompute = {.recomputed = KEEP_SET(KEEP_TOKENS)}},
    [KEEP_TOKENS] = {.name = "tokens",
        .again = "W_t norm1 + b_t",
        .recompute = {.recomputed = KEEP_SET(KEEP_NORM1)}},
    [KEEP_X2] = {.name = "x2",
        .again = "x + ls1 * tokens",
        .recompute = {.recomputed = KEEP_SET(KEEP_NORM1) | KEEP_SET(KEEP_NORM2),
            .dense = KEEP_SET(KEEP_X)}},
    [KEEP_NORM2] = {.name = "norm2",
        .again = "affine2(x2)",
        .recompute = {.recomputed = KEEP_SET(KEEP_GELU) | KEEP_SET(KEEP_FC2)}},
    [KEEP_FC1] = {.name = "fc1",
        .never = "the product would run twice",
        .forms = KEEP_SET(CLPRUNE_FORM_GELU_CODE),
        .code = {.recomputed = KEEP_SET(KEEP_NORM2) | KEEP_SET(KEEP_FC2),
            .kept = KEEP_SET(KEEP_X2) | KEEP_SET(KEEP_GELU)}},
    [KEEP_GELU] = {.name = "gelu",
        .again = "GELU(fc1)",
        .recompute = {.recomputed = KEEP_SET(KEEP_NORM2) | KEEP_SET(KEEP_FC2)}},
    [KEEP_FC2] = {.name = "fc2",
        .again = "W_2 gelu + b_2",
        .recompute = {.recomputed = KEEP_SET(KEEP_NORM2) | KEEP_SET(KEEP_GELU)}},
    [KEEP_TENSORS] = {.name = "x",
        .place = "last",
        .never = "its mean over the tokens must be kept",
        .forms = KEEP_SET(CLPRUNE_FORM_MEAN),
        .instead = CLPRUNE_FORM_MEAN},
};

static const char *const preset_names[] = {"dense", "paper", "pruned", "exact", "exact-tokens",
    "compact", "compact-pruned", "quantised", "pooled", "auto", NULL};

/* For auto: the recomputed tensors of compact-pruned, then those of compact. */
static const char *const frames[] = {"krrkrckrm", "krrkrqrrm", NULL};

/* One letter per tensor: x, norm1, tokens, x2, norm2, fc1, gelu, fc2; the last x. */
static const keep_preset_row presets[] = {
    {"ddddddddd", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep what autograd keeps"},
    {"dpddpdpdd", CLPRUNE_CRITERION_LARGEST, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers pruned to their largest blocks (arXiv 2311.16883)"},
    {"dpddpdpdd", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same tensors with sampled blocks, which make the weight gradients unbiased"},
    {"drrdrdrrm", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep three tensors per block and compute the same gradients from them"},
    {"drrrrdrrm", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep two, and run the token layer twice"},
    {"errerqrrm", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the three of exact as codes: fc1 in --code-bits bits, the others in 8"},
    {"prrprcprm", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "keep three pruned, sampled blocks, and a code of GELU's derivative"},
    {"dqddqdqdd", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers as codes of --code-bits bits"},
    {"doddododd", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the means of the inputs of linear layers over cells of neighbouring tokens"},
    {"ddddddddd", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "measure the gradient errors of each tensor's forms, and choose within --memory-limit",
        frames},
};

/* Before preset pruned existed, preset paper had --criterion, sampled by default; programs of
 * version 2 have always had both. compact pruned before it quantised. */
static const keep_renamed renamed[] = {
    {"paper", "sampled", "pruned", 1},
    {"compact", NULL, "compact-pruned", 1},
};

/* Presets with dense's gradients come first. */
static const keep_rung ladder[] = {
    {"dense", 0},
    {"exact", 0},
    {"exact-tokens", 0},
    {"compact", 8},
    {"compact", 4},
    {"compact", 2},
};

static keep_shape shape(const trainer_sizes *sizes, size_t block, size_t entry)
{
    const resmlp_arch arch = resmlp_arch_of(sizes);
    const size_t side = arch.image / arch.patch; /* patches, row by row */
    (void)block;                                 /* all are alike */
    return (keep_shape){resmlp_arch_tokens(&arch), keep_features(&arch, entry), .grid_height = side,
        .grid_width = side};
}

const keep_table resmlp_keep = {
    .entries = entries,
    .in_block = KEEP_TENSORS,
    .count = sizeof entries / sizeof *entries,
    .shape = shape,
    .preset_names = preset_names,
    .presets = presets,
    .ladder = ladder,
    .rungs = sizeof ladder / sizeof *ladder,
    .renamed = renamed,
    .renamed_count = sizeof renamed / sizeof *renamed,
};

size_t keep_features(const resmlp_arch *arch, size_t entry)
{
    return entry == KEEP_FC1 || entry == KEEP_GELU ? arch->hidden : arch->dim;
}

bool keep_recomputes_tokens(const keep_rule *rules)
{
    return rules[KEEP_NORM1].recomputed;
}

bool keep_recomputes_mlp(const keep_rule *rules)
{
    return rules[KEEP_NORM2].recomputed;
}

bool keep_codes(const keep_rule *rules)
{
    return keep_has_form(&rules[KEEP_FC1], CLPRUNE_FORM_GELU_CODE);
}
