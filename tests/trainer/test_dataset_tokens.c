/* Sequences of tokens: from texts, from files of tokens as nanoGPT and llm.c write them, generated.
 *
 * Inputs and labels are the text, the labels one token later. Tests are the last tenth, or a file
 * of their own. What a mask leaves out is no label. Offsets of training follow from seed and epoch.
 * Each wrong file is named. */
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_rng.h"
#include "trainer/vocabulary/text_packs.h"

enum { T = 8, MOST = 64 };

static const dataset_options bytes = {.context = T, .classes = 256};

typedef struct sequences {
    int32_t inputs[MOST][T], labels[MOST][T];
} sequences;

static sequences read_first(
    const dataset *data, dataset_split split, size_t count, const augment_options *augment)
{
    sequences s = {0};
    uint32_t indices[MOST];
    for (uint32_t i = 0; i < count; i++)
        indices[i] = i;
    read_batch(data, split, indices, count, augment, (uint8_t *)s.inputs, s.labels[0]);
    return s;
}

static const char *put(const char *folder, const char *name, const void *data, size_t size)
{
    const char *path = test_text("%s/%s", folder, name);
    test_file_write(path, data, size);
    return path;
}

/* Bytes 0, 1, 2 ... */
static const char *put_text(const char *folder, const char *name, size_t size)
{
    uint8_t *text = test_alloc(size);
    for (size_t i = 0; i < size; i++)
        text[i] = (uint8_t)i;
    return put(folder, name, text, size);
}

/* Sequence i begins at token first + i * T, of those that count up from 0 (mod 256). */
static void expect_windows(const sequences *s, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        for (int32_t t = 0; t < T; t++) {
            assert_int_equal(s->inputs[i][t], (first + (int32_t)i * T + t) % 256);
            assert_int_equal(s->labels[i][t], (first + (int32_t)i * T + t + 1) % 256);
        }
}

static void text_and_its_tenth(NO_ROW)
{
    const char *path = put_text(test_folder(), "a.txt", 250);
    const dataset *data = open_well(path, &bytes);
    const dataset_shape shape = dataset_sample(data);
    assert_int_equal(shape.bytes, T * sizeof(int32_t));
    assert_int_equal(shape.labels, T);
    assert_true(shape.tokens && dataset_is_text(data));
    assert_int_equal(dataset_count(data, DATASET_TRAIN), (225 - 1) / T);
    assert_int_equal(dataset_count(data, DATASET_TEST), (25 - 1) / T);
    sequences s = read_first(data, DATASET_TRAIN, 28, NULL);
    expect_windows(&s, 28, 0);
    s = read_first(data, DATASET_TEST, 3, NULL);
    expect_windows(&s, 3, 225);
    const uint32_t late = 3;
    (void)refuse_batch(data, DATASET_TEST, &late, 1, (uint8_t *)s.inputs, s.labels[0], CODE_USAGE,
        "index 3, but the test split has 3 sequences");
    dataset_options few = bytes;
    few.train_limit = 5;
    few.test_limit = 2;
    data = open_well(path, &few);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 5);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
}

/* In an epoch all sequences begin equally late, but for a last one that would end too late. */
static void offsets(NO_ROW)
{
    const dataset *data = open_well(put_text(test_folder(), "a.txt", 250), &bytes);
    bool seen[T] = {false};
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        const augment_options augment = {.seed = 3, .epoch = epoch};
        const sequences s = read_first(data, DATASET_TRAIN, 28, &augment);
        const int32_t offset = s.inputs[0][0];
        assert_in_range(offset, 0, T - 1);
        seen[offset] = true;
        expect_windows(&s, 27, offset);
        assert_int_equal(s.inputs[27][0], offset == 0 ? 216 : 225 - T - 1);
        const sequences again = read_first(data, DATASET_TRAIN, 28, &augment);
        assert_memory_equal(&s, &again, sizeof s);
    }
    for (int i = 0; i < T; i++)
        assert_true(seen[i]);
}

/* A file of its own for tests, beside a file or in a folder; "train" may also be in the folder's
 * name. */
