/* The families, each a row. A template that writes anything else is none of them: so one with
 * another line end is refused, not taken for its neighbour. */
#include <string.h>

#include "trainer/vocabulary/chat_private.h"

#define CONTENT   "\1"
#define TRIMMED   "\2"
#define LEFT      "\3"
#define RIGHT     "\4"
#define SYSTEM    "\5"
#define LEARNT    "\6"
#define SAID      "\7"
#define BOS       "\10"
#define EOS       "\11"
#define ANSWER    "\13"
#define ORDERED   "\14"
#define UNTHOUGHT "\16"
#define LINES     "\17"

#define CHATML_ROLE    "'<|im_start|>'+message.role+'\n'+"
#define CHATML_PART    CHATML_ROLE "message.content+'<|im_end|>\n'"
#define CHATML_CONTENT CHATML_ROLE "content+'<|im_end|>\n'"
#define CHATML_USUAL   "'<|im_start|>system\n" CONTENT "<|im_end|>\n'"
#define CHATML_SYSTEM  "'<|im_start|>system\n'+messages[0].content+'<|im_end|>\n'"
#define CHATML_PROMPT  "'<|im_start|>assistant\n'"
#define CHATML_TURNS(content)                                                                      \
    .system = "<|im_start|>system\n" CONTENT "<|im_end|>\n",                                       \
    .user = "<|im_start|>user\n" CONTENT "<|im_end|>\n",                                           \
    .assistant = "<|im_start|>assistant\n" LEARNT content "<|im_end|>" SAID "\n",                  \
    .end = "<|im_end|>"

/* What Qwen3 takes from a content, of which it has one of two names. */
#define QWEN3_THOUGHT(of)                                                                          \
    "reasoning_content=" of ".split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')"
#define QWEN3_SAID(of) "content=" of ".split('</think>')[-1].lstrip('\n')"

#define LLAMA3(role, content)                                                                      \
    "<|start_header_id|>" role "<|end_header_id|>\n\n" content "<|eot_id|>"
#define LLAMA3_PART                                                                                \
    "'<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+message.content|trim+'<|eot_id|>'"
#define LLAMA3_PROMPT "'<|start_header_id|>assistant<|end_header_id|>\n\n'"
#define LLAMA3_TURNS                                                                               \
    .user = LLAMA3("user", TRIMMED),                                                               \
    .assistant =                                                                                   \
        "<|start_header_id|>assistant<|end_header_id|>\n\n" LEARNT TRIMMED "<|eot_id|>" SAID,      \
    .end = "<|eot_id|>"

#define SMOLLM3_SAID "content.lstrip('\n')+'<|im_end|>\n'"
#define SMOLLM3_NONE "'<|im_start|>assistant\n<think>\n\n</think>\n'"

/* [INST] of Llama 2 and Mistral. */
#define INST(before, content) before "[INST] " content " [/INST]"
#define MISTRAL_USERS         "?user_messages=loop_messages|selectattr('role','equalto','user')|list"

#define GEMMA_TURNS                                                                                \
    .user = "<start_of_turn>user\n" TRIMMED "<end_of_turn>\n",                                     \
    .assistant = "<start_of_turn>model\n" LEARNT TRIMMED "<end_of_turn>" SAID "\n",                \
    .end = "<end_of_turn>"

