/* The saved-activation policies of the example's ResMLP: which make sense, what they cost, and that
 * recomputed tensors leave every gradient as it is, against PyTorch's golden values.
 *
 * The error of codes of 8 and of 4 bits lies within its range. */
#include "golden/golden_model.h"

enum {
    DENSE,
    PAPER,
    PRUNED,
    EXACT,
    EXACT_TOKENS,
    COMPACT,
    COMPACT_PRUNED,
    QUANTISED,
    POOLED,
    PRESETS
};

static keep_policy preset(size_t index)
{
    return keep_preset(
        index, (clprune_keep){.sparsity = 0.5f, .block = {1, 16}, .bits = 2, .cell = 2});
}

/* A form, or AGAIN for what is recomputed. */
enum {
    AS_IS = CLPRUNE_FORM_DENSE,
    BLOCKS = CLPRUNE_FORM_PRUNED,
    MEAN = CLPRUNE_FORM_MEAN,
    CODE = CLPRUNE_FORM_GELU_CODE,
    CODES = CLPRUNE_FORM_QUANTISED,
    CELLS = CLPRUNE_FORM_POOLED,
    MASK = CLPRUNE_FORM_MASK,
    AGAIN = 100
};

static int form_of(const keep_rule *rule)
{
    return rule->recomputed ? AGAIN : (int)rule->keep.form;
}

