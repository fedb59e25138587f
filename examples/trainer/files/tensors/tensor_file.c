#include "trainer/files/tensors/tensor_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(fault *f)
{
    return fault_set(f, CODE_MEMORY, "out of memory");
}

static bool list_safetensors(tensor_file *file, fault *f)
{
    const safetensors *s = &file->safetensors;
    file->path = s->path;
    file->tensors = calloc(s->count + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return no_memory(f);
    for (; file->count < s->count; ++file->count) {
        const safetensor *from = &s->tensors[file->count];
        file_tensor *t = &file->tensors[file->count];
        t->name = strdup(from->name);
        if (t->name == NULL)
            return no_memory(f);
        memcpy(t->type, from->dtype, sizeof t->type);
        t->readable = from->type < SAFETENSOR_I64;
        t->whole = t->type[0] != 'F' && strncmp(t->type, "BF", 2) != 0;
        t->rank = from->rank;
        t->count = from->count;
        memcpy(t->shape, from->shape, sizeof t->shape);
    }
    return true;
}

/* ---- GGUF --------------------------------------------------------------------------------------
 */

/* Whether a name begins as `pattern`, where a star stands for a number; *number and *digits are
 * that number, *rest is behind the pattern. */
static bool begins(
    const char *name, const char *pattern, const char **number, size_t *digits, const char **rest)
{
    const char *star = strchr(pattern, '*');
    const size_t before = star != NULL ? (size_t)(star - pattern) : strlen(pattern);
    if (strncmp(name, pattern, before) != 0)
        return false;
    *number = *rest = name + before;
    *digits = 0;
    if (star == NULL)
        return true;
    *digits = strspn(*number, "0123456789");
    *rest += *digits;
    if (*digits == 0 || strncmp(*rest, star + 1, strlen(star + 1)) != 0)
        return false;
    *rest += strlen(star + 1);
    return true;
}

/* The name of the model for a tensor's, to be freed: its own where no row of the table has it. */
static char *name_of(const char *const (*names)[2], const char *name)
{
    const char *number, *rest;
    size_t digits;
    while ((*names)[0] != NULL && !begins(name, (*names)[0], &number, &digits, &rest))
        ++names;
    if ((*names)[0] == NULL)
        return strdup(name);
    const char *to = (*names)[1], *star = strchr(to, '*');
    const size_t before = star != NULL ? (size_t)(star - to) : strlen(to);
    const size_t size = strlen(to) + digits + strlen(rest) + 1;
    char *made = malloc(size);
    if (made != NULL)
        (void)snprintf(made, size, "%.*s%.*s%s%s", (int)before, to, star != NULL ? (int)digits : 0,
            number, star != NULL ? star + 1 : "", rest);
    return made;
}

/* Sets *heads of a tensor whose rows rotate in pairs side by side; else 0. */
static bool take_heads(
    const gguf_file *g, const trainer_gguf *table, const char *name, uint64_t *heads, fault *f)
{
    const char *number, *rest;
    size_t digits;
    *heads = 0;
    for (const char *const(*p)[2] = table->pairs; p != NULL && (*p)[0] != NULL; ++p) {
        if (!begins(name, (*p)[0], &number, &digits, &rest))
            continue;
        const double all = gguf_number(g, table->pairs[0][1], NAN);
        const double count = gguf_number(g, (*p)[1], all);
        if (!(count >= 1 && count <= 0x1p24 && count == floor(count)))
            return fault_set(
                f, CODE_DATA, "%s: its %s is no whole number from 1 to 16777216", g->path, (*p)[1]);
        *heads = (uint64_t)count;
        break;
    }
    return true;
}

static bool find_table(
    const gguf_file *g, const trainer_gguf *ggufs, const trainer_gguf **table, fault *f)
{
    char known[256] = "";
    const char *architecture = gguf_text(g, "general.architecture", "(none)");
    for (*table = ggufs; (*table)->architecture != NULL; ++*table) {
        const size_t used = strlen(known);
        if (architecture != NULL && strcmp(architecture, (*table)->architecture) == 0)
            return true;
        (void)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "",
            (*table)->architecture);
    }
    return fault_set(f, CODE_DATA, "%s: its general.architecture is %.60s, expected one of %s",
        g->path, architecture != NULL ? architecture : "no text", known);
}

static bool list_gguf(tensor_file *file, const trainer_gguf *ggufs, fault *f)
{
    const gguf_file *g = &file->gguf;
    const trainer_gguf *table;
    file->path = g->path;
    if (!find_table(g, ggufs, &table, f))
        return false;
    file->tensors = calloc(g->count + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return no_memory(f);
    for (; file->count < g->count; ++file->count) {
        const gguf_tensor *from = &g->tensors[file->count];
        file_tensor *t = &file->tensors[file->count];
        if (!take_heads(g, table, from->name, &t->heads, f))
            return false;
        t->name = name_of(table->names, from->name);
        if (t->name == NULL)
            return no_memory(f);
        if (from->block != NULL)
            (void)snprintf(t->type, sizeof t->type, "%s", from->block->name);
        else
            (void)snprintf(t->type, sizeof t->type, "%" PRIu32, from->type);
        t->readable = from->block != NULL && !from->block->whole;
        t->whole = from->block != NULL && from->block->whole;
        t->rank = from->rank;
        t->count = from->count;
        memcpy(t->shape, from->shape, sizeof from->shape);
    }
    return true;
}

bool tensor_file_open(const char *path, const trainer_gguf *ggufs, tensor_file *file, fault *f)
{
    *file = (tensor_file){.is_gguf = ggufs != NULL && gguf_begins(path)};
    const bool good =
        file->is_gguf ? gguf_open(path, &file->gguf, f) && list_gguf(file, ggufs, f)
                      : safetensors_open(path, &file->safetensors, f) && list_safetensors(file, f);
    if (!good)
        tensor_file_close(file);
    return good;
}

void tensor_file_close(tensor_file *file)
{
    for (size_t i = 0; i < file->count; ++i)
        free(file->tensors[i].name);
    free(file->tensors);
    safetensors_close(&file->safetensors);
    gguf_close(&file->gguf);
    *file = (tensor_file){0};
}

bool tensor_file_read(const tensor_file *file, const file_tensor *tensor, float *values, fault *f)
{
    const size_t i = (size_t)(tensor - file->tensors);
    return file->is_gguf
               ? gguf_read(&file->gguf, &file->gguf.tensors[i], tensor->heads, values, f)
               : safetensors_read(&file->safetensors, &file->safetensors.tensors[i], values, f);
}

bool tensor_file_read_i64(
    const tensor_file *file, const file_tensor *tensor, int64_t *values, fault *f)
{
    const size_t i = (size_t)(tensor - file->tensors);
    if (file->is_gguf)
        return fault_set(f, CODE_DATA, "%s: tensor \"%.100s\" is %s, not I64 of safetensors",
            file->path, tensor->name, tensor->type);
    return safetensors_read_i64(&file->safetensors, &file->safetensors.tensors[i], values, f);
}
