/* Cases for the functions that create objects, move data and wait. */
#include "support/fault_case.h"
#include "support/test_folder.h"
#include "support/test_objects.h"

enum { BATCH = 2, TOKENS = 4, ROWS = BATCH * TOKENS, COLS = 24, OUT = 8, MOST = ROWS * COLS };

/* ---- matrices with values -------------------------------------------------------------------- */

/* The operands of most cases: x and y like x, a weight, its gradient, an output. */
static clprune_mat x, y, w, dw, out, b;

static const struct {
    clprune_mat *mat;
    size_t rows, cols;
} operands[] = {{&x, ROWS, COLS}, {&y, ROWS, COLS}, {&w, OUT, COLS}, {&dw, OUT, COLS},
    {&out, ROWS, OUT}, {&b, 1, OUT}};

static void open_mats(clprune_context *c, const void *row)
{
    (void)row;
    for (size_t i = 0; i < COUNT_OF(operands); i++)
        *operands[i].mat = test_new_mat(c, operands[i].rows, operands[i].cols);
}

static void prepare_mats(clprune_context *c)
{
    for (size_t i = 0; i < COUNT_OF(operands); i++)
        TEST_OK(clprune_mat_write(c, *operands[i].mat, fault_some((unsigned)i + 1)));
}

static void result_of_mats(clprune_context *c, fault_bytes *to)
{
    fault_add_mat(to, c, y);
    fault_add_mat(to, c, dw);
    fault_add_mat(to, c, out);
}

/* ---- what calls create ----------------------------------------------------------------------- */

static cl_mem buffer;
static clprune_mat made[3];
static clprune_bsr bsr;
static clprune_saved *saved;
static clprune_linear *linear;
static clprune_conv2d *conv;
static clprune_optimizer *optimizer;

static void undo_created(clprune_context *c)
{
    clprune_optimizer_destroy(optimizer);
    clprune_saved_destroy(saved);
    clprune_linear_destroy(linear);
    clprune_conv2d_destroy(conv);
    clprune_bsr_destroy(c, &bsr);
    clprune_buffer_release(c, made[0].buffer);
    clprune_buffer_release(c, buffer);
    optimizer = NULL;
    saved = NULL;
    linear = NULL;
    conv = NULL;
    memset(&bsr, 0, sizeof bsr);
    memset(made, 0, sizeof made);
    buffer = NULL;
}

/* ---- buffers and matrices -------------------------------------------------------------------- */

static clprune_status call_buffer(clprune_context *c)
{
    return fault_checked(
        clprune_buffer_create(c, CLPRUNE_MEMORY_INPUT, "a buffer", 1000, &buffer), &buffer);
}

static clprune_status call_large_buffer(clprune_context *c) /* in huge pages */
{
    return fault_checked(
        clprune_buffer_create(c, CLPRUNE_MEMORY_INPUT, "a large buffer", (size_t)5 << 20, &buffer),
        &buffer);
}

static clprune_status call_mat_create(clprune_context *c)
{
    return fault_checked(
        clprune_mat_create(c, CLPRUNE_MEMORY_PARAMETERS, "a matrix", 7, 5, &made[0]),
        &made[0].buffer);
}

/* Written and read in pieces. */
static clprune_status call_codes(clprune_context *c)
{
    float values[7 * 5];
    clprune_status status = fault_checked(clprune_mat_create_as(c, CLPRUNE_MEMORY_PARAMETERS,
                                              "codes", CLPRUNE_VALUES_CODES4, 7, 5, &made[0]),
        &made[0].buffer);
    THEN(clprune_mat_write(c, made[0], fault_some(9)));
    THEN(clprune_mat_read(c, made[0], values));
    return status;
}

static clprune_status call_mats_create(clprune_context *c)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        made[i] = (clprune_mat){.rows = i + 1, .cols = 5};
    return fault_checked(
        clprune_mats_create(c, CLPRUNE_MEMORY_PARAMETERS, 3, names, made), &made[2].buffer);
}

static float host[MOST + 20];

