/* What memory costs before it is used: page faults, with and without huge pages, unmapping, fork. */
#include <stdlib.h>
#include <unistd.h>

#include "arguments.h"
#include "clock.h"
#include "fail.h"
#include "fork.h"
#include "json.h"
#include "region.h"
#include "threads.h"

enum series { BASE, FORK, UNMAP, DEFAULT, HUGE, COUNT };
static const char *const NAMES[COUNT] = {
    [BASE] = "touch_base",
    [FORK] = "fork_base",
    [UNMAP] = "unmap_base",
    [DEFAULT] = "touch_default",
    [HUGE] = "touch_huge",
};

/* Seconds by series and round; for a touch also the faults. */
struct results {
    double *seconds[COUNT];
    int64_t *faults[COUNT];
};

static void allocate(struct results *results, int64_t rounds)
{
    for (int i = 0; i < COUNT; i++) {
        results->seconds[i] = calloc((size_t)rounds, sizeof(double));
        results->faults[i] = calloc((size_t)rounds, sizeof(int64_t));
        if (results->seconds[i] == NULL || results->faults[i] == NULL)
            fail("no memory for %lld rounds", (long long)rounds);
    }
}

static void touch(struct results *results, enum series series, int64_t round, const struct region *region)
{
    struct touch touched = region_touch(region);
    results->seconds[series][round] = (double)touched.ns * 1e-9;
    results->faults[series][round] = (int64_t)touched.faults;
}

static void run_round(struct results *results, int64_t round, size_t bytes, size_t huge_bytes)
{
    struct region region = region_map(bytes, huge_bytes, ADVICE_BASE);
    touch(results, BASE, round, &region);
    /* One fork to a touch: it write-protects the pages, and a second would have less to do. */
    results->seconds[FORK][round] = (double)time_fork(&region) * 1e-9;
    results->seconds[UNMAP][round] = (double)region_unmap(&region) * 1e-9;
    region = region_map(bytes, huge_bytes, ADVICE_NONE);
    touch(results, DEFAULT, round, &region);
    region_unmap(&region);
    region = region_map(bytes, huge_bytes, ADVICE_HUGE);
    touch(results, HUGE, round, &region);
    region_unmap(&region);
}

static void print(const struct results *results, int64_t rounds, uint64_t tick_ns, int cpu)
{
    json_begin();
    json_integer("page_bytes", sysconf(_SC_PAGESIZE));
    json_integer("tick_ns", (int64_t)tick_ns);
    json_integer("cpu", cpu);
    for (int i = 0; i < COUNT; i++) {
        json_open(NAMES[i]);
        json_numbers("seconds", results->seconds[i], (size_t)rounds);
        if (i == BASE || i == DEFAULT || i == HUGE)
            json_integers("faults", results->faults[i], (size_t)rounds);
        json_close();
    }
    json_end();
}

int main(int argc, char **argv)
{
    int64_t bytes = 128 << 20, huge_bytes = 2 << 20, rounds = 10;
    const struct argument arguments[] = {
        {.name = "bytes", .kind = ARGUMENT_INTEGER, .value = &bytes, .low = 1 << 16, .high = 1e15},
        {.name = "huge-bytes", .kind = ARGUMENT_INTEGER, .value = &huge_bytes, .low = 1 << 12, .high = 1 << 30},
        {.name = "rounds", .kind = ARGUMENT_INTEGER, .value = &rounds, .low = 1, .high = 1e6},
    };
    ARGUMENTS_READ(argc, argv, arguments);
    if ((huge_bytes & (huge_bytes - 1)) != 0 || bytes % huge_bytes != 0)
        fail_usage("--bytes: %lld is no multiple of --huge-bytes %lld, or that is no power of two", (long long)bytes,
                   (long long)huge_bytes);
    struct results results;
    uint64_t tick_ns = clock_granularity_ns();
    int cpu = threads_cpu(0);
    threads_pin(cpu);
    allocate(&results, rounds);
    run_round(&results, 0, (size_t)bytes, (size_t)huge_bytes); /* warms up; overwritten */
    for (int64_t round = 0; round < rounds; round++)
        run_round(&results, round, (size_t)bytes, (size_t)huge_bytes);
    print(&results, rounds, tick_ns, cpu);
    return 0;
}
