/* Gradients of which clprune_net_on_grads tells: those of all parameters that are trained, written,
 * and no others, whatever is frozen and merged. */
#include "net/net_kinds.h"
#include "net/net_models.h"

enum { BATCH = 3, ROWS = 4, COLS = 16, NAMES = 24 };

/* Frozen: parameter `only`, or all before it if `before`; SIZE_MAX: none. */
static size_t frozen_at;
static bool frozen_before;

/* What is added beside the layers of kinds[]. */
#define KIND(chain, ...)                                                                           \
    static clprune_net_value chain(clprune_net *net, const char *name, clprune_net_value x)        \
    {                                                                                              \
        (void)name;                                                                                \
        return __VA_ARGS__;                                                                        \
    }
static const clprune_net_conv conv = {
    .out = COLS, .kernel = {2, 2}, .padding = {1, 1}, .bias = true};
static const clprune_net_conv depthwise = {
    .out = COLS, .kernel = {3, 3}, .padding = {1, 1}, .groups = COLS};
static const clprune_net_attn attn = {.heads = 2};

KIND(affine_mean, clprune_net_mean(net, "m", clprune_net_affine(net, "n", x)))
KIND(affine_gelu, clprune_net_gelu(net, "g", clprune_net_affine(net, "n", x)))
KIND(affine_rows, clprune_net_linear_rows(net, "mix", clprune_net_affine(net, "n", x), ROWS))
KIND(affine_linear, clprune_net_linear(net, "l", clprune_net_affine(net, "n", x), COLS))
KIND(layer_norm_linear, clprune_net_linear(net, "l", clprune_net_layer_norm(net, "n", x), COLS))
KIND(norm_relu, clprune_net_relu(net, "r", clprune_net_batch_norm(net, "n", x)))
KIND(norm_add_relu,
    clprune_net_relu(net, "r", clprune_net_add(net, "s", clprune_net_batch_norm(net, "n", x), x)))
KIND(gelu_scale, clprune_net_layerscale(net, "n", x,
                     clprune_net_linear(net, "t", clprune_net_gelu(net, "g", x), COLS)))
KIND(affine_scale, clprune_net_layerscale(net, "n", x,
                       clprune_net_linear(net, "t", clprune_net_affine(net, "f", x), COLS)))
KIND(positions_of, clprune_net_positions_of(net, "n", x, 1, 2, 5))
KIND(rows_scale, clprune_net_layerscale(net, "n", x, clprune_net_linear_rows(net, "t", x, ROWS)))
KIND(class_token, clprune_net_row(net, "r", clprune_net_class_token(net, "n", x), 0))
KIND(conv_norm_relu, clprune_net_relu(net, "r",
                         clprune_net_batch_norm(net, "n", clprune_net_conv2d(net, "c", x, &conv))))
KIND(squeeze, clprune_net_gate(net, "gate", x,
                  clprune_net_hard_sigmoid(net, "hs",
                      clprune_net_linear(net, "l", clprune_net_mean(net, "m", x), COLS))))
KIND(gated_sum, clprune_net_add(net, "s", clprune_net_relu6(net, "r", x),
                    clprune_net_gate(net, "gate", x, clprune_net_mean(net, "m", x))))
KIND(grn, clprune_net_layerscale(
              net, "n", x, clprune_net_gate(net, "gate", x, clprune_net_response(net, "r", x))))
KIND(joined,
    clprune_net_concat(net, "c", x,
        clprune_net_slice(net, "s", clprune_net_relu(net, "r", x), CLPRUNE_AXIS_FEATURES, 3, 5),
        CLPRUNE_AXIS_FEATURES))
KIND(joined_rows,
    clprune_net_concat(net, "c", clprune_net_linear_rows(net, "l", x, 2), x, CLPRUNE_AXIS_ROWS))
KIND(halves, clprune_net_add(net, "s", clprune_net_slice(net, "h", x, CLPRUNE_AXIS_FEATURES, 8, 8),
                 clprune_net_slice(net, "l", x, CLPRUNE_AXIS_FEATURES, 0, 8)))
