/* BSR with fp16, bf16, int8 and int4 values: rounding to the bit, products, parts of a batch. */
#include <float.h>

#include "support/test_packed.h"

static const char *const type_names[] = {"fp32", "fp16", "bf16", "int8", "int4"};

enum { TYPES = 5 };

/* A value type and a shape. */
typedef struct value_row {
    clprune_bsr_desc desc;
    size_t outputs;
    unsigned types; /* of the usual list: a bit for each */
} value_row;

enum {
    FP32 = 1 << CLPRUNE_VALUES_FP32,
    FP16 = 1 << CLPRUNE_VALUES_FP16,
    BF16 = 1 << CLPRUNE_VALUES_BF16,
    INT8 = 1 << CLPRUNE_VALUES_INT8,
    INT4 = 1 << CLPRUNE_VALUES_INT4,
    ALL = FP32 | FP16 | BF16 | INT8 | INT4
};

/* {1, 16} on whole vectors, ragged blocks narrower and wider than a vector, blocks of several rows,
 * single elements, nothing kept, no samples. Every type costs a shape the compilation of its own
 * programs: the full list, labelled slow, has all of them; the usual one has fp32 with {1, 16}, as
 * test_bsr has it with others, and each type with blocks of several rows. */
static const value_row shapes[] = {
    {{3, 20, 96, {1, 16}, 50}, 40, ALL},
    {{4, 9, 41, {1, 4}, 37}, 17, INT8 | INT4},
    {{3, 10, 70, {1, 33}, 15}, 18, FP16 | INT4},
    {{4, 11, 33, {3, 7}, 12}, 21, FP16 | BF16 | INT8 | INT4},
    {{2, 17, 37, {16, 16}, 6}, 9, BF16 | INT8},
    {{2, 5, 13, {1, 1}, 40}, 5, FP16 | INT4},
    {{2, 9, 21, {1, 5}, 0}, 5, ALL},
    {{0, 9, 21, {1, 5}, 3}, 5, ALL},
};

enum { SHAPES = COUNT_OF(shapes) };

static value_row rows[SHAPES * TYPES * TEST_INDEXES];

/* Whether `got`, read back from x, is as near to it as the type promises. */
static bool is_near(clprune_value_type type, float x, float got, float largest)
{
    const double error = fabs((double)got - (double)x), size = fabs((double)x);
    switch (type) {
    case CLPRUNE_VALUES_FP16:
        return error <= fmax(0x1p-11 * size, 0x1p-25);
    case CLPRUNE_VALUES_BF16:
        return error <= 0x1p-8 * size;
    case CLPRUNE_VALUES_INT8:
        return error <= (double)largest / 252;
    case CLPRUNE_VALUES_INT4:
        return error <= (double)largest / 13.8;
    default:
        return got == x;
    }
}

static float largest_of(size_t count, const float *x)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

static void pack_and_unpack(void **state)
{
    const clprune_bsr_desc d = ((const value_row *)*state)->desc;
    packed p = pack(d, 21, NULL);
    const char *name = test_text("%s, %s, blocks %zux%zu", type_names[d.value_type],
        test_index_names[d.index_type], d.block.rows, d.block.cols);
    check_packed(&p, name);
    TEST_OK(clprune_bsr_validate(test_context(), &p.bsr.bsr));
    test_same_floats("unpacked", d.batch * d.rows, d.cols, test_unpacked(&p.bsr.bsr),
        bsr_ref_unpack(&p.ref.bsr), "%s", name);
    const size_t block = d.block.rows * d.block.cols;
    for (size_t i = 0; i < d.batch * d.keep * block; i++) {
        const float largest = largest_of(block, p.wide.values + i / block * block);
        if (!is_near(d.value_type, p.wide.values[i], p.ref.bsr.values[i], largest))
            fail_msg("%s: %.9g is read as %.9g", name, (double)p.wide.values[i],
                (double)p.ref.bsr.values[i]);
    }
    test_mat_unchanged(&p.mat, "x");
}