static void file_for_tests(NO_ROW)
{
    const char *folder = make_folder_in(test_folder(), "train");
    const char *path = put_text(folder, "train.txt", 100);
    assert_int_equal(dataset_count(open_well(folder, &bytes), DATASET_TEST), 1); /* the tenth */
    (void)put_text(folder, "val.txt", 50);
    const char *const sources[] = {folder, path};
    for (int i = 0; i < 2; i++) {
        const dataset *data = open_well(sources[i], &bytes);
        assert_int_equal(dataset_count(data, DATASET_TRAIN), 99 / T);
        assert_int_equal(dataset_count(data, DATASET_TEST), 49 / T);
        const sequences s = read_first(data, DATASET_TEST, 6, NULL);
        expect_windows(&s, 6, 0);
    }
    const char *first = put_text(folder, "my_train_train_1.txt", 100);
    (void)put_text(folder, "my_train_val_1.txt", 30);
    assert_int_equal(dataset_count(open_well(first, &bytes), DATASET_TEST), 29 / T);
    (void)put_text(folder, "train.bin", 100);
    (void)expect_failure(folder, &bytes, CODE_USAGE, folder, "train.bin and train.txt");
}

/* Which file of a folder is that for tests; `other` lies beside it, too. NULL: none. */
static const struct {
    const char *train, *tests, *other;
} beside[] = {
    {"train.txt", "val.txt", "val.bin"},
    {"fineweb_train_000001.bin", "fineweb_val_000000.bin", "fineweb_val_000009.bin"},
    {"fineweb_train_000103.bin", "fineweb_val_000000.bin", "fineweb_train_000000.bin"},
    {"fineweb_train_000002.bin", "fineweb_val_000002.bin", "fineweb_val_000000.bin"},
    {"tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin", "tiny_shakespeare_test.bin"},
    {"train_1.txt", NULL, "val_2.txt"}, /* of another fold */
    {"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"},
    {"train-v2.txt", "validation-v2.txt", "val.txt"},
    {"train.txt", "val.txt", "valid.txt"},
    {"train.txt", "valid.txt", "validation.txt"},
    {"TRAIN.TXT", "VAL.TXT", "VAL"},
    {"Train.txt", "Val.txt", "Val"},
    {"train.BIN", "val.bin", "val.txt"},
    {"train.bin", "val.BIN", "val"},
    {"train.txt", "val.txt", "VAL.TXT"}, /* the same case comes first */
    {"a.txt", NULL, "val.txt"},
    {"train.txt", NULL, "other_val.txt"},
};

static void names_of_tests(NO_ROW)
{
    char text[200];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < COUNT_OF(beside); i++) {
        const char *folder = test_folder(), *name = beside[i].train;
        const char *path = test_text("%s/%s", folder, name),
                   *tests =
                       test_text("%s/%s", folder, beside[i].tests == NULL ? "" : beside[i].tests),
                   *last = test_text("the last tenth of %s", path);
        const bool binary = strcasecmp(name + strlen(name) - 4, ".bin") == 0;
        const dataset_options wanted = {.context = T, .classes = binary ? 50257 : 256};
        text[0] = binary ? '\1' : 'a'; /* of no text */
        (void)put(folder, name, text, sizeof text);
        dataset_options resumed = wanted;
        resumed.resumed = dataset_checksum(open_well(path, &wanted));
        (void)put(folder, beside[i].other, text, sizeof text);
        if (beside[i].tests != NULL)
            (void)put(folder, beside[i].tests, text, sizeof text);
        assert_string_equal(
            dataset_tests(open_well(path, &wanted)), beside[i].tests == NULL ? last : tests);
        /* a run that began without the file goes on without it */
        const dataset *data = open_well(path, &resumed);
        assert_string_equal(dataset_tests(data), last);
        assert_true(dataset_checksum(data) == resumed.resumed);
    }
}

/* A folder's file, whatever its case. */
static void names_of_folders(NO_ROW)
{
    static const char *const names[] = {"train.txt", "train.TXT", "TRAIN.TXT", "Train.txt"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *folder = test_folder();
        (void)put_text(folder, names[i], 250);
        assert_string_equal(dataset_tests(open_well(folder, &bytes)),
            test_text("the last tenth of %s/%s", folder, names[i]));
        (void)put_text(folder, "train.Bin", 250);
        (void)expect_failure(folder, &bytes, CODE_USAGE, folder, "train.bin and train.txt");
    }
}

/* Tokens in files, little endian: `width` bytes each after the header. */
static const char *put_tokens(const char *folder, const char *name, const uint32_t *header,
    size_t width, size_t count, const uint32_t *tokens)
{
    const size_t before = header == NULL ? 0 : 1024;
    uint8_t *file = test_alloc(before + width * count);
    memset(file, 0, before + width * count);
    for (size_t i = 0; header != NULL && i < 12; i++)
        file[i] = (uint8_t)(header[i / 4] >> (8 * (i % 4)));
    for (size_t i = 0; i < width * count; i++)
        file[before + i] = (uint8_t)(tokens[i / width] >> (8 * (i % width)));
    return put(folder, name, file, before + width * count);
}

