/* crow and col of each sample from its mask of kept blocks.
 *
 * Group n takes sample n of the mask, sample first_sample + n of crow and col. The LOCAL work-items
 * own equal runs of consecutive block rows; counting the kept blocks before a run tells where its
 * columns go, so the order is that of the blocks.
 * crow[n][block_rows] is the number of blocks that the mask marks; columns past `keep` are not
 * written, so a mask that marks too many overruns nothing. With ALL every block is kept and mask is
 * not read.
 *
 * Local memory: LOCAL * 4 bytes. LOCAL: any >= 1. */
#ifndef LOCAL
#error "bsr_index.cl needs LOCAL"
#endif
#ifndef ALL
#define ALL 0
#endif
#if ALL
#define KEPT(i) 1
#else
#define KEPT(i) (mask[i] != 0)
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bsr_index(const ulong first_sample,
    const ulong block_rows, const ulong block_cols, const ulong keep, const ulong mask_offset,
    global const uchar *restrict mask,
    global int *restrict crow, global int *restrict col)
{
    local uint kept_in_run[LOCAL];
    const uint me = get_local_id(0);
    const ulong n = get_group_id(0);
    mask += mask_offset + n * block_rows * block_cols;
    crow += (first_sample + n) * (block_rows + 1);
    col += (first_sample + n) * keep;

    const ulong run = (block_rows + LOCAL - 1) / LOCAL;
    const ulong first = min(me * run, block_rows);
    const ulong last = min(first + run, block_rows);
    uint kept = 0;
    for (ulong i = first * block_cols; i < last * block_cols; i++)
        kept += KEPT(i);
    kept_in_run[me] = kept;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint next = 0;
    for (uint i = 0; i < me; i++)
        next += kept_in_run[i];
    for (ulong row = first; row < last; row++) {
        crow[row] = (int)next;
        for (ulong j = 0; j < block_cols; j++) {
#if LOCAL == 1
            /* Without a branch on the mask: what is no kept column is overwritten by the next one. */
            if (next < keep)
                col[next] = (int)j;
            next += KEPT(row * block_cols + j);
#else
            if (KEPT(row * block_cols + j)) {
                if (next < keep)
                    col[next] = (int)j;
                next++;
            }
#endif
        }
    }
    if (last == block_rows && (first < last || me == 0)) {
        /* Several runs may be empty at the end: only the one that reaches it writes the total. */
        crow[block_rows] = (int)next;
    }
}
