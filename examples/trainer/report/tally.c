#include "trainer/report/tally.h"

#include <math.h>
#include <stdlib.h>

const tally_sums tally_zero = {.finite = true};

bool tally_open(
    clprune_context *context, size_t batch, size_t labels, size_t slots, tally *t, fault *f)
{
    slots = slots > TALLY_SLOTS ? slots : TALLY_SLOTS;
    const size_t rows = slots * batch;
    *t = (tally){
        .context = context, .batch = batch, .labels = labels, .slots = slots, .sums = tally_zero};
    bool good = fault_check(f, context,
        clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "loss", rows, 1, &t->loss),
        "making room for losses");
    good =
        good && fault_check(f, context,
                    clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "hit", rows, 1, &t->hit),
                    "making room for hits");
    t->host = calloc(2 * rows, sizeof *t->host);
    t->count = calloc(slots, sizeof *t->count);
    if (good && (t->host == NULL || t->count == NULL))
        good = fault_set(f, CODE_MEMORY, "out of memory");
    if (!good)
        tally_close(t);
    return good;
}

void tally_close(tally *t)
{
    if (t->context == NULL)
        return;
    clprune_buffer_release(t->context, t->loss.buffer);
    clprune_buffer_release(t->context, t->hit.buffer);
    free(t->host);
    free(t->count);
    *t = (tally){0};
}

void tally_reset(tally *t, tally_sums sums)
{
    t->used = 0;
    t->sums = sums;
}

bool tally_next(tally *t, size_t count, clprune_mat *loss, clprune_mat *hit, fault *f)
{
    if (t->used == t->slots && !tally_read(t, f))
        return false;
    const size_t first = t->used * t->batch;
    *loss = clprune_mat_rows(t->loss, first, count);
    *hit = clprune_mat_rows(t->hit, first, count);
    t->count[t->used++] = count;
    return true;
}

void tally_drop(tally *t, size_t count)
{
    t->used -= count;
}

/* hit: the fraction of the sample's labels. */
static void add_batch(
    tally_sums *sums, const float *loss, const float *hit, size_t count, size_t labels)
{
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sums->finite = sums->finite && isfinite(loss[i]);
        sums->loss += (double)loss[i];
        sum += (double)loss[i];
        if (hit[i] > 0) /* a NaN is not */
            sums->hits += (uint64_t)((double)hit[i] * (double)labels + 0.5);
    }
    sums->samples += count;
    sums->last = sum / (double)count;
}

bool tally_read(tally *t, fault *f)
{
    const size_t rows = t->used * t->batch;
    float *loss = t->host, *hit = t->host + t->slots * t->batch;
    if (!fault_check(f, t->context,
            clprune_mat_read(t->context, clprune_mat_rows(t->loss, 0, rows), loss),
            "reading losses") ||
        !fault_check(f, t->context,
            clprune_mat_read(t->context, clprune_mat_rows(t->hit, 0, rows), hit), "reading hits"))
        return false;
    for (size_t i = 0; i < t->used; ++i)
        add_batch(&t->sums, loss + i * t->batch, hit + i * t->batch, t->count[i], t->labels);
    t->used = 0;
    return true;
}
