/*
 * The gVisor wall: the box's system calls are answered by a kernel of its own, a program that runs
 * in the namespaces, ids and groups that a native box would have.
 *
 *	begin, finish	as for a native box, with other steps (steps.c): the new process becomes
 *			`runsc run`, PID 1 of its namespace, which starts gVisor's sandbox and gofer
 *	await		until init's first bytes are on the wire, or runsc says why not
 *	kill		ends runsc; the kernel ends the sandbox and the gofer with it
 *
 * What would be in the way of an escaped program is thus gVisor's kernel and filter first and then
 * a native box's namespaces, ids and groups; it finds nothing of the host's in sight. Nothing of
 * runsc's is left on the host either: its state and its mounts are in memory that goes with the
 * namespaces.
 *
 * The wire is the sandbox's standard input and output, its standard error leads here until init is
 * ready, and init's program is one more descriptor. No others are passed in.
 */
#include "wall/gvisor/gvisor.h"
#include "base/fd.h"
#include "guest/hold.h"
#include "wall/host.h"
#include "wall/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { GVISOR_START_MS = 40 * 1000, /* before who made the box gives up */ GVISOR_COMPLAINT = 120 };

static void free_build(struct gvisor_build *g)
{
	if (!g)
		return;
	fd_close(&g->program);
	fd_close(&g->note);
	fd_close(&g->init);
	fd_close(&g->errors[0]);
	fd_close(&g->errors[1]);
	free(g);
}

static int open_all(struct gvisor_build *g, struct err *e)
{
	char init[32];
	int r;

	g->program = fd_open(g->config->program, O_RDONLY);
	if (g->program < 0)
		return err_errno(e, errno, "open '%.100s'", g->config->program);
	r = gvisor_know(g->config, g->program, &g->runsc, &g->note, e);
	if (r < 0)
		return r;
	/* gVisor takes no descriptor that could be written through. */
	snprintf(init, sizeof(init), "/proc/self/fd/%d", g->config->init_fd);
	g->init = fd_open(init, O_RDONLY);
	if (g->init < 0)
		return err_errno(e, errno, "open cove-init for reading");
	return pipe2(g->errors, O_CLOEXEC | O_NONBLOCK) < 0
		       ? err_errno(e, errno, "make a pipe for the box")
		       : 0;
}

/* gVisor holds two descriptors of the host's for a file that any of the box's processes has open.
 * An ordinary user's gets as many as there may be. */
static void give_files(pid_t pid)
{
	struct rlimit most = {1 << 20, 1 << 20};

	while (prlimit(pid, RLIMIT_NOFILE, &most, NULL) < 0 && most.rlim_cur > 1024)
		most.rlim_cur = most.rlim_max /= 2;
}

static int gvisor_begin(const struct wall_config *c, struct wall_box *b, struct err *e)
{
	struct gvisor_build *g = calloc(1, sizeof(*g));
	int r;

	*b = WALL_BOX_NONE;
	if (!g)
		return err_errno(e, ENOMEM, "plan the box");
	*g = (struct gvisor_build){
		.config = c, .program = -1, .note = -1, .init = -1, .errors = {-1, -1}};
	if (c->secret_count > 0) {
		free_build(g);
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "wall 'gvisor' has no place for build secrets: build with --wall "
			       "native");
	}
	if (c->host->ids->kind == IDS_SINGLE) {
		free_build(g);
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "wall 'gvisor' needs ids of its own for a box: give this user some "
			       "in /etc/subuid and /etc/subgid (usermod --add-subuids) and install "
			       "newuidmap (uidmap), or run as root");
	}
	r = open_all(g, e);
	if (r < 0) {
		free_build(g);
		return r;
	}
	/* From here on it is the plan's, for await and abort. */
	r = native_begin_with(c, &(struct native_use){.plan = gvisor_plan, .own = g}, b, e);
	if (!b->build)
		free_build(g);
	if (r == 0)
		give_files(b->pid);
	return r;
}

/* The last line that runsc or init wrote, without what a terminal could be fooled with. */
static void read_complaint(int fd, char ret[GVISOR_COMPLAINT])
{
	char text[4096];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	const char *line = text;
	size_t len = 0;

	if (n < 0)
		n = 0;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	if (strrchr(text, '\n'))
		line = strrchr(text, '\n') + 1;
	for (; *line && len < GVISOR_COMPLAINT - 1; line++)
		ret[len++] = *line >= ' ' && *line < 127 ? *line : '?';
	ret[len] = 0;
}

/* Its own failure has a status that no program's end gives it; what it was killed by, and what init
 * ended with, say nothing about it. */
