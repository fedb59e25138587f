/*
 * chat.h: conversations as tokens, in the chat template of a model: tokenizer.chat_template of a
 * GGUF file; chat_template.jinja, or chat_template of tokenizer_config.json, of a folder.
 *
 * The template, which is Jinja, is not run: what it writes tells which of the families it is of
 * (chat_families.c), and those are written here. Their tokens are those of transformers'
 * apply_chat_template(messages, tokenize=True), with one difference: the text of a special token is
 * the token where the template writes it, but plain characters where a message says it. Where a
 * template writes today's date, Llama 3.2's gets date_string="26 Jul 2024", SmolLM3's 08 July 2025.
 */
#ifndef TRAINER_CHAT_H
#define TRAINER_CHAT_H

#include "trainer/vocabulary/vocabulary.h"

typedef struct chat_message {
    const char *role; /* system (the first one alone), user or assistant, who take turns */
    const char *content;
    size_t length;
} chat_message;

typedef struct chat {
    const struct chat_family *family;
    char *bos, *eos;    /* the texts of the tokens that begin and end a text */
    char *usual;        /* the system message of conversations without one; NULL: none */
    char *silent;       /* the same of SmolLM3 under /no_think */
    bool begins, lasts; /* a conversation begins, and ends, with these tokens */
    int32_t end;        /* the token that ends an answer */
} chat;

/* v: prepared. Faults: CODE_DATA where there is no template, or one of no family; CODE_MEMORY. *c
 * then needs no closing. */
bool chat_open(const vocabulary *v, chat *c, fault *f);
void chat_close(chat *c); /* accepts {0} */

/* Adds the tokens of a conversation to a list, which was empty. learnt: NULL, or is a byte for each
 * of them, to be freed in any case: 1 in what the assistant says, with the token that ends it.
 * prompts: what makes the model answer is the last of it. name: of the conversation, for faults:
 * CODE_DATA where roles are unknown or out of order, and as vocabulary_encode. */
bool chat_encode(const chat *c, const vocabulary *v, const char *name, const chat_message *messages,
    size_t count, bool prompts, token_list *list, unsigned char **learnt, fault *f);

#endif
