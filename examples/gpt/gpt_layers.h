/* gpt_layers.h: the layers of an architecture. */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include <clprune/net.h>

#include "gpt_config.h"

/* The parts of qkv and of gate_up, and the rows of those. */
extern const char *const gpt_qkv[3], *const gpt_gate_up[2];
void gpt_qkv_rows(const gpt_arch *a, size_t rows[3]);

/* The weights of the embedding and of the head. */
const char *gpt_table(const gpt_arch *a, bool head);

/* Adds all layers and the loss, for sequences of `context` tokens. dropout: of embeddings, of
 * attention's probabilities and of what branches add. */
void gpt_layers_add(
    clprune_net *net, const gpt_arch *a, size_t context, size_t vocabulary, float dropout);

#endif
