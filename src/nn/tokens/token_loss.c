#include "clprune/token_loss.h"

#include <math.h>

#include "clprune/activation.h"
#include "core/checked.h"
#include "nn/layers/biased_product.h"
#include "nn/layers/sums.h"
#include "nn/tokens/token_loss_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def token_loss_weight_kernel = {
    "tokens/token_loss.cl", "token_loss_weight"};
static const clprune__kernel_def token_loss_sums_kernel = {
    "tokens/token_loss.cl", "token_loss_sums"};
static const clprune__kernel_def cap_forward_kernel = {"tokens/logit_cap.cl", "logit_cap_forward"};
static const clprune__kernel_def cap_backward_kernel = {
    "tokens/logit_cap.cl", "logit_cap_backward"};

/* The logits of a head at a time: 8 MiB on CPUs, a small part of a GPU's memory, but at least so
 * many rows: each time, w is read twice and dw read and written. */
#define HEAD_ELEMENTS ((size_t)1 << 21)
#define HEAD_MOST     ((size_t)1 << 26)
#define HEAD_SHARE    256
#define HEAD_ROWS     128
#define HEAD_PARTS    8 /* of these rows, with a cap */

/* weight = batch / count of the labels that are not ignored, or / the sum of their classes'
 * weights; with targets batch / rows. One group, of few work-items. */
static clprune_status find_weight(clprune_context *context, size_t batch, size_t rows,
    clprune_ints labels, const clprune__label_terms *terms, clprune_mat weight)
{
    const clprune_mat class_weights = terms->class_weights;
    if (!clprune__is_absent(terms->targets))
        return clprune__mat_fill(
            context, rows > 0 ? (float)((double)batch / (double)rows) : 0, weight, NULL);
    const bool weighted = !clprune__is_absent(class_weights);
    clprune__rowwise plan = clprune__team_plan(context, 1, 1);
    plan.global = plan.local;
    if (weighted)
        clprune__define(&plan.defines, "WEIGHTS", 1);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &token_loss_weight_kernel, &plan.defines, &launch));
    launch.least_group = plan.team;
    ARG_ULONGS(&launch, batch, rows);
    clprune__arg_ints(&launch, labels);
    clprune__arg_mat(&launch, weight);
    if (weighted) {
        clprune__arg_ulong(&launch, class_weights.cols);
        clprune__arg_mat(&launch, class_weights);
    }
    return clprune__rowwise_end(&launch, &plan, NULL);
}

/* The terms of a call, checked but for second labels. */
static clprune_status take_terms(clprune_context *context, const clprune__label_terms *terms,
    size_t batch, size_t classes, clprune__label_terms *taken)
{
    *taken = terms != NULL ? *terms : (clprune__label_terms){.shares = CLPRUNE_NO_MAT};
    if (!clprune__is_absent(taken->class_weights))
        TRY(clprune__check_mat(context, "class_weights", taken->class_weights, 1, classes));
    if (!clprune__is_absent(taken->weights))
        TRY(clprune__check_mat(context, "weights", taken->weights, batch, 1));
    return CLPRUNE_SUCCESS;
}

