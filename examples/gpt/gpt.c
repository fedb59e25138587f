/* GPT-2, GPT-NeoX, Phi and models of Llama's kind (gpt_layers.h): their sizes, initial values and
 * names in files.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gpt_config.h"
#include "gpt_gguf.h"
#include "gpt_layers.h"
#include "trainer/model/net_model.h"
#include "trainer/model/net_split.h"

static const char *const names[] = {"gpt_micro", "gpt_mini", "gpt_nano", "gpt2", "gpt2_medium",
    "gpt2_large", "gpt2_xl", "llama_micro", "smollm2_135m", "tinyllama_1b", "llama2_7b",
    "gemma2_micro", "folder", NULL};
static const gpt_arch archs[] = {
    {128, 4, 4, 128, 256, 0, 0},
    {192, 6, 6, 256, 256, 0, 0},
    {384, 6, 6, 256, 256, 0, 0},
    {768, 12, 12, 1024, 50257, 0, 0},
    {1024, 24, 16, 1024, 50257, 0, 0},
    {1280, 36, 20, 1024, 50257, 0, 0},
    {1600, 48, 25, 1024, 50257, 0, 0},
    {128, 4, 4, 128, 256, 2, 344, {1e4f}},
    {576, 30, 9, 2048, 49152, 3, 1536, {1e5f}},
    {2048, 22, 32, 2048, 32000, 4, 5632, {1e4f}, true},
    {4096, 32, 32, 4096, 32000, 32, 11008, {1e4f}, true},
    {128, 4, 4, 128, 256, 2, 344, {1e4f}, .head = 48, .gelu = true, .norms_behind = true, .less = 1,
        .embedding = 11.3137085f, /* sqrt(128) */
        .cap = 50, .logit_cap = 30},
};

/* --arch folder: of --model, which a process has once. */
enum { FOLDER = sizeof archs / sizeof *archs };
static gpt_arch of_folder;

static const gpt_arch *arch_of(const trainer_sizes *sizes)
{
    return sizes->arch == FOLDER ? &of_folder : &archs[sizes->arch];
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    gpt_layers_add(net, arch_of(sizes), sizes->context, sizes->classes, sizes->dropout);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), most = strlen(end);
    return length >= most && strcmp(name + length - most, end) == 0;
}

/* As GPT-2: weights normal with deviation 0.02, those that end a branch with 0.02 / sqrt(2 depth),
 * so that the sum over all branches does not grow with the depth; positions 0.01, biases 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    static const char *const ends[] = {"c_proj.weight", "o_proj.weight", "down_proj.weight",
        "dense.weight", "4h_to_h.weight", "fc2.weight"};
    const double branches = 2.0 * (double)arch_of(sizes)->depth;
    if (weight->rank == 1)
        return weight->inputs == 0 && ends_with(weight->name, ".weight") ? 1 : 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i)
        if (ends_with(weight->name, ends[i]))
            return 0.02 / sqrt(branches) * rng_normal(r);
    return (ends_with(weight->name, "wpe.weight") ? 0.01 : 0.02) * rng_normal(r);
}

/* transformers has the four matrices of a block of GPT-2 as in x out. */
static size_t in_files(const trainer_sizes *sizes, trainer_weight *pieces)
{
    const gpt_arch *a = arch_of(sizes);
    const size_t rows = pieces->shape[0];
    size_t parts[3];
    gpt_qkv_rows(a, parts);
    size_t count = net_split(pieces, "qkv", parts, gpt_qkv, 3);
    if (count == 1)
        count = net_split(pieces, "gate_up", (size_t[]){a->hidden, a->hidden}, gpt_gate_up, 2);
    if (count > 1)
        return count;
    pieces->heads = strstr(pieces->name, ".query_key_value.") != NULL ? a->heads : 0;
    pieces->less = ends_with(pieces->name, "norm.weight") ? a->less : 0;
    pieces->longer = strcmp(pieces->name, "wpe.weight") == 0;
    pieces->transposed = pieces->rank == 2 && strncmp(pieces->name, "h.", 2) == 0;
    if (pieces->transposed) {
        pieces->shape[0] = pieces->shape[1];
        pieces->shape[1] = rows;
    }
    return 1;
}

/* The names of GPT2LMHeadModel and LlamaModel. */
static const char *const renames[][2] = {{"wte.", "transformer.wte."}, {"wpe.", "transformer.wpe."},
    {"h.", "transformer.h."}, {"ln_f.", "transformer.ln_f."}, {"model.", ""}, {NULL, NULL}};

/* Masks of GPT-2 and GPT-NeoX, and the frequencies of rotary positions; of GGUF files only where
 * the model's are scaled, too. */
enum { SCALED = 5 };
static const char *buffers[] = {"*h.*.attn.bias", "*h.*.attn.masked_bias", "*.attention.bias",
    "*.attention.masked_bias", "*.rotary_emb.*", NULL, NULL};

/* Of a folder, or of a GGUF file. */
static const char *read_sizes(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode) ? gpt_gguf_read(path, &of_folder)
                                                              : gpt_config_read(path, &of_folder);
}

static char wrong[128];

static const char *settle(trainer_sizes *sizes)
{
    const char *text = NULL;
    if (sizes->arch == FOLDER)
        text =
            sizes->folder == NULL ? "--arch folder needs --model DIR" : read_sizes(sizes->folder);
    if (text != NULL)
        return text;
    const gpt_arch *usual = arch_of(sizes);
    net_model_usual(sizes, 0, usual->vocabulary, usual->context);
    sizes->context = (size_t)sizes->extra[0];
    sizes->learned = usual->hidden == 0;
    if (usual->most > 0 && sizes->context > usual->most) {
        (void)snprintf(wrong, sizeof wrong,
            "--context is %zu, but its sliding window or its rotary positions end at %zu tokens",
            sizes->context, usual->most);
        return wrong;
    }
    buffers[SCALED] = usual->rotary.factor > 0 ? "model.rope_*" : NULL;
    for (size_t i = 0; i < 2; ++i)
        sizes->tables[i] = gpt_table(usual, i == 1);
    return NULL;
}

static const trainer_extra extras[] = {
    {"context", "context", 1, 65536, "tokens of a sequence; default: the architecture's"}};

static const char *const defaults[][2] = {{"batch-size", "16"}, {"lr", "0.001"},
    {"weight-decay", "0.1"}, {"warmup-epochs", "0.1"}, {"label-smoothing", "0"}, {"clip-norm", "1"},
    {NULL, NULL}};

extern const trainer_model gpt_model;
const trainer_model gpt_model = {
    .program = "gpt-train",
    .about =
        "Trains a GPT, a Llama or a model of its kind (Mistral, Qwen, Phi, Gemma, SmolLM, OLMo,\n"
        "Pythia) on a text or on tokens, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 0, /* gpt_micro */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .tokens = true,
    .defaults = defaults,
    .renames = renames,
    .ggufs = gpt_ggufs,
    .buffers = buffers,
    .settle = settle,
    .build = build,
    .draw = draw,
    .in_files = in_files,
};
