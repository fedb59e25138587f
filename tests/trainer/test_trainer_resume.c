/* Runs that go on: what a checkpoint has of the run, and what is refused. With the model of
 * support/linear_model.h. */
#include <unistd.h>

#include "support/linear_model.h"
#include "support/linker_wrap.h"
#include "support/test_dataset.h"
#include "support/test_run.h"
#include "trainer/data/rng.h"

static uint64_t seed_from(rng_domain domain, uint64_t seed, uint32_t a)
{
    rng r = rng_open(seed, domain, a, 0);
    const uint64_t high = rng_next(&r);
    return high << 32 | rng_next(&r);
}

/* The seeds of the net's latest passes. */
static uint64_t seeds[8];
static size_t seeds_count;
TEST_WRAP(void, clprune_net_set_seed, (clprune_net * net, uint64_t seed))
{
    if (seeds_count < COUNT_OF(seeds))
        seeds[seeds_count++] = seed;
    __real_clprune_net_set_seed(net, seed);
}

/* The seeds of the steps of a run, which has done one already. */
static void check_seeds(rng_domain domain, uint32_t first)
{
    assert_int_equal(seeds_count, 2);
    for (size_t i = 0; i < seeds_count; i++)
        assert_true(seeds[i] == seed_from(domain, 1, first + (uint32_t)i));
}

/* A copy of a checkpoint beside it: with the record *other; with `again` besides one of its name
 * that is there, else instead of it. other->data NULL: without the record. */
static const char *changed(const char *from, const checkpoint_record *other, bool again)
{
    const char *to = test_text("%s.changed", from);
    const checkpoint *c = test_checkpoint(from);
    checkpoint_writer writer;
    bool found = again;
    TEST_GOOD(checkpoint_create(to, &writer, &f));
    for (size_t i = 0; i < c->count + again; i++) {
        const checkpoint_record *r = i < c->count ? &c->records[i] : other;
        if (!again && strcmp(r->name, other->name) == 0) {
            r = other;
            found = true;
        }
        if (r->data != NULL)
            checkpoint_put(&writer, r->name, r->type, r->rows, r->cols, r->data);
    }
    assert_true(found);
    TEST_GOOD(checkpoint_commit(&writer, &f));
    return to;
}

/* The same with other data of a record, in other rows. */
static const char *with_record(const char *from, const char *name, uint64_t rows, const void *data)
{
    checkpoint_record other = *test_record(test_checkpoint(from), name);
    other.rows = rows;
    other.data = data;
    return changed(from, &other, false);
}

/* The checkpoint of a run in a new folder, of 24 images in batches of 8, that stopped after step 1
 * of 3 of its second epoch. */
static const char *stopped_run(void)
{
    const char *folder = test_folder();
    test_run_whole(&linear_with_state, LINEAR_SMALL "--epochs 3 --steps 4 --output-dir %s", folder);
    return test_text("%s/last.ckpt", folder);
}

/* A count goes on from what the checkpoint has, up to the largest; without one there is none. */
static void counts_go_on(NO_ROW)
{
    static const struct {
        bool is_there;
        uint64_t before;
        int64_t after;
    } rows[] = {{true, 40, 41}, {true, INT64_MAX - 1, INT64_MAX}, {false, 0, TRAINER_NO_COUNT}};
    const char *last = stopped_run();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *old =
            with_record(last, LINEAR_COUNT, 1, rows[i].is_there ? &rows[i].before : NULL);
        training_run *run = test_run_open(
            &linear_with_state, "--resume %s --steps 1 --output-dir %s-%zu", old, last, i);
        test_run_train(run);
        assert_int_equal(run->s.model->counted[0], rows[i].after);
        const checkpoint *c = test_checkpoint(test_text("%s-%zu/last.ckpt", last, i));
        const checkpoint_record *record = checkpoint_find(c, LINEAR_COUNT);
        assert_true((record != NULL) == rows[i].is_there);
        if (record != NULL)
            assert_true(*(const uint64_t *)record->data == (uint64_t)rows[i].after);
        test_end(run);
    }
}