/* A window with gaps between its rows, and whole matrices; with an event. */
static clprune_status call_transfers(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat window = y;
    window.rows = 3;
    window.cols = 5;
    cl_event event = NULL;
    memset(host, 0, sizeof host);
    THEN(clprune_mat_write(c, window, fault_some(9)));
    THEN(clprune_mat_read(c, window, host));
    THEN(clprune_mat_write(c, dw, fault_some(10)));
    THEN(clprune_mat_read(c, dw, host + 20));
    THEN(clprune_mat_fill(c, 3, out, &event));
    if (status != CLPRUNE_SUCCESS)
        assert_null(event);
    if (event != NULL)
        TEST_CL(clReleaseEvent(event));
    THEN(clprune_mat_copy(c, x, y, NULL));
    THEN(clprune_context_finish(c));
    return status;
}

static void result_of_transfers(clprune_context *c, fault_bytes *to)
{
    result_of_mats(c, to);
    fault_add(to, host, sizeof host);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static cl_command_queue first_queue, other_queue;
static cl_event user_event;

static void open_queues(clprune_context *c, const void *row)
{
    open_mats(c, row);
    first_queue = clprune_context_queue(c);
    TEST_CL(clRetainCommandQueue(first_queue));
    other_queue = test_new_queue(c, 0);
    user_event = test_new_event(c);
    TEST_CL(clSetUserEventStatus(user_event, CL_COMPLETE));
}

static clprune_status call_queues(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(clprune_mat_fill(c, 2, y, NULL));
    THEN(clprune_context_set_queue(c, other_queue));
    THEN(clprune_context_wait(c, 1, &user_event));
    THEN(clprune_mat_copy(c, y, x, NULL));
    THEN(clprune_gemm(c, false, true, 1, 0, x, w, out, NULL));
    THEN(clprune_context_finish(c));
    return status;
}

static void undo_queues(clprune_context *c)
{
    (void)clprune_context_set_queue(c, first_queue);
    (void)clprune_context_finish(c);
}

static void close_queues(clprune_context *c)
{
    (void)c;
    TEST_CL(clReleaseCommandQueue(first_queue));
}

/* ---- sparse and batched products ------------------------------------------------------------- */

static clprune_status call_bsr(
    clprune_context *c, clprune_value_type values, clprune_index_type index)
{
    const clprune_bsr_desc desc = {BATCH, TOKENS, COLS, {1, 4}, 9, values, index};
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    THEN(clprune_bsr_size_query(&desc, &sizes));
    THEN(fault_checked(
        clprune_bsr_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "x", &desc, &bsr), &bsr.values));
    THEN(clprune_prune(c, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x, &bsr, NULL));
    THEN(clprune_bsr_validate(c, &bsr));
    THEN(clprune_bspmm_tn(c, 1, 1, out, &bsr, dw, NULL));
    THEN(clprune_bsr_unpack(c, &bsr, y, NULL));
    return status;
}

static clprune_status call_bsr_plain(clprune_context *c)
{
    return call_bsr(c, CLPRUNE_VALUES_FP32, CLPRUNE_INDEX_INT32);
}

static clprune_status call_bsr_narrow(clprune_context *c)
{
    return call_bsr(c, CLPRUNE_VALUES_INT8, CLPRUNE_INDEX_BITMAP);
}

/* Samples of OUT x COLS times samples of TOKENS x COLS; and samples times a weight. */
static clprune_status call_bsr_forms(clprune_context *c)
{
    const clprune_bsr_desc desc = {
        .batch = BATCH, .rows = TOKENS, .cols = OUT, .block = {1, 4}, .keep = 5};
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat dense = out, square = dw;
    square.rows = TOKENS;
    square.cols = square.ld = TOKENS;
    THEN(clprune_bsr_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "x", &desc, &bsr));
    THEN(clprune_prune(c, CLPRUNE_NORM_L1, CLPRUNE_CRITERION_LARGEST, 0, dense, &bsr, NULL));
    THEN(clprune_bspmm_nt(c, 1, 0, dense, &bsr, square, NULL));
    THEN(clprune_bspmm_nn(c, 1, 0, &bsr, w, y, NULL));
    return status;
}

