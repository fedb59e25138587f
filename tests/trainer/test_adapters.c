/* --adapters: base and adapters, put together as PEFT does, have the values of the exported model,
 * whatever --train names; no tensor is there for nothing, and adapter_config.json says what each
 * is. tests/long/peft_adapters.sh compares logits with PEFT's. */
#include "bert_model.h"
#include "resmlp_model.h"
#include "resnet_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "support/test_rng.h"
#include "trainer/files/adapters.h"
#include "trainer/files/weight_names.h"
#include "trainer/files/weights.h"

extern const trainer_model vit_model, gpt_model;

/* classes: of the base, where the model has other ones; context: of the base. */
typedef struct adapters_row {
    const trainer_model *type;
    size_t arch;
    const char *lora, *train;
    size_t tensors;      /* in the folder */
    const char *config;  /* a part of it */
    size_t base_classes; /* 0: the model's */
    const char *missing; /* a part of the note; "" without one */
    double alpha;        /* 0: twice the rank */
    double dropout;
    bool rslora;
} adapters_row;

#define NO_MODULES "\"modules_to_save\": null"
#define NO_BIAS    "\"bias\": \"none\""

static const adapters_row rows[] = {
    {&bert_model, 0, "2:*.attention.*", "classifier.*,bert.pooler.*", 20,
        "\"bert.pooler.dense\",\n    \"classifier\"\n", 0, ""},
    {&bert_model, 0, "2", NULL, 28, NO_MODULES, 0, ""},
    {&bert_model, 0, "2:*.query", NULL, 4, "self.query\"\n  ]", 0, ""},
    {&bert_model, 0, "2:*.query", NULL, 4, "\"lora_alpha\": 3,", 0, "", 3},
    {&bert_model, 0, "2:*.query", NULL, 4, "\"lora_dropout\": 0.05,", 0, "", 0, 0.05},
    {&bert_model, 0, "9:*.query", NULL, 4, "\"use_rslora\": true,", 0, "", 6, 0, true},
    {&bert_model, 0, "2:*.self.qkv", NULL, 12, NO_MODULES, 0, ""},
    {&bert_model, 0, "2:*.query", NULL, 6, "[\n    \"classifier\"\n  ]", 7,
        ""}, /* no head in the base */
    {&bert_model, 0, "2", "classifier.*", 28, "[\n    \"classifier\"\n  ]", 0, ""},
    {&bert_model, 0, "2", "*.bias", 47, "\"bias\": \"all\"", 0, ""},
    {&bert_model, 0, "2:*.dense", "bert.embeddings.*", 19, "\"bert.embeddings.LayerNorm\"", 0, ""},
    {&bert_model, 0, "2:classifier", "classifier.*", 2, "\"dummy-target-modules\"", 0, ""},
    {&gpt_model, 0, "2", NULL, 32, "\"fan_in_fan_out\": true", 0, ""},
    {&gpt_model, 0, "2:*.attn.*", "wte.weight,ln_f.*", 20,
        "\"transformer.wte\",\n    \"lm_head\",\n    \"transformer.ln_f\"", 0, ""},
    {&gpt_model, 0, "2", "h.1.mlp.*", 32, "\"transformer.h.1.mlp.c_fc\"", 0, ""},
    {&gpt_model, 0, "2", "wpe.weight", 33, "\"transformer.wpe\"", 0, ""},
    {&gpt_model, 0, "2", "wpe.weight", 32, NO_MODULES, 9, "\"wpe.weight\" is not there"},
    {&gpt_model, 7, "2", NULL, 56, NO_BIAS, 0, ""},
    {&gpt_model, 7, "2:*.q_proj", NULL, 8, NO_MODULES, 0, ""},
    {&gpt_model, 7, "2:*.qkv", "model.embed_tokens.*", 26, "\"lm_head\"", 0, ""},
    {&gpt_model, 7, "2:*.up_proj", "model.layers.0.self_attn.*", 12, "self_attn.v_proj\"", 0, ""},
    {&vit_model, 4, "2", NULL, 50, NO_MODULES, 0, ""},
    {&vit_model, 4, "2:*.attn.*", "cls_token,pos_embed,head.*", 28, "[\n    \"head\"\n  ]", 0, ""},
    {&vit_model, 4, "2:*.attn.*", "patch_embed.*,norm.*", 28, "\"patch_embed.proj\"", 0, ""},
    {&vit_model, 4, "2:*.fc1", NULL, 14, "[\n    \"head\"\n  ]", 7, ""},
    {&resmlp_model, 4, "2", "blocks.*.ls1,*.alpha", 58, "\"blocks.0.norm1\"", 0, ""},
    {&resnet_model, 3, "2", NULL, 105, "\"layer1.0.bn1\"", 0, ""},
    {&resnet_model, 3, "2", "conv1.*,layer1.0.*", 108, "\"layer1.0.conv1\"", 0, ""},
};

