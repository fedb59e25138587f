/* sample.h: --sample, what a model of tokens writes. Tokens are text, too, where --model is a GGUF
 * file with their texts. */
#ifndef TRAINER_SAMPLE_H
#define TRAINER_SAMPLE_H

#include "trainer/session/session.h"

/* Prints to stdout the first tokens of the tests, and --sample tokens after them, each drawn from
 * the softmax of the logits / --temperature, of the likeliest (--top-p), of those before it. Where
 * these fill a context, its second half becomes the first half of the next one. Prints a text as it
 * is, with '?' for control characters, else numbers. A no-op without --sample. The same seed draws
 * the same ones. */
bool sample_print(session *s, fault *f);

#endif
