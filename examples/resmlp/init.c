/*
 * Initial parameters, as in the authors' code (facebookresearch/deit, resmlp_models.py):
 *
 *     linear layers   weight normal with deviation arch.deviation, 0.02 there, cut at +-2 (timm's
 *                     trunc_normal_); bias 0
 *     stem            PyTorch's default for Conv2d: weight and bias uniform in
 *                     +-1 / sqrt(3 * patch^2)
 *     LayerScale      arch.scale
 *     affine          alpha 1, beta 0
 *
 * 0.02 suits layers of 384 and more inputs. The tiny model has fewer: with the deviation that
 * PyTorch's Linear has, 1 / sqrt(3 * inputs), it leaves the first plateau of its loss several times
 * earlier.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>

#include "trainer/data/rng.h"
#include "trainer/run/try.h"

static double cut_normal(rng *r, double deviation)
{
    double x;
    do
        x = deviation * rng_normal(r);
    while (fabs(x) > 2.0);
    return x;
}

static double draw(rng *r, const resmlp_arch *arch, const resmlp_tensor *tensor)
{
    switch (tensor->kind) {
    case RESMLP_STEM_WEIGHT:
    case RESMLP_STEM_BIAS: {
        const double fan_in = (double)(RESMLP_CHANNELS * arch->patch * arch->patch);
        return (2.0 * rng_uniform(r) - 1.0) / sqrt(fan_in);
    }
    case RESMLP_WEIGHT:
        return cut_normal(
            r, arch->deviation > 0 ? arch->deviation : 1 / sqrt(3 * (double)tensor->cols));
    case RESMLP_SCALE:
        return arch->scale;
    case RESMLP_ALPHA:
        return 1.0;
    default: /* RESMLP_BIAS, RESMLP_BETA */
        return 0.0;
    }
}

clprune_status resmlp_init(resmlp *model, uint64_t seed)
{
    clprune_status status = CLPRUNE_SUCCESS;
    float *values = NULL;
    for (size_t i = 0; i < model->tensors; ++i) {
        const resmlp_tensor tensor = resmlp_arch_tensor(&model->arch, i);
        const size_t count = tensor.rows * tensor.cols;
        rng r = rng_open(seed, RNG_INIT, (uint32_t)i, 0);
        free(values);
        values = malloc(count * sizeof *values);
        if (values == NULL) {
            status = CLPRUNE_OUT_OF_HOST_MEMORY;
            goto done;
        }
        for (size_t j = 0; j < count; ++j)
            values[j] = (float)draw(&r, &model->arch, &tensor);
        TRY(clprune_mat_write(model->context, model->params[i].value, values));
    }
done:
    free(values);
    return status;
}
