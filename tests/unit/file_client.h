/*
 * A keeper for tests of file operations: starts the cove-init named by COVE_INIT on a socketpair
 * and talks to it, blocking. Every wait is bounded; a failure ends the test.
 */
#pragma once

#include "base/buf.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <sys/types.h>

struct client {
	int fd;	   /* owned */
	pid_t pid; /* of init */
	struct wire_decoder decoder;
	struct buf out; /* encoded, not yet written */
	uint32_t last_id;
};

/* What came for one operation. log has a line per entry: "type path mode size[ -> target]". */
struct client_result {
	int code; /* errno of ERROR, 0 for OK */
	char msg[256];
	size_t entries;
	const char *log;
	struct buf log_buf;
	struct buf data; /* of all files, one after the other */
};

/* args after the program's name, NULL-terminated. Skips the test where there is no COVE_INIT. */
struct client client_start(const char *const args[]);
/* Hangs up and waits until init has ended. */
void client_stop(struct client *c);

void client_send(struct client *c, enum wire_type type, uint8_t stream, uint32_t id, const void *p,
		 size_t n);
void client_next(struct client *c, struct wire_frame *ret);

/* Sends FILE with a new id. */
uint32_t client_begin(struct client *c, const struct wire_file *m);
void client_entry(struct client *c, uint32_t id, const struct wire_entry *m);
/* ENTRY, DATA within credit, EOF. */
void client_put_file(struct client *c, uint32_t id, const char *path, mode_t mode, const void *p,
		     size_t n);
/* Takes everything until OK or ERROR, giving credit. */
struct client_result client_finish(struct client *c, uint32_t id);
/* client_begin and client_finish. */
struct client_result client_file(struct client *c, const struct wire_file *m);
void client_result_done(struct client_result *r);
