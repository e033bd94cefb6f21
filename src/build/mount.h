/* The value of RUN's --mount: type=secret,id=npm,target=/root/.npmrc. No I/O. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum build_mount_kind { MOUNT_BIND, MOUNT_CACHE, MOUNT_TMPFS, MOUNT_SECRET };

struct build_mount {
	enum build_mount_kind kind;
	char *id, *target, *source, *from, *env; /* owned; NULL: not said */
	bool required;				 /* of a secret */
	bool writable;				 /* of a bind: what is written is thrown away */
	bool has_mode;
	unsigned mode;
	unsigned uid, gid;
};

/* -EINVAL, or -EOPNOTSUPP for what Docker has and we do not. build_mount_done in any case. */
int build_mount_parse(const char *text, struct build_mount *ret, struct err *e);
void build_mount_done(struct build_mount *m);
