/* resnet-train: trains a ResNet with activations that are kept dense, compressed, or in part. */
#include "resnet_model.h"
#include "trainer/run/program.h"

int main(int argc, char **argv)
{
    return program_main(&resnet_model, argc, argv);
}
