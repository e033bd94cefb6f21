/*
 * cove-init: PID 1 of a box, behind every wall. One loop, one link to the keeper on descriptors 0
 * and 1, no library but libc.
 *
 *	keeper --EXEC--> main.c: on_frame -> exec.c (a process) | shell.c (a line in a live bash)
 *	       --FILE-->                  -> files.c (as the user, by fsuid)
 *	pipes  --------> stream.c: DATA, EOF with credit
 *	SIGCHLD -------> reap.c: every child and orphan
 *
 * Configuration comes as arguments from the wall (they hold no secret):
 *	--user NAME|UID[:GID]  who commands run as      --cwd DIR      start directory
 *	--make-cwd             the image names it: made if it is not there
 *	--env NAME=VALUE       for every command
 *	--single               only one uid is mapped: never change ids
 *	--strict               nothing runs as root
 *	--once                 one command comes at once, and most likely no other
 *	--soon                 one command comes at once, and others may
 *	--renew                another box's files are here: what no two may share is made anew
 *	--disk-limit BYTES     the box's own, to be named where it is hit; 0: none
 *	--disk DIR             its workspace, where that is a disk of its own with that limit
 *	--disk-quota           a quota keeps it: what statfs says is of more than the box has
 *	--pids-limit N         the same
 *	--pids-must            it was asked for: with --engine, no box without it
 *	--memory-max, --cpu-max TEXT   what a command's v2 group says of the box's limits
 *	--ctl NAME             the box may ask for itself, at this socket: ctl.h
 *	--shell-dir DIR        instead of INIT_SHELL_DIR, for tests outside a box
 *	--guest NAME           make the insides of the box of that name first (guest/setup.h), with
 *	--guest-mem BYTES, --guest-files N, --guest-net, --guest-trust PEM
 *	--net-listen led|plain make the sockets of the way to the door; led: the wall made the rules
 *	--start-file PATH      is removed: the wall needed it only to start the box
 *	--engine               behind a kernel of the wall's own (guest/engine.h); descriptor 2
 *	                       leads to who started init, until it is ready
 *	--engine-shared, --engine-ptrace   the box's filter is that kind (filter/filter.h)
 * Each of these takes the next inherited descriptor, from 3 on, in their order. None leads out of
 * the box: groups are detached mounts, whose `..` ends at their top.
 *	--cgroup               v2 work/: groups of commands; kill, freeze, all numbers on a v2 host
 *	--memory-v1            v1 memory/<box>/work: the same groups once more
 *	--io-v1                v1 blkio/<box>/work
 *	--pids-events          that file of the box's own group, v1 or v2
 *	--net-proxy, --net-dns, --net-dns-tcp, --net-diag, --net-redirect (IPv4; once more: IPv6)
 *	                       the way to the door; see net.h. They do not block: guest/redirect.h
 * When the keeper goes (end of file on the link) init exits, and the kernel ends the box.
 */
#pragma once

#include "base/err.h"
#include "ev/ev.h"
#include "guest/setup.h"
#include "init/tree.h"
#include "init/user.h"
#include "wire/hello.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <stdbool.h>
#include <stddef.h>

enum { INIT_FD_FIRST = 3, INIT_DISKS_MAX = 2 };

/* A directory on a private tmpfs, made by the wall: owned by root, mode 1733, so that the user may
 * create files but not list them. Shell lines pass through it. */
#define INIT_SHELL_DIR "/dev/cove"

/* Sockets of the box's network, -1 where there is none; see net.h. */
struct net_fds {
	int redirect4, redirect6; /* TCP listeners that the redirect leads to */
	int proxy;		  /* TCP listener that the proxy variables name */
	int dns, dns_tcp;
	int diag; /* NETLINK_SOCK_DIAG */
};

#define NET_FDS_NONE ((struct net_fds){-1, -1, -1, -1, -1, -1})

