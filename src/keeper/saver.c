/* The saver; see saver.h. */
#include "keeper/saver.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "filter/filter.h"
#include "keeper/children.h"
#include "wire/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SOCK_FD = 3, SAID_MAX = 4096, AFTER_FAILURE_MS = 1000 };

struct saver_msg {
	char name[CTL_NAME_MAX + 1];
};

struct saver {
	struct saver_config c;
	const char *env[CHILD_ENV_MAX + 1];
	pid_t pid;	   /* cove-save, 0 without */
	int pidfd;	   /* owned */
	int said;	   /* owned: what it says */
	int child_fd;	   /* owned: readable when a child has ended */
	int keeper_fd;	   /* owned: its pidfd */
	uint64_t again_ms; /* monotonic: none before */
};

/* ---- the way between them ---- */

static int send_whole(int fd, const void *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* 1, 0 if there is none now, -errno when the other side is gone. */
static int receive_whole(int fd, void *p, size_t n)
{
	ssize_t got = recv(fd, p, n, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return got == (ssize_t)n ? 1 : got == 0 ? -EPIPE : -EBADMSG;
}

int saver_ask(int fd, const char *name)
{
	struct saver_msg m = {0};

	str_copy(m.name, sizeof(m.name), name);
	return send_whole(fd, &m, sizeof(m));
}

int saver_receive(int fd, struct saver_answer *ret)
{
	int r = receive_whole(fd, ret, sizeof(*ret));

	if (r > 0) {
		ret->name[sizeof(ret->name) - 1] = 0;
		ret->error.msg[sizeof(ret->error.msg) - 1] = 0;
	}
	return r;
}

/* ---- what cove-save says ---- */

static void take_line(struct saver_answer *a, const char *key, const char *value)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{"frozen_us", &a->frozen_us}, {"total_us", &a->total_us}, {"left", &a->left}};
	uint64_t n = 0;

	if (strcmp(key, "name") == 0)
		str_copy(a->name, sizeof(a->name), value);
	else if (strcmp(key, "error") == 0)
		str_copy(a->error.msg, sizeof(a->error.msg), value);
	else if (strcmp(key, "error_kind") == 0 && str_parse_u64(value, ERR_KIND_COUNT - 1, &n))
		a->error.kind = (enum err_kind)n;
	else if (strcmp(key, "error_code") == 0 && str_parse_u64(value, 4095, &n))
		a->error.code = (int)n;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(key, numbers[i].key) == 0)
			(void)str_parse_u64(value, UINT64_MAX, numbers[i].to);
}

