/* Depthwise convolutions: conv_depthwise.cl, conv_depthwise_dw.cl. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {
    "conv/conv_depthwise.cl", "conv_depthwise_forward"};
static const clprune__kernel_def input_kernel = {"conv/conv_depthwise.cl", "conv_depthwise_input"};
static const clprune__kernel_def weights_kernel = {
    "conv/conv_depthwise_dw.cl", "conv_depthwise_weights"};
static const clprune__kernel_def finish_kernel = {
    "conv/conv_depthwise_dw.cl", "conv_depthwise_finish"};

enum {
    MOST_TAPS = 64,      /* in local memory, and sums of a work-item */
    MOST_ACROSS = 16,    /* of a row, in registers; also the most pixels of padding */
    MOST_CHANNELS = 512, /* of a group */
    MOST_STEP = 4,       /* stride and dilation, which loops are unrolled for */
    CPU_WEIGHTS = 3136,  /* of a group: what leaves room in the nearest cache */
    GPU_CHUNK = 64,      /* channels of a group, at most */
    CPU_WORK = 1 << 20,  /* multiply-adds of a group */
    GPU_WORK = 1 << 15,
    CPU_GROUPS = 16, /* if there are lines for as many */
    SPLITS = 64      /* of the sums of dw, at most */
};

bool clprune__conv_is_depthwise(const clprune__conv *conv)
{
    const size_t across = conv->kernel.width;
    return conv->groups > 1 && conv->groups == conv->in && conv->in == conv->out &&
           across <= MOST_ACROSS && conv->kernel.height <= MOST_TAPS &&
           conv->kernel.height * across <= MOST_TAPS && conv->stride.width <= MOST_STEP &&
           conv->dilation.width <= MOST_STEP && conv->padding.width <= MOST_ACROSS;
}

/* Pixels of a block of a line of `width`, a multiple of `step`: the fewest that no result needs,
 * then the longest block. */
static size_t block_of(size_t width, size_t step)
{
    size_t best = step, least = SIZE_MAX;
    for (size_t pixels = clprune__round_up(8, step); pixels >= clprune__min(4, width);
         pixels -= step) {
        const size_t computed = clprune__round_up(width, pixels);
        if (computed < least) {
            least = computed;
            best = pixels;
        }
        if (pixels <= step)
            break;
    }
    return best;
}

/* Channels of a group, about equal for all; none has too few for a vector, if that is possible. */
static size_t chunk_of(size_t channels, size_t most, size_t vector)
{
    const size_t even = clprune__ceil_div(channels, clprune__ceil_div(channels, most));
    for (size_t chunk = clprune__round_up(even, vector); chunk > vector; chunk -= vector / 2)
        if (channels % chunk == 0 || channels % chunk >= vector)
            return chunk;
    return most;
}

typedef struct job {
    clprune__defines defines;
    size_t lanes, slices, vector;
    size_t chunk, chunks;
    size_t lines, group_lines, splits;
} job;

/* Writes `lines` lines of `width` pixels. */
static job plan_job(const clprune_context *context, const clprune__conv *conv, size_t lines,
    size_t width, size_t step, bool sums)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    job j = {.vector = sums && !vector ? 1 : clprune__vector_width(context), .lines = lines};
    const size_t taps = conv->kernel.height * conv->kernel.width;
    size_t most;
    j.lanes = j.slices = 1;
    if (vector) {
        most = clprune__min(CPU_WEIGHTS / taps, MOST_CHANNELS) / j.vector * j.vector;
        j.chunk = chunk_of(conv->in, most, j.vector);
    } else {
        const size_t local = clprune__group_size(context, 128);
        while (j.lanes * 2 <= clprune__min(local, GPU_CHUNK / j.vector))
            j.lanes *= 2;
        j.slices = sums ? 1 : local / j.lanes;
        j.chunk = most = j.lanes * j.vector;
    }
    j.chunks = clprune__ceil_div(conv->in, j.chunk);
    const size_t work = width * j.chunk * taps;
    size_t group_lines = clprune__max(1, (vector ? CPU_WORK : GPU_WORK) / work);
    if (vector)
        group_lines = clprune__min(group_lines, clprune__ceil_div(lines * j.chunks, CPU_GROUPS));
    if (sums)
        group_lines = clprune__max(group_lines, clprune__ceil_div(lines, SPLITS));
    j.splits = clprune__ceil_div(lines, group_lines);
    j.group_lines = clprune__ceil_div(lines, j.splits);
    j.splits = clprune__ceil_div(lines, j.group_lines);
    clprune__define(&j.defines, "LOCAL", j.lanes * j.slices);
    clprune__define(&j.defines, "LANES", j.lanes);
    clprune__define(&j.defines, "VW", j.vector);
    clprune__define(&j.defines, "CHUNK", most);
    clprune__define(&j.defines, "PIXELS", block_of(width, step));
    clprune__define(&j.defines, "TAPS_Y", conv->kernel.height);
    clprune__define(&j.defines, "TAPS_X", conv->kernel.width);
    clprune__define(&j.defines, "STRIDE", conv->stride.width);
    clprune__define(&j.defines, "REACH", conv->dilation.width);
    clprune__define(&j.defines, "PAD", conv->padding.width);
    return j;
}

