/* bert_model.h: BERT as a net, and as the trainer sees it. */
#ifndef BERT_BERT_MODEL_H
#define BERT_BERT_MODEL_H

#include "trainer/model/net_model.h"

typedef struct bert_arch {
    size_t dim, depth, heads, hidden; /* features of a token, blocks; features between the linear
                                         layers of a block */
    size_t positions, vocabulary;
} bert_arch;

/* Adds the layers from tokens to the last hidden states, of all `context` tokens or of the first.
 * dropout: where transformers has hidden_dropout_prob and attention_probs_dropout_prob. */
clprune_net_value bert_encode(
    const bert_arch *arch, size_t context, bool first_only, float dropout, clprune_net *net);

extern const bert_arch bert_archs[]; /* in the order of bert_model.archs */
extern const trainer_model bert_model;

#endif
