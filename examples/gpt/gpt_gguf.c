#include "gpt_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpt_rope.h"
#include "trainer/files/tensors/gguf_file.h"

/* Keys behind the architecture's name: those that are read, or say nothing of what is computed; of
 * one architecture, or of all. */
static const struct {
    const char *key, *only;
} known[] = {{"block_count", NULL}, {"context_length", NULL}, {"embedding_length", NULL},
    {"feed_forward_length", NULL}, {"vocab_size", NULL}, {"tensor_data_layout", NULL},
    {"attention.head_count", NULL}, {"attention.head_count_kv", NULL},
    {"attention.key_length", NULL}, {"attention.value_length", NULL},
    {"attention.layer_norm_rms_epsilon", NULL}, {"attention.layer_norm_epsilon", NULL},
    {"attention.sliding_window", NULL}, {"rope.dimension_count", NULL}, {"rope.freq_base", NULL},
    {"rope.scaling.type", NULL}, {"rope.scaling.factor", NULL},
    {"rope.scaling.original_context_length", NULL}, {"rope.scaling.finetuned", NULL},
    {"rope.scaling.attn_factor", "phi3"}, {"attn_logit_softcapping", "gemma2"},
    {"final_logit_softcapping", "gemma2"}, {"final_logit_softcapping", "gemma3"},
    {"rope.freq_base_swa", "gemma3"}, {"attention.sliding_window_pattern", "gemma3"}};

/* Those that must have one value. */
static const struct {
    const char *key;
    double want;
} fixed[] = {{"rope.scale_linear", 1}, {"expert_count", 0}, {"expert_used_count", 0},
    {"use_parallel_residual", 0}, {"attention.causal", 1}, {"rope.scaling.attn_factor", 1}};

static char wrong[512], what[256]; /* what: behind the file's name */

typedef struct source {
    gguf_file file;
    const char *kind; /* general.architecture */
} source;

static const char *key_of(const source *s, const char *name)
{
    static char key[128];
    (void)snprintf(key, sizeof key, "%s.%s", s->kind, name);
    return key;
}

/* A whole number from 1 to 2^24. */
static bool take_size(const source *s, const char *name, double usual, size_t *size)
{
    const double value = gguf_number(&s->file, key_of(s, name), usual);
    const bool good = value >= 1 && value <= 0x1p24 && value == floor(value);
    *size = good ? (size_t)value : 0;
    if (!good)
        (void)snprintf(
            what, sizeof what, "its %s is no whole number from 1 to 16777216", key_of(s, name));
    return good;
}

/* Whether all keys of the architecture are known, and their values those of gpt.c. */
static bool is_plain(const source *s)
{
    const size_t length = strlen(s->kind);
    for (size_t i = 0; i < s->file.values_count; ++i) {
        const gguf_value *v = &s->file.values[i];
        size_t k = 0, m = 0;
        if (strncmp(v->key, s->kind, length) != 0 || v->key[length] != '.')
            continue;
        const char *name = v->key + length + 1;
        while (k < sizeof known / sizeof *known &&
               (strcmp(known[k].key, name) != 0 ||
                   (known[k].only != NULL && strcmp(known[k].only, s->kind) != 0)))
            ++k;
        while (m < sizeof fixed / sizeof *fixed && strcmp(fixed[m].key, name) != 0)
            ++m;
        if (k < sizeof known / sizeof *known)
            continue;
        if (m == sizeof fixed / sizeof *fixed) {
            (void)snprintf(what, sizeof what,
                "its %.100s is unknown: with it, the model may compute something else", v->key);
            return false;
        }
        if (gguf_number(&s->file, v->key, 0) != fixed[m].want) {
            (void)snprintf(what, sizeof what, "its %.100s is not %g", v->key, fixed[m].want);
            return false;
        }
    }
    return true;
}