static void read_answer(char *text, size_t len, int status, struct saver_answer *ret)
{
	const char *key, *value;
	struct lines lines;

	lines_init(&lines, text, len);
	while (lines_next(&lines, &key, &value) > 0)
		take_line(ret, key, value);
	if (ret->error.kind != ERR_NONE || (status == 0 && ret->name[0]))
		return;
	err_set(&ret->error, ERR_INTERRUPTED, EINTR, "what makes snapshots ended (status %d)",
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* ---- cove-save ---- */

static _Noreturn void become_save(const struct saver *u, const char *name, int said)
{
	char keep[24];
	const char *argv[] = {"cove-save", u->c.home, u->c.run, u->c.box, name, keep, NULL};

	snprintf(keep, sizeof(keep), "%" PRIu64, u->c.keep);
	if (dup2(said, 1) >= 0 && sys_close_range(3, ~0u, 0) == 0) {
		child_reset_signals(UINT64_MAX);
		execve(u->c.program, (char *const *)(uintptr_t)argv,
		       (char *const *)(uintptr_t)u->env);
	}
	_exit(127);
}

static int start(struct saver *u, const char *name, struct err *e)
{
	autoclose int said = -1;
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno(e, errno, "make a pipe");
	u->said = pair[0];
	said = pair[1];
	if (fcntl(said, F_SETFL, 0) < 0)
		return err_errno(e, errno, "make a pipe");
	pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "start what makes snapshots");
	if (pid == 0)
		become_save(u, name, said);
	u->pid = pid;
	u->pidfd = sys_pidfd_open(pid);
	return u->pidfd < 0 ? err_errno(e, -u->pidfd, "watch what makes snapshots") : 0;
}

/* Also of one that could not be started. */
static void finish(struct saver *u, struct saver_answer *a)
{
	char text[SAID_MAX + 1];
	ssize_t n = 0;
	int status = -1;

	if (u->pid) {
		while (waitpid(u->pid, &status, 0) < 0 && errno == EINTR)
			;
		n = read(u->said, text, SAID_MAX);
		text[n > 0 ? n : 0] = 0;
		read_answer(text, n > 0 ? (size_t)n : 0, status, a);
	}
	u->pid = 0;
	fd_close(&u->pidfd);
	fd_close(&u->said);
	u->again_ms =
		clock_mono_ms() + (a->error.kind ? AFTER_FAILURE_MS : (uint64_t)CTL_SNAPSHOT_MS);
	(void)send_whole(SOCK_FD, a, sizeof(*a));
}

static void on_ask(struct saver *u, struct saver_msg *m)
{
	struct saver_answer a = {0};
	uint64_t now = clock_mono_ms();

	m->name[sizeof(m->name) - 1] = 0;
	if (u->pid)
		err_set(&a.error, ERR_CONFLICT, EBUSY, "a snapshot of this box is being made");
	else if (now < u->again_ms)
		err_set(&a.error, ERR_LIMIT, EAGAIN, "the next snapshot can be made in %u s",
			(unsigned)((u->again_ms - now + 999) / 1000));
	else if (!wire_ctl_is_name(m->name))
		err_set(&a.error, ERR_INVALID, EINVAL, "that is no name");
	if (a.error.kind) {
		(void)send_whole(SOCK_FD, &a, sizeof(a));
		return;
	}
	if (start(u, m->name, &a.error) == 0)
		return;
	if (u->pid)
		kill(u->pid, SIGKILL);
	finish(u, &a);
}

/* ---- the whole ---- */

static _Noreturn void serve(struct saver *u)
{
	struct pollfd keeper = {.fd = u->keeper_fd, .events = POLLIN};
	int r = 0;

	for (;;) {
		struct pollfd p[] = {{.fd = SOCK_FD, .events = POLLIN},
				     {.fd = u->pid ? u->pidfd : -1, .events = POLLIN},
				     {.fd = u->child_fd, .events = POLLIN}};
		struct saver_answer a = {0};
		struct saver_msg m;

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			break;
		if (u->pid && p[1].revents)
			finish(u, &a);
		if (p[2].revents)
			children_reap(u->child_fd, u->pid);
		r = receive_whole(SOCK_FD, &m, sizeof(m));
		if (r < 0)
			break;
		if (r > 0)
			on_ask(u, &m);
	}
	(void)children_await(u->child_fd, true);
	(void)poll(&keeper, 1, CHILDREN_GRACE_MS);
	cgroup_helper_leave(&u->c.own_group);
	_exit(0);
}

static _Noreturn void be_saver(int fd, pid_t keeper, const struct saver_config *c)
{
	struct saver u = {.c = *c, .pidfd = -1, .said = -1};

	if (fd != SOCK_FD && dup3(fd, SOCK_FD, O_CLOEXEC) < 0)
		_exit(1);
	if (cgroup_helper_close_others(&u.c.own_group, SOCK_FD + 1) < 0)
		_exit(1);
	u.keeper_fd = sys_pidfd_open(keeper);
	u.child_fd = children_watch();
	if (u.child_fd < 0)
		_exit(1);
	prctl(PR_SET_NAME, "cove-saver");
	if (!FILTER_IS_SANITIZED && prctl(PR_SET_DUMPABLE, 0) < 0)
		_exit(1);
	child_env(u.env, true);
	serve(&u);
}

int saver_start(const struct saver_config *c, int *ret_fd, struct err *e)
{
	autoclose int ours = -1, theirs = -1;
	pid_t keeper = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "make a socket for the saver");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "start the saver");
	if (pid == 0)
		be_saver(theirs, keeper, c);
	*ret_fd = take_fd(ours);
	return 0;
}
