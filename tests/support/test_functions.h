/* The functions that take matrices, as a table: what each of their operands is, and good sizes. */
#ifndef CLPRUNE_TEST_FUNCTIONS_H
#define CLPRUNE_TEST_FUNCTIONS_H

#include "nn/layers/activation_private.h"
#include "nn/norm/batch_norm_private.h"
#include "support/test_objects.h"

enum { BATCH = 2, TOKENS = 4, ROWS = BATCH * TOKENS, COLS = 24, OUT = 8, MOST = 13 };
/* Images of 4 x 6 pixels, kernels of 2 x 2. */
enum { HEIGHT = 4, WIDTH = 6, PIXELS = HEIGHT * WIDTH, CHANNELS = 3, TAPS = 4 };
enum { POOLED = BATCH * HEIGHT / 2 * WIDTH / 2, CONV_ROWS = BATCH * (HEIGHT - 1) * (WIDTH - 1) };

static const clprune_extent image = {HEIGHT, WIDTH};
static const clprune_max_pool_desc pool = {.kernel = {2, 2}};
static const clprune_patch_embed_desc patches = {CHANNELS, HEIGHT, WIDTH, 2, OUT};

/* Samples of COLS in all of ROWS, in blocks of 1 x 4, of which some are kept. */
enum {
    KEPT = 7,
    BLOCKS = TOKENS * COLS / 4,
    CROW = BATCH * (TOKENS + 1),
    MASK = ROWS * COLS / 4 / 4
};

/* Arguments of some functions besides matrices; open_arguments makes good ones. */
static struct arguments {
    clprune_linear *linear, *token;
    clprune_conv2d *conv;
    clprune_saved *saved;
    size_t batch, strides[3];
    clprune_norm norm;
    clprune_bsr bsr; /* its buffers are operands */
    bool no_bsr;
} with;

/* The context of the device, or a dry one. */
static clprune_context *context;
#define CONTEXT context

/* The event of the calls. */
#ifndef EVENT
#define EVENT NULL
#endif

#define CALL(name, expression)                                                                     \
    static clprune_status call_##name(const clprune_mat *m)                                        \
    {                                                                                              \
        return expression;                                                                         \
    }

static const clprune_batch_norm *bn_of(const clprune_mat *m)
{
    static clprune_batch_norm bn;
    bn = (clprune_batch_norm){.mean = m[0], .inv = m[1], .gamma = m[2], .beta = m[3]};
    return &bn;
}

static const clprune_batch_norm_in *in_of(const clprune_mat *m)
{
    static clprune_batch_norm_in in;
    in = (clprune_batch_norm_in){.bn = bn_of(m), .relu = true, .x = m[4], .dy = m[5], .mask = m[6]};
    return &in;
}

static const clprune_grads *grads_of(const clprune_mat *m)
{
    static clprune_grads grads;
    grads = (clprune_grads){.dx = m[0], .dw = m[1], .db = m[2], .beta = 1};
    return &grads;
}

static clprune_token_mix mix_of(const clprune_mat *m)
{
    return (clprune_token_mix){.alpha = m[0], .beta = m[1], .w = m[2], .b = m[3], .ls = m[4]};
}

/* The matrix whose values, crow and col are the buffers of m. */
static const clprune_bsr *bsr_of(const clprune_mat *m)
{
    static clprune_bsr bsr;
    bsr = with.bsr;
    bsr.values = m[0].buffer;
    bsr.crow = m[1].buffer;
    bsr.col = m[2].buffer;
    return with.no_bsr ? NULL : &bsr;
}

static float host[ROWS * COLS];

CALL(mat_write, clprune_mat_write(CONTEXT, m[0], host))
CALL(mat_read, clprune_mat_read(CONTEXT, m[0], host))
CALL(mat_fill, clprune_mat_fill(CONTEXT, 3, m[0], EVENT))
CALL(mat_copy, clprune_mat_copy(CONTEXT, m[0], m[1], EVENT))
CALL(affine, clprune_affine_forward(CONTEXT, m[0], m[1], m[2], m[3], EVENT))
CALL(affine_back, clprune_affine_backward(CONTEXT, 1, 0, m[0], m[1], m[2], m[3],
                      &(clprune_affine){.alpha = m[4], .beta = m[5]}, EVENT))
CALL(affine_add, clprune_affine_backward(CONTEXT, 1, 1, m[0], m[1], m[2], m[3],
                     &(clprune_affine){.alpha = m[4], .beta = m[5]}, EVENT))
CALL(affine_weights, clprune_affine_weights(CONTEXT, m[0], m[1], m[2], EVENT))
CALL(affine_centre, clprune_affine_centre(CONTEXT, m[0], m[1], EVENT))
CALL(affine_product, clprune_affine_backward_product(CONTEXT, 1, m[0],
                         &(clprune_affine){.alpha = m[1], .beta = m[2]}, m[3], m[4], m[5],
                         &(clprune_affine){.alpha = m[6], .beta = m[7]}, EVENT))
CALL(layerscale, clprune_layerscale_forward(CONTEXT, m[0], m[1], m[2], m[3], EVENT))
CALL(layerscale_back,
    clprune_layerscale_backward(CONTEXT, 1, m[0], m[1], m[2], m[3],
        &(clprune_layerscale_grads){.dls = m[4], .db = m[5], .db_tokens = m[6]}, EVENT))
CALL(layerscale_weights, clprune_layerscale_weights(CONTEXT, m[0], m[1], m[2], EVENT))
CALL(layerscale_product,
    clprune_layerscale_backward_product(CONTEXT, 1, m[0], m[1], m[2], m[3], m[4], m[5], EVENT))