/* y = weight * the sums of the rows of x, with weights of samples times these. */
static clprune_status sum_samples(clprune_context *context, clprune_mat weight, clprune_mat weights,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    const bool has_samples = !clprune__is_absent(weights);
    const clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &token_loss_sums_kernel, &plan, &launch));
    clprune__arg_uint(&launch, has_samples);
    ARG_MATS(&launch, weight, has_samples ? weights : clprune__untouched(x), x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Losses and hits of all rows, in scratch; the same as batch x rows matrices. */
typedef struct row_losses {
    clprune_mat loss, hit, sample_loss, sample_hit;
} row_losses;

static clprune_status take_losses(
    clprune_context *context, size_t batch, size_t rows, bool has_hit, row_losses *l)
{
    const size_t each = rows / batch;
    *l = (row_losses){{0}, {0}, {0}, {0}};
    TRY(clprune__scratch_mat(context, rows, 1, &l->loss));
    if (has_hit)
        TRY(clprune__scratch_mat(context, rows, 1, &l->hit));
    l->sample_loss =
        (clprune_mat){l->loss.buffer, l->loss.offset, batch, each, each, CLPRUNE_VALUES_FP32};
    l->sample_hit =
        (clprune_mat){l->hit.buffer, l->hit.offset, batch, each, each, CLPRUNE_VALUES_FP32};
    return CLPRUNE_SUCCESS;
}

static clprune_status sum_losses(clprune_context *context, const row_losses *l, clprune_mat weight,
    clprune_mat weights, clprune_mat loss, clprune_mat hit, cl_event *event)
{
    if (!clprune__is_absent(hit))
        TRY(sum_samples(context, weight, CLPRUNE_NO_MAT, l->sample_hit, hit, NULL));
    return sum_samples(context, weight, weights, l->sample_loss, loss, event);
}

/* Checks that `rows` are those of `batch` samples, and their labels, unless they have targets;
 * *mat: these, as a row. */
static clprune_status check_rows(clprune_context *context, size_t batch, size_t rows, bool soft,
    clprune_ints labels, clprune_mat *mat)
{
    REQUIRE(batch > 0 ? rows % batch == 0 : rows == 0, CLPRUNE_INVALID_SIZE,
        "%zu rows are no multiple of the batch, %zu", rows, batch);
    *mat = CLPRUNE_NO_MAT;
    return soft ? CLPRUNE_SUCCESS : clprune__check_ints(context, "labels", labels, rows, mat);
}

static clprune_status check_smoothing(clprune_context *context, float smoothing)
{
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)smoothing);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__token_loss_forward(clprune_context *context, size_t batch, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_terms *terms, clprune_mat log_p,
    clprune_mat weight, clprune_mat loss, clprune_mat hit, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t rows = logits.rows, classes = logits.cols;
    clprune_mat all;
    clprune__label_terms t;
    row_losses l;
    TRY(check_smoothing(context, smoothing));
    TRY(take_terms(context, terms, batch, classes, &t));
    const bool soft = !clprune__is_absent(t.targets);
    TRY(check_rows(context, batch, rows, soft, labels, &all));
    enum { LOGITS, LABELS, LOG_P, WEIGHT, LOSS, HIT, ALL };
    const clprune__operand operands[ALL] = {{"logits", logits, rows, classes},
        {"labels", all, 1, rows, .optional = soft},
        {"log_p", log_p, rows, classes, .in_place = 1u << LOGITS}, {"weight", weight, 1, 1},
        {"loss", loss, batch, 1}, {"hit", hit, batch, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, LOG_P, ALL));
    TRY(find_weight(context, batch, rows, labels, &t, weight));
    if (batch == 0)
        return clprune__empty_event(context, event);
    TRY(take_losses(context, batch, rows, !clprune__is_absent(hit), &l));
    TRY(clprune__cross_entropy_forward(
        context, smoothing, logits, labels, terms, log_p, l.loss, l.hit, NULL));
    return sum_losses(context, &l, weight, t.weights, loss, hit, event);
}

clprune_status clprune_token_loss_forward(clprune_context *context, size_t batch, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat weight,
    clprune_mat loss, clprune_mat hit, cl_event *event)
{
    ENTER(context);
    return clprune__token_loss_forward(
        context, batch, smoothing, logits, labels, NULL, log_p, weight, loss, hit, event);
}

clprune_status clprune__token_loss_backward(clprune_context *context, float smoothing, float scale,
    clprune_mat weight, clprune_mat log_p, clprune_ints labels, const clprune__label_terms *terms,
    clprune_mat dlogits, cl_event *event)
{
    TRY(clprune__check_mat(context, "weight", weight, 1, 1));
    return clprune__cross_entropy_backward(
        context, smoothing, scale, weight, log_p, labels, terms, dlogits, event);
}

clprune_status clprune_token_loss_backward(clprune_context *context, float smoothing, float scale,
    clprune_mat weight, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits,
    cl_event *event)
{
    ENTER(context);
    return clprune__token_loss_backward(
        context, smoothing, scale, weight, log_p, labels, NULL, dlogits, event);
}

/* ---- head --------------------------------------------------------------------------------------
 */

/* What a head reads and writes. narrow: products round what they read to bf16, here once for all.
 */
typedef struct head {
    float beta, smoothing, scale, cap;
    clprune_mat x, w, b, weight, dx, dw, db;
    clprune_mat kept;    /* capped logits of a part of the rows */
    clprune_mat dlogits; /* narrow: of bf16, with zeros up to a multiple of 16 columns */
    bool narrow;
    clprune_ints labels;
    const clprune__label_terms *terms;
    const row_losses *losses;
} head;

static bool wants_grads(const head *h)
{
    return !clprune__is_absent(h->dx) || !clprune__is_absent(h->dw) || !clprune__is_absent(h->db);
}

static clprune__rowwise cap_plan(const clprune_context *context, clprune_mat z)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, z.rows, z.cols);
    clprune__define(&plan.defines, "ACTIVATION", CLPRUNE_ACTIVATION_TANH);
    return plan;
}

