/* Norms of heads against double precision: output and gradients of some columns, and of all. */
#include <math.h>

#include "net/net_models.h"
#include "support/test_compare.h"

enum { SIZE = 16 };

typedef struct heads {
    size_t first, heads, cols;
} heads;

static const heads cases[] = {{3, 2, 5}, {0, 4, 4}, {0, 1, 16}, {12, 4, 1}};

/* Row r of what is normalised is column r of the weight: the input is the identity. */
static void build(clprune_net *net, const net_model *model)
{
    const heads *of = &cases[model->seed];
    clprune_net_value x = clprune_net_project(net, "p", clprune_net_rows(net, SIZE, SIZE), SIZE);
    clprune_net_custom_loss(
        net, clprune_net_head_norm(net, "n", x, of->first, of->heads, of->cols));
}

typedef struct wanted {
    double y[SIZE][SIZE], dx[SIZE][SIZE], dgamma[SIZE];
} wanted;

static void reference(
    const heads *of, const float *weight, const float *gamma, const float *dy, wanted *want)
{
    *want = (wanted){0};
    for (size_t r = 0; r < SIZE; r++) {
        for (size_t c = 0; c < SIZE; c++) {
            want->y[r][c] = (double)weight[c * SIZE + r];
            want->dx[r][c] = (double)dy[r * SIZE + c];
        }
        for (size_t h = 0; h < of->heads; h++) {
            double *x = want->y[r] + of->first + h * of->cols, squares = 0, along = 0;
            double *d = want->dx[r] + of->first + h * of->cols;
            for (size_t c = 0; c < of->cols; c++)
                squares += x[c] * x[c] / (double)of->cols;
            const double inv = 1 / sqrt(squares + 1e-5);
            for (size_t c = 0; c < of->cols; c++) {
                want->dgamma[c] += d[c] * x[c] * inv;
                along += (double)gamma[c] * d[c] * x[c] * inv / (double)of->cols;
            }
            for (size_t c = 0; c < of->cols; c++) {
                d[c] = inv * ((double)gamma[c] * d[c] - x[c] * inv * along);
                x[c] *= (double)gamma[c] * inv;
            }
        }
    }
}

static void near(const char *what, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s is %g, expected %g", what, got, want);
}

static void beside_double(void **state)
{
    const heads *of = *state;
    const net_model model = {"heads", build, SIZE, SIZE, 1, 1, false, false, (size_t)(of - cases)};
    static const clprune_net_preset presets[] = {CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT};
    for (size_t p = 0; p < COUNT_OF(presets); p++) {
        net_job job = net_open_preset(&model, 1, presets[p], 8);
        float identity[SIZE * SIZE] = {0};
        const float *weight = test_new_normal(3, SIZE * SIZE);
        const float *gamma = test_new_uniform(4, 0.5f, 1.5f, SIZE);
        const float *dy = test_new_normal(5, SIZE * SIZE);
        wanted want;
        for (size_t i = 0; i < SIZE; i++)
            identity[i * (SIZE + 1)] = 1;
        reference(of, weight, gamma, dy, &want);
        TEST_OK(clprune_mat_write(job.context, job.data.rows, identity));
        assert_int_equal(job.count, 2);
        TEST_OK(clprune_mat_write(job.context, job.params[0].value, weight));
        TEST_OK(clprune_mat_write(job.context, job.params[1].value, gamma));
        job.data.output_grad = test_new_mat_of(job.context, "dy", SIZE, SIZE, dy);
        TEST_OK(clprune_net_forward(job.net, &job.data, true));
        const float *y = net_output(&job, 1);
        TEST_OK(clprune_net_backward(job.net, &job.data));
        const float *grads = net_grads(&job);
        for (size_t i = 0; i < SIZE * SIZE; i++) {
            const size_t r = i / SIZE, c = i % SIZE;
            near("y", (double)y[i], want.y[r][c], 1e-5);
            near("dx", (double)grads[c * SIZE + r], want.dx[r][c], 1e-5);
        }
        for (size_t c = 0; c < of->cols; c++)
            near("dgamma", (double)grads[SIZE * SIZE + c], want.dgamma[c], 3e-5);
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        test_add(&list, beside_double, &cases[i], "%zu heads of %zu from %zu on", cases[i].heads,
            cases[i].cols, cases[i].first);
    return test_run_on_devices("net_head_norm", &list);
}