/* Divides the frequencies by a tensor. */
static bool take_factors(const source *s, const gguf_tensor *factors, gpt_arch *a)
{
    float values[GPT_PAIRS];
    fault f = {0};
    const size_t pairs = gpt_rope_pairs(a);
    bool good = factors->rank == 1 && factors->shape[0] == pairs;
    if (!good)
        (void)snprintf(what, sizeof what, "its %s is no row of %zu", factors->name, pairs);
    else if (!gguf_read(&s->file, factors, 0, values, &f)) {
        (void)snprintf(what, sizeof what, "%.250s", f.text);
        return false;
    }
    for (size_t i = 0; good && i < pairs; ++i) {
        good = values[i] > 0 && isfinite(values[i]);
        a->rotary.frequencies[i] /= (double)values[i];
        if (!good)
            (void)snprintf(what, sizeof what,
                "its %s has a factor of %g, expected a number above 0", factors->name,
                (double)values[i]);
    }
    return good;
}

/* Whether the file's scaling is of a kind that is known here; *factor: of all pairs. As llama.cpp,
 * a file without a type has one for all pairs. */
static bool take_scaling(const source *s, bool phi3, double *factor)
{
    const char *type = gguf_text(&s->file, key_of(s, "rope.scaling.type"), "linear");
    const bool linear = type != NULL && strcmp(type, "linear") == 0;
    *factor = linear ? gguf_number(&s->file, key_of(s, "rope.scaling.factor"), 1) : 1;
    if (linear ||
        (type != NULL && (strcmp(type, "none") == 0 || (phi3 && strcmp(type, "longrope") == 0))))
        return true;
    (void)snprintf(what, sizeof what,
        "its %s is %.60s, expected none, linear or, of phi3, longrope",
        key_of(s, "rope.scaling.type"), type != NULL ? type : "no text");
    return false;
}

/* Llama 3 has factors of each pair; Phi-3 two of each, of which the short one is for texts up to
 * its original length. */
static bool take_rotary(const source *s, gpt_arch *a)
{
    const bool phi3 = strcmp(s->kind, "phi3") == 0;
    const gguf_tensor *freqs = gguf_find_tensor(&s->file, "rope_freqs.weight"),
                      *near = gguf_find_tensor(&s->file, "rope_factors_short.weight"),
                      *far = gguf_find_tensor(&s->file, "rope_factors_long.weight");
    const double rotary = gguf_number(&s->file, key_of(s, "rope.scaling.attn_factor"), 1);
    double factor;
    size_t length;
    if (!take_scaling(s, phi3, &factor))
        return false;
    if (!(factor > 0 && factor < 1e9 && rotary > 0 && rotary < 1e9)) {
        (void)snprintf(
            what, sizeof what, "its rotary positions are scaled by %g and %g", factor, rotary);
        return false;
    }
    if ((freqs != NULL && strcmp(s->kind, "llama") != 0) ||
        ((near != NULL || far != NULL) && !(phi3 && near != NULL && far != NULL))) {
        (void)snprintf(what, sizeof what, "its %s scales rotary positions",
            freqs != NULL ? freqs->name : "rope_factors");
        return false;
    }
    if (factor == 1 && rotary == 1 && freqs == NULL && near == NULL)
        return true;
    gpt_rope_begin(a, &a->rotary);
    a->rotary.factor = (float)rotary;
    for (size_t i = 0; i < gpt_rope_pairs(a); ++i)
        a->rotary.frequencies[i] /= factor;
    if (near != NULL && !take_size(s, "rope.scaling.original_context_length", NAN, &length))
        return false;
    if (near != NULL)
        gpt_limit(a, length);
    return (freqs == NULL || take_factors(s, freqs, a)) &&
           (near == NULL || take_factors(s, near, a));
}

/* The vocabulary, and what else its tensors say. */
static bool take_tensors(const source *s, gpt_arch *a)
{
    const gguf_tensor *table = gguf_find_tensor(&s->file, "token_embd.weight");
    if (table == NULL || table->rank != 2 || table->shape[1] != a->dim || table->shape[0] < 1 ||
        table->shape[0] > (uint64_t)1 << 24) {
        (void)snprintf(what, sizeof what, "%s of %zu columns and 1 to 16777216 rows",
            table == NULL ? "it has no token_embd.weight" : "its token_embd.weight is no matrix",
            a->dim);
        return false;
    }
    a->vocabulary = (size_t)table->shape[0];
    a->untied = gguf_find_tensor(&s->file, "output.weight") != NULL;
    a->qkv_bias = gguf_find_tensor(&s->file, "blk.0.attn_q.bias") != NULL;
    a->out_bias = gguf_find_tensor(&s->file, "blk.0.attn_output.bias") != NULL;
    return true;
}

