/* A net: a model as a list of layers on values. The library infers shapes, owns parameters and
 * activations, and decides for each tensor whether to keep it for the backward pass, and how, to
 * make it again, or to do without it.
 *
 *     clprune_net *net;
 *     clprune_net_create(context, &(clprune_net_desc){.batch = 32}, &net);
 *     clprune_net_value v = clprune_net_images(net, 3, 32, 32);
 *     v = clprune_net_conv2d(net, "conv1", v, &(clprune_net_conv){.out = 64, .kernel = {3, 3}});
 *     v = clprune_net_relu(net, "relu1", clprune_net_batch_norm(net, "bn1", v));
 *     v = clprune_net_linear(net, "head", clprune_net_mean(net, "pool", v), 10);
 *     clprune_net_cross_entropy(net, v);
 *     clprune_net_settle(net, &(clprune_net_keep){.preset = CLPRUNE_NET_COMPACT});
 *
 *     clprune_net_forward(net, &data, true);
 *     clprune_net_loss(net, &data, loss, hit);
 *     clprune_net_backward(net, &data);
 *     (an optimizer over clprune_net_params)
 *
 * Values. A value has `rows` rows of `cols` features per sample. Images are channels last: a row is
 * a pixel, and a value of images also has a grid, height x width = rows. A vector has one row.
 *
 * Errors. A function that adds a layer returns a value, also on failure: the first error is kept,
 * the layers after it do nothing, and clprune_net_settle returns its status and text, which names
 * the layer. So a model needs one check. A settled net takes no layers: it stays as it is.
 *
 * Life. Layers are added, then the net is settled once, then it runs: one backward pass for each
 * forward pass in training. All device memory is taken when the net is settled. Passes enqueue and
 * return. The context outlives its nets.
 *
 * Order. clprune_net_loss needs a forward pass before it, and clprune_net_backward a forward pass
 * in training, then its loss, with nothing but refused calls between: a later forward pass, also
 * for inference, takes the place of an earlier one, and a pass that failed, a backward pass and
 * clprune_net_init or _load end it. Each with the same batch. Else INVALID_ARGUMENT or
 * INVALID_SIZE, and nothing changes. Except after a token loss in training, the loss may be
 * computed again; the last one counts. */
#ifndef CLPRUNE_NET_H
#define CLPRUNE_NET_H

#include "clprune/activation.h"
#include "clprune/image.h"
#include "clprune/keep.h"
#include "clprune/linear.h"
#include "clprune/max_pool.h"
#include "clprune/optimizer.h"
#include "clprune/permute.h"
#include "clprune/recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers ------------------------------------------------------------------------------------
 */

/* A net; the caller destroys it. */
typedef struct clprune_net clprune_net;

/* A value of a net: a small handle, to be passed on. */
typedef struct clprune_net_value {
    uint32_t net, id; /* id 0: the result of a call that failed */
} clprune_net_value;

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_net_desc {
    size_t batch; /* samples of a pass, at most */
    bool adds; /* backward passes can add to the gradients of earlier ones (clprune_net_data.add);
                  this takes a second buffer of gradients */
    bool drops_grads;       /* gradients are workspace that is forgotten (clprune/plan.h) as soon as
                               clprune_net_on_grads has told of them; not with adds */
    bool shares_statistics; /* clprune_net_on_statistics; batch norms then keep what they need for
                               it */
    bool infers; /* no forward pass is in training: nothing is kept, and parameters have no
                    gradients, as in a net without a loss; not with the three above */
    clprune_net *weights_of; /* a settled net of the context, or NULL: parameters and states are
                                that net's, which has all of this one's names in the same shapes;
                                gradients are not. Either may be destroyed first */
    size_t rows_at_once;  /* with infers, of one input, rows or tokens: each pass makes so many rows
                             of each sample, from data->first on; 0: all. Attention, which must be
                             causal, keeps keys and values of earlier rows. So a token that is drawn
                             costs a pass over one row. Layers that mix rows otherwise are refused.
                             Where weights_of has rows_at_once, too, both keep the same keys and
                             values, and passes of one go on with those of the other: one net may
                             read a text by 100 rows, another go on row by row. Their samples must
                             be as long and as many, else clprune_net_settle fails (INVALID_SIZE) */
    uint64_t reserved[2]; /* zeros */
} clprune_net_desc;

/* On failure *net is NULL. Errors: INVALID_ARGUMENT (batch 0), OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_net_create(
    clprune_context *context, const clprune_net_desc *desc, clprune_net **net);
CLPRUNE_API void clprune_net_destroy(clprune_net *net); /* accepts NULL */

/* Begins a part of the model: names of later layers get `name` and a dot in front, until the next
 * call. NULL ends it. */
CLPRUNE_API void clprune_net_part(clprune_net *net, const char *name);

/* What later normalisations add to variances, above 0. Unless set: 1e-5, PyTorch's default. */
CLPRUNE_API void clprune_net_eps(clprune_net *net, float eps);

/* By how much later batch norms move their running statistics to those of a pass, in [0, 1]:
 * running = (1 - momentum) * running + momentum * new. Unless set: 0.1, PyTorch's default. */
CLPRUNE_API void clprune_net_momentum(clprune_net *net, float momentum);

/* Inputs of the net: at least one, before its layers, and up to 16, each anywhere before a layer
 * that reads it. The data of the first is in clprune_net_data, that of others in its `more`.
 *     images  batch x (channels * height * width) bytes, planes (NCHW): clprune_image_bytes
 *     rows    (batch * rows) x cols floats
 *     pixels  (batch * height * width) x channels floats, channels last (NHWC),
 *             or batch x (channels * height * width), planes (NCHW)
 *     tokens  batch * rows int32, which only embeddings read
 * In rules they are called so: "rows"; later ones have their number behind it: "rows.1". */
