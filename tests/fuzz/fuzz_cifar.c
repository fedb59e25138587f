/* CIFAR-10 and CIFAR-100 files: two bytes of options, two of a length, then the files. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "trainer/data/dataset.h"

/* Opens the folder and takes each image once. */
static void use(const char *name, bool fine, const dataset_options *options)
{
    char path[2048];
    fault f = {0};
    dataset *data = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    const bool good = dataset_open(path, options, &data, &f);
    FUZZ_CHECK(good == (data != NULL));
    if (!good) {
        fuzz_check_text(f.text, path);
        return;
    }
    const uint32_t side = dataset_image_size(data), classes = dataset_classes(data);
    FUZZ_CHECK(side == 32 && classes == (fine ? 100u : 10u));
    uint8_t *pixels = malloc((size_t)3 * side * side);
    FUZZ_CHECK(pixels != NULL);
    for (int split = 0; split < 2; ++split)
        for (uint32_t i = 0; i < dataset_count(data, (dataset_split)split); ++i) {
            int32_t label;
            FUZZ_CHECK(dataset_batch(data, (dataset_split)split, &i, 1, NULL, pixels, &label, &f));
            FUZZ_CHECK(label >= 0 && (uint32_t)label < classes);
        }
    free(pixels);
    dataset_close(data);
}

void fuzz_target(fuzz_input in)
{
    static const char *const files[5] = {"ten/data_batch_1.bin", "ten/data_batch_2.bin",
        "ten/data_batch_3.bin", "ten/data_batch_4.bin", "ten/data_batch_5.bin"};
    const uint8_t flags = fuzz_byte(&in), limits = fuzz_byte(&in);
    const bool fine = (flags & 1) != 0;
    const dataset_options options = {.image_size = (flags & 2) ? 32 : 0,
        .classes = (flags & 4) ? 10 : 0,
        .train_limit = limits & 7,
        .test_limit = limits >> 3 & 7};
    const fuzz_input test = fuzz_part(&in, fuzz_word(&in, 65535));
    fuzz_subfolder("ten");
    fuzz_subfolder("hundred");
    if (fine) {
        (void)fuzz_write("hundred/test.bin", test.data, test.size);
        (void)fuzz_write("hundred/train.bin", in.data, in.size);
    } else {
        (void)fuzz_write("ten/test_batch.bin", test.data, test.size);
        for (int i = 0; i < 5; ++i) {
            /* all alike but the last, which is what is left where a byte asks for it */
            const fuzz_input part = i < 4 || !(flags & 8) ? in : fuzz_part(&in, in.size / 2);
            (void)fuzz_write(files[i], part.data, part.size);
        }
    }
    use(fine ? "hundred" : "ten", fine, &options);
}
