#include "gpt_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/files/tensors/gguf_file.h"

/* ---- names -------------------------------------------------------------------------------------
 * The last row of a block's tensors has those that the model lacks: they are then beside others of
 * the block, and refused. So are frequencies of rotary positions other than theta's, rope_freqs.
 */

static const char *const llama_names[][2] = {
    {"token_embd.", "model.embed_tokens."},
    {"blk.*.attn_norm.", "model.layers.*.input_layernorm."},
    {"blk.*.attn_q.", "model.layers.*.self_attn.q_proj."},
    {"blk.*.attn_k.", "model.layers.*.self_attn.k_proj."},
    {"blk.*.attn_v.", "model.layers.*.self_attn.v_proj."},
    {"blk.*.attn_q_norm.", "model.layers.*.self_attn.q_norm."},
    {"blk.*.attn_k_norm.", "model.layers.*.self_attn.k_norm."},
    {"blk.*.attn_output.", "model.layers.*.self_attn.o_proj."},
    {"blk.*.attn_rot_embd.", "model.layers.*.self_attn.rotary_emb."},
    {"blk.*.ffn_norm.", "model.layers.*.post_attention_layernorm."},
    {"blk.*.ffn_gate.", "model.layers.*.mlp.gate_proj."},
    {"blk.*.ffn_up.", "model.layers.*.mlp.up_proj."},
    {"blk.*.ffn_down.", "model.layers.*.mlp.down_proj."},
    {"output_norm.", "model.norm."},
    {"output.", "lm_head."},
    {"rope_freqs.", "model.rope_freqs."},
    {"blk.*.", "model.layers.*."},
    {NULL, NULL},
};

/* The converter interleaves the halves of each head of llama, but not of qwen2 and qwen3. */
static const char *const llama_pairs[][2] = {{"blk.*.attn_q.", "llama.attention.head_count"},
    {"blk.*.attn_k.", "llama.attention.head_count_kv"}, {NULL, NULL}};

static const char *const gpt2_names[][2] = {
    {"token_embd.", "wte."},
    {"position_embd.", "wpe."},
    {"blk.*.attn_norm.", "h.*.ln_1."},
    {"blk.*.attn_qkv.", "h.*.attn.c_attn."},
    {"blk.*.attn_output.", "h.*.attn.c_proj."},
    {"blk.*.ffn_norm.", "h.*.ln_2."},
    {"blk.*.ffn_up.", "h.*.mlp.c_fc."},
    {"blk.*.ffn_down.", "h.*.mlp.c_proj."},
    {"output_norm.", "ln_f."},
    {"output.", "lm_head."},
    {"blk.*.", "h.*."},
    {NULL, NULL},
};

const trainer_gguf gpt_ggufs[] = {{"llama", llama_names, llama_pairs}, {"qwen2", llama_names, NULL},
    {"qwen3", llama_names, NULL}, {"gpt2", gpt2_names, NULL}, {NULL, NULL, NULL}};

/* ---- sizes -------------------------------------------------------------------------------------
 */

/* Keys behind the architecture's name: those that are read, or say nothing of what is computed. */
static const char *const known[] = {"block_count", "context_length", "embedding_length",
    "feed_forward_length", "vocab_size", "tensor_data_layout", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "attention.sliding_window",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type",
    "rope.scaling.original_context_length", "rope.scaling.finetuned"};

/* Those that must have one value. */
static const struct {
    const char *key;
    double want;
} fixed[] = {{"rope.scaling.factor", 1}, {"rope.scale_linear", 1}, {"expert_count", 0},
    {"expert_used_count", 0}, {"use_parallel_residual", 0}, {"attention.causal", 1}};

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
        while (k < sizeof known / sizeof *known && strcmp(known[k], name) != 0)
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
    const char *scaling = gguf_text(&s->file, key_of(s, "rope.scaling.type"), "none");
    if (scaling != NULL && strcmp(scaling, "none") == 0)
        return true;
    (void)snprintf(what, sizeof what, "its %s is %.60s, expected none",
        key_of(s, "rope.scaling.type"), scaling != NULL ? scaling : "no text");
    return false;
}

/* The vocabulary, and what else its tensors say. */
static bool take_tensors(const source *s, gpt_arch *a)
{
    if (gguf_find_tensor(&s->file, "rope_freqs.weight") != NULL) {
        (void)snprintf(what, sizeof what, "its rope_freqs.weight scales rotary positions");
        return false;
    }
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

static bool take_llama(const source *s, gpt_arch *a)
{
    size_t value, rotated, window;
    const double head = (double)a->dim / (double)a->heads;
    if (!take_size(s, "attention.head_count_kv", (double)a->heads, &a->kv_heads) ||
        !take_size(s, "feed_forward_length", NAN, &a->hidden) ||
        !take_size(s, "attention.key_length", head, &a->head) ||
        !take_size(s, "attention.value_length", (double)a->head, &value) ||
        !take_size(s, "rope.dimension_count", (double)a->head, &rotated) ||
        !take_size(s, "attention.sliding_window", (double)a->context, &window))
        return false;
    if (window < a->context)
        a->context = window; /* within it, each token sees all before it */
    const double theta = gguf_number(&s->file, key_of(s, "rope.freq_base"), 1e4);
    a->theta = (float)theta;
    a->head_norms = strcmp(s->kind, "qwen3") == 0;
    if (value == a->head && rotated == a->head && a->heads % a->kv_heads == 0 && a->head % 2 == 0 &&
        theta > 1 && isfinite(a->theta))
        return true;
    (void)snprintf(what, sizeof what,
        "it has %zu heads of %zu (values %zu, %zu rotated), %zu of keys, and freq_base %g, which "
        "do not go with each other",
        a->heads, a->head, value, rotated, a->kv_heads, theta);
    return false;
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
            "its general.architecture is %.60s, expected llama, qwen2, qwen3 or gpt2",
            s->kind != NULL ? s->kind : "no text");
        return false;
    }
    const bool gpt2 = strcmp(s->kind, "gpt2") == 0;
    const char *eps_key =
        gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
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
