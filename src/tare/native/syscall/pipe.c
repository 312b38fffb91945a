/* Round trips of one byte between two processes, over two pipes. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "operations.h"
#include "threads.h"

static bool take(int from)
{
    char byte;
    return syscall(SYS_read, from, &byte, 1) == 1;
}

static bool give(int to)
{
    const char byte = 1;
    return syscall(SYS_write, to, &byte, 1) == 1;
}

/* The other process: answers every byte; its status says whether it answered all. */
static _Noreturn void answer(int from, int to, int cpu, uint64_t trips)
{
    threads_pin(cpu);
    for (uint64_t i = 0; i < trips; i++)
        if (!take(from) || !give(to))
            _exit(1);
    _exit(0);
}

static void make_trips(int to, int from, uint64_t trips)
{
    for (uint64_t i = 0; i < trips; i++)
        if (!give(to) || !take(from))
            fail("pipe: the other process answered only %llu times", (unsigned long long)i);
}

static void open_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        fail("pipe: %s", strerror(errno));
}

static uint64_t time_pipe(uint64_t count, int cpu)
{
    int there[2], back[2], status;
    uint64_t warm = count / 8 + 1;
    open_pipe(there);
    open_pipe(back);
    signal(SIGPIPE, SIG_IGN); /* an other process that ended is told by the failing write */
    pid_t other = fork();
    if (other < 0)
        fail("fork: %s", strerror(errno));
    if (other == 0) {
        close(there[1]);
        close(back[0]);
        answer(there[0], back[1], cpu, warm + count);
    }
    close(there[0]);
    close(back[1]);
    make_trips(there[1], back[0], warm);
    uint64_t start = clock_ns();
    make_trips(there[1], back[0], count);
    uint64_t elapsed = clock_ns() - start;
    close(there[1]);
    close(back[0]);
    if (waitpid(other, &status, 0) != other || status != 0)
        fail("pipe: the other process ended with wait status %d", status);
    return elapsed;
}

uint64_t time_pipe_same(uint64_t count)
{
    return time_pipe(count, cpus[0]);
}

uint64_t time_pipe_two(uint64_t count)
{
    return time_pipe(count, cpus[1]);
}
