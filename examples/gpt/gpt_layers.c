/* GPT-2 (Radford et al. 2019), with the names of transformers' GPT2Model:
 *
 *     tokens -> wte + wpe
 *       -> depth blocks { x += attn.c_proj(attention(attn.c_attn(ln_1 x)));
 *                         x += mlp.c_proj(gelu(mlp.c_fc(ln_2 x))) }
 *       -> ln_f -> logits = x wte^T
 *
 * Llama (Touvron et al., arXiv 2302.13971), with those of LlamaForCausalLM, whose q_proj, k_proj
 * and v_proj are one matrix here, qkv, as are gate_proj and up_proj. A key head may belong to
 * several heads:
 *
 *     tokens -> embed_tokens
 *       -> depth blocks { x += o_proj(attention(rotary(qkv(input_layernorm x))));
 *                         x += down_proj(gate(gate_up(post_attention_layernorm x))) }
 *       -> norm -> logits = x embed_tokens^T
 *
 * GPT-NeoX (Black et al., arXiv 2204.06745), with the names of GPTNeoXForCausalLM, but its
 * query_key_value has the queries of all heads first:
 *
 *     tokens -> embed_in
 *       -> depth blocks { x += attention.dense(attention(rotary(query_key_value(input_layernorm
 * x))))
 *                            + mlp.dense_4h_to_h(gelu(mlp.dense_h_to_4h(post_attention_layernorm
 * x))) or one after the other }
 *       -> final_layer_norm -> logits = x embed_out^T
 *
 * Phi (arXiv 2309.05463), with the names of PhiForCausalLM:
 *
 *     tokens -> embed_tokens
 *       -> depth blocks { n = input_layernorm x; x += mlp.fc2(gelu(mlp.fc1(n)))
 *                         + self_attn.dense(attention(rotary(qkv(n)))) }
 *       -> final_layernorm -> logits = lm_head x + a bias
 *
 * Qwen3's queries and keys have norms of each head before rotary. Gemma (arXiv 2403.08295) scales
 * its embeddings; Gemma 2 (arXiv 2408.00118) also has norms behind both branches, and caps. Gemma 3
 * (arXiv 2503.19786) has both kinds of norms, no caps, and rotary positions of its own in global
 * blocks. SmolLM3 is Llama without rotary positions in some blocks. OLMo 2
 * (arXiv 2501.00656) has norms of whole queries and keys, and behind both branches alone. */
#include "gpt_layers.h"

#include <stdio.h>

const char *const gpt_qkv[3] = {"q_proj", "k_proj", "v_proj"};
const char *const gpt_gate_up[2] = {"gate_proj", "up_proj"};

static size_t head_cols(const gpt_arch *a)
{
    return a->head > 0 ? a->head : a->dim / a->heads;
}

void gpt_qkv_rows(const gpt_arch *a, size_t rows[3])
{
    rows[0] = a->heads * head_cols(a);
    rows[1] = rows[2] = a->kv_heads * head_cols(a);
}

static clprune_net_value dropped(
    clprune_net *net, const char *name, clprune_net_value x, float dropout)
{
    return dropout > 0 ? clprune_net_dropout(net, name, x, dropout) : x;
}

static clprune_net_value add_gpt2(
    clprune_net *net, const gpt_arch *a, clprune_net_value x, float dropout)
{
    const clprune_net_attn attn = {.heads = a->heads, .causal = true, .rate = dropout};
    clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
    t = clprune_net_linear(net, "attn.c_attn", t, 3 * a->dim);
    t = clprune_net_attention(net, "attn", t, &attn);
    t = clprune_net_linear(net, "attn.c_proj", t, a->dim);
    x = clprune_net_add(net, "sum1", x, dropped(net, "attn.resid_dropout", t, dropout));
    t = clprune_net_layer_norm(net, "ln_2", x);
    t = clprune_net_linear(net, "mlp.c_fc", t, 4 * a->dim);
    t = clprune_net_gelu_tanh(net, "mlp.act", t);
    t = clprune_net_linear(net, "mlp.c_proj", t, a->dim);
    return clprune_net_add(net, "sum2", x, dropped(net, "mlp.dropout", t, dropout));
}

