/*
 * Ping-pong: the client sends a message, the server sends it back; the time of each round trip.
 *
 * server: --role server --protocol tcp|udp --bytes N --socket FD [--cpu RANK]     (FD: inherited, listening or bound)
 * client: --role client --protocol tcp|udp --bytes N --local A --address B --port P --seconds S [--cpu RANK] …
 *
 * One message is under way at a time. The client reads the clock right before its send and right after the answer is
 * whole; what lies between two round trips (storing the time, checking the answer, the next message) is not in it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "arguments.h"
#include "clock.h"
#include "endpoint.h"
#include "fail.h"
#include "json.h"
#include "threads.h"
#include "times.h"

enum { LARGEST_MESSAGE = 1 << 26 };

/* A round trip shorter than this is no round trip: it bounds the room of a batch. */
static const double SHORTEST_SECONDS = 2e-7;

struct settings {
    const char *role, *protocol, *local, *address;
    int64_t bytes, port, socket_fd, cpu;
    double seconds, batch_seconds, warm_up_seconds;
    bool udp;
};

static struct settings read_settings(int argc, char **argv)
{
    struct settings s = {
        .protocol = "tcp", .bytes = 1, .socket_fd = -1, .cpu = -1,
        .seconds = 1, .batch_seconds = 0.05, .warm_up_seconds = 0.2,
    };
    const struct argument table[] = {
        {"role", ARGUMENT_TEXT, &s.role, 0, 0, "client|server"},
        {"protocol", ARGUMENT_TEXT, &s.protocol, 0, 0, "tcp|udp"},
        {"bytes", ARGUMENT_INTEGER, &s.bytes, 1, LARGEST_MESSAGE, NULL},
        {"cpu", ARGUMENT_INTEGER, &s.cpu, -1, 8191, NULL},
        {"socket", ARGUMENT_INTEGER, &s.socket_fd, 0, 1 << 20, NULL},
        {"local", ARGUMENT_TEXT, &s.local, 0, 0, NULL},
        {"address", ARGUMENT_TEXT, &s.address, 0, 0, NULL},
        {"port", ARGUMENT_INTEGER, &s.port, 1, 65535, NULL},
        {"seconds", ARGUMENT_NUMBER, &s.seconds, 0.01, 600, NULL},
        {"batch_seconds", ARGUMENT_NUMBER, &s.batch_seconds, 0.001, 10, NULL},
        {"warm_up_seconds", ARGUMENT_NUMBER, &s.warm_up_seconds, 0, 60, NULL},
    };
    ARGUMENTS_READ(argc, argv, table);
    if (s.role == NULL)
        fail_usage("--role is missing; allowed: client, server");
    s.udp = strcmp(s.protocol, "udp") == 0;
    if (s.udp && s.bytes > LARGEST_DATAGRAM)
        fail_usage("--bytes: %lld do not fit into a datagram; allowed with udp: 1 to %d", (long long)s.bytes, LARGEST_DATAGRAM);
    return s;
}

static char *message_of(int64_t bytes)
{
    char *message = calloc(1, (size_t)bytes);
    if (message == NULL)
        fail("no memory for a message of %lld bytes", (long long)bytes);
    return message;
}

/* Bind the process to the CPU of this rank in its affinity mask; -1 leaves it to the scheduler. */
static void place(int64_t rank)
{
    if (rank < 0)
        return;
    int cpu = threads_cpu((int)rank);
    if (cpu < 0)
        fail("--cpu: rank %lld is asked for, %d CPUs may be used; place both ends on one CPU", (long long)rank, threads_cpus());
    threads_pin(cpu);
}

static void report_common(const struct settings *s, int fd)
{
    json_text("role", s->role);
    json_text("protocol", s->protocol);
    json_integer("bytes", s->bytes);
    json_boolean("bound", s->cpu >= 0);
    json_integer("cpu", sched_getcpu());
    endpoint_describe(fd);
}

static void serve(const struct settings *s)
{
    char *message = message_of(s->bytes);
    int64_t messages = 0;
    int fd = endpoint_accept(s->udp, (int)s->socket_fd);
    json_begin();
    report_common(s, fd);
    for (; endpoint_receive(s->udp, fd, message, (size_t)s->bytes); messages++)
        endpoint_send(fd, message, (size_t)s->bytes);
    json_integer("messages", messages);
    json_end();
    free(message);
}

/* One round trip in nanoseconds. Every message differs from the one before at both of its ends. */
static uint64_t round_trip(const struct settings *s, int fd, char *out, char *in, int64_t number)
{
    size_t size = (size_t)s->bytes;
    out[0] = out[size - 1] = (char)(number % 251);
    uint64_t before = clock_ns();
    endpoint_send(fd, out, size);
    bool whole = endpoint_receive(s->udp, fd, in, size);
    uint64_t after = clock_ns();
    if (!whole)
        fail("the server ended the connection after %lld messages", (long long)number);
    if (in[0] != out[0] || in[size - 1] != out[size - 1])
        fail("answer %lld is not the message that was sent", (long long)number);
    return after - before;
}

static void ping(const struct settings *s)
{
    char *out = message_of(s->bytes), *in = message_of(s->bytes);
    struct times times = {0};
    size_t room = (size_t)(s->batch_seconds / SHORTEST_SECONDS) + 1;
    int fd = endpoint_connect(s->udp, s->local, s->address, (int)s->port);
    int64_t number = 0;
    uint64_t begun = clock_ns();
    while ((double)(clock_ns() - begun) * 1e-9 < s->warm_up_seconds)
        round_trip(s, fd, out, in, number++);
    int64_t warm_up = number;
    int batches = (int)(s->seconds / s->batch_seconds + 0.5);
    for (int batch = 0; batch < (batches > 0 ? batches : 1); batch++) {
        times_begin_batch(&times, room);
        uint64_t start = clock_ns(), length = (uint64_t)(s->batch_seconds * 1e9);
        do
            times.ns[times.count++] = round_trip(s, fd, out, in, number++);
        while (times.count - times.batch_start < room && clock_ns() - start < length);
        times_end_batch(&times);
    }
    json_begin();
    report_common(s, fd);
    json_integer("warm_up_round_trips", warm_up);
    json_number("clock_granularity_seconds", (double)clock_granularity_ns() * 1e-9);
    times_report(&times);
    if (s->udp && send(fd, "", 0, 0) != 0) /* a datagram has no end of stream: an empty one says that it is over */
        fail("the server cannot be told the end: %s", strerror(errno));
    json_end();
}

int main(int argc, char **argv)
{
    struct settings s = read_settings(argc, argv);
    bool server = strcmp(s.role, "server") == 0;
    if (server ? s.socket_fd < 0 : s.local == NULL || s.address == NULL || s.port == 0)
        fail_usage(server ? "a server needs --socket" : "a client needs --local, --address and --port");
    place(s.cpu);
    (server ? serve : ping)(&s);
    return 0;
}