static bool take_gpt2(const source *s, gpt_arch *a)
{
    size_t hidden, kv;
    if (!take_size(s, "feed_forward_length", NAN, &hidden) ||
        !take_size(s, "attention.head_count_kv", (double)a->heads, &kv))
        return false;
    if (hidden == 4 * a->dim && kv == a->heads)
        return true;
    (void)snprintf(what, sizeof what,
        "it has a width of %zu, %zu in its blocks, %zu heads and %zu of keys; GPT-2 has 4 times "
        "the width, and as many heads of keys",
        a->dim, hidden, a->heads, kv);
    return false;
}

/* The last one of `every` blocks is unlike the others. */
static bool take_blocks(size_t every, gpt_arch *a)
{
    for (size_t i = 0; i < a->depth && i < GPT_BLOCKS; ++i)
        a->other[i] = (i + 1) % every == 0;
    if (a->depth <= GPT_BLOCKS)
        return true;
    (void)snprintf(what, sizeof what, "it has %zu blocks, expected up to %d", a->depth, GPT_BLOCKS);
    return false;
}

/* Gemma 3 with a sliding window: the last one of `every` blocks is global, with the positions read
 * so far; local ones have others, which are not scaled. */
static bool take_local(const source *s, gpt_arch *a)
{
    size_t every;
    const double theta = gguf_number(&s->file, key_of(s, "rope.freq_base_swa"), 1e4);
    if (!take_size(s, "attention.sliding_window_pattern", 6, &every) || !take_blocks(every, a))
        return false;
    a->others = a->rotary;
    a->rotary = (gpt_rotary){.theta = (float)theta};
    if (theta > 1 && isfinite(a->rotary.theta))
        return true;
    (void)snprintf(what, sizeof what, "its freq_base_swa is %g", theta);
    return false;
}

/* What Gemma has beside Llama. Gemma 2 and 3 of 27B alone divide scores by other than their heads'
 * root, which no key says; llama.cpp knows them by their blocks. */
static bool take_gemma(const source *s, bool windowed, gpt_arch *a)
{
    const bool second = strcmp(s->kind, "gemma2") == 0, third = strcmp(s->kind, "gemma3") == 0;
    const double cap = second ? gguf_number(&s->file, key_of(s, "attn_logit_softcapping"), 50) : 0;
    const double logit_cap =
        gguf_number(&s->file, key_of(s, "final_logit_softcapping"), second ? 30 : 0);
    gpt_gemma(a, second || third);
    if (!second && !third)
        return true;
    if (third && windowed && !take_local(s, a))
        return false;
    a->cap = (float)cap;
    a->logit_cap = (float)logit_cap;
    if (a->depth == (second ? 46 : 62))
        gpt_rope_queries(a, (double)a->dim / (double)a->heads);
    if (cap >= 0 && cap < 1e9 && logit_cap >= 0 && logit_cap < 1e9)
        return true;
    (void)snprintf(what, sizeof what, "it has caps of %g and %g", cap, logit_cap);
    return false;
}

