/* The fixture: cases on each device; memory, objects and folders that end with their case; buffers
 * with canaries; random numbers; comparisons. */
#ifndef CLPRUNE_TEST_H
#define CLPRUNE_TEST_H

#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "support/test_objects.h"
#include "support/test_rng.h"

#endif
