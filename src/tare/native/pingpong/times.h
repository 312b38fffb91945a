/* The times of all round trips, in batches. Growing happens between batches only, outside every timed round trip. */
#ifndef TARE_TIMES_H
#define TARE_TIMES_H

#include <stddef.h>
#include <stdint.h>

struct times {
    uint64_t *ns; /* every round trip of every batch, in order; each batch is sorted by times_end_batch */
    size_t count, room, batch_start;
    double *medians, *p99s; /* seconds, of each batch */
    int64_t *trips;         /* round trips of each batch */
    size_t batches, batch_room;
};

/* Make room for one more batch of up to `trips` round trips. */
void times_begin_batch(struct times *times, size_t trips);

/* Close the batch and keep its quantiles. */
void times_end_batch(struct times *times);

/* Add batches and the quantiles over all round trips to the JSON object. */
void times_report(struct times *times);

#endif
