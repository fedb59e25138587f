/* Sentences with a length and a label each: from files, generated. Tests are drawn over the file,
 * or a file of their own. Each wrong file is named. */
#include <unistd.h>

#include "support/test_dataset.h"
#include "support/test_folder.h"

enum { T = 8, LABELS = 3, VOCABULARY = 1000 };

static const dataset_options wanted = {.context = T, .classes = VOCABULARY, .labels = LABELS};

typedef struct sentence {
    int32_t tokens[T], length, label;
} sentence;

static sentence read_one(const dataset *data, dataset_split split, uint32_t index)
{
    sentence s;
    read_batch(data, split, &index, 1, NULL, (uint8_t *)s.tokens, &s.label);
    return s;
}

static uint16_t length_of(size_t i)
{
    return (uint16_t)(1 + i * 5 % T);
}

static uint16_t token_of(size_t i, size_t t)
{
    return (uint16_t)((i * 31 + t * 7 + 1) % VOCABULARY);
}

/* Sentences `first` to first + count - 1 of one text; their numbers. *size: how many there are. */
static uint16_t *numbers(size_t first, size_t count, size_t *size)
{
    uint16_t *all = test_alloc(count * (T + 2) * sizeof *all), *at = all;
    for (size_t i = first; i < first + count; i++) {
        *at++ = (uint16_t)(i % LABELS);
        *at++ = length_of(i);
        for (size_t t = 0; t < length_of(i); t++)
            *at++ = token_of(i, t);
    }
    *size = (size_t)(at - all);
    return all;
}

static const char *put(const char *folder, const char *name, const uint16_t *values, size_t count)
{
    const char *path = test_text("%s/%s", folder, name);
    uint8_t *bytes = test_alloc(2 * count + 1);
    for (size_t i = 0; i < count; i++) {
        bytes[2 * i] = (uint8_t)values[i];
        bytes[2 * i + 1] = (uint8_t)(values[i] >> 8);
    }
    test_file_write(path, bytes, 2 * count);
    return path;
}

static const char *put_some(const char *folder, const char *name, size_t first, size_t count)
{
    size_t size;
    const uint16_t *values = numbers(first, count, &size);
    return put(folder, name, values, size);
}

static void expect(const dataset *data, dataset_split split, size_t first)
{
    for (uint32_t i = 0; i < dataset_count(data, split); i++) {
        const sentence s = read_one(data, split, i);
        assert_int_equal(s.label, (first + i) % LABELS);
        assert_int_equal(s.length, length_of(first + i));
        for (size_t t = 0; t < T; t++)
            assert_int_equal(s.tokens[t], t < length_of(first + i) ? token_of(first + i, t) : 0);
    }
}

static void file_and_its_tenth(NO_ROW)
{
    const char *path = put_some(test_folder(), "a.bin", 0, 57);
    const dataset *data = open_well(path, &wanted);
    const dataset_shape shape = dataset_sample(data);
    assert_int_equal(shape.bytes, (T + 1) * sizeof(int32_t));
    assert_int_equal(shape.labels, 1);
    assert_true(shape.tokens && shape.lengths);
    assert_string_equal(dataset_name(data), "sentences");
    assert_string_equal(
        dataset_tests(data), test_text("one of each ten sentences, drawn over all of %s", path));
    assert_false(dataset_is_text(data));
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 52);
    assert_int_equal(dataset_count(data, DATASET_TEST), 5);
    dataset_options resumed = wanted;
    resumed.resumed = dataset_checksum(data);
    assert_true(dataset_checksum(open_well(path, &resumed)) == resumed.resumed);
    const char *other = put_some(test_folder(), "b.bin", 1, 57);
    assert_true(dataset_checksum(open_well(other, &wanted)) != resumed.resumed);
}

/* A file of `count` sentences, whose labels lie in it in an order. */
typedef struct order {
    const char *what;
    size_t count, blocks[LABELS]; /* sentences of each label in succession; or */
    size_t period, run;           /* runs of one label, in turn */
    uint32_t train_limit, test_limit;
    const char *note; /* NULL: training and tests have all labels */
} order;

