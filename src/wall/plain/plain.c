/*
 * The plain wall: bare namespaces of root's, in which init makes everything else itself
 * (guest/setup.h), with the wire on a pair of pipes. It holds nothing back that matters: it is only
 * in builds with sanitizers, where the tests use it to show that a wall which does no more than
 * start init gets the same box.
 *
 * finish makes the process, when the layer is there. The child stacks a scratch on the root of its
 * own mount namespace, mounts the overlay there, leaves everything else by pivot_root and executes
 * init.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "guest/guest.h"
#include "guest/mount.h"
#include "storage/storage.h"
#include "wall/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLAIN_ARGS = 10 };

struct plain_build {
	const struct wall_config *config;
	int in[2], out[2]; /* pipes to and from init */
	int status[2];	   /* a struct err; closed by exec */
	char **argv;	   /* owned */
	char mem[24], files[24];
};

static int make_arguments(struct plain_build *w)
{
	const struct wall_config *c = w->config;
	size_t n = 0;

	while (c->init_argv[n])
		n++;
	w->argv = calloc(n + PLAIN_ARGS, sizeof(*w->argv));
	if (!w->argv)
		return -ENOMEM;
	memcpy(w->argv, c->init_argv, n * sizeof(*w->argv));
	snprintf(w->mem, sizeof(w->mem), "%llu", (unsigned long long)c->limits.mem_bytes);
	snprintf(w->files, sizeof(w->files), "%llu", (unsigned long long)c->limits.files);
	const char *more[PLAIN_ARGS] = {"--guest",	 c->name,  "--guest-mem", w->mem,
					"--guest-files", w->files, NULL};

	if (c->net.on)
		more[6] = "--guest-net";
	if (c->net.on && c->net.trust_pem) {
		more[7] = "--guest-trust";
		more[8] = c->net.trust_pem;
	}
	memcpy(w->argv + n, more, sizeof(more));
	return 0;
}

/* One of those below, at a place of its own; their names, top first, go into the options. */
static int attach_lower(struct plain_build *w, size_t i, struct buf *options)
{
	autoclose int lower = mount_clone(AT_FDCWD, w->config->lowers[i], false);
	int r = lower < 0 ? lower : mount_set(lower, MA_RDONLY | MA_NODEV, -1);
	char name[32];

	snprintf(name, sizeof(name), "lower%zu", i);
	if (r == 0 && mkdir(name, 0700) < 0)
		r = -errno;
	if (r == 0)
		r = mount_attach(lower, AT_FDCWD, name);
	return r < 0 ? r : buf_printf(options, "%s%s", i ? ":" : "lowerdir=", name);
}

static int attach_layers(struct plain_build *w, struct buf *options)
{
	const struct wall_config *c = w->config;
	bool in_memory = c->layer->ops->flags & STORAGE_MEMORY;
	int rw = in_memory		   ? mount_new("tmpfs", NULL, MA_NODEV)
		 : c->layer->mount_fd >= 0 ? c->layer->mount_fd
					   : mount_clone(AT_FDCWD, c->box_dir, false);
	int r = rw < 0 ? rw : mount_attach(rw, AT_FDCWD, "rw");

	for (size_t i = 0; i < c->lower_count && r == 0; i++)
		r = attach_lower(w, i, options);
	if (r == 0 && in_memory && (mkdir("rw/upper", 0755) < 0 || mkdir("rw/work", 0755) < 0))
		r = -errno;
	return r < 0 ? r : buf_printf(options, ",upperdir=rw/upper,workdir=rw/work,userxattr");
}

static int make_root(struct plain_build *w)
{
	struct guest g = GUEST_NONE;
	struct buf options;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	r = guest_scratch_make(&g, AT_FDCWD);
	if (r == 0 && (mkdir("rw", 0700) < 0 || mkdir("root", 0700) < 0))
		r = -errno;
	buf_init(&options, 4000);
	if (r == 0)
		r = attach_layers(w, &options);
	if (r == 0)
		r = mount_here("overlay", "root", MS_NODEV, buf_cstr(&options));
	buf_done(&options);
	if (r == 0 && chdir("root") < 0)
		r = -errno;
	return r < 0 ? r : mount_pivot_here();
}

