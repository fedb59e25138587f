/* program.h: the main function of a training program. */
#ifndef TRAINER_PROGRAM_H
#define TRAINER_PROGRAM_H

#include "trainer/model/trainer_model.h"
#include "trainer/reduce/reduce.h"

/* Runs the program of a model: reads the command line, trains, tests, plans or reports. Prints to
 * stdout, failures to stderr as one line that begins with model->program; likewise a note if a
 * resumed run may have other bits on this device. ranks: reduce_alone, or what a program for
 * several processes links. Returns the exit code (fault.h). Call it once, from main. */
int program_main(const trainer_model *model, const reduce_functions *ranks, int argc, char **argv);

#endif
