/* Products on tensor cores, emulated and, if the device has them, real: against the double
 * reference of rounded and of exact operands; the precision that a context takes for a requested
 * one.
 *
 * PTX runs where the device has it, the emulation everywhere (CLPRUNE_DEBUG=mma=emulated). Small
 * integers give fp32's bits; ties. A device without tensor cores gives fp32's bits and one warning.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bspmm_ref.h"
#include "support/test_folder.h"
#include "support/test_packed.h"

/* What a context logs. */
typedef struct journal {
    int warnings, errors;
    char text[65536];
} journal;

static void note(void *user, clprune_log_level level, const char *message)
{
    journal *j = user;
    j->warnings += level == CLPRUNE_LOG_WARNING;
    j->errors += level == CLPRUNE_LOG_ERROR;
    const size_t used = strlen(j->text);
    (void)snprintf(j->text + used, sizeof j->text - used, "%s\n", message);
}

typedef struct setup {
    clprune_precision precision;
    const char *mma; /* a word of $CLPRUNE_DEBUG */
} setup;

static const setup setups[] = {{CLPRUNE_PRECISION_TF32, "mma=emulated"},
    {CLPRUNE_PRECISION_BF16, "mma=emulated"}, {CLPRUNE_PRECISION_TF32, NULL},
    {CLPRUNE_PRECISION_BF16, NULL}};
static const char *const setup_names[] = {"tf32 emulated", "bf16 emulated", "tf32", "bf16"};

enum { SETUPS = sizeof setups / sizeof setups[0] };

/* Mesa's rusticl dies in its compiler at emulated products (README.md). */
static void skip_if_compiler_dies(setup s)
{
    const clprune_device_info info = clprune_context_device_info(test_context());
    if (s.mma != NULL && strstr(info.platform, "rusticl") != NULL) {
        print_message("not run: %s dies in its compiler\n", info.platform);
        skip();
    }
}

/* A further context on the queue of the one under test, so that they share buffers. */
static clprune_context *open_narrow(setup s, journal *j)
{
    skip_if_compiler_dies(s);
    const clprune_context_options options = {.precision = s.precision,
        .cache_dir = j != NULL ? "off" : NULL, /* so that builds are logged */
        .log = j != NULL ? note : NULL,
        .log_user = j};
    clprune_context *context = NULL;
    test_debug(s.mma);
    const clprune_status status =
        clprune_context_create(clprune_context_queue(test_context()), &options, &context);
    test_debug(NULL);
    if (status != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(NULL));
    return context;
}

/* A command that is held back on the caller's queue does not hold back the probe. */
static void on_a_busy_queue(void **state)
{
    (void)state;
    clprune_context *owner = NULL, *context = NULL;
    cl_int code;
    skip_if_compiler_dies(setups[0]);
    TEST_OK(test_create((clprune_context_options){0}, &owner));
    const cl_command_queue queue = clprune_context_queue(owner);
    const cl_event gate = clCreateUserEvent(clprune_context_cl(owner), &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL), CL_SUCCESS);
    test_debug(setups[0].mma);
    const clprune_context_options options = {.precision = setups[0].precision};
    const clprune_status status = clprune_context_create(queue, &options, &context);
    test_debug(NULL);
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    TEST_OK(status);
    assert_int_equal(clprune_context_precision(context), setups[0].precision);
    assert_ptr_equal(clprune_context_queue(context), queue);
    clprune_context_destroy(context);
    (void)clReleaseEvent(gate);
    clprune_context_destroy(owner);
}

/* Such a context for each setup, opened once: what it built serves all cases. */
static clprune_context *narrow_contexts[SETUPS];

static clprune_context *narrow_context(int s)
{
    if (narrow_contexts[s] == NULL)
        narrow_contexts[s] = open_narrow(setups[s], NULL);
    return narrow_contexts[s];
}

/* The last case. */
static void close_narrow(void **state)
{
    (void)state;
    for (int s = 0; s < SETUPS; s++) {
        clprune_context_destroy(narrow_contexts[s]);
        narrow_contexts[s] = NULL;
    }
}

