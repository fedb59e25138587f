/* summary.h: the results of a run as one JSON object. */
#ifndef TRAINER_SUMMARY_H
#define TRAINER_SUMMARY_H

#include "trainer/run/gradient_check.h"
#include "trainer/run/trainer.h"

/* Writes --summary-json, if given. Missing numbers are null, such as the accuracy of a run without
 * a test. */
bool summary_write(const trainer *t, const gradient_check *check, fault *f);

/* The device's name as OpenCL has it. */
void summary_device(const trainer *t, char *name, size_t size);

#endif
