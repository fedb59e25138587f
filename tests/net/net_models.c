#include "net/net_models.h"

#include "clprune/cross_entropy.h"

/* ---- models ---------------------------------------------------------------------------------- */

static const char *numbered(const char *name, unsigned i)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s%u", name, i);
    return text;
}

/* Two blocks, in which a value goes to the sum and to an affine. */
static void build_resmlp(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_patch_embed(net, "stem.proj", x, 4, 32);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, numbered("blocks.", i));
        clprune_net_value t = clprune_net_affine(net, "norm1", x);
        t = clprune_net_linear_rows(net, "linear_tokens", t, 9);
        x = clprune_net_layerscale(net, "ls1", x, t);
        t = clprune_net_affine(net, "norm2", x);
        t = clprune_net_gelu(net, "mlp.gelu", clprune_net_linear(net, "mlp.fc1", t, 64));
        t = clprune_net_linear(net, "mlp.fc2", t, 32);
        x = clprune_net_layerscale(net, "ls2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "pool", clprune_net_affine(net, "norm", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static clprune_net_value conv(clprune_net *net, const char *name, clprune_net_value x, size_t out,
    size_t kernel, size_t stride)
{
    const clprune_net_conv desc = {.out = out,
        .kernel = {kernel, kernel},
        .stride = {stride, stride},
        .padding = {kernel / 2, kernel / 2}};
    return clprune_net_conv2d(net, name, x, &desc);
}

static clprune_net_value block(
    clprune_net *net, unsigned i, clprune_net_value x, size_t out, size_t stride)
{
    clprune_net_part(net, numbered("layer.", i));
    clprune_net_value t = clprune_net_batch_norm(net, "bn1", conv(net, "conv1", x, out, 3, stride));
    t = conv(net, "conv2", clprune_net_relu(net, "relu1", t), out, 3, 1);
    t = clprune_net_batch_norm(net, "bn2", t);
    if (stride > 1)
        x = clprune_net_batch_norm(
            net, "downsample.1", conv(net, "downsample.0", x, out, 1, stride));
    return clprune_net_relu(net, "out", clprune_net_add(net, "add", t, x));
}

static void build_resnet(clprune_net *net, const net_model *model)
{
    const clprune_max_pool_desc pool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_batch_norm(net, "bn1", conv(net, "conv1", x, 16, 3, 1));
    x = clprune_net_max_pool(net, "maxpool", clprune_net_relu(net, "relu", x), &pool);
    x = block(net, 1, x, 16, 1);
    x = block(net, 2, x, 32, 2);
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "avgpool", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "fc", x, NET_CLASSES));
}

/* Depthwise convolutions between 1 x 1 ones, groups, and squeeze-and-excitation. */
static void build_mobilenet(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_relu(
        net, "relu", clprune_net_batch_norm(net, "bn", conv(net, "conv", x, 16, 3, 1)));
    for (unsigned i = 1; i <= 2; i++) {
        const clprune_net_conv depthwise = {.out = 32,
            .kernel = {2 * i + 1, 2 * i + 1},
            .stride = {i, i},
            .padding = {i, i},
            .groups = i == 1 ? 32 : 8,
            .bias = i == 2};
        clprune_net_part(net, numbered("block", i));
        clprune_net_value t = clprune_net_batch_norm(net, "bn1", conv(net, "conv1", x, 32, 1, 1));
        t = clprune_net_conv2d(net, "conv2", clprune_net_relu(net, "relu1", t), &depthwise);
        t = clprune_net_batch_norm(net, "bn2", t);
        if (i == 1) {
            t = clprune_net_relu6(net, "relu2", t);
        } else { /* between the corners of hard swish, where its slope would jump with rounding */
            t = clprune_net_hard_swish(net, "swish", clprune_net_scale(net, "scale", t, 0.5f));
            clprune_net_value g =
                clprune_net_linear(net, "fc1", clprune_net_mean(net, "pool", t), 8);
            g = clprune_net_linear(net, "fc2", clprune_net_silu(net, "silu", g), 32);
            t = clprune_net_gate(net, "gate", t, clprune_net_sigmoid(net, "sigmoid", g));
        }
        t = clprune_net_batch_norm(net, "bn3", conv(net, "conv3", t, 16, 1, 1));
        x = i == 1 ? clprune_net_add(net, "add", x, clprune_net_drop_path(net, "path", t, 0.4f))
                   : t;
    }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "avgpool", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "fc", x, NET_CLASSES));
}

