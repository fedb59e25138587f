#include "trainer/data/augment/rand_augment.h"

#include <math.h>
#include <string.h>

#include "trainer/data/rng.h"

/* ---- places ---------------------------------------------------------------------------------- */

/* Where a pixel comes from, from the image's centre: x' = xx x + xy y + x0, and y' likewise. */
typedef struct way {
    double xx, xy, x0, yx, yy, y0;
} way;

static void move(way w, uint32_t size, const uint8_t *from, uint8_t *to)
{
    const double centre = size / 2.0 - 0.5;
    for (uint32_t i = 0; i < size * size; ++i) {
        const double x = i % size - centre, y = i / size - centre;
        const double at_x = nearbyint(w.xx * x + w.xy * y + w.x0 + centre);
        const double at_y = nearbyint(w.yx * x + w.yy * y + w.y0 + centre);
        const bool inside = at_x >= 0 && at_y >= 0 && at_x < size && at_y < size;
        const size_t at = inside ? (size_t)at_y * size + (size_t)at_x : 0;
        for (size_t c = 0; c < 3; ++c)
            to[c * size * size + i] = inside ? from[c * size * size + at] : 0;
    }
}

/* level: -1 to 1. Shears leave the upper left corner in its place. */
static way way_of(rand_operation operation, double level, uint32_t size)
{
    const double shear = 0.3 * level, shift = trunc(150.0 / 331 * size * level);
    const double angle = -level * 30 * (atan(1) / 45), half = size / 2.0;
    switch (operation) {
    case RAND_SHEAR_X:
        return (way){1, shear, shear * half, 0, 1, 0};
    case RAND_SHEAR_Y:
        return (way){1, 0, 0, shear, 1, shear * half};
    case RAND_TRANSLATE_X:
        return (way){1, 0, -shift, 0, 1, 0};
    case RAND_TRANSLATE_Y:
        return (way){1, 0, 0, 0, 1, -shift};
    default: /* RAND_ROTATE */
        return (way){cos(angle), sin(angle), 0, -sin(angle), cos(angle), 0};
    }
}

/* ---- colours --------------------------------------------------------------------------------- */

