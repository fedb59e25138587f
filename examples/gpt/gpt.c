/* GPT-2 (Radford et al. 2019), with the names of transformers' GPT2Model:
 *
 *     tokens -> wte + wpe
 *       -> depth blocks { x += attn.c_proj(attention(attn.c_attn(ln_1 x)));
 *                         x += mlp.c_proj(gelu(mlp.c_fc(ln_2 x))) }
 *       -> ln_f -> logits = x wte^T
 *
 * Llama (Touvron et al., arXiv 2302.13971), with those of LlamaForCausalLM, whose q_proj, k_proj
 * and v_proj are one matrix here, qkv, as are gate_proj and up_proj. A key head may belong to
 * several heads; Qwen3's queries and keys have norms of each head before rotary:
 *
 *     tokens -> embed_tokens
 *       -> depth blocks { x += o_proj(attention(rotary(qkv(input_layernorm x))));
 *                         x += down_proj(swiglu(gate_up(post_attention_layernorm x))) }
 *       -> norm -> logits = x embed_tokens^T */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gpt_config.h"
#include "gpt_gguf.h"
#include "trainer/model/net_model.h"
#include "trainer/model/net_split.h"

static const char *const names[] = {"gpt_micro", "gpt_mini", "gpt_nano", "gpt2", "gpt2_medium",
    "gpt2_large", "gpt2_xl", "llama_micro", "smollm2_135m", "tinyllama_1b", "llama2_7b", "folder",
    NULL};
static const gpt_arch archs[] = {
    {128, 4, 4, 128, 256, 0, 0, 0},
    {192, 6, 6, 256, 256, 0, 0, 0},
    {384, 6, 6, 256, 256, 0, 0, 0},
    {768, 12, 12, 1024, 50257, 0, 0, 0},
    {1024, 24, 16, 1024, 50257, 0, 0, 0},
    {1280, 36, 20, 1024, 50257, 0, 0, 0},
    {1600, 48, 25, 1024, 50257, 0, 0, 0},
    {128, 4, 4, 128, 256, 2, 344, 1e4f},
    {576, 30, 9, 2048, 49152, 3, 1536, 1e5f},
    {2048, 22, 32, 2048, 32000, 4, 5632, 1e4f, true},
    {4096, 32, 32, 4096, 32000, 32, 11008, 1e4f, true},
};

/* --arch folder: of --model, which a process has once. */
enum { FOLDER = sizeof archs / sizeof *archs };
static gpt_arch of_folder;

static const gpt_arch *arch_of(const trainer_sizes *sizes)
{
    return sizes->arch == FOLDER ? &of_folder : &archs[sizes->arch];
}

static clprune_net_value add_gpt2(clprune_net *net, const gpt_arch *a, clprune_net_value x)
{
    const clprune_net_attn attn = {.heads = a->heads, .causal = true};
    clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
    t = clprune_net_linear(net, "attn.c_attn", t, 3 * a->dim);
    t = clprune_net_attention(net, "attn", t, &attn);
    t = clprune_net_linear(net, "attn.c_proj", t, a->dim);
    x = clprune_net_add(net, "sum1", x, t);
    t = clprune_net_layer_norm(net, "ln_2", x);
    t = clprune_net_linear(net, "mlp.c_fc", t, 4 * a->dim);
    t = clprune_net_gelu_tanh(net, "mlp.act", t);
    t = clprune_net_linear(net, "mlp.c_proj", t, a->dim);
    return clprune_net_add(net, "sum2", x, t);
}

/* The parts of qkv and of gate_up. */
static const char *const qkv[] = {"q_proj", "k_proj", "v_proj"};
static const char *const gate_up[] = {"gate_proj", "up_proj"};

static size_t head_cols(const gpt_arch *a)
{
    return a->head > 0 ? a->head : a->dim / a->heads;
}

static clprune_net_value add_llama(clprune_net *net, const gpt_arch *a, clprune_net_value x)
{
    const clprune_net_attn attn = {.heads = a->heads, .kv_heads = a->kv_heads, .causal = true};
    const size_t head = head_cols(a), q = a->heads * head, kv = a->kv_heads * head;
    const clprune_net_linear_part heads[] = {{qkv[0], q}, {qkv[1], kv}, {qkv[2], kv}},
                                  halves[] = {{gate_up[0], a->hidden}, {gate_up[1], a->hidden}};
    clprune_net_value t = clprune_net_rms_norm(net, "input_layernorm", x);
    t = clprune_net_linears(net, "self_attn.qkv", t, heads, 3, a->qkv_bias);
    if (a->head_norms) {
        t = clprune_net_head_norm(net, "self_attn.q_norm", t, 0, a->heads, head);
        t = clprune_net_head_norm(net, "self_attn.k_norm", t, q, a->kv_heads, head);
    }
    t = clprune_net_rotary(net, "self_attn.rotary", t, a->heads, a->kv_heads, 0, a->theta, false);
    t = clprune_net_attention(net, "self_attn", t, &attn);
    t = a->out_bias ? clprune_net_linear(net, "self_attn.o_proj", t, a->dim)
                    : clprune_net_project(net, "self_attn.o_proj", t, a->dim);
    x = clprune_net_add(net, "sum1", x, t);
    t = clprune_net_rms_norm(net, "post_attention_layernorm", x);
    t = clprune_net_linears(net, "mlp.gate_up", t, halves, 2, false);
    t = clprune_net_swiglu(net, "mlp.act", t);
    t = clprune_net_project(net, "mlp.down_proj", t, a->dim);
    return clprune_net_add(net, "sum2", x, t);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const gpt_arch *a = arch_of(sizes);
    const bool llama = a->hidden > 0;
    clprune_net_value x = clprune_net_tokens(net, sizes->context);
    if (a->eps > 0)
        clprune_net_eps(net, a->eps);
    x = clprune_net_embedding(net, llama ? "model.embed_tokens" : "wte", x, sizes->classes, a->dim);
    if (!llama)
        x = clprune_net_positions(net, "wpe.weight", x);
    for (size_t i = 0; i < a->depth; ++i) {
        char part[48];
        (void)snprintf(part, sizeof part, "%s.%zu", llama ? "model.layers" : "h", i);
        clprune_net_part(net, part);
        x = llama ? add_llama(net, a, x) : add_gpt2(net, a, x);
    }
    clprune_net_part(net, NULL);
    x = llama ? clprune_net_rms_norm(net, "model.norm", x) : clprune_net_layer_norm(net, "ln_f", x);
    clprune_net_token_loss(net, "lm_head", x, sizes->classes);
    if (!a->untied)
        clprune_net_tie(net, "lm_head.weight", llama ? "model.embed_tokens.weight" : "wte.weight");
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), most = strlen(end);
    return length >= most && strcmp(name + length - most, end) == 0;
}

