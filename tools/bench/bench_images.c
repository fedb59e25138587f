/* bench_images.c: the layers of channels-last images that are bound by memory.
 *
 * `bytes` counts each operand once, as in bench_layers.c. */
#include "bench.h"

#include <string.h>

static double floats(size_t rows, size_t cols)
{
    return 4.0 * (double)rows * (double)cols;
}

static clprune_extent image_of(const bench_job *job)
{
    return (clprune_extent){job->shape.image, job->shape.image};
}

/* Rows of x: pixels of all images. */
static size_t pixels(const bench_job *job)
{
    return job->shape.batch * job->shape.image * job->shape.image;
}

/* ---- batch normalisation ---- */

/* Parameters and statistics are rows of w: gamma, beta, mean, inv; sums are db. */
static clprune_batch_norm norm_of(const bench_job *job)
{
    return (clprune_batch_norm){clprune_mat_rows(job->w.mat, 0, 1),
        clprune_mat_rows(job->w.mat, 1, 1), clprune_mat_rows(job->w.mat, 2, 1),
        clprune_mat_rows(job->w.mat, 3, 1)};
}

static void prepare_norm(bench_job *job)
{
    static const struct {
        const char *form;
        double tensors; /* tensors of the size of x that are read or written */
    } traffic[] = {{"moments", 1}, {"forward", 2}, {"residual", 3}, {"sums", 2}, {"input", 3}};
    const size_t rows = pixels(job), in = job->shape.in;
    bench_tensor_create(job, "x", rows, in, &job->x);
    bench_tensor_create(job, "y", rows, in, &job->y);
    bench_tensor_create(job, "residual", rows, in, &job->t);
    bench_tensor_create(job, "params", 4, in, &job->w);
    bench_tensor_create(job, "sums", 2, in, &job->db);
    for (size_t i = 0; i < sizeof traffic / sizeof traffic[0]; i++)
        if (strcmp(job->op->form, traffic[i].form) == 0)
            job->bytes = traffic[i].tensors * floats(rows, in);
}

static clprune_status norm_moments(bench_job *job)
{
    const clprune_batch_norm bn = norm_of(job);
    return clprune_batch_norm_moments(job->context, 0, job->x.mat, bn.mean, bn.inv, NULL);
}

/* Also of the form residual. */
static clprune_status norm_forward(bench_job *job)
{
    const clprune_batch_norm bn = norm_of(job);
    const bool residual = strcmp(job->op->form, "residual") == 0;
    return clprune_batch_norm_forward(job->context, &bn, true, job->x.mat,
        residual ? job->t.mat : CLPRUNE_NO_MAT, job->y.mat, CLPRUNE_NO_MAT, NULL);
}

static clprune_status norm_sums(bench_job *job)
{
    const clprune_batch_norm bn = norm_of(job);
    return clprune_batch_norm_backward_sums(job->context, 0, 0,
        &(clprune_batch_norm_in){.bn = &bn, .relu = true, .x = job->x.mat, .dy = job->t.mat},
        CLPRUNE_NO_MAT, job->db.mat, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL);
}

static clprune_status norm_input(bench_job *job)
{
    const clprune_batch_norm bn = norm_of(job);
    return clprune_batch_norm_backward_input(job->context, pixels(job),
        &(clprune_batch_norm_in){.bn = &bn, .relu = true, .x = job->x.mat, .dy = job->t.mat},
        job->db.mat, job->y.mat, NULL);
}

/* ---- max pooling; t: positions ---- */

static const clprune_max_pool_desc pool = {{3, 3}, {2, 2}, {1, 1}, false, {0}};

static void prepare_pool(bench_job *job)
{
    const size_t rows = pixels(job), in = job->shape.in;
    const clprune_extent output = clprune_max_pool_output(&pool, image_of(job));
    clprune_max_pool_sizes sizes;
    CHECK(job->context,
        clprune_max_pool_size_query(job->shape.batch * output.height * output.width, in, &sizes));
    bench_tensor_create(job, "x", rows, in, &job->x); /* dx backward */
    bench_tensor_create(job, "y", sizes.rows, in, &job->y);
    bench_tensor_create(job, "positions", sizes.rows, sizes.cols, &job->t);
    CHECK(job->context, clprune_max_pool_forward(job->context, &pool, job->shape.batch,
                            image_of(job), job->x.mat, job->y.mat, job->t.mat, NULL));
    job->bytes = floats(rows, in) + floats(sizes.rows, in) + (double)sizes.bytes;
}

static clprune_status pool_forward(bench_job *job)
{
    return clprune_max_pool_forward(job->context, &pool, job->shape.batch, image_of(job),
        job->x.mat, job->y.mat, job->t.mat, NULL);
}

static clprune_status pool_backward(bench_job *job)
{
    return clprune_max_pool_backward(job->context, &pool, job->shape.batch, image_of(job),
        job->y.mat, job->t.mat, job->x.mat, NULL);
}

enum { IMAGE_AXES = 1u << AXIS_BATCH | 1u << AXIS_IN | 1u << AXIS_IMAGE };

#define IMAGE_OP(name, form, prepare, run)                                                         \
    {                                                                                              \
        name, form, IMAGE_AXES, prepare, run, NULL, NULL, false, NULL                              \
    }

const bench_op bench_images[] = {
    IMAGE_OP("batch_norm", "moments", prepare_norm, norm_moments),
    IMAGE_OP("batch_norm", "forward", prepare_norm, norm_forward),
    IMAGE_OP("batch_norm", "residual", prepare_norm, norm_forward),
    IMAGE_OP("batch_norm", "sums", prepare_norm, norm_sums),
    IMAGE_OP("batch_norm", "input", prepare_norm, norm_input),
    IMAGE_OP("max_pool", "forward", prepare_pool, pool_forward),
    IMAGE_OP("max_pool", "backward", prepare_pool, pool_backward),
    {0},
};
