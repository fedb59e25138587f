/* Names of other programs' files: with the modules of wrappers before and among them, the names of
 * other classes, and older ones, a file gives the same weights. Tensors that no weight takes are
 * named, or refused where the model would compute something else with them. */
#include "bert_model.h"
#include "resmlp_model.h"
#include "resnet_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "support/test_rng.h"
#include "trainer/files/weight_names.h"
#include "trainer/files/weights.h"
#include <inttypes.h>

extern const trainer_model vit_model, gpt_model;

enum { GPT2, LLAMA, BERT, VIT, RESMLP, RESNET, MODELS };

/* A small model of each kind. */
static const struct {
    const trainer_model *type;
    size_t arch;
} models[MODELS] = {{&gpt_model, 0}, {&gpt_model, 7}, {&bert_model, 0}, {&vit_model, 4},
    {&resmlp_model, 4}, {&resnet_model, 3}};

static net_model *make_model(size_t kind, uint64_t seed)
{
    const trainer_model *type = models[kind].type;
    trainer_sizes sizes = {.arch = models[kind].arch};
    if (type->tokens)
        sizes.extra[0] = 8;
    return test_model(type, &sizes, NULL, 2, seed);
}

/* Writes random values, or zeros. */
static void write_weights(const net_model *model, bool random)
{
    const float most = random ? 1 : 0;
    for (size_t i = 0; i < model->weights_count; i++) {
        const clprune_mat mat = model->weights[i].mat;
        TEST_OK(clprune_mat_write(
            test_context(), mat, test_new_uniform(i, -most, most, mat.rows * mat.cols)));
    }
}

static void check_same(const net_model *a, const net_model *b, const char *what)
{
    assert_int_equal(a->weights_count, b->weights_count);
    for (size_t i = 0; i < a->weights_count; i++) {
        const trainer_weight wa = a->weights[i], wb = b->weights[i];
        const size_t count = wa.mat.rows * wa.mat.cols;
        float *va = test_floats(count), *vb = test_floats(count);
        TEST_OK(clprune_mat_read(test_context(), wa.mat, va));
        TEST_OK(clprune_mat_read(test_context(), wb.mat, vb));
        if (memcmp(va, vb, count * sizeof *va) != 0)
            fail_msg("%s: %s differs", what, wa.name);
    }
}

TEST_UNDO(close_file, safetensors_close(what))

static const safetensors *open_file(const char *path)
{
    safetensors *s = test_alloc(sizeof *s);
    TEST_GOOD(safetensors_open(path, s, &f));
    test_later(close_file, NULL, s);
    return s;
}

/* ---- names -------------------------------------------------------------------------------------
 */

/* How a file differs from an exported one: names of the other class; the first `old` in each name
 * is `new`; norms have gamma and beta; what stands before each name. */
typedef struct naming {
    bool other;
    const char *old, *new;
    bool older;
    const char *prefix;
} naming;

static const char *renamed(const trainer_model *type, const safetensor *t, const naming *form)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s", t->name);
    if (form->other)
        weights_other_name(type, t->name, name, sizeof name);
    const char *at = form->old != NULL ? strstr(name, form->old) : NULL;
    const char *text = at == NULL ? test_text("%s", name)
                                  : test_text("%.*s%s%s", (int)(at - name), name, form->new,
                                        at + strlen(form->old));
    const char *dot = strrchr(text, '.');
    if (form->older && t->rank == 1 && dot != NULL && strstr(text, "orm") != NULL)
        text = test_text(
            "%.*s%s", (int)(dot - text), text, strcmp(dot, ".weight") == 0 ? ".gamma" : ".beta");
    return test_text("%s%s", form->prefix != NULL ? form->prefix : "", text);
}

/* A tensor that is added: of zeros, or a copy of the tensor `of`. */
typedef struct extra {
    const char *name, *dtype, *shape;
    size_t bytes;
    const char *of;
} extra;

static const char *entry(
    const char *name, const char *dtype, const char *shape, uint64_t from, uint64_t to)
{
    return test_text("\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64
                     ",%" PRIu64 "]}",
        name, dtype, shape, from, to);
}

