/*
 * cove-init: arguments, the link, and who gets which frame. See init.h for the picture.
 *
 * Order at the start: arguments; every inherited descriptor but 0-2 (and those of options) closed;
 * where the wall asks for it, the insides of the box (guest/setup.h);
 * the link moved away from 0 and 1, which become /dev/null; signals and limits; the groups;
 * the tables; HELLO. A failure before HELLO is a sentence on descriptor 2 and exit status 1.
 *
 * As PID 1 the kernel drops every signal from inside the box that init has no handler for, so none
 * needs to be ignored but SIGPIPE, which a write of our own would raise. When the loop ends init
 * exits, and the kernel ends the box. Started as an ordinary process (tests, a wall without a pid
 * namespace) init is a subreaper instead, and kills what is below it before it goes.
 */
#include "init/init.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "guest/engine.h"
#include "guest/open.h"
#include "guest/renew.h"
#include "init/ctl.h"
#include "init/env.h"
#include "init/job.h"
#include "init/net.h"
#include "init/options.h"
#include "init/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
	LINK_FD_FIRST = 10,
	OPEN_FILES = 65536,
	LATE_SHARE = 8, /* of the files that init may have open, each table, two for one */
	END_ROUNDS = 64,
	INIT_NOTES_MAX = 1024,
};

/* Everybody who waits is called, while there is room; who finds none again queues behind. */
static void on_drained(struct wire_link *l)
{
	struct init *in = init_of_link(l);
	struct room_wait *last = in->wait_last, *w;

	while (last && (w = in->wait_first) && init_has_room(in)) {
		if (w == last)
			last = NULL;
		init_wait_room_cancel(in, w);
		w->on_room(w);
	}
	file_drained(in);
}

static void on_exec(struct init *in, const struct wire_frame *f)
{
	struct wire_exec m;

	if (wire_exec_decode(f, &m) < 0)
		init_broken(in, "an EXEC that cannot be read");
	else if (init_job_find(in, f->id))
		init_broken(in, "an id was used twice");
	else if (m.shell)
		shell_line(in, f->id, &m);
	else
		init_exec_start(in, f->id, &m);
}

static int send_hello(struct init *in, const char *notes)
{
	struct wire_hello m = wire_hello_ours();
	int r;

	m.pid = (uint64_t)getpid();
	m.notes = notes[0] ? notes : NULL;
	m.revision = WIRE_INIT_REVISION;
	r = wire_hello_encode(&in->link.out, 0, 0, &m);
	wire_link_flush(&in->link);
	return r;
}

/* The first one answers ours. Another is of a new keeper: the box was restored. */
static void on_hello(struct init *in, const struct wire_frame *f)
{
	bool again = in->keeper.version > 0;
	struct wire_hello m;
	struct err e;

	if (wire_hello_decode(f, &m) < 0)
		init_broken(in, "a malformed HELLO");
	else if (wire_hello_agree(&m, "the keeper", "install Cove again", &in->keeper, &e) < 0)
		init_broken(in, e.msg);
	else if (again && send_hello(in, "") < 0)
		init_broken(in, "no room for an answer");
}

/* The time that the box was there to see: a pause does not count against a command's timeout. What
 * the keeper says began when all stood still, so this never goes back. */
static uint64_t box_clock(void *arg)
{
	const struct init *in = arg;

	return clock_mono_ms() - in->still_ms;
}

/* Only what init itself asks for has such an id. */
static bool is_of_net(const struct wire_frame *f)
{
	return (f->id & (WIRE_NET_BIT | WIRE_NET_BIT << 1)) == WIRE_NET_BIT &&
	       (f->type == WIRE_OK || f->type == WIRE_ERROR || f->type == WIRE_DATA ||
		f->type == WIRE_EOF || f->type == WIRE_CREDIT || f->type == WIRE_CANCEL);
}