static clprune_status begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__conv *conv, const job *j, clprune__launch *launch)
{
    TRY(clprune__launch_begin(context, def, &j->defines, launch));
    ARG_ULONGS(launch, j->lines, conv->in, j->chunks, j->chunk, j->group_lines);
    const size_t sizes[] = {conv->image.height, conv->image.width, conv->output.height,
        conv->output.width, conv->stride.height, conv->dilation.height, conv->padding.height};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        clprune__arg_uint(launch, (uint32_t)sizes[i]);
    return CLPRUNE_SUCCESS;
}

static clprune_status run(
    clprune__launch *launch, const clprune__conv *conv, const job *j, cl_event *event)
{
    clprune__launch_multiplies(launch, CLPRUNE_PRECISION_FP32,
        (double)conv->batch * (double)(conv->output.height * conv->output.width) *
            (double)(conv->kernel.height * conv->kernel.width * conv->in));
    const size_t local = j->lanes * j->slices, global = j->chunks * j->splits * local;
    return clprune__launch_enqueue(launch, 1, &global, &local, event);
}

clprune_status clprune__conv_depthwise_forward(clprune_context *context, const clprune__conv *conv,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    const bool bias = !clprune__is_absent(b);
    job j =
        plan_job(context, conv, conv->batch * conv->output.height, conv->output.width, 1, false);
    clprune__define(&j.defines, "BIAS", bias);
    clprune__narrow_define(context, x, y, &j.defines);
    clprune__launch launch;
    TRY(begin(context, &forward_kernel, conv, &j, &launch));
    ARG_MATS(&launch, x, w, bias ? b : clprune__untouched(w), y);
    return run(&launch, conv, &j, event);
}

clprune_status clprune__conv_depthwise_dx(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event)
{
    job j = plan_job(context, conv, conv->batch * conv->image.height, conv->image.width,
        conv->stride.width, false);
    clprune__launch launch;
    TRY(begin(context, &input_kernel, conv, &j, &launch));
    clprune__arg_float(&launch, beta);
    ARG_MATS(&launch, dy, w, dx);
    return run(&launch, conv, &j, event);
}

clprune_status clprune__conv_depthwise_dw(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const job j =
        plan_job(context, conv, conv->batch * conv->output.height, conv->output.width, 1, true);
    const size_t taps = conv->kernel.height * conv->kernel.width;
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, j.splits * taps, conv->in, &partial));
    clprune__launch launch;
    TRY(begin(context, &weights_kernel, conv, &j, &launch));
    ARG_MATS(&launch, x, dy, partial);
    TRY(run(&launch, conv, &j, NULL));

    const size_t local = clprune__group_size(context, 32), vector = clprune__vector_width(context);
    const size_t global = clprune__ceil_div(conv->in, local * vector) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", vector);
    clprune__define(&defines, "CHUNK", vector);
    clprune__define(&defines, "PIXELS", 1);
    clprune__define(&defines, "TAPS_Y", conv->kernel.height);
    clprune__define(&defines, "TAPS_X", conv->kernel.width);
    TRY(clprune__launch_begin(context, &finish_kernel, &defines, &launch));
    ARG_ULONGS(&launch, conv->in, j.splits);
    clprune__arg_float(&launch, beta);
    ARG_MATS(&launch, partial, dw);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