static bool take_llama(const source *s, gpt_arch *a)
{
    size_t value, window = 0;
    const bool phi3 = strcmp(s->kind, "phi3") == 0, phi2 = strcmp(s->kind, "phi2") == 0,
               gemma = strncmp(s->kind, "gemma", 5) == 0;
    const double head = (double)a->dim / (double)a->heads;
    const double usual = strcmp(s->kind, "gemma2") == 0 ? 4096 : 0;
    if (!take_size(s, "attention.head_count_kv", (double)a->heads, &a->kv_heads) ||
        !take_size(s, "feed_forward_length", NAN, &a->hidden) ||
        !take_size(s, "attention.key_length", head, &a->head) ||
        !take_size(s, "attention.value_length", (double)a->head, &value) ||
        !take_size(s, "rope.dimension_count", (double)a->head, &a->turned) ||
        (gguf_number(&s->file, key_of(s, "attention.sliding_window"), usual) != 0 &&
            !take_size(s, "attention.sliding_window", usual, &window)))
        return false;
    const double theta = gguf_number(&s->file, key_of(s, "rope.freq_base"), 1e4);
    a->rotary.theta = (float)theta;
    a->joint = phi3;
    a->phi = phi2;
    a->norms_behind = a->olmo2 = strcmp(s->kind, "olmo2") == 0;
    a->head_norms = a->olmo2 || strcmp(s->kind, "qwen3") == 0 || strcmp(s->kind, "gemma3") == 0;
    if (value != a->head || a->turned > a->head || (a->turned != a->head && !phi3 && !phi2) ||
        a->heads % a->kv_heads != 0 || a->turned % 2 != 0 || a->turned > 2 * GPT_PAIRS ||
        !(theta > 1) || !isfinite(a->rotary.theta)) {
        (void)snprintf(what, sizeof what,
            "it has %zu heads of %zu (values %zu, %zu rotated), %zu of keys, and freq_base %g, "
            "which do not go with each other",
            a->heads, a->head, value, a->turned, a->kv_heads, theta);
        return false;
    }
    if (!take_rotary(s, a))
        return false;
    if ((gemma && !take_gemma(s, window > 0, a)) ||
        (strcmp(s->kind, "smollm3") == 0 && !take_blocks(4, a))) /* no key has this 4 */
        return false;
    if (window > 0 && memchr(a->other, false, a->depth) != NULL)
        gpt_limit(a, window); /* within it, each token sees all before it */
    return true;
}

static bool take(source *s, gpt_arch *a)
{
    const trainer_gguf *table = gpt_ggufs;
    s->kind = gguf_text(&s->file, "general.architecture", "(none)");
    while (table->architecture != NULL &&
           (s->kind == NULL || strcmp(table->architecture, s->kind) != 0))
        ++table;
    if (table->architecture == NULL) {
        (void)snprintf(what, sizeof what,
            "its general.architecture is %.60s, expected llama, qwen2, qwen3, smollm3, phi3, "
            "gemma, "
            "gemma2, gemma3, olmo2, gpt2 or phi2",
            s->kind != NULL ? s->kind : "no text");
        return false;
    }
    const bool gpt2 = strcmp(s->kind, "gpt2") == 0;
    const char *eps_key = gpt2 || strcmp(s->kind, "phi2") == 0 ? "attention.layer_norm_epsilon"
                                                               : "attention.layer_norm_rms_epsilon";
    const double eps = gguf_number(&s->file, key_of(s, eps_key), NAN);
    a->eps = (float)eps;
    if (!is_plain(s) || !take_size(s, "embedding_length", NAN, &a->dim) ||
        !take_size(s, "block_count", NAN, &a->depth) ||
        !take_size(s, "attention.head_count", NAN, &a->heads) ||
        !take_size(s, "context_length", NAN, &a->context) ||
        !(gpt2 ? take_gpt2(s, a) : take_llama(s, a)) || !take_tensors(s, a))
        return false;
    if (a->eps > 0 && eps < 1 && (a->head > 0 || a->dim % a->heads == 0))
        return true;
    (void)snprintf(what, sizeof what, "it has %zu heads for a width of %zu, and norms add %g",
        a->heads, a->dim, eps);
    return false;
}

const char *gpt_gguf_read(const char *path, gpt_arch *arch)
{
    fault f = {0};
    source s = {0};
    gpt_arch made = {0};
    const bool opened = gguf_open(path, &s.file, &f);
    const bool good = opened && take(&s, &made);
    if (!opened)
        (void)snprintf(wrong, sizeof wrong, "%.500s", f.text);
    else if (!good)
        (void)snprintf(wrong, sizeof wrong, "%.250s: %s", path, what);
    gguf_close(&s.file);
    if (good)
        *arch = made;
    return good ? NULL : wrong;
}
