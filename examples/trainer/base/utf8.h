/* utf8.h: what text may be printed. */
#ifndef TRAINER_UTF8_H
#define TRAINER_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence at s, or 0 if there is no valid one (RFC 3629). A NUL ends s. */
static inline size_t utf8_length(const unsigned char *s)
{
    size_t length;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF)
        length = 2;
    else if (s[0] >= 0xE0 && s[0] <= 0xEF)
        length = 3;
    else if (s[0] >= 0xF0 && s[0] <= 0xF4)
        length = 4;
    else
        return 0;
    for (size_t i = 1; i < length; ++i)
        if ((s[i] & 0xC0) != 0x80) /* also the NUL at the end */
            return 0;
    const bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    const bool outside = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

/* Whether a text is UTF-8 without control characters. */
static inline bool utf8_printable(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        const size_t length = utf8_length(s);
        const bool control = *s < ' ' || *s == 0x7F || (*s == 0xC2 && s[1] < 0xA0);
        if (length == 0 || control)
            return false;
        s += length;
    }
    return true;
}

#endif
