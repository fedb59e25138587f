#include "trainer/files/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* rmdir */

#include "trainer/files/plain_file.h"
#include "trainer/files/safetensors.h"
#include "trainer/files/weight_names.h"

enum { NAME = 192, PATH = 4096 };

const char *const adapters_files[2] = {"adapter_model.safetensors", "adapter_config.json"};

/* A or B of a module. */
typedef struct tensor {
    char name[NAME];
    clprune_mat mat;
} tensor;

typedef struct listing {
    tensor *tensors; /* (count) sorted by name */
    size_t count, rank;
    float factor;
    bool transposed; /* weights of the base model are in x out */
} listing;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

/* The module of a weight in a model with a head, as PEFT calls it: without ".weight". Names of
 * GPT2Model get a prefix in GPT2LMHeadModel, those of LlamaForCausalLM have it. */
static void module_of(const trainer_model *type, const char *weight, char *name, size_t size)
{
    char other[128];
    weights_other_name(type, weight, other, sizeof other);
    const char *used = type->tokens && strlen(other) > strlen(weight) ? other : weight;
    const char *end = strrchr(used, '.');
    (void)snprintf(name, size, "%.*s", (int)(end - used), used);
}

static bool list(const trainer_model *type, void *model, listing *l, fault *f)
{
    trainer_weight w;
    size_t weights = 0;
    while (type->weight(model, weights, &w))
        ++weights;
    *l = (listing){.tensors = calloc(2 * weights + 1, sizeof *l->tensors)};
    if (l->tensors == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; type->weight(model, i, &w); ++i) {
        char module[128];
        if (w.lora_a.rows == 0)
            continue;
        module_of(type, w.name, module, sizeof module);
        for (int k = 0; k < 2; ++k) {
            tensor *t = &l->tensors[l->count++];
            (void)snprintf(
                t->name, NAME, "base_model.model.%s.lora_%c.weight", module, k == 0 ? 'A' : 'B');
            t->mat = k == 0 ? w.lora_a : w.lora_b;
        }
        l->rank = w.lora_a.rows;
        l->factor = w.lora_factor;
        l->transposed = w.transposed;
    }
    qsort(l->tensors, l->count, sizeof *l->tensors, by_name);
    return true;
}

static bool put_mat(clprune_context *context, clprune_mat mat, atomic_file *file, fault *f)
{
    const size_t count = mat.rows * mat.cols;
    float *values = malloc(count * sizeof *values);
    bool good = (values != NULL || fault_set(f, CODE_MEMORY, "out of memory")) &&
                fault_check(f, context, clprune_mat_read(context, mat, values), "reading adapters");
    if (good)
        safetensors_put_f32(file, count, values);
    free(values);
    return good;
}

static bool put_tensors(clprune_context *context, const listing *l, const char *folder, fault *f)
{
    char path[PATH];
    atomic_file file = {0};
    safetensor *headers = calloc(l->count + 1, sizeof *headers);
    (void)snprintf(path, sizeof path, "%s/%s", folder, adapters_files[0]);
    bool good = headers != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; good && i < l->count; ++i)
        headers[i] = (safetensor){.name = l->tensors[i].name,
            .type = SAFETENSOR_F32,
            .rank = 2,
            .shape = {l->tensors[i].mat.rows, l->tensors[i].mat.cols},
            .count = l->tensors[i].mat.rows * l->tensors[i].mat.cols};
    good = good && atomic_file_open(path, &file, f) &&
           safetensors_put_header(&file, l->count, headers, f);
    for (size_t i = 0; good && i < l->count; ++i)
        good = put_mat(context, l->tensors[i].mat, &file, f);
    free(headers);
    if (good)
        return atomic_file_commit(&file, f);
    atomic_file_abandon(&file);
    return false;
}

/* Whole names of modules, so that no other layer gets an adapter. */
static bool put_config(const trainer_model *type, const listing *l, const char *folder, fault *f)
{
    static const char start[] = "base_model.model.";
    char path[PATH];
    atomic_file file = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, adapters_files[1]);
    if (!atomic_file_open(path, &file, f))
        return false;
    (void)fprintf(file.stream,
        "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": %s,\n  \"base_model_name_or_path\": "
        "null,\n"
        "  \"r\": %zu,\n  \"lora_alpha\": %g,\n  \"lora_dropout\": 0.0,\n  \"bias\": \"none\",\n"
        "  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n  \"target_modules\": [",
        trainer_predicts_tokens(type) ? "\"CAUSAL_LM\"" : "null", l->rank,
        (double)l->factor * (double)l->rank, l->transposed ? "true" : "false");
    for (size_t i = 0; i < l->count; i += 2) {
        const char *name = l->tensors[i].name + sizeof start - 1;
        (void)fprintf(file.stream, "%s\n    \"%.*s\"", i > 0 ? "," : "",
            (int)(strstr(name, ".lora_") - name), name);
    }
    (void)fputs("\n  ]\n}\n", file.stream);
    return atomic_file_commit(&file, f);
}

static bool check_length(const char *folder, fault *f)
{
    return strlen(folder) <= PATH - 64 ||
           fault_set(f, CODE_USAGE, "--adapters: the name is too long");
}

bool adapters_probe(const char *folder, fault *f)
{
    char path[PATH];
    bool there;
    if (!check_length(folder, f) || !plain_file_exists(folder, &there, f))
        return false;
    bool good = make_folder(folder, f);
    for (size_t i = 0; good && i < 2; ++i) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, adapters_files[i]);
        good = atomic_file_probe(path, f);
    }
    if (!there)
        (void)rmdir(folder);
    return good;
}

bool adapters_export(
    const trainer_model *type, void *model, clprune_context *context, const char *folder, fault *f)
{
    listing l;
    if (!check_length(folder, f))
        return false;
    const bool good = list(type, model, &l, f) && make_folder(folder, f) &&
                      put_tensors(context, &l, folder, f) && put_config(type, &l, folder, f);
    free(l.tensors);
    return good;
}
