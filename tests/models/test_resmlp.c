/* The example's ResMLP: parameters, gradients and short training runs against PyTorch's (golden/),
 * finite differences through the whole model, and what it keeps.
 *
 * Files with the names of timm and of the ResMLP authors give PyTorch's logits within 1e-4.
 * Exported, they have the bytes of timm's file. */
#include "golden/golden_model.h"
#include "resmlp_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/files/safetensors.h"
#include "trainer/files/weights.h"

/* ---- arithmetic ------------------------------------------------------------------------------ */

static void counts(NO_ROW)
{
    /* S12: exact; the others as rounded in timm's table of models */
    static const double millions[] = {15.350872, 30.02, 44.69, 129.14};
    for (size_t i = 0; i < 4; i++) {
        const resmlp_arch arch = resmlp_arch_at(i);
        assert_string_equal(arch.name, resmlp_arch_names[i]);
        assert_null(resmlp_arch_check(&arch));
        assert_true(fabs((double)resmlp_arch_parameters(&arch) * 1e-6 - millions[i]) < 0.006);
    }
    const resmlp_arch s12 = resmlp_arch_at(0);
    assert_int_equal(resmlp_arch_parameters(&s12), 15350872);
    assert_int_equal(resmlp_arch_tensors(&s12), 150);
    assert_int_equal(resmlp_arch_tokens(&s12), 196);
    const resmlp_arch tiny = resmlp_arch_at(4);
    assert_int_equal(resmlp_arch_tokens(&tiny), 64);
    assert_null(resmlp_arch_names[5]);
}

