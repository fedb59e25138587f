/* Channels-last images from planes of bytes or floats.
 *
 *     image_bytes_channels_last   y[n * pixels + p][c] = levels[c][byte (n * channels + c) * pixels + p]
 *     image_channels_last         y[n * pixels + p][c] = x[n][c * pixels + p]
 *
 * Group g takes the rows [g * group_rows, (g + 1) * group_rows) of y; its LOCAL work-items take rows in
 * turn. No local memory. LOCAL: any >= 1. */
#include "images/image_bytes.clh"
#ifndef LOCAL
#error "image.cl needs LOCAL"
#endif

KERNEL_OF(LOCAL) image_bytes_channels_last(const ulong rows, const ulong group_rows,
    const ulong pixels, const ulong channels, IMAGE_BYTES(images), MAT_OUT_RESTRICT(y))
{
    const ulong first = get_group_id(0) * group_rows, last = min(first + group_rows, rows);
    for (ulong r = first + get_local_id(0); r < last; r += LOCAL) {
        global const uchar *from = IMAGE_AT(images, r / pixels, channels * pixels) + r % pixels;
        global float *to = ROW(y, r);
        for (ulong c = 0; c < channels; c++)
            to[c] = IMAGE_VALUE(images, c, from[c * pixels]);
    }
}

KERNEL_OF(LOCAL) image_channels_last(const ulong rows, const ulong group_rows, const ulong pixels,
    const ulong channels, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(y))
{
    const ulong first = get_group_id(0) * group_rows, last = min(first + group_rows, rows);
    for (ulong r = first + get_local_id(0); r < last; r += LOCAL) {
        global const float *from = ROW(x, r / pixels) + r % pixels;
        global float *to = ROW(y, r);
        for (ulong c = 0; c < channels; c++)
            to[c] = from[c * pixels];
    }
}
