/* Many small files: create, stat, read and unlink, the time of each for one file. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "clock.h"
#include "content.h"
#include "fail.h"
#include "json.h"
#include "threads.h"
#include "tree.h"

enum { CREATE, STAT, READ, UNLINK, COUNT };
static const char *const NAMES[COUNT] = {"create", "stat", "read", "unlink"};

/* The samples of one operation: mean seconds a file, over each folderful of files in the order they were taken. */
struct series {
    double *seconds;
    size_t count;
};

/* The files in an order of their own, the same for a seed: no reader of images goes through them by name. */
static int64_t *shuffled(int64_t files, uint64_t seed)
{
    int64_t *order = calloc((size_t)files, sizeof *order);
    if (order == NULL)
        fail("no memory for the order of %lld files", (long long)files);
    for (int64_t i = 0; i < files; i++) {
        int64_t other = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

/* Do one operation to every file, in `order` (NULL: by number). */
static void pass(const struct tree *tree, file_function *function, const int64_t *order, struct series *series)
{
    for (int64_t first = 0; first < tree->files; first += tree->per_folder) {
        int64_t last = first + tree->per_folder < tree->files ? first + tree->per_folder : tree->files;
        uint64_t elapsed = 0;
        for (int64_t i = first; i < last; i++)
            elapsed += function(tree, order == NULL ? i : order[i]);
        series->seconds[series->count++] = (double)elapsed * 1e-9 / (double)(last - first);
    }
}

/* Bytes the kernel has fetched from devices for this process so far; not a number where it does not count them. */
static double device_bytes(void)
{
    FILE *file = fopen("/proc/self/io", "re");
    char line[128];
    double bytes = NAN;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "read_bytes: %lf", &bytes);
    if (file != NULL)
        fclose(file);
    return bytes;
}

/* One round of all operations; the bytes that reading the files fetched from a device. */
static double run_round(struct tree *tree, const int64_t *order, struct series series[COUNT])
{
    tree_make_folders(tree);
    pass(tree, file_create, NULL, &series[CREATE]);
    pass(tree, file_stat, order, &series[STAT]);
    double before = device_bytes();
    pass(tree, file_read, order, &series[READ]);
    double fetched = device_bytes() - before;
    pass(tree, file_unlink, NULL, &series[UNLINK]);
    tree_remove_folders(tree);
    return fetched;
}

/* What the two readings of the clock around a file's calls add to them. */
static double clock_seconds(void)
{
    enum { READINGS = 1000 };
    uint64_t start = clock_ns(), sum = 0;
    for (int i = 0; i < READINGS; i++)
        sum |= clock_ns();
    return sum == 0 ? 0 : (double)(clock_ns() - start) * 1e-9 / READINGS;
}

static void print(const struct series series[COUNT], double fetched, bool spread)
{
    json_begin();
    json_integer("tick_ns", (int64_t)clock_granularity_ns());
    json_number("clock_seconds", clock_seconds());
    json_integer("cpu", threads_cpu(0));
    json_boolean("folders_spread", spread);
    json_number("device_read_bytes", fetched);
    json_open("operations");
    for (int i = 0; i < COUNT; i++)
        json_numbers(NAMES[i], series[i].seconds, series[i].count);
    json_close();
    json_end();
}

static struct series *series_new(const struct tree *tree, int64_t rounds)
{
    struct series *series = calloc(COUNT, sizeof *series);
    if (series == NULL)
        fail("no memory for the times");
    for (int i = 0; i < COUNT; i++) {
        series[i].seconds = calloc((size_t)(tree_folders(tree) * rounds), sizeof(double));
        if (series[i].seconds == NULL)
            fail("no memory for %lld rounds", (long long)rounds);
    }
    return series;
}

static void measure(struct tree *tree, int64_t rounds)
{
    double fetched = 0;
    int64_t *order = shuffled(tree->files, tree->seed);
    struct series *series = series_new(tree, rounds);
    bool spread = tree_spread();
    run_round(tree, order, series); /* warms up: its times are overwritten */
    for (int i = 0; i < COUNT; i++)
        series[i].count = 0;
    for (int64_t round = 0; round < rounds; round++)
        fetched += run_round(tree, order, series);
    print(series, fetched, spread);
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    int64_t files = 2000, per_folder = 250, bytes = 4096, rounds = 5, seed = 1;
    const struct argument arguments[] = {
        {.name = "folder", .kind = ARGUMENT_TEXT, .value = &folder},
        {.name = "files", .kind = ARGUMENT_INTEGER, .value = &files, .low = 1, .high = 1e8 - 1},
        {.name = "per-folder", .kind = ARGUMENT_INTEGER, .value = &per_folder, .low = 1, .high = 1e6},
        {.name = "bytes", .kind = ARGUMENT_INTEGER, .value = &bytes, .low = 1, .high = 1 << 30},
        {.name = "rounds", .kind = ARGUMENT_INTEGER, .value = &rounds, .low = 1, .high = 1000},
        {.name = "seed", .kind = ARGUMENT_INTEGER, .value = &seed, .low = 0, .high = 1e15},
    };
    ARGUMENTS_READ(argc, argv, arguments);
    if (folder == NULL)
        fail_usage("--folder is missing: an empty folder for the files");
    if (chdir(folder) != 0)
        fail("--folder: %s cannot be entered: %s", folder, strerror(errno));
    struct tree tree = tree_new(files, per_folder, (size_t)bytes, (uint64_t)seed);
    threads_pin(threads_cpu(0));
    measure(&tree, rounds);
    return 0;
}
