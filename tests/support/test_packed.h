/* A matrix packed on the device in any form, with a reference of its stored bytes; its products. */
#ifndef CLPRUNE_TEST_PACKED_H
#define CLPRUNE_TEST_PACKED_H

#include "ref/bsr_values_ref.h"
#include "support/test.h"
#include "support/test_index.h"
#include "support/test_product.h"

/* The expected contents of a packed fp32 matrix: the stored codes, and the values that they are
 * read as. */
typedef struct stored_ref {
    bsr_ref bsr;      /* values: as they are read */
    uint16_t *scales; /* bf16, of int8 and int4 */
    void *codes;      /* for int4 one byte each */
    size_t code_bytes;
} stored_ref;

static inline bool is_scaled(clprune_value_type type)
{
    return type == CLPRUNE_VALUES_INT8 || type == CLPRUNE_VALUES_INT4;
}

static inline stored_ref stored_make(const bsr_ref *wide, clprune_value_type type)
{
    static const size_t bytes[] = {4, 2, 2, 1, 1};
    const int most = type == CLPRUNE_VALUES_INT4 ? 7 : 127;
    const size_t block = wide->br * wide->bc, kept = wide->batch * wide->keep;
    stored_ref s = {.bsr = *wide, .code_bytes = bytes[type]};
    s.codes = test_alloc(kept * block * s.code_bytes);
    s.scales = test_alloc(kept * sizeof *s.scales);
    s.bsr.values = test_floats(kept * block);
    for (size_t i = 0; i < kept; i++)
        s.scales[i] = int_ref_scale(most, block, wide->values + i * block);
    for (size_t i = 0; i < kept * block; i++) {
        const float x = wide->values[i];
        const float scale = (float)float_format_decode(ref_bf16, s.scales[i / block]);
        if (type == CLPRUNE_VALUES_FP32) {
            ((float *)s.codes)[i] = s.bsr.values[i] = x;
        } else if (is_scaled(type)) {
            ((int8_t *)s.codes)[i] = int_ref_encode(scale, x);
            s.bsr.values[i] = scale * (float)((int8_t *)s.codes)[i];
        } else {
            const float_format format = type == CLPRUNE_VALUES_FP16 ? ref_fp16 : ref_bf16;
            ((uint16_t *)s.codes)[i] = float_format_encode(format, x);
            s.bsr.values[i] = (float)float_format_decode(format, ((uint16_t *)s.codes)[i]);
        }
    }
    return s;
}

/* A matrix on the device, packed there, and its reference. */
typedef struct packed {
    float *x;
    unsigned char *mask;
    bsr_ref wide;
    stored_ref ref;
    test_mat mat;
    test_buf mask_buf;
    test_bsr bsr;
} packed;

/* Makes x from `seed`, or takes it from `values`, and packs it on the device under test. */
static inline packed pack(clprune_bsr_desc d, uint64_t seed, const float *values)
{
    const size_t count = d.batch * d.rows * d.cols;
    packed p = {.x = values != NULL ? test_copy(count * sizeof *values, values)
                                    : test_new_normal(seed, count)};
    p.wide = bsr_ref_of(d);
    p.mask = test_random_mask(seed + 1, &p.wide);
    bsr_ref_pack(&p.wide, p.x, p.mask);
    p.ref = stored_make(&p.wide, d.value_type);
    p.mat = test_mat_make(d.batch * d.rows, d.cols, 3, p.x);
    p.mask_buf = test_buf_make(d.batch * p.wide.blocks, p.mask);
    p.bsr = test_bsr_make(d);
    TEST_EVENT(clprune_bsr_pack(test_context(), p.mat.mat, p.mask_buf.buffer, &p.bsr.bsr, &event));
    return p;
}

/* The codes of int4, one byte each; fails unless the padding of blocks is zero. */
static inline int8_t *unpacked_int4(const packed *p, const unsigned char *stored, const char *name)
{
    const size_t block = p->wide.br * p->wide.bc, bytes = (block + 1) / 2;
    const size_t kept = p->wide.batch * p->wide.keep;
    int8_t *codes = test_alloc(kept * block + 1);
    for (size_t i = 0; i < kept; i++) {
        for (size_t e = 0; e < block; e++)
            codes[i * block + e] = (int8_t)int4_ref_code(stored + i * bytes, e);
        if (block % 2 != 0 && stored[i * bytes + bytes - 1] / 16 != 0)
            fail_msg("%s: block %zu is not padded with 0", name, i);
    }
    return codes;
}

/* Fails unless the codes are equal. Codes of int8 and int4 come from a division, which OpenCL
 * allows to be off by 2.5 units: if x is that near to the middle of two codes, either is right. */
