/*
 * vocabulary.h: the tokens of a model as text, and text as tokens.
 *
 * A vocabulary lies in a GGUF file (tokenizer.ggml.model), or in tokenizer.json of a folder of
 * transformers. Two kinds are known:
 *
 *     byte-level BPE   "gpt2": a text is cut into words (vocabulary_split.h), and pairs of tokens
 *                      within a word are merged in the order of the file's merges. A token writes
 *                      each byte as a character that can be printed.
 *     SentencePiece    "llama": the neighbours whose token has the highest score are merged, over
 *                      the whole text. A token writes a space as U+2581, and "<0x0A>" is a byte,
 *                      for characters without a token.
 *
 * Both begin with the leftmost pair of equal ones, as llama.cpp and transformers do. A text is
 * taken as it is: not in NFC, to which transformers turns texts of Qwen.
 */
#ifndef TRAINER_VOCABULARY_H
#define TRAINER_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"

enum { VOCABULARY_ENDS = 4, VOCABULARY_NONE = -1 };

/* What a token is; the numbers of tokenizer.ggml.token_type. */
enum {
    VOCABULARY_NORMAL = 1,
    VOCABULARY_CONTROL = 3, /* found in a text only where the caller says so */
    VOCABULARY_USER = 4,    /* found in every text, before it is cut into words */
    VOCABULARY_UNUSED = 5,
    VOCABULARY_BYTE = 6 /* of SentencePiece: of characters without a token */
};

typedef struct vocabulary {
    char *path;
    size_t count;
    size_t *begins;                /* (count + 1) in bytes */
    char *bytes;                   /* the texts of all tokens */
    unsigned char *kinds;          /* (count) */
    bool pieces;                   /* SentencePiece's */
    bool folder;                   /* of tokenizer.json */
    int32_t begin;                 /* what a text begins with; VOCABULARY_NONE */
    int32_t ends[VOCABULARY_ENDS]; /* each ends a text; the first one is the usual one */
    size_t ends_count;
    struct encoder *encoder; /* of vocabulary_prepare */
} vocabulary;

typedef struct token_list {
    int32_t *tokens;
    size_t count, room;
} token_list;

/* Reads the tokens of a GGUF file or of a folder; count is 0 if there are none, or another kind.
 * Faults: CODE_DATA, CODE_MEMORY; *v then needs no closing. */
bool vocabulary_open(const char *path, vocabulary *v, fault *f);
void vocabulary_close(vocabulary *v); /* accepts {0} */

/* The bytes of a token below count, *length of them. */
const char *vocabulary_text(const vocabulary *v, size_t token, size_t *length);

/* Whether a token ends a text. */
bool vocabulary_ends(const vocabulary *v, int32_t token);

/* Reads what vocabulary_encode needs. Faults: CODE_DATA for what is wrong, or of a kind that is not
 * known; CODE_USAGE for byte-level BPE in a build without PCRE2; CODE_MEMORY. */
bool vocabulary_prepare(vocabulary *v, fault *f);

/* How a text is taken; 0: as it is. */
enum {
    VOCABULARY_SPECIAL = 1, /* tokens that control are found in it, too */
    VOCABULARY_GOES_ON =
        2 /* it goes on with a text: no space of SentencePiece's is put before it */
};

/* Adds the tokens of a text of `length` bytes, text[length] a NUL, to a list, which began as {0}
 * and is freed by the caller in any case. how: a sum. name: of the text, for faults: CODE_DATA
 * where it is no UTF-8, or has a character without a token; CODE_MEMORY. */
bool vocabulary_encode(const vocabulary *v, const char *name, const char *text, size_t length,
    unsigned how, token_list *list, fault *f);
bool token_list_add(token_list *list, int32_t token, fault *f);

#endif
