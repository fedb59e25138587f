/* JPEG and PNG files of each kind, and broken ones.
 *
 * JPEG of four inks, grey and of any chroma sampling, PNG of 8 and 16 bits, against their pixels.
 * Cut and corrupt JPEGs are refused by libjpeg's warning; harmless warnings are accepted. */
#if !TRAINER_IMAGES
int main(void)
{
    return 77; /* skipped: built without the libraries */
}
#else
#include <png.h>

#include "support/test_images.h"

enum { EDGE = 64, PIXELS = EDGE * EDGE };

/* Decodes without resizing; why not, or NULL. */
static const char *decode(const uint8_t *bytes, size_t count, uint8_t pixels[3 * PIXELS])
{
    return test_decode(bytes, count, (image_window){0}, EDGE, false, pixels);
}

static void decode_well(const uint8_t *bytes, size_t count, uint8_t pixels[3 * PIXELS])
{
    const char *why = decode(bytes, count, pixels);
    if (why != NULL)
        fail_msg("%s", why);
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

/* What a library says; NULL: what it does. */
static const char *failure;

TEST_WRAP(int, tjDecompress2,
    (tjhandle handle, const unsigned char *bytes, unsigned long count, unsigned char *pixels,
        int width, int pitch, int height, int format, int flags))
{
    return failure != NULL ? -1
                           : __real_tjDecompress2(
                                 handle, bytes, count, pixels, width, pitch, height, format, flags);
}

TEST_WRAP(char *, tjGetErrorStr2, (tjhandle handle))
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s", failure != NULL ? failure : "");
    return failure != NULL ? text : __real_tjGetErrorStr2(handle);
}

TEST_WRAP(tjhandle, tjInitDecompress, (void))
{
    return failure != NULL && failure[0] == '\0' ? NULL : __real_tjInitDecompress();
}

TEST_WRAP(int, png_image_finish_read,
    (png_imagep png, png_const_colorp colour, void *pixels, png_int_32 stride, void *map))
{
    if (failure == NULL)
        return __real_png_image_finish_read(png, colour, pixels, stride, map);
    (void)snprintf(png->message, sizeof png->message, "%s", failure);
    return 0;
}

static uint8_t *make_jpeg(const uint8_t *pixels, int format, int sampling, int flags, size_t *count)
{
    return test_jpeg(EDGE, EDGE, pixels, format, sampling, 98, flags | TJFLAG_ACCURATEDCT, count);
}

static void cmyk(NO_ROW)
{
    uint8_t inks[4 * PIXELS], got[3 * PIXELS];
    size_t count;
    draw(inks, 4);
    uint8_t *jpeg = make_jpeg(inks, TJPF_CMYK, TJSAMP_444, 0, &count);
    decode_well(jpeg, count, got);
    for (int i = 0; i < PIXELS; i++)
        for (int c = 0; c < 3; c++) {
            const int want = inks[4 * i + c] * inks[4 * i + 3] / 255;
            if (abs(got[c * PIXELS + i] - want) > 4)
                fail_msg("colour %d of pixel %d: %d, not %d", c, i, got[c * PIXELS + i], want);
        }
}

static void grey(NO_ROW)
{
    uint8_t rgb[3 * PIXELS], got[3 * PIXELS];
    size_t count;
    draw(rgb, 3);
    uint8_t *jpeg = make_jpeg(rgb, TJPF_RGB, TJSAMP_GRAY, 0, &count);
    decode_well(jpeg, count, got);
    for (int i = 0; i < PIXELS; i++) {
        const double want = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
        assert_true(got[i] - want > -4 && got[i] - want < 4);
        assert_true(got[PIXELS + i] == got[i] && got[2 * PIXELS + i] == got[i]);
    }
}

/* ---- chroma sampling ------------------------------------------------------------------------- */

/* Bits of entropy-coded data, a zero behind each 0xff. */
typedef struct bit_writer {
    uint8_t *bytes;
    size_t count;
    unsigned held, bits; /* not written yet; fewer than 8 bits */
} bit_writer;

static void put_bits(bit_writer *w, unsigned value, unsigned bits)
{
    while (bits-- > 0) {
        w->held = w->held << 1 | (value >> bits & 1);
        if (++w->bits < 8)
            continue;
        const uint8_t byte = (uint8_t)w->held;
        w->bytes[w->count++] = byte;
        if (byte == 0xff)
            w->bytes[w->count++] = 0;
        w->held = w->bits = 0;
    }
}

