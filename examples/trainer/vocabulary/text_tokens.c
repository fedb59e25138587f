#include "trainer/vocabulary/text_tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/data/file_kind.h"
#include "trainer/files/json_load.h"
#include "trainer/files/plain_file.h"
#include "trainer/vocabulary/chat.h"

bool text_model_open(text_model *m, fault *f)
{
    m->opened = m->opened || vocabulary_open(m->path, &m->words, f);
    return m->opened;
}

void text_model_close(text_model *m)
{
    if (m->opened)
        vocabulary_close(&m->words);
    *m = (text_model){0};
}

/* The files that are written, and the tokens of one text. */
typedef struct output {
    const char *path;
    const vocabulary *v;
    bool wraps; /* text_model.chat */
    chat chat;  /* of the first conversation on */
    token_list list;
    unsigned char *learnt; /* (list.count), or NULL */
    FILE *tokens, *mask;
    uint64_t written, *begins; /* text_tokens.begins */
    size_t lines, room;
} output;

/* learnt: of all, unless o->learnt tells it of each. */
static bool put_tokens(output *o, bool learnt, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < o->list.count; ++i) {
        unsigned char bytes[4];
        for (size_t k = 0; k < sizeof bytes; ++k)
            bytes[k] = (unsigned char)((uint32_t)o->list.tokens[i] >> (8 * k));
        good =
            fwrite(bytes, sizeof bytes, 1, o->tokens) == 1 &&
            (o->mask == NULL || fputc(o->learnt != NULL ? o->learnt[i] : learnt, o->mask) != EOF);
    }
    o->written += o->list.count;
    o->list.count = 0;
    return good || fault_set_file(f, "write the tokens of", o->path, errno);
}

#if TRAINER_JANSSON

/* Notes that a text begins here, or that the last one has ended. */
static bool note_begin(output *o, fault *f)
{
    if (o->lines == o->room) {
        const size_t room = 2 * o->room + 64;
        uint64_t *more = realloc(o->begins, room * sizeof *more);
        if (more == NULL)
            return fault_set(f, CODE_MEMORY, "%s: no memory", o->path);
        o->begins = more;
        o->room = room;
    }
    o->begins[o->lines++] = o->written;
    return true;
}

enum { NAMES = 4 };
static const char *const prompts[NAMES] = {"question", "prompt", "instruction", "input"};
static const char *const answers[NAMES] = {"completion", "response", "output", "answer"};

/* Puts those of `names` that a line has together, a line each; *found counts them. */
static char *join(const json_t *line, const char *const *names, size_t *length, size_t *found)
{
    size_t room = 1;
    for (size_t i = 0; i < NAMES; ++i)
        room += json_string_length(json_object_get(line, names[i])) + 1;
    char *text = malloc(room);
    *length = *found = 0;
    for (size_t i = 0; text != NULL && i < NAMES; ++i) {
        const json_t *part = json_object_get(line, names[i]);
        const size_t size = json_string_length(part);
        *found += json_is_string(part);
        if (size > 0 && *length > 0)
            text[(*length)++] = '\n';
        if (size > 0)
            memcpy(text + *length, json_string_value(part), size);
        *length += size;
    }
    if (text != NULL)
        text[*length] = '\0';
    return text;
}

/* Adds the token that begins a text. */
static bool put_begin(output *o, fault *f)
{
    return (o->v->begin == VOCABULARY_NONE || token_list_add(&o->list, o->v->begin, f)) &&
           put_tokens(o, false, f);
}

/* Adds the tokens of a text, and if it is learnt the one that ends it, unless it is there. */
static bool put_text(output *o, const char *name, const char *text, size_t length, unsigned how,
    bool learnt, fault *f)
{
    token_list *l = &o->list;
    return vocabulary_encode(o->v, name, text, length, VOCABULARY_SPECIAL | how, l, f) &&
           (!learnt || o->v->ends_count == 0 ||
               (l->count > 0 && l->tokens[l->count - 1] == o->v->ends[0]) ||
               token_list_add(l, o->v->ends[0], f)) &&
           put_tokens(o, learnt, f);
}

static bool put_messages(
    output *o, const char *name, const chat_message *messages, size_t count, fault *f)
{
    const bool good =
        (o->chat.family != NULL || chat_open(o->v, &o->chat, f)) &&
        chat_encode(&o->chat, o->v, name, messages, count, false, &o->list, &o->learnt, f) &&
        put_tokens(o, false, f);
    free(o->learnt);
    o->learnt = NULL;
    return good;
}

static bool put_conversation(output *o, const char *name, const json_t *list, fault *f)
{
    static const char *const others[] = {"reasoning_content", "tool_calls"};
    const size_t count = json_array_size(list);
    chat_message *messages = calloc(count + 1, sizeof *messages);
    bool good = messages != NULL || fault_set(f, CODE_MEMORY, "%s: no memory", name);
    if (good && count == 0)
        good = fault_set(f, CODE_DATA, "%s: \"messages\" is no list of messages", name);
    for (size_t i = 0; good && i < count; ++i) {
        const json_t *message = json_array_get(list, i);
        const json_t *role = json_object_get(message, "role");
        const json_t *content = json_object_get(message, "content");
        const char *lacks = !json_is_string(role) ? "role" : "content";
        good = (json_is_string(role) && json_is_string(content)) ||
               fault_set(
                   f, CODE_DATA, "%s: message %zu has no text as its \"%s\"", name, i + 1, lacks);
        for (size_t k = 0; good && k < sizeof others / sizeof *others; ++k) {
            const json_t *other = json_object_get(message, others[k]);
            good = json_string_length(other) + json_array_size(other) == 0 ||
                   fault_set(f, CODE_DATA,
                       "%s: message %zu has \"%s\", which is not put into a chat template", name,
                       i + 1, others[k]);
        }
        messages[i] = (chat_message){
            json_string_value(role), json_string_value(content), json_string_length(content)};
    }
    good = good && put_messages(o, name, messages, count, f);
    free(messages);
    return good;
}

