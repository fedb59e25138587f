/* widened[b][e] = the fp32 value of element e of stored block b, 0 <= b < blocks.
 *
 * Group g takes `run` blocks, from block g * run on. On CPUs (LOCAL 1) a block is read in vectors of
 * VW; on GPUs the work-items take consecutive elements. BLOCK: elements of a block. No local
 * memory. */
#include "sparse/bsr_values.clh"
#if !defined(LOCAL) || !defined(BLOCK)
#error "bsr_widen.cl needs LOCAL and BLOCK"
#endif

KERNEL_OF(LOCAL) bsr_widen(const ulong blocks, const ulong run, REGION_IN(stored, values),
    IF(SCALED)(REGION_IN(ushort, scales) COMMA) REGION_OUT(float, widened))
{
    const ulong begin = get_group_id(0) * run, end = min(begin + run, blocks);
    values += values_offset;
    widened += widened_offset;
    IF(SCALED)(scales += scales_offset;)
#if LOCAL == 1
    for (ulong b = begin; b < end; b++) {
        const float scale = SCALE(b);
        global const stored *from = values + b * STORED_OF(BLOCK);
        global float *to = widened + b * BLOCK;
        ulong e = 0;
        for (; e + VW <= BLOCK; e += VW)
            STORE(WIDEN(LOAD_CODES(from, e), scale), to + e);
        for (; e < BLOCK; e++)
            to[e] = widen(CODE_AT(from, e), scale);
    }
#else
    for (ulong e = begin * BLOCK + get_local_id(0); e < end * BLOCK; e += LOCAL)
        widened[e] =
            widen(CODE_AT(values + e / BLOCK * STORED_OF(BLOCK), e % BLOCK), SCALE(e / BLOCK));
#endif
}