static void sizes_that_do_not_fit(NO_ROW)
{
    const resmlp_arch good = resmlp_arch_at(4);
    resmlp_arch arch = good;
    arch.patch = 5;
    assert_non_null(resmlp_arch_check(&arch));
    arch = good;
    arch.classes = 0;
    assert_non_null(resmlp_arch_check(&arch));
    arch = good;
    arch.image = 1u << 20;
    assert_non_null(resmlp_arch_check(&arch)); /* too many tokens */

    resmlp model;
    const keep_policy dense = keep_preset(0, (clprune_keep){0});
    assert_int_equal(
        create_model(test_context(), &arch, &dense, 0, 1, &model), CLPRUNE_INVALID_ARGUMENT);
    assert_null(model.params);
    resmlp_destroy(&model);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void gradients(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy policy = policy_of(row->block, row->sparsity);
    check_gradients(row, &policy, 0);
}

static void gradients_from_whole_blocks(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy blocks = policy_of_all_blocks((clprune_block){1, 16});
    const keep_policy squares = policy_of_all_blocks((clprune_block){4, 4});
    check_gradients(row, &blocks, 0);
    check_gradients(row, &squares, 0);
}

/* A model for larger batches gives the same bits, and NaN left behind by them does not matter. */
static void smaller_batch(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy policy = policy_of(row->block, row->sparsity);
    fixture exact = make_fixture(row, &policy, 2, 2), roomy = make_fixture(row, &policy, 2, 5);
    for (size_t i = 0; i < roomy.model.tensors; i++)
        TEST_OK(clprune_mat_fill(test_context(), NAN, roomy.model.params[i].grad, NULL));
    TEST_OK(clprune_mat_fill(test_context(), NAN, roomy.model.work.dx, NULL));
    TEST_OK(clprune_mat_fill(test_context(), NAN, roomy.model.work.dnorm2, NULL));
    TEST_OK(clprune_mat_fill(test_context(), NAN, roomy.model.work.dfc1, NULL));
    both_passes(&exact);
    both_passes(&roomy);
    for (size_t i = 0; i < exact.model.tensors; i++) {
        const clprune_mat mat = exact.model.params[i].grad;
        float *want = read_mat(mat), *got = read_mat(roomy.model.params[i].grad);
        test_same_floats(
            exact.model.params[i].name, mat.rows, mat.cols, got, want, "%s", row->name);
    }
    resmlp_destroy(&exact.model);
    resmlp_destroy(&roomy.model);
}

/* Without training nothing is kept, and the logits have the same bits. */
static void inference(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy policy = policy_of(row->block, row->sparsity);
    fixture f = make_fixture(row, &policy, row->batch, row->batch);
    forward(&f, true);
    float *want = read_mat(f.model.logits);
    forward(&f, false);
    float *got = read_mat(f.model.logits);
    test_same_floats("logits", f.batch, row->classes, got, want, "%s", row->name);
    resmlp_destroy(&f.model);
}

static void finite_differences(void **state)
{
    const keep_policy policy = policy_of(0, 0);
    check_slopes(*state, &policy);
}

/* ---- memory, initialisation, training -------------------------------------------------------- */

/* The formula for what is kept is what the ledger says. */
static void kept_bytes(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy policy = policy_of(row->block, row->sparsity);
    const kept_sums bytes = check_kept(row, &policy);
    assert_true(row->block != 0 || bytes.indices == 0);
}

/* S12 at 224 px and batch 32, off the ledger: dense, the 1552.9 MiB that autograd keeps; pruned, at
 * least the savings of the paper's Table III. Buffers that nothing touches take no memory. */
static void paper_memory(NO_ROW)
{
    static const double table[3][3] = {/* MiB; rows: s = 0.6, 0.7, 0.8; columns: b = 16, 32, 64 */
        {365.2, 384.2, 393.9}, {437.7, 456.3, 462.0}, {516.4, 524.1, 528.2}};
    static const float sparsities[3] = {0.6f, 0.7f, 0.8f};
    static const double mib = 1048576;
    const resmlp_arch s12 = resmlp_arch_at(0);
    const uint64_t before = kept_now();
    double dense = 0;
    for (int i = -1; i < 9; i++) {
        const int row = i / 3, column = i % 3;
        const keep_policy policy =
            i < 0 ? policy_of(0, 0) : policy_of(16u << column, (double)sparsities[row]);
        resmlp model;
        TEST_OK(create_model(test_context(), &s12, &policy, 0, 32, &model));
        const double bytes = (double)(kept_now() - before);
        resmlp_destroy(&model);
        if (i < 0) {
            dense = bytes;
            near("dense", "MiB", dense / mib, 1552.9, 0.01 * 1552.9);
        } else if (!((dense - bytes) / mib >= 0.99 * table[row][column])) {
            fail_msg("s = %g, b = %u: %.1f MiB saved, the paper has %.1f", (double)sparsities[row],
                16u << column, (dense - bytes) / mib, table[row][column]);
        }
        print_message("s = %g, b = %u: %.1f MiB\n", i < 0 ? 0.0 : (double)sparsities[row],
            i < 0 ? 0 : 16u << column, (dense - bytes) / mib);
    }
}

static void initial_values(void **state)
{
    const double deviations[] = {0.02, 0};
    resmlp_arch arch = arch_of(*state);
    const keep_policy policy = policy_of(0, 0);
    arch.scale = 0.25;
    for (int d = 0; d < 2; d++) {
        resmlp model;
        arch.deviation = deviations[d];
        TEST_OK(create_model(test_context(), &arch, &policy, 0, 1, &model));
        TEST_OK(resmlp_init(&model, 5));
        for (size_t i = 0; i < model.tensors; i++) {
            const model_tensor tensor = resmlp_arch_tensor(&arch, i);
            const clprune_param *param = &model.params[i];
            const size_t count = tensor.rows * tensor.cols;
            const double inputs = (double)tensor.cols,
                         stem = 3.0 * (double)(arch.patch * arch.patch);
            float *values = read_mat(param->value);
            const double rms = golden_norm(count, values) / sqrt((double)count);
            assert_true(param->decay == (tensor.rows > 1));
            if (tensor.kind == RESMLP_WEIGHT) {
                const double want = d == 0 ? 0.02 : 1 / sqrt(3 * inputs);
                near(param->name, "deviation", rms, want, 3 * want / sqrt((double)count));
            } else if (tensor.kind == RESMLP_STEM_WEIGHT) {
                near(param->name, "deviation", rms, 1 / sqrt(3 * stem), 0.05 / sqrt(stem));
            } else if (tensor.kind != RESMLP_STEM_BIAS) {
                const bool zero = tensor.kind == RESMLP_BIAS || tensor.kind == RESMLP_BETA;
                near(param->name, "value", rms,
                    zero                          ? 0
                    : tensor.kind == RESMLP_SCALE ? arch.scale
                                                  : 1,
                    1e-12);
            }
        }
        resmlp_destroy(&model);
    }
}

static void training_run(void **state)
{
    const golden_train_run *run = *state;
    const keep_policy policy = policy_of(run->block, run->sparsity);
    /* pruned: blocks that nearly tie may be chosen otherwise */
    check_training(run, &policy, run->block == 0 ? 1e-5 : 1e-4);
}

/* ---- sampled blocks -------------------------------------------------------------------------- */

static keep_policy policy_of_sampled(float sparsity, uint32_t block, bool all)
{
    const keep_rule rule = {.keep = {.form = CLPRUNE_FORM_PRUNED,
                                .sparsity = sparsity,
                                .block = {1, block},
                                .criterion = CLPRUNE_CRITERION_SAMPLED}};
    keep_policy policy = keep_preset(1, rule.keep);
    for (int i = 0; i < KEEP_TENSORS && all; i++)
        policy.rule[i] = policy.last_x = rule;
    return policy;
}

/* The weight gradients of the layers whose input is sampled are the dense ones on average, which
 * those of the largest blocks are not; all other gradients are the dense ones to the bit. */
static void sampled_gradients(void **state)
{
    enum { DRAWS = 200 };
    const golden_resmlp_case *row = *state;
    const keep_policy policies[3] = {policy_of(0, 0), policy_of(row->block, row->sparsity),
        policy_of_sampled((float)row->sparsity, row->block, false)};
    float *all[3]; /* dense, of the largest blocks, sampled with seed 0 */
    fixture f;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            resmlp_destroy(&f.model);
        f = make_fixture(row, &policies[i], row->batch, row->batch);
        resmlp_set_seed(&f.model, 0);
        all[i] = gradients_of(&f);
    }
    const float *want = all[0], *biased = all[1], *first = all[2];
    const size_t count = resmlp_arch_parameters(&f.model.arch);
    double *sums = test_alloc(2 * count * sizeof *sums), *squares = sums + count;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        resmlp_set_seed(&f.model, draw);
        float *got = gradients_of(&f);
        assert_true((memcmp(got, first, count * sizeof *got) == 0) == (draw == 0));
        for (size_t i = 0; i < count; i++) {
            sums[i] += (double)got[i];
            squares[i] += (double)got[i] * (double)got[i];
        }
    }
    for (size_t t = 0, at = 0; t < f.model.tensors; t++) {
        const clprune_param *param = &f.model.params[t];
        const size_t size = param->grad.rows * param->grad.cols;
        const bool sampled = resmlp_arch_tensor(&f.model.arch, t).kind == RESMLP_WEIGHT &&
                             strncmp(param->name, "blocks.", 7) == 0;
        double off = 0, off_largest = 0;
        for (size_t i = at; i < at + size && sampled; i++) {
            const double mean = sums[i] / DRAWS, exact = (double)want[i];
            const double variance = fmax(squares[i] / DRAWS - mean * mean, 0);
            near(param->name, "mean", mean, exact,
                6 * sqrt(variance / DRAWS) + 1e-5 * fabs(exact) + 1e-9);
            off += (mean - exact) * (mean - exact);
            off_largest += ((double)biased[i] - exact) * ((double)biased[i] - exact);
        }
        if (sampled)
            near(param->name, "distance", sqrt(off), 0, 0.5 * sqrt(off_largest));
        else
            test_same_floats(param->name, 1, size, first + at, want + at, "%s", row->name);
        at += size;
    }
    resmlp_destroy(&f.model);
}

