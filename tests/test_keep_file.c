/* Overrides of a preset from the lines of a text: what they change, which one wins, what is refused
 * and where it says it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keep_file.h"
#include "support/test_device.h"
#include "support/test_folder.h"

enum { DEPTH = 4, DENSE = 0, EXACT = 2, COMPACT = 4 };

static options options_of(size_t preset)
{
    options o = {.activations = preset,
        .sparsity = keep_preset_prunes(preset) ? 0.75 : 0,
        .block = {1, 16},
        .criterion = CLPRUNE_CRITERION_SAMPLED};
    return o;
}

static void base(const options *o, keep_policy *policies)
{
    for (size_t i = 0; i < DEPTH; i++)
        policies[i] = keep_preset(o->activations, options_keep_rule(o));
}

static void apply(const options *o, const char *text, keep_policy *policies)
{
    fault f = {0};
    base(o, policies);
    if (!keep_file_apply(text, "rules", o, DEPTH, policies, &f))
        fail_msg("%s", f.text);
    assert_int_equal(f.code, CODE_OK);
}

static void same_rule(const keep_rule *got, const keep_rule *want)
{
    assert_int_equal(got->form, want->form);
    assert_true(got->sparsity >= want->sparsity && got->sparsity <= want->sparsity);
    assert_int_equal(got->block.rows, want->block.rows);
    assert_int_equal(got->block.cols, want->block.cols);
    assert_int_equal(got->norm, want->norm);
    assert_int_equal(got->criterion, want->criterion);
    assert_int_equal(got->value_type, want->value_type);
    assert_int_equal(got->index_type, want->index_type);
    assert_int_equal(got->code_bits, want->code_bits);
}

/* All policies are those of the preset but for rule `tensor` of blocks [first, end). */
static void only(const options *o, const keep_policy *policies, size_t first, size_t end,
    keep_tensor tensor, const keep_rule *want)
{
    keep_policy preset[DEPTH];
    base(o, preset);
    for (size_t i = 0; i < DEPTH; i++) {
        for (keep_tensor k = 0; k < KEEP_TENSORS; k++)
            same_rule(&policies[i].rule[k],
                k == tensor && i >= first && i < end ? want : &preset[i].rule[k]);
        same_rule(&policies[i].last_x, &preset[i].last_x);
    }
}

static void lines(void **state)
{
    (void)state;
    keep_policy policies[DEPTH];
    const options o = options_of(COMPACT);
    apply(&o, "", policies);
    only(&o, policies, 0, 0, KEEP_X, NULL);
    apply(&o, "# nothing\n\n  \t\r\n   # blocks.0 x2 dense\n", policies);
    only(&o, policies, 0, 0, KEEP_X, NULL);
    const keep_rule dense = {.form = KEEP_DENSE};
    apply(&o, "blocks.0 x2 dense", policies); /* no newline at the end */
    only(&o, policies, 0, 1, KEEP_X2, &dense);
    apply(&o, "\tblocks.3  x2\tdense # the last\r\n", policies);
    only(&o, policies, 3, 4, KEEP_X2, &dense);
    const keep_rule pruned = {.form = KEEP_PRUNED,
        .sparsity = 0.5f,
        .block = {2, 8},
        .norm = CLPRUNE_NORM_L1,
        .criterion = CLPRUNE_CRITERION_LARGEST,
        .value_type = CLPRUNE_VALUES_INT8,
        .index_type = CLPRUNE_INDEX_BITMAP,
        .code_bits = 2};
    apply(&o,
        "blocks.* gelu pruned sparsity=0.5 block=2x8 norm=l1 criterion=largest values=int8 "
        "indices=bitmap\n",
        policies);
    only(&o, policies, 0, DEPTH, KEEP_G, &pruned);
    /* What a line does not say, the options do. */
    keep_rule rule = options_keep_rule(&o);
    rule.form = KEEP_PRUNED;
    rule.value_type = CLPRUNE_VALUES_BF16;
    apply(&o, "blocks.1 x pruned values=bf16\n", policies);
    only(&o, policies, 1, 2, KEEP_X, &rule);
    rule = options_keep_rule(&o);
    rule.form = KEEP_CODE;
    rule.code_bits = 8;
    apply(&o, "blocks.2 fc1 code bits=8\n", policies);
    only(&o, policies, 2, 3, KEEP_H, &rule);
}

