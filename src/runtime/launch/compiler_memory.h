/* Memory that a driver's compiler has taken in this process. */
#ifndef CLPRUNE_RUNTIME_COMPILER_MEMORY_H
#define CLPRUNE_RUNTIME_COMPILER_MEMORY_H

/* Gives back what the compiler will read again if it runs again: pages of LLVM's and PoCL's code,
 * 60 MiB after a context is opened, and freed heap. Linux with glibc; elsewhere a no-op. Any thread
 * may call it at any time. */
void clprune__compiler_memory_return(void);
/* The pages alone: takes less time. */
void clprune__compiler_pages_drop(void);

/* Between the two a thread, which takes no signals, drops these pages every 20 milliseconds of the
 * process's CPU time: to load PoCL takes 67 MiB for a moment without it. NULL: there is no thread. */
typedef struct clprune__compiler_watch clprune__compiler_watch;
clprune__compiler_watch *clprune__compiler_watch_begin(void);
void clprune__compiler_watch_end(clprune__compiler_watch *made); /* accepts NULL */

#endif
