/* gpt_config.h: the sizes of GPT-2, GPT-NeoX, Phi and models of Llama's kind, also from config.json
 * of transformers. */
#ifndef GPT_CONFIG_H
#define GPT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum { GPT_PAIRS = 256 };  /* of a head that rotate, at most */
enum { GPT_BLOCKS = 512 }; /* of a model with two kinds of them, at most */

/* Rotary positions. Scaled ones have angles of pairs in row 1, and a factor of what rotates. */
typedef struct gpt_rotary {
    float theta, factor; /* factor 0: angles are theta's */
    double frequencies[GPT_PAIRS];
} gpt_rotary;

typedef struct gpt_arch {
    size_t dim, depth, heads, context, vocabulary;
    size_t kv_heads, hidden; /* of Llama; else 0 */
    gpt_rotary rotary;
    bool untied;             /* the head has a weight of its own */
    bool qkv_bias, out_bias; /* q, k and v, or o, have biases; GPT-2's always do */
    float eps;               /* of norms; 0: 1e-5 */
    size_t head;             /* columns of a head; 0: dim / heads */
    bool head_norms;         /* Qwen3's, of each head of q and k */
    bool joint;              /* Phi-3: q, k and v are one matrix of files, and gate and up */
    bool neox;               /* GPT-NeoX, with the sizes of Llama */
    bool parallel;           /* GPT-NeoX: attention and MLP read the same sum */
    bool phi;                /* Phi: with the sizes of Llama */
    bool gelu;               /* Gemma: gates of GELU by tanh; else of SiLU */
    bool norms_behind;       /* Gemma 2: of what attention and MLP give, too */
    bool olmo2; /* OLMo 2: norms_behind, but none of what they read; head_norms of whole q and k */
    float less; /* Gemma: by which norms in files are less, but in GGUF files */
    float embedding;        /* factor of embeddings; 0: 1 */
    float cap, logit_cap;   /* of scores, and of logits; 0: none */
    size_t turned;          /* columns of a head that rotate; 0: all */
    bool other[GPT_BLOCKS]; /* blocks with positions of their own: of Gemma 3 the global ones */
    gpt_rotary others;      /* of those; theta 0: none, as in SmolLM3 */
    size_t most; /* tokens, more of which it would compute as another model; 0: any number */
} gpt_arch;

/* The model is itself up to `most` tokens. */
static inline void gpt_limit(gpt_arch *a, size_t most)
{
    if (a->most == 0 || most < a->most)
        a->most = most;
    if (a->context > most)
        a->context = most;
}

/* What Gemma is beside Llama, once its width is set; without caps. later: Gemma 2 and 3. */
void gpt_gemma(gpt_arch *a, bool later);

/* Reads FOLDER/config.json. Returns NULL, or one phrase that says what is wrong, for a model that
 * gpt.c would compute as another one, too; the next call overwrites it. */
const char *gpt_config_read(const char *folder, gpt_arch *arch);

#endif
