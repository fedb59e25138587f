#include "trainer/vocabulary/chat_template.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    char *at, *part; /* where the next character goes; where its part begins */
    size_t count;
    size_t depth, dead; /* blocks that are open; the first of them that writes nothing, or 0 */
} writer;

static bool is_space(char c)
{
    return c != '\0' && strchr(" \t\n\r\f\v", c) != NULL;
}

/* Whether the part ends so. */
static bool ends(const writer *w, const char *text)
{
    const size_t length = strlen(text);
    return (size_t)(w->at - w->part) >= length && memcmp(w->at - length, text, length) == 0;
}

static void end_part(writer *w)
{
    if (w->at > w->part) {
        *w->at++ = '\0';
        w->part = w->at;
        ++w->count;
    }
}

/* Goes on with another text or expression. */
static void join(writer *w)
{
    if (w->at > w->part)
        *w->at++ = '+';
}

/* 'a'+'b' is 'ab'. */
static void begin_text(writer *w)
{
    if (ends(w, "'+"))
        w->at -= 2;
    else
        *w->at++ = '\'';
}

static void put_text(writer *w, const char *text, size_t length)
{
    if (length == 0)
        return;
    join(w);
    begin_text(w);
    memcpy(w->at, text, length);
    w->at += length;
    *w->at++ = '\'';
}

/* x['name'] is x.name: false where the text from its quote `begin` on is no name. */
static bool name_member(writer *w, char *begin)
{
    bool name = begin - w->part > 1 && begin[-1] == '[' && *begin == '\'';
    for (const char *p = begin + 1; name && p < w->at; ++p)
        name = isalpha((unsigned char)*p) || *p == '_';
    if (!name)
        return false;
    begin[-1] = '.';
    memmove(begin, begin + 1, (size_t)(w->at - begin - 1));
    w->at -= 1;
    return true;
}

/* A text from its quote on; returns what follows it. */
static const char *put_quoted(writer *w, const char *s, const char *end)
{
    const char quote = *s++;
    begin_text(w);
    char *begin = w->at - 1;
    for (; s < end && *s != quote; ++s) {
        if (*s == '\\' && s + 1 < end)
            *w->at++ = *++s == 'n' ? '\n' : *s == 't' ? '\t' : *s;
        else
            *w->at++ = *s;
    }
    const char *after = s < end ? s + 1 : end;
    while (after < end && is_space(*after))
        ++after;
    if (after < end && *after == ']' && name_member(w, begin))
        return after + 1;
    *w->at++ = '\'';
    return s < end ? s + 1 : end;
}

static void put_expression(writer *w, const char *s, const char *end)
{
    static const char strip[] = ".strip()", trim[] = "|trim";
    while (s < end)
        if (*s == '\'' || *s == '"') {
            s = put_quoted(w, s, end);
        } else {
            if (!is_space(*s))
                *w->at++ = *s;
            ++s;
            if (ends(w, strip)) {
                w->at -= sizeof strip - 1;
                memcpy(w->at, trim, sizeof trim - 1);
                w->at += sizeof trim - 1;
            }
        }
}

static bool begins(const char *s, const char *end, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(end - s) >= length && memcmp(s, word, length) == 0;
}

/* Whether a block never writes: under `false == true`, of tools, which no conversation has, or of
 * an option of its own. */
static bool is_never(const char *block)
{
    static const char *const never[] = {"iftools", "iftoolsisnotnone", "ifbuiltin_toolsisdefined",
        "ifbuiltin_toolsisdefinedortoolsisnotnone", "iftoolsisnotnoneandnottools_in_user_message",
        "iftools_in_user_messageandnottoolsisnone",
        "iftoolsisnotnoneand(message==user_messages[-1])", "ifmessage.tool_calls",
        "fortool_callinmessage.tool_calls", "elif'tool_calls'inmessage",
        "elifmessage.tool_callsisdefinedandmessage.tool_callsisnotnone",
        "elif(message.tool_callsisdefinedandmessage.tool_callsisnotnone)",
        "elifmessage.role=='tool'", "elifmessage.role=='tool'ormessage.role=='ipython'",
        "elifmessage.role=='tool_results'ormessage.role=='tool'",
        "ifenable_thinkingisdefinedandenable_thinkingisfalse", "ifxml_toolsorpython_tools",
        "ifxml_toolsorpython_toolsortools"};
    for (size_t i = 0; i < sizeof never / sizeof *never; ++i)
        if (strcmp(block, never[i]) == 0)
            return true;
    return strstr(block, "false==true") != NULL;
}

