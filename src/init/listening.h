/* What listens in a box; see listening.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct listening {
	char address[46];
	char program[20];
	uint16_t port;
	uint64_t inode;
	pid_t pid; /* 0: not known */
};

/* A line of /proc/net/tcp or tcp6. False if it is none of a socket that listens. */
bool init_listening_parse(const char *line, struct listening *ret);
