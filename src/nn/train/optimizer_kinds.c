/* The table of optimizers. */
#include <string.h>

#include "nn/train/optimizer_private.h"

#define ROW(name)   &clprune__optimizer_##name,
#define CODED(name) #name "8",

static const clprune__optimizer_row *const rows[] = {CLPRUNE__OPTIMIZERS(ROW)};
static const char *const coded_names[] = {CLPRUNE__OPTIMIZERS(CODED)};

enum { ROWS = sizeof rows / sizeof *rows };

const clprune__optimizer_row *clprune__optimizer_row_of(clprune_optimizer_kind kind)
{
    return (int)kind >= 0 && (size_t)kind < ROWS ? rows[kind] : NULL;
}

const char *clprune__optimizer_name(const clprune__optimizer_row *row, unsigned state_bits)
{
    return state_bits == 8 ? coded_names[row->usual.desc.kind] : row->usual.name;
}

clprune_optimizer_info clprune_optimizer_describe(size_t i)
{
    clprune_optimizer_info info = {0};
    if (i < ROWS)
        info = rows[i]->usual;
    size_t left = i - ROWS;
    for (size_t k = 0; i >= ROWS && k < ROWS; k++)
        if (rows[k]->takes_codes && left-- == 0) {
            info = rows[k]->usual;
            info.desc.state_bits = 8;
            info.name = clprune__optimizer_name(rows[k], 8);
        }
    return info;
}