/* The seed reaches everything that a policy may sample. */
static void every_tensor_is_seeded(void **state)
{
    const golden_resmlp_case *row = *state;
    const keep_policy policy = policy_of_sampled(0.5f, 4, true);
    fixture f = make_fixture(row, &policy, row->batch, row->batch);
    const size_t kept = row->depth * KEEP_TENSORS, floats = f.batch * f.model.tokens * row->hidden;
    float *want = test_floats(floats), *got = test_floats(floats);
    for (size_t i = 0; i <= kept; i++) {
        const clprune_bsr bsr = clprune_saved_bsr(
            i < kept ? f.model.blocks[i / KEEP_TENSORS].kept[i % KEEP_TENSORS] : f.model.last_x, 0,
            f.batch);
        clprune_mat values = clprune_mat_of(bsr.values, f.batch * bsr.desc.keep, 4);
        values.offset = bsr.offset.values / sizeof(float);
        for (uint64_t seed = 0; seed < 2; seed++) {
            resmlp_set_seed(&f.model, seed);
            forward(&f, true);
            TEST_OK(clprune_mat_read(test_context(), values, seed == 0 ? want : got));
        }
        if (memcmp(want, got, values.rows * 4 * sizeof *got) == 0)
            fail_msg("tensor %zu of %zu is not seeded", i, kept + 1);
    }
    resmlp_destroy(&f.model);
}