struct init {
	struct ev *ev;
	struct wire_link link;
	struct wire_peer keeper;  /* as it said in its HELLO */
	struct user_cache *users; /* env.c; NULL: none is kept */
	const char *user;	  /* default user as given, may be NULL */
	const char *cwd;	  /* start directory, may be NULL: the user's home */
	const char *const *env;	  /* NAME=VALUE, NULL-terminated */
	struct init_tree_groups groups;
	struct net_fds net_fds;		 /* from the arguments; net.c's once it is there */
	unsigned inherited;		 /* descriptors from INIT_FD_FIRST on */
	uint64_t disk_limit, pids_limit; /* 0: none */
	unsigned late_max;		 /* INIT_LATE_MAX, or what the limit of files allows */
	dev_t disks[INIT_DISKS_MAX];	 /* what disk_limit bounds; see usage.h */
	unsigned disk_count;
	bool disk_quota;
	bool single, strict, make_cwd, soon;
	unsigned watched;	  /* directories of all watches; files_watch.c */
	struct guest_setup guest; /* of the arguments; its name is NULL: made by the wall */
	const char *ctl_name;	  /* NULL: nothing of the box may ask */
	const char *net_listen;	  /* NULL: the sockets were inherited, or guest made them */
	const char *start_file;	  /* or NULL */
	bool engine, engine_shared, engine_ptrace, pids_must, renew;
	bool broken;				  /* init_broken was called: nothing more is read */
	const char *shell_dir;			  /* absolute; NULL: INIT_SHELL_DIR */
	struct init_job_table *jobs;		  /* job.c */
	struct shell_table *shells;		  /* shell.c */
	struct file_table *files;		  /* files.c */
	struct reaper *reaper;			  /* reap.c */
	struct init_net *net;			  /* net.c; NULL: none */
	struct init_ctl *ctl;			  /* ctl.c; NULL: off */
	struct port_table *ports;		  /* port.c; NULL until the first */
	struct room_wait *wait_first, *wait_last; /* link.c: who waits for room on the link */
	uint64_t still_ms;			  /* main.c: all pauses of the box together */
};

/* The link of a struct init, back to it: what holds only the link can still wait for room. */
static inline struct init *init_of_link(struct wire_link *l)
{
	return container(l, struct init, link);
}

/* job.c: commands, which are processes of their own (exec.c) or lines in persistent shells
 * (shell.c). Both answer: STARTED and EXIT, or ERROR. */
int init_job_table_new(struct init_job_table **ret);
void init_exec_start(struct init *in, uint32_t id, const struct wire_exec *m);
int shell_table_new(struct init *in, struct shell_table **ret);
void shell_line(struct init *in, uint32_t id, const struct wire_exec *m);
/* shell_list.c: lists the shells, or ends one. */
void shell_ask(struct init *in, uint32_t id, const struct wire_shell *m);

/* files.c: file operations. The same shape. An operation that failed or was cancelled is gone at
 * once: frames that still come for it are unknown, and main.c drops them. */
int file_table_new(struct init *in, struct file_table **ret);
void file_start(struct init *in, uint32_t id, const struct wire_file *m);
bool file_frame(struct init *in, const struct wire_frame *f);
/* The link's queue is empty: transfers that waited for it go on. Called from link.on_drained. */
void file_drained(struct init *in);
/* The keeper is gone: takes half uploads away. Called from link.on_close. NULL is fine. */
void file_table_free(struct file_table *t);

/* reap.c: init's children, those it started and those it was given. */
struct init_proc; /* spawn.h */
int reaper_new(struct init *in, struct reaper **ret);
void reaper_watch(struct init *in, struct init_proc *p);
void reaper_forget(struct init *in, struct init_proc *p); /* not watched: fine */
/* Makes the groups of the next command ahead, for as long as commands come. */
void reaper_premake(struct init *in);
/* Somebody ended: groups that were left may be empty now, and go soon. */
void reaper_sweep(struct init *in);

/* link.c: the link. */

/* Answers ERROR for a request; code is an errno, its usual kind is sent with it. */
void init_fail(struct init *in, uint32_t id, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same from an error value. */
void init_fail_err(struct init *in, uint32_t id, const struct err *e);
/* The keeper broke the protocol, or the link is stuck: the box ends. */
void init_broken(struct init *in, const char *why);

/*
 * Room on the link. All streams share one queue of WIRE_OUT_MAX; credit bounds each of them but
 * not their sum. So whoever has bulk data looks at init_has_room first, and where there is none
 * waits: on_room comes once, after the queue has drained, in the order of waiting. Control frames
 * are small and need not ask.
 */
struct room_wait {
	void (*on_room)(struct room_wait *w);
	struct room_wait *next;
	bool queued;
};

bool init_has_room(const struct init *in);
void init_wait_room(struct init *in, struct room_wait *w);	  /* idempotent */
void init_wait_room_cancel(struct init *in, struct room_wait *w); /* not waiting: fine */
