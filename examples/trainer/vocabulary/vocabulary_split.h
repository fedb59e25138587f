/*
 * vocabulary_split.h: how texts are cut into words before byte-level BPE, by the names that
 * tokenizer.ggml.pre has.
 *
 * The expressions are those of the models' authors, and PCRE2 matches them: a library that most
 * systems have, in place of a splitter and tables of Unicode of our own. A build without it trains
 * on files of tokens, and writes text.
 */
#ifndef TRAINER_VOCABULARY_SPLIT_H
#define TRAINER_VOCABULARY_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "trainer/base/fault.h"

/* A way to cut: the pieces that an expression matches, and those between them, are cut by the next
 * one. */
typedef struct vocabulary_way {
    const char *name;
    const char *patterns[4];
    bool whole_words; /* encoder.whole_words */
    bool begins;      /* texts begin with a token unless the file says otherwise */
} vocabulary_way;

/* NULL if the name is not known. */
const vocabulary_way *vocabulary_way_of(const char *name);
/* The names that are, with commas. */
void vocabulary_way_names(char *text, size_t size);

typedef struct vocabulary_split vocabulary_split;

/* NULL after a fault: CODE_USAGE without PCRE2, CODE_MEMORY. path: of the vocabulary. */
vocabulary_split *vocabulary_split_open(const vocabulary_way *way, const char *path, fault *f);
void vocabulary_split_close(vocabulary_split *split); /* accepts NULL */

/* Calls `word` for each word of a text, which is UTF-8, in order, until it returns false. */
bool vocabulary_split_text(const vocabulary_split *split, const char *text, size_t length,
    bool (*word)(void *user, const char *text, size_t length, fault *f), void *user, fault *f);

#endif
