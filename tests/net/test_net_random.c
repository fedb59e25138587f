/* Random graphs: layers on values of few shapes, some of which go to several layers. Dense
 * gradients against differences of losses; those of the other presets against the dense ones, and
 * once more with the tensors that a preset keeps kept dense and all others made again.
 *
 * A failure prints the graph's seed and its layers. */
#include "net/net_models.h"

enum { GRAPHS = 40, GRAPHS_FULL = 1000, BATCH = 3, MOST = 48, TEXT = 2048, ROWS = 6, COLS = 16 };

/* ---- the generator --------------------------------------------------------------------------- */

typedef struct drawn {
    clprune_net_value value;
    size_t rows, cols, side; /* side: of an image; 0: none */
    bool used;
} drawn;

static char layers[TEXT]; /* of the last graph */

typedef struct graph {
    clprune_net *net;
    test_rng rng;
    drawn values[MOST];
    size_t count;
    bool smooth; /* no ReLU, no max pool */
} graph;

static const char *note(graph *g, const char *layer, const drawn *a, const drawn *b)
{
    static char name[32];
    const size_t at = strlen(layers);
    (void)snprintf(name, sizeof name, "%zu.%s", g->count, layer);
    if (b != NULL)
        (void)snprintf(layers + at, TEXT - at, " %s(%td,%td)", name, a - g->values, b - g->values);
    else
        (void)snprintf(layers + at, TEXT - at, " %s(%td)", name, a - g->values);
    return name;
}

/* The last value, or any. */
static drawn *draw(graph *g)
{
    return &g->values[test_rng_below(&g->rng, 2) ? g->count - 1
                                                 : test_rng_below(&g->rng, g->count)];
}

/* Any value of the same shape, which may be x itself. */
static drawn *draw_like(graph *g, const drawn *x)
{
    for (;;) {
        drawn *y = &g->values[test_rng_below(&g->rng, g->count)];
        if (y->rows == x->rows && y->cols == x->cols && y->side == x->side)
            return y;
    }
}

static drawn *keep_value(graph *g, drawn *x, drawn *y, drawn made)
{
    x->used = true;
    if (y != NULL)
        y->used = true;
    g->values[g->count++] = made;
    return &g->values[g->count - 1];
}

static drawn add_conv(graph *g, const drawn *x)
{
    drawn made = *x;
    made.cols = test_rng_below(&g->rng, 2) ? 16 : 32;
    const bool halve = x->side > 4 && test_rng_below(&g->rng, 4) == 0;
    const size_t kernel = test_rng_below(&g->rng, 3) > 0 ? 3 : 1;
    const clprune_net_conv conv = {.out = made.cols,
        .kernel = {kernel, kernel},
        .stride = {halve ? 2 : 1, halve ? 2 : 1},
        .padding = {kernel / 2, kernel / 2},
        .groups = test_rng_below(&g->rng, 3) > 0 ? 1
                  : made.cols == x->cols         ? made.cols
                                                 : 2,
        .bias = test_rng_below(&g->rng, 2)};
    if (halve)
        made.side /= 2;
    made.rows = made.side * made.side;
    made.value = clprune_net_conv2d(g->net, note(g, "conv2d", x, NULL), x->value, &conv);
    return made;
}

static drawn add_pool(graph *g, drawn *x)
{
    drawn made = *x;
    made.side /= 2;
    made.rows /= 4;
    made.value = clprune_net_max_pool(
        g->net, note(g, "max_pool", x, NULL), x->value, &(clprune_max_pool_desc){.kernel = {2, 2}});
    if (made.side < 4) {
        drawn *small = keep_value(g, x, NULL, made);
        small->used = true;
        made.side *= 2;
        made.rows *= 4;
        made.value =
            clprune_net_upsample(g->net, note(g, "upsample", small, NULL), small->value, 2);
    }
    return made;
}

/* Features in four groups, or windows of two rows: order {0, 2, 1, 3} of both. */
static drawn add_permuted(graph *g, const drawn *x)
{
    drawn made = *x;
    const bool windows = x->rows % 4 == 0 && test_rng_below(&g->rng, 2);
    const clprune_permute_desc desc =
        windows ? (clprune_permute_desc){4, {2, x->rows / 4, 2, x->cols}, {0, 2, 1, 3}}
                : (clprune_permute_desc){3, {x->rows, 4, x->cols / 4}, {0, 2, 1}};
    made.value = clprune_net_permute(g->net, note(g, "permute", x, NULL), x->value, &desc, x->cols,
        (clprune_extent){x->side, x->side});
    return made;
}

