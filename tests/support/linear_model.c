#include "support/linear_model.h"

#include <string.h>

static const char *const archs[] = {"small", "large", NULL};
static const trainer_extra extras[] = {{"stretch", "stretch", 1, 9, "a number that nobody reads"}};

static const char *settle(trainer_sizes *sizes)
{
    net_model_usual(sizes, sizes->arch == 0 ? 16 : 32, 4, 3);
    return sizes->image == 17 ? "17 is no size" : NULL;
}

/* An image is one patch. */
static clprune_net_value linear(const trainer_sizes *sizes, clprune_net *net)
{
    const clprune_net_value images = clprune_net_images(net, 3, sizes->image, sizes->image);
    return clprune_net_patch_embed(net, "embed", images, sizes->image, sizes->classes);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    clprune_net_cross_entropy(net, clprune_net_batch_norm(net, "norm", linear(sizes, net)));
}

static void build_without(const trainer_sizes *sizes, clprune_net *net)
{
    clprune_net_cross_entropy(net, clprune_net_layer_norm(net, "norm", linear(sizes, net)));
}

static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (strcmp(weight->name, "embed.weight") == 0)
        return 0.01 * rng_uniform(r);
    return strcmp(weight->name, "norm.weight") == 0;
}

#define MODEL                                                                                      \
    .program = "linear-train", .about = "Trains a linear model.\n", .archs = archs,                \
    .extras = extras, .extras_count = 1, .settle = settle, .draw = draw

const trainer_model linear_with_state = {MODEL, .build = build};
const trainer_model linear_without_state = {MODEL, .build = build_without};
