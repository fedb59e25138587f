/* Scalars, enumerators and small integers in and out of range, in every function that takes them:
 * the exact status, and a text. All of it runs in a dry context. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "support/test_device.h"

static clprune_context *context;
static size_t calls;

static void expect(
    clprune_status status, clprune_status expected, const char *name, const char *what)
{
    const char *text = clprune_last_error(context);
    if (text[0] == 0) /* functions without a context */
        text = clprune_last_error(NULL);
    if (status != expected || (status != CLPRUNE_SUCCESS && text[0] == 0))
        fail_msg("%s, %s: %s \"%s\", expected %s", name, what, clprune_status_name(status),
            status == CLPRUNE_SUCCESS ? "" : text, clprune_status_name(expected));
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

static clprune_status keep_sparsity(float value)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = value};
    clprune_saved_sizes found;
    return clprune_saved_size_query(&keep, 2, 3, 4, &found);
}

static clprune_status layer_sparsity(float value)
{
    const clprune_linear_desc desc = {
        .in = 4, .out = 2, .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = value}};
    clprune_linear *layer = NULL;
    const clprune_status status = clprune_linear_create(context, &desc, &layer);
    clprune_linear_destroy(layer);
    return status;
}

static clprune_status conv_sparsity(float value)
{
    const clprune_conv2d_desc desc = {.in = 4,
        .out = 2,
        .kernel = {1, 1},
        .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = value}};
    clprune_conv2d *layer = NULL;
    const clprune_status status = clprune_conv2d_create(context, &desc, &layer);
    clprune_conv2d_destroy(layer);
    return status;
}

static clprune_status smoothing_forward(float value)
{
    return clprune_cross_entropy_forward(context, value, mats[0], mats[1].buffer, mats[2],
        clprune_mat_of(mats[3].buffer, 2, 1), CLPRUNE_NO_MAT, NULL);
}

static clprune_status smoothing_backward(float value)
{
    return clprune_cross_entropy_backward(
        context, value, 1, mats[0], mats[1].buffer, mats[2], NULL);
}

static clprune_status bn_eps(float value)
{
    return clprune_batch_norm_inverse(context, value, clprune_mat_of(mats[0].buffer, 1, 4),
        clprune_mat_of(mats[1].buffer, 1, 4), NULL);
}

static clprune_status bn_statistics(float eps, float momentum)
{
    clprune_mat row[5];
    for (size_t i = 0; i < 5; i++)
        row[i] = clprune_mat_of(mats[i].buffer, 1, 4);
    return clprune_batch_norm_statistics(context, 9, eps, row[0], row[1], row[2],
        &(clprune_batch_norm_running){.momentum = momentum, .mean = row[3], .var = row[4]}, NULL);
}

static clprune_status bn_statistics_eps(float value)
{
    return bn_statistics(value, 0.1f);
}

static clprune_status bn_momentum(float value)
{
    return bn_statistics(1e-5f, value);
}

/* An optimizer with this description; a step with lr, or a clip to max_norm. */
static clprune_status optimise(clprune_optimizer_desc desc, float lr, float max_norm)
{
    const clprune_param param = {.name = "p", .value = mats[0], .grad = mats[1]};
    clprune_optimizer *optimizer = NULL;
    clprune_status status = clprune_optimizer_create(context, &desc, 1, &param, &optimizer);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_optimizer_step(optimizer, lr, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_optimizer_clip(optimizer, max_norm, CLPRUNE_NO_MAT, NULL);
    clprune_optimizer_destroy(optimizer);
    return status;
}

static const clprune_optimizer_desc adam = {
    .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};

#define OPTIMISE(field)                                                                            \
    static clprune_status adam_##field(float value)                                                \
    {                                                                                              \
        clprune_optimizer_desc desc = adam;                                                        \
        desc.field = value;                                                                        \
        return optimise(desc, 0.1f, 1);                                                            \
    }                                                                                              \
    static clprune_status lamb_##field(float value)                                                \
    {                                                                                              \
        clprune_optimizer_desc desc = adam;                                                        \
        desc.kind = CLPRUNE_OPTIMIZER_LAMB;                                                        \
        desc.field = value;                                                                        \
        return optimise(desc, 0.1f, 1);                                                            \
    }
OPTIMISE(beta1)
OPTIMISE(beta2)
OPTIMISE(eps)
OPTIMISE(weight_decay)

static clprune_status sgd_momentum(float value)
{
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = value};
    return optimise(desc, 0.1f, 1);
}

