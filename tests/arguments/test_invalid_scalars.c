/* Scalars, enumerators and small integers in and out of range, in every function that takes them:
 * the exact status, a text that names the argument, no command. All of it runs in a dry context. */
#include <float.h>
#include <limits.h>

#include "nn/layers/activation_private.h"
#include "support/test.h"

static clprune_context *context;
static size_t calls;
static uint64_t commands; /* before the call that is to be refused */

/* `name` begins with the argument's, which the text of a refusal has. */
static void expect(clprune_status status, bool legal, const char *name, const char *what)
{
    const clprune_status expected = legal ? CLPRUNE_SUCCESS : CLPRUNE_INVALID_ARGUMENT;
    const char *argument = test_text("%.*s", (int)strcspn(name, ", "), name);
    const char *text = clprune_last_error(context), *without = clprune_last_error(NULL);
    if (status != expected)
        fail_msg("%s, %s: %s \"%s\", expected %s", name, what, clprune_status_name(status), text,
            clprune_status_name(expected));
    if (!legal && strstr(text, argument) == NULL && strstr(without, argument) == NULL)
        fail_msg("%s, %s: \"%s\", \"%s\"", name, what, text, without);
    if (!legal && clprune_context_commands(context) != commands)
        fail_msg("%s, %s: refused, but commands were enqueued", name, what);
    calls++;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static clprune_mat mats[6]; /* of 2 x 4 */

/* A function of one float, and what it may be. */
typedef struct scalar {
    const char *name;
    clprune_status (*call)(float value);
    float least, most;
    bool open_least, open_most; /* the limit itself is refused */
} scalar;

#define SCALAR(name, expression)                                                                   \
    static clprune_status name(float value)                                                        \
    {                                                                                              \
        return expression;                                                                         \
    }

static clprune_status query(clprune_keep keep)
{
    clprune_saved_sizes found;
    return clprune_saved_size_query(&keep, 2, 3, 64, &found);
}

static clprune_status linear(clprune_keep keep, clprune_axis axis)
{
    const clprune_linear_desc desc = {.in = 4, .out = 2, .axis = axis, .keep = keep};
    clprune_linear *layer = NULL;
    const clprune_status status = clprune_linear_create(context, &desc, &layer);
    clprune_linear_destroy(layer);
    return status;
}

static clprune_status conv(clprune_keep keep)
{
    const clprune_conv2d_desc desc = {.in = 4, .out = 2, .kernel = {1, 1}, .keep = keep};
    clprune_conv2d *layer = NULL;
    const clprune_status status = clprune_conv2d_create(context, &desc, &layer);
    clprune_conv2d_destroy(layer);
    return status;
}

static clprune_keep pruned(float sparsity)
{
    return (clprune_keep){.form = CLPRUNE_FORM_PRUNED, .sparsity = sparsity};
}

SCALAR(keep_sparsity, query(pruned(value)))
SCALAR(layer_sparsity, linear(pruned(value), CLPRUNE_AXIS_FEATURES))
SCALAR(conv_sparsity, conv(pruned(value)))

#define INTS(i) ((clprune_ints){mats[i].buffer, mats[i].offset})
SCALAR(smoothing_forward, clprune_cross_entropy_forward(context, value, mats[0], INTS(1), mats[2],
                              clprune_mat_of(mats[3].buffer, 2, 1), CLPRUNE_NO_MAT, NULL))
SCALAR(smoothing_backward,
    clprune_cross_entropy_backward(context, value, 1, mats[0], INTS(1), mats[2], NULL))
SCALAR(rms_eps, clprune_rms_norm_forward(
                    context, value, mats[0], CLPRUNE_NO_MAT, mats[1], CLPRUNE_NO_MAT, NULL))
SCALAR(smoothing_tokens, clprune_token_loss_forward(context, 2, value, mats[0], INTS(1), mats[2],
                             clprune_mat_of(mats[3].buffer, 1, 1),
                             clprune_mat_of(mats[4].buffer, 2, 1), CLPRUNE_NO_MAT, NULL))
SCALAR(smoothing_tokens_back,
    clprune_token_loss_backward(
        context, value, 1, clprune_mat_of(mats[3].buffer, 1, 1), mats[0], INTS(1), mats[2], NULL))
SCALAR(smoothing_head, clprune_token_head(context, 2, 0, value, 1, 0, mats[0], mats[1],
                           CLPRUNE_NO_MAT, INTS(2), clprune_mat_of(mats[3].buffer, 2, 1),
                           CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL))
SCALAR(drop_path_rate, clprune_drop_path(context, value, 7, 1, 0, mats[0], mats[1], NULL))
SCALAR(dropout_rate, clprune_dropout(context, value, 7, 0, mats[0], mats[1], NULL))
SCALAR(bn_eps, clprune_batch_norm_inverse(context, value, clprune_mat_of(mats[0].buffer, 1, 4),
                   clprune_mat_of(mats[1].buffer, 1, 4), NULL))
SCALAR(ln_eps, clprune_layer_norm_forward(context, value, mats[0], CLPRUNE_NO_MAT, CLPRUNE_NO_MAT,
                   mats[1], CLPRUNE_NO_MAT, NULL))

static clprune_status bn_statistics(float eps, float momentum)
{
    clprune_mat row[5];
    for (size_t i = 0; i < 5; i++)
        row[i] = clprune_mat_of(mats[i].buffer, 1, 4);
    return clprune_batch_norm_statistics(context, 9, eps, row[0], row[1], row[2],
        &(clprune_batch_norm_running){.momentum = momentum, .mean = row[3], .var = row[4]}, NULL);
}

SCALAR(bn_statistics_eps, bn_statistics(value, 0.1f))
SCALAR(bn_momentum, bn_statistics(1e-5f, value))

static clprune_status step(clprune_optimizer *optimizer, float lr)
{
    return clprune_optimizer_step(optimizer, lr, NULL);
}

static clprune_status clip(clprune_optimizer *optimizer, float max_norm)
{
    return clprune_optimizer_clip(optimizer, max_norm, CLPRUNE_NO_MAT, NULL);
}

/* An optimizer with this description, and what is done with it. */
static clprune_status optimise(clprune_optimizer_desc desc,
    clprune_status (*use)(clprune_optimizer *optimizer, float value), float value)
{
    const clprune_param param = {.name = "p", .value = mats[0], .grad = mats[1]};
    clprune_optimizer *optimizer = NULL;
    clprune_status status = clprune_optimizer_create(context, &desc, 1, &param, &optimizer);
    if (status == CLPRUNE_SUCCESS) {
        commands = clprune_context_commands(context); /* of the creation, too */
        status = use(optimizer, value);
    }
    clprune_optimizer_destroy(optimizer);
    return status;
}

static const clprune_optimizer_desc adam = {
    .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};

/* The usual descriptions of all optimizers with another value of one setting, of those that have
 * it: the status that all had. */
static clprune_status each_optimizer(size_t field, float value)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t seen = 0;
    for (size_t i = 0; clprune_optimizer_describe(i).name != NULL; i++) {
        clprune_optimizer_desc desc = clprune_optimizer_describe(i).desc;
        float *setting = (float *)(void *)((char *)&desc + field);
        if (*setting == 0 && field != offsetof(clprune_optimizer_desc, weight_decay))
            continue;
        *setting = value;
        const clprune_status own = optimise(desc, step, 0.1f);
        assert_true(seen++ == 0 || own == status);
        status = own;
    }
    return status;
}

