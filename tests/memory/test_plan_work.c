/* What the commands of a plan are to do, against counts by hand, on a described GPU with tensor
 * cores; no device is opened.
 */
#include "support/test.h"
#include "support/test_objects.h"

static clprune_context *open_gpu_of(uint64_t memory, clprune_precision precision)
{
    clprune_context *dry = test_open_gpu(memory, precision);
    TEST_OK(clprune_plan_begin(dry));
    return dry;
}

static clprune_context *open_gpu(clprune_precision precision)
{
    return open_gpu_of(0, precision);
}

/* The plan's commands by `kernel`; NULL: all. *last is the last one of them. */
static size_t find(const clprune_plan *plan, const char *kernel, clprune_plan_work *last)
{
    const uint64_t commands = clprune_plan_sizes(plan).commands;
    size_t found = 0;
    for (uint64_t k = 0; k < commands; k++) {
        const clprune_plan_work work = clprune_plan_command(plan, k);
        if (kernel != NULL && strcmp(work.kernel, kernel) != 0)
            continue;
        *last = work;
        found++;
    }
    return found;
}

static void assert_work(clprune_plan_work work, double bytes, double multiplications, int precision)
{
    assert_float_equal(work.bytes, bytes, 0.0);
    assert_float_equal(work.multiplications, multiplications, 0.0);
    assert_int_equal(work.precision, precision);
}

/* y = x w^T of 256 x 64 and 128 x 64, and y += so. */
static void product(NO_ROW)
{
    static const clprune_precision precisions[] = {
        CLPRUNE_PRECISION_FP32, CLPRUNE_PRECISION_TF32, CLPRUNE_PRECISION_BF16};
    for (size_t i = 0; i < 3; i++)
        for (int beta = 0; beta < 2; beta++) {
            clprune_context *dry = open_gpu(precisions[i]);
            const clprune_mat x = test_new_mat(dry, 256, 64), w = test_new_mat(dry, 128, 64),
                              y = test_new_mat(dry, 256, 128);
            clprune_plan_work work;
            TEST_OK(clprune_gemm(dry, false, true, 1, (float)beta, x, w, y, NULL));
            assert_int_equal(find(test_new_plan(dry), NULL, &work), 1);
            if (i > 0)
                assert_string_equal(work.kernel, "gemm_tiled");
            assert_work(work, 4 * (256 * 64 + 128 * 64 + (1 + beta) * 256 * 128), 256 * 128 * 64,
                (int)precisions[i]);
        }
}

/* Without a product: bytes alone. */
static void row_wise(NO_ROW)
{
    clprune_context *dry = open_gpu(CLPRUNE_PRECISION_BF16);
    const clprune_mat a = test_new_mat(dry, 40, 24), b = test_new_mat(dry, 40, 24);
    clprune_plan_work work;
    TEST_OK(clprune_mat_fill(dry, 1.0f, clprune_mat_rows(a, 0, 10), NULL));
    TEST_OK(clprune_mat_copy(dry, a, b, NULL));
    TEST_OK(clprune_activation_forward(
        dry, CLPRUNE_ACTIVATION_RELU, 0, 0, a, CLPRUNE_NO_MAT, b, NULL, NULL));
    const clprune_plan *plan = test_new_plan(dry);
    assert_int_equal(find(plan, NULL, &work), 3);
    assert_int_equal(find(plan, "fill", &work), 1);
    assert_work(work, 4 * 10 * 24, 0, CLPRUNE_PRECISION_FP32);
    assert_int_equal(find(plan, "mat_copy", &work), 1);
    assert_work(work, 4 * 2 * 40 * 24, 0, CLPRUNE_PRECISION_FP32);
    assert_int_equal(find(plan, "relu_forward", &work), 1);
    assert_work(work, 4 * 2 * 40 * 24, 0, CLPRUNE_PRECISION_FP32);
}

/* Two images of 8 x 8, 3 x 3 taps, 4 to 8 channels. */
static void convolution(NO_ROW)
{
    clprune_context *dry = open_gpu(CLPRUNE_PRECISION_BF16);
    clprune_conv2d *layer = test_new_conv2d(
        dry, (clprune_conv2d_desc){.in = 32, .out = 8, .kernel = {3, 3}, .padding = {1, 1}});
    clprune_plan_work work;
    TEST_OK(clprune_conv2d_forward(layer, 2, (clprune_extent){8, 8}, test_new_mat(dry, 128, 32),
        test_new_mat(dry, 8, 288), CLPRUNE_NO_MAT, test_new_mat(dry, 128, 8), NULL, NULL));
    assert_int_equal(find(test_new_plan(dry), "conv_tiled", &work), 1);
    assert_work(work, 4 * (128 * 32 + 8 * 288 + 128 * 8), 128 * 8 * 32 * 9, CLPRUNE_PRECISION_BF16);
}

