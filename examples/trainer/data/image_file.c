#include "trainer/data/image_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/file_kind.h"

#if TRAINER_IMAGES
#include <png.h>
#include <setjmp.h>
#include <turbojpeg.h>
/* A progressive JPEG file of more than 500 scans is refused: each goes over all pixels, so a small
 * file could take hours. From libjpeg-turbo 2.1 on. */
#ifndef TJFLAG_LIMITSCANS
#define TJFLAG_LIMITSCANS 0
#endif
#endif

/* Larger images are refused before memory is allocated for them. The limit is lower for fuzzers
 * (tests/fuzz), which would spend their time on large images. */
#ifdef CLPRUNE_FUZZING
#define MOST_PIXELS (UINT64_C(1) << 16)
#else
#define MOST_PIXELS (UINT64_C(1) << 28)
#endif

/* Decoded pixels, (height, width, 3). scale: raster pixels per pixel of the file. */
typedef struct raster {
    uint32_t width, height;
    double scale;
    uint8_t *rgb;
} raster;

const char image_file_no_memory[] = "out of memory";

bool image_file_readable(void)
{
    return TRAINER_IMAGES;
}

static bool too_large(uint64_t width, uint64_t height)
{
    return width == 0 || height == 0 || width > MOST_PIXELS || height > MOST_PIXELS / width;
}

/* Weights for resizing along one axis: output pixel i is the sum over k of weight[i * taps + k] *
 * (pixel first[i] + k). */
typedef struct filter {
    uint32_t taps;
    uint32_t *first;
    float *weight;
} filter;

static void filter_close(filter *f)
{
    free(f->first);
    free(f->weight);
    *f = (filter){0};
}

/* Resizes the range from ... from + length of `pixels` pixels to `size` pixels. */
static bool filter_open(double from, double length, uint32_t pixels, uint32_t size, filter *f)
{
    const double step = length / size, support = step > 1 ? step : 1;
    f->taps = (uint32_t)ceil(2 * support) + 1;
    f->first = malloc(size * sizeof *f->first);
    f->weight = calloc((size_t)size * f->taps, sizeof *f->weight);
    if (f->first == NULL || f->weight == NULL)
        return false;
    for (uint32_t i = 0; i < size; ++i) {
        const double centre = from + (i + 0.5) * step;
        const double low = centre - support < 0 ? 0 : centre - support;
        uint32_t first = (uint32_t)low;
        double sum = 0;
        if (first > pixels - 1)
            first = pixels - 1;
        f->first[i] = first;
        float *weight = f->weight + (size_t)i * f->taps;
        for (uint32_t k = 0; k < f->taps && first + k < pixels; ++k) {
            const double at = fabs((first + k + 0.5 - centre) / support);
            weight[k] = at < 1 ? (float)(1 - at) : 0;
            sum += (double)weight[k];
        }
        if (sum == 0)
            weight[0] = 1, sum = 1;
        for (uint32_t k = 0; k < f->taps; ++k)
            weight[k] = (float)((double)weight[k] / sum);
    }
    return true;
}

static uint8_t to_byte(float v)
{
    return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5f);
}

/* Pixels between the two passes have a fourth channel, which is 0: four floats are one vector. */
enum { LANES = 4 };

/* One row of (width, 3) bytes to (size, LANES). */
static void resize_row(
    const uint8_t *rgb, uint32_t width, const filter *across, uint32_t size, float *row)
{
    for (uint32_t x = 0; x < size; ++x) {
        const uint32_t first = across->first[x];
        const uint32_t taps = across->taps < width - first ? across->taps : width - first;
        const float *weight = across->weight + (size_t)x * across->taps;
        const uint8_t *pixel = rgb + (size_t)first * 3;
        float red = 0, green = 0, blue = 0;
        for (uint32_t k = 0; k < taps; ++k, pixel += 3) {
            red += weight[k] * pixel[0];
            green += weight[k] * pixel[1];
            blue += weight[k] * pixel[2];
        }
        memcpy(
            row + (size_t)x * LANES, (const float[LANES]){red, green, blue}, LANES * sizeof *row);
    }
}

/* sums += weight * row, of (size, LANES). */
static void add_row(float weight, const float *restrict row, uint32_t size, float *restrict sums)
{
    for (size_t x = 0; x < size; ++x, row += LANES, sums += LANES)
        for (int i = 0; i < LANES; ++i)
            sums[i] += weight * row[i];
}

