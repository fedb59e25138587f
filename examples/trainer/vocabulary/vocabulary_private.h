/* vocabulary_private.h: private to vocabulary*.c: how a vocabulary is filled in. */
#ifndef TRAINER_VOCABULARY_PRIVATE_H
#define TRAINER_VOCABULARY_PRIVATE_H

#include "trainer/vocabulary/vocabulary.h"
#include "trainer/vocabulary/vocabulary_split.h"

/* Two tokens side by side that become one; rank: the number of the merge. */
typedef struct encoder_merge {
    uint32_t left, right, rank, token;
} encoder_merge;

/* What vocabulary_encode reads. The tables are open hash tables; a free place of `index` is 0, one
 * of `merges` has the rank UINT32_MAX. */
typedef struct encoder {
    uint32_t *index; /* (index_slots) 1 + a token, by its text */
    size_t index_slots;
    encoder_merge *merges; /* (merge_slots), of byte-level BPE */
    size_t merge_slots;
    float *scores;       /* (count), of SentencePiece */
    int32_t single[256]; /* the token of a byte; VOCABULARY_NONE */
    int32_t *added;      /* those that are found in texts as they are */
    size_t added_count;
    bool first[256];         /* whether one of them begins with the byte */
    vocabulary_split *split; /* of byte-level BPE */
    bool whole_words;        /* a word that is a token needs no merges */
    bool space_prefix;       /* a text begins with a space that it lacks */
    bool lines;              /* no token goes over the end of a line */
} encoder;

/* Makes room for `count` tokens of `bytes` bytes in all, all NORMAL; then adds them one by one, as
 * the file writes them, those of v->pieces in SentencePiece's way. Of byte-level BPE those that are
 * found in texts as they are, whose kinds are set before, are written so, too. */
bool vocabulary__reserve(vocabulary *v, size_t count, size_t bytes, fault *f);
void vocabulary__put(vocabulary *v, const char *text, size_t length);
/* Turns the text of a token, as a file writes it, into its bytes, which are no more; returns how
 * many. */
size_t vocabulary__decode(const vocabulary *v, char *text);

/* The place of the first byte that is no UTF-8; `length` if there is none. text[length] can be
 * read.
 */
size_t vocabulary__bad_byte(const char *text, size_t length);

/* Texts are cut in this way. Faults: CODE_USAGE, CODE_MEMORY. */
bool vocabulary__cut(vocabulary *v, const vocabulary_way *way, fault *f);

/* Makes v->encoder with its tables of tokens, and room for so many merges. */
bool vocabulary__index(vocabulary *v, size_t merges, fault *f);
/* The token of a text; VOCABULARY_NONE. */
int32_t vocabulary__find(const vocabulary *v, const char *text, size_t length);
/* Adds merge `rank`, of two texts as the file writes them. Faults: CODE_DATA if they, or both
 * together, are no tokens; CODE_MEMORY. */
bool vocabulary__add_merge(vocabulary *v, uint32_t rank, const char *left, size_t before,
    const char *right, size_t after, fault *f);
/* The merge of two tokens, or NULL. */
const encoder_merge *vocabulary__merge_of(const encoder *e, uint32_t left, uint32_t right);

/* vocabulary_encode of a text some of whose bytes have marks, unless it is NULL: tokens that
 * control are not found in what a message says. */
enum { VOCABULARY__SAID = 1, VOCABULARY__LEARNT = 2 };
/* Of `how`: SentencePiece's space is put before no part of the text. */
enum { VOCABULARY__SPACED = 4 };
bool vocabulary__encode(const vocabulary *v, const char *name, const char *text, size_t length,
    unsigned how, const unsigned char *marks, token_list *list, fault *f);
/* The bytes of a text that a token of it takes, in order from the first one on, for which *begins
 * is true. */
size_t vocabulary__length_in(const vocabulary *v, int32_t token, bool *begins);

/* Of a word, or of a line: adds its tokens, merged as far as they go. */
bool vocabulary__merge(const vocabulary *v, const char *name, const char *text, size_t length,
    token_list *list, fault *f);

/* Where a vocabulary lies: each leaves v->count 0 if there is none; prepare is of one that was
 * read. */
bool vocabulary__gguf_read(vocabulary *v, fault *f);
bool vocabulary__gguf_prepare(vocabulary *v, fault *f);
bool vocabulary__json_read(vocabulary *v, fault *f);
bool vocabulary__json_prepare(vocabulary *v, fault *f);

/* Some bytes, with a NUL after them, to be freed; NULL if memory is out. */
char *vocabulary__copy(const char *text, size_t length);

/* The chat template, and the texts of the tokens that begin and end a text; each to be freed, NULL
 * where there is none. */
typedef struct vocabulary_chat {
    char *jinja, *bos, *eos;
} vocabulary_chat;
bool vocabulary__gguf_chat(const vocabulary *v, vocabulary_chat *c, fault *f);
bool vocabulary__json_chat(const vocabulary *v, vocabulary_chat *c, fault *f);

#endif
