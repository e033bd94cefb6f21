/* Where a server is, as COVE_HOST says it; no I/O. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { REMOTE_PATH_MAX = 108, REMOTE_PREFIX_MAX = 256 };

/* "unix:/PATH", "http://HOST[:PORT][/PREFIX]" or "https://...". */
struct remote_host {
	char path[REMOTE_PATH_MAX]; /* of a Unix socket; empty: host and port */
	char name[256];		    /* lower case; an address without brackets */
	uint16_t port;
	bool is_tls, is_v6;
	char authority[280];		/* for Host, and for sentences */
	char prefix[REMOTE_PREFIX_MAX]; /* what all paths begin with; no slash at its end */
};

/* -EINVAL with a sentence that says what it should be. Nothing of user information is taken. */
int remote_host_parse(struct remote_host *ret, const char *text, struct err *e);

/* A key: visible ASCII, without the space around it. -EINVAL names where it came from, never it. */
int remote_key_check(char *key, const char *from, struct err *e);
