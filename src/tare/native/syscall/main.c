/* Time of the kernel's small services, one operation each, in batches taken in turn. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "batches.h"
#include "clock.h"
#include "fail.h"
#include "json.h"
#include "operations.h"
#include "threads.h"

static const struct operation OPERATIONS[] = {
    {"loop", time_loop, 1},
    {"getpid", time_getpid, 1},
    {"read", time_read, 1},
    {"write", time_write, 1},
    {"map_fault_unmap", time_map, 1},
    {"futex_same_cpu", time_futex_same, 1},
    {"futex_two_cpus", time_futex_two, 2},
    {"pipe_same_cpu", time_pipe_same, 1},
    {"pipe_two_cpus", time_pipe_two, 2},
    {"fork_exec", time_spawn, 1},
    {"clock_vdso", time_clock, 1},
    {"clock_call", time_clock_call, 1},
};
enum { COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

int cpus[2];

struct series {
    uint64_t size;
    double *seconds;
};

static bool possible(const struct operation *operation)
{
    return operation->cpus == 1 || cpus[1] >= 0;
}

static void measure(struct series series[COUNT], int64_t batches, uint64_t target_ns)
{
    for (int i = 0; i < COUNT; i++) {
        series[i].seconds = calloc((size_t)batches, sizeof(double));
        if (series[i].seconds == NULL)
            fail("no memory for %lld batches", (long long)batches);
        series[i].size = possible(&OPERATIONS[i]) ? batch_size(&OPERATIONS[i], target_ns) : 0;
    }
    /* In turn: what disturbs the machine for a while meets a few batches of each, not all of one. */
    for (int64_t batch = 0; batch < batches; batch++)
        for (int i = 0; i < COUNT; i++)
            if (possible(&OPERATIONS[i]))
                series[i].seconds[batch] = batch_seconds(&OPERATIONS[i], series[i].size);
}

static void print(const struct series series[COUNT], int64_t batches, uint64_t tick_ns)
{
    json_begin();
    json_integers("cpus", (const int64_t[]){cpus[0], cpus[1]}, cpus[1] < 0 ? 1 : 2);
    json_integer("tick_ns", (int64_t)tick_ns);
    json_open("operations");
    for (int i = 0; i < COUNT; i++) {
        if (!possible(&OPERATIONS[i]))
            continue;
        json_open(OPERATIONS[i].name);
        json_integer("size", (int64_t)series[i].size);
        json_numbers("seconds", series[i].seconds, (size_t)batches);
        json_close();
    }
    json_close();
    json_end();
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], SPAWNED) == 0)
        return 0;
    int64_t batches = 50, batch_us = 2000;
    const struct argument arguments[] = {
        {.name = "batches", .kind = ARGUMENT_INTEGER, .value = &batches, .low = 1, .high = 1000000},
        {.name = "batch-us", .kind = ARGUMENT_INTEGER, .value = &batch_us, .low = 1, .high = 1000000},
    };
    ARGUMENTS_READ(argc, argv, arguments);
    struct series series[COUNT];
    uint64_t tick_ns = clock_granularity_ns();
    cpus[0] = threads_cpu(0);
    cpus[1] = threads_cpu(1);
    direct_open();
    spawn_open(argv[0]);
    threads_pin(cpus[0]);
    measure(series, batches, (uint64_t)batch_us * 1000);
    print(series, batches, tick_ns);
    return 0;
}
