/* The layouts of blocks, from the format's definition. d is a scale and m a minimum, both fp16. All
 * products are exact in fp32, so an element has one rounding at most, that of its sum. */
#include "trainer/files/tensors/gguf_blocks.h"

#include "trainer/base/float_bits.h"

static float half_at(const unsigned char *bytes)
{
    return float_of_half((uint32_t)little_endian(bytes, 2));
}

/* ---- plain elements ----------------------------------------------------------------------------
 */

static void decode_f32(const unsigned char *b, float *x)
{
    x[0] = float_of_bits((uint32_t)little_endian(b, 4));
}

static void decode_f16(const unsigned char *b, float *x)
{
    x[0] = half_at(b);
}

static void decode_bf16(const unsigned char *b, float *x)
{
    x[0] = float_of_bits((uint32_t)little_endian(b, 2) << 16);
}

static void decode_f64(const unsigned char *b, float *x)
{
    x[0] = (float)double_of_bits(little_endian(b, 8));
}

/* ---- blocks of 32 ------------------------------------------------------------------------------
 * A code of 4 or 5 bits has its low 4 bits in `low`, 16 bytes: those of element j < 16 are the low
 * half of byte j, those of element j + 16 its high half. Its fifth bit is bit j of `high`. A
 * minimum of -0 changes no sum.
 */

static void decode_nibbles(
    const unsigned char *low, uint32_t high, float d, int zero, float m, float *x)
{
    for (unsigned j = 0; j < 32; ++j) {
        const unsigned nibble = j < 16 ? low[j] & 15u : low[j - 16] >> 4u;
        const int code = (int)(nibble | ((high >> j & 1u) << 4u));
        x[j] = d * (float)(code - zero) + m;
    }
}

/* d; low. x = d (code - 8) */
static void decode_q4_0(const unsigned char *b, float *x)
{
    decode_nibbles(b + 2, 0, half_at(b), 8, -0.0f, x);
}

/* d; m; low. x = d code + m */
static void decode_q4_1(const unsigned char *b, float *x)
{
    decode_nibbles(b + 4, 0, half_at(b), 0, half_at(b + 2), x);
}

/* d; high; low. x = d (code - 16) */
static void decode_q5_0(const unsigned char *b, float *x)
{
    decode_nibbles(b + 6, (uint32_t)little_endian(b + 2, 4), half_at(b), 16, -0.0f, x);
}

/* d; m; high; low. x = d code + m */
static void decode_q5_1(const unsigned char *b, float *x)
{
    decode_nibbles(b + 8, (uint32_t)little_endian(b + 4, 4), half_at(b), 0, half_at(b + 2), x);
}

static int signed_byte(unsigned char byte)
{
    return byte < 128 ? byte : byte - 256;
}

/* d; 32 signed bytes. x = d code */
static void decode_q8_0(const unsigned char *b, float *x)
{
    const float d = half_at(b);
    for (unsigned j = 0; j < 32; ++j)
        x[j] = d * (float)signed_byte(b[2 + j]);
}

/* ---- blocks of 256 -----------------------------------------------------------------------------
 * They have sub-blocks of 16 or 32 elements, whose scales and minima are codes, too.
 * A code of 2 bits of element i is in byte i / 128 * 32 + i % 32, at bit i % 128 / 32 * 2.
 */

static unsigned two_bits(const unsigned char *bytes, unsigned i)
{
    return (unsigned)bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3u;
}

/* 16 bytes, of each sub-block of 16 the scale in the low half, the minimum in the high half; 64
 * bytes of codes; d; m. x = d scale code - m minimum */
static void decode_q2_k(const unsigned char *b, float *x)
{
    const float d = half_at(b + 80), m = half_at(b + 82);
    for (unsigned i = 0; i < 256; ++i) {
        const unsigned pair = b[i / 16];
        x[i] = d * (float)(pair & 15u) * (float)two_bits(b + 16, i) - m * (float)(pair >> 4u);
    }
}

/* The scale of sub-block s of Q3_K: 4 bits in a half of byte s % 8, 2 in byte 8 + s % 4. */
static int scale_q3_k(const unsigned char *scales, unsigned s)
{
    const unsigned low = (unsigned)scales[s % 8] >> (s / 8 * 4) & 15u;
    const unsigned high = (unsigned)scales[8 + s % 4] >> (s / 4 * 2) & 3u;
    return (int)(low | high << 4u) - 32;
}

