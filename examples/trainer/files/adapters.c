#include "trainer/files/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* rmdir */

#include "trainer/files/plain_file.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/weight_names.h"
#include "trainer/files/weights.h"

enum { NAME = 192, PATH = 4096 };

const char *const adapters_files[2] = {"adapter_model.safetensors", "adapter_config.json"};

/* A or B of an adapter; or a weight, with its adapter merged into it; or a count. */
typedef struct tensor {
    char name[NAME];
    trainer_weight matrix; /* rank 0: another one */
    const trainer_weight *weight;
    const int64_t *count;
} tensor;

typedef struct listing {
    const net_model *model;
    bool *changed;   /* of each of its weights: the base has another value, or none */
    tensor *tensors; /* (count) */
    size_t count;
    char (*saved)[NAME]; /* (saved_count) modules that are there as a whole */
    size_t saved_count;
    bool biases; /* of modules that are not */
    size_t rank;
    bool transposed; /* weights of the base model are in x out */
} listing;

/* Counts first, each by name. */
static int by_name(const void *a, const void *b)
{
    const tensor *left = a, *right = b;
    if ((left->count == NULL) != (right->count == NULL))
        return left->count == NULL ? 1 : -1;
    return strcmp(left->name, right->name);
}

/* The bytes of a weight's name that are its module's. */
static size_t module_length(const char *weight)
{
    const char *end = strrchr(weight, '.');
    return end != NULL ? (size_t)(end - weight) : 0;
}

/* The name of a weight in a model with a head, which PEFT adapts: tokens' models get a prefix
 * there, or have it. */
static void name_in_model(const trainer_model *type, const char *weight, char *name, size_t size)
{
    char other[128];
    weights_other_name(type, weight, other, sizeof other);
    (void)snprintf(
        name, size, "%s", type->tokens && strlen(other) > strlen(weight) ? other : weight);
}

/* Adds a tensor named as the weight `of`, with `end` in place of what is behind the module's name,
 * if it is not NULL. */
static tensor *add(listing *l, const char *of, const char *end)
{
    char name[128];
    tensor *t = &l->tensors[l->count++];
    name_in_model(l->model->type, of, name, sizeof name);
    (void)snprintf(t->name, NAME, "base_model.model.%.*s%s",
        end != NULL ? (int)module_length(name) : (int)strlen(name), name, end != NULL ? end : "");
    return t;
}

static bool in_module(const char *weight, const char *module, size_t length)
{
    return module_length(weight) == length && strncmp(weight, module, length) == 0;
}

/* Whether PEFT can save a module as a whole: it has no modules, and no other has a name that ends
 * with its name, which PEFT would save, too. */
static bool is_whole(const listing *l, const char *module, size_t length)
{
    for (size_t i = 0; i < l->model->weights_count; ++i) {
        const char *name = l->model->weights[i].name;
        const size_t most = module_length(name);
        if (most > length && ((strncmp(name, module, length) == 0 && name[length] == '.') ||
                                 strncmp(name + most - length, module, length) == 0))
            return false;
    }
    return length > 0;
}

static void save_name(listing *l, const char *weight)
{
    char name[128];
    name_in_model(l->model->type, weight, name, sizeof name);
    (void)snprintf(l->saved[l->saved_count++], NAME, "%.*s", (int)module_length(name), name);
}

static void add_counts(listing *l, const char *module, size_t length)
{
    for (size_t i = 0; i < l->model->counts_count; ++i)
        if (in_module(l->model->counts[i].name, module, length) &&
            *l->model->counts[i].value != TRAINER_NO_COUNT)
            add(l, l->model->counts[i].name, NULL)->count = l->model->counts[i].value;
}

/* Adds all tensors of the module of weight `first`. */
static void add_whole(listing *l, size_t first)
{
    const char *module = l->model->weights[first].name;
    const size_t length = module_length(module);
    save_name(l, module);
    for (size_t i = first; i < l->model->weights_count; ++i) {
        const trainer_weight *w = &l->model->weights[i];
        if (!in_module(w->name, module, length))
            continue;
        add(l, w->name, NULL)->weight = w;
        if (w->twin[0] == '\0')
            continue;
        add(l, w->twin, NULL)->weight = w;
        save_name(l, w->twin);
    }
}

