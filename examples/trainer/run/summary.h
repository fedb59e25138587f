/* summary.h: the results of a run as one JSON object. */
#ifndef TRAINER_SUMMARY_H
#define TRAINER_SUMMARY_H

#include "trainer/run/run.h"
#include "trainer/session/gradient_check.h"

/* Writes --summary-json, if given. Missing numbers are null, such as the accuracy of a run without
 * a test. */
bool summary_write(const training_run *r, const gradient_check *check, fault *f);

/* The device's name as OpenCL has it. */
void summary_device(const training_run *r, char *name, size_t size);

#endif
