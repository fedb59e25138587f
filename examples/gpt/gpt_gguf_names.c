/* The names of tensors in GGUF files, as llama.cpp's converter writes them, and of transformers.
 *
 * The last row of a block's tensors has those that the model lacks: they are then beside others of
 * the block, and refused. So are factors of rotary positions, unless the model has them.
 */
#include "gpt_gguf.h"

#define LLAMA_NAMES                                                                                \
    {"token_embd.", "model.embed_tokens."},                                                        \
        {"blk.*.attn_norm.", "model.layers.*.input_layernorm."},                                   \
        {"blk.*.attn_q.", "model.layers.*.self_attn.q_proj."},                                     \
        {"blk.*.attn_k.", "model.layers.*.self_attn.k_proj."},                                     \
        {"blk.*.attn_v.", "model.layers.*.self_attn.v_proj."},                                     \
        {"blk.*.attn_q_norm.", "model.layers.*.self_attn.q_norm."},                                \
        {"blk.*.attn_k_norm.", "model.layers.*.self_attn.k_norm."},                                \
        {"blk.*.attn_output.", "model.layers.*.self_attn.o_proj."},                                \
        {"blk.*.attn_rot_embd.", "model.layers.*.self_attn.rotary_emb."},                          \
        {"blk.*.ffn_norm.", "model.layers.*.post_attention_layernorm."},                           \
        {"blk.*.ffn_gate.", "model.layers.*.mlp.gate_proj."},                                      \
        {"blk.*.ffn_up.", "model.layers.*.mlp.up_proj."},                                          \
        {"blk.*.ffn_down.", "model.layers.*.mlp.down_proj."}, {"output_norm.", "model.norm."},     \
        {"output.", "lm_head."}, {"rope_", "model.rope_"}, {"blk.*.", "model.layers.*."},          \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

/* The first row that fits counts. */
static const char *const llama_names[][2] = {LLAMA_NAMES};
static const char *const phi3_names[][2] = {
    {"blk.*.attn_qkv.", "model.layers.*.self_attn.qkv_proj."},
    {"blk.*.ffn_up.", "model.layers.*.mlp.gate_up_proj."}, LLAMA_NAMES};
static const char *const phi2_names[][2] = {
    {"blk.*.attn_output.", "model.layers.*.self_attn.dense."},
    {"blk.*.ffn_up.", "model.layers.*.mlp.fc1."}, {"blk.*.ffn_down.", "model.layers.*.mlp.fc2."},
    {"output_norm.", "model.final_layernorm."}, LLAMA_NAMES};
static const char *const gemma2_names[][2] = {
    {"blk.*.post_attention_norm.", "model.layers.*.post_attention_layernorm."},
    {"blk.*.ffn_norm.", "model.layers.*.pre_feedforward_layernorm."},
    {"blk.*.post_ffw_norm.", "model.layers.*.post_feedforward_layernorm."}, LLAMA_NAMES};

/* The converter interleaves the halves of each head of these two alone. */
static const char *const llama_pairs[][2] = {{"blk.*.attn_q.", "llama.attention.head_count"},
    {"blk.*.attn_k.", "llama.attention.head_count_kv"}, {NULL, NULL}};
static const char *const smollm3_pairs[][2] = {{"blk.*.attn_q.", "smollm3.attention.head_count"},
    {"blk.*.attn_k.", "smollm3.attention.head_count_kv"}, {NULL, NULL}};

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
    {"qwen3", llama_names, NULL}, {"smollm3", llama_names, smollm3_pairs},
    {"phi3", phi3_names, NULL}, {"gemma", llama_names, NULL}, {"gemma2", gemma2_names, NULL},
    {"gemma3", gemma2_names, NULL}, {"olmo2", gemma2_names, NULL}, {"gpt2", gpt2_names, NULL},
    {"phi2", phi2_names, NULL}, {NULL, NULL, NULL}};
