/* Embedding of tokens.
 *
 *     forward    y[r][c] = weight[tokens[r]][c]; NaN for a token outside [0, vocabulary)
 *     links      links[r] = the next row with the token of row r, or `rows`; as -1 - links[r] if an earlier
 *                row has it, too
 *     backward   dweight[t][c] += (sum over the rows r with tokens[r] = t of dy[r][c]) in the order of r
 *
 * Row-wise, see rowwise.clh. Links: a work-item takes one row, and reads later tokens in vectors until it
 * finds its own. Backward: the group of the first row with a token goes along the links; the others do
 * nothing, nor does one whose token is outside [0, vocabulary). With BITS weight is of codes. No local memory.
 * VW: 4 or 16. */
#include "prelude/quantised_part.clh"

#ifdef BITS
#define TABLE_IN              QUANTISED_IN(weight)
#define GET_TABLE(weight, r, c) GET_QUANTISED(weight, r, c)
#else
#define TABLE_IN              MAT_IN_RESTRICT(weight)
#define GET_TABLE(weight, r, c) GET(weight, r, c)
#endif

static inline bool is_legal(const int token, const ulong vocabulary)
{
    return token >= 0 && (ulong)token < vocabulary;
}

KERNEL_OF(LOCAL) embedding_forward(ROWWISE_SIZES, const ulong vocabulary, REGION_IN(int, tokens),
    TABLE_IN, MAT_OUT_RESTRICT(y))
{
    FOR_ROWS(r) {
        const int token = tokens[tokens_offset + r];
        const bool legal = is_legal(token, vocabulary);
        FOR_VECTORS(c) {
            vec value = NAN;
            if (legal)
                value = GET_TABLE(weight, token, c);
            PUT(value, y, r, c);
        }
    }
}

KERNEL_OF(LOCAL) embedding_links(
    const ulong rows, REGION_IN(int, tokens), REGION_OUT(long, links))
{
    global const int *all = tokens + tokens_offset;
    for (ulong r = get_global_id(0); r < rows; r += get_global_size(0)) {
        const int token = all[r];
        ulong next = r + 1, before = r;
        while (next + VW <= rows && !any(JOIN(vload, VW)(0, all + next) == (ivec)(token)))
            next += VW;
        while (next < rows && all[next] != token)
            next++;
        while (before >= VW && !any(JOIN(vload, VW)(0, all + before - VW) == (ivec)(token)))
            before -= VW;
        while (before > 0 && all[before - 1] != token)
            before--;
        links[links_offset + r] = before > 0 ? -1 - (long)next : (long)next;
    }
}

/* Forward: y[r] = weight[tokens[r]]. */
KERNEL_OF(LOCAL) embedding_backward(ROWWISE_SIZES, const ulong vocabulary, REGION_IN(int, tokens),
    REGION_IN(long, links), MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(dweight))
{
    FOR_ROWS(r) {
        const int token = tokens[tokens_offset + r];
        const long first = links[links_offset + r];
        if (first < 0 || !is_legal(token, vocabulary))
            continue;
        FOR_VECTORS(c) {
            vec sum = GET(dy, r, c);
            for (ulong next = first; next < rows; next = -1 - links[links_offset + next])
                sum += GET(dy, next, c);
            PUT(GET(dweight, token, c) + sum, dweight, token, c);
        }
    }
}
