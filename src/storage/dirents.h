/* The names of a directory, as the kernel gives them: a position to come back to, and no memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dirents {
	int fd; /* borrowed */
	size_t pos, len;
	int64_t off; /* position after the name given last */
	_Alignas(8) char bytes[16384];
};

void dirents_init(struct dirents *d, int fd);

/* 1 and the next name, without "." and ".."; 0 at the end. It stays until the next call. */
int dirents_next(struct dirents *d, const char **ret);
