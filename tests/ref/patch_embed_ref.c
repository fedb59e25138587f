#include "ref/patch_embed_ref.h"

#include <stdbool.h>
#include <string.h>

#include "support/test_compare.h"

/* Runs its body for each term of the convolution: y[row][o] has the term images[pixel] *
 * w[weight]. */
#define FOR_EACH_TERM(desc, batch)                                                                 \
    for (size_t n = 0; n < (batch); n++)                                                           \
        for (size_t py = 0; py < (desc)->height / (desc)->patch; py++)                             \
            for (size_t px = 0; px < (desc)->width / (desc)->patch; px++)                          \
                for (size_t o = 0; o < (desc)->out; o++)                                           \
                    for (size_t ch = 0; ch < (desc)->channels; ch++)                               \
                        for (size_t i = 0; i < (desc)->patch; i++)                                 \
                            for (size_t j = 0; j < (desc)->patch; j++)

#define ROW ((n * (desc->height / desc->patch) + py) * (desc->width / desc->patch) + px)
#define PIXEL                                                                                      \
    (((n * desc->channels + ch) * desc->height + py * desc->patch + i) * desc->width +             \
        px * desc->patch + j)
#define WEIGHT (((o * desc->channels + ch) * desc->patch + i) * desc->patch + j)

static size_t tokens_of(const clprune_patch_embed_desc *desc)
{
    return (desc->height / desc->patch) * (desc->width / desc->patch);
}

/* Turns the sums of absolute terms in `bound` into bounds. */
static void finish(size_t count, size_t terms, const double *result, double *bound)
{
    for (size_t i = 0; bound != NULL && i < count; i++)
        bound[i] = test_bound(terms, bound[i], result[i]);
}

static void add(double *result, double *bound, size_t at, double term)
{
    result[at] += term;
    if (bound != NULL)
        bound[at] += fabs(term);
}

static void clear(double *result, double *bound, size_t count)
{
    memset(result, 0, count * sizeof *result);
    if (bound != NULL)
        memset(bound, 0, count * sizeof *bound);
}

void patch_embed_ref_forward(const clprune_patch_embed_desc *desc, size_t batch,
    const double *images, const double *w, const double *b, double *y, double *bound)
{
    const size_t count = batch * tokens_of(desc) * desc->out;
    clear(y, bound, count);
    for (size_t i = 0; i < count; i++)
        add(y, bound, i, b[i % desc->out]);
    FOR_EACH_TERM(desc, batch)
    {
        add(y, bound, ROW * desc->out + o, images[PIXEL] * w[WEIGHT]);
    }
    finish(count, desc->channels * desc->patch * desc->patch + 1, y, bound);
}

void patch_embed_ref_dimages(const clprune_patch_embed_desc *desc, size_t batch, const double *dy,
    const double *w, double *dimages, double *bound)
{
    const size_t count = batch * desc->channels * desc->height * desc->width;
    clear(dimages, bound, count);
    FOR_EACH_TERM(desc, batch)
    {
        add(dimages, bound, PIXEL, dy[ROW * desc->out + o] * w[WEIGHT]);
    }
    finish(count, desc->out, dimages, bound);
}

void patch_embed_ref_dw(const clprune_patch_embed_desc *desc, size_t batch, const double *images,
    const double *dy, double *dw, double *bound)
{
    const size_t count = desc->out * desc->channels * desc->patch * desc->patch;
    clear(dw, bound, count);
    FOR_EACH_TERM(desc, batch)
    {
        add(dw, bound, WEIGHT, dy[ROW * desc->out + o] * images[PIXEL]);
    }
    finish(count, batch * tokens_of(desc), dw, bound);
}

void patch_embed_ref_db(
    const clprune_patch_embed_desc *desc, size_t batch, const double *dy, double *db, double *bound)
{
    const size_t rows = batch * tokens_of(desc);
    clear(db, bound, desc->out);
    for (size_t i = 0; i < rows * desc->out; i++)
        add(db, bound, i % desc->out, dy[i]);
    finish(desc->out, rows, db, bound);
}
