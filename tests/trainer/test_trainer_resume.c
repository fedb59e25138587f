/* Runs that go on: what a checkpoint has of the run, what is refused, and what older programs
 * wrote. With the model of support/linear_model.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/linear_model.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/data/rng.h"
#include "trainer/files/checkpoint.h"

static uint64_t seed_from(rng_domain domain, uint64_t seed, uint32_t a)
{
    rng r = rng_open(seed, domain, a, 0);
    const uint64_t high = rng_next(&r);
    return high << 32 | rng_next(&r);
}

/* The seeds of the steps of a run, which has done one already. */
static void check_seeds(const training_run *t, rng_domain domain, uint32_t first)
{
    const linear_model *m = t->s.model;
    assert_int_equal(m->steps, 2);
    for (size_t i = 0; i < m->steps; i++)
        assert_true(m->seeds[i] == seed_from(domain, 1, first + (uint32_t)i));
}

/* Copies a checkpoint, with another record of `name`; rows = 0: without it. */
static void with_record(
    const char *from, const char *to, const char *name, uint64_t rows, const void *data)
{
    fault f = {0};
    checkpoint c;
    checkpoint_writer writer;
    bool found = false;
    assert_true(checkpoint_open(from, &c, &f));
    assert_true(checkpoint_create(to, &writer, &f));
    for (size_t i = 0; i < c.count; i++) {
        const checkpoint_record *record = &c.records[i];
        const bool is = strcmp(record->name, name) == 0;
        found = found || is;
        if (!is || rows != 0)
            checkpoint_put(&writer, record->name, record->type, is ? rows : record->rows,
                record->cols, is ? data : record->data);
    }
    assert_true(found);
    assert_true(checkpoint_commit(&writer, &f));
    checkpoint_close(&c);
}

/* The same with another record `streams`; 0: without it. */
static void with_streams(const char *from, const char *to, uint64_t streams)
{
    with_record(from, to, "streams", streams != 0, &streams);
}

/* A count goes on from what the checkpoint has, up to the largest; without one there is none, as in
 * checkpoints of older programs. */
static void counts_go_on(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, before;
        int64_t after;
    } rows[] = {{1, 40, 41}, {1, INT64_MAX - 1, INT64_MAX}, {0, 0, TRAINER_NO_COUNT}};
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 32];
    options o;
    training_run t;
    fault f;
    checkpoint c;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 2 --steps 4 --output-dir %s",
        linear_small, folder);
    linear_run(arguments);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(old, sizeof old, "%s/%zu.ckpt", folder, i);
        with_record(last, old, "count/batches", rows[i].rows, &rows[i].before);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1 --output-dir %s/%zu",
            old, folder, i);
        if (!linear_open(&linear_with_state, arguments, &o, &t, &f))
            fail_msg("%s", f.text);
        linear_train(&t, &f);
        assert_int_equal(((linear_model *)t.s.model)->batches, rows[i].after);
        run_close(&t);
        options_close(&o);
        (void)snprintf(old, sizeof old, "%s/%zu/last.ckpt", folder, i);
        assert_true(checkpoint_open(old, &c, &f));
        const checkpoint_record *record = checkpoint_find(&c, "count/batches");
        assert_true((record != NULL) == (rows[i].rows > 0));
        if (record != NULL)
            assert_true(*(const uint64_t *)record->data == (uint64_t)rows[i].after);
        checkpoint_close(&c);
    }
    test_folder_remove(folder);
}

/* Copies a checkpoint, with one more record, which has the content of `like`. */
static void with_another(const char *from, const char *to, const char *name, const char *like)
{
    fault f = {0};
    checkpoint c;
    checkpoint_writer writer;
    assert_true(checkpoint_open(from, &c, &f));
    assert_true(checkpoint_create(to, &writer, &f));
    for (size_t i = 0; i <= c.count; i++) {
        const checkpoint_record *r = i < c.count ? &c.records[i] : checkpoint_find(&c, like);
        checkpoint_put(&writer, i < c.count ? r->name : name, r->type, r->rows, r->cols, r->data);
    }
    assert_true(checkpoint_commit(&writer, &f));
    checkpoint_close(&c);
}