TEST_UNDO(close_file, safetensors_close(what))

static trainer_sizes sizes_of(const adapters_row *row, bool base)
{
    const trainer_model *type = row->type;
    trainer_sizes sizes = {.arch = row->arch};
    if (!base) {
        sizes.lora = row->lora;
        sizes.lora_alpha = row->alpha;
        sizes.lora_dropout = row->dropout;
        sizes.rslora = row->rslora;
        sizes.train = row->train;
    }
    if (type->tokens)
        sizes.extra[0] = 8;
    if (base && row->base_classes > 0 && type->labelled)
        sizes.extra[1] = row->base_classes;
    else if (base && row->base_classes > 0 && type->tokens)
        sizes.extra[0] = row->base_classes;
    else if (base)
        sizes.classes = row->base_classes;
    return sizes;
}

static net_model *make_model(const adapters_row *row, bool base)
{
    trainer_sizes sizes = sizes_of(row, base);
    return test_model(row->type, &sizes, NULL, 2, 1);
}

static void write_random(clprune_mat mat, uint64_t seed)
{
    TEST_OK(
        clprune_mat_write(test_context(), mat, test_new_uniform(seed, -1, 1, mat.rows * mat.cols)));
}

/* As training does: all that is trained changes, and running statistics. */
static void change(const net_model *model)
{
    size_t count;
    const clprune_param *params = clprune_net_params(model->net, &count);
    for (size_t i = 0; i < count; i++)
        write_random(params[i].value, i);
    for (size_t i = 0; i < model->weights_count; i++)
        if (strstr(model->weights[i].name, ".running_") != NULL)
            write_random(model->weights[i].mat, 1000 + i);
    for (size_t i = 0; i < model->counts_count; i++)
        *model->counts[i].value = (int64_t)(5 + i);
}

static const safetensors *open_file(const char *path)
{
    safetensors *s = test_alloc(sizeof *s);
    TEST_GOOD(safetensors_open(path, s, &f));
    test_later(close_file, NULL, s);
    return s;
}

static float *read_tensor(const safetensors *s, const safetensor *t)
{
    float *values = test_floats(t->count);
    TEST_GOOD(safetensors_read(s, t, values, &f));
    return values;
}

/* The tensor of a weight in the folder: in place of its last word `end`, unless that is NULL. */
static const safetensor *find(const adapters_row *row, const safetensors *s, const char *weight,
    const char *end, size_t *used)
{
    char other[128];
    weights_other_name(row->type, weight, other, sizeof other);
    const char *name = row->type->tokens && strlen(other) > strlen(weight) ? other : weight;
    const int length = end == NULL ? (int)strlen(name) : (int)(strrchr(name, '.') - name);
    const safetensor *t = safetensors_find(
        s, test_text("base_model.model.%.*s%s", length, name, end != NULL ? end : ""));
    *used += t != NULL;
    return t;
}

/* values += 2 B A, of out x in, or transposed. */
static void add_adapter(const safetensors *s, const safetensor *a, const safetensor *b,
    bool transposed, double factor, float *values)
{
    const size_t rank = a->shape[0], in = a->shape[1], out = b->shape[0];
    const float *va = read_tensor(s, a), *vb = read_tensor(s, b);
    for (size_t i = 0; i < out; i++)
        for (size_t k = 0; k < in; k++)
            for (size_t r = 0; r < rank; r++)
                values[transposed ? k * out + i : i * in + k] +=
                    (float)factor * vb[i * rank + r] * va[r * in + k];
}

