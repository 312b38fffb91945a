/*
 * Threads that run the same program side by side on shared vectors, each on its share. Sums do not depend on the
 * number of threads: every chunk of rows gives one term, and the terms are added in their order.
 */
#ifndef HPCG_TEAM_H
#define HPCG_TEAM_H

#include <stdint.h>

#include "threads.h"

struct team {
    struct barrier barrier;
    int64_t capacity; /* chunks that have room in `terms` */
    double *terms[2]; /* in turns: one may be read still while the other is written */
};

/* One thread of the team. */
struct member {
    struct team *team;
    int rank, threads;
    int turn;
};

struct range {
    int64_t first, end;
};

/* This thread's share of 0 … count-1: contiguous, of equal sizes but for one. */
struct range member_share(const struct member *member, int64_t count);

/* Meet the others: what they wrote before is seen after. */
void member_meet(const struct member *member);

/* Where this thread writes its chunks' terms of the next sum. */
double *member_terms(const struct member *member);

/* Meet the others and return the sum of all terms, the same bits in every thread. */
double member_sum(struct member *member, int64_t count);

#endif
