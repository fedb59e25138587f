/* The probe of clprune__amx_probe: c += the pairs a times the pairs b, 32 x 16 sums of 16 pairs, by AMX. `data` has 32 rows of
 * 32 floats of a, 32 rows of 16 of b, and c. The word behind them becomes 1 if the device has the instructions, else 0;
 * then nothing else happens. V is 1. */
#include "device/cpuid.clh"
#include "prelude/pairs.clh"
#if AMX == 2 || (defined(__x86_64__) && defined(__AVX512F__))
#include "amx/amx.clh"

/* AMX-BF16, AMX-TILE, and that the system keeps both of tiles' registers. */
static inline uint has_instructions(void)
{
#if AMX == 2
    return 1;
#else
    if (cpuid(0, 0).x < 7)
        return 0;
    const uint d = cpuid(7, 0).z;
    if ((d >> 22 & d >> 24 & 1) == 0)
        return 0;
    uint low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3;
#endif
}

static inline void multiply(global float *a, local uint *words)
{
    global float *b = a + 32 * 32, *c = b + 32 * 16;
    float16 sum[AMX_ROWS][V];
    for (uint r = 0; r < 32; r++)
        *(local uint16 *)(words + 16 * r) = round32(LOAD16(a + 32 * r), LOAD16(a + 32 * r + 16));
    for (uint k = 0; k < 16; k++)
        *(local uint16 *)(words + 2 * AMX_TILE + 16 * k) =
            round_pairs(LOAD16(b + 32 * k), LOAD16(b + 32 * k + 16));
    amx_begin();
    amx_zero(sum);
    amx_step(sum, words, AMX_TILE, words + 2 * AMX_TILE, 16);
    amx_store(sum);
    amx_end();
    for (uint r = 0; r < 32; r++)
        STORE16(LOAD16(c + 16 * r) + sum[r][0], c + 16 * r);
}
#else
static inline uint has_instructions(void)
{
    return 0;
}

static inline void multiply(global float *a, local uint *words)
{
}
#endif

KERNEL_OF(1) amx_probe(global float *data)
{
    local uint16 words[48];
    const uint found = has_instructions();
    *(global uint *)(data + 32 * 32 + 2 * 32 * 16) = found;
    if (found)
        multiply(data, (local uint *)words);
}