/* x to the format's significant bits: TF32's ties go away from zero, bf16's to even. */
static float rounded(clprune_precision precision, float x)
{
    if (x == 0.0f || !isfinite(x))
        return x;
    const double unit = ldexp(1, ilogb((double)x) - (precision == CLPRUNE_PRECISION_TF32 ? 10 : 7));
    const double q = fabs((double)x) / unit, down = floor(q), rest = q - down;
    const bool odd = fmod(down, 2) == 1;
    const bool up = rest > 0.5 || (rest == 0.5 && (precision == CLPRUNE_PRECISION_TF32 || odd));
    return (float)copysign((down + (up ? 1 : 0)) * unit, (double)x);
}

static float *map(const float *x, size_t count, clprune_precision precision)
{
    float *y = test_alloc(count * sizeof *y);
    for (size_t i = 0; i < count; i++)
        y[i] = precision == CLPRUNE_PRECISION_FP32 ? fabsf(x[i]) : rounded(precision, x[i]);
    return y;
}

typedef struct mma_case {
    clprune_bsr_desc desc;
    size_t outputs;
} mma_case;

/* Blocks of every number of columns a lane may hold, ragged sides, several segments, panels, groups
 * and parts of a block; few kept blocks leave rows and columns empty. */
static const mma_case cases[] = {
    {{3, 37, 21, {1, 1}, 389}, 71},
    {{2, 19, 45, {1, 4}, 228}, 64},
    {{2, 40, 40, {1, 8}, 61}, 33},
    {{5, 37, 101, {1, 16}, 130}, 71},
    {{5, 37, 101, {1, 16}, 259}, 71},
    {{5, 37, 101, {1, 16}, 2}, 71},
    {{2, 33, 60, {1, 24}, 50}, 130},
    {{2, 33, 64, {1, 32}, 33}, 17},
    {{1, 300, 129, {1, 64}, 450}, 16},
    {{2, 21, 80, {1, 40}, 21}, 8},
    {{1, 290, 300, {1, 16}, 300}, 7},
    {{2, 26, 23, {3, 7}, 18}, 65},
    {{3, 50, 64, {16, 16}, 9}, 40},
    {{1, 1, 5, {1, 5}, 1}, 1},
};

enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct row {
    const mma_case *shape;
    int setup, product; /* 0: tn, 1: nt */
} row;

static const char *const product_names[] = {"tn", "nt"};

/* Whether the short list has a case: each format takes blocks of 1x16, and some of the others. */
static bool is_short(int s, int product, size_t i)
{
    const size_t columns = cases[i].desc.block.cols;
    if (cases[i].desc.block.rows == 1 && columns == 16)
        return cases[i].desc.keep == 130;
    if (setups[s].precision == CLPRUNE_PRECISION_TF32)
        return columns == 1 || columns == 40;
    return columns == 24 || columns == 16 || (columns == 1 && product == 1);
}

static gemm_ref reference(int product, const mma_case *c, const float *dy, const float *xs)
{
    const bspmm_ref_sizes s = {c->desc.batch, c->desc.rows, c->desc.cols, c->outputs};
    return product == 0 ? bspmm_ref_tn(s, 1, 0, dy, xs, NULL) : bspmm_ref_nt(s, 1, 0, dy, xs, NULL);
}

/* dw of a product on a context; of canaries where it is not written. */
static float *product_on(
    clprune_context *context, int product, clprune_mat dy, const clprune_bsr *xs, sides side)
{
    test_mat out = test_mat_make(side.out_rows, side.out_cols, 3, NULL);
    const clprune_status status = product == 0
                                      ? clprune_bspmm_tn(context, 1, 0, dy, xs, out.mat, NULL)
                                      : clprune_bspmm_nt(context, 1, 0, dy, xs, out.mat, NULL);
    if (status != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(context));
    assert_int_equal(clprune_context_finish(context), CLPRUNE_SUCCESS);
    float *got = test_mat_get(&out, "dw");
    return got;
}