#define SETTING(field)                                                                             \
    SCALAR(optimizer_##field, each_optimizer(offsetof(clprune_optimizer_desc, field), value))
SETTING(momentum)
SETTING(beta1)
SETTING(beta2)
SETTING(eps)
SETTING(weight_decay)

SCALAR(step_lr, optimise(adam, step, value))
SCALAR(clip_norm, optimise(adam, clip, value))

static const scalar scalars[] = {
    {"sparsity of a store", keep_sparsity, 0, 1, false, false},
    {"sparsity of a linear layer", layer_sparsity, 0, 1, false, false},
    {"sparsity of a convolution", conv_sparsity, 0, 1, false, false},
    {"smoothing, forward", smoothing_forward, 0, 1, false, true},
    {"smoothing, backward", smoothing_backward, 0, 1, false, true},
    {"smoothing of tokens, forward", smoothing_tokens, 0, 1, false, true},
    {"smoothing of tokens, backward", smoothing_tokens_back, 0, 1, false, true},
    {"smoothing of a head", smoothing_head, 0, 1, false, true},
    {"rate", dropout_rate, 0, 1, false, true},
    {"rate", drop_path_rate, 0, 1, false, true},
    {"eps of batch_norm_inverse", bn_eps, 0, INFINITY, true, false},
    {"eps of batch_norm_statistics", bn_statistics_eps, 0, INFINITY, true, false},
    {"momentum of batch_norm_statistics", bn_momentum, 0, 1, false, false},
    {"eps of rms_norm_forward", rms_eps, 0, INFINITY, true, false},
    {"eps of layer_norm_forward", ln_eps, 0, INFINITY, true, false},
    {"momentum of optimizers", optimizer_momentum, 0, INFINITY, false, true},
    {"beta1 of optimizers", optimizer_beta1, 0, 1, false, true},
    {"beta2 of optimizers", optimizer_beta2, 0, 1, false, true},
    {"eps of optimizers", optimizer_eps, 0, INFINITY, false, true},
    {"weight_decay of optimizers", optimizer_weight_decay, 0, INFINITY, false, true},
    {"lr", step_lr, 0, INFINITY, false, true},
    {"max_norm", clip_norm, 0, INFINITY, true, false},
};

static void scalars_in_range(NO_ROW)
{
    const float values[] = {NAN, -NAN, -INFINITY, -FLT_MAX, -1.5f, -1, -FLT_MIN, -0.0f, 0, FLT_MIN,
        0.5f, 1, 1.0f + FLT_EPSILON, 1.5f, 1e30f, FLT_MAX, INFINITY};
    for (size_t i = 0; i < COUNT_OF(scalars); i++)
        for (size_t v = 0; v < COUNT_OF(values); v++) {
            const scalar *s = &scalars[i];
            const float x = values[v];
            const bool legal = (s->open_least ? x > s->least : x >= s->least) &&
                               (s->open_most ? x < s->most : x <= s->most);
            commands = clprune_context_commands(context);
            expect(s->call(x), legal, s->name, test_text("%g", (double)x));
        }
}

/* ---- enumerators and small integers ---------------------------------------------------------- */

/* A function of one integer; those from `least` to `most` are legal. */
typedef struct integer {
    const char *name;
    clprune_status (*call)(int value);
    int least, most;
    unsigned but; /* bit i: i is refused though it lies between */
} integer;

#define INTEGER(name, expression)                                                                  \
    static clprune_status name(int value)                                                          \
    {                                                                                              \
        return expression;                                                                         \
    }

#define OF_KEEP(field, type)                                                                       \
    INTEGER(keep_##field, query((clprune_keep){.form = CLPRUNE_FORM_PRUNED, .field = (type)value}))
OF_KEEP(norm, clprune_norm)
OF_KEEP(criterion, clprune_criterion)
OF_KEEP(value_type, clprune_value_type)
OF_KEEP(index_type, clprune_index_type)

INTEGER(keep_form, query((clprune_keep){.form = (clprune_form)value, .bits = 8, .cell = 1}))
INTEGER(keep_rounding,
    query((clprune_keep){
        .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = (clprune_rounding)value}))
INTEGER(code_bits, query((clprune_keep){.form = CLPRUNE_FORM_GELU_CODE, .bits = (unsigned)value}))
INTEGER(
    quantised_bits, query((clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = (unsigned)value}))

INTEGER(
    code_forward, clprune__gelu_code_forward(context, CLPRUNE_ACTIVATION_GELU, (unsigned)value,
                      mats[0], CLPRUNE_NO_MAT, mats[1], clprune_mat_of(mats[2].buffer, 2, 1), NULL))
INTEGER(code_backward, clprune__gelu_code_backward(context, (unsigned)value, 0, mats[0],
                           clprune_mat_of(mats[2].buffer, 2, 1), mats[1], CLPRUNE_NO_MAT, NULL))

static clprune_status sizes(clprune_value_type values, clprune_index_type index)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1, values, index};
    clprune_bsr_sizes found;
    return clprune_bsr_size_query(&desc, &found);
}