static void files_of_tokens(NO_ROW)
{
    enum { COUNT = 200 };
    uint32_t tokens[COUNT];
    const uint32_t short_header[3] = {20240520, 1, COUNT}, long_header[3] = {20240801, 7, COUNT};
    const struct {
        const uint32_t *header;
        size_t width;
        uint32_t vocabulary;
    } files[] = {{NULL, 2, 50257}, {NULL, 2, 65536}, {NULL, 4, 65537}, {short_header, 2, 50257},
        {long_header, 4, 128256}, {NULL, 2, 256}};
    const char *folder = test_folder();
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        for (uint32_t t = 0; t < COUNT; t++)
            tokens[t] = (t * 7919 + 11) % files[i].vocabulary;
        tokens[3] = files[i].vocabulary - 1;
        const dataset_options wanted = {.context = T, .classes = files[i].vocabulary};
        const dataset *data = open_well(put_tokens(folder, test_text("%zu.bin", i), files[i].header,
                                            files[i].width, COUNT, tokens),
            &wanted);
        assert_false(dataset_is_text(data));
        assert_int_equal(dataset_classes(data), files[i].vocabulary);
        assert_int_equal(dataset_count(data, DATASET_TRAIN), 179 / T);
        const sequences s = read_first(data, DATASET_TRAIN, 22, NULL);
        for (size_t t = 0; t < (size_t)22 * T; t++) {
            assert_int_equal(s.inputs[t / T][t % T], tokens[t]);
            assert_int_equal(s.labels[t / T][t % T], tokens[t + 1]);
        }
    }
}

/* A token that the mask leaves out is no label, but an input; the mask is part of the checksum. */
static void masks(NO_ROW)
{
    enum { COUNT = 200 };
    uint32_t tokens[COUNT];
    uint8_t mask[COUNT];
    const char *folder = test_folder();
    const dataset_options gpt2 = {.context = T, .classes = 50257};
    for (uint32_t i = 0; i < COUNT; i++) {
        tokens[i] = i * 31 % 50257;
        mask[i] = i % 3 == 0 ? 0 : (uint8_t)i;
    }
    const char *path = put_tokens(folder, "a.bin", NULL, 2, COUNT, tokens);
    const uint64_t without = dataset_checksum(open_well(path, &gpt2));
    (void)put(folder, "a.mask", mask, COUNT);
    const dataset *data = open_well(path, &gpt2);
    assert_true(dataset_checksum(data) != without);
    const sequences s = read_first(data, DATASET_TRAIN, 22, NULL);
    for (size_t i = 0; i < (size_t)22 * T; i++) {
        assert_int_equal(s.inputs[i / T][i % T], tokens[i]);
        assert_int_equal(s.labels[i / T][i % T], (i + 1) % 3 == 0 ? -100 : (int32_t)tokens[i + 1]);
    }
    (void)put(folder, "a.mask", mask, COUNT - 1);
    (void)expect_failure(path, &gpt2, CODE_DATA, "a.mask", "199 bytes, but");
    assert_int_equal(unlink(test_text("%s/a.mask", folder)), 0);
    assert_int_equal(mkfifo(test_text("%s/a.mask", folder), 0600), 0);
    (void)expect_failure(path, &gpt2, CODE_DATA, "a.mask", "FIFO");
}