/* Rows or features of another number; an image has no other rows. */
static drawn add_linear(graph *g, const drawn *x)
{
    drawn made = *x;
    if (x->side == 0 && test_rng_below(&g->rng, 3) == 0) {
        made.rows = test_rng_below(&g->rng, 2) ? ROWS : 4;
        made.value =
            clprune_net_linear_rows(g->net, note(g, "linear_rows", x, NULL), x->value, made.rows);
    } else {
        made.cols = test_rng_below(&g->rng, 2) ? COLS : 32;
        made.value = clprune_net_linear(g->net, note(g, "linear", x, NULL), x->value, made.cols);
    }
    return made;
}

/* Back to twice as many pixels, or as many. */
static drawn add_transposed(graph *g, const drawn *x)
{
    drawn made = *x;
    const bool twice = x->side < NET_SIDE / 2;
    const clprune_net_conv conv = {.out = 16,
        .kernel = {3, 3},
        .stride = {twice ? 2 : 1, twice ? 2 : 1},
        .padding = {1, 1},
        .groups = test_rng_below(&g->rng, 2) + 1,
        .bias = test_rng_below(&g->rng, 2),
        .output_padding = {twice, twice}};
    made.cols = 16;
    made.side *= twice ? 2 : 1;
    made.rows = made.side * made.side;
    made.value =
        clprune_net_conv_transpose2d(g->net, note(g, "conv_transpose2d", x, NULL), x->value, &conv);
    return made;
}

/* As many pixels, each a sum of up to three: also none of some. */
static drawn add_resampled(graph *g, const drawn *x)
{
    enum { SIDE = NET_SIDE, ENTRIES = 3 * SIDE };
    uint32_t first[2][SIDE + 1], from[2][ENTRIES];
    float weight[2][ENTRIES];
    clprune_net_axis axes[2];
    drawn made = *x;
    for (size_t k = 0; k < 2; k++) {
        first[k][0] = 0;
        for (size_t i = 0; i < x->side; i++) {
            first[k][i + 1] = first[k][i] + (uint32_t)test_rng_below(&g->rng, 4);
            for (size_t e = first[k][i]; e < first[k][i + 1]; e++) {
                from[k][e] = (uint32_t)test_rng_below(&g->rng, x->side);
                weight[k][e] = test_rng_uniform(&g->rng, -1, 1);
            }
        }
        axes[k] = (clprune_net_axis){x->side, first[k], from[k], weight[k]};
    }
    made.value =
        clprune_net_resample(g->net, note(g, "resample", x, NULL), x->value, &axes[0], &axes[1]);
    return made;
}

/* As many elements, of any places; or as many rows. */
static drawn add_gathered(graph *g, const drawn *x)
{
    const size_t run = test_rng_below(&g->rng, 2) ? x->cols : 1, all = x->rows * x->cols;
    uint32_t *from = malloc(all * sizeof *from);
    assert_non_null(from);
    for (size_t i = 0; i < all; i++)
        from[i] = i % run > 0 ? from[i - 1] + (from[i - 1] != CLPRUNE_NET_NOWHERE)
                  : test_rng_below(&g->rng, 8) == 0
                      ? CLPRUNE_NET_NOWHERE
                      : (uint32_t)(test_rng_below(&g->rng, all / run) * run);
    drawn made = *x;
    made.value = clprune_net_gather(g->net, note(g, "gather", x, NULL), x->value,
        &(clprune_net_places){x->rows, x->cols, {x->side, x->side}, from});
    free(from);
    return made;
}

