#include "gpt_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt_rope.h"
#include "trainer/files/json_file.h"
#include "trainer/files/plain_file.h"

/* Kinds of models with the same fields of config.json. */
enum {
    LLAMA = 1,
    PHI3 = 2,
    GEMMA = 4,
    GEMMA2 = 8,
    GPT2 = 16,
    NEOX = 32,
    GEMMA3 = 64,
    SMOLLM3 = 128,
    OLMO2 = 256,
    PHI = 512
};

/* A kind of model, by model_type: what is its own where config.json says nothing. */
typedef struct kind_row {
    const char *type;
    unsigned family;
    double theta, eps;
    bool tied, qkv_bias, head_norms, windowed; /* windowed: sliding_window counts */
    double head, window;                       /* head: columns; 0: dim / heads */
    double every; /* the last one of so many blocks is unlike the others; 0: all are alike */
} kind_row;

static const kind_row kinds[] = {{"llama", LLAMA, 1e4, 1e-6},
    {"mistral", LLAMA, 1e4, 1e-6, .windowed = true, .window = 4096},
    {"qwen2", LLAMA, 1e4, 1e-6, .qkv_bias = true},
    {"qwen3", LLAMA, 1e4, 1e-6, .head_norms = true, .head = 128},
    {"smollm3", SMOLLM3, 2e6, 1e-6, .tied = true, .windowed = true, .every = 4},
    {"phi3", PHI3, 1e4, 1e-5, .windowed = true},
    {"gemma", GEMMA, 1e4, 1e-6, .tied = true, .head = 256},
    {"gemma2", GEMMA2, 1e4, 1e-6, .tied = true, .windowed = true, .head = 256, .window = 4096},
    {"gemma3_text", GEMMA3, 1e6, 1e-6, .tied = true, .head_norms = true, .windowed = true,
        .head = 256, .window = 4096, .every = 6},
    {"olmo2", OLMO2, 1e4, 1e-5, .head_norms = true}, {"gpt2", GPT2, 0, 1e-5, .tied = true},
    {"gpt_neox", NEOX, 1e4, 1e-5}, {"phi", PHI, 1e4, 1e-5}};

/* What must have one value, or one of two. */
static const struct {
    const char *name, *usual, *want, *other;
    unsigned families;
} texts[] = {{"hidden_act", "silu", "silu", NULL, LLAMA | PHI3 | SMOLLM3 | OLMO2},
    {"hidden_act", "gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu", GEMMA},
    {"hidden_activation", "gelu_pytorch_tanh", "gelu_pytorch_tanh", NULL, GEMMA | GEMMA2 | GEMMA3},
    {"activation_function", "gelu_new", "gelu_new", NULL, GPT2},
    {"hidden_act", "gelu", "gelu", NULL, NEOX},
    {"hidden_act", "gelu_new", "gelu_new", "gelu_pytorch_tanh", PHI}};
static const struct {
    const char *name;
    double want;
    unsigned families;
} flags[] = {{"mlp_bias", 0, LLAMA | SMOLLM3}, {"use_sliding_window", 0, LLAMA | SMOLLM3},
    {"attention_bias", 0, PHI3}, {"use_bidirectional_attention", 0, GEMMA | GEMMA2 | GEMMA3},
    {"scale_attn_weights", 1, GPT2}, {"scale_attn_by_inverse_layer_idx", 0, GPT2},
    {"reorder_and_upcast_attn", 0, GPT2}, {"add_cross_attention", 0, GPT2},
    {"attention_bias", 1, NEOX}, {"qk_layernorm", 0, PHI}};

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

static bool is_plain(const json_file *c, unsigned family)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        const char *text = json_file_text(c, texts[i].name, texts[i].usual);
        const bool good =
            text != NULL && (strcmp(text, texts[i].want) == 0 ||
                                (texts[i].other != NULL && strcmp(text, texts[i].other) == 0));
        if ((texts[i].families & family) != 0 && !good) {
            (void)snprintf(what, sizeof what, "its %s is %.60s, expected %s", texts[i].name,
                text != NULL ? text : "no text", texts[i].want);
            return false;
        }
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; ++i)
        if ((flags[i].families & family) != 0 &&
            json_file_number(c, flags[i].name, flags[i].want) != flags[i].want) {
            (void)snprintf(what, sizeof what, "its %s is not %s", flags[i].name,
                flags[i].want != 0 ? "true" : "false");
            return false;
        }
    return true;
}