static const clprune_bsr_desc blocks = {1, 2, 4, {1, 4}, 1};

INTEGER(desc_type, sizes((clprune_value_type)value, CLPRUNE_INDEX_INT32))
INTEGER(desc_index, sizes(CLPRUNE_VALUES_FP32, (clprune_index_type)value))

static clprune_status prune(clprune_norm norm, clprune_criterion criterion)
{
    const clprune_bsr bsr = {blocks, mats[1].buffer, mats[2].buffer, mats[3].buffer};
    return clprune_prune(context, norm, criterion, 1, mats[0], &bsr, NULL);
}

INTEGER(prune_norm, prune((clprune_norm)value, CLPRUNE_CRITERION_LARGEST))
INTEGER(prune_criterion, prune(CLPRUNE_NORM_L2, (clprune_criterion)value))
INTEGER(layer_axis, linear((clprune_keep){0}, (clprune_axis)value))

INTEGER(activation_kind, clprune_activation_forward(context, (clprune_activation)value, 0, 2,
                             mats[0], CLPRUNE_NO_MAT, mats[1], NULL, NULL))
/* From 1 on: the kinds behind the last one. */
static clprune_status optimizer_from(int value)
{
    unsigned last = 0;
    while (clprune_optimizer_describe(last + 1).desc.state_bits == 32)
        last++;
    const int kind = value > 0 ? (int)((unsigned)value + last) : value;
    return optimise((clprune_optimizer_desc){(clprune_optimizer_kind)kind}, step, 0.1f);
}

