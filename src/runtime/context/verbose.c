#include "runtime/context/verbose.h"

#include <string.h>

#include "clprune/version.h"
#include "core/system.h"
#include "runtime/context/context_private.h"

enum { TEXT = CLPRUNE__VERBOSE_TEXT };

/* A field of CSV, quoted, on one line. */
static void put_quoted(FILE *file, const char *text)
{
    (void)putc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)putc('"', file);
        (void)putc(*text == '\n' ? ' ' : *text, file);
    }
    (void)putc('"', file);
}

static const char *source_name(clprune__program_source source)
{
    static const char *const names[] = {"", "memory", "disk", "build"};
    return names[source];
}

/* For %llu.%03llu: %f has a comma in the locales of some programs. */
static unsigned long long microseconds(uint64_t ns)
{
    return (ns + 500) / 1000;
}

void clprune__verbose_enter(clprune__verbose *verbose, const char *function)
{
    if (verbose->depth++ > 0)
        return;
    const size_t prefix = sizeof "clprune_" - 1;
    verbose->function = strncmp(function, "clprune_", prefix) == 0 ? function + prefix : function;
    verbose->operands_count = verbose->commands = 0;
    verbose->shapes[0] = verbose->kernels[0] = '\0';
    verbose->source = CLPRUNE__SOURCE_NONE;
    verbose->ns = 0;
}

void clprune__verbose_leave(clprune__verbose *verbose)
{
    if (--verbose->depth > 0 || verbose->commands == 0)
        return;
    const unsigned long long us = microseconds(verbose->ns);
    (void)fprintf(verbose->file, "clprune,call,%s,%s,%s,%zu,%s,%llu.%03llu\n", verbose->function,
        verbose->shapes, verbose->kernels, verbose->commands, source_name(verbose->source),
        us / 1000, us % 1000);
}

void clprune__verbose_operand(clprune__verbose *verbose, const char *name, clprune_mat mat)
{
    /* Operands that come after the first command are the function's own. */
    if (verbose->commands > 0 || verbose->operands_count == CLPRUNE__VERBOSE_OPERANDS)
        return;
    for (size_t i = 0; i < verbose->operands_count; i++) {
        const clprune_mat *other = &verbose->operands[i];
        if (other->buffer == mat.buffer && other->offset == mat.offset && other->rows == mat.rows &&
            other->cols == mat.cols)
            return;
    }
    verbose->operands[verbose->operands_count++] = mat;
    const size_t used = strlen(verbose->shapes);
    (void)snprintf(verbose->shapes + used, TEXT - used, "%s%s:%zux%zu", used > 0 ? " " : "", name,
        mat.rows, mat.cols);
}

/* Adds a kernel to the call's list, once. */
static void list_kernel(clprune__verbose *verbose, const char *name)
{
    const size_t length = strlen(name), used = strlen(verbose->kernels);
    for (const char *at = verbose->kernels; (at = strstr(at, name)) != NULL; at++)
        if ((at == verbose->kernels || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return;
    (void)snprintf(verbose->kernels + used, TEXT - used, "%s%s", used > 0 ? " " : "", name);
}

void clprune__verbose_command_note(
    clprune__verbose *verbose, const clprune__verbose_command *command)
{
    verbose->ns += command->ns;
    verbose->commands++;
    if (command->source > verbose->source)
        verbose->source = command->source;
    list_kernel(verbose, command->name);
    if (!verbose->each_command)
        return;
    clprune__system_lock(verbose->file);
    (void)fprintf(verbose->file, "clprune,command,%s,%s,", verbose->function, command->name);
    put_quoted(verbose->file, command->defines);
    const unsigned long long us = microseconds(command->ns);
    (void)fprintf(verbose->file, ",%s,%s,%llu.%03llu\n", command->size,
        source_name(command->source), us / 1000, us % 1000);
    clprune__system_unlock(verbose->file);
}

void clprune__verbose_error(clprune__verbose *verbose, clprune_status status, const char *text)
{
    if (verbose->file == NULL) /* it could not be opened */
        return;
    clprune__system_lock(verbose->file);
    (void)fprintf(
        verbose->file, "clprune,error,%s,%s,", verbose->function, clprune_status_name(status));
    put_quoted(verbose->file, text);
    (void)putc('\n', verbose->file);
    clprune__system_unlock(verbose->file);
}

void clprune__verbose_info(clprune__verbose *verbose, const clprune_context *context)
{
    const clprune_device_info *facts = &context->facts;
    clprune__system_lock(verbose->file);
    (void)fprintf(verbose->file, "clprune,info,%s,", clprune_version_string());
    put_quoted(verbose->file, facts->platform);
    (void)putc(',', verbose->file);
    put_quoted(verbose->file, facts->device);
    (void)putc(',', verbose->file);
    put_quoted(verbose->file, facts->driver);
    (void)fprintf(
        verbose->file, ",%s\n", context->kernels == CLPRUNE_KERNELS_VECTOR ? "vector" : "tiled");
    clprune__system_unlock(verbose->file);
}