/* ---- weights of other programs --------------------------------------------------------------- */

/* A file of timm and one of the authors' code: both give PyTorch's logits, and timm's file. */
static void imported(void **state)
{
    const char *name = *state;
    const golden_resmlp_case *odd = &golden_resmlp_cases[2];
    const keep_policy dense = policy_of(0, 0);
    const char *out = test_text("%s/out", test_folder());
    bool head_left;
    assert_string_equal(odd->name, "odd");
    fixture m = make_fixture(odd, &dense, odd->batch, odd->batch);
    TEST_OK(resmlp_init(&m.model, 1));
    TEST_GOOD(weights_import(&resmlp_model, &m.model, test_context(), name, &head_left, &f));
    assert_false(head_left);
    forward(&m, false);
    check_tensor(&tensors_of(odd)[odd->parameters], m.model.logits);
    TEST_GOOD(weights_export(&resmlp_model, &m.model, test_context(), out, &f));
    test_file_same(out, TEST_GOLDEN "/timm.safetensors");
    resmlp_destroy(&m.model);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, counts, NULL, "parameter counts");
    test_add(&list, sizes_that_do_not_fit, NULL, "sizes that do not fit");
    test_add(&list, paper_memory, NULL, "memory of S12");
    for (size_t i = 0; i < golden_resmlp_cases_count; i++) {
        const golden_resmlp_case *row = &golden_resmlp_cases[i];
        const bool large = row->dim > 100;
        if (large && test_small())
            continue;
        test_add(&list, gradients, row, "gradients %s", row->name);
        if (large)
            continue;
        test_add(&list, smaller_batch, row, "smaller batch %s", row->name);
        test_add(&list, inference, row, "inference %s", row->name);
        test_add(&list, kept_bytes, row, "kept bytes %s", row->name);
        if (row->block != 0) {
            test_add(&list, sampled_gradients, row, "sampled gradients %s", row->name);
            test_add(&list, every_tensor_is_seeded, row, "seeds %s", row->name);
        }
        if (row->block == 0) {
            test_add(&list, gradients_from_whole_blocks, row, "whole blocks %s", row->name);
            test_add(&list, finite_differences, row, "finite differences %s", row->name);
            test_add(&list, initial_values, row, "initial values %s", row->name);
        }
    }
    for (size_t i = 0; i < golden_train_runs_count && !test_small(); i++)
        test_add(
            &list, training_run, &golden_train_runs[i], "10 steps %s", golden_train_runs[i].name);
    if (safetensors_readable()) {
        test_add(&list, imported, TEST_GOLDEN "/timm.safetensors", "weights of timm");
        test_add(&list, imported, TEST_GOLDEN "/facebook.safetensors", "weights of the authors");
    }
    return test_run_on_devices("resmlp", &list);
}