/* 0 and 1 the wire, 2 nothing; its program and the status, which exec closes; all else closed. */
static int run_init(struct plain_build *w, int null)
{
	enum { PROGRAM = 3, STATUS = 4, HIGH = 64 };
	int from[] = {w->in[0], w->out[1], null, w->config->init_fd, w->status[1]};
	char *env[] = {NULL};

	for (int i = 0; i <= STATUS; i++)
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, HIGH);
	for (int i = 0; i <= STATUS; i++)
		if ((i < PROGRAM ? dup2(from[i], i) : dup3(from[i], i, O_CLOEXEC)) < 0)
			return -errno;
	w->status[1] = STATUS;
	sys_close_range(STATUS + 1, ~0u, 0);
	return sys_execveat(PROGRAM, w->argv, env);
}

static _Noreturn void be_box(struct plain_build *w)
{
	struct err e = {0};
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = make_root(w);
	if (r == 0)
		r = run_init(w, null);
	err_set(&e, err_kind_of(-r), -r, "start init in bare namespaces: %s", strerror(-r));
	(void)!write(w->status[1], &e, sizeof(e));
	_exit(1);
}

static int plain_begin(const struct wall_config *c, struct wall_box *b, struct err *e)
{
	struct plain_build *w = calloc(1, sizeof(*w));

	*b = WALL_BOX_NONE;
	b->network = "none";
	b->build = w;
	if (!w)
		return err_errno(e, ENOMEM, "begin the box");
	*w = (struct plain_build){.config = c, .in = {-1, -1}, .out = {-1, -1}, .status = {-1, -1}};
	if (geteuid() != 0)
		return err_set(e, ERR_UNSUPPORTED, EPERM, "wall 'plain' is for root's tests only");
	if (make_arguments(w) < 0 || pipe2(w->in, O_CLOEXEC) < 0 || pipe2(w->out, O_CLOEXEC) < 0 ||
	    pipe2(w->status, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make pipes for the box");
	b->rfd = take_fd(w->out[0]);
	b->wfd = take_fd(w->in[1]);
	return 0;
}

static int plain_finish(struct wall_box *b, struct err *e)
{
	struct plain_build *w = b->build;
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} args = {
		.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC |
			 0x1000 /* CLONE_PIDFD */,
		.pidfd = (uint64_t)(uintptr_t)&b->pidfd,
		.exit_signal = SIGCHLD,
	};
	int r = volume_attach(w->config->layer, e);
	long pid;

	if (r < 0)
		return r;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return err_errno(e, errno, "make bare namespaces");
	if (pid == 0)
		be_box(w);
	b->pid = (pid_t)pid;
	fd_close(&w->status[1]);
	fd_close(&w->in[0]);
	fd_close(&w->out[1]);
	return 0;
}

static void free_build(struct wall_box *b)
{
	struct plain_build *w = take_ptr(b->build);

	if (!w)
		return;
	for (int i = 0; i < 2; i++) {
		fd_close(&w->in[i]);
		fd_close(&w->out[i]);
		fd_close(&w->status[i]);
	}
	free(w->argv);
	free(w);
}

static int plain_await(struct wall_box *b, struct err *e)
{
	struct plain_build *w = b->build;
	struct err why;
	ssize_t n = fd_read_full(w->status[0], &why, sizeof(why));
	char path[64];

	if (n == (ssize_t)sizeof(why)) {
		*e = why;
		return -why.code;
	}
	if (n != 0)
		return err_set(e, ERR_INTERNAL, EIO, "the box's first process died");
	if (w->config->layer->ops->flags & STORAGE_MEMORY) {
		snprintf(path, sizeof(path), "/proc/%d/root", (int)b->pid);
		w->config->layer->stat_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	b->network = w->config->net.on ? "redirect" : "none";
	snprintf(b->report.walls, sizeof(b->report.walls),
		 "namespaces: pid mount network ipc uts\n");
	snprintf(b->report.missing, sizeof(b->report.missing),
		 "wall: for tests only, it holds nothing back\n");
	free_build(b);
	return 0;
}

static void plain_kill(struct wall_box *b)
{
	if (b->pidfd >= 0)
		sys_pidfd_send_signal(b->pidfd, SIGKILL);
}

static void plain_abort(struct wall_box *b)
{
	plain_kill(b);
	while (b->pid > 0 && waitpid(b->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	free_build(b);
	fd_close(&b->pidfd);
	fd_close(&b->rfd);
	fd_close(&b->wfd);
	*b = WALL_BOX_NONE;
}

const struct wall_ops wall_plain = {
	.info = &wall_plain_info,
	.begin = plain_begin,
	.finish = plain_finish,
	.await = plain_await,
	.abort = plain_abort,
	.kill = plain_kill,
};
