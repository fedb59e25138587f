#include "support/gguf_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct output {
    unsigned char *bytes;
    size_t used, room;
} output;

static void put(output *o, unsigned char byte)
{
    if (o->used < o->room)
        o->bytes[o->used++] = byte;
}

static void put_number(output *o, unsigned long long number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; ++i)
        put(o, (unsigned char)(number >> (8 * i)));
}

static void put_zeros(output *o, size_t count)
{
    while (count-- > 0)
        put(o, 0);
}

static void put_bytes(output *o, const char *text)
{
    for (; *text != '\0'; ++text)
        put(o, (unsigned char)*text);
}

static void put_word(output *o, const char *word)
{
    const char *colon = strchr(word, ':');
    const char *rest = colon != NULL ? colon + 1 : word;
    const unsigned long long number = strtoull(rest, NULL, word[0] == 'x' ? 16 : 0);
    if (colon == NULL)
        put_bytes(o, word);
    else if (strncmp(word, "s8:", 3) == 0) {
        put_number(o, number, 8);
        put_bytes(o, strchr(rest, ':') + 1);
    } else if (word[0] == 's') {
        put_number(o, strlen(rest), 8);
        put_bytes(o, rest);
    } else if (word[0] == 'x')
        put(o, (unsigned char)number);
    else if (word[0] == 'z')
        put_zeros(o, (size_t)number);
    else if (word[0] == 'p')
        put_zeros(o, (size_t)((number - o->used % number) % number));
    else
        put_number(o, number, (unsigned)(word[0] - '0'));
}

size_t gguf_text_make(const char *text, unsigned char *bytes, size_t room)
{
    output o = {bytes, 0, room};
    char word[128];
    while (*(text += strspn(text, " ")) != '\0') {
        const size_t length = strcspn(text, " ");
        const size_t kept = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, kept);
        word[kept] = '\0';
        put_word(&o, word);
        text += length;
    }
    return o.used;
}