enum { CHECKPOINT_PATH = TEST_PATH + 16 };

/* A run in a new folder, of 24 images in batches of 8, that stopped after step 1 of 3 of its second
 * epoch: its checkpoint, and the path for a changed one. */
static void stopped_run(
    char folder[TEST_PATH], char last[CHECKPOINT_PATH], char bad[CHECKPOINT_PATH])
{
    char arguments[3 * TEST_PATH];
    test_folder_make(folder);
    (void)snprintf(last, CHECKPOINT_PATH, "%s/last.ckpt", folder);
    (void)snprintf(bad, CHECKPOINT_PATH, "%s/bad.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 3 --steps 4 --output-dir %s",
        linear_small, folder);
    linear_run(arguments);
}

/* Records that the run does not have, and records that are there twice, are refused by name. */
static void other_records(void **state)
{
    (void)state;
    static const struct {
        const char *name, *like, *said;
    } rows[] = {
        {"param/other", "param/w", "the record 'param/other' is unknown; a newer linear-train"},
        {"state3/w", "param/w", "the record 'state3/w' is unknown"},
        {"model/other", "model/mean", "the record 'model/other' is unknown"},
        {"count/other", "count/batches", "the record 'count/other' is unknown"},
        {"other", "position", "the record 'other' is unknown"},
        {"param/w", "param/w", "the record 'param/w' is there twice"},
        {"count/batches", "count/batches", "the record 'count/batches' is there twice"},
        {"position", "position", "the record 'position' is there twice"},
        {"log", "log", "the record 'log' is there twice"},
    };
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[CHECKPOINT_PATH], bad[CHECKPOINT_PATH];
    options o;
    training_run t;
    fault f = {0};
    stopped_run(folder, last, bad);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        with_another(last, bad, rows[i].name, rows[i].like);
        if (linear_open(&linear_with_state, arguments, &o, &t, &f))
            fail_msg("one more record '%s' is taken", rows[i].name);
        assert_int_equal(f.code, CODE_DATA);
        if (strstr(f.text, rows[i].said) == NULL)
            fail_msg("no '%s' in: %s", rows[i].said, f.text);
        options_close(&o);
    }
    test_folder_remove(folder);
}

/* Images that were replaced count over all processes of a run; older checkpoints have no count. A
 * finished epoch has no loss left. */