static clprune_status call_gemm_batched(clprune_context *c)
{
    const clprune_mat one = {x.buffer, 0, TOKENS, COLS, COLS},
                      of = {out.buffer, 0, TOKENS, OUT, OUT};
    cl_event event = NULL;
    const clprune_status status = clprune_gemm_batched(
        c, BATCH, false, true, 1, 1, one, TOKENS * COLS, w, 0, of, TOKENS * OUT, &event);
    assert_true((status == CLPRUNE_SUCCESS) == (event != NULL));
    if (event != NULL)
        TEST_CL(clReleaseEvent(event));
    return status;
}

/* ---- stores of each form --------------------------------------------------------------------- */

typedef struct store_row {
    clprune_keep keep;
    clprune_activation activation; /* for MASK and GELU_CODE */
} store_row;

#define KEEP(...)                                                                                  \
    {                                                                                              \
        .keep = { __VA_ARGS__ }                                                                    \
    }

static const store_row rows[] = {KEEP(.form = CLPRUNE_FORM_DENSE),
    KEEP(.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 4}),
    KEEP(.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f, .block = {1, 4},
        .centre = CLPRUNE_CENTRE_SAMPLE, .criterion = CLPRUNE_CRITERION_SAMPLED,
        .value_type = CLPRUNE_VALUES_BF16, .index_type = CLPRUNE_INDEX_BITMAP),
    KEEP(.form = CLPRUNE_FORM_MEAN), KEEP(.form = CLPRUNE_FORM_QUANTISED, .bits = 4),
    KEEP(.form = CLPRUNE_FORM_POOLED, .cell = 2),
    {.keep = {.form = CLPRUNE_FORM_MASK}, .activation = CLPRUNE_ACTIVATION_RELU},
    {.keep = {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4}, .activation = CLPRUNE_ACTIVATION_GELU}};

static const store_row *row_of;

static void open_store(clprune_context *c, const void *row)
{
    open_mats(c, row);
    row_of = row;
}

static bool is_activation(void)
{
    return row_of->keep.form == CLPRUNE_FORM_MASK || row_of->keep.form == CLPRUNE_FORM_GELU_CODE;
}

static clprune_status use_store(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat part = x, square = dw;
    if (is_activation()) {
        THEN(clprune_activation_forward(
            c, row_of->activation, 0, BATCH, x, CLPRUNE_NO_MAT, y, saved, NULL));
        THEN(clprune_activation_backward(
            c, row_of->activation, 0, BATCH, saved, y, &(clprune_grads){.dx = y}, NULL));
        return status;
    }
    clprune_saved_set_seed(saved, 5);
    part.rows = TOKENS;
    square.rows = 2;
    square.cols = square.ld = TOKENS;
    clprune_mat dy = x;
    dy.rows = BATCH * 2;
    THEN(clprune_saved_store(saved, 0, 1, part, NULL));
    part.offset += TOKENS * COLS;
    THEN(clprune_saved_store(saved, 1, 1, part, NULL));
    THEN(clprune_saved_restore(saved, 0, BATCH, y, NULL));
    THEN(clprune_saved_product_nt(saved, 0, BATCH, 0, dy, square, NULL));
    THEN(clprune_saved_product_tn(saved, 0, BATCH, 1, out, w, NULL));
    return status;
}

static clprune_status call_store(clprune_context *c)
{
    clprune_saved_sizes sizes;
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(clprune_saved_size_query(&row_of->keep, BATCH, TOKENS, COLS, &sizes));
    THEN(fault_checked(
        clprune_saved_create(c, "store", &row_of->keep, BATCH, TOKENS, COLS, &saved), &saved));
    THEN(use_store(c));
    return status;
}

static void result_of_store(clprune_context *c, fault_bytes *to)
{
    result_of_mats(c, to);
    fault_add_mat(to, c, w);
}

/* In memory of the caller, after another shape. */
static clprune_status call_store_in(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(clprune_buffer_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "store", 8192, &buffer));
    THEN(fault_checked(
        clprune_saved_create_in(c, &row_of->keep, 1, 2, COLS, buffer, 4096, 4096, &saved), &saved));
    THEN(clprune_saved_reshape(saved, BATCH, TOKENS, COLS));
    THEN(use_store(c));
    return status;
}

/* ---- host memory ----------------------------------------------------------------------------- */

/* Aligned memory is used in place, other memory is staged, here with gaps between its rows. */
static _Alignas(CLPRUNE_WRAP_ALIGN) float aligned[MOST];
static float gaps[2 * MOST];
static clprune_mat wrapped[2];