/* A block of one level. Category n of its difference has the code n, of 4 bits; the end of the
 * block is one 0. */
static void put_block(bit_writer *w, int difference)
{
    const unsigned size = (unsigned)abs(difference);
    unsigned bits = 0;
    while (size >> bits != 0)
        bits++;
    put_bits(w, bits, 4);
    put_bits(w, difference > 0 ? size : (1u << bits) - 1 - size, bits);
    put_bits(w, 0, 1);
}

typedef struct sampling_row {
    const char *name;
    unsigned across[3], down[3]; /* factors of Y, Cb and Cr */
} sampling_row;

static const sampling_row sampling_rows[] = {
    {"4:4:4", {1, 1, 1}, {1, 1, 1}},
    {"4:2:0", {2, 1, 1}, {2, 1, 1}},
    {"4 x 2", {4, 1, 1}, {2, 1, 1}},
    {"3 x 1", {3, 1, 1}, {1, 1, 1}},
    {"Cb unlike Cr", {2, 2, 1}, {2, 1, 1}},
};

/* Levels of Y, Cb and Cr: the upper half of the image, the lower one. */
static const int halves[2][3] = {{100, 90, 180}, {150, 200, 60}};

/* Writes a JPEG file of two units (MCU), one above the other: turbojpeg writes usual samplings
 * only. Returns its length. */
