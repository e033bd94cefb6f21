/*
 * Starting a process; see spawn.h.
 *
 * How it works
 *
 * One clone3 makes the child, its pidfd, and puts it into its group at birth; where the kernel (or
 * a filter) has no clone3, fork and a write to cgroup.procs do the same. It is a real fork and not
 * a vfork: init is a few dozen pages, so the copy is cheap, and a child that the box's own
 * processes stop between setuid and exec cannot hold init for ever.
 *
 * The child reports by a CLOEXEC pipe: end of file means that exec succeeded, a struct report says
 * at which step it did not. init waits for one of the two. While it waits it sends SIGCONT now and
 * then, which undoes a `kill -STOP -1` of the user that hit the child, and it gives up after
 * SPAWN_WAIT_MS.
 *
 * Order in the child: what needs root first (group, oom score, terminal), then nothing of init's is
 * open any more, then the ids, then what is to be seen with the user's rights (directory, program).
 * The directory, the program and the interpreter that it names are looked up with 0-2 and the
 * report pipe open, so that no link of /proc leads through what init holds; and the directory,
 * which a process would keep, is found without such links at all. init is not dumpable and the copy
 * stays so until exec, so no process of the user can look into it.
 */
#include "init/spawn.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

/* From the kernel's headers, which musl does not bring. */
#define KERNEL_CLONE_PIDFD	    0x00001000ull
#define KERNEL_CAPABILITY_VERSION_3 0x20080522u

enum { SPAWN_WAIT_MS = 10000, SPAWN_NUDGE_MS = 50, REPORT_FD = 3 };

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

struct report {
	int32_t stage;
	int32_t code; /* errno */
};

static void report_and_exit(int fd, enum stage stage, int code)
{
	struct report r = {.stage = (int32_t)stage, .code = code};

	/* Nobody is left to tell if even this fails; init then sees a clean start and exit 127. */
	fd_write_full(fd, &r, sizeof(r));
	_exit(127);
}

static int enter_group(int group_fd)
{
	autoclose int fd = openat(group_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, "0", 1);
}

/* Never lowered: a caller that made itself the first victim hands that on. Best effort by design:
 * an init that is not root may not write here, and the command has the same score as init then. */
static void raise_oom_score(int score)
{
	autoclose int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
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
	return sys_close_range(REPORT_FD + 1, ~0u, 0);
}

