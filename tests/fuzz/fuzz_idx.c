/* IDX files: a byte of options, three lengths of two bytes, then the four files. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "trainer/data/dataset.h"

void fuzz_target(fuzz_input in)
{
    static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    fault f = {0};
    dataset *data = NULL;
    const uint8_t flags = fuzz_byte(&in);
    const dataset_options options = {.image_size = (flags & 1) ? 2 : 0,
        .classes = flags >> 1 & 7,
        .train_limit = flags >> 4 & 1,
        .test_limit = flags >> 5 & 3};
    const size_t lengths[4] = {
        fuzz_word(&in, 65535), fuzz_word(&in, 65535), fuzz_word(&in, 65535), SIZE_MAX};
    for (int i = 0; i < 4; ++i) {
        const fuzz_input part = fuzz_part(&in, lengths[i]);
        (void)fuzz_write(names[i], part.data, part.size);
    }
    const bool good = dataset_open(fuzz_folder(), &options, &data, &f);
    FUZZ_CHECK(good == (data != NULL));
    if (!good) {
        fuzz_check_text(f.text, fuzz_folder());
        return;
    }
    const size_t side = dataset_image_size(data);
    uint8_t *pixels = malloc(3 * side * side);
    const float *levels = dataset_levels(data);
    FUZZ_CHECK(pixels != NULL);
    /* 0 <= mean <= 1, 0 < standard deviation <= 1 */
    FUZZ_CHECK(levels[0] <= 0 && levels[255] >= 0 && levels[255] - levels[0] >= 0.9999f);
    for (int split = 0; split < 2; ++split)
        for (uint32_t i = 0; i < dataset_count(data, (dataset_split)split); ++i) {
            int32_t label;
            FUZZ_CHECK(dataset_batch(data, (dataset_split)split, &i, 1, NULL, pixels, &label, &f));
            FUZZ_CHECK(label >= 0 && (uint32_t)label < dataset_classes(data));
        }
    free(pixels);
    dataset_close(data);
}
