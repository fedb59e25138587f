/* resmlp-train: trains a ResMLP with activations that are kept dense, pruned in blocks, or in part.
 */
#include "program.h"
#include "resmlp_model.h"

int main(int argc, char **argv)
{
    return program_main(&resmlp_model, argc, argv);
}
