#include "trainer/model/net_presets.h"

static const char *const names[] = {"dense", "paper", "pruned", "quantised", "pooled", "exact",
    "exact-tokens", "exact-plus", "checkpoint", "compact", "compact-plus", "compact-pruned",
    "least", "auto", NULL};

enum {
    DENSE,
    PAPER,
    PRUNED,
    QUANTISED,
    POOLED,
    EXACT,
    EXACT_TOKENS,
    EXACT_PLUS,
    CHECKPOINT,
    COMPACT,
    COMPACT_PLUS,
    COMPACT_PRUNED,
    LEAST,
    AUTO,
    PRESETS
};

_Static_assert(sizeof names / sizeof *names == PRESETS + 1, "a name for each preset");

/* Products of at most so many multiplications an element run again in exact-tokens. */
enum { CHEAP_PRODUCT = 256 };

/* Percent of a step's products that run again in the presets with plus, and in checkpoint. */
enum { PLUS_WORK = 12, CHECKPOINT_WORK = 25 };

/* auto chooses forms for what these keep. */
static const char *const frames[] = {"compact", "quantised", "least", NULL};

static const keep_preset rows[] = {
    [DENSE] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep what autograd keeps"},
    [PAPER] = {CLPRUNE_CRITERION_LARGEST, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers and convolutions pruned to their largest blocks (arXiv "
        "2311.16883)",
        .uses = "p"},
    [PRUNED] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same tensors with sampled blocks, in images around the mean of each image, which make "
        "the weight gradients unbiased",
        .uses = "p"},
    [QUANTISED] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers and convolutions as codes of --code-bits bits",
        .uses = "q"},
    [POOLED] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the means of these inputs over cells of neighbouring rows (arXiv 2409.11902)",
        .uses = "o"},
    [EXACT] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep fewer tensors, from which the same gradients follow without another product"},
    [EXACT_TOKENS] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same, and run small products, such as those over tokens, twice"},
    [EXACT_PLUS] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same, and run the products that save most, up to 12 % of a step's, again"},
    [CHECKPOINT] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same with up to 25 %: about the inputs of blocks are kept"},
    [COMPACT] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep such tensors as codes of --code-bits bits, sums of residual paths in at least 8; run "
        "small products, up to 4 % of a step's, again",
        .uses = "q"},
    [COMPACT_PLUS] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "such codes, and the products that save most, up to 12 % of a step's, run again",
        .uses = "q"},
    [COMPACT_PRUNED] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "keep such tensors pruned, with a code of GELU's derivative", .uses = "pc"},
    [LEAST] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep a few tensors between blocks as codes of --code-bits bits, and make all others again",
        .uses = "q"},
    [AUTO] = {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "measure the gradient errors of each tensor's forms, and choose within --memory-limit",
        .frames = frames},
};

/* Presets with dense's gradients come first. */
static const keep_rung ladder[] = {{"dense", 0}, {"exact", 0}, {"exact-tokens", 0}, {"compact", 8},
    {"compact", 4}, {"least", 8}, {"least", 4}};

const keep_presets net_presets = {
    .names = names, .rows = rows, .ladder = ladder, .rungs = sizeof ladder / sizeof *ladder};

clprune_net_keep net_preset_keep(size_t preset, const keep_how *how)
{
    static const clprune_net_preset nets[PRESETS] = {[DENSE] = CLPRUNE_NET_DENSE,
        [PAPER] = CLPRUNE_NET_INPUTS,
        [PRUNED] = CLPRUNE_NET_INPUTS,
        [QUANTISED] = CLPRUNE_NET_INPUTS,
        [POOLED] = CLPRUNE_NET_INPUTS,
        [EXACT] = CLPRUNE_NET_EXACT,
        [EXACT_TOKENS] = CLPRUNE_NET_EXACT,
        [EXACT_PLUS] = CLPRUNE_NET_EXACT,
        [CHECKPOINT] = CLPRUNE_NET_EXACT,
        [COMPACT] = CLPRUNE_NET_COMPACT,
        [COMPACT_PLUS] = CLPRUNE_NET_COMPACT,
        [COMPACT_PRUNED] = CLPRUNE_NET_COMPACT,
        [LEAST] = CLPRUNE_NET_LEAST,
        [AUTO] = CLPRUNE_NET_EXACT};
    clprune_net_keep keep = {.preset = nets[preset], .keep = how->keep, .store = how->store};
    const bool prunes = preset == PAPER || preset == PRUNED || preset == COMPACT_PRUNED;
    keep.keep.form = prunes             ? CLPRUNE_FORM_PRUNED
                     : preset == POOLED ? CLPRUNE_FORM_POOLED
                                        : CLPRUNE_FORM_QUANTISED;
    if (preset == COMPACT_PRUNED)
        keep.gelu_bits = how->gelu_bits;
    if (preset == EXACT_TOKENS)
        keep.products = CHEAP_PRODUCT;
    if (preset == EXACT_PLUS || preset == COMPACT_PLUS)
        keep.extra_work = PLUS_WORK;
    if (preset == CHECKPOINT)
        keep.extra_work = CHECKPOINT_WORK;
    return keep;
}