static void add_vgg(clprune_net *net, size_t side, size_t width)
{
    clprune_net_value x = clprune_net_images(net, 3, side, side);
    for (unsigned i = 1; i <= 2; i++) {
        const clprune_net_conv desc = {
            .out = width * i, .kernel = {3, 3}, .padding = {1, 1}, .bias = true};
        x = clprune_net_conv2d(net, numbered("conv", i), x, &desc);
        x = clprune_net_relu(net, numbered("relu", i), x);
        x = clprune_net_max_pool(
            net, numbered("pool", i), x, &(clprune_max_pool_desc){.kernel = {2, 2}});
    }
    if (side > NET_SIDE)
        x = clprune_net_mean(net, "mean", x);
    x = clprune_net_linear(net, "fc1", clprune_net_flatten(net, "flatten", x), 32);
    x = clprune_net_relu(net, "relu3", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "fc2", x, NET_CLASSES));
}

static void build_vgg(clprune_net *net, const net_model *model)
{
    add_vgg(net, model->cols, 16);
}

static void build_mlp(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_relu(net, "relu", clprune_net_linear(net, "fc1", x, 64));
    x = clprune_net_linear(net, "fc2", clprune_net_dropout(net, "drop1", x, 0.25f), 32);
    x = clprune_net_dropout(net, "drop2", clprune_net_gelu(net, "gelu", x), 0.5f);
    x = clprune_net_linear(net, "fc3", clprune_net_flatten(net, "flatten", x), model->target_cols);
    clprune_net_mean_squared_error(net, x);
}

/* A block of a transformer, with keys that two heads share and dropout, and one that sees all rows.
 */
static void build_transformer(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_linear(net, "in", x, 24);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, numbered("h.", i));
        const clprune_net_attn attn = {
            .heads = 2, .kv_heads = i == 0 ? 1 : 0, .causal = i == 0, .rate = i == 0 ? 0.2f : 0};
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = i == 0 ? clprune_net_project(net, "attn.c_attn", t, 48)
                   : clprune_net_linear(net, "attn.c_attn", t, 72);
        t = clprune_net_attention(net, "attn.core", t, &attn);
        x = clprune_net_add(net, "add_1", x, clprune_net_linear(net, "attn.c_proj", t, 24));
        t = clprune_net_linear(net, "mlp.c_fc", clprune_net_layer_norm(net, "ln_2", x), 96);
        t = clprune_net_linear(net, "mlp.c_proj", clprune_net_gelu(net, "mlp.act", t), 24);
        x = clprune_net_add(net, "add_2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "ln_f", x);
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
}

/* Fewer rows below; a value goes to three others. */
static void build_unet(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    const clprune_net_value top =
        clprune_net_gelu(net, "gelu1", clprune_net_linear(net, "in", x, 32));
    x = clprune_net_linear_rows(net, "down", top, 4);
    x = clprune_net_gelu(net, "gelu2", clprune_net_linear(net, "middle", x, 32));
    x = clprune_net_linear_rows(net, "up", x, model->rows);
    x = clprune_net_add(net, "skip1", x, clprune_net_scale(net, "half", top, 0.5f));
    x = clprune_net_relu(net, "relu", clprune_net_linear(net, "mix", x, 32));
    x = clprune_net_add(net, "skip2", top, clprune_net_scale(net, "turn", x, -1.5f));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
}

/* Its hidden tensor of a sample has half a MiB elements: the largest chunk is 4 samples. */
static void build_wide_mlp(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_linear(net, "in", x, 16);
    clprune_net_value t = clprune_net_linear(net, "fc1", clprune_net_affine(net, "norm", x), 512);
    t = clprune_net_linear(net, "fc2", clprune_net_gelu(net, "gelu", t), 16);
    x = clprune_net_layerscale(net, "ls", x, t);
    t = clprune_net_linear(net, "fc3", clprune_net_relu(net, "relu", x), 512);
    t = clprune_net_dropout(net, "drop", clprune_net_relu(net, "relu2", t), 0.25f);
    t = clprune_net_linear(net, "fc4", t, 16);
    x = clprune_net_mean(net, "mean", clprune_net_add(net, "add", x, t));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "head", x, model->target_cols));
}

static void build_wide_vgg(clprune_net *net, const net_model *model)
{
    add_vgg(net, model->cols, 32);
}

