#include "runtime/tuning.h"

#include "runtime/context_private.h"

/* CLBlast's defaults for CPU devices run at a tenth of OpenBLAS on PoCL. This set, found by search
 * on an AVX-512 CPU with PoCL 3.1 and CLBlast 1.5.3, is 4 to 8 times faster: one work-item computes
 * 16 x 16 results in sixteen 16-wide registers, without local memory. */
static const char *const xgemm_names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG",
    "NDIMB", "NDIMC", "NWG", "SA", "SB", "STRM", "STRN", "VWM", "VWN"};
static const size_t xgemm_values[] = {1, 1, 16, 1, 4, 4, 64, 4, 4, 64, 0, 0, 0, 0, 16, 1};
static const char *const routine_names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
static const size_t routine_values[] = {48};
static const char *const transpose_names[] = {"TRA_DIM", "TRA_PAD", "TRA_SHUFFLE", "TRA_WPT"};
static const size_t transpose_values[] = {16, 0, 0, 4};
static const char *const padtranspose_names[] = {"PADTRA_PAD", "PADTRA_TILE", "PADTRA_WPT"};
static const size_t padtranspose_values[] = {0, 32, 1};
static const char *const pad_names[] = {"PAD_DIMX", "PAD_DIMY", "PAD_WPTX", "PAD_WPTY"};
static const size_t pad_values[] = {32, 8, 1, 1};

#define ROW(kernel, stem)                                                                          \
    {                                                                                              \
        kernel, sizeof stem##_names / sizeof *stem##_names, stem##_names, stem##_values            \
    }
static const clprune__blast_tuning cpu_16_wide[] = {
    ROW("Xgemm", xgemm),
    ROW("GemmRoutine", routine),
    ROW("Transpose", transpose),
    ROW("Padtranspose", padtranspose),
    ROW("Pad", pad),
};

const clprune__blast_tuning *clprune__blast_tuning_for(
    const clprune_context *context, size_t *count)
{
    cl_uint width = 0;
    *count = 0;
    if (!context->is_cpu || clGetDeviceInfo(context->device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
                                sizeof width, &width, NULL) != CL_SUCCESS)
        return NULL;
    if (width < 16)
        return NULL; /* 16 x 16 results would not fit the registers */
    *count = sizeof cpu_16_wide / sizeof *cpu_16_wide;
    return cpu_16_wide;
}
