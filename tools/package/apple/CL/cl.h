/* OpenCL's header where macOS has it. */
#include <OpenCL/opencl.h>
