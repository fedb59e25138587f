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
#include "trainer/data/rng.h"
#include "trainer/run/try.h"

static double draw(rng *r, const resnet_arch *arch, const resnet_tensor *tensor)
{
    switch (tensor->kind) {
    case RESNET_CONV_WEIGHT:
        return sqrt(2.0 / (double)tensor->fan_out) * rng_normal(r);
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

clprune_status resnet_init(resnet *model, uint64_t seed)
{
    clprune_status status = CLPRUNE_SUCCESS;
    float *values = NULL;
    for (size_t i = 0; i < model->tensors; ++i) {
        const resnet_tensor tensor = resnet_arch_tensor(&model->arch, i);
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
    for (size_t i = 0; i < model->parts_count; ++i) {
        TRY(write_all(model->context, 0.0f, model->parts[i].running_mean));
        TRY(write_all(model->context, 1.0f, model->parts[i].running_var));
        model->parts[i].batches = 0;
    }
done:
    free(values);
    return status;
}