/* 32 bytes, in which bit i / 32 of byte i % 32 is the third bit of code i; 64 bytes with two bits
 * of each code; 12 bytes of scales; d. x = d scale (code - 4) */
static void decode_q3_k(const unsigned char *b, float *x)
{
    const float d = half_at(b + 108);
    for (unsigned i = 0; i < 256; ++i) {
        const unsigned third = (unsigned)b[i % 32] >> (i / 32) & 1u;
        const int code = (int)(two_bits(b + 32, i) | third << 2u) - 4;
        x[i] = d * (float)scale_q3_k(b + 96, i / 16) * (float)code;
    }
}

/* The 6 bits of scale and minimum of sub-block s of 32, from 12 bytes: 0 to 3 have the low bits of
 * bytes s and s + 4; 4 to 7 have 4 bits in byte s + 4, and two at the top of bytes s - 4 and s. */
static void scale_and_minimum(
    const unsigned char *packed, unsigned s, unsigned *scale, unsigned *minimum)
{
    if (s < 4) {
        *scale = packed[s] & 63u;
        *minimum = packed[s + 4] & 63u;
        return;
    }
    *scale = (packed[s + 4] & 15u) | (unsigned)packed[s - 4] >> 6u << 4u;
    *minimum = (unsigned)packed[s + 4] >> 4u | (unsigned)packed[s] >> 6u << 4u;
}

/* low: 4 bits of each code, those of sub-blocks s and s + 1 (s even) in the halves of 32 bytes.
 * high: bit s of byte i % 32 is the fifth bit; or NULL. */
static void decode_k(
    const unsigned char *b, const unsigned char *high, const unsigned char *low, float *x)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (unsigned s = 0; s < 8; ++s) {
        unsigned scale, minimum;
        scale_and_minimum(b + 4, s, &scale, &minimum);
        const float each = d * (float)scale, least = m * (float)minimum;
        for (unsigned j = 0; j < 32; ++j) {
            unsigned code = (unsigned)low[s / 2 * 32 + j] >> (s % 2 * 4) & 15u;
            if (high != NULL)
                code |= ((unsigned)high[j] >> s & 1u) << 4u;
            x[s * 32 + j] = each * (float)code - least;
        }
    }
}

/* d; m; 12 bytes of scales and minima; low. x = d scale code - m minimum */
static void decode_q4_k(const unsigned char *b, float *x)
{
    decode_k(b, NULL, b + 16, x);
}

/* The same with `high` before low. */
static void decode_q5_k(const unsigned char *b, float *x)
{
    decode_k(b, b + 16, b + 48, x);
}

/* 128 bytes of low bits, 64 of those of each half of the elements, of which the last 64 are in the
 * high halves; 64 bytes with two bits of each code; 16 signed scales; d. x = d scale (code - 32) */
static void decode_q6_k(const unsigned char *b, float *x)
{
    const float d = half_at(b + 208);
    for (unsigned i = 0; i < 256; ++i) {
        const unsigned low = (unsigned)b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15u;
        const int code = (int)(low | two_bits(b + 128, i) << 4u) - 32;
        x[i] = d * (float)signed_byte(b[192 + i / 16]) * (float)code;
    }
}

static const gguf_block blocks[] = {
    {0, "F32", 1, 4, false, decode_f32},
    {1, "F16", 1, 2, false, decode_f16},
    {2, "Q4_0", 32, 18, false, decode_q4_0},
    {3, "Q4_1", 32, 20, false, decode_q4_1},
    {6, "Q5_0", 32, 22, false, decode_q5_0},
    {7, "Q5_1", 32, 24, false, decode_q5_1},
    {8, "Q8_0", 32, 34, false, decode_q8_0},
    {10, "Q2_K", 256, 84, false, decode_q2_k},
    {11, "Q3_K", 256, 110, false, decode_q3_k},
    {12, "Q4_K", 256, 144, false, decode_q4_k},
    {13, "Q5_K", 256, 176, false, decode_q5_k},
    {14, "Q6_K", 256, 210, false, decode_q6_k},
    {24, "I8", 1, 1, true, NULL},
    {25, "I16", 1, 2, true, NULL},
    {26, "I32", 1, 4, true, NULL},
    {27, "I64", 1, 8, true, NULL},
    {28, "F64", 1, 8, false, decode_f64},
    {30, "BF16", 1, 2, false, decode_bf16},
};

const gguf_block *gguf_block_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; ++i)
        if (blocks[i].type == type)
            return &blocks[i];
    return NULL;
}