/* Several matrices of files as one, or what is one there, too. */
static clprune_net_value add_parts(clprune_net *net, const gpt_arch *a, const char *joint,
    const char *parted, clprune_net_value x, const char *const *names, const size_t *rows,
    size_t count, bool bias)
{
    clprune_net_linear_part parts[3];
    size_t all = 0;
    for (size_t i = 0; i < count; all += rows[i++])
        parts[i] = (clprune_net_linear_part){names[i], rows[i]};
    return !a->joint ? clprune_net_linears(net, parted, x, parts, count, bias)
           : bias    ? clprune_net_linear(net, joint, x, all)
                     : clprune_net_project(net, joint, x, all);
}

static clprune_net_value add_rotary(
    clprune_net *net, const gpt_arch *a, clprune_net_value x, const gpt_rotary *by)
{
    if (by->theta == 0)
        return x;
    const char *name = a->neox ? "attention.rotary" : "self_attn.rotary";
    const size_t turned = a->turned > 0 ? a->turned : head_cols(a);
    const clprune_net_angles angles = {
        .pairs = turned / 2, .frequencies = by->frequencies, .factor = by->factor};
    return by->factor > 0
               ? clprune_net_rotary_by(net, name, x, a->heads, a->kv_heads, &angles)
               : clprune_net_rotary(net, name, x, a->heads, a->kv_heads, turned, by->theta, false);
}

static clprune_net_value add_llama(
    clprune_net *net, const gpt_arch *a, clprune_net_value x, const gpt_rotary *by, float dropout)
{
    const clprune_net_attn attn = {
        .heads = a->heads, .kv_heads = a->kv_heads, .causal = true, .rate = dropout, .cap = a->cap};
    const char *behind = "post_attention_layernorm";
    size_t rows[3];
    gpt_qkv_rows(a, rows);
    clprune_net_value t = a->olmo2 ? x : clprune_net_rms_norm(net, "input_layernorm", x);
    t = add_parts(net, a, "self_attn.qkv_proj", "self_attn.qkv", t, gpt_qkv, rows, 3, a->qkv_bias);
    if (a->head_norms) {
        const size_t q = a->olmo2 ? 1 : a->heads, k = a->olmo2 ? 1 : a->kv_heads;
        t = clprune_net_head_norm(net, "self_attn.q_norm", t, 0, q, rows[0] / q);
        t = clprune_net_head_norm(net, "self_attn.k_norm", t, rows[0], k, rows[1] / k);
    }
    t = clprune_net_attention(net, "self_attn", add_rotary(net, a, t, by), &attn);
    t = a->out_bias ? clprune_net_linear(net, "self_attn.o_proj", t, a->dim)
                    : clprune_net_project(net, "self_attn.o_proj", t, a->dim);
    if (a->norms_behind)
        t = clprune_net_rms_norm(net, behind, t);
    x = clprune_net_add(net, "sum1", x, dropped(net, "self_attn.dropout", t, dropout));
    t = a->olmo2
            ? x
            : clprune_net_rms_norm(net, a->norms_behind ? "pre_feedforward_layernorm" : behind, x);
    t = add_parts(net, a, "mlp.gate_up_proj", "mlp.gate_up", t, gpt_gate_up,
        (size_t[]){a->hidden, a->hidden}, 2, false);
    t = a->gelu ? clprune_net_glu(net, "mlp.act", t, CLPRUNE_ACTIVATION_GELU_TANH)
                : clprune_net_swiglu(net, "mlp.act", t);
    t = clprune_net_project(net, "mlp.down_proj", t, a->dim);
    if (a->norms_behind)
        t = clprune_net_rms_norm(net, "post_feedforward_layernorm", t);
    return clprune_net_add(net, "sum2", x, dropped(net, "mlp.dropout", t, dropout));
}

static clprune_net_value add_neox(
    clprune_net *net, const gpt_arch *a, clprune_net_value x, float dropout)
{
    const clprune_net_attn attn = {.heads = a->heads, .causal = true, .rate = dropout};
    clprune_net_value t = clprune_net_layer_norm(net, "input_layernorm", x);
    t = clprune_net_linear(net, "attention.query_key_value", t, 3 * a->heads * head_cols(a));
    t = clprune_net_attention(net, "attention", add_rotary(net, a, t, &a->rotary), &attn);
    t = clprune_net_linear(net, "attention.dense", t, a->dim);
    t = dropped(net, "attention.dropout", t, dropout);
    const clprune_net_value sum = clprune_net_add(net, "sum1", x, t);
    t = clprune_net_layer_norm(net, "post_attention_layernorm", a->parallel ? x : sum);
    t = clprune_net_gelu(
        net, "mlp.act", clprune_net_linear(net, "mlp.dense_h_to_4h", t, a->hidden));
    t = clprune_net_linear(net, "mlp.dense_4h_to_h", t, a->dim);
    return clprune_net_add(net, "sum2", sum, dropped(net, "mlp.dropout", t, dropout));
}

