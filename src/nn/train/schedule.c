#include "clprune/schedule.h"

#include <math.h>
#include <stddef.h>

double clprune_schedule_lr(const clprune_schedule *schedule, uint64_t step)
{
    const double pi = 3.14159265358979323846;
    if (schedule == NULL)
        return 0;
    for (size_t i = 0; i < sizeof schedule->reserved / sizeof schedule->reserved[0]; i++)
        if (schedule->reserved[i] != 0)
            return NAN;
    if (step < schedule->warmup)
        return schedule->base * ((double)step + 1) / (double)schedule->warmup;
    if (step >= schedule->total)
        return schedule->min;
    const double done = (double)(step - schedule->warmup);
    const double left = (double)(schedule->total - schedule->warmup);
    return schedule->min + (schedule->base - schedule->min) / 2 * (1 + cos(pi * done / left));
}
