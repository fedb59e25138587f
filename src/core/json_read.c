#include "core/json_read.h"

#include <string.h>

static bool fail(clprune__json *json, const char *error)
{
    if (json->error == NULL) {
        json->error = json->at == json->end ? "the text ends too early" : error;
        json->mark = json->at;
    }
    return false;
}

/* The next byte, -1 at the end. */
static int next(const clprune__json *json)
{
    return json->at < json->end ? (unsigned char)*json->at : -1;
}

static bool take(clprune__json *json, char c)
{
    if (next(json) != c)
        return false;
    json->at++;
    return true;
}

/* Goes to the next token; false after an error. */
static bool token(clprune__json *json)
{
    if (json->error != NULL)
        return false;
    while (next(json) == ' ' || next(json) == '\t' || next(json) == '\n' || next(json) == '\r')
        json->at++;
    json->mark = json->at;
    return true;
}

clprune__json clprune__json_begin(const char *text, size_t size)
{
    return (clprune__json){.begin = text, .end = text + size, .at = text, .mark = text};
}

static bool enter(clprune__json *json, char open, const char *error)
{
    if (!token(json) || (!take(json, open) && !fail(json, error)))
        return false;
    json->first = true;
    return json->depth++ < CLPRUNE__JSON_DEPTH || fail(json, "nested too deep");
}

bool clprune__json_object(clprune__json *json)
{
    return enter(json, '{', "expected an object");
}

bool clprune__json_array(clprune__json *json)
{
    return enter(json, '[', "expected an array");
}

static bool member(clprune__json *json, char close, const char *error)
{
    if (!token(json))
        return false;
    const bool first = json->first;
    json->first = false;
    if (take(json, close)) {
        json->depth--;
        return false;
    }
    return first || take(json, ',') || fail(json, error);
}

bool clprune__json_element(clprune__json *json)
{
    return member(json, ']', "expected , or ]");
}

bool clprune__json_key(clprune__json *json, char *key, size_t capacity)
{
    if (!member(json, '}', "expected , or }") || !clprune__json_string(json, key, capacity))
        return false;
    const char *start = json->mark;
    if (!token(json) || (!take(json, ':') && !fail(json, "expected :")))
        return false;
    json->mark = start;
    return true;
}

/* What follows \u, as UTF-8. Characters that need two escapes are written as their bytes instead.
 */
static bool escaped_code(clprune__json *json, char bytes[3], size_t *count)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        const int c = next(json);
        const char *digit = c > 0 ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
        if (digit == NULL)
            return fail(json, "expected four hexadecimal digits");
        code = code << 4 | (uint32_t)(digit - digits);
    }
    if (code == 0 || (code >= 0xD800 && code <= 0xDFFF))
        return fail(json, "an escape of zero or of half a character");
    *count = code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
    for (size_t i = *count; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(code | (*count == 1 ? 0u : *count == 2 ? 0xC0u : 0xE0u));
    return true;
}

/* One character of a string as up to three bytes. */
static bool character(clprune__json *json, char bytes[3], size_t *count)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const int c = next(json);
    *count = 1;
    if (c < 0x20)
        return fail(json, "a control character in a string");
    json->at++;
    bytes[0] = (char)c;
    if (c != '\\')
        return true;
    if (take(json, 'u'))
        return escaped_code(json, bytes, count);
    const int letter = next(json);
    const char *found = letter > 0 ? strchr(letters, letter) : NULL;
    if (found == NULL)
        return fail(json, "an unknown escape");
    json->at++;
    bytes[0] = meant[found - letters];
    return true;
}

/* `text` NULL: only checks. */
bool clprune__json_string(clprune__json *json, char *text, size_t capacity)
{
    if (!token(json) || (!take(json, '"') && !fail(json, "expected a string")))
        return false;
    const char *start = json->mark;
    size_t length = 0, count;
    char bytes[3];
    while (!take(json, '"')) {
        if (!character(json, bytes, &count))
            return false;
        if (text != NULL && length + count >= capacity) {
            json->at = start;
            return fail(json, "the string is too long");
        }
        if (text != NULL)
            memcpy(text + length, bytes, count);
        length += count;
    }
    if (text != NULL)
        text[length] = '\0';
    return true;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool digits(clprune__json *json)
{
    if (!is_digit(next(json)))
        return fail(json, "expected a digit");
    while (is_digit(next(json)))
        json->at++;
    return true;
}

static bool number(clprune__json *json)
{
    (void)take(json, '-');
    if (!take(json, '0') && !digits(json))
        return false;
    if (take(json, '.') && !digits(json))
        return false;
    if (take(json, 'e') || take(json, 'E')) {
        if (!take(json, '+'))
            (void)take(json, '-');
        return digits(json);
    }
    return true;
}

bool clprune__json_whole(clprune__json *json, uint64_t *value)
{
    if (!token(json) || (!is_digit(next(json)) && !fail(json, "expected a whole number")))
        return false;
    const char *start = json->at;
    if (!number(json))
        return false;
    uint64_t sum = 0;
    for (const char *p = start; p < json->at; p++) {
        if (!is_digit(*p) || sum > (UINT64_MAX - (uint64_t)(*p - '0')) / 10) {
            json->at = start;
            return fail(json, "expected a whole number of 64 bits");
        }
        sum = sum * 10 + (uint64_t)(*p - '0');
    }
    *value = sum;
    return true;
}

bool clprune__json_skip(clprune__json *json)
{
    static const char *const words[] = {"true", "false", "null"};
    if (!token(json))
        return false;
    const int c = next(json);
    if (c == '"')
        return clprune__json_string(json, NULL, 0);
    if (is_digit(c) || c == '-')
        return number(json);
    if (c == '{' || c == '[') { /* the recursion ends at CLPRUNE__JSON_DEPTH */
        (void)enter(json, (char)c, "");
        while (c == '{' ? clprune__json_key(json, NULL, 0) : clprune__json_element(json))
            (void)clprune__json_skip(json);
        return json->error == NULL;
    }
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= length && memcmp(json->at, words[i], length) == 0) {
            json->at += length;
            return true;
        }
    }
    return fail(json, "expected a value");
}

bool clprune__json_end(clprune__json *json)
{
    if (!token(json))
        return false;
    return (json->at == json->end && json->depth == 0 && json->at > json->begin) ||
           fail(json, "more text after the value");
}

void clprune__json_position(const clprune__json *json, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (const char *p = json->begin; p < json->mark; p++) {
        *column = *p == '\n' ? 1 : *column + 1;
        *line += *p == '\n';
    }
}
