/* run_ranks.h: a program's processes, before and after its run. */
#ifndef TRAINER_RUN_RANKS_H
#define TRAINER_RUN_RANKS_H

#include "trainer/run/run.h"

/* Opens the group of o->ranks, of all processes that were started together. Ranks other than 0 then
 * write no files and print nothing but failures. */
bool run_ranks_open(const reduce_functions *call, options *o, fault *f);

/* Sets the variables of the environment and options by which each process takes its own device, or
 * its share of the cores. Call it before OpenCL is used. */
bool run_ranks_share(options *o, fault *f);

/* Ends an epoch's measurement: compares the ranks' paces and begins anew. */
bool run_ranks_pace(const options *o, run_pace *pace, fault *f);

/* Whether all ranks have come so far. If not, each gets the code of the lowest that has a fault,
 * and only that one keeps its text. */
bool run_ranks_all(const options *o, bool good, fault *f);

/* Whether all ranks read their command lines, and have the same options of those that must agree.
 * If not, the lowest one keeps its text, as with run_ranks_all. */
bool run_ranks_agree(const options *o, bool parsed, fault *f);

/* Compares "name=value" strings, each ended by NUL, with rank 0's. *other: the lowest rank that has
 * others, or 0; there `words` tell the first difference, else they are "". */
bool run_ranks_compare(const options *o, const char *text, size_t size, int *other,
    char words[MESSAGE_SIZE], fault *f);

/* The same; a difference is a fault, CODE_USAGE. */
bool run_ranks_same(const options *o, const char *text, size_t size, fault *f);

/* What --memory-limit chose on rank 0, to all. chosen: rank 0 has a choice; if not, the others fail
 * with its code. */
bool run_ranks_share_choice(options *o, bool chosen, fault *f);

/* The rank whose plan is the largest, on equal devices: the last one, which has as many passes as
 * any, or with --zero and as many on all of them the first, which has as much of the state. */
int run_ranks_fullest(const options *o);

/* Ends all processes after a fault that others do not know of; prints it. Does not return. */
void run_ranks_abort(const options *o, const fault *f);

/* Waits for the others, and closes the group. */
void run_ranks_close(options *o, fault *f);

#endif