static clprune_status call_wrap(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    memcpy(aligned, fault_some(7), sizeof aligned);
    memcpy(gaps, fault_some(8), MOST * sizeof *gaps);
    memcpy(gaps + MOST, fault_some(9), MOST * sizeof *gaps);
    THEN(fault_checked(
        clprune_mat_wrap(c, aligned, ROWS, COLS, COLS, CLPRUNE_ACCESS_READ_WRITE, &wrapped[0]),
        &wrapped[0].buffer));
    THEN(fault_checked(clprune_mat_wrap(c, gaps + 1, ROWS, COLS, 2 * COLS - 1,
                           CLPRUNE_ACCESS_READ_WRITE, &wrapped[1]),
        &wrapped[1].buffer));
    for (int i = 0; i < 2; i++) {
        clprune_mat part = wrapped[i];
        part.rows = OUT;
        THEN(clprune_gemm(c, false, true, 1, 0, wrapped[i], part, out, NULL));
        THEN(clprune_mat_copy(c, x, wrapped[i], NULL));
        THEN(clprune_mat_sync_to_host(c, wrapped[i]));
        THEN(clprune_mat_sync_to_device(c, wrapped[i]));
        THEN(clprune_mat_unwrap(c, &wrapped[i]));
    }
    return status;
}

static void result_of_wrap(clprune_context *c, fault_bytes *to)
{
    fault_add_mat(to, c, out);
    fault_add(to, aligned, sizeof aligned);
    fault_add(to, gaps, sizeof gaps);
}

static void undo_wrap(clprune_context *c)
{
    (void)clprune_mat_unwrap(c, &wrapped[0]);
    (void)clprune_mat_unwrap(c, &wrapped[1]);
}

static clprune_status call_store_host(clprune_context *c)
{
    static _Alignas(CLPRUNE_WRAP_ALIGN) float dy[ROWS * OUT], gradient[OUT * COLS];
    clprune_status status = CLPRUNE_SUCCESS;
    memcpy(aligned, fault_some(7), sizeof aligned);
    memcpy(dy, fault_some(8), sizeof dy);
    memset(gaps, 0, sizeof gaps);
    THEN(clprune_saved_create(c, "store", &row_of->keep, BATCH, TOKENS, COLS, &saved));
    THEN(clprune_saved_store_host(saved, 0, BATCH, aligned, COLS));
    THEN(clprune_saved_restore_host(saved, 0, BATCH, gaps + 1, COLS + 3));
    THEN(clprune_saved_product_tn_host(saved, 0, BATCH, OUT, 0, dy, OUT, gradient, COLS));
    memcpy(aligned, gradient, sizeof gradient);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static clprune_status call_linear(clprune_context *c)
{
    const clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = rows[1].keep};
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(fault_checked(clprune_linear_create(c, &desc, &linear), &linear));
    THEN(
        fault_checked(clprune_linear_saved_create(linear, BATCH, TOKENS, "input", &saved), &saved));
    THEN(clprune_linear_forward(linear, BATCH, x, w, b, out, saved, NULL));
    THEN(clprune_linear_backward(linear, BATCH, saved, out, w,
        &(clprune_grads){.dx = y, .dw = dw, .db = b, .beta = 1}, NULL));
    return status;
}

static const clprune_extent picture = {2, 4};

/* A kernel of 3 x 1 with padding: COLS is 3 * OUT. */
static clprune_status call_conv(clprune_context *c)
{
    const clprune_conv2d_desc desc = {.in = OUT,
        .out = OUT,
        .kernel = {3, 1},
        .padding = {1, 0},
        .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}};
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat in = x, result = y;
    in.rows = result.rows = 1 * ROWS;
    in.cols = in.ld = result.cols = result.ld = OUT;
    THEN(fault_checked(clprune_conv2d_create(c, &desc, &conv), &conv));
    THEN(fault_checked(clprune_conv2d_saved_create(conv, 1, picture, "input", &saved), &saved));
    THEN(clprune_conv2d_forward(conv, 1, picture, in, w, b, result, saved, NULL));
    THEN(clprune_conv2d_backward(conv, 1, picture, saved, result, w,
        &(clprune_grads){.dx = out, .dw = dw, .db = b, .beta = 1}, NULL));
    return status;
}