/* A matrix of an adapter; heads: of its rows. */
static trainer_weight matrix_of(clprune_mat mat, size_t heads)
{
    return (trainer_weight){.rank = 2, .shape = {mat.rows, mat.cols}, .mat = mat, .heads = heads};
}

/* Adds what differs from the base in the module of weight `first`: the whole module, or its bias
 * and its adapter; of what is no such module, single tensors. */
static void add_module(listing *l, size_t first)
{
    const char *module = l->model->weights[first].name;
    const size_t length = module_length(module);
    bool other = false;
    for (size_t i = first; i < l->model->weights_count; ++i)
        other = other || (l->changed[i] && in_module(l->model->weights[i].name, module, length) &&
                             strcmp(l->model->weights[i].name + length, ".bias") != 0);
    if (other)
        add_counts(l, module, length);
    if (other && is_whole(l, module, length)) {
        add_whole(l, first);
        return;
    }
    for (size_t i = first; i < l->model->weights_count; ++i) {
        const trainer_weight *w = &l->model->weights[i];
        const bool bias = strcmp(w->name + length, ".bias") == 0;
        if (!in_module(w->name, module, length))
            continue;
        if (l->changed[i]) {
            const bool inner = !other && l->model->weights[first].lora_a.rows > 0;
            add(l, w->name, inner ? ".base_layer.bias" : NULL)->weight = w;
            l->biases = l->biases || bias;
        } else if (w->lora_a.rows > 0 && !other) {
            add(l, w->name, ".lora_A.weight")->matrix = matrix_of(w->lora_a, 0);
            add(l, w->name, ".lora_B.weight")->matrix = matrix_of(w->lora_b, w->heads);
            l->rank = w->lora_a.rows;
            l->transposed = w->transposed;
        }
    }
}

/* Whether a weight is trained, or a running statistic. */
static bool is_changed(const net_model *model, const trainer_weight *w)
{
    size_t count;
    const clprune_param *params = clprune_net_params(model->net, &count);
    for (size_t i = 0; i < count; ++i) {
        const clprune_mat *value = &params[i].value;
        if (value->buffer == w->mat.buffer && w->mat.offset >= value->offset &&
            w->mat.offset < value->offset + value->rows * value->ld)
            return true;
    }
    return strncmp(w->name + module_length(w->name), ".running_", 9) == 0;
}

/* Compares the weights with those of the base: a head that it lacks is a change; rows of a weight
 * that it has more of have no place in the adapters. */
static void compare_base(listing *l, const char *path, char *missing, size_t size)
{
    weight_names base;
    fault unread = {0};
    const bool opened = path != NULL && weight_names_open(l->model->type, path, l->model->weights,
                                            l->model->weights_count, &base, &unread);
    for (size_t i = 0; i < l->model->weights_count; ++i) {
        const trainer_weight *w = &l->model->weights[i];
        const file_tensor *t = opened ? weight_names_of(&base, w) : NULL;
        const bool same = t != NULL && t->count == weights_elements(w);
        l->changed[i] = l->changed[i] || (w->head && path != NULL && !same);
        if (!w->longer || t == NULL || same || !l->changed[i])
            continue;
        l->changed[i] = false;
        (void)snprintf(missing, size, "\"%s\" is not there: its base has more rows", w->name);
    }
    if (opened)
        weight_names_close(&base);
}

static bool list(
    const net_model *model, const char *base, listing *l, char *missing, size_t size, fault *f)
{
    const size_t count = model->weights_count;
    *l = (listing){.model = model};
    l->changed = calloc(count + 1, sizeof *l->changed);
    l->tensors = calloc(2 * count + model->counts_count + 1, sizeof *l->tensors);
    l->saved = calloc(2 * count + 1, sizeof *l->saved);
    if (l->changed == NULL || l->tensors == NULL || l->saved == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; i < count; ++i)
        l->changed[i] = is_changed(model, &model->weights[i]);
    compare_base(l, base, missing, size);
    for (size_t i = 0; i < count; ++i) {
        const char *module = l->model->weights[i].name;
        size_t k = 0;
        while (!in_module(l->model->weights[k].name, module, module_length(module)))
            ++k;
        if (k == i)
            add_module(l, i);
    }
    qsort(l->tensors, l->count, sizeof *l->tensors, by_name);
    return true;
}