KIND(depthwise_norm, clprune_net_batch_norm(net, "n", clprune_net_conv2d(net, "c", x, &depthwise)))
KIND(
    attention, clprune_net_attention(net, "at", clprune_net_linear(net, "qkv", x, 3 * COLS), &attn))
KIND(head_norm, clprune_net_head_norm(net, "hn", clprune_net_linear(net, "l", x, COLS), 0, 4, 4))
KIND(head_norms,
    clprune_net_head_norm(net, "k", clprune_net_head_norm(net, "q", x, 0, 2, 4), 8, 1, 4))
KIND(swiglu, clprune_net_swiglu(net, "sw", clprune_net_linear(net, "l", x, 2 * COLS)))
KIND(gru, clprune_net_recurrent(net, "gru", clprune_net_linear(net, "l", x, 12),
              &(clprune_recurrent_desc){.cell = CLPRUNE_CELL_GRU}, false))
KIND(rnn, clprune_net_recurrent(net, "rnn", clprune_net_linear(net, "l", x, 3),
              &(clprune_recurrent_desc){.cell = CLPRUNE_CELL_TANH, .steps = 2}, true))
static const clprune_recurrent_desc pairs = {.steps = 2, .reverse = true};
KIND(lstm_from, clprune_net_recurrent_from(net, "lstm", clprune_net_linear(net, "l", x, 12),
                    clprune_net_linear(net, "states",
                        clprune_net_slice(net, "first", x, CLPRUNE_AXIS_ROWS, 0, 2), 6),
                    &pairs, true))
KIND(tied,
    (x = clprune_net_linear(net, "l", x, COLS), clprune_net_tie(net, "l.weight", "a.weight"), x))

#define NAMED(kind)                                                                                \
    {                                                                                              \
#kind, kind                                                                                \
    }
static const net_kind chains[] = {NAMED(affine_mean), NAMED(affine_gelu), NAMED(affine_rows),
    NAMED(affine_linear), NAMED(layer_norm_linear), NAMED(norm_relu), NAMED(norm_add_relu),
    NAMED(gelu_scale), NAMED(affine_scale), NAMED(positions_of), NAMED(rows_scale),
    NAMED(class_token), NAMED(conv_norm_relu), NAMED(depthwise_norm), NAMED(squeeze),
    NAMED(gated_sum), NAMED(grn), NAMED(joined), NAMED(joined_rows), NAMED(halves),
    NAMED(attention), NAMED(head_norm), NAMED(head_norms), NAMED(swiglu), NAMED(gru), NAMED(rnn),
    NAMED(lstm_from), NAMED(tied)};

/* A kind of layer between linear ones; model->seed: its number. */
static void build(clprune_net *net, const net_model *model)
{
    char names[NAMES][64];
    size_t count = 0;
    clprune_net_value x = clprune_net_pixels(net, COLS, 2, ROWS / 2);
    x = clprune_net_linear(net, "a", x, COLS);
    x = (model->seed < COUNT_OF(kinds) ? &kinds[model->seed]
                                       : &chains[model->seed - COUNT_OF(kinds)])
            ->add(net, "n", x);
    x = clprune_net_mean(net, "mean", clprune_net_linear(net, "b", x, NET_CLASSES));
    clprune_net_cross_entropy(net, x);
    clprune_net *whole = NULL; /* for the names */
    if (frozen_at == SIZE_MAX)
        return;
    const size_t at = frozen_at;
    clprune_net_weight weight;
    frozen_at = SIZE_MAX;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = 1}, &whole));
    build(whole, model);
    TEST_OK(clprune_net_settle(whole, NULL));
    for (; clprune_net_weight_at(whole, count, &weight) && count < NAMES; count++)
        (void)snprintf(names[count], sizeof names[0], "%s", weight.name);
    clprune_net_destroy(whole);
    frozen_at = at;
    for (size_t i = frozen_before ? 0 : at; i <= at; i++)
        clprune_net_freeze(net, names[i]);
}

static size_t told;