/* What the ways read is kept as codes, or made from codes by functions that are linear in them. */
static void build_products(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_linear(net, "in", x, 32);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, numbered("block", i));
        clprune_net_value t =
            clprune_net_linear(net, "fc1", clprune_net_affine(net, "norm", x), 64);
        t = clprune_net_linear(net, "fc2", clprune_net_relu(net, "relu", t), 32);
        x = clprune_net_layerscale(net, "ls", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
}

const net_model net_models[NET_MODELS] = {
    {"resmlp", build_resmlp, 0, NET_SIDE, 0, 0, false, false, 0},
    {"resnet", build_resnet, 0, NET_SIDE, 0, 0, true, false, 0},
    {"vgg", build_vgg, 0, NET_SIDE, 0, 0, false, false, 0},
    {"mlp", build_mlp, 9, 32, 1, 8, false, true, 0},
    {"unet", build_unet, 8, 32, 8, 8, false, false, 0},
    {"transformer", build_transformer, 11, 16, 11, 8, false, true, 0},
    {"mobilenet", build_mobilenet, 0, NET_SIDE, 0, 0, true, true, 0},
};
const net_model net_wide_mlp = {"wide mlp", build_wide_mlp, 1024, 16, 1, 8, false, true, 0};
const net_model net_wide_vgg = {"wide vgg", build_wide_vgg, 0, 96, 0, 0, false, false, 0};
const net_model net_products = {"products", build_products, 8, 32, 8, 8, false, false, 0};

/* ---- models of tokens ------------------------------------------------------------------------ */

enum { COLS = NET_TOKEN_COLS };

/* Without attention: a linear layer over the rows is in its place. */

static void build_gpt(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "wte", x, NET_VOCABULARY, COLS);
    x = clprune_net_positions(net, "wpe", x);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "h.0" : "h.1");
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = clprune_net_linear_rows(net, "mix", t, model->rows);
        x = clprune_net_add(net, "add_1", x, t);
        t = clprune_net_linear(net, "fc1", clprune_net_layer_norm(net, "ln_2", x), 64);
        t = clprune_net_gelu_tanh(net, "gelu", t);
        t = clprune_net_linear(net, "fc2", t, COLS);
        x = clprune_net_add(net, "add_2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "ln_f", x);
    if (model->seed == NET_LOGITS) {
        clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_VOCABULARY));
        return;
    }
    clprune_net_token_loss(net, "head", x, NET_VOCABULARY);
    if (model->seed == NET_TIED)
        clprune_net_tie(net, "head.weight", "wte.weight");
    else if (model->seed == NET_TIED_BACK)
        clprune_net_tie(net, "wte.weight", "head.weight");
}

/* Patches, a class token and positions; the head reads the class token's row. */
static void build_vit(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_patch_embed(net, "patches", x, 4, COLS);
    x = clprune_net_positions(net, "pos_embed", clprune_net_class_token(net, "cls_token", x));
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "blocks.0" : "blocks.1");
        clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
        x = clprune_net_add(net, "add1", x, clprune_net_linear_rows(net, "mix", t, 10));
        t = clprune_net_linear(net, "fc1", clprune_net_layer_norm(net, "norm2", x), 64);
        t = clprune_net_linear(net, "fc2", clprune_net_silu(net, "silu", t), COLS);
        x = clprune_net_add(net, "add2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_row(net, "cls", clprune_net_layer_norm(net, "norm", x), 0);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

/* Without attention: its place has a layer over the turned queries, keys and values. */
static void build_llama(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "embed_tokens", x, NET_VOCABULARY, COLS);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "layers.0" : "layers.1");
        clprune_net_value t = clprune_net_rms_norm(net, "input_layernorm", x);
        t = clprune_net_head_norm(net, "q_norm", clprune_net_linear(net, "qkv", t, 48), 0, 4, 8);
        t = clprune_net_rotary(
            net, "rotary", clprune_net_head_norm(net, "k_norm", t, 32, 1, 8), 4, 1, 6, 1e4f, false);
        t = clprune_net_linear(net, "o", clprune_net_linear_rows(net, "mix", t, model->rows), COLS);
        x = clprune_net_add(net, "add1", x, t);
        t = clprune_net_linear(net, "up", clprune_net_rms_norm(net, "post_norm", x), 80);
        t = clprune_net_linear(net, "down", clprune_net_swiglu(net, "swiglu", t), COLS);
        x = clprune_net_add(net, "add2", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_token_loss(net, "lm_head", clprune_net_rms_norm(net, "norm", x), NET_VOCABULARY);
}