clprune_status clprune__logit_cap(
    clprune_context *context, float cap, clprune_mat z, cl_event *event)
{
    const clprune__rowwise plan = cap_plan(context, z);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cap_forward_kernel, &plan, &launch));
    clprune__arg_float(&launch, cap);
    clprune__arg_mat(&launch, z);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Forward: z = cap * tanh(z / cap). */
static clprune_status cap_backward(
    clprune_context *context, float cap, clprune_mat z, clprune_mat dz)
{
    const clprune__rowwise plan = cap_plan(context, z);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cap_backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, cap);
    ARG_MATS(&launch, z, dz);
    return clprune__rowwise_end(&launch, &plan, NULL);
}

/* Of some rows, from row `first` on, whose logits are z: the loss, and with a gradient that of the
 * logits in dz, which may be z. */
static clprune_status run_losses(clprune_context *context, const head *h, bool grads, size_t first,
    clprune_mat z, clprune_mat dz)
{
    const clprune_ints labels = {h->labels.buffer, h->labels.offset + first};
    const clprune__gradient_scale scale = {h->scale, h->weight};
    const clprune_mat loss = clprune_mat_rows(h->losses->loss, first, z.rows);
    clprune_mat hit = h->losses->hit;
    clprune__label_terms terms = *h->terms;
    terms.first_row = first;
    if (!clprune__is_absent(hit))
        hit = clprune_mat_rows(hit, first, z.rows);
    return grads ? clprune__cross_entropy_step(
                       context, &scale, h->smoothing, z, labels, &terms, loss, hit, dz, NULL)
                 : clprune__cross_entropy_forward(
                       context, h->smoothing, z, labels, &terms, z, loss, hit, NULL);
}

/* The same with a cap, of parts of the rows: what the cap has made of them is kept meanwhile. */
static clprune_status run_capped(
    clprune_context *context, const head *h, bool grads, size_t first, clprune_mat z)
{
    TRY(clprune__logit_cap(context, h->cap, z, NULL));
    for (size_t at = 0; at < z.rows; at += h->kept.rows) {
        const size_t rows = clprune__min(h->kept.rows, z.rows - at);
        const clprune_mat part = clprune_mat_rows(z, at, rows),
                          kept = clprune_mat_rows(h->kept, 0, rows);
        if (grads)
            TRY(clprune__mat_copy(context, part, kept, NULL));
        TRY(run_losses(context, h, grads, first + at, part, part));
        if (grads)
            TRY(cap_backward(context, h->cap, kept, part));
    }
    return CLPRUNE_SUCCESS;
}

/* Rows first to first + z.rows - 1, whose logits are z. dx may be x: it comes last. */
static clprune_status run_rows(clprune_context *context, const head *h, size_t first, clprune_mat z)
{
    SCRATCH_SCOPE(context);
    clprune_mat x = clprune_mat_rows(h->x, first, z.rows);
    const clprune_mat dz = h->narrow ? clprune_mat_rows(h->dlogits, 0, z.rows) : z;
    const float beta = first > 0 ? 1.0f : h->beta;
    const bool grads = wants_grads(h);
    clprune__gemm_job job = {.batch = 1, .alpha = 1, .a = dz, .padded_a = h->narrow};
    if (h->narrow)
        TRY(clprune__gemm_to_bf16(context, &x));
    TRY(clprune__product_rows(context, x, h->w, h->b, z, NULL, NULL));
    TRY(h->cap != 0 ? run_capped(context, h, grads, first, z)
                    : run_losses(context, h, grads, first, z, dz));
    if (!clprune__is_absent(h->dw)) {
        clprune__gemm_job dw = job;
        dw.transpose_a = true;
        dw.beta = beta;
        dw.b = x;
        dw.c = h->dw;
        TRY(clprune__gemm(context, &dw, NULL));
    }
    if (!clprune__is_absent(h->db))
        TRY(clprune__column_sum(context, beta, z, h->db, NULL));
    if (!clprune__is_absent(h->dx)) {
        job.b = h->w;
        job.c = clprune_mat_rows(h->dx, first, z.rows);
        TRY(clprune__gemm(context, &job, NULL));
    }
    return CLPRUNE_SUCCESS;
}

