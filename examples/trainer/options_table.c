#include "options_table.h"

#include "arch.h"

const char *const options_norms[] = {"l2", "l1", "max", NULL};
const char *const options_criteria[] = {"largest", "sampled", NULL};
const char *const options_values[] = {"fp32", "fp16", "bf16", "int8", NULL};
const char *const options_indices[] = {"int32", "int16", "bitmap", "smallest", NULL};
const char *const options_precisions[] = {"fp32", "tf32", "bf16", NULL};
const char *const options_gelu_codes[] = {"2", "4", "8", NULL};
const char *const options_optimizers[] = {"sgd", "adamw", "lamb", NULL};

#define FIELD(name) offsetof(options, name)

#define FLAG(name, memory, field, help)                                                            \
    {                                                                                              \
        name, OPTION_FLAG, memory, FIELD(field), 0, 1, NULL, NULL, help                            \
    }
#define TEXT(name, memory, field, value, help)                                                     \
    {                                                                                              \
        name, OPTION_TEXT, memory, FIELD(field), 0, 0, NULL, value, help                           \
    }
#define CHOICE(name, memory, field, choices, value, help)                                          \
    {                                                                                              \
        name, OPTION_CHOICE, memory, FIELD(field), 0, 0, choices, value, help                      \
    }
#define COUNT(name, memory, field, low, high, help)                                                \
    {                                                                                              \
        name, OPTION_COUNT, memory, FIELD(field), low, high, NULL, "N", help                       \
    }
#define BYTES(name, memory, field, low, high, help)                                                \
    {                                                                                              \
        name, OPTION_BYTES, memory, FIELD(field), low, high, NULL, "BYTES", help                   \
    }
#define REAL(name, memory, field, low, high, help)                                                 \
    {                                                                                              \
        name, OPTION_REAL, memory, FIELD(field), low, high, NULL, "X", help                        \
    }
#define BLOCK(name, memory, field, help)                                                           \
    {                                                                                              \
        name, OPTION_BLOCK, memory, FIELD(field), 0, 0, NULL, "SHAPE", help                        \
    }

/* 2^53 - 1: seeds beyond it would not survive readers of JSON that know only doubles. */
#define EXACT 9007199254740991.0

#define LESS_THAN_ONE 0.999999

