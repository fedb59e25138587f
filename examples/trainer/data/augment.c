#include "trainer/data/augment.h"

#include "trainer/data/rng.h"

#include <stddef.h> /* size_t */

augment_move augment_draw(const augment_options *options, uint32_t index, uint32_t image_size)
{
    const int32_t border = (int32_t)(image_size / 8);
    rng r = rng_open(options->seed, RNG_AUGMENT, options->epoch, index);
    augment_move move;
    move.down = rng_between(&r, -border, border);
    move.right = rng_between(&r, -border, border);
    move.mirror = rng_below(&r, 2) == 1;
    return move;
}

void augment_apply(augment_move move, uint32_t image_size, const uint8_t *pixels, uint8_t *image)
{
    const int32_t size = (int32_t)image_size;
    for (size_t c = 0; c < 3; ++c) {
        for (int32_t y = 0; y < size; ++y) {
            const int32_t from_y = y + move.down;
            const bool row_inside = from_y >= 0 && from_y < size;
            const uint8_t *row =
                pixels + (c * image_size + (size_t)(row_inside ? from_y : 0)) * image_size;
            for (int32_t x = 0; x < size; ++x) {
                const int32_t from_x = (move.mirror ? size - 1 - x : x) + move.right;
                const bool inside = row_inside && from_x >= 0 && from_x < size;
                *image++ = inside ? row[from_x] : 0;
            }
        }
    }
}
