/* Nets that make some rows of a sample a pass: rows and logits are those of whole passes, for
 * parts of any size, from any row on, with weights, adapters and codes of another net; what is
 * refused; memory as planned. */
#include "net/net_models.h"

#include "clprune/memory.h"
#include "clprune/plan.h"
#include "support/test_buffer.h"

enum { BATCH = 3, ROWS = 11, COLS = 32, VOCABULARY = NET_VOCABULARY };
enum { LORA = 1, CODES = 2, ANGLES = 4 };

static void tune(clprune_net *net, uint64_t seed, bool begins)
{
    static const char *const adapters[] = {"*.lora_*"};
    if (begins && (seed & LORA) != 0)
        clprune_net_lora(net, "*", 2, 4);
    if (begins)
        return;
    if ((seed & LORA) != 0)
        clprune_net_lora(net, NULL, 0, 0);
    if ((seed & LORA) != 0)
        clprune_net_train_only(net, adapters, 1);
    if ((seed & CODES) != 0)
        clprune_net_store_frozen(net, "*", CLPRUNE_VALUES_CODES4);
}

/* Learned positions, also one for all rows; parts of features. */
static void build_gpt(clprune_net *net, const net_model *model)
{
    const clprune_net_attn attn = {.heads = 4, .causal = true, .rate = 0.1f};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    tune(net, model->seed, true);
    x = clprune_net_embedding(net, "wte", x, VOCABULARY, COLS);
    x = clprune_net_positions(net, "wpe", x);
    x = clprune_net_positions_of(net, "type", x, 1, 1, 2);
    x = clprune_net_positions_of(net, "more", x, 2, model->rows, model->rows + 3);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "h.0" : "h.1");
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = clprune_net_attention(net, "core", clprune_net_linear(net, "attn", t, 3 * COLS), &attn);
        t = clprune_net_dropout(net, "drop", clprune_net_linear(net, "proj", t, COLS), 0.2f);
        x = clprune_net_add(net, "add_1", x, t);
        t = clprune_net_linear(net, "fc1", clprune_net_layer_norm(net, "ln_2", x), 64);
        t = clprune_net_linear(net, "fc2", clprune_net_gelu_tanh(net, "gelu", t), COLS);
        x = clprune_net_layerscale(net, "ls", x, t);
    }
    clprune_net_part(net, NULL);
    const clprune_net_value a = clprune_net_slice(net, "a", x, CLPRUNE_AXIS_FEATURES, 0, COLS / 2),
                            b = clprune_net_slice(
                                net, "b", x, CLPRUNE_AXIS_FEATURES, COLS / 2, COLS / 2);
    x = clprune_net_concat(net, "ba", b, a, CLPRUNE_AXIS_FEATURES);
    clprune_net_token_loss(net, "head", clprune_net_layer_norm(net, "ln_f", x), VOCABULARY);
    clprune_net_tie(net, "head.weight", "wte.weight");
    tune(net, model->seed, false);
}

/* Other angles: by frequencies, and those of each row. */
static clprune_net_value turn(
    clprune_net *net, const net_model *model, unsigned layer, clprune_net_value x)
{
    static const double frequencies[] = {0.7};
    float angles[ROWS];
    const clprune_net_angles by[] = {
        {.pairs = 1, .frequencies = frequencies, .factor = 0.5f}, {.pairs = 1, .angles = angles}};
    for (size_t i = 0; i < ROWS; i++)
        angles[i] = (float)(i * i % 7);
    return (model->seed & ANGLES) != 0 ? clprune_net_rotary_by(net, "rotary", x, 4, 2, &by[layer])
                                       : clprune_net_rotary(net, "rotary", x, 4, 2, 2, 1e4f, false);
}

