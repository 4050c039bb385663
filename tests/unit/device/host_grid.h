/* Runs a function as the threads of a grid on POSIX threads; for kernels written against host_layer.h. */
#ifndef BRAID_TESTS_HOST_GRID_H
#define BRAID_TESTS_HOST_GRID_H

#include <stdint.h>

/* Calls kernel(argument) in ctas * threads threads (threads a multiple of 4) and returns when all have ended. */
void host_grid_run(void (*kernel)(void *argument), void *argument, uint32_t ctas, uint32_t threads);

#endif
