/* memory_report.h: where the device memory goes, read off the library's ledger. */
#ifndef TRAINER_MEMORY_REPORT_H
#define TRAINER_MEMORY_REPORT_H

#include "trainer.h"

/* Prints to stdout: live and peak bytes by category; the tensors of each category, those that
 * differ only in the number of their block as one line; and what the kept activations cost, beside
 * what they would cost dense. */
bool memory_report_print(const trainer *t, fault *f);

#endif
