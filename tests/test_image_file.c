/* JPEG and PNG files of each kind, and broken ones. */
#if !TRAINER_IMAGES
int main(void)
{
    return 77; /* skipped: built without the libraries */
}
#else
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "image_file.h"
#include "support/test_device.h"

enum { EDGE = 64, PIXELS = EDGE * EDGE };

static image_window all(void *user, uint32_t width, uint32_t height)
{
    (void)user;
    return (image_window){0, 0, width, height};
}

/* Decodes without resizing. *why: NULL, or the reason of a failure, in `message` or static. */
static bool decode(const uint8_t *bytes, size_t count, uint8_t pixels[3 * PIXELS], const char **why,
    char message[256])
{
    const bool good = image_file_decode(bytes, count, all, NULL, EDGE, false, pixels, why, message);
    assert_true(good == (*why == NULL));
    return good;
}

/* Slow waves of `channels` colours, which JPEG keeps to a few levels. */
static void draw(uint8_t *pixels, int channels)
{
    for (int y = 0; y < EDGE; y++)
        for (int x = 0; x < EDGE; x++)
            for (int c = 0; c < channels; c++)
                pixels[(y * EDGE + x) * channels + c] =
                    (uint8_t)(40 + 2 * (c == 1 ? y : x) + 9 * c);
}

/* To be freed with tjFree. */
static uint8_t *make_jpeg(const uint8_t *pixels, int format, int sampling, int flags, size_t *count)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    tjhandle handle = tjInitCompress();
    assert_int_equal(tjCompress2(handle, pixels, EDGE, 0, EDGE, format, &bytes, &size, sampling, 98,
                         flags | TJFLAG_ACCURATEDCT),
        0);
    assert_int_equal(tjDestroy(handle), 0);
    *count = size;
    return bytes;
}

static void cmyk(void **state)
{
    (void)state;
    uint8_t inks[4 * PIXELS], got[3 * PIXELS];
    char message[256];
    const char *why;
    size_t count;
    draw(inks, 4);
    uint8_t *jpeg = make_jpeg(inks, TJPF_CMYK, TJSAMP_444, 0, &count);
    if (!decode(jpeg, count, got, &why, message))
        fail_msg("%s", why);
    for (int i = 0; i < PIXELS; i++)
        for (int c = 0; c < 3; c++) {
            const int want = inks[4 * i + c] * inks[4 * i + 3] / 255;
            if (abs(got[c * PIXELS + i] - want) > 4)
                fail_msg("colour %d of pixel %d: %d, not %d", c, i, got[c * PIXELS + i], want);
        }
    tjFree(jpeg);
}

static void grey(void **state)
{
    (void)state;
    uint8_t rgb[3 * PIXELS], got[3 * PIXELS];
    char message[256];
    const char *why;
    size_t count;
    draw(rgb, 3);
    uint8_t *jpeg = make_jpeg(rgb, TJPF_RGB, TJSAMP_GRAY, 0, &count);
    if (!decode(jpeg, count, got, &why, message))
        fail_msg("%s", why);
    for (int i = 0; i < PIXELS; i++) {
        const double want = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
        assert_true(got[i] - want > -4 && got[i] - want < 4);
        assert_true(got[PIXELS + i] == got[i] && got[2 * PIXELS + i] == got[i]);
    }
    tjFree(jpeg);
}

typedef struct memory {
    uint8_t bytes[16 * PIXELS];
    size_t count;
} memory;

static void keep_bytes(png_structp png, png_bytep data, png_size_t count)
{
    memory *m = png_get_io_ptr(png);
    assert_true(count <= sizeof m->bytes - m->count);
    memcpy(m->bytes + m->count, data, count);
    m->count += count;
}

static void flush(png_structp png)
{
    (void)png;
}

/* A PNG file of `depth` bits whose samples, big endian, begin at `samples`; without gAMA or sRGB.
 */
static void make_png(const uint8_t *samples, int depth, int type, int channels, memory *m)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    assert_non_null(png);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    m->count = 0;
    png_set_write_fn(png, m, keep_bytes, flush);
    png_set_IHDR(png, info, EDGE, EDGE, depth, type, PNG_INTERLACE_NONE,
        PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < EDGE; y++)
        png_write_row(png, samples + (size_t)y * EDGE * (size_t)(channels * depth / 8));
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
}