CLPRUNE_API clprune_net_value clprune_net_images(
    clprune_net *net, size_t channels, size_t height, size_t width);
CLPRUNE_API clprune_net_value clprune_net_rows(clprune_net *net, size_t rows, size_t cols);
CLPRUNE_API clprune_net_value clprune_net_pixels(
    clprune_net *net, size_t channels, size_t height, size_t width);
CLPRUNE_API clprune_net_value clprune_net_tokens(clprune_net *net, size_t rows);

/* Makes backward passes write the gradient by an input of rows or pixels, too, with data->scale:
 * to its rows_grad. Before clprune_net_settle. */
CLPRUNE_API void clprune_net_want_grad(clprune_net *net, clprune_net_value input);

/* A layer has a name, which is its output's, too. Names are unique. Parameters are called as in
 * PyTorch: "NAME.weight", "NAME.bias". */

/* Patches of images (clprune/patch_embed.h): rows = patches, cols = out. */
CLPRUNE_API clprune_net_value clprune_net_patch_embed(
    clprune_net *net, const char *name, clprune_net_value images, size_t patch, size_t out);

/* Each token's row of "NAME.weight", vocabulary x cols (clprune/embedding.h): rows = tokens, in [0,
 * vocabulary): clprune_net_data. */
CLPRUNE_API clprune_net_value clprune_net_embedding(
    clprune_net *net, const char *name, clprune_net_value tokens, size_t vocabulary, size_t cols);

/* x + p, p for each row and feature (clprune/positions.h): one parameter, rows x cols, called
 * `name`. */
CLPRUNE_API clprune_net_value clprune_net_positions(
    clprune_net *net, const char *name, clprune_net_value x);
/* The same with `rows` rows, from `first` on, of a parameter of table x cols, again and again; rows
 * divides x's. Other rows of it have a gradient of 0. A longer table is for shorter samples; one of
 * its rows alone, `rows` 1, is what a token type adds where all tokens have the same. */
CLPRUNE_API clprune_net_value clprune_net_positions_of(clprune_net *net, const char *name,
    clprune_net_value x, size_t first, size_t rows, size_t table);

/* x with one more row: row 0 of each sample is the parameter called `name`, 1 x cols, and the
 * others are x's. Row `row` of each sample, as a value of one row. */
