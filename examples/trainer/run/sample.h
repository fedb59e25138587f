/* sample.h: --sample, what a model of tokens writes. Tokens are text where --model has their texts,
 * or where they are the bytes of a text. */
#ifndef TRAINER_SAMPLE_H
#define TRAINER_SAMPLE_H

#include "trainer/session/session.h"

/* What is written first. */
typedef struct sample_start {
    char *text; /* of --prompt; NULL: the first tokens of the tests */
    size_t length;
    token_list prompt; /* its tokens, with the one that begins a text, or in a chat template */
    int32_t end;       /* of that: the token that ends an answer; else VOCABULARY_NONE */
} sample_start;

/* Takes --prompt apart, before a run begins: a text that does not fit the model is refused. Opens
 * s->text. A no-op without --sample. Faults: CODE_DATA, CODE_USAGE, CODE_MEMORY. The caller closes
 * in any case. */
bool sample_open(session *s, sample_start *start, fault *f);
void sample_close(sample_start *start); /* accepts {0} */

/* Prints to stdout --prompt, or the first tokens of the tests, and up to --sample tokens after
 * them, each drawn from the softmax of the logits / --temperature, of the likeliest (--top-p), of
 * those before it; fewer, if one ends the text. Where these fill a context, its second half becomes
 * the first half of the next one. Prints a text as it is, with '?' for control characters, else
 * numbers. A no-op without --sample. The same seed draws the same ones. */
bool sample_print(session *s, const sample_start *start, fault *f);

#endif
