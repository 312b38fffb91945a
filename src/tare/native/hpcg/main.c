/*
 * The HPCG algorithm: sets of 50 iterations of preconditioned conjugate gradients, timed each, on a 27-point problem.
 * Prints what was computed, how long each set took and what the validity tests found; judging is the reader's part.
 */
#include <math.h>

#include "arguments.h"
#include "clock.h"
#include "fail.h"
#include "json.h"
#include "memory.h"
#include "model.h"
#include "plain.h"
#include "triad.h"
#include "validity.h"

enum { ITERATIONS = 50, MOST_SETS = 1000, MOST_ITERATIONS = 10 * ITERATIONS };

struct options {
    int64_t nx, ny, nz, sets, threads, pin, reference, triad_bytes;
    const char *isa;
};

struct job {
    struct options options;
    enum isa isa;
    struct problem problem;
    struct team team;
    /* written by thread 0 */
    struct validity validity;
    double plain_residual; /* of the plain solver after 50 iterations; NaN when it was not asked for */
    int iterations;        /* of a timed set: 50, or what it takes to come to the plain solver's residual */
    double *seconds, *residuals;
    double true_residual, error;
};

static void check_dimension(const char *name, int64_t value)
{
    if (value % 8 != 0)
        fail_usage("--%s: %lld cannot be halved three times; use a multiple of 8, e.g. %lld", name, (long long)value,
                   (long long)(value / 8 + 1) * 8);
}

static struct options read_options(int argc, char **argv)
{
    struct options options = {.nx = 64, .ny = 64, .nz = 64, .sets = 1, .threads = 1, .pin = 1, .isa = "auto",
                              .triad_bytes = 128 << 20};
    const struct argument table[] = {
        {"nx", ARGUMENT_INTEGER, &options.nx, 16, 1 << 20, NULL},
        {"ny", ARGUMENT_INTEGER, &options.ny, 16, 1 << 20, NULL},
        {"nz", ARGUMENT_INTEGER, &options.nz, 16, 1 << 20, NULL},
        {"sets", ARGUMENT_INTEGER, &options.sets, 1, MOST_SETS, NULL},
        {"threads", ARGUMENT_INTEGER, &options.threads, 1, 8192, NULL},
        {"pin", ARGUMENT_INTEGER, &options.pin, 0, 1, NULL},
        {"reference", ARGUMENT_INTEGER, &options.reference, 0, 1, NULL},
        {"triad-bytes", ARGUMENT_INTEGER, &options.triad_bytes, 1 << 10, 1e15, NULL},
        {"isa", ARGUMENT_TEXT, &options.isa, 0, 0, ISA_CHOICES},
    };
    ARGUMENTS_READ(argc, argv, table);
    check_dimension("nx", options.nx);
    check_dimension("ny", options.ny);
    check_dimension("nz", options.nz);
    if ((double)options.nx * (double)options.ny * (double)options.nz > INT32_MAX)
        fail_usage("--nx, --ny, --nz: more than 2^31 - 1 rows do not fit the 32-bit columns; use a smaller grid");
    return options;
}

/* Solve once by the plain solver, and find how many iterations the fast one takes to come as far; untimed. */
static void hold_to_reference(struct job *job, struct solver *solver)
{
    if (solver->member.rank == 0)
        job->plain_residual = plain_solve(&job->problem, ITERATIONS);
    member_meet(&solver->member);
    int needed = solver_solve(solver, MOST_ITERATIONS, job->plain_residual, true).iterations;
    if (solver->member.rank == 0)
        job->iterations = needed > ITERATIONS ? needed : ITERATIONS;
    member_meet(&solver->member);
}

static void time_sets(struct job *job, struct solver *solver)
{
    for (int64_t set = 0; set < job->options.sets; set++) {
        member_meet(&solver->member);
        uint64_t started = clock_ns();
        struct outcome outcome = solver_solve(solver, job->iterations, 0, true);
        if (solver->member.rank == 0) {
            job->seconds[set] = (double)(clock_ns() - started) * 1e-9;
            job->residuals[set] = outcome.residual / outcome.first_residual;
        }
    }
}

