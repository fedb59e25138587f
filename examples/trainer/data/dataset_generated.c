/*
 * dataset_generated.c: images that the program makes, so that the trainer runs without a download.
 *
 * An image shows two figures, one clearly above the other, on a cluttered, noisy ground. The class
 * says which texture the upper and which the lower figure has:
 *
 *     +----------------+
 *     |      __        |    upper texture = label mod 5
 *     |     /==\    |  |    lower texture = upper + step mod 5,
 *     |     \==/    |  |                    step = +1 -1 +2 -2 0 by label / 5 mod 5
 *     |  ,--.          |    beyond 25 classes, in this order: upper shape (5),
 *     |  |%%|   ----   |                    lower shape (5), upper grain (2)
 *     |  '--'          |
 *     +----------------+
 *
 * With 10 classes each pair of neighbouring textures comes in both orders: recognising the textures
 * is not enough, their places count too.
 *
 * With a label for each pixel: 0 is the ground, and texture t has 1 + t mod (classes - 1), so that
 * there are 2 to 6 classes. Images are then mirrored, and not moved.
 *
 * All else is random per image: places, sizes, phases, colours and their sign, the attributes that
 * the number of classes leaves free, bars of clutter, a slow wave over the ground, noise. The
 * random signs make each class's mean image grey, so a linear classifier of pixels learns nothing.
 * Every class contains the mirror images of its images.
 *
 * All arithmetic is on integers, so an image has the same bits on every machine. Three kinds of
 * number:
 *
 *     place    1/65536 of the image's side, so that a scene looks the same at any image size
 *     angle    uint32_t, 2^32 is a full turn; wraps by itself
 *     Q15      32768 is 1
 */
#include "trainer/data/dataset_source.h"

#include "trainer/data/rng.h"

#include <stdbool.h>
#include <stdlib.h> /* malloc, free */
#include <string.h> /* memcpy */

enum { TEXTURES = 5, STEPS = 5, SHAPES = 5, GRAINS = 2 };
enum { MAX_CLASSES = TEXTURES * STEPS * SHAPES * SHAPES * GRAINS };
enum { MIN_SIDE = 16, MAX_SIDE = 1024, DEFAULT_SIDE = 32 };
enum { DEFAULT_CLASSES = 10, DEFAULT_TRAIN = 8000, DEFAULT_TEST = 2000 };

/* The difficulty, in bytes of pixel value unless noted. */
enum {
    GROUND_SPREAD = 24,     /* each channel's grey is 128 +- this */
    WAVE_SPREAD = 20,       /* amplitude of the slow wave, per channel */
    TEXTURE_WEAKEST = 35,   /* amplitude of the textures: in the strongest channel, from ... */
    TEXTURE_STRONGEST = 70, /* ... to */
    BARS = 4,               /* number of clutter bars */
    BAR_SPREAD = 50,        /* a bar's colour differs from the ground by up to this, per channel */
    NOISE = 28              /* noise is triangular, +- this */
};

/* Places and angles from fractions, and spatial frequency in 1/256 cycle per image side. */
enum { PLACE_ONE = 65536 };
#define PLACE(fraction)  ((int32_t)((fraction)*PLACE_ONE))
#define TURN(fraction)   ((uint32_t)((fraction)*4294967296.0))
#define CYCLES(per_side) ((int32_t)((per_side)*256))

typedef enum texture { ACROSS, UPRIGHT, SLANTED, CHECKS, RINGS } texture;
typedef enum shape { DISC, SQUARE, DIAMOND, HOOP, CROSS } shape;

typedef struct figure {
    texture texture;
    shape shape;
    int32_t x, y, radius;             /* places */
    int32_t cosine, sine;             /* Q15; direction in which the texture's phase grows */
    int32_t cycles;                   /* see CYCLES */
    uint32_t phase, phase2;           /* angles; phase2 for the second direction of CHECKS */
    int32_t colour[DATASET_CHANNELS]; /* amplitude, signed */
} figure;

typedef struct bar {
    int32_t left, right, top, bottom; /* places */
    int32_t colour[DATASET_CHANNELS];
} bar;

typedef struct scene {
    int32_t ground[DATASET_CHANNELS];
    figure wave; /* covers everything; its shape is not used */
    bar bars[BARS];
    figure figures[2]; /* upper, lower */
} scene;

typedef struct generator {
    uint64_t seed;
    uint32_t image_size, classes;
} generator;