/* Two values of a shape in one, or a part of one. */
static drawn add_part(graph *g, drawn *x, drawn **y)
{
    drawn made = *x;
    clprune_net *net = g->net;
    if (x->side == 0 && test_rng_below(&g->rng, 2)) {
        *y = draw_like(g, x);
        made.rows = 2 * x->rows;
        made.value = clprune_net_concat(
            net, note(g, "concat_rows", x, *y), x->value, (*y)->value, CLPRUNE_AXIS_ROWS);
        drawn *both = keep_value(g, x, *y, made);
        *y = NULL;
        both->used = true;
        made.rows = x->rows;
        made.value = clprune_net_slice(
            net, note(g, "slice_rows", both, NULL), both->value, CLPRUNE_AXIS_ROWS, 1, made.rows);
    } else if (x->cols < 32) {
        *y = draw_like(g, x);
        made.cols = 2 * x->cols;
        made.value = clprune_net_concat(
            net, note(g, "concat", x, *y), x->value, (*y)->value, CLPRUNE_AXIS_FEATURES);
    } else {
        made.cols = 16;
        made.value = clprune_net_slice(net, note(g, "slice", x, NULL), x->value,
            CLPRUNE_AXIS_FEATURES, test_rng_below(&g->rng, 2) ? 16 : 5, 16);
    }
    return made;
}

/* LSTM, of half as many states, or GRU, over all rows or each two; from the mean of all rows, too.
 */
static drawn add_recurrent(graph *g, drawn *x)
{
    const bool lstm = x->cols % 2 == 0 && test_rng_below(&g->rng, 2);
    const clprune_recurrent_desc desc = {.cell = lstm ? CLPRUNE_CELL_LSTM : CLPRUNE_CELL_GRU,
        .steps = x->rows % 2 == 0 && test_rng_below(&g->rng, 2) ? 2 : 0,
        .reverse = test_rng_below(&g->rng, 2)};
    drawn made = *x;
    made.used = false;
    made.value =
        clprune_net_linear(g->net, note(g, "linear", x, NULL), x->value, (lstm ? 2 : 3) * x->cols);
    made.cols = (lstm ? 2 : 3) * x->cols;
    drawn *z = keep_value(g, x, NULL, made);
    made.cols = x->cols;
    z->used = true;
    if (desc.steps == 0 && test_rng_below(&g->rng, 2)) {
        drawn states = {.cols = x->cols, .rows = 1};
        states.value = clprune_net_mean(g->net, note(g, "mean", x, NULL), x->value);
        drawn *first = keep_value(g, x, NULL, states);
        first->used = true;
        made.value =
            clprune_net_recurrent_from(g->net, note(g, lstm ? "lstm_from" : "gru_from", z, first),
                z->value, first->value, &desc, true);
    } else {
        made.value = clprune_net_recurrent(
            g->net, note(g, lstm ? "lstm" : "gru", z, NULL), z->value, &desc, true);
    }
    return made;
}

/* A residual block: x + ls * f(x), or of another value in place of the first x. */
static void add_block(graph *g)
{
    drawn *x = draw(g), *t = x, made = *x;
    clprune_net *net = g->net;
    const size_t kind = test_rng_below(&g->rng, 4);
    made.used = false;
    if (kind != 1) {
        made.value = clprune_net_affine(net, note(g, "affine", t, NULL), t->value);
        t = keep_value(g, t, NULL, made);
    }
    if (kind < 2 && x->side == 0) {
        made.value =
            clprune_net_linear_rows(net, note(g, "linear_rows", t, NULL), t->value, made.rows);
        t = keep_value(g, t, NULL, made);
    } else {
        made.cols = 32;
        made.value = clprune_net_linear(net, note(g, "linear", t, NULL), t->value, 32);
        t = keep_value(g, t, NULL, made);
        if (kind == 3) {
            made.value = clprune_net_gelu(net, note(g, "gelu", t, NULL), t->value);
            t = keep_value(g, t, NULL, made);
        }
        made.cols = x->cols;
        made.value = clprune_net_linear(net, note(g, "linear", t, NULL), t->value, made.cols);
        t = keep_value(g, t, NULL, made);
    }
    if (test_rng_below(&g->rng, 4) == 0)
        x = draw_like(g, x);
    made.value = clprune_net_layerscale(net, note(g, "layerscale", x, t), x->value, t->value);
    (void)keep_value(g, x, t, made);
}

