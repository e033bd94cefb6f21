/*
 * Which host ids a box's ids are.
 *
 * As root every running box has a range of 65,536 host ids to itself; layers, its writes and named
 * workspaces are stored with the box's own ids and shown through id-mapped mounts. An ordinary user
 * maps 65,536 ids from /etc/subuid and /etc/subgid with newuidmap and newgidmap, box id 1000 being
 * the caller, so that files in a host directory belong to the caller; all the caller's boxes share
 * that map. Where there are no subordinate ids only box id 1000 exists, and it is the caller.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { IDS_COUNT = 65536, IDS_USER = 1000 };
enum { IDS_SLOT_FIRST = 0x7000, IDS_SLOT_LAST = 0x7ffd }; /* of ranges; slot = host id >> 16 */

enum ids_kind { IDS_RANGE, IDS_SUBORDINATE, IDS_SINGLE };

struct ids {
	enum ids_kind kind;
	uid_t uid_base; /* IDS_RANGE: box id 0 on the host, also for groups */
	uid_t sub_uid;	/* IDS_SUBORDINATE: first subordinate id */
	gid_t sub_gid;
	uid_t caller_uid;
	gid_t caller_gid;
	int ns_fd; /* above 0: a user namespace that has this map, borrowed */
};

/* In a directory that all boxes of the machine share; no box can be called this. */
#define IDS_RANGES_FILE ".slots"

/* What this caller can have. For root uid_base is 0 until ids_range_take. `why` (may be
 * NULL) gets a sentence when it is IDS_SINGLE: what is missing and how to get it. */
int ids_detect(struct ids *ret, char *why, size_t why_size, struct err *e);

/* Takes a free range for as long as the returned descriptor stays open (it holds a lock in a file
 * in run_dir; the kernel gives it back even after kill -9). Ranges are global to the machine: all
 * state directories share run_dir. Nothing on disk is stored with range ids, so a box gets another
 * range at every start. */
int ids_range_take(struct ids *ids, const char *run_dir, int *ret_lock_fd, struct err *e);

/* The host id of a box id. */
uid_t ids_host_uid(const struct ids *ids, uid_t inside);
gid_t ids_host_gid(const struct ids *ids, gid_t inside);

/* Does a file on the host with that owner belong to a box's id, other than the caller? */
bool ids_is_box_uid(const struct ids *ids, uid_t host);

/* Writes uid_map, gid_map and setgroups of a process that made its user namespace and waits. */
int ids_map_process(const struct ids *ids, pid_t pid, struct err *e);

/* A user namespace for an id-mapped mount of a host directory: files of that owner belong to the
 * box's user, and what its user writes belongs to that owner; all other box ids are stored in the
 * range that share.h reserves. Root only. Returns a descriptor. (What is stored with the box's own
 * ids needs the box's namespace.) */
int ids_mount_ns(const struct ids *ids, uid_t owner_uid, gid_t owner_gid, struct err *e);

/* Runs fn in a child which has the box's ids mapped and is box root (or the caller, when single),
 * in its own mount namespace: for unpacking and deleting trees that an ordinary user does not own
 * on the host. With ns_fd that namespace is joined, and no map has to be written. Returns fn's
 * value (0..125), or -errno. As root it only forks. Not a child of the caller (base/child.h). */
int ids_run_inside(const struct ids *ids, int (*fn)(void *arg), void *arg, struct err *e);
