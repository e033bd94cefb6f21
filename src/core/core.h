/*
 * libcove inside: what its files share. The public face is include/cove.h.
 *
 *	cove.c	    struct cove, the boundary: struct err -> struct cove_error, events to the caller
 *	spawn.c	    finding the helper programs, starting a keeper
 *	async.c	    requests to keepers on an event loop; call.c the blocking calls over it
 *	client.c    what a server holds: shared connections, commands
 *	up.c	    a box started or joined; create.c one that is made; watch.c waiting for a change
 *	warm.c	    boxes that were made ahead; pools.c what is kept ready
 *	box.c	    boxes and handles as a caller sees them; options.c what a caller asks for
 *	life.c	    a box's way to running; end.c ending and deleting it; reap.c what is due
 *	session.c   a caller's own id -> one box
 *	door.c	    policies, grants, asks; network.c those of a new box; forward.c ports
 *	exec.c	    commands; result.c their results
 *	put.c get.c files.c	files in and out; run_with.c those that go with a command
 *	tool*.c	    lines, edits, searches of files in a box, and watching them
 *	history.c   commands, their output and events of a box, running or not
 *	stats.c	    what a running box uses; pausing it; times.c how long it may run
 *	walls.c	    which wall a box gets; admission.c whether the host has room for it
 *	trees.c	    boxes and images as stacks of layers; reader.c who reads them; diff.c merge*.c
 *	list.c inspect.c images.c workspaces.c sweep.c; view.c words and JSON they share
 *
 * Functions here take a struct err; only the cove_* functions turn it into the caller's error.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits_build.h"
#include "core/admission.h"
#include "core/call.h"
#include "core/plain.h"
#include "cove.h"
#include "storage/ids.h"
#include "store/event.h"
#include "store/image.h"
#include "store/net.h"
#include "store/record.h"
#include "store/state.h"
#include "wall/wall.h"

#include <stdbool.h>

struct cove {
	struct state state;
	struct ids ids; /* valid when has_ids */
	bool has_ids;
	bool swept;
	bool parents_keepers; /* see spawn_as_children */
	void (*on_event)(void *arg, const char *line, const char *json);
	void *arg;
	struct core_admission *admission; /* borrowed; NULL: there is room for all */
	struct core_patience patience;	  /* of calls that wait for it */
	/* Before the record of a box is written; may be NULL. */
	void (*on_making)(void *arg, const struct spec *spec);
	void *making_arg;
	struct core_warm *warm;	  /* borrowed; boxes that a server made ahead, or NULL: warm.h */
	const char *wall_program; /* of a wall that is tried, instead of the one there; or NULL */
	/* Found once; empty before. */
	char keeper_path[512], init_path[512], door_path[512], ctl_path[512], save_path[512];
};

struct cove_box {
	struct cove *cove;
	unsigned refs; /* the caller's handle and every cove_exec */
	char name[64];
	bool one_shot;
	bool visit;		/* up for this handle alone */
	struct core_conn *idle; /* owned; a connection nobody is using, or NULL */
	char *last_cwd;		/* owned; where the shell named last_shell was, for events */
	char last_shell[40];
};

/* ---- cove.c ---- */

/* Every public function ends with this: fills the caller's error from e when r is negative, tells
 * on_event about the failure, and returns r. cove, box and err may be NULL. */
int core_return(struct cove *cove, const char *box, int r, const struct err *e,
		struct cove_error *err);

void core_event(struct cove *cove, const struct event *ev);

/* The caller's ids, detected once. */
int core_ids(struct cove *cove, struct err *e);

/* Adds the remedy to an error about a file on the host that belongs to the boxes' ids. */
void core_hint_owner(struct cove *cove, uid_t owner, struct err *e);

/* ---- spawn.c ---- */

/* Finds cove-keeper and cove-init. ERR_UNSUPPORTED names where it looked and the remedy. */
int spawn_find_programs(struct cove *cove, struct err *e);
/* And cove-door, for a box with a network. */
int spawn_find_door(struct cove *cove, struct err *e);
/* And cove-ctl, for a box that may ask; and cove-save, for one that may ask for snapshots. */
int spawn_find_ctl(struct cove *cove, bool saves, struct err *e);

struct keeper_config;
/* Starts a keeper and returns the socket that is its first client. */
int spawn_keeper(struct cove *cove, const struct keeper_config *config, int *ret_fd, struct err *e);

/* ---- up.c ---- */

