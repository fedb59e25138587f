/*
 * text_tokens.h: texts as files of tokens, by the vocabulary of a model. NAME.jsonl has a text in
 * each line, as JSON:
 *
 *     {"text": ...}                        all of it is learnt
 *     {"prompt": ..., "completion": ...}   the completion alone is learnt
 *     {"messages": [{"role": ..., "content": ...}, ...]}   a conversation in the model's chat
 *                                          template (chat.h), of which the assistant's are learnt
 *
 * A prompt may be several of "question", "prompt", "instruction" and "input", which are put
 * together in this order, a line each; a completion, one of "completion", "response", "output" and
 * "answer", follows it as it is. Each text begins with the token that begins texts, if there is
 * one, which is not learnt, and ends with the one that ends them; special tokens are found in it.
 * Where text_model.chat says so, prompt and completion are messages of user and assistant. Any
 * other file is one text, in which they are not found, and which begins
 * and ends as it does.
 */
#ifndef TRAINER_TEXT_TOKENS_H
#define TRAINER_TEXT_TOKENS_H

#include "trainer/vocabulary/vocabulary.h"

/* The vocabulary of a model, which is opened when a text first needs it. */
typedef struct text_model {
    const char *path; /* a GGUF file or a folder, not owned */
    bool chat;        /* prompts and completions are messages */
    bool opened;      /* words are there; count 0: it has no texts of tokens */
    vocabulary words;
} text_model;

/* A no-op on one that is open. Faults: as vocabulary_open. */
bool text_model_open(text_model *m, fault *f);
void text_model_close(text_model *m); /* accepts {0} */

/* Writes the tokens of a text, uint32 each, to a file without a name: *descriptor; of NAME.jsonl
 * also a byte for each, 0 if it is not to be learnt: *mask, else -1. m: open, with tokens.
 * Faults: CODE_DATA, CODE_USAGE (lines of JSON without jansson), CODE_MEMORY; then both are -1. */
bool text_tokens_open(const char *path, text_model *m, int *descriptor, int *mask, fault *f);

#endif