/* A number; null is 0, but what is not there is `usual`. */
static double number_or(const json_file *c, const char *name, double usual)
{
    return json_file_number(c, name, json_file_has(c, name) ? 0 : usual);
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

/* Theta, the columns of a head that rotate, and their angles, of an object; where it has no theta,
 * that is `outside` of it. */
static bool take_rotary(const json_file *c, const char *object, double outside, unsigned family,
    gpt_arch *a, gpt_rotary *to)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s.rope_theta", object);
    const double theta = json_file_number(c, path, outside);
    (void)snprintf(path, sizeof path, "%s.partial_rotary_factor", object);
    const double part = json_file_number(c, path,
        json_file_number(c, "partial_rotary_factor",
            family == NEOX  ? json_file_number(c, "rotary_pct", 0.25)
            : family == PHI ? 0.5
                            : 1));
    to->theta = (float)theta;
    if (a->heads % a->kv_heads != 0 || a->head % 2 != 0 || !(theta > 1) || !isfinite(to->theta)) {
        (void)snprintf(what, sizeof what,
            "it has %zu heads of %zu, %zu of keys, and theta %g, which do not go with each other",
            a->heads, a->head, a->kv_heads, theta);
        return false;
    }
    const bool parts = (family & (PHI3 | NEOX | PHI)) != 0;
    a->turned = parts && part > 0 ? (size_t)(part * (double)a->head) : a->head;
    if (!(part > 0 && part <= 1) || (part != 1 && !parts) || a->turned == 0) {
        (void)snprintf(what, sizeof what, "its partial_rotary_factor is %g%s", part,
            parts ? "" : ", expected 1");
        return false;
    }
    if (a->turned % 2 != 0 || a->turned > 2 * GPT_PAIRS) {
        (void)snprintf(what, sizeof what,
            "rotary positions turn %zu columns of a head, expected an even number up to %d",
            a->turned, 2 * GPT_PAIRS);
        return false;
    }
    const char *text = gpt_rope_read(c, object, a, to);
    if (text != NULL)
        (void)snprintf(what, sizeof what, "%s", text);
    return text == NULL;
}

/* The rotary positions, in Gemma 3 of local blocks and of the others, which are global. */
static bool take_positions(const json_file *c, const kind_row *kind, gpt_arch *a)
{
    const bool third = kind->family == GEMMA3;
    const char *now = third ? "rope_parameters.full_attention" : "rope_parameters";
    /* an object is no number */
    const char *object = isnan(json_file_number(c, "rope_scaling", 0)) ? "rope_scaling" : now;
    const double theta = json_file_number(c, "rope_parameters.full_attention.rope_theta",
        json_file_number(c, "rope_theta", json_file_number(c, "rotary_emb_base", kind->theta)));
    return take_rotary(c, object, theta, kind->family, a, third ? &a->others : &a->rotary) &&
           (!third || take_rotary(c, "rope_parameters.sliding_attention",
                          json_file_number(c, "rope_local_base_freq", 1e4), GEMMA3, a, &a->rotary));
}

/* A text's number, 0 or 1; NaN: it is neither. */
static double which(const json_file *c, const char *name, const char *zero, const char *one)
{
    const char *text = json_file_text(c, name, NULL);
    return text == NULL ? NAN : strcmp(text, one) == 0 ? 1 : strcmp(text, zero) == 0 ? 0 : NAN;
}

/* The other blocks: the last one of so many, or as an array has it. */
static bool take_blocks(const json_file *c, const kind_row *kind, gpt_arch *a)
{
    const bool third = kind->family == GEMMA3;
    const char *array = third ? "layer_types" : "no_rope_layers";
    const bool listed = json_file_number(c, array, 0) != 0; /* an array is no number */
    size_t every;
    if (!take_size(
            c, third ? "sliding_window_pattern" : "no_rope_layer_interval", kind->every, &every))
        return false;
    if (a->depth > GPT_BLOCKS) {
        (void)snprintf(
            what, sizeof what, "it has %zu blocks, expected up to %d", a->depth, GPT_BLOCKS);
        return false;
    }
    for (size_t i = 0; i < a->depth; ++i) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.%zu", array, i);
        const double other = third ? which(c, name, "sliding_attention", "full_attention")
                                   : 1 - json_file_number(c, name, NAN);
        if (listed && other != 0 && other != 1) {
            (void)snprintf(what, sizeof what, "its %s is neither %s", name,
                third ? "full_attention nor sliding_attention" : "0 nor 1");
            return false;
        }
        a->other[i] = listed ? other == 1 : (i + 1) % every == 0;
    }
    return true;
}

