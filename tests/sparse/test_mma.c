/* Products on tensor cores, emulated and, if the device has them, real, and of bf16 on CPUs:
 * against the double reference of rounded and of exact operands; the precision that a context takes
 * for a requested one.
 *
 * PTX runs where the device has it, the emulation everywhere (CLPRUNE_DEBUG=mma=emulated). Small
 * integers give fp32's bits; ties. A device without tensor cores gives fp32's bits and one warning.
 */
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

enum { SETUPS = COUNT_OF(setups) };

/* Mesa's rusticl dies in its compiler at emulated products (README.md). */
static void skip_if_compiler_dies(setup s)
{
    const clprune_device_info info = clprune_context_device_info(test_context());
    if (s.mma != NULL && strstr(info.platform, "rusticl") != NULL) {
        print_message("not run: %s dies in its compiler\n", info.platform);
        skip();
    }
}

/* A further context on the queue of the one under test, so that they share buffers. The caller
 * destroys it. */
static clprune_context *create_narrow(setup s, journal *j)
{
    const clprune_context_options options = {.precision = s.precision,
        .cache_dir = j != NULL ? "off" : NULL, /* so that builds are logged */
        .log = j != NULL ? note : NULL,
        .log_user = j};
    clprune_context *context = NULL;
    skip_if_compiler_dies(s);
    test_debug(s.mma);
    TEST_OK(clprune_context_create(clprune_context_queue(test_context()), &options, &context));
    test_debug(NULL);
    return context;
}

/* A command that is held back on the caller's queue does not hold back the probe. */
static void on_a_busy_queue(NO_ROW)
{
    skip_if_compiler_dies(setups[0]);
    clprune_context *owner = test_open((clprune_context_options){0});
    const cl_command_queue queue = clprune_context_queue(owner);
    const cl_event gate = test_new_event(owner);
    TEST_CL(clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL));
    const clprune_context_options options = {.precision = setups[0].precision};
    clprune_context *context = NULL;
    test_debug(setups[0].mma);
    const clprune_status status = clprune_context_create(queue, &options, &context);
    TEST_CL(clSetUserEventStatus(gate, CL_COMPLETE));
    TEST_OK(status);
    assert_int_equal(clprune_context_precision(context), setups[0].precision);
    assert_ptr_equal(clprune_context_queue(context), queue);
    clprune_context_destroy(context);
}

/* Such a context for each setup, opened once: what it built serves all cases. */
static clprune_context *narrow_contexts[SETUPS];

static clprune_context *narrow_context(int s)
{
    if (narrow_contexts[s] == NULL)
        narrow_contexts[s] = create_narrow(setups[s], NULL);
    return narrow_contexts[s];
}

/* Skips the case if the context does not have the precision. */
static clprune_context *context_with_cores(int s)
{
    if (clprune_context_precision(narrow_context(s)) != setups[s].precision)
        skip();
    return narrow_context(s);
}

