/* What the losses of rows become in the losses of samples.
 *
 *     weight   weight[0][0] = batch / count of the labels that are not IGNORED; 0 if count is 0; with WEIGHTS,
 *              count is the sum of weights[0][label] over the labels in [0, classes), compensated (Kahan)
 *     sums     y[n][0] = weight[0][0] * (sum over the columns p of x[n][p]), with has_samples times samples[n]
 *
 * weight: one group; its LOCAL work-items read vectors of labels in turn, and the first one adds up their
 * counts. Local memory: LOCAL uints, or floats. sums: row-wise, see rowwise.clh; a team of TEAM work-items shares a row.
 * Local memory: LOCAL floats where TEAM > 1. */
#include "prelude/rowwise.clh"
#ifndef TEAM
#error "token_loss.cl needs TEAM"
#endif

#define IGNORED -100 /* CLPRUNE_IGNORED */

#ifdef WEIGHTS
#define WEIGHTS_IN , const ulong classes, MAT_IN(weights)
#define COUNT_OWN  float
#define COUNT      float
#else
#define WEIGHTS_IN
#define COUNT_OWN  uint
#define COUNT      ulong
#endif

KERNEL_OF(LOCAL) token_loss_weight(const ulong batch, const ulong rows, REGION_IN(int, labels), MAT_OUT(weight) WEIGHTS_IN)
{
    local COUNT_OWN counts[LOCAL];
    COUNT_OWN own = 0;
#ifdef WEIGHTS
    float lost = 0;
    for (ulong r = get_local_id(0); r < rows; r += LOCAL) {
        const int label = labels[labels_offset + r];
        const float more = (label >= 0 && (ulong)label < classes ? AT(weights, 0, label) : 0) - lost;
        const float sum = own + more;
        lost = (sum - own) - more;
        own = sum;
    }
#else
    for (ulong r = get_local_id(0); r < rows; r += LOCAL)
        own += labels[labels_offset + r] != IGNORED;
#endif
    counts[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) > 0)
        return;
    COUNT count = 0;
    for (uint i = 0; i < LOCAL; i++)
        count += counts[i];
    AT(weight, 0, 0) = count == 0 ? 0 : count == batch ? 1 : (float)batch / (float)count;
}

KERNEL_OF(LOCAL) token_loss_sums(ROWWISE_SIZES, const uint has_samples, MAT_IN(weight), MAT_IN(samples), MAT_IN(x), MAT_OUT(y))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(n) {
        vec own = 0;
        FOR_TEAM_VECTORS(n, p)
            own += GET(x, n, p);
        const float sum = team_sum(part, SUM(own));
        if (TEAM_LEADS(n))
            AT(y, n, 0) = AT(weight, 0, 0) * sum * (has_samples ? AT(samples, n, 0) : 1);
    }
}
