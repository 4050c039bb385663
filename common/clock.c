/* The clock of clock.h. */
#include "common/clock.h"

#include <errno.h>
#include <time.h>

uint64_t braid_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * BRAID_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void braid_sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / BRAID_NS_PER_S),
                            .tv_nsec = (long)(ns % BRAID_NS_PER_S)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
