/* Nets of tokens: gradients of each preset, with a loss in chunks and with whole logits; tied
 * weights; losses of rows that count; logits; what a token loss refuses. */
#include "clprune/cross_entropy.h"
#include "net/net_models.h"

enum { BATCH = 5, ROWS = 9, COLS = 32 };

/* Ways to end a model. */
enum { HEAD, TIED, TIED_BACK, LOGITS };

static void build(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "wte", x, NET_VOCABULARY, COLS);
    x = clprune_net_positions(net, "wpe", x);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "h.0" : "h.1");
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = clprune_net_linear_rows(net, "mix", t, model->rows);
        x = clprune_net_add(net, "add_1", x, t);
        t = clprune_net_linear(net, "fc1", clprune_net_layer_norm(net, "ln_2", x), 64);
        t = clprune_net_linear(net, "fc2", clprune_net_gelu(net, "gelu", t), COLS);
        x = clprune_net_add(net, "add_2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "ln_f", x);
    if (model->seed == LOGITS) {
        clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_VOCABULARY));
        return;
    }
    clprune_net_token_loss(net, "head", x, NET_VOCABULARY);
    if (model->seed == TIED)
        clprune_net_tie(net, "head.weight", "wte.weight");
    else if (model->seed == TIED_BACK)
        clprune_net_tie(net, "wte.weight", "head.weight");
}

/* Patches, a class token and positions; the head reads the class token's row. */
static void build_vit(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_patch_embed(net, "patches", x, 4, COLS);
    x = clprune_net_positions(net, "pos_embed", clprune_net_class_token(net, "cls_token", x));
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "blocks.0" : "blocks.1");
        clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
        x = clprune_net_add(net, "add1", x, clprune_net_linear_rows(net, "mix", t, 10));
        t = clprune_net_linear(net, "fc1", clprune_net_layer_norm(net, "norm2", x), 64);
        t = clprune_net_linear(net, "fc2", clprune_net_gelu(net, "gelu", t), COLS);
        x = clprune_net_add(net, "add2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_row(net, "cls", clprune_net_layer_norm(net, "norm", x), 0);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static const net_model models[] = {{"vit", build_vit, 0, NET_SIDE, 0, 0, false, false, 0},
    {"head", build, ROWS, 0, ROWS, 0, false, false, HEAD},
    {"tied head", build, ROWS, 0, ROWS, 0, false, false, TIED},
    {"tied embedding", build, ROWS, 0, ROWS, 0, false, false, TIED_BACK},
    {"logits", build, ROWS, 0, ROWS, 0, false, false, LOGITS}};

static void gradients(void **state)
{
    static const struct {
        const char *name;
        clprune_net_preset preset;
        clprune_form form;
        double bound;
    } presets[] = {{"inputs", CLPRUNE_NET_INPUTS, CLPRUNE_FORM_QUANTISED, 1e-2},
        {"exact", CLPRUNE_NET_EXACT, CLPRUNE_FORM_DENSE, 1e-5},
        {"compact", CLPRUNE_NET_COMPACT, CLPRUNE_FORM_QUANTISED, 2e-2},
        {"least", CLPRUNE_NET_LEAST, CLPRUNE_FORM_QUANTISED, 2e-2}};
    const net_model *model = *state;
    size_t param = 0;
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_same_floats(
        "gradients", 1, dense.elements, net_step_grads(&dense), want, "%s, again", model->name);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= 1e-2))
        fail_msg(
            "%s: the slope of %s is off by %.3g", model->name, dense.params[param].name, error);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        const size_t mark = test_mark();
        const clprune_net_keep keep = {.preset = presets[i].preset,
            .keep = {.form = presets[i].form, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST}};
        net_job job = net_open(test_context(), model, BATCH, &keep);
        net_close(&job, presets[i].name, net_step_grads(&job), want, presets[i].bound);
        test_release(mark);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, gradients, models, "gradients of %s");
    return test_run_on_devices("net_tokens", &list);
}
