/* The example's ResMLP with activations `compact-pruned`: each gradient against a double reference
 * that runs the backward pass of each layer from the kept tensors, and beside dense's. */
#include "golden/golden_model.h"
#include "nn/layers/activation_private.h"

enum { COMPACT_PRUNED = 6 }; /* position in resmlp_keep.preset_names */

static keep_policy compact(double sparsity, clprune_block block, unsigned bits)
{
    const clprune_keep how = {.sparsity = 0.5f, .block = block, .bits = bits};
    keep_policy policy = keep_preset(COMPACT_PRUNED, how);
    policy.rule[KEEP_X].keep.sparsity = policy.rule[KEEP_X2].keep.sparsity =
        policy.rule[KEEP_GELU].keep.sparsity = (float)sparsity;
    return policy;
}

/* ---- a reference in double precision --------------------------------------------------------- */

typedef struct block_kept {
    float *x, *x2, *g, *slope;
} block_kept;

typedef struct reference {
    const resmlp *model;
    size_t batch, rows, dim, hidden;
    float **values; /* of the parameters */
    double **grads;
    block_kept *blocks;
    float *mean_x, *pooled, *log_p;
    double *dx; /* rows x dim: gradient of the stream */
} reference;

static float *read_saved(const clprune_saved *saved, size_t batch, size_t rows, size_t cols)
{
    const clprune_mat dense = clprune_saved_dense(saved, 0, batch);
    if (dense.rows != 0)
        return read_mat(dense);
    const clprune_bsr bsr = clprune_saved_bsr(saved, 0, batch);
    const clprune_mat mat = test_new_mat(test_context(), rows, cols);
    TEST_OK(clprune_bsr_unpack(test_context(), &bsr, mat, NULL));
    return read_mat(mat);
}

/* The levels that the codes stand for: what they make of ones. */
static float *read_codes(const resmlp *model, clprune_mat codes, size_t rows)
{
    const clprune_mat mat = test_new_mat(test_context(), rows, model->arch.hidden);
    TEST_OK(clprune_mat_fill(test_context(), 1, mat, NULL));
    TEST_OK(clprune__gelu_code_backward(test_context(), model->rules[KEEP_FC1].keep.bits, 0, mat,
        clprune_mat_rows(codes, 0, rows), mat, CLPRUNE_NO_MAT, NULL));
    return read_mat(mat);
}

/* Reads what the forward pass of f has kept. */
static reference read_kept(const fixture *f)
{
    const resmlp *model = &f->model;
    const size_t rows = f->batch * model->tokens, dim = model->arch.dim;
    reference r = {
        .model = model, .batch = f->batch, .rows = rows, .dim = dim, .hidden = model->arch.hidden};
    r.values = test_alloc(model->tensors * sizeof *r.values);
    r.grads = test_alloc(model->tensors * sizeof *r.grads);
    r.blocks = test_alloc(model->arch.depth * sizeof *r.blocks);
    for (size_t i = 0; i < model->tensors; i++) {
        r.values[i] = read_mat(model->params[i].value);
        r.grads[i] = test_doubles(model->params[i].value.rows * model->params[i].value.cols);
    }
    for (size_t i = 0; i < model->arch.depth; i++) {
        const resmlp_block *block = &model->blocks[i];
        r.blocks[i] = (block_kept){read_saved(block->kept[KEEP_X], f->batch, rows, dim),
            read_saved(block->kept[KEEP_X2], f->batch, rows, dim),
            read_saved(block->kept[KEEP_GELU], f->batch, rows, r.hidden),

            read_codes(model, clprune_saved_codes(block->kept[KEEP_FC1], 0, f->batch), rows)};
    }
    r.mean_x = read_mat(clprune_saved_dense(model->mean_x, 0, f->batch));
    r.pooled = read_mat(clprune_saved_dense(model->pooled, 0, f->batch));
    r.log_p = read_mat(clprune_mat_rows(model->log_p, 0, f->batch));
    r.dx = test_doubles(rows * dim);
    return r;
}