/* Q15 sine. Per quarter turn, the odd polynomial of degree 5 with the sine's values and slopes at
 * both ends (slopes 1 and 0); error below 5e-4. */
static int32_t sine_of(uint32_t angle)
{
    const int32_t z15 = (int32_t)((angle & 0x3FFFFFFFu) >> 15); /* Q15 within the quarter turn */
    const uint32_t quarter = angle >> 30;
    const int64_t z = (quarter & 1) != 0 ? 32768 - z15 : z15;
    const int64_t z2 = z * z >> 15;
    const int64_t value = z * (51472 - (z2 * (21024 - (z2 * 2320 >> 15)) >> 15)) >> 15;
    return (int32_t)(quarter >= 2 ? -value : value);
}

static uint32_t square_root(uint32_t n)
{
    uint32_t root = 0;
    for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= n)
            root |= bit;
    return root;
}

static int32_t absolute(int32_t v)
{
    return v < 0 ? -v : v;
}

static uint32_t any_angle(rng *r)
{
    return rng_next(r);
}

/* One random channel gets strength or -strength, the others anything in between. */
static void draw_colour(rng *r, int32_t strength, int32_t colour[DATASET_CHANNELS])
{
    for (int c = 0; c < DATASET_CHANNELS; ++c)
        colour[c] = rng_between(r, -strength, strength);
    const bool positive = rng_below(r, 2) == 0;
    colour[rng_below(r, DATASET_CHANNELS)] = positive ? strength : -strength;
}

static void aim(figure *f, uint32_t direction)
{
    f->sine = sine_of(direction);
    f->cosine = sine_of(direction + TURN(0.25));
}

static void draw_texture(rng *r, texture kind, bool fine, figure *f)
{
    static const uint32_t directions[TEXTURES] = {
        [ACROSS] = TURN(0.25), [UPRIGHT] = 0, [SLANTED] = TURN(0.125), [CHECKS] = 0, [RINGS] = 0};
    const int32_t wobble = rng_between(r, -(int32_t)TURN(0.015), (int32_t)TURN(0.015));
    uint32_t direction = directions[kind] + (uint32_t)wobble;
    if (rng_below(r, 2) == 1)
        direction = 0u - direction; /* the mirror image: SLANTED goes either way */
    f->texture = kind;
    aim(f, direction);
    f->cycles =
        fine ? rng_between(r, CYCLES(6.8), CYCLES(8.0)) : rng_between(r, CYCLES(4.8), CYCLES(6.0));
    f->phase = any_angle(r);
    f->phase2 = any_angle(r);
    draw_colour(r, rng_between(r, TEXTURE_WEAKEST, TEXTURE_STRONGEST), f->colour);
}

/* What the label says about an image; -1 for an attribute that it leaves open. */
typedef struct meaning {
    int upper, lower, upper_shape, lower_shape, upper_grain;
} meaning;

/* Takes the lowest digit off *label; returns -1 if earlier digits already distinguish all
 * classes. */
static int take_digit(uint32_t *label, uint32_t *classes, uint32_t radix)
{
    if (*classes <= 1)
        return -1;
    const int digit = (int)(*label % radix);
    *label /= radix;
    *classes = (*classes + radix - 1) / radix;
    return digit;
}

static meaning decode(uint32_t label, uint32_t classes)
{
    static const int steps[STEPS] = {1, 4, 2, 3, 0};
    meaning m;
    m.upper = take_digit(&label, &classes, TEXTURES);
    const int step = take_digit(&label, &classes, STEPS);
    m.lower = (m.upper + steps[step < 0 ? 0 : step]) % TEXTURES;
    m.upper_shape = take_digit(&label, &classes, SHAPES);
    m.lower_shape = take_digit(&label, &classes, SHAPES);
    m.upper_grain = take_digit(&label, &classes, GRAINS);
    return m;
}

static int given_or_any(rng *r, int given, uint32_t radix)
{
    const int any = (int)rng_below(r, radix);
    return given >= 0 ? given : any;
}