static clprune_optimizer *stepped;

static clprune_status call_optimizer(clprune_context *c)
{
    static const clprune_optimizer_desc descs[] = {
        {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f},
        {.kind = CLPRUNE_OPTIMIZER_LAMB, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-6f}};
    const clprune_param params[] = {{.name = "y", .value = y, .grad = x, .decay = true},
        {.name = "dw", .value = dw, .grad = w}};
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < 2; i++) {
        clprune_optimizer_destroy(optimizer);
        optimizer = NULL;
        THEN(fault_checked(
            clprune_optimizer_create(c, &descs[i], 2, params, &optimizer), &optimizer));
        THEN(clprune_optimizer_set_rates(optimizer, 0, 0.5f, 0.1f));
        THEN(clprune_optimizer_clip(optimizer, 1, CLPRUNE_NO_MAT, NULL));
        THEN(clprune_optimizer_step(optimizer, 0.1f, NULL));
        THEN(clprune_optimizer_step(optimizer, 0.1f, NULL));
        if (descs[i].kind != CLPRUNE_OPTIMIZER_LAMB)
            THEN(clprune_optimizer_update(optimizer, x.buffer, 0.1f, NULL));
    }
    return status;
}

/* A failed step does not count: the next one is the same step. */
static void open_step(clprune_context *c, const void *row)
{
    const clprune_optimizer_desc desc = {
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};
    open_mats(c, row);
    const clprune_param params[] = {
        {.name = "y", .value = y, .grad = x}, {.name = "dw", .value = dw, .grad = w}};
    stepped = test_new_optimizer(c, desc, 2, params);
}

static void prepare_step(clprune_context *c)
{
    prepare_mats(c);
    clprune_optimizer_set_steps(stepped, 0);
    for (size_t i = 0; i < 4; i++)
        TEST_OK(clprune_mat_fill(c, 0, clprune_optimizer_state(stepped, i / 2, i % 2), NULL));
}

static clprune_status call_step(clprune_context *c)
{
    (void)c;
    const clprune_status status = clprune_optimizer_step(stepped, 0.1f, NULL);
    assert_int_equal(clprune_optimizer_steps(stepped), status == CLPRUNE_SUCCESS);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define MATS(NAME, CALL, RESULT)                                                                   \
    {                                                                                              \
        .name = (NAME), .open = open_mats, .prepare = prepare_mats, .call = (CALL),                \
        .result = (RESULT), .undo = undo_created                                                   \
    }
#define STORED(NAME, ROW, CALL, RESULT)                                                            \
    {                                                                                              \
        .name = NAME, .row = (ROW), .open = open_store, .prepare = prepare_mats, .call = (CALL),   \
        .result = (RESULT), .undo = undo_created                                                   \
    }
#define STORE(name, i)                                                                             \
    STORED("store, " name, &rows[i], call_store, result_of_store),                                 \
        STORED("store in memory, " name, &rows[i], call_store_in, result_of_store)

/* ---- a net ----------------------------------------------------------------------------------- */

static clprune_net *net;

static void undo_net(clprune_context *c)
{
    (void)c;
    clprune_net_destroy(net);
    net = NULL;
}

static void nothing_to_say(void *user, const char *text)
{
    (void)user;
    (void)text;
}

static clprune_status call_net(clprune_context *c)
{
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_COMPACT};
    const clprune_net_data data = {.batch = BATCH, .rows = x, .targets = out};
    clprune_status status =
        fault_checked(clprune_net_create(c, &(clprune_net_desc){.batch = BATCH}, &net), &net);
    clprune_net_value v = clprune_net_rows(net, TOKENS, COLS);
    v = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "hidden", v, COLS));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "head", v, OUT));
    clprune_net_freeze(net, "hidden.weight");
    clprune_net_store_frozen(net, "hidden.*", CLPRUNE_VALUES_CODES8);
    THEN(clprune_net_settle(net, &keep));
    THEN(clprune_net_use_value(net, "head.bias", clprune_mat_of(dw.buffer, 1, OUT)));
    THEN(clprune_net_init(net, 1));
    THEN(clprune_net_print(net, CLPRUNE_NET_TABLE, nothing_to_say, NULL));
    THEN(clprune_net_forward(net, &data, true));
    THEN(clprune_net_loss(net, &data, clprune_mat_of(b.buffer, BATCH, 1), CLPRUNE_NO_MAT));
    THEN(clprune_net_backward(net, &data));
    return status;
}