static void adapters(void **state)
{
    const adapters_row *row = *state;
    const char *folder = test_folder(), *base = test_text("%s/base", folder),
               *full = test_text("%s/full", folder), *peft = test_text("%s/peft", folder);
    char missing[256];
    size_t used = 0, size;
    weights_imported imported;
    net_model *a = make_model(row, true), *b = make_model(row, false);
    TEST_GOOD(weights_export(a, base, &f));
    TEST_GOOD(weights_import(b, base, 9, &imported, &f));
    change(b);
    TEST_GOOD(weights_export(b, full, &f));
    TEST_GOOD(adapters_export(b, base, peft, missing, sizeof missing, &f));
    if (strstr(missing, row->missing) == NULL || (row->missing[0] == '\0') != (missing[0] == '\0'))
        fail_msg("missing: %s", missing);

    const safetensors *from = open_file(base), *want = open_file(full),
                      *have = open_file(test_text("%s/%s", peft, adapters_files[0]));
    for (size_t i = 0; i < b->weights_count; i++) {
        const trainer_weight w = b->weights[i];
        const size_t mark = test_mark();
        const safetensor *whole = find(row, have, w.name, NULL, &used),
                         *wanted = safetensors_find(want, w.name);
        const bool bias = strstr(w.name, ".bias") != NULL;
        if (whole == NULL && bias)
            whole = find(row, have, w.name, ".base_layer.bias", &used);
        if (w.twin[0] != '\0')
            assert_true((find(row, have, w.twin, NULL, &used) != NULL) == (whole != NULL));
        const safetensor *t = whole != NULL ? whole : safetensors_find(from, w.name);
        float *got = read_tensor(whole != NULL ? have : from, t);
        const safetensor *la = strchr(w.name, '.') == NULL || bias
                                   ? NULL
                                   : find(row, have, w.name, ".lora_A.weight", &used);
        if (la != NULL) {
            assert_null(whole);
            add_adapter(have, la, find(row, have, w.name, ".lora_B.weight", &used), w.transposed,
                row->alpha > 0 ? row->alpha / (row->rslora ? sqrt((double)w.lora_a.rows) : 2) : 2,
                got);
        }
        const float *right = read_tensor(want, wanted);
        for (size_t k = 0; k < wanted->count && !(w.longer && row->missing[0] != '\0'); k++)
            if (!(fabsf(got[k] - right[k]) <= 1e-6f * (1 + fabsf(right[k]))))
                fail_msg("%s is %g, expected %g", w.name, (double)got[k], (double)right[k]);
        test_release(mark);
    }
    for (size_t i = 0; i < b->counts_count; i++) {
        int64_t value;
        const safetensor *t = find(row, have, b->counts[i].name, NULL, &used);
        assert_non_null(t);
        TEST_GOOD(safetensors_read_i64(have, t, &value, &f));
        assert_int_equal(value, *b->counts[i].value);
    }
    assert_int_equal(used, have->count);
    const char *text = test_file_read(test_text("%s/%s", peft, adapters_files[1]), &size);
    const char *config = test_text("%.*s", (int)size, text);
    if (strstr(config, row->config) == NULL || have->count != row->tensors)
        fail_msg("%zu tensors, %s", have->count, config);
}

/* Without a file of the base a note says so. */
static void no_base(NO_ROW)
{
    char missing[256];
    net_model *model = make_model(&rows[0], false);
    TEST_GOOD(adapters_export(
        model, NULL, test_text("%s/peft", test_folder()), missing, sizeof missing, &f));
    test_says(missing, "is in no file");
}

int main(void)
{
    test_list list = {0};
    if (!safetensors_readable())
        return TEST_SKIPPED;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, adapters, &rows[i], "%s %zu, --lora %s --train %s", rows[i].type->program,
            rows[i].arch, rows[i].lora, rows[i].train != NULL ? rows[i].train : "");
    test_add(&list, no_base, NULL, "no base");
    return test_run_on_each_device("adapters", &list);
}
