/* The operations that are timed. Each group of them is one file; operations.c lists them. */
#ifndef TARE_SYSCALL_OPERATIONS_H
#define TARE_SYSCALL_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Do `count` operations (an even number) after an untimed eighth of them, and return the nanoseconds they took. Every
 * result is checked: an operation that fails, or does not do what it is for, ends the program.
 */
typedef uint64_t time_function(uint64_t count);

struct operation {
    const char *name;
    time_function *time;
    int cpus; /* how many it needs; left out where there are fewer */
};

/* The CPUs that are used: the first two of the affinity mask, -1 for one that there is not. */
extern int cpus[2];

/* Times of one thread, on cpus[0]. `loop` is the loop around the others, with nothing in it. */
time_function time_loop, time_getpid, time_read, time_write, time_map, time_clock, time_clock_call;

/* Hand-overs between two threads by futex, round trips between two processes by pipe: on one CPU, on two. */
time_function time_futex_same, time_futex_two, time_pipe_same, time_pipe_two;

/* fork, exec of this program's own file (which ends at once when given SPAWNED alone), wait. */
time_function time_spawn;
#define SPAWNED "--spawned"

/* Open what the operations use. `file` is this program's file, as it was started. */
void direct_open(void);
void spawn_open(const char *file);

#endif