/* The largest distance of the solution from 1. */
static double largest_error(const struct problem *problem)
{
    double largest = 0;
    for (int64_t row = 0; row < problem->levels[0].matrix.rows; row++) {
        double error = problem->x[row] > 1 ? problem->x[row] - 1 : 1 - problem->x[row];
        if (!(error <= largest))
            largest = error;
    }
    return largest;
}

static void run(void *argument, int rank, int threads)
{
    struct job *job = argument;
    struct solver solver = {.problem = &job->problem, .kernels = kernels_of(job->isa),
                            .member = {&job->team, rank, threads, 0}};
    problem_build(&job->problem, &solver.member);
    struct validity validity = validity_test(&solver);
    if (job->options.reference)
        hold_to_reference(job, &solver);
    time_sets(job, &solver);
    double true_residual = validity_true_residual(&solver);
    if (rank == 0) {
        job->validity = validity;
        job->true_residual = true_residual;
        job->error = largest_error(&job->problem);
    }
}

static void allocate(struct job *job)
{
    const struct options *options = &job->options;
    problem_allocate(&job->problem, options->nx, options->ny, options->nz);
    int64_t chunks = level_chunks(&job->problem.levels[0]);
    for (int turn = 0; turn < 2; turn++)
        job->team.terms[turn] = memory_take(chunks, sizeof(double));
    job->seconds = memory_take(options->sets, sizeof(double));
    job->residuals = memory_take(options->sets, sizeof(double));
    barrier_init(&job->team.barrier, (int)options->threads);
}

static void print_problem(const struct job *job)
{
    const struct options *options = &job->options;
    json_text("isa", isa_name(job->isa));
    json_integer("threads", options->threads);
    json_integer("nx", options->nx);
    json_integer("ny", options->ny);
    json_integer("nz", options->nz);
    json_integer("rows", job->problem.levels[0].matrix.rows);
    json_integer("nonzeros", job->problem.levels[0].matrix.nonzeros);
    json_integer("working_set_bytes", job->problem.bytes);
}

static void print_validity(const struct job *job)
{
    const struct validity *found = &job->validity;
    json_number("matrix_asymmetry", found->matrix_asymmetry);
    json_number("preconditioner_asymmetry", found->preconditioner_asymmetry);
    json_integer("spectral_iterations_plain", found->spectral_plain);
    json_integer("spectral_iterations_preconditioned", found->spectral_preconditioned);
    json_number("preconditioner_difference", found->preconditioner_difference);
    json_number("reference_residual", job->plain_residual);
    json_number("true_residual", job->true_residual);
    json_number("largest_error", job->error);
}

static void print_result(const struct job *job, double triad)
{
    json_begin();
    print_problem(job);
    json_integer("iterations", ITERATIONS);
    json_integer("iterations_charged", job->iterations);
    json_number("flops_per_set", model_flops(&job->problem, ITERATIONS));
    json_number("bytes_per_set", model_bytes(&job->problem, job->iterations));
    json_number("triad_bytes_per_second", triad);
    json_numbers("seconds", job->seconds, (size_t)job->options.sets);
    json_numbers("residuals", job->residuals, (size_t)job->options.sets);
    print_validity(job);
    json_end();
}

int main(int argc, char **argv)
{
    static struct job job;
    job.options = read_options(argc, argv);
    job.isa = isa_choose(job.options.isa);
    job.iterations = ITERATIONS;
    job.plain_residual = (double)NAN;
    double triad = triad_bandwidth(kernels_of(job.isa), (int)job.options.threads, job.options.pin != 0,
                                   job.options.triad_bytes / (int64_t)sizeof(double));
    allocate(&job);
    threads_run((int)job.options.threads, job.options.pin != 0, run, &job);
    print_result(&job, triad);
    return 0;
}
