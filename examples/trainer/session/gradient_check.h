/*
 * gradient_check.h: compares the gradient of each parameter with the gradient of the same model, on
 * the same images, with everything kept dense.
 *
 * For policies that draw, each batch is repeated with several seeds, which separates bias from
 * noise. With g_k the gradient of draw k of K, e_k the exact one (with dropout that of the same
 * mask, else one for all k), d_k = g_k - e_k, and m the mean of d_k over k:
 *
 *     error^2 = mean over k of |d_k|^2 / |e|^2
 *     noise^2 = sum over k of |d_k - m|^2 / (K - 1) / |e|^2
 *     bias^2  = |m|^2 / |e|^2 - noise^2 / K          the second term is the noise left in m
 *             = error^2 - noise^2
 *
 * noise^2 and bias^2 are unbiased estimates. Over several batches, numerators and |e|^2 are summed.
 */
#ifndef TRAINER_GRADIENT_CHECK_H
#define TRAINER_GRADIENT_CHECK_H

#include "trainer/report/json.h"
#include "trainer/session/session.h"

/* Sums over the elements of a tensor and over the batches, of the gradient at hand (got) and of the
 * exact one. */
typedef struct gradient_sums {
    double product;    /* got * exact */
    double got, exact; /* squares */
    double off;        /* squares of got - exact */
    double spread;     /* squares of got - exact - its mean over the draws */
} gradient_sums;

typedef struct gradient_check {
    uint64_t batches, draws;
    size_t tensors;
    gradient_sums *sums; /* (tensors), in the order of the session's params */
} gradient_check;

/* Compares the gradients of the first --gradient-check batches of the epoch after `epoch` of them,
 * each --gradient-draws times, without augmentation and without optimizer steps; a no-op if
 * --gradient-check is 0. The exact model has a context of its own, so the ledger of the run does
 * not change. After a failure it has no batches. Overwrites the gradients of the session's model;
 * its states, such as running statistics, change with each pass. Close in any case. */
bool gradient_check_run(session *s, uint64_t epoch, gradient_check *check, fault *f);
void gradient_check_close(gradient_check *check); /* accepts {0} */

/* Leaves the gradients of a batch of training images in the parameters of `model`, which is one of
 * the session's type in its context. */
bool gradient_make(session *s, net_model *model, const uint32_t *indices, size_t count, fault *f);

/* A table on stdout, a line a tensor; the same as a member "gradient_check" of a JSON object. Both
 * do nothing where nothing was compared. */
void gradient_check_print(const gradient_check *check, const session *s);
void gradient_check_json(const gradient_check *check, const session *s, json *j);

#endif
