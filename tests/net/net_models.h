/* Small nets for the tests of clprune/net.h, their data, and what is done with both. */
#ifndef TESTS_NET_MODELS_H
#define TESTS_NET_MODELS_H

#include "clprune/net.h"
#include "support/test_compare.h"
#include "support/test_objects.h"
#include "support/test_rng.h"

/* Images of 3 channels, rows of floats, or tokens; classes, or targets. */
enum { NET_SIDE = 12, NET_CLASSES = 10, NET_VOCABULARY = 37 };
enum { NET_BEFORE = 3 }; /* ints before the windows of labels, tokens and lengths */

typedef struct net_model net_model;
struct net_model {
    const char *name;
    void (*build)(clprune_net *net, const net_model *model);
    size_t rows, cols; /* of the input; rows 0: images of cols x cols; cols 0: tokens */
    size_t target_rows, target_cols; /* 0: cross-entropy; cols 0: of so many rows, with labels in
                                        NET_VOCABULARY, of which some are ignored */
    bool norm, dropout;              /* it has a batch norm, a dropout */
    uint64_t seed;                   /* for `build` */
};

/* ResMLP, ResNet, VGG, an MLP with dropout, a U with skips, a transformer, a MobileNet. */
enum { NET_MODELS = 7 };
extern const net_model net_models[NET_MODELS];
/* A ViT, GPTs with a token loss, whose weight may be tied to the embedding's, or that to it, or
 * with a loss of logits, a Llama and a Gemma; without attention. A BERT, whose samples have
 * lengths. */
enum {
    NET_VIT,
    NET_HEAD,
    NET_TIED,
    NET_TIED_BACK,
    NET_LOGITS,
    NET_LLAMA,
    NET_BERT,
    NET_GEMMA,
    NET_TOKEN_MODELS
};
enum { NET_TOKENS = 9, NET_TOKEN_COLS = 32 };
extern const net_model net_token_models[NET_TOKEN_MODELS];
extern const net_model net_wide_mlp, net_wide_vgg; /* so large that regions work on chunks */
extern const net_model net_products;               /* coded tensors feed products only */

/* A net with data for it. */
typedef struct net_job {
    clprune_context *context;
    const net_model *model;
    clprune_net *net;
    clprune_net_data data;
    clprune_mat loss;
    clprune_param *params;
    size_t count;    /* of params */
    size_t elements; /* of all gradients */
    uint64_t seed;   /* that net_step and net_loss set */
} net_job;

/* A settled net with parameters that are neither 0 nor 1; the end of the case destroys it. The
 * first samples of a batch do not depend on its size. keep: NULL means DENSE. */
net_job net_open(
    clprune_context *context, const net_model *model, size_t batch, const clprune_net_keep *keep);
net_job net_open_desc(clprune_context *context, const net_model *model,
    const clprune_net_desc *desc, const clprune_net_keep *keep);
/* The same with the test's context and a preset; codes are rounded to nearest. */
net_job net_open_preset(
    const net_model *model, size_t batch, clprune_net_preset preset, unsigned bits);

/* A step of the first `batch` samples; net_grads: the gradients of all parameters, one after the
 * other. */
void net_step(net_job *job, size_t batch);
float *net_grads(const net_job *job);
/* Both with all samples. */
float *net_step_grads(net_job *job);

/* The sum of the batch's losses / batch, after a forward pass. */
double net_loss(net_job *job, bool training);

/* Of a samples' batch. */
float *net_output(const net_job *job, size_t batch);

/* ||got - want|| of a parameter / (||want|| + a hundredth of ||all want||). */
double net_distance(const net_job *job, const float *got, const float *want, size_t param);
/* The largest one. */
double net_worst(const net_job *job, const float *got, const float *want, size_t *param);
/* Fails unless each is at most `bound`. */
void net_close(
    const net_job *job, const char *what, const float *got, const float *want, double bound);

/* The relative error of a tensor's slope along its gradient, by a difference of losses: the worst
 * tensor's, without those of less than a thousandth of the whole norm. step: the change of the
 * tensor. */
double net_slope_error(net_job *job, const float *grads, double step, size_t *param);

/* Fails unless the dense gradients are slopes, and those of exact, compact and least with 8 bits
 * are near them. */
void net_check_presets(const net_model *model, size_t batch);

/* Gives `to` the values of from's parameters, which have the same names. */
void net_copy_params(const net_job *from, net_job *to);

#endif