static void set_form(keep_rule *rule, int form)
{
    rule->recomputed = form == AGAIN;
    rule->keep.form = rule->recomputed ? CLPRUNE_FORM_DENSE : (clprune_form)form;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Whether a policy makes sense, in a model of one block. */
static bool policy_check(const keep_policy *policy, char *why, size_t size)
{
    keep_rule rules[KEEP_TENSORS + 1];
    memcpy(rules, policy->rule, sizeof policy->rule);
    rules[KEEP_TENSORS] = policy->last_x;
    return keep_check(&resmlp_keep, 1, 0, rules, why, size) &&
           keep_check(&resmlp_keep, 1, 1, rules, why, size);
}

static void presets(NO_ROW)
{
    static const char *const names[] = {"dense", "paper", "pruned", "exact", "exact-tokens",
        "compact", "compact-pruned", "quantised", "pooled"};
    /*                                     x n1  t x2 n2  h  g  m last_x */
    static const char want[PRESETS][10] = {"ddddddddd", "dpddpdpdd", "dpddpdpdd", "drrdrdrrm",
        "drrrrdrrm", "errerqrrm", "prrprcprm", "dqddqdqdd", "doddododd"};
    static const int forms[128] = {['d'] = AS_IS,
        ['p'] = BLOCKS,
        ['r'] = AGAIN,
        ['m'] = MEAN,
        ['c'] = CODE,
        ['q'] = CODES,
        ['e'] = CODES,
        ['o'] = CELLS};
    for (size_t i = 0; i < PRESETS; i++) {
        const keep_policy policy = preset(i);
        char why[128];
        assert_string_equal(resmlp_keep.preset_names[i], names[i]);
        assert_true(policy_check(&policy, why, sizeof why));
        for (int tensor = 0; tensor < KEEP_TENSORS; tensor++)
            assert_int_equal(form_of(&policy.rule[tensor]), forms[(int)want[i][tensor]]);
        assert_int_equal(form_of(&policy.last_x), forms[(int)want[i][KEEP_TENSORS]]);
        assert_int_equal(keep_preset_has(&resmlp_keep, i, KEEP_PRUNED),
            i == PAPER || i == PRUNED || i == COMPACT_PRUNED);
        assert_int_equal(resmlp_keep.presets[i].criterion,
            i == PAPER ? CLPRUNE_CRITERION_LARGEST : CLPRUNE_CRITERION_SAMPLED);
        assert_int_equal(keep_preset_has(&resmlp_keep, i, KEEP_CODED), i == COMPACT_PRUNED);
        assert_int_equal(
            keep_preset_has(&resmlp_keep, i, KEEP_QUANTISED), i == COMPACT || i == QUANTISED);
        assert_int_equal(keep_preset_has(&resmlp_keep, i, KEEP_POOLED), i == POOLED);
        assert_int_equal(resmlp_keep.presets[i].index_type,
            i == COMPACT_PRUNED ? CLPRUNE_INDEX_SMALLEST : CLPRUNE_INDEX_INT32);
        assert_int_equal(keep_codes(policy.rule), i == COMPACT_PRUNED);
        assert_int_equal(keep_recomputes_tokens(policy.rule), i >= EXACT && i <= COMPACT_PRUNED);
        assert_int_equal(keep_recomputes_mlp(policy.rule), i >= EXACT && i <= COMPACT_PRUNED);
    }
    assert_string_equal(resmlp_keep.preset_names[PRESETS], "auto");
    assert_null(resmlp_keep.preset_names[PRESETS + 1]);
    const keep_policy codes = preset(COMPACT);
    assert_int_equal(codes.rule[KEEP_X].keep.bits, 8);
    assert_int_equal(codes.rule[KEEP_X2].keep.bits, 8);
    assert_int_equal(codes.rule[KEEP_FC1].keep.bits, 2);
    const keep_policy unpruned = keep_preset(PAPER, (clprune_keep){.sparsity = 0});
    assert_int_equal(form_of(&unpruned.rule[KEEP_GELU]), AS_IS);
    const keep_policy narrow =
        keep_preset(PAPER, (clprune_keep){.value_type = CLPRUNE_VALUES_BF16});
    assert_int_equal(form_of(&narrow.rule[KEEP_GELU]), BLOCKS);
}

static void refused(keep_policy policy, const char *part)
{
    const resmlp_arch tiny = resmlp_arch_at(4);
    char wrong[128];
    resmlp model;
    assert_false(policy_check(&policy, wrong, sizeof wrong));
    if (strstr(wrong, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", wrong, part);
    assert_int_equal(
        create_model(test_context(), &tiny, &policy, 0, 1, &model), CLPRUNE_INVALID_ARGUMENT);
    assert_null(model.params);
}

static void policies_without_sense(NO_ROW)
{
    static const struct {
        size_t preset;
        keep_tensor tensor;
        int form;
        const char *part;
    } cases[] = {
        {DENSE, KEEP_X, AGAIN, "x cannot be recomputed: everything"},
        {EXACT, KEEP_X, AGAIN, "x cannot be recomputed: everything"},
        {EXACT, KEEP_FC1, AGAIN, "fc1 cannot"},
        {DENSE, KEEP_NORM1, AGAIN, "norm1 cannot be recomputed while tokens is kept"},
        {DENSE, KEEP_TOKENS, AGAIN, "tokens cannot be recomputed while norm1 is kept"},
        {EXACT, KEEP_TOKENS, BLOCKS, "norm1 cannot be recomputed while tokens is kept"},
        {DENSE, KEEP_NORM2, AGAIN, "norm2 cannot be recomputed while gelu is kept"},
        {PAPER, KEEP_GELU, AGAIN, "gelu cannot be recomputed while norm2 is kept"},
        {EXACT, KEEP_FC2, AS_IS, "norm2 cannot be recomputed while fc2 is kept"},
        {DENSE, KEEP_X2, AGAIN, "x2 cannot be recomputed while norm1 is kept"},
        {EXACT_TOKENS, KEEP_X, BLOCKS, "not dense"},
        {DENSE, KEEP_GELU, CODE, "only fc1"},
        {DENSE, KEEP_FC1, CODE, "fc1's code"},
        {QUANTISED, KEEP_X2, MASK, "x2 cannot be kept as mask"},
        {QUANTISED, KEEP_NORM1, AGAIN, "norm1 cannot be recomputed while tokens is kept"},
        {POOLED, KEEP_GELU, AGAIN, "gelu cannot be recomputed while norm2 is kept"},
        {EXACT_TOKENS, KEEP_X, CODES, "not dense"},
        {EXACT_TOKENS, KEEP_X, CELLS, "not dense"},
        {COMPACT_PRUNED, KEEP_NORM2, CODES, "norm2 must be recomputed where fc1 is a code"},
        {COMPACT_PRUNED, KEEP_NORM2, AS_IS, "norm2 must be recomputed where fc1 is a code"},
        {COMPACT_PRUNED, KEEP_FC2, BLOCKS, "norm2 cannot be recomputed while fc2 is kept"},
        {COMPACT_PRUNED, KEEP_GELU, AGAIN, "gelu cannot be recomputed where fc1 is a code"},
        {COMPACT_PRUNED, KEEP_FC1, AS_IS, "norm2 cannot be recomputed while gelu is kept"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        keep_policy policy = preset(cases[i].preset);
        set_form(&policy.rule[cases[i].tensor], cases[i].form);
        refused(policy, cases[i].part);
    }
    keep_policy half = preset(EXACT_TOKENS);
    half.rule[KEEP_NORM1] = half.rule[KEEP_TOKENS] = (keep_rule){0};
    refused(half, "x2 cannot be recomputed while norm1 is kept");
    keep_policy coded = preset(COMPACT_PRUNED);
    coded.rule[KEEP_FC1].keep.bits = 3;
    refused(coded, "2, 4 or 8 bits");
    coded = preset(COMPACT_PRUNED);
    set_form(&coded.rule[KEEP_X], AS_IS);
    set_form(&coded.rule[KEEP_X2], AGAIN);
    refused(coded, "x2 cannot be recomputed where fc1 is a code");
    coded = preset(COMPACT_PRUNED);
    set_form(&coded.last_x, CODE);
    refused(coded, "only fc1");
    set_form(&coded.last_x, AGAIN);
    refused(coded, "x cannot be recomputed: its mean");
    coded = preset(COMPACT_PRUNED);
    set_form(&coded.rule[KEEP_X], MEAN);
    refused(coded, "only last x can be kept as mean");
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Recomputed halves and last x in all ways that go together. */
static size_t all_policies(keep_policy *policies)
{
    size_t count = 0;
    for (int choice = 1; choice < 8; choice++) {
        keep_policy policy = preset(DENSE);
        const keep_policy exact = preset(EXACT);
        if (choice & 1)
            policy.rule[KEEP_NORM1] = policy.rule[KEEP_TOKENS] = exact.rule[KEEP_NORM1];
        if (choice & 2)
            policy.rule[KEEP_NORM2] = policy.rule[KEEP_GELU] = policy.rule[KEEP_FC2] =
                exact.rule[KEEP_NORM2];
        if (choice & 4)
            policy.last_x = exact.last_x;
        policies[count++] = policy;
    }
    policies[count++] = preset(EXACT_TOKENS);
    /* What is kept is kept as blocks of which none is pruned: restored before use. */
    keep_policy blocks = policy_of_all_blocks((clprune_block){1, 16}), exact = preset(EXACT);
    for (int i = 0; i < KEEP_TENSORS; i++)
        if (exact.rule[i].recomputed)
            blocks.rule[i] = exact.rule[i];
    policies[count++] = blocks;
    blocks.last_x = exact.last_x;
    policies[count++] = blocks;
    return count;
}

enum { POLICIES = 10 };

/* The tiled family of a CPU, where CLBlast's products take 10 times as long as the vector family's:
 * there not every policy is combined with the largest model, and one does ten steps. */
static bool is_slow(void)
{
    return clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_TILED &&
           (clprune_context_device_info(test_context()).type & CL_DEVICE_TYPE_CPU) != 0;
}

static void gradients(void **state)
{
    const golden_resmlp_case *row = *state;
    keep_policy policies[POLICIES];
    assert_int_equal(all_policies(policies), POLICIES);
    /* The last four: exact, exact-tokens, and the two with blocks. */
    const size_t first = row->depth > 6 && is_slow() ? POLICIES - 4 : 0;
    for (size_t i = first; i < POLICIES; i++) {
        print_message("policy %zu\n", i);
        check_gradients(row, &policies[i], 0);
    }
}

/* One sample at a time, and a chunk after which the last one is not full. */
static void chunks(void **state)
{
    const golden_resmlp_case *row = *state;
    keep_policy policies[POLICIES];
    const size_t count = all_policies(policies);
    for (size_t i = 0; i < count; i++) {
        print_message("policy %zu\n", i);
        check_gradients(row, &policies[i], 1);
        check_gradients(row, &policies[i], row->batch - 1);
    }
}

/* Each block with a policy of its own, in all neighbourhoods; the last x in each way. */
static void policies_by_block(void **state)
{
    const golden_resmlp_case *row = *state;
    keep_policy policies[POLICIES + 1], *blocks = test_alloc(row->depth * sizeof *blocks);
    size_t count = all_policies(policies);
    policies[count++] = preset(EXACT_TOKENS);
    policies[POLICIES].last_x = policies[POLICIES - 2].last_x; /* pruned */
    assert_int_equal(form_of(&policies[POLICIES].last_x), BLOCKS);
    for (size_t turn = 0; turn < count; turn++) {
        print_message("from policy %zu on\n", turn);
        for (size_t i = 0; i < row->depth; i++)
            blocks[i] = policies[(turn + i * (turn % 3 + 1)) % count];
        for (size_t chunk = 0; chunk < 2; chunk++)
            check_gradients_of(
                row, make_fixture_each(row, blocks, 1, row->batch, row->batch), chunk);
    }
}

static float *gradients_with(const golden_resmlp_case *row, const keep_policy *policy)
{
    fixture f = make_fixture(row, policy, row->batch, row->batch);
    resmlp_set_seed(&f.model, 7);
    float *all = gradients_of(&f);
    resmlp_destroy(&f.model);
    return all;
}

static bool is_linear_weight(const char *name)
{
    return strstr(name, "linear_tokens.weight") || strstr(name, "fc1.weight") ||
           strstr(name, "fc2.weight");
}

/* The gradient of each tensor is off by some fraction of its norm in [least, most]: those of linear
 * layers' weights, and, where `all`, the others; else these are dense's bits. */
static void check_distance(const golden_resmlp_case *row, const keep_policy *policy, bool all,
    double least, double most, const float *dense)
{
    char exempt[64]; /* its dy is the same at all tokens, so that means of cells suffice */
    (void)snprintf(exempt, sizeof exempt, "blocks.%u.mlp_channels.fc2.weight%s",
        (unsigned)row->depth - 1,
        policy->rule[KEEP_GELU].keep.form == CLPRUNE_FORM_POOLED ? "" : "?");
    float *got = gradients_with(row, policy);
    const golden_tensor *tensors = tensors_of(row);
    size_t first = 0;
    for (size_t i = 0; i < row->parameters; i++) {
        const golden_tensor *tensor = &tensors[i];
        const size_t count = tensor->count;
        const bool weight = is_linear_weight(tensor->name);
        const double norm = golden_norm(count, dense + first);
        float *off = test_floats(count);
        for (size_t k = 0; k < count; k++)
            off[k] = got[first + k] - dense[first + k];
        const double distance = golden_norm(count, off) / norm;
        const double lower = strcmp(tensor->name, exempt) == 0 ? 0 : least;
        if (weight && !(distance >= lower && distance <= most))
            fail_msg("%s: off by %g, not by %g to %g", tensor->name, distance, lower, most);
        if (!weight && !(distance <= (all ? most : 0)))
            fail_msg("%s: off by %g", tensor->name, distance);
        first += count;
    }
}

static keep_policy all_kept(clprune_keep keep)
{
    keep_policy policy = {.last_x = {.keep = keep}};
    for (int i = 0; i < KEEP_TENSORS; i++)
        policy.rule[i] = policy.last_x;
    return policy;
}

/* Quantised and pooled tensors: near dense where much is kept, farther where less is; pooled by
 * cells of one place they are dense. */
static void forms(void **state)
{
    const golden_resmlp_case *row = *state;
    const unsigned side = row->image / row->patch;
    const keep_policy plain = preset(DENSE);
    float *dense = gradients_with(row, &plain);
    static const struct {
        unsigned bits;
        double least, most;
    } codes[] = {{8, 1e-4, 0.03}, {4, 0.005, 0.4}};
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        for (int rounding = 0; rounding <= CLPRUNE_ROUNDING_NEAREST; rounding++) {
            const keep_policy policy = keep_preset(QUANTISED,
                (clprune_keep){
                    .bits = codes[i].bits, .group = 64, .rounding = (clprune_rounding)rounding});
            check_distance(row, &policy, false, codes[i].least, codes[i].most, dense);
        }
    static const struct {
        unsigned bits;
        double least, most;
    } compact[] = {{8, 1e-4, 0.03}, {4, 0.005, 0.2}, {2, 0.01, 1}};
    for (size_t i = 0; i < COUNT_OF(compact); i++) {
        const keep_policy policy =
            keep_preset(COMPACT, (clprune_keep){.bits = compact[i].bits, .group = 64});
        check_distance(row, &policy, true, compact[i].least, compact[i].most, dense);
    }
    const clprune_keep fine = {
        .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST};
    const keep_policy everything = all_kept(fine);
    check_distance(row, &everything, true, 1e-4, 0.05, dense);
    clprune_keep cells = {
        .form = CLPRUNE_FORM_POOLED, .cell = 1, .grid_height = side, .grid_width = side};
    const keep_policy single = keep_preset(POOLED, cells), all_single = all_kept(cells);
    check_distance(row, &single, false, 0, bound, dense);
    check_distance(row, &all_single, true, 0, bound, dense);
    cells.cell = 2;
    const keep_policy four = keep_preset(POOLED, cells);
    check_distance(row, &four, false, 0.01, 2, dense);
}

static void fill(resmlp *model, const char *part, float value)
{
    size_t found = 0;
    for (size_t i = 0; i < model->tensors; i++)
        if (strstr(model->params[i].name, part) != NULL) {
            TEST_OK(clprune_mat_fill(test_context(), value, model->params[i].value, NULL));
            found++;
        }
    assert_true(found > 0);
}

/* A residual stream far from zero, which the affines bring back. */
static void far_from_zero(void **state)
{
    const golden_resmlp_case *row = *state;
    static const float shift = 16;
    float *want[256];
    for (size_t preset_index = DENSE; preset_index <= EXACT_TOKENS; preset_index++) {
        const keep_policy policy = preset(preset_index);
        if (preset_index == PAPER || preset_index == PRUNED)
            continue;
        fixture f = make_fixture(row, &policy, row->batch, row->batch);
        fill(&f.model, "stem.proj.bias", shift);
        fill(&f.model, "alpha", 1);
        fill(&f.model, "beta", -shift);
        both_passes(&f);
        assert_true(f.model.tensors <= COUNT_OF(want));
        for (size_t i = 0; i < f.model.tensors; i++) {
            const clprune_mat grad = f.model.params[i].grad;
            const size_t count = grad.rows * grad.cols;
            float *got = read_mat(grad);
            if (preset_index == DENSE) {
                want[i] = got;
                continue;
            }
            const double norm = golden_norm(count, want[i]);
            for (size_t k = 0; k < count; k++)
                got[k] -= want[i][k];
            /* The head's input is a mean of x less the shift: either way of taking it rounds. */
            const char *name = f.model.params[i].name;
            const double allowed = (strcmp(name, "head.weight") == 0 ? 2 : 1) * bound * norm;
            near(name, "distance from dense", golden_norm(count, got), 0, allowed);
        }
        resmlp_destroy(&f.model);
    }
}

/* Two passes give the same bits; without training nothing is kept and the logits are the same. */
static void same_bits(void **state)
{
    const golden_resmlp_case *row = *state;
    for (size_t i = EXACT; i <= EXACT_TOKENS; i++) {
        const keep_policy policy = preset(i);
        fixture f = make_fixture(row, &policy, row->batch, row->batch + 5);
        f.model.chunk = 2;
        const clprune_mat first_grad = f.model.params[0].grad;
        float *logits = NULL, *grad = NULL;
        for (int pass = 0; pass < 2; pass++) {
            forward(&f, true);
            float *got = read_mat(clprune_mat_rows(f.model.logits, 0, f.batch));
            TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
            float *got_grad = read_mat(first_grad);
            if (pass == 0) {
                logits = got;
                grad = got_grad;
                continue;
            }
            test_same_floats("logits", f.batch, row->classes, got, logits, "%s", row->name);
            test_same_floats(
                "stem", first_grad.rows, first_grad.cols, got_grad, grad, "%s", row->name);
        }
        forward(&f, false);
        float *got = read_mat(clprune_mat_rows(f.model.logits, 0, f.batch));
        test_same_floats("logits", f.batch, row->classes, got, logits, "inference");
        resmlp_destroy(&f.model);
    }
}

/* The slope of the loss along each tensor's gradient is the gradient's norm. */
static void finite_differences(void **state)
{
    const golden_resmlp_case *row = *state;
    for (size_t i = EXACT; i <= EXACT_TOKENS; i++) {
        const keep_policy policy = preset(i);
        check_slopes(row, &policy);
    }
}

static void training(void **state)
{
    const golden_train_run *run = *state;
    for (size_t i = is_slow() ? EXACT_TOKENS : EXACT; i <= EXACT_TOKENS; i++) {
        const keep_policy policy = preset(i);
        check_training(run, &policy, 1e-5);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The formula for what is kept is what the ledger says. */
static void kept_bytes(void **state)
{
    keep_policy policies[POLICIES];
    const size_t count = all_policies(policies);
    for (size_t i = 0; i < count; i++)
        (void)check_kept(*state, &policies[i]);
}

/* resmlp_s12 at 224 px and batch 32: what is saved, and the planned peak of it and of workspace,
 * scratch that operations borrow included. */
static void memory_of_s12(NO_ROW)
{
    enum { BATCH = 32 };
    static const double most[2][2] = {/* MiB: saved; planned */
        {662, 685}, {552, 577.1}};
    static const double mib = 1048576;
    const resmlp_arch s12 = resmlp_arch_at(0);
    for (size_t i = EXACT; i <= EXACT_TOKENS; i++) {
        const keep_policy policy = preset(i);
        clprune_context *dry = test_open_dry(NULL, NULL);
        resmlp model;
        const clprune_image_bytes images = {
            .buffer = test_new_mat(dry, 3 * BATCH, 224 * 224 / sizeof(float)).buffer,
            .levels = test_new_mat(dry, 3, 256)};
        const clprune_mat labels = test_new_mat(dry, BATCH, 1), loss = test_new_mat(dry, BATCH, 1),
                          hit = test_new_mat(dry, BATCH, 1);
        TEST_OK(clprune_plan_begin(dry));
        TEST_OK(create_model(dry, &s12, &policy, 0, BATCH, &model));
        const double kept = (double)test_live(dry, CLPRUNE_MEMORY_ACTIVATIONS) / mib;
        TEST_OK(resmlp_forward(&model, BATCH, images, true));
        TEST_OK(resmlp_loss(&model, BATCH, labels.buffer, 0.1f, loss, hit));
        TEST_OK(resmlp_backward(&model, BATCH, images, labels.buffer, 0.1f));
        TEST_OK(clprune_plan_end_step(dry));
        const double all = (double)clprune_plan_sizes(test_new_plan(dry)).arena_bytes / mib;
        resmlp_destroy(&model);
        print_message("%s: %.2f MiB saved, %.2f planned\n", resmlp_keep.preset_names[i], kept, all);
        if (!(kept <= most[i - EXACT][0]) || !(all <= most[i - EXACT][1]))
            fail_msg("%s: %.2f and %.2f MiB", resmlp_keep.preset_names[i], kept, all);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, presets, NULL, "presets");
    test_add(&list, policies_without_sense, NULL, "policies without sense");
    test_add(&list, memory_of_s12, NULL, "memory of S12");
    for (size_t i = 0; i < golden_resmlp_cases_count; i++) {
        const golden_resmlp_case *row = &golden_resmlp_cases[i];
        const bool large = row->dim > 100;
        if (row->block != 0 || (large && test_small()))
            continue;
        if (row->depth <= 6)
            test_add(&list, forms, row, "quantised and pooled %s", row->name);
        test_add(&list, gradients, row, "gradients %s", row->name);
        if (row->depth > 6)
            continue;
        test_add(&list, chunks, row, "chunks %s", row->name);
        test_add(&list, policies_by_block, row, "policies by block %s", row->name);
        test_add(&list, far_from_zero, row, "far from zero %s", row->name);
        test_add(&list, same_bits, row, "same bits %s", row->name);
        test_add(&list, kept_bytes, row, "kept bytes %s", row->name);
        if (!large)
            test_add(&list, finite_differences, row, "finite differences %s", row->name);
    }
    for (size_t i = 0; i < golden_train_runs_count && !test_small(); i++)
        if (golden_train_runs[i].block == 0)
            test_add(
                &list, training, &golden_train_runs[i], "10 steps %s", golden_train_runs[i].name);
    return test_run_on_devices("resmlp_keep", &list);
}