static void add_layer(graph *g)
{
    drawn *x = draw(g), *y = NULL, made = *x;
    clprune_net *net = g->net;
    made.used = false;
    switch (test_rng_below(&g->rng, 16)) {
    case 0:
        made.value = clprune_net_affine(net, note(g, "affine", x, NULL), x->value);
        break;
    case 1:
        made.value = clprune_net_gelu(net, note(g, "gelu", x, NULL), x->value);
        break;
    case 2:
        if (g->smooth)
            made.value = clprune_net_scale(net, note(g, "scale", x, NULL), x->value, -0.75f);
        else
            made.value = clprune_net_relu(net, note(g, "relu", x, NULL), x->value);
        break;
    case 3:
    case 4:
        y = draw_like(g, x);
        made.value = clprune_net_layerscale(net, note(g, "layerscale", x, y), x->value, y->value);
        break;
    case 5:
    case 6:
        y = draw_like(g, x);
        made.value = clprune_net_add(net, note(g, "add", x, y), x->value, y->value);
        if (test_rng_below(&g->rng, 3) == 0) { /* as in BERT */
            x = keep_value(g, x, y, made);
            y = NULL;
            made.value = clprune_net_layer_norm(net, note(g, "layer_norm", x, NULL), x->value);
        } else if (!g->smooth && test_rng_below(&g->rng, 2)) {
            x = keep_value(g, x, y, made);
            y = NULL;
            made.value = clprune_net_relu(net, note(g, "relu", x, NULL), x->value);
        }
        break;
    case 7:
        if (x->side == 0 && test_rng_below(&g->rng, 3) > 0) {
            made = add_recurrent(g, x);
            break;
        }
        made.value = clprune_net_dropout(net, note(g, "dropout", x, NULL), x->value, 0.25f);
        break;
    case 8:
        made.value = clprune_net_batch_norm(net, note(g, "batch_norm", x, NULL), x->value);
        if (!g->smooth && test_rng_below(&g->rng, 2)) {
            x = keep_value(g, x, NULL, made);
            made.value = clprune_net_relu(net, note(g, "relu", x, NULL), x->value);
        }
        break;
    case 9:
    case 10:
        add_block(g);
        return;
    case 11:
        made = x->side > 0 && test_rng_below(&g->rng, 3) > 0 ? add_resampled(g, x)
                                                             : add_part(g, x, &y);
        break;
    case 12:
        made = test_rng_below(&g->rng, 2) ? add_permuted(g, x) : add_gathered(g, x);
        break;
    case 13:
        if (x->side >= 4 && !g->smooth) {
            made = add_pool(g, x);
            break;
        } /* fall through */
    default:
        made = x->side == 0                      ? add_linear(g, x)
               : test_rng_below(&g->rng, 5) == 0 ? add_transposed(g, x)
                                                 : add_conv(g, x);
    }
    made.used = false;
    (void)keep_value(g, x, y, made);
}

/* Each value that nothing reads goes to the loss. */
static void add_head(graph *g, size_t outputs, bool squared)
{
    clprune_net_value sum = {0};
    const size_t count = g->count;
    for (size_t i = 0; i < count; i++) {
        drawn *x = &g->values[i];
        if (x->used)
            continue;
        clprune_net_value y =
            test_rng_below(&g->rng, 4) > 0
                ? clprune_net_mean(g->net, note(g, "mean", x, NULL), x->value)
                : clprune_net_flatten(g->net, note(g, "flatten", x, NULL), x->value);
        g->count++;
        y = clprune_net_linear(g->net, note(g, "head", x, NULL), y, outputs);
        g->count++;
        if (sum.id != 0)
            y = clprune_net_add(g->net, note(g, "sum", x, NULL), sum, y);
        g->count++;
        sum = y;
    }
    if (squared)
        clprune_net_mean_squared_error(g->net, sum);
    else
        clprune_net_cross_entropy(g->net, sum);
}

static bool is_smooth(uint64_t seed)
{
    return seed % 4 < 2;
}