static void later_lines_win(void **state)
{
    (void)state;
    keep_policy policies[DEPTH];
    const options o = options_of(COMPACT);
    const keep_rule dense = {.form = KEEP_DENSE};
    keep_rule pruned = options_keep_rule(&o);
    pruned.form = KEEP_PRUNED;
    apply(&o, "blocks.* x dense\nblocks.* x pruned\nblocks.2 x dense\n", policies);
    only(&o, policies, 2, 3, KEEP_X, &dense);
    apply(&o, "blocks.2 x dense\nblocks.* x pruned\n", policies);
    only(&o, policies, 0, DEPTH, KEEP_X, &pruned);
    /* Only what all lines together make must make sense. */
    apply(&o, "blocks.1 gelu recomputed\nblocks.1 fc1 dense\n", policies);
    assert_int_equal(policies[1].rule[KEEP_G].form, KEEP_RECOMPUTED);
    assert_int_equal(policies[1].rule[KEEP_H].form, KEEP_DENSE);
    assert_int_equal(policies[0].rule[KEEP_H].form, KEEP_CODE);
    apply(&o, "last x dense\n", policies);
    assert_int_equal(policies[DEPTH - 1].last_x.form, KEEP_DENSE);
    assert_int_equal(policies[DEPTH - 1].rule[KEEP_X].form, KEEP_PRUNED);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        size_t preset;
        const char *text, *part;
    } cases[] = {
        {DENSE, "blocks.0 x", "rules:1: PATTERN TENSOR FORM"},
        {DENSE, "\n\nblocks.0", "rules:3: PATTERN TENSOR FORM"},
        {DENSE, "block.0 x dense", "rules:1: blocks.NUMBER, blocks.* or last"},
        {DENSE, "blocks. x dense", "rules:1: blocks.NUMBER"},
        {DENSE, "blocks.1x x dense", "not 'blocks.1x'"},
        {DENSE, "blocks.-1 x dense", "not 'blocks.-1'"},
        {DENSE, "#\nblocks.4 x dense", "rules:2: there is no blocks.4: the model has 4 blocks"},
        {DENSE, "blocks.99999999999999999999 x dense", "there is no blocks.9"},
        {DENSE, "blocks.0 n1 dense", "fc1, gelu or fc2 is expected, not 'n1'"},
        {DENSE, "blocks.0 x Dense", "rules:1: dense, pruned, recomputed or code"},
        {DENSE, "blocks.0 x pruned", "rules:1: pruned needs sparsity=X"},
        {DENSE, "blocks.0 x pruned sparsity=2", "rules:1: sparsity: '2' is not a number from 0"},
        {DENSE, "blocks.0 x pruned sparsity=", "sparsity: '' is not a number"},
        {DENSE, "blocks.0 x pruned sparsity", "a value is missing after 'sparsity'"},
        {DENSE, "blocks.0 x pruned =1", "is expected, not '=1'"},
        {DENSE, "blocks.0 x pruned sparse=1", "is expected, not 'sparse=1'"},
        {DENSE, "blocks.0 x pruned block=0", "rules:1: block: '0' is not a block shape"},
        {DENSE, "blocks.0 x pruned values=fp8", "values: 'fp8' is not one of fp32 fp16"},
        {DENSE, "blocks.0 x dense sparsity=0.5",
            "rules:1: sparsity belongs to pruned, not to dense"},
        {COMPACT, "blocks.0 fc1 code sparsity=0.5", "sparsity belongs to pruned, not to code"},
        {COMPACT, "blocks.0 gelu pruned bits=4", "bits belongs to code, not to pruned"},
        {COMPACT, "blocks.0 fc1 code bits=3", "rules:1: bits: '3' is not one of 2 4 8"},
        {DENSE, "last gelu dense", "rules:1: last has x alone, not 'gelu'"},
        {DENSE, "\nblocks.1 gelu code", "rules:2: blocks.1: only fc1 can be kept as a code"},
        {DENSE, "blocks.0 x2 dense\nblocks.0 norm1 recomputed\nblocks.1 x dense",
            "rules:2: blocks.0: norm1 and tokens must be recomputed together"},
        {EXACT, "blocks.* x dense\nblocks.2 fc1 code", "rules:2: blocks.2: gelu and x2 cannot be"},
        {DENSE, "last x code", "rules:1: blocks.3: only fc1 can be kept as a code"},
        {DENSE, "blocks.0 x dense a b c d e f g h i j k l m n", "rules:1: "},
        {DENSE, "blocks.0 x dense 1 2 3 4 5 6 7 8 9 10 11 12 13 14", "too many words, from '14'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const options o = options_of(cases[i].preset);
        keep_policy policies[DEPTH];
        fault f = {0};
        base(&o, policies);
        assert_false(keep_file_apply(cases[i].text, "rules", &o, DEPTH, policies, &f));
        assert_int_equal(f.code, CODE_DATA);
        if (strstr(f.text, cases[i].part) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", f.text, cases[i].part);
    }
    char wide[600] = "blocks.0 x dense ";
    memset(wide + strlen(wide), ' ', sizeof wide - 1 - strlen(wide));
    const options o = options_of(DENSE);
    keep_policy policies[DEPTH];
    fault f = {0};
    base(&o, policies);
    assert_false(keep_file_apply(wide, "rules", &o, DEPTH, policies, &f));
    assert_non_null(strstr(f.text, "rules:1: longer than 511 bytes"));
}

static void files(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[TEST_PATH + 8], *text;
    static const char rules[] = "blocks.0 x dense\n# end";
    fault f = {0};
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/rules", folder);
    assert_false(keep_file_read(path, &text, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, path));
    assert_null(text);
    test_file_write(path, rules, sizeof rules - 1);
    f = (fault){0};
    assert_true(keep_file_read(path, &text, &f));
    assert_string_equal(text, rules);
    free(text);
    test_file_write(path, rules, sizeof rules); /* with its NUL */
    assert_false(keep_file_read(path, &text, &f));
    assert_non_null(strstr(f.text, "not a text"));
    const size_t size = ((size_t)1 << 20) + 1;
    char *large = calloc(size, 1);
    assert_non_null(large);
    memset(large, '#', size);
    test_file_write(path, large, size);
    f = (fault){0};
    assert_false(keep_file_read(path, &text, &f));
    assert_non_null(strstr(f.text, "longer than"));
    f = (fault){0};
    assert_false(keep_file_read(folder, &text, &f));
    assert_int_equal(f.code, CODE_DATA);
    free(large);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(later_lines_win),
        cmocka_unit_test(refused), cmocka_unit_test(files)};
    return cmocka_run_group_tests_name("keep_file", tests, NULL, NULL);
}
