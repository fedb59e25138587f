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

static double cut_normal(rng *r, double deviation)
{
    double x;
    do
        x = deviation * rng_normal(r);
    while (fabs(x) > 2.0);
    return x;
}

static double draw(rng *r, const void *of, const model_tensor *tensor)
{
    const resmlp_arch *arch = of;
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

clprune_status resmlp_init(void *of, uint64_t seed)
{
    const resmlp *model = of;
    model_tensors all = resmlp_arch_all(&model->arch);
    all.draw = draw;
    return model_params_init(model->context, &all, model->params, seed);
}
