/* Overrides of a preset from the lines of a text: what they change, which line wins, what is
 * refused and which line the message names. */
#include "keep.h"
#include "resmlp_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/options/keep_file.h"

enum { DEPTH = 4, DENSE = 0, EXACT = 3, COMPACT_PRUNED = 6, RULES = DEPTH * KEEP_TENSORS + 1 };

static const trainer_sizes depth = {.blocks = DEPTH};

static options options_of(size_t preset)
{
    options o = options_defaults(&resmlp_model);
    o.activations = preset;
    o.sparsity = keep_preset_has(&resmlp_keep, preset, KEEP_PRUNED) ? 0.75 : 0;
    o.criterion = CLPRUNE_CRITERION_SAMPLED;
    o.indices = options_index_choice(CLPRUNE_INDEX_INT32);
    return o;
}

static void base(const options *o, keep_rule *rules)
{
    const keep_how how = options_how(o);
    assert_int_equal(keep_rules_count(&resmlp_keep, DEPTH), RULES);
    keep_preset_rules(&resmlp_keep, o->activations, &how, DEPTH, rules);
}

static const keep_rule *rule_of(const keep_rule *rules, size_t block, keep_tensor tensor)
{
    return &rules[keep_rule_at(&resmlp_keep, DEPTH, block, tensor)];
}

static void apply(const options *o, const char *text, keep_rule *rules)
{
    base(o, rules);
    TEST_GOOD(keep_file_apply(text, "rules", o, &depth, rules, &f));
}

static void same_rule(const keep_rule *got, const keep_rule *want)
{
    const clprune_keep *a = &got->keep, *b = &want->keep;
    assert_int_equal(got->recomputed, want->recomputed);
    assert_int_equal(a->form, b->form);
    assert_true(a->sparsity >= b->sparsity && a->sparsity <= b->sparsity);
    assert_int_equal(a->block.rows, b->block.rows);
    assert_int_equal(a->block.cols, b->block.cols);
    assert_int_equal(a->norm, b->norm);
    assert_int_equal(a->criterion, b->criterion);
    assert_int_equal(a->value_type, b->value_type);
    assert_int_equal(a->index_type, b->index_type);
    assert_int_equal(a->bits, b->bits);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->rounding, b->rounding);
    assert_int_equal(a->cell, b->cell);
    assert_int_equal(a->centre, b->centre);
}

/* All rules are those of the preset but for `tensor` of blocks [first, end). */
static void only(const options *o, const keep_rule *rules, size_t first, size_t end,
    keep_tensor tensor, const keep_rule *want)
{
    keep_rule preset[RULES];
    base(o, preset);
    for (size_t i = 0; i < RULES; i++) {
        const size_t block = i / KEEP_TENSORS;
        const bool changed =
            i + 1 < RULES && i % KEEP_TENSORS == tensor && block >= first && block < end;
        same_rule(&rules[i], changed ? want : &preset[i]);
    }
}

/* The text changes `tensor` of blocks [first, end), and nothing else. */
static void changes(const options *o, const char *text, size_t first, size_t end,
    keep_tensor tensor, const keep_rule *want)
{
    keep_rule rules[RULES];
    apply(o, text, rules);
    only(o, rules, first, end, tensor, want);
}