static void skipped_goes_on(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    uint64_t position[11] = {0};
    double sums[4];
    options o;
    training_run t;
    fault f = {0};
    checkpoint c;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", linear_small, folder);
    linear_run(arguments);
    assert_true(checkpoint_open(last, &c, &f));
    const checkpoint_record *record = checkpoint_find(&c, "position");
    assert_int_equal(record->cols, 11);
    memcpy(position, record->data, sizeof position);
    memcpy(sums, checkpoint_find(&c, "sums")->data, sizeof sums);
    checkpoint_close(&c);
    assert_int_equal(position[10], 0);
    position[10] = 7;
    with_record(last, old, "position", 1, position);
    (void)snprintf(
        arguments, sizeof arguments, "--resume %s --epochs 2 --output-dir %s/more", old, folder);
    linear_run(arguments);
    (void)snprintf(last, sizeof last, "%s/more/last.ckpt", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_int_equal(((const uint64_t *)checkpoint_find(&c, "position")->data)[10], 7);
    checkpoint_close(&c);
    sums[0] = 12345;
    with_record(last, old, "sums", 1, sums);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --test-only", old);
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    if (strstr(f.text, "the loss summed in the epoch: 12345, not 0 to 0") == NULL)
        fail_msg("%s", f.text);
    options_close(&o);
    test_folder_remove(folder);
}

/* Numbers that no run could have written, under a right checksum: each is refused by its name. */
static void nonsense_in_a_checkpoint(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[CHECKPOINT_PATH], bad[CHECKPOINT_PATH];
    options o;
    training_run t;
    fault f = {0};
    checkpoint c;
    stopped_run(folder, last, bad);
    assert_true(checkpoint_open(last, &c, &f));
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
        {"position", 3, 9, "images seen in the epoch: 9, not 8"},
        {"position", 4, 9, "hits in the epoch: 9, not 0 to 8"},
        {"position", 5, 1e18, "steps of the optimizer"},
        {"position", 8, 2, "steps timed in the epoch"},
        {"position", 9, 9, "images timed in the epoch"},
        {"position", 6, 0x1p63, "peak bytes: 9223372036854775808, not 0 to 9007199254740992"},
        {"position", 7, 0x1p63, "saved activation bytes"},
        {"position", 8, 0, "images timed in the epoch: 8, not 0"},
        {"position", 9, 0, "images timed in the epoch: 0, not 1 to 8"},
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
        {"param/w", 5, (double)NAN, "'param/w' has a value that is not finite"},
        {"model/mean", 2, (double)INFINITY, "'model/mean' has a value that is not finite"},
        {"count/batches", 0, 0x1p63,
            "'count/batches' is 9223372036854775808, not 0 to 9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const checkpoint_record *record = checkpoint_find(&c, rows[i].record);
        assert_non_null(record);
        const size_t wide = record->type == CHECKPOINT_F32 ? 4 : 8;
        const size_t bytes = (size_t)(record->rows * record->cols) * wide;
        void *data = test_alloc(bytes);
        memcpy(data, record->data, bytes);
        if (record->type == CHECKPOINT_U64)
            ((uint64_t *)data)[rows[i].at] = (uint64_t)rows[i].value;
        else if (record->type == CHECKPOINT_F64)
            ((double *)data)[rows[i].at] = rows[i].value;
        else
            ((float *)data)[rows[i].at] = (float)rows[i].value;
        with_record(last, bad, rows[i].record, record->rows, data);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
        if (linear_open(&linear_with_state, arguments, &o, &t, &f))
            fail_msg("%s[%zu] = %g is taken", rows[i].record, rows[i].at, rows[i].value);
        assert_int_equal(f.code, CODE_DATA);
        assert_non_null(strstr(f.text, bad));
        if (strstr(f.text, rows[i].name) == NULL)
            fail_msg("no '%s' in: %s", rows[i].name, f.text);
        options_close(&o);
    }
    with_record(last, bad, "log", 2, (double[2 * CSV_COLUMNS]){0});
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "its log has 2 rows, not one for each of 1 epochs"));
    options_close(&o);
    char device[512];
    memset(device, 'x', sizeof device);
    with_record(last, bad, "device", 1, device); /* not ended */
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "its device is no text"));
    options_close(&o);
    with_record(last, bad, "count/batches", 2, (const uint64_t[]){4, 4});
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "'count/batches' is 2 x 1, not 1 x 1"));
    options_close(&o);
    /* What is not nonsense, but too late. */
    (void)snprintf(arguments, sizeof arguments, "--resume %s --epochs 1", last);
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_int_equal(f.code, CODE_USAGE);
    assert_non_null(strstr(f.text, "--epochs 1: the run in"));
    assert_non_null(strstr(f.text, "is in epoch 2 already"));
    options_close(&o);
    checkpoint_close(&c);
    (void)snprintf(arguments, sizeof arguments, "--resume %s", last);
    linear_run(arguments);
    test_folder_remove(folder);
}

/* Writes the checkpoint of a run that did no step; builds no kernel of a step. */
static void save_with(const char *kernels, const char *more, const char *folder)
{
    char arguments[3 * TEST_PATH];
    options o;
    training_run t;
    fault f;
    test_debug(kernels);
    (void)snprintf(arguments, sizeof arguments, "%s %s --output-dir %s --overwrite", linear_small,
        more, folder);
    if (!linear_open(&linear_with_state, arguments, &o, &t, &f) || !run_save(&t, &f))
        fail_msg("%s", f.text);
    run_close(&t);
    options_close(&o);
}

static void save_at_once(const char *kernels, const char *folder)
{
    save_with(kernels, "", folder);
}

