#define _GNU_SOURCE /* sched_getaffinity */

#include "trainer/run/launcher.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#endif

/* The launchers' own before SLURM's: mpirun may start its processes by srun. SLURM_NTASKS is also
 * there in a batch script, which is no task. */
static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
    "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS"};
static const char *const numbers[] = {"PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

int launcher_processes(void)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        const char *count = getenv(counts[i]);
        if (count != NULL && atoi(count) > 0)
            return atoi(count);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        const char *number = getenv(numbers[i]);
        if (number != NULL && atoi(number) > 0)
            return atoi(number) + 1;
    }
    return 0;
}

void launcher_cores(long *bound, long *allowed)
{
    *bound = *allowed = 0;
#ifdef __linux__
    cpu_set_t own, all;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return;
    *bound = *allowed = CPU_COUNT(&own);
    memset(&all, 0xff, sizeof all);
    if (sched_setaffinity(0, sizeof all, &all) == 0 && sched_getaffinity(0, sizeof all, &all) == 0)
        *allowed = CPU_COUNT(&all);
    (void)sched_setaffinity(0, sizeof own, &own);
#endif
}
