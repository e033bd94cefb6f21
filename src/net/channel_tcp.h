/* A channel over a TCP socket to an upstream; see channel.h. */
#pragma once

#include "net/channel.h"

struct tcp_address {
	int family;
	const uint8_t *addr; /* in network order */
	uint16_t port;
};

/*
 * What the kernel may hold for all upstreams of a door. It tunes a socket's buffers up to what the
 * host's settings say, some MiB, which a distant server needs to be read fast. As many sockets as
 * fit into DOOR_TCP_WIDE may have that, and every other one has DOOR_TCP_NARROW each way: a box
 * that reads none of its connections makes its door hold no more.
 */
struct tcp_room {
	unsigned wide, wide_max;
};
void tcp_room_init(struct tcp_room *r); /* reads /proc: before the door is confined */

/* Begins to connect. Whether it did is known when CHANNEL_OUT comes: channel_tcp_result. */
int channel_tcp_connect(struct channel **ret, struct ev *ev, struct tcp_room *room,
			const struct tcp_address *to);
/* 0: connected; -EINPROGRESS; or why not. */
int channel_tcp_result(struct channel *c);
/* Takes a connected stream socket. */
int channel_tcp_take(struct channel **ret, struct ev *ev, int fd);
