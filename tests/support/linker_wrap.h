/* Functions in the place of others. */
#ifndef CLPRUNE_LINKER_WRAP_H
#define CLPRUNE_LINKER_WRAP_H

/* Defines what the linker puts in the place of a function (--wrap), which __real_... is then:
 *
 *     TEST_WRAP(cl_int, clFinish, (cl_command_queue queue))
 *     {
 *         return __real_clFinish(queue);
 *     }
 */
#define TEST_WRAP(type, function, parameters)                                                      \
    type __real_##function parameters;                                                             \
    type __wrap_##function parameters;                                                             \
    type __wrap_##function parameters

#endif