/* 16 bits are the same brightness as 8. */
static void deep_png(void **state)
{
    (void)state;
    static const struct {
        int type, channels;
    } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1}, {PNG_COLOR_TYPE_RGB, 3}, {PNG_COLOR_TYPE_RGB_ALPHA, 4}};
    static memory file;
    static uint8_t samples[2 * 4 * PIXELS];
    uint8_t got[3 * PIXELS];
    char message[256];
    const char *why;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int depth = 8; depth <= 16; depth += 8) {
            const int channels = kinds[k].channels, colours = channels == 1 ? 1 : 3;
            uint8_t *at = samples;
            for (int i = 0; i < PIXELS; i++)
                for (int c = 0; c < channels; c++)
                    for (int byte = 0; byte < depth / 8; byte++)
                        *at++ = c == 3 ? 255 : (uint8_t)(i + 50 * c); /* v * 257 */
            make_png(samples, depth, kinds[k].type, channels, &file);
            if (!decode(file.bytes, file.count, got, &why, message))
                fail_msg("%s", why);
            for (int i = 0; i < PIXELS; i++)
                for (int c = 0; c < 3; c++) {
                    const int want = (uint8_t)(i + 50 * (c < colours ? c : 0));
                    if (abs(got[c * PIXELS + i] - want) > 1)
                        fail_msg("%d bits, %d channels: %d, not %d", depth, channels,
                            got[c * PIXELS + i], want);
                }
        }
}

/* Black of half an opacity on white: half of the light is the sRGB value 188. */
static void transparent_png(void **state)
{
    (void)state;
    static memory file;
    static uint8_t samples[2 * 4 * PIXELS];
    uint8_t got[3 * PIXELS];
    char message[256];
    const char *why;
    for (int depth = 8; depth <= 16; depth += 8) {
        const int bytes = depth / 8;
        memset(samples, 0, sizeof samples);
        for (int i = 0; i < PIXELS; i++)
            memset(samples + (4 * i + 3) * bytes, 128, (size_t)bytes);
        make_png(samples, depth, PNG_COLOR_TYPE_RGB_ALPHA, 4, &file);
        if (!decode(file.bytes, file.count, got, &why, message))
            fail_msg("%s", why);
        for (int i = 0; i < 3 * PIXELS; i++)
            if (abs(got[i] - 188) > 3)
                fail_msg("%d bits: %d", depth, got[i]);
    }
}

/* Writes the file with one kind of fault; returns its new length. */
static size_t damage(int kind, const uint8_t *jpeg, size_t count, uint8_t *file)
{
    memcpy(file, jpeg, count);
    switch (kind) {
    case 0: /* cut off */
        return count / 4;
    case 1:
        return count - 20;
    case 2: /* an end in the middle */
        memcpy(file + count / 2, "\xff\xd9", 2);
        return count;
    case 3: /* codes of ones only, which no table has; only libjpeg's slow decoder says so, which
             * takes the last bytes of a file */
        for (size_t i = 0; i < 16; i++)
            memcpy(file + count - 100 + 2 * i, "\xff\x00", 2);
        return count;
    case 4: /* bytes before the end */
        memcpy(file + count - 2, "\1\2\3\4\5\xff\xd9", 7);
        return count + 5;
    case 5: /* an unknown version */
        file[11] = 9;
        return count;
    default: /* and cut off */
        file[11] = 9;
        return count - 20;
    }
}

static void broken_jpeg(void **state)
{
    (void)state;
    static const char *const reasons[] = {"Premature end of JPEG file",
        "Premature end of JPEG file", "premature end of data segment", "bad Huffman code", NULL,
        NULL, "Premature end of JPEG file"};
    uint8_t rgb[3 * PIXELS], whole[3 * PIXELS], got[3 * PIXELS];
    char message[256];
    const char *why;
    size_t count;
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (int progressive = 0; progressive < 2; progressive++) {
        uint8_t *jpeg =
            make_jpeg(rgb, TJPF_RGB, TJSAMP_444, progressive ? TJFLAG_PROGRESSIVE : 0, &count);
        uint8_t *file = malloc(count + 16);
        assert_non_null(file);
        assert_true(decode(jpeg, count, whole, &why, message));
        for (int kind = 0; kind < (int)(sizeof reasons / sizeof *reasons); kind++) {
            const size_t now = damage(kind, jpeg, count, file);
            const bool good = decode(file, now, got, &why, message);
            if (good != (reasons[kind] == NULL))
                fail_msg("fault %d: %s", kind, good ? "accepted" : why);
            if (good)
                assert_memory_equal(got, whole, sizeof got);
            else if (strstr(why, reasons[kind]) == NULL)
                fail_msg("fault %d: '%s', not '%s'", kind, why, reasons[kind]);
        }
        free(file);
        tjFree(jpeg);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, cmyk, NULL, "a JPEG of four inks");
    test_add(&list, grey, NULL, "a grey JPEG");
    test_add(&list, deep_png, NULL, "PNG files of 8 and 16 bits");
    test_add(&list, transparent_png, NULL, "a transparent PNG");
    test_add(&list, broken_jpeg, NULL, "JPEG files that are cut off or corrupt");
    return test_run_on_host("image_file", &list);
}
#endif