/* On tensor cores: w in bf16, and a place for the gradient of `most` rows of logits. */
static clprune_status narrow_head(clprune_context *context, head *h, size_t most)
{
    const size_t vocabulary = h->w.rows, even = vocabulary - vocabulary % 2;
    clprune_mat end;
    h->narrow = wants_grads(h) && h->cap == 0 && clprune__is_absent(h->db) && h->x.cols % 16 == 0 &&
                (h->w.type == CLPRUNE_VALUES_FP32 || h->w.type == CLPRUNE_VALUES_BF16) &&
                clprune__gemm_rounds(context, most, vocabulary, h->x.cols);
    if (!h->narrow)
        return CLPRUNE_SUCCESS;
    TRY(clprune__gemm_to_bf16(context, &h->w));
    TRY(clprune__scratch_bf16(context, most, vocabulary, &h->dlogits));
    end = h->dlogits;
    end.offset += even;
    end.cols = end.ld - even;
    return clprune__scale(context, 0.0f, end, NULL);
}

static size_t rows_at_once(const clprune_context *context, size_t rows, size_t vocabulary)
{
    const size_t elements = clprune__part_elements(context, HEAD_ELEMENTS, HEAD_SHARE, HEAD_MOST);
    const size_t fit = vocabulary > 0 ? elements / vocabulary : rows;
    return clprune__min(rows, fit > HEAD_ROWS ? fit - fit % 64 : HEAD_ROWS);
}

clprune_status clprune_token_head(clprune_context *context, size_t batch, float beta,
    float smoothing, float scale, float cap, clprune_mat x, clprune_mat w, clprune_mat b,
    clprune_ints labels, clprune_mat loss, clprune_mat hit, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event)
{
    ENTER(context);
    return clprune__token_head(context, batch, beta, smoothing, scale, cap, x, w, b, labels, NULL,
        loss, hit, dx, dw, db, event);
}

clprune_status clprune__token_head(clprune_context *context, size_t batch, float beta,
    float smoothing, float scale, float cap, clprune_mat x, clprune_mat w, clprune_mat b,
    clprune_ints labels, const clprune__label_terms *terms, clprune_mat loss, clprune_mat hit,
    clprune_mat dx, clprune_mat dw, clprune_mat db, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t rows = x.rows, cols = x.cols, vocabulary = w.rows;
    const bool has_hit = !clprune__is_absent(hit);
    clprune_mat all, z;
    clprune__label_terms t;
    row_losses l;
    TRY(check_smoothing(context, smoothing));
    TRY(take_terms(context, terms, batch, vocabulary, &t));
    REQUIRE(cap >= 0 && isfinite(cap), CLPRUNE_INVALID_ARGUMENT,
        "cap is %g, expected 0 or a finite number above", (double)cap);
    TRY(check_rows(context, batch, rows, false, labels, &all));
    enum { X, W, B, LABELS, LOSS, HIT, DX, DW, DB, ALL };
    const clprune__operand operands[ALL] = {{"x", x, rows, cols},
        {"w", w, vocabulary, cols, .bf16 = true, .codes = true},
        {"b", b, 1, vocabulary, .optional = true}, {"labels", all, 1, rows},
        {"loss", loss, batch, 1}, {"hit", hit, batch, 1, .optional = true},
        {"dx", dx, rows, cols, .optional = true, .in_place = 1u << X},
        {"dw", dw, vocabulary, cols, .optional = true},
        {"db", db, 1, vocabulary, .optional = true}};
    TRY(clprune__check_operands(context, operands, LOSS, ALL));
    head h = {beta, smoothing, scale, cap, x, w, b, .dx = dx, .dw = dw, .db = db};
    h.labels = labels;
    h.terms = &t;
    h.losses = &l;
    if (rows == 0 && !clprune__is_absent(dw))
        TRY(clprune__scale(context, beta, dw, NULL));
    if (rows == 0 && !clprune__is_absent(db))
        TRY(clprune__scale(context, beta, db, NULL));
    if (batch == 0)
        return clprune__empty_event(context, event);
    TRY(take_losses(context, batch, rows, has_hit, &l));
    TRY(clprune__scratch_mat(context, 1, 1, &h.weight));
    TRY(find_weight(context, batch, rows, labels, &t, h.weight));
    const size_t most = rows_at_once(context, rows, vocabulary);
    TRY(clprune__scratch_mat(context, most, vocabulary, &z));
    TRY(narrow_head(context, &h, most));
    if (cap != 0)
        TRY(clprune__scratch_mat(
            context, (most + HEAD_PARTS - 1) / HEAD_PARTS, vocabulary, &h.kept));
    for (size_t first = 0; first < rows; first += most)
        TRY(run_rows(context, &h, first, clprune_mat_rows(z, 0, clprune__min(most, rows - first))));
    return sum_losses(context, &l, h.weight, t.weights, loss, hit, event);
}