static clprune_status step_lr(float value)
{
    return optimise(adam, value, 1);
}

static clprune_status clip_norm(float value)
{
    return optimise(adam, 0.1f, value);
}

static const scalar scalars[] = {
    {"sparsity of a store", keep_sparsity, 0, 1, false, false},
    {"sparsity of a linear layer", layer_sparsity, 0, 1, false, false},
    {"sparsity of a convolution", conv_sparsity, 0, 1, false, false},
    {"smoothing, forward", smoothing_forward, 0, 1, false, true},
    {"smoothing, backward", smoothing_backward, 0, 1, false, true},
    {"eps of batch_norm_inverse", bn_eps, 0, INFINITY, true, false},
    {"eps of batch_norm_statistics", bn_statistics_eps, 0, INFINITY, true, false},
    {"momentum of batch_norm_statistics", bn_momentum, 0, 1, false, false},
    {"beta1 of ADAMW", adam_beta1, 0, 1, false, true},
    {"beta2 of ADAMW", adam_beta2, 0, 1, false, true},
    {"eps of ADAMW", adam_eps, 0, INFINITY, false, true},
    {"weight_decay of ADAMW", adam_weight_decay, 0, INFINITY, false, true},
    {"beta1 of LAMB", lamb_beta1, 0, 1, false, true},
    {"beta2 of LAMB", lamb_beta2, 0, 1, false, true},
    {"eps of LAMB", lamb_eps, 0, INFINITY, false, true},
    {"weight_decay of LAMB", lamb_weight_decay, 0, INFINITY, false, true},
    {"momentum of SGD", sgd_momentum, 0, INFINITY, false, true},
    {"lr", step_lr, 0, INFINITY, false, true},
    {"max_norm", clip_norm, 0, INFINITY, true, false},
};

static void scalars_in_range(NO_ROW)
{
    const float values[] = {NAN, -NAN, -INFINITY, -FLT_MAX, -1.5f, -1, -FLT_MIN, -0.0f, 0, FLT_MIN,
        0.5f, 1, 1.0f + FLT_EPSILON, 1.5f, 1e30f, FLT_MAX, INFINITY};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const scalar *s = &scalars[i];
            const float x = values[v];
            const bool legal = (s->open_least ? x > s->least : x >= s->least) &&
                               (s->open_most ? x < s->most : x <= s->most);
            char what[32];
            (void)snprintf(what, sizeof what, "%g", (double)x);
            expect(s->call(x), legal ? CLPRUNE_SUCCESS : CLPRUNE_INVALID_ARGUMENT, s->name, what);
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

static clprune_status query(clprune_keep keep)
{
    clprune_saved_sizes found;
    return clprune_saved_size_query(&keep, 2, 3, 64, &found);
}

#define OF_KEEP(field, type)                                                                       \
    static clprune_status keep_##field(int value)                                                  \
    {                                                                                              \
        return query((clprune_keep){.form = CLPRUNE_FORM_PRUNED, .field = (type)value});           \
    }
OF_KEEP(norm, clprune_norm)
OF_KEEP(criterion, clprune_criterion)
OF_KEEP(value_type, clprune_value_type)
OF_KEEP(index_type, clprune_index_type)

static clprune_status keep_form(int value)
{
    return query((clprune_keep){.form = (clprune_form)value, .bits = 8, .cell = 1});
}

static clprune_status keep_rounding(int value)
{
    return query((clprune_keep){
        .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = (clprune_rounding)value});
}

static clprune_status code_bits(int value)
{
    return query((clprune_keep){.form = CLPRUNE_FORM_GELU_CODE, .bits = (unsigned)value});
}

static clprune_status quantised_bits(int value)
{
    return query((clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = (unsigned)value});
}

static clprune_status desc_type(int value)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1, (clprune_value_type)value};
    clprune_bsr_sizes found;
    return clprune_bsr_size_query(&desc, &found);
}

