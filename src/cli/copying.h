/* A copy on its way, for who waits: how far it is, what was left out, and signals that end it. */
#pragma once

#include "cove.h"

#include <stdbool.h>
#include <stdint.h>

struct copying {
	uint64_t started_ms, shown_ms, bytes, files;
	bool shows; /* how far it is, on stderr */
	int signal; /* that ended it, or 0 */
	unsigned skipped;
	char why[160]; /* the first of them was */
};

/* shows is for a terminal only. Signals are caught (signals.h): what is half written then goes. */
void copying_start(struct copying *p, bool shows);
/* For cove_put, cove_get and their like; valid as long as *p. */
struct cove_copy copying_how(struct copying *p, const char *user);
/* Takes the line that was shown away. */
void copying_end(struct copying *p);
