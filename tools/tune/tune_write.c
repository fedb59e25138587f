/* tune_write.c: a row as a file and as C. */
#include "tune.h"

#include <string.h>

/* Whether a parameter is written: one of `op`, or if that is NULL, of a section that was searched
 * or differs from the built-in row. */
static bool is_written(const tune *t, const tune_row *row, const tune_op *op, size_t parameter)
{
    if (!row->is_set[parameter])
        return false;
    if (op != NULL)
        return tune_searches(t, op, parameter);
    for (size_t i = 0; i < OPS; i++)
        if (t->ops[i].timed > 0 && tune_searches(t, &t->ops[i], parameter))
            return true;
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->parameters[i].section, t->parameters[parameter].section) == 0 &&
            (row->values[i] != t->built_in.values[i] || row->is_set[i] != t->built_in.is_set[i]))
            return true;
    return false;
}

void tune_write_file(
    FILE *stream, const tune *t, const tune_row *row, const tune_op *op, const char *others)
{
    fprintf(stream, "clprune_tuning = 1\ndevice = %s\ndriver = %s\n", t->device, t->driver);
    for (size_t i = 0; i < t->count; i++)
        if (is_written(t, row, op, i))
            fprintf(stream, "%s.%s = %u\n", t->parameters[i].section, t->parameters[i].key,
                row->values[i]);
    for (size_t i = 0; op == NULL && i < OPS; i++)
        if (t->ops[i].timed == 0)
            continue;
        else if (t->ops[i].cut)
            fprintf(stream, "# %s: the search was stopped by a signal\n", t->ops[i].name);
        else
            fprintf(stream, "# %s: %.3f times as fast as the built-in row\n", t->ops[i].name,
                t->ops[i].speedup);
    fprintf(stream, "%send\n", others != NULL ? others : "");
}

void tune_write_c(FILE *stream, const tune *t, const tune_row *row)
{
    const char *section = NULL;
    fprintf(stream, "/* %s, driver %s */\nstatic const clprune__tuning row = {\n", t->device,
        t->driver);
    for (size_t i = 0; i < t->count; i++) {
        const clprune_tuning_parameter *p = &t->parameters[i];
        if (strchr(p->section, '.') != NULL)
            continue;
        const bool first = section == NULL || strcmp(section, p->section) != 0;
        if (first)
            fprintf(stream, "%s    .%s = {", section != NULL ? "},\n" : "", p->section);
        fprintf(stream, "%s.%s = %u", first ? "" : ", ", p->key, row->values[i]);
        section = p->section;
    }
    /* CLBlast's parameters in the order of the table, 0 if not set; then which of its kernels are
     * set. */
    fprintf(stream, "},\n    .blast = {");
    section = "";
    for (size_t i = 0; i < t->count; i++)
        if (strchr(t->parameters[i].section, '.') != NULL) {
            fprintf(stream, "%s%u", section, row->is_set[i] ? row->values[i] : 0);
            section = ", ";
        }
    fprintf(stream, "},\n    .blast_set = {");
    section = NULL;
    for (size_t i = 0; i < t->count; i++)
        if (strchr(t->parameters[i].section, '.') != NULL &&
            (section == NULL || strcmp(section, t->parameters[i].section) != 0)) {
            fprintf(stream, "%s%s", section != NULL ? ", " : "", row->is_set[i] ? "true" : "false");
            section = t->parameters[i].section;
        }
    fprintf(stream, "},\n};\n");
}