/* Even seeds: rows and a mean squared error; odd ones: images and a cross-entropy. */
static void build(clprune_net *net, const net_model *model)
{
    graph g = {.net = net, .rng = {model->seed * 1000003}, .smooth = is_smooth(model->seed)};
    drawn x = {.rows = model->rows, .cols = model->cols};
    layers[0] = 0;
    if (model->rows > 0) {
        x.value = clprune_net_rows(net, model->rows, model->cols);
    } else {
        x = (drawn){.side = NET_SIDE, .cols = 3, .rows = NET_SIDE * NET_SIDE};
        x.value = clprune_net_images(net, 3, NET_SIDE, NET_SIDE);
        const drawn image = x;
        g.values[0] = image;
        g.count = 1;
        x = (drawn){.side = NET_SIDE / 2, .cols = 16, .rows = NET_SIDE * NET_SIDE / 4};
        x.value = clprune_net_conv2d(net, note(&g, "stem", &g.values[0], NULL), image.value,
            &(clprune_net_conv){.out = 16, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
        g.count = 0;
    }
    g.values[g.count++] = x;
    const size_t depth = 3 + test_rng_below(&g.rng, 10);
    while (g.count < depth + 1)
        add_layer(&g);
    add_head(&g, model->target_cols > 0 ? model->target_cols : NET_CLASSES, model->rows > 0);
}

/* ---- the checks ------------------------------------------------------------------------------ */

typedef struct kept_names {
    clprune_net_rule rules[64];
    size_t count;
} kept_names;

static void note_kept(void *user, const clprune_net_tensor *tensor)
{
    kept_names *names = user;
    assert_true(names->count < COUNT_OF(names->rules));
    if (tensor->kept)
        names->rules[names->count++] =
            (clprune_net_rule){.pattern = test_copy(strlen(tensor->name) + 1, tensor->name)};
}

static void compare(
    const net_job *job, const char *preset, const float *got, const float *want, double bound)
{
    size_t param = 0;
    const double worst = net_worst(job, got, want, &param);
    if (!(worst <= bound))
        fail_msg("seed %llu, %s: the gradient of %s is off by %.3g, expected at most %.3g;%s",
            (unsigned long long)job->model->seed, preset, job->params[param].name, worst, bound,
            layers);
}

static void random_graph(void **state)
{
    static const struct {
        const char *name;
        clprune_net_preset preset;
        double bound;
    } presets[] = {{"inputs", CLPRUNE_NET_INPUTS, 0.02}, {"exact", CLPRUNE_NET_EXACT, 2e-5},
        {"compact", CLPRUNE_NET_COMPACT, 0.2}, {"least", CLPRUNE_NET_LEAST, 0.3}};
    const net_model *model = *state;
    const bool smooth = is_smooth(model->seed);
    size_t param = 0;
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    const double error = net_slope_error(&dense, want, smooth ? 1e-2 : 2e-3, &param);
    if (!(error <= (smooth ? 1e-2 : 0.1)))
        fail_msg("seed %llu: the slope of %s is off by %.3g;%s", (unsigned long long)model->seed,
            dense.params[param].name, error, layers);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        const size_t mark = test_mark();
        kept_names names = {.rules = {{.pattern = "*", .again = true}}, .count = 1};
        const clprune_net_keep codes = {.preset = presets[i].preset,
            .keep = {.form = CLPRUNE_FORM_QUANTISED,
                .bits = 8,
                .rounding = CLPRUNE_ROUNDING_NEAREST,
                .rotate = model->seed % 2 == 1}};
        net_job job = net_open(test_context(), model, BATCH, &codes);
        compare(&job, presets[i].name, net_step_grads(&job), want, presets[i].bound);
        clprune_net_visit(job.net, note_kept, &names);
        const clprune_net_keep keep = {
            .preset = presets[i].preset, .rules = names.rules, .rules_count = names.count};
        net_job same = net_open(test_context(), model, BATCH, &keep);
        compare(&same, "kept dense", net_step_grads(&same), want, 2e-5);
        test_release(mark);
    }
}

int main(int argc, char **argv)
{
    static net_model models[GRAPHS_FULL];
    const bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    test_list list = {0};
    /* 424, 600: add(a, a), whose gradients meet; these and 776: cells from states */
    static const uint64_t chosen[] = {424, 600, 776};
    for (size_t i = 0; i < (full ? GRAPHS_FULL : test_small() ? 8 : GRAPHS); i++) {
        const uint64_t seed = full || i >= COUNT_OF(chosen) ? i : chosen[i];
        models[i] = (net_model){.name = seed % 2 ? "images" : "rows", .build = build, .seed = seed};
        models[i].cols = NET_SIDE;
        if (seed % 2 == 0) {
            models[i].rows = ROWS;
            models[i].cols = COLS;
            models[i].target_rows = 1;
            models[i].target_cols = 8;
        }
        test_add(&list, random_graph, &models[i], "graph %u of %s", (unsigned)seed, models[i].name);
    }
    return test_run_on_devices("net_random", &list);
}
