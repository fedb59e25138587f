/* Losses that are means over elements, of d = y - target:
 *
 *     LOSS  f                                                f'
 *     0     d^2                                              2 d
 *     1     |d| < beta ? d^2 / (2 beta) : |d| - beta / 2     |d| < beta ? d / beta : sign of d
 *     2     max(y, 0) - y target + log(1 + exp(-|y|))        1 / (1 + exp(-y)) - target
 *
 * With WEIGHTS f and f' are times weights[0][c], c the column. With POSITIVES, of LOSS 2, p = positives[0][c]:
 *
 *           (1 - target) y + (1 + (p - 1) target) (max(-y, 0) + log(1 + exp(-|y|)))
 *                                                            (1 - target) / (1 + exp(-y)) - p target / (1 + exp(y))
 *
 *     forward    sum[s][0]  = scale * sum of f over part s, with has_samples times samples of its sample
 *     mean       loss[n][0] = scale * sum_i sum[n][i], likewise
 *     backward   dy[r][c]   = factor * f'; where LOSS is 0, factor has the 2; with sample_rows above 0 times
 *                             samples[r / sample_rows]
 *
 * A sample, of sample_rows rows, is divided into parts of part_rows rows and SEGMENT columns, or what is
 * left of them at its edges:
 *
 *                SEGMENT columns
 *                 part 0 | part 1 | ...          across = ceil(cols / SEGMENT)
 *     part_rows   part across | ...              down = ceil(sample_rows / part_rows)
 *
 * Part s is part s mod (across * down) of sample s / (across * down). Row-wise, see rowwise.clh: forward
 * takes parts for rows, mean the parts of a sample for columns. In forward the members of a team take the
 * vectors of a part in turn, row after row. Sums of many terms are added up in blocks, whose number and
 * length stay small beside the number of terms, and so does the error.
 *
 * dy may be y. Local memory: LOCAL floats where TEAM > 1. SEGMENT: a multiple of VW. Without TEAM there
 * is only the backward pass. */
#include "prelude/rowwise.clh"
#ifndef LOSS
#error "element_loss.cl needs LOSS"
#endif
#define BLOCK 64 /* vectors */

#ifdef WEIGHTS
#define WEIGHTS_IN    , MAT_IN_RESTRICT(weights)
#define WEIGHED(f, c) ((f) * GET(weights, 0, c))
#else
#define WEIGHTS_IN
#define WEIGHED(f, c) (f)
#endif
#ifdef POSITIVES
#define POSITIVES_IN  , MAT_IN_RESTRICT(positives)
#else
#define POSITIVES_IN
#endif

#ifdef TEAM
#ifndef SEGMENT
#error "element_loss.cl needs SEGMENT"
#endif

KERNEL_OF(LOCAL) element_loss_forward(ROWWISE_SIZES, const ulong sample_rows,
    const ulong part_rows, const float scale, const float beta, const uint has_samples, MAT_IN_RESTRICT(y), MAT_IN_RESTRICT(target),
    MAT_IN_RESTRICT(samples), MAT_OUT_RESTRICT(sum) WEIGHTS_IN POSITIVES_IN)
{
    local float part[LOCAL];
    const ulong across = (cols + SEGMENT - 1) / SEGMENT;
    const ulong down = (sample_rows + part_rows - 1) / part_rows;
    FOR_TEAM_ROWS(s) {
        const ulong left = s % across * SEGMENT, top = s / across % down * part_rows;
        const ulong first = s / across / down * sample_rows + top;
        const uint height = s < last_row ? (uint)min(part_rows, sample_rows - top) : 0;
        const uint vectors = ((uint)min((ulong)SEGMENT, cols - left) + VW - 1) / VW;
        const uint row_step = TEAM / vectors, step = TEAM % vectors;
        uint row = TEAM_MEMBER / vectors, v = TEAM_MEMBER % vectors;
        vec own = 0;
        while (row < height) {
            const ulong r = first + row, c = left + v * VW;
            const vec x = GET(y, r, c), t = GET(target, r, c);
#if LOSS == 0
            const vec d = x - t;
            own = fma(WEIGHED(d, c), d, own);
#elif LOSS == 1
            const vec size = fabs(x - t);
            own += WEIGHED(size < (vec)(beta) ? size * (size / beta) * 0.5f : size - 0.5f * beta, c);
#else
            /* beyond the columns y and target are 0, whose loss is not */
            const vec tail = log1p(exp(-fabs(x)));
#ifdef POSITIVES
            const vec p = GET(positives, 0, c);
            const vec f = (1.0f - t) * x + (1.0f + (p - 1.0f) * t) * (fmax(-x, (vec)(0.0f)) + tail);
#else
            const vec f = fmax(x, (vec)(0.0f)) - x * t + tail;
#endif
            own += WEIGHED(keep_part(f, cols - c), c);
#endif
            row += row_step;
            v += step;
            if (v >= vectors) {
                v -= vectors;
                row++;
            }
        }
        const float total = team_sum(part, SUM(own));
        if (TEAM_LEADS(s))
            AT(sum, s, 0) = scale * total * (has_samples ? AT(samples, s / across / down, 0) : 1);
    }
}

KERNEL_OF(LOCAL) element_loss_mean(ROWWISE_SIZES, const float scale, const uint has_samples,
    MAT_IN_RESTRICT(sum), MAT_IN_RESTRICT(samples), MAT_OUT_RESTRICT(loss))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(n) {
        vec own = 0, block = 0;
        uint count = 0;
        FOR_TEAM_VECTORS(n, c) {
            block += GET(sum, n, c);
            if (++count % BLOCK == 0) {
                own += block;
                block = 0;
            }
        }
        const float total = team_sum(part, SUM(own + block));
        if (TEAM_LEADS(n))
            AT(loss, n, 0) = scale * total * (has_samples ? AT(samples, n, 0) : 1);
    }
}
#else

/* Forward: loss = mean of f(y, target), so d loss / dy = f' / elements. */
KERNEL_OF(LOCAL) element_loss_backward(ROWWISE_SIZES, const float factor, const float beta,
    const ulong sample_rows, MAT_IN(y), MAT_IN(target), MAT_IN(samples), MAT_OUT(dy) WEIGHTS_IN POSITIVES_IN)
{
    FOR_ROWS(r) {
        const float row_factor = sample_rows > 0 ? factor * AT(samples, r / sample_rows, 0) : factor;
        FOR_VECTORS(c) {
            const vec x = GET(y, r, c), t = GET(target, r, c);
#if LOSS == 0
            const vec slope = x - t;
#elif LOSS == 1
            const vec d = x - t, size = fabs(d);
            vec slope = size < (vec)(beta) ? d / beta : d / size;
            slope = size > (vec)(FLT_MAX) ? copysign((vec)(1.0f), d) : slope;
            slope = size == (vec)(0.0f) ? (vec)(0.0f) : slope;
#else
#ifdef POSITIVES
            const vec slope = (1.0f - t) / (1.0f + exp(-x)) - GET(positives, 0, c) * t / (1.0f + exp(x));
#else
            const vec slope = 1.0f / (1.0f + exp(-x)) - t;
#endif
#endif
            PUT(row_factor * WEIGHED(slope, c), dy, r, c);
        }
    }
}
#endif
