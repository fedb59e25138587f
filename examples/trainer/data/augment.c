#include "trainer/data/augment.h"

#include <math.h>
#include <string.h>

#include "trainer/data/rng.h"

augment_move augment_draw(const augment_options *options, uint32_t index, uint32_t image_size)
{
    const int32_t border = (int32_t)(options->shift > 0 ? options->shift : image_size / 8);
    if (options->fixed != NULL)
        return *options->fixed;
    rng r = rng_open(options->seed, RNG_AUGMENT, options->epoch, index);
    augment_move move;
    move.down = rng_between(&r, -border, border);
    move.right = rng_between(&r, -border, border);
    move.mirror = rng_below(&r, 2) == 1;
    if (options->alternates) {
        augment_options first = *options;
        first.epoch = 0;
        first.alternates = false;
        move.mirror = augment_draw(&first, index, image_size).mirror != (options->epoch % 2 == 1);
    }
    return move;
}

/* Where a border of reflected pixels has its pixel `at`: -1 has 1, size has size - 2. */
static int32_t reflected(int32_t at, int32_t size)
{
    return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
}

void augment_apply(
    augment_move move, bool reflects, uint32_t image_size, const uint8_t *pixels, uint8_t *image)
{
    const int32_t size = (int32_t)image_size;
    for (size_t c = 0; c < 3; ++c) {
        for (int32_t y = 0; y < size; ++y) {
            const int32_t moved = y + move.down;
            const int32_t from_y = reflects ? reflected(moved, size) : moved;
            const bool row_inside = from_y >= 0 && from_y < size;
            const uint8_t *row =
                pixels + (c * image_size + (size_t)(row_inside ? from_y : 0)) * image_size;
            for (int32_t x = 0; x < size; ++x) {
                const int32_t right = (move.mirror ? size - 1 - x : x) + move.right;
                const int32_t from_x = reflects ? reflected(right, size) : right;
                const bool inside = row_inside && from_x >= 0 && from_x < size;
                *image++ = inside ? row[from_x] : 0;
            }
        }
    }
}

/* Draws of a rectangle until one fits, as most do; after so many the image stays whole. */
enum { BOX_TRIES = 10 };

augment_box augment_draw_box(const augment_options *options, uint32_t index, uint32_t image_size)
{
    const augment_box none = {0};
    if (options->erase <= 0)
        return none;
    const double side = image_size;
    rng r = rng_open(options->seed, RNG_ERASE, options->epoch, index);
    if (!(rng_uniform(&r) < options->erase))
        return none;
    for (int i = 0; i < BOX_TRIES; ++i) {
        const double area = side * side * (0.02 + (0.33 - 0.02) * rng_uniform(&r));
        const double ratio = exp(log(0.3) * (1 - 2 * rng_uniform(&r)));
        const double height = floor(sqrt(area * ratio) + 0.5);
        const double width = floor(sqrt(area / ratio) + 0.5);
        if (!(height >= 1 && width >= 1 && height <= side && width <= side))
            continue;
        augment_box box = {.height = (uint32_t)height, .width = (uint32_t)width};
        box.top = rng_below(&r, image_size - box.height + 1);
        box.left = rng_below(&r, image_size - box.width + 1);
        return box;
    }
    return none;
}

void augment_erase(augment_box box, uint32_t image_size, const uint8_t fill[3], uint8_t *image)
{
    for (size_t c = 0; c < 3; ++c)
        for (size_t y = box.top; y < (size_t)box.top + box.height; ++y)
            memset(image + (c * image_size + y) * image_size + box.left, fill[c], box.width);
}

const augment_view *augment_views(size_t count)
{
    static const augment_view one[] = {{{0, 0, false}, 1}};
    static const augment_view two[] = {{{0, 0, false}, 0.5f}, {{0, 0, true}, 0.5f}};
    static const augment_view six[] = {{{0, 0, false}, 0.25f}, {{0, 0, true}, 0.25f},
        {{-1, -1, false}, 0.125f}, {{-1, -1, true}, 0.125f}, {{1, 1, false}, 0.125f},
        {{1, 1, true}, 0.125f}};
    return count == 6 ? six : count == 2 ? two : one;
}
