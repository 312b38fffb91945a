#include "solver.h"

#include <math.h>
#include <sched.h>

enum { SPINS = 2000 };

typedef void row_kernel(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end);

/* Wait until a plane's counter has come to `target`; spins, then lets others run. Returns what it has come to. */
static long long await(struct progress *progress, long long target)
{
    long long done = atomic_load_explicit(&progress->done, memory_order_acquire);
    for (int spin = 0; done < target; spin++) {
        if (spin >= SPINS)
            sched_yield();
#if defined(__x86_64__)
        else
            __builtin_ia32_pause();
#endif
        done = atomic_load_explicit(&progress->done, memory_order_acquire);
    }
    return done;
}

/* Sweep the planes rank, rank + threads, … upwards, each chunk as soon as the plane before has come far enough. */
static void sweep_up(struct solver *solver, int number, row_kernel *kernel, const double *b, double *x)
{
    struct level *level = &solver->problem->levels[number];
    long long start = solver->swept[number];
    for (int64_t plane = solver->member.rank; plane < level->planes; plane += solver->member.threads) {
        long long seen = 0; /* of the plane before: its counter is fetched from the other CPU only when needed */
        for (int64_t i = 0; i < level->plane_chunks; i++) {
            int64_t chunk = plane * level->plane_chunks + i;
            if (plane > 0 && seen < start + level->forward_wait[chunk])
                seen = await(&level->progress[plane - 1], start + level->forward_wait[chunk]);
            kernel(&level->matrix, b, x, chunk * level->chunk_rows, (chunk + 1) * level->chunk_rows);
            atomic_store_explicit(&level->progress[plane].done, start + i + 1, memory_order_release);
        }
    }
    solver->swept[number] += level->plane_chunks;
    member_meet(&solver->member);
}

/* The mirror image: planes, chunks and rows downwards. */
static void sweep_down(struct solver *solver, int number, const double *b, double *x)
{
    struct level *level = &solver->problem->levels[number];
    const struct member *member = &solver->member;
    long long start = solver->swept[number];
    int64_t last = level->planes - 1;
    int64_t rounds = last >= member->rank ? (last - member->rank) / member->threads : -1;
    for (int64_t plane = member->rank + rounds * member->threads; plane >= 0; plane -= member->threads) {
        long long seen = 0;
        for (int64_t i = 0; i < level->plane_chunks; i++) {
            int64_t chunk = (plane + 1) * level->plane_chunks - 1 - i;
            if (plane < last && seen < start + level->backward_wait[chunk])
                seen = await(&level->progress[plane + 1], start + level->backward_wait[chunk]);
            solver->kernels.backward(&level->matrix, b, x, chunk * level->chunk_rows, (chunk + 1) * level->chunk_rows);
            atomic_store_explicit(&level->progress[plane].done, start + i + 1, memory_order_release);
        }
    }
    solver->swept[number] += level->plane_chunks;
    member_meet(member);
}

/* y = A x on a level; this thread's share, the terms of x·y to `terms`. */
static void multiply_share(struct solver *solver, int number, const double *x, double *y, double *terms)
{
    const struct level *level = &solver->problem->levels[number];
    struct range chunks = member_share(&solver->member, level_chunks(level));
    for (int64_t chunk = chunks.first; chunk < chunks.end; chunk++)
        terms[chunk] = solver->kernels.multiply(&level->matrix, x, y, chunk * level->chunk_rows,
                                                (chunk + 1) * level->chunk_rows);
}

double solver_multiply(struct solver *solver, const double *x, double *y)
{
    multiply_share(solver, 0, x, y, member_terms(&solver->member));
    return member_sum(&solver->member, level_chunks(&solver->problem->levels[0]));
}

double solver_dot(struct solver *solver, const double *x, const double *y)
{
    const struct level *level = &solver->problem->levels[0];
    struct range chunks = member_share(&solver->member, level_chunks(level));
    double *terms = member_terms(&solver->member);
    for (int64_t chunk = chunks.first; chunk < chunks.end; chunk++)
        terms[chunk] = solver->kernels.dot(x, y, chunk * level->chunk_rows, (chunk + 1) * level->chunk_rows);
    return member_sum(&solver->member, level_chunks(level));
}

