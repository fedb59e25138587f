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

void iou_add(iou *of, size_t pixels, const float *logits, const int32_t *labels)
{
    for (size_t i = 0; i < pixels; ++i) {
        if (labels[i] == CLPRUNE_IGNORED)
            continue;
        const size_t has = (size_t)labels[i], said = largest(logits + i * of->classes, of->classes);
        ++of->has[has];
        ++of->said[said];
        of->both[has] += has == said;
    }
}

double iou_mean(const iou *of, size_t *counted)
{
    double sum = 0;
    *counted = 0;
    for (size_t c = 0; c < of->classes; ++c) {
        const uint64_t either = of->has[c] + of->said[c] - of->both[c];
        sum += either > 0 ? (double)of->both[c] / (double)either : 0;
        *counted += either > 0;
    }
    return *counted > 0 ? 100 * sum / (double)*counted : (double)NAN;
}
