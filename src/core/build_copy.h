/*
 * The work of COPY, ADD and WORKDIR in a tree: used by the child of build_tree.c. Paths of the
 * destination are resolved beneath the tree's root, as in a box.
 */
#pragma once

#include "build/stage.h"
#include "core/build_source.h"

#include <stdint.h>
#include <sys/types.h>

/* A compressed archive of ADD's, as the plain tar that it is. */
struct build_expanded {
	const char *source; /* as build_source_find spells it; borrowed */
	int fd;		    /* borrowed */
};

struct build_copy {
	const struct build_step *step;
	int root_fd; /* borrowed */
	struct build_source source;
	bool keeps_owners;  /* unless --chown says otherwise; else all is root's */
	bool single;	    /* only one id exists: owners are left alone */
	uint64_t bytes_max; /* that is written at most */
	const struct build_expanded *expanded; /* borrowed */
	size_t expanded_count;
	/* Set by build_copy_run: */
	bool has_owner;
	uid_t uid;
	gid_t gid;
	uint64_t bytes;
};

int build_copy_run(struct build_copy *c, struct err *e);
int build_copy_workdir(struct build_copy *c, const char *user, struct err *e);

/* A directory of the tree by its path, made with all above it where it is missing. */
int build_copy_dirs(const struct build_copy *c, const char *path);

/* "NAME", "UID", "NAME:GROUP", ...: names are of the tree's own /etc/passwd and /etc/group. A
 * number alone is a group, too; a name alone has its own. */
int build_owner_find(int root_fd, const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *e);
