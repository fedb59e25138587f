/* Images: channels last from planes; images of bytes give the same bits as the floats that the
 * bytes stand for, over sizes, offsets and parts of a batch; invalid arguments. */
#include "support/test.h"

enum { LEVELS = 256 };

typedef struct shape {
    clprune_patch_embed_desc desc;
    size_t batch, offset, gap; /* offset: bytes before the images; gap: of the levels and outputs */
} shape;

static const shape shapes[] = {
    {{1, 1, 1, 1, 1}, 1, 0, 0},
    {{3, 5, 7, 1, 4}, 3, 1, 0},
    {{3, 6, 4, 2, 17}, 3, 3, 1},
    {{2, 9, 12, 3, 4}, 2, 0, 5},
    {{4, 14, 21, 7, 9}, 2, 129, 0},
    {{3, 32, 32, 4, 24}, 2, 0, 0},
    {{3, 16, 24, 8, 16}, 3, 2, 2},
    {{3, 12, 24, 12, 10}, 2, 7, 0},
    {{3, 32, 48, 16, 12}, 2, 0, 3},
    {{1, 64, 32, 32, 3}, 1, 5, 0},
    {{3, 8, 8, 4, 6}, 0, 0, 0},
    {{3, 0, 8, 4, 6}, 2, 0, 0},
};

/* Random bytes and levels, and the values that they stand for, as planes. */
typedef struct images {
    size_t pixels, image, all; /* of a plane, an image, the batch */
    uint8_t *host;
    float *levels, *values;
    test_buf buffer;
    test_mat levels_mat, planes;
    clprune_image_bytes bytes;
} images;

static images make(const shape *s)
{
    const clprune_patch_embed_desc *d = &s->desc;
    images m = {.pixels = d->height * d->width};
    m.image = d->channels * m.pixels;
    m.all = s->batch * m.image;
    m.host = test_alloc(s->offset + m.all);
    m.values = test_floats(m.all);
    m.levels = test_new_normal(11, d->channels * LEVELS);
    test_rng random = {12};
    for (size_t i = 0; i < s->offset + m.all; i++)
        m.host[i] = (uint8_t)test_rng_below(&random, LEVELS);
    for (size_t i = 0; i < m.all; i++)
        m.values[i] = m.levels[i / m.pixels % d->channels * LEVELS + m.host[s->offset + i]];
    m.buffer = test_buf_make(s->offset + m.all, m.host);
    m.levels_mat = test_mat_make(d->channels, LEVELS, s->gap, m.levels);
    m.planes = test_mat_make(s->batch, m.image, s->gap, m.values);
    m.bytes = (clprune_image_bytes){m.buffer.buffer, s->offset, m.levels_mat.mat};
    return m;
}

static void destroy(images *m)
{
    test_buf_unchanged(&m->buffer, "the bytes");
    TEST_UNCHANGED(&m->levels_mat, &m->planes);
}

/* The images from `first` on. */
static clprune_image_bytes part_of(const images *m, size_t first)
{
    clprune_image_bytes part = m->bytes;
    part.offset += first * m->image;
    return part;
}

static void equal(const char *what, const test_mat *got, const test_mat *want)
{
    float *a = test_mat_get(got, what), *b = test_mat_get(want, what);
    test_same_floats(what, got->mat.rows, got->mat.cols, a, b, "bytes against floats");
}

/* At once and image by image, against the definition. */
static void channels_last(void **state)
{
    const shape *s = *state;
    images m = make(s);
    const size_t channels = s->desc.channels, rows = s->batch * m.pixels;
    const clprune_extent image = {s->desc.height, s->desc.width};
    float *want = test_floats(m.all);
    for (size_t n = 0; n < s->batch; n++)
        for (size_t p = 0; p < m.pixels; p++)
            for (size_t c = 0; c < channels; c++)
                want[(n * m.pixels + p) * channels + c] =
                    m.values[(n * channels + c) * m.pixels + p];
    for (int way = 0; way < 2; way++) {
        static const char *const ways[] = {"bytes", "bytes of one image at a time"};
        test_mat y = test_mat_make(rows, channels, s->gap + 1, NULL);
        if (way == 0)
            TEST_EVENT(clprune_image_bytes_channels_last(
                test_context(), s->batch, channels, image, m.bytes, y.mat, &event));
        for (size_t n = 0; way == 1 && n < s->batch; n++)
            TEST_OK(clprune_image_bytes_channels_last(test_context(), 1, channels, image,
                part_of(&m, n), clprune_mat_rows(y.mat, n * m.pixels, m.pixels), NULL));
        test_same_floats("y", rows, channels, test_mat_get(&y, "y"), want, "%s", ways[way]);
    }
    destroy(&m);
}

