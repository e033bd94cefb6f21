/*
 * Starting a process; see spawn.h.
 *
 * How it works
 *
 * One clone3 makes the child and puts it into its group at birth; where the kernel (or
 * a filter) has no clone3, fork and a write to cgroup.procs do the same. It is a real fork and not
 * a vfork: init is a few dozen pages, so the copy is cheap; a child that the box's own processes
 * stop between setuid and exec cannot hold init for ever; and what shares init's memory would be
 * killed with init where memory runs out, and init with it.
 *
 * The child reports by a CLOEXEC pipe: end of file means that exec succeeded, a struct err says why
 * it did not. init goes on meanwhile and hears of either as an event. Every NUDGE_MS it sends
 * SIGCONT, which undoes a `kill -STOP -1` of the user that hit the child, and it gives up after
 * START_MS_MAX. The reaper says when a child ended, and what it reported is read then.
 *
 * Order in the child: what needs root first (group, oom score, terminal), then nothing of init's is
 * open any more, then the ids, then what is to be seen with the user's rights (directory, program).
 * The directory, the program and the interpreter that it names are looked up with 0-2 and the
 * report pipe open, so that no link of /proc leads through what init holds; and the directory,
 * which a process would keep, is found without such links at all. init is not dumpable and the copy
 * stays so until exec, so no process of the user can trace it.
 */
#include "init/spawn.h"

#include "base/fd.h"
#include "base/limits.h"
#include "guest/open.h"
#include "init/fsids.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

/* From the kernel's headers, which musl does not bring. */
#define KERNEL_CAPABILITY_VERSION_3 0x20080522u

enum { START_MS_MAX = 10000, NUDGE_MS = 50, REPORT_FD = 3, COPY_OOM_SCORE = 200, COPIES_ID = 0 };

enum stage {
	STAGE_SETUP = 1, /* descriptors, session */
	STAGE_GROUP,
	STAGE_TTY,
	STAGE_IDS,
	STAGE_CWD,
	STAGE_MISSING, /* no such program */
	STAGE_INTERP,  /* the program is there, what it is to be run with is not */
	STAGE_EXEC,
};

/* Never lowered: a caller that made itself the first victim hands that on. Best effort by design:
 * an init that is not root may not write here, and the command has the same score as init then. */
static void raise_oom_score(int score)
{
	autoclose int fd = fd_open("/proc/self/oom_score_adj", O_RDWR);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || atoi(text) >= score)
		return;
	snprintf(text, sizeof(text), "%d", score);
	fd_write_full(fd, text, strlen(text));
}

/* Leaves 0-2 and the report pipe, which becomes REPORT_FD, and closes all else: what closes at exec
 * only could still be named by the paths that exec looks up. */
static int set_descriptors(const struct spawn *s, int *report_fd)
{
	const int from[] = {s->in, s->out, s->err};

	for (int to = 0; to < 3; to++) {
		if (from[to] != to && dup2(from[to], to) < 0)
			return -errno;
		if (from[to] == to && fcntl(to, F_SETFD, 0) < 0)
			return -errno;
	}
	if (*report_fd != REPORT_FD && dup3(*report_fd, REPORT_FD, O_CLOEXEC) < 0)
		return -errno;
	*report_fd = REPORT_FD;
	return guest_close_from(REPORT_FD + 1);
}

/* In a strict box init has its capabilities through the inheritable set (guest/hold.c): a
 * command is to have none of any kind. all: nor the others, which exec would have taken. */
static int drop_caps(bool all)
{
	struct {
		uint32_t version;
		int32_t pid;
	} head = {.version = KERNEL_CAPABILITY_VERSION_3};
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].inheritable = data[1].inheritable = 0;
	if (all)
		memset(data, 0, sizeof(data));
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* Returns only on failure: the stage, and the errno in *code. */
static enum stage try_exec(const char *path, const struct spawn *s, int *code)
{
	struct stat st;

	if (access(path, F_OK) < 0) {
		*code = errno;
		return errno == EACCES ? STAGE_EXEC : STAGE_MISSING;
	}
	execve(path, s->argv, s->env);
	*code = errno;
	if (*code == EACCES && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		*code = EISDIR;
	return *code == ENOENT ? STAGE_INTERP : STAGE_EXEC;
}

/* As execvp: the first program of that name which may be run; if there are only others, the last
 * refusal is the answer. */
static enum stage search_exec(const struct spawn *s, int *code)
{
	enum stage stage = STAGE_MISSING;
	const char *dir = "/usr/local/bin:/usr/bin:/bin", *end;
	char path[BOX_PATH_MAX];

