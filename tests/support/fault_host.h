/* Makes calls of the C library fail. The linker's --wrap redirects the calls of a program's own
 * objects to fault_host.c; calls of shared libraries, such as drivers, are not affected.
 * fault_host_wraps of tests/CMakeLists.txt has the linker's options. Two groups:
 *
 *     memory   allocations, and threads and mutexes, which take memory too: they fail with ENOMEM
 *     files    opening, reading, writing, closing and naming files: they fail with EIO
 *
 * A stream of open_memstream is memory.
 *
 * A close that fails has closed the file. A stream that fails has its error set, as after a full
 * disk.
 *
 * With a program linked so, `FAULT_HOST=files:3 program` makes the third call on files fail;
 * "memory:1:forever" makes the first allocation and all later ones fail. "files:#3" counts places
 * in the program instead of calls: the third place that calls fails, at its first call.
 * $FAULT_REPORT names a file; when the program ends, a line of counts is appended to it. */
#ifndef CLPRUNE_TEST_FAULT_HOST_H
#define CLPRUNE_TEST_FAULT_HOST_H

#include <stdbool.h>

typedef enum fault_group { FAULT_MEMORY, FAULT_FILES, FAULT_GROUPS } fault_group;

/* The `at`-th call of the group from now on, counted from 1, fails; with `forever` all later ones
 * too. 0: none fails. Resets the counters. */
void fault_host_arm(fault_group group, unsigned at, bool forever);

/* The first function that failed since fault_host_arm; NULL: none yet. */
const char *fault_host_fired(void);

/* Allocations and open files of the program's own objects. */
long fault_host_blocks(void);
long fault_host_files(void);

#endif