static const order orders[] = {
    {"sorted", 220, {100, 100, 20}},
    {"sorted, evenly", 300, {100, 100, 100}},
    {"sorted, the smallest first", 220, {20, 100, 100}},
    {"sorted, the smallest in the middle", 220, {100, 20, 100}},
    {"a label at the end alone", 1000, {500, 481, 19}},
    {"sorted, of no whole tens", 237, {79, 79, 79}},
    {"in turn", 300, .period = 3, .run = 1},
    {"each five in turn", 300, .period = 3, .run = 5},
    {"each ten in turn", 300, .period = 3, .run = 10},
    {"each hundred in turn", 900, .period = 3, .run = 100},
    {"with a period of ten", 500, .period = 10, .run = 1},
    {"with a period of twenty", 1000, .period = 20, .run = 1},
    {"sorted, few", 30, {10, 10, 10}},
    {"sorted, limits", 900, {300, 300, 300}, .train_limit = 9, .test_limit = 9},
    {"in turn, limits", 900, .period = 3, .run = 1, .train_limit = 27, .test_limit = 27},
    {"limits above all", 220, {100, 100, 20}, .train_limit = 1000, .test_limit = 1000},
    {"a label without tests", 101, {50, 50, 1}, .note = "1 of 3 classes have no test sample, 2"},
    {"no sentence of a label", 100, {50, 50, 0},
        .note = "1 of 3 classes have no training sample, 2"},
    {"a limit below the classes", 300, {100, 100, 100}, .train_limit = 2,
        .note = "1 of 3 classes have no training sample, "},
};

static uint16_t label_at(const order *o, size_t i)
{
    if (o->period > 0)
        return (uint16_t)(i / o->run % o->period % LABELS);
    return (uint16_t)(i < o->blocks[0] ? 0 : i < o->blocks[0] + o->blocks[1] ? 1 : 2);
}

static void hear(void *user, const char *note)
{
    char *heard = user;
    (void)snprintf(heard + strlen(heard), TEST_PATH - strlen(heard), "%s\n", note);
}

/* Each sentence is in one split, once; each part of a tenth has one for tests; limits take some of
 * the same; both splits have all labels, or a note says which they lack. */
static void drawn_over_the_file(void **state)
{
    const order *o = *state;
    char heard[TEST_PATH] = "";
    dataset_options options = wanted;
    options.hear = hear;
    options.hear_user = heard;
    uint16_t *all = test_alloc(3 * o->count * sizeof *all);
    for (size_t i = 0; i < o->count; i++) {
        all[3 * i] = label_at(o, i);
        all[3 * i + 1] = 1;
        all[3 * i + 2] = (uint16_t)i; /* says which one it is */
    }
    const char *path = put(test_folder(), "a.bin", all, 3 * o->count);
    bool *tests = test_alloc(o->count), *seen = test_alloc(o->count);
    memset(tests, 0, o->count);
    memset(seen, 0, o->count);
    const dataset *data = open_well(path, &wanted);
    const size_t count = o->count / 10;
    assert_int_equal(dataset_count(data, DATASET_TEST), count);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), o->count - count);
    assert_string_equal(
        dataset_tests(data), test_text("one of each ten sentences, drawn over all of %s", path));
    for (int split = 0; split < 2; split++)
        for (uint32_t i = 0; i < dataset_count(data, (dataset_split)split); i++) {
            const sentence s = read_one(data, (dataset_split)split, i);
            const size_t n = (size_t)s.tokens[0];
            assert_false(seen[n]);
            seen[n] = true;
            tests[n] = split == DATASET_TEST;
            assert_int_equal(s.label, label_at(o, n));
            if (split == DATASET_TEST)
                assert_in_range(n, i * o->count / count, (i + 1) * o->count / count - 1);
        }
    options.train_limit = o->train_limit;
    options.test_limit = o->test_limit;
    data = open_well(path, &options);
    bool labels[2][LABELS] = {{false}};
    int32_t last[2] = {-1, -1};
    for (int split = 0; split < 2; split++)
        for (uint32_t i = 0; i < dataset_count(data, (dataset_split)split); i++) {
            const sentence s = read_one(data, (dataset_split)split, i);
            assert_int_equal(tests[s.tokens[0]], split == DATASET_TEST);
            assert_true(s.tokens[0] > last[split]); /* so none twice */
            last[split] = s.tokens[0];
            labels[split][s.label] = true;
        }
    const size_t expected[2] = {o->count - count, count};
    const uint32_t limits[2] = {o->train_limit, o->test_limit};
    bool lacks = false;
    for (int split = 0; split < 2; split++) {
        assert_int_equal(dataset_count(data, (dataset_split)split),
            limits[split] != 0 && limits[split] < expected[split] ? limits[split]
                                                                  : expected[split]);
        for (int i = 0; i < LABELS; i++)
            lacks = lacks || !labels[split][i];
    }
    assert_int_equal(lacks, o->note != NULL);
    if (o->note != NULL)
        test_says(heard, o->note);
    else
        assert_string_equal(heard, "");
}