const option_row option_rows[] = {
    CHOICE("arch", OPTION_MATCH, arch, resmlp_arch_names, "NAME",
        "resmlp_s12, resmlp_s24, resmlp_s36, resmlp_b24 or resmlp_tiny (the default)"),
    COUNT("image-size", OPTION_MATCH, image_size, 1, 4096,
        "pixels per side; default: the architecture's, or the data's"),
    COUNT("patch-size", OPTION_MATCH, patch_size, 1, 4096,
        "pixels per side of a patch; default: the architecture's"),
    COUNT("classes", OPTION_MATCH, classes, 1, 1048576,
        "outputs; default: the architecture's, or the data's"),
    TEXT("data", OPTION_TAKE, data, "generated|DIR",
        "\"generated\" (the default), or a folder with CIFAR-10 or CIFAR-100, binary"),
    COUNT("train-limit", OPTION_MATCH, train_limit, 1, 2147483647,
        "train on so many images; default: all, or 8000 generated"),
    COUNT("test-limit", OPTION_TAKE, test_limit, 1, 2147483647,
        "test on so many images; default: all, or 2000 generated"),
    FLAG("no-augment", OPTION_MATCH, no_augment, "no random crop and mirror"),
    CHOICE("activations", OPTION_MATCH, activations, keep_presets, "PRESET",
        "dense (the default): keep what autograd keeps; paper: keep the inputs of linear layers "
        "pruned; exact: keep three tensors of a block, which give the same gradients; "
        "exact-tokens: "
        "keep two, and run the token layer twice; compact: keep three pruned and a code of GELU's "
        "derivative"),
    REAL("sparsity", OPTION_MATCH, sparsity, 0, 1,
        "part of the blocks that is pruned, 0 to 1; default 0.5; needs --activations paper or "
        "compact"),
    BLOCK("block", OPTION_MATCH, block,
        "shape of the blocks that are pruned: 16 or 1x16 (the default), 4x4, ..."),
    CHOICE("norm", OPTION_MATCH, norm, options_norms, "NAME",
        "what ranks blocks: l2 (the default), l1 or max"),
    CHOICE("criterion", OPTION_MATCH, criterion, options_criteria, "NAME",
        "sampled (the default): draw the kept blocks, so that weight gradients are the dense ones "
        "in expectation; largest: keep the best, as the paper does"),
    CHOICE("values", OPTION_MATCH, values, options_values, "TYPE",
        "of kept blocks: fp32 (the default), fp16, bf16 or int8 with a scale for each block; needs "
        "--activations paper or compact"),
    CHOICE("indices", OPTION_TAKE, indices, options_indices, "TYPE",
        "of kept blocks: int32 (the default of paper), int16, bitmap, or smallest, the one of "
        "these "
        "that takes the fewest bytes (the default of compact); gives the same bits; needs "
        "--activations paper or compact"),
    CHOICE("gelu-code", OPTION_MATCH, gelu_code, options_gelu_codes, "BITS",
        "of an element of GELU's derivative: 2 (the default), 4 or 8; needs --activations compact"),
    CHOICE("precision", OPTION_MATCH, precision, options_precisions, "TYPE",
        "what the weight gradients' products with pruned inputs may round their operands to: fp32 "
        "(the default), tf32 or bf16, on NVIDIA's GPUs of compute capability 8.0 or later; "
        "elsewhere fp32 serves"),
    TEXT("keep-file", OPTION_FORGET, keep_file, "FILE",
        "overrides of --activations for single blocks and tensors, a line each, such as 'blocks.0 "
        "gelu dense'; see keep_file.h; a checkpoint has a copy"),
    COUNT("epochs", OPTION_TAKE, epochs, 1, 1000000, "default 10"),
    COUNT("batch-size", OPTION_MATCH, batch_size, 1, 65536, "default 64"),
    CHOICE("optimizer", OPTION_MATCH, optimizer, options_optimizers, "NAME",
        "sgd (momentum 0.9), adamw (the default) or lamb"),
    REAL("lr", OPTION_MATCH, lr, 0, 1e6,
        "highest learning rate, cosine schedule; default: adamw 0.002, lamb 0.005, sgd 0.05"),
    REAL("weight-decay", OPTION_MATCH, weight_decay, 0, 1e6,
        "on the weights of linear layers; default: adamw 0.05, lamb 0.2, sgd 0.0005"),
    REAL("warmup-epochs", OPTION_MATCH, warmup_epochs, 0, 1000000,
        "linear warm-up; default 1, at most --epochs"),
    REAL("label-smoothing", OPTION_MATCH, label_smoothing, 0, LESS_THAN_ONE,
        "0 to below 1; default 0.1"),
    REAL("clip-norm", OPTION_MATCH, clip_norm, 0, 1e30,
        "clip the gradient's l2 norm; default 0: off"),
    COUNT("seed", OPTION_MATCH, seed, 0, EXACT,
        "of parameters, order and augmentation, not of generated images; default 1"),
    TEXT("device", OPTION_FORGET, device, "DEVICE",
        "platform:device or part of a name; default $CLPRUNE_DEVICE, else a GPU, else any"),
    FLAG("list-devices", OPTION_FORGET, list_devices, "print the OpenCL devices and exit"),
    TEXT("output-dir", OPTION_FORGET, output_dir, "DIR",
        "where log.csv and last.ckpt go; default: resmlp-out, or the folder of --resume"),
    COUNT("checkpoint-every", OPTION_TAKE, checkpoint_every, 0, 1000000,
        "epochs from one checkpoint to the next; default 1; 0: never"),
    TEXT("resume", OPTION_FORGET, resume, "FILE",
        "go on from a checkpoint, with its options; gives the bits of a run without a break"),
    COUNT("steps", OPTION_FORGET, steps, 1, EXACT,
        "stop after so many steps; then neither tests nor writes files, but for what --test-limit "
        "or --output-dir ask for"),
    COUNT("gradient-check", OPTION_FORGET, gradient_check, 1, 1000000,
        "in the end compare each gradient with dense's on so many train batches"),
    FLAG("test-only", OPTION_FORGET, test_only, "test the checkpoint of --resume and exit"),
    BYTES("memory-limit", OPTION_FORGET, memory_limit, 1, EXACT,
        "of device memory (K, M, G): takes the mildest preset that fits, or, with --activations, "
        "the "
        "largest batch; says which"),
    FLAG("plan", OPTION_FORGET, plan,
        "print what the run will hold on the device, part by part of a step, and exit; needs no "
        "device"),
    TEXT("plan-csv", OPTION_FORGET, plan_csv, "FILE",
        "with --plan: write what lives at each command of a step, by tensor"),
    FLAG("memory-report", OPTION_FORGET, memory_report, "print where the device memory goes"),
    TEXT("summary-json", OPTION_FORGET, summary_json, "FILE", "write the results as one object"),
    FLAG("quiet", OPTION_FORGET, quiet, "print nothing but reports asked for, and errors"),
    FLAG("help", OPTION_FORGET, help, "print this and exit"),
    FLAG("version", OPTION_FORGET, version, "print the version and exit"),
};

const size_t option_rows_count = sizeof option_rows / sizeof *option_rows;

_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTIONS_MOST, "raise OPTIONS_MOST");
