/* In place of gemm_blast.c in a build with CLPRUNE_CLBLAST=OFF. */
#include "ops/products/gemm_private.h"

#include "runtime/context/fail.h"

const bool clprune__gemm_blast_built = false;

clprune_status clprune__gemm_blast(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    (void)job, (void)event;
    return clprune__fail(
        context, CLPRUNE_UNSUPPORTED, __FILE__, __LINE__, "this library was built without CLBlast");
}

bool clprune__gemm_blast_reaches(const clprune_context *context, const clprune__gemm_job *job)
{
    (void)context, (void)job;
    return false;
}

void clprune__gemm_blast_close(clprune_context *context)
{
    (void)context;
}
