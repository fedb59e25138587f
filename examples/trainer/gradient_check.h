/* gradient_check.h: what a saved-activation policy costs: the gradient of each parameter beside
 * that of the same model on the same images with everything kept dense. */
#ifndef TRAINER_GRADIENT_CHECK_H
#define TRAINER_GRADIENT_CHECK_H

#include "json.h"
#include "trainer.h"

/* Sums over the elements of a tensor and over the batches, of the gradient at hand (got) and of the
 * exact one. */
typedef struct gradient_sums {
    double product;    /* got * exact */
    double got, exact; /* squares */
    double off;        /* squares of got - exact */
} gradient_sums;

typedef struct gradient_check {
    uint64_t batches;
    size_t tensors;
    gradient_sums *sums; /* (tensors), in the order of the trainer's params */
} gradient_check;

/* Compares on the first --gradient-check batches of the epoch that would come next, without
 * augmentation and without a step of the optimizer; nothing to do where that is 0. The exact model
 * lives on a context of its own, so that the ledger of the run is left alone. Gradients of the
 * trainer's model are overwritten. Close in any case. */
bool gradient_check_run(trainer *t, gradient_check *check, fault *f);
void gradient_check_close(gradient_check *check); /* accepts {0} */

/* got . exact / (|got| |exact|), NaN where either is zero. */
double gradient_cosine(const gradient_sums *sums);

/* |got - exact| / |exact|, l2; NaN where the exact gradient is zero. */
double gradient_relative_error(const gradient_sums *sums);

/* A table on stdout, a line a tensor; the same as a member "gradient_check" of a JSON object. Both
 * do nothing where nothing was compared. */
void gradient_check_print(const gradient_check *check, const trainer *t);
void gradient_check_json(const gradient_check *check, const trainer *t, json *j);

#endif
