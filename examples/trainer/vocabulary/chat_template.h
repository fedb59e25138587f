/*
 * chat_template.h: private to chat*.c: what a Jinja template writes, without running it.
 *
 * A part is what stands between two tags that decide: texts and expressions in the order in which
 * they are written, put together by '+', without spaces, in one spelling of each name and text:
 *
 *     {{ "<|" + message['role'] + '|>\n' }}   has the part   '<|'+message.role+'|>\n'
 *
 * where \n is the character. So is {% set NAME = ... %} with a text in it: NAME=... Comments,
 * exceptions, and what is only under `false == true`, of tools, or under `enable_thinking is false`
 * have no parts.
 */
#ifndef TRAINER_CHAT_TEMPLATE_H
#define TRAINER_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct chat_template {
    char *parts; /* (count) texts, each with its NUL; to be freed */
    size_t count;
    bool prompts; /* it knows add_generation_prompt */
} chat_template;

/* Spaces beside tags are as transformers takes them: trim_blocks, lstrip_blocks. False if memory is
 * out. */
bool chat_template_read(const char *text, chat_template *t);

#endif