/* As GPT-2: weights normal with deviation 0.02, those that end a branch with 0.02 / sqrt(2 depth),
 * so that the sum over all branches does not grow with the depth; positions 0.01, biases 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    static const char *const ends[] = {"c_proj.weight", "o_proj.weight", "down_proj.weight"};
    const double branches = 2.0 * (double)arch_of(sizes)->depth;
    if (weight->rank == 1)
        return weight->inputs == 0 && ends_with(weight->name, ".weight") ? 1 : 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i)
        if (ends_with(weight->name, ends[i]))
            return 0.02 / sqrt(branches) * rng_normal(r);
    return (ends_with(weight->name, "wpe.weight") ? 0.01 : 0.02) * rng_normal(r);
}

/* transformers has the four matrices of a block of GPT-2 as in x out. */
static size_t in_files(const trainer_sizes *sizes, trainer_weight *pieces)
{
    const gpt_arch *a = arch_of(sizes);
    const size_t q = a->heads * head_cols(a), kv = a->kv_heads * head_cols(a);
    const size_t rows = pieces->shape[0];
    size_t count = net_split(pieces, "qkv", (size_t[]){q, kv, kv}, qkv, 3);
    if (count == 1)
        count = net_split(pieces, "gate_up", (size_t[]){a->hidden, a->hidden}, gate_up, 2);
    if (count > 1)
        return count;
    pieces->longer = strcmp(pieces->name, "wpe.weight") == 0;
    pieces->transposed = pieces->rank == 2 && strncmp(pieces->name, "h.", 2) == 0;
    if (pieces->transposed) {
        pieces->shape[0] = pieces->shape[1];
        pieces->shape[1] = rows;
    }
    return 1;
}

/* The names of GPT2LMHeadModel and LlamaModel. */
static const char *const renames[][2] = {{"wte.", "transformer.wte."}, {"wpe.", "transformer.wpe."},
    {"h.", "transformer.h."}, {"ln_f.", "transformer.ln_f."}, {"model.", ""}, {NULL, NULL}};

/* Masks of GPT-2, and the frequencies of rotary positions. */
static const char *const buffers[] = {
    "*h.*.attn.bias", "*h.*.attn.masked_bias", "*.rotary_emb.*", NULL};

/* Of a folder, or of a GGUF file. */
static const char *read_sizes(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode) ? gpt_gguf_read(path, &of_folder)
                                                              : gpt_config_read(path, &of_folder);
}

static const char *settle(trainer_sizes *sizes)
{
    const char *text = NULL;
    if (sizes->arch == FOLDER)
        text =
            sizes->folder == NULL ? "--arch folder needs --model DIR" : read_sizes(sizes->folder);
    if (text != NULL)
        return text;
    const gpt_arch *usual = arch_of(sizes);
    net_model_usual(sizes, 0, usual->vocabulary, usual->context);
    sizes->context = (size_t)sizes->extra[0];
    sizes->tables[0] = usual->hidden > 0 ? "model.embed_tokens.weight" : "wte.weight";
    sizes->tables[1] = "lm_head.weight";
    return NULL;
}

static const net_model_parts parts = {settle, build, draw, in_files};

static const trainer_extra extras[] = {
    {"context", "context", 1, 65536, "tokens of a sequence; default: the architecture's"}};

static const char *const defaults[][2] = {{"batch-size", "16"}, {"lr", "0.001"},
    {"weight-decay", "0.1"}, {"warmup-epochs", "0.1"}, {"label-smoothing", "0"}, {"clip-norm", "1"},
    {NULL, NULL}};

extern const trainer_model gpt_model;
const trainer_model gpt_model = {
    .program = "gpt-train",
    .about =
        "Trains a GPT, or a Llama, on a text or on tokens, on any OpenCL device. The activations "
        "that the\n"
        "backward pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 0, /* gpt_micro */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .net = &parts,
    .tokens = true,
    .defaults = defaults,
    .renames = renames,
    .ggufs = gpt_ggufs,
    .buffers = buffers,
    NET_MODEL_FUNCTIONS,
};