/* Records that the run does not have, and records that are there twice, are refused by name. */
static void other_records(NO_ROW)
{
    static const struct {
        const char *name, *like, *said;
    } rows[] = {
        {"param/other", LINEAR_W, "the record 'param/other' is unknown; a newer linear-train"},
        {"state3/w", LINEAR_W, "the record 'state3/w' is unknown"},
        {"model/other", LINEAR_MEAN, "the record 'model/other' is unknown"},
        {"count/other", LINEAR_COUNT, "the record 'count/other' is unknown"},
        {"other", "position", "the record 'other' is unknown"},
        {LINEAR_W, LINEAR_W, "the record '" LINEAR_W "' is there twice"},
        {LINEAR_COUNT, LINEAR_COUNT, "the record '" LINEAR_COUNT "' is there twice"},
        {"position", "position", "the record 'position' is there twice"},
        {"log", "log", "the record 'log' is there twice"},
    };
    const char *last = stopped_run();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        checkpoint_record more = *test_record(test_checkpoint(last), rows[i].like);
        more.name = rows[i].name;
        test_run_refused(&linear_with_state, CODE_DATA, rows[i].said, "--resume %s --steps 1",
            changed(last, &more, true));
    }
}

/* Images that were replaced count over all processes of a run. A
 * finished epoch has no loss left. */
static void skipped_goes_on(NO_ROW)
{
    const char *folder = test_folder(), *last = test_text("%s/last.ckpt", folder);
    uint64_t position[11] = {0};
    double sums[4];
    test_run_whole(&linear_with_state, LINEAR_SMALL "--epochs 1 --output-dir %s", folder);
    const checkpoint *c = test_checkpoint(last);
    assert_int_equal(test_record(c, "position")->cols, 11);
    memcpy(position, test_record(c, "position")->data, sizeof position);
    memcpy(sums, test_record(c, "sums")->data, sizeof sums);
    assert_int_equal(position[10], 0);
    position[10] = 7;
    test_run_whole(&linear_with_state, "--resume %s --epochs 2 --output-dir %s/more",
        with_record(last, "position", 1, position), folder);
    c = test_checkpoint(test_text("%s/more/last.ckpt", folder));
    assert_int_equal(((const uint64_t *)test_record(c, "position")->data)[10], 7);
    sums[0] = 12345;
    test_run_refused(&linear_with_state, CODE_DATA,
        "the loss summed in the epoch: 12345, not 0 to 0", "--resume %s --test-only",
        with_record(last, "sums", 1, sums));
}

