#include "ref/attention_ref.h"

#include <math.h>
#include <stdlib.h>

#include "ref/quantise_ref.h"
#include "support/test_compare.h"

/* What dropout multiplies the probability of query i and key j by; head: sample * heads + head. */
static double factor(const attention_ref_shape *s, uint64_t head, size_t i, size_t j)
{
    const uint32_t high = (uint32_t)(head >> 32) + UINT32_C(0x9e3779b9);
    const uint32_t key = quantise_ref_mix((uint32_t)head ^ quantise_ref_mix(high));
    const uint32_t stream = quantise_ref_mix(quantise_ref_stream(s->seed, (uint32_t)head) ^ key);
    const uint32_t inner = quantise_ref_mix(quantise_ref_mix((uint32_t)i + stream) ^ (uint32_t)j);
    const uint32_t bits = quantise_ref_mix(inner + stream);
    return s->rate > 0 && bits < (uint32_t)(s->rate * 0x1p32) ? 0 : 1 / (1 - s->rate);
}

static size_t key_rows(const attention_ref_shape *s)
{
    return s->keys > 0 ? s->keys : s->rows;
}

/* The keys that query i of sample n of the call sees: the first so many. */
static size_t keys_of(const attention_ref_shape *s, size_t n, size_t i)
{
    const int32_t length = s->lengths != NULL ? s->lengths[s->first + n] : INT32_MAX;
    const size_t all = length < 0 ? 0 : (size_t)length < key_rows(s) ? (size_t)length : key_rows(s);
    return s->causal && s->past + i + 1 < all ? s->past + i + 1 : all;
}

/* The first key that query i sees; head: sample * heads + head. */
static size_t first_key(const attention_ref_shape *s, uint64_t head, size_t i)
{
    return s->starts != NULL ? (size_t)s->starts[head / s->heads * s->rows + i] : 0;
}

/* Where the bias of query i and key j is; head: sample * heads + head. */
static size_t bias_at(const attention_ref_shape *s, uint64_t head, size_t i, size_t j)
{
    const uint64_t sample = head / s->heads % s->biases;
    return (((size_t)sample * s->heads + head % s->heads) * key_rows(s) + j) * s->rows + i;
}

/* One row of softmax over `end` keys: p[j], and how far rounding may move each, relative to it;
 * slopes: what the cap multiplies gradients of scores by, or NULL. */
static double probabilities(const attention_ref_shape *s, uint64_t head, size_t i, size_t end,
    const double *q, const double *k, size_t k_ld, double *p, double *slopes)
{
    const double scale = 1 / sqrt((double)s->cols);
    double most = -INFINITY, mass = 0, off = 0;
    for (size_t j = 0; j < end; j++) {
        double sum = 0, size = 0;
        for (size_t e = 0; e < s->cols; e++) {
            sum += q[e] * k[j * k_ld + e];
            size += fabs(q[e] * k[j * k_ld + e]);
        }
        const double bias = s->biases > 0 ? s->bias[bias_at(s, head, i, j)] : 0;
        const double capped = s->cap > 0 ? tanh(scale * sum / s->cap) : 0;
        if (slopes != NULL)
            slopes[j] = 1 - capped * capped;
        p[j] = (s->cap > 0 ? s->cap * capped : scale * sum) + bias;
        if (j < first_key(s, head, i)) {
            p[j] = -INFINITY;
            continue;
        }
        most = fmax(most, p[j]);
        off = fmax(off, test_bound(s->cols + 4, scale * size + fabs(bias) + s->cap, 0));
    }
    for (size_t j = 0; j < end; j++)
        mass += p[j] = exp(p[j] - most);
    for (size_t j = 0; j < key_rows(s); j++)
        p[j] = j < end ? p[j] / mass : 0;
    /* the mass is a sum, rescaled from tile to tile */
    return 4 * off + test_bound(2 * key_rows(s) + 16, 1, 1);
}

void attention_ref_forward(const attention_ref_shape *s, const double *q, const double *k,
    const double *v, double *y, double *bound)
{
    const size_t ld = s->heads * s->cols, kv_ld = s->kv_heads * s->cols;
    double *p = calloc(key_rows(s), sizeof *p);
    const size_t queries = s->queries > 0 ? s->queries : s->rows;
    for (size_t out = 0; out < s->batch * queries; out++)
        for (size_t h = 0; h < s->heads; h++) {
            const size_t first = out / queries * s->rows, row = first + out % queries;
            const size_t other =
                out / queries * key_rows(s) * kv_ld + h / (s->heads / s->kv_heads) * s->cols;
            const size_t end = keys_of(s, out / queries, row - first);
            const uint64_t head = (s->first + row / s->rows) * s->heads + h;
            const double off = probabilities(
                s, head, row - first, end, q + row * ld + h * s->cols, k + other, kv_ld, p, NULL);
            for (size_t e = 0; e < s->cols; e++) {
                double sum = 0, size = 0;
                for (size_t j = 0; j < end; j++) {
                    const double kept = factor(s, head, row - first, j) * p[j];
                    sum += kept * v[other + j * kv_ld + e];
                    size += fabs(kept * v[other + j * kv_ld + e]);
                }
                y[out * ld + h * s->cols + e] = sum;
                if (bound != NULL)
                    bound[out * ld + h * s->cols + e] =
                        off * size + test_bound(2 * key_rows(s) + 4, size, sum);
            }
        }
    free(p);
}

