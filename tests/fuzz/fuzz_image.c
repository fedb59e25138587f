/* JPEG and PNG files, also as masks: three bytes that choose size and window, then the file. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "trainer/data/image_file.h"

enum { MOST_SIDE = 16 };

typedef struct choice {
    uint8_t place, part;
    uint32_t asked;
} choice;

/* A window within the image, as dataset_folder.c draws them. */
static image_window choose(void *user, uint32_t width, uint32_t height)
{
    choice *c = user;
    const double part = (1 + c->part) / 256.0;
    const image_window w = {.width = width * part, .height = height * part};
    ++c->asked;
    FUZZ_CHECK(width > 0 && height > 0);
    return (image_window){.left = (width - w.width) * (c->place & 15) / 15,
        .top = (height - w.height) * (c->place >> 4) / 15,
        .width = w.width,
        .height = w.height};
}

/* The same file as a mask, of the size that its header has. */
static void read_mask(const fuzz_input *in, choice *c, uint32_t side, bool mirror)
{
    int32_t labels[MOST_SIDE * MOST_SIDE + 1];
    char message[256] = "";
    const char *why = NULL;
    uint32_t size[2] = {1, 1};
    for (size_t i = 0; in->size >= 24 && i < 8; i++)
        size[i / 4] = i % 4 == 0 ? in->data[16 + i] : size[i / 4] << 8 | in->data[16 + i];
    if (size[0] == 0 || size[1] == 0 || size[0] > 256 || size[1] > 256)
        return;
    labels[side * side] = -7;
    const bool good = image_file_decode_mask(in->data, in->size, size[0], size[1],
        choose(c, size[0], size[1]), side, mirror, labels, &why, message);
    FUZZ_CHECK(good == (why == NULL));
    for (size_t i = 0; good && i < side * side; i++)
        FUZZ_CHECK(labels[i] >= 0 && labels[i] <= 255);
    FUZZ_CHECK(labels[side * side] == -7);
}

void fuzz_target(fuzz_input in)
{
    uint8_t pixels[3 * MOST_SIDE * MOST_SIDE + 1];
    char message[256] = "";
    const char *why = NULL;
    const uint8_t flags = fuzz_byte(&in);
    choice c = {.place = fuzz_byte(&in), .part = fuzz_byte(&in)};
    const uint32_t side = 1 + flags % MOST_SIDE;
    const size_t end = 3 * side * side;
    memset(pixels, 0, sizeof pixels);
    pixels[end] = 77;
    if (image_file_decode(
            in.data, in.size, choose, &c, side, (flags & 128) != 0, pixels, &why, message)) {
        FUZZ_CHECK(c.asked == 1);
    } else {
        FUZZ_CHECK(why != NULL);
        FUZZ_CHECK(why[0] != '\0');
    }
    FUZZ_CHECK(pixels[end] == 77);
    read_mask(&in, &c, side, (flags & 128) != 0);
}