	for (char *const *env = s->env; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0) {
			dir = *env + 5;
			break;
		}
	*code = ENOENT;
	for (;; dir = end + 1) {
		int n, one;
		enum stage at;

		end = strchrnul(dir, ':');
		n = snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - dir), dir,
			     end > dir ? "/" : "", s->argv[0]);
		if (n < (int)sizeof(path)) {
			at = try_exec(path, s, &one);
			if (at == STAGE_INTERP ||
			    (at == STAGE_EXEC && one != EACCES && one != EISDIR)) {
				*code = one;
				return at;
			}
			if (at == STAGE_EXEC) {
				*code = one;
				stage = at;
			}
		}
		if (!*end)
			return stage;
	}
}

/* EAGAIN is what the kernel says at a limit of processes, here and (RLIMIT_NPROC) at exec. */
static int explain_fork(const struct init *in, int code, struct err *e)
{
	if (code == EAGAIN && in->pids_limit > 0)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "the box is at its limit of %llu processes (--pids)",
			       (unsigned long long)in->pids_limit);
	if (code == EAGAIN)
		return err_set(e, ERR_LIMIT, EAGAIN, "the host has no room for another process");
	return err_errno(e, code, "start a process");
}

static int explain_exec(const struct init *in, const struct spawn *s, int code, struct err *e)
{
	const char *name = s->path ? s->path : s->argv[0];

	switch (code) {
	case EACCES:
	case EPERM:
		return err_set(e, ERR_DENIED, code,
			       "'%s' may not be executed (its mode, or its directory's)", name);
	case EISDIR:
		return err_set(e, ERR_DENIED, EISDIR, "'%s' is a directory", name);
	case ENOEXEC:
		return err_set(e, ERR_INVALID, code,
			       "'%s' has a format that cannot be run: built for another machine, "
			       "damaged, or a "
			       "script without #! in its first line",
			       name);
	case ELIBBAD:
		return err_set(e, ERR_INVALID, code, "the interpreter of '%s' cannot be run itself",
			       name);
	case EAGAIN:
		return explain_fork(in, code, e);
	case E2BIG:
		return err_set(e, ERR_LIMIT, code, "arguments and environment of '%s' are too long",
			       name);
	default:
		return err_errno(e, code, "run '%s'", name);
	}
}

static int explain_directory(const struct spawn *s, int code, struct err *e)
{
	switch (code) {
	case ENOENT:
		return err_set(e, ERR_NOT_FOUND, ENOTDIR,
			       "the working directory '%s' does not exist", s->cwd);
	case ENOTDIR:
		return err_set(e, ERR_INVALID, ENOTDIR,
			       "the working directory '%s' is not a directory", s->cwd);
	case ELOOP:
		return err_set(e, ERR_DENIED, ELOOP,
			       "the working directory '%s' leads through links of /proc (fd, cwd, "
			       "root), which are not followed, or through too many links: name the "
			       "directory itself",
			       s->cwd);
	default:
		return err_errno(e, code, "enter the working directory '%s'", s->cwd);
	}
}

static int explain(const struct init *in, const struct spawn *s, enum stage stage, int code,
		   struct err *e)
{
	const char *name = s->path ? s->path : s->argv[0];

	switch (stage) {
	case STAGE_GROUP:
		return err_errno(e, code, "enter the command's cgroup");
	case STAGE_TTY:
		return err_errno(e, code, "take the terminal");
	case STAGE_IDS:
		return err_set(e, ERR_DENIED, code,
			       "cannot become user %u, group %u: not among the ids of this box",
			       (unsigned)s->user->uid, (unsigned)s->user->gid);
	case STAGE_CWD:
		return explain_directory(s, code, e);
	case STAGE_MISSING:
		if (code == ENOENT && !s->path && !strchr(name, '/'))
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no program '%s' in PATH", name);
		if (code == ENOENT)
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no program '%s'", name);
		return err_errno(e, code, "run '%s'", name);
	case STAGE_INTERP:
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "'%s' is there, but not the interpreter or loader that it names",
			       name);
	case STAGE_EXEC:
		return explain_exec(in, s, code, e);
	case STAGE_SETUP:
		break;
	}
	return err_errno(e, code, "prepare a process");
}

/* A session of its own; behind an engine only with a terminal. gVisor sends SIGHUP to a group in
 * which one ends while another is stopped, unless somebody's parent is in another group of the same
 * session; Linux does so only when the last such parent goes. Commands are stopped to be ended
 * (tree_walk.c), shells to end a line, and neither may die of that. */