static inline void same_codes(const packed *p, const void *got, const char *name)
{
    const bsr_ref *wide = &p->wide;
    const size_t block = wide->br * wide->bc, count = wide->batch * wide->keep * block;
    if (!is_scaled(p->bsr.bsr.desc.value_type)) {
        test_same_bytes("codes", count * p->ref.code_bytes, got, p->ref.codes, "%s", name);
        return;
    }
    int8_t *halves =
        p->bsr.bsr.desc.value_type == CLPRUNE_VALUES_INT4 ? unpacked_int4(p, got, name) : NULL;
    const int8_t *codes = halves != NULL ? halves : got, *want = p->ref.codes;
    for (size_t i = 0; i < count; i++) {
        const double scale = float_format_decode(ref_bf16, p->ref.scales[i / block]);
        const double q = (double)wide->values[i] / scale;
        const bool tie = fabs(fabs(q - rint(q)) - 0.5) < 0x1p-15 && fabs(q - codes[i]) < 0.6;
        if (codes[i] != want[i] && !tie)
            fail_msg("%s: code %zu of %g at scale %g is %d, expected %d", name, i,
                (double)wide->values[i], scale, codes[i], want[i]);
    }
}

static inline void check_packed(const packed *p, const char *name)
{
    const clprune_bsr_desc d = p->bsr.bsr.desc;
    same_codes(p, test_buf_get(&p->bsr.values, "values"), name);
    test_same_index(&p->bsr, &p->wide, name);
    if (is_scaled(d.value_type))
        test_same_part(
            &p->bsr.scales, d.batch * d.keep * sizeof(uint16_t), p->ref.scales, "scales", name);
}

static inline bspmm_ref_sizes sizes_of(clprune_bsr_desc d, size_t outputs)
{
    return (bspmm_ref_sizes){d.batch, d.rows, d.cols, outputs};
}

static inline clprune_status multiply(clprune_context *context, const operands *o, float alpha,
    float beta, const clprune_bsr *xs, cl_event *event)
{
    const clprune_mat in = o->din.mat, out = o->out.mat;
    return o->kind == TN   ? clprune_bspmm_tn(context, alpha, beta, in, xs, out, event)
           : o->kind == NT ? clprune_bspmm_nt(context, alpha, beta, in, xs, out, event)
                           : clprune_bspmm_nn(context, alpha, beta, xs, in, out, event);
}

/* The product by a context; NaN where it is not written. */
static inline float *product_on(clprune_context *context, operands *o, const clprune_bsr *xs)
{
    operands_reset(o, 0);
    TEST_OK(multiply(context, o, 1, 0, xs, NULL));
    TEST_OK(clprune_context_finish(context));
    return test_mat_get(&o->out, product_names[o->kind]);
}

/* The results of the products and of unpacking, for a matrix with `outputs`. */
typedef struct results {
    float *of[PRODUCTS + 1];
    size_t count[PRODUCTS + 1];
} results;

static inline results results_by(clprune_context *context, const clprune_bsr *bsr, size_t outputs)
{
    const clprune_bsr_desc d = bsr->desc;
    results r;
    r.of[PRODUCTS] = test_unpacked(bsr);
    r.count[PRODUCTS] = d.batch * d.rows * d.cols;
    for (int kind = TN; kind < PRODUCTS; kind++) {
        operands o = operands_make((product)kind, sizes_of(d, outputs), 53, 0, 2);
        r.of[kind] = product_on(context, &o, bsr);
        r.count[kind] = o.out_rows * o.out_cols;
    }
    return r;
}

static inline results results_of(const clprune_bsr *bsr, size_t outputs)
{
    return results_by(test_context(), bsr, outputs);
}

/* Fails unless both have the same bits. */
static inline void same_results(results got, results want, const char *name)
{
    for (int i = 0; i <= PRODUCTS; i++) {
        assert_int_equal(got.count[i], want.count[i]);
        test_same_floats(i < PRODUCTS ? product_names[i] : "unpacked", 1, want.count[i], got.of[i],
            want.of[i], "%s", name);
    }
}

static inline void unpack_fails(
    const clprune_bsr *bad, clprune_mat y, clprune_status status, const char *text)
{
    TEST_FAILS(clprune_bsr_unpack(test_context(), bad, y, NULL), status, text);
}

/* Values may begin at any float of their buffer, also where vectors of them would not: the same
 * bits by a context. */
static inline void same_at_any_offset(clprune_context *context, const test_bsr *xs, size_t outputs)
{
    const results want = results_by(context, &xs->bsr, outputs);
    for (size_t bytes = 0; bytes < 16; bytes += sizeof(float)) {
        test_buf values;
        const clprune_bsr moved = test_bsr_moved(xs, bytes, &values);
        same_results(results_by(context, &moved, outputs), want,
            test_text("values from byte %zu on", bytes));
    }
}

#endif