/* Rotary positions, heads that share keys. */
static void build_llama(clprune_net *net, const net_model *model)
{
    const clprune_net_attn attn = {
        .heads = 4, .kv_heads = 2, .causal = true, .queries = model->rows};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    tune(net, model->seed, true);
    x = clprune_net_embedding(net, "embed", x, VOCABULARY, COLS);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "layers.0" : "layers.1");
        clprune_net_value t = clprune_net_rms_norm(net, "norm1", x);
        t = clprune_net_project(net, "qkv", t, 2 * COLS);
        t = clprune_net_head_norm(net, "k_norm", t, COLS, 2, COLS / 4);
        t = turn(net, model, i, t);
        t = clprune_net_project(net, "o", clprune_net_attention(net, "attn", t, &attn), COLS);
        x = clprune_net_add(net, "add1", x, t);
        t = clprune_net_project(net, "up", clprune_net_rms_norm(net, "norm2", x), 96);
        t = clprune_net_project(net, "down",
            (model->seed & ANGLES) != 0
                ? clprune_net_glu(net, "glu", t, CLPRUNE_ACTIVATION_GELU_TANH)
                : clprune_net_swiglu(net, "swiglu", t),
            COLS);
        x = clprune_net_add(net, "add2", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_token_loss(net, "head", clprune_net_rms_norm(net, "norm", x), VOCABULARY);
    if ((model->seed & ANGLES) != 0)
        clprune_net_cap_logits(net, 1);
    tune(net, model->seed, false);
}

static const net_model models[] = {{"gpt", build_gpt, ROWS, 0, ROWS, 0, false, true, 0},
    {"gpt, adapters", build_gpt, ROWS, 0, ROWS, 0, false, true, LORA},
    {"llama", build_llama, ROWS, 0, ROWS, 0, false, false, 0},
    {"gemma", build_llama, ROWS, 0, ROWS, 0, false, false, ANGLES},
    {"llama, adapters, codes", build_llama, ROWS, 0, ROWS, 0, false, false, LORA + CODES}};

/* With weights of their own that adapters change, too. */
static net_job open_whole(const net_model *model)
{
    net_job job = net_open(test_context(), model, BATCH, NULL);
    for (size_t i = 0; i < job.count; i++)
        if (strstr(job.params[i].name, ".lora_B") != NULL) {
            const clprune_mat mat = job.params[i].value;
            TEST_OK(
                clprune_mat_write(job.context, mat, test_new_normal(40 + i, mat.rows * mat.cols)));
        }
    return job;
}

static void destroy_net(void *of, void *net)
{
    (void)of;
    clprune_net_destroy(net);
}

/* Not settled. */
static clprune_net *new_net(
    clprune_context *context, const clprune_net_desc *desc, const net_model *model)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(context, desc, &net));
    test_later(destroy_net, context, net);
    if (model != NULL)
        model->build(net, model);
    return net;
}

static clprune_net_desc parts_desc(size_t rows, clprune_net *of)
{
    return (clprune_net_desc){
        .batch = BATCH, .infers = true, .rows_at_once = rows, .weights_of = of};
}

/* ---- the same rows ---------------------------------------------------------------------------
 */

typedef int32_t sample[ROWS];

static void draw_tokens(uint64_t seed, size_t first, sample *tokens)
{
    test_rng rng = {seed};
    for (size_t n = 0; n < BATCH; n++)
        for (size_t r = first; r < ROWS; r++)
            tokens[n][r] = (int32_t)test_rng_below(&rng, VOCABULARY);
}

/* A pass over `rows` rows from `first` on. */
static clprune_status run(clprune_net *net, size_t batch, size_t first, size_t rows,
    const sample *tokens, clprune_ints lengths)
{
    int32_t part[BATCH * ROWS];
    for (size_t i = 0; i < batch * rows; i++)
        part[i] = tokens[i / rows][(first + i % rows) % ROWS];
    const test_buf buffer = test_buf_make(batch * rows * sizeof *part, part);
    const clprune_net_data data = {
        .batch = batch, .first = first, .tokens = test_buf_ints(&buffer), .lengths = lengths};
    const clprune_status status = clprune_net_forward(net, &data, false);
    return status != CLPRUNE_SUCCESS ? status : clprune_plan_end_step(test_context());
}

typedef struct rows_of_net {
    float output[BATCH][ROWS][COLS], logits[BATCH][ROWS][VOCABULARY];
} rows_of_net;

/* Output and logits of the latest pass. */
static void read_rows(clprune_net *net, size_t batch, size_t first, size_t rows, rows_of_net *to)
{
    float output[BATCH * ROWS * COLS], logits[BATCH * VOCABULARY];
    const clprune_mat mat = test_new_mat(test_context(), batch, VOCABULARY);
    const clprune_mat y = clprune_net_output(net, batch);
    assert_true(y.rows == batch * rows && y.cols == COLS);
    TEST_OK(clprune_mat_read(test_context(), y, output));
    for (size_t r = 0; r < rows; r++) {
        TEST_OK(clprune_net_logits(net, batch, r, mat, NULL));
        TEST_OK(clprune_mat_read(test_context(), mat, logits));
        for (size_t n = 0; n < batch; n++) {
            memcpy(to->output[n][first + r], output + (n * rows + r) * COLS, COLS * sizeof(float));
            memcpy(to->logits[n][first + r], logits + n * VOCABULARY, sizeof *to->logits[n]);
        }
    }
}