/* Rows first, columns then; only the rows that are needed. */
static bool resize(const raster *image, image_window w, uint32_t size, bool mirror, uint8_t *pixels)
{
    const size_t length = (size_t)size * LANES;
    filter across = {0}, down = {0};
    float *rows = NULL; /* one more than needed: the sums of a row of the result */
    bool good =
        filter_open(w.left * image->scale, w.width * image->scale, image->width, size, &across) &&
        filter_open(w.top * image->scale, w.height * image->scale, image->height, size, &down);
    if (!good)
        goto done;
    const uint32_t top = down.first[0];
    const uint64_t last = (uint64_t)down.first[size - 1] + down.taps;
    const uint32_t end = last < image->height ? (uint32_t)last : image->height;
    rows = malloc((size_t)(end - top + 1) * length * sizeof *rows);
    good = rows != NULL;
    if (!good)
        goto done;
    for (uint32_t y = top; y < end; ++y)
        resize_row(image->rgb + (size_t)y * image->width * 3, image->width, &across, size,
            rows + (y - top) * length);
    float *sums = rows + (end - top) * length;
    for (uint32_t y = 0; y < size; ++y) {
        const uint32_t first = down.first[y];
        memset(sums, 0, length * sizeof *sums);
        for (uint32_t k = 0; k < down.taps && first + k < end; ++k)
            add_row(down.weight[(size_t)y * down.taps + k], rows + (first + k - top) * length, size,
                sums);
        for (uint32_t x = 0; x < size; ++x)
            for (size_t c = 0; c < 3; ++c)
                pixels[(c * size + y) * size + (mirror ? size - 1 - x : x)] =
                    to_byte(sums[(size_t)x * LANES + c]);
    }
done:
    filter_close(&across);
    filter_close(&down);
    free(rows);
    return good;
}

#if TRAINER_IMAGES

/* The smallest of libjpeg's scales that still leaves `size` pixels in the window. */
static tjscalingfactor choose_scale(image_window w, uint32_t size)
{
    int count = 0;
    const tjscalingfactor *factors = tjGetScalingFactors(&count);
    tjscalingfactor best = {1, 1};
    for (int i = 0; factors != NULL && i < count; ++i) {
        const double scale = (double)factors[i].num / factors[i].denom;
        if (scale < (double)best.num / best.denom && w.width * scale >= size &&
            w.height * scale >= size)
            best = factors[i];
    }
    return best;
}

/* Adobe's CMYK has its inks inverted, so that white is 255. */
static void from_cmyk(const uint8_t *cmyk, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; ++i)
        for (size_t c = 0; c < 3; ++c)
            rgb[3 * i + c] = (uint8_t)((cmyk[4 * i + c] * cmyk[4 * i + 3] + 127) / 255);
}

/* Whether the last image that begins in a file also ends there: a marker is no part of pixels. */
static bool has_end(const uint8_t *bytes, size_t count)
{
    bool ended = false;
    for (size_t i = 0; i + 1 < count; ++i)
        if (bytes[i] == 0xff && (bytes[i + 1] == 0xd9 || bytes[i + 1] == 0xda)) /* EOI, SOS */
            ended = bytes[i + 1] == 0xd9;
    return ended;
}

/* Whether a library failed for want of memory; what it says of that. */
static bool is_no_memory(const char *message)
{
    static const char *const reasons[] = {"Insufficient memory", "insufficient memory",
        "Memory allocation failure", "Out of memory", "out of memory"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; ++i)
        if (strstr(message, reasons[i]) != NULL)
            return true;
    return false;
}

/* Whether a call that did not return 0 left the image whole: some files of ImageNet have such
 * warnings. libjpeg keeps its first warning, or the error that ended it, and goes on after others,
 * such as a file's end, without the pixels. The text is kept in `message`. */
static bool is_harmless(tjhandle handle, char message[256])
{
    static const char *const warnings[] = {"extraneous bytes before marker", "bad ICC marker",
        "unknown JFIF revision", "Unknown Adobe color transform", "Invalid SOS parameters",
        "Inconsistent progression sequence"};
    (void)snprintf(
        message, 256, "%s", handle != NULL ? tjGetErrorStr2(handle) : image_file_no_memory);
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; ++i)
        if (strstr(message, warnings[i]) != NULL)
            return true;
    return false;
}

/* What reading a header says, as a failure, if turbojpeg has no name for the sampling of the
 * chroma, such as 4:1:0. The size and the colours are set, and decoding does not need the name. */
static const char unnamed_sampling[] = "Could not determine subsampling";

