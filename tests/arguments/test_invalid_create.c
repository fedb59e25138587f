/* Bad descriptors and bad arguments of the functions that create: the exact status, a text that
 * names the argument, no object, and nothing left in the ledger. */
#include "support/test_objects.h"

/* Descriptors of saved activations and layers; test_invalid_scalars.c has more values. */
typedef struct desc_row {
    const char *name, *part;
    clprune_keep keep;
} desc_row;

/* A pruned form that is good but for one field. */
#define PRUNED(...)                                                                                \
    {                                                                                              \
        .form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 4}, __VA_ARGS__                \
    }

static const desc_row descs[] = {
    {"sparsity NaN", "sparsity", {CLPRUNE_FORM_PRUNED, .sparsity = NAN}},
    {"block 0 x 4", "block", {CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {0, 4}}},
    {"block 1 x 0", "block", {CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 0}}},
    {"norm 3", "norm", PRUNED(.norm = (clprune_norm)3)},
    {"criterion 99", "criterion", PRUNED(.criterion = (clprune_criterion)99)},
    {"value type 99", "value_type", PRUNED(.value_type = (clprune_value_type)99)},
    {"index type 1", "index_type", PRUNED(.index_type = (clprune_index_type)1)},
    {"codes of 3 bits", "bits", {CLPRUNE_FORM_GELU_CODE, .bits = 3}},
    {"reserved", "reserved", {CLPRUNE_FORM_DENSE, .reserved = {1}}},
    {"form 99", "form", {(clprune_form)99}},
};

static void bad_descriptor(void **state)
{
    const desc_row *r = *state;
    clprune_context *context = test_context();
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_TOTAL);
    const clprune_keep keep = r->keep;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_saved *saved = (clprune_saved *)&before;
    clprune_saved_sizes sizes = {1, 1, 1, 1};
    TEST_FAILS(clprune_saved_create(context, "x", &keep, 2, 6, 20, &saved), bad, r->part);
    assert_null(saved);
    saved = (clprune_saved *)&before;
    TEST_FAILS(
        clprune_saved_create_in(context, &keep, 2, 6, 20, NULL, 0, 4096, &saved), bad, r->part);
    assert_null(saved);
    TEST_FAILS_IN(NULL, clprune_saved_size_query(&keep, 2, 6, 20, &sizes), bad, r->part);
    assert_int_equal(sizes.bytes + sizes.dense_bytes, 0);
    for (int axis = 0; axis < 2; axis++) {
        const clprune_linear_desc desc = {6, 9, (clprune_axis)axis, keep};
        clprune_linear *linear = (clprune_linear *)&before;
        TEST_FAILS(clprune_linear_create(context, &desc, &linear), bad, r->part);
        assert_null(linear);
    }
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before);
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
    TEST_FAILS(clprune_saved_create(context, "large", &d, (size_t)1 << 40, 6, 20, &saved),
        CLPRUNE_OUT_OF_DEVICE_MEMORY, "large");
    assert_null(saved);
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
    TEST_ADD_EACH(&list, bad_descriptor, descs, "descriptor: %s");
    test_add(&list, bad_creates, NULL, "creating");
    return test_run_on_devices("invalid creation", &list);
}