/* A copy of a file of other names, with tensors added and the tensor `without` left out. */
static void put_file(const trainer_model *type, const safetensors *s, const naming *form,
    const extra *extras, size_t count, const char *without, const char *to)
{
    size_t size;
    uint64_t bytes = 0;
    const char *file = test_file_read(s->path, &size), *header = "";
    char *data = test_alloc(2 * size + (1 << 20));
    memset(data, 0, 2 * size + (1 << 20));
    for (size_t i = 0; i < s->count + count; i++) {
        const safetensor *t = i < s->count ? &s->tensors[i] : NULL;
        const extra *e = i < s->count ? NULL : &extras[i - s->count];
        const safetensor *from = e == NULL ? t : e->of != NULL ? safetensors_find(s, e->of) : NULL;
        const uint64_t end = bytes + (from != NULL ? from->to - from->from : e->bytes);
        const char *shape = e != NULL ? e->shape : "";
        if (e == NULL && without != NULL && strcmp(t->name, without) == 0)
            continue;
        for (size_t k = 0; e == NULL && k < t->rank; k++)
            shape = test_text("%s%s%" PRIu64, shape, k > 0 ? "," : "", t->shape[k]);
        header = test_text("%s%s%s", header, header[0] != '\0' ? "," : "{",
            entry(e != NULL ? e->name : renamed(type, t, form), e != NULL ? e->dtype : t->dtype,
                shape, bytes, end));
        if (from != NULL)
            memcpy(data + bytes, file + s->parts[0].data + from->from, (size_t)(end - bytes));
        bytes = end;
    }
    const uint64_t length = strlen(header) + 1;
    char *whole = test_alloc(8 + (size_t)(length + bytes) + 1);
    for (int i = 0; i < 8; i++)
        whole[i] = (char)(length >> (8 * i));
    (void)snprintf(whole + 8, (size_t)length + 1, "%s}", header);
    memcpy(whole + 8 + length, data, (size_t)bytes);
    test_file_write(to, whole, 8 + (size_t)(length + bytes));
}

static const char *const prefixes[] = {"", "module.", "_orig_mod.", "module._orig_mod.",
    "_orig_mod.module.", "model.", "net._orig_mod.", "base_model.model.", "_forward_module.model.",
    "_fsdp_wrapped_module.", "student.backbone."};

static void names(void **state)
{
    static const struct {
        naming form;
        unsigned models; /* bits */
    } rows[] = {
        {{0}, ~0u},
        {{.other = true}, 1u << GPT2 | 1u << LLAMA | 1u << BERT | 1u << RESMLP},
        {{.older = true}, ~(1u << RESNET)},
        {{.other = true, .older = true}, 1u << BERT},
        {{.old = "h.1.", .new = "h.1._orig_mod."}, 1u << GPT2},
        {{.old = "layers.0.", .new = "layers.0._fsdp_wrapped_module._checkpoint_wrapped_module."},
            1u << LLAMA},
        {{.old = "encoder.", .new = "encoder.module."}, 1u << BERT},
        {{.old = "blocks.", .new = "blocks._orig_mod."}, 1u << VIT | 1u << RESMLP},
        {{.old = "layer1.", .new = "layer1._fsdp_wrapped_module."}, 1u << RESNET},
    };
    const size_t kind = (size_t)(uintptr_t)*state;
    const trainer_model *type = models[kind].type;
    const char *first = test_text("%s/1", test_folder()),
               *second = test_text("%s/2", test_folder());
    net_model *a = make_model(kind, 1), *b = make_model(kind, 2);
    write_weights(a, true);
    TEST_GOOD(weights_export(a, first, &f));
    const safetensors *s = open_file(first);
    size_t tried = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t p = 0;
             p < (i == 0 ? COUNT_OF(prefixes) : 4) && (rows[i].models & 1u << kind) != 0; p++) {
            const size_t mark = test_mark();
            weights_imported imported;
            fault f = {0};
            naming form = rows[i].form;
            form.prefix = prefixes[p];
            put_file(type, s, &form, NULL, 0, NULL, second);
            write_weights(b, false);
            if (!weights_import(b, second, 3, &imported, &f))
                fail_msg("form %zu, prefix %s: %s", i, prefixes[p], f.text);
            const char *prefix = prefixes[p];
            if (kind == LLAMA && rows[i].form.other && strlen(prefix) >= 6 &&
                strcmp(prefix + strlen(prefix) - 6, "model.") == 0) /* the class's own names */
                prefix = test_text("%.*s", (int)strlen(prefix) - 6, prefix);
            assert_string_equal(imported.prefix, prefix);
            assert_string_equal(imported.unread, "");
            assert_false(imported.head_left);
            check_same(a, b, prefixes[p]);
            tried++;
            test_release(mark);
        }
    printf("%zu forms of names\n", tried);
}

