/* The model that --sample writes with: its logits, token by token or after several were read at
 * once, are those of whole passes of the trained model, for GPT-2 and Llama, with adapters and with
 * frozen weights of 4 bits. */
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_model.h"
#include "support/test_objects.h"
#include "support/test_rng.h"

extern const trainer_model gpt_model;

enum { CONTEXT = 24, VOCABULARY = 256 };

typedef struct writer_row {
    const char *name;
    size_t arch; /* of gpt_model */
    const char *lora;
    clprune_value_type base;
} writer_row;

static const writer_row rows[] = {{"gpt_micro", 0, NULL, CLPRUNE_VALUES_FP32},
    {"llama_micro", 7, NULL, CLPRUNE_VALUES_FP32},
    {"gpt_micro with adapters", 0, "4", CLPRUNE_VALUES_FP32},
    {"gpt_micro with adapters, 4 bits", 0, "4:*.mlp.*", CLPRUNE_VALUES_CODES4},
    {"llama_micro with adapters", 7, "4", CLPRUNE_VALUES_FP32},
    {"llama_micro with adapters, 4 bits", 7, "4:*.q_proj", CLPRUNE_VALUES_CODES4}};

/* The logits behind row `row` of a pass over `count` tokens, from token `first` on. */
static float *logits_at(
    net_model *model, size_t row, size_t first, const int32_t *tokens, size_t count)
{
    const test_buf buffer = test_buf_make(count * sizeof *tokens, tokens + first);
    const clprune_net_data data = {.batch = 1, .tokens = test_buf_ints(&buffer), .first = first};
    const clprune_mat logits = test_new_mat(test_context(), 1, VOCABULARY);
    float *values = test_floats(VOCABULARY);
    TEST_OK(net_model_forward(model, &data, false));
    TEST_OK(clprune_net_logits(model->net, 1, row, logits, NULL));
    TEST_OK(clprune_mat_read(test_context(), logits, values));
    return values;
}

static void close_logits(const float *got, const float *want, const char *name, size_t token)
{
    double exact[VOCABULARY], bound[VOCABULARY], most = 0;
    for (size_t k = 0; k < VOCABULARY; k++)
        most = fmax(most, fabs((double)want[k]));
    for (size_t k = 0; k < VOCABULARY; k++) {
        exact[k] = (double)want[k];
        bound[k] = 1e-4 * most;
    }
    test_close("logits", 1, VOCABULARY, got, exact, bound, "%s, token %zu", name, token);
}

static void writes(void **state)
{
    enum { SEVERAL = 7 };
    const writer_row *row = *state;
    trainer_sizes sizes = {
        .arch = row->arch, .extra = {CONTEXT}, .lora = row->lora, .base = row->base};
    int32_t tokens[CONTEXT];
    net_model *writer, *reader;
    const float *want[CONTEXT];
    size_t count;
    test_rng draws = {3};
    net_model *model = test_model(&gpt_model, &sizes, NULL, 2, 1);
    const clprune_param *params = clprune_net_params(model->net, &count);
    for (size_t i = 0; i < count; i++) { /* so that tokens are not alike, and adapters count */
        const clprune_mat mat = params[i].value;
        TEST_OK(clprune_mat_write(
            test_context(), mat, test_new_uniform(i, -0.2f, 0.2f, mat.rows * mat.cols)));
    }
    TEST_OK(net_model_create_writer(model, 1, &writer));
    test_model_own(writer);
    for (size_t i = 0; i < CONTEXT; i++)
        tokens[i] = (int32_t)test_rng_below(&draws, VOCABULARY);
    for (size_t i = 0; i < CONTEXT; i++) {
        want[i] = logits_at(model, i, 0, tokens, CONTEXT);
        close_logits(logits_at(writer, 0, i, tokens, 1), want[i], row->name, i);
    }
    TEST_OK(net_model_create_writer(writer, SEVERAL, &reader)); /* other tokens, from 2 on */
    for (size_t i = 2; i < CONTEXT; i++)
        tokens[i] = (int32_t)test_rng_below(&draws, VOCABULARY);
    for (size_t i = 2; i < CONTEXT; i++)
        want[i] = logits_at(model, i, 0, tokens, CONTEXT);
    for (size_t first = 2; first < 15; first += 6)
        for (size_t i = first == 2 ? 0 : 1; i < SEVERAL; i += 2)
            close_logits(logits_at(reader, i, first, tokens, SEVERAL), want[first + i], row->name,
                first + i);
    net_model_destroy(reader);
    for (size_t i = 21; i < CONTEXT; i++)
        close_logits(logits_at(writer, 0, i, tokens, 1), want[i], row->name, i);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, writes, rows, "%s");
    return test_run_on_devices("writer", &list);
}