static bool gave_up(const struct wall_box *b)
{
	enum { RUNSC_FAILED = 128, ENDS_MS = 5000 };
	struct pollfd end = {.fd = b->pidfd, .events = POLLIN};
	siginfo_t info = {0};

	/* The wire may end a little before it does. */
	return poll(&end, 1, ENDS_MS) == 1 &&
	       waitid(P_PIDFD, (id_t)b->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid != 0 && info.si_code == CLD_EXITED && info.si_status == RUNSC_FAILED;
}

/* silence: what to say where neither runsc nor init said anything. */
static int fail_start(struct gvisor_build *g, const struct wall_box *b, const char *silence,
		      struct err *e)
{
	char why[GVISOR_COMPLAINT];
	const char *platform = gvisor_platform(&g->runsc);
	bool is_own = gave_up(b);
	bool other = is_own && gvisor_learn(g->note, g->program, &g->runsc, false);

	read_complaint(g->errors[0], why);
	return err_set(e, is_own || why[0] ? ERR_UNSUPPORTED : ERR_INTERNAL, EIO,
		       "gVisor (%.40s, %s) cannot start the box: %s%s%s", g->config->program,
		       platform, why[0] ? why : silence, other ? "; the next start tries " : "",
		       other ? gvisor_platform(&g->runsc) : "");
}

static int await_init(struct gvisor_build *g, const struct wall_box *b, struct err *e)
{
	struct pollfd on[] = {{.fd = b->rfd, .events = POLLIN}, {.fd = b->pidfd, .events = POLLIN}};
	char first;
	int r;

	do {
		r = poll(on, 2, GVISOR_START_MS);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(e, errno, "wait for gVisor");
	if (r > 0 && recv(b->rfd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
		return 0;
	return fail_start(g, b, r == 0 ? "no answer in time" : "it ended without a word", e);
}

static void report(const struct gvisor_build *g, struct wall_box *b)
{
	const struct wall_config *c = g->config;
	size_t have = strlen(b->report.missing); /* of what stands around it */

	snprintf(b->report.walls, sizeof(b->report.walls),
		 "gvisor: a kernel of its own (runsc %s, platform %s, network %s)\n"
		 "namespaces: user pid mount network ipc uts cgroup, around it\n"
		 "capabilities: %s\n"
		 "filter: a box's, in its own kernel%s\n"
		 "%s",
		 g->runsc.version, gvisor_platform(&g->runsc),
		 c->net.on ? "by sockets of the box's own network" : "inside only",
		 guest_hold_caps_text(c->strict), plan_is_shared(c) ? "; no set-user-ID files" : "",
		 c->strict ? "no_new_privs\n" : "");
	snprintf(
		b->report.missing + have, sizeof(b->report.missing) - have,
		"%s"
		"beyond --mem, or in a storm of forks, the whole box ends, not one command\n"
		"refused forks and connections are not known per command, and --pids is kept a "
		"little "
		"late\n"
		"numbers of the box count gVisor's own processes and memory too\n"
		"shared directories: FIFOs and sockets made there stay in the box, files of a "
		"group that the box does not have can be used as others can, and a change of mode, "
		"time, owner or size in a read-only part may answer success and do nothing\n"
		"--ptrace: a tracer can make calls past the box's filter, so it needs "
		"--best-effort\n"
		"open files of all processes together are bounded by what the host gives gVisor; "
		"beyond that the box may end\n"
		"limits are not shown at /sys/fs/cgroup\n"
		"/proc/self/status does not list processors\n"
		"a few flags of system calls are unknown to gVisor (RWF_DSYNC)\n"
		"holes in files are not seen by gVisor: they are copied as zeros\n"
		"programs that listen on IPv6 are not found by `cove ports`\n",
		g->runsc.has & GVISOR_SUID || c->strict
			? ""
			: "runsc is old: sudo does not work, newer programs fail (ls), and the "
			  "directory of a shell is not known\n");
}

static int gvisor_await(struct wall_box *b, struct err *e)
{
	struct gvisor_build *g = native_own(b);
	int r = native_await(b, e);

	if (r < 0)
		return r; /* abort frees it */
	fd_close(&g->errors[1]);
	r = await_init(g, b, e);
	if (r == 0) {
		gvisor_learn(g->note, g->program, &g->runsc, true);
		report(g, b);
	}
	free_build(g);
	return r;
}

static void gvisor_abort(struct wall_box *b)
{
	struct gvisor_build *g = native_own(b);

	native_abort(b);
	free_build(g);
}

const struct wall_ops wall_gvisor = {
	.info = &wall_gvisor_info,
	.begin = gvisor_begin,
	.finish = native_finish,
	.await = gvisor_await,
	.abort = gvisor_abort,
	.kill = native_kill,
	.freeze = native_freeze,
	.measure = native_measure,
};
