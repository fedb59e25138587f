/* What is added to the scores of attention: values of a table for each head, and masks.
 *
 *     attention_bias_read  bias[(b * heads + h) * cols + j][i] = values[index[i * cols + j]][h] + mask[b * cols + i][j]
 *     attention_bias_sums  dvalues[e][h] = sum over b, and over the places i * cols + j whose index is e, of
 *                          dbias[(b * heads + h) * tokens + j][i]   (+ beta * dvalues[e][h] with READ_OLD)
 *
 * lists: a row of words. Ints: cols * cols of the index; for each entry e, and for the one after the last, its first
 * place; the places, entry by entry. From word `masks` on, floats: the masks. VALUES 0: there is no table; MASK 0: no
 * mask. Row-wise over bias, and over dvalues; a work-item takes an element. No local memory. */
#include "prelude/rowwise.clh"
#define WORD(i) ((ulong)as_int(ROW(lists, 0)[i]))

#ifndef READ_OLD
KERNEL_OF(LOCAL) attention_bias_read(ROWWISE_SIZES, const ulong heads, const ulong masks, MAT_IN(lists), MAT_IN(values),
    MAT_OUT(bias))
{
    FOR_ROWS(r) {
        const ulong j = r % cols, h = r / cols % heads, b = r / cols / heads;
        for (ulong i = get_local_id(0); i < cols; i += LOCAL) {
            const float value = VALUES ? AT(values, WORD(i * cols + j), h) : 0.0f;
            const float shift = MASK ? ROW(lists, 0)[masks + (b * cols + i) * cols + j] : 0.0f;
            AT(bias, r, i) = value + shift;
        }
    }
}
#else
/* Forward: bias is a sum of values and masks. */
KERNEL_OF(LOCAL) attention_bias_sums(ROWWISE_SIZES, const ulong tokens, const ulong biases, const float beta,
    MAT_IN(lists), MAT_IN(dbias), MAT_OUT(dvalues))
{
    const ulong firsts = tokens * tokens, places = firsts + rows + 1;
    FOR_ROWS(e) {
        for (ulong h = get_local_id(0); h < cols; h += LOCAL) {
            float sum = 0;
            for (ulong b = 0; b < biases; b++)
                for (ulong k = WORD(firsts + e); k < WORD(firsts + e + 1); k++) {
                    const ulong place = WORD(places + k);
                    sum += AT(dbias, (b * cols + h) * tokens + place % tokens, place / tokens);
                }
            AT(dvalues, e, h) = READ_OLD ? fma(beta, AT(dvalues, e, h), sum) : sum;
        }
    }
}
#endif
