#include "trainer/session/shared_statistics.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/base/try.h"

/* Gathers `count` floats of each rank behind those of this one in s->host; room for both is there.
 */
static clprune_status gather(shared_statistics *s, size_t count)
{
    const rank_group *r = s->ranks;
    const size_t ranks = (size_t)r->at.ranks, each = count * sizeof *s->host;
    return r->call->gather(r->group, s->host, each, s->host + count, ranks * each, NULL, &s->fault)
               ? CLPRUNE_SUCCESS
               : CLPRUNE_INVALID_ARGUMENT;
}

static clprune_status make_room(shared_statistics *s, size_t count)
{
    const size_t wanted = count * ((size_t)s->ranks->at.ranks + 1);
    if (wanted <= s->room)
        return CLPRUNE_SUCCESS;
    float *more = realloc(s->host, wanted * sizeof *more);
    if (more == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    s->host = more;
    s->room = wanted;
    return CLPRUNE_SUCCESS;
}

/* The moments of two sets of rows (Chan, Golub, LeVeque: Updating formulae, 1979):
 *     d = mean_b - mean_a
 *     mean = mean_a + d * n_b / n
 *     m2 = m2_a + m2_b + d^2 * n_a * n_b / n */
static void merge(double *rows, double *mean, double *m2, double rows_b, double mean_b, double m2_b)
{
    const double n = *rows + rows_b, d = mean_b - *mean;
    if (rows_b == 0)
        return;
    *mean += d * rows_b / n;
    *m2 += m2_b + d * d * *rows * rows_b / n;
    *rows = n;
}

/* A message has the rows, as two floats of 24 bits, then means and squares. */
static clprune_status share_moments(void *user, clprune_mat mean, clprune_mat m2, size_t *rows)
{
    shared_statistics *s = user;
    const size_t cols = mean.cols, count = 2 + 2 * cols, own = s->empty ? 0 : *rows;
    TRY(make_room(s, count));
    s->host[0] = (float)(own >> 24);
    s->host[1] = (float)(own & 0xffffff);
    TRY(clprune_mat_read(s->context, mean, s->host + 2));
    TRY(clprune_mat_read(s->context, m2, s->host + 2 + cols));
    TRY(gather(s, count));
    double all = 0;
    for (size_t c = 0; c < cols; ++c) {
        double m = 0, squares = 0;
        all = 0;
        for (size_t i = 0; i < (size_t)s->ranks->at.ranks; ++i) {
            const float *from = s->host + (i + 1) * count;
            merge(&all, &m, &squares, (double)from[0] * 0x1p24 + (double)from[1],
                (double)from[2 + c], (double)from[2 + cols + c]);
        }
        s->host[c] = (float)m;
        s->host[cols + c] = (float)squares;
    }
    *rows = (size_t)all;
    TRY(clprune_mat_write(s->context, mean, s->host));
    return clprune_mat_write(s->context, m2, s->host + cols);
}

static clprune_status share_sums(void *user, clprune_mat sums)
{
    shared_statistics *s = user;
    const size_t count = sums.rows * sums.cols;
    TRY(make_room(s, count));
    TRY(clprune_mat_read(s->context, sums, s->host));
    if (s->empty)
        memset(s->host, 0, count * sizeof *s->host);
    TRY(gather(s, count));
    for (size_t k = 0; k < count; ++k) {
        double sum = 0;
        for (size_t i = 0; i < (size_t)s->ranks->at.ranks; ++i)
            sum += (double)s->host[(i + 1) * count + k];
        s->host[k] = (float)sum;
    }
    return clprune_mat_write(s->context, sums, s->host);
}

void shared_statistics_open(
    clprune_context *context, const rank_group *ranks, net_model *model, shared_statistics *s)
{
    *s = (shared_statistics){.on = true, .context = context, .ranks = ranks};
    clprune_net_on_statistics(model->net, &(clprune_net_statistics){share_moments, share_sums, s});
}

void shared_statistics_close(shared_statistics *s)
{
    free(s->host);
    *s = (shared_statistics){0};
}
