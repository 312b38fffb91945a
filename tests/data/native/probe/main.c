/* Every helper of src/tare/native/common once: what it does is seen in the output. For the tests only. */
#include "arguments.h"
#include "clock.h"
#include "fail.h"
#include "isa.h"
#include "json.h"
#include "threads.h"

ISA_DECLARE(int, doubled, (int value));

enum { MOST = 64 };

struct shared {
    struct barrier barrier;
    int64_t rounds, cpu[MOST], late[MOST];
    atomic_long sum;
};

static int64_t where(void)
{
    return threads_cpus() == 1 ? threads_cpu(0) : -1;
}

/* Each round all add one, meet, and then must all see the same sum; `late` counts those that did not. */
static void work(void *argument, int rank, int threads)
{
    struct shared *shared = argument;
    shared->cpu[rank] = where();
    for (int64_t round = 1; round <= shared->rounds; round++) {
        atomic_fetch_add(&shared->sum, 1);
        barrier_wait(&shared->barrier);
        shared->late[rank] += atomic_load(&shared->sum) != round * threads;
        barrier_wait(&shared->barrier);
    }
}

int main(int argc, char **argv)
{
    int64_t threads = 1, rounds = 100, pin = 1;
    double number = 0.1;
    const char *isa = "auto", *text = "q\"\\\n\xc3", *free_text = "";
    const struct argument table[] = {
        {"threads", ARGUMENT_INTEGER, &threads, 1, MOST, NULL}, {"rounds", ARGUMENT_INTEGER, &rounds, 0, 1e6, NULL},
        {"pin", ARGUMENT_INTEGER, &pin, 0, 1, NULL},            {"number", ARGUMENT_NUMBER, &number, -1, 5, NULL},
        {"isa", ARGUMENT_TEXT, &isa, 0, 0, ISA_CHOICES},        {"text", ARGUMENT_TEXT, &free_text, 0, 0, NULL},
    };
    ARGUMENTS_READ(argc, argv, table);
    static struct shared shared;
    shared.rounds = rounds;
    barrier_init(&shared.barrier, (int)threads);
    uint64_t before = clock_ns();
    threads_run((int)threads, pin != 0, work, &shared);
    enum isa chosen = isa_choose(isa);
    const double odd[] = {1.0 / 3.0, -1.0 / 0.0, 1e300};
    json_begin();
    json_text("isa", isa_name(chosen));
    json_integer("doubled", ISA_SELECT(chosen, doubled)(21));
    json_number("number", number);
    json_text("escaped", text);
    json_text("text", free_text);
    json_boolean("clock", clock_ns() > before && clock_granularity_ns() > 0);
    json_numbers("odd", odd, 3);
    json_integers("cpu", shared.cpu, (size_t)threads);
    json_integers("late", shared.late, (size_t)threads);
    json_open_array("objects");
    json_open(NULL);
    json_integer("least", INT64_MIN);
    json_close();
    json_open(NULL);
    json_close();
    json_close_array();
    json_open("last");
    json_numbers("none", odd, 0);
    json_close();
    json_end();
    return 0;
}
