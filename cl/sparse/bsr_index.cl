/* crow and col of each sample, from the blocks that `mask` marks. FROM:
 *
 *     MASK    mask[n][blocks], a byte for each block, non-zero = marked
 *     ALL     all blocks are marked; mask is not read
 *     BITMAP  mask[n][ceil(blocks / 8)], bits as in clprune/bsr.h
 *
 * Every sample keeps exactly `keep` blocks, so that readers of the index never overrun: if more are
 * marked, the first `keep` of these; if fewer, the first unmarked ones too.
 *
 * Group n takes sample n of mask, crow and col, each from its offset on. The LOCAL work-items own
 * equal runs of consecutive block rows; counting the kept blocks before a run gives the place of its
 * columns in col, in the order of the blocks.
 *
 * TO_BITMAP 1: also writes bitmap[n][ceil(blocks / 8)]; each byte is written by one work-item.
 *
 * Local memory: LOCAL * 4 bytes, none where LOCAL is 1. LOCAL: any >= 1. */
#include "prelude/common.clh"
#if !defined(LOCAL) || !defined(FROM) || !defined(TO_BITMAP)
#error "bsr_index.cl needs LOCAL, FROM and TO_BITMAP"
#endif
#define MASK   0
#define BITMAP 1
#define ALL    2

#if FROM == ALL
#define KEPT(i) 1u
#elif FROM == BITMAP
#define KEPT(i) (mask[(i) / 8] >> (i) % 8 & 1u)
#else
#define KEPT(i) (uint)(mask[i] != 0)
#endif
typedef ulong __attribute__((aligned(1))) eight_bytes;

#if LOCAL == 1 && FROM == BITMAP
/* Bits first to first + count - 1 of a bitmap; count <= 56, so that eight bytes hold them. */
static inline ulong bits_of(global const uchar *bitmap, const ulong bytes, const ulong first,
    const ulong count)
{
    global const uchar *from = bitmap + first / 8;
    ulong bits = 0;
    if (first / 8 + 8 <= bytes) {
#ifdef __ENDIAN_LITTLE__
        bits = *(global const eight_bytes *)from;
#else
        for (uint b = 0; b < 8; b++)
            bits |= (ulong)from[b] << 8 * b;
#endif
    } else {
        for (uint b = 0; first / 8 + b < bytes; b++)
            bits |= (ulong)from[b] << 8 * b;
    }
    return bits >> first % 8 & ((1ul << count) - 1);
}
#endif

#if LOCAL == 1 && FROM == MASK && defined(__ENDIAN_LITTLE__)
#define EIGHT_AT_A_TIME
typedef int8 __attribute__((aligned(4))) int8_anywhere;

/* Bit i is set where mask[i] is not zero, for eight bytes. */
static inline uint kept_of_eight(global const uchar *mask)
{
    ulong bytes = *(global const eight_bytes *)mask;
    bytes |= bytes >> 4; /* the lowest bit of each byte becomes the OR of the byte's bits */
    bytes |= bytes >> 2;
    bytes |= bytes >> 1;
    return (uint)((bytes & 0x0101010101010101ul) * 0x0102040810204080ul >> 56);
}

/* order[bits] = the numbers of the set bits, ascending, a byte each. */
static inline void list_bits(ulong order[256])
{
    order[0] = 0;
    for (uint bits = 1; bits < 256; bits++) {
        const uint others = bits & (bits - 1);
        order[bits] = order[others] << 8 | popcount((bits ^ others) - 1);
    }
}
#endif

/* 1 if a block is marked, or one of the *fill unmarked blocks that are still to be kept; these count
 * down *fill. */
static inline uint is_kept(const uint marked, uint *fill)
{
    const uint fills = *fill > 0 && !marked;
    *fill -= fills;
    return marked | fills;
}

