#include "trainer/data/augment/augment.h"

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

/* Of CutMix: the rectangle of a share of the area around a pixel; the share that is left. */
static augment_box draw_cut(rng *r, double share, uint32_t image_size, uint32_t *left)
{
    const uint32_t side = (uint32_t)(image_size * sqrt(1 - share)), half = side / 2;
    const uint32_t y = rng_below(r, image_size), x = rng_below(r, image_size);
    const uint32_t top = y > half ? y - half : 0, first = x > half ? x - half : 0;
    const uint32_t bottom = y + half < image_size ? y + half : image_size;
    const uint32_t last = x + half < image_size ? x + half : image_size;
    const augment_box box = {top, first, bottom - top, last - first};
    const double area = (double)box.height * box.width / ((double)image_size * image_size);
    *left = (uint32_t)(AUGMENT_WHOLE * (1 - area) + 0.5);
    return box;
}

augment_mix augment_draw_mix(
    const augment_options *options, uint32_t index, uint32_t count, uint32_t image_size)
{
    rng r = rng_open(options->seed, RNG_MIX, options->epoch, index);
    augment_mix mix = {.other = index, .share = AUGMENT_WHOLE};
    if (options->mixup <= 0 && options->cutmix <= 0)
        return mix;
    mix.other = rng_below(&r, count);
    const bool either = rng_below(&r, 2) == 1;
    const bool cuts = options->mixup <= 0 || (options->cutmix > 0 && either);
    const double share = rng_beta(&r, cuts ? options->cutmix : options->mixup);
    mix.share = (uint32_t)(AUGMENT_WHOLE * share + 0.5);
    if (cuts)
        mix.box = draw_cut(&r, share, image_size, &mix.share);
    return mix;
}

static void cut(augment_box box, uint32_t image_size, const uint8_t *other, uint8_t *image)
{
    for (size_t c = 0; c < 3; ++c)
        for (size_t y = box.top; y < (size_t)box.top + box.height; ++y) {
            const size_t at = (c * image_size + y) * image_size + box.left;
            memcpy(image + at, other + at, box.width);
        }
}

void augment_mix_images(
    const augment_mix *mix, uint32_t image_size, const uint8_t *other, uint8_t *image)
{
    const size_t count = (size_t)3 * image_size * image_size;
    const uint32_t own = mix->share, rest = AUGMENT_WHOLE - own;
    if (mix->box.height > 0) {
        cut(mix->box, image_size, other, image);
        return;
    }
    for (size_t i = 0; i < count; ++i)
        image[i] =
            (uint8_t)((own * image[i] + rest * other[i] + AUGMENT_WHOLE / 2) / AUGMENT_WHOLE);
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