static uint8_t blend(float ratio, uint8_t a, float b)
{
    const float v = ratio * a + (1 - ratio) * b;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t grey_at(const uint8_t *from, size_t pixels, size_t i)
{
    return (uint8_t)(0.2989f * from[i] + 0.587f * from[pixels + i] + 0.114f * from[2 * pixels + i]);
}

static float mean_grey(const uint8_t *from, size_t pixels)
{
    double sum = 0;
    for (size_t i = 0; i < pixels; ++i)
        sum += grey_at(from, pixels, i);
    return (float)(sum / (double)pixels);
}

/* The mean of a pixel, five times, and of those around it; at the border the pixel. */
static float smooth_at(const uint8_t *plane, uint32_t size, uint32_t x, uint32_t y)
{
    const uint8_t *at = plane + (size_t)y * size + x;
    if (x == 0 || y == 0 || x + 1 == size || y + 1 == size)
        return *at;
    const uint8_t *above = at - size, *below = at + size;
    const int sum = above[-1] + above[0] + above[1] + at[-1] + 5 * at[0] + at[1] + below[-1] +
                    below[0] + below[1];
    return (float)nearbyint(sum / 13.0);
}

/* ratio: 1 leaves the image. */
static void recolour(
    rand_operation operation, float ratio, uint32_t size, const uint8_t *from, uint8_t *to)
{
    const size_t pixels = (size_t)size * size;
    const float mean = operation == RAND_CONTRAST ? mean_grey(from, pixels) : 0;
    for (size_t i = 0; i < 3 * pixels; ++i) {
        const size_t at = i % pixels;
        const float other =
            operation == RAND_COLOUR ? grey_at(from, pixels, at)
            : operation == RAND_SHARPNESS
                ? smooth_at(from + (i - at), size, (uint32_t)(at % size), (uint32_t)(at / size))
                : mean; /* 0 of RAND_BRIGHTNESS */
        to[i] = blend(ratio, from[i], other);
    }
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* From the darkest to the lightest byte, stretched to all bytes. */
static void stretch(const uint32_t counts[256], uint8_t table[256])
{
    int low = 0, high = 255;
    while (low < 255 && counts[low] == 0)
        ++low;
    while (high > 0 && counts[high] == 0)
        --high;
    const float scale = low < high ? 255 / (float)(high - low) : 1,
                first = low < high ? (float)low : 0;
    for (int v = 0; v < 256; ++v) {
        const float stretched = ((float)v - first) * scale;
        table[v] = (uint8_t)(stretched < 0 ? 0 : stretched > 255 ? 255 : stretched);
    }
}

/* So that all bytes are about as frequent. */
static void equalize(const uint32_t counts[256], uint8_t table[256])
{
    uint32_t sum = 0, last = 0;
    for (int v = 0; v < 256; ++v) {
        sum += counts[v];
        last = counts[v] > 0 ? counts[v] : last;
        table[v] = (uint8_t)v;
    }
    const uint32_t step = (sum - last) / 255;
    uint32_t before = 0;
    for (int v = 0; v < 256 && step > 0; before += counts[v++]) {
        const uint32_t level = v == 0 ? 0 : (before + step / 2) / step;
        table[v] = (uint8_t)(level > 255 ? 255 : level);
    }
}

static void make_table(
    rand_operation operation, int magnitude, const uint32_t counts[256], uint8_t table[256])
{
    const int bits = 8 - (int)nearbyint(magnitude / (RAND_AUGMENT_MOST / 4.0));
    const double most = 255.0 - 255.0 * magnitude / RAND_AUGMENT_MOST;
    if (operation == RAND_AUTOCONTRAST)
        stretch(counts, table);
    else if (operation == RAND_EQUALIZE)
        equalize(counts, table);
    else
        for (int v = 0; v < 256; ++v)
            table[v] = (uint8_t)(operation == RAND_POSTERIZE ? v & (0xff << (8 - bits))
                                 : v >= most                 ? 255 - v
                                                             : v);
}

/* Each channel by a table, made from how often it has each byte. */
static void relevel(
    rand_operation operation, int magnitude, size_t pixels, const uint8_t *from, uint8_t *to)
{
    for (size_t c = 0; c < 3; ++c, from += pixels, to += pixels) {
        uint32_t counts[256] = {0};
        uint8_t table[256];
        for (size_t i = 0; i < pixels; ++i)
            ++counts[from[i]];
        make_table(operation, magnitude, counts, table);
        for (size_t i = 0; i < pixels; ++i)
            to[i] = table[from[i]];
    }
}

void rand_augment_apply(
    rand_operation operation, int magnitude, uint32_t image_size, const uint8_t *from, uint8_t *to)
{
    const double level = (double)magnitude / RAND_AUGMENT_MOST;
    const size_t pixels = (size_t)image_size * image_size;
    if (operation == RAND_IDENTITY)
        memcpy(to, from, 3 * pixels);
    else if (operation <= RAND_ROTATE)
        move(way_of(operation, level, image_size), image_size, from, to);
    else if (operation <= RAND_SHARPNESS)
        recolour(operation, (float)(1 + 0.9 * level), image_size, from, to);
    else
        relevel(operation, magnitude, pixels, from, to);
}

void rand_augment(const augment_options *options, uint32_t index, uint32_t image_size,
    uint8_t *image, uint8_t *room)
{
    if (options->rand_augment == 0)
        return;
    rng r = rng_open(options->seed, RNG_RAND_AUGMENT, options->epoch, index);
    for (int i = 0; i < 2; ++i) {
        const rand_operation operation = (rand_operation)rng_below(&r, RAND_OPERATIONS);
        const bool down = rng_below(&r, 2) == 1 && operation < RAND_POSTERIZE;
        const int magnitude = (int)options->rand_augment;
        rand_augment_apply(operation, down ? -magnitude : magnitude, image_size, image, room);
        memcpy(image, room, (size_t)3 * image_size * image_size);
    }
}