KERNEL_OF(LOCAL) bsr_index(const ulong block_rows, const ulong block_cols, const ulong keep,
    REGION_IN(uchar, mask), const ulong crow_offset, global int *RESTRICT_ALONE crow,
    const ulong col_offset,
    global int *RESTRICT_ALONE col IF(TO_BITMAP)(COMMA REGION_OUT(uchar, bitmap)))
{
    const uint me = get_local_id(0);
    const ulong n = get_group_id(0), blocks = block_rows * block_cols, bytes = (blocks + 7) / 8;
    mask += mask_offset + n * (FROM == BITMAP ? bytes : blocks);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;

    const ulong run = (block_rows + LOCAL - 1) / LOCAL;
    const ulong first = min(me * run, block_rows);
    const ulong last = min(first + run, block_rows);
    uint next = 0, fill = 0;
#if LOCAL > 1
    local uint marked_in_run[LOCAL];
    uint marked = 0;
    for (ulong i = first * block_cols; i < last * block_cols; i++)
        marked += KEPT(i);
    marked_in_run[me] = marked;
    barrier(CLK_LOCAL_MEM_FENCE);
    marked = 0;
    /* Not LOCAL: if the compiler knows that a loop right after a barrier has two turns, PoCL 6 makes an
     * endless one. */
    for (uint i = 0; i < get_local_size(0); i++)
        marked += marked_in_run[i];
    fill = marked < keep ? (uint)keep - marked : 0;
    for (uint i = 0; i < me; i++) {
        const ulong in_run = (min((i + 1) * run, block_rows) - min(i * run, block_rows)) * block_cols;
        const uint fills = min(fill, (uint)in_run - marked_in_run[i]);
        next += marked_in_run[i] + fills;
        fill -= fills;
    }
    for (ulong row = first; row < last; row++) {
        crow[row] = (int)min((ulong)next, keep);
        for (ulong j = 0; j < block_cols; j++)
            if (is_kept(KEPT(row * block_cols + j), &fill)) {
                if (next < keep)
                    col[next] = (int)j;
                next++;
            }
    }
#else
#ifdef EIGHT_AT_A_TIME
    ulong order[256];
    list_bits(order);
#endif
    uint marked = 0;
    for (bool again = false;; again = true) {
        next = 0;
        for (ulong row = 0; row < block_rows; row++) {
            crow[row] = (int)min((ulong)next, keep);
            ulong j = 0;
#if FROM == BITMAP
            /* Steps from set bit to set bit, because few are set. */
            for (; j < block_cols; j += 56) {
                const ulong count = min(block_cols - j, 56ul);
                ulong bits = bits_of(mask, bytes, row * block_cols + j, count);
                for (ulong clear = ~bits & ((1ul << count) - 1); fill > 0 && clear != 0; fill--) {
                    bits |= clear & -clear;
                    clear &= clear - 1;
                }
                for (; bits != 0; bits &= bits - 1, next++)
                    if (next < keep)
                        col[next] = (int)(j + 63 - clz(bits & -bits));
            }
#endif
#ifdef EIGHT_AT_A_TIME
            for (; fill == 0 && j + 8 <= block_cols && next + 8 <= keep; j += 8) {
                const uint kept = kept_of_eight(mask + row * block_cols + j);
                const int8 columns = convert_int8(as_uchar8(order[kept])) + (int8)((int)j);
                *(global int8_anywhere *)(col + next) = columns;
                next += popcount(kept);
            }
#endif
            /* No branch on the mask: the column of a dropped block is overwritten by the next one. */
            for (; j < block_cols; j++) {
                if (next < keep)
                    col[next] = (int)j;
                next += is_kept(KEPT(row * block_cols + j), &fill);
            }
        }
        if (!again)
            marked = next;
        if (next >= keep)
            break;
        fill = (uint)keep - next; /* at most the unmarked blocks, so the second pass keeps `keep` */
    }
#endif
    if (last == block_rows && (first < last || me == 0)) {
        /* The last runs may be empty: only the run that ends at the last block row writes the total. */
        crow[block_rows] = (int)keep;
    }
#if TO_BITMAP
    bitmap += bitmap_offset + n * bytes;
    if (marked != keep) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (ulong b = 0; me == 0 && b < bytes; b++)
            bitmap[b] = 0;
        for (ulong row = 0; me == 0 && row < block_rows; row++)
            for (int k = crow[row]; k < crow[row + 1]; k++) {
                const ulong i = row * block_cols + (ulong)col[k];
                bitmap[i / 8] |= (uchar)(1u << i % 8);
            }
        return;
    }
    ulong b = me;
#ifdef EIGHT_AT_A_TIME
    for (; b < blocks / 8; b++)
        bitmap[b] = (uchar)kept_of_eight(mask + b * 8);
#endif
    for (; b < bytes; b += LOCAL) {
        uint byte = 0;
        for (ulong i = b * 8; i < min(b * 8 + 8, blocks); i++)
            byte |= KEPT(i) << i % 8;
        bitmap[b] = (uchar)byte;
    }
#endif
}
