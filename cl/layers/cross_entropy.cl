/* Softmax cross-entropy with label smoothing, for each row n and K = classes.
 *
 *     forward    log_p[n][k] = (logits[n][k] - max_n) - log sum_k exp(logits[n][k] - max_n)
 *                loss[n]     = -(on * log_p[n][label] + off * sum_k log_p[n][k])
 *                hit[n]      = 1 where each lower class has a smaller and each higher class no
 *                              larger logit than the label, else 0; so 0 with any NaN
 *     backward   dlogits[n][k] = s * (exp(log_p[n][k]) - off - (k = label ? on : 0))
 *     with       on = 1 - smoothing, off = smoothing / K, s = scale, or scale * weight[0][0] with has_weight; with sample_rows
 *                above 0 also times samples[(first + n) / sample_rows]
 *     step       both, without log_p, with has_weight; dlogits is a result of narrow.clh
 *
 * With WEIGHTS the target of class k, here on * [k = label] + off, is times weights[0][k], and exp(log_p[n][k]) is times the
 * sum of the row's targets.
 *
 * With SOFT targets[n][k] takes the place of [k = label], there is no hit, and exp(log_p[n][k]) is times the sum, too.
 *
 * With has_other a row has two labels, `label` with share = shares[n] of 1 and `other` with the rest: on * log_p[n][label]
 * becomes on * (share * log_p[n][label] + (1 - share) * log_p[n][other]), and [k = label] likewise. A share of 1 or 0 takes one
 * label alone. hit is that of `label`.
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row and joins its results in a tree.
 * A label, or other label, outside [0, K) has loss NaN, or 0 if it is IGNORED, hit 0 and dlogits 0. log_p may be logits,
 * dlogits may be log_p, or with step logits: a work-item overwrites an element only after the whole team has read it.
 * Local memory: LOCAL floats where TEAM > 1. */
#include "prelude/narrow.clh"
#ifndef TEAM
#error "cross_entropy.cl needs TEAM"
#endif

#define IGNORED -100 /* CLPRUNE_IGNORED */

#ifdef SOFT
#define LABELS_IN    MAT_IN(targets)
#define TARGET(n, c) fma((vec)(on), GET(targets, n, c), (vec)(off))
#else
#define LABELS_IN    REGION_IN(int, labels), REGION_IN(int, others), MAT_IN(shares)
#define TARGET(n, c) target_of(on, off, share, label_lane(label, c), label_lane(other, c))
#endif
#ifdef WEIGHTS
#define WEIGHTS_IN       , MAT_IN(weights)
#define WEIGHED(q, c)    ((q) * GET(weights, 0, c))
#define WEIGHT_OF(label) AT(weights, 0, label)
#else
#define WEIGHTS_IN
#define WEIGHED(q, c)    (q)
#define WEIGHT_OF(label) 1.0f
#endif

/* The lane of the label in the vector of classes from c on; -1 if the label is below, VW if above. */
static inline int label_lane(const int label, const ulong c)
{
    return (int)clamp((long)label - (long)c, -1L, (long)VW);
}

/* 1 for each class from c on that ranks above the label, else 0: a lower class with a higher or equal
 * logit, or a higher class with a higher logit. */
static inline vec count_above(const vec logits, const float label_logit, const int lane)
{
    const ivec k = LANES_OF_VEC;
    const vec zero = 0, one = 1;
    const vec below = logits < (vec)(label_logit) ? zero : one;
    const vec above = logits <= (vec)(label_logit) ? zero : one;
    return k < (ivec)(lane) ? below : k > (ivec)(lane) ? above : zero;
}

#ifndef SOFT
/* The target of the classes of a vector, of which those on the lanes are the labels. */
static inline vec target_of(
    const float on, const float off, const float share, const int label, const int other)
{
    const ivec k = LANES_OF_VEC;
    const vec zero = 0;
    vec q = k == (ivec)(label) ? (vec)(on + off) : (vec)(off);
    if (share < 1) {
        q = (vec)(off) + (k == (ivec)(label) ? (vec)(on * share) : zero);
        q += k == (ivec)(other) ? (vec)(on * (1 - share)) : zero;
    }
    return q;
}
#endif

#define SCALES_IN const ulong sample_rows, const ulong first, MAT_IN(weight), MAT_IN(samples)
#define ROW_SCALE(n)                                                                               \
    (sample_rows > 0 && n < last_row ? all_scale * AT(samples, (first + n) / sample_rows, 0) : all_scale)

/* Forward: loss = -sum_k q[k] * log_p[k] and log_p = logits - log sum exp(logits), so
 * d loss / d logits[k] = exp(log_p[k]) * sum q - q[k], with sum q = 1 of labels without WEIGHTS. */
#define GRADIENT(log_p, n, c)                                                                      \
    (legal ? row_scale * (targets * exp_sum(log_p, (vec)(0.0f)) - WEIGHED(TARGET(n, c), c)) : (vec)(0.0f))
#if defined(WEIGHTS) || defined(SOFT)
#define SUM_TARGETS(sum, n)                                                                        \
    vec own_targets = 0;                                                                           \
    FOR_TEAM_VECTORS(n, c)                                                                         \
        own_targets += keep_part(WEIGHED(TARGET(n, c), c), cols - c);                              \
    const float sum = team_sum(part, SUM(own_targets));
