#include "triad.h"

#include <math.h>

#include "clock.h"
#include "memory.h"
#include "team.h"

enum { PASSES = 6, ELEMENT_BYTES = 24 }; /* the first pass is not counted */

struct job {
    struct kernels kernels;
    struct team team;
    int64_t length;
    double *a, *b, *c;
    double best; /* seconds; written by thread 0 */
};

static void run(void *argument, int rank, int threads)
{
    struct job *job = argument;
    struct member member = {&job->team, rank, threads, 0};
    struct range own = member_share(&member, job->length);
    for (int64_t i = own.first; i < own.end; i++) {
        job->a[i] = 0;
        job->b[i] = 1;
        job->c[i] = 2;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        member_meet(&member);
        uint64_t started = clock_ns();
        job->kernels.add(job->a, job->b, 3, job->c, own.first, own.end);
        member_meet(&member);
        if (rank == 0 && pass > 0)
            job->best = fmin(job->best, (double)(clock_ns() - started) * 1e-9);
    }
}

double triad_bandwidth(struct kernels kernels, int threads, bool pin, int64_t length)
{
    struct job job = {.kernels = kernels, .length = length, .best = INFINITY};
    double **arrays[] = {&job.a, &job.b, &job.c};
    for (int i = 0; i < 3; i++)
        *arrays[i] = memory_take(length, sizeof(double));
    barrier_init(&job.team.barrier, threads);
    threads_run(threads, pin, run, &job);
    for (int i = 0; i < 3; i++)
        memory_release(*arrays[i], length, sizeof(double));
    return ELEMENT_BYTES * (double)length / job.best;
}