/* Whatever state the box is in, ends with a connection to its keeper that has said HELLO: joins it,
 * starts it, or waits for who is doing so. visit: a box that is started is up for this connection
 * alone, and stops with it. */
int box_up(struct cove *cove, const char *name, bool visit, struct core_conn **ret, struct err *e);

/* ---- end.c ---- */

/* Ends the box if it runs, takes its name away and deletes it. Missing is success. */
int box_destroy(struct cove *cove, const char *name, const char *by, struct err *e);
/* The same by one who holds the operation lock through box_fd. -1: whatever has the name is no
 * box. */
int box_destroy_locked(struct cove *cove, const char *name, int box_fd, const char *by,
		       struct err *e);
int box_halt(struct cove *cove, const char *name, const char *by, uint64_t grace_ms, struct err *e);
/* The same with the cause "rollback". 1 if it ran. */
int box_halt_to_roll_back(struct cove *cove, const char *name, struct err *e);
int box_halt_to_merge(struct cove *cove, const char *name, struct err *e); /* "merge" */

/* Deletes what cannot be in use any more of a box whose keeper is gone: socket and cgroup. */
void box_clear_runtime(struct cove *cove, const char *name);
void box_cgroup_name(struct cove *cove, const char *name, char *ret, size_t size);

/* ---- box.c ---- */

/* A handle on a connection that has said HELLO, or that will (one_shot). Takes conn. */
int box_handle_take(struct cove *cove, const char *name, bool one_shot, struct core_conn *conn,
		    struct cove_box **ret, struct err *e);

/* A connection for one request, and back. A broken one is freed. */
int box_conn_get(struct cove_box *box, struct core_conn **ret, struct err *e);
void box_conn_put(struct cove_box *box, struct core_conn *conn);

void box_unref(struct cove_box *box);

/* files.c: as cove_stat, of what a link leads to, with a user's rights (NULL: the box's). */
int core_stat_target(struct cove_box *box, const char *path, const char *user,
		     struct cove_file_info *ret, struct err *e);

/* boxes/<name> as a descriptor; ERR_NOT_FOUND if there is none. */
int box_open_dir(struct cove *cove, const char *name, int *ret_fd, struct err *e);

/* ---- options.c ---- */

/* A spec built from a caller's options; what it points to lives in options and in text. */
struct core_spec {
	struct spec spec;
	char name[BOX_NAME_MAX + 1];
	char image_name[IMAGE_NAME_MAX + 1];
	struct image image;		    /* owned; what the spec says of its layers is from it */
	char *text[3 * SPEC_MOUNT_MAX + 2]; /* owned */
	size_t text_count;
	bool wall_open;		 /* the caller named none */
	uint64_t wall_within_ms; /* not 0: spec.wall is yet to be chosen (walls.h) */
	char net[NET_NAME_MAX];	 /* spec.net; empty before network_choose (door.h) */
	char *policy;		 /* owned; the text where that is "file" */
	size_t policy_len;
	const char *const *allow; /* borrowed from the options */
	const char *const *deny;
	bool keep, soon;		     /* of life_start */
	bool makes_workspace;		     /* of a fork: above these layers */
	const char *const *workspace_layers; /* borrowed */
	size_t workspace_layer_count;
	struct wall_secret secrets[BUILD_SECRETS_MAX]; /* what they point to is borrowed */
	size_t secret_count;
};
/* session NULL: a plain box. name NULL: options->name, or a fresh one. */
int core_spec_init(struct core_spec *ret, const struct cove_box_options *options, const char *name,
		   const char *session, struct err *e);
void core_spec_done(struct core_spec *s);
/* What a box may use where its maker did not say. */
void core_spec_default_limits(struct spec *spec);

/* ---- list.c ---- */

/* How many running boxes have an init from before a mend that matters, and their names with commas,
 * cut where they do not fit. Sweeps nothing. */
int list_outdated(struct cove *cove, char *ret, size_t size);

/* ---- sweep.c ---- */

/* Puts in order what a crash left; once per struct cove, and only where it is needed. Never fails:
 * what cannot be swept now is swept next time. core_sweep looks at everything, core_sweep_seldom
 * does so unless somebody did within the last minute, core_sweep_box looks at one box. */
void core_sweep(struct cove *cove);
void core_sweep_seldom(struct cove *cove);
void core_sweep_box(struct cove *cove, const char *name);
/* May a crash have left a box so? Then it is swept before it is believed. */
bool core_was_left(const struct record *r);