#else
#define SUM_TARGETS(sum, n) const float sum = 1;
#endif

#ifdef STEP
#define CROSS_ENTROPY_FORWARD cross_entropy_step
#define LOG_P_OUT             MAT_RESULT(dlogits), const float scale, SCALES_IN
#else
#define CROSS_ENTROPY_FORWARD cross_entropy_forward
#define LOG_P_OUT             MAT_OUT(log_p)
#endif
KERNEL_OF(LOCAL) CROSS_ENTROPY_FORWARD(ROWWISE_SIZES, const float on, const float off,
    const uint has_hit, const uint has_other, MAT_IN(logits), LABELS_IN, LOG_P_OUT,
    MAT_OUT(loss), MAT_OUT(hit) WEIGHTS_IN)
{
    local float part[LOCAL];
#ifdef STEP
    const float all_scale = scale * AT(weight, 0, 0);
#endif
    FOR_TEAM_ROWS(n) {
#ifdef SOFT
        const int label = -1;
        const bool legal = true;
        const float label_logit = NAN;
#else
        const int label = n < last_row ? labels[labels_offset + n] : -1;
        const int other = has_other && n < last_row ? others[others_offset + n] : label;
        const bool legal = label >= 0 && (ulong)label < cols && other >= 0 && (ulong)other < cols;
        const float label_logit = legal ? AT(logits, n, label) : NAN;
        const float share = has_other && legal ? AT(shares, n, 0) : 1;
        float target_logit = label_logit;
        if (share < 1)
            target_logit = share > 0
                ? fma(share, label_logit, (1 - share) * AT(logits, n, other))
                : AT(logits, n, other);
#endif

        vec most = -INFINITY, above = 0;
        FOR_TEAM_VECTORS(n, c) {
            const vec x = load_part(ROW(logits, n) + c, cols - c, -INFINITY);
            most = x > most ? x : most;
            above += count_above(x, label_logit, label_lane(label, c));
        }
        float own_max = -INFINITY;
        float lanes[VW];
        TO_ARRAY(most, lanes);
        for (uint i = 0; i < VW; i++)
            own_max = lanes[i] > own_max ? lanes[i] : own_max;
        const float max_n = team_max(part, own_max);
        const float beaten = team_sum(part, SUM(above));

        vec mass = 0;
        FOR_TEAM_VECTORS(n, c)
            mass += exp_sum(
                load_part(ROW(logits, n) + c, cols - c, -INFINITY) - max_n, (vec)(0.0f));
        const float log_mass = log(team_sum(part, SUM(mass)));
#if TEAM > 1
        barrier(CLK_GLOBAL_MEM_FENCE); /* log_p may be logits: the whole team must have read them */
#endif

#ifdef STEP
        const float row_scale = ROW_SCALE(n);
        SUM_TARGETS(targets, n)
#endif
        vec own_sum = 0;
        FOR_TEAM_VECTORS(n, c) {
            const vec value = GET(logits, n, c) - max_n - log_mass;
#ifdef STEP
            PUT_RESULT(GRADIENT(value, n, c), dlogits, n, c);
#else
            PUT(value, log_p, n, c);
#endif
#ifdef SOFT
            const vec q = WEIGHED(TARGET(n, c), c), none = 0;
            own_sum += keep_part(q == none ? none : q * value, cols - c);
#else
            own_sum += WEIGHED(off * keep_part(value, cols - c), c);
#endif
        }
        const float sum = team_sum(part, SUM(own_sum));
        if (TEAM_LEADS(n)) {
#ifdef SOFT
            AT(loss, n, 0) = -sum;
#else
            const float smooth = off > 0 ? sum : 0; /* 0 * -Inf would be NaN */
            const float on_label = on * (legal ? WEIGHT_OF(label) : 1.0f);
            const float own_loss = -fma(on_label, target_logit - max_n - log_mass, smooth);
            AT(loss, n, 0) = label == IGNORED ? 0 : own_loss;
            if (has_hit)
                AT(hit, n, 0) = legal && beaten == 0 ? 1 : 0;
#endif
        }
    }
}

#ifndef STEP
KERNEL_OF(LOCAL) cross_entropy_backward(ROWWISE_SIZES, const float on, const float off,
    const float scale, const uint has_weight, const uint has_other, SCALES_IN, MAT_IN(log_p), LABELS_IN,
    MAT_OUT(dlogits) WEIGHTS_IN)
{
#if defined(WEIGHTS) || defined(SOFT)
    local float part[LOCAL];
#endif
    const float all_scale = has_weight ? scale * AT(weight, 0, 0) : scale;
    FOR_TEAM_ROWS(n) {
#ifdef SOFT
        const bool legal = true;
#else
        const int label = n < last_row ? labels[labels_offset + n] : -1;
        const int other = has_other && n < last_row ? others[others_offset + n] : label;
        const bool legal = label >= 0 && (ulong)label < cols && other >= 0 && (ulong)other < cols;
        const float share = has_other && legal ? AT(shares, n, 0) : 1;
#endif
        const float row_scale = ROW_SCALE(n);
        SUM_TARGETS(targets, n)
        FOR_TEAM_VECTORS(n, c)
            PUT(GRADIENT(GET(log_p, n, c), n, c), dlogits, n, c);
    }
}
#endif
