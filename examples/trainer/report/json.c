#include "trainer/report/json.h"

#include <inttypes.h>
#include <math.h>

#include "trainer/base/utf8.h"

static void put_string(FILE *stream, const char *text)
{
    (void)fputc('"', stream);
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        const size_t length = utf8_length(s);
        if (length == 0)
            (void)fputc('?', stream);
        else if (*s == '"' || *s == '\\')
            (void)fprintf(stream, "\\%c", *s);
        else if (*s < 0x20)
            (void)fprintf(stream, "\\u%04x", *s);
        else
            (void)fwrite(s, 1, length, stream);
        s += length == 0 ? 1 : length;
    }
    (void)fputc('"', stream);
}

static void begin_member(json *j, const char *key)
{
    if (j->depth > 0)
        (void)fprintf(j->stream, "%s\n%*s", j->started ? "," : "", 2 * j->depth, "");
    if (key != NULL) {
        put_string(j->stream, key);
        (void)fputs(": ", j->stream);
    }
    j->started = true;
}

void json_open(json *j, const char *key)
{
    begin_member(j, key);
    (void)fputc('{', j->stream);
    ++j->depth;
    j->started = false;
}

void json_close(json *j)
{
    --j->depth;
    if (j->started)
        (void)fprintf(j->stream, "\n%*s", 2 * j->depth, "");
    (void)fputs(j->depth == 0 ? "}\n" : "}", j->stream);
    j->started = true;
}

void json_text(json *j, const char *key, const char *value)
{
    begin_member(j, key);
    put_string(j->stream, value);
}

void json_count(json *j, const char *key, uint64_t value)
{
    begin_member(j, key);
    (void)fprintf(j->stream, "%" PRIu64, value);
}

void json_real(json *j, const char *key, double value)
{
    begin_member(j, key);
    if (isfinite(value))
        (void)fprintf(j->stream, "%.9g", value);
    else
        (void)fputs("null", j->stream);
}