/* What Gemma has beside Llama. */
static bool take_gemma(const json_file *c, unsigned family, gpt_arch *a)
{
    const double scalar = json_file_number(c, "query_pre_attn_scalar", 256);
    const bool second = family == GEMMA2; /* transformers has no cap of scores in Gemma 3 */
    const double cap = second ? number_or(c, "attn_logit_softcapping", 50) : 0;
    const double logit_cap = number_or(c, "final_logit_softcapping", second ? 30 : 0);
    gpt_gemma(a, family != GEMMA);
    if (family == GEMMA)
        return true;
    a->cap = (float)cap;
    a->logit_cap = (float)logit_cap;
    gpt_rope_queries(a, scalar);
    if (cap >= 0 && cap < 1e9 && logit_cap >= 0 && logit_cap < 1e9 && scalar > 0 && scalar < 1e9)
        return true;
    (void)snprintf(what, sizeof what,
        "it has caps of %g and %g, and divides scores by the root of %g", cap, logit_cap, scalar);
    return false;
}

static bool take_llama(const json_file *c, const kind_row *kind, gpt_arch *a)
{
    size_t window = 0;
    if (!take_size(c, "hidden_size", NAN, &a->dim) ||
        !take_size(c, "num_hidden_layers", NAN, &a->depth) ||
        !take_size(c, "num_attention_heads", NAN, &a->heads) ||
        !(kind->family == NEOX
                ? (a->kv_heads = a->heads) > 0
                : take_size(c, "num_key_value_heads", (double)a->heads, &a->kv_heads)) ||
        !take_size(c, "intermediate_size", NAN, &a->hidden) ||
        !take_size(c, "max_position_embeddings", 2048, &a->context) ||
        !take_size(c, kind->family == NEOX ? "(none)" : "head_dim",
            kind->head > 0 ? kind->head : (double)a->dim / (double)a->heads, &a->head) ||
        (kind->windowed && number_or(c, "sliding_window", kind->window) != 0 &&
            !take_size(c, "sliding_window", kind->window, &window)))
        return false;
    a->joint = kind->family == PHI3;
    a->neox = kind->family == NEOX;
    a->phi = kind->family == PHI;
    a->parallel = json_file_number(c, "use_parallel_residual", 1) != 0;
    a->out_bias = json_file_number(c, "attention_bias", 0) == 1;
    a->qkv_bias = a->out_bias || kind->qkv_bias;
    a->head_norms = kind->head_norms;
    a->norms_behind = a->olmo2 = kind->family == OLMO2;
    if (!take_positions(c, kind, a) || (kind->every > 0 && !take_blocks(c, kind, a)))
        return false;
    if (window > 0 && memchr(a->other, false, a->depth) != NULL)
        gpt_limit(a, window); /* within it, each token sees all before it */
    return (kind->family & (GEMMA | GEMMA2 | GEMMA3)) == 0 || take_gemma(c, kind->family, a);
}

static bool take(const json_file *c, gpt_arch *a)
{
    const char *type = json_file_text(c, "model_type", "(none)");
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && (type == NULL || strcmp(kinds[k].type, type) != 0))
        ++k;
    if (k == sizeof kinds / sizeof *kinds) {
        (void)snprintf(what, sizeof what,
            "its model_type is %.60s, expected llama, mistral, qwen2, qwen3, smollm3, phi3, gemma, "
            "gemma2, gemma3_text, olmo2, gpt2, gpt_neox or phi",
            type != NULL ? type : "no text");
        return false;
    }
    const bool gpt2 = kinds[k].family == GPT2;
    const double eps = json_file_number(c,
        gpt2                                    ? "layer_norm_epsilon"
        : (kinds[k].family & (NEOX | PHI)) != 0 ? "layer_norm_eps"
                                                : "rms_norm_eps",
        kinds[k].eps);
    a->eps = (float)eps;
    a->untied = json_file_number(c, "tie_word_embeddings", kinds[k].tied) != 1;
    if (!take_size(c, "vocab_size", NAN, &a->vocabulary) || !is_plain(c, kinds[k].family) ||
        !(gpt2 ? take_gpt2(c, a) : take_llama(c, &kinds[k], a)))
        return false;
    if (a->eps > 0 && eps < 1 && (a->head > 0 || a->dim % a->heads == 0))
        return true;
    (void)snprintf(what, sizeof what, "it has %zu heads for a width of %zu, and norms add %g",
        a->heads, a->dim, eps);
    return false;
}

void gpt_gemma(gpt_arch *a, bool later)
{
    a->gelu = true;
    a->less = 1;
    a->embedding = sqrtf((float)a->dim);
    a->norms_behind = later;
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
