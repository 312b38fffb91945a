/* The clock of every program: CLOCK_MONOTONIC, nanoseconds; the same in a container as outside it. */
#ifndef TARE_CLOCK_H
#define TARE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The time in nanoseconds since an arbitrary moment. */
static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The smallest step ever seen between two different readings: what a duration can be trusted to, in nanoseconds. */
static inline uint64_t clock_granularity_ns(void)
{
    uint64_t smallest = UINT64_MAX;
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t before = clock_ns(), after = before;
        while (after == before)
            after = clock_ns();
        if (after - before < smallest)
            smallest = after - before;
    }
    return smallest;
}

#endif