/* Within the bound of fp32 sums of rounded operands, and within what rounding may move the exact
 * sum by: with operands off by at most u, (2 u + u^2) sum |a||b|. Tensor cores may truncate where
 * fp32 rounds, which the bound allows for four times over. */
static void against_reference(void **state)
{
    const row *r = *state;
    const mma_case *c = r->shape;
    const clprune_precision precision = setups[r->setup].precision;
    const double u = precision == CLPRUNE_PRECISION_TF32 ? 0x1p-11 : 0x1p-8;
    clprune_context *context = narrow_context(r->setup);
    if (clprune_context_precision(context) != precision)
        skip(); /* without tensor cores */
    const sides side = sides_of(r->product, c->desc, c->outputs);
    const size_t elements_out = side.out_rows * side.out_cols;
    packed xs = pack(c->desc, 301, NULL);
    float *dense = bsr_ref_unpack(&xs.wide),
          *dy = test_new_normal(302, side.in_rows * side.in_cols);
    const size_t gap = side.in_cols % 4 == 0 ? 4 : 5;
    test_mat in = test_mat_make(side.in_rows, side.in_cols, gap, dy);
    float *got = product_on(context, r->product, in.mat, &xs.bsr.bsr, side);
    test_mat_unchanged(&in, "dy");

    const size_t elements = c->desc.batch * c->desc.rows * c->desc.cols;
    float *dy_narrow = map(dy, side.in_rows * side.in_cols, precision);
    float *xs_narrow = map(dense, elements, precision);
    gemm_ref narrow = reference(r->product, c, dy_narrow, xs_narrow);
    for (size_t i = 0; i < elements_out; i++)
        narrow.bound[i] *= 4;
    test_close("dw", side.out_rows, side.out_cols, got, narrow.want, narrow.bound,
        "%s, against rounded operands", setup_names[r->setup]);

    float *dy_size = map(dy, side.in_rows * side.in_cols, CLPRUNE_PRECISION_FP32);
    float *xs_size = map(dense, elements, CLPRUNE_PRECISION_FP32);
    gemm_ref exact = reference(r->product, c, dy, dense);
    gemm_ref size = reference(r->product, c, dy_size, xs_size);
    for (size_t i = 0; i < elements_out; i++)
        exact.bound[i] = 4 * exact.bound[i] + (2 * u + u * u) * size.want[i];
    test_close("dw", side.out_rows, side.out_cols, got, exact.want, exact.bound,
        "%s, against exact operands", setup_names[r->setup]);

    float *again = product_on(context, r->product, in.mat, &xs.bsr.bsr, side);
    test_same_floats("dw", side.out_rows, side.out_cols, again, got, "a second run");
}

/* Small integers are exact in every format, and so are their sums: the bits of fp32. Also where dy,
 * or a kept block, is not finite: padding meets no row and no block that it does not belong to. */
static void integers(void **state)
{
    const row *r = *state;
    const mma_case *c = r->shape;
    clprune_context *context = narrow_context(r->setup);
    const sides side = sides_of(r->product, c->desc, c->outputs);
    const size_t elements = c->desc.batch * c->desc.rows * c->desc.cols;
    const size_t count = side.in_rows * side.in_cols;
    test_rng rng = {77};
    float *x = test_alloc(elements * sizeof *x), *dy = test_alloc(count * sizeof *dy);
    for (int run = 0; run < 3; run++) {
        for (size_t i = 0; i < elements; i++)
            x[i] = run == 2 && i / c->desc.cols % 7 == 0 ? INFINITY
                                                         : (float)test_rng_below(&rng, 8) + 1;
        for (size_t i = 0; i < count; i++)
            dy[i] = run == 1 && i / side.in_cols % 11 == 0 ? -INFINITY
                                                           : (float)test_rng_below(&rng, 15) - 7;
        packed xs = pack(c->desc, 311, x);
        test_mat in = test_mat_make(side.in_rows, side.in_cols, 0, dy);
        float *want = product_on(test_context(), r->product, in.mat, &xs.bsr.bsr, side);
        float *got = product_on(context, r->product, in.mat, &xs.bsr.bsr, side);
        for (size_t i = 0; i < side.out_rows * side.out_cols; i++)
            if (isnan(want[i]) && isnan(got[i]))
                got[i] = want[i]; /* whatever NaN it is */
        test_same_floats("dw", side.out_rows, side.out_cols, got, want, "%s, run %d",
            setup_names[r->setup], run);
    }
}