/* ---- tensors that no weight takes --------------------------------------------------------------
 */

#define F32(name, shape, count)                                                                    \
    {                                                                                              \
        name, "F32", shape, 4 * (count), NULL                                                      \
    }

/* wrong: the file is refused with these names, else they are noted; "": neither. */
typedef struct rest_row {
    size_t kind;
    extra extra;
    bool wrong;
    const char *named;
    const char *prefix;
} rest_row;

static const rest_row rest[] = {
    /* of other layers, beside what is read */
    {VIT, F32("blocks.0.ls1.gamma", "128", 128), true, "blocks.*.ls1.gamma", NULL},
    {VIT, F32("blocks.3.gamma_1", "128", 128), true, "blocks.*.gamma_1", NULL},
    {VIT, F32("blocks.5.attn.q_norm.weight", "32", 32), true, "blocks.*.attn.q_norm.weight", NULL},
    {VIT, F32("blocks.0.attn.relative_position_bias_table", "9,4", 36), true,
        "relative_position_bias_table", NULL},
    {VIT, F32("blocks.6.norm1.weight", "128", 128), true, "blocks.*.norm1.weight", NULL},
    {VIT, F32("blocks.0.mlp.norm.weight", "512", 512), true, "blocks.*.mlp.norm.weight", NULL},
    {VIT, F32("patch_embed.norm.weight", "128", 128), true, "patch_embed.norm.weight", NULL},
    {VIT, F32("norm_pre.weight", "128", 128), true, "norm_pre.weight", NULL},
    {VIT, F32("reg_token", "1,4,128", 512), true, "reg_token", NULL},
    {VIT, F32("dist_token", "1,1,128", 128), true, "dist_token", NULL},
    {VIT, F32("head.norm.weight", "128", 128), true, "head.norm.weight", NULL},
    {VIT, F32("model.blocks.0.ls1.gamma", "128", 128), true, "model.blocks.*.ls1.gamma", "model."},
    {VIT, F32("module.blocks.0.ls1.gamma", "128", 128), true, "module.blocks.*.ls1.gamma",
        "module."},
    {RESMLP, F32("blocks.0.attn.bias", "64", 64), true, "blocks.*.attn.bias", NULL},
    {RESMLP, F32("blocks.6.ls1", "128", 128), true, "blocks.*.ls1", NULL},
    {RESNET, F32("layer1.0.se.fc1.weight", "4,16,1,1", 64), true, "layer1.*.se.fc1.weight", NULL},
    {RESNET, F32("layer1.0.conv1.bias", "16", 16), true, "layer1.*.conv1.bias", NULL},
    {RESNET, F32("conv1.bias", "16", 16), true, "conv1.bias", NULL},
    {RESNET, F32("layer2.3.conv1.weight", "32,32,3,3", 9216), true, "layer2.*.conv1.weight", NULL},
    {RESNET, F32("layer1.0.downsample.0.weight", "16,16,1,1", 256), true, "downsample", NULL},
    {GPT2, F32("h.0.ln_3.weight", "128", 128), true, "h.*.ln_3.weight", NULL},
    {GPT2, F32("h.4.ln_1.weight", "128", 128), true, "h.*.ln_1.weight", NULL},
    {GPT2, F32("h.0.crossattention.c_attn.weight", "128,256", 32768), true, "crossattention", NULL},
    {GPT2, F32("h.0.attn.c_attn.lora_A.weight", "4,128", 512), true, "c_attn.lora_A", NULL},
    {GPT2, F32("lm_head.weight", "256,128", 32768), true, "\"lm_head.weight\" is not", NULL},
    {GPT2, F32("lm_head.weight", "300,128", 38400), true, "\"lm_head.weight\" is not", NULL},
    {GPT2, F32("model.lm_head.weight", "256,128", 32768), true, "lm_head.weight\" is not",
        "model."},
    {GPT2, F32("lm_head.weight", "256,128", 32768), true, "lm_head.weight\" is not", "model."},
    {GPT2, {"wte.bias", "F16", "128", 256, NULL}, true, "wte.bias", NULL},
    {LLAMA, F32("model.layers.0.self_attn.q_proj.bias", "128", 128), true,
        "*.self_attn.q_proj.bias", NULL},
    {LLAMA, F32("model.layers.0.self_attn.q_norm.weight", "32", 32), true,
        "self_attn.q_norm.weight", NULL},
    {LLAMA, F32("model.layers.0.mlp.gate_proj.bias", "344", 344), true, "gate_proj.bias", NULL},
    {LLAMA, F32("model.layers.0.post_feedforward_layernorm.weight", "128", 128), true,
        "post_feedforward_layernorm.weight", NULL},
    {LLAMA, F32("model.layers.4.input_layernorm.weight", "128", 128), true, "input_layernorm",
        NULL},
    {LLAMA, F32("model.layers.0.block_sparse_moe.gate.weight", "8,128", 1024), true, "moe.gate",
        NULL},
    {LLAMA, F32("model.embed_layernorm.weight", "128", 128), true, "embed_layernorm", NULL},
    {LLAMA, F32("model.norm.bias", "128", 128), true, "model.norm.bias", NULL},
    {LLAMA, F32("lm_head.weight", "256,128", 32768), true, "\"lm_head.weight\" is not", NULL},
    {BERT, F32("bert.encoder.layer.2.output.dense.bias", "64", 64), true, "layer.*.output", NULL},
    {BERT, F32("bert.embeddings.task_type_embeddings.weight", "3,64", 192), true, "task_type",
        NULL},
    {BERT, F32("bert.embeddings.LayerNorm.gamma", "64", 64), true, "LayerNorm.gamma", NULL},
    {BERT, F32("bert.encoder.layer.0.attention.self.distance_embedding.weight", "9,16", 144), true,
        "distance_embedding", NULL},
    {BERT, F32("bert.encoder.embedding_norm.weight", "64", 64), true, "embedding_norm", NULL},
    {BERT, F32("classifier.dense.weight", "64,64", 4096), true, "classifier.dense.weight", NULL},
    /* other heads, other models, and what is no parameter */
    {BERT, F32("cls.predictions.transform.LayerNorm.weight", "64", 64), false,
        "cls.predictions.transform.LayerNorm.weight", NULL},
    {BERT, F32("cls.predictions.bias", "1000", 1000), false, "cls.predictions.bias", NULL},
    {BERT, F32("cls.seq_relationship.weight", "2,64", 128), false, "cls.seq_relationship.weight",
        NULL},
    {BERT, F32("qa_outputs.weight", "2,64", 128), false, "qa_outputs.weight", NULL},
    {BERT, {"bert.embeddings.position_ids", "I64", "1,8", 64, NULL}, false, "", NULL},
    {BERT, F32("teacher.encoder.layer.0.output.dense.bias", "64", 64), false, "teacher", "module."},
    {GPT2, F32("h.0.attn.bias", "1,1,8,8", 64), false, "", NULL},
    {GPT2, {"h.0.attn.bias", "BOOL", "1,1,8,8", 64, NULL}, false, "", NULL},
    {GPT2, F32("transformer.h.0.attn.masked_bias", "", 1), false, "", NULL},
    {GPT2, F32("score.weight", "2,128", 256), false, "score.weight", NULL},
    {GPT2, {"lm_head.weight", "F32", "256,128", 0, "wte.weight"}, false, "", NULL},
    {GPT2, {"lm_head.weight", "F32", "256,128", 0, "wte.weight"}, false, "", "model."},
    {LLAMA, {"lm_head.weight", "F32", "256,128", 0, "model.embed_tokens.weight"}, false, "", NULL},
    {LLAMA, F32("model.layers.0.self_attn.rotary_emb.inv_freq", "16", 16), false, "", NULL},
    {VIT, F32("head_dist.weight", "10,128", 1280), false, "head_dist.weight", NULL},
    {VIT, F32("head_dist.bias", "10", 10), false, "head_dist.bias", NULL},
    {VIT, {"n_averaged", "I64", "", 8, NULL}, false, "", "module."},
    {VIT, F32("criterion.weight", "10", 10), false, "criterion.weight", "model."},
    {VIT, F32("ema.blocks.0.norm1.weight", "128", 128), false, "ema.blocks.*.norm1.weight",
        "model."},
    {RESNET, {"bn9.num_batches_tracked", "I64", "", 8, NULL}, false, "", NULL},
    {RESNET, F32("aux.fc.weight", "10,64", 640), false, "aux.fc.weight", NULL},
};

