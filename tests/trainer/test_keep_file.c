/* Overrides of a preset from the lines of a text: what they change, which line wins, what is
 * refused and which line the message names. */
#include "resmlp_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/keep_file.h"

enum { DEPTH = 6, DENSE = 0, POOLED = 4, COMPACT_PRUNED = 11 };

static options options_of(size_t preset)
{
    options o = options_defaults(&resmlp_model);
    o.activations = preset;
    o.sparsity = keep_preset_has(preset, KEEP_PRUNED) ? 0.75 : 0;
    o.criterion = CLPRUNE_CRITERION_SAMPLED;
    o.indices = options_index_choice(CLPRUNE_INDEX_INT32);
    return o;
}

TEST_UNDO(close_list, keep_list_close(what))

/* The tensors of a preset of resmlp_tiny, which has 6 blocks, with other sizes. */
static keep_list *list_of_sizes(const options *o, trainer_sizes sizes)
{
    keep_list *list = test_alloc(sizeof *list);
    *list = (keep_list){0};
    sizes.arch = 4;
    assert_null(net_model_settle(&resmlp_model, &sizes));
    assert_null(net_model_list(&resmlp_model, &sizes,
        &(keep_choice){.preset = o->activations, .how = options_how(o)}, 32, list));
    test_later(close_list, NULL, list);
    return list;
}

static keep_list *list_of(const options *o)
{
    return list_of_sizes(o, (trainer_sizes){0});
}

/* Whether a tensor is that of block `block`. */
static bool is_of(const keep_tensor *t, size_t block, const char *tensor)
{
    return strcmp(t->place, test_text("blocks.%zu", block)) == 0 && strcmp(t->name, tensor) == 0;
}

static const keep_rule *rule_of(const keep_list *list, size_t block, const char *tensor)
{
    size_t i = 0;
    while (!is_of(&list->tensors[i], block, tensor))
        assert_true(++i < list->count);
    return &list->tensors[i].rule;
}

static const keep_list *apply(const options *o, const char *text)
{
    keep_list *list = list_of(o);
    TEST_GOOD(keep_file_apply(text, "rules", o, list, &f));
    return list;
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
    assert_int_equal(a->rotate, b->rotate);
    assert_int_equal(a->cell, b->cell);
    assert_int_equal(a->centre, b->centre);
}

/* All rules are those of the preset but for `tensor` of blocks [first, end), which are given. */
static void only(const options *o, const keep_list *list, size_t first, size_t end,
    const char *tensor, const keep_rule *want)
{
    const keep_list *preset = list_of(o);
    for (size_t i = 0; i < list->count; i++) {
        bool changed = false;
        for (size_t block = first; block < end; block++)
            changed = changed || is_of(&list->tensors[i], block, tensor);
        same_rule(&list->tensors[i].rule, changed ? want : &preset->tensors[i].rule);
        assert_true(list->tensors[i].given || !changed);
    }
}

/* The text changes `tensor` of blocks [first, end), and nothing else. */
static void changes(const options *o, const char *text, size_t first, size_t end,
    const char *tensor, const keep_rule *want)
{
    only(o, apply(o, text), first, end, tensor, want);
}