static int set_ids(const struct user *u)
{
	if (setgroups(u->group_count, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
	    setresuid(u->uid, u->uid, u->uid) < 0)
		return -errno;
	/* A change of ids sets the kernel's default, which the host may have changed. */
	return prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;
}

/* A pipe belongs to init, which made it; a script that writes to /dev/stderr opens it anew, and
 * that is for its owner only. Where it cannot be given away, only that does not work. */
static void give_stdio(const struct user *u)
{
	struct stat st;

	for (int fd = 0; fd <= 2; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fchown(fd, u->uid, u->gid) < 0)
			continue;
}

/* In a strict box init has its capabilities through the inheritable set (wall/native/hold.c): a
 * command is to have none of any kind. */
static int drop_inheritable(void)
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
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static const char *path_of(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/local/bin:/usr/bin:/bin";
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
	const char *dir = path_of(s->env), *end;
	char path[BOX_PATH_MAX];

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

static enum stage run_program(const struct spawn *s, int *code)
{
	if (s->path)
		return try_exec(s->path, s, code);
	if (!s->argv[0][0]) {
		*code = ENOENT;
		return STAGE_MISSING;
	}
	return strchr(s->argv[0], '/') ? try_exec(s->argv[0], s, code) : search_exec(s, code);
}

/* As the user, and through no link that stands for an open descriptor or a process's place. */
static int enter_directory(const char *path)
{
	autoclose int fd = fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, FD_NO_MAGICLINKS);

	if (fd < 0)
		return fd;
	return fchdir(fd) < 0 ? -errno : 0;
}

static void be_ordinary(void)
{
	static const unsigned long by_default[4]; /* the kernel's struct sigaction, all zero */
	sigset_t none;

	/* libc's own signals: a caller started by make hands them down ignored, and libc's
	 * sigaction refuses to touch them. */
	for (int sig = 32; sig <= 34; sig++)
		syscall(SYS_rt_sigaction, sig, by_default, NULL, sizeof(by_default[0]));
	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL); /* the one disposition init changed for itself */
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. Never returns. */
static void become(const struct spawn *s, bool enter, int report_fd)
{
	enum stage stage;
	int r, code;

	r = enter ? enter_group(s->tree->fd[TREE_V2]) : 0;
	if (r == 0)
		r = tree_join(s->tree);
	if (r < 0)
		report_and_exit(report_fd, STAGE_GROUP, -r);
	raise_oom_score(s->oom_score_adj);
	if (setsid() < 0)
		report_and_exit(report_fd, STAGE_SETUP, errno);
	if (s->tty >= 0 && ioctl(s->tty, TIOCSCTTY, 0) < 0)
		report_and_exit(report_fd, STAGE_TTY, errno);
	r = set_descriptors(s, &report_fd);
	if (r < 0)
		report_and_exit(report_fd, STAGE_SETUP, -r);
	if (s->subreaper && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		report_and_exit(report_fd, STAGE_SETUP, errno);
	r = drop_inheritable();
	if (r < 0)
		report_and_exit(report_fd, STAGE_SETUP, -r);
	if (!s->single && !s->own_pipes)
		give_stdio(s->user);
	r = s->single ? 0 : set_ids(s->user);
	if (r < 0)
		report_and_exit(report_fd, STAGE_IDS, -r);
	r = enter_directory(s->cwd);
	if (r < 0)
		report_and_exit(report_fd, STAGE_CWD, -r);
	be_ordinary();
	stage = run_program(s, &code);
	report_and_exit(report_fd, stage, code);
}

/* Forks. Returns 0 in the child (with *ret_enter: it has yet to enter its group), the pid with a
 * pidfd in the parent, or -errno. */
static pid_t fork_with_pidfd(const struct spawn *s, int *ret_pidfd, bool *ret_enter)
{
	int group_fd = s->tree->fd[TREE_V2];
	struct kernel_clone_args args = {
		.flags = KERNEL_CLONE_PIDFD | (group_fd >= 0 ? KERNEL_CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = group_fd >= 0 ? (uint64_t)group_fd : 0,
	};
	pid_t pid = sys_clone3(&args, sizeof(args));

	*ret_enter = false;
	if (pid >= 0 || pid == -EAGAIN || pid == -ENOMEM)
		return pid;
	*ret_enter = group_fd >= 0;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		return 0;
	*ret_pidfd = sys_pidfd_open((pid_t)pid);
	if (*ret_pidfd < 0) {
		int r = *ret_pidfd;

		kill((pid_t)pid, SIGKILL);
		waitpid((pid_t)pid, NULL, 0);
		return r;
	}
	return (pid_t)pid;
}

/* 0 once the program runs, 1 and a report if it does not, -ETIMEDOUT. */
static int wait_for_exec(int fd, int pidfd, struct report *ret)
{
	for (int waited = 0; waited < SPAWN_WAIT_MS; waited += SPAWN_NUDGE_MS) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, SPAWN_NUDGE_MS);

		if (n > 0)
			return fd_read_full(fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
		sys_pidfd_send_signal(pidfd, SIGCONT);
	}
	return -ETIMEDOUT;
}

/* EAGAIN is what the kernel says at a limit of processes, here and (RLIMIT_NPROC) at exec. */
static int explain_fork(const struct spawn *s, int code, struct err *e)
{
	if (code == EAGAIN && s->pids_limit > 0)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "the box is at its limit of %llu processes (--pids)",
			       (unsigned long long)s->pids_limit);
	if (code == EAGAIN)
		return err_set(e, ERR_LIMIT, EAGAIN, "the host has no room for another process");
	return err_errno(e, code, "start a process");
}

static int explain_exec(const struct spawn *s, int code, struct err *e)
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
		return explain_fork(s, code, e);
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

static int explain(const struct spawn *s, const struct report *r, struct err *e)
{
	const char *name = s->path ? s->path : s->argv[0];

	switch ((enum stage)r->stage) {
	case STAGE_GROUP:
		return err_errno(e, r->code, "enter the command's cgroup");
	case STAGE_TTY:
		return err_errno(e, r->code, "take the terminal");
	case STAGE_IDS:
		return err_set(e, ERR_DENIED, r->code,
			       "cannot become user %u, group %u: not among the ids of this box",
			       (unsigned)s->user->uid, (unsigned)s->user->gid);
	case STAGE_CWD:
		return explain_directory(s, r->code, e);
	case STAGE_MISSING:
		if (r->code == ENOENT && !s->path && !strchr(name, '/'))
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no program '%s' in PATH", name);
		if (r->code == ENOENT)
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no program '%s'", name);
		return err_errno(e, r->code, "run '%s'", name);
	case STAGE_INTERP:
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "'%s' is there, but not the interpreter or loader that it names",
			       name);
	case STAGE_EXEC:
		return explain_exec(s, r->code, e);
	case STAGE_SETUP:
		break;
	}
	return err_errno(e, r->code, "prepare a process");
}

int spawn_process(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
	struct report report = {0};
	int fds[2], r;
	bool enter;
	pid_t pid;

	ASSERT((s->in == 0 || s->in > 2) && s->out > 2 && s->err > 2);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(e, errno, "start a process");
	autoclose int read_fd = fds[0];
	autoclose int pidfd = -1;
	pid = fork_with_pidfd(s, &pidfd, &enter);
	if (pid == 0)
		become(s, enter, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return explain_fork(s, -pid, e);
	r = wait_for_exec(read_fd, pidfd, &report);
	if (r == 0) {
		*ret_pid = pid;
		*ret_pidfd = take_fd(pidfd);
		return 0;
	}
	kill(pid, SIGKILL);
	/* One that cannot even be killed now is left to the reaper of orphans. */
	waitpid(pid, NULL, __WALL | (r < 0 ? WNOHANG : 0));
	if (r < 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "'%s' did not start within %d s",
			       s->path ? s->path : s->argv[0], SPAWN_WAIT_MS / 1000);
	return explain(s, &report, e);
}
