/* Optimizers over many tensors: windows with random strides in randomly shared buffers, one launch
 * per pair of buffers, no allocation and no waiting in a step. */
#include <assert.h>

#include "ref/optimizer_ref.h"
#include "support/test_layer.h"

/* --- Calls to OpenCL, counted (the linker puts these in their place) --- */

static size_t launches, allocations, waits;

TEST_WRAP(cl_int, clEnqueueNDRangeKernel,
    (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
        const size_t *global, const size_t *local, cl_uint count, const cl_event *events,
        cl_event *event))
{
    launches++;
    return __real_clEnqueueNDRangeKernel(
        queue, kernel, dimensions, offset, global, local, count, events, event);
}

TEST_WRAP(cl_mem, clCreateBuffer,
    (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code))
{
    allocations++;
    return __real_clCreateBuffer(context, flags, size, host, code);
}

TEST_WRAP(cl_int, clFinish, (cl_command_queue queue))
{
    waits++;
    return __real_clFinish(queue);
}

TEST_WRAP(cl_int, clWaitForEvents, (cl_uint count, const cl_event *events))
{
    waits++;
    return __real_clWaitForEvents(count, events);
}

TEST_WRAP(cl_int, clEnqueueWriteBuffer,
    (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
        const void *from, cl_uint count, const cl_event *events, cl_event *event))
{
    waits += blocking != CL_FALSE;
    return __real_clEnqueueWriteBuffer(
        queue, buffer, blocking, offset, size, from, count, events, event);
}

/* --- Many tensors in few buffers --- */

/* A buffer of floats: first all canaries (NaN with a payload), then windows are put into it. */
typedef struct pool {
    cl_mem buffer;
    uint32_t *bits; /* what the device should hold */
    size_t size, used;
} pool;

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static pool pool_make(size_t size)
{
    cl_int code;
    pool p = {.size = size, .bits = test_alloc(size * sizeof(uint32_t))};
    for (size_t i = 0; i < size; i++)
        p.bits[i] = 0x7fc00000u + (uint32_t)(i % 65536);
    p.buffer = test_own(clCreateBuffer(
        clprune_context_cl(test_context()), CL_MEM_READ_WRITE, size * sizeof(float), NULL, &code));
    TEST_CL(code);
    return p;
}

/* The next free window, `space` behind the last one. */
static clprune_mat pool_take(pool *p, size_t rows, size_t cols, size_t gap, size_t space)
{
    const clprune_mat mat = {p->buffer, p->used + space, rows, cols, cols + gap};
    p->used = mat.offset + rows * mat.ld;
    assert_true(p->used <= p->size);
    return mat;
}

static void pool_put(const pool *p, clprune_mat mat, const float *values)
{
    for (size_t r = 0; r < mat.rows; r++)
        for (size_t c = 0; c < mat.cols; c++)
            p->bits[mat.offset + r * mat.ld + c] = bits_of(values[r * mat.cols + c]);
}

static void pool_write(const pool *p)
{
    TEST_CL(clEnqueueWriteBuffer(clprune_context_queue(test_context()), p->buffer, CL_TRUE, 0,
        p->size * sizeof(float), p->bits, 0, NULL, NULL));
}

/* Fails unless the device holds what `bits` says. */
static void pool_check(const pool *p, const char *what)
{
    uint32_t *got = test_alloc(p->size * sizeof *got);
    TEST_CL(clEnqueueReadBuffer(clprune_context_queue(test_context()), p->buffer, CL_TRUE, 0,
        p->size * sizeof(float), got, 0, NULL, NULL));
    for (size_t i = 0; i < p->size; i++)
        if (got[i] != p->bits[i])
            fail_msg("%s: element %zu of the buffer is %g, not %g", what, i,
                (double)float_of(got[i]), (double)float_of(p->bits[i]));
}

/* Around a vector, a row of work-items, a work-group of either family; and empty ones. */
static const size_t sizes[][2] = {{1, 1}, {3, 5}, {0, 7}, {7, 17}, {1, 384}, {33, 64}, {1, 2049},
    {5, 0}, {130, 131}, {4, 600}, {1, 16384}, {2, 9000}, {196, 196}, {1, 50001}, {40, 3}};

enum { SIZES = COUNT_OF(sizes), TENSORS = 3 * SIZES, VALUES = 3, GRADS = 2 };

typedef struct many_case {
    const char *name;
    clprune_optimizer_info of;
    float momentum;
    size_t gap; /* between the rows, of every second tensor */
    float clip; /* of the norm; 0: no clipping */
} many_case;

static clprune_optimizer_desc desc_of(const many_case *s)
{
    clprune_optimizer_desc desc = test_optimizer_desc(s->of.desc.kind);
    desc.momentum = s->momentum;
    desc.state_bits = s->of.desc.state_bits;
    return desc;
}