static void lines(NO_ROW)
{
    keep_rule rules[RULES];
    const options o = options_of(COMPACT_PRUNED);
    changes(&o, "", 0, 0, KEEP_X, NULL);
    changes(&o, "# nothing\n\n  \t\r\n   # blocks.0 x2 dense\n", 0, 0, KEEP_X, NULL);
    const keep_rule dense = {0};
    changes(&o, "blocks.0 x2 dense", 0, 1, KEEP_X2, &dense); /* no newline at the end */
    changes(&o, "\tblocks.3  x2\tdense # the last\r\n", 3, 4, KEEP_X2, &dense);
    const keep_rule pruned = {.keep = {.form = CLPRUNE_FORM_PRUNED,
                                  .sparsity = 0.5f,
                                  .block = {2, 8},
                                  .norm = CLPRUNE_NORM_L1,
                                  .criterion = CLPRUNE_CRITERION_LARGEST,
                                  .value_type = CLPRUNE_VALUES_INT8,
                                  .index_type = CLPRUNE_INDEX_BITMAP,
                                  .bits = 4,
                                  .group = 64,
                                  .cell = 2}};
    static const char *const indices[] = {"bitmap", "int16"}; /* int16: as older programs had it */
    for (size_t i = 0; i < 2; i++)
        changes(&o,
            test_text("blocks.* gelu pruned sparsity=0.5 block=2x8 norm=l1 criterion=largest "
                      "values=int8 indices=%s\n",
                indices[i]),
            0, DEPTH, KEEP_GELU, &pruned);
    /* What a line does not say, the options do. */
    keep_rule rule = {.keep = options_keep(&o, CLPRUNE_FORM_PRUNED)};
    rule.keep.value_type = CLPRUNE_VALUES_BF16;
    changes(&o, "blocks.1 x pruned values=bf16\n", 1, 2, KEEP_X, &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_GELU_CODE);
    rule.keep.bits = 8;
    changes(&o, "blocks.2 fc1 code bits=8\n", 2, 3, KEEP_FC1, &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_QUANTISED);
    apply(&o, "blocks.2 gelu quantised\n", rules);
    assert_int_equal(rule_of(rules, 2, KEEP_GELU)->keep.bits, 4);
    only(&o, rules, 2, 3, KEEP_GELU, &rule);
    rule.keep.bits = 8;
    rule.keep.group = 128;
    rule.keep.rounding = CLPRUNE_ROUNDING_NEAREST;
    changes(
        &o, "blocks.2 gelu quantised bits=8 group=128 rounding=nearest\n", 2, 3, KEEP_GELU, &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_POOLED);
    rule.keep.cell = 3;
    changes(&o, "blocks.* x2 pooled cell=3\n", 0, DEPTH, KEEP_X2, &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_PRUNED);
    rule.keep.centre = CLPRUNE_CENTRE_CELLS;
    rule.keep.cell = 5;
    changes(&o, "blocks.1 x2 pruned centre=cells cell=5\n", 1, 2, KEEP_X2, &rule);
    apply(&o, "blocks.0 x pruned criterion=random\n", rules);
    assert_int_equal(rule_of(rules, 0, KEEP_X)->keep.criterion, CLPRUNE_CRITERION_RANDOM);
    /* all blocks, in fewer bytes */
    const options unpruned = options_of(DENSE);
    apply(&unpruned, "blocks.0 x pruned values=fp16\n", rules);
    assert_int_equal(rule_of(rules, 0, KEEP_X)->keep.form, CLPRUNE_FORM_PRUNED);
    assert_int_equal(rule_of(rules, 0, KEEP_X)->keep.value_type, CLPRUNE_VALUES_FP16);
    assert_true(rule_of(rules, 0, KEEP_X)->keep.sparsity <= 0);
}

/* What is pooled has the grid of the model's tokens, whichever line or preset pools it. */
static void grids(NO_ROW)
{
    enum { POOLED = 8 };
    keep_rule rules[RULES];
    trainer_sizes sizes = {.arch = 4, .image = 48, .extra = {8}};
    assert_null(resmlp_model.settle(&sizes));
    assert_true(sizes.blocks >= DEPTH);
    sizes.blocks = DEPTH;
    const options o = options_of(POOLED);
    apply(&o, "blocks.0 norm1 dense\nlast x pooled cell=3\n", rules);
    keep_set_grids(&resmlp_keep, &sizes, rules);
    for (size_t i = 0; i < RULES; i++) {
        const bool pooled = keep_has_form(&rules[i], CLPRUNE_FORM_POOLED);
        assert_int_equal(rules[i].keep.grid_height, pooled ? 6 : 0);
        assert_int_equal(rules[i].keep.grid_width, pooled ? 6 : 0);
    }
    assert_true(keep_has_form(rule_of(rules, 0, KEEP_NORM1), CLPRUNE_FORM_DENSE));
    assert_true(keep_has_form(rule_of(rules, 1, KEEP_NORM1), CLPRUNE_FORM_POOLED));
    assert_true(keep_has_form(&rules[RULES - 1], CLPRUNE_FORM_POOLED));
}

