/* A training program: NAME-train trains NAME_model; NAME-train-mpi does in several processes
 * (CMake's clprune_model). */
#include "trainer/run/program.h"

extern const trainer_model TRAINER_MODEL;

int main(int argc, char **argv)
{
    return program_main(&TRAINER_MODEL, &TRAINER_RANKS, argc, argv);
}