static void unread(void **state)
{
    const size_t kind = (size_t)(uintptr_t)*state;
    const trainer_model *type = models[kind].type;
    const char *first = test_text("%s/1", test_folder()),
               *second = test_text("%s/2", test_folder());
    net_model *a = make_model(kind, 1), *b = make_model(kind, 2);
    TEST_GOOD(weights_export(a, first, &f));
    const safetensors *s = open_file(first);
    for (size_t i = 0; i < COUNT_OF(rest); i++) {
        const rest_row *row = &rest[i];
        const size_t mark = test_mark();
        weights_imported imported;
        fault f = {0};
        if (row->kind != kind)
            continue;
        put_file(type, s, &(naming){.prefix = row->prefix}, &row->extra, 1, NULL, second);
        const bool good = weights_import(b, second, 3, &imported, &f);
        if (good == row->wrong || strstr(good ? imported.unread : f.text, row->named) == NULL ||
            (row->named[0] == '\0' && imported.unread[0] != '\0'))
            fail_msg("%s: %s", row->extra.name, good ? imported.unread : f.text);
        if (!good)
            assert_int_equal(f.code, CODE_DATA);
        test_release(mark);
    }
}

/* Of a tied pair either name is enough; many names are few patterns. */
static void tied_and_many(NO_ROW)
{
    enum { MANY = 40 };
    extra extras[MANY] = {{"lm_head.weight", "F32", "256,128", 0, "wte.weight"}};
    const char *first = test_text("%s/1", test_folder()),
               *second = test_text("%s/2", test_folder());
    net_model *a = make_model(GPT2, 1), *b = make_model(GPT2, 2);
    weights_imported imported;
    TEST_GOOD(weights_export(a, first, &f));
    const safetensors *s = open_file(first);
    put_file(&gpt_model, s, &(naming){.other = true}, extras, 1, "wte.weight", second);
    TEST_GOOD(weights_import(b, second, 3, &imported, &f));
    assert_string_equal(imported.unread, "");
    check_same(a, b, "a head alone");
    for (size_t i = 0; i < MANY; i++)
        extras[i] = (extra)F32(test_text("score%zu.%zu.weight", i % 8, i / 8), "2", 2);
    put_file(&gpt_model, s, &(naming){0}, extras, MANY, NULL, second);
    TEST_GOOD(weights_import(b, second, 3, &imported, &f));
    test_says(imported.unread, "\"score0.*.weight\" (5), \"score1.*.weight\" (5), ");
    test_says(imported.unread, "\"score5.*.weight\" (5) and 10 more");
}

