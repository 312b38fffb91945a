#include "times.h"

#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "json.h"

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void *grown(void *block, size_t size)
{
    void *larger = realloc(block, size);
    if (larger == NULL)
        fail("no memory for %zu bytes of times; measure for fewer seconds", size);
    return larger;
}

/* The nearest-rank quantile of sorted values, in seconds: the smallest value with at least a share q at or below. */
static double quantile(const uint64_t *sorted, size_t count, double q)
{
    size_t rank = (size_t)ceil(q * (double)count);
    return (double)sorted[rank > 0 ? rank - 1 : 0] * 1e-9;
}

void times_begin_batch(struct times *times, size_t trips)
{
    if (times->batches == times->batch_room) {
        times->batch_room = 2 * times->batch_room + 64;
        times->medians = grown(times->medians, times->batch_room * sizeof *times->medians);
        times->p99s = grown(times->p99s, times->batch_room * sizeof *times->p99s);
        times->trips = grown(times->trips, times->batch_room * sizeof *times->trips);
    }
    if (times->room - times->count < trips) {
        times->room = 2 * times->room + trips;
        times->ns = grown(times->ns, times->room * sizeof *times->ns);
    }
    times->batch_start = times->count;
}

void times_end_batch(struct times *times)
{
    uint64_t *batch = times->ns + times->batch_start;
    size_t trips = times->count - times->batch_start;
    qsort(batch, trips, sizeof *batch, by_size);
    times->medians[times->batches] = quantile(batch, trips, 0.5);
    times->p99s[times->batches] = quantile(batch, trips, 0.99);
    times->trips[times->batches] = (int64_t)trips;
    times->batches++;
}

void times_report(struct times *times)
{
    static const struct { const char *name; double q; } quantiles[] = {
        {"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1},
    };
    json_integer("round_trips", (int64_t)times->count);
    json_integers("batch_round_trips", times->trips, times->batches);
    json_numbers("batch_median_seconds", times->medians, times->batches);
    json_numbers("batch_p99_seconds", times->p99s, times->batches);
    qsort(times->ns, times->count, sizeof *times->ns, by_size);
    json_open("quantiles_seconds");
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        json_number(quantiles[i].name, quantile(times->ns, times->count, quantiles[i].q));
    json_close();
}