/* y = x W^T + b, backward: dw, db and dx (which may be NULL) from dy, added to. */
static void linear_back(size_t rows, size_t in, size_t out, const double *x, const float *w,
    const double *dy, double *dw, double *db, double *dx)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            const double d = dy[r * out + o];
            db[o] += d;
            for (size_t c = 0; c < in; c++) {
                dw[o * in + c] += d * x[r * in + c];
                if (dx != NULL)
                    dx[r * in + c] += d * (double)w[o * in + c];
            }
        }
}

/* y = alpha * x + beta, backward; dx is added to. */
static void affine_back(size_t rows, size_t dim, const float *x, const float *alpha,
    const double *dy, double *dalpha, double *dbeta, double *dx)
{
    for (size_t i = 0; i < rows * dim; i++) {
        dalpha[i % dim] += dy[i] * (double)x[i];
        dbeta[i % dim] += dy[i];
        dx[i] += dy[i] * (double)alpha[i % dim];
    }
}

static double *affine(
    size_t rows, size_t dim, const float *x, const float *alpha, const float *beta)
{
    double *y = test_doubles(rows * dim);
    for (size_t i = 0; i < rows * dim; i++)
        y[i] = (double)alpha[i % dim] * (double)x[i] + (double)beta[i % dim];
    return y;
}

static void tail_back(reference *r)
{
    const size_t dim = r->dim, classes = r->model->arch.classes, tokens = r->model->tokens;
    const size_t tail = r->model->tensors - 4;
    double *dlogits = test_doubles(r->batch * classes), *pooled = test_doubles(r->batch * dim);
    double *dpooled = test_doubles(r->batch * dim), *dmean = test_doubles(r->batch * dim);
    for (size_t n = 0; n < r->batch; n++)
        for (size_t k = 0; k < classes; k++) {
            const bool hit = k == golden_label((uint32_t)n, (uint32_t)classes);
            const double s = (double)smoothing;
            const double want = (hit ? 1 - s : 0) + s / (double)classes;
            dlogits[n * classes + k] =
                (exp((double)r->log_p[n * classes + k]) - want) / (double)r->batch;
        }
    for (size_t i = 0; i < r->batch * dim; i++)
        pooled[i] = (double)r->pooled[i];
    linear_back(r->batch, dim, classes, pooled, r->values[tail + 2], dlogits, r->grads[tail + 2],
        r->grads[tail + 3], dpooled);
    affine_back(r->batch, dim, r->mean_x, r->values[tail], dpooled, r->grads[tail],
        r->grads[tail + 1], dmean);
    for (size_t i = 0; i < r->rows * dim; i++)
        r->dx[i] = dmean[i / (tokens * dim) * dim + i % dim] / (double)tokens;
}

/* next = x2 + ls2 * (g W2^T + b2), g = gelu(h), h = affine2(x2) W1^T + b1 */
static void mlp_back(reference *r, size_t index)
{
    const size_t rows = r->rows, dim = r->dim, hidden = r->hidden;
    const size_t first = RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * index;
    const block_kept *kept = &r->blocks[index];
    float **w = &r->values[first];
    double **dw = &r->grads[first];
    double *g = test_doubles(rows * hidden), *dm = test_doubles(rows * dim);
    double *dh = test_doubles(rows * hidden), *dn2 = test_doubles(rows * dim);
    double *n2 = affine(rows, dim, kept->x2, w[6], w[7]);
    for (size_t i = 0; i < rows * hidden; i++)
        g[i] = (double)kept->g[i];
    for (size_t i = 0; i < rows * dim; i++) {
        const size_t row = i / dim, o = i % dim;
        double m = (double)w[11][o];
        for (size_t c = 0; c < hidden; c++)
            m += g[row * hidden + c] * (double)w[10][o * hidden + c];
        dw[1][o] += m * r->dx[i];
        dm[i] = (double)w[1][o] * r->dx[i];
    }
    linear_back(rows, hidden, dim, g, w[10], dm, dw[10], dw[11], dh);
    for (size_t i = 0; i < rows * hidden; i++)
        dh[i] *= (double)kept->slope[i];
    linear_back(rows, dim, hidden, n2, w[8], dh, dw[8], dw[9], dn2);
    affine_back(rows, dim, kept->x2, w[6], dn2, dw[6], dw[7], r->dx);
}

