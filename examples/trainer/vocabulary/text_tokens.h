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

/* The tokens of a file, in files without a name. */
typedef struct text_tokens {
    int descriptor;   /* uint32 each */
    int mask;         /* of NAME.jsonl: a byte for each, 0 if it is not to be learnt; else -1 */
    uint64_t *begins; /* likewise: where each line's begin, and where the last one's end; else NULL,
                         the caller's to free */
    size_t lines;     /* that have a text */
} text_tokens;

/* Writes the tokens of a text. m: open, with tokens. Faults: CODE_DATA, CODE_USAGE (lines of JSON
 * without jansson), CODE_MEMORY; then both files are -1 and begins is NULL. */
bool text_tokens_open(const char *path, text_model *m, text_tokens *made, fault *f);

#endif