/* A head's rows at a time grow with a GPU's memory. */
static void head_parts(NO_ROW)
{
    enum { ROWS = 1024, COLS = 64, VOCABULARY = 1 << 15 };
    static const struct {
        uint64_t memory;
        size_t parts;
    } cases[] = {{(uint64_t)1 << 30, 8}, {(uint64_t)1 << 33, 4}, {(uint64_t)1 << 37, 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        clprune_context *dry = open_gpu_of(cases[i].memory, CLPRUNE_PRECISION_BF16);
        const clprune_mat x = test_new_mat(dry, ROWS, COLS), loss = test_new_mat(dry, 2, 1);
        const clprune_ints labels = {test_new_mat(dry, 1, ROWS).buffer, 0};
        clprune_plan_work work;
        TEST_OK(clprune_token_head(dry, 2, 0, 0, 1, 0, x, test_new_mat(dry, VOCABULARY, COLS),
            CLPRUNE_NO_MAT, labels, loss, CLPRUNE_NO_MAT, x, test_new_mat(dry, VOCABULARY, COLS),
            CLPRUNE_NO_MAT, NULL));
        assert_int_equal(find(test_new_plan(dry), "cross_entropy_step", &work), cases[i].parts);
    }
}

/* Two samples of 16 x 32 that keep 10 blocks of 1 x 4, with 24 outputs. */
static void kept_blocks(NO_ROW)
{
    clprune_context *dry = open_gpu(CLPRUNE_PRECISION_BF16);
    const clprune_bsr xs = test_new_bsr(
        dry, (clprune_bsr_desc){.batch = 2, .rows = 16, .cols = 32, .block = {1, 4}, .keep = 10});
    clprune_plan_work work;
    TEST_OK(clprune_bspmm_tn(
        dry, 1, 0, test_new_mat(dry, 32, 24), &xs, test_new_mat(dry, 24, 32), NULL));
    const clprune_plan *plan = test_new_plan(dry);
    assert_int_equal(find(plan, "bspmm_tn_mma", &work), 1);
    assert_float_equal(work.multiplications, 2 * 10 * 4 * 24, 0.0);
    assert_int_equal(work.precision, CLPRUNE_PRECISION_BF16);
    assert_true(work.bytes > 4 * (32 * 24 + 2 * 10 * 4)); /* also lists and partial sums */
}

/* Three samples of 16 tokens, two heads of 16: a causal query sees 8.5 keys on average. */
static void attention(NO_ROW)
{
    enum { BATCH = 3, TOKENS = 16, HEADS = 2, COLS = 16 };
    for (int causal = 0; causal < 2; causal++) {
        clprune_context *dry = open_gpu(CLPRUNE_PRECISION_BF16);
        const clprune_attention_desc desc = {
            .rows = TOKENS, .heads = HEADS, .cols = COLS, .causal = causal};
        clprune_mat m[7];
        clprune_plan_work work;
        for (size_t i = 0; i < 7; i++)
            m[i] = test_new_mat(dry, BATCH * TOKENS, HEADS * COLS);
        TEST_OK(clprune_attention_forward(dry, &desc, BATCH, m[0], m[1], m[2], m[3], NULL));
        TEST_OK(clprune_attention_backward(
            dry, &desc, BATCH, m[0], m[1], m[2], m[3], m[4], m[5], m[6], NULL));
        const clprune_plan *plan = test_new_plan(dry);
        const double mat = 4 * BATCH * TOKENS * HEADS * COLS, row = 4 * BATCH * HEADS * TOKENS;
        const double scores = BATCH * HEADS * COLS * (causal ? 136 : 256);
        assert_int_equal(find(plan, "attention_forward_mma", &work), 1);
        assert_work(work, 4 * mat, 2 * scores, CLPRUNE_PRECISION_BF16);
        assert_int_equal(find(plan, "attention_backward_queries_mma", &work), 1);
        assert_work(work, 5 * mat + 2 * row, 3 * scores, CLPRUNE_PRECISION_BF16);
        assert_int_equal(find(plan, "attention_backward_keys_mma", &work), 1);
        assert_work(work, 6 * mat + 2 * row, 4 * scores, CLPRUNE_PRECISION_BF16);
    }
}

/* A step reads gradients, reads and writes values and moments, of 4 bytes or as codes of one. */
static void update(NO_ROW)
{
    for (unsigned bits = 8; bits <= 32; bits += 24) {
        clprune_context *dry = open_gpu(CLPRUNE_PRECISION_BF16);
        clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_ADAMW);
        desc.state_bits = bits;
        const clprune_param param = {
            .name = "w", .value = test_new_mat(dry, 100, 100), .grad = test_new_mat(dry, 100, 100)};
        clprune_plan_work work;
        TEST_OK(clprune_optimizer_step(test_new_optimizer(dry, desc, 1, &param), 0.1f, NULL));
        assert_int_equal(find(test_new_plan(dry), "adamw", &work), 1);
        assert_work(work, (4 + 8 + 2 * 2 * bits / 8) * 10000, 0, CLPRUNE_PRECISION_FP32);
    }
}

static void no_command(NO_ROW)
{
    clprune_context *dry = open_gpu(CLPRUNE_PRECISION_FP32);
    TEST_OK(clprune_mat_fill(dry, 1.0f, test_new_mat(dry, 2, 2), NULL));
    const clprune_plan *plan = test_new_plan(dry);
    const clprune_plan_work none[] = {clprune_plan_command(plan, clprune_plan_sizes(plan).commands),
        clprune_plan_command(NULL, 0)};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(none[i].kernel, "");
        assert_work(none[i], 0, 0, 0);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, product, NULL, "dense products");
    test_add(&list, row_wise, NULL, "row-wise kernels");
    test_add(&list, convolution, NULL, "a convolution");
    test_add(&list, head_parts, NULL, "parts of a head");
    test_add(&list, kept_blocks, NULL, "kept blocks");
    test_add(&list, attention, NULL, "attention");
    test_add(&list, update, NULL, "the optimizer");
    test_add(&list, no_command, NULL, "no command");
    return test_run_on_host("plan_work", &list);
}
