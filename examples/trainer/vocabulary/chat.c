#include "trainer/vocabulary/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/utf8.h"
#include "trainer/vocabulary/chat_private.h"
#include "trainer/vocabulary/vocabulary_private.h"

/* ---- the template ------------------------------------------------------------------------------
 */

static bool list_families(const char *path, fault *f)
{
    char names[512] = "";
    for (size_t i = 0; i < chat__families_count; ++i) {
        const size_t used = strlen(names);
        (void)snprintf(
            names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", chat__families[i].name);
    }
    return fault_set(f, CODE_DATA,
        "%s: its chat template is none of those known here (%s); tokens.py puts lines into any "
        "template",
        path, names);
}

/* Finds the token that ends an answer. */
static bool find_end(const vocabulary *v, chat *c, fault *f)
{
    const bool eos = c->family->end[0] == CHAT_EOS;
    const char *text = eos ? c->eos : c->family->end;
    token_list list = {0};
    const bool good = vocabulary_encode(v, "the chat template", text, strlen(text),
                          VOCABULARY_SPECIAL, &list, f) &&
                      ((list.count == 1 && (v->kinds[list.tokens[0]] == VOCABULARY_CONTROL ||
                                               v->kinds[list.tokens[0]] == VOCABULARY_USER)) ||
                          fault_set(f, CODE_DATA,
                              "%s: its chat template ends turns with %.60s, which is no token that "
                              "controls",
                              v->path, utf8_printable(text) ? text : "?"));
    c->end = good ? list.tokens[0] : VOCABULARY_NONE;
    free(list.tokens);
    return good;
}

/* Whether some turn of the family has a mark. */
static bool writes(const chat_family *family, int mark)
{
    const char *const turns[] = {family->user, family->assistant, family->first, family->system};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; ++i)
        if (turns[i] != NULL && strchr(turns[i], mark) != NULL)
            return true;
    return false;
}

static bool take_template(const vocabulary *v, const chat_template *t, chat *c, fault *f)
{
    chat_text usual[2];
    c->family = chat__family_of(t, v->pieces, usual);
    const bool ordered = c->family != NULL && writes(c->family, CHAT_ORDERED);
    if (c->family == NULL || (ordered && usual[0].at == usual[1].at))
        return list_families(v->path, f);
    c->begins = c->family->begins || chat__has_part(t, "bos_token");
    c->lasts = chat__has_part(t, "eos_token");
    if ((c->bos == NULL && (c->begins || writes(c->family, CHAT_BOS))) ||
        (c->eos == NULL && (c->lasts || writes(c->family, CHAT_EOS))))
        return fault_set(f, CODE_DATA,
            "%s: its chat template writes the token that %s a text, but it names none", v->path,
            c->eos == NULL ? "ends" : "begins");
    if (usual[1].at != NULL) {
        c->usual = vocabulary__copy(usual[!ordered].at, usual[!ordered].length);
        c->silent = vocabulary__copy(usual[1].at, usual[1].length);
        if (c->usual == NULL || c->silent == NULL)
            return fault_set(f, CODE_MEMORY, "%s: no memory for its chat template", v->path);
    }
    return find_end(v, c, f);
}

bool chat_open(const vocabulary *v, chat *c, fault *f)
{
    vocabulary_chat of = {0};
    chat_template t = {0};
    *c = (chat){.end = VOCABULARY_NONE};
    bool good = v->folder ? vocabulary__json_chat(v, &of, f) : vocabulary__gguf_chat(v, &of, f);
    if (good && of.jinja == NULL)
        good = fault_set(f, CODE_DATA, "%s: it has no chat template", v->path);
    c->bos = of.bos;
    c->eos = of.eos;
    good = good &&
           (chat_template_read(of.jinja, &t) ||
               fault_set(f, CODE_MEMORY, "%s: no memory for its chat template", v->path)) &&
           take_template(v, &t, c, f);
    free(of.jinja);
    free(t.parts);
    if (!good)
        chat_close(c);
    return good;
}

void chat_close(chat *c)
{
    free(c->bos);
    free(c->eos);
    free(c->usual);
    free(c->silent);
    *c = (chat){0};
}

