/* Bad descriptors and bad arguments of the functions that create: the exact status, a text that
 * names the argument, no object, and nothing left in the ledger. */
#include <math.h>
#include <string.h>

#include "support/test_device.h"

/* Descriptors of saved activations and layers. */
typedef struct desc_row {
    const char *name;
    clprune_form form;
    clprune_block block;
    float sparsity;
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_status status;
    const char *part;
    clprune_value_type value_type;
    clprune_index_type index_type;
    unsigned bits;
    uint64_t reserved;
} desc_row;

static const desc_row descs[] = {
    {"sparsity NaN", CLPRUNE_FORM_PRUNED, {1, 4}, NAN, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity"},
    {"sparsity -1", CLPRUNE_FORM_PRUNED, {1, 4}, -1, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity"},
    {"sparsity 1.5", CLPRUNE_FORM_PRUNED, {1, 4}, 1.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity"},
    {"sparsity Inf", CLPRUNE_FORM_PRUNED, {1, 4}, INFINITY, CLPRUNE_NORM_L2,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INVALID_ARGUMENT, "sparsity"},
    {"block 0 x 4", CLPRUNE_FORM_PRUNED, {0, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "block"},
    {"block 1 x 0", CLPRUNE_FORM_PRUNED, {1, 0}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "block"},
    {"norm 3", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, (clprune_norm)3, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "norm"},
    {"criterion 99", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, (clprune_criterion)99,
        CLPRUNE_INVALID_ARGUMENT, "criterion"},
    {"criterion -1", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, (clprune_criterion)-1,
        CLPRUNE_INVALID_ARGUMENT, "criterion"},
    {"value type 99", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "value_type", (clprune_value_type)99},
    {"value type -1", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "value_type", (clprune_value_type)-1},
    {"index type 4", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "index_type", CLPRUNE_VALUES_FP32, (clprune_index_type)4},
    {"index type 1", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "index_type", CLPRUNE_VALUES_FP32, (clprune_index_type)1},
    {"index type -1", CLPRUNE_FORM_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "index_type", CLPRUNE_VALUES_FP32, (clprune_index_type)-1},
    {"codes of 3 bits", CLPRUNE_FORM_GELU_CODE, {1, 4}, 0.5f, CLPRUNE_NORM_L2,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INVALID_ARGUMENT, "bits", .bits = 3},
    {"reserved", CLPRUNE_FORM_DENSE, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "reserved", .reserved = 1},
    {"form 99", (clprune_form)99, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "form"},
};

static void bad_descriptor(void **state)
{
    const desc_row *r = *state;
    clprune_context *context = test_context();
    const clprune_memory_usage before = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    const clprune_keep keep = {.form = r->form,
        .sparsity = r->sparsity,
        .block = r->block,
        .norm = r->norm,
        .criterion = r->criterion,
        .value_type = r->value_type,
        .index_type = r->index_type,
        .bits = r->bits,
        .reserved = {r->reserved}};
    clprune_saved *saved = (clprune_saved *)&before;
    clprune_saved_sizes sizes = {1, 1, 1, 1};
    TEST_FAILS(clprune_saved_create(context, "x", &keep, 2, 6, 20, &saved), r->status, r->part);
    assert_null(saved);
    saved = (clprune_saved *)&before;
    TEST_FAILS(clprune_saved_create_in(context, &keep, 2, 6, 20, NULL, 0, 4096, &saved), r->status,
        r->part);
    assert_null(saved);
    assert_int_equal(clprune_saved_size_query(&keep, 2, 6, 20, &sizes), r->status);
    assert_non_null(strstr(clprune_last_error(NULL), r->part));
    assert_int_equal(sizes.bytes + sizes.dense_bytes, 0);
    for (int axis = 0; axis < 2; axis++) {
        const clprune_linear_desc desc = {6, 9, (clprune_axis)axis, keep};
        clprune_linear *linear = (clprune_linear *)&before;
        TEST_FAILS(clprune_linear_create(context, &desc, &linear), r->status, r->part);
        assert_null(linear);
    }
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live, before.live);
}

/* Pointers that must not be NULL, and sizes that overflow, in the create functions. */
static void bad_creates(NO_ROW)
{
    clprune_context *context = test_context();
    clprune_keep d = {.block = {1, 4}, .sparsity = 0.5f};
    const clprune_linear_desc ld = {.in = 20, .out = 9}, axis = {.in = 20, .out = 9, .axis = 2};
    const clprune_linear_desc reserved = {.in = 20, .out = 9, .reserved = {0, 0, 0, 1}};
    clprune_saved *saved;
    clprune_linear *linear;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    TEST_FAILS(clprune_saved_create(context, NULL, &d, 2, 6, 20, &saved), bad, "name");
    TEST_FAILS(clprune_saved_create(context, "x", NULL, 2, 6, 20, &saved), bad, "keep");
    TEST_FAILS(clprune_saved_create(context, "x", &d, 2, 6, 20, NULL), bad, "saved");
    assert_int_equal(clprune_saved_create(NULL, "x", &d, 2, 6, 20, &saved), bad);
    assert_int_equal(clprune_saved_create_in(NULL, &d, 2, 6, 20, NULL, 0, 0, &saved), bad);
    TEST_FAILS(clprune_linear_create(context, NULL, &linear), bad, "desc");
    TEST_FAILS(clprune_linear_create(context, &ld, NULL), bad, "layer");
    TEST_FAILS(clprune_linear_create(context, &axis, &linear), bad, "axis");
    TEST_FAILS(clprune_linear_create(context, &reserved, &linear), bad, "reserved");
    assert_int_equal(clprune_linear_create(NULL, &ld, &linear), bad);
    assert_int_equal(clprune_linear_saved_create(NULL, 1, 6, "x", &saved), bad);
    for (clprune_form form = CLPRUNE_FORM_DENSE; form <= CLPRUNE_FORM_PRUNED; form++) {
        d.form = form;
        TEST_FAILS(clprune_saved_create(context, "x", &d, SIZE_MAX / 2, 6, 20, &saved),
            CLPRUNE_SIZE_OVERFLOW, NULL);
        /* It fits the integers, but no device. */
        TEST_FAILS(clprune_saved_create(context, "x", &d, (size_t)1 << 40, 6, 20, &saved),
            CLPRUNE_OUT_OF_DEVICE_MEMORY, "x");
        assert_null(saved);
    }
    clprune_bsr bsr;
    const clprune_bsr_desc bd = {1, 4, 4, {1, 4}, 2}, zero = {1, 4, 4, {1, 0}, 2};
    TEST_FAILS(
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, NULL, &bd, &bsr), bad, "name");
    TEST_FAILS(
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "x", NULL, &bsr), bad, "desc");
    TEST_FAILS(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "x", &bd, NULL), bad, "bsr");
    TEST_FAILS(clprune_bsr_create(context, CLPRUNE_MEMORY_TOTAL, "x", &bd, &bsr), bad, "category");
    TEST_FAILS(
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "x", &zero, &bsr), bad, "block");
    assert_null(bsr.values);
    assert_int_equal(clprune_bsr_create(NULL, CLPRUNE_MEMORY_ACTIVATIONS, "x", &bd, &bsr), bad);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++)
        test_add(&list, bad_descriptor, &descs[i], "descriptor: %s", descs[i].name);
    test_add(&list, bad_creates, NULL, "creating");
    return test_run_on_devices("invalid creation", &list);
}
