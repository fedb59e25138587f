/* launcher.h: what started this process, as the environment and the system have it. */
#ifndef TRAINER_LAUNCHER_H
#define TRAINER_LAUNCHER_H

#include <stdbool.h>

/* How many processes a launcher (mpirun, srun, jsrun) has started with this one, of any MPI. 0:
 * there is none, or only its allocation is known, as in a batch script of SLURM. 2 or more if this
 * is not the first one and their number is not known. Call it before MPI is opened. */
int launcher_processes(void);

/* The cores that this thread may take, and those that it could if it were not bound to some: of the
 * host, or of a container. 0 where the system does not tell. */
void launcher_cores(long *bound, long *allowed);

#endif
