/* bench_ops.c: all operations. */
#include "bench.h"

#include <string.h>

const bench_op *const bench_tables[BENCH_TABLES] = {bench_products, bench_forms, bench_pruning,
    bench_layers, bench_optimizers, bench_images, bench_convs};

bool bench_has_name(const bench_op *op, const char *name)
{
    return strcmp(name, "all") == 0 || strcmp(name, op->name) == 0;
}

bool bench_has_form(const bench_op *op, const char *form)
{
    return op->form != NULL && strcmp(op->form, form) == 0;
}

const bench_op *bench_op_find(const char *name, const char *form)
{
    for (size_t t = 0; t < BENCH_TABLES; t++)
        for (const bench_op *op = bench_tables[t]; op->name != NULL; op++)
            if (bench_has_name(op, name) && (form == NULL || bench_has_form(op, form)))
                return op;
    return NULL;
}
