/* The example's ResMLP: parameters, gradients and short training runs against PyTorch's (golden/),
 * and what presets keep.
 *
 * Files with the names of timm and of the ResMLP authors give PyTorch's logits within 1e-4, also
 * after they were exported and imported again. */
#include "golden/golden_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/weights.h"
#include "trainer/model/keep_presets.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static void counts(NO_ROW)
{
    /* S12: exact; the others as rounded in timm's table of models */
    static const double millions[] = {15.350872, 30.02, 44.69, 129.14};
    for (size_t i = 0; i < 4; i++) {
        trainer_sizes sizes = {.arch = i};
        assert_null(net_model_settle(&resmlp_model, &sizes));
        assert_true(fabs((double)sizes.parameters * 1e-6 - millions[i]) < 0.006);
    }
    trainer_sizes s12 = {.arch = 0};
    assert_null(net_model_settle(&resmlp_model, &s12));
    assert_int_equal(s12.parameters, 15350872);
    assert_null(resmlp_model.archs[5]);
}

static void sizes_that_do_not_fit(NO_ROW)
{
    trainer_sizes odd = {.arch = 4, .extra = {5}}, large = {.arch = 4, .image = 1u << 20};
    assert_non_null(net_model_settle(&resmlp_model, &odd));
    assert_non_null(net_model_settle(&resmlp_model, &large)); /* too many tokens */
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* What a case of the paper keeps: the inputs of linear layers pruned to their largest blocks. */
static clprune_net_keep keep_of(uint32_t block, double sparsity)
{
    clprune_net_keep keep = {.preset = block == 0 ? CLPRUNE_NET_DENSE : CLPRUNE_NET_INPUTS};
    keep.keep = (clprune_keep){
        .form = CLPRUNE_FORM_PRUNED, .sparsity = (float)sparsity, .block = {1, block}};
    return keep;
}

static void gradients(void **state)
{
    const golden_resmlp_case *row = *state;
    const clprune_net_keep keep = keep_of(row->block, row->sparsity);
    check_gradients(row, &keep);
}

/* Everything kept as blocks, none of them pruned; and the presets with dense's gradients. */
static void gradients_otherwise(void **state)
{
    const golden_resmlp_case *row = *state;
    const clprune_net_rule all = {
        .pattern = "*", .keep = {.form = CLPRUNE_FORM_PRUNED, .block = {4, 4}}};
    const clprune_net_keep ways[] = {{.preset = CLPRUNE_NET_EXACT},
        {.preset = CLPRUNE_NET_EXACT, .products = 256},
        {.preset = CLPRUNE_NET_DENSE, .rules = &all, .rules_count = 1},
        {.preset = CLPRUNE_NET_EXACT, .rules = &all, .rules_count = 1}};
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        check_gradients(row, &ways[i]);
}

/* A model for larger batches gives the same bits, and NaN left behind by them does not matter. */
static void smaller_batch(void **state)
{
    const golden_resmlp_case *row = *state;
    static const clprune_net_preset presets[] = {
        CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT};
    for (size_t p = 0; p < COUNT_OF(presets); p++) {
        const clprune_net_keep keep = {.preset = presets[p]};
        fixture small = make_fixture(row, &keep, 2, 2), large = make_fixture(row, &keep, 2, 4);
        both_passes(&small);
        both_passes(&large);
        for (size_t i = 0; i < small.params_count; i++) {
            const clprune_mat grad = small.params[i].grad;
            test_same_floats(small.params[i].name, grad.rows, grad.cols,
                read_mat(large.params[i].grad), read_mat(grad), "preset %zu", p);
        }
        test_end(small.net);
        test_end(large.net);
    }
}

static void training_run(void **state)
{
    const golden_train_run *run = *state;
    const clprune_net_keep keep = keep_of(run->block, run->sparsity);
    /* pruned: blocks that nearly tie may be chosen otherwise */
    check_training(run, &keep, run->block == 0 ? 1e-5 : 1e-4);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* Saved activations of S12 at batch 32: at most what the presets kept as hand-written passes, in
 * MiB. Dense is what autograd keeps. */
static void memory_of_s12(NO_ROW)
{
    static const struct {
        const char *preset;
        unsigned bits;
        double least, most;
    } rows[] = {{"dense", 4, 1538, 1552.9}, {"exact", 4, 600, 661.7},
        {"exact-tokens", 4, 500, 551.5}, {"compact", 4, 60, 120.8}, {"least", 8, 10, 40},
        {"least", 4, 5, 25}};
    trainer_sizes sizes = {.arch = 0};
    assert_null(net_model_settle(&resmlp_model, &sizes));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const keep_choice choice = {
            .preset = keep_preset_named(rows[i].preset), .how = {.keep = {.bits = rows[i].bits}}};
        clprune_context *dry = test_open_dry(NULL, NULL);
        net_model *model;
        TEST_OK(net_model_create(&resmlp_model, dry, &sizes, &choice, 32, &model));
        const double mib = (double)test_live(dry, CLPRUNE_MEMORY_ACTIVATIONS) / 1048576;
        if (!(mib > rows[i].least && mib < rows[i].most))
            fail_msg("%s, %u bits: %.2f MiB, expected %g to %g", rows[i].preset, rows[i].bits, mib,
                rows[i].least, rows[i].most);
        net_model_destroy(model);
        test_end(dry);
    }
}

/* ---- initial values and weights of other programs -------------------------------------------- */

static void initial_values(NO_ROW)
{
    trainer_sizes sizes = {.arch = 4};
    net_model *model = test_model(&resmlp_model, &sizes, NULL, 1, 5);
    for (size_t i = 0; i < model->weights_count; i++) {
        const trainer_weight w = model->weights[i];
        const size_t count = w.mat.rows * w.mat.cols;
        const double rms = golden_norm(count, read_mat(w.mat)) / sqrt((double)count);
        const char *end = strrchr(w.name, '.');
        const bool stem = strncmp(w.name, "stem", 4) == 0;
        if (strcmp(end, ".weight") == 0)
            near(w.name, "deviation", rms, 1 / sqrt(3 * (double)w.mat.cols),
                3 / sqrt(3 * (double)w.mat.cols * (double)count));
        else if (!stem)
            near(w.name, "value", rms,
                strncmp(end, ".ls", 3) == 0  ? 0.1
                : strcmp(end, ".alpha") == 0 ? 1
                                             : 0,
                1e-7);
    }
}

static void build_odd(const trainer_sizes *sizes, clprune_net *net)
{
    const resmlp_arch arch = arch_of(&golden_resmlp_cases[2]);
    (void)sizes;
    resmlp_build(&arch, net);
}

static const char *settle_odd(trainer_sizes *sizes)
{
    (void)sizes;
    return NULL;
}

/* A model of the golden case "odd", whose parameters are not those. */
static net_model *make_odd(void)
{
    static trainer_model type; /* the model keeps its address */
    type = resmlp_model;
    const golden_resmlp_case *odd = &golden_resmlp_cases[2];
    trainer_sizes sizes = {.image = odd->image, .classes = odd->classes};
    net_model *model;
    type.settle = settle_odd;
    type.build = build_odd;
    assert_string_equal(odd->name, "odd");
    assert_null(net_model_settle(&type, &sizes));
    TEST_OK(net_model_create(&type, test_context(), &sizes, &(keep_choice){0}, odd->batch, &model));
    test_model_own(model);
    return model;
}

static void check_logits(net_model *model)
{
    const golden_resmlp_case *odd = &golden_resmlp_cases[2];
    const size_t bytes = (size_t)odd->batch * 3 * odd->image * odd->image;
    clprune_image_bytes images = golden_images_make(bytes);
    golden_images_write(&images, bytes, odd->image_seed);
    TEST_OK(net_model_forward(
        model, &(clprune_net_data){.batch = odd->batch, .images = images}, false));
    check_tensor(&tensors_of(odd)[odd->parameters], clprune_net_output(model->net, odd->batch));
}

/* A file of timm and one of the authors' code. */
static void imported(void **state)
{
    const char *name = *state, *out = test_text("%s/out", test_folder());
    weights_imported imported;
    net_model *first = make_odd(), *second = make_odd();
    TEST_GOOD(weights_import(first, name, 1, &imported, &f));
    assert_false(imported.head_left);
    check_logits(first);
    TEST_GOOD(weights_export(first, out, &f));
    TEST_GOOD(weights_import(second, out, 1, &imported, &f));
    check_logits(second);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, counts, NULL, "parameter counts");
    test_add(&list, sizes_that_do_not_fit, NULL, "sizes that do not fit");
    test_add(&list, memory_of_s12, NULL, "memory of S12");
    test_add(&list, initial_values, NULL, "initial values");
    for (size_t i = 0; i < golden_resmlp_cases_count; i++) {
        const golden_resmlp_case *row = &golden_resmlp_cases[i];
        const bool large = row->dim > 100;
        if (large && test_small())
            continue;
        test_add(&list, gradients, row, "gradients %s", row->name);
        if (large || row->block != 0)
            continue;
        test_add(&list, gradients_otherwise, row, "other ways %s", row->name);
        test_add(&list, smaller_batch, row, "smaller batch %s", row->name);
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
