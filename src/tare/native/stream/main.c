/*
 * STREAM (J. D. McCalpin): copy, scale, add, triad over arrays much larger than the caches, by its rules: every kernel
 * in turn, the first repetition left out by who reads the times, bytes counted as read + written without what the
 * caches read for themselves, the arrays checked at the end.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "arguments.h"
#include "clock.h"
#include "fail.h"
#include "json.h"
#include "kernels.h"
#include "threads.h"

enum { KERNELS = 4, ARRAYS = 3, MOST_REPETITIONS = 1000 };
static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
/* Arrays that each kernel reads and writes. */
static const int TOUCHED[KERNELS] = {2, 2, 3, 3};
/* sqrt(2) - 1 leaves a unchanged over a round: 2 s + s^2 = 1. No value grows or vanishes, however many rounds. */
static const double SCALAR = 0.41421356237309503;
static const double FIRST[ARRAYS] = {1.0, 2.0, 0.0};
enum { PAGE = 4096 };

/* When one thread began and ended one kernel of one round. */
struct span {
    uint64_t from, to;
};

struct stream {
    double *array[ARRAYS];
    size_t count;
    int repetitions;
    enum isa isa;
    struct span *spans; /* rank, round, kernel */
    double *errors; /* one a thread and array: largest relative deviation */
    struct barrier barrier;
};

/* The part of the elements that belongs to a thread: whole pages, so that no page is touched by two. */
static void part(const struct stream *stream, int rank, int threads, size_t *from, size_t *count)
{
    const size_t page = PAGE / sizeof(double), pages = (stream->count + page - 1) / page;
    size_t begin = pages * (size_t)rank / (size_t)threads * page;
    size_t end = pages * (size_t)(rank + 1) / (size_t)threads * page;
    *from = begin;
    *count = (end < stream->count ? end : stream->count) - begin;
}

static void run_kernel(const struct stream *stream, int kernel, size_t from, size_t count)
{
    double *a = stream->array[0] + from, *b = stream->array[1] + from, *c = stream->array[2] + from;
    switch (kernel) {
    case 0:
        ISA_SELECT(stream->isa, stream_copy)(c, a, count);
        break;
    case 1:
        ISA_SELECT(stream->isa, stream_scale)(b, c, SCALAR, count);
        break;
    case 2:
        ISA_SELECT(stream->isa, stream_add)(c, a, b, count);
        break;
    default:
        ISA_SELECT(stream->isa, stream_triad)(a, b, c, SCALAR, count);
        break;
    }
}

/* The values that every element has after `repetitions` rounds. */
static void expected(int repetitions, double value[ARRAYS])
{
    double a = FIRST[0], b = FIRST[1], c = FIRST[2];
    for (int round = 0; round < repetitions; round++) {
        c = a;
        b = SCALAR * c;
        c = a + b;
        a = b + SCALAR * c;
    }
    value[0] = a;
    value[1] = b;
    value[2] = c;
}

static double deviation(const double *values, size_t count, double wanted)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs(values[i] - wanted) / fabs(wanted);
        if (isnan(error))
            return error;
        if (error > worst)
            worst = error;
    }
    return worst;
}

static struct span *span(const struct stream *stream, int rank, int round, int kernel)
{
    return &stream->spans[((size_t)rank * (size_t)stream->repetitions + (size_t)round) * KERNELS + (size_t)kernel];
}

/*
 * From the first thread's beginning to the last one's end. A clock read by one thread alone would begin late whenever
 * that thread is put aside between barrier and reading, and the work would look faster than it was.
 */
static int64_t duration(const struct stream *stream, int threads, int round, int kernel)
{
    struct span whole = *span(stream, 0, round, kernel);
    for (int rank = 1; rank < threads; rank++) {
        const struct span *own = span(stream, rank, round, kernel);
        whole.from = own->from < whole.from ? own->from : whole.from;
        whole.to = own->to > whole.to ? own->to : whole.to;
    }
    return (int64_t)(whole.to - whole.from);
}

/* First touch, rounds and check of one thread's part. */
static void work(void *argument, int rank, int threads)
{
    struct stream *stream = argument;
    size_t from, count;
    double wanted[ARRAYS];
    part(stream, rank, threads, &from, &count);
    for (int array = 0; array < ARRAYS; array++)
        for (size_t i = from; i < from + count; i++)
            stream->array[array][i] = FIRST[array];
    for (int round = 0; round < stream->repetitions; round++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            barrier_wait(&stream->barrier);
            span(stream, rank, round, kernel)->from = clock_ns();
            run_kernel(stream, kernel, from, count);
            span(stream, rank, round, kernel)->to = clock_ns();
        }
    expected(stream->repetitions, wanted);
    for (int array = 0; array < ARRAYS; array++)
        stream->errors[rank * ARRAYS + array] = deviation(stream->array[array] + from, count, wanted[array]);
}

static double *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory for an array of %zu bytes; ask for fewer with --bytes", bytes);
    return memory;
}

static void print(const struct stream *stream, int threads)
{
    static int64_t ns[MOST_REPETITIONS];
    json_begin();
    json_text("isa", isa_name(stream->isa));
    json_text("stores", "ordinary");
    json_integer("threads", threads);
    json_integer("array_bytes", (int64_t)(stream->count * sizeof(double)));
    json_integer("granularity_ns", (int64_t)clock_granularity_ns());
    json_open("kernels");
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        for (int round = 0; round < stream->repetitions; round++)
            ns[round] = duration(stream, threads, round, kernel);
        json_open(NAMES[kernel]);
        json_integer("bytes", (int64_t)((size_t)TOUCHED[kernel] * stream->count * sizeof(double)));
        json_integers("ns", ns, (size_t)stream->repetitions);
        json_close();
    }
    json_close();
    json_numbers("errors", stream->errors, (size_t)(threads * ARRAYS));
    json_end();
}

int main(int argc, char **argv)
{
    int64_t bytes = 0, threads = 1, repetitions = 10;
    const char *isa = "auto";
    const struct argument table[] = {
        {"bytes", ARGUMENT_INTEGER, &bytes, 1 << 20, (double)(INT64_C(1) << 50), NULL},
        {"threads", ARGUMENT_INTEGER, &threads, 1, 4096, NULL},
        {"repetitions", ARGUMENT_INTEGER, &repetitions, 2, MOST_REPETITIONS, NULL},
        {"isa", ARGUMENT_TEXT, &isa, 0, 0, ISA_CHOICES},
    };
    ARGUMENTS_READ(argc, argv, table);
    if (bytes == 0)
        fail_usage("--bytes is missing: the size of each of the three arrays");
    struct stream stream = {.count = (size_t)bytes / sizeof(double), .repetitions = (int)repetitions};
    stream.isa = isa_choose(isa);
    for (int array = 0; array < ARRAYS; array++)
        stream.array[array] = map(stream.count * sizeof(double));
    stream.spans = calloc((size_t)(threads * repetitions * KERNELS), sizeof *stream.spans);
    stream.errors = calloc((size_t)threads * ARRAYS, sizeof *stream.errors);
    if (stream.spans == NULL || stream.errors == NULL)
        fail("no memory for the times");
    barrier_init(&stream.barrier, (int)threads);
    threads_run((int)threads, true, work, &stream);
    print(&stream, (int)threads);
    return 0;
}