/* Scaled embeddings, positions by frequencies and by angles, a gate of GELU, biased and capped
 * logits. */
static void build_gemma(clprune_net *net, const net_model *model)
{
    static const double frequencies[] = {1, 0.3, 0.01};
    float angles[NET_TOKENS][3];
    for (size_t i = 0; i < NET_TOKENS * 3; i++)
        angles[i / 3][i % 3] = (float)(i * i % 7) - 3;
    const clprune_net_angles by[] = {{.pairs = 3, .frequencies = frequencies, .factor = 1.25f},
        {.pairs = 3, .angles = angles[0], .adjacent = true}};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "embed_tokens", x, NET_VOCABULARY, COLS);
    x = clprune_net_scale(net, "scale", x, 5.5f);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "layers.0" : "layers.1");
        clprune_net_value t = clprune_net_rms_norm(net, "norm1", x);
        t = clprune_net_rotary_by(
            net, "rotary", clprune_net_project(net, "qkv", t, 48), 4, 1, &by[i]);
        t = clprune_net_linear(net, "o", clprune_net_linear_rows(net, "mix", t, model->rows), COLS);
        x = clprune_net_add(net, "add1", x, clprune_net_rms_norm(net, "norm2", t));
        t = clprune_net_project(net, "up", clprune_net_rms_norm(net, "norm3", x), 80);
        t = clprune_net_glu(net, "glu", t, CLPRUNE_ACTIVATION_GELU_TANH);
        t = clprune_net_rms_norm(net, "norm4", clprune_net_project(net, "down", t, COLS));
        x = clprune_net_add(net, "add2", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_token_loss(net, "lm_head", clprune_net_rms_norm(net, "norm", x), NET_VOCABULARY);
    clprune_net_bias_logits(net);
    clprune_net_cap_logits(net, 2);
}

/* Norms behind the sums; a table of more positions, and a row of another for all tokens. */
static void build_bert(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "word", x, NET_VOCABULARY, COLS);
    x = clprune_net_positions_of(net, "type", x, 0, 1, 2);
    x = clprune_net_positions_of(net, "position", x, 2, model->rows, model->rows + 3);
    x = clprune_net_layer_norm(net, "norm", x);
    for (unsigned i = 0; i < 2; i++) {
        const clprune_net_attn attn = {.heads = 4, .kv_heads = 2, .queries = i};
        clprune_net_part(net, i == 0 ? "layer.0" : "layer.1");
        clprune_net_value t = clprune_net_linear(net, "qkv", x, 2 * COLS);
        t = clprune_net_linear(net, "dense", clprune_net_attention(net, "attn", t, &attn), COLS);
        x = i == 1 ? clprune_net_row(net, "first", x, 0) : x;
        x = clprune_net_layer_norm(net, "norm1", clprune_net_add(net, "sum1", x, t));
        t = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc1", x, 64));
        t = clprune_net_linear(net, "fc2", t, COLS);
        x = clprune_net_layer_norm(net, "norm2", clprune_net_add(net, "sum2", x, t));
    }
    clprune_net_part(net, NULL);
    x = clprune_net_tanh(net, "tanh", clprune_net_linear(net, "pooler", x, COLS));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

const net_model net_token_models[NET_TOKEN_MODELS] = {
    {"vit", build_vit, 0, NET_SIDE, 0, 0, false, false, 0},
    {"head", build_gpt, NET_TOKENS, 0, NET_TOKENS, 0, false, false, NET_HEAD},
    {"tied head", build_gpt, NET_TOKENS, 0, NET_TOKENS, 0, false, false, NET_TIED},
    {"tied embedding", build_gpt, NET_TOKENS, 0, NET_TOKENS, 0, false, false, NET_TIED_BACK},
    {"logits", build_gpt, NET_TOKENS, 0, NET_TOKENS, 0, false, false, NET_LOGITS},
    {"llama", build_llama, NET_TOKENS, 0, NET_TOKENS, 0, false, false, 0},
    {"bert", build_bert, NET_TOKENS, 0, 0, 0, false, false, 0},
    {"gemma", build_gemma, NET_TOKENS, 0, NET_TOKENS, 0, false, false, NET_GEMMA}};
