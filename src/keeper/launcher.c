/* The launcher; see launcher.h. */
#include "keeper/launcher.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/str.h"
#include "filter/filter.h"
#include "keeper/children.h"
#include "store/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SOCK_FD = 3 };

struct launcher {
	struct launcher_config c;
	struct cgroup_helper group; /* the door's */
	bool has_group;
	const char *env[CHILD_ENV_MAX + 1];
	pid_t pid;     /* the door, 0 without */
	int pidfd;     /* owned */
	int child_fd;  /* owned: readable when a child has ended */
	int keeper_fd; /* owned: its pidfd */
	uint32_t number;
	bool had_door;
};

/* ---- the way between them ---- */

int launcher_send(int fd, const struct launcher_msg *n)
{
	ssize_t sent = send(fd, n, sizeof(*n), MSG_NOSIGNAL | MSG_DONTWAIT);

	return sent < 0 ? -errno : 0;
}

/* Files that count something may be missing; they come after the link, in the meter's order. */
static int send_gift(int fd, struct launcher_msg *n, const struct launcher_gift *g)
{
	const int all[] = {g->link, g->meter.mem_fd, g->meter.tcp_fd, g->meter.time_fd};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(all))];
	} control = {0};
	struct iovec one = {.iov_base = n, .iov_len = sizeof(*n)};
	struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control};
	struct cmsghdr *c = &control.head;
	int fds[sizeof(all) / sizeof(all[0])];
	size_t count = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		n->has[i] = all[i] >= 0;
		if (all[i] >= 0)
			fds[count++] = all[i];
	}
	m.msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof(int));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void launcher_gift_done(struct launcher_gift *g)
{
	fd_close(&g->link);
	cgroup_meter_done(&g->meter);
}

/* Gives the descriptors that came to their places, and closes what has none. */
static void unpack_gift(const struct launcher_msg *n, const int *fds, size_t count,
			struct launcher_gift *g)
{
	int *const places[] = {&g->link, &g->meter.mem_fd, &g->meter.tcp_fd, &g->meter.time_fd};
	size_t at = 0;

	for (size_t i = 0; i < LAUNCHER_FDS && at < count; i++)
		if (n->has[i])
			*places[i] = fds[at++];
	for (; at < count; at++)
		close(fds[at]);
}

int launcher_receive(int fd, struct launcher_msg *ret, struct launcher_gift *ret_gift)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(LAUNCHER_FDS * sizeof(int))];
	} control = {0};
	struct iovec one = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fds[LAUNCHER_FDS];
	size_t count = 0;
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	*ret_gift = (struct launcher_gift){-1, CGROUP_METER_NONE};
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len <= CMSG_LEN(sizeof(fds))) {
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
	}
	unpack_gift(ret, fds, count, ret_gift);
	if (n != sizeof(*ret)) {
		launcher_gift_done(ret_gift);
		return n == 0 ? -EPIPE : -EBADMSG;
	}
	ret->why[sizeof(ret->why) - 1] = 0;
	return 1;
}

/* ---- the door ---- */

