/* Messages about the network of a box; see msg.h. */
#pragma once

#include "wire/msg_list.h"

#include <stdbool.h>
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

/* Something was denied: before the answer that the box gets. */
struct wire_denied {
	uint64_t exec_id; /* whose it was, 0 if not known */
	const char *host; /* NULL: what was sent named none */
	uint64_t port;	  /* 0: a name was looked up */
	const char *method;
	const char *reason, *remedy; /* store/denial.h */
	const char *why;	     /* the same, as one word */
};

struct wire_port {
	uint64_t port; /* on the box's own loopback */
};

/* One verb of the door's own (src/door/control.c), with its arguments. */
struct wire_door {
	struct wire_list argv;
	const char *by; /* who asked, for the audit log */
};

/* What the door answers with SAY depends on the verb: a text of `grants`, ... */
struct wire_say {
	const char *text;
};

/* ... how many connections a change has cut, ... */
struct wire_cut {
	uint64_t connections;
};

/* ... a request that a person decides, or that was just answered, ... */
struct wire_ask {
	uint64_t id;
	const char *host;
	uint64_t port;
	const char *method, *path, *query; /* NULL: it is a connection; cut where they are long */
	const char *rule;		   /* its name; NULL: none */
	uint64_t exec_id, since_ms;	   /* whose it is, 0: not known; wall clock */
	uint64_t left_ms, requests;	   /* until it is denied; that wait for the same answer */
};

/* ... and how the door is. One that does not run is spoken for by its keeper. */
struct wire_door_status {
	bool running;
	const char *policy;
	const char *trouble; /* why nothing is let through; NULL: none */
	uint64_t connections, connections_max, bytes_up, bytes_down, bytes_max, asks;
	bool memory_locked;
};