/* Numbers that no run could have written, under a right checksum: each is refused by its name. */
static void nonsense_in_a_checkpoint(NO_ROW)
{
    static const struct {
        const char *record;
        size_t at;
        double value;
        const char *name;
    } rows[] = {
        {"position", 0, 2, "step: 4, not 7"},
        {"position", 0, 1e15, "epochs done"},
        {"position", 0, 0, "step: 4, not 1"},
        {"position", 1, 4, "step in the epoch: 4, not 0 to 3"},
        {"position", 1, 2, "step: 4, not 5"},
        {"position", 2, 5, "step: 5, not 4"},
        {"position", 3, 9, "samples seen in the epoch: 9, not 8"},
        {"position", 4, 9, "hits in the epoch: 9, not 0 to 8"},
        {"position", 5, 1e18, "steps of the optimizer"},
        {"position", 8, 2, "steps timed in the epoch"},
        {"position", 9, 9, "samples timed in the epoch"},
        {"position", 6, 0x1p63, "peak bytes: 9223372036854775808, not 0 to 9007199254740992"},
        {"position", 7, 0x1p63, "saved activation bytes"},
        {"position", 8, 0, "samples timed in the epoch: 8, not 0"},
        {"position", 9, 0, "samples timed in the epoch: 0, not 1 to 8"},
        {"position", 10, 0x1p63, "images replaced"},
        {"sums", 0, (double)NAN, "the loss summed in the epoch"},
        {"sums", 0, 1e300, "the loss summed in the epoch: 1e+300, not 0 to "},
        {"sums", 0, -1, "the loss summed in the epoch"},
        {"sums", 1, (double)INFINITY, "the seconds of the run"},
        {"sums", 1, 1e300, "the seconds of the run"},
        {"sums", 2, -1, "the seconds of the epoch"},
        {"sums", 2, 1e300, "the seconds of the epoch"},
        {"sums", 3, (double)NAN, "the seconds of processors"},
        {"log", 0, 2, "row 1 of its log"},
        {"log", 1, 4, "row 1 of its log"},
        {"log", 2, (double)NAN, "row 1 of its log"},
        {"log", 3, (double)NAN, "row 1 of its log"},
        {"log", 6, (double)NAN, "row 1 of its log"},
        {"log", 6, (double)INFINITY, "row 1 of its log"},
        {"log", 7, -1, "row 1 of its log"},
        {"log", 8, (double)INFINITY, "row 1 of its log"},
        {"log", 8, (double)NAN, "row 1 of its log"},
        {"log", 9, 1e300, "row 1 of its log"},
        {"log", 10, -5, "row 1 of its log"},
        {LINEAR_W, 5, (double)NAN, "'" LINEAR_W "' has a value that is not finite"},
        {LINEAR_MEAN, 2, (double)INFINITY, "'" LINEAR_MEAN "' has a value that is not finite"},
        {LINEAR_COUNT, 0, 0x1p63,
            "'" LINEAR_COUNT "' is 9223372036854775808, not 0 to 9223372036854775807"},
    };
    char device[512];
    double twice[2 * CSV_COLUMNS_WITHOUT_NORMS] = {0};
    memset(device, 'x', sizeof device); /* not ended */
    const struct {
        const char *record;
        uint64_t rows;
        const void *data;
        const char *said;
    } wholes[] = {
        {"log", 0, (double[CSV_COLUMNS_WITHOUT_NORMS]){0},
            "its log has 0 rows, not one for each of 1 epochs"},
        {"log", 2, twice, "row 2 of its log is not that of epoch 2"},
        {"device", 1, device, "its device is no text"},
        {LINEAR_COUNT, 2, (uint64_t[]){4, 4}, "'" LINEAR_COUNT "' is 2 x 1, not 1 x 1"},
    };
    const char *last = stopped_run();
    memcpy(twice, test_record(test_checkpoint(last), "log")->data,
        CSV_COLUMNS_WITHOUT_NORMS * sizeof *twice);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const checkpoint_record *record = test_record(test_checkpoint(last), rows[i].record);
        const size_t wide = record->type == CHECKPOINT_F32 ? 4 : 8;
        void *data = test_copy((size_t)(record->rows * record->cols) * wide, record->data);
        if (record->type == CHECKPOINT_U64)
            ((uint64_t *)data)[rows[i].at] = (uint64_t)rows[i].value;
        else if (record->type == CHECKPOINT_F64)
            ((double *)data)[rows[i].at] = rows[i].value;
        else
            ((float *)data)[rows[i].at] = (float)rows[i].value;
        const char *bad = with_record(last, rows[i].record, record->rows, data);
        test_says(test_run_refused(
                      &linear_with_state, CODE_DATA, rows[i].name, "--resume %s --steps 1", bad),
            bad);
    }
    for (size_t i = 0; i < COUNT_OF(wholes); i++)
        test_run_refused(&linear_with_state, CODE_DATA, wholes[i].said, "--resume %s --steps 1",
            with_record(last, wholes[i].record, wholes[i].rows, wholes[i].data));
    /* What is not nonsense, but too late. */
    test_says(test_run_refused(&linear_with_state, CODE_USAGE, "--epochs 1: the run in",
                  "--resume %s --epochs 1", last),
        "is in epoch 2 already");
    test_run_whole(&linear_with_state, "--resume %s", last);
}

/* The checkpoint, in `folder`, of a run that did no step; it builds no kernel of a step. */
static const char *save_with(const char *kernels, const char *more, const char *folder)
{
    test_debug(kernels);
    training_run *run = test_run_open(
        &linear_with_state, LINEAR_SMALL "%s --output-dir %s --overwrite", more, folder);
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    return test_text("%s/last.ckpt", folder);
}

