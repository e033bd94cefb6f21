/*
 * A keeper and a door for tests of the network in a box: starts the cove-init named by COVE_INIT
 * with sockets of the test's own, and plays the other side of the wire. Every wait is bounded; a
 * failure ends the test.
 */
#pragma once

#include "init_spawn.h"

#include "base/buf.h"
#include "base/dns.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>

enum { WAYS_MAX = 4096 };

/* A NAME or CONNECT of init's, or a PORT of ours. */
struct way {
	uint32_t id;
	enum wire_type type;
	char host[DNS_NAME_MAX + 1]; /* or the name */
	uint64_t port, proxy, exec_id;
	struct buf in; /* what came from the box */
	struct wire_flow out, back;
	bool hold_credit; /* give none */
	bool eof, cancelled, ok, failed;
	uint64_t error_kind;
};

struct rig {
	int fd; /* the link, owned */
	pid_t pid;
	bool closed; /* init hung up */
	bool said_hello;
	bool hold_credit; /* for ways to come */
	struct wire_decoder decoder;
	struct buf out;
	struct way *ways[WAYS_MAX]; /* owned */
	unsigned count;
	uint16_t proxy_port, dns_port; /* on 127.0.0.1 */
};

/* What init gets from 3 on, and the option for each. */
struct rig_fds {
	int fd[INHERITED_MAX]; /* borrowed */
	const char *option[INHERITED_MAX + 1];
	unsigned count;
};

/* With a proxy listener and a resolver on ports of 127.0.0.1 that were free. */
struct rig *rig_start(void);
struct rig *rig_start_with(const struct rig_fds *fds);
/* Hangs up and checks that init ended well. */
void rig_stop(struct rig *r);

/* A test with an init that runs. */
#define NET_TEST(name) \
	TEST_IN(name, (struct rig * r), struct rig *rig = rig_start(); body(rig); rig_stop(rig);)

/* Reads and answers what there is; with wait until something comes on the link or on fd (-1: none),
 * for reading or, with write, for writing. */
void rig_pump(struct rig *r, int fd, bool write);
/* Sends all that is queued now. */
void rig_flush(struct rig *r);
/* The n-th way that began, as soon as it did. */
struct way *rig_way(struct rig *r, unsigned n);
struct way *rig_port(struct rig *r, uint64_t port);

void way_ok(struct rig *r, struct way *w);
void way_error(struct rig *r, struct way *w, int kind);
void way_frame(struct rig *r, struct way *w, enum wire_type type, uint8_t stream, const void *p,
	       size_t n);
void way_credit(struct rig *r, struct way *w, uint8_t stream, uint64_t bytes);
void way_send(struct rig *r, struct way *w, const void *p, size_t n); /* within credit */
void way_wait_bytes(struct rig *r, struct way *w, size_t n);
void way_wait_eof(struct rig *r, struct way *w);
void way_wait_cancel(struct rig *r, struct way *w);
void way_wait_answer(struct rig *r, struct way *w); /* OK or ERROR, of a PORT */

/* The box's side: a client's socket, while the rig goes on. */
int tcp_connect(uint16_t port);
int tcp_listen(int family, uint16_t *ret_port);
void tcp_write(struct rig *r, int fd, const void *p, size_t n);
/* Exactly n bytes. */
void tcp_read(struct rig *r, int fd, void *p, size_t n);
/* What recv says next, once it says something: 0 at the end, -errno. */
int tcp_next(struct rig *r, int fd);

/* Questions. */
int dns_socket(const struct rig *r);
void dns_ask(int fd, const char *name, uint16_t type, uint16_t id);
/* The next answer's code, and its addresses. */
enum dns_code dns_hear(struct rig *r, int fd, const char *name, uint16_t type, uint16_t id,
		       struct dns_answer *ret);
