/* The row types of the golden tables. Include this, then the `.inc` file a test needs.
 *
 *     golden_rng.inc      golden_rng_vectors[], golden_fill_vectors[]
 *     golden_resmlp.inc   golden_resmlp_cases[]
 *     golden_optim.inc    golden_optim_runs[], golden_optim_tensors[],
 *                         golden_cosine, golden_cosine_lr[]
 *     golden_train.inc    golden_train_runs[]
 *
 * golden_model.h reads the tensors of golden_resmlp_cases[] from golden_resmlp.safetensors.
 * Every table X[] comes with a constant X_count in an enum. Formulas and rules are in README.md. */
#ifndef GOLDEN_TYPES_H
#define GOLDEN_TYPES_H

#include "golden_rng.h"

enum {
    GOLDEN_PROJECTIONS = 2,   /* random +-1 projections per tensor, see golden_projection() */
    GOLDEN_SAMPLES = 16,      /* sampled elements per tensor */
    GOLDEN_OPTIM_VALUES = 7,  /* tensors up to this size are given in full */
    GOLDEN_OPTIM_STEPS = 5,   /* steps of an optimizer run */
    GOLDEN_TRAIN_STEPS = 10,  /* steps of a training run */
    GOLDEN_COSINE_STEPS = 50, /* steps of the learning-rate table */
    GOLDEN_HASHED = 1000,     /* elements that golden_fill_vector.hash covers */
    GOLDEN_TENSOR_NUMBERS = 4 + GOLDEN_PROJECTIONS + 2 * GOLDEN_SAMPLES
};

/* One number of the generator; value is exact. */
typedef struct golden_rng_vector {
    uint64_t seed, index;
    uint64_t bits; /* golden_bits(seed, index) */
    float value;   /* golden_value(seed, index) */
} golden_rng_vector;

/* The first elements of a parameter tensor; equality is exact. */
typedef struct golden_fill_vector {
    golden_kind kind;
    uint64_t fan_in, seed;
    float value[4];
    /* Of GOLDEN_HASHED elements: h = 0; for each element: h = h * 0x100000001B3 + its 32 bits. */
    uint64_t hash;
} golden_fill_vector;

/* A model, its input, its loss and its number of tensors. */
typedef struct golden_resmlp_case {
    const char *name;
    /* Images have 3 channels and height = width = image; tokens = (image / patch)^2. */
    uint32_t image, patch, dim, depth, hidden, classes, batch;
    uint32_t block;      /* b of the 1 x b blocks; 0: dense, nothing is pruned */
    double sparsity;     /* s: round-half-up(s * N) of a sample's N blocks are pruned */
    uint64_t image_seed; /* of golden_fill_image() */
    double loss;
    /* How far selection is from a tie: (smallest kept - largest pruned) / smallest kept norm, the
     * least of all samples and layers; 0 if dense. */
    double gap;
    uint32_t parameters;
} golden_resmlp_case;

/* What is known of one tensor: the gradient of a parameter, or the logits. In
 * golden_resmlp.safetensors it is named CASE/NAME and has the fields from `kind` on as
 * GOLDEN_TENSOR_NUMBERS numbers. Each case has its `parameters` gradients in model order, then
 * "logits" (the values). */
typedef struct golden_tensor {
    const char *name;
    golden_kind kind; /* how the parameter is filled; GOLDEN_NONE for "logits" */
    uint64_t fan_in;  /* of a GOLDEN_WEIGHT, else 0 */
    uint64_t count;   /* elements */
    double norm;      /* l2 */
    double proj[GOLDEN_PROJECTIONS];
    /* Flat row-major positions, ascending; some repeat where count < GOLDEN_SAMPLES. */
    uint64_t index[GOLDEN_SAMPLES];
    double value[GOLDEN_SAMPLES]; /* the elements at index[] */
} golden_tensor;

/* An optimizer and its settings; a field that the optimizer does not have is 0. */
typedef struct golden_optim_run {
    const char *name; /* as clprune_optimizer_info has it */
    double lr, weight_decay, momentum, beta1, beta2, eps;
    uint32_t first, tensors; /* rows in golden_optim_tensors */
} golden_optim_run;

/* Parameter tensor i = `tensor` after GOLDEN_OPTIM_STEPS steps. It starts at
 * start_scale * value(3000 + i, j); its gradient at step t, from 0, is value(3100 + 10 t + i, j).
 */
typedef struct golden_optim_tensor {
    const char *run_name;
    uint32_t tensor;
    double start_scale; /* 1, or 0 for the tensor that starts at zero */
    uint64_t count;
    double norm;
    double proj[GOLDEN_PROJECTIONS];
    /* All elements if count <= GOLDEN_OPTIM_VALUES, else zeros. */
    double value[GOLDEN_OPTIM_VALUES];
} golden_optim_tensor;

/* Settings of the learning-rate table golden_cosine_lr[]. */
typedef struct golden_cosine_settings {
    uint32_t warmup, total;
    double base, min;
} golden_cosine_settings;

/* A short training run of the model of case "tiny"; loss[t] is taken before update t. */
typedef struct golden_train_run {
    const char *name;
    uint32_t batch, block;
    double sparsity;
    double lr, weight_decay; /* AdamW, every tensor decayed */
    double gap;              /* as golden_resmlp_case.gap, the least of all steps */
    double loss[GOLDEN_TRAIN_STEPS];
} golden_train_run;

#endif