static void later_lines_win(NO_ROW)
{
    keep_rule rules[RULES];
    const options o = options_of(COMPACT_PRUNED);
    const keep_rule dense = {0};
    const keep_rule pruned = {.keep = options_keep(&o, CLPRUNE_FORM_PRUNED)};
    changes(&o, "blocks.* x dense\nblocks.* x pruned\nblocks.2 x dense\n", 2, 3, KEEP_X, &dense);
    changes(&o, "blocks.2 x dense\nblocks.* x pruned\n", 0, DEPTH, KEEP_X, &pruned);
    /* Only what all lines together make must make sense. */
    apply(&o, "blocks.1 gelu recomputed\nblocks.1 fc1 dense\n", rules);
    assert_true(rule_of(rules, 1, KEEP_GELU)->recomputed);
    same_rule(rule_of(rules, 1, KEEP_FC1), &dense);
    assert_true(keep_has_form(rule_of(rules, 0, KEEP_FC1), CLPRUNE_FORM_GELU_CODE));
    apply(&o, "last x dense\n", rules);
    same_rule(&rules[RULES - 1], &dense);
    assert_true(keep_has_form(rule_of(rules, DEPTH - 1, KEEP_X), CLPRUNE_FORM_PRUNED));
    /* Two words for one form of the last x. */
    const keep_rule mean = {.keep = {.form = CLPRUNE_FORM_MEAN}};
    apply(&o, "last x dense\nlast x recomputed\n", rules);
    same_rule(&rules[RULES - 1], &mean);
    apply(&o, "last x dense\nlast x mean\n", rules);
    same_rule(&rules[RULES - 1], &mean);
}

static void refuse(size_t preset, const char *text, const char *part)
{
    const options o = options_of(preset);
    keep_rule rules[RULES];
    base(&o, rules);
    TEST_REFUSED(keep_file_apply(text, "rules", &o, &depth, rules, &f), CODE_DATA, part);
}

