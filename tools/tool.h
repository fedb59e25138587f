/* What the programs of this folder share. */
#ifndef CLPRUNE_TOOL_H
#define CLPRUNE_TOOL_H

#include <clprune/clprune.h>

#include <stdio.h> /* FILE */

enum { EXIT_RUN = 1, EXIT_USAGE = 2, EXIT_DEVICE = 3 }; /* exit codes */

/* Ends the program with the library's message where a call fails. */
#define CHECK(context, call)                                                                       \
    do {                                                                                           \
        const clprune_status status_ = (call);                                                     \
        if (status_ != CLPRUNE_SUCCESS)                                                            \
            tool_fail((context), status_);                                                         \
    } while (0)

/* Call first: sets the name. A reader of the output that goes away, such as head, ends the program
 * without a message; PoCL's linker can be waited for. Both also if the parent ignores the signal.
 */
void tool_begin(const char *name);

/* Ends the program with a code and a message on stderr, a line that begins with its name. */
_Noreturn void tool_quit(int code, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));
_Noreturn void tool_fail(const clprune_context *context, clprune_status status);

double tool_now(void); /* seconds */

/* Fills values[0 .. count) like activations after a GELU: most are small, some large. Calls
 * continue one sequence, which is the same in each program. */
void random_activations(float *values, size_t count);

/* The order of two doubles, for qsort. */
int compare_doubles(const void *a, const void *b);

/* Empties a file, which `what` says, before its first write; ends the program if that fails. */
void tool_empty(FILE *stream, const char *what);
/* Closes a file; ends the program unless all of it was written. */
void tool_close(FILE *stream, const char *what);

/* The value of --precision; ends the program with 2 and a message if `text` names none. */
clprune_precision parse_precision(const char *text);

#endif
