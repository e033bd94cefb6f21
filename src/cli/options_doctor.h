/* Options of `cove doctor` alone; a part of the table of options.h. */
#pragma once

/* clang-format off */
#define OPTIONS_DOCTOR(X) \
	X(SETUP_STORAGE, "setup-storage", 0, FLAG, setup_storage, NULL, \
		"make the pool: quick boxes and snapshots with limits, on btrfs (root)") \
	X(REMOVE_STORAGE, "remove-storage", 0, FLAG, remove_storage, NULL, \
		"take the pool away again, if it is empty (root)") \
	X(POOL_SIZE, "size", 0, LIMIT_SIZE, pool_bytes, "SIZE", \
		"of a pool's file; default three quarters of what is free, at most 1T")
/* clang-format on */
