#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *tool_name; /* of the program, for messages */

void tool_begin(const char *name)
{
    tool_name = name;
#ifdef SIGPIPE
    (void)signal(SIGPIPE, SIG_DFL);
#endif
#ifdef SIGCHLD
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
#endif
}

_Noreturn void tool_quit(int code, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", tool_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(code);
}

_Noreturn void tool_fail(const clprune_context *context, clprune_status status)
{
    tool_quit(status == CLPRUNE_NO_DEVICE ? EXIT_DEVICE : EXIT_RUN, "%s\n  %s",
        clprune_status_string(status), clprune_last_error(context));
}

double tool_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void random_activations(float *values, size_t count)
{
    static uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const float u = (float)(state >> 40) * 0x1p-23f - 1.0f;
        values[i] = u > 0.0f ? u : 0.05f * u;
    }
}

int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_written(bool good, const char *what)
{
    if (!good)
        tool_quit(EXIT_RUN, "%s was not written: %s", what, strerror(errno));
}

void tool_empty(FILE *stream, const char *what)
{
    /* a pipe has no length */
    check_written(ftruncate(fileno(stream), 0) == 0 || errno == EINVAL, what);
}

void tool_close(FILE *stream, const char *what)
{
    const bool broken = ferror(stream) != 0; /* a line that was flushed, perhaps long ago */
    check_written(fclose(stream) == 0 && !broken, what);
}

clprune_precision parse_precision(const char *text)
{
    for (clprune_precision p = CLPRUNE_PRECISION_FP32; clprune_precision_name(p) != NULL; p++)
        if (strcmp(text, clprune_precision_name(p)) == 0)
            return p;
    tool_quit(EXIT_USAGE, "--precision: \"%s\" is not fp32, tf32 or bf16", text);
}
