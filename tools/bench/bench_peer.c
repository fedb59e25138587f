/* bench_peer.c: the dense peer of CPU devices, OpenBLAS, where the build found it. */
#include "bench.h"

#ifdef CLPRUNE_BENCH_OPENBLAS
#include <cblas.h>

/* The configuration reads "OpenBLAS 0.3.21 DYNAMIC_ARCH ...": name and version are its first two
 * words. The core is named, too: unless OPENBLAS_CORETYPE says better, a release takes CPUs newer
 * than itself for old ones. */
const char *bench_peer_name(void)
{
    static char name[96];
    char library[24] = "OpenBLAS", version[24] = "";
    (void)sscanf(openblas_get_config(), "%23s %23s", library, version);
    (void)snprintf(
        name, sizeof name, "%s %s sgemm for %s", library, version, openblas_get_corename());
    return name;
}

void bench_peer_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float beta,
    const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
        transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a,
        (int)(transpose_a ? m : k), b, (int)(transpose_b ? k : n), beta, c, (int)n);
}
#else
const char *bench_peer_name(void)
{
    return NULL;
}

void bench_peer_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float beta,
    const float *a, const float *b, float *c)
{
    (void)transpose_a, (void)transpose_b, (void)m, (void)n, (void)k, (void)beta;
    (void)a, (void)b, (void)c;
}
#endif

void bench_peer_nt(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    for (size_t n = 0; n < shape->batch; n++)
        bench_peer_gemm(false, true, shape->out, shape->tokens, shape->in, n == 0 ? 0.0f : 1.0f,
            job->dy.host + n * shape->out * shape->in, job->x.host + n * shape->tokens * shape->in,
            job->dw.host);
}