/* ---- a conversation ----------------------------------------------------------------------------
 */

/* Its text, and a mark for each byte. asked: the turn is behind the last question; last: nothing is
 * behind it; silent: the system message has /no_think. */
typedef struct page {
    char *text;
    unsigned char *marks, mark; /* mark: of what the template writes next */
    size_t length, room;
    bool asked, last, silent;
    bool full; /* memory is out */
} page;

static void put(page *p, const char *text, size_t length, unsigned char mark)
{
    if (length >= p->room - p->length) {
        const size_t room = 2 * (p->room + length) + 256;
        char *more = realloc(p->text, room);
        unsigned char *marks = realloc(p->marks, room);
        p->text = more != NULL ? more : p->text;
        p->marks = marks != NULL ? marks : p->marks;
        if (more == NULL || marks == NULL) {
            p->full = true;
            return;
        }
        p->room = room;
    }
    memcpy(p->text + p->length, text, length);
    memset(p->marks + p->length, p->mark | mark, length);
    p->length += length;
    p->text[p->length] = '\0';
}

/* Bytes of the white space at a place, as Python's str.strip takes it; 0 if there is none. */
static size_t white_length(const char *text, size_t left)
{
    static const char *const wide[] = {"\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
    const unsigned char *s = (const unsigned char *)text;
    if (left > 0 && ((s[0] >= '\t' && s[0] <= '\r') || (s[0] >= 0x1C && s[0] <= ' ')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; ++i)
        if (left >= strlen(wide[i]) && memcmp(text, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return left >= 3 && s[0] == 0xE2 && s[1] == 0x80 && s[2] >= 0x80 && s[2] <= 0x8A ? 3 : 0;
}

/* Characters that are white space to Python, but not to tokenizers. */
static bool is_separator(char c)
{
    return c >= 0x1C && c <= 0x1F;
}

static size_t white_before(const char *text, size_t length)
{
    for (size_t size = 1; size <= 3 && size <= length; ++size)
        if (white_length(text + length - size, size) == size)
            return size;
    return 0;
}

/* Puts a content. how: CHAT_CONTENT to CHAT_RIGHT. */
static void put_content(page *p, const char *text, size_t length, int how)
{
    size_t white;
    while ((how == CHAT_TRIMMED || (how == CHAT_LEFT && !is_separator(text[0]))) &&
           (white = white_length(text, length)) > 0) {
        text += white;
        length -= white;
    }
    while (how == CHAT_TRIMMED && (white = white_before(text, length)) > 0)
        length -= white;
    put(p, text, length, VOCABULARY__SAID);
    while (how == CHAT_RIGHT && (white = white_before(p->text, p->length)) > 0)
        p->length -= white;
}

/* The first place of a word in a text, or the last one; NULL if there is none. */
static const char *find(const char *at, const char *end, const char *word, bool last)
{
    const size_t length = strlen(word);
    const char *found = NULL;
    for (; (size_t)(end - at) >= length && (last || found == NULL); ++at)
        if (memcmp(at, word, length) == 0)
            found = at;
    return found;
}

static const char *skip_lines(const char *at, const char *end)
{
    while (at < end && *at == '\n')
        ++at;
    return at;
}

/* Puts an answer. What it thinks stands before </think> in it, and is written behind the last
 * question alone; the last answer has a place for it in any case. */
static void put_answer(page *p, const chat_message *message)
{
    static const char opens[] = "<think>\n", closes[] = "\n</think>\n\n";
    const char *said = message->content, *end = said + message->length;
    const char *thought = said, *stop = find(said, end, "</think>", false);
    if (stop != NULL) {
        const char *open = find(said, stop, "<think>", true);
        said = skip_lines(find(said, end, "</think>", true) + strlen("</think>"), end);
        thought = skip_lines(open != NULL ? open + strlen("<think>") : thought, stop);
        while (stop > thought && stop[-1] == '\n')
            --stop;
    } else {
        stop = thought;
    }
    if (p->asked && (p->last || stop > thought)) {
        put(p, opens, strlen(opens), 0);
        put(p, thought, (size_t)(stop - thought), VOCABULARY__SAID);
        put(p, closes, strlen(closes), 0);
        said = skip_lines(said, end);
    }
    put(p, said, (size_t)(end - said), VOCABULARY__SAID);
}

/* Takes all of a word out of a text; returns its length. */
static size_t drop(char *text, size_t length, const char *word)
{
    const size_t size = strlen(word);
    for (char *at = text; (size_t)(text + length - at) >= size;)
        if (memcmp(at, word, size) == 0) {
            length -= size;
            memmove(at, at + size, (size_t)(text + length - at));
        } else {
            ++at;
        }
    for (size_t white; (white = white_before(text, length)) > 0;)
        length -= white;
    return length;
}

static void put_own(page *p, const char *text)
{
    put(p, text, strlen(text), 0);
}

/* Puts SmolLM3's system message: what it says, without its orders, or where that is nothing the
 * template's own text; behind a head, which also says whether to think. */
static void put_ordered(page *p, const chat *c, const chat_message *system)
{
    static const char override[] = "/system_override";
    const bool usual = system->content == c->usual;
    const bool alone =
        find(system->content, system->content + system->length, override, false) != NULL;
    char *text = vocabulary__copy(system->content, usual ? 0 : system->length);
    if (text == NULL) {
        p->full = true;
        return;
    }
    size_t length = usual ? 0 : drop(text, system->length, "/no_think");
    length = drop(text, length, "/think");
    if (alone) {
        put(p, text, drop(text, length, override), VOCABULARY__SAID);
        put_own(p, "<|im_end|>\n");
    } else {
        put_own(p, "## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: 08 July 2025\n"
                   "Reasoning Mode: ");
        put_own(p, p->silent ? "/no_think" : "/think");
        put_own(p, "\n\n## Custom Instructions\n\n");
        if (length > 0)
            put(p, text, length, VOCABULARY__SAID);
        else
            put_own(p, p->silent ? c->silent : c->usual);
        put_own(p, "\n\n");
    }
    free(text);
}

/* Puts a turn, up to CHAT_LEARNT where only `asks`. system: NULL, or the first message. */
static void put_turn(page *p, const chat *c, const char *turn, const chat_message *message,
    const chat_message *system, bool asks)
{
    for (; *turn != '\0' && !(asks && *turn == CHAT_LEARNT); ++turn)
        switch (*turn) {
        case CHAT_CONTENT:
        case CHAT_TRIMMED:
        case CHAT_LEFT:
        case CHAT_RIGHT:
            put_content(p, message->content, message->length, *turn);
            break;
        case CHAT_ANSWER:
            put_answer(p, message);
            break;
        case CHAT_ORDERED:
            put_ordered(p, c, message);
            break;
        case CHAT_UNTHOUGHT:
            put_own(p, p->silent ? "<think>\n\n</think>\n" : "");
            break;
        case CHAT_LINES: {
            const char *end = message->content + message->length;
            const char *said = skip_lines(message->content, end);
            put(p, said, (size_t)(end - said), VOCABULARY__SAID);
            break;
        }
        case CHAT_SYSTEM:
            put_content(p, system->content, system->length, CHAT_CONTENT);
            break;
        case CHAT_LEARNT:
            p->mark = VOCABULARY__LEARNT;
            break;
        case CHAT_SAID:
            p->mark = 0;
            break;
        case CHAT_BOS:
            put(p, c->bos, strlen(c->bos), 0);
            break;
        case CHAT_EOS:
            put(p, c->eos, strlen(c->eos), 0);
            break;
        default:
            put(p, turn, 1, 0);
        }
    p->mark = 0;
}

static bool is_role(const chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* The last message of the user that is no result of a tool; if there is none, the last message. */
static size_t last_question(const chat_message *messages, size_t count)
{
    static const char opens[] = "<tool_response>", closes[] = "</tool_response>";
    const size_t before = strlen(opens), after = strlen(closes);
    for (size_t i = count; i-- > 0;) {
        const chat_message *m = &messages[i];
        if (is_role(m, "user") && !(m->length >= after && memcmp(m->content, opens, before) == 0 &&
                                      memcmp(m->content + m->length - after, closes, after) == 0))
            return i;
    }
    return count - 1;
}

/* Whether the messages are a conversation that the family has. */
static bool check(const chat_family *family, const char *name, const chat_message *messages,
    size_t count, fault *f)
{
    const bool system = count > 0 && is_role(&messages[0], "system");
    for (size_t i = 0; i < count; ++i) {
        const char *want = (i - system) % 2 == 0 ? "user" : "assistant";
        if (!is_role(&messages[i], "system") && !is_role(&messages[i], "user") &&
            !is_role(&messages[i], "assistant"))
            return fault_set(f, CODE_DATA,
                "%s: message %zu has the role %.60s, expected system, user or assistant", name,
                i + 1, utf8_printable(messages[i].role) ? messages[i].role : "?");
        if (i == 0 && system && family->system == NULL && family->first == NULL)
            return fault_set(f, CODE_DATA,
                "%s: message 1 has the role system, which the model's chat template (%s) lacks",
                name, family->name);
        if (!(i == 0 && system) && !is_role(&messages[i], want))
            return fault_set(f, CODE_DATA,
                "%s: message %zu has the role %s, expected %s%s: after a system message, if there "
                "is one, the user and the assistant take turns",
                name, i + 1, messages[i].role, i == 0 ? "system or " : "", want);
    }
    return count > system || fault_set(f, CODE_DATA, "%s: no message is of the user", name);
}

/* Notes which tokens are learnt: all that have a byte of what is. A space that only the tokens have
 * goes with what follows. */
static bool note_learnt(const vocabulary *v, const page *p, bool spaced, const token_list *list,
    unsigned char **learnt, fault *f)
{
    bool begins = true;
    size_t at = 0;
    *learnt = calloc(list->count + 1, 1);
    if (*learnt == NULL)
        return fault_set(f, CODE_MEMORY, "no memory for %zu tokens", list->count);
    for (size_t i = 0; i < list->count; ++i) {
        begins = begins && !spaced;
        const size_t size = vocabulary__length_in(v, list->tokens[i], &begins);
        for (size_t k = at; k < at + size + (size == 0) && k < p->length; ++k)
            (*learnt)[i] |= (p->marks[k] & VOCABULARY__LEARNT) != 0;
        at += size;
    }
    return at == p->length || fault_set(f, CODE_DATA, "%s: its tokens are not its text", v->path);
}

bool chat_encode(const chat *c, const vocabulary *v, const char *name, const chat_message *messages,
    size_t count, bool prompts, token_list *list, unsigned char **learnt, fault *f)
{
    const chat_family *family = c->family;
    if (learnt != NULL)
        *learnt = NULL;
    if (!check(family, name, messages, count, f))
        return false;
    page p = {0};
    const chat_message usual = {"system", c->usual, c->usual != NULL ? strlen(c->usual) : 0};
    const chat_message *system = is_role(&messages[0], "system") ? &messages[0]
                                 : c->usual != NULL              ? &usual
                                                                 : NULL;
    const size_t question = last_question(messages, count);
    const unsigned how = VOCABULARY_SPECIAL | (family->spaced ? VOCABULARY__SPACED : 0);
    p.silent = system != NULL &&
               find(system->content, system->content + system->length, "/no_think", false) != NULL;
    if (c->begins)
        put(&p, c->bos, strlen(c->bos), 0);
    if (system != NULL && family->system != NULL)
        put_turn(&p, c, family->system, system, NULL, false);
    for (size_t i = system == &messages[0]; i < count; ++i) {
        p.asked = i > question;
        p.last = i + 1 == count;
        const bool first = i == 1 && system != NULL && family->first != NULL;
        put_turn(&p, c,
            is_role(&messages[i], "assistant") ? family->assistant
            : first                            ? family->first
                                               : family->user,
            &messages[i], system, false);
    }
    if (prompts)
        put_turn(&p, c, family->assistant, NULL, NULL, true);
    else if (c->lasts)
        put(&p, c->eos, strlen(c->eos), 0);
    const bool good = (!p.full || fault_set(f, CODE_MEMORY, "%s: no memory", name)) &&
                      vocabulary__encode(v, name, p.text, p.length, how, p.marks, list, f) &&
                      (learnt == NULL || note_learnt(v, &p, family->spaced, list, learnt, f));
    free(p.text);
    free(p.marks);
    return good;
}