static void wrong_files(NO_ROW)
{
    const char *folder = test_folder();
    uint32_t tokens[200] = {0};
    dataset_options gpt2 = {.context = T, .classes = 50257};
    const char *path = put(folder, "empty.txt", "", 0);
    (void)expect_failure(path, &bytes, CODE_DATA, path, "it is empty");
    path = put(folder, "empty.bin", "", 0);
    (void)expect_failure(path, &gpt2, CODE_DATA, path, "it is empty");
    path = put(folder, "half.bin", tokens, 1);
    (void)expect_failure(
        path, &gpt2, CODE_DATA, path, "1 bytes are no whole number of tokens of 2 bytes");
    path = put(folder, "odd.bin", tokens, 301);
    (void)expect_failure(
        path, &gpt2, CODE_DATA, path, "301 bytes are no whole number of tokens of 2 bytes");
    path = put_text(folder, "short.txt", T);
    (void)expect_failure(path, &bytes, CODE_DATA, path,
        "8 tokens for training; a sequence of 8 and the next token are 9");
    path = put_text(folder, "tests.txt", 89);
    (void)expect_failure(path, &bytes, CODE_DATA, path, "8 tokens for tests");
    path = put_text(folder, "text.txt", 200);
    (void)expect_failure(path, &gpt2, CODE_USAGE, path,
        "a text has a vocabulary of 256, its bytes; the model's has 50257");
    tokens[150] = 50257;
    path = put_tokens(folder, "high.bin", NULL, 2, 200, tokens);
    (void)expect_failure(
        path, &gpt2, CODE_DATA, path, "token 50257 at position 150; the vocabulary has 50257");
    tokens[150] = 0;
    path = put_tokens(folder, "version.bin", (uint32_t[]){20240520, 2, 200}, 2, 200, tokens);
    (void)expect_failure(path, &gpt2, CODE_DATA, path, "version 2 in its header, expected 1");
    path = put_tokens(folder, "count.bin", (uint32_t[]){20240520, 1, 199}, 2, 200, tokens);
    (void)expect_failure(path, &gpt2, CODE_DATA, path,
        "199 tokens in its header, but 400 bytes after it; expected 398");
    path = put_tokens(folder, "none.bin", (uint32_t[]){20240520, 1, 0}, 2, 0, tokens);
    (void)expect_failure(path, &gpt2, CODE_DATA, path, "it is empty");
    /* another magic number: its tokens are too high for GPT-2 */
    path = put_tokens(folder, "magic.bin", (uint32_t[]){20240521, 1, 200}, 2, 200, tokens);
    (void)expect_failure(path, &gpt2, CODE_DATA, path, "token 55433 at position 0");
    for (uint32_t t = 0; t < 200; t++)
        tokens[t] = t * 7919 % 50257;
    path = put_tokens(folder, "wide.bin", NULL, 4, 200, tokens);
    (void)expect_failure(path, &gpt2, CODE_DATA, path,
        "every second number of 16 bits is 0, as in a file of uint32; a vocabulary of 50257 takes "
        "uint16");
    path = make_folder_in(folder, "nothing");
    (void)expect_failure(path, &gpt2, CODE_DATA, path, "no tokens there: expected train.bin");
    (void)expect_failure(test_text("%s/no.txt", folder), &bytes, CODE_DATA, "no.txt", "No such");
    path = test_text("%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)expect_failure(path, &bytes, CODE_DATA, path, "it is a FIFO");
    const dataset_options limits = {.context = T, .classes = 256, .train_limit = 1u << 31};
    (void)expect_failure(path, &limits, CODE_USAGE, path, "limits end at 2147483647");
}

/* What opening a large file does not look at, a batch does; also a file that became shorter. */
static void wrong_later(NO_ROW)
{
    enum { COUNT = 12 << 20, AT = 4097 * 1024 }; /* more than 4096 pieces of 1024 */
    const char *folder = test_folder();
    uint32_t *tokens = test_alloc(COUNT * sizeof *tokens);
    memset(tokens, 0, COUNT * sizeof *tokens);
    const dataset_options wanted = {.context = T, .classes = 1 << 16};
    uint16_t *file = (uint16_t *)tokens;
    const char *path = put(folder, "a.bin", file, (size_t)COUNT * 2);
    const uint64_t checksum = dataset_checksum(open_well(path, &wanted));
    file[AT + 5] = 1; /* in a piece that is not looked at */
    (void)put(folder, "a.bin", file, (size_t)COUNT * 2);
    assert_true(checksum == dataset_checksum(open_well(path, &wanted)));
    const size_t seen[] = {5, 3 * 4095 * 1024}; /* of every third piece */
    for (int i = 0; i < 2; i++) {
        file[seen[i]] = 1;
        (void)put(folder, "a.bin", file, (size_t)COUNT * 2);
        assert_true(checksum != dataset_checksum(open_well(path, &wanted)));
        file[seen[i]] = 0;
    }

    const dataset_options small = {.context = T, .classes = 60000};
    const uint32_t index = AT / T;
    sequences s;
    file[AT + 5] = 60000;
    const dataset *data = open_well(put(folder, "a.bin", file, (size_t)COUNT * 2), &small);
    const char *said = refuse_batch(data, DATASET_TRAIN, &index, 1, (uint8_t *)s.inputs,
        s.labels[0], CODE_DATA, "token 60000 at position 4195333; the vocabulary has 60000");
    assert_null(strstr(said, "--skip-broken"));
    assert_int_equal(truncate(path, AT), 0);
    (void)refuse_batch(data, DATASET_TRAIN, &index, 1, (uint8_t *)s.inputs, s.labels[0], CODE_DATA,
        "a.bin: it became shorter");
}

/* Each token has up to four successors, which come with 1/2, 1/4, 1/8 and 1/8. */
static void generated(NO_ROW)
{
    enum { VOCABULARY = 1000, SAMPLES = 2000 };
    static int32_t follow[VOCABULARY][4];
    static unsigned times[VOCABULARY][4];
    const dataset_options wanted = {.context = T, .classes = VOCABULARY, .seed = 1};
    const dataset *data = open_well("generated", &wanted);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 8000);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2000);
    assert_false(dataset_is_text(data));
    memset(follow, -1, sizeof follow);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sequences s;
        read_batch(data, DATASET_TRAIN, &i, 1, NULL, (uint8_t *)s.inputs, s.labels[0]);
        for (int t = 0; t < T; t++) {
            const int32_t token = s.inputs[0][t], next = s.labels[0][t];
            int k = 0;
            assert_in_range(token, 0, VOCABULARY - 1);
            assert_true(t == T - 1 || next == s.inputs[0][t + 1]);
            while (k < 4 && follow[token][k] != next && follow[token][k] >= 0)
                k++;
            assert_true(k < 4);
            follow[token][k] = next;
            times[token][k]++;
        }
    }
    double most = 0;
    for (int token = 0; token < VOCABULARY; token++) {
        unsigned best = 0;
        for (int k = 0; k < 4; k++)
            best = times[token][k] > best ? times[token][k] : best;
        most += best;
    }
    assert_near(most / (SAMPLES * T), 0.53, 0.05, "the part of the most frequent successors");
    const sequences a = read_first(data, DATASET_TRAIN, 8, NULL),
                    b = read_first(open_well("generated", &wanted), DATASET_TRAIN, 8, NULL),
                    c = read_first(data, DATASET_TEST, 8, NULL);
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
}

