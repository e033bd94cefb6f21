/* Who a command runs as: looked up in the box's own /etc/passwd and /etc/group, read by init itself
 * (bounded, no NSS, nothing loaded from the image). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

enum { USER_GROUPS_MAX = 64 };

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX];
	size_t group_count;
	char name[64];
	char home[256];
	char shell[256];
};

/* The one looked up last, and what both files were then. */
struct user_cache {
	struct user user;
	char name[64]; /* as asked for; "" for NULL */
	bool valid;
	struct {
		dev_t dev;
		ino_t ino;
		off_t size;
		struct timespec changed;
	} file[2];
};

/* user_find, but both files are read only if one of them is not as it was. */
int user_find_cached(struct user_cache *c, const char *name, struct user *ret, struct err *e);

/* name: a name, "UID" or "USER:GROUP" of names and numbers; NULL: uid 1000 if the image knows it,
 * else root. A uid without a passwd line is fine: home is "/". An unknown name is
 * ERR_NOT_FOUND. */
int user_find(const char *name, struct user *ret, struct err *e);
