/* Finds a label or token that is out of range.
 *
 *     r = the first row with ints[r] outside [0, limit) and other than `ignored`
 *     if there is one: poison[0][0] = NAN, and if record[0] is 0: record = {r + 1, ints[r]}
 *
 * One group; its LOCAL work-items read rows in turn. Local memory: LOCAL ulongs. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) int_range(const ulong rows, const ulong limit, const uint ignored, REGION_IN(int, ints),
    REGION_OUT(int, record), MAT_OUT(poison))
{
    local ulong firsts[LOCAL];
    ulong r = get_local_id(0);
    for (; r < rows; r += LOCAL) {
        const int value = ints[ints_offset + r];
        if ((value < 0 || (ulong)value >= limit) && value != (int)ignored)
            break;
    }
    firsts[get_local_id(0)] = r;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) > 0)
        return;
    for (uint i = 1; i < LOCAL; i++)
        r = min(r, firsts[i]);
    if (r >= rows)
        return;
    AT(poison, 0, 0) = NAN;
    if (record[record_offset] == 0) {
        record[record_offset] = (int)(r + 1);
        record[record_offset + 1] = ints[ints_offset + r];
    }
}
