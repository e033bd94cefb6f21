/*
 * Landlock: what a process may do with files from here on, whatever its ids and capabilities allow.
 * A set of rules is made, filled and entered; it cannot be left again, and children have it. What
 * the rules handle and none of them allows is refused with EACCES. Opened descriptors stay as they
 * are.
 *
 * Not handled by the kernel, and so left to system-call filters: chmod, chown, stat, and what goes
 * through O_PATH.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* From the kernel's headers, which musl does not bring. */
enum landlock_fs {
	LANDLOCK_WRITE_FILE = 1 << 1,
	LANDLOCK_READ_FILE = 1 << 2,
	LANDLOCK_READ_DIR = 1 << 3,
	LANDLOCK_REMOVE_DIR = 1 << 4,
	LANDLOCK_REMOVE_FILE = 1 << 5,
	LANDLOCK_MAKE_DIR = 1 << 7,
	LANDLOCK_MAKE_REG = 1 << 8,
	LANDLOCK_REFER = 1 << 13, /* to move to another directory: ABI 2, refused before */
	LANDLOCK_TRUNCATE = 1 << 14,
};

enum landlock_net { LANDLOCK_BIND_TCP = 1 << 0, LANDLOCK_CONNECT_TCP = 1 << 1 };

enum landlock_scope {
	LANDLOCK_ABSTRACT_SOCKETS = 1 << 0,
	LANDLOCK_SIGNALS = 1 << 1,
};

/* The version of this kernel; 0 where it has none, or it is not switched on. -errno where something
 * around this process refuses the question: that is not "none". */
int landlock_abi(void);
/* Says so, with the remedy. Returns -code. */
int landlock_refused(int code, struct err *e);

/* A set that handles all that this version knows of files, and of the rest (landlock_net,
 * landlock_scope) what is asked for and known. A descriptor or -errno. */
int landlock_new(int abi, uint64_t net, uint64_t scope);

/* Allows these of the file, or beneath the directory; what the version does not know is left
 * out. */
int landlock_allow(int set, int abi, int fd, uint64_t fs);
/* Allows everything beneath it. */
int landlock_allow_all(int set, int abi, int fd);

/* Needs no_new_privs, or CAP_SYS_ADMIN in the caller's user namespace. */
int landlock_enter(int set);
