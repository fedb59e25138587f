/* JPEG and PNG files: three bytes that choose size and window, then the file. */
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
}