/* Of the first `batch` samples. */
static void close_rows(
    const net_model *model, const rows_of_net *got, const rows_of_net *want, size_t batch)
{
    const float *const g[] = {got->output[0][0], got->logits[0][0]};
    const float *const w[] = {want->output[0][0], want->logits[0][0]};
    for (size_t k = 0; k < 2; k++) {
        const size_t cols = k == 0 ? COLS : VOCABULARY, count = batch * ROWS * cols;
        double exact[BATCH * ROWS * VOCABULARY], bound[BATCH * ROWS * VOCABULARY], most = 0;
        for (size_t i = 0; i < count; i++)
            most = fmax(most, fabs((double)w[k][i]));
        for (size_t i = 0; i < count; i++) {
            exact[i] = (double)w[k][i];
            bound[i] = 1e-5 * most;
        }
        test_close(k == 0 ? "output" : "logits", batch * ROWS, cols, g[k], exact, bound, "%s",
            model->name);
    }
}

static const clprune_ints no_lengths = {0};

/* In parts of `rows`; the last one makes some rows again. Then other tokens from a row on. */
static void check_parts(const net_model *model, net_job *whole, size_t rows, bool with_lengths)
{
    static const int32_t some[BATCH] = {4, 0, ROWS};
    static rows_of_net want, got;
    sample tokens[BATCH];
    const clprune_net_desc desc = parts_desc(rows, whole->net);
    clprune_net *net = new_net(test_context(), &desc, model);
    const test_buf buffer = test_buf_make(sizeof some, some);
    const clprune_ints lengths = with_lengths ? test_buf_ints(&buffer) : no_lengths;
    TEST_OK(clprune_net_settle(net, NULL));
    for (size_t turn = 0; turn < 3; turn++) {
        const size_t from = turn == 1 ? 4 : 0, batch = turn == 2 ? BATCH - 1 : BATCH;
        draw_tokens(turn, from, tokens);
        TEST_OK(run(whole->net, batch, 0, ROWS, (const sample *)tokens, lengths));
        read_rows(whole->net, batch, 0, ROWS, &want);
        for (size_t first = from; first < ROWS; first += rows) {
            const size_t at = first + rows <= ROWS ? first : ROWS - rows;
            TEST_OK(run(net, batch, at, rows, (const sample *)tokens, lengths));
            read_rows(net, batch, at, rows, &got);
        }
        close_rows(model, &got, &want, batch);
    }
}

static void parts(void **state)
{
    static const size_t rows[] = {1, 3, 4, ROWS};
    const net_model *model = *state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t mark = test_mark();
        net_job whole = open_whole(model);
        check_parts(model, &whole, rows[i], false);
        check_parts(model, &whole, rows[i], true);
        test_release(mark);
    }
}

static void visit(void *user, const clprune_memory_entry *entry)
{
    uint64_t *bytes = user;
    if (strstr(entry->name, ".history") != NULL) {
        assert_int_equal(entry->category, CLPRUNE_MEMORY_INPUT);
        *bytes += entry->bytes;
    }
}

/* Three nets take turns over one sample, each with the weights of the one before, and go on with
 * each other's rows; also when the first one, which has made them, is destroyed. */