/* A head without a value, and adapters, get initial values; nothing else is drawn. */
static void initial_values(NO_ROW)
{
    const trainer_model *type = &bert_model;
    const char *first = test_text("%s/1", test_folder()),
               *second = test_text("%s/2", test_folder());
    net_model *a = make_model(BERT, 1), *b = make_model(BERT, 7), *c = make_model(BERT, 3);
    weights_imported imported;
    write_weights(a, true);
    TEST_GOOD(weights_export(a, first, &f));
    put_file(type, open_file(first), &(naming){0}, NULL, 0, "classifier.weight", second);
    TEST_GOOD(weights_import(b, second, 3, &imported, &f));
    assert_true(imported.head_left);
    const clprune_mat head = test_weight(c, "classifier.weight")->mat; /* that of seed 3 */
    float *values = test_floats(head.rows * head.cols);
    TEST_OK(clprune_mat_read(test_context(), head, values));
    TEST_OK(clprune_mat_write(test_context(), test_weight(a, "classifier.weight")->mat, values));
    check_same(a, b, "without a head");
}

int main(void)
{
    test_list list = {0};
    if (!safetensors_readable())
        return TEST_SKIPPED;
    for (size_t i = 0; i < MODELS; i++)
        test_add(&list, names, (void *)(uintptr_t)i, "names of %s %zu", models[i].type->program,
            models[i].arch);
    for (size_t i = 0; i < MODELS; i++)
        test_add(&list, unread, (void *)(uintptr_t)i, "other tensors, %s %zu",
            models[i].type->program, models[i].arch);
    test_add(&list, tied_and_many, NULL, "a tied pair, and many tensors");
    test_add(&list, initial_values, NULL, "initial values");
    return test_run_on_each_device("weight_names", &list);
}
