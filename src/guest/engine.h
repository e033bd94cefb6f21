/*
 * What init has to do by itself behind a wall whose engine brings a kernel of its own and has made
 * the rest of the insides (gVisor): bound the number of processes, by a group of that kernel's,
 * load the filter of a box into it, and put down the rights that it was given for that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guest_engine {
	bool strict;	 /* as of hold.h */
	bool shared;	 /* there is a writable directory of the host */
	bool ptrace;	 /* processes may trace each other */
	uint64_t pids;	 /* beside init; 0: not bounded */
	bool must_bound; /* they were asked to be: else it is noted where they cannot */
	const char *at;	 /* an empty directory that only init has seen: the group is made there */
};

/* The rights: those of guest_hold_caps, and to look at other users' processes. 0 or -errno, with
 * *ret_what for people. */
int guest_engine_run(const struct guest_engine *c, char *notes, size_t size, const char **ret_what);
