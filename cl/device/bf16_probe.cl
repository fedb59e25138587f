/* The probe of clprune__bf16_probe: for each vector v of 80 floats in `data`, sum[i] += the pair (a[2 i],
 * a[2 i + 1]) times the pair (b[i], b[16 + i]), by AVX512-BF16. A vector has 32 floats of a, 32 of b and 16
 * sums. The word behind the last vector becomes 1 if the device has the instructions, else 0; then nothing
 * else happens. */
#include "device/cpuid.clh"
#include "prelude/pairs.clh"
#if defined(__x86_64__) && defined(__AVX512F__)

static inline uint has_instructions(void)
{
    return cpuid(0, 0).x >= 7 && cpuid(7, 0).x >= 1 ? cpuid(7, 1).x >> 5 & 1 : 0;
}

static inline void add_vector(global float *a)
{
    const uint16 x = round32(LOAD16(a), LOAD16(a + 16));
    const uint16 y = round_pairs(LOAD16(a + 32), LOAD16(a + 48));
    STORE16(add_pairs(LOAD16(a + 64), x, y), a + 64);
}
#else
static inline uint has_instructions(void)
{
    return 0;
}

static inline void add_vector(global float *a)
{
}
#endif

KERNEL_OF(1) bf16_probe(const uint vectors, global float *data)
{
    const uint found = has_instructions();
    *(global uint *)(data + 80 * vectors) = found;
    for (uint v = 0; found && v < vectors; v++)
        add_vector(data + 80 * v);
}