static safetensor header_of(tensor *t)
{
    safetensor header = {.name = t->name, .type = SAFETENSOR_F32};
    if (t->count != NULL) {
        header.type = SAFETENSOR_I64;
        header.count = 1;
    } else {
        const trainer_weight *w = t->weight != NULL ? t->weight : &t->matrix;
        header.rank = w->rank;
        header.count = weights_elements(w);
        for (size_t k = 0; k < header.rank; ++k)
            header.shape[k] = w->shape[k];
    }
    return header;
}

static bool put_tensors(const listing *l, const char *folder, fault *f)
{
    char path[PATH];
    atomic_file file = {0};
    safetensor *headers = calloc(l->count + 1, sizeof *headers);
    (void)snprintf(path, sizeof path, "%s/%s", folder, adapters_files[0]);
    bool good = headers != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; good && i < l->count; ++i)
        headers[i] = header_of(&l->tensors[i]);
    good = good && atomic_file_open(path, &file, f) &&
           safetensors_put_header(&file, l->count, headers, f);
    for (size_t i = 0; good && i < l->count; ++i) {
        const tensor *t = &l->tensors[i];
        if (t->count != NULL)
            safetensors_put_i64(&file, *t->count);
        else
            good = weights_put(
                l->model->context, t->weight != NULL ? t->weight : &t->matrix, &file, f);
    }
    free(headers);
    if (good)
        return atomic_file_commit(&file, f);
    atomic_file_abandon(&file);
    return false;
}

/* Whole names of modules, so that no other layer gets an adapter. */
static bool put_config(const listing *l, const char *folder, fault *f)
{
    static const char start[] = "base_model.model.", adapter[] = ".lora_A.weight";
    const trainer_sizes *sizes = &l->model->sizes;
    const char *between = "";
    const size_t rank = l->rank > 0 ? l->rank : 1;
    char path[PATH];
    atomic_file file = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, adapters_files[1]);
    if (!atomic_file_open(path, &file, f))
        return false;
    (void)fprintf(file.stream,
        "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": %s,\n  \"base_model_name_or_path\": "
        "null,\n"
        "  \"r\": %zu,\n  \"lora_alpha\": %.9g,\n  \"use_rslora\": %s,\n  \"lora_dropout\": "
        "%.9g,\n  \"bias\": \"%s\",\n"
        "  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n  \"modules_to_save\": ",
        trainer_predicts_tokens(l->model->type) ? "\"CAUSAL_LM\"" : "null", rank,
        sizes->lora_alpha > 0 ? sizes->lora_alpha : 2 * (double)rank,
        sizes->rslora ? "true" : "false", sizes->lora_dropout, l->biases ? "all" : "none",
        l->transposed ? "true" : "false");
    for (size_t i = 0; i < l->saved_count; ++i)
        (void)fprintf(file.stream, "%s\n    \"%s\"", i > 0 ? "," : "[", l->saved[i]);
    (void)fprintf(file.stream, "%s,\n  \"target_modules\": %s",
        l->saved_count > 0 ? "\n  ]" : "null", l->rank > 0 ? "[" : "\"dummy-target-modules\"");
    for (size_t i = 0; i < l->count; ++i) {
        const char *name = l->tensors[i].name + sizeof start - 1;
        const size_t length = strlen(name) - (sizeof adapter - 1);
        if (l->tensors[i].matrix.rank == 0 || strcmp(name + length, adapter) != 0)
            continue;
        (void)fprintf(file.stream, "%s\n    \"%.*s\"", between, (int)length, name);
        between = ",";
    }
    (void)fprintf(file.stream, "%s\n}\n", l->rank > 0 ? "\n  ]" : "");
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

bool adapters_export(const net_model *model, const char *base, const char *folder, char *missing,
    size_t size, fault *f)
{
    listing l;
    missing[0] = '\0';
    if (base == NULL)
        (void)snprintf(missing, size, "their base, the initial weights, is in no file");
    if (!check_length(folder, f))
        return false;
    const bool good = list(model, base, &l, missing, size, f) && make_folder(folder, f) &&
                      put_tensors(&l, folder, f) && put_config(&l, folder, f);
    free(l.changed);
    free(l.tensors);
    free(l.saved);
    return good;
}
