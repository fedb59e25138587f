#include "trainer/report/iou.h"

#include <math.h>
#include <stdlib.h>

bool iou_open(size_t classes, iou *of, fault *f)
{
    *of = (iou){.classes = classes, .both = calloc(3 * classes, sizeof *of->both)};
    if (of->both == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    of->has = of->both + classes;
    of->said = of->has + classes;
    return true;
}

void iou_close(iou *of)
{
    free(of->both);
    *of = (iou){0};
}

static size_t largest(const float *values, size_t count)
{
    size_t at = 0;
    for (size_t i = 1; i < count; ++i)
        if (values[i] > values[at])
            at = i;
    return at;
}

bool iou_add(iou *of, clprune_context *context, clprune_mat logits, const int32_t *labels, fault *f)
{
    const size_t pixels = logits.rows;
    float *values = malloc(pixels * logits.cols * sizeof *values);
    const bool good =
        values != NULL
            ? fault_check(f, context, clprune_mat_read(context, logits, values),
                  "reading the classes of pixels")
            : fault_set(f, CODE_MEMORY, "no memory for the logits of %zu pixels", pixels);
    for (size_t i = 0; good && i < pixels; ++i) {
        if (labels[i] == CLPRUNE_IGNORED)
            continue;
        const size_t has = (size_t)labels[i], said = largest(values + i * logits.cols, logits.cols);
        ++of->has[has];
        ++of->said[said];
        of->both[has] += has == said;
    }
    free(values);
    return good;
}

double iou_mean(const iou *of)
{
    double sum = 0;
    size_t classes = 0;
    for (size_t c = 0; c < of->classes; ++c) {
        const uint64_t either = of->has[c] + of->said[c] - of->both[c];
        sum += either > 0 ? (double)of->both[c] / (double)either : 0;
        classes += either > 0;
    }
    return classes > 0 ? 100 * sum / (double)classes : (double)NAN;
}