static int begin_group(const struct init *in, int tty)
{
	return in->engine && tty < 0 ? setpgid(0, 0) : setsid();
}

/* In the child. Returns what could not be done, and the errno in *code; where all could, it does
 * not return. */
static enum stage become(const struct init *in, const struct spawn *s, bool enter, int *report_fd,
			 int *code)
{
	const struct user *u = s->user;
	int r = init_tree_join(s->tree, enter), cwd;
	sigset_t none;

	*code = -r;
	if (r < 0)
		return STAGE_GROUP;
	raise_oom_score(s->oom_score_adj);
	if (begin_group(in, s->tty) < 0)
		r = -errno;
	if (r == 0 && s->tty >= 0 && ioctl(s->tty, TIOCSCTTY, 0) < 0) {
		*code = errno;
		return STAGE_TTY;
	}
	if (r == 0)
		r = set_descriptors(s, report_fd);
	/* A kernel without it (an old gVisor) gives orphans to init, and the walk may miss them. */
	if (r == 0 && s->subreaper && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 && errno != EINVAL)
		r = -errno;
	if (r == 0)
		r = drop_caps(false);
	*code = -r;
	if (r < 0)
		return STAGE_SETUP;
	/* A pipe belongs to init, which made it; a script that writes to /dev/stderr opens it anew,
	 * and that is for its owner only. Where it cannot be given away, only that fails. */
	for (int fd = s->in == 0; fd <= 2 && s->tty < 0 && !in->single && !s->own_pipes; fd++)
		if (fchown(fd, u->uid, u->gid) < 0)
			continue;
	/* The raw calls: libc's would reach for other threads, and there are none. A change of ids
	 * makes the process as dumpable as the kernel's default, which the host may have
	 * changed. */
	if (!in->single &&
	    (syscall(SYS_setgroups, u->group_count, u->groups) < 0 ||
	     syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
	     syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)) {
		*code = errno;
		return STAGE_IDS;
	}
	/* As the user, and through no link that stands for an open descriptor or a process's
	 * place. */
	cwd = guest_open_at(AT_FDCWD, s->cwd, O_PATH | O_DIRECTORY, FD_NO_MAGICLINKS);
	if (cwd < 0 || fchdir(cwd) < 0) {
		*code = cwd < 0 ? -cwd : errno;
		return STAGE_CWD;
	}
	fd_close(&cwd);
	signal(SIGPIPE, SIG_DFL); /* the one disposition init changed for itself */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (s->path || strchr(s->argv[0], '/'))
		return try_exec(s->path ? s->path : s->argv[0], s, code);
	*code = ENOENT;
	return s->argv[0][0] ? search_exec(s, code) : STAGE_MISSING;
}

/* Returns 0 in the child (with *ret_enter: it has yet to enter its group), the pid, or -errno. */
static pid_t fork_into(int group_fd, bool *ret_enter)
{
	struct kernel_clone_args args = {
		.flags = KERNEL_CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)group_fd,
	};
	pid_t pid = group_fd >= 0 ? sys_clone3(&args, sizeof(args)) : -ENOSYS;

	*ret_enter = false;
	if (pid >= 0 || pid == -EAGAIN || pid == -ENOMEM)
		return pid;
	*ret_enter = group_fd >= 0;
	pid = fork();
	return pid < 0 ? -errno : pid;
}

static void close_report(struct init_proc *p)
{
	ev_io_remove(p->in->ev, &p->report);
	fd_close(&p->report.fd);
	ev_timer_stop(p->in->ev, &p->nudge);
}

/* Says whether it started, if that is known. False if it is not, or the process is gone: then the
 * owner may be, too. */
static bool read_report(struct init_proc *p)
{
	bool gone = false;
	struct err e = {0};
	ssize_t n = read(p->report.fd, &e, sizeof(e));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	close_report(p);
	if (n != (ssize_t)sizeof(e)) {
		p->gone = &gone;
		p->on_started(p, NULL);
		if (!gone)
			p->gone = NULL;
		return !gone;
	}
	e.msg[sizeof(e.msg) - 1] = '\0';
	init_proc_signal(p, SIGKILL);
	init_proc_drop(p);
	p->on_started(p, &e);
	return false;
}

static void on_report(struct ev_io *io, uint32_t events)
{
	read_report(container(io, struct init_proc, report));
}