/* The residual r - A z of a level, taken at the points of the next coarser one. */
static void restrict_residual(struct solver *solver, int number, const double *r, const double *z)
{
    struct level *fine = &solver->problem->levels[number], *coarse = fine + 1;
    multiply_share(solver, number, z, fine->product, member_terms(&solver->member));
    member_meet(&solver->member);
    struct range rows = level_rows(coarse, &solver->member);
    for (int64_t row = rows.first; row < rows.end; row++)
        coarse->residual[row] = r[coarse->fine_row[row]] - fine->product[coarse->fine_row[row]];
    member_meet(&solver->member);
}

/* Add the coarser level's correction at its points. */
static void prolong(struct solver *solver, int number, double *z)
{
    const struct level *coarse = &solver->problem->levels[number + 1];
    struct range rows = level_rows(coarse, &solver->member);
    for (int64_t row = rows.first; row < rows.end; row++)
        z[coarse->fine_row[row]] += coarse->correction[row];
    member_meet(&solver->member);
}

static void cycle(struct solver *solver, int number, const double *r, double *z)
{
    const struct level *coarse = &solver->problem->levels[number + 1];
    sweep_up(solver, number, solver->kernels.forward_from_zero, r, z);
    sweep_down(solver, number, r, z);
    if (number == LEVELS - 1)
        return;
    restrict_residual(solver, number, r, z);
    cycle(solver, number + 1, coarse->residual, coarse->correction);
    prolong(solver, number, z);
    sweep_up(solver, number, solver->kernels.forward, r, z);
    sweep_down(solver, number, r, z);
}

void solver_precondition(struct solver *solver, const double *r, double *z)
{
    cycle(solver, 0, r, z);
}

/* x = 0, p = x, r = b - A p; returns r·r. */
static double begin(struct solver *solver, struct range rows)
{
    struct problem *all = solver->problem;
    for (int64_t row = rows.first; row < rows.end; row++)
        all->x[row] = all->p[row] = 0;
    member_meet(&solver->member);
    solver_multiply(solver, all->p, all->q);
    solver->kernels.add(all->r, all->b, -1, all->q, rows.first, rows.end);
    return solver_dot(solver, all->r, all->r);
}

/* x += alpha p, r -= alpha q; returns r·r. */
static double advance(struct solver *solver, double alpha)
{
    struct problem *all = solver->problem;
    const struct level *level = &all->levels[0];
    struct range chunks = member_share(&solver->member, level_chunks(level));
    double *terms = member_terms(&solver->member);
    for (int64_t chunk = chunks.first; chunk < chunks.end; chunk++)
        terms[chunk] = solver->kernels.advance(all->x, all->r, alpha, all->p, all->q, chunk * level->chunk_rows,
                                               (chunk + 1) * level->chunk_rows);
    return member_sum(&solver->member, level_chunks(level));
}

struct outcome solver_solve(struct solver *solver, int limit, double tolerance, bool preconditioned)
{
    struct problem *all = solver->problem;
    struct range rows = level_rows(&all->levels[0], &solver->member);
    double first = sqrt(begin(solver, rows)), residual = first, rho = 0;
    int done = 0;
    while (done < limit && residual / first > tolerance) {
        const double *z = preconditioned ? all->z : all->r;
        if (preconditioned)
            solver_precondition(solver, all->r, all->z);
        double before = rho;
        rho = solver_dot(solver, all->r, z);
        solver->kernels.add(all->p, z, done == 0 ? 0 : rho / before, all->p, rows.first, rows.end);
        member_meet(&solver->member);
        double alpha = rho / solver_multiply(solver, all->p, all->q);
        residual = sqrt(advance(solver, alpha));
        done++;
    }
    return (struct outcome){done, residual, first};
}
