/* Hand-overs between two threads by futex: the kernel's wake-up and switch. */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "operations.h"
#include "threads.h"

struct match;
typedef void rally_function(struct match *match, uint32_t rank, uint64_t trips);

/* Two threads and what they share; a cache line each, since what is timed is the kernel and not false sharing. */
struct match {
    _Alignas(64) _Atomic uint32_t turn;
    struct {
        _Alignas(64) uint32_t word;
    } sleeper[2];
    struct barrier start;
    rally_function *rally;
    const int *cpu;
    uint64_t count, elapsed;
};

/* Sleep until woken while `word` is `seen`; whether there was a sleep. */
static int sleep_on(const void *word, uint32_t seen)
{
    if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL) == 0)
        return 1;
    if (errno != EAGAIN && errno != EINTR)
        fail("futex wait: %s", strerror(errno));
    return 0;
}

static long wake(const void *word)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
    if (woken < 0)
        fail("futex wake: %s", strerror(errno));
    return woken;
}

static void await_turn(struct match *match, uint32_t rank)
{
    while (atomic_load_explicit(&match->turn, memory_order_acquire) != rank)
        sleep_on(&match->turn, 1 - rank);
}

/*
 * On one CPU: a shared turn, looked at before sleeping, as a lock does it. Only one of the two runs, so that every
 * hand-over is a switch.
 */
static void rally_by_turn(struct match *match, uint32_t rank, uint64_t trips)
{
    for (uint64_t i = 0; i < trips; i++) {
        if (rank == 1)
            await_turn(match, rank);
        atomic_store_explicit(&match->turn, 1 - rank, memory_order_release);
        wake(&match->turn);
        if (rank == 0)
            await_turn(match, rank);
    }
}

static void sleep_till_woken(struct match *match, uint32_t rank)
{
    while (!sleep_on(&match->sleeper[rank].word, 0))
        ;
}

/*
 * On two CPUs: each thread sleeps on its own word, which never changes; nothing but the other's wake-up, seen to reach
 * a sleeper, ends its wait. With a shared turn two busy CPUs often meet without either having slept, and the time is
 * that of a cache line (some 100 ns) instead of a hand-over.
 */
static void rally_by_sleep(struct match *match, uint32_t rank, uint64_t trips)
{
    for (uint64_t i = 0; i < trips; i++) {
        if (rank == 1)
            sleep_till_woken(match, rank);
        while (wake(&match->sleeper[1 - rank].word) == 0)
            sched_yield(); /* the other has not gone to sleep yet */
        if (rank == 0)
            sleep_till_woken(match, rank);
    }
}

static void play(void *argument, int rank, int threads)
{
    (void)threads;
    struct match *match = argument;
    threads_pin(match->cpu[rank]);
    barrier_wait(&match->start);
    match->rally(match, (uint32_t)rank, match->count / 16 + 1);
    uint64_t start = clock_ns();
    match->rally(match, (uint32_t)rank, match->count / 2);
    if (rank == 0)
        match->elapsed = clock_ns() - start;
}

static uint64_t time_rally(rally_function *rally, uint64_t count, int other)
{
    const int cpu[] = {cpus[0], other};
    struct match match = {.rally = rally, .cpu = cpu, .count = count};
    barrier_init(&match.start, 2);
    threads_run(2, false, play, &match);
    return match.elapsed;
}

uint64_t time_futex_same(uint64_t count)
{
    return time_rally(rally_by_turn, count, cpus[0]);
}

uint64_t time_futex_two(uint64_t count)
{
    return time_rally(rally_by_sleep, count, cpus[1]);
}