/* Values of every exponent, halfway between neighbours, at the edges of the types, and specials. */
static float *hard_values(size_t count, bool finite)
{
    static const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 65504.0f, 65519.99f, 65520.0f, 65536.0f,
        -65520.0f, 1e30f, FLT_MAX, -FLT_MAX, 0x1.fep127f, 0x1.ffp127f, 0x1.fefffep127f, 0x1p-14f,
        0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f, 0x1.8p-25f, 0x1.ffcp-15f, 0x1.ffep-15f,
        0x1.fffp-15f, 0x1.002p0f, 0x1.006p0f, 0x1.01p0f, 0x1.03p0f, FLT_MIN, 0x1p-133f, 0x1p-134f,
        0x1.8p-134f, FLT_TRUE_MIN, INFINITY, -INFINITY, NAN};
    float *x = test_floats(count);
    test_rng rng = {77};
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)test_rng_below(&rng, (size_t)1 << 32);
        if (i % 3 == 0) /* exactly between two values of 11, or of 8, bits */
            bits = i % 2 == 0 ? (bits & ~0x1fffu) | 0x1000 : (bits & ~0xffffu) | 0x8000;
        if (i % 5 != 0) /* fp16 has few exponents */
            bits = (bits & 0x80ffffff) | (uint32_t)(100 + i % 45) << 23;
        memcpy(&x[i], &bits, sizeof bits);
        if (i < COUNT_OF(edges))
            x[i] = edges[i];
        if (finite && !isfinite(x[i]))
            x[i] = 1.0f;
    }
    return x;
}

/* A row of a value type only: every bit of the rounding of hard values. {2, 5}: rows of an odd
 * number of halves of a byte. */
static void hard_rounding(void **state)
{
    const clprune_value_type type = ((const value_row *)*state)->desc.value_type;
    static const clprune_block blocks[] = {{1, 16}, {1, 1}, {3, 7}, {2, 5}};
    float *x = hard_values(2 * 30 * 120, false);
    for (size_t i = 0; i < (type == CLPRUNE_VALUES_INT4 ? 4 : 3); i++) {
        clprune_bsr_desc d = {2, 30, 120, blocks[i], 0, type};
        clprune_bsr_sizes sizes;
        TEST_OK(clprune_bsr_size_query(&d, &sizes));
        d.keep = sizes.blocks;
        packed p = pack(d, 31, x);
        check_packed(&p, type_names[type]);
    }
}

static void write_buffer(cl_mem buffer, size_t offset, size_t bytes, const void *from)
{
    TEST_CL(clEnqueueWriteBuffer(clprune_context_queue(test_context()), buffer, CL_TRUE, offset,
        bytes, from, 0, NULL, NULL));
}

/* Every code of a type is read as what it stands for; packing a finite one gives it back. */
static void all_codes(void **state)
{
    const clprune_value_type type = ((const value_row *)*state)->desc.value_type;
    if (type == CLPRUNE_VALUES_FP32)
        return;
    const clprune_bsr_desc d = {1, 64, 1024, {1, 16}, 4096, type};
    const size_t count = 65536;
    uint16_t *codes = test_alloc(count * sizeof *codes);
    float *want = test_floats(count);
    uint16_t *scales = test_alloc(4096 * sizeof *scales);
    const bool scaled = is_scaled(type), int4 = type == CLPRUNE_VALUES_INT4;
    const float_format format = type == CLPRUNE_VALUES_FP16 ? ref_fp16 : ref_bf16;
    for (size_t i = 0; i < count; i++) {
        const float scale = 0x1p-10f * (float)(1 + i / 16 % 256); /* exact in bf16 */
        scales[i / 16] = float_format_encode(ref_bf16, scale);
        codes[i] = (uint16_t)i;
        const int code = int4 ? (int)(i % 15) - 7 : (int)(i % 255) - 127;
        unsigned char *byte = (unsigned char *)codes + (int4 ? i / 2 : i);
        if (int4)
            *byte = (unsigned char)(i % 2 == 0 ? code & 15 : *byte | (code & 15) << 4);
        else if (scaled)
            *byte = (unsigned char)code;
        want[i] = scaled ? scale * (float)code : (float)float_format_decode(format, codes[i]);
    }
    test_bsr bsr = test_bsr_make(d);
    test_mat x = test_mat_make(64, 1024, 0, want);
    TEST_OK(clprune_bsr_pack(test_context(), x.mat, NULL, &bsr.bsr, NULL)); /* crow and col */
    uint16_t *got_codes = test_buf_get(&bsr.values, "values");
    for (size_t i = 0; i < count && !scaled; i++)
        if (got_codes[i] != codes[i] && !isnan(want[i]))
            fail_msg(
                "code 0x%04x, %g, is packed as 0x%04x", codes[i], (double)want[i], got_codes[i]);
    write_buffer(bsr.values.buffer, 0, bsr.values.bytes, codes);
    if (scaled)
        write_buffer(bsr.scales.buffer, 0, 4096 * sizeof *scales, scales);
    float *got = test_unpacked(&bsr.bsr);
    for (size_t i = 0; i < count; i++)
        if (isnan(want[i]) ? !isnan(got[i])
                           : got[i] != want[i] || signbit(got[i]) != signbit(want[i]))
            fail_msg("code 0x%04x is read as %.9g, expected %.9g", codes[i], (double)got[i],
                (double)want[i]);
}

