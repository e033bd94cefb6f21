/*
 * The native wall: Linux namespaces.
 *
 *	begin	plan -> (root: open sources) -> clone3 into new namespaces and the box's cgroup
 *		-> map ids -> (root: id-map sources) -> go
 *	finish	the layer, if it comes late; the box's own files in /proc come back
 *	await	until the child has execed init
 *
 * The child runs the plan's steps (enter.c). It reports through a descriptor that exec closes: end
 * of file is success, a struct err is the reason. Mounts are detached until the child attaches them
 * in its own namespace, so nothing is ever visible on the host and nothing can be left there.
 */
#include "wall/native/native.h"
#include "base/caps.h"
#include "base/coredump.h"
#include "base/fd.h"
#include "base/pass.h"
#include "guest/hold.h"
#include "wall/native/enter.h"
#include "wall/native/park.h"
#include "wall/native/plan.h"
#include "wall/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define INTO_CGROUP 0x200000000ull /* CLONE_INTO_CGROUP */
#define WITH_PIDFD  0x00001000ull  /* CLONE_PIDFD */

struct native_channel {
	int wire[2], status[2], go[2]; /* [0] ours, [1] the child's */
};

/* What is needed until init runs. */
struct native_build {
	struct plan plan;
	struct native_channel ch;
	bool parked; /* and the box has said how its network came out: */
	uint8_t net_missing;
};

/* Forks into the namespaces that cannot come later. The others take longer to make, so the new
 * process makes them itself, while this one goes on. */
static pid_t clone_box(int cgroup_fd, int *ret_pidfd, struct err *e)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
		uint64_t set_tid, set_tid_size, cgroup;
	} args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | WITH_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return enter_explain(errno, e);
	return (pid_t)pid;
}

/*
 * What the kernel counts per user (inotify instances and watches, pending signals and timers,
 * message queues, locked memory, namespaces) it counts for the owner of a user namespace too, who
 * made it. So that a box takes of its own share only, root makes it under an id of the box's own
 * range, the last one, which no process inside has. Capabilities stay in effect meanwhile, and so
 * does being dumpable, without which the new process's files in /proc are out of reach.
 */
static int be_owner(const struct ids *ids, bool on, struct err *e)
{
	uid_t owner = ids_host_uid(ids, IDS_COUNT - 1);
	int r = 0;

	if (ids->kind != IDS_RANGE)
		return 0;
	if (syscall(SYS_setresuid, -1, on ? owner : 0, -1) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0 && on)
		r = caps_raise();
	return r < 0 ? err_errno(e, -r, "own the box's user namespace by an id of its own") : 0;
}

static int open_in_proc(pid_t pid, const char *what, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	return fd_open(path, flags);
}

/* Waits for exec, or for the reason why not. */
static int await_exec(int status_fd, struct err *e)
{
	struct err why;
	ssize_t n = fd_read_full(status_fd, &why, sizeof(why));

	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(why))
		return err_set(e, ERR_INTERNAL, EIO,
			       "the box's first process died while it was being set up");
	why.msg[sizeof(why.msg) - 1] = 0;
	if (e)
		*e = why;
	return why.code > 0 ? -why.code : -EIO;
}

/* Makes the child and sees it on its way. */
static int start_child(struct native_build *w, struct wall_box *b, struct err *e)
{
	struct native_channel *ch = &w->ch;
	const struct wall_host *host = b->host;
	bool is_root = host->ids->kind == IDS_RANGE;
	int r = be_owner(host->ids, true, e), back;
	pid_t pid = r < 0 ? r : clone_box(host->cgroup->init_fd, &b->pidfd, e);

	if (pid < 0) {
		(void)be_owner(host->ids, false, NULL); /* the first reason counts */
		return pid;
	}
	if (pid == 0) {
		struct enter_fds fds = {
			.wire = ch->wire[1], .status = ch->status[1], .go = ch->go[1]};

		close(ch->go[0]); /* or it would never see the keeper's end */
		enter_box(&w->plan, &fds);
	}
	b->pid = pid;
	fd_close(&ch->wire[1]);
	fd_close(&ch->status[1]);
	fd_close(&ch->go[1]);
	/* What the caller brought in may be wanted by others as soon as the box has ended. */
	if (w->plan.config->throw_away && w->plan.config->mount_count == 0)
		b->host->mounts_fd = open_in_proc(pid, "ns/mnt", O_RDONLY);
	/* Everything that must be done from outside while the child waits. */
	r = ids_map_process(host->ids, pid, e);
	if (r == 0 && is_root) {
		w->plan.box_ns = open_in_proc(pid, "ns/user", O_RDONLY);
		if (w->plan.box_ns < 0)
			r = err_errno(e, errno, "open the box's user namespace");
	}
	back = be_owner(host->ids, false, r < 0 ? NULL : e);
	if (r == 0)
		r = back;
	if (r == 0 && is_root)
		r = plan_idmap_sources(&w->plan, e);
	if (r < 0)
		return r;
	r = fd_write_full(ch->go[0], "g", 1);
	/* Where it ended already, await says why. */
	return r < 0 && r != -EPIPE ? err_errno(e, -r, "tell the box to go on") : 0;
}

