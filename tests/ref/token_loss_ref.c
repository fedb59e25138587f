#include "ref/token_loss_ref.h"

#include "clprune/cross_entropy.h"
#include "ref/cross_entropy_ref.h"
#include "support/test_compare.h"

#define U 0x1p-24

double token_loss_ref_weight(size_t batch, size_t rows, const int32_t *labels)
{
    size_t count = 0;
    for (size_t r = 0; r < rows; r++)
        count += labels[r] != CLPRUNE_IGNORED;
    return count > 0 ? (double)batch / (double)count : 0;
}

void token_loss_ref_sums(size_t batch, size_t rows, double weight, const double *row,
    const double *row_bound, double *sum, double *bound)
{
    const size_t each = batch > 0 ? rows / batch : 0;
    for (size_t n = 0; n < batch; n++) {
        double total = 0, size = 0, error = 0;
        for (size_t r = n * each; r < (n + 1) * each; r++) {
            total += row[r];
            size += fabs(row[r]);
            error += row_bound != NULL ? row_bound[r] : 0;
        }
        sum[n] = weight * total;
        /* two roundings besides the sum's: of weight and of the product */
        bound[n] = weight * (error + test_bound(each, size, 0)) + 3 * U * fabs(sum[n]);
    }
}

/* One row: its logits, and the largest of their error bounds. */
static double row_logits(const token_head_ref *h, size_t r, double *logits)
{
    double most = 0;
    for (size_t k = 0; k < h->vocabulary; k++) {
        double sum = h->b != NULL ? h->b[k] : 0, size = fabs(sum);
        for (size_t c = 0; c < h->cols; c++) {
            const double part = h->x[r * h->cols + c] * h->w[k * h->cols + c];
            sum += part;
            size += fabs(part);
        }
        logits[k] = sum;
        most = fmax(most, test_bound(h->cols + 1, size, sum));
    }
    return most;
}

void token_head_ref_run(const token_head_ref *h)
{
    const size_t rows = h->rows, d = h->cols, v = h->vocabulary;
    const double weight = token_loss_ref_weight(h->batch, rows, h->labels);
    double *logits = test_doubles(v), *log_p = test_doubles(v), *bound = test_doubles(v);
    double *dz = test_doubles(v), *dz_bound = test_doubles(v);
    double *loss = test_doubles(rows), *loss_bound = test_doubles(rows), *hit = test_doubles(rows);
    double *dw_size = test_doubles(v * d), *db_size = test_doubles(v);
    for (size_t r = 0; r < rows; r++) {
        double error = row_logits(h, r, logits);
        for (size_t k = 0; h->cap > 0 && k < v; k++) { /* tanh, times, over */
            logits[k] = h->cap * tanh(logits[k] / h->cap);
            error = fmax(error, 8 * U * h->cap);
        }
        cross_entropy_ref_forward(1, v, h->smoothing, logits, &h->labels[r], log_p, bound, &loss[r],
            &loss_bound[r], &hit[r]);
        loss_bound[r] += loss[r] == 0 ? 0 : 2 * error;
        cross_entropy_ref_backward(
            1, v, h->smoothing, h->scale * weight, log_p, &h->labels[r], dz, dz_bound);
        for (size_t k = 0; k < v; k++) {
            if (dz_bound[k] > 0)
                dz_bound[k] += h->scale * weight * exp(log_p[k]) * (2 * error + bound[k]) +
                               3 * U * fabs(dz[k]);
            const double part = h->cap > 0 ? logits[k] / h->cap : 0;
            dz_bound[k] += 32 * U * fabs(dz[k]) * (h->cap > 0);
            dz[k] *= 1 - part * part;
            h->db[k] += dz[k];
            h->db_bound[k] += dz_bound[k];
            db_size[k] += fabs(dz[k]);
            for (size_t c = 0; c < d; c++) {
                const double x = h->x[r * d + c], w = h->w[k * d + c];
                h->dx[r * d + c] += dz[k] * w;
                h->dx_bound[r * d + c] += dz_bound[k] * fabs(w) + test_bound(v, fabs(dz[k] * w), 0);
                h->dw[k * d + c] += dz[k] * x;
                h->dw_bound[k * d + c] += dz_bound[k] * fabs(x);
                dw_size[k * d + c] += fabs(dz[k] * x);
            }
        }
    }
    for (size_t i = 0; i < rows * d; i++)
        h->dx_bound[i] += U * fabs(h->dx[i]);
    for (size_t i = 0; i < v * d; i++)
        h->dw_bound[i] += test_bound(rows, dw_size[i], h->dw[i]);
    for (size_t k = 0; k < v; k++)
        h->db_bound[k] += test_bound(rows, db_size[k], h->db[k]);
    double *no_bound = test_doubles(h->batch);
    token_loss_ref_sums(h->batch, rows, weight, loss, loss_bound, h->loss, h->loss_bound);
    token_loss_ref_sums(h->batch, rows, weight, hit, NULL, h->hit, no_bound);
}
