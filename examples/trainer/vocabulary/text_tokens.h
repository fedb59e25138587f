/*
 * text_tokens.h: texts as files of tokens, by the vocabulary of a model. NAME.jsonl has a text in
 * each line, as JSON:
 *
 *     {"text": ...}                        all of it is learnt
 *     {"prompt": ..., "completion": ...}   the completion alone is learnt
 *
 * A prompt may be several of "question", "prompt", "instruction" and "input", which are put
 * together in this order, a line each; a completion, one of "completion", "response", "output" and
 * "answer", follows it as it is. Each text begins with the token that begins texts, if there is
 * one, which is not learnt, and ends with the one that ends them; special tokens are found in it.
 * No template is added. Any other file is one text, in which they are not found, and which begins
 * and ends as it does.
 */
#ifndef TRAINER_TEXT_TOKENS_H
#define TRAINER_TEXT_TOKENS_H

#include "trainer/vocabulary/vocabulary.h"

/* Writes the tokens of a text, uint32 each, to a file without a name: *descriptor; of NAME.jsonl
 * also a byte for each, 0 if it is not to be learnt: *mask, else -1. v: prepared. Faults:
 * CODE_DATA, CODE_USAGE (lines of JSON without jansson), CODE_MEMORY; then both are -1. */
bool text_tokens_open(const char *path, const vocabulary *v, int *descriptor, int *mask, fault *f);

#endif