/* Each element of a part is a number. */
static clprune_status ready(void *user, clprune_mat grads)
{
    const size_t mark = test_mark();
    float *values = test_floats(grads.cols);
    (void)user;
    TEST_OK(clprune_mat_read(test_context(), grads, values));
    for (size_t i = 0; i < grads.cols; i++)
        if (!isfinite(values[i]))
            fail_msg("parameter %zu frozen%s: element %zu of a part of %zu is %g", frozen_at,
                frozen_before ? ", and those before it" : "", i, grads.cols, (double)values[i]);
    told += grads.cols;
    test_release(mark);
    return CLPRUNE_SUCCESS;
}

static void fill_with_nan(const net_job *job)
{
    const float nan = NAN;
    for (size_t i = 0; i < job->count; i++) {
        size_t bytes;
        const cl_mem buffer = job->params[i].grad.buffer;
        TEST_CL(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
        TEST_CL(clEnqueueFillBuffer(clprune_context_queue(job->context), buffer, &nan, sizeof nan,
            0, bytes, 0, NULL, NULL));
    }
}

/* The gradients of a net are those of the net of which nothing is frozen. */
static void compare(net_job *job, const net_job *whole, const float *all)
{
    const float *got = net_grads(job);
    size_t at = 0, from;
    for (size_t i = 0; i < job->count; i++) {
        const size_t count = job->params[i].grad.rows * job->params[i].grad.cols;
        from = 0;
        for (size_t k = 0; strcmp(whole->params[k].name, job->params[i].name) != 0; k++)
            from += whole->params[k].grad.rows * whole->params[k].grad.cols;
        double error = 0, size = 1e-12;
        for (size_t k = 0; k < count; k++) {
            const double want = (double)all[from + k], d = (double)got[at + k] - want;
            error += d * d;
            size += want * want;
        }
        if (!(error <= 1e-7 * size))
            fail_msg("%s with parameter %zu frozen: off by %.3g", job->params[i].name, frozen_at,
                sqrt(error / size));
        at += count;
    }
}

static void freezes(void **state)
{
    static const clprune_net_preset presets[] = {
        CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT, CLPRUNE_NET_LEAST};
    const net_kind *of = *state;
    const size_t number = of >= chains && of < chains + COUNT_OF(chains)
                              ? COUNT_OF(kinds) + (size_t)(of - chains)
                              : (size_t)(of - kinds);
    const net_model model = {
        .name = of->name, .build = build, ROWS, COLS, 0, 0, true, false, number};
    clprune_net_weight weight;
    size_t count = 0;
    frozen_at = SIZE_MAX;
    net_job whole = net_open(test_context(), &model, BATCH, NULL);
    const float *all = net_step_grads(&whole);
    while (clprune_net_weight_at(whole.net, count, &weight))
        count++;
    for (size_t i = 0; i < 2 * count - 2; i++) /* the last parameter stays */
        for (size_t k = 0; k < COUNT_OF(presets); k++) {
            const size_t mark = test_mark();
            const bool drops = i % 2 == 1 && k == 1;
            const clprune_net_desc desc = {.batch = BATCH, .drops_grads = drops};
            frozen_at = i / 2;
            frozen_before = i % 2 == 0;
            net_job job = net_open_desc(
                test_context(), &model, &desc, &(clprune_net_keep){.preset = presets[k]});
            for (size_t w = 0; clprune_net_weight_at(job.net, w, &weight); w++) {
                clprune_net_weight from;
                assert_true(clprune_net_weight_at(whole.net, w, &from));
                TEST_OK(clprune_mat_copy(test_context(), from.value, weight.value, NULL));
            }
            clprune_net_on_grads(job.net, ready, NULL);
            if (!drops)
                fill_with_nan(&job);
            told = 0;
            net_step(&job, BATCH);
            if (drops)
                assert_true(told >= job.elements);
            else
                assert_int_equal(told, job.elements);
            if (!drops && k < 2 && of->add != tied) /* without the gradient of a frozen term */
                compare(&job, &whole, all);
            test_end(job.net);
            test_release(mark);
        }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, freezes, kinds, "%s, frozen");
    TEST_ADD_EACH(&list, freezes, chains, "%s, frozen");
    return test_run_on_each_device("net_grads", &list);
}