const chat_family chat__families[] = {
    {.name = "ChatML",
        .parts = {CHATML_PART, CHATML_PROMPT, "?" CHATML_USUAL, "?bos_token"},
        CHATML_TURNS(CONTENT)},
    {.name = "Qwen2.5",
        .parts = {CHATML_PART, CHATML_PROMPT, CHATML_USUAL, CHATML_SYSTEM,
            /* of an answer that calls tools */
            "?'<|im_start|>'+message.role", "?'\n'+message.content", "?'<|im_end|>\n'"},
        CHATML_TURNS(CONTENT)},
    {.name = "Qwen3",
        .parts = {CHATML_SYSTEM, CHATML_PROMPT, CHATML_ROLE "content", "'<|im_end|>\n'",
            "'<|im_start|>'+message.role+'\n<think>\n'+reasoning_content.strip('\n')+'\n</"
            "think>\n\n'+content.lstrip('\n')",
            "reasoning_content=''", "?" CHATML_PART, "?" QWEN3_SAID("message.content"),
            "?" QWEN3_THOUGHT("message.content"), "?" CHATML_CONTENT, "?" QWEN3_SAID("content"),
            "?" QWEN3_THOUGHT("content"), "?content=''"},
        CHATML_TURNS(ANSWER)},
    {.name = "Qwen3 2507 Instruct",
        .parts = {CHATML_SYSTEM, CHATML_PROMPT, CHATML_CONTENT, "content=''", CHATML_ROLE "content",
            "'<|im_end|>\n'"},
        CHATML_TURNS(CONTENT)},
    /* The day is that of its release: the template has that of today. */
    {.name = "SmolLM3",
        .parts = {"reasoning_mode='/think'", "reasoning_mode='/no_think'", "'<|im_start|>system\n'",
            "custom_instructions=system_message.replace('/no_think','').replace('/think','')"
            ".rstrip()",
            "custom_instructions.replace('/system_override','').rstrip()+'<|im_end|>\n'",
            "'## Metadata\n\nKnowledge Cutoff Date: June 2025\n'", "today=strftime_now('%d %B %Y')",
            "'Today Date: '~today~'\nReasoning Mode: '+reasoning_mode+'\n\n## Custom "
            "Instructions\n\n'",
            "custom_instructions+'\n\n'", "'" CONTENT "\n\n'",
            "content=message.contentifmessage.contentisstringelse''", CHATML_CONTENT,
            "'<|im_start|>assistant\n'+" SMOLLM3_SAID,
            "'<|im_start|>assistant\n<think>\n\n</think>\n'+" SMOLLM3_SAID, CHATML_PROMPT,
            SMOLLM3_NONE},
        .system = "<|im_start|>system\n" ORDERED,
        .user = "<|im_start|>user\n" CONTENT "<|im_end|>\n",
        .assistant = "<|im_start|>assistant\n" UNTHOUGHT LEARNT LINES "<|im_end|>" SAID "\n",
        .end = "<|im_end|>"},
    {.name = "Llama 2",
        .parts = {"bos_token+" INST("'", "'+content|trim+'") "'", "' '+content|trim+' '+eos_token",
            "?content='<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message.content",
            "?'<<SYS>>\n'+content|trim+'\n<</SYS>>\n\n'"},
        .user = BOS INST("", TRIMMED),
        .first = BOS INST("", "<<SYS>>\n" SYSTEM "\n<</SYS>>\n\n" RIGHT),
        .assistant = LEARNT " " TRIMMED " " EOS SAID,
        .end = EOS},
    {.name = "Llama 3",
        .parts = {"content=" LLAMA3_PART, "content", LLAMA3_PROMPT, "?bos_token"},
        .begins = true,
        .system = LLAMA3("system", TRIMMED),
        LLAMA3_TURNS},
    /* The day is the one that the template has for want of another: tokens are the same on all. */
    {.name = "Llama 3.1",
        .parts = {"bos_token", "date_string='26 Jul 2024'", "?date_string=strftime_now('%d %b %Y')",
            "system_message='" CONTENT "'", "'<|start_header_id|>system<|end_header_id|>\n\n'",
            "'Cutting Knowledge Date: December 2023\nToday Date: '+date_string+'\n\n'",
            "system_message+'<|eot_id|>'", LLAMA3_PART, LLAMA3_PROMPT},
        .system = LLAMA3(
            "system", "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n" TRIMMED),
        LLAMA3_TURNS},
    {.name = "Mistral",
        .parts = {"bos_token", "'[INST] '+message.content+' [/INST]'", "message.content+eos_token"},
        .user = INST("", CONTENT),
        .assistant = LEARNT CONTENT EOS SAID,
        .end = EOS},
    {.name = "Mistral 0.1",
        .parts = {"bos_token", "'[INST] '+message.content+' [/INST]'",
            "message.content+eos_token+' '"},
        .user = INST("", CONTENT),
        .assistant = LEARNT CONTENT EOS SAID " ",
        .end = EOS},
    {.name = "Mistral with system messages",
        .parts = {"bos_token", "' [INST] '+system_message+'\n\n'+message.content+' [/INST]'",
            "' [INST] '+message.content+' [/INST]'", "' '+message.content+eos_token"},
        .user = INST(" ", CONTENT),
        .first = INST(" ", SYSTEM "\n\n" CONTENT),
        .assistant = LEARNT " " CONTENT EOS SAID,
        .end = EOS},
    /* These write a system message before the last question alone, so that no answered conversation
     * has it: it is refused. */
    {.name = "Mistral 0.3",
        .parts = {"bos_token", "'[INST] '+message.content+'[/INST]'",
            "'[INST] '+system_message+'\n\n'+message.content+'[/INST]'",
            "' '+message.content|trim+eos_token", MISTRAL_USERS},
        .spaced = true,
        .user = "[INST] " CONTENT "[/INST]",
        .assistant = LEARNT " " TRIMMED EOS SAID,
        .end = EOS},
    {.name = "Mistral Nemo",
        .parts = {"bos_token", "'[INST]'+message.content+'[/INST]'",
            "'[INST]'+system_message+'\n\n'+message.content+'[/INST]'", "message.content+eos_token",
            MISTRAL_USERS},
        .user = "[INST]" CONTENT "[/INST]",
        .assistant = LEARNT CONTENT EOS SAID,
        .end = EOS},
    {.name = "Mistral Small",
        .parts = {"bos_token", "'[INST]'+message.content+'[/INST]'", "message.content+eos_token",
            "'[SYSTEM_PROMPT]'+message.content+'[/SYSTEM_PROMPT]'",
            "?'[SYSTEM_PROMPT]'+system_message+'[/SYSTEM_PROMPT]'",
            "?default_system_message='" CONTENT "'"},
        .system = "[SYSTEM_PROMPT]" CONTENT "[/SYSTEM_PROMPT]",
        .user = "[INST]" CONTENT "[/INST]",
        .assistant = LEARNT CONTENT EOS SAID,
        .end = EOS},
    /* The tokens of this SentencePiece take the white space behind them. */
    {.name = "Phi-3",
        .parts = {"'<|user|>\n'+message.content+'<|end|>\n<|assistant|>\n'",
            "message.content+'<|end|>\n'", "?bos_token"},
        .pieces = true,
        .user = "<|user|>" LEFT "<|end|><|assistant|>",
        .assistant = LEARNT LEFT "<|end|>" SAID,
        .end = "<|end|>"},
    {.name = "Phi-3 with system messages",
        .parts = {"'<|system|>\n'+message.content+'<|end|>\n'",
            "'<|user|>\n'+message.content+'<|end|>\n'",
            "'<|assistant|>\n'+message.content+'<|end|>\n'", "'<|assistant|>\n'", "?bos_token",
            "?eos_token"},
        .pieces = true,
        .system = "<|system|>" LEFT "<|end|>",
        .user = "<|user|>" LEFT "<|end|>",
        .assistant = "<|assistant|>" LEARNT LEFT "<|end|>" SAID,
        .end = "<|end|>"},
    {.name = "Gemma",
        .parts = {"'<start_of_turn>'+role+'\n'+message.content|trim+'<end_of_turn>\n'",
            "'<start_of_turn>model\n'", "?role='model'", "?bos_token"},
        GEMMA_TURNS},
    {.name = "Gemma 3",
        .parts = {"bos_token", "first_user_prefix=messages[0].content+'\n\n'",
            "first_user_prefix=''", "role='model'",
            "'<start_of_turn>'+role+'\n'+(first_user_prefixifloop.firstelse'')",
            "message.content|trim", "'<end_of_turn>\n'", "'<start_of_turn>model\n'",
            /* of contents in pieces */
            "?first_user_prefix=messages[0].content[0].text+'\n\n'", "?'<start_of_image>'",
            "?item.text|trim"},
        GEMMA_TURNS,
        .first = "<start_of_turn>user\n" SYSTEM "\n\n" TRIMMED "<end_of_turn>\n"},
    {.name = "Zephyr",
        .parts = {"'<|user|>\n'+message.content+eos_token+'\n'",
            "'<|system|>\n'+message.content+eos_token+'\n'",
            "'<|assistant|>\n'+message.content+eos_token+'\n'", "'<|assistant|>\n'"},
        .system = "<|system|>\n" CONTENT EOS "\n",
        .user = "<|user|>\n" CONTENT EOS "\n",
        .assistant = "<|assistant|>\n" LEARNT CONTENT EOS SAID "\n",
        .end = EOS},
};
const size_t chat__families_count = sizeof chat__families / sizeof *chat__families;

