/*
 * The life of one box: what its keeper holds while it lives, how it comes up (start.c) and how it
 * ends (life.c).
 *
 *	starting ---HELLO---> up ---stop, init died, broken protocol, first client gone---> ending
 *	   |                                                                               |
 *	   +-- could not be started ------------------> gone <-- init is reaped -----------+
 *
 * One function writes the state (life_enter) and a table says from where to where. starting: the
 * steps of start.c, then waiting for init's HELLO. up: the core serves clients. ending: SIGTERM if
 * there is grace, SIGKILL to init, until the kernel says it is dead and its last bytes are read.
 * gone: everything on the host that was the box's is given back, the end is recorded or the box
 * deleted, clients get their last answers, and the keeper exits. Whoever ran a one-shot box goes on
 * at the beginning of that, if not too many removals are behind already (store/removal.h).
 */
#pragma once

#include "cgroup/cgroup.h"
#include "cgroup/helper.h"
#include "keeper/config.h"
#include "keeper/ctl.h"
#include "keeper/ended_io.h"
#include "keeper/keeper.h"
#include "keeper/listener.h"
#include "keeper/proc_files.h"
#include "keeper/yield.h"
#include "storage/storage.h"
#include "store/net.h"
#include "store/state.h"
#include "wall/host.h"
#include "wall/wall.h"

/* Of a box with a network. */
struct keeper_network {
	char ca[NET_CA_NAME_MAX]; /* its authority's file */
	char *cert;		  /* owned; of the authority; NULL: there is no network */
};

enum keeper_life_state { LIFE_STARTING, LIFE_UP, LIFE_ENDING, LIFE_GONE, LIFE_STATE_COUNT };

struct keeper_life {
	struct ev *ev;
	struct keeper k;
	struct keeper_config config;
	struct keeper_config made_as; /* of one that was made ahead: as what */
	uint64_t disk_asked;	      /* the limit, before it is one that fits this host */
	enum keeper_life_state state;
	struct state st; /* only its names, boxes_fd and run_fd; workspaces_fd while starting */
	int box_fd, lock_fd, range_fd, client_fd; /* owned, -1 without */
	int removal_fd;				  /* owned; see store/removal.h */
	struct ids ids;
	struct cgroup cgroup;
	bool has_cgroup;
	struct cgroup_helper own_group; /* the keeper's */
	bool has_own_group;
	struct volume volume;
	struct volume workspace; /* of a named one: what measures it */
	int workspace_fd;	 /* owned, -1 without; holds one that stands on layers */
	struct proc_files proc_files;
	struct ended_io ended_io;
	struct yield yield;
	bool yield_fails;
	uint64_t oom_kills; /* that were seen; see keeper.h, ran_out */
	uint64_t busy_ms;   /* since when it is watched closely */
	char cgroup_name[BOX_NAME_MAX + 12];
	const struct wall_ops *wall;
	struct wall_host host; /* ids and cgroup for the wall */
	struct wall_box box;
	struct keeper_network network;
	struct keeper_ctl ctl; /* k.ctl, where the box may ask */
	struct ev_child child; /* init */
	bool has_child;
	bool killed; /* SIGKILL was sent to it */
	bool made;   /* there is something on disk to record an end for */
	struct keeper_listener listener;
	struct ev_signals signals;
	struct ev_timer timer; /* starting: for HELLO; ending: grace, then the last bytes */
	struct ev_timer ttl, idle, refresh, busy;
	struct ev_defer finish;
	struct err failure; /* why it could not start */
	char cause[64], by[64];
	bool remove;
	char trash[64]; /* where the box's directory went, empty before */
};

/* Runs the box from its configuration to its end. Takes both. Returns the exit status. */
int keeper_life_run(struct keeper_config *config, int client_fd);

/* start.c: all steps up to a running init and a link to it. What was made before a failure is in
 * *l, and keeper_life_release gives it back. */
int keeper_life_start(struct keeper_life *l, struct err *e);
/* premade.c: waits until the box is somebody's, and makes its configuration that one: name,
 * record, limits. Negative: it is not to be, or ended. */
int keeper_premade_await(struct keeper_life *l, struct err *e);
/* Has init to make anew what the box's spec says? Until it has once been up. */
bool keeper_life_renews(const struct keeper_life *l);
/* Gives back socket, cgroup, ids, and the volume of a kept box. Idempotent. */
void keeper_life_release(struct keeper_life *l);
/* For keeper.h, where a wall has no groups for commands. */
bool keeper_life_ran_out(struct keeper *k);
/* For keeper.h, where a quota bounds the disk. */
bool keeper_life_disk_full(struct keeper *k);
/* Ends the box, in whatever state it is. */
void keeper_life_end(struct keeper_life *l, const struct keeper_end *end);

/* limits.c: what the box may use, in the order of the start. A limit that cannot be kept is refused
 * if it was asked for, and noted otherwise. */
struct cgroup_limits keeper_limits_grouped(const struct keeper_life *l);
int keeper_limits_make_cgroup(struct keeper_life *l, struct err *e);
/* Of one that was made ahead, with the limits of that. */
int keeper_limits_change(struct keeper_life *l, const struct spec *was, struct err *e);
/* The keeper goes into a group of its own, before it hears the box and before its launcher is
 * forked; last of all it leaves, and removes it. Where that bounds nothing it is noted. */
void keeper_limits_join_own_group(struct keeper_life *l);
void keeper_limits_leave_own_group(struct keeper_life *l);
int keeper_limits_open_volume(struct keeper_life *l, struct err *e);
/* The limit of a volume as it was asked for, or as it was made where that is something else. */
uint64_t keeper_limits_disk(const struct keeper_life *l, const struct volume *v);
unsigned keeper_limits_cpus(const struct keeper_life *l);
/* Is that limit, where there is one, kept? */
bool keeper_limits_hold(const struct keeper_life *l, enum limit_id id);

/* network.c: its way out, where it has one. _start before the keeper is confined; _env: what the
 * programs inside are told. _end, which may come twice, begins to end it: true when that is over,
 * otherwise on_over comes (keeper/door.h). _done waits for nothing. */
enum { NETWORK_ENV_COUNT = 18 };
extern const char *const keeper_network_env[NETWORK_ENV_COUNT + 1];
int keeper_network_prepare(struct keeper_life *l, struct err *e);
int keeper_network_start(struct keeper_life *l, struct err *e);
bool keeper_network_end(struct keeper_life *l, void (*on_over)(struct keeper *k));
void keeper_network_done(struct keeper_life *l);

/* meter.c: what it uses, and how long it may. keeper_meter_start when it is up. */
void keeper_meter_init(struct keeper_life *l);
void keeper_meter_start(struct keeper_life *l);
void keeper_meter_stop(struct keeper_life *l);
/* A frozen box goes on, so that it can end. */
void keeper_meter_thaw(struct keeper_life *l);
