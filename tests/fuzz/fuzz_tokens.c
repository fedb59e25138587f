/* Texts, files of tokens, and sentences: a byte of options, the vocabulary, the length of the first
 * file, then both files. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "trainer/data/dataset.h"

enum { LABELS = 3 };

static void check_sentence(const dataset_options *options, const int32_t *inputs, int32_t label)
{
    const int32_t length = inputs[options->context];
    FUZZ_CHECK(label >= 0 && label < LABELS);
    FUZZ_CHECK(length > 0 && (size_t)length <= options->context);
    for (size_t t = 0; t < options->context; ++t)
        FUZZ_CHECK(
            inputs[t] >= 0 && (uint32_t)inputs[t] < (t < (size_t)length ? options->classes : 1));
}

void fuzz_target(fuzz_input in)
{
    fault f = {0};
    dataset *data = NULL;
    const uint8_t flags = fuzz_byte(&in);
    const uint32_t vocabularies[] = {256, 50257, 1 << 16, 128256};
    const dataset_options options = {.context = 1 + (flags >> 2 & 7),
        .classes = vocabularies[flags & 3],
        .labels = (flags >> 5 & 3) == 3 ? LABELS : 0,
        .train_limit = flags >> 5 & 1,
        .test_limit = flags >> 6 & 1};
    const bool text = flags >> 7 != 0;
    const fuzz_input first = fuzz_part(&in, fuzz_word(&in, 65535));
    const char *path = fuzz_write(text ? "train.txt" : "train.bin", first.data, first.size);
    if (in.size > 0)
        (void)fuzz_write(text ? "val.txt" : "val.bin", in.data, in.size);
    const bool good = dataset_open(path, &options, &data, &f);
    FUZZ_CHECK(good == (data != NULL));
    if (!good) {
        fuzz_check_text(f.text, fuzz_folder());
        return;
    }
    int32_t *inputs = malloc((2 * options.context + 1) * sizeof *inputs), *labels;
    FUZZ_CHECK(inputs != NULL);
    labels = inputs + options.context + (options.labels > 0);
    for (int split = 0; split < 2; ++split)
        for (uint32_t i = 0; i < dataset_count(data, (dataset_split)split); ++i) {
            const augment_options augment = {.seed = flags, .epoch = i};
            FUZZ_CHECK(dataset_batch(data, (dataset_split)split, &i, 1,
                split == 0 ? &augment : NULL, (uint8_t *)inputs, labels, &f));
            if (options.labels > 0) {
                check_sentence(&options, inputs, *labels);
                continue;
            }
            for (size_t t = 0; t < 2 * options.context; ++t)
                FUZZ_CHECK(inputs[t] >= 0 && (uint32_t)inputs[t] < options.classes);
            for (size_t t = 0; t + 1 < options.context; ++t)
                FUZZ_CHECK(labels[t] == inputs[t + 1]);
        }
    free(inputs);
    dataset_close(data);
}