static void products(void **state)
{
    const value_row *row = *state;
    const clprune_bsr_desc d = row->desc;
    packed p = pack(d, 41, NULL);
    float *dense = bsr_ref_unpack(&p.ref.bsr);
    for (int kind = TN; kind < PRODUCTS; kind++) {
        operands o = operands_make((product)kind, sizes_of(d, row->outputs), 43, 1, 2);
        operands_reset(&o, 0.5f);
        TEST_OK(multiply(test_context(), &o, 1, 0.5f, &p.bsr.bsr, NULL));
        (void)operands_check(&o, 1, 0.5f, dense,
            test_text("%s, blocks %zux%zu", type_names[d.value_type], d.block.rows, d.block.cols));
    }
    check_packed(&p, "after the products");
}

/* Packs samples [first, first + count) of what p was made of. */
static void pack_part(const packed *p, size_t first, size_t count, const clprune_bsr *part)
{
    const size_t each = p->wide.rows, blocks = p->wide.blocks;
    test_buf mask = test_buf_make(count * blocks, p->mask + first * blocks);
    TEST_OK(clprune_bsr_pack(test_context(),
        clprune_mat_rows(p->mat.mat, first * each, count * each), mask.buffer, part, NULL));
}

/* Packing sample by sample, in any order, is packing them all; a part is unpacked and multiplied as
 * a matrix of its samples alone. */
static void parts(void **state)
{
    const value_row *row = *state;
    const clprune_bsr_desc d = row->desc;
    packed p = pack(d, 51, NULL);
    test_bsr apart = test_bsr_make(d);
    for (size_t n = d.batch; n-- > 0;) {
        const clprune_bsr one = clprune_bsr_samples(&apart.bsr, n, 1);
        assert_int_equal(one.desc.batch, 1);
        pack_part(&p, n, 1, &one);
    }
    const test_buf *const whole[] = {
        &p.bsr.values, &p.bsr.scales, &p.bsr.crow, &p.bsr.col, &p.bsr.bitmap};
    const test_buf *const made[] = {
        &apart.values, &apart.scales, &apart.crow, &apart.col, &apart.bitmap};
    for (size_t i = 0; i < COUNT_OF(whole); i++)
        test_same_bytes("part by part", whole[i]->bytes, test_buf_get(made[i], "made apart"),
            test_buf_get(whole[i], "whole"), "buffer %zu", i);
    for (size_t first = 0; first <= d.batch; first++) {
        const size_t count = d.batch - first < 2 ? d.batch - first : 2;
        const clprune_bsr part = clprune_bsr_samples(&p.bsr.bsr, first, count);
        clprune_bsr_desc few = d;
        few.batch = count;
        TEST_OK(clprune_bsr_validate(test_context(), &part));
        test_bsr own = test_bsr_make(few);
        pack_part(&p, first, count, &own.bsr);
        same_results(results_of(&part, row->outputs), results_of(&own.bsr, row->outputs),
            test_text("%s, from sample %zu on", type_names[d.value_type], first));
    }
}

