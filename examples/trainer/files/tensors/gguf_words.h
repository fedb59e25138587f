/*
 * gguf_words.h: the texts of tokens, from the vocabulary of a GGUF file (tokenizer.ggml.tokens).
 *
 * Two kinds of tokenizers write bytes as text (tokenizer.ggml.model): "gpt2", where each byte is a
 * character that can be printed, those of Latin-1 themselves and the others from U+0100 on; and
 * "llama", where U+2581 is a space and "<0x0A>" a byte.
 */
#ifndef TRAINER_GGUF_WORDS_H
#define TRAINER_GGUF_WORDS_H

#include "trainer/files/tensors/gguf_file.h"

typedef struct gguf_words {
    size_t count;
    size_t *begins; /* (count + 1) in bytes */
    char *bytes;
} gguf_words;

/* Reads them; count is 0 if the file has none, or another kind. Faults: CODE_DATA, CODE_MEMORY; *w
 * then needs no closing. */
bool gguf_words_read(const char *path, gguf_words *w, fault *f);
void gguf_words_close(gguf_words *w); /* accepts {0} */

/* The bytes of a token below count, *length of them. */
const char *gguf_words_of(const gguf_words *w, size_t token, size_t *length);

#endif