/* One query of one head. */
typedef struct query {
    const double *q, *k, *v, *dy; /* of the head; k, v: the first of the sample's rows */
    double *dq, *dk, *dv, *dq_bound, *dk_bound, *dv_bound, *dbias, *dbias_bound;
    uint64_t head; /* sample * heads + head */
    size_t end;    /* keys that it sees */
} query;

static void backward_query(
    const attention_ref_shape *s, size_t i, size_t kv_ld, const query *at, double *p, double *dp)
{
    const double scale = 1 / sqrt((double)s->cols);
    double *slopes = dp + 2 * key_rows(s);
    const double off = probabilities(s, at->head, i, at->end, at->q, at->k, kv_ld, p, slopes) +
                       test_bound(4 * (key_rows(s) + s->cols) + 16, 1, 1);
    double mean = 0, size = 0, *sizes = dp + key_rows(s);
    for (size_t j = 0; j < at->end; j++) {
        const double z = factor(s, at->head, i, j);
        dp[j] = sizes[j] = 0;
        for (size_t e = 0; e < s->cols; e++) {
            dp[j] += z * at->dy[e] * at->v[j * kv_ld + e];
            sizes[j] += fabs(z * at->dy[e] * at->v[j * kv_ld + e]);
        }
        mean += p[j] * dp[j];
        size += p[j] * sizes[j];
    }
    for (size_t j = 0; j < at->end; j++) {
        const double z = factor(s, at->head, i, j), dscore = p[j] * (dp[j] - mean);
        const double ds = scale * slopes[j] * dscore;
        const double error = 2 * off * scale * p[j] * (sizes[j] + size);
        if (s->biases > 0) {
            at->dbias[bias_at(s, at->head, i, j)] += dscore;
            if (at->dbias_bound != NULL)
                at->dbias_bound[bias_at(s, at->head, i, j)] += error / scale;
        }
        for (size_t e = 0; e < s->cols; e++) {
            const size_t to = j * kv_ld + e;
            at->dq[e] += ds * at->k[to];
            at->dk[to] += ds * at->q[e];
            at->dv[to] += z * p[j] * at->dy[e];
            if (at->dq_bound == NULL)
                continue;
            at->dq_bound[e] += error * fabs(at->k[to]);
            at->dk_bound[to] += error * fabs(at->q[e]);
            at->dv_bound[to] += off * z * p[j] * fabs(at->dy[e]);
        }
    }
}

void attention_ref_backward(const attention_ref_shape *s, const double *q, const double *k,
    const double *v, const double *dy, double *const grads[4], double *const bounds[4])
{
    const size_t ld = s->heads * s->cols, kv_ld = s->kv_heads * s->cols;
    double *p = calloc(4 * key_rows(s), sizeof *p);
    for (size_t i = 0; i < 3; i++)
        for (size_t e = 0; e < s->batch * (i == 0 ? s->rows * ld : key_rows(s) * kv_ld); e++) {
            grads[i][e] = 0;
            if (bounds != NULL)
                bounds[i][e] = 0;
        }
    const size_t queries = s->queries > 0 ? s->queries : s->rows;
    for (size_t out = 0; out < s->batch * queries; out++)
        for (size_t h = 0; h < s->heads; h++) {
            const size_t first = out / queries * s->rows, row = first + out % queries;
            const size_t at = row * ld + h * s->cols;
            const size_t other =
                out / queries * key_rows(s) * kv_ld + h / (s->heads / s->kv_heads) * s->cols;
            const query one = {q + at, k + other, v + other, dy + out * ld + h * s->cols,
                grads[0] + at, grads[1] + other, grads[2] + other,
                bounds != NULL ? bounds[0] + at : NULL, bounds != NULL ? bounds[1] + other : NULL,
                bounds != NULL ? bounds[2] + other : NULL, s->biases > 0 ? grads[3] : NULL,
                s->biases > 0 && bounds != NULL ? bounds[3] : NULL,
                (s->first + row / s->rows) * s->heads + h, keys_of(s, out / queries, row - first)};
            backward_query(s, row - first, kv_ld, &one, p, p + key_rows(s));
        }
    free(p);
}
