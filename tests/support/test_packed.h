/* A matrix packed on the device in any form, with a reference of its stored bytes; its products. */
#ifndef CLPRUNE_TEST_PACKED_H
#define CLPRUNE_TEST_PACKED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bsr_ref.h"
#include "ref/bsr_values_ref.h"
#include "support/test_index.h"

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
    s.bsr.values = test_alloc(kept * block * sizeof(float));
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
    packed p = {.x = test_new_normal(seed, d.batch * d.rows * d.cols)};
    if (values != NULL)
        memcpy(p.x, values, d.batch * d.rows * d.cols * sizeof(float));
    p.wide = bsr_ref_make(d.batch, d.rows, d.cols, d.block.rows, d.block.cols, d.keep);
    p.mask = test_random_mask(seed + 1, &p.wide);
    bsr_ref_pack(&p.wide, p.x, p.mask);
    p.ref = stored_make(&p.wide, d.value_type);
    p.mat = test_mat_make(d.batch * d.rows, d.cols, 3, p.x);
    p.mask_buf = test_buf_make(d.batch * p.wide.blocks, p.mask);
    p.bsr = test_bsr_make(d);
    cl_event event = NULL;
    TEST_OK(clprune_bsr_pack(test_context(), p.mat.mat, p.mask_buf.buffer, &p.bsr.bsr, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
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
    void *codes = test_buf_get(&p->bsr.values, "values");
    same_codes(p, codes, name);
    test_same_index(&p->bsr, &p->wide, name);
    if (is_scaled(d.value_type))
        test_same_part(
            &p->bsr.scales, d.batch * d.keep * sizeof(uint16_t), p->ref.scales, "scales", name);
}

/* The sizes of the other operand and of the output of product tn, nt or nn. */
typedef struct sides {
    size_t in_rows, in_cols, out_rows, out_cols;
} sides;

static inline sides sides_of(int product, clprune_bsr_desc d, size_t o)
{
    const sides all[3] = {{d.batch * d.rows, o, o, d.cols}, {d.batch * o, d.cols, o, d.rows},
        {d.cols, o, d.batch * d.rows, o}};
    return all[product];
}

static inline clprune_status multiply(
    int product, float beta, clprune_mat in, const clprune_bsr *xs, clprune_mat out)
{
    clprune_context *context = test_context();
    return product == 0   ? clprune_bspmm_tn(context, 1, beta, in, xs, out, NULL)
           : product == 1 ? clprune_bspmm_nt(context, 1, beta, in, xs, out, NULL)
                          : clprune_bspmm_nn(context, 1, beta, xs, in, out, NULL);
}

/* The results of the products (0 to 2) and of unpacking (3), for a matrix with `outputs`. */
typedef struct results {
    float *of[4];
    size_t count[4];
} results;

static inline results results_of(const clprune_bsr *bsr, size_t outputs)
{
    const clprune_bsr_desc d = bsr->desc;
    results r;
    test_mat y = test_mat_make(d.batch * d.rows, d.cols, 1, NULL);
    TEST_OK(clprune_bsr_unpack(test_context(), bsr, y.mat, NULL));
    r.of[3] = test_mat_get(&y, "y");
    r.count[3] = d.batch * d.rows * d.cols;
    for (int product = 0; product < 3; product++) {
        const sides side = sides_of(product, d, outputs);
        float *in = test_new_normal(53, side.in_rows * side.in_cols);
        test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
        test_mat out = test_mat_make(side.out_rows, side.out_cols, 2, NULL);
        TEST_OK(multiply(product, 0, din.mat, bsr, out.mat));
        r.of[product] = test_mat_get(&out, "output");
        r.count[product] = side.out_rows * side.out_cols;
    }
    return r;
}

/* Fails unless two matrices give the same bits. `what`, `first`: for the message. */
static inline void same_results(
    const clprune_bsr *got, const clprune_bsr *want, size_t outputs, const char *what, size_t first)
{
    results g = results_of(got, outputs), w = results_of(want, outputs);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(g.count[i], w.count[i]);
        test_same_floats("result", 1, w.count[i], g.of[i], w.of[i],
            "%s, result %d, from sample %zu on", what, i, first);
    }
}

/* Collects "v.values=160 v.crow=32 ". */
static inline void collect_booked(void *user, const clprune_memory_entry *entry)
{
    char *text = user;
    const size_t used = strlen(text);
    if (strncmp(entry->name, "v.", 2) == 0)
        (void)snprintf(text + used, 256 - used, "%s=%zu ", entry->name, (size_t)entry->bytes);
}

/* Creates a matrix "v", fails unless its buffers are in the ledger as `want` says, and destroys it.
 * Returns its struct before that. */
static inline clprune_bsr check_booked(clprune_bsr_desc desc, const char *want)
{
    clprune_context *context = test_context();
    clprune_bsr bsr;
    char text[256] = "";
    const uint64_t before = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live;
    TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "v", &desc, &bsr));
    clprune_memory_visit(context, collect_booked, text);
    assert_string_equal(text, want);
    const clprune_bsr made = bsr;
    clprune_bsr_destroy(context, &bsr);
    assert_null(bsr.bitmap);
    assert_null(bsr.scales);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live, before);
    return made;
}

#endif