/* 0 to 2 are nothing already. The last descriptor says why there is no door, if there is none. */
static _Noreturn void become_door(const struct launcher *u, int config_fd, int link_fd,
				  int status_fd)
{
	const char *argv[] = {"cove-door", "run", NULL};
	enum { HIGH = 16, STATUS_FD = 5 };
	int config = fcntl(config_fd, F_DUPFD_CLOEXEC, HIGH);
	int link = fcntl(link_fd, F_DUPFD_CLOEXEC, HIGH);
	int status = fcntl(status_fd, F_DUPFD_CLOEXEC, HIGH), code;
	int r = u->has_group ? cgroup_helper_join(&u->group) : 0;

	if (r < 0)
		errno = -r;
	if (r == 0 && config >= 0 && link >= 0 && status >= 0 &&
	    dup2(config, DOOR_CONFIG_FD) >= 0 && dup2(link, DOOR_LINK_FD) >= 0 &&
	    dup3(status, STATUS_FD, O_CLOEXEC) >= 0) {
		status = STATUS_FD;
		sys_close_range(STATUS_FD + 1, ~0u, 0);
		child_reset_signals(UINT64_MAX);
		execve(u->c.door_path, (char *const *)(uintptr_t)argv,
		       (char *const *)(uintptr_t)u->env);
	}
	code = errno;
	if (fd_write_full(status, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

static int explain_exec(const char *path, int code, struct err *e)
{
	if (code == ENOENT || code == EACCES)
		return err_set(e, ERR_UNSUPPORTED, code,
			       "the program cove-door is missing at '%.120s': install Cove again",
			       path);
	return err_errno(e, code, "start '%.120s'", path);
}

/* One for all doors of the box, made for the first. */
static void make_group(struct launcher *u)
{
	if (u->has_group || !u->c.box_group)
		return;
	cgroup_helper_make(u->c.box_group, CGROUP_DOOR, &u->c.limits, &u->group);
	u->has_group = true;
}

static int start_door(struct launcher *u, uint64_t bytes_used, int *ret_link, struct err *e)
{
	autoclose int config_fd = -1, ours = -1, theirs = -1, status = -1, status_write = -1;
	struct door_config config = *u->c.door;
	int pair[2], code = 0, r;
	pid_t pid;

	config.bytes_used = bytes_used;
	r = door_config_write(&config, &config_fd, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "make a socket for the door");
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make a pipe for the door");
	status = pair[0];
	status_write = pair[1];
	make_group(u);
	pid = u->has_group ? cgroup_helper_fork(&u->group) : fork();
	if (pid < 0)
		return err_errno(e, u->has_group ? -pid : errno, "start the door");
	if (pid == 0)
		become_door(u, config_fd, theirs, status_write);
	fd_close(&status_write);
	if (fd_read_full(status, &code, sizeof(code)) == sizeof(code)) {
		waitpid(pid, NULL, 0);
		return explain_exec(u->c.door_path, code, e);
	}
	u->pid = pid;
	u->pidfd = sys_pidfd_open(pid);
	*ret_link = take_fd(ours);
	return 0;
}

/* It has ended, or has to: how it did goes to the keeper. */
static void reap_door(struct launcher *u, unsigned grace_ms)
{
	struct launcher_msg n = {.type = LAUNCHER_ENDED, .number = u->number};
	struct pollfd p = {.fd = u->pidfd, .events = POLLIN};

	if (u->pid == 0)
		return;
	if (grace_ms > 0 && u->pidfd >= 0)
		(void)poll(&p, 1, (int)grace_ms);
	kill(u->pid, SIGKILL); /* a zombie does not mind */
	while (waitpid(u->pid, &n.status, 0) < 0 && errno == EINTR)
		;
	u->pid = 0;
	fd_close(&u->pidfd);
	launcher_send(SOCK_FD, &n);
}

static void answer_start(struct launcher *u, const struct launcher_msg *asked)
{
	struct launcher_msg n = {.type = LAUNCHER_STARTED, .number = asked->number};
	autoclose int link = -1;
	struct launcher_gift gift;
	struct err e = {0};
	int r;

	reap_door(u, LAUNCHER_GRACE_MS);
	u->had_door = true;
	u->number = asked->number;
	r = start_door(u, asked->bytes_used, &link, &e);
	if (r == 0) {
		/* A keeper that takes no message is gone, and so is the link then. */
		gift = (struct launcher_gift){link,
					      u->has_group ? u->group.meter : CGROUP_METER_NONE};
		(void)send_gift(SOCK_FD, &n, &gift);
		return;
	}
	n.type = LAUNCHER_FAILED;
	n.status = -r;
	str_copy(n.why, sizeof(n.why), e.msg);
	launcher_send(SOCK_FD, &n);
}

/* ---- what the door leaves behind ---- */

/* The door's second process ends by itself once the first is gone. What then still runs is what a
 * command that provides a secret left there: it was the box's, and ends with it. One that cannot be
 * killed (another user's) is left, and its group is for a sweep. */
static void end_groups(struct launcher *u, bool keeper_ends)
{
	struct pollfd keeper = {.fd = u->keeper_fd, .events = POLLIN};

	if (!children_await(u->child_fd, false))
		(void)children_await(u->child_fd, true);
	if (!u->c.box_group)
		return;
	if (u->has_group)
		cgroup_helper_remove(&u->group);
	/* Its link is closed before it is out of its group, which is the last one's to remove. */
	if (keeper_ends)
		(void)poll(&keeper, 1, LAUNCHER_GRACE_MS);
	cgroup_helper_leave(&u->c.own_group);
}

static _Noreturn void serve(struct launcher *u)
{
	int r = 0;

	for (;;) {
		struct pollfd p[] = {{.fd = SOCK_FD, .events = POLLIN},
				     {.fd = u->pidfd, .events = POLLIN},
				     {.fd = u->child_fd, .events = POLLIN}};
		struct launcher_gift none;
		struct launcher_msg n;

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			break;
		if (u->pid && p[1].revents)
			reap_door(u, 0);
		if (p[2].revents)
			/* Not the door, whose status is reap_door's: the second process of an
			 * earlier one, and what a command that provides a secret left running. */
			children_reap(u->child_fd, u->pid);
		r = launcher_receive(SOCK_FD, &n, &none);
		launcher_gift_done(&none);
		if (r < 0 || (r > 0 && n.type == LAUNCHER_END))
			break;
		if (r > 0 && n.type == LAUNCHER_START)
			answer_start(u, &n);
		else if (r > 0 && n.type == LAUNCHER_KILL)
			reap_door(u, 0);
	}
	reap_door(u, LAUNCHER_GRACE_MS);
	if (u->c.door->ca)
		(u->had_door ? net_ca_drop : net_ca_return)(u->c.door->home, u->c.door->ca);
	end_groups(u, r < 0);
	_exit(0);
}

static _Noreturn void be_launcher(int fd, pid_t keeper, const struct launcher_config *c)
{
	struct launcher u = {.c = *c, .pidfd = -1};

	if (fd != SOCK_FD && dup3(fd, SOCK_FD, O_CLOEXEC) < 0)
		_exit(1);
	if (cgroup_helper_close_others(&u.c.own_group, SOCK_FD + 1) < 0)
		_exit(1);
	u.keeper_fd = sys_pidfd_open(keeper);
	u.child_fd = children_watch();
	if (u.child_fd < 0)
		_exit(1);
	prctl(PR_SET_NAME, "cove-launcher");
	if (!FILTER_IS_SANITIZED && prctl(PR_SET_DUMPABLE, 0) < 0)
		_exit(1);
	child_env(u.env, false);
	serve(&u);
}

int launcher_start(const struct launcher_config *c, int *ret_fd, struct err *e)
{
	autoclose int ours = -1, theirs = -1;
	pid_t keeper = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "make a socket for the launcher");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "start the launcher");
	if (pid == 0)
		be_launcher(theirs, keeper, c);
	*ret_fd = take_fd(ours);
	return 0;
}
