/*
 * The network in a box: everything that is not its own loopback comes to two listening sockets, and
 * goes over the wire to the door. Names come to a stub resolver.
 *
 *	net.c    --net-redirect: accepted connections; SO_ORIGINAL_DST says where they were going. A
 *	         synthetic address means the name it was given out for. --net-proxy: connections of
 *	         clients that use the proxy variables
 *	conn.c   one connection: a socket and an id on the wire
 *	names.c  name <-> synthetic address (198.18.0.0/15), of which the least recently used is
 *	         given to another name once there are INIT_NAMES_MAX
 *	stub.c   --net-dns (UDP) and --net-dns-tcp: A gives the synthetic address of a name that the
 *	         door allowed, AAAA gives none, a denied or unknown name is NXDOMAIN, for no longer
 *	         than this answer; other types have no answers. localhost is answered here
 *	port.c   PORT: a connection from the host to 127.0.0.1 or ::1 in the box
 *	owner.c  --net-diag: whose a connection is: the socket's cgroup, which names the command
 *
 * The sockets are made by the wall and inherited: init binds nothing.
 */
#pragma once

#include "init/init.h"

/* The descriptors are taken. */
int init_net_new(struct init *in, const struct net_fds *fds, struct init_net **ret);
/* OK, ERROR, DATA, EOF, CREDIT, CANCEL of ids with WIRE_NET_BIT. False: unknown, dropped. */
bool init_net_frame(struct init *in, const struct wire_frame *f);
/* The same of PORT; it works without a network too. */
void init_port_start(struct init *in, uint32_t id, const struct wire_port *m);
bool init_port_frame(struct init *in, const struct wire_frame *f);