static scene draw_scene(rng *r, meaning m)
{
    scene s;
    for (int c = 0; c < DATASET_CHANNELS; ++c)
        s.ground[c] = 128 + rng_between(r, -GROUND_SPREAD, GROUND_SPREAD);

    s.wave = (figure){.texture = UPRIGHT, .radius = PLACE_ONE};
    aim(&s.wave, any_angle(r));
    s.wave.cycles = rng_between(r, CYCLES(0.5), CYCLES(2.0));
    s.wave.phase = any_angle(r);
    draw_colour(r, WAVE_SPREAD, s.wave.colour);

    for (int i = 0; i < BARS; ++i) {
        bar *b = &s.bars[i];
        const bool lying = rng_below(r, 2) == 0;
        const int32_t length = rng_between(r, PLACE(0.15), PLACE(0.5));
        const int32_t thickness = rng_between(r, PLACE(0.04), PLACE(0.12));
        b->left = rng_between(r, PLACE(-0.1), PLACE(0.95));
        b->top = rng_between(r, PLACE(-0.1), PLACE(0.95));
        b->right = b->left + (lying ? length : thickness);
        b->bottom = b->top + (lying ? thickness : length);
        draw_colour(r, BAR_SPREAD, b->colour);
    }

    const int textures[2] = {m.upper, m.lower};
    const int shapes[2] = {m.upper_shape, m.lower_shape};
    const int grains[2] = {m.upper_grain, -1};
    const int32_t upper_y = rng_between(r, PLACE(0.20), PLACE(0.42));
    const int32_t lower_y = rng_between(r, upper_y + PLACE(0.36), PLACE(0.80));
    for (int i = 0; i < 2; ++i) {
        figure *f = &s.figures[i];
        const bool fine = given_or_any(r, grains[i], GRAINS) == 0;
        f->shape = (shape)given_or_any(r, shapes[i], SHAPES);
        draw_texture(r, (texture)textures[i], fine, f);
        f->radius = rng_between(r, PLACE(0.17), PLACE(0.21));
        f->x = rng_between(r, PLACE(0.20), PLACE(0.80));
        f->y = i == 0 ? upper_y : lower_y;
    }
    return s;
}

static bool covers(const figure *f, int32_t dx, int32_t dy)
{
    const int32_t ax = absolute(dx), ay = absolute(dy);
    if (ax > f->radius || ay > f->radius)
        return false;
    const int64_t squared = (int64_t)dx * dx + (int64_t)dy * dy;
    const int64_t radius_squared = (int64_t)f->radius * f->radius;
    switch (f->shape) {
    case DISC:
        return squared <= radius_squared;
    case SQUARE:
        return ax <= f->radius * 7 / 8 && ay <= f->radius * 7 / 8;
    case DIAMOND:
        return ax + ay <= f->radius * 5 / 4;
    case HOOP:
        return squared <= radius_squared && squared * 6 >= radius_squared;
    case CROSS:
        return ax <= f->radius / 2 || ay <= f->radius / 2;
    }
    return false;
}

/* A place times a frequency: 2^24 is a cycle, the shift makes it an angle. */
static uint32_t phase_at(int32_t distance, int32_t cycles)
{
    return (uint32_t)((int64_t)distance * cycles) << 8;
}

/* Q15 value of the texture at an offset from the figure's centre. */
static int32_t texture_at(const figure *f, int32_t dx, int32_t dy)
{
    if (f->texture == RINGS) {
        const uint32_t squared = (uint32_t)(((int64_t)dx * dx + (int64_t)dy * dy) >> 4);
        return sine_of(phase_at((int32_t)square_root(squared) * 4, f->cycles) + f->phase);
    }
    const int32_t along = (int32_t)(((int64_t)dx * f->cosine + (int64_t)dy * f->sine) / 32768);
    const int32_t value = sine_of(phase_at(along, f->cycles) + f->phase);
    if (f->texture != CHECKS)
        return value;
    const int32_t aside = (int32_t)(((int64_t)dy * f->cosine - (int64_t)dx * f->sine) / 32768);
    return value * sine_of(phase_at(aside, f->cycles) + f->phase2) / 32768;
}

static void add_texture(const figure *f, int32_t dx, int32_t dy, int32_t pixel[DATASET_CHANNELS])
{
    const int32_t value = texture_at(f, dx, dy);
    for (int c = 0; c < DATASET_CHANNELS; ++c)
        pixel[c] += f->colour[c] * value / 32768;
}

/* Front to back: a figure hides bars and wave, a bar hides the wave. Returns the figure, or NULL.
 */
