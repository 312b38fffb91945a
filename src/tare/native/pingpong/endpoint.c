#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "fail.h"
#include "json.h"

enum { PATIENCE_SECONDS = 5 };

static struct sockaddr_in numeric(const char *name, const char *address, int port)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &found.sin_addr) != 1)
        fail_usage("--%s: \"%s\" is no numeric IPv4 address; names are not looked up", name, address);
    return found;
}

static void set_option(int fd, int level, int option, const void *value, socklen_t size, const char *what)
{
    if (setsockopt(fd, level, option, value, size) != 0)
        fail("%s cannot be set on the socket: %s", what, strerror(errno));
}

/* Each message is sent at once: without this a small one would wait for the acknowledgement of the one before. */
static void send_at_once(bool udp, int fd)
{
    int on = 1;
    if (!udp)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on, "TCP_NODELAY");
}

void endpoint_be_impatient(int fd)
{
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    set_option(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience, "SO_RCVTIMEO");
    set_option(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience, "SO_SNDTIMEO");
}

int endpoint_connect(bool udp, const char *local, const char *address, int port)
{
    struct sockaddr_in own = numeric("local", local, 0), other = numeric("address", address, port);
    int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd < 0)
        fail("a socket cannot be made: %s", strerror(errno));
    endpoint_be_impatient(fd); /* bounds connect(2) too */
    send_at_once(udp, fd);
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        fail("the client cannot be bound to %s: %s", local, strerror(errno));
    if (connect(fd, (struct sockaddr *)&other, sizeof other) != 0)
        fail("%s port %d cannot be reached from %s: %s", address, port, local, strerror(errno));
    return fd;
}

int endpoint_accept(bool udp, int socket_fd)
{
    struct sockaddr_in client;
    socklen_t size = sizeof client;
    int fd = socket_fd;
    if (udp) {
        char byte;
        if (recvfrom(fd, &byte, 1, MSG_PEEK, (struct sockaddr *)&client, &size) < 0)
            fail("no datagram came: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&client, size) != 0)
            fail("the client cannot be answered: %s", strerror(errno));
    } else {
        fd = accept(socket_fd, (struct sockaddr *)&client, &size);
        if (fd < 0)
            fail("no client came: %s", strerror(errno));
    }
    send_at_once(udp, fd);
    return fd;
}

void endpoint_send(int fd, const char *message, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, message + sent, size - sent, MSG_NOSIGNAL);
        if (now < 0)
            fail("a message of %zu bytes cannot be sent: %s", size, strerror(errno));
        sent += (size_t)now;
    }
}

bool endpoint_receive(bool udp, int fd, char *message, size_t size)
{
    size_t got = 0;
    do {
        ssize_t now = recv(fd, message + got, size - got, udp ? 0 : MSG_WAITALL);
        if (now < 0)
            fail("no answer within %d s: %s", PATIENCE_SECONDS, strerror(errno));
        if (now == 0 && got == 0)
            return false;
        if (now == 0 || (udp && (size_t)now != size))
            fail("a message of %zu bytes ended after %zu", size, got + (size_t)now);
        got += (size_t)now;
    } while (got < size);
    return true;
}

static void describe(const char *address_name, const char *port_name, const struct sockaddr_in *end)
{
    char text[INET_ADDRSTRLEN];
    json_text(address_name, inet_ntop(AF_INET, &end->sin_addr, text, sizeof text));
    json_integer(port_name, ntohs(end->sin_port));
}

void endpoint_describe(int fd)
{
    struct sockaddr_in local, remote;
    socklen_t local_size = sizeof local, remote_size = sizeof remote;
    if (getsockname(fd, (struct sockaddr *)&local, &local_size) != 0 ||
        getpeername(fd, (struct sockaddr *)&remote, &remote_size) != 0)
        fail("the ends of the connection are not told: %s", strerror(errno));
    describe("local_address", "local_port", &local);
    describe("remote_address", "remote_port", &remote);
}