/* Tokens out of range give NaN, and none are. */
static clprune_status pass_over(void *user, clprune_mat part)
{
    (void)user, (void)part;
    return CLPRUNE_SUCCESS;
}

static clprune_status call_tokens(clprune_context *c)
{
    static const float zeros[ROWS] = {0};
    const clprune_net_data data = {
        .batch = BATCH, .tokens = {y.buffer, 0}, .labels = {y.buffer, 0}};
    const clprune_mat loss = clprune_mat_of(b.buffer, BATCH, 1);
    clprune_status status =
        fault_checked(clprune_net_create(c, &(clprune_net_desc){.batch = BATCH}, &net), &net);
    clprune_net_value v = clprune_net_tokens(net, TOKENS);
    v = clprune_net_positions(net, "wpe", clprune_net_embedding(net, "wte", v, OUT, COLS));
    clprune_net_token_loss(net, "head", clprune_net_gelu(net, "gelu", v), OUT);
    clprune_net_tie(net, "head.weight", "wte.weight");
    THEN(clprune_mat_write(c, clprune_mat_of(y.buffer, 1, ROWS), zeros));
    THEN(clprune_net_settle(net, NULL));
    THEN(clprune_net_init(net, 1));
    THEN(clprune_net_forward(net, &data, false));
    THEN(clprune_net_logits(net, BATCH, 1, clprune_mat_of(out.buffer, BATCH, OUT), NULL));
    THEN(clprune_net_forward(net, &data, true));
    THEN(clprune_net_loss(net, &data, loss, CLPRUNE_NO_MAT));
    THEN(clprune_net_backward(net, &data));
    THEN(clprune_net_visit_grads(net, pass_over, NULL));
    return status;
}

/* Two rows of each sample, one after the other. */
static clprune_status call_rows(clprune_context *c)
{
    const clprune_net_attn attn = {.heads = 1, .causal = true};
    const clprune_net_desc desc = {.batch = BATCH, .infers = true, .rows_at_once = 1};
    clprune_status status = fault_checked(clprune_net_create(c, &desc, &net), &net);
    clprune_net_value v = clprune_net_rows(net, TOKENS, COLS);
    v = clprune_net_rotary_by(net, "rotary", clprune_net_linear(net, "qkv", v, COLS), 1, 1,
        &(clprune_net_angles){.pairs = 1, .frequencies = (const double[]){0.5}});
    (void)clprune_net_attention(net, "attn", v, &attn);
    THEN(clprune_net_settle(net, NULL));
    THEN(clprune_net_init(net, 1));
    for (size_t i = 0; i < 2; i++) {
        const clprune_net_data data = {
            .batch = BATCH, .first = i, .rows = clprune_mat_rows(x, i * BATCH, BATCH)};
        THEN(clprune_net_forward(net, &data, false));
        THEN(clprune_mat_copy(
            c, clprune_net_output(net, BATCH), clprune_mat_rows(out, i * BATCH, BATCH), NULL));
    }
    return status;
}

/* A folder that is no block of memory. */
static char file_folder[TEST_PATH], file_path[TEST_PATH + 8];
static clprune_context *file_context;