/* What a run says on stderr when it goes on. */
static const char *say_resumed(const char *kernels, const char *path)
{
    enum { SIZE = 8192 };
    char *said = test_alloc(SIZE);
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    test_debug(kernels);
    assert_true(file != NULL && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    test_end(test_run_open(&linear_with_state, "--resume %s --steps 1", path));
    assert_true(dup2(kept, STDERR_FILENO) >= 0 && close(kept) == 0);
    rewind(file);
    assert_true(fread(said, 1, SIZE - 1, file) < SIZE - 1);
    (void)fclose(file);
    return said;
}

static void say_nothing(const char *kernels, const char *path)
{
    assert_null(strstr(say_resumed(kernels, path), "note: "));
}

/* A copy of the text of the device's record, as long as the record. */
static char *device_of(const char *path)
{
    const checkpoint_record *record = test_record(test_checkpoint(path), "device");
    return test_copy((size_t)record->cols, record->data);
}

/* The first digit of the compute units in it. */
static char *units_of(char *device)
{
    static const char units[] = ", compute units: ";
    test_says(device, units);
    return strstr(device, units) + strlen(units);
}

/* A run that goes on where its bits may be others says so: with other kernels, or with tiled ones
 * on other compute units, which split their sums. */
static void other_devices(NO_ROW)
{
    const char *folder = test_folder(), *last = save_with("kernels=tiled", "", folder);
    char *device = device_of(last), *units = units_of(device);
    test_says(device, "tiled kernels on ");
    say_nothing("kernels=tiled", last);
    *units = *units == '1' ? '2' : '1';
    const char *said = say_resumed("kernels=tiled", with_record(last, "device", 1, device));
    test_says(said, "linear-train: note: the run in ");
    test_says(said, device);
    test_says(say_resumed("kernels=vector", last), "; it goes on with vector kernels on ");
    save_with("kernels=vector", "", folder);
    assert_null(strstr(device_of(last), "compute units"));
    say_nothing("kernels=vector", last);
    /* Tensor cores split sums by compute units with both kernel families. */
    save_with("kernels=vector,mma=emulated", "--precision tf32", folder);
    test_says(device_of(last), "compute units");
}

/* A tuning file with a row for the device under test. */
static void write_tuning(const char *path, int depth)
{
    const clprune_device_info device = clprune_context_device_info(test_context());
    const char *text = test_text(
        "clprune_tuning = 1\ndevice = %s\ngemm.panel_depth = %d\nend\n", device.device, depth);
    test_file_write(path, text, strlen(text));
}

/* The tuning is compared by its parameters, not by the name of the file, however long. */
static void other_tuning(NO_ROW)
{
    enum { LONG = 700 };
    static const char tiled[] = "kernels=tiled", note[] = "note: ";
    const char *folder = test_folder(), *moved = test_text("%s/moved", folder);
    char *path = test_text("%s/%0*d/tuning", folder, LONG, 0);
    for (size_t i = 0; i < LONG; i++)
        path[strlen(folder) + 1 + i] = "/."[i % 2];
    write_tuning(path, 128);
    test_environment("CLPRUNE_TUNING", path);
    const char *last = save_with(tiled, "", folder);
    say_nothing(tiled, last);
    write_tuning(path, 256);
    test_says(say_resumed(tiled, last), "linear-train: note: the run in ");
    char *device = device_of(last);
    *units_of(device) ^= 1;
    write_tuning(moved, 128);
    test_environment("CLPRUNE_TUNING", moved);
    say_nothing(tiled, last);
    test_says(say_resumed(tiled, with_record(last, "device", 1, device)), note);
}

/* Steps draw from a stream that no initial parameter was drawn from, also in a run that goes on. */
static void streams(NO_ROW)
{
    const char *folder = test_folder(), *last = test_text("%s/last.ckpt", folder);
    training_run *run = test_run_open(
        &linear_with_state, LINEAR_SMALL "--epochs 2 --steps 2 --output-dir %s", folder);
    seeds_count = 0; /* the plan had a pass */
    test_run_train(run);
    check_seeds(RNG_PRUNE, 0);
    for (size_t i = 0; i < 2; i++) /* at the tensors that there are, and beyond */
        for (uint32_t tensor = 0; tensor < 300; tensor++)
            assert_true(seeds[i] != seed_from(RNG_INIT, 1, tensor));
    test_end(run);
    run = test_run_open(&linear_with_state, "--resume %s --steps 2", last);
    seeds_count = 0;
    test_run_train(run);
    check_seeds(RNG_PRUNE, 2);
    test_end(run);
}

/* A folder of `count` images of `side` x `side` pixels, and 8 for tests, of classes 0 to most. */
static const char *make_images(
    const char *parent, const char *name, uint32_t count, uint32_t side, uint8_t most)
{
    enum { COUNT = 64, BYTES = COUNT * 16 * 16 };
    const char *folder = make_folder_in(parent, name);
    uint8_t pixels[BYTES], labels[COUNT];
    for (size_t i = 0; i < BYTES; i++)
        pixels[i] = (uint8_t)(i * 2654435761u * ((uint8_t)name[0] + count) >> 24);
    for (size_t i = 0; i < COUNT; i++)
        labels[i] = (uint8_t)(i % (most + 1u));
    for (int test = 0; test < 2; test++) {
        const uint32_t sizes[] = {test ? 8 : count, side, side};
        put_idx(folder, test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", 0x803, 3,
            sizes, pixels, (size_t)sizes[0] * side * side);
        put_idx(folder, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", 0x801, 1,
            sizes, labels, sizes[0]);
    }
    return folder;
}

/* Parameters, moments, states, position, stages and the log without times and bytes. */
static void same_run(const char *got, const char *want)
{
    const checkpoint *c = test_checkpoint(got), *of = test_checkpoint(want);
    assert_int_equal(c->count, of->count);
    for (size_t i = 0; i < c->count; i++) {
        const checkpoint_record *a = &c->records[i], *b = test_record(of, a->name);
        size_t size = (size_t)(a->rows * a->cols) * (a->type == CHECKPOINT_F32 ? 4 : 8);
        if (strcmp(a->name, "sums") == 0 || a->type == CHECKPOINT_BYTES)
            continue;
        if (strcmp(a->name, "position") == 0)
            size = 6 * sizeof(uint64_t);
        assert_true(a->rows == b->rows && a->cols == b->cols);
        for (uint64_t k = 0; strcmp(a->name, "log") == 0 && k < a->rows; k++)
            assert_memory_equal((const double *)a->data + k * a->cols,
                (const double *)b->data + k * a->cols, offsetof(csv_row, speed));
        if (strcmp(a->name, "log") != 0 && memcmp(a->data, b->data, size) != 0)
            fail_msg("'%s' of %s differs from %s", a->name, got, want);
    }
}

static void check_stages(const char *path, size_t count, const run_stage *want)
{
    const checkpoint_record *record = test_record(test_checkpoint(path), "stages");
    assert_int_equal(record->rows, count);
    assert_memory_equal(record->data, want, count * sizeof *want);
}

/* The steps in the log, and the learning rates of the last stage: those of a run whose epochs all
 * have its steps. */
static void check_rates(const char *path, size_t count, const run_stage *stages, uint64_t epochs)
{
    size_t logged;
    const csv_row *rows = test_rows(path, &logged);
    for (uint64_t i = 0, at = 0; i < epochs; i++) {
        while (at + 1 < count && stages[at + 1].epoch <= i)
            at++;
        const uint64_t each = (stages[at].samples + 7) / 8;
        const clprune_schedule schedule = {.base = 0.1, .warmup = each, .total = epochs * each};
        const double lr = clprune_schedule_lr(&schedule, (i + 1) * each - 1);
        assert_true((uint64_t)rows[i].step == stages[at].step + (i + 1 - stages[at].epoch) * each);
        assert_true(at + 1 < count || fabs(rows[i].lr - lr) <= 1e-15);
    }
}

/* Stages: a run of 24 images in steps of 8 goes on with others, which begin an epoch. A stopped
 * second stage goes on to the bits of one that was not; a third one follows. */
static void stages(NO_ROW)
{
    static const struct {
        const char *before;   /* how the first stage ends, of 5 epochs in all */
        uint64_t epoch, step; /* where the second one begins */
        const char *data, *more;
        uint64_t samples;
    } rows[] = {
        {"--steps 3", 0, 3, "b", "", 16}, /* at the end of an epoch: its test was not made */
        {"--steps 4", 1, 4, "b", "", 16}, /* within the second epoch, which begins anew */
        {"--steps 2", 0, 2, "b", "", 16}, /* within the first one */
        {"--steps 7", 2, 7, "b", "--micro-batches 2", 16},
        {"--steps 4", 1, 4, "b", "--train-limit 13", 13},
        {"--steps 4", 1, 4, "large", "", 40}, /* more than the run's limit */
        {"--steps 6", 1, 6, "generated", "--train-limit 16 --test-limit 8", 16},
        {"--epochs 2", 2, 6, "b", "", 16}, /* all of its epochs */
    };
    const char *top = test_folder();
    const char *a = make_images(top, "a", 24, 16, 3);
    (void)make_images(top, "b", 16, 16, 3);
    (void)make_images(top, "large", 40, 16, 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *folder = test_text("%s/%zu", top, i), *last = test_text("%s/last.ckpt", folder);
        const char *data = strcmp(rows[i].data, "generated") == 0
                               ? rows[i].data
                               : test_text("%s/%s", top, rows[i].data);
        const uint64_t each = (rows[i].samples + 7) / 8;
        const run_stage want[] = {{0, 0, 24}, {rows[i].epoch, rows[i].step, rows[i].samples},
            {5, rows[i].step + (5 - rows[i].epoch) * each, 24}};
        test_run_whole(&linear_with_state,
            "--data %s --classes 4 --batch-size 8 --optimizer sgd --lr 0.1 --epochs 5 %s "
            "--output-dir %s",
            a, rows[i].before, folder);
        test_run_whole(&linear_with_state,
            "--resume %s --data %s --epochs 5 %s --output-dir %s/whole", last, data, rows[i].more,
            folder);
        const char *whole = test_text("%s/whole/last.ckpt", folder);
        check_stages(whole, 2, want);
        check_rates(whole, 2, want, 5);
        for (uint64_t steps = 1; steps <= each; steps += each - 1) {
            const char *part = test_text("%s/%u/last.ckpt", folder, (unsigned)steps);
            test_run_whole(&linear_with_state,
                "--resume %s --data %s --epochs 5 %s --steps %u --output-dir %s/%u", last, data,
                rows[i].more, (unsigned)steps, folder, (unsigned)steps);
            check_stages(part, 2, want);
            if (steps > 1) /* the same data again are no stage */
                test_run_whole(&linear_with_state, "--resume %s --data %s", part, data);
            else
                test_run_whole(&linear_with_state, "--resume %s", part);
            same_run(part, whole);
        }
        test_run_whole(&linear_with_state, "--resume %s --data %s --epochs 6", whole, a);
        check_stages(whole, 3, want);
        check_rates(whole, 3, want, 6);
    }
    /* A stage of no steps is none; neither the first nor a later one. */
    const char *none = test_text("%s/none", top), *last = test_text("%s/last.ckpt", none);
    training_run *run = test_run_open(&linear_with_state,
        "--data %s --classes 4 --batch-size 8 --epochs 2 --output-dir %s", a, none);
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    test_run_whole(
        &linear_with_state, "--resume %s --data %s/b --steps 2 --output-dir %s", last, top, none);
    assert_null(checkpoint_find(test_checkpoint(last), "stages"));
    run = test_run_open(&linear_with_state, "--resume %s --data %s", last, a);
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    check_stages(last, 2, (run_stage[]){{0, 0, 16}, {0, 2, 24}});
    test_run_whole(&linear_with_state, "--resume %s --data %s/large --steps 1 --output-dir %s",
        last, top, none);
    check_stages(last, 2, (run_stage[]){{0, 0, 16}, {0, 2, 40}});
}

/* What no stage can be: other sizes, more classes, no data, data that changed by themselves; and
 * stages that no run could have written. */
static void other_stages(NO_ROW)
{
    const char *top = test_folder(), *last = test_text("%s/last.ckpt", top);
    const char *a = make_images(top, "a", 24, 16, 3);
    (void)make_images(top, "b", 16, 16, 3);
    (void)make_images(top, "small", 16, 8, 3);
    (void)make_images(top, "more", 16, 16, 5);
    static const struct {
        const char *given;
        int code;
        const char *said;
    } rows[] = {
        {"--data %s/small", CODE_USAGE, "its images are 8x8, not 16x16"},
        {"--data %s/more", CODE_USAGE, "its labels have 6 classes, not 4"},
        {"--data %s/none", CODE_DATA, "none"},
        {"--data %s/b --image-size 8", CODE_USAGE, "--image-size 8: the run in"},
        {"--data %s/b --batch-size 4", CODE_USAGE, "--batch-size 4: the run in"},
        {"--data %s/b --epochs 1", CODE_USAGE, "--epochs 1: the run in"},
        {"--data %s/a --train-limit 8", CODE_USAGE, "--train-limit 8: the run in"},
        {"--output-dir %s --train-limit 8", CODE_USAGE, "--train-limit 8: the run in"},
    };
    const struct {
        uint64_t rows;
        run_stage stages[3];
    } wrong[] = {
        {1, {{0, 0, 24}}}, /* not the samples of the options */
        {2, {{0, 0, 24}, {2, 4, 16}}},
        {2, {{0, 1, 24}, {1, 4, 16}}},
        {2, {{1, 0, 24}, {1, 4, 16}}},
        {2, {{0, 0, 0}, {1, 4, 16}}},
        {2, {{0, 0, UINT64_MAX}, {1, 4, 16}}},
        {2, {{0, 0, 24}, {0, 4, 16}}},
        {2, {{0, 0, 24}, {1, 2, 16}}},
        {2, {{0, 0, 24}, {1, 7, 16}}},
        {2, {{0, 0, 24}, {UINT64_MAX, 4, 16}}},
        {3, {{0, 0, 24}, {0, 0, 24}, {1, 4, 16}}},
        {3, {{0, 0, 24}, {1, 4, 16}, {0, 4, 16}}},
    };
    test_run_whole(&linear_with_state,
        "--data %s --classes 4 --batch-size 8 --epochs 3 --steps 4 --output-dir %s", a, top);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char given[512];
        (void)snprintf(given, sizeof given, "%.*s%s%s", (int)strcspn(rows[i].given, "%"),
            rows[i].given, top, strchr(rows[i].given, '%') + 2);
        test_run_refused(
            &linear_with_state, rows[i].code, rows[i].said, "--resume %s %s", last, given);
    }
    test_run_whole(
        &linear_with_state, "--resume %s --data %s/b --steps 3 --output-dir %s", last, top, top);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        test_run_refused(&linear_with_state, CODE_DATA, "stage", "--resume %s --test-only",
            with_record(last, "stages", wrong[i].rows, wrong[i].stages));
    for (int none = 0; none < 2; none++) {
        checkpoint_record wide = *test_record(test_checkpoint(last), "stages");
        wide.rows *= none ? 0 : STAGE_NUMBERS;
        wide.cols = none ? STAGE_NUMBERS : 1;
        test_run_refused(&linear_with_state, CODE_DATA, "its stages are no rows of three numbers",
            "--resume %s --test-only", changed(last, &wide, false));
    }
    test_run_refused(&linear_with_state, CODE_DATA, "step: ", "--resume %s --test-only",
        with_record(last, "stages", 2, NULL));
    /* The data of --resume alone must be the run's. */
    test_file_write(test_text("%s/b/train-labels-idx1-ubyte", top),
        "\0\0\10\1\0\0\0\20\3\2\1\0\3\2\1\0\3\2\1\0\3\2\1\0", 24);
    test_run_refused(
        &linear_with_state, CODE_USAGE, "; give --data to go on with others", "--resume %s", last);
    test_run_whole(&linear_with_state, "--resume %s --data %s/b", last, top);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, streams, NULL, "streams");
    test_add(&list, counts_go_on, NULL, "counts go on");
    test_add(&list, other_records, NULL, "records of no such run");
    test_add(&list, skipped_goes_on, NULL, "replaced images count on");
    test_add(&list, nonsense_in_a_checkpoint, NULL, "nonsense in a checkpoint");
    test_add(&list, other_devices, NULL, "a checkpoint on other devices");
    test_add(&list, other_tuning, NULL, "a checkpoint under other tuning");
    test_add(&list, stages, NULL, "stages");
    test_add(&list, other_stages, NULL, "what no stage can be");
    return test_run_on_each_device("trainer_resume", &list);
}
