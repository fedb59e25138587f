#include "support/test_compare.h"

/* Formats the parameters and the device into static text. */
static const char *describe(const char *format, va_list arguments)
{
    static char text[1024];
    const int used = vsnprintf(text, sizeof text, format, arguments);
    if (used >= 0 && (size_t)used < sizeof text)
        (void)snprintf(text + used, sizeof text - (size_t)used, "; %s", test_device_label());
    return text;
}

/* The text of a function's last arguments, behind `parameters`. */
#define DESCRIBE(text)                                                                             \
    va_list arguments;                                                                             \
    va_start(arguments, parameters);                                                               \
    const char *text = describe(parameters, arguments);                                            \
    va_end(arguments);

/* The error of an element in units of its bound; infinite for an unexpected NaN or infinity, and
 * where the bound is none. */
static double badness(float got, double want, double bound)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if ((double)got == want) /* also equal infinities */
        return 0;
    const double error = fabs((double)got - want);
    if (!isfinite(error) || !isfinite(bound))
        return INFINITY;
    return error <= bound ? error / bound : error / fmax(bound, 0x1p-149) + 1;
}

void test_close(const char *what, size_t rows, size_t cols, const float *got, const double *want,
    const double *bound, const char *parameters, ...)
{
    size_t worst = 0, bad = 0;
    double most = -1;
    for (size_t i = 0; i < rows * cols; i++) {
        const double off = badness(got[i], want[i], bound[i]);
        bad += off > 1;
        if (off > most) {
            most = off;
            worst = i;
        }
    }
    if (bad == 0)
        return;
    DESCRIBE(text)
    fail_msg("%s: %zu of %zu elements are off; worst (%zu, %zu) of %zu x %zu: got %.9g, expected "
             "%.17g, error %.3g, bound %.3g\n    %s",
        what, bad, rows * cols, worst / cols, worst % cols, rows, cols, (double)got[worst],
        want[worst], fabs((double)got[worst] - want[worst]), bound[worst], text);
}

/* The first differing item of `size` bytes, or `count`. */
static size_t first_difference(size_t count, size_t size, const void *a, const void *b)
{
    const unsigned char *p = a, *q = b;
    if (count == 0 || memcmp(p, q, count * size) == 0)
        return count;
    for (size_t i = 0; i < count; i++)
        if (memcmp(p + i * size, q + i * size, size) != 0)
            return i;
    return count;
}

void test_same_floats(const char *what, size_t rows, size_t cols, const float *got,
    const float *want, const char *parameters, ...)
{
    const size_t i = first_difference(rows * cols, sizeof *got, got, want);
    if (i == rows * cols)
        return;
    uint32_t got_bits, want_bits;
    memcpy(&got_bits, &got[i], sizeof got_bits);
    memcpy(&want_bits, &want[i], sizeof want_bits);
    DESCRIBE(text)
    fail_msg("%s: first difference at (%zu, %zu) of %zu x %zu: got %.9g (0x%08x), expected %.9g "
             "(0x%08x)\n    %s",
        what, i / cols, i % cols, rows, cols, (double)got[i], (unsigned)got_bits, (double)want[i],
        (unsigned)want_bits, text);
}

void test_same_ints(const char *what, size_t count, const int32_t *got, const int32_t *want,
    const char *parameters, ...)
{
    const size_t i = first_difference(count, sizeof *got, got, want);
    if (i == count)
        return;
    DESCRIBE(text)
    fail_msg("%s: first difference at %zu of %zu: got %ld, expected %ld\n    %s", what, i, count,
        (long)got[i], (long)want[i], text);
}

void test_same_bytes(const char *what, size_t count, const unsigned char *got,
    const unsigned char *want, const char *parameters, ...)
{
    const size_t i = first_difference(count, 1, got, want);
    if (i == count)
        return;
    DESCRIBE(text)
    fail_msg("%s: first difference at %zu of %zu: got %u, expected %u\n    %s", what, i, count,
        (unsigned)got[i], (unsigned)want[i], text);
}