static bool decode_jpeg(const uint8_t *bytes, size_t count, image_choose_fn *choose, void *user,
    uint32_t size, raster *image, image_window *window, const char **why, char message[256])
{
    int width = 0, height = 0, sampling = 0, colours = 0;
    uint8_t *inks = NULL;
    tjhandle handle = tjInitDecompress();
    bool good = (handle != NULL && tjDecompressHeader3(handle, bytes, (unsigned long)count, &width,
                                       &height, &sampling, &colours) == 0) ||
                is_harmless(handle, message) || strstr(message, unnamed_sampling) != NULL;
    *why = good ? "it has no pixels, or too many" : message;
    if (!good || width <= 0 || height <= 0 || too_large((uint64_t)width, (uint64_t)height)) {
        good = false;
        goto done;
    }
    *window = choose(user, (uint32_t)width, (uint32_t)height);
    const tjscalingfactor scale = choose_scale(*window, size);
    const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
    image->width = (uint32_t)TJSCALED(width, scale);
    image->height = (uint32_t)TJSCALED(height, scale);
    image->scale = (double)scale.num / scale.denom;
    const size_t pixels = (size_t)image->width * image->height;
    image->rgb = malloc(pixels * 3);
    inks = cmyk ? malloc(pixels * 4) : NULL;
    if (image->rgb == NULL || (cmyk && inks == NULL)) {
        *why = image_file_no_memory;
        good = false;
        goto done;
    }
    const bool silent = tjDecompress2(handle, bytes, (unsigned long)count, cmyk ? inks : image->rgb,
                            (int)image->width, 0, (int)image->height, cmyk ? TJPF_CMYK : TJPF_RGB,
                            TJFLAG_LIMITSCANS) == 0;
    const bool whole = silent || has_end(bytes, count);
    good = whole && (silent || is_harmless(handle, message));
    *why = good ? NULL : whole ? message : "Premature end of JPEG file";
    if (good && cmyk)
        from_cmyk(inks, pixels, image->rgb);
done:
    free(inks);
    if (handle != NULL)
        (void)tjDestroy(handle);
    if (*why == message && is_no_memory(message))
        *why = image_file_no_memory;
    return good;
}

static bool decode_png(
    const uint8_t *bytes, size_t count, raster *image, const char **why, char message[256])
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    const png_color white = {255, 255, 255};
    bool good = png_image_begin_read_from_memory(&png, bytes, count) != 0;
    if (good && too_large(png.width, png.height)) {
        *why = "it has no pixels, or too many";
        png_image_free(&png);
        return false;
    }
    png.format = PNG_FORMAT_RGB;
    png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* else untagged samples of 16 bits are linear light */
    *image = (raster){png.width, png.height, 1, good ? malloc(PNG_IMAGE_SIZE(png)) : NULL};
    if (good && image->rgb == NULL)
        *why = image_file_no_memory;
    good =
        good && image->rgb != NULL && png_image_finish_read(&png, &white, image->rgb, 0, NULL) != 0;
    if (!good && *why == NULL) {
        (void)snprintf(message, 256, "%s", png.message);
        *why = is_no_memory(message) ? image_file_no_memory : message;
    }
    png_image_free(&png);
    return good;
}

bool image_file_decode(const uint8_t *bytes, size_t count, image_choose_fn *choose, void *user,
    uint32_t size, bool mirror, uint8_t *pixels, const char **why, char message[256])
{
    static const uint8_t jpeg[] = {0xff, 0xd8}, png[] = {0x89, 'P', 'N', 'G'};
    raster image = {0};
    image_window window = {0};
    bool good = false;
    *why = NULL;
    if (count > sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0) {
        good = decode_jpeg(bytes, count, choose, user, size, &image, &window, why, message);
    } else if (count > sizeof png && memcmp(bytes, png, sizeof png) == 0) {
        good = decode_png(bytes, count, &image, why, message);
        if (good)
            window = choose(user, image.width, image.height);
    } else {
        char kind[FILE_KIND_TEXT];
        *why = "neither JPEG nor PNG";
        if (file_kind_say(bytes, count < FILE_KIND_BYTES ? count : FILE_KIND_BYTES,
                FILE_KIND_OF_TEXT, "", "JPEG or PNG", kind)) {
            (void)snprintf(message, 256, "%s", kind);
            *why = message;
        }
    }
    if (good && !resize(&image, window, size, mirror, pixels)) {
        *why = image_file_no_memory;
        good = false;
    }
    free(image.rgb);
    return good;
}

