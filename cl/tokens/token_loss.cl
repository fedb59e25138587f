/* What the losses of rows become in the losses of samples.
 *
 *     weight   weight[0][0] = batch / count of the labels that are not IGNORED; 0 if count is 0
 *     sums     y[n][0] = weight[0][0] * (sum over the columns p of x[n][p])
 *
 * weight: one group; its LOCAL work-items read vectors of labels in turn, and the first one adds up their
 * counts. Local memory: LOCAL uints. sums: row-wise, see rowwise.clh; a team of TEAM work-items shares a row.
 * Local memory: LOCAL floats where TEAM > 1. */
#include "prelude/rowwise.clh"
#ifndef TEAM
#error "token_loss.cl needs TEAM"
#endif

#define IGNORED -100 /* CLPRUNE_IGNORED */

KERNEL_OF(LOCAL) token_loss_weight(const ulong batch, const ulong rows, REGION_IN(int, labels), MAT_OUT(weight))
{
    local uint counts[LOCAL];
    uint own = 0;
    for (ulong r = get_local_id(0); r < rows; r += LOCAL)
        own += labels[labels_offset + r] != IGNORED;
    counts[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) > 0)
        return;
    ulong count = 0;
    for (uint i = 0; i < LOCAL; i++)
        count += counts[i];
    AT(weight, 0, 0) = count == 0 ? 0 : count == batch ? 1 : (float)batch / (float)count;
}

KERNEL_OF(LOCAL) token_loss_sums(ROWWISE_SIZES, MAT_IN(weight), MAT_IN(x), MAT_OUT(y))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(n) {
        vec own = 0;
        FOR_TEAM_VECTORS(n, p)
            own += GET(x, n, p);
        const float sum = team_sum(part, SUM(own));
        if (TEAM_LEADS(n))
            AT(y, n, 0) = AT(weight, 0, 0) * sum;
    }
}
