#include "ref/optimizer_ref.h"

#include <assert.h>
#include <math.h>

#include "support/test_owned.h"

#define U 0x1p-24

static double *widened(size_t count, const float *values)
{
    double *wide = test_doubles(count);
    for (size_t i = 0; values != NULL && i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

optimizer_ref optimizer_ref_make(
    size_t count, const float *g, const float *p, const float *m, const float *v)
{
    return (optimizer_ref){count, widened(count, g), widened(count, p), widened(count, m),
        widened(count, v), test_doubles(count), test_doubles(count), test_doubles(count)};
}

static double norm_of(size_t count, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void sgd(
    const clprune_optimizer_desc *desc, uint64_t t, double lr, double wd, const optimizer_ref *x)
{
    for (size_t i = 0; i < x->count; i++) {
        double move = x->g[i] + wd * x->p[i];
        double size = fabs(x->g[i]) + fabs(wd * x->p[i]);
        if (desc->momentum != 0) {
            if (t > 1) {
                move += (double)desc->momentum * x->v[i];
                size += fabs((double)desc->momentum * x->v[i]);
            }
            x->v[i] = move;
            x->v_bound[i] = 3 * U * size;
        }
        if (desc->momentum != 0 && desc->nesterov) {
            move = x->g[i] + wd * x->p[i] + (double)desc->momentum * x->v[i];
            size += fabs(x->g[i]) + fabs(wd * x->p[i]);
        }
        x->p[i] -= lr * move;
        x->p_bound[i] = U * fabs(x->p[i]) + 4 * U * lr * size;
    }
}

/* m^ / (sqrt(v^) + eps); *size receives its magnitude without cancellation in m. Updates m and
 * v. */
static double adam(
    const clprune_optimizer_desc *desc, uint64_t t, const optimizer_ref *x, size_t i, double *size)
{
    const double b1 = (double)desc->beta1, b2 = (double)desc->beta2, g = x->g[i];
    const double m_size = fabs(b1 * x->m[i]) + fabs((1 - b1) * g);
    x->m[i] = b1 * x->m[i] + (1 - b1) * g;
    x->v[i] = b2 * x->v[i] + (1 - b2) * g * g;
    x->m_bound[i] = 4 * U * m_size;
    x->v_bound[i] = 4 * U * x->v[i] + 0x1p-148; /* squares may underflow */
    const double scale = 1 / (1 - pow(b1, (double)t)) /
                         (sqrt(x->v[i] / (1 - pow(b2, (double)t))) + (double)desc->eps);
    *size = m_size * scale;
    return x->m[i] * scale;
}

static void adamw(
    const clprune_optimizer_desc *desc, uint64_t t, double lr, double wd, const optimizer_ref *x)
{
    for (size_t i = 0; i < x->count; i++) {
        double size;
        const double before = x->p[i], direction = adam(desc, t, x, i, &size);
        x->p[i] = before - lr * wd * before - lr * direction;
        x->p_bound[i] = 4 * U * fabs(before) + 20 * U * lr * size;
    }
}

static void lamb(
    const clprune_optimizer_desc *desc, uint64_t t, double lr, double wd, const optimizer_ref *x)
{
    double *r = test_alloc(x->count * sizeof *r);
    for (size_t i = 0; i < x->count; i++) {
        double size;
        r[i] = adam(desc, t, x, i, &size) + wd * x->p[i];
        x->p_bound[i] = 20 * U * (size + wd * fabs(x->p[i])); /* of r, until the ratio is known */
    }
    const double p_norm = norm_of(x->count, x->p);
    const double r_norm = norm_of(x->count, r);
    const double ratio = p_norm == 0 || r_norm == 0 ? 1 : p_norm / r_norm;
    for (size_t i = 0; i < x->count; i++) {
        /* Either norm is good to a few units, as is the ratio. */
        x->p_bound[i] = U * fabs(x->p[i]) + lr * ratio * (x->p_bound[i] + 20 * U * fabs(r[i]));
        x->p[i] -= lr * ratio * r[i];
    }
}

static void lion(
    const clprune_optimizer_desc *desc, uint64_t t, double lr, double wd, const optimizer_ref *x)
{
    const double b1 = (double)desc->beta1, b2 = (double)desc->beta2;
    (void)t;
    for (size_t i = 0; i < x->count; i++) {
        const double before = x->p[i], g = x->g[i], m = x->m[i], c = b1 * m + (1 - b1) * g;
        const double sign = c > 0 ? 1 : c < 0 ? -1 : c; /* NaN stays */
        /* So near 0 that fp32, or codes, may have the other sign, or none. */
        const bool unsure = c != 0 && fabs(c) <= 200 * U * (fabs(b1 * m) + fabs((1 - b1) * g));
        x->p[i] = before - lr * wd * before - lr * sign;
        x->p_bound[i] = 4 * U * (fabs(before) + lr) + (unsure ? 2 * lr : 0);
        x->m[i] = b2 * m + (1 - b2) * g;
        x->m_bound[i] = 4 * U * (fabs(b2 * m) + fabs((1 - b2) * g));
    }
}

void optimizer_ref_step(const clprune_optimizer_desc *desc, uint64_t t, double lr, int decay,
    const optimizer_ref *tensor)
{
    const double wd = decay ? (double)desc->weight_decay : 0;
    static void (*const steps[])(const clprune_optimizer_desc *desc, uint64_t t, double lr,
        double wd, const optimizer_ref *x) = {[CLPRUNE_OPTIMIZER_SGD] = sgd,
        [CLPRUNE_OPTIMIZER_ADAMW] = adamw,
        [CLPRUNE_OPTIMIZER_LAMB] = lamb,
        [CLPRUNE_OPTIMIZER_LION] = lion};
    assert((size_t)desc->kind < sizeof steps / sizeof *steps);
    steps[desc->kind](desc, t, lr, wd, tensor);
}
