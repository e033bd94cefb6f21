/*
 * The addresses of a name, within a time. The host's resolver has no time limit of ours and cannot
 * be ended: it is asked in a thread that is left to itself when the time is over or the caller has
 * to give up. There are at most LOOKUPS_MAX of those.
 */
#pragma once

#include "base/err.h"

#include <netdb.h>
#include <stdint.h>

enum { LOOKUPS_MAX = 32 };

/* until_ms: of clock_mono_ms; cancel_fd: readable: give up; -1: none. Free *ret with freeaddrinfo.
 * ERR_NOT_FOUND, ERR_TIMEOUT, ERR_INTERRUPTED, ERR_LIMIT. */
int lookup_run(const char *name, uint64_t until_ms, int cancel_fd, struct addrinfo **ret,
	       struct err *e);
