#include "trainer/report/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const tally_sums tally_zero = {.finite = true};

bool tally_open(clprune_context *context, size_t batch, size_t labels, size_t slots,
    const rank_group *ranks, tally *t, fault *f)
{
    slots = slots > TALLY_SLOTS ? slots : TALLY_SLOTS;
    const size_t rows = slots * batch;
    *t = (tally){.context = context,
        .ranks = ranks,
        .parts = 1,
        .batch = batch,
        .labels = labels,
        .slots = slots,
        .sums = tally_zero};
    bool good = fault_check(f, context,
        clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "loss", rows, 1, &t->loss),
        "making room for losses");
    good =
        good && fault_check(f, context,
                    clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "hit", rows, 1, &t->hit),
                    "making room for hits");
    t->host = calloc(2 * rows, sizeof *t->host);
    t->count = calloc(slots, sizeof *t->count);
    t->factor = calloc(slots, sizeof *t->factor);
    if (good && (t->host == NULL || t->count == NULL || t->factor == NULL))
        good = fault_set(f, CODE_MEMORY, "out of memory");
    if (!good)
        tally_close(t);
    return good;
}

bool tally_open_norms(tally *t, fault *f)
{
    return fault_check(f, t->context,
        clprune_mat_create(t->context, CLPRUNE_MEMORY_WORKSPACE, "norms", t->slots, 1, &t->norm),
        "making room for norms of gradients");
}

void tally_close(tally *t)
{
    if (t->context == NULL)
        return;
    if (t->norm.buffer != NULL)
        clprune_buffer_release(t->context, t->norm.buffer);
    clprune_buffer_release(t->context, t->loss.buffer);
    clprune_buffer_release(t->context, t->hit.buffer);
    free(t->host);
    free(t->count);
    free(t->factor);
    *t = (tally){0};
}

void tally_reset(tally *t, tally_sums sums, size_t parts)
{
    t->parts = parts;
    t->used = t->read = t->bad = t->norms = 0;
    t->sums = sums;
}

size_t tally_bad_group(const tally *t)
{
    return t->bad > 0 ? (t->bad - 1) / t->parts + 1 : 0;
}

bool tally_next(tally *t, size_t count, clprune_mat *loss, clprune_mat *hit, fault *f)
{
    if (t->used == t->slots && !tally_read(t, f))
        return false;
    const size_t first = t->used * t->batch;
    *loss = clprune_mat_rows(t->loss, first, count);
    *hit = clprune_mat_rows(t->hit, first, count);
    t->count[t->used] = count;
    t->factor[t->used++] = 1;
    return true;
}

void tally_weigh(tally *t, double factor)
{
    t->factor[t->used - 1] = factor;
}

bool tally_next_norm(tally *t, clprune_mat *norm, fault *f)
{
    *norm = CLPRUNE_NO_MAT;
    if (t->norm.buffer == NULL)
        return true;
    if (t->norms == t->slots && !tally_read_norms(t, f))
        return false;
    *norm = clprune_mat_rows(t->norm, t->norms++, 1);
    return true;
}

void tally_add_norm(tally *t, double norm)
{
    if (!isfinite(norm))
        return;
    t->sums.norm += norm;
    ++t->sums.norms;
}

bool tally_read_norms(tally *t, fault *f)
{
    if (t->norms == 0)
        return true;
    if (!fault_check(f, t->context,
            clprune_mat_read(t->context, clprune_mat_rows(t->norm, 0, t->norms), t->host),
            "reading norms of gradients"))
        return false;
    for (size_t i = 0; i < t->norms; ++i)
        tally_add_norm(t, (double)t->host[i]);
    t->norms = 0;
    return true;
}

void tally_drop(tally *t, size_t count)
{
    t->used -= count;
}

/* hit: the fraction of the sample's labels; where some do not count, of the mean number that does.
 */
