/*
 * What this machine signs with that it gives out and takes back, as links to ports: 32 random bytes
 * in keys/.seal, made at the first use, 0600 below a 0700 directory. Without the file all that was
 * signed is void; like keys it is in no backup.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdint.h>

enum { SEAL_BYTES = 32 };

/* Reads it, or makes it: whoever comes at the same time gets the same. ERR_DAMAGED for a file of
 * another length, which nothing may be signed with. */
int seal_read(struct state *st, uint8_t ret[SEAL_BYTES], struct err *e);
