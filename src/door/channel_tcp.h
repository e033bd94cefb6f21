/* A channel over a TCP socket to an upstream; see channel.h. */
#pragma once

#include "door/channel.h"

/* Begins to connect. Whether it did is known when CHANNEL_OUT comes: channel_tcp_result. */
int channel_tcp_connect(struct channel **ret, struct ev *ev, int family, const uint8_t *addr,
			uint16_t port);
/* 0: connected; -EINPROGRESS; or why not. */
int channel_tcp_result(struct channel *c);
/* Takes a connected stream socket. */
int channel_tcp_take(struct channel **ret, struct ev *ev, int fd);