/* Each text with a label is once in a sequence that has room for it, cut if need be; sequences are
 * nearly full. */
static void packs(NO_ROW)
{
    enum { TEXTS = 500, ROOM = 100, LONGEST = 130 };
    test_rng rng = {5};
    uint64_t begins[TEXTS + 1] = {7};
    size_t seen[TEXTS] = {0}, cut = 0, empty = 0, all = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t tokens = test_rng_below(&rng, 4) == 0 ? test_rng_below(&rng, LONGEST)
                                                           : test_rng_below(&rng, ROOM / 3);
        begins[i + 1] = begins[i] + tokens;
        cut += tokens > ROOM + 1;
        empty += tokens < 2;
    }
    text_packs p;
    assert_true(text_packs_make(begins, TEXTS, ROOM, &p));
    for (size_t s = 0; s < p.count; s++) {
        size_t rows = 0;
        for (size_t k = p.firsts[s]; k < p.firsts[s + 1]; k++) {
            size_t i = 0;
            while (begins[i] != p.texts[k].first || begins[i + 1] < begins[i] + 2)
                i++;
            const size_t most = (size_t)(begins[i + 1] - begins[i]) - 1;
            assert_int_equal(p.texts[k].rows, most < ROOM ? most : ROOM);
            rows += p.texts[k].rows;
            seen[i]++;
        }
        assert_in_range(rows, 1, ROOM);
        all += rows;
    }
    for (size_t i = 0; i < TEXTS; i++)
        assert_int_equal(seen[i], begins[i + 1] >= begins[i] + 2);
    assert_int_equal(p.cut, cut);
    assert_int_equal(p.empty, empty);
    assert_true(p.firsts[0] == 0 && p.count > 0 && all > p.count * ROOM * 95 / 100);
    text_packs_free(&p);
    assert_true(text_packs_make(begins, 0, ROOM, &p));
    assert_int_equal(p.count, 0);
    text_packs_free(&p);
}

int main(void)
{
    test_list list = {0};
    ADD(&list, text_and_its_tenth);
    ADD(&list, offsets);
    ADD(&list, file_for_tests);
    ADD(&list, names_of_tests);
    ADD(&list, names_of_folders);
    ADD(&list, files_of_tokens);
    ADD(&list, masks);
    ADD(&list, wrong_files);
    ADD(&list, wrong_later);
    ADD(&list, generated);
    ADD(&list, packs);
    return test_run_on_host("dataset_tokens", &list);
}
