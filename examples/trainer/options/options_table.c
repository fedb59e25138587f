#include "trainer/options/options_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trainer/data/augment/rand_augment.h"
#include "trainer/model/keep_presets.h"

const char *const options_normalise[] = {"data", "imagenet", "half", NULL};
const char *const options_norms[] = {"l2", "l1", "max", NULL};
const char *const options_criteria[] = {"largest", "sampled", "random", NULL};
const char *const options_centres[] = {"no", "yes", "cells", NULL};
const char *const options_values[] = {"fp32", "fp16", "bf16", "int8", NULL};
const char *const options_indices[] = {"int32", "bitmap", "smallest", NULL};
static const char *const options_precisions[] = {"fp32", "tf32", "bf16", NULL};
static const char *const options_gelu_codes[] = {"2", "4", "8", NULL};
static const char *const options_code_bits[] = {"2", "4", "8", "16", NULL};
static const char *const options_groups[] = {"16", "32", "48", "64", "80", "96", "112", "128",
    "144", "160", "176", "192", "208", "224", "240", "256", NULL};
const char *const options_roundings[] = {"stochastic", "nearest", NULL};
const char *const options_rotate[] = {"no", "yes", NULL};
static const char *const options_chat[] = {"no", "yes", NULL};
static const char *const options_packing[] = {"joined", "apart", NULL};
static const char *const options_reduce_bits[] = {"32", "8", NULL};
const char *const options_plan_devices[] = {"own", "h100", "h200", "a100", "rtx4090", NULL};
const char *const options_stores[] = {"fp32", "bf16", NULL};
const char *const options_base_bits[] = {"32", "16", "8", "4", "nf4", NULL};
const char *const options_schedules[] = {"cosine", "step", "linear", NULL};
static const char *const options_borders[] = {"black", "reflect", NULL};
static const char *const options_mirrors[] = {"drawn", "alternate", NULL};
static const char *const options_views[] = {"1", "2", "6", NULL};

const char *const *options_optimizers(void)
{
    static const char *names[OPTIONS_MOST];
    for (size_t i = 0; i + 1 < OPTIONS_MOST; ++i)
        names[i] = clprune_optimizer_describe(i).name;
    return names;
}

#define FIELD(name) offsetof(options, name)

/* The last arguments are the text of --help and, optionally, the option's needs, the programs that
 * have it, and whether ranks must agree: without it they must. Images and tokens may have an option
 * of the same name. */
#define FLAG(name, memory, field, ...)                                                             \
    {                                                                                              \
        name, OPTION_FLAG, memory, FIELD(field), 0, 1, NULL, NULL, __VA_ARGS__                     \
    }
#define TEXT(name, memory, field, value, ...)                                                      \
    {                                                                                              \
        name, OPTION_TEXT, memory, FIELD(field), 0, 0, NULL, value, __VA_ARGS__                    \
    }
#define CHOICE(name, memory, field, choices, value, ...)                                           \
    {                                                                                              \
        name, OPTION_CHOICE, memory, FIELD(field), 0, 0, choices, value, __VA_ARGS__               \
    }
#define COUNT(name, memory, field, low, high, ...)                                                 \
    {                                                                                              \
        name, OPTION_COUNT, memory, FIELD(field), low, high, NULL, "N", __VA_ARGS__                \
    }
#define BYTES(name, memory, field, low, high, ...)                                                 \
    {                                                                                              \
        name, OPTION_BYTES, memory, FIELD(field), low, high, NULL, "BYTES", __VA_ARGS__            \
    }
#define REAL(name, memory, field, low, high, ...)                                                  \
    {                                                                                              \
        name, OPTION_REAL, memory, FIELD(field), low, high, NULL, "X", __VA_ARGS__                 \
    }
#define BLOCK(name, memory, field, ...)                                                            \
    {                                                                                              \
        name, OPTION_BLOCK, memory, FIELD(field), 0, 0, NULL, "SHAPE", __VA_ARGS__                 \
    }

/* 2^53 - 1: JSON readers with only doubles would round larger seeds. */
#define EXACT 9007199254740991.0

#define LESS_THAN_ONE 0.999999

