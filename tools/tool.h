/* What clprune-bench and clprune-tune share. */
#ifndef CLPRUNE_TOOL_H
#define CLPRUNE_TOOL_H

#include <clprune/clprune.h>

/* The order of two doubles, for qsort. */
int compare_doubles(const void *a, const void *b);

/* The value of --precision; ends the program with 2 and a message if `text` names none. */
clprune_precision parse_precision(const char *program, const char *text);

#endif
