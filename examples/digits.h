/* The images of mlp.c, which alone includes this file: MNIST's, or drawn ones. */
#ifndef DIGITS_H
#define DIGITS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, TRAIN = 60000, TEST = 10000 };

/* First those to train with, then those of the test. */
static unsigned char digit_images[(TRAIN + TEST) * PIXELS], digit_labels[TRAIN + TEST];

static unsigned draw(unsigned *seed, unsigned limit)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % limit;
}

/* Draws digits of 12 x 20 pixels, near the centres of noisy images. */
static void draw_digits(unsigned seed)
{
    /* An octal digit is a row of three cells of 4 x 4 pixels. */
    static const unsigned font[CLASSES] = {
        075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717};
    for (size_t i = 0; i < TRAIN + TEST; ++i) {
        const unsigned label = draw(&seed, CLASSES);
        const unsigned left = 6 + draw(&seed, 5), top = 2 + draw(&seed, 5);
        digit_labels[i] = (unsigned char)label;
        for (unsigned p = 0; p < PIXELS; ++p) {
            /* Left of the digit, and above it, the differences wrap and are large. */
            const unsigned column = (p % SIDE - left) / 4, row = (p / SIDE - top) / 4;
            const int ink = column < 3 && row < 5 && font[label] >> (14 - 3 * row - column) & 1;
            digit_images[i * PIXELS + p] = (unsigned char)(draw(&seed, 160) + (ink ? 80 : 0));
        }
    }
}

/* Reads `count` items of `bytes` bytes from an IDX file; returns 0 on failure. */
static int read_idx(
    const char *folder, const char *name, size_t count, size_t bytes, unsigned char *to)
{
    const unsigned char header[16] = {0, 0, 8, bytes == 1 ? 1 : 3, 0, 0,
        (unsigned char)(count >> 8), (unsigned char)count, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    const size_t header_bytes = bytes == 1 ? 8 : 16;
    unsigned char head[16];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    const int good = file != NULL && fread(head, header_bytes, 1, file) == 1 &&
                     memcmp(head, header, header_bytes) == 0 &&
                     fread(to, bytes, count, file) == count;
    if (!good)
        fprintf(stderr, "clprune-mlp: %s is missing, or not MNIST's\n", path);
    if (file != NULL)
        (void)fclose(file);
    return good;
}

/* Reads MNIST's four files; returns 0 on failure. */
static int read_digits(const char *folder)
{
    return read_idx(folder, "train-images-idx3-ubyte", TRAIN, PIXELS, digit_images) &&
           read_idx(folder, "train-labels-idx1-ubyte", TRAIN, 1, digit_labels) &&
           read_idx(
               folder, "t10k-images-idx3-ubyte", TEST, PIXELS, digit_images + TRAIN * PIXELS) &&
           read_idx(folder, "t10k-labels-idx1-ubyte", TEST, 1, digit_labels + TRAIN);
}

/* Digits [first, first + count): pixels from 0 to 1, and labels. */
static void digits_at(size_t first, size_t count, float *pixels, int32_t *labels)
{
    for (size_t i = 0; i < count * PIXELS; ++i)
        pixels[i] = (float)digit_images[first * PIXELS + i] / 255.0f;
    for (size_t i = 0; i < count; ++i)
        labels[i] = digit_labels[first + i];
}

#endif
