/* Values and gradients of bf16 between the layers of nets on tensor cores, which are emulated here:
 * steps beside those of the kernels for CPUs in the same precision, whose gradients are in fp32. */
#include "net/net_models.h"
#include "support/test_folder.h"

enum { BATCH = 3 };

/* On tensor cores, or by the kernels for CPUs. */
static clprune_context *open_bf16(bool tensor_cores)
{
    const clprune_context_options options = {
        .kernels = tensor_cores ? CLPRUNE_KERNELS_TILED : CLPRUNE_KERNELS_VECTOR,
        .precision = CLPRUNE_PRECISION_BF16};
    if (tensor_cores) /* without an order, which inlines all functions */
        test_debug("mma=emulated,forget=poison,check=off");
    return test_open_on(clprune_context_queue(test_context()), &options);
}

static void beside_cpus(void **state)
{
    const net_model *model = *state;
    static const clprune_net_keep keeps[] = {{.preset = CLPRUNE_NET_DENSE},
        {.preset = CLPRUNE_NET_LEAST, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}}};
    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        net_job cpu = net_open(open_bf16(false), model, BATCH, &keeps[i]);
        net_job gpu = net_open(open_bf16(true), model, BATCH, &keeps[i]);
        const float *want = net_step_grads(&cpu), *got = net_step_grads(&gpu);
        net_close(&gpu, "gradients", got, want, 0.02);
    }
}

int main(void)
{
    const net_model *model = &net_token_models[NET_HEAD];
    test_list list = {0};
    test_add(&list, beside_cpus, model, "%s", model->name);
    return test_run_on_each_device("net_narrow", &list);
}