static void report(const struct plan *p, struct wall_report *ret)
{
	char landlock[48] = "", shared[64] = "", net[200] = "";
	const char *core = p->dumps_core
				   ? "core dumps: the limit of core files is 0 here and cannot be "
				     "raised to 1, so a crash in the box starts the host's program "
				     "for them (kernel.core_pattern)\n"
				   : "";

	if (p->net_missing)
		snprintf(
			net, sizeof(net),
			"network: this kernel does not redirect (nftables: %s): only programs that "
			"use the proxy variables reach the door\n",
			strerror(p->net_missing));
	if (p->become) { /* another wall's: it says the rest */
		snprintf(ret->missing, sizeof(ret->missing), "%s%s", net, core);
		return;
	}
	if (p->landlock_abi > 0)
		snprintf(landlock, sizeof(landlock), "landlock: ABI %d\n", p->landlock_abi);
	if (p->filter & FILTER_BOX_SHARED)
		snprintf(shared, sizeof(shared), ", no set-user-ID files (host directory)");
	snprintf(ret->walls, sizeof(ret->walls),
		 "namespaces: user pid mount network ipc uts cgroup\n"
		 "seccomp: %u system calls allowed%s%s\n"
		 "%s"
		 "capabilities: %s\n"
		 "%s",
		 filter_allowed(p->filter), shared,
		 p->config->ptrace ? ", tracing inside (--ptrace)" : "", landlock,
		 guest_hold_caps_text(p->config->strict),
		 p->config->strict ? "no_new_privs\n" : "");
	snprintf(ret->missing, sizeof(ret->missing), "%s%s%s%s", net, core,
		 p->forks_untold
			 ? "the box's pids cgroup cannot be read: refused forks are unknown "
			   "per command\n"
			 : "",
		 p->landlock_abi == 0
			 ? "landlock: this kernel has none, or it is not switched on "
			   "(lsm=...,landlock "
			   "on the kernel's command line): nothing stands behind the mounts\n"
		 : p->landlock_abi < 6
			 ? "landlock: before ABI 6 it does not hold back signals and abstract "
			   "sockets; the namespaces alone do\n"
			 : "");
}

static void free_build(struct wall_box *b)
{
	struct native_build *w = take_ptr(b->build);

	if (!w)
		return;
	plan_done(&w->plan);
	for (int i = 0; i < 2; i++) {
		fd_close(&w->ch.wire[i]);
		fd_close(&w->ch.status[i]);
		fd_close(&w->ch.go[i]);
	}
	free(w);
}

int native_begin_with(const struct wall_config *c, const struct native_use *use, struct wall_box *b,
		      struct err *e)
{
	struct native_build *w = calloc(1, sizeof(*w));
	struct plan *p;
	int r;

	*b = WALL_BOX_NONE;
	b->network = "none";
	b->host = c->host;
	b->build = w;
	if (!w)
		return err_errno(e, ENOMEM, "plan the box");
	p = &w->plan;
	w->ch = (struct native_channel){{-1, -1}, {-1, -1}, {-1, -1}};
	p->own = use->own;
	r = use->plan(p, c, e);
	if (r < 0)
		return r;
	/* No crash in the box starts a program of the host's, nor does one of the keeper's. */
	r = coredump_off();
	if (r < 0 && r != -EPERM)
		return err_errno(e, -r, "set the limit of core files");
	p->dumps_core = r == -EPERM && coredump_target() == COREDUMP_PROGRAM;
	r = 0;
	if (p->ids->kind == IDS_RANGE) {
		r = plan_open_sources(p, e);
		if (r == 0)
			r = plan_open_groups(p, e);
	} else {
		r = plan_find_init_fds(p, e);
	}
	if (r == 0 && (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->ch.wire) < 0 ||
		       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->ch.status) < 0 ||
		       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->ch.go) < 0))
		r = err_errno(e, errno, "make sockets for the box");
	if (r == 0)
		r = start_child(w, b, e);
	if (r == 0)
		b->rfd = b->wfd = take_fd(w->ch.wire[0]);
	return r;
}

static int native_begin(const struct wall_config *c, struct wall_box *b, struct err *e)
{
	return native_begin_with(c, &(struct native_use){.plan = plan_make}, b, e);
}

