/* Windows of gradients as 8-bit codes. */
#include <math.h>
#include <string.h>

#include "support/test_fault.h"
#include "trainer/reduce/reduce_code.h"

enum { COUNT = 1000, GROUPS = 4 };

static float x[COUNT], decoded[COUNT];
static reduce_code codes[GROUPS];

static void fill(float size)
{
    for (size_t i = 0; i < COUNT; i++)
        x[i] = size * ((float)(reduce_key(7, i) >> 40) * 0x1p-24f - 0.3f);
}

static void pass(size_t count, uint64_t key, size_t first)
{
    memset(codes, 0xff, sizeof codes);
    memset(decoded, 0xff, sizeof decoded);
    reduce_encode(x, count, key, first, codes);
    reduce_decode(codes, count, decoded);
}

/* Each group's limits, scale, and the error below a scale. */
static void bounds(NO_ROW)
{
    static const size_t counts[] = {0, 1, 2, 255, 256, 257, 512, COUNT};
    static const float sizes[] = {1, 1e-28f, 3e38f, 1e-12f};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            const size_t count = counts[c];
            fill(sizes[s]);
            pass(count, c, 0);
            assert_true(reduce_code_groups(count) == (count + 255) / 256);
            assert_true(reduce_code_bytes(count) == count + 8 * ((count + 255) / 256));
            for (size_t i = 0; i < count; i++) {
                float low = x[i], high = x[i];
                const size_t first = i / 256 * 256;
                for (size_t j = first; j < count && j < first + 256; j++) {
                    low = fminf(low, x[j]);
                    high = fmaxf(high, x[j]);
                }
                const reduce_code *g = &codes[i / 256];
                assert_true(g->zero == low && g->scale == (high - low) / 255);
                assert_true(fabsf(decoded[i] - x[i]) <= g->scale * 1.0001f);
                assert_true(decoded[i] == g->zero + g->scale * (float)g->codes[i % 256]);
            }
            assert_true(count == COUNT || isnan(decoded[count]));
        }
}

/* The mean of many draws: of each value, and of all their errors together. */
static void unbiased(NO_ROW)
{
    enum { DRAWS = 4000 };
    static double sum[COUNT], squares[COUNT];
    double all = 0;
    fill(1);
    memset(sum, 0, sizeof sum);
    memset(squares, 0, sizeof squares);
    for (size_t d = 0; d < DRAWS; d++) {
        pass(COUNT, reduce_key(11, d), 0);
        for (size_t i = 0; i < COUNT; i++) {
            const double steps = ((double)decoded[i] - (double)x[i]) / (double)codes[i / 256].scale;
            sum[i] += steps;
            squares[i] += steps * steps;
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        const double mean = sum[i] / DRAWS;
        const double deviation = sqrt(fmax(squares[i] / DRAWS, 1.0 / DRAWS) / DRAWS);
        all += mean;
        if (fabs(mean) > 5 * deviation)
            fail_msg("value %zu: off by %g steps, %g deviations", i, mean, mean / deviation);
    }
    /* a step's deviation is at most 1/2 */
    assert_true(fabs(all / COUNT) < 5 * 0.5 / sqrt((double)COUNT * DRAWS));
}

/* Correlations of draws: of a group's neighbours and halves, of groups, of keys. The product of the
 * errors of two independent values, of which all are between two codes, has mean 0. */
static void independent(NO_ROW)
{
    enum { DRAWS = 2000 };
    static const size_t apart[] = {1, 2, 64, 128, 256, 512};
    double sums[COUNT_OF(apart)] = {0}, keys = 0;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = i % 256 == 0 ? 0.0f : i % 256 == 255 ? 255.0f : 100.5f;
    for (size_t d = 0; d < DRAWS; d++) {
        static float before[COUNT];
        memcpy(before, decoded, sizeof before);
        pass(COUNT, d, 0);
        for (size_t i = 1; i < 255; i++) {
            const double e = (double)decoded[i] - 100.5;
            assert_true(fabs(e) == 0.5);
            keys += d > 0 ? 4 * e * ((double)before[i] - 100.5) : 0;
            for (size_t a = 0; a < COUNT_OF(apart); a++)
                if (x[i + apart[a]] == 100.5f)
                    sums[a] += 4 * e * ((double)decoded[i + apart[a]] - 100.5);
        }
    }
    for (size_t a = 0; a < COUNT_OF(apart); a++)
        if (fabs(sums[a]) > 5 * sqrt(254.0 * DRAWS))
            fail_msg("values %zu apart: a sum of %g", apart[a], sums[a]);
    assert_true(fabs(keys) < 5 * sqrt(254.0 * DRAWS));
}

/* Draws follow from key and place alone. */
static void repeated(NO_ROW)
{
    static float first[COUNT];
    fill(1);
    pass(COUNT, 5, 10);
    memcpy(first, decoded, sizeof first);
    reduce_encode(x + 512, COUNT - 512, 5, 12, codes);
    reduce_decode(codes, COUNT - 512, decoded + 512);
    assert_memory_equal(decoded, first, sizeof first);
    pass(COUNT, 6, 10);
    assert_memory_not_equal(decoded, first, 256 * sizeof(float));
    pass(COUNT, 5, 11);
    assert_memory_not_equal(decoded, first, 256 * sizeof(float));
    assert_true(reduce_key(1, 2) != reduce_key(2, 1) && reduce_key(0, 0) != reduce_key(0, 1));
}

static void special(NO_ROW)
{
    static const float equal[] = {0, 0.1f, -3e38f, 1e-45f};
    static const float broken[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t e = 0; e < COUNT_OF(equal); e++) {
        for (size_t i = 0; i < COUNT; i++)
            x[i] = equal[e];
        pass(COUNT, e, 0);
        assert_memory_equal(decoded, x, sizeof x);
    }
    for (size_t e = 0; e < COUNT_OF(broken); e++)
        for (size_t at = 256; at < 512; at += 51) {
            fill(1);
            x[at] = broken[e];
            pass(COUNT, e, 0);
            for (size_t i = 0; i < COUNT; i++)
                assert_true((isnan(decoded[i]) != 0) == (i >= 256 && i < 512));
        }
    fill(1);
    x[0] = 3e38f;
    x[1] = -3e38f;
    pass(COUNT, 0, 0);
    assert_true(isnan(decoded[0]) && isnan(decoded[255]) && !isnan(decoded[256]));
    fill(1e-37f); /* of a scale that counts as 0 */
    pass(COUNT, 0, 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabsf(decoded[i] - x[i]) <= 1e-37f && codes[i / 256].scale == 0);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, bounds, NULL, "groups, and errors below a scale");
    test_add(&list, unbiased, NULL, "the mean of many draws");
    test_add(&list, independent, NULL, "draws are independent");
    test_add(&list, repeated, NULL, "draws of a key and a place");
    test_add(&list, special, NULL, "equal values, NaN, Inf");
    return test_run_on_each_device("reduce_code", &list);
}
