/* Bad descriptors and bad arguments of the functions that create: the exact status, a text that
 * names the argument, no object, and nothing left in the ledger. */
#include <math.h>

#include "support/test_device.h"

/* Descriptors of saved activations and layers. */
typedef struct desc_row {
    const char *name;
    clprune_saved_form form;
    clprune_block block;
    float sparsity;
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_status status;
    const char *part;
    bool saved_only;
    clprune_value_type value_type;
    clprune_index_type index_type;
} desc_row;

static const desc_row descs[] = {
    {"sparsity NaN", CLPRUNE_SAVED_PRUNED, {1, 4}, NAN, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity", false},
    {"sparsity -1", CLPRUNE_SAVED_PRUNED, {1, 4}, -1, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity", false},
    {"sparsity 1.5", CLPRUNE_SAVED_PRUNED, {1, 4}, 1.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "sparsity", false},
    {"sparsity Inf", CLPRUNE_SAVED_PRUNED, {1, 4}, INFINITY, CLPRUNE_NORM_L2,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INVALID_ARGUMENT, "sparsity", false},
    {"block 0 x 4", CLPRUNE_SAVED_PRUNED, {0, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "block", false},
    {"block 1 x 0", CLPRUNE_SAVED_PRUNED, {1, 0}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "block", false},
    {"block 0 x 0", CLPRUNE_SAVED_PRUNED, {0, 0}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "block", true},
    {"norm 3", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, (clprune_norm)3, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "norm", false},
    {"criterion 2", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, (clprune_criterion)2,
        CLPRUNE_INVALID_ARGUMENT, "criterion", false},
    {"criterion -1", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, (clprune_criterion)-1,
        CLPRUNE_INVALID_ARGUMENT, "criterion", false},
    {"value type 4", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "value type", false, (clprune_value_type)4},
    {"value type -1", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INVALID_ARGUMENT, "value type", false,
        (clprune_value_type)-1},
    {"index type 4", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "index type", false, CLPRUNE_VALUES_FP32, (clprune_index_type)4},
    {"index type -1", CLPRUNE_SAVED_PRUNED, {1, 4}, 0.5f, CLPRUNE_NORM_L2,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_INVALID_ARGUMENT, "index type", false,
        CLPRUNE_VALUES_FP32, (clprune_index_type)-1},
    {"form 2", (clprune_saved_form)2, {1, 4}, 0.5f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_INVALID_ARGUMENT, "form", true},
};

static void bad_descriptor(void **state)
{
    const desc_row *r = *state;
    clprune_context *context = test_context();
    const clprune_memory_usage before = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    const clprune_saved_desc saved_desc = {r->form, 2, 6, 20, r->block, r->sparsity, r->norm,
        r->criterion, r->value_type, r->index_type};
    clprune_saved *saved = (clprune_saved *)&before;
    TEST_FAILS(clprune_saved_create(context, "x", &saved_desc, &saved), r->status, r->part);
    assert_null(saved);
    if (!r->saved_only) {
        const clprune_linear_desc linear_desc = {.rows = 6,
            .in = 20,
            .out = 9,
            .block = r->block,
            .sparsity = r->sparsity,
            .norm = r->norm,
            .criterion = r->criterion,
            .value_type = r->value_type,
            .index_type = r->index_type};
        clprune_linear *linear = (clprune_linear *)&before;
        TEST_FAILS(clprune_linear_create(context, &linear_desc, &linear), r->status, r->part);
        assert_null(linear);
        const clprune_token_linear_desc token_desc = {.in = 6,
            .out = 9,
            .features = 20,
            .block = r->block,
            .sparsity = r->sparsity,
            .norm = r->norm,
            .criterion = r->criterion,
            .value_type = r->value_type,
            .index_type = r->index_type};
        clprune_token_linear *token = (clprune_token_linear *)&before;
        TEST_FAILS(clprune_token_linear_create(context, &token_desc, &token), r->status, r->part);
        assert_null(token);
    }
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live, before.live);
}

/* Pointers that must not be NULL, and sizes that overflow, in the create functions. */
static void bad_creates(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    clprune_saved_desc d = {.form = CLPRUNE_SAVED_DENSE,
        .batch = 2,
        .rows = 6,
        .cols = 20,
        .block = {1, 4},
        .sparsity = 0.5f};
    const clprune_linear_desc ld = {.rows = 6, .in = 20, .out = 9};
    const clprune_token_linear_desc td = {.in = 6, .out = 9, .features = 20};
    clprune_saved *saved;
    clprune_linear *linear;
    clprune_token_linear *token;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    TEST_FAILS(clprune_saved_create(context, NULL, &d, &saved), bad, "name");
    TEST_FAILS(clprune_saved_create(context, "x", NULL, &saved), bad, "desc");
    TEST_FAILS(clprune_saved_create(context, "x", &d, NULL), bad, "saved");
    assert_int_equal(clprune_saved_create(NULL, "x", &d, &saved), bad);
    TEST_FAILS(clprune_linear_create(context, NULL, &linear), bad, "desc");
    TEST_FAILS(clprune_linear_create(context, &ld, NULL), bad, "layer");
    assert_int_equal(clprune_linear_create(NULL, &ld, &linear), bad);
    TEST_FAILS(clprune_token_linear_create(context, NULL, &token), bad, "desc");
    TEST_FAILS(clprune_token_linear_create(context, &td, NULL), bad, "layer");
    assert_int_equal(clprune_token_linear_create(NULL, &td, &token), bad);
    assert_int_equal(clprune_linear_saved_create(NULL, 1, "x", &saved), bad);
    assert_int_equal(clprune_token_linear_saved_create(NULL, 1, "x", &saved), bad);
    for (int form = 0; form < 2; form++) {
        d.form = (clprune_saved_form)form;
        d.batch = SIZE_MAX / 2;
        TEST_FAILS(clprune_saved_create(context, "x", &d, &saved), CLPRUNE_SIZE_OVERFLOW, NULL);
        d.batch = (size_t)1 << 40; /* fits the integers, but no device */
        TEST_FAILS(
            clprune_saved_create(context, "x", &d, &saved), CLPRUNE_OUT_OF_DEVICE_MEMORY, "x");
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
