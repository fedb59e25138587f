/* BERT (Devlin et al., arXiv 1810.04805) that classifies sentences, with the names of transformers'
 * BertForSequenceClassification; its q, k and v are one matrix here:
 *
 *     tokens -> word + token type + position -> norm
 *       -> depth blocks { x = norm(x + dense(attention(qkv x)));
 *                         x = norm(x + dense(gelu(intermediate x))) }
 *       -> the first token -> tanh(pooler) -> classifier
 *
 * All tokens are of token type 0. Attention sees the tokens of a sentence, without the padding
 * behind them. Only the first token is read at the end, so the last block computes only that row of
 * all but its keys and values. */
#include "bert_model.h"

#include <stdio.h>
#include <string.h>

#include "trainer/model/net_split.h"

enum { TOKEN_TYPES = 2 };
enum { CONTEXT, CLASSES }; /* of the extras */

static const char *const names[] = {"bert_micro", "minilm_l6", "bert_base", NULL};
const bert_arch bert_archs[] = {
    {64, 2, 4, 256, 128, 1000},
    {384, 6, 12, 1536, 512, 30522},
    {768, 12, 12, 3072, 512, 30522},
};

/* The parts of attention.self.qkv. */
static const char *const qkv[] = {"query", "key", "value"};

static clprune_net_value dropped(
    clprune_net *net, const char *name, clprune_net_value x, float dropout)
{
    return dropout > 0 ? clprune_net_dropout(net, name, x, dropout) : x;
}

static clprune_net_value add_block(
    clprune_net *net, const bert_arch *a, clprune_net_value x, bool first_only, float dropout)
{
    const clprune_net_attn attn = {
        .heads = a->heads, .queries = first_only ? 1 : 0, .rate = dropout};
    const clprune_net_linear_part parts[] = {{qkv[0], a->dim}, {qkv[1], a->dim}, {qkv[2], a->dim}};
    clprune_net_value t = clprune_net_linears(net, "attention.self.qkv", x, parts, 3, true);
    t = clprune_net_attention(net, "attention.self", t, &attn);
    t = clprune_net_linear(net, "attention.output.dense", t, a->dim);
    t = dropped(net, "attention.output.dropout", t, dropout);
    if (first_only)
        x = clprune_net_row(net, "first", x, 0);
    x = clprune_net_add(net, "attention.output.sum", x, t);
    x = clprune_net_layer_norm(net, "attention.output.LayerNorm", x);
    t = clprune_net_linear(net, "intermediate.dense", x, a->hidden);
    t = clprune_net_linear(
        net, "output.dense", clprune_net_gelu(net, "intermediate.act", t), a->dim);
    t = dropped(net, "output.dropout", t, dropout);
    return clprune_net_layer_norm(
        net, "output.LayerNorm", clprune_net_add(net, "output.sum", x, t));
}

clprune_net_value bert_encode(
    const bert_arch *arch, size_t context, bool first_only, float dropout, clprune_net *net)
{
    clprune_net_eps(net, 1e-12f);
    clprune_net_part(net, "bert.embeddings");
    clprune_net_value x = clprune_net_tokens(net, context);
    x = clprune_net_embedding(net, "word_embeddings", x, arch->vocabulary, arch->dim);
    x = clprune_net_positions_of(net, "token_type_embeddings.weight", x, 0, 1, TOKEN_TYPES);
    x = clprune_net_positions_of(net, "position_embeddings.weight", x, 0, context, arch->positions);
    x = dropped(net, "dropout", clprune_net_layer_norm(net, "LayerNorm", x), dropout);
    for (size_t i = 0; i < arch->depth; ++i) {
        char part[48];
        (void)snprintf(part, sizeof part, "bert.encoder.layer.%zu", i);
        clprune_net_part(net, part);
        x = add_block(net, arch, x, first_only && i + 1 == arch->depth, dropout);
    }
    clprune_net_part(net, NULL);
    return x;
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const bert_arch *a = &bert_archs[sizes->arch];
    clprune_net_value x = bert_encode(a, sizes->context, true, sizes->dropout, net);
    x = clprune_net_linear(net, "bert.pooler.dense", x, a->dim);
    x = clprune_net_tanh(net, "bert.pooler.act", x);
    x = dropped(net, "dropout", x, sizes->dropout);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "classifier", x, sizes->labels));
}

/* As transformers: matrices normal with deviation 0.02, biases 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank > 1)
        return 0.02 * rng_normal(r);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

static size_t in_files(const trainer_sizes *sizes, trainer_weight *pieces)
{
    const size_t dim = bert_archs[sizes->arch].dim;
    return net_split(pieces, "qkv", (size_t[]){dim, dim, dim}, qkv, 3);
}

/* The names of BertModel. */
static const char *const renames[][2] = {{"bert.", ""}, {NULL, NULL}};

static const char *settle(trainer_sizes *sizes)
{
    const bert_arch *usual = &bert_archs[sizes->arch];
    net_model_usual(sizes, 0, usual->vocabulary, 64);
    if (sizes->extra[CLASSES] == 0)
        sizes->extra[CLASSES] = 2;
    sizes->context = (size_t)sizes->extra[CONTEXT];
    sizes->labels = (size_t)sizes->extra[CLASSES];
    sizes->tables[0] = "bert.embeddings.word_embeddings.weight";
    if (sizes->context > usual->positions)
        return "the context is longer than the architecture's positions";
    return NULL;
}

static const trainer_extra extras[] = {
    {"context", "context", 1, 512, "tokens of a sentence, at most; default 64"},
    {"classes", "classes", 2, 1000, "number of labels; default 2"}};

static const char *const defaults[][2] = {{"batch-size", "32"}, {"lr", "0.001"},
    {"weight-decay", "0.01"}, {"warmup-epochs", "0.1"}, {"label-smoothing", "0"},
    {"clip-norm", "1"}, {NULL, NULL}};

const trainer_model bert_model = {
    .program = "bert-train",
    .about =
        "Trains a BERT to classify sentences, on any OpenCL device. The activations that the\n"
        "backward pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 0, /* bert_micro */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .tokens = true,
    .labelled = true,
    .defaults = defaults,
    .renames = renames,
    .settle = settle,
    .build = build,
    .draw = draw,
    .in_files = in_files,
};
