/* BERT: padding changes no token. Beside transformers: the last hidden states of real weights, of
 * sentences padded to one length. tests/long/bert_weights.sh makes the files and names their folder
 * in CLPRUNE_TEST_BERT: model.safetensors, sentences.bin (dataset_sentences.c), and hidden.f32,
 * CONTEXT rows for each sentence. Gradients are compared in test_models.c. */
#include "bert_model.h"
#include "golden/golden_images.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/files/weights.h"

enum { CONTEXT = 64, MINILM = 1 /* of bert_archs */ };

/* The weights of a net as files have them; all are given, so that none is drawn. */
static net_model model_of(clprune_net *net)
{
    const trainer_sizes sizes = {.arch = MINILM};
    clprune_net_weight found;
    net_model model = {.type = &bert_model, .sizes = sizes, .context = test_context(), .net = net};
    while (clprune_net_weight_at(net, model.weights_count, &found))
        model.weights_count++;
    model.weights = test_alloc(model.weights_count * TRAINER_PIECES * sizeof *model.weights);
    model.weights_count = 0;
    for (size_t i = 0; clprune_net_weight_at(net, i, &found); i++) {
        trainer_weight *pieces = &model.weights[model.weights_count];
        *pieces = (trainer_weight){.rank = found.rank, .mat = found.value};
        memcpy(pieces->shape, found.shape, sizeof pieces->shape);
        (void)snprintf(pieces->name, sizeof pieces->name, "%s", found.name);
        model.weights_count += bert_model.in_files(&sizes, pieces);
    }
    return model;
}

TEST_UNDO(destroy_net, clprune_net_destroy(what))

static clprune_net *encoder(const bert_arch *arch, size_t rows, size_t batch)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = batch}, &net));
    test_later(destroy_net, NULL, net);
    (void)bert_encode(arch, rows, false, 0, net);
    TEST_OK(clprune_net_settle(net, NULL));
    return net;
}

static const float *states_of(
    clprune_net *net, size_t rows, size_t batch, const int32_t *tokens, const int32_t *lengths)
{
    const clprune_net_data data = {.batch = batch,
        .tokens = {test_buf_make(batch * rows * sizeof *tokens, tokens).buffer, 0},
        .lengths = {test_buf_make(batch * sizeof *lengths, lengths).buffer, 0}};
    TEST_OK(clprune_net_forward(net, &data, false));
    return read_mat(clprune_net_output(net, batch));
}

/* Padding changes no token of a sentence, however much there is of it and whatever it is. */
static void padding(NO_ROW)
{
    enum { BATCH = 3, FEW = 17, MANY = 40 };
    static const size_t rows[2] = {FEW, MANY};
    static const int32_t lengths[BATCH] = {1, FEW, 11};
    const size_t dim = bert_archs[0].dim;
    const float *states[2];
    for (size_t i = 0; i < 2; i++) {
        int32_t tokens[BATCH * MANY];
        for (size_t t = 0; t < BATCH * rows[i]; t++) {
            const size_t n = t / rows[i], at = t % rows[i];
            tokens[t] = (int32_t)(at < (size_t)lengths[n] ? 31 * at + 7 * n : 5 + i + at);
        }
        clprune_net *net = encoder(&bert_archs[0], rows[i], BATCH);
        TEST_OK(clprune_net_init(net, 3));
        states[i] = states_of(net, rows[i], BATCH, tokens, lengths);
    }
    for (size_t n = 0; n < BATCH; n++)
        for (size_t e = 0; e < (size_t)lengths[n] * dim; e++)
            assert_true(
                fabsf(states[0][n * FEW * dim + e] - states[1][n * MANY * dim + e]) < 1e-5f);
}

static void hidden_states(NO_ROW)
{
    const char *folder = getenv("CLPRUNE_TEST_BERT");
    const size_t dim = bert_archs[MINILM].dim;
    size_t size, wanted, batch = 0;
    char path[3][512];
    if (folder == NULL)
        skip();
    static const char *const files[] = {"model.safetensors", "sentences.bin", "hidden.f32"};
    for (size_t i = 0; i < COUNT_OF(files); i++)
        (void)snprintf(path[i], sizeof path[i], "%s/%s", folder, files[i]);
    const char *numbers = test_file_read(path[1], &size);
    const float *want = (const float *)(const void *)test_file_read(path[2], &wanted);
    const size_t most = wanted / sizeof *want / dim / CONTEXT;
    int32_t *tokens = test_alloc(most * CONTEXT * sizeof *tokens);
    int32_t *lengths = test_alloc(most * sizeof *lengths);
    memset(tokens, 0, most * CONTEXT * sizeof *tokens);
    for (size_t at = 0; at < size; batch++) {
        uint16_t head[2], token;
        memcpy(head, numbers + at, sizeof head);
        assert_true(batch < most && head[1] <= CONTEXT);
        lengths[batch] = head[1];
        at += sizeof head;
        for (size_t i = 0; i < head[1]; i++, at += sizeof token) {
            memcpy(&token, numbers + at, sizeof token);
            tokens[batch * CONTEXT + i] = token;
        }
    }
    assert_int_equal(batch, most);

    clprune_net *net = encoder(&bert_archs[MINILM], CONTEXT, batch);
    net_model model = model_of(net);
    weights_imported imported;
    fault f = {0};
    if (!weights_import(&model, path[0], 1, &imported, &f))
        fail_msg("%s", f.text);
    const float *got = states_of(net, CONTEXT, batch, tokens, lengths);
    double off = 0, largest = 0;
    for (size_t i = 0; i < batch * CONTEXT * dim; i++) {
        if (i / dim % CONTEXT >= (size_t)lengths[i / dim / CONTEXT])
            continue;
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    printf(
        "%zu sentences: hidden states up to %.3f are off by at most %.2g\n", batch, largest, off);
    assert_true(off <= 1e-4);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, padding, NULL, "padding");
    test_add(&list, hidden_states, NULL, "hidden states");
    return test_run_on_each_device("bert", &list);
}
