#include "trainer/model/model_params.h"

#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

enum { NAME = sizeof(((model_tensor *)NULL)->name) };

model_tensor model_tensor_of(
    const char *prefix, const char *name, int kind, size_t rank, const size_t shape[4])
{
    model_tensor tensor = {.kind = kind, .rank = rank, .rows = rank == 1 ? 1 : shape[0], .cols = 1};
    for (size_t i = 0; i < 4; ++i)
        tensor.shape[i] = i < rank ? shape[i] : 1;
    for (size_t i = rank == 1 ? 0 : 1; i < rank; ++i)
        tensor.cols *= shape[i];
    (void)snprintf(tensor.name, sizeof tensor.name, "%s%s", prefix, name);
    return tensor;
}

uint64_t model_params_elements(const model_tensors *tensors)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tensors->count; ++i) {
        const model_tensor tensor = tensors->at(tensors->arch, i);
        sum += (uint64_t)tensor.rows * tensor.cols;
    }
    return sum;
}

clprune_status model_params_create(
    clprune_context *context, const model_tensors *tensors, clprune_param **params, char **names)
{
    clprune_status status = CLPRUNE_OUT_OF_HOST_MEMORY;
    const size_t count = tensors->count;
    *params = calloc(count, sizeof **params);
    *names = calloc(count, NAME);
    clprune_mat *mats = calloc(2 * count, sizeof *mats); /* values, then gradients */
    const char **pointers = calloc(count, sizeof *pointers);
    if (*params == NULL || *names == NULL || mats == NULL || pointers == NULL)
        goto done;
    for (size_t i = 0; i < count; ++i) {
        const model_tensor tensor = tensors->at(tensors->arch, i);
        char *name = *names + i * NAME;
        memcpy(name, tensor.name, NAME);
        pointers[i] = (*params)[i].name = name;
        (*params)[i].decay = tensor.rank == 2 || tensor.rank == 4;
        mats[i] = mats[count + i] = (clprune_mat){.rows = tensor.rows, .cols = tensor.cols};
    }
    status = clprune_mats_create(context, CLPRUNE_MEMORY_PARAMETERS, count, pointers, mats);
    if (status == CLPRUNE_SUCCESS)
        status =
            clprune_mats_create(context, CLPRUNE_MEMORY_GRADIENTS, count, pointers, mats + count);
    for (size_t i = 0; i < count; ++i) {
        (*params)[i].value = mats[i];
        (*params)[i].grad = mats[count + i];
    }
done:
    free(mats);
    free(pointers);
    return status;
}

void model_params_release(clprune_context *context, clprune_param *params, char *names)
{
    if (params != NULL) {
        clprune_buffer_release(context, params[0].value.buffer);
        clprune_buffer_release(context, params[0].grad.buffer);
    }
    free(params);
    free(names);
}

clprune_status model_params_init(clprune_context *context, const model_tensors *tensors,
    const clprune_param *params, uint64_t seed)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; status == CLPRUNE_SUCCESS && i < tensors->count; ++i) {
        const model_tensor tensor = tensors->at(tensors->arch, i);
        const size_t count = tensor.rows * tensor.cols;
        rng r = rng_open(seed, RNG_INIT, (uint32_t)i, 0);
        float *values = malloc(count * sizeof *values);
        if (values == NULL)
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        for (size_t j = 0; j < count; ++j)
            values[j] = (float)tensors->draw(&r, tensors->arch, &tensor);
        status = clprune_mat_write(context, params[i].value, values);
        free(values);
    }
    return status;
}

bool model_params_weight(const model_tensors *tensors, const clprune_param *params,
    const trainer_state *state, size_t states, size_t index, trainer_weight *weight)
{
    if (index >= tensors->count + states)
        return false;
    const bool is_state = index >= tensors->count;
    const model_tensor tensor =
        is_state ? (model_tensor){.rank = 1, .shape = {state[index - tensors->count].mat.cols}}
                 : tensors->at(tensors->arch, index);
    *weight = (trainer_weight){.rank = tensor.rank,
        .mat = is_state ? state[index - tensors->count].mat : params[index].value,
        .channels_last = tensor.channels_last,
        .head = tensor.head};
    memcpy(weight->shape, tensor.shape, sizeof weight->shape);
    (void)snprintf(weight->name, sizeof weight->name, "%s",
        is_state ? state[index - tensors->count].name : tensor.name);
    return true;
}