static clprune_status desc_index(int value)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1, .index_type = (clprune_index_type)value};
    clprune_bsr_sizes found;
    return clprune_bsr_size_query(&desc, &found);
}

static clprune_status score_norm(int value)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1};
    return clprune_prune_score(context, (clprune_norm)value, &desc, mats[0], mats[1].buffer, NULL);
}

static clprune_status prune(clprune_norm norm, clprune_criterion criterion)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1};
    const clprune_bsr bsr = {desc, mats[1].buffer, mats[2].buffer, mats[3].buffer};
    return clprune_prune(context, norm, criterion, 1, mats[0], &bsr, NULL);
}

static clprune_status prune_norm(int value)
{
    return prune((clprune_norm)value, CLPRUNE_CRITERION_LARGEST);
}

static clprune_status prune_criterion(int value)
{
    return prune(CLPRUNE_NORM_L2, (clprune_criterion)value);
}

static clprune_status layer_axis(int value)
{
    const clprune_linear_desc desc = {.in = 4, .out = 2, .axis = (clprune_axis)value};
    clprune_linear *layer = NULL;
    const clprune_status status = clprune_linear_create(context, &desc, &layer);
    clprune_linear_destroy(layer);
    return status;
}

static clprune_status activation_kind(int value)
{
    return clprune_activation_forward(
        context, (clprune_activation)value, 0, 2, mats[0], CLPRUNE_NO_MAT, mats[1], NULL, NULL);
}

static clprune_status optimizer_kind(int value)
{
    clprune_optimizer_desc desc = adam;
    desc.kind = (clprune_optimizer_kind)value;
    return optimise(desc, 0.1f, 1);
}

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
    {"bits of quantised codes", quantised_bits, BITS},
    {"value_type", desc_type, 0, 4, 0},
    {"index_type", desc_index, 0, 3, 1u << 1},
    {"norm of prune_score", score_norm, 0, 2, 0},
    {"norm of prune", prune_norm, 0, 2, 0},
    {"criterion of prune", prune_criterion, 0, 2, 0},
    {"axis", layer_axis, 0, 1, 0},
    {"activation", activation_kind, 0, 1, 0},
    {"kind of optimizer", optimizer_kind, 0, 2, 0},
    {"access", wrap_access, 1, 3, 0},
    {"category", category, 0, CLPRUNE_MEMORY_CATEGORIES - 1, 0},
};

static void integers_in_range(NO_ROW)
{
    static const int values[] = {
        INT_MIN, -1000, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 99, 256, 65536, INT_MAX};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const integer *f = &integers[i];
            const int x = values[v];
            const bool legal = x >= f->least && x <= f->most && (f->but >> x & 1) == 0;
            char what[32];
            (void)snprintf(what, sizeof what, "%d", x);
            expect(f->call(x), legal ? CLPRUNE_SUCCESS : CLPRUNE_INVALID_ARGUMENT, f->name, what);
        }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, scalars_in_range, NULL, "scalars");
    test_add(&list, integers_in_range, NULL, "enumerators and small integers");
    context = test_open_dry(NULL, NULL);
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++)
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", 2, 4, &mats[i]));
    const int failed = test_run_on_host("invalid scalars", &list);
    print_message("%zu calls\n", calls);
    test_end(context);
    return failed;
}