/* The last case. */
static void close_narrow(NO_ROW)
{
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
    float *y = test_floats(count);
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

enum { CASES = COUNT_OF(cases) };

typedef struct row {
    const mma_case *shape;
    int setup;
    product kind; /* TN or NT */
} row;

/* Whether the short list has a case: each format takes blocks of 1x16, and some of the others. */
static bool is_short(int s, product kind, size_t i)
{
    const size_t columns = cases[i].desc.block.cols;
    if (cases[i].desc.block.rows == 1 && columns == 16)
        return cases[i].desc.keep == 130;
    if (setups[s].precision == CLPRUNE_PRECISION_TF32)
        return columns == 1 || columns == 40;
    return columns == 24 || columns == 16 || (columns == 1 && kind == NT);
}

static operands operands_of(const mma_case *c, product kind, size_t gap)
{
    return operands_make(kind, sizes_of(c->desc, c->outputs), 302, gap, 3);
}

/* The product of the rounded operands; of their magnitudes for FP32. */
static gemm_ref narrow_reference(const operands *o, clprune_precision precision, const float *xs)
{
    const size_t elements = o->sizes.batch * o->sizes.rows * o->sizes.cols;
    return operands_reference(
        o, 1, 0, map(o->in, o->in_rows * o->in_cols, precision), map(xs, elements, precision));
}

/* Within the bound of fp32 sums of rounded operands, and within what rounding may move the exact
 * sum by: with operands off by at most u, (2 u + u^2) sum |a||b|. Tensor cores may truncate where
 * fp32 rounds, which the bound allows for four times over. */
static void against_reference(void **state)
{
    const row *r = *state;
    const clprune_precision precision = setups[r->setup].precision;
    const double u = precision == CLPRUNE_PRECISION_TF32 ? 0x1p-11 : 0x1p-8;
    clprune_context *context = context_with_cores(r->setup);
    const size_t in_cols = r->kind == NT ? r->shape->desc.cols : r->shape->outputs;
    operands o = operands_of(r->shape, r->kind, in_cols % 4 == 0 ? 4 : 5);
    packed xs = pack(r->shape->desc, 301, NULL);
    float *dense = bsr_ref_unpack(&xs.wide);
    float *got = product_on(context, &o, &xs.bsr.bsr);
    test_mat_unchanged(&o.din, "dy");

    gemm_ref narrow = narrow_reference(&o, precision, dense);
    gemm_ref size = narrow_reference(&o, CLPRUNE_PRECISION_FP32, dense);
    gemm_ref exact = operands_reference(&o, 1, 0, o.in, dense);
    for (size_t i = 0; i < o.out_rows * o.out_cols; i++) {
        narrow.bound[i] *= 4;
        exact.bound[i] = 4 * exact.bound[i] + (2 * u + u * u) * size.want[i];
    }
    test_close("dw", o.out_rows, o.out_cols, got, narrow.want, narrow.bound,
        "%s, against rounded operands", setup_names[r->setup]);
    test_close("dw", o.out_rows, o.out_cols, got, exact.want, exact.bound,
        "%s, against exact operands", setup_names[r->setup]);
    test_same_floats(
        "dw", o.out_rows, o.out_cols, product_on(context, &o, &xs.bsr.bsr), got, "a second run");
}

/* Small integers are exact in every format, and so are their sums: the bits of fp32. Also where dy,
 * or a kept block, is not finite: padding meets no row and no block that it does not belong to. */
static void integers(void **state)
{
    const row *r = *state;
    const clprune_bsr_desc d = r->shape->desc;
    operands o = operands_of(r->shape, r->kind, 0);
    const size_t elements = d.batch * d.rows * d.cols, count = o.in_rows * o.in_cols;
    test_rng rng = {77};
    float *x = test_floats(elements), *dy = test_floats(count);
    for (int run = 0; run < 3; run++) {
        for (size_t i = 0; i < elements; i++)
            x[i] = run == 2 && i / d.cols % 7 == 0 ? INFINITY : (float)test_rng_below(&rng, 8) + 1;
        for (size_t i = 0; i < count; i++)
            dy[i] = run == 1 && i / o.in_cols % 11 == 0 ? -INFINITY
                                                        : (float)test_rng_below(&rng, 15) - 7;
        packed xs = pack(d, 311, x);
        test_mat_set(&o.din, dy);
        float *want = product_on(test_context(), &o, &xs.bsr.bsr);
        float *got = product_on(narrow_context(r->setup), &o, &xs.bsr.bsr);
        for (size_t i = 0; i < o.out_rows * o.out_cols; i++)
            if (isnan(want[i]) && isnan(got[i]))
                got[i] = want[i]; /* whatever NaN it is */
        test_same_floats(
            "dw", o.out_rows, o.out_cols, got, want, "%s, run %d", setup_names[r->setup], run);
    }
}

static void any_offset(void **state)
{
    const row *r = *state;
    /* tn's vectors: 4 floats of TF32, 2 of bf16 */
    const size_t columns = setups[r->setup].precision == CLPRUNE_PRECISION_TF32 ? 32 : 16;
    packed xs = pack((clprune_bsr_desc){2, 33, 64, {1, columns}, 60}, 351, NULL);
    same_at_any_offset(context_with_cores(r->setup), &xs.bsr, 40);
}

/* One row times one block of ones: dw is dy, rounded, to the bit; and the other way round. */
static void rounding(void **state)
{
    const row *r = *state;
    const clprune_precision precision = setups[r->setup].precision;
    clprune_context *context = context_with_cores(r->setup);
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
        packed xs = pack(d, 321, run == 0 ? ones : special);
        operands o = operands_make(TN, sizes_of(d, COUNT), 0, 0, 3);
        test_mat_set(&o.din, run == 0 ? special : ones);
        float *got = product_on(context, &o, &xs.bsr.bsr);
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
    clprune_context *context = create_narrow(s, j);
    const bool narrow = clprune_context_precision(context) == s.precision;
    assert_true(narrow || clprune_context_precision(context) == CLPRUNE_PRECISION_FP32);
    const bool pairs = s.precision == CLPRUNE_PRECISION_BF16 && s.mma == NULL &&
                       clprune_context_kernels(context) == CLPRUNE_KERNELS_VECTOR;
    assert_true(narrow || (s.mma == NULL && !pairs));
    assert_string_equal(clprune_last_error(context), "");
    const mma_case c = {{2, 30, 64, {1, 16}, 60}, 40};
    packed xs = pack(c.desc, 331, NULL);
    for (int kind = TN; kind <= NT; kind++) {
        operands o = operands_of(&c, (product)kind, 0);
        float *want = product_on(test_context(), &o, &xs.bsr.bsr);
        float *got = product_on(context, &o, &xs.bsr.bsr);
        const size_t count = o.out_rows * o.out_cols;
        size_t same = 0;
        for (size_t i = 0; i < count; i++)
            same += memcmp(got + i, want + i, sizeof *got) == 0;
        assert_true(narrow ? same < count / 4 : same == count);
        const char *kernel =
            test_text(pairs ? "sparse/bspmm_%s_bf16_vector.cl" : "sparse/bspmm_%s_mma.cl",
                product_names[kind]);
        assert_int_equal(strstr(j->text, kernel) != NULL, narrow);
    }
    assert_int_equal(j->warnings, narrow ? 0 : 1);
    assert_int_equal(j->errors, 0);
    if (!narrow)
        assert_non_null(strstr(j->text, "products stay in fp32: the device is not an NVIDIA"));
    clprune_context_destroy(context);
}

/* The emulation of AMX passes its probe, and no kernel has AMX without it. */
static void amx(NO_ROW)
{
    static const struct {
        setup setup;
        const char *says;
    } rows[] = {
        {{CLPRUNE_PRECISION_BF16, "kernels=vector,bf16=tiles"}, "products by AMX, emulated"},
        {{CLPRUNE_PRECISION_BF16, "kernels=vector,bf16=pairs"}, NULL},
        {{CLPRUNE_PRECISION_BF16, "kernels=vector,bf16=converted"}, NULL}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        journal *j = test_alloc(sizeof *j);
        clprune_context *context = create_narrow(rows[i].setup, j);
        const clprune_mat a = test_new_mat(test_context(), 40, 64),
                          c = test_new_mat(test_context(), 40, 40);
        TEST_OK(clprune_mat_fill(context, 1, a, NULL));
        TEST_OK(clprune_gemm(context, false, true, 1, 0, a, a, c, NULL));
        if (rows[i].says != NULL)
            assert_non_null(strstr(j->text, rows[i].says));
        assert_int_equal(strstr(j->text, "-DAMX=2") != NULL, rows[i].says != NULL);
        clprune_context_destroy(context);
    }
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
    char folder[TEST_PATH];
    test_folder_make(folder);
    const char *path = test_text("%s/tuning", folder);
    const char *text = test_text("clprune_tuning = 1\ndevice = %s\ndriver = %s\n%send\n",
        info.device, info.driver, odd->text);
    test_file_write(path, text, strlen(text));
    packed xs = pack(c.desc, 341, NULL);
    float *dense = bsr_ref_unpack(&xs.wide);
    test_environment("CLPRUNE_TUNING", path);
    clprune_context *context = create_narrow(odd->setup, NULL);
    test_environment("CLPRUNE_TUNING", NULL);
    assert_string_equal(clprune_context_tuning_source(context), path);
    for (int kind = TN; kind <= NT; kind++) {
        operands o = operands_of(&c, (product)kind, 0);
        float *got = product_on(context, &o, &xs.bsr.bsr);
        gemm_ref ref = narrow_reference(&o, odd->setup.precision, dense);
        test_close(
            "dw", o.out_rows, o.out_cols, got, ref.want, ref.bound, "%s", product_names[kind]);
    }
    clprune_context_destroy(context);
}

static void creation_fails(clprune_precision precision, const char *part)
{
    const clprune_context_options options = {
        .device = test_device_selection(), .precision = precision};
    test_open_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, part);
}

