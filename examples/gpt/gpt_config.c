#include "gpt_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/json_file.h"
#include "trainer/files/plain_file.h"

/* A kind of model, by model_type: what is its own where config.json says nothing. */
typedef struct kind_row {
    const char *type;
    double theta, eps, tied, qkv_bias, head; /* head: columns; 0: dim / heads */
    bool head_norms;
} kind_row;

static const kind_row kinds[] = {{"llama", 1e4, 1e-6, 0, 0, 0, false},
    {"mistral", 1e4, 1e-6, 0, 0, 0, false}, {"qwen2", 1e4, 1e-6, 0, 1, 0, false},
    {"qwen3", 1e4, 1e-6, 0, 0, 128, true}, {"gpt2", 0, 1e-5, 1, 1, 0, false}};

/* What must have one value. */
static const struct {
    const char *name, *usual, *want;
    bool gpt2;
} texts[] = {{"hidden_act", "silu", "silu", false},
    {"rope_scaling.rope_type", "default", "default", false},
    {"rope_scaling.type", "default", "default", false},
    {"rope_parameters.rope_type", "default", "default", false},
    {"activation_function", "gelu_new", "gelu_new", true}};
static const struct {
    const char *name;
    double want;
    bool gpt2;
} flags[] = {{"mlp_bias", 0, false}, {"use_sliding_window", 0, false},
    {"scale_attn_weights", 1, true}, {"scale_attn_by_inverse_layer_idx", 0, true},
    {"reorder_and_upcast_attn", 0, true}, {"add_cross_attention", 0, true}};

static char wrong[512], what[256]; /* what: behind the file's name */

/* A whole number from 1 to 2^24. */
static bool take_size(const json_file *c, const char *name, double usual, size_t *size)
{
    const double value = json_file_number(c, name, usual);
    const bool good = value >= 1 && value <= 0x1p24 && value == floor(value);
    *size = good ? (size_t)value : 0;
    if (!good)
        (void)snprintf(what, sizeof what, "its %s is no whole number from 1 to 16777216", name);
    return good;
}

static bool is_plain(const json_file *c, bool gpt2)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        const char *text = json_file_text(c, texts[i].name, texts[i].usual);
        if (texts[i].gpt2 == gpt2 && (text == NULL || strcmp(text, texts[i].want) != 0)) {
            (void)snprintf(what, sizeof what, "its %s is %.60s, expected %s", texts[i].name,
                text != NULL ? text : "no text", texts[i].want);
            return false;
        }
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; ++i)
        if (flags[i].gpt2 == gpt2 &&
            json_file_number(c, flags[i].name, flags[i].want) != flags[i].want) {
            (void)snprintf(what, sizeof what, "its %s is not %s", flags[i].name,
                flags[i].want != 0 ? "true" : "false");
            return false;
        }
    return true;
}

static bool take_gpt2(const json_file *c, gpt_arch *a)
{
    if (!take_size(c, "n_embd", 768, &a->dim) || !take_size(c, "n_layer", 12, &a->depth) ||
        !take_size(c, "n_head", 12, &a->heads) || !take_size(c, "n_positions", 1024, &a->context))
        return false;
    if (json_file_number(c, "n_inner", 4.0 * (double)a->dim) == 4.0 * (double)a->dim)
        return true;
    (void)snprintf(what, sizeof what, "its n_inner is not 4 n_embd");
    return false;
}

static bool take_llama(const json_file *c, const kind_row *kind, gpt_arch *a)
{
    size_t window;
    if (!take_size(c, "hidden_size", NAN, &a->dim) ||
        !take_size(c, "num_hidden_layers", NAN, &a->depth) ||
        !take_size(c, "num_attention_heads", NAN, &a->heads) ||
        !take_size(c, "num_key_value_heads", (double)a->heads, &a->kv_heads) ||
        !take_size(c, "intermediate_size", NAN, &a->hidden) ||
        !take_size(c, "max_position_embeddings", 2048, &a->context) ||
        !take_size(c, "head_dim", kind->head > 0 ? kind->head : (double)a->dim / (double)a->heads,
            &a->head) ||
        !take_size(c, "sliding_window", (double)a->context, &window))
        return false;
    if (window < a->context && strcmp(kind->type, "mistral") == 0)
        a->context = window; /* within it, each token sees all before it */
    const double theta = json_file_number(
        c, "rope_theta", json_file_number(c, "rope_parameters.rope_theta", kind->theta));
    a->theta = (float)theta;
    a->out_bias = json_file_number(c, "attention_bias", 0) == 1;
    a->qkv_bias = a->out_bias || kind->qkv_bias == 1;
    a->head_norms = kind->head_norms;
    if (a->heads % a->kv_heads == 0 && a->head % 2 == 0 && theta > 1)
        return true;
    (void)snprintf(what, sizeof what,
        "it has %zu heads of %zu, %zu of keys, and theta %g, which do not go with each other",
        a->heads, a->head, a->kv_heads, theta);
    return false;
}

static bool take(const json_file *c, gpt_arch *a)
{
    const char *type = json_file_text(c, "model_type", "(none)");
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && (type == NULL || strcmp(kinds[k].type, type) != 0))
        ++k;
    if (k == sizeof kinds / sizeof *kinds) {
        (void)snprintf(what, sizeof what,
            "its model_type is %.60s, expected llama, mistral, qwen2, qwen3 or gpt2",
            type != NULL ? type : "no text");
        return false;
    }
    const bool gpt2 = kinds[k].theta == 0;
    const double eps =
        json_file_number(c, gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", kinds[k].eps);
    a->eps = (float)eps;
    a->untied = json_file_number(c, "tie_word_embeddings", kinds[k].tied) != 1;
    if (!take_size(c, "vocab_size", NAN, &a->vocabulary) || !is_plain(c, gpt2) ||
        !(gpt2 ? take_gpt2(c, a) : take_llama(c, &kinds[k], a)))
        return false;
    if (a->eps > 0 && eps < 1 && (a->head > 0 || a->dim % a->heads == 0))
        return true;
    (void)snprintf(what, sizeof what, "it has %zu heads for a width of %zu, and norms add %g",
        a->heads, a->dim, eps);
    return false;
}

const char *gpt_config_read(const char *folder, gpt_arch *arch)
{
    fault f = {0};
    gpt_arch made = {0};
    char *path = path_join(folder, "", "config.json");
    json_file *file = path != NULL ? json_file_open(path, &f) : NULL;
    bool good = file != NULL && take(file, &made);
    if (file == NULL)
        (void)snprintf(wrong, sizeof wrong, "%.500s", path != NULL ? f.text : "out of memory");
    else if (!good)
        (void)snprintf(wrong, sizeof wrong, "%.250s: %s", path, what);
    json_file_close(file);
    free(path);
    if (good)
        *arch = made;
    return good ? NULL : wrong;
}
