/* Products of forms without their own: samples are restored, some at a time, and multiplied as
 * dense ones. */
#include "nn/store/chunks.h"
#include "nn/store/form.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

clprune_status clprune__restored_product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    clprune__chunks chunks;
    TRY(clprune__chunks_begin(context, kept->rows, kept->cols, range, &chunks));
    while (clprune__chunks_next(&chunks)) {
        const clprune_mat x = chunks.room;
        const clprune_mat part = clprune__chunk_of(&chunks, dy, nt ? dw.rows : kept->rows);
        const float part_beta = chunks.before == 0 ? beta : 1.0f;
        cl_event *last = chunks.last ? event : NULL;
        TRY(kept->form->restore(context, kept, chunks.range, x, NULL));
        if (nt)
            TRY(clprune__gemm_sum_nt(
                context, chunks.range.count, part_beta, part, x, NULL, dw, last));
        else
            TRY(clprune__gemm_single(context, true, false, 1.0f, part_beta, part, x, dw, last));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__restored_product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    SCRATCH_SCOPE(context);
    clprune__chunks chunks;
    TRY(clprune__chunks_begin(context, kept->rows, kept->cols, range, &chunks));
    while (clprune__chunks_next(&chunks)) {
        clprune__conv part = *conv;
        part.batch = chunks.range.count;
        const clprune_mat part_dy =
            clprune__chunk_of(&chunks, dy, conv->output.height * conv->output.width);
        TRY(kept->form->restore(context, kept, chunks.range, chunks.room, NULL));
        TRY(clprune__conv_dw(context, &part, chunks.before == 0 ? beta : 1.0f, chunks.room, part_dy,
            dw, chunks.last ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}