/* Values may begin at any float of their buffer, also where vectors of them would not. */
static void any_offset(void **state)
{
    const row *r = *state;
    const clprune_precision precision = setups[r->setup].precision;
    /* tn's vectors: 4 floats of TF32, 2 of bf16 */
    const size_t columns = precision == CLPRUNE_PRECISION_TF32 ? 32 : 16;
    clprune_context *context = narrow_context(r->setup);
    if (clprune_context_precision(context) != precision)
        skip(); /* without tensor cores */
    for (int product = 0; product < 2; product++) {
        const clprune_bsr_desc d = {2, 33, 64, {1, columns}, 60};
        const sides side = sides_of(product, d, 40);
        packed xs = pack(d, 351, NULL);
        float *dy = test_new_normal(352, side.in_rows * side.in_cols);
        test_mat in = test_mat_make(side.in_rows, side.in_cols, 0, dy);
        float *want = product_on(context, product, in.mat, &xs.bsr.bsr, side);
        for (size_t bytes = sizeof(float); bytes < 16; bytes += sizeof(float)) {
            test_buf values;
            const clprune_bsr moved = test_bsr_moved(&xs.bsr, bytes, &values);
            float *got = product_on(context, product, in.mat, &moved, side);
            test_same_floats("dw", side.out_rows, side.out_cols, got, want,
                "%s, %s, blocks of %zu columns, values from byte %zu on", setup_names[r->setup],
                product_names[product], columns, bytes);
        }
    }
}

/* One row times one block of ones: dw is dy, rounded, to the bit; and the other way round. */
static void rounding(void **state)
{
    const row *r = *state;
    const clprune_precision precision = setups[r->setup].precision;
    clprune_context *context = narrow_context(r->setup);
    if (clprune_context_precision(context) != precision)
        skip();
    enum { COUNT = 64 };
    /* Halves of a unit in the last place, of even and odd neighbours, and what lies beside them. */
    float special[COUNT], ones[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const double unit = precision == CLPRUNE_PRECISION_TF32 ? 0x1p-10 : 0x1p-7;
        const double near = i % 3 == 0 ? 0 : i % 3 == 1 ? -0x1p-22 : 0x1p-22;
        special[i] = (float)ldexp((i % 2 ? -1 : 1) * (1 + (i + 0.5) * unit + near), i - 32);
        ones[i] = 1;
    }
    special[0] = 0x1.fffffep0f; /* to the next power of two */
    for (int run = 0; run < 2; run++) {
        const clprune_bsr_desc d = {1, 1, COUNT, {1, 16}, COUNT / 16};
        const sides side = sides_of(0, d, COUNT);
        packed xs = pack(d, 321, run == 0 ? ones : special);
        test_mat in = test_mat_make(1, COUNT, 0, run == 0 ? special : ones);
        float *got = product_on(context, 0, in.mat, &xs.bsr.bsr, side);
        for (size_t i = 0; i < COUNT * COUNT; i++) {
            const float x = special[run == 0 ? i / COUNT : i % COUNT];
            if (got[i] != rounded(precision, x))
                fail_msg("%s: %a became %a instead of %a", setup_names[r->setup], (double)x,
                    (double)got[i], (double)rounded(precision, x));
        }
    }
}

