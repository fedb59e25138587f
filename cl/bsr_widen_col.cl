/* wide[i] = narrow[i], 0 <= i < count, each from its offset on: col of INT16 as int32.
 *
 * Group g takes LOCAL * RUN of them, from g * LOCAL * RUN on, its work-items consecutive ones. No
 * local memory. */
#if !defined(LOCAL) || !defined(RUN)
#error "bsr_widen_col.cl needs LOCAL and RUN"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bsr_widen_col(const ulong count,
    const ulong narrow_offset, global const ushort *restrict narrow, const ulong wide_offset,
    global int *restrict wide)
{
    const ulong first = get_group_id(0) * LOCAL * RUN;
    const ulong last = min(first + LOCAL * RUN, count);
    for (ulong i = first + get_local_id(0); i < last; i += LOCAL)
        wide[wide_offset + i] = narrow[narrow_offset + i];
}
