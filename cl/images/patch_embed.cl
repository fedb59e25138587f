/* Cuts images into patches, one row each, and puts patches back.
 *
 *     cut    patches[n * tokens + t][k] = images[n][pixel]
 *     put    images[n][pixel] = patches[n * tokens + t][k]
 *     cut_bytes   as cut, for images of bytes: levels[channel][byte] (image_bytes.clh)
 *     with   t = py * patches_x + px                           patch (py, px), row by row
 *            k = (channel * PATCH + i) * PATCH + j             pixel (i, j) of it
 *            pixel = (channel * height + py * PATCH + i) * width + px * PATCH + j
 *
 *      image, one channel        patches (rows 0 .. 3)
 *      a a b b                   a a a a | next channel
 *      a a b b                   b b b b
 *      c c d d      PATCH = 2    c c c c
 *      c c d d                   d d d d
 *
 * Row-wise over patches, see rowwise.clh; a vector never leaves a row of a patch. No local memory.
 * PATCH: any >= 1; VW: a divisor of PATCH. */
#include "prelude/rowwise.clh"
#include "images/image_bytes.clh"
#ifndef PATCH
#error "patch_embed.cl needs PATCH"
#endif

/* The index, in its image, of pixel (0, 0) of channel 0 of the patch in row r of `patches`. */
static inline ulong patch_corner(
    const ulong r, const ulong tokens, const ulong patches_x, const ulong width)
{
    const ulong t = r % tokens;
    return t / patches_x * PATCH * width + t % patches_x * PATCH;
}

/* The index of element k of a patch, from the patch's corner. */
static inline ulong patch_pixel(const ulong k, const ulong height, const ulong width)
{
    const ulong line = k / PATCH;
    return (line / PATCH * height + line % PATCH) * width + k % PATCH;
}

KERNEL_OF(LOCAL) patch_cut(ROWWISE_SIZES, const ulong tokens, const ulong patches_x,
    const ulong height, const ulong width, MAT_IN_RESTRICT(images), MAT_OUT_RESTRICT(patches))
{
    FOR_ROWS(r) {
        global const float *corner =
            ROW(images, r / tokens) + patch_corner(r, tokens, patches_x, width);
        FOR_VECTORS(k)
            STORE(LOAD(corner + patch_pixel(k, height, width)), ROW(patches, r) + k);
    }
}

KERNEL_OF(LOCAL) patch_cut_bytes(ROWWISE_SIZES, const ulong tokens, const ulong patches_x,
    const ulong height, const ulong width, IMAGE_BYTES(images), MAT_OUT_RESTRICT(patches))
{
    const ulong image = cols / ((ulong)PATCH * PATCH) * height * width;
    FOR_ROWS(r) {
        global const uchar *corner =
            IMAGE_AT(images, r / tokens, image) + patch_corner(r, tokens, patches_x, width);
        FOR_VECTORS(k) {
            global const uchar *from = corner + patch_pixel(k, height, width);
            for (uint i = 0; i < VW; i++)
                AT(patches, r, k + i) = IMAGE_VALUE(images, k / ((ulong)PATCH * PATCH), from[i]);
        }
    }
}

KERNEL_OF(LOCAL) patch_put(ROWWISE_SIZES, const ulong tokens, const ulong patches_x,
    const ulong height, const ulong width, MAT_IN_RESTRICT(patches), MAT_OUT_RESTRICT(images))
{
    FOR_ROWS(r) {
        global float *corner = ROW(images, r / tokens) + patch_corner(r, tokens, patches_x, width);
        FOR_VECTORS(k)
            STORE(LOAD(ROW(patches, r) + k), corner + patch_pixel(k, height, width));
    }
}