static void on_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct init *in = init_of_link(l);
	struct wire_file file;
	struct wire_port port;
	struct wire_shell shell;
	struct wire_pause pause;
	int r = 0;

	if (in->broken)
		return;
	if (is_of_net(f)) {
		init_net_frame(in, f);
		return;
	}
	switch (f->type) {
	case WIRE_HELLO:
		on_hello(in, f);
		break;
	case WIRE_EXEC:
		on_exec(in, f);
		break;
	case WIRE_FILE:
		r = wire_file_decode(f, &file);
		if (r == 0)
			file_start(in, f->id, &file);
		break;
	case WIRE_PORT:
		r = wire_port_decode(f, &port);
		if (r == 0)
			init_port_start(in, f->id, &port);
		break;
	case WIRE_SHELL:
		r = wire_shell_decode(f, &shell);
		if (r == 0)
			shell_ask(in, f->id, &shell);
		break;
	case WIRE_PAUSE:
		r = wire_pause_decode(f, &pause);
		if (r == 0) {
			in->still_ms += pause.for_ms;
			/* And is read anew: this turn has timers to come. */
			ev_set_clock(in->ev, box_clock, in);
		}
		break;
	case WIRE_CTL:
		init_ctl_frame(in, f);
		break;
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_CREDIT:
	case WIRE_SIGNAL:
	case WIRE_RESIZE:
	case WIRE_CANCEL:
	case WIRE_ENTRY:
		/* One for a request that has just ended has no owner, which is normal. */
		if (!init_job_frame(in, f) && !file_frame(in, f))
			init_port_frame(in, f);
		break;
	default:
		if (wire_type_is_known(f->type))
			init_broken(in, "a frame that is not for init");
		else if (wire_unknown_encode(&in->link.out, f) < 0)
			init_broken(in, "no room for an answer");
		wire_link_flush(&in->link);
	}
	if (r < 0)
		init_broken(in, "a request that cannot be read");
}

static void on_close(struct wire_link *l, int error)
{
	struct init *in = init_of_link(l);

	if (error < 0)
		init_broken(in, error == -EBADMSG ? "the keeper sent what is no frame"
						  : "the link failed");
	ev_quit(in->ev);
}

static int fail(const char *what, int code)
{
	dprintf(2, "cove-init: %s: %s\n", what, strerror(code));
	return -code;
}

/* 0 and 1 are read from and written to by accident in many ways; after this that does no harm, and
 * descriptor 0 serves as the empty input of commands. */
static int move_link(int *ret_rfd, int *ret_wfd)
{
	struct stat a, b;
	int null;

	if (fstat(0, &a) < 0 || fstat(1, &b) < 0)
		return fail("descriptors 0 and 1 must be the link", errno);
	*ret_rfd = *ret_wfd = fd_copy(0, LINK_FD_FIRST);
	if (!S_ISSOCK(a.st_mode) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		*ret_wfd = fd_copy(1, LINK_FD_FIRST);
	if (*ret_rfd < 0 || *ret_wfd < 0)
		return fail("move the link", errno);
	null = fd_open("/dev/null", O_RDWR);
	if (null < 0)
		return fail("open /dev/null", errno);
	if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0))
		return fail("put /dev/null on 0 and 1", errno);
	if (null > 2)
		close(null);
	return 0;
}

static int close_inherited(const struct init *in)
{
	enum { SET_CLOEXEC = 4 }; /* CLOSE_RANGE_CLOEXEC */
	unsigned first = INIT_FD_FIRST + in->inherited;
	int r = guest_close_from(first);

	if (r == 0 && in->inherited && sys_close_range(INIT_FD_FIRST, first - 1, SET_CLOEXEC) == 0)
		return 0;
	/* Before Linux 5.11 one by one. */
	for (unsigned fd = INIT_FD_FIRST; r == 0 && fd < first; fd++)
		if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
			r = -errno;
	return r < 0 ? fail("close inherited descriptors", -r) : 0;
}