/* What a run says on stderr when it goes on. */
static void say_resumed(const char *kernels, const char *path, char *said, size_t size)
{
    char arguments[3 * TEST_PATH];
    options o;
    training_run t;
    fault f;
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    test_debug(kernels);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", path);
    assert_true(file != NULL && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    const bool good = linear_open(&linear_with_state, arguments, &o, &t, &f);
    assert_true(dup2(kept, STDERR_FILENO) >= 0 && close(kept) == 0);
    if (!good)
        fail_msg("%s", f.text);
    run_close(&t);
    options_close(&o);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    (void)fclose(file);
}

/* A run that goes on where its bits may be others says so: with other kernels, or with tiled ones
 * on other compute units, which split their sums. */
static void other_devices(void **state)
{
    (void)state;
    char folder[TEST_PATH], last[TEST_PATH + 16], other[TEST_PATH + 16], device[512], said[2048];
    checkpoint c;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(other, sizeof other, "%s/other.ckpt", folder);
    save_at_once("kernels=tiled", folder);
    assert_true(checkpoint_open(last, &c, &f));
    (void)snprintf(device, sizeof device, "%s", (const char *)checkpoint_find(&c, "device")->data);
    checkpoint_close(&c);
    assert_non_null(strstr(device, "tiled kernels on "));
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    char *units = strstr(device, ", compute units: ");
    assert_non_null(units);
    char *digit = units + strcspn(units, "0123456789");
    *digit = *digit == '1' ? '2' : '1';
    with_record(last, other, "device", 1, device);
    say_resumed("kernels=tiled", other, said, sizeof said);
    assert_non_null(strstr(said, "linear-train: note: the run in "));
    assert_non_null(strstr(said, device));
    say_resumed("kernels=vector", last, said, sizeof said);
    assert_non_null(strstr(said, "; it goes on with vector kernels on "));
    save_at_once("kernels=vector", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_null(strstr(checkpoint_find(&c, "device")->data, "compute units"));
    checkpoint_close(&c);
    say_resumed("kernels=vector", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    /* Tensor cores split sums by compute units with both kernel families. */
    save_with("kernels=vector,mma=emulated", "--precision tf32", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_non_null(strstr(checkpoint_find(&c, "device")->data, "compute units"));
    checkpoint_close(&c);
    test_debug(NULL);
    test_folder_remove(folder);
}

/* A tuning file with a row for the device under test. */
static void write_tuning(const char *path, int depth)
{
    const clprune_device_info device = clprune_context_device_info(test_context());
    char text[512];
    const int length = snprintf(text, sizeof text,
        "clprune_tuning = 1\ndevice = %s\ngemm.panel_depth = %d\nend\n", device.device, depth);
    test_file_write(path, text, (size_t)length);
}

/* The tuning is compared by its parameters, not by the name of the file, however long. The record
 * of an older program has only the name. */
static void other_tuning(void **state)
{
    (void)state;
    enum { LONG = 700 };
    char folder[TEST_PATH], last[TEST_PATH + 16], other[TEST_PATH + 16], said[8192];
    char path[TEST_PATH + LONG + 16], device[4 * LONG] = "";
    const clprune_device_info info = clprune_context_device_info(test_context());
    checkpoint c;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(other, sizeof other, "%s/other.ckpt", folder);
    const int length = snprintf(path, sizeof path, "%s/%0*d", folder, LONG, 0);
    for (int i = length - LONG; i < length; i++)
        path[i] = "./"[i % 2];
    (void)snprintf(path + length, sizeof path - (size_t)length, "/tuning");
    write_tuning(path, 128);
    test_environment("CLPRUNE_TUNING", path);
    save_at_once("kernels=tiled", folder);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    write_tuning(path, 256);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_non_null(strstr(said, "linear-train: note: the run in "));
    assert_true(checkpoint_open(last, &c, &f));
    (void)snprintf(device, sizeof device, "%s", (const char *)checkpoint_find(&c, "device")->data);
    checkpoint_close(&c);
    char *units = strstr(device, ", compute units: ");
    assert_non_null(units);
    units[strlen(", compute units: ")] ^= 1;
    with_record(last, other, "device", 1, device);
    (void)snprintf(path, sizeof path, "%s/moved", folder);
    write_tuning(path, 128);
    test_environment("CLPRUNE_TUNING", path);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    say_resumed("kernels=tiled", other, said, sizeof said);
    assert_non_null(strstr(said, "note: "));
    /* the record of older programs */
    for (uint32_t more = 0; more < 2; more++) {
        memset(device, 0, sizeof device);
        (void)snprintf(device, sizeof device,
            "tiled kernels on %s, driver %s, tuning %s, compute units: %u", info.device,
            info.driver, path, (unsigned)(info.compute_units + more));
        with_record(last, other, "device", 1, device);
        say_resumed("kernels=tiled", other, said, sizeof said);
        assert_int_equal(strstr(said, "note: ") != NULL, more);
    }
    test_environment("CLPRUNE_TUNING", NULL);
    test_debug(NULL);
    test_folder_remove(folder);
}

/* Steps draw from a stream that no initial parameter was drawn from; runs that began before that
 * was so go on with the stream that they had. */
static void streams(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    options o;
    training_run t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 2 --steps 2 --output-dir %s",
        linear_small, folder);
    assert_true(linear_open(&linear_with_state, arguments, &o, &t, &f));
    linear_train(&t, &f);
    check_seeds(&t, RNG_PRUNE, 0);
    for (size_t i = 0; i < 2; i++) /* at the tensors that there are, and beyond */
        for (uint32_t tensor = 0; tensor < 300; tensor++)
            assert_true(((linear_model *)t.s.model)->seeds[i] != seed_from(RNG_INIT, 1, tensor));
    run_close(&t);
    options_close(&o);
    static const struct {
        uint64_t streams;
        rng_domain domain;
    } rows[] = {{0, RNG_INIT}, {1, RNG_INIT}, {2, RNG_PRUNE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        with_streams(last, old, rows[i].streams);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 2", old);
        if (!linear_open(&linear_with_state, arguments, &o, &t, &f))
            fail_msg("%s", f.text);
        linear_train(&t, &f);
        check_seeds(&t, rows[i].domain, 2);
        run_close(&t);
        options_close(&o);
    }
    with_streams(last, old, 3);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", old);
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "random streams, 3, are unknown"));
    options_close(&o);
    test_folder_remove(folder);
}

/* 16 images of 16 x 16 ones, or the labels of class 0. */
static void put_idx(const char *folder, const char *name, bool images)
{
    char path[2 * TEST_PATH];
    unsigned char file[16 + 16 * 256] = {0, 0, 8, 1, 0, 0, 0, 16};
    const size_t size = images ? sizeof file : 8 + 16;
    if (images) {
        file[3] = 3;
        file[11] = file[15] = 16;
        memset(file + 16, 1, 16 * 256);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    test_file_write(path, file, size);
}

/* Earlier programs wrote another checksum of IDX files: of bytes, sum and sum of squares. */
static void old_checksum_of_idx(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[4 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    options o;
    training_run t;
    fault f;
    test_folder_make(folder);
    put_idx(folder, "train-images-idx3-ubyte", true);
    put_idx(folder, "train-labels-idx1-ubyte", false);
    put_idx(folder, "t10k-images-idx3-ubyte", true);
    put_idx(folder, "t10k-labels-idx1-ubyte", false);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments,
        "--data %s --classes 4 --batch-size 8 --epochs 1 --output-dir %s", folder, folder);
    linear_run(arguments);
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t checksum = UINT64_C(0xbab6bb71e6259f55) + i; /* of 4096 ones */
        with_record(last, old, "checksum", 1, &checksum);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --test-only", old);
        const bool good = linear_open(&linear_with_state, arguments, &o, &t, &f);
        assert_int_equal(f.code, i == 0 ? CODE_OK : CODE_USAGE);
        if (good)
            run_close(&t);
        else
            assert_non_null(strstr(f.text, "these images are not those of the run in"));
        options_close(&o);
    }
    test_folder_remove(folder);
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
    test_add(&list, old_checksum_of_idx, NULL, "the checksum of earlier programs");
    return test_run_on_each_device("trainer_resume", &list);
}