/* Asking for a precision: what is logged, what is in use, which kernel runs, and to what bits. */
static void wish(void **state)
{
    const row *r = *state;
    const setup s = setups[r->setup];
    journal *j = test_alloc(sizeof *j);
    clprune_context *context = open_narrow(s, j);
    const bool narrow = clprune_context_precision(context) == s.precision;
    assert_true(narrow || clprune_context_precision(context) == CLPRUNE_PRECISION_FP32);
    assert_true(narrow || s.mma == NULL);
    assert_string_equal(clprune_last_error(context), "");
    const clprune_bsr_desc d = {2, 30, 64, {1, 16}, 60};
    packed xs = pack(d, 331, NULL);
    for (int product = 0; product < 2; product++) {
        const sides side = sides_of(product, d, 40);
        float *dy = test_new_normal(332, side.in_rows * side.in_cols);
        test_mat in = test_mat_make(side.in_rows, side.in_cols, 0, dy);
        float *want = product_on(test_context(), product, in.mat, &xs.bsr.bsr, side);
        float *got = product_on(context, product, in.mat, &xs.bsr.bsr, side);
        size_t same = 0;
        for (size_t i = 0; i < side.out_rows * side.out_cols; i++)
            same += memcmp(got + i, want + i, sizeof *got) == 0;
        if (narrow)
            assert_true(same < side.out_rows * side.out_cols / 4);
        else
            assert_int_equal(same, side.out_rows * side.out_cols);
        char kernel[32];
        (void)snprintf(kernel, sizeof kernel, "sparse/bspmm_%s_mma.cl", product_names[product]);
        assert_int_equal(strstr(j->text, kernel) != NULL, narrow);
    }
    assert_int_equal(j->warnings, narrow ? 0 : 1);
    assert_int_equal(j->errors, 0);
    if (!narrow)
        assert_non_null(
            strstr(j->text, "block-sparse products stay in fp32: the device is not an NVIDIA"));
    clprune_context_destroy(context);
}

/* Legal tile sizes that nobody would choose, with a format each. */
static const struct odd_tuning {
    setup setup;
    const char *text;
} odd_tunings[] = {
    {{CLPRUNE_PRECISION_TF32, "mma=emulated"},
        "mma_tn.panel = 96\nmma_tn.tile_columns = 8\nmma_tn.segment_rows = 1\n"
        "mma_tn.groups_per_unit = 1\nmma_nt.panel = 96\nmma_nt.segment_rows = 1\n"
        "mma_nt.groups_per_unit = 1\n"},
    {{CLPRUNE_PRECISION_BF16, "mma=emulated"},
        "mma_tn.panel = 32\nmma_tn.tile_columns = 32\nmma_tn.segment_rows = 37\n"
        "mma_tn.groups_per_unit = 256\nmma_nt.panel = 32\nmma_nt.segment_rows = 37\n"
        "mma_nt.groups_per_unit = 256\n"},
};

/* Products under them. */
static void tuned(void **state)
{
    const struct odd_tuning *odd = *state;
    const mma_case c = {{3, 45, 72, {1, 8}, 200}, 100};
    const clprune_device_info info = clprune_context_device_info(test_context());
    char folder[TEST_PATH], path[TEST_PATH + 16], text[1024];
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/tuning", folder);
    const int length =
        snprintf(text, sizeof text, "clprune_tuning = 1\ndevice = %s\ndriver = %s\n%send\n",
            info.device, info.driver, odd->text);
    test_file_write(path, text, (size_t)length);
    packed xs = pack(c.desc, 341, NULL);
    float *dense = bsr_ref_unpack(&xs.wide);
    test_environment("CLPRUNE_TUNING", path);
    clprune_context *context = open_narrow(odd->setup, NULL);
    test_environment("CLPRUNE_TUNING", NULL);
    assert_string_equal(clprune_context_tuning_source(context), path);
    for (int product = 0; product < 2; product++) {
        const sides side = sides_of(product, c.desc, c.outputs);
        const size_t count = side.in_rows * side.in_cols;
        float *dy = test_new_normal(342, count);
        test_mat in = test_mat_make(side.in_rows, side.in_cols, 0, dy);
        float *got = product_on(context, product, in.mat, &xs.bsr.bsr, side);
        float *dy_narrow = map(dy, count, odd->setup.precision);
        float *xs_narrow =
            map(dense, c.desc.batch * c.desc.rows * c.desc.cols, odd->setup.precision);
        gemm_ref ref = reference(product, &c, dy_narrow, xs_narrow);
        test_close("dw", side.out_rows, side.out_cols, got, ref.want, ref.bound, "%s",
            product_names[product]);
    }
    clprune_context_destroy(context);
    test_folder_remove(folder);
}