static clprune_precision precision_of(clprune_precision wanted)
{
    return clprune_context_precision(test_open((clprune_context_options){.precision = wanted}));
}

static void choices(NO_ROW)
{
    const clprune_precision fp32 = CLPRUNE_PRECISION_FP32, tf32 = CLPRUNE_PRECISION_TF32;
    const clprune_precision bf16 = CLPRUNE_PRECISION_BF16, none = CLPRUNE_PRECISION_DEFAULT;
    assert_int_equal(clprune_context_precision(NULL), fp32);
    assert_string_equal(clprune_precision_name(fp32), "fp32");
    assert_string_equal(clprune_precision_name(tf32), "tf32");
    assert_string_equal(clprune_precision_name(bf16), "bf16");
    assert_null(clprune_precision_name((clprune_precision)(bf16 + 1)));
    assert_null(clprune_precision_name((clprune_precision)-1));
    assert_null(clprune_precision_name(none));
    assert_int_equal(clprune_context_precision(test_context()), fp32);
    creation_fails((clprune_precision)4, "precision is 4");
    creation_fails((clprune_precision)-1, "precision");
    test_debug("mma=emulated");
    static const struct {
        const char *variable;
        clprune_precision wanted, taken;
    } rows[] = {
        {NULL, CLPRUNE_PRECISION_DEFAULT, CLPRUNE_PRECISION_FP32},
        {"bf16", CLPRUNE_PRECISION_DEFAULT, CLPRUNE_PRECISION_BF16},
        {"bf16", CLPRUNE_PRECISION_TF32, CLPRUNE_PRECISION_TF32}, /* an option wins */
        {"bf16", CLPRUNE_PRECISION_FP32, CLPRUNE_PRECISION_FP32},
        {"fp32", CLPRUNE_PRECISION_DEFAULT, CLPRUNE_PRECISION_FP32},
        {"", CLPRUNE_PRECISION_DEFAULT, CLPRUNE_PRECISION_FP32},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_environment("CLPRUNE_PRECISION", rows[i].variable);
        assert_int_equal(precision_of(rows[i].wanted), rows[i].taken);
    }
    test_environment("CLPRUNE_PRECISION", "fp16");
    creation_fails(none, "CLPRUNE_PRECISION is \"fp16\"");
    test_environment("CLPRUNE_PRECISION", NULL);
    test_debug("mma=on");
    creation_fails(tf32, "CLPRUNE_DEBUG has \"mma=on\"");
}