static bool put_answer(output *o, const char *name, const json_t *line, fault *f)
{
    size_t length, size, found, answered;
    char *prompt = join(line, prompts, &length, &found);
    char *answer = join(line, answers, &size, &answered);
    bool good =
        (prompt != NULL && answer != NULL) || fault_set(f, CODE_MEMORY, "%s: no memory", name);
    good = good && ((found > 0 && answered == 1) ||
                       fault_set(f, CODE_DATA,
                           "%s: %zu prompts and %zu answers, expected \"text\", \"messages\", or "
                           "\"prompt\" and \"completion\"",
                           name, found, answered));
    if (good && o->wraps)
        good = put_messages(
            o, name, (chat_message[]){{"user", prompt, length}, {"assistant", answer, size}}, 2, f);
    else
        good = good && put_begin(o, f) && put_text(o, name, prompt, length, 0, false, f) &&
               put_text(o, name, answer, size, length > 0 ? VOCABULARY_GOES_ON : 0, true, f);
    free(prompt);
    free(answer);
    return good;
}

static bool put_line(output *o, const char *name, const char *bytes, size_t length, fault *f)
{
    json_error_t error;
    bool starved;
    json_t *line = json_load_text(bytes, length, &error, &starved);
    const json_t *text = json_object_get(line, "text");
    const json_t *messages = json_object_get(line, "messages");
    bool good = starved ? fault_set(f, CODE_MEMORY, "%s: no memory", name)
                : !json_is_object(line)
                    ? fault_set(f, CODE_DATA, "%s: no JSON object%s%s", name,
                          line == NULL ? ": " : "", line == NULL ? error.text : "")
                    : true;
    if (good && messages != NULL && !json_is_null(json_object_get(line, "tools")) &&
        json_object_get(line, "tools") != NULL)
        good = fault_set(f, CODE_DATA, "%s: \"tools\" are not put into a chat template", name);
    good = good && (messages != NULL ? put_conversation(o, name, messages, f)
                       : json_is_string(text)
                           ? put_begin(o, f) && put_text(o, name, json_string_value(text),
                                                    json_string_length(text), 0, true, f)
                           : put_answer(o, name, line, f));
    json_decref(line);
    return good;
}

static bool put_lines(output *o, const char *text, size_t length, fault *f)
{
    char name[MESSAGE_SIZE / 2];
    size_t number = 1;
    bool good = true;
    for (const char *end; good && length > 0; ++number) {
        end = memchr(text, '\n', length);
        const size_t size = end != NULL ? (size_t)(end - text) : length;
        (void)snprintf(name, sizeof name, "%.200s: line %zu", o->path, number);
        if (strspn(text, " \t\r") < size)
            good = note_begin(o, f) && put_line(o, name, text, size, f);
        length -= end != NULL ? size + 1 : size;
        text += size + 1;
    }
    good = good && note_begin(o, f);
    o->lines -= good;
    return good;
}

#else

static bool put_lines(output *o, const char *text, size_t length, fault *f)
{
    (void)text, (void)length;
    return fault_set(f, CODE_USAGE,
        "%s: this program was built without jansson and cannot read JSON; install libjansson-dev "
        "and build again",
        o->path);
}

#endif

/* A descriptor of a file that was written, which is closed. */
static int keep(const output *o, FILE *stream, fault *f)
{
    const int descriptor = fflush(stream) == 0 ? fcntl(fileno(stream), F_DUPFD_CLOEXEC, 3) : -1;
    if (descriptor < 0)
        (void)fault_set_file(f, "write the tokens of", o->path, errno);
    return descriptor;
}

bool text_tokens_open(const char *path, text_model *m, text_tokens *made, fault *f)
{
    const bool lines = file_kind_ends_with(path, ".jsonl");
    size_t length;
    char *text = plain_file_read(path, SIZE_MAX - 1, &length, f);
    output o = {.path = path, .v = &m->words, .wraps = m->chat};
    bool good = text != NULL && vocabulary_prepare(&m->words, f);
    *made = (text_tokens){.descriptor = -1, .mask = -1};
    if (good) {
        o.tokens = tmpfile();
        o.mask = lines && o.tokens != NULL ? tmpfile() : NULL;
        good = (o.tokens != NULL && (o.mask != NULL || !lines)) ||
               fault_set_file(f, "write the tokens of", path, errno);
    }
    good = good && (lines ? put_lines(&o, text, length, f)
                          : vocabulary_encode(o.v, path, text, length, 0, &o.list, f) &&
                                put_tokens(&o, true, f));
    if (good)
        made->descriptor = keep(&o, o.tokens, f);
    if (good && lines && made->descriptor >= 0)
        made->mask = keep(&o, o.mask, f);
    good = good && made->descriptor >= 0 && (!lines || made->mask >= 0);
    if (good) {
        made->begins = o.begins;
        made->lines = o.lines;
    } else {
        if (made->descriptor >= 0)
            (void)close(made->descriptor);
        made->descriptor = -1;
        free(o.begins);
    }
    if (o.tokens != NULL)
        (void)fclose(o.tokens);
    if (o.mask != NULL)
        (void)fclose(o.mask);
    chat_close(&o.chat);
    free(o.list.tokens);
    free(text);
    return good;
}
