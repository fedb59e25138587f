/* resmlp-train: trains a ResMLP with activations that are kept dense, pruned in blocks, or in part.
 */
#include "resmlp_model.h"
#include "trainer/run/program.h"

int main(int argc, char **argv)
{
    return program_main(&resmlp_model, argc, argv);
}