CALL(layer_norm, clprune_layer_norm_forward(CONTEXT, 1e-5f, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(layer_norm_apply, clprune_layer_norm_apply(CONTEXT, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(layer_norm_back, clprune_layer_norm_backward(CONTEXT, 1, 0, m[0], m[1], m[2], m[3], m[4],
                          &(clprune_layer_norm){.gamma = m[5], .beta = m[6]}, EVENT))
CALL(layer_norm_add, clprune_layer_norm_backward(CONTEXT, 1, 1, m[0], m[1], m[2], m[3], m[4],
                         &(clprune_layer_norm){.gamma = m[5], .beta = m[6]}, EVENT))
CALL(layer_norm_frozen,
    clprune_layer_norm_backward(CONTEXT, 0, 0, m[0], m[1], m[2], m[3], m[4], NULL, EVENT))
CALL(group_norm,
    clprune_group_norm_forward(CONTEXT, BATCH, 3, 1e-5f, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(group_norm_apply,
    clprune_group_norm_apply(CONTEXT, BATCH, 3, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(group_norm_back, clprune_group_norm_backward(CONTEXT, BATCH, 3, 1, 0, m[0], m[1], m[2], m[3],
                          m[4], &(clprune_group_norm){.gamma = m[5], .beta = m[6]}, EVENT))
CALL(group_norm_add, clprune_group_norm_backward(CONTEXT, BATCH, 3, 1, 1, m[0], m[1], m[2], m[3],
                         m[4], &(clprune_group_norm){.gamma = m[5], .beta = m[6]}, EVENT))
CALL(group_norm_frozen,
    clprune_group_norm_backward(CONTEXT, BATCH, 3, 0, 0, m[0], m[1], m[2], m[3], m[4], NULL, EVENT))
static const clprune_attention_desc attention_desc = {.rows = TOKENS, .heads = 1, .cols = COLS};
CALL(attention,
    clprune_attention_forward(CONTEXT, &attention_desc, BATCH, m[0], m[1], m[2], m[3], EVENT))
CALL(attention_back, clprune_attention_backward(CONTEXT, &attention_desc, BATCH, m[0], m[1], m[2],
                         m[3], m[4], m[5], m[6], EVENT))
CALL(attention_back_bias,
    clprune_attention_backward_bias(CONTEXT,
        (&(clprune_attention_desc){.rows = TOKENS, .heads = 1, .cols = COLS, .bias = m[4]}), BATCH,
        m[0], m[1], m[2], m[3], m[5], EVENT))
CALL(relu, clprune__relu_forward(CONTEXT, CLPRUNE_ACTIVATION_RELU, m[0], m[1], m[2], m[3], EVENT))
CALL(relu_back, clprune__relu_backward(CONTEXT, 1, m[0], m[1], m[2], m[3], EVENT))
CALL(gelu, clprune_gelu_forward(CONTEXT, m[0], m[1], m[2], EVENT))
CALL(gelu_back, clprune_gelu_backward(CONTEXT, 1, m[0], m[1], m[2], m[3], EVENT))
CALL(gelu_again, clprune__gelu_backward(CONTEXT, CLPRUNE_ACTIVATION_GELU, 1, true, m[0], m[1], m[2],
                     m[3], m[4], EVENT))
CALL(gelu_code,
    clprune__gelu_code_forward(CONTEXT, CLPRUNE_ACTIVATION_GELU, 4, m[0], m[1], m[2], m[3], EVENT))
CALL(gelu_code_back, clprune__gelu_code_backward(CONTEXT, 4, 1, m[0], m[1], m[2], m[3], EVENT))
CALL(add, clprune_add(CONTEXT, 2, m[0], -1, m[1], m[2], EVENT))
CALL(dropout, clprune_dropout(CONTEXT, 0.5f, 7, 3, m[0], m[1], EVENT))
CALL(drop_path, clprune_drop_path(CONTEXT, 0.5f, 7, BATCH, 3, m[0], m[1], EVENT))
CALL(dropout_none, clprune_dropout(CONTEXT, 0, 7, 3, m[0], m[1], EVENT))
CALL(rms_norm, clprune_rms_norm_forward(CONTEXT, 1e-5f, m[0], m[1], m[2], m[3], EVENT))
CALL(rms_norm_apply, clprune_rms_norm_apply(CONTEXT, m[0], m[1], m[2], m[3], EVENT))
CALL(rms_norm_back,
    clprune_rms_norm_backward(CONTEXT, 1, 0, m[0], m[1], m[2], m[3], m[4], m[5], EVENT))
CALL(rms_norm_add,
    clprune_rms_norm_backward(CONTEXT, 1, 1, m[0], m[1], m[2], m[3], m[4], m[5], EVENT))
CALL(rotary, clprune_rotary_forward(CONTEXT, BATCH, 2, 8, 6, 1e4f, true, m[0], m[1], EVENT))
CALL(rotary_back, clprune_rotary_backward(CONTEXT, BATCH, 2, 8, 6, 1e4f, true, m[0], m[1], EVENT))
CALL(rotary_by, clprune_rotary_by(CONTEXT, BATCH, 2, 8, true, false, m[1], m[0], m[2], EVENT))
CALL(glu, clprune_glu_forward(CONTEXT, CLPRUNE_ACTIVATION_GELU_TANH, m[0], m[1], EVENT))
CALL(glu_back, clprune_glu_backward(CONTEXT, CLPRUNE_ACTIVATION_GELU_TANH, m[0], m[1], m[2], EVENT))
static const clprune_recurrent_desc lstm = {CLPRUNE_CELL_LSTM, TOKENS, false, {0}};
static const clprune_recurrent_desc gru = {CLPRUNE_CELL_GRU, TOKENS, true, {0}};
CALL(lstm, clprune_recurrent_forward(CONTEXT, &lstm, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(gru_back, clprune_recurrent_backward(CONTEXT, &gru, 1, m[0], m[1], m[2], m[3], m[4], m[5],
                   m[6], m[7], m[8], m[9], EVENT))
#define INTS(i) ((clprune_ints){m[i].buffer, m[i].offset})
CALL(embedding, clprune_embedding_forward(CONTEXT, INTS(0), m[1], m[2], EVENT))
CALL(embedding_back, clprune_embedding_backward(CONTEXT, 1, INTS(0), m[1], m[2], EVENT))
CALL(positions, clprune_positions_forward(CONTEXT, BATCH, m[0], m[1], m[2], EVENT))
CALL(positions_back, clprune_positions_backward(CONTEXT, BATCH, 1, m[0], m[1], EVENT))
CALL(token_loss,
    clprune_token_loss_forward(CONTEXT, BATCH, 0.1f, m[0], INTS(1), m[2], m[3], m[4], m[5], EVENT))
CALL(token_loss_back,
    clprune_token_loss_backward(CONTEXT, 0.1f, 1, m[0], m[1], INTS(2), m[3], EVENT))
CALL(token_head, clprune_token_head(CONTEXT, BATCH, 1, 0.1f, 1, 2, m[0], m[1], m[2], INTS(3), m[4],
                     m[5], m[6], m[7], m[8], EVENT))
CALL(token_mean, clprune_token_mean_forward(CONTEXT, BATCH, TOKENS, m[0], m[1], EVENT))
CALL(gate, clprune_gate_forward(CONTEXT, BATCH, m[0], m[1], m[2], EVENT))
CALL(gate_back, clprune_gate_backward(CONTEXT, BATCH, 0, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(gate_add, clprune_gate_backward(CONTEXT, BATCH, 1, m[0], m[1], m[2], m[3], m[4], EVENT))
CALL(response, clprune_response_forward(CONTEXT, BATCH, 1e-6f, m[0], m[1], EVENT))
CALL(response_back, clprune_response_backward(CONTEXT, BATCH, 1e-6f, 0, m[0], m[1], m[2], EVENT))
CALL(response_add, clprune_response_backward(CONTEXT, BATCH, 1e-6f, 1, m[0], m[1], m[2], EVENT))
CALL(softmax, clprune_softmax_forward(CONTEXT, m[0], m[1], EVENT))
CALL(softmax_back, clprune_softmax_backward(CONTEXT, 0, m[0], m[1], m[2], EVENT))
CALL(softmax_add, clprune_softmax_backward(CONTEXT, 1, m[0], m[1], m[2], EVENT))
CALL(token_mean_back, clprune_token_mean_backward(CONTEXT, BATCH, TOKENS, m[0], m[1], EVENT))
CALL(cross_entropy,
    clprune_cross_entropy_forward(CONTEXT, 0.1f, m[0], INTS(1), m[2], m[3], m[4], EVENT))
CALL(cross_entropy_back,
    clprune_cross_entropy_backward(CONTEXT, 0.1f, 1, m[0], INTS(1), m[2], EVENT))
static const clprune_element_loss some_loss = {CLPRUNE_LOSS_SMOOTH_L1, 0.5f};
CALL(
    element_loss, clprune_element_loss_forward(CONTEXT, &some_loss, BATCH, m[0], m[1], m[2], EVENT))
CALL(element_loss_back,
    clprune_element_loss_backward(CONTEXT, &some_loss, BATCH, 1, m[0], m[1], m[2], EVENT))

CALL(patch, clprune_patch_embed_forward(CONTEXT, &patches, BATCH, m[0], m[1], m[2], m[3], EVENT))
CALL(patch_back, clprune_patch_embed_backward(
                     CONTEXT, &patches, BATCH, m[0], m[1], m[2], grads_of(m + 3), EVENT))
CALL(channels_last_bytes, clprune_image_bytes_channels_last(CONTEXT, BATCH, CHANNELS, image,
                              (clprune_image_bytes){m[0].buffer, 0, m[1]}, m[2], EVENT))
CALL(patch_bytes, clprune_patch_embed_forward_bytes(CONTEXT, &patches, BATCH,
                      (clprune_image_bytes){m[0].buffer, 0, m[1]}, m[2], m[3], m[4], EVENT))
CALL(patch_bytes_back, clprune_patch_embed_backward_bytes(CONTEXT, &patches, BATCH,
                           (clprune_image_bytes){m[0].buffer, 0, m[1]}, m[2],
                           &(clprune_grads){.dw = m[3], .db = m[4], .beta = 1}, EVENT))
CALL(max_pool, clprune_max_pool_forward(CONTEXT, &pool, BATCH, image, m[0], m[1], m[2], EVENT))
CALL(
    max_pool_back, clprune_max_pool_backward(CONTEXT, &pool, BATCH, image, m[0], m[1], m[2], EVENT))
CALL(permute, clprune_permute(
                  CONTEXT, (&(clprune_permute_desc){2, {TOKENS, COLS}, {1, 0}}), m[0], m[1], EVENT))
CALL(upsample,
    clprune_upsample_forward(CONTEXT, (clprune_extent){2, 1}, BATCH, image, m[0], m[1], EVENT))
CALL(upsample_back,
    clprune_upsample_backward(CONTEXT, (clprune_extent){2, 1}, BATCH, image, m[0], m[1], EVENT))
CALL(conv,
    clprune_conv2d_forward(with.conv, with.batch, image, m[0], m[1], m[2], m[3], with.saved, EVENT))
CALL(conv_back, clprune_conv2d_backward(
                    with.conv, with.batch, image, with.saved, m[0], m[1], grads_of(m + 2), EVENT))
CALL(moments, clprune_batch_norm_moments(CONTEXT, 0, m[0], m[1], m[2], EVENT))
CALL(merge, clprune__batch_norm_merge(CONTEXT, 0, 7, 2, m[0], m[1], m[2], EVENT))
CALL(statistics,
    clprune_batch_norm_statistics(CONTEXT, 9, 1e-5f, m[0], m[1], m[2],
        &(clprune_batch_norm_running){.momentum = 0.1f, .mean = m[3], .var = m[4]}, EVENT))
CALL(inverse, clprune_batch_norm_inverse(CONTEXT, 1e-5f, m[0], m[1], EVENT))
CALL(bn_product, clprune_batch_norm_backward_product(CONTEXT, ROWS, 1,
                     &(clprune_batch_norm){.mean = m[0], .inv = m[1], .gamma = m[2]},
                     &(clprune_batch_norm_products){
                         .w = m[3], .patch_sum = m[4], .x_product = m[5], .dz_sum = m[6]},
                     m[7], m[8], EVENT))
CALL(restore, clprune_saved_restore(with.saved, 0, with.batch, m[0], EVENT))
CALL(store, clprune_saved_store(with.saved, 0, with.batch, m[0], EVENT))
CALL(tn, clprune_saved_product_tn(with.saved, 0, with.batch, 0, m[0], m[1], EVENT))
CALL(nt, clprune_saved_product_nt(with.saved, 0, with.batch, 0, m[0], m[1], EVENT))
CALL(activation, clprune_activation_forward(CONTEXT, CLPRUNE_ACTIVATION_GELU, 0, with.batch, m[0],
                     m[1], m[2], with.saved, EVENT))
CALL(activation_back,
    clprune_activation_backward(CONTEXT, CLPRUNE_ACTIVATION_GELU, 0, with.batch, with.saved, m[0],
        &(clprune_grads){.dx = m[1], .db = m[2], .beta = 1}, EVENT))
CALL(activation_again,
    clprune_activation_backward_recompute(CONTEXT, CLPRUNE_ACTIVATION_GELU, 0, with.batch,
        with.saved, m[0], m[1], &(clprune_grads){.dx = m[2], .db = m[3], .beta = 1}, EVENT))
CALL(linear,
    clprune_linear_forward(with.linear, with.batch, m[0], m[1], m[2], m[3], with.saved, EVENT))
CALL(linear_back, clprune_linear_backward(
                      with.linear, with.batch, with.saved, m[0], m[1], grads_of(m + 2), EVENT))
CALL(rows_back,
    clprune_linear_backward(with.token, with.batch, with.saved, m[0], m[1], grads_of(m + 2), EVENT))

CALL(
    rows, clprune_linear_forward(with.token, with.batch, m[0], m[1], m[2], m[3], with.saved, EVENT))
CALL(gemm, clprune_gemm(CONTEXT, false, true, 1, 1, m[0], m[1], m[2], EVENT))

CALL(gemm_batched, clprune_gemm_batched(CONTEXT, with.batch, false, true, 1, 1, m[0],
                       with.strides[0], m[1], with.strides[1], m[2], with.strides[2], EVENT))

/* Without a mask all blocks must be kept: it is refused with the same status for another reason. */
CALL(pack, clprune_bsr_pack(CONTEXT, m[0], m[4].buffer, bsr_of(m + 1), EVENT))
CALL(unpack, clprune_bsr_unpack(CONTEXT, bsr_of(m + 1), m[0], EVENT))
CALL(validate, clprune_bsr_validate(CONTEXT, bsr_of(m)))
CALL(prune,
    clprune_prune(CONTEXT, with.norm, CLPRUNE_CRITERION_SAMPLED, 1, m[0], bsr_of(m + 1), EVENT))
CALL(prune_largest,
    clprune_prune(CONTEXT, with.norm, CLPRUNE_CRITERION_LARGEST, 0, m[0], bsr_of(m + 1), EVENT))
CALL(bspmm_tn, clprune_bspmm_tn(CONTEXT, 1, 1, m[0], bsr_of(m + 1), m[4], EVENT))
CALL(bspmm_nt, clprune_bspmm_nt(CONTEXT, 1, 1, m[0], bsr_of(m + 1), m[4], EVENT))
CALL(bspmm_nn, clprune_bspmm_nn(CONTEXT, 1, 1, bsr_of(m + 1), m[0], m[4], EVENT))
CALL(max_pool_norm,
    clprune_max_pool_norm_forward(CONTEXT, &pool, bn_of(m), BATCH, image, m[4], m[5], m[6], EVENT))
CALL(batch_norm, clprune_batch_norm_forward(CONTEXT, bn_of(m), true, m[4], m[5], m[6], m[7], EVENT))
CALL(gated, clprune_batch_norm_forward_gated(CONTEXT, bn_of(m), m[4], m[5], m[6], m[7], EVENT))
CALL(bn_sums,
    clprune_batch_norm_backward_sums(CONTEXT, 1, 1, in_of(m), m[7], m[8], m[9], m[10], EVENT))
CALL(bn_input, clprune_batch_norm_backward_input(CONTEXT, SIZE_MAX, in_of(m), m[7], m[8], EVENT))

static clprune_status call_token_mix(const clprune_mat *m)
{
    const clprune_token_mix params = mix_of(m + 1), grads = mix_of(m + 8);
    return clprune_token_mix_backward(CONTEXT, BATCH, 1, m[0], &params, m[6], m[7], &grads, EVENT);
}

static clprune_status call_optimizer(const clprune_mat *m)
{
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f};
    const clprune_param params[2] = {
        {.name = "a", .value = m[0], .grad = m[1]}, {.name = "b", .value = m[2], .grad = m[3]}};
    clprune_optimizer *optimizer = (clprune_optimizer *)&with;
    const clprune_status status = clprune_optimizer_create(CONTEXT, &desc, 2, params, &optimizer);
    assert_true((status == CLPRUNE_SUCCESS) == (optimizer != NULL));
    clprune_optimizer_destroy(optimizer);
    return status;
}

static clprune_status call_clip(const clprune_mat *m)
{
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_SGD};
    const clprune_param param = {.name = "a", .value = m[0], .grad = m[1]};
    clprune_optimizer *optimizer = NULL;
    clprune_status status = clprune_optimizer_create(CONTEXT, &desc, 1, &param, &optimizer);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_optimizer_clip(optimizer, 1, m[2], EVENT);
    clprune_optimizer_destroy(optimizer);
    return status;
}

/* A matrix argument. FREE: no other argument says how many rows or columns it has, so fewer are
 * legal, or another argument is blamed. BUFFER: only its buffer is passed. APART: not on the store
 * either. RENAMED: messages about overlaps call it otherwise. SAMPLES: one of BATCH in a buffer. */
enum {
    OUTPUT = 1,
    OPTIONAL = 2,
    FREE_ROWS = 4,
    FREE_COLS = 8,
    FREE = 12,
    BUFFER = 16,
    APART = 32,
    RENAMED = 64,
    SAMPLES = 128
};

typedef struct operand {
    const char *name;
    size_t rows, cols;
    unsigned flags;
    unsigned may_be; /* bit i: it may alias operand i */
} operand;

/* Stores, in the form's own way. */
typedef struct store_kind {
    clprune_form form;
    size_t rows, cols;
} store_kind;

static const store_kind dense = {CLPRUNE_FORM_DENSE, TOKENS, COLS},
                        pruned = {CLPRUNE_FORM_PRUNED, TOKENS, COLS},
                        mean = {CLPRUNE_FORM_MEAN, TOKENS, COLS},
                        quantised = {CLPRUNE_FORM_QUANTISED, TOKENS, COLS},
                        mask = {CLPRUNE_FORM_MASK, TOKENS, COLS},
                        codes = {CLPRUNE_FORM_GELU_CODE, TOKENS, COLS},
                        pixels = {CLPRUNE_FORM_DENSE, PIXELS, CHANNELS};

typedef struct function {
    const char *name;
    clprune_status (*call)(const clprune_mat *m);
    operand mats[MOST];
    const store_kind *store; /* the store that it uses, if any: with.saved */
} function;

/* What follows an operand's name. */
#define VECTOR         1, COLS
#define OUT_VECTOR     1, COLS, OUTPUT
#define WHOLE          ROWS, COLS
#define RESULT(may_be) ROWS, COLS, OUTPUT, may_be

enum { WORDS = (COLS + 31) / 32 };
#define BN                                                                                         \
    {"mean", VECTOR}, {"inv", VECTOR}, {"gamma", VECTOR},                                          \
    {                                                                                              \
        "beta", VECTOR                                                                             \
    }

/* Images of bytes: four bytes per element of the matrix. */
#define BYTES                                                                                      \
    {"images", 1, BATCH * CHANNELS * PIXELS / 4, BUFFER},                                          \
    {                                                                                              \
        "images.levels", CHANNELS, 256                                                             \
    }

#define BSR(flags)                                                                                 \
    {"values", 1, KEPT * BATCH * 4, BUFFER | (flags)}, {"crow", 1, CROW, BUFFER | (flags)},        \
    {                                                                                              \
        "col", 1, KEPT *BATCH, BUFFER | (flags)                                                    \
    }

/* Operands of products with a kept x, and of layers, over features and over rows. */
#define TN                                                                                         \
    {                                                                                              \
        {"dy", ROWS, OUT, FREE_COLS},                                                              \
        {                                                                                          \
            "dw", OUT, COLS, OUTPUT | FREE_ROWS | APART                                            \
        }                                                                                          \
    }
#define NT                                                                                         \
    {                                                                                              \
        {"dy", BATCH * OUT, COLS},                                                                 \
        {                                                                                          \
            "dw", OUT, TOKENS, OUTPUT | FREE_ROWS | APART                                          \
        }                                                                                          \
    }
#define FEATURES                                                                                   \
    {                                                                                              \
        {"x", ROWS, COLS, FREE_ROWS}, {"w", OUT, COLS}, {"b", 1, OUT, OPTIONAL},                   \
        {                                                                                          \
            "y", ROWS, OUT, OUTPUT | APART                                                         \
        }                                                                                          \
    }
#define FEATURES_BACK                                                                              \
    {                                                                                              \
        {"dy", ROWS, OUT, FREE_ROWS}, {"w", OUT, COLS},                                            \
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL | APART},                                         \
            {"dw", OUT, COLS, OUTPUT | OPTIONAL | APART},                                          \
        {                                                                                          \
            "db", 1, OUT, OUTPUT | OPTIONAL | APART                                                \
        }                                                                                          \
    }
#define TOKEN_ROWS                                                                                 \
    {                                                                                              \
        {"x", ROWS, COLS, FREE_COLS}, {"w", OUT, TOKENS}, {"b", 1, OUT, OPTIONAL},                 \
        {                                                                                          \
            "y", BATCH *OUT, COLS, OUTPUT | APART                                                  \
        }                                                                                          \
    }
#define TOKEN_ROWS_BACK                                                                            \
    {                                                                                              \
        {"dy", BATCH * OUT, COLS, FREE_COLS}, {"w", OUT, TOKENS},                                  \
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL | APART},                                         \
            {"dw", OUT, TOKENS, OUTPUT | OPTIONAL | APART},                                        \
        {                                                                                          \
            "db", 1, OUT, OUTPUT | OPTIONAL | APART                                                \
        }                                                                                          \
    }

static const function functions[] = {
    {"mat_write", call_mat_write, {{"mat", ROWS, COLS, OUTPUT | OPTIONAL | FREE}}},
    {"mat_read", call_mat_read, {{"mat", ROWS, COLS, OPTIONAL | FREE}}},
    {"mat_fill", call_mat_fill, {{"mat", ROWS, COLS, OUTPUT | OPTIONAL | FREE}}},
    {"mat_copy", call_mat_copy, {{"from", ROWS, COLS, FREE}, {"to", RESULT(0)}}},
    {"affine_forward", call_affine,
        {{"x", ROWS, COLS, FREE}, {"alpha", VECTOR}, {"beta", VECTOR}, {"y", RESULT(1)}}},
    {"affine_backward", call_affine_back,
        {{"x", ROWS, COLS, FREE}, {"alpha", VECTOR}, {"dy", WHOLE}, {"dx", RESULT(1 << 2)},
            {"dalpha", OUT_VECTOR}, {"dbeta", OUT_VECTOR}}},
    {"affine_backward, added", call_affine_add,
        {{"x", ROWS, COLS, FREE}, {"alpha", VECTOR}, {"dy", WHOLE}, {"dx", RESULT(0)},
            {"dalpha", OUT_VECTOR}, {"dbeta", OUT_VECTOR}}},
    {"affine_weights", call_affine_weights,
        {{"alpha", VECTOR}, {"w", OUT, COLS, FREE}, {"scaled", OUT, COLS, OUTPUT, 1 << 1}}},
    {"affine_centre", call_affine_centre, {{"centre", VECTOR}, {"x", ROWS, COLS, OUTPUT | FREE}}},
    {"affine_backward_product", call_affine_product,
        {{"w", OUT, COLS, FREE}, {"alpha", VECTOR}, {"beta", VECTOR}, {"centre", VECTOR},
            {"sums", 1, OUT}, {"dw", OUT, COLS, OUTPUT}, {"dalpha", OUT_VECTOR},
            {"dbeta", OUT_VECTOR}}},
    {"layerscale_forward", call_layerscale,
        {{"x", ROWS, COLS, FREE}, {"t", WHOLE}, {"ls", VECTOR}, {"y", RESULT(3)}}},
    {"layerscale_backward", call_layerscale_back,
        {{"t", ROWS, COLS, FREE}, {"ls", VECTOR}, {"dy", WHOLE}, {"dt", RESULT(1)},
            {"dls", OUT_VECTOR}, {"db", 1, COLS, OUTPUT | OPTIONAL},
            {"db_tokens", 1, TOKENS, OUTPUT | OPTIONAL | FREE_COLS}}},
    {"layerscale_weights", call_layerscale_weights,
        {{"ls", 1, OUT}, {"w", OUT, COLS, FREE}, {"scaled", OUT, COLS, OUTPUT, 1 << 1}}},
    {"layerscale_backward_product", call_layerscale_product,
        {{"w", OUT, COLS, FREE}, {"b", 1, OUT}, {"ls", 1, OUT}, {"dls", 1, OUT, OUTPUT},
            {"dw", OUT, COLS, OUTPUT}, {"db", 1, OUT, OUTPUT}}},
    {"layer_norm_forward", call_layer_norm,
        {{"x", ROWS, COLS, FREE}, {"gamma", VECTOR}, {"beta", VECTOR}, {"y", RESULT(1)},
            {"stats", ROWS, 2, OUTPUT | OPTIONAL}}},
    {"layer_norm_apply", call_layer_norm_apply,
        {{"x", ROWS, COLS, FREE}, {"stats", ROWS, 2}, {"gamma", VECTOR}, {"beta", VECTOR},
            {"y", RESULT(1)}}},
    {"layer_norm_backward", call_layer_norm_back,
        {{"x", ROWS, COLS, FREE}, {"stats", ROWS, 2}, {"gamma", VECTOR}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 3}, {"dgamma", OUT_VECTOR},
            {"dbeta", OUT_VECTOR}}},
    {"layer_norm_backward, added", call_layer_norm_add,
        {{"x", ROWS, COLS, FREE}, {"stats", ROWS, 2}, {"gamma", VECTOR}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL}, {"dgamma", OUT_VECTOR}, {"dbeta", OUT_VECTOR}}},
    {"layer_norm_backward, frozen", call_layer_norm_frozen,
        {{"x", ROWS, COLS, FREE}, {"stats", ROWS, 2}, {"gamma", 1, COLS, OPTIONAL}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 3}}},
    {"group_norm_forward", call_group_norm,
        {{"x", ROWS, COLS, FREE}, {"gamma", VECTOR}, {"beta", VECTOR}, {"y", RESULT(1)},
            {"stats", BATCH, 6, OUTPUT | OPTIONAL}}},
    {"group_norm_apply", call_group_norm_apply,
        {{"x", ROWS, COLS, FREE}, {"stats", BATCH, 6}, {"gamma", VECTOR}, {"beta", VECTOR},
            {"y", RESULT(1)}}},
    {"group_norm_backward", call_group_norm_back,
        {{"x", ROWS, COLS, FREE}, {"stats", BATCH, 6}, {"gamma", VECTOR}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 3}, {"dgamma", OUT_VECTOR},
            {"dbeta", OUT_VECTOR}}},
    {"group_norm_backward, added", call_group_norm_add,
        {{"x", ROWS, COLS, FREE}, {"stats", BATCH, 6}, {"gamma", VECTOR}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL}, {"dgamma", OUT_VECTOR}, {"dbeta", OUT_VECTOR}}},
    {"group_norm_backward, frozen", call_group_norm_frozen,
        {{"x", ROWS, COLS, FREE}, {"stats", BATCH, 6}, {"gamma", 1, COLS, OPTIONAL}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 3}}},
    {"attention_forward", call_attention,
        {{"q", WHOLE}, {"k", WHOLE}, {"v", WHOLE}, {"y", RESULT(0)}}},
    {"attention_backward", call_attention_back,
        {{"q", WHOLE}, {"k", WHOLE}, {"v", WHOLE}, {"dy", WHOLE}, {"dq", RESULT(0)},
            {"dk", RESULT(0)}, {"dv", RESULT(0)}}},
    {"attention_backward_bias", call_attention_back_bias,
        {{"q", WHOLE}, {"k", WHOLE}, {"v", WHOLE}, {"dy", WHOLE}, {"bias", TOKENS, TOKENS},
            {"dbias", TOKENS, TOKENS, OUTPUT}}},
    {"relu_forward", call_relu,
        {{"x", ROWS, COLS, FREE}, {"b", 1, COLS, OPTIONAL}, {"y", RESULT(1)},
            {"mask", ROWS, WORDS, OUTPUT | OPTIONAL}}},
    {"relu_backward", call_relu_back,
        {{"dy", ROWS, COLS, FREE}, {"mask", ROWS, WORDS}, {"dx", RESULT(1)},
            {"db", 1, COLS, OUTPUT | OPTIONAL}}},
    {"gelu_forward", call_gelu,
        {{"h", ROWS, COLS, OUTPUT | FREE}, {"b", 1, COLS, OPTIONAL}, {"g", RESULT(1)}}},
    {"gelu_backward", call_gelu_back,
        {{"h", ROWS, COLS, FREE}, {"dg", WHOLE}, {"dh", RESULT(3)},
            {"db", 1, COLS, OUTPUT | OPTIONAL}}},
    {"gelu_backward_recompute", call_gelu_again,
        {{"h", ROWS, COLS, FREE}, {"dg", WHOLE}, {"g", RESULT(1)}, {"dh", RESULT(2)},
            {"db", 1, COLS, OUTPUT | OPTIONAL}}},
    {"gelu_code_forward", call_gelu_code,
        {{"h", ROWS, COLS, OUTPUT | FREE}, {"b", 1, COLS, OPTIONAL}, {"g", RESULT(1)},
            {"codes", ROWS, COLS / 8, OUTPUT}}},
    {"gelu_code_backward", call_gelu_code_back,
        {{"dg", ROWS, COLS, FREE}, {"codes", ROWS, COLS / 8}, {"dh", RESULT(1)},
            {"db", 1, COLS, OUTPUT | OPTIONAL}}},
    {"add", call_add, {{"a", ROWS, COLS, FREE}, {"b", ROWS, COLS, OPTIONAL}, {"y", RESULT(3)}}},
    {"dropout", call_dropout, {{"x", ROWS, COLS, FREE}, {"y", RESULT(1)}}},
    {"drop_path", call_drop_path, {{"x", ROWS, COLS, FREE}, {"y", RESULT(1)}}},
    {"dropout, rate 0", call_dropout_none, {{"x", ROWS, COLS, FREE}, {"y", RESULT(1)}}},
    {"rms_norm_forward", call_rms_norm,
        {{"x", ROWS, COLS, FREE}, {"gamma", 1, COLS, OPTIONAL}, {"y", RESULT(1)},
            {"inv", ROWS, 1, OUTPUT | OPTIONAL}}},
    {"rms_norm_apply", call_rms_norm_apply,
        {{"x", ROWS, COLS, FREE}, {"inv", ROWS, 1}, {"gamma", 1, COLS, OPTIONAL},
            {"y", RESULT(1)}}},
    {"rms_norm_backward", call_rms_norm_back,
        {{"x", ROWS, COLS, FREE}, {"inv", ROWS, 1}, {"gamma", 1, COLS, OPTIONAL}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 3}, {"dgamma", 1, COLS, OUTPUT | OPTIONAL}}},
    {"rms_norm_backward, added", call_rms_norm_add,
        {{"x", ROWS, COLS, FREE}, {"inv", ROWS, 1}, {"gamma", 1, COLS, OPTIONAL}, {"dy", WHOLE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL}, {"dgamma", 1, COLS, OUTPUT | OPTIONAL}}},
    {"rotary_forward", call_rotary, {{"x", ROWS, COLS, FREE}, {"y", RESULT(1)}}},
    {"rotary_backward", call_rotary_back, {{"dy", ROWS, COLS, FREE}, {"dx", RESULT(1)}}},
    {"rotary_by", call_rotary_by,
        {{"x", ROWS, COLS, FREE}, {"table", TOKENS, 6}, {"y", RESULT(1)}}},
    {"glu_forward", call_glu, {{"x", ROWS, COLS}, {"y", ROWS, COLS / 2, OUTPUT | FREE}}},
    {"glu_backward", call_glu_back,
        {{"x", ROWS, COLS}, {"dy", ROWS, COLS / 2, FREE}, {"dx", RESULT(1)}}},
    {"recurrent_forward", call_lstm,
        {{"z", ROWS, 4 * OUT, FREE_ROWS}, {"w", 4 * OUT, OUT, FREE_COLS},
            {"b", 1, 4 * OUT, OPTIONAL}, {"states0", BATCH, 2 * OUT, OPTIONAL},
            {"y", ROWS, 2 * OUT, OUTPUT}}},
    {"recurrent_backward", call_gru_back,
        {{"z", ROWS, 3 * OUT, FREE_ROWS}, {"w", 3 * OUT, OUT, FREE_COLS},
            {"b", 1, 3 * OUT, OPTIONAL}, {"states0", BATCH, OUT, OPTIONAL}, {"y", ROWS, OUT},
            {"dy", ROWS, OUT}, {"dz", ROWS, 3 * OUT, OUTPUT},
            {"dw", 3 * OUT, OUT, OUTPUT | OPTIONAL}, {"db", 1, 3 * OUT, OUTPUT | OPTIONAL},
            {"dstates0", BATCH, OUT, OUTPUT | OPTIONAL}}},
    {"embedding_forward", call_embedding,
        {{"tokens", 1, ROWS, BUFFER}, {"weight", OUT, COLS, FREE},
            {"y", ROWS, COLS, OUTPUT | FREE_ROWS}}},
    {"embedding_backward", call_embedding_back,
        {{"tokens", 1, ROWS, BUFFER}, {"dy", ROWS, COLS, FREE_ROWS},
            {"dweight", OUT, COLS, OUTPUT | FREE}}},
    {"positions_forward", call_positions,
        {{"x", ROWS, COLS, OPTIONAL}, {"p", TOKENS, COLS, FREE}, {"y", RESULT(1)}}},
    {"positions_backward", call_positions_back,
        {{"dy", WHOLE}, {"dp", TOKENS, COLS, OUTPUT | FREE}}},
    {"token_loss_forward", call_token_loss,
        {{"logits", ROWS, COLS, FREE}, {"labels", 1, ROWS, BUFFER}, {"log_p", RESULT(1)},
            {"weight", 1, 1, OUTPUT}, {"loss", BATCH, 1, OUTPUT},
            {"hit", BATCH, 1, OUTPUT | OPTIONAL}}},
    {"token_loss_backward", call_token_loss_back,
        {{"weight", 1, 1}, {"log_p", ROWS, COLS, FREE}, {"labels", 1, ROWS, BUFFER},
            {"dlogits", RESULT(1 << 1)}}},
    {"token_head", call_token_head,
        {{"x", ROWS, OUT, FREE}, {"w", COLS, OUT, FREE_ROWS}, {"b", 1, COLS, OPTIONAL},
            {"labels", 1, ROWS, BUFFER}, {"loss", BATCH, 1, OUTPUT},
            {"hit", BATCH, 1, OUTPUT | OPTIONAL}, {"dx", ROWS, OUT, OUTPUT | OPTIONAL, 1},
            {"dw", COLS, OUT, OUTPUT | OPTIONAL}, {"db", 1, COLS, OUTPUT | OPTIONAL}}},
    {"gate_forward", call_gate, {{"x", ROWS, COLS, FREE}, {"g", BATCH, COLS}, {"y", RESULT(1)}}},
    {"gate_backward", call_gate_back,
        {{"x", WHOLE}, {"g", BATCH, COLS}, {"dy", ROWS, COLS, FREE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 2}, {"dg", BATCH, COLS, OUTPUT | OPTIONAL}}},
    {"gate_backward, added", call_gate_add,
        {{"x", WHOLE}, {"g", BATCH, COLS}, {"dy", ROWS, COLS, FREE},
            {"dx", ROWS, COLS, OUTPUT | OPTIONAL}, {"dg", BATCH, COLS, OUTPUT | OPTIONAL}}},
    {"response_forward", call_response, {{"x", ROWS, COLS, FREE}, {"y", BATCH, COLS, OUTPUT}}},
    {"response_backward", call_response_back,
        {{"x", ROWS, COLS, FREE}, {"dy", BATCH, COLS}, {"dx", ROWS, COLS, OUTPUT}}},
    {"response_backward, added", call_response_add,
        {{"x", ROWS, COLS, FREE}, {"dy", BATCH, COLS}, {"dx", ROWS, COLS, OUTPUT}}},
    {"softmax_forward", call_softmax, {{"x", ROWS, COLS, FREE}, {"y", RESULT(1)}}},
    {"softmax_backward", call_softmax_back,
        {{"y", ROWS, COLS, FREE}, {"dy", WHOLE}, {"dx", RESULT(2)}}},
    {"softmax_backward, added", call_softmax_add,
        {{"y", ROWS, COLS, FREE}, {"dy", WHOLE}, {"dx", ROWS, COLS, OUTPUT}}},
    {"token_mean_forward", call_token_mean,
        {{"x", ROWS, COLS, FREE_COLS}, {"y", BATCH, COLS, OUTPUT}}},
    {"token_mean_backward", call_token_mean_back,
        {{"dy", BATCH, COLS, FREE_COLS}, {"dx", RESULT(0)}}},
    {"cross_entropy_forward", call_cross_entropy,
        {{"logits", ROWS, COLS, FREE}, {"labels", 1, ROWS, BUFFER}, {"log_p", RESULT(1)},
            {"loss", ROWS, 1, OUTPUT}, {"hit", ROWS, 1, OUTPUT | OPTIONAL}}},
    {"cross_entropy_backward", call_cross_entropy_back,
        {{"log_p", ROWS, COLS, FREE}, {"labels", 1, ROWS, BUFFER}, {"dlogits", RESULT(1)}}},
    {"element_loss_forward", call_element_loss,
        {{"y", ROWS, COLS, FREE}, {"target", WHOLE}, {"loss", BATCH, 1, OUTPUT}}},
    {"element_loss_backward", call_element_loss_back,
        {{"y", ROWS, COLS, FREE}, {"target", WHOLE}, {"dy", RESULT(1)}}},
    {"patch_embed_forward", call_patch,
        {{"images", BATCH, CHANNELS *PIXELS}, {"w", OUT, CHANNELS * 4}, {"b", 1, OUT},
            {"y", BATCH *PIXELS / 4, OUT, OUTPUT}}},
    {"patch_embed_backward", call_patch_back,
        {{"images", BATCH, CHANNELS *PIXELS}, {"dy", BATCH *PIXELS / 4, OUT},
            {"w", OUT, CHANNELS * 4}, {"dx", BATCH, CHANNELS *PIXELS, OUTPUT | OPTIONAL},
            {"dw", OUT, CHANNELS * 4, OUTPUT | OPTIONAL}, {"db", 1, OUT, OUTPUT | OPTIONAL}}},
    {"image_bytes_channels_last", call_channels_last_bytes,
        {BYTES, {"y", BATCH *PIXELS, CHANNELS, OUTPUT}}},
    {"patch_embed_forward_bytes", call_patch_bytes,
        {BYTES, {"w", OUT, CHANNELS * 4}, {"b", 1, OUT}, {"y", BATCH *PIXELS / 4, OUT, OUTPUT}}},
    {"patch_embed_backward_bytes", call_patch_bytes_back,
        {BYTES, {"dy", BATCH *PIXELS / 4, OUT}, {"dw", OUT, CHANNELS * 4, OUTPUT | OPTIONAL},
            {"db", 1, OUT, OUTPUT | OPTIONAL}}},
    {"max_pool_forward", call_max_pool,
        {{"x", BATCH *PIXELS, COLS, FREE_COLS}, {"y", POOLED, COLS, OUTPUT},
            {"positions", POOLED, 4, OUTPUT | OPTIONAL}}},
    {"max_pool_norm_forward", call_max_pool_norm,
        {BN, {"x", BATCH *PIXELS, COLS, FREE_COLS}, {"y", POOLED, COLS, OUTPUT},
            {"positions", POOLED, 4, OUTPUT | OPTIONAL}}},
    {"max_pool_backward", call_max_pool_back,
        {{"dy", POOLED, COLS, FREE_COLS}, {"positions", POOLED, 4},
            {"dx", BATCH *PIXELS, COLS, OUTPUT}}},
    {"permute", call_permute,
        {{"x", BATCH, TOKENS *COLS, FREE_ROWS}, {"y", BATCH, TOKENS *COLS, OUTPUT}}},
    {"upsample_forward", call_upsample,
        {{"x", BATCH *PIXELS, COLS, FREE_COLS}, {"y", 2 * BATCH *PIXELS, COLS, OUTPUT}}},
    {"upsample_backward", call_upsample_back,
        {{"dy", 2 * BATCH *PIXELS, COLS, FREE_COLS}, {"dx", BATCH *PIXELS, COLS, OUTPUT}}},
    {"conv2d_forward", call_conv,
        {{"x", BATCH *PIXELS, CHANNELS}, {"w", OUT, TAPS *CHANNELS}, {"b", 1, OUT, OPTIONAL},
            {"y", CONV_ROWS, OUT, OUTPUT | APART}},
        &pixels},
    {"conv2d_backward", call_conv_back,
        {{"dy", CONV_ROWS, OUT}, {"w", OUT, TAPS *CHANNELS},
            {"dx", BATCH *PIXELS, CHANNELS, OUTPUT | OPTIONAL | APART},
            {"dw", OUT, TAPS *CHANNELS, OUTPUT | OPTIONAL | APART},
            {"db", 1, OUT, OUTPUT | OPTIONAL | APART}},
        &pixels},
    {"batch_norm_moments", call_moments,
        {{"x", ROWS, COLS, FREE}, {"mean", OUT_VECTOR}, {"m2", OUT_VECTOR}}},
    {"batch_norm_merge", call_merge,
        {{"partial", 8, COLS}, {"mean", 1, COLS, OUTPUT | FREE_COLS}, {"m2", OUT_VECTOR}}},
    {"batch_norm_statistics", call_statistics,
        {{"mean", 1, COLS, FREE_COLS}, {"m2", VECTOR}, {"inv", 1, COLS, OUTPUT, 2},
            {"running->mean", OUT_VECTOR}, {"running->var", OUT_VECTOR}}},
    {"batch_norm_inverse", call_inverse,
        {{"var", 1, COLS, FREE_COLS}, {"inv", 1, COLS, OUTPUT, 1}}},
    {"batch_norm_forward", call_batch_norm,
        {BN, {"x", ROWS, COLS, FREE}, {"residual", ROWS, COLS, OPTIONAL}, {"y", RESULT(3 << 4)},
            {"mask", ROWS, WORDS, OUTPUT | OPTIONAL}}},
    {"batch_norm_forward_gated", call_gated,
        {BN, {"x", ROWS, COLS, FREE}, {"residual", ROWS, COLS, OPTIONAL}, {"mask", ROWS, WORDS},
            {"y", RESULT(3 << 4)}}},
    {"batch_norm_backward_sums", call_bn_sums,
        {BN, {"x", ROWS, COLS, FREE}, {"dy", WHOLE}, {"mask", ROWS, WORDS, OPTIONAL},
            {"dz", ROWS, COLS, OUTPUT | OPTIONAL, 1 << 5}, {"sums", 2, COLS, OUTPUT},
            {"dgamma", OUT_VECTOR}, {"dbeta", OUT_VECTOR}}},
    {"batch_norm_backward_input", call_bn_input,
        {BN, {"x", ROWS, COLS, FREE}, {"dy", WHOLE}, {"mask", ROWS, WORDS, OPTIONAL},
            {"sums", 2, COLS}, {"dx", RESULT(3 << 4)}}},
    {"batch_norm_backward_product", call_bn_product,
        {{"mean", 1, OUT}, {"inv", 1, OUT}, {"gamma", 1, OUT}, {"w", OUT, COLS, FREE},
            {"patch_sum", VECTOR}, {"x_product", OUT, COLS}, {"dz_sum", 1, OUT},
            {"dw", OUT, COLS, OUTPUT}, {"dgamma", 1, OUT, OUTPUT}}},
    {"token_mix_backward", call_token_mix,
        {{"x", ROWS, COLS, FREE_COLS}, {"alpha", VECTOR}, {"beta", VECTOR},
            {"w", TOKENS, TOKENS, FREE}, {"b", 1, TOKENS}, {"ls", VECTOR}, {"dx", RESULT(0)},
            {"work", RESULT(0)}, {"dalpha", OUT_VECTOR}, {"dbeta", OUT_VECTOR},
            {"dw", TOKENS, TOKENS, OUTPUT}, {"db", 1, TOKENS, OUTPUT}, {"dls", OUT_VECTOR}}},
    {"optimizer_create", call_optimizer,
        {{"value", ROWS, COLS, OUTPUT | FREE}, {"gradient", ROWS, COLS, OUTPUT},
            {"value", OUT, COLS, OUTPUT | FREE}, {"gradient", OUT, COLS, OUTPUT}}},
    {"optimizer_clip", call_clip,
        {{"value", ROWS, COLS, OUTPUT | FREE}, {"gradient", ROWS, COLS, OUTPUT},
            {"norm", 1, 1, OUTPUT | OPTIONAL}}},
    {"saved_restore, pruned", call_restore, {{"x", ROWS, COLS, APART}}, &pruned},
    {"saved_restore, mask", call_restore, {{"x", ROWS, COLS, APART}}, &mask},
    {"saved_store, mean", call_store, {{"x", ROWS, COLS, APART}}, &mean},
    {"saved_store, GELU code", call_store, {{"x", ROWS, COLS, APART}}, &codes},
    {"saved_store, quantised", call_store, {{"x", ROWS, COLS, APART}}, &quantised},
    {"saved_store, pruned", call_store, {{"x", ROWS, COLS, APART}}, &pruned},
    {"saved_product_tn, dense", call_tn, TN, &dense},
    {"saved_product_tn, quantised", call_tn, TN, &quantised},
    {"saved_product_tn, pruned", call_tn, TN, &pruned},
    {"saved_product_nt, dense", call_nt, NT, &dense},
    {"saved_product_nt, mean", call_nt, NT, &mean},
    {"saved_product_nt, pruned", call_nt, NT, &pruned},
    {"activation_forward", call_activation,
        {{"x", ROWS, COLS, OUTPUT | APART | RENAMED}, {"b", 1, COLS, OPTIONAL},
            {"y", ROWS, COLS, OUTPUT | APART | RENAMED}},
        &pruned},
    {"activation_backward", call_activation_back,
        {{"dy", WHOLE}, {"dx", ROWS, COLS, OUTPUT | APART, 1},
            {"db", 1, COLS, OUTPUT | OPTIONAL | APART}},
        &pruned},
    {"activation_backward_recompute", call_activation_again,
        {{"dy", WHOLE}, {"y", ROWS, COLS, OUTPUT | APART}, {"dx", ROWS, COLS, OUTPUT | APART, 1},
            {"db", 1, COLS, OUTPUT | OPTIONAL | APART}},
        &pruned},
    {"linear_forward", call_linear, FEATURES, &dense},
    {"linear_forward, pruned", call_linear, FEATURES, &pruned},
    {"linear_backward", call_linear_back, FEATURES_BACK, &dense},
    {"linear_backward, pruned", call_linear_back, FEATURES_BACK, &pruned},
    {"linear_forward, rows", call_rows, TOKEN_ROWS, &dense},
    {"linear_forward, rows, pruned", call_rows, TOKEN_ROWS, &pruned},
    {"linear_backward, rows", call_rows_back, TOKEN_ROWS_BACK, &dense},
    {"linear_backward, rows, pruned", call_rows_back, TOKEN_ROWS_BACK, &pruned},
    {"gemm", call_gemm,
        {{"a", ROWS, COLS, FREE_COLS}, {"b", OUT, COLS}, {"c", ROWS, OUT, OUTPUT | FREE}}},
    {"gemm_batched", call_gemm_batched,
        {{"a", TOKENS, COLS, FREE_COLS | SAMPLES}, {"b", OUT, COLS, SAMPLES},
            {"c", TOKENS, OUT, OUTPUT | FREE | SAMPLES}}},
    {"bsr_pack", call_pack, {{"x", WHOLE}, BSR(OUTPUT), {"mask", 1, MASK, BUFFER}}},
    {"bsr_unpack", call_unpack, {{"y", RESULT(0)}, BSR(0)}},
    {"bsr_validate", call_validate, {BSR(OUTPUT)}},
    {"prune", call_prune, {{"x", WHOLE}, BSR(OUTPUT)}},
    {"prune, largest", call_prune_largest, {{"x", WHOLE}, BSR(OUTPUT)}},
    {"bspmm_tn", call_bspmm_tn,
        {{"dy", ROWS, OUT, FREE_COLS}, BSR(0), {"dw", OUT, COLS, OUTPUT | FREE_ROWS}}},
    {"bspmm_nt", call_bspmm_nt,
        {{"dy", BATCH *OUT, COLS}, BSR(0), {"dw", OUT, TOKENS, OUTPUT | FREE_ROWS}}},
    {"bspmm_nn", call_bspmm_nn, {{"w", COLS, OUT, FREE_COLS}, BSR(0), {"y", ROWS, OUT, OUTPUT}}},
};

static size_t count_of(const function *f)
{
    size_t count = 0;
    while (count < MOST && f->mats[count].name != NULL)
        count++;
    return count;
}

static size_t elements_of(const operand *o)
{
    return o->rows * o->cols * ((o->flags & SAMPLES) != 0 ? BATCH : 1);
}

static bool is_named(const operand *o, const char *name)
{
    return strcmp(o->name, name) == 0;
}

/* Valid values for an operand: indices if it is an index, else numbers around 1, others for each
 * `salt`. */
static void fill_operand(const operand *o, unsigned salt, float *to)
{
    const size_t count = elements_of(o);
    int32_t words[2 * BATCH * PIXELS * COLS];
    uint8_t *bytes = (uint8_t *)words;
    bool is_words = true;
    memset(words, 0, sizeof words);
    if (is_named(o, "labels"))
        for (size_t i = 0; i < count; i++)
            words[i] = (int32_t)(i * 5 % COLS);
    else if (is_named(o, "tokens"))
        for (size_t i = 0; i < count; i++)
            words[i] = (int32_t)(i * 5 % OUT);
    else if (is_named(o, "crow")) /* the first KEPT of 6 blocks a row */
        for (int i = 0; i < CROW; i++)
            words[i] = i % (TOKENS + 1) == 0 ? 0 : i % (TOKENS + 1) == 1 ? 6 : KEPT;
    else if (is_named(o, "col"))
        for (int i = 0; i < KEPT * BATCH; i++)
            words[i] = i % KEPT % 6;
    else if (is_named(o, "mask") && (o->flags & BUFFER) != 0)
        for (int i = 0; i < BATCH * TOKENS * COLS / 4; i++)
            bytes[i] = i % (TOKENS * COLS / 4) < KEPT;
    else if (is_named(o, "positions"))
        for (size_t i = 0; i < count; i++)
            words[i] = 0x32103210;
    else if (is_named(o, "mask") || is_named(o, "codes"))
        for (size_t i = 0; i < count; i++)
            words[i] = (int32_t)(0x5a17c3 * (i + 1));
    else
        is_words = false;
    if (is_words)
        memcpy(to, words, count * sizeof *to);
    for (size_t i = 0; !is_words && i < count; i++)
        to[i] = 0.5f + (float)((i * 37 + salt * 11) % 101) / 64;
}

enum { STORE_BYTES = 8192 }; /* of a store's region, which begins at its half */

/* A store in a buffer of its own, with something in it. */
static clprune_saved *open_store(const store_kind *kind)
{
    const size_t rows = kind->rows, cols = kind->cols;
    const operand x = {.name = "x", .rows = BATCH * rows, .cols = cols};
    const clprune_keep keep = {.form = kind->form, .block = {1, 4}, .sparsity = 0.5f, .bits = 4};
    const clprune_mat none = CLPRUNE_NO_MAT;
    float values[BATCH * PIXELS * COLS];
    clprune_saved *made = NULL;
    fill_operand(&x, 77, values);
    const clprune_mat all = test_new_mat(CONTEXT, 2, STORE_BYTES / sizeof(float)),
                      from = test_new_mat_of(CONTEXT, "x", x.rows, cols, values);
    /* Nothing writes the padding of the store's rows, but all its bytes may be compared: they begin
     * as 0. */
    TEST_OK(clprune_mat_fill(CONTEXT, 0, all, NULL));
    TEST_OK(clprune_saved_create_in(
        CONTEXT, &keep, BATCH, rows, cols, all.buffer, STORE_BYTES, STORE_BYTES, &made));
    test_own_saved(CONTEXT, made);
    if (kind->form == CLPRUNE_FORM_MASK)
        TEST_OK(clprune_activation_forward(
            CONTEXT, CLPRUNE_ACTIVATION_RELU, 0, BATCH, from, none, from, made, NULL));
    else
        TEST_OK(clprune_saved_store(made, 0, BATCH, from, NULL));
    return made;
}

/* Good arguments of a function besides its operands, in `in`, with which they end. */
static void open_arguments(clprune_context *in, const function *f)
{
    context = in;
    memset(&with, 0, sizeof with);
    with.linear = test_new_linear(in, (clprune_linear_desc){.in = COLS, .out = OUT});
    with.token = test_new_linear(
        in, (clprune_linear_desc){.in = TOKENS, .out = OUT, .axis = CLPRUNE_AXIS_ROWS});
    with.conv =
        test_new_conv2d(in, (clprune_conv2d_desc){.in = CHANNELS, .out = OUT, .kernel = {2, 2}});
    with.batch = BATCH;
    with.strides[0] = TOKENS * COLS;
    with.strides[1] = OUT * COLS;
    with.strides[2] = TOKENS * OUT;
    with.bsr.desc = (clprune_bsr_desc){BATCH, TOKENS, COLS, {1, 4}, KEPT};
    if (f->store != NULL)
        with.saved = open_store(f->store);
}

#endif