static void samples_are_clipped(NO_ROW)
{
    const clprune_bsr bsr = {.desc = {.batch = 5}, .first = 2};
    static const struct {
        size_t first, count, want_first, want_count;
    } cases[] = {{0, 5, 2, 5}, {1, 2, 3, 2}, {4, 9, 6, 1}, {5, 1, 7, 0}, {9, SIZE_MAX, 7, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const clprune_bsr part = clprune_bsr_samples(&bsr, cases[i].first, cases[i].count);
        assert_int_equal(part.first, cases[i].want_first);
        assert_int_equal(part.desc.batch, cases[i].want_count);
    }
    assert_int_equal(clprune_bsr_samples(NULL, 0, 1).desc.batch, 0);
}

/* Bad scales and types; test_invalid_many.c has the other parts. */
static void bad_parts(NO_ROW)
{
    const clprune_bsr_desc d = {2, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_INT8};
    packed p = pack(d, 61, NULL);
    const clprune_mat y = clprune_mat_rows(p.mat.mat, 0, 8);
    test_buf small = test_buf_make(p.bsr.scales.bytes - 2, NULL);
    clprune_bsr bad = p.bsr.bsr;
    bad.scales = NULL;
    unpack_fails(&bad, y, CLPRUNE_INVALID_ARGUMENT, "scales");
    bad.scales = small.buffer;
    TEST_FAILS(clprune_bsr_pack(test_context(), y, p.mask_buf.buffer, &bad, NULL),
        CLPRUNE_INVALID_SIZE, "scales");
    test_buf_unchanged(&small, "small scales");
    bad = p.bsr.bsr;
    bad.first = 1; /* its last sample lies beyond the buffers */
    unpack_fails(&bad, y, CLPRUNE_INVALID_SIZE, "values");
    bad.first = SIZE_MAX;
    unpack_fails(&bad, y, CLPRUNE_SIZE_OVERFLOW, "");
    bad = p.bsr.bsr;
    bad.desc.value_type = (clprune_value_type)-1;
    unpack_fails(&bad, y, CLPRUNE_INVALID_ARGUMENT, "value_type");
    bad.desc = (clprune_bsr_desc){2, 4, 1, {1, 1}, 4, CLPRUNE_VALUES_INT8};
    unpack_fails(
        &bad, clprune_mat_of(p.bsr.scales.buffer, 8, 1), CLPRUNE_INVALID_ARGUMENT, "overlaps");
    test_mat_unchanged(&p.mat, "outputs of refused calls");
}

static void write_scale(const packed *p, size_t at, float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    const uint16_t code = (uint16_t)(bits >> 16);
    write_buffer(p->bsr.scales.buffer, at * sizeof code, sizeof code, &code);
}

static void validator(NO_ROW)
{
    static const float wrong[] = {-1.0f, NAN, INFINITY, 0x1p-127f};
    static const float right[] = {0.0f, 0x1p-126f, 0x1.fep127f};
    const clprune_bsr_desc d = {3, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_INT8};
    packed p = pack(d, 71, NULL);
    const clprune_bsr good = clprune_bsr_samples(&p.bsr.bsr, 0, 2);
    const clprune_bsr last = clprune_bsr_samples(&p.bsr.bsr, 2, 1);
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        write_scale(&p, 29, right[i]);
        test_validates(&p.bsr.bsr, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        write_scale(&p, 29, wrong[i]);
        test_validates(&p.bsr.bsr, "scales[2][5]");
        test_validates(&good, NULL);
        test_validates(&last, "scales[0][5]");
    }
}

/* Scales are rounded up to bf16, and codes are those of the rounded ones: by hand. A block of one
 * element and its neighbours of zero, for each magnitude. */
static void scales_by_hand(NO_ROW)
{
    static const struct {
        float x, scale;
        int q;
    } cases[] = {
        {127.0f, 1.0f, 127},
        {127.5f, 0x1.02p0f, 127}, /* 1.0039 is the scale rounded up, 126.51 the code rounded */
        {127.9921875f, 0x1.02p0f, 127}, /* 127 * 0x1.02p0 */
        {128.0f, 0x1.04p0f, 126},       /* 1.00787 lies above 0x1.02p0 = 1.00781; 126.03 */
        {-254.0f, 0x1p1f, -127},
        {127.0f * 0x1.01p5f, 0x1.02p5f, 127}, /* 126.508 */
        {FLT_MAX, 0x1.04p121f, 126},
        {0x1p-119f, 0x1.04p-126f, 126},
        {0x1.f8p-120f, 0.0f, 0}, /* 126 * 2^-126 */
        {FLT_TRUE_MIN, 0.0f, 0},
        {-0.0f, 0.0f, 0},
    };
    enum { CASES = COUNT_OF(cases) };
    float x[4 * CASES] = {0};
    for (size_t i = 0; i < CASES; i++)
        x[4 * i] = cases[i].x;
    const clprune_bsr_desc d = {1, CASES, 4, {1, 4}, CASES, CLPRUNE_VALUES_INT8};
    packed p = pack(d, 72, x);
    uint16_t *scales = test_buf_get(&p.bsr.scales, "scales");
    int8_t *codes = test_buf_get(&p.bsr.values, "values");
    for (size_t i = 0; i < CASES; i++) {
        const float scale = (float)float_format_decode(ref_bf16, scales[i]);
        const int8_t *code = codes + 4 * i;
        if (scale != cases[i].scale || code[0] != cases[i].q || code[1] != 0 || code[3] != 0)
            fail_msg("%g is %d at scale %a, expected %d at %a", (double)cases[i].x, code[0],
                (double)scale, cases[i].q, (double)cases[i].scale);
    }
}

/* The promised error of int8 holds where it is hardest, and is no wider than it must be: scales
 * just above a bf16 of 1.0 x 2^e, elements halfway between steps. */
static void int8_error_bound(NO_ROW)
{
    enum { BLOCKS = 64, SIZE = 128 };
    float *x = test_floats(BLOCKS * SIZE);
    for (int b = 0; b < BLOCKS; b++) {
        const float low = ldexpf(1 + ldexpf(1, -8 - b % 12), b - 32), step = low * 0x1.02p0f;
        for (int i = 0; i < SIZE; i++)
            x[b * SIZE + i] =
                i == 0 ? 127 * low : (i % 2 ? -1 : 1) * ((float)(i - 1) + 0.499f) * step;
        x[b * SIZE + SIZE - 1] = 0;
    }
    const clprune_bsr_desc d = {1, BLOCKS, SIZE, {1, SIZE}, BLOCKS, CLPRUNE_VALUES_INT8};
    packed p = pack(d, 73, x);
    float *got = test_unpacked(&p.bsr.bsr);
    double worst = 0;
    for (int b = 0; b < BLOCKS; b++) {
        const double largest = (double)largest_of(SIZE, x + b * SIZE);
        for (int i = b * SIZE; i < (b + 1) * SIZE; i++)
            worst = fmax(worst, fabs((double)x[i] - (double)got[i]) / largest);
    }
    if (!(worst <= 1.0 / 252 && worst > 1.0 / 253))
        fail_msg("the worst error is 1/%g of a block's largest magnitude", 1 / worst);
}

/* Finite elements near the largest float stay finite, within the promised error. */
static void largest_floats(NO_ROW)
{
    static const clprune_value_type types[] = {CLPRUNE_VALUES_INT8, CLPRUNE_VALUES_INT4};
    enum { BLOCKS = 400, SIZE = 21 }; /* whole vectors, and what is left */
    float *x = test_floats(BLOCKS * SIZE);
    for (int i = 0; i < BLOCKS * SIZE; i++)
        x[i] = (i % 2 ? -FLT_MAX : FLT_MAX) * (1 - ldexpf((float)(i / SIZE), -11));
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        const clprune_bsr_desc d = {1, BLOCKS, SIZE, {1, SIZE}, BLOCKS, types[t]};
        packed p = pack(d, 74, x);
        float *got = test_unpacked(&p.bsr.bsr);
        for (int i = 0; i < BLOCKS * SIZE; i++)
            if (!isfinite(got[i]) || !is_near(types[t], x[i], got[i], fabsf(x[i])))
                fail_msg(
                    "%s: %a is read as %a", type_names[types[t]], (double)x[i], (double)got[i]);
    }
}