typedef struct many {
    pool values[VALUES], grads[GRADS];
    clprune_param params[TENSORS];
    float *p[TENSORS], *g[TENSORS]; /* dense */
    size_t count[TENSORS];
} many;

static void many_make(const many_case *s, many *m)
{
    for (size_t i = 0; i < VALUES; i++)
        m->values[i] = pool_make(400000);
    for (size_t i = 0; i < GRADS; i++)
        m->grads[i] = pool_make(500000);
    test_rng rng = {17};
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t *size = sizes[i % SIZES], gap = i % 2 == 0 ? s->gap : 0;
        /* No order in the buffers: neighbours in the list are rarely neighbours in memory. */
        pool *value = &m->values[test_rng_below(&rng, VALUES)];
        pool *grad = &m->grads[test_rng_below(&rng, GRADS)];
        m->count[i] = size[0] * size[1];
        m->p[i] = test_new_normal(300 + i, m->count[i]);
        m->g[i] = test_new_normal(400 + i, m->count[i]);
        m->params[i] = (clprune_param){NULL, pool_take(value, size[0], size[1], gap, i % 5),
            pool_take(grad, size[0], size[1], gap == 0 ? i % 3 : 0, i % 4), i % 3 != 1};
        pool_put(value, m->params[i].value, m->p[i]);
        pool_put(grad, m->params[i].grad, m->g[i]);
    }
    for (size_t i = 0; i < VALUES; i++)
        pool_write(&m->values[i]);
    for (size_t i = 0; i < GRADS; i++)
        pool_write(&m->grads[i]);
}

/* What clipping multiplies the gradients by. */
static double clip_of(const many_case *s, const many *m, double *norm)
{
    double sum = 0;
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < m->count[i]; j++)
            sum += (double)m->g[i][j] * (double)m->g[i][j];
    *norm = sqrt(sum);
    return s->clip > 0 ? (double)(float)((double)s->clip * *norm) / *norm : 1;
}

/* Reads tensor i and compares it with a step of the reference. */
static void many_check(const many_case *s, const many *m, size_t i, double factor)
{
    const clprune_optimizer_desc desc = desc_of(s);
    const clprune_mat mat = m->params[i].value;
    const size_t count = m->count[i];
    optimizer_ref ref = optimizer_ref_make(count, m->g[i], m->p[i], NULL, NULL);
    for (size_t j = 0; j < count; j++)
        ref.g[j] *= factor;
    optimizer_ref_step(&desc, 1, 0.05, m->params[i].decay, &ref);
    for (size_t j = 0; j < count; j++) /* the clipped gradient is off by 1e-5 of itself */
        ref.p_bound[j] += s->clip > 0 ? 2e-5 * (0.05 * fabs(ref.g[j]) + 0.05) : 0;
    float *got = test_new_normal(0, count);
    TEST_OK(clprune_mat_read(test_context(), mat, got));
    test_close("parameter", mat.rows, mat.cols, got, ref.p, ref.p_bound, "%s, tensor %zu, ld %zu",
        s->name, i, mat.ld);
    pool *values = NULL;
    for (size_t k = 0; k < VALUES; k++)
        if (m->values[k].buffer == mat.buffer)
            values = (pool *)(uintptr_t)&m->values[k];
    assert_non_null(values);
    pool_put(values, mat, got); /* nothing else in the buffer may have changed */
}

/* Two steps of tensor i alone, in buffers of its own: the bits of the step of many. Sums over
 * elements (LAMB's norms) have their order from the rows, so there strides must be the same. */
static void many_alone(const many_case *s, const many *m, size_t i)
{
    clprune_context *context = test_context();
    const clprune_optimizer_desc desc = desc_of(s);
    const clprune_param *param = &m->params[i];
    const clprune_mat mat = param->value, from = param->grad;
    test_mat value = test_mat_make(mat.rows, mat.cols, mat.ld - mat.cols, m->p[i]);
    test_mat grad = test_mat_make(mat.rows, mat.cols, from.ld - from.cols, m->g[i]);
    const clprune_param own = {NULL, value.mat, grad.mat, param->decay};
    clprune_optimizer *optimizer = test_new_optimizer(context, desc, 1, &own);
    for (int t = 0; t < 2; t++)
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
    float *alone = test_mat_get(&value, "parameter"), *together = test_new_normal(0, m->count[i]);
    TEST_OK(clprune_mat_read(context, mat, together));
    test_same_floats(
        "parameter", mat.rows, mat.cols, together, alone, "%s, tensor %zu", s->name, i);
}

