/* Lists of the kept 1 x BC blocks of an image by block column. conv_dw_pruned_vector.cl walks them for a
 * convolution's weight gradient.
 *
 * A segment has `segment` rows of y / stride_y, so segment * stride_y image rows. Pixel (y, x) is of class
 * (y % stride_y) * stride_x + x % stride_x; a tap meets the pixels of one class. For segment s of image n,
 * class k and block column j,
 *     entries[n * keep + e] = (position, kept block),  start[j] <= e < start[j + 1],
 *     start = starts + (((n * segments) + s) * classes + k) * (block_cols + 1),
 *     position = (y / stride_y - s * segment) * pitch + x / stride_x
 * in the order of pixels. A pixel is a block row: its kept blocks are crow[pixel] <= k < crow[pixel + 1].
 *
 * One work-item a group; group n * segments + s. No local memory. */
#include "prelude/common.clh"
#define LINE 8 /* entries of a cache line */

KERNEL_OF(1) conv_lists(const uint height, const uint width, const uint stride_y,
    const uint stride_x, const uint pitch, const ulong block_cols, const uint segment,
    const ulong segments, const ulong keep, REGION_IN(int, crow), REGION_IN(int, col),
    REGION_OUT(uint, starts), REGION_OUT(uint2, entries))
{
    const ulong n = get_group_id(0) / segments;
    const uint first = (uint)(get_group_id(0) % segments) * segment * stride_y;
    const uint last = min(first + segment * stride_y, height);
    const uint classes = stride_y * stride_x;
    crow += crow_offset + n * ((ulong)height * width + 1);
    col += col_offset + n * keep;
    starts += starts_offset + get_group_id(0) * classes * (block_cols + 1);
    entries += entries_offset + n * keep;
    for (ulong j = 0; j < classes * (block_cols + 1); j++)
        starts[j] = 0;
    for (uint y = first; y < last; y++)
        for (uint of = 0; of < stride_x; of++) {
            global uint *start = starts + ((y - first) % stride_y * stride_x + of) * (block_cols + 1);
            global const int *at = crow + (ulong)y * width;
            if (stride_x == 1)
                for (int k = at[0]; k < at[width]; k++)
                    start[col[k] + 1]++;
            else
                for (uint x = of; x < width; x += stride_x)
                    for (int k = at[x]; k < at[x + 1]; k++)
                        start[col[k] + 1]++;
        }
    /* The last start of a class is the first one of the next. */
    uint sum = (uint)crow[(ulong)first * width];
    for (uint k = 0; k < classes; k++) {
        global uint *start = starts + k * (block_cols + 1);
        start[0] = sum;
        for (ulong j = 0; j < block_cols; j++)
            start[j + 1] += start[j];
        sum = start[block_cols];
    }
    /* While placing, start[j] is the cursor of column j; it ends at the start of column j + 1, so a shift by
     * one restores the starts. */
    for (uint y = first; y < last; y++)
        for (uint of = 0; of < stride_x; of++) {
            global uint *start = starts + ((y - first) % stride_y * stride_x + of) * (block_cols + 1);
            global const int *at = crow + (ulong)y * width;
            uint position = (y - first) / stride_y * pitch;
            for (uint x = of; x < width; x += stride_x, position++)
                for (int k = at[x]; k < at[x + 1]; k++) {
                    const uint e = start[col[k]]++;
                    PREFETCH_WRITE(entries + e + LINE);
                    entries[e] = (uint2)(position, (uint)k);
                }
        }
    for (uint k = 0; k < classes; k++) {
        global uint *start = starts + k * (block_cols + 1);
        for (ulong j = block_cols; j > 0; j--)
            start[j] = start[j - 1];
        start[0] = k == 0 ? (uint)crow[(ulong)first * width] : starts[k * (block_cols + 1) - 1];
    }
}
