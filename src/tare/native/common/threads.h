/* Threads that run one function side by side, each on a CPU of its own, and the barrier they meet at. */
#ifndef TARE_THREADS_H
#define TARE_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Called once in every thread; rank is 0 … threads-1. */
typedef void thread_function(void *argument, int rank, int threads);

/*
 * Run `function` in `threads` new threads and return when all have ended. With `pin`, thread r runs on the r-th CPU of
 * the calling thread's affinity mask and nowhere else; more threads than CPUs then fail.
 */
void threads_run(int threads, bool pin, thread_function *function, void *argument);

/* How many CPUs the calling thread may use, by its affinity mask. */
int threads_cpus(void);

/* The number of the r-th CPU of the calling thread's affinity mask; -1 when it has no more than r. */
int threads_cpu(int rank);

/* Move the calling thread to one CPU; for programs that place their threads or processes by themselves. */
void threads_pin(int cpu);

/* A meeting of a fixed number of threads, as often as wished. It spins, then yields: for busy threads. */
struct barrier {
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_int round;
    int threads;
};

void barrier_init(struct barrier *barrier, int threads);

/* Wait until every thread has come; what was written before is seen by all after. */
void barrier_wait(struct barrier *barrier);

#endif
