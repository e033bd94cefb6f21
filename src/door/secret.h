/* The value of a credential: in memory that is locked, left out of core dumps, and wiped. It cannot
 * be printed by accident: there is no string to give to printf. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct secret {
	uint8_t *data; /* owned; NULL: none */
	size_t len;
};

/* Copies. -ENOMEM; where memory cannot be locked it goes on (RLIMIT_MEMLOCK), locked_is says so. */
int secret_init(struct secret *s, const void *p, size_t n);
void secret_done(struct secret *s); /* wipes; idempotent */