static void turns(void **state)
{
    enum { NETS = 3 };
    static const size_t rows[NETS] = {4, 1, 3};
    static const struct {
        size_t net, first;
    } passes[] = {{0, 0}, {1, 4}, {2, 5}, {1, 8}, {1, 9}, {0, 7}, {2, 1}, {0, 3}, {2, 7}, {1, 10}};
    static rows_of_net want, got;
    const net_model *model = *state;
    net_job whole = open_whole(model);
    clprune_net *nets[NETS];
    sample tokens[BATCH];
    uint64_t kept[2] = {0};
    for (size_t i = 0; i < NETS; i++) {
        const clprune_net_desc desc = parts_desc(rows[i], i == 0 ? whole.net : nets[i - 1]);
        TEST_OK(clprune_net_create(test_context(), &desc, &nets[i]));
        model->build(nets[i], model);
        TEST_OK(clprune_net_settle(nets[i], NULL));
        if (i % 2 == 0) /* the others have no rows of their own */
            clprune_memory_visit(test_context(), visit, &kept[i / 2]);
    }
    assert_true(kept[0] > 0 && kept[0] == kept[1]);
    draw_tokens(9, 0, tokens);
    const sample *t = (const sample *)tokens;
    TEST_OK(run(whole.net, BATCH, 0, ROWS, t, no_lengths));
    read_rows(whole.net, BATCH, 0, ROWS, &want);
    for (size_t i = 0; i < COUNT_OF(passes); i++) {
        const size_t n = passes[i].net;
        if (i + 2 == COUNT_OF(passes))
            clprune_net_destroy(nets[0]);
        TEST_OK(run(nets[n], BATCH, passes[i].first, rows[n], t, no_lengths));
        read_rows(nets[n], BATCH, passes[i].first, rows[n], &got);
    }
    close_rows(model, &got, &want, BATCH);
    TEST_OK(run(nets[1], BATCH, 2, 1, t, no_lengths));
    TEST_FAILS(run(nets[2], BATCH, 4, 3, t, no_lengths), CLPRUNE_INVALID_ARGUMENT,
        "data.first is 4 of 3 samples, but passes have made 3 rows of 3");
    clprune_net_destroy(nets[1]);
    clprune_net_destroy(nets[2]);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

/* A dry context books the same bytes; the rows that attention keeps are as many as the sample's. */
static void memory(NO_ROW)
{
    const net_model *model = &models[2];
    const clprune_net_desc desc = parts_desc(1, NULL);
    const clprune_device_info device = clprune_context_device_info(test_context());
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context()),
        .precision = clprune_context_precision(test_context())};
    uint64_t before[CLPRUNE_MEMORY_CATEGORIES], history = 0;
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; i++)
        before[i] = test_live(test_context(), (clprune_memory_category)i);
    clprune_context *dry;
    TEST_OK(clprune_context_create_dry(&device, &options, &dry));
    TEST_OK(clprune_net_settle(new_net(test_context(), &desc, model), NULL));
    clprune_net *planned = new_net(dry, &desc, model);
    TEST_OK(clprune_net_settle(planned, NULL));
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; i++)
        assert_int_equal(test_live(test_context(), (clprune_memory_category)i) - before[i],
            test_live(dry, (clprune_memory_category)i));
    clprune_memory_visit(dry, visit, &history);
    assert_int_equal(history, 2 * BATCH * ROWS * COLS * sizeof(float)); /* 2 layers, 2 of 4 heads */
    test_end(dry);
    clprune_context_destroy(dry);
}

/* ---- refused -----------------------------------------------------------------------------------
 */

static void firsts(NO_ROW)
{
    const net_model *model = &models[0];
    net_job whole = open_whole(model);
    sample tokens[BATCH];
    draw_tokens(1, 0, tokens);
    const sample *t = (const sample *)tokens;
    const clprune_net_desc desc = parts_desc(3, whole.net);
    clprune_net *net = new_net(test_context(), &desc, model);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    TEST_OK(clprune_net_settle(net, NULL));
    const clprune_net_data wrong = {.batch = BATCH, .first = 1, .tokens = whole.data.tokens};
    TEST_FAILS(clprune_net_forward(whole.net, &wrong, false), bad, "data.first is 1, expected 0");
    TEST_FAILS(run(net, BATCH, 3, 3, t, no_lengths), bad,
        "data.first is 3 of 3 samples, but passes have made 0 rows of 0");
    TEST_OK(run(net, 2, 0, 3, t, no_lengths));
    TEST_FAILS(
        run(net, BATCH, 3, 3, t, no_lengths), bad, "3 samples, but passes have made 3 rows of 2");
    TEST_FAILS(run(net, 2, 4, 3, t, no_lengths), bad, "data.first is 4 of 2 samples");
    TEST_OK(run(net, 2, 3, 3, t, no_lengths));
    TEST_OK(run(net, 1, 6, 3, t, no_lengths));
    TEST_FAILS(run(net, 1, ROWS - 2, 3, t, no_lengths), CLPRUNE_INVALID_SIZE,
        "data.first is 9, expected at most 8: a pass has 3 rows, and a sample 11");
    TEST_FAILS(run(net, 2, 6, 3, t, no_lengths), bad, "2 samples");
}

enum { WIDTH = 12 };
#define LAYER(NAME, ADDED)                                                                         \
    static clprune_net_value add_##NAME(clprune_net *net, clprune_net_value x)                     \
    {                                                                                              \
        return ADDED;                                                                              \
    }
