/* Max pools in random nets, some of whose tensors are kept in bf16. The forward pass computes the
 * same as without, so the gradients are those of the same function if each goes to the element that
 * was the maximum, and not to that of rounded values. */
#include "net/net_models.h"

enum { NETS = 26, BATCH = 3, CHANNELS = 16, TEXT = 1024 };

static char layers[TEXT]; /* of the last net */

static const char *note(size_t number, const char *layer)
{
    static char name[32];
    const size_t at = strlen(layers);
    (void)snprintf(name, sizeof name, "%zu.%s", number, layer);
    (void)snprintf(layers + at, TEXT - at, " %s", name);
    return name;
}

static clprune_net_value add_conv(
    clprune_net *net, size_t number, clprune_net_value x, size_t kernel, size_t stride)
{
    return clprune_net_conv2d(net, note(number, kernel == 1 ? "conv1" : "conv3"), x,
        &(clprune_net_conv){.out = CHANNELS,
            .kernel = {kernel, kernel},
            .stride = {stride, stride},
            .padding = {kernel / 2, kernel / 2}});
}

static clprune_net_value add_pool(
    clprune_net *net, size_t number, clprune_net_value x, size_t *side, bool smaller, bool overlap)
{
    const size_t kernel = smaller && !overlap ? 2 : 3, stride = smaller ? 2 : 1;
    if (smaller)
        *side = (*side + 1) / 2;
    return clprune_net_max_pool(net, note(number, kernel == 2 ? "pool2" : "pool3"), x,
        &(clprune_max_pool_desc){.kernel = {kernel, kernel},
            .stride = {stride, stride},
            .padding = {kernel / 3, kernel / 3}});
}

/* With norm: batch norms and ReLUs. */
static void build(clprune_net *net, const net_model *model)
{
    test_rng rng = {model->seed * 1000003};
    const size_t depth = 4 + test_rng_below(&rng, 6);
    size_t side = NET_SIDE / 2;
    layers[0] = 0;
    clprune_net_value x = clprune_net_images(net, 3, NET_SIDE, NET_SIDE);
    x = add_conv(net, 0, x, 3, 2);
    for (size_t i = 1; i <= depth; i++) {
        const size_t kind = i < depth ? test_rng_below(&rng, 7) : 6;
        const bool wide = test_rng_below(&rng, 2),
                   smaller = side >= 4 && side % 2 == 0 && test_rng_below(&rng, 3);
        const clprune_net_value from = x;
        if (kind == 0 && side <= NET_SIDE) {
            x = clprune_net_upsample(net, note(i, "upsample"), x, 2);
            side *= 2;
        } else if (kind == 1 && model->norm) {
            x = clprune_net_relu(net, note(i, "relu"), x);
        } else if (kind < 6) {
            x = add_conv(net, i, x, wide ? 3 : 1, 1);
            if (kind == 4 && model->norm) {
                x = clprune_net_batch_norm(net, note(i, "norm"), x);
                x = clprune_net_relu(net, note(i, "relu"), x);
            } else if (kind == 5) {
                x = clprune_net_add(net, note(i, "add"), from, x);
            }
        }
        if (kind == 0 || kind == 4 || kind == 6)
            x = add_pool(net, i, x, &side, smaller, wide);
    }
    x = clprune_net_flatten(net, "flatten", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static void same_maxima(void **state)
{
    static const clprune_net_rule rules[] = {
        {.pattern = "0.conv3", .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}}};
    static const struct {
        const char *name;
        clprune_net_keep keep;
    } rows[] = {{"dense", {.preset = CLPRUNE_NET_DENSE, .store = CLPRUNE_VALUES_BF16}},
        {"exact", {.preset = CLPRUNE_NET_EXACT, .store = CLPRUNE_VALUES_BF16}},
        {"exact, more work",
            {.preset = CLPRUNE_NET_EXACT, .extra_work = 100, .store = CLPRUNE_VALUES_BF16}},
        {"exact, a rule",
            {.preset = CLPRUNE_NET_EXACT, .extra_work = 100, .rules = rules, .rules_count = 1}},
        {"least of 16 bits",
            {.preset = CLPRUNE_NET_LEAST, .keep = {.bits = 16}, .store = CLPRUNE_VALUES_BF16}}};
    const net_model *model = *state;
    const double bound = model->norm ? 0.025 : 0.005;
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    const double loss = net_loss(&dense, true);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (model->norm && rows[i].keep.rules_count > 0)
            continue; /* the signs of a ReLU may be others */
        const size_t mark = test_mark();
        size_t param = 0;
        net_job job = net_open(test_context(), model, BATCH, &rows[i].keep);
        const double worst = net_worst(&dense, net_step_grads(&job), want, &param);
        const double got = net_loss(&job, true);
        if (!(worst <= bound && got == loss))
            fail_msg("net %u, %s: the gradient of %s is off by %.3g, expected at most %g; the loss "
                     "is %.9g, expected %.9g;%s",
                (unsigned)model->seed, rows[i].name, dense.params[param].name, worst, bound, got,
                loss, layers);
        test_release(mark);
    }
}

int main(void)
{
    static net_model models[NETS];
    test_list list = {0};
    for (size_t i = 0; i < (test_small() ? 8 : NETS); i++) {
        models[i] = (net_model){.name = i % 2 ? "norms" : "plain",
            .build = build,
            .cols = NET_SIDE,
            .norm = i % 2,
            .seed = i};
        test_add(&list, same_maxima, &models[i], "net %u", (unsigned)i);
    }
    return test_run_on_devices("net_pools", &list);
}
