/* gpt_config.h: the sizes of GPT-2 and of models of Llama's kind, also from config.json of
 * transformers. */
#ifndef GPT_CONFIG_H
#define GPT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gpt_arch {
    size_t dim, depth, heads, context, vocabulary;
    size_t kv_heads, hidden; /* of Llama; else 0 */
    float theta;
    bool untied;             /* the head has a weight of its own */
    bool qkv_bias, out_bias; /* q, k and v, or o, have biases; GPT-2's always do */
    float eps;               /* of norms; 0: 1e-5 */
    size_t head;             /* columns of a head; 0: dim / heads */
    bool head_norms;         /* Qwen3's, of each head of q and k */
} gpt_arch;

/* Reads FOLDER/config.json. Returns NULL, or one phrase that says what is wrong, for a model that
 * gpt.c would compute as another one, too; the next call overwrites it. */
const char *gpt_config_read(const char *folder, gpt_arch *arch);

#endif