/* A mask that libpng reads from memory. setjmp: libpng's way to fail. */
typedef struct mask_reader {
    const uint8_t *at;
    size_t left;
    png_structp png;
    png_infop info;
    uint32_t width, height; /* wanted */
    uint8_t *values;        /* (height, width) */
    png_bytep *rows;        /* (height) */
    char *message;
} mask_reader;

static void read_mask(png_structp png, png_bytep to, size_t count)
{
    mask_reader *r = png_get_io_ptr(png);
    if (count > r->left)
        png_error(png, "the file ends too early");
    memcpy(to, r->at, count);
    r->at += count;
    r->left -= count;
}

static void mask_failed(png_structp png, png_const_charp text)
{
    mask_reader *r = png_get_error_ptr(png);
    (void)snprintf(r->message, 256, "%s", text);
    png_longjmp(png, 1);
}

static void mask_warned(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

/* Reads the values; NULL, or what is wrong. */
static const char *decode_values(mask_reader *r)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return is_no_memory(r->message) ? image_file_no_memory : r->message;
    png_set_read_fn(r->png, r, read_mask);
    png_read_info(r->png, r->info);
    const uint32_t width = png_get_image_width(r->png, r->info);
    const uint32_t height = png_get_image_height(r->png, r->info);
    const int colours = png_get_color_type(r->png, r->info);
    const int depth = png_get_bit_depth(r->png, r->info);
    if ((colours != PNG_COLOR_TYPE_GRAY && colours != PNG_COLOR_TYPE_PALETTE) || depth > 8) {
        (void)snprintf(r->message, 256,
            "it has %d channels of %d bits; a mask is grey or has a palette, of at most 8 bits",
            png_get_channels(r->png, r->info), depth);
        return r->message;
    }
    if (width != r->width || height != r->height) {
        (void)snprintf(r->message, 256, "it has %lu x %lu pixels, but its image %lu x %lu",
            (unsigned long)width, (unsigned long)height, (unsigned long)r->width,
            (unsigned long)r->height);
        return r->message;
    }
    png_set_packing(r->png);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->values = malloc((size_t)width * height);
    r->rows = malloc(height * sizeof *r->rows);
    if (r->values == NULL || r->rows == NULL)
        return image_file_no_memory;
    for (uint32_t y = 0; y < height; ++y)
        r->rows[y] = r->values + (size_t)y * width;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, NULL);
    return NULL;
}

static uint32_t nearest(double first, double length, uint32_t i, uint32_t size, uint32_t pixels)
{
    const uint32_t at = (uint32_t)(first + (i + 0.5) * length / size);
    return at < pixels ? at : pixels - 1;
}

bool image_file_decode_mask(const uint8_t *bytes, size_t count, uint32_t width, uint32_t height,
    image_window window, uint32_t size, bool mirror, int32_t *labels, const char **why,
    char message[256])
{
    mask_reader r = {bytes, count, .width = width, .height = height, .message = message};
    *why = "it is no PNG file, as a mask is";
    if (count < 8 || png_sig_cmp(bytes, 0, 8) != 0)
        return false;
    *why = image_file_no_memory;
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, mask_failed, mask_warned);
    r.info = r.png != NULL ? png_create_info_struct(r.png) : NULL;
    if (r.info != NULL)
        *why = decode_values(&r);
    for (uint32_t y = 0; y < size && *why == NULL; ++y) {
        const uint8_t *row = r.rows[nearest(window.top, window.height, y, size, height)];
        for (uint32_t x = 0; x < size; ++x)
            labels[(size_t)y * size + (mirror ? size - 1 - x : x)] =
                row[nearest(window.left, window.width, x, size, width)];
    }
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.values);
    free(r.rows);
    return *why == NULL;
}

#else

bool image_file_decode(const uint8_t *bytes, size_t count, image_choose_fn *choose, void *user,
    uint32_t size, bool mirror, uint8_t *pixels, const char **why, char message[256])
{
    (void)bytes, (void)count, (void)choose, (void)user, (void)size, (void)mirror, (void)pixels;
    (void)resize, (void)too_large, (void)message;
    *why = "this program was built without libturbojpeg and libpng";
    return false;
}

bool image_file_decode_mask(const uint8_t *bytes, size_t count, uint32_t width, uint32_t height,
    image_window window, uint32_t size, bool mirror, int32_t *labels, const char **why,
    char message[256])
{
    (void)width, (void)height, (void)window, (void)labels;
    return image_file_decode(bytes, count, NULL, NULL, size, mirror, NULL, why, message);
}

#endif