static size_t put_sampled(const sampling_row *row, uint8_t file[512])
{
    static const uint8_t tables[] = {0xff, 0xc4, 0, 2 + 17 + 12 + 17 + 1, /* */
        0x00, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,            /* 12 codes of 4 bits */
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,                             /* */
        0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t scan[] = {0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0};
    const unsigned width = 8 * row->across[0], height = 16 * row->down[0];
    const uint8_t frame[] = {0xff, 0xc0, 0, 17, 8, 0, (uint8_t)height, 0, (uint8_t)width, 3};
    uint8_t *at = file;
    memcpy(at, "\xff\xd8\xff\xdb\0\x43\0", 7);
    memset(at + 7, 8, 64); /* a block's first coefficient is 8 times its level */
    at += 7 + 64;
    memcpy(at, frame, sizeof frame);
    at += sizeof frame;
    for (unsigned c = 0; c < 3; c++) {
        *at++ = (uint8_t)(c + 1);
        *at++ = (uint8_t)(row->across[c] << 4 | row->down[c]);
        *at++ = 0;
    }
    memcpy(at, tables, sizeof tables);
    at += sizeof tables;
    memcpy(at, scan, sizeof scan);
    bit_writer w = {.bytes = at + sizeof scan};
    int before[3] = {128, 128, 128};
    for (int half = 0; half < 2; half++)
        for (int c = 0; c < 3; c++)
            for (unsigned block = 0; block < row->across[c] * row->down[c]; block++) {
                put_block(&w, halves[half][c] - before[c]);
                before[c] = halves[half][c];
            }
    put_bits(&w, 0x7f, 7); /* fills the last byte */
    memcpy(w.bytes + w.count, "\xff\xd9", 2);
    return (size_t)(w.bytes + w.count + 2 - file);
}

/* Rows far from the middle, where no half is blended with the other. */
static void sampling(void **state)
{
    const sampling_row *row = *state;
    uint8_t file[512], got[3 * PIXELS];
    const size_t count = put_sampled(row, file);
    decode_well(file, count, got);
    for (int i = 0; i < PIXELS; i++) {
        const int y = i / EDGE;
        const int *level = halves[y >= EDGE / 2];
        const double cb = level[1] - 128, cr = level[2] - 128;
        const double want[3] = {
            level[0] + 1.402 * cr, level[0] - 0.34414 * cb - 0.71414 * cr, level[0] + 1.772 * cb};
        for (int c = 0; c < 3 && (y < EDGE / 4 || y >= 3 * EDGE / 4); c++) {
            const double clipped = want[c] < 0 ? 0 : want[c] > 255 ? 255 : want[c];
            if (abs(got[c * PIXELS + i] - (int)clipped) > 2)
                fail_msg("colour %d of pixel %d: %d, not %g", c, i, got[c * PIXELS + i], clipped);
        }
    }
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
static void deep_png(NO_ROW)
{
    static const struct {
        int type, channels;
    } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1}, {PNG_COLOR_TYPE_RGB, 3}, {PNG_COLOR_TYPE_RGB_ALPHA, 4}};
    static memory file;
    static uint8_t samples[2 * 4 * PIXELS];
    uint8_t got[3 * PIXELS];
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (int depth = 8; depth <= 16; depth += 8) {
            const int channels = kinds[k].channels, colours = channels == 1 ? 1 : 3;
            uint8_t *at = samples;
            for (int i = 0; i < PIXELS; i++)
                for (int c = 0; c < channels; c++)
                    for (int byte = 0; byte < depth / 8; byte++)
                        *at++ = c == 3 ? 255 : (uint8_t)(i + 50 * c); /* v * 257 */
            make_png(samples, depth, kinds[k].type, channels, &file);
            decode_well(file.bytes, file.count, got);
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
static void transparent_png(NO_ROW)
{
    static memory file;
    static uint8_t samples[2 * 4 * PIXELS];
    uint8_t got[3 * PIXELS];
    for (int depth = 8; depth <= 16; depth += 8) {
        const int bytes = depth / 8;
        memset(samples, 0, sizeof samples);
        for (int i = 0; i < PIXELS; i++)
            memset(samples + (4 * i + 3) * bytes, 128, (size_t)bytes);
        make_png(samples, depth, PNG_COLOR_TYPE_RGB_ALPHA, 4, &file);
        decode_well(file.bytes, file.count, got);
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

static void broken_jpeg(NO_ROW)
{
    static const char *const reasons[] = {"Premature end of JPEG file",
        "Premature end of JPEG file", "premature end of data segment", "bad Huffman code", NULL,
        NULL, "Premature end of JPEG file"};
    uint8_t rgb[3 * PIXELS], whole[3 * PIXELS], got[3 * PIXELS];
    size_t count;
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (int progressive = 0; progressive < 2; progressive++) {
        uint8_t *jpeg =
            make_jpeg(rgb, TJPF_RGB, TJSAMP_444, progressive ? TJFLAG_PROGRESSIVE : 0, &count);
        uint8_t *file = test_alloc(count + 16);
        decode_well(jpeg, count, whole);
        for (int kind = 0; kind < (int)(COUNT_OF(reasons)); kind++) {
            const size_t now = damage(kind, jpeg, count, file);
            const char *why = decode(file, now, got);
            const bool good = why == NULL;
            if (good != (reasons[kind] == NULL))
                fail_msg("fault %d: %s", kind, good ? "accepted" : why);
            if (good)
                assert_memory_equal(got, whole, sizeof got);
            else if (strstr(why, reasons[kind]) == NULL)
                fail_msg("fault %d: '%s', not '%s'", kind, why, reasons[kind]);
        }
    }
}

/* A library that has no memory says nothing of the file. */
static void no_memory(NO_ROW)
{
    static const char *const jpeg_says[] = {"Insufficient memory (case 4)",
        "tjDecompress2(): Memory allocation failure", ""},
                             *const png_says[] = {"Out of memory", "insufficient memory",
                                 "png_image_read: out of memory"};
    static uint8_t rgb[3 * PIXELS], got[3 * PIXELS];
    size_t count;
    png_alloc_size_t bytes = 0;
    draw(rgb, 3);
    uint8_t *jpeg = make_jpeg(rgb, TJPF_RGB, TJSAMP_444, 0, &count);
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = EDGE, .height = EDGE, .format = PNG_FORMAT_RGB};
    assert_true(png_image_write_to_memory(&image, NULL, &bytes, 0, rgb, 0, NULL));
    uint8_t *png = test_alloc(bytes);
    assert_true(png_image_write_to_memory(&image, png, &bytes, 0, rgb, 0, NULL));
    for (int i = 0; i < 3; i++) {
        failure = jpeg_says[i];
        assert_ptr_equal(decode(jpeg, count, got), image_file_no_memory);
        failure = png_says[i];
        assert_ptr_equal(decode(png, bytes, got), image_file_no_memory);
    }
    failure = "CRC error";
    assert_string_equal(decode(png, bytes, got), failure);
    failure = NULL;
    decode_well(png, bytes, got);
    decode_well(jpeg, count, got);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, no_memory, NULL, "a library without memory");
    test_add(&list, cmyk, NULL, "a JPEG of four inks");
    test_add(&list, grey, NULL, "a grey JPEG");
    TEST_ADD_EACH(&list, sampling, sampling_rows, "a JPEG of chroma sampling %s");
    test_add(&list, deep_png, NULL, "PNG files of 8 and 16 bits");
    test_add(&list, transparent_png, NULL, "a transparent PNG");
    test_add(&list, broken_jpeg, NULL, "JPEG files that are cut off or corrupt");
    return test_run_on_host("image_file", &list);
}
#endif