static void set_up_process(struct init *in)
{
	static const unsigned long by_default[4]; /* the kernel's struct sigaction, all zero */
	struct rlimit files = {.rlim_cur = OPEN_FILES};
	/* What a program that is started finds ignored; handlers it never inherits. */
	uint64_t ignored = child_ignored_signals();

	/* libc's own among them: a caller started by make hands them down ignored, and libc's
	 * sigaction refuses to touch them. */
	for (int sig = 1; sig <= 64; sig++)
		if (ignored >> (sig - 1) & 1)
			syscall(SYS_rt_sigaction, sig, by_default, NULL, sizeof(by_default[0]));
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	ASSERT(prctl(PR_SET_DUMPABLE, 0) == 0);
	if (getpid() != 1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* A command costs init up to five descriptors. The hard limit is the wall's to set. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < OPEN_FILES) {
		files.rlim_cur = files.rlim_max < OPEN_FILES ? files.rlim_max : OPEN_FILES;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	in->late_max = INIT_LATE_MAX;
	if (files.rlim_cur / LATE_SHARE < in->late_max)
		in->late_max = (unsigned)(files.rlim_cur / LATE_SHARE);
}

static int set_up(struct init *in, int rfd, int wfd, char *notes)
{
	const struct net_fds *n = &in->net_fds;
	size_t have = strlen(notes);
	int r = ev_new(&in->ev);

	if (r < 0)
		return fail("make an event loop", -r);
	init_tree_groups_check(&in->groups, notes + have, INIT_NOTES_MAX - have);
	guest_open_check(notes, INIT_NOTES_MAX);
	in->link.on_frame = on_frame;
	in->link.on_close = on_close;
	in->link.on_drained = on_drained;
	in->users = calloc(1, sizeof(*in->users));
	r = wire_link_init(&in->link, in->ev, rfd, wfd);
	if (r == 0)
		r = reaper_new(in, &in->reaper);
	if (r == 0)
		r = init_job_table_new(&in->jobs);
	if (r == 0)
		r = shell_table_new(in, &in->shells);
	if (r == 0)
		r = file_table_new(in, &in->files);
	if (r == 0 && (n->redirect4 >= 0 || n->proxy >= 0 || n->dns >= 0 || n->dns_tcp >= 0))
		r = init_net_new(in, &in->net_fds, &in->net);
	if (r == 0 && in->ctl_name)
		r = init_ctl_new(in, in->ctl_name, &in->ctl);
	if (r == 0 && in->engine && dup2(0, 2) < 0)
		r = -errno;
	if (r == 0)
		r = send_hello(in, notes);
	if (r == 0 && (in->groups.once || in->soon)) { /* while the keeper reads it */
		wire_link_push(&in->link);
		reaper_premake(in);
	}
	return r < 0 ? fail("start", -r) : 0;
}

static int give_sockets(struct init *in, const struct guest_redirect *net)
{
	int r = 0;

	for (size_t i = 0; i < net->count && r == 0; i++)
		r = init_options_give_socket(in, net->options[i], net->fds[i]);
	return r < 0 ? fail("use the sockets of the box's network", -r) : 0;
}

/* Behind a wall that only starts init. */
static int make_guest(struct init *in, char *notes)
{
	struct guest_redirect net;
	struct err e;

	if (!in->guest.name)
		return 0;
	in->guest.single = in->single;
	in->guest.strict = in->strict;
	if (guest_setup_run(&in->guest, &net, notes, INIT_NOTES_MAX, &e) < 0) {
		dprintf(2, "cove-init: %s\n", e.msg);
		return -e.code;
	}
	return give_sockets(in, &net);
}

/* Behind a wall that made the rest from outside. */
static int finish_guest(struct init *in, char *notes)
{
	struct guest_engine engine = {.strict = in->strict,
				      .shared = in->engine_shared,
				      .ptrace = in->engine_ptrace,
				      .pids = in->pids_limit,
				      .must_bound = in->pids_must,
				      .at = in->shell_dir ? in->shell_dir : INIT_SHELL_DIR};
	struct guest_redirect net;
	const char *what = "";
	int r = in->engine ? guest_engine_run(&engine, notes, INIT_NOTES_MAX, &what) : 0;

	if (r < 0)
		return fail(what, -r);
	if (in->start_file && unlink(in->start_file) < 0 && errno != ENOENT)
		return fail("remove what the wall left", errno);
	if (!in->net_listen)
		return 0;
	r = guest_redirect_listen(strcmp(in->net_listen, "led") == 0, &net);
	return r < 0 ? fail("make the sockets of the way to the door", -r) : give_sockets(in, &net);
}

int main(int argc, char **argv)
{
	struct init in = {.groups = TREE_GROUPS_NONE, .net_fds = NET_FDS_NONE};
	struct init_tree all = TREE_NONE;
	char notes[INIT_NOTES_MAX] = "";
	int rfd = -1, wfd = -1, r;
	bool had_keys = false;

	sys_secret_take();
	if (init_options_parse(&in, argc, argv) < 0 || close_inherited(&in) < 0 ||
	    make_guest(&in, notes) < 0 || finish_guest(&in, notes) < 0 || move_link(&rfd, &wfd) < 0)
		return 1;
	set_up_process(&in);
	if (in.make_cwd && in.cwd)
		env_make_cwd(&in);
	if (in.renew)
		guest_renew(&had_keys, notes, sizeof(notes));
	if (set_up(&in, rfd, wfd, notes) < 0)
		return 1;
	if (had_keys)
		guest_renew_keys();
	r = ev_run(in.ev);
	file_table_free(in.files);
	/* Only needed where no kernel does it: as PID 1 our exit ends everybody. */
	all.root = getpid();
	for (int i = 0; i < END_ROUNDS && all.root != 1 && init_tree_kill(&all, all.root) > 0; i++)
		continue;
	return r < 0 || in.broken ? 1 : 0;
}