static const clprune_net_attn all_rows = {.heads = 2},
                              one_query = {.heads = 2, .queries = 1, .causal = true};
LAYER(attention, clprune_net_attention(net, "bad", x, &all_rows))
LAYER(query, clprune_net_attention(net, "bad", x, &one_query))
LAYER(linear_rows, clprune_net_linear_rows(net, "bad", x, 5))
LAYER(mean, clprune_net_mean(net, "bad", x))
LAYER(group_norm, clprune_net_group_norm(net, "bad", x, 2))
LAYER(class_token, clprune_net_class_token(net, "bad", x))
LAYER(row, clprune_net_row(net, "bad", x, 0))
LAYER(flatten, clprune_net_flatten(net, "bad", x))
LAYER(concat, clprune_net_concat(net, "bad", x, x, CLPRUNE_AXIS_ROWS))
LAYER(slice, clprune_net_slice(net, "bad", x, CLPRUNE_AXIS_ROWS, 0, 1))
LAYER(positions, clprune_net_positions_of(net, "bad", x, 0, 4, 4))

static const struct {
    clprune_net_value (*add)(clprune_net *net, clprune_net_value x);
    const char *text;
} layers[] = {{add_attention, "layer bad (attention) needs all rows of a sample in a pass"},
    {add_query, "layer bad: 1 queries, expected all 8 rows with desc.rows_at_once"},
    {add_linear_rows, "layer bad (linear over rows) needs all rows"},
    {add_mean, "layer bad (mean) needs all rows"},
    {add_group_norm, "layer bad (group_norm) needs all rows"},
    {add_class_token, "layer bad (class token) needs all rows"},
    {add_row, "layer bad (row) needs all rows"},
    {add_flatten, "layer bad (flatten) needs all rows"},
    {add_concat, "layer bad (concat) needs all rows"},
    {add_slice, "layer bad (slice) needs all rows"},
    {add_positions, "layer bad (positions) needs all rows"}};

static void refused(NO_ROW)
{
    const clprune_net_desc desc = parts_desc(1, NULL), many = parts_desc(9, NULL),
                           trains = {.batch = 1, .rows_at_once = 1};
    for (size_t i = 0; i < COUNT_OF(layers); i++) {
        clprune_net *net = new_net(test_context(), &desc, NULL);
        const clprune_net_value x =
            clprune_net_linear(net, "first", clprune_net_rows(net, 8, WIDTH), WIDTH);
        (void)layers[i].add(net, x);
        TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT, layers[i].text);
    }
    clprune_net *net = new_net(test_context(), &desc, NULL);
    (void)clprune_net_mean(
        net, "mean", clprune_net_patch_embed(net, "p", clprune_net_images(net, 3, 4, 4), 4, 8));
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT,
        "layer images (input) needs all rows");
    net = new_net(test_context(), &many, NULL);
    (void)clprune_net_linear(net, "a", clprune_net_rows(net, 8, WIDTH), WIDTH);
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_SIZE,
        "desc.rows_at_once is 9, expected at most the 8 rows of a sample");
    TEST_FAILS(clprune_net_create(test_context(), &trains, &net), CLPRUNE_INVALID_ARGUMENT,
        "desc.rows_at_once is 1, expected 0 without desc.infers");
    net_job whole = open_whole(&models[2]);
    const clprune_net_desc three = parts_desc(3, whole.net);
    clprune_net *of = new_net(test_context(), &three, &models[2]);
    TEST_OK(clprune_net_settle(of, NULL));
    clprune_net_desc fewer = parts_desc(1, of);
    fewer.batch = BATCH - 1;
    TEST_FAILS(clprune_net_settle(new_net(test_context(), &fewer, &models[2]), NULL),
        CLPRUNE_INVALID_SIZE,
        "layer layers.0.attn keeps 22 x 32 of earlier rows, but 33 x 32 in the net of desc.weigh");
    fewer.rows_at_once = 0; /* keeps none, and takes weights alone */
    TEST_OK(clprune_net_settle(new_net(test_context(), &fewer, &models[2]), NULL));
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, parts, &models[i], "parts of %s", models[i].name);
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, turns, &models[i], "nets that take turns, %s", models[i].name);
    test_add(&list, memory, NULL, "memory");
    test_add(&list, firsts, NULL, "first rows");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("rows at once", &list);
}