/* x2 = x + ls1 * (W_t affine1(x) + b_t) */
static void tokens_back(reference *r, size_t index)
{
    const size_t dim = r->dim, tokens = r->model->tokens;
    const size_t first = RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * index;
    const block_kept *kept = &r->blocks[index];
    float **w = &r->values[first];
    double **dw = &r->grads[first];
    double *n1 = affine(r->rows, dim, kept->x, w[2], w[3]), *dn1 = test_doubles(r->rows * dim);
    for (size_t i = 0; i < r->rows * dim; i++) {
        const size_t sample = i / (tokens * dim) * tokens, p = i / dim % tokens, c = i % dim;
        const double dt = (double)w[0][c] * r->dx[i];
        double t = (double)w[5][p];
        for (size_t q = 0; q < tokens; q++) {
            const size_t from = (sample + q) * dim + c;
            t += (double)w[4][p * tokens + q] * n1[from];
            dw[4][p * tokens + q] += dt * n1[from];
            dn1[from] += dt * (double)w[4][p * tokens + q];
        }
        dw[5][p] += dt;
        dw[0][c] += t * r->dx[i];
    }
    affine_back(r->rows, dim, kept->x, w[2], dn1, dw[2], dw[3], r->dx);
}

static void compare(const char *name, size_t count, const float *got, const double *want)
{
    double norm = 0, off = 0;
    for (size_t i = 0; i < count; i++) {
        norm += want[i] * want[i];
        off += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
    }
    near(name, "distance from the reference", sqrt(off), 0, bound * sqrt(norm));
}

static void matches_reference(
    const golden_resmlp_case *row, const keep_policy *policy, size_t chunk)
{
    fixture f = make_fixture(row, policy, row->batch, row->batch + 1);
    if (chunk != 0)
        f.model.chunk = f.model.stem_step = chunk;
    resmlp_set_seed(&f.model, 17);
    forward(&f, true);
    reference r = read_kept(&f);
    tail_back(&r);
    for (size_t i = f.model.arch.depth; i-- > 0;) {
        mlp_back(&r, i);
        tokens_back(&r, i);
    }
    for (size_t i = 0; i < r.rows * r.dim; i++)
        r.grads[1][i % r.dim] += r.dx[i]; /* the stem's bias; its weight is patch_embed's affair */
    TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
    for (size_t i = 1; i < f.model.tensors; i++) {
        const clprune_mat grad = f.model.params[i].grad;
        float *got = read_mat(grad);
        compare(f.model.params[i].name, grad.rows * grad.cols, got, r.grads[i]);
    }
    resmlp_destroy(&f.model);
}

static void from_what_was_kept(void **state)
{
    const golden_resmlp_case *row = *state;
    for (unsigned bits = 2; bits <= 8; bits *= 2) {
        keep_policy policy = compact(0.5, (clprune_block){1, 16}, bits);
        print_message("%u bits\n", bits);
        matches_reference(row, &policy, 0);
        matches_reference(row, &policy, row->batch - 1); /* the last chunk is not full */
        policy.rule[KEEP_X].keep.criterion = policy.rule[KEEP_X2].keep.criterion =
            policy.rule[KEEP_GELU].keep.criterion = CLPRUNE_CRITERION_SAMPLED;
        matches_reference(row, &policy, 1);
        policy = compact(0.3, (clprune_block){2, 4}, bits);
        policy.rule[KEEP_X2] = (keep_rule){0};
        matches_reference(row, &policy, row->batch - 1);
        policy.rule[KEEP_X].keep.value_type = CLPRUNE_VALUES_FP16;
        policy.rule[KEEP_GELU].keep.value_type = CLPRUNE_VALUES_INT8;
        policy.rule[KEEP_X].keep.index_type = CLPRUNE_INDEX_SMALLEST;
        policy.rule[KEEP_GELU].keep.index_type = CLPRUNE_INDEX_BITMAP;
        matches_reference(row, &policy, 2);
        policy.rule[KEEP_GELU] = (keep_rule){0};
        matches_reference(row, &policy, 1);
    }
}

/* ---- beside dense ---------------------------------------------------------------------------- */

/* All blocks kept: only the code is left. Its error reaches the gradients below it, scaled by the
 * code's, and never those of the last block's fc2 and of what is behind. */
