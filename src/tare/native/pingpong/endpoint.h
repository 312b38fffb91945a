/* Sockets of a ping-pong: numeric IPv4 addresses only (no name is ever looked up), whole messages, no waiting for ever. */
#ifndef TARE_ENDPOINT_H
#define TARE_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* The largest payload of a UDP datagram over IPv4. */
enum { LARGEST_DATAGRAM = 65507 };

/* A socket at `local` (any free port) connected to address and port; fails within seconds when nobody is there. */
int endpoint_connect(bool udp, const char *local, const char *address, int port);

/*
 * The connection of the first client of `socket_fd`, which listens (TCP; accept) or is bound (UDP; the first datagram
 * stays in the queue). Waits for ever: whoever started this process ends it.
 */
int endpoint_accept(bool udp, int socket_fd);

/* Send all of a message; fails when the other end is gone. */
void endpoint_send(int fd, const char *message, size_t size);

/*
 * Receive exactly one message of `size` bytes. Returns false when the other end has finished (end of stream, or an
 * empty datagram); fails for half a message, and after five seconds without one when `impatient`.
 */
bool endpoint_receive(bool udp, int fd, char *message, size_t size);

/* Give up after five seconds in each later send and receive. */
void endpoint_be_impatient(int fd);

/* Add "<prefix>_address" and "<prefix>_port" of both ends (prefix: local, remote) to the JSON object. */
void endpoint_describe(int fd);

#endif
