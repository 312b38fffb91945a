#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* The largest machine a kernel can be built for. */
enum { CPUS = 8192, SPINS = 2000 };

struct start {
    thread_function *function;
    void *argument;
    int rank, threads, cpu;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The calling thread's affinity mask; to be freed. */
static cpu_set_t *mask(void)
{
    cpu_set_t *set = CPU_ALLOC(CPUS);
    if (set == NULL)
        fail("no memory for the affinity mask");
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS), set) != 0)
        fail("the affinity mask cannot be read: %s", strerror(errno));
    return set;
}

int threads_cpus(void)
{
    cpu_set_t *set = mask();
    int count = CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS), set);
    CPU_FREE(set);
    return count;
}

int threads_cpu(int rank)
{
    cpu_set_t *set = mask();
    int found = -1;
    for (int cpu = 0; cpu < CPUS && found < 0; cpu++)
        if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(CPUS), set) && rank-- == 0)
            found = cpu;
    CPU_FREE(set);
    return found;
}

void threads_pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC(CPUS);
    if (set == NULL)
        fail("no memory for the affinity mask");
    CPU_ZERO_S(CPU_ALLOC_SIZE(CPUS), set);
    CPU_SET_S(cpu, CPU_ALLOC_SIZE(CPUS), set);
    if (sched_setaffinity(0, CPU_ALLOC_SIZE(CPUS), set) != 0)
        fail("a thread cannot be bound to CPU %d: %s", cpu, strerror(errno));
    CPU_FREE(set);
}

static void *enter(void *argument)
{
    struct start *start = argument;
    if (start->cpu >= 0)
        threads_pin(start->cpu);
    start->function(start->argument, start->rank, start->threads);
    return NULL;
}

void threads_run(int threads, bool pin, thread_function *function, void *argument)
{
    if (pin && threads > threads_cpus())
        fail("%d threads are asked for, %d CPUs may be used; ask for fewer threads", threads, threads_cpus());
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    struct start *starts = calloc((size_t)threads, sizeof *starts);
    if (handles == NULL || starts == NULL)
        fail("no memory for %d threads", threads);
    for (int rank = 0; rank < threads; rank++) {
        starts[rank] = (struct start){function, argument, rank, threads, pin ? threads_cpu(rank) : -1};
        int error = pthread_create(&handles[rank], NULL, enter, &starts[rank]);
        if (error != 0)
            fail("thread %d of %d cannot be started: %s", rank + 1, threads, strerror(error));
    }
    for (int rank = 0; rank < threads; rank++)
        pthread_join(handles[rank], NULL);
    free(handles);
    free(starts);
}

void barrier_init(struct barrier *barrier, int threads)
{
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->round, 0);
    barrier->threads = threads;
}

void barrier_wait(struct barrier *barrier)
{
    int round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 == barrier->threads) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->round, round + 1, memory_order_release);
        return;
    }
    for (int spin = 0; atomic_load_explicit(&barrier->round, memory_order_acquire) == round; spin++) {
        if (spin < SPINS)
            relax();
        else
            sched_yield();
    }
}