static void all_blocks(void **state)
{
    const golden_resmlp_case *row = *state;
    const golden_tensor *want = tensors_of(row);
    static const double most[] = {0.4, 0.1, 0.01}; /* of a gradient's norm */
    for (unsigned code = 0; code < 3; code++) {
        const keep_policy policy = compact(0, (clprune_block){1, 16}, 2u << code);
        fixture f = make_fixture(row, &policy, row->batch, row->batch);
        double worst = 0;
        forward(&f, true);
        near(row->name, "loss", golden_mean_loss(f.loss), row->loss, bound * row->loss);
        TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
        for (size_t i = 0; i < f.model.tensors; i++) {
            const clprune_mat grad = f.model.params[i].grad;
            const size_t last = f.model.tensors - 4 - RESMLP_BLOCK_TENSORS;
            const bool exact = i >= last + 10 || i == last + 1;
            float *got = read_mat(grad);
            for (size_t p = 0; p < GOLDEN_PROJECTIONS; p++) {
                const double off = fabs(golden_projection((uint32_t)p, grad.rows * grad.cols, got) -
                                        want[i].proj[p]) /
                                   want[i].norm;
                near(want[i].name, "projection", off, 0, exact ? bound : most[code]);
                worst = !exact && off > worst ? off : worst;
            }
        }
        print_message("%u bits: off by up to %.2e\n", 2u << code, worst);
        resmlp_destroy(&f.model);
    }
}

/* Two passes give the same bits, and chunks keep what the whole batch would, in another index too.
 */
static void same_bits(void **state)
{
    const golden_resmlp_case *row = *state;
    keep_policy policy = compact(0.5, (clprune_block){1, 16}, 2);
    float *kept[2];
    policy.rule[KEEP_GELU].keep.criterion = policy.rule[KEEP_X].keep.criterion =
        CLPRUNE_CRITERION_SAMPLED;
    for (int i = 0; i < 2; i++) {
        policy.rule[KEEP_GELU].keep.index_type =
            i == 0 ? CLPRUNE_INDEX_INT32 : CLPRUNE_INDEX_BITMAP;
        fixture f = make_fixture(row, &policy, row->batch, row->batch);
        const size_t rows = f.batch * f.model.tokens;
        float *grads[2];
        if (i == 1)
            f.model.chunk = 1;
        for (int pass = 0; pass < 2; pass++) {
            resmlp_set_seed(&f.model, 5);
            forward(&f, true);
            if (pass == 0)
                kept[i] = read_saved(
                    f.model.blocks[0].kept[KEEP_GELU], f.batch, rows, f.model.arch.hidden);
            TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
            grads[pass] = read_mat(f.model.params[2].grad);
        }
        test_same_floats("ls1", 1, row->dim, grads[1], grads[0], "%s", row->name);
        if (i == 1)
            test_same_floats("g", rows, row->hidden, kept[1], kept[0], "%s", row->name);
        resmlp_destroy(&f.model);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void kept_bytes(void **state)
{
    const golden_resmlp_case *row = *state;
    for (int type = CLPRUNE_VALUES_FP32; type <= CLPRUNE_VALUES_INT8; type++) {
        keep_policy policy = compact(0.7, (clprune_block){1, 16}, type == 0 ? 8 : 2);
        policy.rule[KEEP_X].keep.value_type = policy.rule[KEEP_GELU].keep.value_type =
            (clprune_value_type)type;
        policy.rule[KEEP_GELU].keep.index_type =
            type % 2 == 0 ? CLPRUNE_INDEX_INT32 : CLPRUNE_INDEX_BITMAP;
        (void)check_kept(row, &policy);
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < golden_resmlp_cases_count; i++) {
        const golden_resmlp_case *row = &golden_resmlp_cases[i];
        if (row->block != 0 || row->dim > 200 || (row->dim > 100 && test_small()))
            continue;
        if (row->dim < 100) {
            test_add(&list, from_what_was_kept, row, "from what was kept %s", row->name);
            test_add(&list, same_bits, row, "same bits %s", row->name);
        }
        test_add(&list, all_blocks, row, "all blocks %s", row->name);
        test_add(&list, kept_bytes, row, "kept bytes %s", row->name);
    }
    return test_run_on_devices("resmlp_compact", &list);
}
