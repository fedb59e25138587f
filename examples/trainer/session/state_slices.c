#include "trainer/session/state_slices.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/try.h"
#include "trainer/reduce/reduce_tree.h"

static size_t elements_of(clprune_mat mat)
{
    return mat.rows * mat.cols;
}

/* Elements [first, first + count) of a matrix without gaps, as a row. */
static clprune_mat row_of(clprune_mat mat, size_t first, size_t count)
{
    mat.offset += first;
    mat.rows = 1;
    mat.cols = mat.ld = count;
    return mat;
}

/* Adds what a parameter has of elements [first, end) of its gradient's buffer. */
static void add_piece(state_slices *s, size_t param, cl_mem buffer, size_t first, size_t end)
{
    const clprune_param *whole = &s->params[param];
    const size_t begins = whole->grad.offset, ends = begins + elements_of(whole->grad);
    first = first > begins ? first : begins;
    end = end < ends ? end : ends;
    if (whole->grad.buffer != buffer || first >= end)
        return;
    clprune_param *piece = &s->own[s->count];
    *piece = *whole;
    piece->value = row_of(whole->value, first - begins, end - first);
    piece->grad = row_of(whole->grad, first - begins, end - first);
    s->pieces[s->count++] = (state_piece){param, first - begins};
}

clprune_status state_slices_open(clprune_context *context, gradient_windows *windows,
    const clprune_param *params, size_t count, state_slices *s)
{
    const reduce_place *at = &windows->ranks->at;
    const size_t most = count + windows->ranges_count; /* a slice cuts one parameter at each end */
    *s = (state_slices){.context = context,
        .windows = windows,
        .params = params,
        .params_count = count,
        .own = calloc(2 * most + 1, sizeof *s->own),
        .pieces = calloc(2 * most + 1, sizeof *s->pieces)};
    if (s->own == NULL || s->pieces == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    TRY(clprune_mat_create(context, CLPRUNE_MEMORY_OPTIMIZER, "gradient norm", 1, 1, &s->norm));
    for (size_t r = 0; r < windows->ranges_count; ++r) {
        const clprune_mat range = windows->ranges[r];
        const reduce_slice slice = reduce_slice_of(range.cols, at->ranks, at->rank);
        const size_t first = range.offset + slice.first;
        for (size_t i = 0; i < count; ++i)
            add_piece(s, i, range.buffer, first, first + slice.count);
    }
    return CLPRUNE_SUCCESS;
}

void state_slices_close(state_slices *s)
{
    if (s->context != NULL)
        clprune_buffer_release(s->context, s->norm.buffer);
    free(s->own);
    free(s->pieces);
    *s = (state_slices){0};
}

/* The l2 norm of all ranks' gradients from that of each. */
static bool add_norms(const rank_group *r, float norm, double *all, fault *f)
{
    const size_t ranks = (size_t)r->at.ranks;
    float *norms = calloc(ranks, sizeof *norms);
    bool good = norms != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good =
        good && r->call->gather(r->group, &norm, sizeof norm, norms, ranks * sizeof norm, NULL, f);
    double sum = 0;
    for (size_t i = 0; good && i < ranks; ++i)
        sum += (double)norms[i] * (double)norms[i];
    *all = sqrt(sum);
    free(norms);
    return good;
}

/* min(1, max_norm / |g|) of all gradients, as the clip of own ones to max_norm times their share.
 */
bool state_slices_clip(
    const state_slices *s, clprune_optimizer *optimizer, float max_norm, double *all, fault *f)
{
    const rank_group *r = s->windows->ranks;
    float norm = 0;
    *all = 0;
    bool good =
        s->count == 0 ||
        (fault_check(f, s->context, clprune_optimizer_clip(optimizer, FLT_MAX, s->norm, NULL),
             "measuring gradients") &&
            fault_check(f, s->context, clprune_mat_read(s->context, s->norm, &norm),
                "measuring gradients"));
    /* A plan is not connected: another rank may make other plans. */
    good = good && (s->windows->queue == NULL || add_norms(r, norm, all, f));
    if (!good || !(norm > 0) || !(*all > (double)max_norm) || !isfinite(*all))
        return good;
    const float own = (float)((double)norm * ((double)max_norm / *all));
    return fault_check(f, s->context, clprune_optimizer_clip(optimizer, own, CLPRUNE_NO_MAT, NULL),
        "clipping gradients");
}

bool state_slices_share(const state_slices *s, fault *f)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; status == CLPRUNE_SUCCESS && i < s->count; ++i)
        status = clprune_mat_copy(s->context, s->own[i].value, s->own[i].grad, NULL);
    if (!fault_check(f, s->context, status, "sending parameters") ||
        (s->windows->queue != NULL && !gradient_windows_gather(s->windows, f)))
        return false;
    for (size_t i = 0; status == CLPRUNE_SUCCESS && i < s->params_count; ++i)
        status = clprune_mat_copy(s->context, s->params[i].grad, s->params[i].value, NULL);
    return fault_check(f, s->context, status, "receiving parameters");
}

bool state_slices_read(const state_slices *s, const clprune_optimizer *optimizer, size_t param,
    size_t slot, float *host, fault *f)
{
    const rank_group *r = s->windows->ranks;
    const size_t count = elements_of(s->params[param].value);
    bool good = true;
    memset(host, 0, count * sizeof *host);
    for (size_t i = 0; good && i < s->count; ++i)
        if (s->pieces[i].param == param)
            good = fault_check(f, s->context,
                clprune_mat_read(s->context, clprune_optimizer_state(optimizer, i, slot),
                    host + s->pieces[i].first),
                "reading moments back");
    return good && (!ranks_many(r) || (r->call->begin(r->group, REDUCE_SUM, NULL, host, count, f) &&
                                          r->call->finish(r->group, f)));
}

bool state_slices_write(const state_slices *s, const clprune_optimizer *optimizer, size_t param,
    size_t slot, const float *host, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < s->count; ++i)
        if (s->pieces[i].param == param)
            good = fault_check(f, s->context,
                clprune_mat_write(s->context, clprune_optimizer_state(optimizer, i, slot),
                    host + s->pieces[i].first),
                "writing moments");
    return good;
}