/* Both products of one small BSR matrix: they are planned, and noted. */
static void dry_products(clprune_context *dry)
{
    const clprune_bsr xs = test_new_bsr(dry, (clprune_bsr_desc){2, 8, 32, {1, 16}, .keep = 8});
    TEST_OK(clprune_bspmm_tn(
        dry, 1, 0, test_new_mat(dry, 16, 64), &xs, test_new_mat(dry, 64, 32), NULL));
    TEST_OK(clprune_bspmm_nt(
        dry, 1, 0, test_new_mat(dry, 128, 32), &xs, test_new_mat(dry, 64, 8), NULL));
    assert_true(clprune_context_commands(dry) >= 4);
}

/* A dry context has no device to probe: NVIDIA's, and what is emulated, it takes at its word. */
static void dry(NO_ROW)
{
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
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)snprintf(info.vendor, sizeof info.vendor, "%s", rows[i].vendor);
        info.max_work_group = rows[i].work_group;
        test_debug(rows[i].mma);
        clprune_context *context = test_open_dry(&info, &tf32);
        assert_int_equal(clprune_context_precision(context), rows[i].want);
        dry_products(context);
    }
}

int main(void)
{
    static row rows[SETUPS][2][CASES];
    unsetenv("CLPRUNE_PRECISION");
    test_list list = {0};
    test_add(&list, choices, NULL, "options and environment");
    test_add(&list, dry, NULL, "dry contexts");
    test_add(&list, amx, NULL, "AMX");
    test_add(&list, on_a_busy_queue, NULL, "on a busy queue");
    for (int i = 0; i < 2; i++)
        test_add(&list, tuned, &odd_tunings[i], "odd tuning %d", i);
    for (int s = 0; s < SETUPS; s++) {
        rows[s][0][0] = (row){&cases[0], s, TN};
        test_add(&list, wish, &rows[s][0][0], "%s: what a wish becomes", setup_names[s]);
        test_add(&list, rounding, &rows[s][0][0], "%s: ties", setup_names[s]);
        test_add(&list, any_offset, &rows[s][0][0], "%s: values at any offset", setup_names[s]);
        for (int kind = TN; kind <= NT; kind++)
            for (size_t i = 0; i < CASES; i++) {
                if (test_small() && !is_short(s, (product)kind, i))
                    continue;
                const clprune_bsr_desc *d = &cases[i].desc;
                row *r = &rows[s][kind][i];
                *r = (row){&cases[i], s, (product)kind};
                test_add(&list, against_reference, r,
                    "%s: %s %zux%zu, %zu x %zu x %zu, o %zu, keep %zu", setup_names[s],
                    product_names[kind], d->block.rows, d->block.cols, d->batch, d->rows, d->cols,
                    cases[i].outputs, d->keep);
                test_add(&list, integers, r, "%s: %s, integers %zu", setup_names[s],
                    product_names[kind], i);
            }
    }
    test_add(&list, close_narrow, NULL, "the contexts close");
    return test_run_on_each_device("mma", &list);
}