void *native_own(const struct wall_box *b)
{
	const struct native_build *w = b->build;

	return w ? w->plan.own : NULL;
}

int native_finish(struct wall_box *b, struct err *e)
{
	struct native_build *w = b->build;
	int r = 0, why;

	if (w->plan.sources[PLAN_RW].late) {
		r = volume_attach(w->plan.config->layer, e);
		if (r == 0)
			r = plan_open_late(&w->plan, e);
		if (r < 0)
			return r;
		r = pass_send(w->ch.go[0], &w->plan.sources[PLAN_RW].fd, 1);
		if (r < 0 && r != -EPIPE)
			return err_errno(e, -r, "give the box its layer");
	}
	/* The box's own files in /proc come over the channel that let it go on. A child that ended
	 * sends none, and says why elsewhere. */
	r = pass_receive(w->ch.go[0], b->host->proc_fds, WALL_PROC_FILE_COUNT);
	why = r == -EPIPE ? await_exec(w->ch.status[0], e) : 0;
	if (why < 0)
		return why;
	return r < 0 ? err_errno(e, -r, "receive the box's files in /proc") : 0;
}

static int native_park(struct wall_box *b, struct err *e)
{
	struct native_build *w = b->build;
	int r = park_await(w->ch.go[0], w->plan.config->net.on, &w->net_missing), why;

	why = r == -EPIPE ? await_exec(w->ch.status[0], e) : 0;
	if (why < 0)
		return why;
	w->parked = r == 0;
	return r < 0 ? err_errno(e, -r, "make the box ahead of time") : 0;
}

static int native_resume(struct wall_box *b, const struct wall_config *c, struct err *e)
{
	struct native_build *w = b->build;
	int r = park_send(w->ch.go[0], c);

	/* Where it ended already, await says why. */
	return r < 0 && r != -EPIPE ? err_errno(e, -r, "tell the box what it is") : 0;
}

int native_await(struct wall_box *b, struct err *e)
{
	struct native_build *w = b->build;
	int r = await_exec(w->ch.status[0], e);
	uint8_t missing = w->net_missing;

	if (r < 0)
		return r;
	if (w->plan.config->net.on) {
		/* What it found out about its network, before it became init. */
		if (!w->parked &&
		    fd_read_full(w->ch.go[0], &missing, sizeof(missing)) != sizeof(missing))
			return err_set(e, ERR_INTERNAL, EIO,
				       "the box says nothing about its network");
		b->network = missing ? "proxy" : "redirect";
	}
	w->plan.net_missing = missing;
	report(&w->plan, &b->report);
	/* What the keeper needs of the box's own, and can only be opened now. Without it deleting
	 * what the box's ids own takes two more programs, and how full a layer in memory is (an
	 * overlay tells the numbers of the layer that it writes to) is not known. */
	if (w->plan.ids->kind == IDS_SUBORDINATE)
		b->host->ids->ns_fd = open_in_proc(b->pid, "ns/user", O_RDONLY);
	if (w->plan.sources[PLAN_RW].absent)
		w->plan.config->layer->stat_fd =
			open_in_proc(b->pid, w->plan.tree_in_proc, O_PATH | O_DIRECTORY);
	free_build(b);
	return 0;
}

void native_abort(struct wall_box *b)
{
	if (b->pid > 0) {
		sys_pidfd_send_signal(b->pidfd, SIGKILL);
		while (waitpid(b->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	free_build(b);
	fd_close(&b->pidfd);
	fd_close(&b->rfd);
	for (int i = 0; b->host && i < WALL_PROC_FILE_COUNT; i++)
		fd_close(&b->host->proc_fds[i]);
	if (b->host)
		fd_close(&b->host->mounts_fd);
	*b = WALL_BOX_NONE;
}

/* init is PID 1 of its namespace: the kernel ends the rest with it. */
void native_kill(struct wall_box *b)
{
	if (b->pidfd >= 0)
		sys_pidfd_send_signal(b->pidfd, SIGKILL);
}

int native_freeze(struct wall_box *b, bool on, struct err *e)
{
	return cgroup_freeze(b->host->cgroup, on, e);
}

void native_measure(struct wall_box *b, bool brief, struct cgroup_stats *ret)
{
	if (brief)
		cgroup_stats_now(b->host->cgroup, ret);
	else
		cgroup_stats(b->host->cgroup, ret);
}

const struct wall_ops wall_native = {
	.info = &wall_native_info,
	.begin = native_begin,
	.finish = native_finish,
	.park = native_park,
	.resume = native_resume,
	.await = native_await,
	.abort = native_abort,
	.kill = native_kill,
	.freeze = native_freeze,
	.measure = native_measure,
};