/* Patch embedding forward and backward, every choice of gradients, on top of old ones too. */
static void patch_embed(void **state)
{
    const shape *s = *state;
    const clprune_patch_embed_desc *d = &s->desc;
    clprune_context *context = test_context();
    images m = make(s);
    const size_t rows = s->batch * (d->height / d->patch) * (d->width / d->patch);
    const size_t cols = d->channels * d->patch * d->patch;
    float *numbers[4] = {test_new_normal(13, d->out * cols), test_new_normal(14, d->out),
        test_new_normal(15, rows * d->out), test_new_normal(16, d->out * cols)};
    test_mat w = test_mat_make(d->out, cols, s->gap, numbers[0]);
    test_mat b = test_mat_make(1, d->out, 0, numbers[1]);
    test_mat dy = test_mat_make(rows, d->out, s->gap, numbers[2]);
    test_mat y[2], dw[2], db[2];
    for (int i = 0; i < 2; i++) {
        y[i] = test_mat_make(rows, d->out, s->gap, NULL);
        dw[i] = test_mat_make(d->out, cols, s->gap, NULL);
        db[i] = test_mat_make(1, d->out, 0, NULL);
    }
    TEST_OK(clprune_patch_embed_forward(
        context, d, s->batch, m.planes.mat, w.mat, b.mat, y[0].mat, NULL));
    TEST_EVENT(clprune_patch_embed_forward_bytes(
        context, d, s->batch, m.bytes, w.mat, b.mat, y[1].mat, &event));
    equal("y", &y[1], &y[0]);
    for (int choice = 0; choice < 8; choice++) {
        const float beta = choice & 4 ? 0.5f : 0;
        const clprune_mat none = CLPRUNE_NO_MAT;
        for (int i = 0; i < 2; i++) {
            test_mat_set(&dw[i], beta != 0 ? numbers[3] : NULL);
            test_mat_set(&db[i], beta != 0 ? numbers[1] : NULL);
        }
        TEST_OK(clprune_patch_embed_backward(context, d, s->batch, m.planes.mat, dy.mat, w.mat,
            &(clprune_grads){.dw = choice & 1 ? dw[0].mat : none,
                .db = choice & 2 ? db[0].mat : none,
                .beta = beta},
            NULL));
        TEST_OK(clprune_patch_embed_backward_bytes(context, d, s->batch, m.bytes, dy.mat,
            &(clprune_grads){.dw = choice & 1 ? dw[1].mat : none,
                .db = choice & 2 ? db[1].mat : none,
                .beta = beta},
            NULL));
        equal("dw", &dw[1], &dw[0]);
        equal("db", &db[1], &db[0]);
    }
    TEST_UNCHANGED(&w, &b, &dy);
    destroy(&m);
}

/* Ranges of bytes; test_invalid_many.c has the matrices. */
static void invalid(NO_ROW)
{
    static const shape s = {{2, 4, 6, 2, 5}, 3, 10, 0};
    const clprune_patch_embed_desc *d = &s.desc;
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT,
                         overflow = CLPRUNE_SIZE_OVERFLOW;
    const clprune_extent image = {4, 6};
    const clprune_mat none = CLPRUNE_NO_MAT;
    clprune_context *context = test_context();
    images m = make(&s);
    test_mat last = test_mat_make(72, 2, 0, NULL), y = test_mat_make(18, 5, 0, NULL);
    test_mat w = test_mat_make(5, 8, 0, NULL), b = test_mat_make(1, 5, 0, NULL);
    test_mat big = test_mat_make(100, 100, 0, NULL);
    clprune_image_bytes beyond = m.bytes, around = m.bytes, absent = m.bytes, few = m.bytes,
                        short_levels = m.bytes, upon = m.bytes;
    beyond.offset++;
    around.offset = SIZE_MAX - 143;
    absent.buffer = NULL;
    few.levels.rows--;
    short_levels.levels.cols--;
    upon.buffer = big.mat.buffer; /* its bytes 10 .. 153 */
    upon.offset = big.mat.offset * sizeof(float) + 10;
    const struct {
        clprune_image_bytes images;
        clprune_status status;
        const char *text;
    } rows[] = {{beyond, size, "images needs 155 bytes, its buffer has 154"},
        {around, overflow, "images: offset + size overflows"},
        {absent, bad, "images has no buffer"},
        {few, size, "images.levels is 1 x 256, expected 2 x 256"},
        {short_levels, size, "images.levels is 2 x 255, expected 2 x 256"}};
#define LAST(images, y)                                                                            \
    clprune_image_bytes_channels_last(context, s.batch, d->channels, image, images, y, NULL)
#define FORWARD(images, y)                                                                         \
    clprune_patch_embed_forward_bytes(context, d, s.batch, images, w.mat, b.mat, y, NULL)
#define BACKWARD(images, to_w, to_b)                                                               \
    clprune_patch_embed_backward_bytes(                                                            \
        context, d, s.batch, images, y.mat, &(clprune_grads){.dw = to_w, .db = to_b}, NULL)
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        TEST_FAILS(LAST(rows[i].images, last.mat), rows[i].status, rows[i].text);
        TEST_FAILS(FORWARD(rows[i].images, y.mat), rows[i].status, rows[i].text);
        TEST_FAILS(BACKWARD(rows[i].images, w.mat, none), rows[i].status, rows[i].text);
    }
    /* Windows of one buffer: they meet in one byte, or just do not. */
    clprune_mat at = big.mat;
    at.rows = 1;
    at.cols = at.ld = 5;
    at.offset += 38; /* bytes 152 .. 171 */
    TEST_FAILS(BACKWARD(upon, none, at), bad, "db overlaps images");
    at.offset++;
    test_mat_set(&y, NULL);
    TEST_OK(BACKWARD(upon, none, at));
    TEST_FAILS(
        clprune_image_bytes_channels_last(context, SIZE_MAX / 2, 2, image, m.bytes, last.mat, NULL),
        overflow, "images of");
    destroy(&m);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        test_add(&list, channels_last, s, "channels last, %zu of %zu x %zu x %zu + %zu", s->batch,
            s->desc.channels, s->desc.height, s->desc.width, s->offset);
        test_add(&list, patch_embed, s, "patches of %zu, %zu of %zu x %zu x %zu + %zu",
            s->desc.patch, s->batch, s->desc.channels, s->desc.height, s->desc.width, s->offset);
    }
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("image", &list);
}