static void lines(NO_ROW)
{
    const options o = options_of(COMPACT_PRUNED);
    changes(&o, "", 0, 0, "ls2", NULL);
    changes(&o, "# nothing\n\n  \t\r\n   # blocks.0 ls1 dense\n", 0, 0, "ls2", NULL);
    const keep_rule dense = {0};
    changes(&o, "blocks.0 ls1 dense", 0, 1, "ls1", &dense); /* no newline at the end */
    changes(&o, "\tblocks.3  ls1\tdense # the last\r\n", 3, 4, "ls1", &dense);
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
    changes(&o,
        "blocks.* mlp_channels.act pruned sparsity=0.5 block=2x8 norm=l1 criterion=largest "
        "values=int8 indices=bitmap\n",
        0, DEPTH, "mlp_channels.act", &pruned);
    /* What a line does not say, the options do. */
    keep_rule rule = {.keep = options_keep(&o, CLPRUNE_FORM_PRUNED)};
    rule.keep.value_type = CLPRUNE_VALUES_BF16;
    changes(&o, "blocks.1 ls2 pruned values=bf16\n", 1, 2, "ls2", &rule);
    const keep_rule again = {.recomputed = true};
    changes(&o, "blocks.2 mlp_channels.fc1 recomputed\n", 2, 3, "mlp_channels.fc1", &again);
    changes(&o, "blocks.[01] mlp*1 recomputed\n", 0, 2, "mlp_channels.fc1", &again);
    rule.keep = options_keep(&o, CLPRUNE_FORM_QUANTISED);
    const keep_list *rules = apply(&o, "blocks.2 mlp_channels.act quantised\n");
    assert_int_equal(rule_of(rules, 2, "mlp_channels.act")->keep.bits, 4);
    only(&o, rules, 2, 3, "mlp_channels.act", &rule);
    rule.keep.bits = 8;
    rule.keep.group = 128;
    rule.keep.rounding = CLPRUNE_ROUNDING_NEAREST;
    changes(&o, "blocks.2 mlp_channels.act quantised bits=8 group=128 rounding=nearest\n", 2, 3,
        "mlp_channels.act", &rule);
    rule.keep.rotate = true;
    changes(&o,
        "blocks.2 mlp_channels.act quantised bits=8 group=128 rounding=nearest rotate=yes\n", 2, 3,
        "mlp_channels.act", &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_POOLED);
    rule.keep.cell = 3;
    changes(&o, "blocks.* ls1 pooled cell=3\n", 0, DEPTH, "ls1", &rule);
    rule.keep = options_keep(&o, CLPRUNE_FORM_PRUNED);
    rule.keep.centre = CLPRUNE_CENTRE_CELLS;
    rule.keep.cell = 5;
    changes(&o, "blocks.1 ls1 pruned centre=cells cell=5\n", 1, 2, "ls1", &rule);
    rules = apply(&o, "blocks.0 ls2 pruned criterion=random\n");
    assert_int_equal(rule_of(rules, 0, "ls2")->keep.criterion, CLPRUNE_CRITERION_RANDOM);
    /* all blocks, in fewer bytes */
    const options unpruned = options_of(DENSE);
    rules = apply(&unpruned, "blocks.0 ls2 pruned values=fp16\n");
    assert_int_equal(rule_of(rules, 0, "ls2")->keep.form, CLPRUNE_FORM_PRUNED);
    assert_int_equal(rule_of(rules, 0, "ls2")->keep.value_type, CLPRUNE_VALUES_FP16);
    assert_true(rule_of(rules, 0, "ls2")->keep.sparsity <= 0);
}

/* What is pooled has the grid of the model's tokens, whichever line or preset pools it. */
static void grids(NO_ROW)
{
    const options o = options_of(POOLED);
    keep_list *rules = list_of_sizes(&o, (trainer_sizes){.image = 48, .extra = {8}});
    TEST_GOOD(keep_file_apply(
        "blocks.0 norm1 dense\nblocks.5 ls2 pooled cell=3\n", "rules", &o, rules, &f));
    for (size_t i = 0; i < rules->count; i++) {
        const keep_rule *rule = &rules->tensors[i].rule;
        const bool pooled = keep_has_form(rule, CLPRUNE_FORM_POOLED);
        assert_int_equal(rule->keep.grid_height, pooled ? 6 : 0);
        assert_int_equal(rule->keep.grid_width, pooled ? 6 : 0);
    }
    assert_true(keep_has_form(rule_of(rules, 0, "norm1"), CLPRUNE_FORM_DENSE));
    assert_true(keep_has_form(rule_of(rules, 1, "norm1"), CLPRUNE_FORM_POOLED));
    assert_true(keep_has_form(rule_of(rules, 5, "ls2"), CLPRUNE_FORM_POOLED));
}

static void later_lines_win(NO_ROW)
{
    const options o = options_of(COMPACT_PRUNED);
    const keep_rule dense = {0};
    const keep_rule pruned = {.keep = options_keep(&o, CLPRUNE_FORM_PRUNED)};
    changes(&o,
        "blocks.[0-4] ls2 dense\nblocks.[0-4] ls2 pruned\nblocks.2 ls1 dense\nblocks.2 ls1 "
        "pruned\nblocks.2 ls2 dense\n",
        2, 3, "ls2", &dense);
    changes(&o, "blocks.2 ls2 dense\nblocks.* ls2 pruned\n", 0, DEPTH, "ls2", &pruned);
    same_rule(
        rule_of(apply(&o, "* * dense\nnet pool recomputed\n"), 3, "mlp_channels.act"), &dense);
}

static void refuse(size_t preset, const char *text, const char *part)
{
    const options o = options_of(preset);
    TEST_REFUSED(keep_file_apply(text, "rules", &o, list_of(&o), &f), CODE_DATA, part);
}