int main(int argc, char **argv)
{
    const bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    test_list list = {0};
    test_add(&list, samples_are_clipped, NULL, "samples are clipped");
    int failed = test_run_on_host("samples", &list);
    for (size_t i = 0; i < SHAPES * TYPES * TEST_INDEXES; i++) {
        const size_t type = i / TEST_INDEXES % TYPES, index = i % TEST_INDEXES;
        rows[i] = shapes[i / (TYPES * TEST_INDEXES)];
        rows[i].desc.value_type = (clprune_value_type)type;
        rows[i].desc.index_type = test_index_types[index];
        if (!full && (rows[i].types >> type & 1) == 0)
            continue;
        const clprune_block block = rows[i].desc.block;
        const char *name = test_text(
            "%s, %s, %zux%zu", type_names[type], test_index_names[index], block.rows, block.cols);
        if (i < TYPES * TEST_INDEXES && index == 0) {
            test_add(&list, hard_rounding, &rows[i], "rounding: %s", type_names[type]);
            test_add(&list, all_codes, &rows[i], "all codes: %s", type_names[type]);
        }
        test_add(&list, pack_and_unpack, &rows[i], "pack: %s", name);
        test_add(&list, products, &rows[i], "products: %s", name);
        test_add(&list, parts, &rows[i], "parts: %s", name);
    }
    test_add(&list, scales_by_hand, NULL, "scales by hand");
    test_add(&list, int8_error_bound, NULL, "error of int8");
    test_add(&list, largest_floats, NULL, "largest floats");
    test_add(&list, bad_parts, NULL, "bad parts");
    test_add(&list, validator, NULL, "validator");
    return failed + test_run_on_devices("bsr values", &list);
}