INTEGER(optimizer_kind, optimizer_from(value))
INTEGER(state_bits, optimise((clprune_optimizer_desc){.state_bits = (unsigned)value}, step, 0.1f))

static clprune_status wrap_access(int value)
{
    float host[8] = {0};
    clprune_mat mat;
    const clprune_status status =
        clprune_mat_wrap(context, host, 2, 4, 4, (clprune_access)value, &mat);
    if (status == CLPRUNE_SUCCESS)
        TEST_OK(clprune_mat_unwrap(context, &mat));
    return status;
}

static clprune_status category(int value)
{
    cl_mem buffer = NULL;
    const clprune_status status =
        clprune_buffer_create(context, (clprune_memory_category)value, "b", 16, &buffer);
    clprune_buffer_release(context, buffer);
    return status;
}

/* bits 2, 4 and 8 */
#define BITS 2, 8, 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7

static const integer integers[] = {
    {"norm of a store", keep_norm, 0, 2, 0},
    {"criterion of a store", keep_criterion, 0, 2, 0},
    {"value_type of a store", keep_value_type, 0, 4, 0},
    {"index_type of a store", keep_index_type, 0, 3, 1u << 1},
    {"form", keep_form, 0, 6, 0},
    {"rounding", keep_rounding, 0, 1, 0},
    {"bits of GELU codes", code_bits, BITS},
    {"bits of gelu_code_forward", code_forward, BITS},
    {"bits of gelu_code_backward", code_backward, BITS},
    {"bits of quantised codes", quantised_bits, 2, 16, 1u << 3 | 7u << 5 | 127u << 9},
    {"value_type", desc_type, 0, 4, 0},
    {"index_type", desc_index, 0, 3, 1u << 1},
    {"norm of prune", prune_norm, 0, 2, 0},
    {"criterion of prune", prune_criterion, 0, 2, 0},
    {"axis", layer_axis, 0, 1, 0},
    {"activation", activation_kind, 0, 9, 0},
    {"kind of optimizer", optimizer_kind, 0, 0, 0},
    {"state_bits", state_bits, 0, 8, 0xfeu}, /* 0 and 8; 32 is not among the values */
    {"access", wrap_access, 1, 3, 0},
    {"category", category, 0, CLPRUNE_MEMORY_CATEGORIES - 1, 0},
};

static void integers_in_range(NO_ROW)
{
    static const int values[] = {
        INT_MIN, -1000, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 99, 256, 65536, INT_MAX};
    for (size_t i = 0; i < COUNT_OF(integers); i++)
        for (size_t v = 0; v < COUNT_OF(values); v++) {
            const integer *f = &integers[i];
            const int x = values[v];
            const bool legal = x >= f->least && x <= f->most && (f->but >> x & 1) == 0;
            commands = clprune_context_commands(context);
            expect(f->call(x), legal, f->name, test_text("%d", x));
        }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, scalars_in_range, NULL, "scalars");
    test_add(&list, integers_in_range, NULL, "enumerators and small integers");
    context = test_open_dry(NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(mats); i++)
        mats[i] = test_new_mat(context, 2, 4);
    const int failed = test_run_on_host("invalid scalars", &list);
    print_message("%zu calls\n", calls);
    test_end(context);
    return failed;
}