/* The model's own options come after the second row. */
static const option_row rows[] = {
    CHOICE("arch", OPTION_MATCH, arch, NULL, "NAME", NULL),
    TEXT("model", OPTION_MATCH, model_folder, "DIR|FILE",
        "a folder of transformers or a GGUF file, in place of --arch: its sizes, if it is of a "
        "kind "
        "that the program has, and unless --import names others its weights",
        NEEDS_NOTHING, OF_TEXTS, RANKS_PLACE),
    COUNT("image-size", OPTION_MATCH, image_size, 1, 4096,
        "pixels per side; default: the architecture's, or the data's", NEEDS_NOTHING, OF_IMAGES),
    COUNT("classes", OPTION_MATCH, classes, 1, 1048576,
        "number of classes; default: the architecture's, or the data's", NEEDS_NOTHING, OF_IMAGES),
    TEXT("data", OPTION_TAKE, data, "generated|DIR",
        "\"generated\" (the default), or a folder with CIFAR-10 or CIFAR-100, binary version, with "
        "IDX "
        "files (MNIST), or with train/CLASS/*.jpg and val/CLASS/*.jpg (ImageNet)",
        NEEDS_NOTHING, OF_IMAGES, RANKS_PLACE),
    TEXT("data", OPTION_TAKE, data, "generated|FILE|DIR",
        "\"generated\" (the default); a text, or NAME.jsonl with lines of \"text\", of "
        "\"messages\", or of \"prompt\" and \"completion\", whose tokens are those of --model's "
        "vocabulary, or its "
        "bytes for models of 256; a file NAME.bin of tokens, as nanoGPT or llm.c write them; or a "
        "folder with train.bin or train.txt. Tests are on the file with val in place of train in "
        "its name, else on the last "
        "tenth",
        NEEDS_NOTHING, OF_TEXTS, RANKS_PLACE),
    TEXT("data", OPTION_TAKE, data, "generated|FILE|DIR",
        "\"generated\" (the default); a file NAME.bin of labelled sentences, each its label, its "
        "number of tokens and the tokens; or a folder with train.bin. Tests are on the file with "
        "val in place of train in its name, else on one of each ten sentences, drawn over the file",
        NEEDS_NOTHING, OF_SENTENCES, RANKS_PLACE),
    FLAG("skip-broken", OPTION_TAKE, skip_broken,
        "replace a JPEG or PNG file that cannot be read by the next one; name and count them",
        NEEDS_NOTHING, OF_IMAGES),
    COUNT("train-limit", OPTION_MATCH, train_limit, 1, 2147483647,
        "number of training images; default: all, or 8000 generated ones", NEEDS_NOTHING,
        OF_IMAGES),
    COUNT("test-limit", OPTION_TAKE, test_limit, 1, 2147483647,
        "number of test images; default: all, or 2000 generated ones", NEEDS_NOTHING, OF_IMAGES),
    FLAG("no-augment", OPTION_MATCH, no_augment, "no random crop and mirror", NEEDS_NOTHING,
        OF_IMAGES),
    COUNT("shift", OPTION_MATCH, shift, 1, 4095,
        "pixels that an image is moved by in training, at most, of images of CIFAR, IDX and "
        "generated; default an eighth of a side",
        NEEDS_NOTHING, OF_IMAGES),
    CHOICE("border", OPTION_MATCH, border, options_borders, "NAME",
        "what moves in with them: black (the default) or reflect, the image reflected",
        NEEDS_NOTHING, OF_IMAGES),
    CHOICE("mirror", OPTION_MATCH, mirror, options_mirrors, "NAME",
        "drawn (the default): mirror half of the images of each epoch; alternate: of the first, "
        "and of each later one those that the one before did not",
        NEEDS_NOTHING, OF_IMAGES),
    COUNT("rand-augment", OPTION_MATCH, rand_augment, 0, RAND_AUGMENT_MOST,
        "in training, change each image by two of 14 operations of magnitude N, drawn "
        "(RandAugment, arXiv 1909.13719); usual is 9; default 0: do not",
        NEEDS_NOTHING, OF_IMAGES),
    REAL("erase", OPTION_MATCH, erase, 0, 1,
        "in training, set a random rectangle of 2 to 33 % of an image to the mean with probability "
        "X (random erasing, arXiv 1708.04896); default 0",
        NEEDS_NOTHING, OF_IMAGES),
    REAL("mixup", OPTION_MATCH, mixup, 0, 1000,
        "in training, mix each image and its label with another one's, by a share drawn from "
        "Beta(X, X) (arXiv 1710.09412); default 0: do not",
        NEEDS_NOTHING, OF_IMAGES),
    REAL("cutmix", OPTION_MATCH, cutmix, 0, 1000,
        "the same with a rectangle of the other image (CutMix, arXiv 1905.04899); with both, half "
        "of the images have either; default 0",
        NEEDS_NOTHING, OF_IMAGES),
    CHOICE("views", OPTION_TAKE, views, options_views, "N",
        "views of a test image whose logits are averaged: 1 (the default); 2, with its mirror "
        "image; or 6, also moved by a pixel up and left, and down and right",
        NEEDS_NOTHING, OF_IMAGES),
    CHOICE("normalise", OPTION_MATCH, normalise, options_normalise, "NAME",
        "mean and deviation that images are normalised with: data (the default), the data's, or "
        "ImageNet's for folders of train/CLASS/*.jpg; imagenet; or half, 0.5 and 0.5, as timm's "
        "ViTs (augreg) and Mixers were trained with",
        NEEDS_NOTHING, OF_IMAGES),
    COUNT("train-limit", OPTION_MATCH, train_limit, 1, 2147483647,
        "number of training sequences; default: all, or 8000 generated ones", NEEDS_NOTHING,
        OF_TOKENS),
    COUNT("test-limit", OPTION_TAKE, test_limit, 1, 2147483647,
        "number of test sequences; default: all, or 2000 generated ones", NEEDS_NOTHING, OF_TOKENS),
    FLAG("no-augment", OPTION_MATCH, no_augment, "sequences begin at the same tokens in each epoch",
        NEEDS_NOTHING, OF_TEXTS),
    CHOICE("activations", OPTION_MATCH, activations, NULL, "PRESET", NULL),
    REAL("sparsity", OPTION_MATCH, sparsity, 0, 1,
        "fraction of the blocks that is pruned, 0 to 1; default 0.5", NEEDS_PRUNING),
    BLOCK("block", OPTION_MATCH, block,
        "shape of the blocks that are pruned: 16 or 1x16 (the default), 4x4, ...",
        NEEDS_PRUNING_OR_FILE),
    CHOICE("norm", OPTION_MATCH, norm, options_norms, "NAME",
        "norm that ranks blocks: l2 (the default), l1 or max", NEEDS_PRUNING_OR_FILE),
    CHOICE("criterion", OPTION_MATCH, criterion, options_criteria, "NAME",
        "sampled: draw the kept blocks at random and weight them, so that the "
        "expected weight gradients are the dense ones; random: the same with equal probabilities; "
        "largest: keep the blocks of largest norm; default: the preset's",
        NEEDS_PRUNING_OR_FILE),
    CHOICE("centre", OPTION_MATCH, centre, options_centres, "NAME",
        "prune what is left of a tensor after the mean of each sample's rows (yes) or of cells "
        "of --pool x --pool pixels (cells), which are kept, too; no: all of it; default: the "
        "preset's",
        NEEDS_PRUNING_OR_FILE),
    CHOICE("values", OPTION_MATCH, values, options_values, "TYPE",
        "number format of kept blocks: fp32 (the default), fp16 (up to 65504), bf16, or int8 with "
        "one scale per block",
        NEEDS_PRUNING),
    CHOICE("indices", OPTION_TAKE, indices, options_indices, "TYPE",
        "index format of kept blocks: int32, bitmap, or smallest, the one with fewer bytes; the "
        "preset has the default; results are the same bits",
        NEEDS_PRUNING),
    CHOICE("gelu-code", OPTION_MATCH, gelu_code, options_gelu_codes, "BITS",
        "bits per element for GELU's derivative: 2 (the default), 4 or 8", NEEDS_CODES),
    CHOICE("code-bits", OPTION_MATCH, code_bits, options_code_bits, "BITS",
        "bits per element of quantised tensors: 2, 4 (the default), 8, or 16 for bf16",
        NEEDS_QUANTISING_OR_FILE),
    CHOICE("group", OPTION_MATCH, group, options_groups, "N",
        "columns of quantised tensors that share a scale and a zero: a multiple of 16, 16 to 256; "
        "default 64",
        NEEDS_QUANTISING_OR_FILE),
    CHOICE("rounding", OPTION_MATCH, rounding, options_roundings, "NAME",
        "rounding of quantised tensors: stochastic (the default), so that the expected weight "
        "gradients are the dense ones, or nearest",
        NEEDS_QUANTISING_OR_FILE),
    CHOICE("rotate", OPTION_MATCH, rotate, options_rotate, "NAME",
        "yes: rotate quantised tensors (Hadamard) before coding, so that a column of large values "
        "does not harm the others of its group; not with 16 bits; no (the default)",
        NEEDS_QUANTISING_OR_FILE),
    CHOICE("store", OPTION_MATCH, store, options_stores, "TYPE",
        "number format of tensors that --activations keeps dense: fp32 (the default) or bf16, "
        "which halves their bytes; tensors of one row a sample in a net of several stay fp32"),
    COUNT("pool", OPTION_MATCH, pool, 1, 65536,
        "pooled tensors, and --centre cells, keep the mean of each cell of N x N neighbouring "
        "rows; default 2",
        NEEDS_POOLING_OR_FILE),
    CHOICE("precision", OPTION_MATCH, precision, options_precisions, "TYPE",
        "precision of the operands of products: fp32, or on CPUs bf16; on GPUs tf32 or bf16, on "
        "tensor cores (NVIDIA, compute capability 8.0 or later; other GPUs use fp32); default "
        "$CLPRUNE_PRECISION, else fp32"),
    TEXT("keep-file", OPTION_FORGET, keep_file, "FILE",
        "lines 'PLACE TENSOR FORM' that override --activations, such as 'blocks.0 TENSOR dense' or "
        "'blocks.* TENSOR quantised bits=4'; later ones win; # begins a comment; the checkpoint "
        "keeps a copy; forms and their settings: dense, pruned (sparsity, block, norm, criterion, "
        "centre, values, indices), quantised (bits, group, rounding, rotate), pooled (cell), "
        "recomputed",
        NEEDS_NOTHING, OF_ALL, RANKS_PLACE),
    REAL("dropout", OPTION_MATCH, dropout, 0, LESS_THAN_ONE,
        "in training drop this share of embeddings, of attention's probabilities and of what "
        "branches add; default 0; models of images have no such option",
        NEEDS_NOTHING, OF_TOKENS),
    TEXT("train", OPTION_MATCH, train, "PATTERN[,PATTERN...]",
        "train only the parameters whose names match, such as 'head.*'; the others are frozen, and "
        "nothing is kept for their gradients"),
    TEXT("lora", OPTION_MATCH, lora, "R[:PATTERN]",
        "give linear layers whose names match, such as '*.attn.*' (default: all), adapters of rank "
        "R "
        "(LoRA, arXiv 2106.09685); they and what --train names are trained"),
    REAL("lora-alpha", OPTION_MATCH, lora_alpha, 0, 1e6,
        "with --lora: adapters count X / R times; default 0: 2 R"),
    FLAG("rslora", OPTION_MATCH, rslora,
        "with --lora-alpha: X / sqrt(R) times (rsLoRA, arXiv 2312.03732)"),
    REAL("lora-dropout", OPTION_MATCH, lora_dropout, 0, LESS_THAN_ONE,
        "with --lora: in training adapters read dropout of their layer's input; default 0"),
    CHOICE("base-bits", OPTION_MATCH, base_bits, options_base_bits, "N",
        "bits of frozen weights of linear layers, embeddings and heads: 32 (the default), 16 "
        "(bf16), "
        "or codes of 8 or 4 with a scale and a zero for 64 inputs, or nf4 (QLoRA, arXiv "
        "2305.14314), 4 bits with a scale that is a code itself; with 4 and nf4, embeddings of "
        "tokens have 8; needs --lora or --train"),
    COUNT("epochs", OPTION_CHANGE, epochs, 1, OPTIONS_EPOCHS_MOST, "default 10"),
    COUNT("batch-size", OPTION_MATCH, batch_size, 1, 65536, "default 64"),
    COUNT("micro-batches", OPTION_TAKE, micro_batches, 1, 65536,
        "passes of a step: activations are those of a part of the batch, and gradients are added "
        "up "
        "(batch norms see a part each); default 1"),
    CHOICE("optimizer", OPTION_MATCH, optimizer, NULL, "NAME",
        "with an 8 at the end, of 8-bit moments in tensors of at least 4096 elements"),
    REAL("momentum", OPTION_MATCH, momentum, 0, LESS_THAN_ONE, "of sgd; default 0.9"),
    FLAG("nesterov", OPTION_MATCH, nesterov, "sgd with Nesterov's momentum"),
    REAL("beta2", OPTION_MATCH, beta2, 0, LESS_THAN_ONE,
        "of the others: decay of the squares' mean, of lion's mean; default 0: the optimizer's"),
    TEXT("rates", OPTION_CHANGE, rates, "PATTERN:LR[:DECAY[:EPOCHS]][,...]",
        "parameters whose names match, such as '*.bias', have LR times the learning rate and DECAY "
        "times the weight decay, for so many epochs, and then are frozen; the last match counts"),
    REAL("lookahead", OPTION_MATCH, lookahead, 0, LESS_THAN_ONE,
        "X above 0: every five steps the weights w become their moving mean, m = a m + (1 - a) w "
        "with a = X^5 t^3 at fraction t of all steps; default 0"),
    REAL("ema", OPTION_MATCH, ema, 0, LESS_THAN_ONE,
        "X above 0: tests, --export, --adapters and --sample take the moving mean of the weights "
        "w, "
        "after each step m = a m + (1 - a) w with a = min(X, (1 + step) / (10 + step)); default 0"),
    REAL("lr", OPTION_CHANGE, lr, 0, 1e6, "highest learning rate; default:"),
    REAL("weight-decay", OPTION_CHANGE, weight_decay, 0, 1e6,
        "on the weights of linear layers; default:"),
    REAL("warmup-epochs", OPTION_CHANGE, warmup_epochs, 0, 1000000,
        "linear warm-up; default 1, at most --epochs"),
    CHOICE("schedule", OPTION_CHANGE, schedule, options_schedules, "NAME",
        "learning rate after the warm-up: cosine (the default), down to 0; step, a tenth at each "
        "of --milestones; or, without a warm-up, linear, on lines between --points"),
    TEXT("points", OPTION_CHANGE, points, "LIST",
        "with --schedule linear: FRACTION:FACTOR of all steps and of the learning rate; default "
        "0:0,0.25:1,1:0"),
    TEXT("milestones", OPTION_CHANGE, milestones, "LIST",
        "with --schedule step: increasing fractions of all epochs; default 0.5,0.75"),
    REAL("label-smoothing", OPTION_CHANGE, label_smoothing, 0, LESS_THAN_ONE,
        "0 to below 1; default 0.1"),
    REAL("clip-norm", OPTION_CHANGE, clip_norm, 0, 1e30,
        "clip the gradient's l2 norm, whose mean is then in log.csv; 0: off; default 0"),
    FLAG("early-update", OPTION_TAKE, early_update,
        "update the parameters of each part of the model in the backward pass, when their "
        "gradients are complete: the same results without memory for all gradients; not with lamb "
        "or --clip-norm, whose default is then 0"),
    FLAG("zero", OPTION_TAKE, zero,
        "of several processes: each has the optimizer's state for a part of the parameters "
        "(ZeRO-1, "
        "arXiv 1910.02054); not with lamb or 8-bit moments"),
    CHOICE("reduce-bits", OPTION_TAKE, reduce_bits, options_reduce_bits, "BITS",
        "of several processes: 8 exchanges gradients as 8-bit codes, unbiased, in 26 % of the "
        "bytes; default 32"),
    FLAG("sync-batch-norm", OPTION_TAKE, sync_batch_norm,
        "of several processes: batch norms see the passes of all processes, not those of each "
        "alone; "
        "--micro-batches must be a multiple of the processes"),
    REAL("peer-timeout", OPTION_PROCESS, peer_timeout, 0.1, 86400,
        "of several processes (NAME-train-mpi): seconds after which one that shows no sign of life "
        "ends the run; default 60",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    COUNT("seed", OPTION_MATCH, seed, 0, EXACT,
        "of parameters, order and augmentation, not of generated data; default 1"),
    TEXT("device", OPTION_FORGET, device, "DEVICE",
        "platform:device or part of a name; default $CLPRUNE_DEVICE, else a GPU, else any device",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    FLAG("list-devices", OPTION_PROCESS, list_devices, "print the OpenCL devices and exit"),
    TEXT("output-dir", OPTION_FORGET, output_dir, "DIR",
        "folder for log.csv, last.ckpt and best.ckpt; default: the folder of --resume, else a new "
        "one, "
        "runs/ARCH-DATE-TIME",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    FLAG("overwrite", OPTION_PROCESS, overwrite,
        "replace the files of an earlier run in --output-dir", NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    COUNT("test-every", OPTION_TAKE, test_every, 0, 1000000,
        "epochs between tests; default 1; 0: only after the last epoch, and --test-steps"),
    COUNT("checkpoint-every", OPTION_TAKE, checkpoint_every, 0, 1000000,
        "epochs between checkpoints; default 1; 0: none, but for --checkpoint-minutes"),
    COUNT("checkpoint-minutes", OPTION_TAKE, checkpoint_minutes, 0, 100000,
        "also write a checkpoint after a step when the last one is so old; default 0: do not"),
    COUNT("test-steps", OPTION_TAKE, test_steps, 0, EXACT,
        "also test after each N-th step, with a row in log.csv; default 0: after epochs alone"),
    FLAG("best", OPTION_TAKE, best,
        "also keep the checkpoint of the best test, best.ckpt: of the highest top-1 or, of texts, "
        "of the lowest loss"),
    COUNT("patience", OPTION_TAKE, patience, 0, 1000000,
        "end the run after N tests in a row that were no better than the best before; default 0: "
        "do not"),
    COUNT("processes", OPTION_PROCESS, processes, 1, 65536,
        "with --plan: the memory of one of N processes (NAME-train-mpi)"),
    TEXT("resume", OPTION_FORGET, resume, "FILE",
        "continue from a checkpoint, with its options; gives the bits of an uninterrupted "
        "run on the same device with the same driver, and says on stderr if they may be others; "
        "with --data of other samples of the same size and classes the next epoch has those, as "
        "has an unfinished one anew, and the learning rate goes on by epochs, whatever their steps",
        NEEDS_NOTHING, OF_ALL, RANKS_PLACE),
    TEXT("import", OPTION_TAKE, import_file, "FILE",
        "begin with the weights of a safetensors file, of the index of several, or of a folder "
        "with either "
        "(timm's or torchvision's names); a head of "
        "another number of classes is left out",
        NEEDS_NOTHING, OF_IMAGES, RANKS_PLACE),
    TEXT("import", OPTION_TAKE, import_file, "FILE",
        "begin with the weights of a safetensors file, of the index of several, or of a folder "
        "with either "
        "(the names of transformers)",
        NEEDS_NOTHING, OF_TOKENS, RANKS_PLACE),
    TEXT("export", OPTION_FORGET, export_file, "FILE",
        "at the end, write the weights to a safetensors file; not if a signal stops training",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    TEXT("adapters", OPTION_FORGET, adapters, "DIR",
        "at the end, write the adapters as a folder that PEFT reads; needs --lora", NEEDS_NOTHING,
        OF_ALL, RANKS_OWN),
    COUNT("steps", OPTION_FORGET, steps, 1, EXACT,
        "stop after N steps; writes files only with --output-dir, and tests after the last step "
        "only with --test-limit"),
    COUNT("check-finite", OPTION_FORGET, check_finite, 1, EXACT,
        "in each N-th step, look at all that layers read and write, and stop at the first NaN or "
        "infinity with the names of layer and tensor; such a step is slow",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    COUNT("gradient-check", OPTION_FORGET, gradient_check, 1, 1000000,
        "at the end, compare each gradient with a dense model's on N training batches",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    COUNT("gradient-draws", OPTION_FORGET, gradient_draws, 1, 1000000,
        "with --gradient-check: repeat each batch with N seeds, and report bias and noise; default "
        "1",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    FLAG(
        "test-only", OPTION_FORGET, test_only, "test the weights of --resume or --import and exit"),
    COUNT("sample", OPTION_FORGET, sample, 1, 1000000,
        "at the end, write up to N tokens that follow --prompt, or the first tokens of the tests, "
        "drawn as the model expects them; the token that ends a text ends them",
        NEEDS_NOTHING, OF_TEXTS, RANKS_OWN),
    TEXT("prompt", OPTION_FORGET, prompt, "TEXT|@FILE",
        "with --sample: write what follows this text, or that of a file, in place of the first "
        "tokens of the tests; special tokens of the vocabulary are found in it",
        NEEDS_NOTHING, OF_TEXTS, RANKS_OWN),
    CHOICE("chat", OPTION_TAKE, chat, options_chat, "NAME",
        "yes: put prompts and completions of NAME.jsonl, and --prompt, into the chat template of "
        "--model as messages of user and assistant; no (the default)",
        NEEDS_NOTHING, OF_TEXTS),
    CHOICE("packing", OPTION_MATCH, packing, options_packing, "NAME",
        "apart: a sequence has whole texts of NAME.jsonl, cut at --context tokens, and attention "
        "sees no other; needs rotary positions; joined (the default): parts of all texts one "
        "behind the other, each of which sees those before",
        NEEDS_NOTHING, OF_TEXTS),
    REAL("temperature", OPTION_FORGET, temperature, 0, 100,
        "with --sample: draw from the softmax of the logits / X; 0: take the likeliest token; "
        "default 0.8",
        NEEDS_NOTHING, OF_TEXTS, RANKS_OWN),
    REAL("top-p", OPTION_FORGET, top_p, 1e-6, 1,
        "with --sample: draw from the likeliest tokens alone, so many that their probabilities "
        "sum to X or more; default 1",
        NEEDS_NOTHING, OF_TEXTS, RANKS_OWN),
    BYTES("memory-limit", OPTION_FORGET, memory_limit, 1, EXACT,
        "limit of device memory, such as 1500M (K, M or G): take the mildest preset that fits, or, "
        "with "
        "--activations, the largest batch; with --lora or --train also --base-bits, as many as "
        "fit; says which. Needed by --activations auto"),
    FLAG("plan", OPTION_PROCESS, plan,
        "print the device memory of each part of a step and exit; needs no device, but for "
        "--activations auto"),
    TEXT("plan-csv", OPTION_PROCESS, plan_csv, "FILE",
        "with --plan: write the live bytes at each command of a step, by tensor", NEEDS_NOTHING,
        OF_ALL, RANKS_OWN),
    CHOICE("plan-device", OPTION_PROCESS, plan_device, options_plan_devices, "NAME",
        "with --plan: plan for a graphics card, h100, h200, a100 or rtx4090, and print the time of "
        "each kernel in a step as its data sheet predicts it; own (the default): for the run's "
        "device",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    FLAG("memory-report", OPTION_PROCESS, memory_report,
        "at the end, print the device memory of each tensor", NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    TEXT("tensorboard", OPTION_FORGET, tensorboard, "DIR",
        "write the columns of log.csv as an event file for TensorBoard", NEEDS_NOTHING, OF_ALL,
        RANKS_OWN),
    TEXT("summary-json", OPTION_PROCESS, summary_json, "FILE", "write the results as a JSON object",
        NEEDS_NOTHING, OF_ALL, RANKS_OWN),
    FLAG("quiet", OPTION_PROCESS, quiet,
        "print only errors, notes on stderr and the reports you asked for", NEEDS_NOTHING, OF_ALL,
        RANKS_OWN),
    FLAG("help", OPTION_PROCESS, help, "print this and exit"),
    FLAG("version", OPTION_PROCESS, version, "print the version and exit"),
};

enum { ROWS = sizeof rows / sizeof *rows };

_Static_assert(ROWS + TRAINER_EXTRAS <= OPTIONS_MOST, "raise OPTIONS_MOST");

/* Whether a program lacks the option. */
static bool is_lacking(const trainer_model *model, const option_row *row)
{
    const option_samples own = !model->tokens    ? OF_IMAGES
                               : model->labelled ? OF_SENTENCES
                                                 : OF_TEXTS;
    return row->samples != OF_ALL && (row->samples & own) == 0;
}

size_t option_rows_count(const trainer_model *model)
{
    size_t count = model->extras_count;
    for (size_t i = 0; i < ROWS; ++i)
        count += !is_lacking(model, &rows[i]);
    return count;
}

static option_row extra_row(const trainer_model *model, size_t i)
{
    const trainer_extra *extra = &model->extras[i];
    return (option_row){.name = extra->name,
        .kind = OPTION_COUNT,
        .memory = OPTION_MATCH,
        .offset = FIELD(extra) + i * sizeof(uint64_t),
        .low = extra->low,
        .high = extra->high,
        .value = "N",
        .help = extra->help};
}

option_row option_row_at(const trainer_model *model, size_t index)
{
    const size_t own = model->tokens ? 1 : 2; /* where the model's own begin: after --image-size */
    if (index >= own && index < own + model->extras_count)
        return extra_row(model, index - own);
    if (index >= own)
        index -= model->extras_count;
    for (size_t i = 0; i <= index && i < ROWS; ++i)
        index += is_lacking(model, &rows[i]);
    option_row row = rows[index];
    if (row.offset == FIELD(arch))
        row.choices = model->archs;
    if (row.offset == FIELD(activations))
        row.choices = keep_preset_names();
    if (row.offset == FIELD(optimizer))
        row.choices = options_optimizers();
    return row;
}

size_t option_index(const trainer_model *model, const char *name, size_t length)
{
    const size_t count = option_rows_count(model);
    size_t i = 0;
    for (; i < count; ++i) {
        const option_row row = option_row_at(model, i);
        if (strncmp(row.name, name, length) == 0 && row.name[length] == '\0')
            break;
    }
    return i;
}

void options_append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

bool option_preset_fits(size_t preset, option_needs needs)
{
    static const char letters[] = {[NEEDS_PRUNING] = KEEP_PRUNED,
        [NEEDS_PRUNING_OR_FILE] = KEEP_PRUNED,
        [NEEDS_CODES] = KEEP_CODED,
        [NEEDS_QUANTISING_OR_FILE] = KEEP_QUANTISED,
        [NEEDS_POOLING_OR_FILE] = KEEP_POOLED};
    return keep_preset_has(preset, letters[needs]);
}

bool option_takes_file(option_needs needs)
{
    return needs == NEEDS_PRUNING_OR_FILE || needs == NEEDS_QUANTISING_OR_FILE ||
           needs == NEEDS_POOLING_OR_FILE;
}

void option_needed(option_needs needs, char *text, size_t size)
{
    size_t fit[OPTIONS_MOST], count = 0;
    for (size_t i = 0; i < KEEP_PRESETS && count < OPTIONS_MOST; ++i)
        if (option_preset_fits(i, needs))
            fit[count++] = i;
    text[0] = '\0';
    for (size_t i = 0; i < count; ++i)
        options_append(text, size, "%s%s",
            i == 0          ? "--activations "
            : i + 1 < count ? ", "
                            : " or ",
            keep_presets[fit[i]].name);
    if (count == 0)
        options_append(text, size, "--keep-file");
    else if (needs == NEEDS_POOLING_OR_FILE)
        options_append(text, size, ", --centre cells, or --keep-file");
    else if (option_takes_file(needs))
        options_append(text, size, ", or --keep-file");
}

const char *option_own_default(const trainer_model *model, const char *name)
{
    for (const char *const(*d)[2] = model->defaults; d != NULL && (*d)[0] != NULL; ++d)
        if (strcmp((*d)[0], name) == 0)
            return (*d)[1];
    return NULL;
}

/* Puts the model's default in place of the trainer's, or of adamw's. */
static void put_own_default(
    const trainer_model *model, const option_row *row, char *text, size_t size)
{
    const char *own = option_own_default(model, row->name);
    char rest[512];
    char *at = own == NULL ? NULL : strstr(text, "adamw ");
    if (own != NULL && at == NULL)
        at = strstr(text, "default ");
    if (at == NULL)
        return;
    at = strchr(at, ' ') + 1;
    (void)snprintf(rest, sizeof rest, "%s", at + strcspn(at, ",;"));
    *at = '\0';
    options_append(text, size, "%s%s", own, rest);
}

/* " sgd 0.05, adamw 0.002": the learning rate, or the weight decay, of each optimizer. */
static void append_defaults(bool lr, char *text, size_t size)
{
    clprune_optimizer_info info;
    for (size_t i = 0; info = clprune_optimizer_describe(i), info.name != NULL; ++i)
        if (info.desc.state_bits != 8)
            options_append(text, size, "%s %s %g", i == 0 ? "" : ",", info.name,
                lr ? info.lr : info.weight_decay);
}

/* "a, b (the default) or c" */
static void append_choices(const char *const *choices, const char *usual, char *text, size_t size)
{
    for (size_t i = 0; choices[i] != NULL; ++i)
        options_append(text, size, "%s%s%s",
            i == 0                   ? ""
            : choices[i + 1] == NULL ? " or "
                                     : ", ",
            choices[i], strcmp(choices[i], usual) == 0 ? " (the default)" : "");
}

void option_help(const trainer_model *model, const option_row *row, char *text, size_t size)
{
    char needed[320];
    (void)snprintf(text, size, "%s", row->help == NULL ? "" : row->help);
    if (row->offset == FIELD(lr) || row->offset == FIELD(weight_decay))
        append_defaults(row->offset == FIELD(lr), text, size);
    put_own_default(model, row, text, size);
    if (row->offset == FIELD(arch))
        append_choices(row->choices, model->archs[model->arch], text, size);
    if (row->offset == FIELD(optimizer)) {
        text[0] = '\0';
        append_choices(row->choices, OPTIONS_OPTIMIZER, text, size);
        options_append(text, size, "; %s", row->help);
    }
    if (row->offset == FIELD(activations))
        for (size_t i = 0; i < KEEP_PRESETS; ++i)
            options_append(text, size, "%s%s%s: %s", i == 0 ? "" : "; ", keep_presets[i].name,
                i == 0 ? " (the default)" : "", keep_presets[i].help);
    if (row->needs == NEEDS_NOTHING)
        return;
    option_needed(row->needs, needed, sizeof needed);
    options_append(text, size, "; needs %s", needed);
}