/* Whether a part is as a row has it. */
static bool matches(const char *part, const char *row, chat_text usual[2])
{
    const char *any = strchr(row, CHAT_CONTENT);
    const size_t size = strlen(part), before = any != NULL ? (size_t)(any - row) : strlen(row);
    const size_t after = any != NULL ? strlen(any + 1) : 0;
    if (any == NULL)
        return strcmp(part, row) == 0;
    if (size < before + after || memcmp(part, row, before) != 0 ||
        strcmp(part + size - after, any + 1) != 0)
        return false;
    for (const char *p = part + before; p < part + size - after; ++p)
        if (strncmp(p, "'+", 2) == 0 || strncmp(p, "<|", 2) == 0)
            return false; /* more than a text */
    usual[1] = (chat_text){part + before, size - before - after};
    if (usual[0].at == NULL)
        usual[0] = usual[1];
    return true;
}

/* Whether the row has the part. */
static bool knows(
    const chat_family *family, const char *part, bool has[CHAT_PARTS], chat_text usual[2])
{
    for (size_t i = 0; i < CHAT_PARTS && family->parts[i] != NULL; ++i)
        if (matches(part, family->parts[i] + (family->parts[i][0] == '?'), usual))
            return has[i] = true;
    return false;
}

const chat_family *chat__family_of(const chat_template *t, bool pieces, chat_text usual[2])
{
    for (size_t k = 0; k < chat__families_count; ++k) {
        const chat_family *family = &chat__families[k];
        bool has[CHAT_PARTS] = {false}, good = true;
        const char *part = t->parts;
        usual[0] = usual[1] = (chat_text){NULL, 0};
        for (size_t i = 0; i < t->count; ++i, part += strlen(part) + 1)
            good = knows(family, part, has, usual) && good;
        for (size_t i = 0; i < CHAT_PARTS && family->parts[i] != NULL; ++i)
            good = good && (has[i] || family->parts[i][0] == '?');
        if (good && (pieces || !family->pieces) &&
            (t->prompts || family->assistant[0] == CHAT_LEARNT))
            return family;
    }
    return NULL;
}

bool chat__has_part(const chat_template *t, const char *part)
{
    const char *other = t->parts;
    for (size_t i = 0; i < t->count; ++i, other += strlen(other) + 1)
        if (strcmp(other, part) == 0)
            return true;
    return false;
}
