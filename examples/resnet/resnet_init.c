/*
 * Initial parameters, as torchvision's resnet.py draws them:
 *
 *     convolutions   normal with deviation sqrt(2 / fan_out), fan_out = out * kernel^2 (He et al.,
 *                    arXiv 1502.01852)
 *     batch norm     gamma 1, beta 0; running mean 0, running variance 1, no batches
 *     head           weight and bias uniform in +-1 / sqrt(inputs), PyTorch's default
 */
#include <math.h>
#include <stdlib.h>

#include "resnet.h"
#include "trainer/base/try.h"

static double draw(rng *r, const void *of, const model_tensor *tensor)
{
    const resnet_arch *arch = of;
    switch (tensor->kind) {
    case RESNET_CONV_WEIGHT:
        return sqrt(2.0 / (double)(tensor->shape[0] * tensor->shape[2] * tensor->shape[3])) *
               rng_normal(r);
    case RESNET_GAMMA:
        return 1.0;
    case RESNET_HEAD_WEIGHT:
    case RESNET_HEAD_BIAS:
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)arch->channels[arch->stages - 1]);
    default: /* RESNET_BETA */
        return 0.0;
    }
}

/* Writes from the host, like the parameters: a fill would build a kernel that no step uses. */
static clprune_status write_all(clprune_context *context, float value, clprune_mat mat)
{
    const size_t count = mat.rows * mat.cols;
    float *values = malloc(count * sizeof *values);
    if (values == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; ++i)
        values[i] = value;
    const clprune_status status = clprune_mat_write(context, mat, values);
    free(values);
    return status;
}

clprune_status resnet_init(void *of, uint64_t seed)
{
    resnet *model = of;
    model_tensors all = resnet_arch_all(&model->arch);
    all.draw = draw;
    TRY(model_params_init(model->context, &all, model->params, seed));
    for (size_t i = 0; i < model->parts_count; ++i) {
        TRY(write_all(model->context, 0.0f, model->parts[i].running_mean));
        TRY(write_all(model->context, 1.0f, model->parts[i].running_var));
        model->parts[i].batches = 0;
    }
    return CLPRUNE_SUCCESS;
}
