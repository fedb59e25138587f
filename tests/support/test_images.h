/* JPEG files made in memory, and files decoded. */
#ifndef CLPRUNE_TEST_IMAGES_H
#define CLPRUNE_TEST_IMAGES_H

#include <turbojpeg.h>

#include "support/test_device.h"
#include "trainer/data/image_file.h"

/* A JPEG of pixels in a TJPF format, until the end of the case. */
static inline uint8_t *test_jpeg(int width, int height, const uint8_t *pixels, int format,
    int sampling, int quality, int flags, size_t *count)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    tjhandle handle = tjInitCompress();
    assert_int_equal(tjCompress2(handle, pixels, width, 0, height, format, &bytes, &size, sampling,
                         quality, flags),
        0);
    assert_int_equal(tjDestroy(handle), 0);
    uint8_t *copy = test_copy(size, bytes);
    tjFree(bytes);
    *count = size;
    return copy;
}

static inline image_window test_window(void *user, uint32_t width, uint32_t height)
{
    const image_window *window = user;
    return window->width > 0 ? *window : (image_window){0, 0, width, height};
}

/* Decodes a window of a file, or {0}, all of it, to size x size pixels; why not, in a static
 * buffer, or NULL. */
static inline const char *test_decode(const uint8_t *file, size_t count, image_window window,
    uint32_t size, bool mirror, uint8_t *pixels)
{
    static char message[256];
    const char *why = "";
    const bool good =
        image_file_decode(file, count, test_window, &window, size, mirror, pixels, &why, message);
    assert_true(good == (why == NULL));
    return why;
}

#endif