static void refused(NO_ROW)
{
    static const struct {
        size_t preset;
        const char *text, *part;
    } cases[] = {
        {DENSE, "blocks.0 ls2", "rules:1: PATTERN TENSOR FORM"},
        {DENSE, "\n\nblocks.0", "rules:3: PATTERN TENSOR FORM"},
        {DENSE, "block.0 ls2 dense", "rules:1: no tensor is at 'block.0'; there are net, blocks.0"},
        {DENSE, "#\nblocks.6 ls2 dense", "rules:2: no tensor is at 'blocks.6'"},
        {DENSE, "blocks.0 n1 dense", "rules:1: blocks.0 has the tensors norm1, linear_tokens, ls1"},
        {DENSE, "blocks.5 n1 dense", "rules:1: blocks.5 has the tensors norm1, linear_tokens, ls1"},
        {DENSE, "blocks.0 ls2 Dense",
            "rules:1: dense, pruned, quantised, pooled or recomputed is expected, not 'Dense'"},
        {DENSE, "blocks.0 ls2 pruned", "rules:1: pruned needs sparsity=X"},
        {DENSE, "blocks.0 ls2 pruned sparsity=2", "rules:1: sparsity: '2' is not a number from 0"},
        {DENSE, "blocks.0 ls2 pruned sparsity=", "sparsity: '' is not a number"},
        {DENSE, "blocks.0 ls2 pruned sparsity", "a value is missing after 'sparsity'"},
        {DENSE, "blocks.0 ls2 pruned =1", "is expected, not '=1'"},
        {DENSE, "blocks.0 ls2 pruned sparse=1", "is expected, not 'sparse=1'"},
        {DENSE, "blocks.0 ls2 pruned block=0", "rules:1: block: '0' is not a block shape"},
        {DENSE, "blocks.0 ls2 pruned values=fp8", "values: 'fp8' is not one of fp32 fp16"},
        {DENSE, "blocks.0 ls2 dense sparsity=0.5",
            "rules:1: sparsity belongs to pruned, not to dense"},
        {COMPACT_PRUNED, "blocks.0 mlp_channels.act pruned bits=4",
            "bits belongs to quantised, not to pruned"},
        {DENSE, "blocks.0 mlp_channels.act quantised bits=3",
            "rules:1: bits: '3' is not one of 2 4 8 16"},
        {DENSE, "blocks.0 mlp_channels.act quantised group=24",
            "rules:1: group: '24' is not one of 16 32"},
        {DENSE, "blocks.0 mlp_channels.act quantised bits=16 rotate=yes",
            "rules:1: rotate is for 2, 4 or 8 bits, not for 16"},
        {DENSE, "blocks.0 mlp_channels.act pooled rotate=yes",
            "rotate belongs to quantised, not to pooled"},
        {DENSE, "blocks.0 mlp_channels.act quantised rotate=1",
            "rules:1: rotate: '1' is not one of no yes"},
        {DENSE, "blocks.0 mlp_channels.act quantised cell=2",
            "cell belongs to pooled or pruned, not to quantised"},
        {DENSE, "blocks.0 mlp_channels.act pooled cell=0",
            "rules:1: cell: '0' is not a whole number from 1"},
        {DENSE, "blocks.0 mlp_channels.act pooled group=64",
            "group belongs to quantised, not to pooled"},
        {DENSE, "\nblocks.1 mlp_channels.act code", "rules:2: dense, pruned, quantised"},
        {DENSE, "blocks.0 ls2 dense a b c d e f g h i j k l m n", "rules:1: "},
        {DENSE, "blocks.0 ls2 dense 1 2 3 4 5 6 7 8 9 10 11 12 13 14", "too many words, from '14'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        refuse(cases[i].preset, cases[i].text, cases[i].part);
    refuse(DENSE, test_text("%-599s", "blocks.0 ls2 dense "), "rules:1: longer than 511 bytes");
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
    static const char rules[] = "blocks.0 ls2 dense\n# end", marked[] = "\xEF\xBB\xBF"
                                                                        "blocks.0 ls2 dense\n# end";
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
    static const char text[] =
        "blocks.* norm1 pruned sparsity=0.7 block=4x8 norm=l1 criterion=random values=int8 "
        "indices=bitmap\n"
        "blocks.1 norm1 quantised bits=2 group=32 rounding=nearest\n"
        "blocks.2 norm2 quantised rotate=yes\nblocks.3 norm2 quantised bits=16\n"
        "blocks.2 norm1 pooled cell=3\nblocks.0 mlp_channels.act pruned sparsity=0.1\n"
        "blocks.1 ls1 pruned sparsity=0.3 centre=cells cell=4\n"
        "blocks.2 ls1 pruned sparsity=0.3 centre=yes\nblocks.0 norm2 recomputed\n"
        "blocks.0 mlp_channels.fc2 recomputed\nnet pool dense\n";
    const options o = options_of(DENSE);
    char *out, *twice;
    const keep_list *rules = apply(&o, text);
    TEST_GOOD(keep_file_write(rules, &out, &f));
    const keep_list *again = apply(&o, out);
    TEST_GOOD(keep_file_write(again, &twice, &f));
    assert_string_equal(out, twice);
    for (size_t i = 0; i < rules->count; i++)
        same_rule(&again->tensors[i].rule, &rules->tensors[i].rule);
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
