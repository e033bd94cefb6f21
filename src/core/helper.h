/*
 * Running cove-store, the one program that links SQLite, libcurl, libarchive and jansson: libcove
 * and the command line link libc only (helper/helper.h is its side).
 *
 * The request is a JSON object in a sealed memory file, its descriptor 3:
 *
 *	{"verb": "NAME", "home": "...", "run": "...", "fds": {"tar": 5}, "args": {...}}
 *
 * The answers come on its descriptor 4 as lines of base/lines.h, so that this side needs no reader
 * of JSON. The value of each is a text of its own, escaped as any value is:
 *
 *	progress LINES	any number of times; lines again ("layer sha256:...", "bytes 4096")
 *	result TEXT	once, where it went well; lines, or JSON for who passes it on
 *	error LINES	once, where it did not: kind, code, message
 *
 * The caller's own descriptors are 5 and on, by the names in "fds". It gets none other, and of the
 * environment what base/child.h passes: anything else goes into args.
 *
 * It is no child of the caller's that it could notice: no SIGCHLD, no zombie (base/child.h). It
 * ends with its caller, however that ends, since all its work is whole or absent when it is killed.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct cove;

struct helper_fd {
	const char *name;
	int fd; /* borrowed */
};

struct helper_call {
	const char *verb;
	const char *args; /* text of a JSON object; NULL is an empty one */
	const struct helper_fd *fds;
	size_t fd_count; /* HELPER_FDS_MAX */
	int cancel_fd;	 /* above 0: when it can be read, or was closed, the helper is ended */
	/* text is the progress's own lines, NUL-terminated, to be read with lines_init: it may be
	 * written to. False ends the helper. NULL: it is dropped. */
	bool (*on_progress)(void *arg, char *text, size_t len);
	void *arg;
};

/* ret, where it is not NULL, gets the result's text, owned and NUL-terminated ("" where there was
 * none). ERR_INTERRUPTED, ECANCELED where on_progress or cancel_fd ended it. */
int helper_run(struct cove *cove, const struct helper_call *call, char **ret, struct err *e);