static void add_batch(tally *t, const float *loss, const float *hit, size_t count)
{
    tally_sums *sums = &t->sums;
    double sum = 0;
    ++t->read;
    for (size_t i = 0; i < count; ++i) {
        if (!isfinite(loss[i])) {
            sums->finite = false;
            t->bad = t->bad > 0 ? t->bad : t->read;
        }
        sums->loss += (double)loss[i];
        sum += (double)loss[i];
        if (hit[i] > 0) /* a NaN is not */
            sums->hits += (uint64_t)((double)hit[i] * (double)t->labels + 0.5);
    }
    sums->samples += count;
    if (sums->hits > sums->samples * t->labels)
        sums->hits = sums->samples * t->labels; /* each was rounded */
    if (count > 0)
        sums->last = sum / (double)count;
}

/* A batch in a message: its count, losses, hits. */
static size_t message_bytes(size_t count)
{
    return sizeof count + 2 * count * sizeof(float);
}

static size_t pack(const tally *t, const float *loss, const float *hit, char *to)
{
    char *at = to;
    for (size_t i = 0; i < t->used; ++i) {
        const size_t count = t->count[i], bytes = count * sizeof(float);
        memcpy(at, &count, sizeof count);
        memcpy(at + sizeof count, loss + i * t->batch, bytes);
        memcpy(at + sizeof count + bytes, hit + i * t->batch, bytes);
        at += message_bytes(count);
    }
    return (size_t)(at - to);
}

/* Adds the batch at *at, which then points behind it. */
static void add_packed(tally *t, const char **at, float *host)
{
    size_t count;
    memcpy(&count, *at, sizeof count);
    memcpy(host, *at + sizeof count, 2 * count * sizeof(float));
    add_batch(t, host, host + count, count);
    *at += message_bytes(count);
}

/* Adds the batches of all ranks, group by group. */
static bool add_all(tally *t, const float *loss, const float *hit, fault *f)
{
    const rank_group *r = t->ranks;
    const size_t many = (size_t)r->at.ranks, most = t->slots * message_bytes(t->batch);
    char *mine = malloc(most), *all = malloc(many * most);
    float *host = malloc(2 * t->batch * sizeof *host);
    const char **at = calloc(many, sizeof *at);
    size_t *bytes = calloc(many, sizeof *bytes);
    bool good = (mine != NULL && all != NULL && host != NULL && at != NULL && bytes != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    good = good &&
           r->call->gather(r->group, mine, pack(t, loss, hit, mine), all, many * most, bytes, f);
    size_t end = 0;
    for (size_t i = 0; good && i < many; end += bytes[i++])
        at[i] = all + end;
    while (good && at[many - 1] < all + end) /* the last rank has a batch of each group */
        for (size_t i = 0; i < many; ++i)
            for (size_t k = ranks_first(r, t->parts, (int)i);
                 k < ranks_first(r, t->parts, (int)i + 1); ++k)
                add_packed(t, &at[i], host);
    free(mine);
    free(all);
    free(host);
    free(at);
    free(bytes);
    return good;
}

static void weigh(const tally *t, float *rows)
{
    for (size_t i = 0; i < t->used; ++i)
        for (size_t k = 0; t->factor[i] != 1 && k < t->count[i]; ++k)
            rows[i * t->batch + k] = (float)((double)rows[i * t->batch + k] * t->factor[i]);
}

bool tally_read(tally *t, fault *f)
{
    if (t->used == 0)
        return true;
    const size_t rows = t->used * t->batch;
    float *loss = t->host, *hit = t->host + t->slots * t->batch;
    if (!fault_check(f, t->context,
            clprune_mat_read(t->context, clprune_mat_rows(t->loss, 0, rows), loss),
            "reading losses") ||
        !fault_check(f, t->context,
            clprune_mat_read(t->context, clprune_mat_rows(t->hit, 0, rows), hit), "reading hits"))
        return false;
    weigh(t, loss);
    weigh(t, hit);
    for (size_t i = 0; i < t->used && !ranks_many(t->ranks); ++i)
        add_batch(t, loss + i * t->batch, hit + i * t->batch, t->count[i]);
    if (ranks_many(t->ranks) && !add_all(t, loss, hit, f))
        return false;
    t->used = 0;
    return tally_read_norms(t, f);
}
