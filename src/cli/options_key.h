/* Rows of the table in options.h: API keys. */
#pragma once

/* clang-format off */
#define OPTIONS_KEY(X) \
	X(POOL_COUNT, "size", 0, COUNT, count, "N", "how many boxes are to be ready; at most 128") \
	X(KEY_SCOPE, "scope", 0, LIST, key_scopes, "LIST", \
		"what it may do (read,run,...); default read,run,images,network,secrets; " \
		"repeatable") \
	X(KEY_QUOTA, "quota", 0, TEXT, key_quotas, "LIST", \
		"how much at once: boxes=20,mem=8g; also of cpus, disk, snapshots and images") \
	X(KEY_MOUNT, "mount", 0, LIST, mounts, "DIR", \
		"it may give its boxes this directory of the host, and those below; repeatable") \
	X(KEY_ALL, "all", 'a', FLAG, all, NULL, "also those that were removed")
/* clang-format on */