static clprune_net_value add_phi(
    clprune_net *net, const gpt_arch *a, clprune_net_value x, float dropout)
{
    const clprune_net_attn attn = {
        .heads = a->heads, .kv_heads = a->kv_heads, .causal = true, .rate = dropout};
    const clprune_net_value norm = clprune_net_layer_norm(net, "input_layernorm", x);
    size_t rows[3];
    gpt_qkv_rows(a, rows);
    clprune_net_value t = add_parts(net, a, NULL, "self_attn.qkv", norm, gpt_qkv, rows, 3, true);
    t = clprune_net_attention(net, "self_attn", add_rotary(net, a, t, &a->rotary), &attn);
    t = clprune_net_linear(net, "self_attn.dense", t, a->dim);
    x = clprune_net_add(net, "sum1", x, dropped(net, "self_attn.dropout", t, dropout));
    t = clprune_net_gelu_tanh(net, "mlp.act", clprune_net_linear(net, "mlp.fc1", norm, a->hidden));
    t = clprune_net_linear(net, "mlp.fc2", t, a->dim);
    return clprune_net_add(net, "sum2", x, dropped(net, "mlp.dropout", t, dropout));
}

/* The names of a family. */
typedef struct family {
    const char *embedding, *table, *blocks, *norm, *head, *head_table;
} family;

static const family *family_of(const gpt_arch *a)
{
    static const family gpt2 = {"wte", "wte.weight", "h", "ln_f", "lm_head", "lm_head.weight"},
                        llama = {"model.embed_tokens", "model.embed_tokens.weight", "model.layers",
                            "model.norm", "lm_head", "lm_head.weight"},
                        neox = {"gpt_neox.embed_in", "gpt_neox.embed_in.weight", "gpt_neox.layers",
                            "gpt_neox.final_layer_norm", "embed_out", "embed_out.weight"},
                        phi = {"model.embed_tokens", "model.embed_tokens.weight", "model.layers",
                            "model.final_layernorm", "lm_head", "lm_head.weight"};
    return a->neox ? &neox : a->phi ? &phi : a->hidden > 0 ? &llama : &gpt2;
}

const char *gpt_table(const gpt_arch *a, bool head)
{
    return head ? family_of(a)->head_table : family_of(a)->table;
}

void gpt_layers_add(
    clprune_net *net, const gpt_arch *a, size_t context, size_t vocabulary, float dropout)
{
    const family *of = family_of(a);
    const bool llama = a->hidden > 0 && !a->neox && !a->phi;
    clprune_net_value x = clprune_net_tokens(net, context);
    if (a->eps > 0)
        clprune_net_eps(net, a->eps);
    x = clprune_net_embedding(net, of->embedding, x, vocabulary, a->dim);
    if (a->embedding > 0)
        x = clprune_net_scale(net, "embed_scale", x, a->embedding);
    if (a->hidden == 0)
        x = clprune_net_positions(net, "wpe.weight", x);
    x = dropped(net, "drop", x, dropout);
    for (size_t i = 0; i < a->depth; ++i) {
        char part[48];
        (void)snprintf(part, sizeof part, "%s.%zu", of->blocks, i);
        clprune_net_part(net, part);
        const gpt_rotary *by = i < GPT_BLOCKS && a->other[i] ? &a->others : &a->rotary;
        x = llama     ? add_llama(net, a, x, by, dropout)
            : a->neox ? add_neox(net, a, x, dropout)
            : a->phi  ? add_phi(net, a, x, dropout)
                      : add_gpt2(net, a, x, dropout);
    }
    clprune_net_part(net, NULL);
    x = llama ? clprune_net_rms_norm(net, of->norm, x) : clprune_net_layer_norm(net, of->norm, x);
    clprune_net_token_loss(net, of->head, x, vocabulary);
    if (a->phi)
        clprune_net_bias_logits(net);
    if (a->logit_cap > 0)
        clprune_net_cap_logits(net, a->logit_cap);
    if (!a->untied)
        clprune_net_tie(net, of->head_table, of->table);
}