static void many_tensors(void **state)
{
    const many_case *s = *state;
    clprune_context *context = test_context();
    const clprune_optimizer_desc desc = desc_of(s);
    static many m;
    double norm_want;
    many_make(s, &m);
    const double factor = clip_of(s, &m, &norm_want);
    clprune_optimizer *optimizer = test_new_optimizer(context, desc, TENSORS, m.params);
    if (s->clip > 0) {
        const double bound = 1e-5 * norm_want;
        test_mat norm = test_mat_make(1, 1, 0, NULL);
        TEST_OK(clprune_optimizer_clip(
            optimizer, (float)((double)s->clip * norm_want), norm.mat, NULL));
        layer_check("norm", &norm, &norm_want, &bound, s->name);
    }
    TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
    for (size_t i = 0; i < TENSORS; i++)
        many_check(s, &m, i, factor);
    for (size_t i = 0; i < VALUES; i++)
        pool_check(&m.values[i], "values");
    if (s->clip == 0) {
        for (size_t i = 0; i < GRADS; i++)
            pool_check(&m.grads[i], "gradients");
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
        for (size_t i = 0; i < TENSORS; i++)
            many_alone(s, &m, i);
    }
}

/* --- Launches --- */

enum { MOST = 150 };

/* `tensors` of 30 elements, the last of 4500, every `pairs`-th in the same two buffers. The calls
 * of a step and of a clip, once the shapes were seen. */
static void count_calls(const clprune_optimizer_desc *desc, size_t tensors, size_t pairs,
    size_t *step_launches, size_t *clip_launches)
{
    clprune_context *context = test_context();
    static clprune_param params[MOST];
    clprune_mat values[MOST], grads[MOST];
    const char *names[MOST];
    assert_true(tensors <= MOST);
    for (size_t i = 0; i < tensors; i++) {
        values[i] = grads[i] = (clprune_mat){.rows = i + 1 < tensors ? 5 : 750, .cols = 6};
        names[i] = "w";
    }
    for (size_t k = 0, first = 0; k < pairs; k++) {
        const size_t count = k + 1 < pairs ? tensors / pairs : tensors - first;
        TEST_OK(
            clprune_mats_create(context, CLPRUNE_MEMORY_PARAMETERS, count, names, values + first));
        TEST_OK(
            clprune_mats_create(context, CLPRUNE_MEMORY_GRADIENTS, count, names, grads + first));
        first += count;
    }
    for (size_t i = 0; i < tensors; i++) {
        params[i] = (clprune_param){"w", values[i], grads[i], true};
        TEST_OK(clprune_mat_fill(context, 1, values[i], NULL));
        TEST_OK(clprune_mat_fill(context, 2, grads[i], NULL));
    }
    clprune_optimizer *optimizer = test_new_optimizer(context, *desc, tensors, params);
    for (int round = 0; round < 3; round++) {
        allocations = waits = launches = 0;
        TEST_OK(clprune_optimizer_clip(optimizer, 1, CLPRUNE_NO_MAT, NULL));
        *clip_launches = launches;
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
        *step_launches = launches - *clip_launches;
    }
    assert_int_equal(allocations, 0);
    assert_int_equal(waits, 0);
    test_end(optimizer);
    for (size_t i = 0; i < tensors; i++) {
        clprune_buffer_release(context, values[i].buffer);
        clprune_buffer_release(context, grads[i].buffer);
    }
}

static void few_launches(void **state)
{
    const many_case *s = *state;
    const clprune_optimizer_desc desc = desc_of(s);
    static const size_t cases[][2] = {{1, 1}, {MOST, 1}, {MOST, 2}, {MOST, 5}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const size_t pairs = cases[i][1];
        size_t step, clip;
        count_calls(&desc, cases[i][0], pairs, &step, &clip);
        assert_int_equal(step, s->of.in_parts ? pairs : 2 * pairs + 1);
        assert_int_equal(clip, 2 * pairs + 2);
    }
}

int main(void)
{
    static many_case cases[2 * 32 + 2];
    size_t count = 0;
    test_list list = {0};
    for (size_t i = 0; clprune_optimizer_describe(i).name != NULL; i++) {
        const clprune_optimizer_info of = clprune_optimizer_describe(i);
        assert(count + 2 <= COUNT_OF(cases));
        const many_case *strided = &cases[count], *clipped = &cases[count + 1];
        cases[count++] = (many_case){of.name, of, 0.9f, 3, 0};
        cases[count++] = (many_case){of.name, of, 0.9f, i % 2 == 0 ? 0 : 3, 0.25f};
        test_add(&list, many_tensors, strided, "many tensors: %s, strides", of.name);
        test_add(&list, many_tensors, clipped, "many tensors: %s, clipped", of.name);
        test_add(&list, few_launches, strided, "launches of %s", of.name);
        if (of.desc.momentum == 0 || of.desc.state_bits == 8)
            continue;
        assert(count < COUNT_OF(cases));
        cases[count] = (many_case){of.name, of, 0, 0, 0};
        test_add(
            &list, many_tensors, &cases[count++], "many tensors: %s without momentum", of.name);
    }
    return test_run_on_devices("optimizer_many", &list);
}