static const figure *scene_at(const scene *s, int32_t x, int32_t y, int32_t pixel[DATASET_CHANNELS])
{
    memcpy(pixel, s->ground, sizeof s->ground);
    for (int i = 0; i < 2; ++i) {
        const figure *f = &s->figures[i];
        if (covers(f, x - f->x, y - f->y)) {
            add_texture(f, x - f->x, y - f->y, pixel);
            return f;
        }
    }
    for (int i = 0; i < BARS; ++i) {
        const bar *b = &s->bars[i];
        if (x >= b->left && x < b->right && y >= b->top && y < b->bottom) {
            for (int c = 0; c < DATASET_CHANNELS; ++c)
                pixel[c] += b->colour[c];
            return NULL;
        }
    }
    add_texture(&s->wave, x, y, pixel);
    return NULL;
}

/* Triangular on -NOISE ... NOISE, from 20 bits of a draw. */
static int32_t noise_from(uint32_t bits)
{
    const int32_t a = (int32_t)(bits & 1023), b = (int32_t)(bits >> 10 & 1023);
    return (a - b) * NOISE / 1023;
}

static uint8_t clamp(int32_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* labels: of the pixels, or NULL. */
static void draw_image(const generator *g, dataset_split split, uint32_t index, meaning m,
    bool mirror, uint8_t *pixels, int32_t *labels)
{
    const size_t size = g->image_size, plane = size * size;
    rng draw = rng_open(g->seed, RNG_IMAGE, (uint32_t)split, index);
    rng noise = rng_open(g->seed, RNG_NOISE, (uint32_t)split, index);
    const scene s = draw_scene(&draw, m);
    for (size_t y = 0; y < size; ++y) {
        for (size_t x = 0; x < size; ++x) {
            int32_t pixel[DATASET_CHANNELS];
            const size_t at = y * size + (mirror ? size - 1 - x : x);
            const figure *f = scene_at(&s, (int32_t)((2 * x + 1) * PLACE_ONE / (2 * size)),
                (int32_t)((2 * y + 1) * PLACE_ONE / (2 * size)), pixel);
            for (size_t c = 0; c < DATASET_CHANNELS; ++c)
                pixels[c * plane + at] = clamp(pixel[c] + noise_from(rng_next(&noise)));
            if (labels != NULL)
                labels[at] = f == NULL ? 0 : 1 + (int32_t)f->texture % ((int32_t)g->classes - 1);
        }
    }
}

static int32_t read_image(const void *state, dataset_split split, uint32_t index, uint8_t *pixels)
{
    const generator *g = state;
    const uint32_t label = index % g->classes;
    draw_image(g, split, index, decode(label, g->classes), false, pixels, NULL);
    return (int32_t)label;
}

static bool fetch_pixels(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *pixels, int32_t *labels, fault *f)
{
    const generator *g = state;
    const bool mirror = augment != NULL && augment_draw(augment, index, g->image_size).mirror;
    (void)f;
    draw_image(g, split, index, decode(index, MAX_CLASSES), mirror, pixels, labels);
    return true;
}

bool dataset_generated(const dataset_options *options, dataset_source *source, fault *f)
{
    const uint32_t size = options->image_size == 0 ? DEFAULT_SIDE : options->image_size;
    const uint32_t most = options->pixels ? TEXTURES + 1 : MAX_CLASSES;
    const uint32_t classes = options->classes != 0 ? options->classes
                             : options->pixels     ? most
                                                   : DEFAULT_CLASSES;
    if (size < MIN_SIDE || size > MAX_SIDE)
        return fault_set(f, CODE_USAGE, "generated: image size %lu is not within %d ... %d",
            (unsigned long)size, MIN_SIDE, MAX_SIDE);
    if (classes < 2 || classes > most)
        return fault_set(f, CODE_USAGE, "generated: %lu classes are not within 2 ... %lu",
            (unsigned long)classes, (unsigned long)most);
    generator *g = malloc(sizeof *g);
    if (g == NULL)
        return fault_set(f, CODE_MEMORY, "generated: out of memory");
    *g = (generator){.seed = options->seed, .image_size = size, .classes = classes};
    *source = (dataset_source){
        .name = "generated",
        .classes = classes,
        .image_size = size,
        .count = {options->train_limit == 0 ? DEFAULT_TRAIN : options->train_limit,
            options->test_limit == 0 ? DEFAULT_TEST : options->test_limit},
        .mean = {0.5, 0.5, 0.5},
        .std = {0.1, 0.1, 0.1}, /* as measured; the mean is so by symmetry */
        .state = g,
        .pixels = options->pixels,
        .read = read_image,
        .fetch = options->pixels ? fetch_pixels : NULL,
        .destroy = free,
    };
    return true;
}