static void file_for_tests(NO_ROW)
{
    const char *folder = test_folder();
    (void)put_some(folder, "train.bin", 0, 3);
    (void)put_some(folder, "val.bin", 5, 2);
    const dataset *data = open_well(folder, &wanted);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 3);
    expect(data, DATASET_TRAIN, 0);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
    expect(data, DATASET_TEST, 5);
    assert_string_equal(dataset_tests(data), test_text("%s/val.bin", folder));
}

/* What tokens.py says of the labels: the same in training and tests, or an error; a note where one
 * has no such file. */
static void numbers_of_labels(NO_ROW)
{
    static const struct {
        const char *train, *tests; /* train.labels, val.labels; NULL: none */
        const char *error, *note;
    } rows[] = {
        {"0\tbad\n1\tfine\n2\tgood\n", "0\tbad\n1\tfine\n2\tgood\n", NULL, NULL},
        {NULL, NULL, NULL, NULL},
        {"0\tbad\n1\tfine\n2\tgood\n", "0\tfine\n1\tgood\n", "val.bin: its .labels has other",
            NULL},
        {"0\tbad\n1\tfine\n2\tgood\n", "0\tbad\n1\tfine\n", "val.bin: its .labels has other", NULL},
        {"0\tbad\n", "0\tbad\n1\tfine\n", "than that of", NULL},
        {"0\tbad\n", "", "make it again with tokens.py", NULL},
        {"0\tbad\n", NULL, NULL, "val.bin: it has no .labels, as"},
        {NULL, "0\tbad\n", NULL, "train.bin: it has no .labels, as"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *folder = test_folder();
        char heard[TEST_PATH] = "";
        dataset_options options = wanted;
        options.hear = hear;
        options.hear_user = heard;
        (void)put_some(folder, "train.bin", 0, 3);
        (void)put_some(folder, "val.bin", 0, 3);
        if (rows[i].train != NULL)
            test_file_write(
                test_text("%s/train.labels", folder), rows[i].train, strlen(rows[i].train));
        if (rows[i].tests != NULL)
            test_file_write(
                test_text("%s/val.labels", folder), rows[i].tests, strlen(rows[i].tests));
        if (rows[i].error != NULL)
            (void)expect_failure(folder, &options, CODE_DATA, folder, rows[i].error);
        else
            (void)open_well(folder, &options);
        if (rows[i].note != NULL)
            test_says(heard, rows[i].note);
        else
            assert_string_equal(heard, "");
    }
    const char *folder = test_folder();
    (void)put_some(folder, "train.bin", 0, 3);
    (void)put_some(folder, "val.bin", 0, 3);
    (void)make_folder_in(folder, "val.labels");
    (void)expect_failure(folder, &wanted, CODE_DATA, "val.labels", "it is a folder");
}

/* A sentence longer than what is read at once; numbers of 32 bits. */
static void long_sentences(NO_ROW)
{
    enum { LONG = 3000, COUNT = 2 * (LONG + 2) };
    const dataset_options large = {.context = LONG + 100, .classes = 1 << 17, .labels = 2};
    uint32_t *all = test_alloc(COUNT * sizeof *all);
    for (uint32_t i = 0; i < COUNT; i++)
        all[i] = i % (LONG + 2) == 0 ? 1 : i % (LONG + 2) == 1 ? LONG : 100000 + i;
    const char *folder = test_folder();
    test_file_write(test_text("%s/train.bin", folder), all, COUNT * sizeof *all);
    test_file_write(test_text("%s/val.bin", folder), all, COUNT * sizeof *all);
    const dataset *data = open_well(folder, &large);
    int32_t *tokens = test_alloc((LONG + 101) * sizeof *tokens), label;
    for (uint32_t n = 0; n < 2; n++) {
        read_batch(data, DATASET_TRAIN, &n, 1, NULL, (uint8_t *)tokens, &label);
        assert_int_equal(label, 1);
        assert_int_equal(tokens[LONG + 100], LONG);
        for (uint32_t t = 0; t < LONG + 100; t++)
            assert_int_equal(tokens[t], t < LONG ? 100002 + n * (LONG + 2) + t : 0);
    }
}

static void wrong_files(NO_ROW)
{
    enum { COUNT = 20 };
    const char *folder = test_folder();
    size_t size, second = 2 + length_of(0);
    uint16_t *all = numbers(0, COUNT, &size);
    static const struct {
        size_t at; /* of the second sentence's numbers */
        uint16_t value;
        const char *part;
    } rows[] = {{0, LABELS, "sentence 1 has label 3, expected less than 3; --classes N sets it"},
        {1, 0, "sentence 1 has 0 tokens, expected 1 to 8; --context N sets it"},
        {1, T + 1, "sentence 1 has 9 tokens, expected 1 to 8"},
        {2, VOCABULARY, "token 1000 at position"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const uint16_t before = all[second + rows[i].at];
        all[second + rows[i].at] = rows[i].value;
        const char *path = put(folder, test_text("%zu.bin", i), all, size);
        (void)expect_failure(path, &wanted, CODE_DATA, path, rows[i].part);
        all[second + rows[i].at] = before;
    }
    const char *path = put(folder, "cut.bin", all, size - 1);
    (void)expect_failure(path, &wanted, CODE_DATA, path, "it ends within sentence 19");
    path = put(folder, "label.bin", all, second + 1);
    (void)expect_failure(path, &wanted, CODE_DATA, path, "it ends within sentence 1");
    path = put_some(folder, "few.bin", 0, 9);
    (void)expect_failure(
        path, &wanted, CODE_DATA, path, "9 sentences, expected at least 10: a tenth is for tests");
    path = put(folder, "text.txt", all, size);
    (void)expect_failure(path, &wanted, CODE_USAGE, path, "a text has a vocabulary of 256");
    path = make_folder_in(folder, "nothing");
    (void)expect_failure(path, &wanted, CODE_DATA, path, "no tokens there: expected train.bin");
}

/* What is read when a batch asks for it is checked again. */
static void wrong_later(NO_ROW)
{
    size_t size, second = 2 + length_of(0);
    uint16_t *all = numbers(0, 20, &size);
    const char *folder = test_folder(), *path = put(folder, "train.bin", all, size);
    (void)put_some(folder, "val.bin", 0, 1);
    const dataset *data = open_well(path, &wanted);
    const uint32_t one = 1;
    const uint16_t label = all[second], length = all[second + 1];
    const uint16_t wrong[][2] = {{LABELS, length}, {label, 0}, {label, T + 1}};
    sentence s;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(all + second, wrong[i], sizeof wrong[i]);
        (void)put(folder, "train.bin", all, size);
        (void)refuse_batch(data, DATASET_TRAIN, &one, 1, (uint8_t *)s.tokens, &s.label, CODE_DATA,
            "train.bin: it has changed");
    }
    assert_int_equal(truncate(path, (off_t)(2 * second + 2)), 0);
    (void)refuse_batch(data, DATASET_TRAIN, &one, 1, (uint8_t *)s.tokens, &s.label, CODE_DATA,
        "train.bin: it became shorter");
}

/* A class has words of its own; lengths are T / 4 to T. */
static void generated(NO_ROW)
{
    enum { SAMPLES = 3000 };
    dataset_options options = wanted;
    options.seed = 1;
    const dataset *data = open_well("generated", &options),
                  *again = open_well("generated", &options);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 8000);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2000);
    double own = 0, all = 0;
    bool seen[T + 1] = {false};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const sentence s = read_one(data, DATASET_TRAIN, i), t = read_one(again, DATASET_TRAIN, i);
        assert_memory_equal(&s, &t, sizeof s);
        assert_int_equal(s.label, i % LABELS);
        assert_in_range(s.length, T / 4, T);
        seen[s.length] = true;
        for (int32_t k = 0; k < T; k++) {
            assert_in_range(s.tokens[k], 0, k < s.length ? VOCABULARY - 1 : 0);
            own += k < s.length && s.tokens[k] / 8 == s.label;
        }
        all += s.length;
    }
    assert_near(own / all, 0.25 + 0.75 * 8 / VOCABULARY, 0.02, "the part of a class's own words");
    for (int i = T / 4; i <= T; i++)
        assert_true(seen[i]);
    const sentence train = read_one(data, DATASET_TRAIN, 0), test = read_one(data, DATASET_TEST, 0);
    assert_memory_not_equal(&train, &test, sizeof train);
}

int main(void)
{
    test_list list = {0};
    ADD(&list, file_and_its_tenth);
    for (size_t i = 0; i < COUNT_OF(orders); i++)
        test_add(&list, drawn_over_the_file, &orders[i], "%s", orders[i].what);
    ADD(&list, file_for_tests);
    ADD(&list, numbers_of_labels);
    ADD(&list, long_sentences);
    ADD(&list, wrong_files);
    ADD(&list, wrong_later);
    ADD(&list, generated);
    return test_run_on_host("dataset_sentences", &list);
}
