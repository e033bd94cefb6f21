/* Messages about the network of a box; see msg.h. */
#pragma once

#include "wire/msg_list.h"

#include <stdint.h>

struct wire_name {
	const char *name; /* as it was asked for, without the last dot */
};

struct wire_connect {
	const char *host; /* the name that was looked up, or an address in its usual form */
	uint64_t port;
	uint64_t proxy;	  /* 1: to the proxy port; host and port are in what follows */
	uint64_t exec_id; /* whose it is, 0 if not known */
};

struct wire_port {
	uint64_t port; /* on the box's own loopback */
};

/* One verb of the door's own (src/door/control.c), with its arguments. */
struct wire_door {
	struct wire_list argv;
	const char *by; /* who asked, for the record */
};

struct wire_say {
	const char *text; /* one JSON object */
};
