#include "team.h"

struct range member_share(const struct member *member, int64_t count)
{
    return (struct range){count * member->rank / member->threads, count * (member->rank + 1) / member->threads};
}

void member_meet(const struct member *member)
{
    barrier_wait(&member->team->barrier);
}

double *member_terms(const struct member *member)
{
    return member->team->terms[member->turn];
}

double member_sum(struct member *member, int64_t count)
{
    const double *terms = member_terms(member);
    member->turn = !member->turn;
    member_meet(member);
    double sums[4] = {0};
    for (int64_t i = 0; i < count; i++)
        sums[i % 4] += terms[i];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}
