#include "trainer/model/keep_presets.h"

#include <string.h>

/* auto chooses forms for what these keep. */
static const char *const frames[] = {"compact", "quantised", "least", NULL};

/* What the net is told, and letters of options; sampled criterion. */
#define NET(net, kept, letters)                                                                    \
    .preset = CLPRUNE_NET_##net, .form = CLPRUNE_FORM_##kept, .uses = letters,                     \
    .criterion = CLPRUNE_CRITERION_SAMPLED

const keep_preset keep_presets[KEEP_PRESETS] = {
    {"dense", "keep what autograd keeps", NET(DENSE, QUANTISED, NULL)},
    {"paper",
        "keep the inputs of linear layers and convolutions pruned to their largest blocks (arXiv "
        "2311.16883)",
        .preset = CLPRUNE_NET_INPUTS, .form = CLPRUNE_FORM_PRUNED, .uses = "p",
        .criterion = CLPRUNE_CRITERION_LARGEST},
    {"pruned",
        "the same tensors with sampled blocks, in images around the mean of each image, which make "
        "the weight gradients unbiased",
        NET(INPUTS, PRUNED, "p")},
    {"quantised", "keep the inputs of linear layers and convolutions as codes of --code-bits bits",
        NET(INPUTS, QUANTISED, "q")},
    {"pooled", "keep the means of these inputs over cells of neighbouring rows (arXiv 2409.11902)",
        NET(INPUTS, POOLED, "o")},
    {"exact", "keep fewer tensors, from which the same gradients follow without another product",
        NET(EXACT, QUANTISED, NULL)},
    {"exact-tokens", "the same, and run small products, such as those over tokens, twice",
        NET(EXACT, QUANTISED, NULL), .products = 256},
    {"exact-plus", "the same, and run the products that save most, up to 12 % of a step's, again",
        NET(EXACT, QUANTISED, NULL), .extra_work = 12},
    {"checkpoint", "the same with up to 25 %: about the inputs of blocks are kept",
        NET(EXACT, QUANTISED, NULL), .extra_work = 25},
    {"compact",
        "keep such tensors as codes of --code-bits bits, sums of residual paths in at least 8; run "
        "small products, up to 4 % of a step's, again",
        NET(COMPACT, QUANTISED, "q")},
    {"compact-plus",
        "such codes, and the products that save most, up to 12 % of a step's, run again",
        NET(COMPACT, QUANTISED, "q"), .extra_work = 12},
    {"compact-pruned", "keep such tensors pruned, with a code of GELU's derivative",
        NET(COMPACT, PRUNED, "pc"), .index_type = CLPRUNE_INDEX_SMALLEST},
    {"least",
        "keep a few tensors between blocks as codes of --code-bits bits, and make all others again",
        NET(LEAST, QUANTISED, "q")},
    {"auto", "measure the gradient errors of each tensor's forms, and choose within --memory-limit",
        NET(EXACT, QUANTISED, NULL), .index_type = CLPRUNE_INDEX_SMALLEST, .frames = frames},
};

/* Presets with dense's gradients come first. */
const keep_rung keep_ladder[KEEP_RUNGS] = {{"dense", 0}, {"exact", 0}, {"exact-tokens", 0},
    {"compact", 8}, {"compact", 4}, {"least", 8}, {"least", 4}};

bool keep_has_form(const keep_rule *rule, clprune_form form)
{
    return !rule->recomputed && rule->keep.form == form;
}

bool keep_preset_has(size_t preset, char letter)
{
    const char *uses = keep_presets[preset].uses;
    return uses != NULL && strchr(uses, letter) != NULL;
}

bool keep_preset_chooses(size_t preset)
{
    return keep_presets[preset].frames != NULL;
}

bool keep_preset_is_exact(size_t preset)
{
    return !keep_preset_chooses(preset) && keep_presets[preset].uses == NULL;
}

size_t keep_preset_named(const char *name)
{
    size_t i = 0;
    while (strcmp(keep_presets[i].name, name) != 0)
        ++i;
    return i;
}

const char *const *keep_preset_names(void)
{
    static const char *names[KEEP_PRESETS + 1];
    for (size_t i = 0; i < KEEP_PRESETS; ++i)
        names[i] = keep_presets[i].name;
    return names;
}

clprune_net_keep keep_preset_net(size_t preset, const keep_how *how)
{
    const keep_preset *row = &keep_presets[preset];
    clprune_net_keep keep = {.preset = row->preset,
        .keep = how->keep,
        .gelu_bits = keep_preset_has(preset, KEEP_CODED) ? how->gelu_bits : 0,
        .products = row->products,
        .extra_work = row->extra_work,
        .store = how->store};
    keep.keep.form = row->form;
    return keep;
}