CLPRUNE_API clprune_net_value clprune_net_class_token(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_row(
    clprune_net *net, const char *name, clprune_net_value x, size_t row);

/* Rotary positions (clprune/rotary.h) of queries and keys. qkv's columns are `heads` heads of
 * queries, then kv_heads of keys, then kv_heads of values, which stay; all heads have the same
 * number of columns. turned: only the first so many of a head, an even number; 0: all. theta: above
 * 1; Llama takes 1e4. adjacent: pairs are neighbouring columns, as in GPT-J. */
CLPRUNE_API clprune_net_value clprune_net_rotary(clprune_net *net, const char *name,
    clprune_net_value qkv, size_t heads, size_t kv_heads, size_t turned, float theta,
    bool adjacent);
/* Angles other than those of a theta: scaled ones, those of rows of an image. Zero-initialise, then
 * set the fields that you need; they are copied. */
typedef struct clprune_net_angles {
    size_t pairs;              /* the first 2 * pairs columns of each head are turned */
    const double *frequencies; /* pairs: row q of a sample is turned by q times these radians */
    const float *angles; /* or those of each row of a whole sample, rows x pairs, in radians */
    float factor;        /* of turned columns; 0: 1 */
    bool adjacent;
    uint64_t reserved[2]; /* zeros */
} clprune_net_angles;
/* The same by these. */
CLPRUNE_API clprune_net_value clprune_net_rotary_by(clprune_net *net, const char *name,
    clprune_net_value qkv, size_t heads, size_t kv_heads, const clprune_net_angles *angles);

/* Zero-initialise, then set the fields that you need: clprune/conv2d.h. */
typedef struct clprune_net_conv {
    size_t out;
    clprune_extent kernel, stride, padding, dilation;
    size_t groups; /* 0: 1; as many as x has features: depthwise */
    bool bias;
    clprune_extent output_padding; /* of transposed ones: below the stride */
    uint64_t reserved[4];          /* zeros */
} clprune_net_conv;
/* A convolution. */
CLPRUNE_API clprune_net_value clprune_net_conv2d(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_conv *conv);
/* A transposed one, the gradient of a convolution: images become (side - 1) * stride - 2 * padding
 * + dilation * (kernel - 1) + output_padding + 1 along each axis. The weight is x's features x
 * (height * width * out / groups), in PyTorch in x out / groups x height x width. */
CLPRUNE_API clprune_net_value clprune_net_conv_transpose2d(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_conv *conv);

/* y = x w^T + b on each row; without b (project); or on each column, which mixes rows
 * (CLPRUNE_AXIS_ROWS). */
CLPRUNE_API clprune_net_value clprune_net_linear(
    clprune_net *net, const char *name, clprune_net_value x, size_t out);
CLPRUNE_API clprune_net_value clprune_net_project(
    clprune_net *net, const char *name, clprune_net_value x, size_t out);

/* One of several linear layers in one. `name` stands in place of the last word of theirs. */
typedef struct clprune_net_linear_part {
    const char *name;
    size_t out;
} clprune_net_linear_part;

/* Several linear layers of one input as one product: y has the outputs of the `count` parts beside
 * each other, and the parameters "NAME.weight" and, with a bias, "NAME.bias" their rows below each
 * other. Adapters are each part's own: those of "attn.qkv" with the part "q" are
 * "attn.q.lora_A.weight" and "attn.q.lora_B.weight". */
CLPRUNE_API clprune_net_value clprune_net_linears(clprune_net *net, const char *name,
    clprune_net_value x, const clprune_net_linear_part *parts, size_t count, bool bias);
CLPRUNE_API clprune_net_value clprune_net_linear_rows(
    clprune_net *net, const char *name, clprune_net_value x, size_t out);

/* Normalisations: batch norm over all rows, with running statistics; alpha * x + beta per feature
 * ("NAME.alpha", "NAME.beta"); layer norm over each row's features; RMS norm likewise, without mean
 * and bias; group norm over a sample's rows and `groups` parts of the features (group_norm.h). */
CLPRUNE_API clprune_net_value clprune_net_batch_norm(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_affine(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_layer_norm(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_rms_norm(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_group_norm(
    clprune_net *net, const char *name, clprune_net_value x, size_t groups);

/* How strongly each feature of a sample responds beside the others (clprune/response.h): one row a
 * sample. GRN gates x with it. */
CLPRUNE_API clprune_net_value clprune_net_response(
    clprune_net *net, const char *name, clprune_net_value x);

/* RMS norm of each of `heads` groups of `cols` columns, from column `first` on, by one weight of
 * `cols` values; other columns stay. So the queries, or the keys, of qkv before rotary positions.
 */
CLPRUNE_API clprune_net_value clprune_net_head_norm(clprune_net *net, const char *name,
    clprune_net_value x, size_t first, size_t heads, size_t cols);

/* x + ls * t, ls per feature: one parameter, called `name`. */
CLPRUNE_API clprune_net_value clprune_net_layerscale(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value t);

/* Activations (clprune/activation.h); gelu_tanh is GPT-2's. */
CLPRUNE_API clprune_net_value clprune_net_gelu(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_gelu_tanh(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_silu(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_tanh(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_sigmoid(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_hard_sigmoid(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_hard_swish(
    clprune_net *net, const char *name, clprune_net_value x);
/* 1 / x, for divisions: a sum that is at least some eps. Every preset keeps x without error. */
CLPRUNE_API clprune_net_value clprune_net_reciprocal(
    clprune_net *net, const char *name, clprune_net_value x);
/* silu(a) * b of the two halves [a | b] of x's columns (clprune/swiglu.h), and with another
 * activation in place of silu, but not RELU or RELU6. */
CLPRUNE_API clprune_net_value clprune_net_swiglu(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_glu(
    clprune_net *net, const char *name, clprune_net_value x, clprune_activation activation);
CLPRUNE_API clprune_net_value clprune_net_relu(
    clprune_net *net, const char *name, clprune_net_value x);
CLPRUNE_API clprune_net_value clprune_net_relu6(
    clprune_net *net, const char *name, clprune_net_value x);
/* x * g, with g of one row a sample and as many columns as x (clprune/gate.h): the gates of
 * squeeze-and-excitation; or with g of x's rows and columns, which may be x: a product. */
CLPRUNE_API clprune_net_value clprune_net_gate(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value g);
CLPRUNE_API clprune_net_value clprune_net_add(
    clprune_net *net, const char *name, clprune_net_value a, clprune_net_value b);
/* a and b in one: the features of b behind those of a, in rows of the same sample
 * (CLPRUNE_AXIS_FEATURES), or the rows of b behind those of a (CLPRUNE_AXIS_ROWS), which are then
 * no image. And `count` of x's features or rows from `first` on. Neither keeps anything. */
CLPRUNE_API clprune_net_value clprune_net_concat(clprune_net *net, const char *name,
    clprune_net_value a, clprune_net_value b, clprune_axis axis);
CLPRUNE_API clprune_net_value clprune_net_slice(clprune_net *net, const char *name,
    clprune_net_value x, clprune_axis axis, size_t first, size_t count);
/* The elements of a sample in another order (clprune/permute.h), as rows of `cols` features:
 * windows of images, shuffled channels and pixels. With the order 0, 1, ... another shape of the
 * same elements. grid: of an image, or {0, 0}. */
CLPRUNE_API clprune_net_value clprune_net_permute(clprune_net *net, const char *name,
    clprune_net_value x, const clprune_permute_desc *desc, size_t cols, clprune_extent grid);
/* The elements of y, `rows` x `cols` of a sample: element i is element from[i] of x, which several
 * may be, or 0 where that is CLPRUNE_NET_NOWHERE. grid: of an image, or {0, 0}. */
typedef struct clprune_net_places {
    size_t rows, cols;
    clprune_extent grid;
    const uint32_t *from; /* rows * cols, row by row */
} clprune_net_places;
#define CLPRUNE_NET_NOWHERE UINT32_MAX
/* Elements of a sample in any places: gathered by an index, shifted row by row, padded, repeated.
 * The places are copied. Nothing is kept. */
CLPRUNE_API clprune_net_value clprune_net_gather(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_places *places);
CLPRUNE_API clprune_net_value clprune_net_max_pool(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_max_pool_desc *desc);
/* Each pixel becomes factor x factor equal ones (clprune/upsample.h). */
CLPRUNE_API clprune_net_value clprune_net_upsample(
    clprune_net *net, const char *name, clprune_net_value x, size_t factor);
/* A sparse matrix by which images change along an axis: pixel i of y is the sum of weight[k] times
 * pixel from[k] of x over first[i] <= k < first[i + 1]; first[0] is 0. */
typedef struct clprune_net_axis {
    size_t out;            /* pixels of y */
    const uint32_t *first; /* out + 1, ascending */
    const uint32_t *from;  /* first[out] */
    const float *weight;   /* first[out] */
} clprune_net_axis;
/* Images by a matrix along each axis: interpolation to any size, means of windows, padding, crops,
 * mirrored and rolled images. The matrices are copied. Nothing is kept. */
CLPRUNE_API clprune_net_value clprune_net_resample(clprune_net *net, const char *name,
    clprune_net_value x, const clprune_net_axis *height, const clprune_net_axis *width);
/* What is added to the scores of attention, for each query i and key j of w rows: an element of a
 * table for each head, and a mask; one of both will do. Zero-initialise, then set the fields that
 * you need; they are copied. */
typedef struct clprune_net_bias {
    const char *table;     /* the parameter "NAME.TABLE", entries x heads; NULL: none */
    size_t entries;        /* of the table */
    const uint32_t *index; /* w x w: the entry of i and j */
    size_t masks;      /* 0: none; else they divide a sample's windows, and those of a sample have
                          mask 0, 1, ... in turn */
    const float *mask; /* masks x w x w, finite: -1e4 hides a key */
    uint64_t reserved[2]; /* zeros */
} clprune_net_bias;

/* Attention over a sample's rows (clprune/attention.h), or as many of them as data->lengths says.
 * qkv: `heads` heads of q, then `kv_heads` of k and as many of v, all equally wide; y has the
 * columns of q. Zero-initialise, then set the fields that you need. */
typedef struct clprune_net_attn {
    size_t heads, kv_heads; /* kv_heads 0: heads */
    size_t queries; /* only the first so many rows; 0: all. 1 where only a class token is read */
    bool causal;    /* a row sees those before it, and itself */
    float rate;     /* of dropout of the probabilities in training; the mask is drawn again */
    size_t window;  /* so many rows, one behind the other, are a sequence of its own; divides rows;
                       not with queries, nor with data->lengths. 0: all */
    const clprune_net_bias *bias; /* or NULL */
    float cap; /* scores become cap * tanh(score / cap), before bias is added; 0: they stay */
    uint64_t reserved[2]; /* zeros */
} clprune_net_attn;
/* The attention of qkv. */
CLPRUNE_API clprune_net_value clprune_net_attention(
    clprune_net *net, const char *name, clprune_net_value qkv, const clprune_net_attn *attn);
/* Attention of q's rows to those of another value, of which there may be more or fewer: `heads`
 * heads of q; kv: `kv_heads` of k (0: heads), then as many of v, all equally wide. y is like q.
 * rate: of dropout of the probabilities. Not with data->lengths. */
CLPRUNE_API clprune_net_value clprune_net_cross_attention(clprune_net *net, const char *name,
    clprune_net_value q, clprune_net_value kv, size_t heads, size_t kv_heads, float rate);
/* Products of two values, for attention in a shape that clprune_net_attention does not have, of
 * which products and probabilities are then kept. A sample is `parts` parts, each so many of its
 * rows, such as windows, and a part `heads` matrices. Zero-initialise, then set the fields that you
 * need. */
typedef struct clprune_net_products {
    size_t parts, heads; /* 0: 1. They are as many of a as of b and y */
    bool transpose_a, transpose_b;
    /* The matrices of a part's heads lie below each other, as rows of a; else side by side, as its
       columns, where clprune_net_linear puts the heads of q, k and v. */
    bool a_below, b_below, y_below;
    float factor;         /* 0: 1 */
    uint64_t reserved[2]; /* zeros */
} clprune_net_products;
/* y = factor * op(a) * op(b) for each head of each part of each sample; op transposes its matrix if
 * the flag is set. a and b may be the same value. Not with data->lengths. */
CLPRUNE_API clprune_net_value clprune_net_product(clprune_net *net, const char *name,
    clprune_net_value a, clprune_net_value b, const clprune_net_products *products);
/* A recurrent layer over each `steps` (0: all) rows of a sample (clprune/recurrent.h). z: the gates'
 * part of the inputs, from clprune_net_linear; y: of LSTM [h c], of which clprune_net_slice takes h;
 * of others h. "NAME.weight" and, with a bias, "NAME.bias" are PyTorch's weight_hh and bias_hh, those
 * of the linear layer its weight_ih and bias_ih. Not with data->starts. */
CLPRUNE_API clprune_net_value clprune_net_recurrent(clprune_net *net, const char *name,
    clprune_net_value z, const clprune_recurrent_desc *desc, bool bias);
/* The same from states before the first step, such as those that an encoder ends with, instead of
 * zeros: a row for each `steps` rows of z, [h c] or h. */
CLPRUNE_API clprune_net_value clprune_net_recurrent_from(clprune_net *net, const char *name,
    clprune_net_value z, clprune_net_value states0, const clprune_recurrent_desc *desc, bool bias);
/* The softmax of each row over its features (clprune/softmax.h). */
CLPRUNE_API clprune_net_value clprune_net_softmax(
    clprune_net *net, const char *name, clprune_net_value x);
/* The mean of each sample's rows: global average pooling. */
CLPRUNE_API clprune_net_value clprune_net_mean(
    clprune_net *net, const char *name, clprune_net_value x);

/* x * m / (1 - rate) in training, with m drawn again in the backward pass (clprune/dropout.h); x in
 * inference. factor * x. All rows of a sample in one, channels last. */
CLPRUNE_API clprune_net_value clprune_net_dropout(
    clprune_net *net, const char *name, clprune_net_value x, float rate);
CLPRUNE_API clprune_net_value clprune_net_scale(
    clprune_net *net, const char *name, clprune_net_value x, float factor);
CLPRUNE_API clprune_net_value clprune_net_flatten(
    clprune_net *net, const char *name, clprune_net_value x);
/* Dropout with one m for each sample: stochastic depth (clprune_drop_path). */
CLPRUNE_API clprune_net_value clprune_net_drop_path(
    clprune_net *net, const char *name, clprune_net_value x, float rate);

/* The loss: softmax cross-entropy of the logits, with a label for each row (clprune/token_loss.h);
 * or with data->targets, shaped as y, the mean squared error, smooth L1 (beta: at least 0), or, of
 * several labels at once, the binary cross-entropy of logits (clprune/element_loss.h). A net has
 * one loss; a net without it only infers. */
CLPRUNE_API void clprune_net_cross_entropy(clprune_net *net, clprune_net_value logits);
CLPRUNE_API void clprune_net_mean_squared_error(clprune_net *net, clprune_net_value y);
CLPRUNE_API void clprune_net_smooth_l1(clprune_net *net, clprune_net_value y, float beta);
CLPRUNE_API void clprune_net_binary_cross_entropy(clprune_net *net, clprune_net_value logits);

/* The loss of a large vocabulary: the cross-entropy of logits = x w^T, w = "NAME.weight",
 * vocabulary x cols (clprune_token_head). Logits never exist as a whole. clprune_net_output is x.
 *
 * After a forward pass in training, clprune_net_loss also computes the gradients of x, which take
 * its place, and of w: once, and with the data->scale of the backward pass. w may be tied to an
 * embedding's weight, or that to w; then both add to one gradient. */
CLPRUNE_API void clprune_net_token_loss(
    clprune_net *net, const char *name, clprune_net_value x, size_t vocabulary);

/* Adds "NAME.bias", a row of `vocabulary`, to the logits of the token loss before it, and to those
 * of clprune_net_logits. Before clprune_net_settle; later calls change nothing. */
CLPRUNE_API void clprune_net_bias_logits(clprune_net *net);

/* Logits of the token loss before it, with their bias, become cap * tanh(logit / cap), those of
 * clprune_net_logits, too, as Gemma 2's. cap: above 0. Before clprune_net_settle; later calls
 * change nothing. */
CLPRUNE_API void clprune_net_cap_logits(clprune_net *net, float cap);

/* A loss of the caller's own, of y: clprune_net_backward, after a forward pass in training, takes
 * its gradient by y from data->output_grad. There is no clprune_net_loss. */
CLPRUNE_API void clprune_net_custom_loss(clprune_net *net, clprune_net_value y);

/* Parameters whose names match the pattern of a shell get no gradient, and are not among
 * clprune_net_params; what only their gradients need is not kept. Layers come first: later ones are
 * not frozen. Tied ones (clprune_net_tie) match under any of their names, here and below. */
CLPRUNE_API void clprune_net_freeze(clprune_net *net, const char *pattern);

/* Freezes the parameters whose names match none of the patterns: for fine-tuning. */
CLPRUNE_API void clprune_net_train_only(
    clprune_net *net, const char *const *patterns, size_t count);

/* Stores frozen weights whose names match as BF16, CODES8, CODES4 or NF4 (clprune/matrix.h) in
 * place of floats: those of linear layers over features, of embeddings and of a token loss. Passes
 * read them as they are. Others that match stay floats, as do those whose columns are no multiple
 * of 16 with BF16. After clprune_net_freeze or _train_only, and after clprune_net_tie; a later call
 * wins. clprune_mat_write rounds what is written to such a weight; clprune_net_save writes its
 * bits, which clprune_net_load reads, or floats in their place. */
CLPRUNE_API void clprune_net_store_frozen(
    clprune_net *net, const char *pattern, clprune_value_type type);

/* Gives later linear layers whose names match an adapter (LoRA, arXiv 2106.09685): their output
 * becomes x w^T + b + alpha / rank * (x A^T) B^T, with the parameters "NAME.lora_A.weight", rank x
 * in, and "NAME.lora_B.weight", out x rank, whose initial value is 0. Parts of clprune_net_linears
 * match by their own names, or all by their layer's. NULL ends it, and fails if no layer matched.
 * With clprune_net_train_only and "*.lora_*" only adapters are trained. Where products may run
 * again, those of adapters of a rank up to 16 do so beside what extra_work allows. */
CLPRUNE_API void clprune_net_lora(clprune_net *net, const char *pattern, size_t rank, float alpha);

/* Makes later adapters read dropout of x in training, each of its own: (x * m / (1 - rate)) A^T
 * (clprune_net_dropout). 0: x itself, as at first. */
CLPRUNE_API void clprune_net_lora_dropout(clprune_net *net, float rate);

/* Makes parameter `name` the same as `other`, of the same shape: it has other's values, is not
 * among clprune_net_params, and its gradient is added to other's. Several may be tied to one that
 * is not tied itself. */
CLPRUNE_API void clprune_net_tie(clprune_net *net, const char *name, const char *other);

/* ---- what is kept ------------------------------------------------------------------------------
 */

/* What the planner may do. Without rules, of DENSE, EXACT, COMPACT without PRUNED, and LEAST none
 * keeps or takes more than those before it: where its own plan would, it has theirs. */
typedef enum clprune_net_preset {
    CLPRUNE_NET_DENSE = 0,   /* keep what autograd keeps */
    CLPRUNE_NET_INPUTS = 1,  /* the same, but inputs of linear layers and convolutions in the form
                                `keep` */
    CLPRUNE_NET_EXACT = 2,   /* keep dense tensors from which the same gradients follow, without
                                running a product again */
    CLPRUNE_NET_COMPACT = 3, /* such tensors as codes of `keep.bits` bits, sums of a residual path
                                in at least 8. Products of at most 64 multiplications an element run
                                again, up to 4 % of a step's, without extra_work and PRUNED */
    CLPRUNE_NET_LEAST = 4    /* inputs of blocks as codes; all else is made again from them. What
                                COMPACT keeps, unless this keeps no more and takes less in all */
} clprune_net_preset;

/* What the caller decides for some tensors: those whose names match. The last rule that matches
 * wins. */
typedef struct clprune_net_rule {
    const char *pattern; /* as of a shell: "blocks.*.mlp.fc1" */
    bool again;          /* not kept: made again, or not needed */
    clprune_keep keep;   /* else: its form; zeros keep it dense */
} clprune_net_rule;

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_net_keep {
    clprune_net_preset preset;
    clprune_keep keep;  /* INPUTS: the form. COMPACT, LEAST: PRUNED, or zeros or QUANTISED with bits
                           (0: 4), group, rounding and rotate of codes; inputs of activations and
                           batch norms, and outputs of ReLU, are rotated only by rules. PRUNED at
                           sparsity 0 in fp32 is DENSE */
    unsigned gelu_bits; /* COMPACT with PRUNED: bits of GELU's derivative (0: 2) */
    size_t products; /* EXACT, COMPACT: products of at most so many multiplications an element may
                        run again */
    unsigned extra_work; /* EXACT, COMPACT: beside these, products of at most so many percent of a
                            step's multiplications run again, those that save the most bytes for it:
                            of 1, 2, 4, 8, 12, 16, 20, 25, 33, 50 and 100 % up to that, what takes
                            the least memory in all. More work never takes more */
    clprune_value_type store; /* BF16: all that would be kept dense, except vectors and images of at
                                 most 3 channels, is QUANTISED with 16 bits, and each ReLU behind
                                 which signs are needed keeps a bit an element. Where all layers
                                 that touch it can, its layer writes it in bf16, and others read it
                                 so. A max pool keeps its positions rather than make them again
                                 from bf16: with the same forward pass, gradients of random nets
                                 differ from dense ones by at most 0.5 %, with batch norms 2.5 %
                                 (test_net_pools). FP32: dense, but in a context of bf16 on tensor
                                 cores what only products read, which round it, is kept so */
    const clprune_net_rule *rules;
    size_t rules_count;
    uint64_t reserved[4]; /* zeros */
} clprune_net_keep;

/* Ends the list of layers, chooses what is kept, and takes all memory. keep: NULL means DENSE. A
 * plan (clprune/plan.h) of a step lets activations and workspace share places. Errors: the first
 * one of the layers; INVALID_ARGUMENT (a rule that no tensor matches, or whose form does not
 * restore the tensor), OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. A net that could not be settled
 * can only be destroyed. */
CLPRUNE_API clprune_status clprune_net_settle(clprune_net *net, const clprune_net_keep *keep);

/* A tensor of a settled net: the output of a layer. Layers that were merged into others have none:
 * a ReLU has the output of the batch norm and the addition before it. */
typedef struct clprune_net_tensor {
    const char *name;     /* the layer's; owned by the net */
    const char *layer;    /* what kind of layer makes it */
    const char *way;      /* how this layer, with others of a chain, runs backward; "" for inputs */
    size_t rows, cols;    /* of a sample */
    clprune_extent grid;  /* of images, height * width = rows; {0, 0}: none */
    bool needed;          /* the backward pass reads it */
    bool product;         /* only in products, which read any form */
    bool kept;            /* else it is made again if it is needed */
    clprune_keep keep;    /* its form, if it is kept */
    uint64_t bytes;       /* that it takes then */
    double work;          /* multiplications per sample to make it; 0: no product */
    uint64_t reserved[2]; /* zeros */
} clprune_net_tensor;

/* Calls `visit` for each tensor of a settled net, in the order of the layers. */
CLPRUNE_API void clprune_net_visit(const clprune_net *net,
    void (*visit)(void *user, const clprune_net_tensor *tensor), void *user);

/* How clprune_net_print writes: a table of all tensors, or a graph for the program dot. */
typedef enum clprune_net_format { CLPRUNE_NET_TABLE = 0, CLPRUNE_NET_DOT = 1 } clprune_net_format;

/* Hands what was chosen to `write`, line by line; a table begins with all device memory of the
 * context (clprune_memory_query), and says of each tensor why it is kept or made again: which
 * layers' gradients read it, and what is made again from it. Errors: INVALID_ARGUMENT (not
 * settled). */
CLPRUNE_API clprune_status clprune_net_print(const clprune_net *net, clprune_net_format format,
    void (*write)(void *user, const char *text), void *user);

/* ---- parameters --------------------------------------------------------------------------------
 */

/* The parameters, in the order of the layers, *count of them: for clprune_optimizer_create. Owned
 * by the net. Without a loss their gradients are CLPRUNE_NO_MAT. Weights of linear layers,
 * convolutions, embeddings and token losses decay. */
CLPRUNE_API clprune_param *clprune_net_params(clprune_net *net, size_t *count);

/* A parameter in files of other programs: its shape there, as PyTorch has it. A convolution's
 * weight is out x in x height x width there and out x (height * width * in) here
 * (clprune/conv2d.h). */
typedef struct clprune_net_weight {
    const char *name; /* owned by the net */
    size_t rank, shape[4];
    size_t inputs;        /* of a weight or bias, for initial values; 0: of a scale or shift */
    clprune_extent image; /* of a convolution, its kernel; of a linear layer that reads a flattened
                             image, that image: rows of value are height * width pixels of channels,
                             rows of PyTorch's are channels of height * width pixels. Else {0, 0} */
    bool output;          /* of the layer that makes the output, such as a classifier's head */
    clprune_mat value;    /* of a tied parameter: the other one's */
    uint64_t reserved[2]; /* zeros */
} clprune_net_weight;

/* Parameter `index` of a settled net, frozen and tied ones included, in the order of the layers.
 * Returns false, and zeros, past the last one. */
CLPRUNE_API bool clprune_net_weight_at(
    const clprune_net *net, size_t index, clprune_net_weight *weight);
/* The same by name: false, and zeros, if there is none. */
CLPRUNE_API bool clprune_net_weight_of(
    const clprune_net *net, const char *name, clprune_net_weight *weight);

/* State that is no parameter: running means and variances of batch norms, "NAME.running_mean" and
 * "NAME.running_var", 1 x C each. Forward passes in training update them. *count of them, owned by
 * the net. */
typedef struct clprune_net_state {
    const char *name;
    clprune_mat mat;
    uint64_t reserved[2]; /* zeros */
} clprune_net_state;
/* The states of a net. */
CLPRUNE_API const clprune_net_state *clprune_net_states(const clprune_net *net, size_t *count);

/* Makes parameter or state `name`, with all that are tied to it, the caller's matrix in place of
 * the net's own, with the values that it has: as large as clprune_net_weight.value or
 * clprune_net_state.mat, apart from all others, such as wrapped memory (clprune/wrap.h), which must
 * belong to the device in each call that reads or writes it. It outlives the net. Before
 * clprune_net_settle, the net takes no memory for it: then the matrix may have any shape of as many
 * elements without gaps, and clprune_net_settle fails for a wrong name, size or overlap; of tied
 * names the last call counts. Later, a buffer of the net's goes once no parameter is in it: before
 * clprune_optimizer_create, which copies clprune_net_params. Ends a pass, as clprune_net_init does.
 * Errors: INVALID_ARGUMENT (no such name, a net of or with desc.weights_of, one that could not be
 * settled, overlap), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_net_use_value(
    clprune_net *net, const char *name, clprune_mat value);

/* Writes initial parameters and states: weights and biases uniform in +-1 / sqrt(inputs), scales 1,
 * shifts 0, ls 0.1, running means 0 and variances 1. The same for the same seed on any device.
 * Blocks. Without it the caller writes all parameters (clprune_net_weight_at): a net's first pass
 * reads an element of each, and fails with INVALID_ARGUMENT if one was never written. */
CLPRUNE_API clprune_status clprune_net_init(clprune_net *net, uint64_t seed);
/* The same, but each parameter, in the order of clprune_net_weight_at and without tied ones, first
 * goes through `fill`: values are the rows * cols floats of weight->value, row by row, in which it
 * changes what it wants. A failure ends the call with its status. */
CLPRUNE_API clprune_status clprune_net_init_with(clprune_net *net, uint64_t seed,
    clprune_status (*fill)(void *user, const clprune_net_weight *weight, float *values),
    void *user);

/* ---- passes ------------------------------------------------------------------------------------
 */

/* The data of an input behind the first, as in clprune_net_data. */
typedef struct clprune_net_input {
    clprune_image_bytes images;
    clprune_mat rows, rows_grad;
    clprune_ints tokens;
    uint64_t reserved[2]; /* zeros */
} clprune_net_input;

/* The data of a step. Zero-initialise it, then set the fields that you need. It must not change
 * until the backward pass is enqueued, which fails if fields have.
 *
 * Passes do not wait for labels and tokens, which the device alone reads. If one is out of range,
 * loss and gradients are NaN, and the next clprune_mat_read of the context, such as that of the
 * loss, fails with INVALID_ARGUMENT and a text that has its number and value; a backward pass after
 * that is refused. */
typedef struct clprune_net_data {
    size_t batch;               /* samples, at most as in the desc */
    clprune_image_bytes images; /* of a net with clprune_net_images */
    clprune_mat rows;           /* of a net with clprune_net_rows or _pixels */
    clprune_ints labels; /* batch * rows, for the cross-entropy, or CLPRUNE_IGNORED: the rows of its
                      logits, or of clprune_net_token_loss' x */
    float smoothing;     /* of labels, in [0, 1) */
    clprune_mat targets; /* for a loss of elements: shaped as the output. For the cross-entropy, in
                            place of labels: probabilities of the classes, also of a teacher, as
                            the targets of PyTorch's cross_entropy; without hits and shares */
    bool add;            /* gradients are added to those of the pass before, if desc.adds */
    float scale;         /* gradients are those of scale * the sum of the losses; 0: 1 / batch;
                            finite, may be negative. For the mean over several passes (add): 1 /
                            samples of all; with CLPRUNE_IGNORED: labels of the pass that count /
                            those of all passes / batch, with class_weights sums of their weights */
    clprune_ints tokens; /* batch * rows, of a net with clprune_net_tokens */
    clprune_ints lengths;    /* batch, or none: attention sees the first so many rows of each sample
                          (clprune/attention.h) */
    clprune_mat output_grad; /* for clprune_net_custom_loss, in clprune_net_backward: shaped as the
                                output, or the matrix of clprune_net_output, written in its place.
                                Taken as it is: scale does not apply */
    cl_event *event;         /* NULL, or where each pass puts an event of its last command, which
                                the caller releases; valid only after success */
    size_t first; /* with desc.rows_at_once: of each sample's rows the pass makes those from `first`
                     on. Earlier passes have made the rows before, with the parameters as they are;
                     rows from `first` on are made anew. rows, tokens, labels and the output then
                     have rows_at_once rows a sample */
    /* With shares, batch * rows x 1, each in [0, 1], the cross-entropy of a row is share * that of
     * its label + (1 - share) * that of its other label, as mixup and CutMix need (1710.09412,
     * 1905.04899); its hit is that of the label. Not for clprune_net_token_loss. */
    clprune_ints other_labels; /* as many as labels, all in range */
    clprune_mat shares;        /* CLPRUNE_NO_MAT: the labels alone */
    /* batch * rows, or none: several sequences in a sample, which causal attention keeps apart:
     * each row has the number of the first row of its own (clprune/attention.h). Rotary positions
     * may go on from one to the next; layers of learned positions take none, nor does rows_at_once.
     */
    clprune_ints starts;
    const clprune_net_input *more; /* of the inputs behind the first, in their order */
    size_t more_count;
    clprune_mat rows_grad; /* of a first input with clprune_net_want_grad: shaped as rows, and apart
                              from them; CLPRUNE_NO_MAT: not wanted in this pass */
    /* Weights, or CLPRUNE_NO_MAT; not for clprune_net_custom_loss.
     * weights: batch x 1, times the loss of each sample and its gradient; hits do not change.
     * class_weights: 1 x classes, times the target of each class, as PyTorch's
     * CrossEntropyLoss(weight): the mean over the batch is divided by the sum of the weights of the
     * labels, in place of their number; not with shares. Of a loss of elements 1 x the columns of
     * the output, times the loss of each element, and the mean is over all elements, as
     * BCEWithLogitsLoss(weight).
     * positive_weights: of clprune_net_binary_cross_entropy, 1 x columns: the loss of targets of 1
     * is times this, as BCEWithLogitsLoss(pos_weight). */
    clprune_mat weights, class_weights, positive_weights;
    uint64_t reserved[2]; /* zeros */
} clprune_net_data;

/* The seed of what the next forward pass in training draws: sampled blocks, stochastic rounding,
 * dropout. The first one's is 0 unless set, and later ones' follow from the one before. */
CLPRUNE_API void clprune_net_set_seed(clprune_net *net, uint64_t seed);

/* Makes later passes tell `tell` which layer is about to run; backward passes name the last layer
 * of a part of the net, such as a block, that runs at once. NULL ends that. */
CLPRUNE_API void clprune_net_watch(
    clprune_net *net, void (*tell)(void *user, bool backward, const char *layer), void *user);

/* Makes later passes look at each number that a layer reads or writes, parameters and their
 * gradients included: a pass fails with NOT_FINITE at the first NaN or infinity, and the last error
 * names layer, pass and tensor, how many there are, and where the first one is. It reads all of it
 * to the host, so such a pass takes many times as long. */
CLPRUNE_API void clprune_net_check_finite(clprune_net *net, bool check);

/* Makes backward passes call `ready` as soon as gradients, those of a block, say, are complete,
 * once what computes them is enqueued. `grads` is a row that has them: a part of the buffer of all
 * gradients, each gradient in one part; or with desc.drops_grads a whole buffer, which is gone
 * after the call, so the call enqueues what reads it, such as clprune_optimizer_update. A failure
 * ends the pass with its status. NULL ends that. Not with desc.adds. */
CLPRUNE_API void clprune_net_on_grads(
    clprune_net *net, clprune_status (*ready)(void *user, clprune_mat grads), void *user);

/* Batch norms over the samples of several nets, such as those of processes that train one model.
 * Both functions are called, layer by layer in the same order on all nets, once what computes their
 * matrices is enqueued, and enqueue, or wait and then write, what takes their place. A failure ends
 * the pass with its status. */
typedef struct clprune_net_statistics {
    /* In forward passes of training: the means and the sums of squared deviations from them of
     * *rows rows, 1 x C each (clprune_batch_norm_moments), become those of all nets' rows, and
     * *rows their number. */
    clprune_status (*moments)(void *user, clprune_mat mean, clprune_mat m2, size_t *rows);
    /* In backward passes: sums, 2 x C (clprune_batch_norm_backward_sums), become the sums over all
     * nets. The gradients of gamma and beta stay those of a net's own rows. */
    clprune_status (*sums)(void *user, clprune_mat sums);
    void *user;
} clprune_net_statistics;

/* For nets with desc.shares_statistics. statistics is copied; NULL ends it: each net is alone. */
CLPRUNE_API void clprune_net_on_statistics(
    clprune_net *net, const clprune_net_statistics *statistics);

/* Calls `visit` for each part of the gradients of which clprune_net_on_grads tells, in the order in
 * which it does, without a pass; a failure ends it with its status. Errors: INVALID_ARGUMENT (not
 * settled; drops_grads or adds). */
CLPRUNE_API clprune_status clprune_net_visit_grads(
    const clprune_net *net, clprune_status (*visit)(void *user, clprune_mat part), void *user);

/* Runs the layers. With `training`, keeps what the backward pass needs. */
CLPRUNE_API clprune_status clprune_net_forward(
    clprune_net *net, const clprune_net_data *data, bool training);

/* The value of the loss, or else of the last layer, after a forward pass: (batch * rows) x cols;
 * owned by the net. clprune_net_backward overwrites it, and so does clprune_net_loss in training
 * with clprune_net_token_loss. */
CLPRUNE_API clprune_mat clprune_net_output(const clprune_net *net, size_t batch);

/* With clprune_net_token_loss: the logits of row `row` of each sample, batch x vocabulary, after a
 * forward pass of as many samples. Errors: INVALID_ARGUMENT (another loss, or the output has been
 * overwritten), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_net_logits(
    clprune_net *net, size_t batch, size_t row, clprune_mat logits, cl_event *event);

/* loss: batch x 1; hit: batch x 1 or CLPRUNE_NO_MAT, 1 where the prediction is right, or the share
 * of rows where it is; CLPRUNE_NO_MAT for losses with targets. The loss of several rows is their
 * mean. Rows whose label is CLPRUNE_IGNORED do not count, and the others weigh the same in the
 * whole batch, so the mean of the losses is PyTorch's (clprune/token_loss.h). */
CLPRUNE_API clprune_status clprune_net_loss(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit);

/* Writes the gradient of the loss to each parameter's grad, after clprune_net_loss: of its mean
 * over the batch, unless data->scale is set; or of the caller's loss. */
CLPRUNE_API clprune_status clprune_net_backward(clprune_net *net, const clprune_net_data *data);

#ifdef __cplusplus
}
#endif
#endif
