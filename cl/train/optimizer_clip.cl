/* Clipping of all gradients g by their l2 norm; optimizer.clh has the table and the square sums.
 *
 *     square_sum     partial[i][0..1] = square sum of g over group i
 *     clip_factor    norm = |g| from sums[0..1];  factor = max_norm / norm where max_norm < norm
 *                    and norm is finite, else 1
 *     scale          g = g * factor
 *
 * clip_factor is one work-item of one group. Local memory: LOCAL floats in square_sum. */
#include "train/optimizer.clh"

KERNEL_OF(LOCAL) square_sum(TABLE, IN g, MAT_OUT_RESTRICT(partial))
{
    local float part[LOCAL];
    SHARE;
    vec plain = 0, scaled = 0;
    EACH_VECTOR add_squares(load_part(GRAD_AT(g), left, 0), &plain, &scaled);
    const float2 sums = (float2)(team_sum(part, SUM(plain)), team_sum(part, SUM(scaled)));
    if (get_local_id(0) == 0)
        vstore2(sums, 0, ROW(partial, t.partial + chunk));
}

KERNEL_OF(LOCAL) clip_factor(const float max_norm, MAT_IN_RESTRICT(sums), MAT_OUT_RESTRICT(norm),
    MAT_OUT_RESTRICT(factor))
{
    const float found = norm_of(AT(sums, 0, 0), AT(sums, 0, 1));
    if (get_local_id(0) == 0) {
        AT(norm, 0, 0) = found;
        AT(factor, 0, 0) = found > max_norm && found <= FLT_MAX ? max_norm / found : 1;
    }
}

KERNEL_OF(LOCAL) scale(TABLE, MAT_IN_RESTRICT(factor), OUT g)
{
    const float by = AT(factor, 0, 0);
    SHARE;
    if (by != 1)
        EACH_VECTOR store_part(load_part(GRAD_AT(g), left, 0) * by, GRAD_AT(g), left);
}
