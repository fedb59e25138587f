/* Products of convolutions on CPUs from strips of the source: conv_strip_vector.cl. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_strip_kernel = {
    "conv/conv_strip_vector.cl", "conv_strip_vector"};

/* Terms of a result that have offsets in local memory, floats of its strip, and floats to spare
 * behind each line. */
enum { TERMS = 2048, STRIP = 80 << 10, SPARE = 16 };

/* The taps along one axis of the grid, as coordinates (u + slot) * step + phase of the source. */
typedef struct span {
    ptrdiff_t low; /* the least slot */
    size_t reach;  /* the largest slot above it */
    size_t phases, first_phase;
} span;

typedef struct strip_plan {
    span down, across;
    size_t vectors, tile; /* V and MR */
    size_t panels, panel_run;
    size_t images, high, blocks; /* images and rows of a block; blocks of an image */
    size_t pitch, line, depth;
} strip_plan;

static span span_of(size_t step, size_t taps, ptrdiff_t first, ptrdiff_t tap_step)
{
    const ptrdiff_t s = (ptrdiff_t)step;
    span made = {.low = clprune__floor_div(first, s), .phases = 1};
    ptrdiff_t high = made.low;
    made.first_phase = (size_t)(first - made.low * s);
    for (size_t t = 1; t < taps; t++) {
        const ptrdiff_t at = first + (ptrdiff_t)t * tap_step, slot = clprune__floor_div(at, s);
        made.low = slot < made.low ? slot : made.low;
        high = slot > high ? slot : high;
        if ((size_t)(at - slot * s) != made.first_phase)
            made.phases = step;
    }
    if (made.phases > 1)
        made.first_phase = 0;
    made.reach = (size_t)(high - made.low);
    return made;
}

/* Chooses the register tile that takes the least time for rows of `width` results with n channels,
 * estimated by the larger of multiply-adds and loads of whole tiles. Few sizes, as each compiles a
 * program. */
static void choose_tile(strip_plan *plan, size_t accumulators, size_t width, size_t n)
{
    static const size_t sizes[] = {1, 4, 7, 8, 14, 16, 28};
    size_t least = SIZE_MAX;
    for (size_t v = 1; v <= 4; v++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const size_t r = sizes[i], work = clprune__max(r * v, r + v + 2) + 1;
            const size_t all = work * clprune__ceil_div(width, r) * clprune__ceil_div(n, 16 * v);
            if (r * v <= clprune__max(accumulators, 1) && all < least) {
                least = all;
                plan->vectors = v;
                plan->tile = r;
            }
        }
}

/* Channels of results, or of the source, up to which strips are faster: tiles are then too narrow
 * to reuse a source pixel, or taps have too few channels to reuse addresses. */
enum { FEW_RESULTS = 16, FEW_CHANNELS = 15 };