static void creation_fails(clprune_context_options options, const char *part)
{
    clprune_context *context = test_context();
    assert_int_equal(test_create(options, &context), CLPRUNE_INVALID_ARGUMENT);
    assert_null(context);
    if (strstr(clprune_last_error(NULL), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, clprune_last_error(NULL));
}

static clprune_precision precision_of(clprune_context_options options)
{
    clprune_context *context;
    assert_int_equal(test_create(options, &context), CLPRUNE_SUCCESS);
    const clprune_precision precision = clprune_context_precision(context);
    clprune_context_destroy(context);
    return precision;
}

static void choices(void **state)
{
    (void)state;
    const clprune_context_options none = {0}, tf32 = {.precision = CLPRUNE_PRECISION_TF32};
    const clprune_context_options fp32 = {.precision = CLPRUNE_PRECISION_FP32};
    assert_int_equal(clprune_context_precision(NULL), CLPRUNE_PRECISION_FP32);
    assert_string_equal(clprune_precision_name(CLPRUNE_PRECISION_FP32), "fp32");
    assert_string_equal(clprune_precision_name(CLPRUNE_PRECISION_TF32), "tf32");
    assert_string_equal(clprune_precision_name(CLPRUNE_PRECISION_BF16), "bf16");
    assert_null(clprune_precision_name((clprune_precision)(CLPRUNE_PRECISION_BF16 + 1)));
    assert_null(clprune_precision_name((clprune_precision)-1));
    assert_null(clprune_precision_name(CLPRUNE_PRECISION_DEFAULT));
    assert_int_equal(clprune_context_precision(test_context()), CLPRUNE_PRECISION_FP32);
    creation_fails((clprune_context_options){.precision = (clprune_precision)4}, "precision is 4");
    creation_fails((clprune_context_options){.precision = (clprune_precision)-1}, "precision");
    test_debug("mma=emulated");
    assert_int_equal(precision_of(none), CLPRUNE_PRECISION_FP32);
    test_environment("CLPRUNE_PRECISION", "bf16");
    assert_int_equal(precision_of(none), CLPRUNE_PRECISION_BF16);
    assert_int_equal(precision_of(tf32), CLPRUNE_PRECISION_TF32); /* an option wins */
    assert_int_equal(precision_of(fp32), CLPRUNE_PRECISION_FP32);
    test_environment("CLPRUNE_PRECISION", "fp32");
    assert_int_equal(precision_of(none), CLPRUNE_PRECISION_FP32);
    test_environment("CLPRUNE_PRECISION", "");
    assert_int_equal(precision_of(none), CLPRUNE_PRECISION_FP32);
    test_environment("CLPRUNE_PRECISION", "fp16");
    creation_fails(none, "CLPRUNE_PRECISION is \"fp16\"");
    test_environment("CLPRUNE_PRECISION", NULL);
    test_debug("mma=on");
    creation_fails(tf32, "CLPRUNE_DEBUG has \"mma=on\"");
    test_debug(NULL);
}

/* Both products of one small BSR matrix: they are planned, and noted. */
static void dry_products(clprune_context *dry)
{
    const clprune_bsr_desc desc = {.batch = 2, .rows = 8, .cols = 32, .block = {1, 16}, .keep = 8};
    clprune_bsr xs;
    clprune_mat dy_tn, dw_tn, dy_nt, dw_nt;
    const clprune_memory_category of = CLPRUNE_MEMORY_ACTIVATIONS;
    assert_int_equal(clprune_bsr_create(dry, of, "xs", &desc, &xs), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(dry, of, "dy_tn", 16, 64, &dy_tn), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(dry, of, "dw_tn", 64, 32, &dw_tn), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(dry, of, "dy_nt", 128, 32, &dy_nt), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(dry, of, "dw_nt", 64, 8, &dw_nt), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_bspmm_tn(dry, 1, 0, dy_tn, &xs, dw_tn, NULL), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_bspmm_nt(dry, 1, 0, dy_nt, &xs, dw_nt, NULL), CLPRUNE_SUCCESS);
    assert_true(clprune_context_commands(dry) >= 4);
}

/* A dry context has no device to probe: NVIDIA's, and what is emulated, it takes at its word. */
static void dry(void **state)
{
    (void)state;
    clprune_device_info info = clprune_context_device_info(test_context());
    const clprune_context_options tf32 = {.precision = CLPRUNE_PRECISION_TF32};
    static const struct {
        const char *vendor, *mma;
        uint64_t work_group;
        clprune_precision want;
    } rows[] = {{"NVIDIA Corporation", NULL, 1024, CLPRUNE_PRECISION_TF32},
        {"NVIDIA Corporation", NULL, 16, CLPRUNE_PRECISION_FP32}, /* smaller than a warp */
        {"somebody", NULL, 1024, CLPRUNE_PRECISION_FP32},
        {"somebody", "mma=emulated", 1024, CLPRUNE_PRECISION_TF32},
        {"somebody", "mma=emulated", 16, CLPRUNE_PRECISION_FP32}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        clprune_context *context;
        (void)snprintf(info.vendor, sizeof info.vendor, "%s", rows[i].vendor);
        info.max_work_group = rows[i].work_group;
        test_debug(rows[i].mma);
        assert_int_equal(clprune_context_create_dry(&info, &tf32, &context), CLPRUNE_SUCCESS);
        assert_int_equal(clprune_context_precision(context), rows[i].want);
        dry_products(context);
        clprune_context_destroy(context);
    }
    test_debug(NULL);
}

int main(void)
{
    static row rows[SETUPS][2][CASES];
    unsetenv("CLPRUNE_PRECISION");
    test_list list = {0};
    test_add(&list, choices, NULL, "options and environment");
    test_add(&list, dry, NULL, "dry contexts");
    test_add(&list, on_a_busy_queue, NULL, "on a busy queue");
    for (int i = 0; i < 2; i++)
        test_add(&list, tuned, &odd_tunings[i], "odd tuning %d", i);
    for (int s = 0; s < SETUPS; s++) {
        rows[s][0][0] = (row){&cases[0], s, 0};
        test_add(&list, wish, &rows[s][0][0], "%s: what a wish becomes", setup_names[s]);
        test_add(&list, rounding, &rows[s][0][0], "%s: ties", setup_names[s]);
        test_add(&list, any_offset, &rows[s][0][0], "%s: values at any offset", setup_names[s]);
        for (int product = 0; product < 2; product++)
            for (size_t i = 0; i < CASES; i++) {
                if (test_small() && !is_short(s, product, i))
                    continue;
                const clprune_bsr_desc *d = &cases[i].desc;
                row *r = &rows[s][product][i];
                *r = (row){&cases[i], s, product};
                test_add(&list, against_reference, r,
                    "%s: %s %zux%zu, %zu x %zu x %zu, o %zu, keep %zu", setup_names[s],
                    product_names[product], d->block.rows, d->block.cols, d->batch, d->rows,
                    d->cols, cases[i].outputs, d->keep);
                test_add(&list, integers, r, "%s: %s, integers %zu", setup_names[s],
                    product_names[product], i);
            }
    }
    test_add(&list, close_narrow, NULL, "the contexts close");
    return test_run_on_each_device("mma", &list);
}
