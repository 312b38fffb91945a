/* Batches: how many operations one has, and how long they take. */
#ifndef TARE_SYSCALL_BATCHES_H
#define TARE_SYSCALL_BATCHES_H

#include "operations.h"

/* How many operations make a batch of about `target_ns`: even, found once by trying. */
uint64_t batch_size(const struct operation *operation, uint64_t target_ns);

/* Seconds for one operation, by one batch of `size`. */
double batch_seconds(const struct operation *operation, uint64_t size);

#endif
