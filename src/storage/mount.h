/*
 * A filesystem mounted nowhere: the few descriptor-based mount calls that volumes need, by number,
 * because neither musl nor older glibc names them.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum mount_detached_attr {
	MOUNT_NOSUID = 0x2,
	MOUNT_NODEV = 0x4,
	MOUNT_NOEXEC = 0x8,
	MOUNT_NOATIME = 0x10,
};

/* Mounts without attaching: a descriptor of the detached mount, or -errno. options are pairs of key
 * and value (NULL: a flag), ended by a NULL key. why (may be NULL) gets what the kernel says about
 * a failure, empty when it says nothing. */
int mount_detached(const char *type, const char *const *options, uint64_t attrs, char *why,
		   size_t why_size);