/* False where not even one row of one channel fits, or strips are slower. */
static bool make_plan(
    const clprune_context *context, const clprune__conv_gather *job, strip_plan *made)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t taps = job->taps.height * job->taps.width;
    const size_t local = clprune__panel_rows(context, STRIP + TERMS, 1), height = job->grid.height;
    const size_t limit = 1 << 20; /* beyond, no strip fits */
    strip_plan plan = {
        .down = span_of(job->step.height, job->taps.height, job->first_y, job->tap_step_y),
        .across = span_of(job->step.width, job->taps.width, job->first_x, job->tap_step_x)};
    if ((job->n > FEW_RESULTS && job->k > FEW_CHANNELS) || local < STRIP + TERMS || taps > TERMS ||
        job->grid.width > limit || height > INT32_MAX / 2 || plan.down.reach > limit ||
        plan.across.reach > limit || plan.down.phases > limit || plan.across.phases > limit)
        return false;
    choose_tile(&plan, tuning->gemm.accumulators, job->grid.width, job->n);
    plan.panels = clprune__ceil_div(job->n, 16 * plan.vectors);
    plan.pitch =
        clprune__round_up(clprune__round_up(job->grid.width, plan.tile) + plan.across.reach, 16);
    const size_t phases = plan.down.phases * plan.across.phases;
    const size_t least = phases * (plan.pitch + SPARE); /* of a slot with one channel */
    if (least > STRIP / (1 + plan.down.reach))
        return false;
    /* About block_rows results per group: whole images, or equal parts of one. */
    const size_t wanted_rows = clprune__max(1, tuning->gemm.block_rows / job->grid.width);
    const size_t fit_rows = STRIP / least - plan.down.reach;
    plan.images = 1;
    plan.high = height;
    plan.blocks = 1;
    if (height > wanted_rows || height > fit_rows) {
        plan.high = clprune__min(wanted_rows, fit_rows);
        plan.blocks = clprune__ceil_div(height, plan.high);
        plan.high = clprune__ceil_div(height, plan.blocks);
    } else {
        plan.images = clprune__max(1, clprune__min(job->batch, wanted_rows / height));
        while (plan.images > 1 && plan.images * (height + plan.down.reach) * least > STRIP)
            plan.images--;
        plan.images = clprune__ceil_div(job->batch, clprune__ceil_div(job->batch, plan.images));
    }
    const size_t lines = phases * plan.images * (plan.high + plan.down.reach);
    const size_t deepest =
        clprune__min((STRIP / lines - SPARE) / plan.pitch, TERMS / clprune__max(taps, 1));
    plan.depth = clprune__ceil_div(job->k, clprune__ceil_div(job->k, deepest));
    if (plan.depth > 16 && clprune__round_up(plan.depth, 16) <= deepest)
        plan.depth = clprune__round_up(plan.depth, 16);
    plan.line = plan.depth * plan.pitch + SPARE;
    /* Runs of panels: as long as enough groups for the device remain. */
    const size_t wanted = (size_t)context->facts.compute_units * tuning->gemm.groups_per_unit;
    const size_t groups = clprune__ceil_div(job->batch, plan.images) * plan.blocks;
    const size_t runs =
        clprune__min(plan.panels, clprune__ceil_div(wanted, clprune__max(groups, 1)));
    plan.panel_run = clprune__ceil_div(plan.panels, runs);
    *made = plan;
    return true;
}

bool clprune__conv_strips(const clprune_context *context, const clprune__conv_gather *job)
{
    strip_plan plan;
    return make_plan(context, job, &plan);
}

clprune_status clprune__conv_gather_strip(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    strip_plan plan = {.panels = 0};
    (void)make_plan(context, job, &plan);
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(plan.panels, plan.panel_run),
        clprune__ceil_div(job->batch, plan.images) * plan.blocks};
    SCRATCH_SCOPE(context);
    clprune__region packed;
    TRY(clprune__conv_pack_weights(context, job, plan.vectors, false, 0, &packed));
    clprune__defines defines = {0};
    clprune__define(&defines, "V", plan.vectors);
    clprune__define(&defines, "MR", plan.tile);
    clprune__define(&defines, "STRIP", STRIP);
    clprune__define(&defines, "TERMS", TERMS);
    clprune__bf16_define(context, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_strip_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, job->batch);
    clprune__arg_uint(&launch, (uint32_t)plan.images);
    clprune__arg_uint(&launch, (uint32_t)plan.high);
    clprune__arg_uint(&launch, (uint32_t)plan.blocks);
    clprune__arg_ulong(&launch, plan.panel_run);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)plan.depth);
    clprune__arg_uint(&launch, (uint32_t)(job->taps.height * job->taps.width));
    clprune__arg_gather_pixels(&launch, job);
    clprune__arg_uint(&launch, (uint32_t)plan.down.low);
    clprune__arg_uint(&launch, (uint32_t)plan.across.low);
    clprune__arg_uint(&launch, (uint32_t)plan.down.reach);
    clprune__arg_uint(&launch, (uint32_t)plan.down.phases);
    clprune__arg_uint(&launch, (uint32_t)plan.across.phases);
    clprune__arg_uint(&launch, (uint32_t)plan.down.first_phase);
    clprune__arg_uint(&launch, (uint32_t)plan.across.first_phase);
    clprune__arg_uint(&launch, (uint32_t)plan.pitch);
    clprune__arg_uint(&launch, (uint32_t)plan.line);
    clprune__arg_gather_operands(&launch, job, packed);
    return clprune__launch_enqueue(&launch, 2, global, local, event);
}
