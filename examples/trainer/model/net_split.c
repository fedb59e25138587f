#include "trainer/model/net_split.h"

#include <stdio.h>
#include <string.h>

size_t net_split(trainer_weight *pieces, const char *joint, const size_t *rows,
    const char *const *parts, size_t count)
{
    const trainer_weight whole = pieces[0];
    const char *end = strrchr(whole.name, '.');
    const size_t length = strlen(joint);
    const size_t stem = end != NULL ? (size_t)(end - whole.name) : 0;
    if (stem < length || strncmp(end - length, joint, length) != 0)
        return 1;
    size_t first = 0;
    for (size_t i = 0; i < count; first += rows[i++]) {
        pieces[i] = whole;
        pieces[i].shape[0] = rows[i];
        (void)snprintf(pieces[i].name, sizeof pieces[i].name, "%.*s%s%s", (int)(stem - length),
            whole.name, parts[i], end);
        if (whole.rank > 1) {
            pieces[i].mat = clprune_mat_rows(whole.mat, first, rows[i]);
            continue;
        }
        pieces[i].mat.offset += first;
        pieces[i].mat.cols = rows[i];
    }
    return count;
}