static void refused(NO_ROW)
{
    static const struct {
        size_t preset;
        const char *text, *part;
    } cases[] = {
        {DENSE, "blocks.0 x", "rules:1: PATTERN TENSOR FORM"},
        {DENSE, "\n\nblocks.0", "rules:3: PATTERN TENSOR FORM"},
        {DENSE, "block.0 x dense",
            "rules:1: blocks.NUMBER, blocks.* or last is expected, not 'block.0'"},
        {DENSE, "blocks. x dense", "rules:1: blocks.NUMBER"},
        {DENSE, "blocks.1x x dense", "not 'blocks.1x'"},
        {DENSE, "blocks.-1 x dense", "not 'blocks.-1'"},
        {DENSE, "#\nblocks.4 x dense", "rules:2: there is no blocks.4: the model has 4 blocks"},
        {DENSE, "blocks.99999999999999999999 x dense", "there is no blocks.9"},
        {DENSE, "blocks.0 n1 dense",
            "rules:1: a block has the tensors x, norm1, tokens, x2, norm2, fc1, gelu, fc2, not "
            "'n1'"},
        {DENSE, "blocks.0 x Dense",
            "rules:1: dense, pruned, quantised, pooled, recomputed, code, mean or mask is "
            "expected, not 'Dense'"},
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
        {COMPACT_PRUNED, "blocks.0 fc1 code sparsity=0.5",
            "sparsity belongs to pruned, not to code"},
        {COMPACT_PRUNED, "blocks.0 gelu pruned bits=4",
            "bits belongs to code or quantised, not to pruned"},
        {DENSE, "blocks.0 gelu quantised bits=3", "rules:1: bits: '3' is not one of 2 4 8"},
        {DENSE, "blocks.0 gelu quantised group=24", "rules:1: group: '24' is not one of 16 32"},
        {DENSE, "blocks.0 gelu quantised cell=2",
            "cell belongs to pooled or pruned, not to quantised"},
        {DENSE, "blocks.0 gelu pooled cell=0", "rules:1: cell: '0' is not a whole number from 1"},
        {DENSE, "blocks.0 gelu pooled group=64", "group belongs to quantised, not to pooled"},
        {EXACT, "blocks.0 x quantised\nblocks.0 x2 recomputed",
            "rules:2: blocks.0: x2 cannot be recomputed while x is not dense"},
        {COMPACT_PRUNED, "blocks.0 fc1 code bits=3", "rules:1: bits: '3' is not one of 2 4 8"},
        {DENSE, "last gelu dense", "rules:1: last has the tensors x, not 'gelu'"},
        {DENSE, "\nblocks.1 gelu code", "rules:2: blocks.1: only fc1 can be kept as a code"},
        {DENSE, "blocks.0 x2 dense\nblocks.0 norm1 recomputed\nblocks.1 x dense",
            "rules:2: blocks.0: norm1 cannot be recomputed while tokens is kept"},
        {EXACT, "blocks.* x dense\nblocks.2 fc1 code",
            "rules:2: blocks.2: gelu cannot be recomputed where fc1 is a code"},
        {DENSE, "blocks.2 x mean", "rules:1: blocks.2: only last x can be kept as mean"},
        {DENSE, "last x code", "rules:1: outside of the blocks: only fc1 can be kept as a code"},
        {DENSE, "blocks.0 x dense a b c d e f g h i j k l m n", "rules:1: "},
        {DENSE, "blocks.0 x dense 1 2 3 4 5 6 7 8 9 10 11 12 13 14", "too many words, from '14'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        refuse(cases[i].preset, cases[i].text, cases[i].part);
    refuse(DENSE, test_text("%-599s", "blocks.0 x dense "), "rules:1: longer than 511 bytes");
}

/* Reads a file, which must be refused. */
static void refuse_file(const char *path, const char *part)
{
    char *text;
    TEST_REFUSED(keep_file_read(path, &text, &f), CODE_DATA, part);
    assert_null(text);
}

static void read_file(const char *path, const char *want)
{
    char *text;
    TEST_GOOD(keep_file_read(path, &text, &f));
    assert_string_equal(text, want);
    free(text);
}

static void files(NO_ROW)
{
    static const char rules[] = "blocks.0 x dense\n# end", marked[] = "\xEF\xBB\xBF"
                                                                      "blocks.0 x dense\n# end";
    const char *folder = test_folder(), *path = test_text("%s/rules", folder);
    refuse_file(path, path);
    test_file_write(path, rules, sizeof rules - 1);
    read_file(path, rules);
    test_file_write(path, marked, sizeof marked - 1);
    read_file(path, rules);
    test_file_write(path, rules, sizeof rules); /* with its NUL */
    refuse_file(path, "not a text");
    const size_t size = ((size_t)1 << 20) + 1;
    test_file_write(path, memset(test_alloc(size), '#', size), size);
    refuse_file(path, "longer than");
    refuse_file(folder, "");
}

/* What keep_file_write writes, keep_file_apply reads. */
static void written(NO_ROW)
{
    static const char text[] = "blocks.* norm1 pruned sparsity=0.7 block=4x8 norm=l1 "
                               "criterion=random values=int8 indices=bitmap\n"
                               "blocks.1 norm1 quantised bits=2 group=32 rounding=nearest\n"
                               "blocks.2 norm1 pooled cell=3\nblocks.0 gelu pruned sparsity=0.1\n"
                               "blocks.1 x2 pruned sparsity=0.3 centre=cells cell=4\n"
                               "blocks.2 x2 pruned sparsity=0.3 centre=yes\n"
                               "blocks.0 norm2 recomputed\nblocks.0 fc2 recomputed\n"
                               "blocks.0 fc1 code bits=8\nlast x mean\n";
    const options o = options_of(DENSE);
    const trainer_sizes sizes = {.arch = 4, .image = 32, .blocks = DEPTH, .extra = {4}};
    keep_rule rules[RULES], again[RULES];
    char *out, *twice;
    apply(&o, text, rules);
    TEST_GOOD(keep_file_write(o.model->keep, &sizes, rules, &out, &f));
    apply(&o, out, again);
    TEST_GOOD(keep_file_write(o.model->keep, &sizes, again, &twice, &f));
    assert_string_equal(out, twice);
    for (size_t i = 0; i < RULES; i++)
        same_rule(&again[i], &rules[i]);
    free(out);
    free(twice);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, lines, NULL, "lines");
    test_add(&list, later_lines_win, NULL, "later lines win");
    test_add(&list, refused, NULL, "refused");
    test_add(&list, files, NULL, "files");
    test_add(&list, grids, NULL, "grids");
    test_add(&list, written, NULL, "written");
    return test_run_on_host("keep_file", &list);
}
