/* memory_report.h: the device memory of a run, from the library's ledger. */
#ifndef TRAINER_MEMORY_REPORT_H
#define TRAINER_MEMORY_REPORT_H

#include "trainer/session/session.h"

/* Prints to stdout: live and peak bytes by category; the tensors of each category, those that
 * differ only in the number of their block as one line; the bytes of the kept activations, beside
 * the bytes if all were dense. */
bool memory_report_print(const session *s, fault *f);

/* A line of a report: a name, bytes, MiB. */
void memory_print_line(const char *name, uint64_t bytes);
double memory_mib(uint64_t bytes);

#endif