static void on_nudge(struct ev_timer *t)
{
	struct init_proc *p = container(t, struct init_proc, nudge);
	struct ev *ev = p->in->ev;
	struct err e = {0};

	if (ev_now(ev) < p->give_up_ms) {
		init_proc_signal(p, SIGCONT);
		ev_timer_set(ev, t, NUDGE_MS);
		return;
	}
	close_report(p);
	init_proc_signal(p, SIGKILL);
	init_proc_drop(p);
	err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "the program did not start within %d s",
		START_MS_MAX / 1000);
	p->on_started(p, &e);
}

void init_proc_ended(struct init_proc *p, int wait_status)
{
	p->pid = 0;
	if (p->report.fd < 0 || read_report(p))
		p->on_exit(p, wait_status);
}

void init_proc_signal(const struct init_proc *p, int sig)
{
	if (p->pid > 0)
		kill(p->pid, sig);
}

void init_proc_drop(struct init_proc *p)
{
	if (!p->in)
		return;
	if (p->gone)
		*p->gone = true;
	p->gone = NULL;
	close_report(p);
	reaper_forget(p->in, p);
	p->pid = 0;
}

int init_proc_start(struct init_proc *p, struct init *in, const struct spawn *s, struct err *e)
{
	int fds[2], r, code;
	enum stage stage;
	bool enter;
	pid_t pid;

	ASSERT((s->in == 0 || s->in > 2) && s->out > 2 && s->err > 2);
	p->in = in;
	p->pid = 0;
	p->nudge.on_timer = on_nudge;
	p->report = (struct ev_io){.on_event = on_report, .fd = -1};
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno(e, errno, "start a process");
	p->report.fd = fds[0];
	r = ev_io_add(in->ev, &p->report, EPOLLIN);
	pid = r < 0 ? r : fork_into(s->tree->fd[TREE_V2], &enter);
	if (pid == 0) {
		stage = become(in, s, enter, &fds[1], &code);
		explain(in, s, stage, code, e);
		/* If even this fails init sees a clean start and exit status 127. */
		fd_write_full(fds[1], e, sizeof(*e));
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0) {
		close_report(p);
		return r < 0 ? err_errno(e, -r, "watch a process") : explain_fork(in, -pid, e);
	}
	p->pid = pid;
	p->give_up_ms = ev_now(in->ev) + START_MS_MAX;
	ev_timer_set(in->ev, &p->nudge, NUDGE_MS);
	reaper_watch(in, p);
	return 0;
}

/* All copies are in one group, beside those of commands and with what bounds them. It stays. */
static int join_copies(struct init *in)
{
	struct init_tree all;
	int r = init_tree_init(&all, &in->groups, COPIES_ID);

	return r < 0 ? r : init_tree_join(&all, true);
}

/* In the copy. */
static int become_copy(struct init *in, const struct user *u, int out, int report, struct err *e)
{
	uid_t uid = in->single ? geteuid() : u->uid;
	sigset_t none;
	int r = 0;

	/* Back from the user's, for the group and for this process's own file of /proc. */
	if (!in->single)
		fs_ids_leave();
	raise_oom_score(COPY_OOM_SCORE);
	r = join_copies(in);
	if (r < 0)
		return err_errno(e, -r, "enter the cgroup of the box's commands");
	sys_secret_forget();
	if (begin_group(in, -1) < 0 || dup2(out, 1) < 0 || dup2(report, 2) < 0)
		r = -errno;
	if (r == 0)
		r = guest_close_from(3);
	/* The groups are the user's already: whoever forks works as the user. */
	if (r == 0 && !in->single &&
	    (syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
	     syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0))
		r = -errno;
	if (r == 0)
		r = drop_caps(in->strict || uid != 0);
	if (r == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
		r = -errno;
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return r < 0 ? err_errno(e, -r, "prepare a process as user '%s'", u->name) : 0;
}

pid_t init_proc_fork(struct init_proc *p, struct init *in, const struct user *u, int out,
		     int report, struct err *e)
{
	bool enter;
	pid_t pid = fork_into(-1, &enter);

	*e = (struct err){0};
	if (pid == 0) {
		/* The pipe may be one of those that close. */
		ASSERT(out > 2 && report > 2);
		(void)become_copy(in, u, out, report, e);
		return 0;
	}
	p->in = in;
	p->pid = 0;
	p->report.fd = -1;
	if (pid < 0)
		return explain_fork(in, -pid, e);
	p->pid = pid;
	reaper_watch(in, p);
	return pid;
}
