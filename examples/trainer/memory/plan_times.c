/* The figures of cards, and the table of kernels. */
#include "trainer/memory/plan_times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/options/options.h"

/* Dense rates without sparsity. On Hopper mma.sync, which the kernels have, reaches 62 % of those
 * of wgmma, 989 TF/s in bf16 (arXiv 2402.13499). */
static const plan_card cards[] = {
    {"H100 SXM", 132, 80, 3.35e12, {67e12, 307e12, 613e12}, 3e-6},
    {"H200", 132, 141, 4.8e12, {67e12, 307e12, 613e12}, 3e-6},
    {"A100 SXM", 108, 80, 2.039e12, {19.5e12, 156e12, 312e12}, 3e-6},
    {"RTX 4090", 128, 24, 1.008e12, {82.6e12, 82.6e12, 165.2e12}, 3e-6},
};

const plan_card *plan_card_of(size_t plan_device)
{
    return plan_device > 0 ? &cards[plan_device - 1] : NULL;
}

/* OpenCL's CL_DEVICE_TYPE_GPU; 48 KiB is what NVIDIA's OpenCL gives a group. */
clprune_device_info plan_card_device(const plan_card *card)
{
    const uint64_t gpu = 1 << 2;
    clprune_device_info info = {.type = gpu,
        .vendor = "NVIDIA Corporation",
        .global_memory = (uint64_t)card->gib << 30,
        .max_allocation = (uint64_t)card->gib << 28,
        .local_memory = 48 << 10,
        .compute_units = card->units,
        .vector_width = 1,
        .max_work_group = 1024};
    (void)snprintf(info.device, sizeof info.device, "NVIDIA %s, as described", card->name);
    return info;
}

/* Images and tokens are uploaded beside the kernels, the loss is read now and then, and the first
 * step alone looks whether all parameters have values. */
static bool is_transfer(const clprune_plan_work *work)
{
    return strcmp(work->kernel, "write") == 0 || strcmp(work->kernel, "read") == 0;
}

/* Seconds of moving and of multiplying. */
static void parts_of(
    const plan_card *card, const clprune_plan_work *work, double *moving, double *multiplying)
{
    *moving = work->bytes / card->memory;
    *multiplying =
        2 * work->multiplications / card->flops[work->precision - CLPRUNE_PRECISION_FP32];
}

double plan_card_seconds(const plan_card *card, const clprune_plan_work *work)
{
    double moving, multiplying;
    parts_of(card, work, &moving, &multiplying);
    return card->launch + (moving > multiplying ? moving : multiplying);
}

/* All commands of one kernel. */
typedef struct kernel_sum {
    const char *kernel;
    uint64_t launches;
    double bytes, multiplications, seconds, moving, multiplying;
} kernel_sum;

static int by_seconds(const void *a, const void *b)
{
    const kernel_sum *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void add(kernel_sum *to, const plan_card *card, const clprune_plan_work *work)
{
    double moving, multiplying;
    parts_of(card, work, &moving, &multiplying);
    ++to->launches;
    to->bytes += work->bytes;
    to->multiplications += work->multiplications;
    to->moving += moving;
    to->multiplying += multiplying;
    to->seconds += plan_card_seconds(card, work);
}

static void print_sum(const kernel_sum *sum)
{
    (void)printf("%-30s %8" PRIu64 " %10.3f %10.3f %10.3f %10.3f %10.3f\n", sum->kernel,
        sum->launches, sum->bytes / 1e9, 2 * sum->multiplications / 1e12, 1e3 * sum->moving,
        1e3 * sum->multiplying, 1e3 * sum->seconds);
}

bool plan_times_print(const plan_card *card, const memory_plan *plan, fault *f)
{
    kernel_sum *sums = calloc((size_t)plan->commands + 1, sizeof *sums);
    kernel_sum all = {.kernel = "together"};
    uint64_t unknown = 0;
    size_t count = 0;
    if (sums == NULL)
        return fault_set(f, CODE_MEMORY, "no memory for the times of kernels");
    for (uint64_t k = plan->first; k < plan->commands; ++k) {
        const clprune_plan_work work = clprune_plan_command(plan->plan, k);
        size_t i = 0;
        if (is_transfer(&work))
            continue;
        while (i < count && strcmp(sums[i].kernel, work.kernel) != 0)
            ++i;
        sums[i].kernel = work.kernel;
        count += i == count;
        add(&sums[i], card, &work);
        add(&all, card, &work);
        unknown += work.bytes <= 0;
    }
    qsort(sums, count, sizeof *sums, by_seconds);
    (void)printf("\npredicted for an %s: %g TB/s, %g TF/s in fp32, %g in tf32, %g in bf16, %g us a "
                 "launch\n",
        card->name, card->memory / 1e12, card->flops[0] / 1e12, card->flops[1] / 1e12,
        card->flops[2] / 1e12, card->launch * 1e6);
    (void)printf("%-30s %8s %10s %10s %10s %10s %10s\n",
        plan->only_tests ? "kernels of a test" : "kernels of a training step", "launches", "GB",
        "TFLOP", "moving ms", "multipl ms", "ms");
    for (size_t i = 0; i < count; ++i)
        print_sum(&sums[i]);
    print_sum(&all);
    if (unknown > 0)
        (void)printf("%" PRIu64 " launches move an unknown number of bytes\n", unknown);
    free(sums);
    return true;
}