/* Counts the blocks that a tag opens or closes, and sees which write nothing. */
static void put_block(writer *w, const char *s, const char *end)
{
    const bool opens = begins(s, end, "if") || begins(s, end, "for");
    const bool closes = begins(s, end, "endif") || begins(s, end, "endfor");
    w->depth += opens;
    if (w->dead == w->depth && (closes || begins(s, end, "el")))
        w->dead = 0;
    if (w->dead == 0 && !closes && is_never(w->part))
        w->dead = w->depth;
    w->depth -= closes && w->depth > 0;
}

/* Of {% ... %}: it ends a part, unless it says that an answer begins or ends there. */
static void put_statement(writer *w, const char *s, const char *end)
{
    if (begins(s, end, "generation") || begins(s, end, "endgeneration"))
        return;
    end_part(w);
    const char *set = begins(s, end, "set") ? s + 3 : s;
    put_expression(w, set, end);
    *w->at = '\0';
    if (set == s)
        put_block(w, s, end);
    if (set == s || w->dead > 0 || strchr(w->part, '\'') == NULL)
        w->at = w->part;
    end_part(w);
}

/* The end of a tag, before its "%}"; texts in it may have that, too. */
static const char *end_of_tag(const char *s, const char *close)
{
    char quote = '\0';
    for (; *s != '\0'; ++s) {
        if (quote == '\0' && strncmp(s, close, 2) == 0)
            return s;
        if (quote != '\0' && *s == '\\' && s[1] != '\0')
            ++s;
        else if (*s == quote)
            quote = '\0';
        else if (quote == '\0' && close[0] != '#' && (*s == '\'' || *s == '"'))
            quote = *s;
    }
    return s;
}

static const char *next_tag(const char *s)
{
    while ((s = strchr(s, '{')) != NULL && strchr("{%#", s[1]) == NULL)
        ++s;
    return s;
}

static void put_all(writer *w, const char *s)
{
    bool line = true; /* s begins one */
    for (const char *tag; *s != '\0';) {
        tag = next_tag(s);
        if (tag == NULL || tag[1] == '\0') {
            const size_t length = strlen(s);
            put_text(w, s, length - (s[length - 1] == '\n')); /* Jinja drops the last line's end */
            return;
        }
        const char kind = tag[1], close[] = {kind == '{' ? '}' : kind, '}', '\0'};
        const char *begin = tag + 2, *stop = end_of_tag(begin, close), *last = tag, *from = tag;
        const char *after = *stop != '\0' ? stop + 2 : stop;
        if (kind != '{')
            while (from > s && (from[-1] == ' ' || from[-1] == '\t'))
                --from;
        if (*begin == '-')
            while (last > s && is_space(last[-1]))
                --last;
        else if (kind != '{' && *begin != '+' && (from > s ? from[-1] == '\n' : line))
            last = from;
        if (w->dead == 0)
            put_text(w, s, (size_t)(last - s));
        s = after;
        if (stop > begin && stop[-1] == '-')
            while (is_space(*s))
                ++s;
        else if (kind != '{' && !(stop > begin && stop[-1] == '+') && *s == '\n')
            ++s;
        line = s > after && s[-1] == '\n';
        while (begin < stop && (*begin == '-' || *begin == '+' || is_space(*begin)))
            ++begin;
        while (stop > begin && (stop[-1] == '-' || stop[-1] == '+' || is_space(stop[-1])))
            --stop;
        if (kind == '%')
            put_statement(w, begin, stop);
        else if (kind == '{' && w->dead == 0 && !begins(begin, stop, "raise_exception")) {
            join(w);
            put_expression(w, begin, stop);
        }
    }
}

bool chat_template_read(const char *text, chat_template *t)
{
    *t = (chat_template){.prompts = strstr(text, "add_generation_prompt") != NULL};
    t->parts = malloc(3 * strlen(text) + 16);
    if (t->parts == NULL)
        return false;
    writer w = {.at = t->parts, .part = t->parts};
    put_all(&w, text);
    end_part(&w);
    t->count = w.count;
    return true;
}