static void open_file(clprune_context *c, const void *row)
{
    const char *tmp = getenv("TMPDIR");
    open_mats(c, row);
    file_context = c;
    (void)snprintf(
        file_folder, sizeof file_folder, "%s/clprune.XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(file_folder));
    (void)snprintf(file_path, sizeof file_path, "%s/net", file_folder);
}

static void close_file(clprune_context *c)
{
    (void)c;
    test_folder_remove(file_folder);
}

static const char *text_of_file(void)
{
    return clprune_last_error(file_context);
}

static void undo_file(clprune_context *c)
{
    undo_created(c);
    undo_net(c);
}

static clprune_status clear(void *user, const clprune_net_weight *weight, float *values)
{
    (void)user;
    memset(values, 0, weight->value.rows * weight->value.cols * sizeof *values);
    return CLPRUNE_SUCCESS;
}

static clprune_status call_net_file(clprune_context *c)
{
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW};
    size_t count = 0;
    clprune_status status =
        fault_checked(clprune_net_create(c, &(clprune_net_desc){.batch = BATCH}, &net), &net);
    clprune_net_mean_squared_error(
        net, clprune_net_linear(net, "head", clprune_net_rows(net, TOKENS, COLS), OUT));
    THEN(clprune_net_settle(net, NULL));
    THEN(clprune_net_init(net, 1));
    const clprune_param *params = clprune_net_params(net, &count);
    THEN(fault_checked(clprune_optimizer_create(c, &desc, count, params, &optimizer), &optimizer));
    THEN(clprune_net_save(net, optimizer, file_path));
    THEN(clprune_net_init_with(net, 2, clear, NULL));
    THEN(clprune_net_load(net, optimizer, file_path));
    return status;
}

static void result_of_net_file(clprune_context *c, fault_bytes *to)
{
    size_t count;
    const clprune_param *params = clprune_net_params(net, &count);
    for (size_t i = 0; i < count; i++)
        fault_add_mat(to, c, params[i].value);
}

static void result_of_net(clprune_context *c, fault_bytes *to)
{
    size_t count;
    const clprune_param *params = clprune_net_params(net, &count);
    for (size_t i = 0; i < count; i++)
        fault_add_mat(to, c, params[i].grad);
}

static const fault_case cases[] = {{.name = "net",
                                       .open = open_mats,
                                       .prepare = prepare_mats,
                                       .call = call_net,
                                       .result = result_of_net,
                                       .undo = undo_net},
    {.name = "rows of a net",
        .open = open_mats,
        .prepare = prepare_mats,
        .call = call_rows,
        .result = result_of_mats,
        .undo = undo_net},
    {.name = "net of tokens",
        .open = open_mats,
        .prepare = prepare_mats,
        .call = call_tokens,
        .result = result_of_net,
        .undo = undo_net},
    {.name = "net in a file",
        .open = open_file,
        .prepare = prepare_mats,
        .call = call_net_file,
        .result = result_of_net_file,
        .undo = undo_file,
        .close = close_file,
        .text = text_of_file},
    {.name = "buffer", .call = call_buffer, .undo = undo_created},
    {.name = "large buffer", .call = call_large_buffer, .undo = undo_created},
    {.name = "matrix", .call = call_mat_create, .undo = undo_created},
    {.name = "codes", .call = call_codes, .undo = undo_created},
    {.name = "matrices", .call = call_mats_create, .undo = undo_created},
    MATS("transfers", call_transfers, result_of_transfers),
    {.name = "queues",
        .open = open_queues,
        .prepare = prepare_mats,
        .call = call_queues,
        .result = result_of_mats,
        .undo = undo_queues,
        .close = close_queues},
    MATS("bsr", call_bsr_plain, result_of_mats),
    MATS("bsr, narrow", call_bsr_narrow, result_of_mats),
    MATS("bsr, nt and nn", call_bsr_forms, result_of_mats),
    MATS("gemm_batched", call_gemm_batched, result_of_mats), STORE("dense", 0), STORE("pruned", 1),
    STORE("pruned, centred, sampled, bf16", 2), STORE("mean", 3), STORE("quantised", 4),
    STORE("pooled", 5), STORE("mask", 6), STORE("GELU code", 7),
    {.name = "wrap",
        .open = open_mats,
        .prepare = prepare_mats,
        .call = call_wrap,
        .result = result_of_wrap,
        .undo = undo_wrap},
    STORED("store of the host's", &rows[1], call_store_host, result_of_wrap),
    MATS("linear", call_linear, result_of_mats), MATS("conv2d", call_conv, result_of_mats),
    MATS("optimizer", call_optimizer, result_of_mats),
    {.name = "optimizer_step",
        .open = open_step,
        .prepare = prepare_step,
        .call = call_step,
        .result = result_of_mats}};

size_t fault_object_cases(const fault_case **list)
{
    *list = cases;
    return COUNT_OF(cases);
}
