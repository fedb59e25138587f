/*
 * image_file.h: JPEG and PNG files, cut out and resized; PNG files with a label for each pixel.
 *
 * The first bytes tell which of the two a file is, not its name: ImageNet has a PNG file named
 * .JPEG. Grey and CMYK become RGB, samples of 16 bits become 8. Colours of PNG are sRGB unless a
 * chunk such as gAMA says otherwise; transparent pixels are blended with white, in linear light.
 * The orientation in a JPEG's EXIF data is ignored, as torchvision's ImageFolder does.
 *
 * A JPEG that is cut off, or whose data libjpeg finds corrupt, counts as broken, also where other
 * programs show the rest in grey. Corruption that decodes to other colours is not noticed.
 * Libjpeg's other warnings, such as extraneous bytes before a marker, are ignored.
 */
#ifndef TRAINER_IMAGE_FILE_H
#define TRAINER_IMAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A window of an image, in its pixels. */
typedef struct image_window {
    double left, top, width, height;
} image_window;

/* Chooses the window of an image of width x height pixels. */
typedef image_window image_choose_fn(void *user, uint32_t width, uint32_t height);

/* Whether this build reads such files. */
bool image_file_readable(void);

/* "out of memory" */
extern const char image_file_no_memory[];

/*
 * Decodes a file's `count` bytes and resizes the window that `choose` returns to size x size, with
 * a triangle filter as wide as the pixels that fall into one (PIL's antialiased BILINEAR).
 *
 * pixels  (3, size, size) bytes, written; mirrored left to right if `mirror`
 *
 * On failure *why is the reason: static text, text in `message`, or image_file_no_memory, in which
 * case the file may be good. */
bool image_file_decode(const uint8_t *bytes, size_t count, image_choose_fn *choose, void *user,
    uint32_t size, bool mirror, uint8_t *pixels, const char **why, char message[256]);

/* Decodes the mask of an image of width x height pixels: a PNG file of as many, grey or with a
 * palette, of at most 8 bits. Takes from the window the pixel nearest to the centre of each of size
 * x size.
 *
 * labels  (size, size), written: values of grey as they are in the file, or numbers of colours of
 *         the palette, 0 to 255; mirrored left to right if `mirror`
 *
 * Fails as image_file_decode. */
bool image_file_decode_mask(const uint8_t *bytes, size_t count, uint32_t width, uint32_t height,
    image_window window, uint32_t size, bool mirror, int32_t *labels, const char **why,
    char message[256]);

#endif
