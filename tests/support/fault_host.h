/* Lets calls of the C library fail that a program's own objects make: the linker's --wrap sends
 * them to fault_host.c first, and leaves those of shared libraries, such as drivers, alone.
 * FAULT_HOST_WRAPS of tests/CMakeLists.txt has the linker's options. Two groups:
 *
 *     memory   allocations, and threads and mutexes, which take memory too: they fail with ENOMEM
 *     files    opening, reading, writing, closing and naming files: they fail with EIO
 *
 * A close that fails has closed. A stream that fails has its error set, as a full disk does it.
 *
 * With any program linked so, `FAULT_HOST=files:3 program` lets the third call on files fail,
 * "memory:1:forever" the first allocation and all later ones. "files:#3" counts places in the
 * program instead of calls: the third one that calls, at its first call. $FAULT_REPORT names a file
 * to which a line of counts is added when the program ends. */
#ifndef CLPRUNE_TEST_FAULT_HOST_H
#define CLPRUNE_TEST_FAULT_HOST_H

#include <stdbool.h>

typedef enum fault_group { FAULT_MEMORY, FAULT_FILES, FAULT_GROUPS } fault_group;

/* The `at`-th call of the group from now on, counted from 1, fails, with `forever` all later ones
 * too; 0: none does. Counters begin anew. */
void fault_host_arm(fault_group group, unsigned at, bool forever);

/* The function that failed since then, the first of several; NULL: none yet. */
const char *fault_host_fired(void);

/* Calls of the armed group since then. */
unsigned fault_host_calls(void);

/* Allocations and open files of the program's own objects. */
long fault_host_blocks(void);
long fault_host_files(void);

#endif
