/*
 * The listening socket; see listener.h.
 *
 * A socket address holds 107 bytes and a state directory may lie deeper, so the name is bound
 * through the directory's descriptor in /proc/self/fd. Waiters watch the directory: the socket's
 * mode is set after listen(2), so that the last change they see means that connecting works.
 */
#include "keeper/listener.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SOCKET_NAME "keeper.sock"

enum { BACKLOG = 64 };

static int listen_below(int run_fd, const char *name, int *ret_fd)
{
	autoclose int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	autoclose int dir = -1;
	int r;

	if (sock < 0 || (mkdirat(run_fd, name, 0700) < 0 && errno != EEXIST))
		return -errno;
	dir = openat(run_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir);
	r = bind(sock, (struct sockaddr *)&addr, sizeof(addr));
	/* We hold the box's lock, so whoever made it is gone. */
	if (r < 0 && errno == EADDRINUSE && unlinkat(dir, SOCKET_NAME, 0) == 0)
		r = bind(sock, (struct sockaddr *)&addr, sizeof(addr));
	if (r < 0 || listen(sock, BACKLOG) < 0 || fchmodat(dir, SOCKET_NAME, 0600, 0) < 0)
		return -errno;
	*ret_fd = take_fd(sock);
	return 0;
}

/* True for the owner and for root. */
static bool is_allowed(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == geteuid() || cred.uid == 0);
}

/* Best effort: the connection is closed either way. */
static void refuse(int fd, const struct keeper *k)
{
	struct wire_error m = {.kind = ERR_LIMIT, .code = EAGAIN};
	char msg[200];
	struct buf out;

	snprintf(msg, sizeof(msg),
		 "box '%s' has %u clients already, the most it can have: wait for some of its "
		 "commands, or start them with -d",
		 k->name, k->client_count);
	m.msg = msg;
	buf_init(&out, 1024);
	if (wire_error_encode(&out, 0, 0, &m) == 0)
		send(fd, buf_data(&out), buf_len(&out), MSG_NOSIGNAL | MSG_DONTWAIT);
	buf_done(&out);
}

static void on_connection(struct ev_io *io, uint32_t events)
{
	struct keeper_listener *l = container(io, struct keeper_listener, io);
	struct keeper *k = l->k;
	autoclose int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0) {
		/* Waiting for a descriptor to come free instead of a wake-up for every turn. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			ev_io_remove(k->ev, io);
		return;
	}
	if (!is_allowed(fd))
		return;
	if (k->client_count >= KEEPER_CLIENTS_MAX) {
		refuse(fd, k);
		return;
	}
	keeper_add_client(k, take_fd(fd), false);
}

int keeper_listener_init(struct keeper_listener *l, struct keeper *k, int run_fd, const char *name,
			 struct err *e)
{
	int fd = -1, r = listen_below(run_fd, name, &fd);

	if (r < 0)
		return err_errno(e, -r, "make the socket of box '%s'", name);
	*l = (struct keeper_listener){
		.k = k,
		.io = {.on_event = on_connection, .fd = fd},
		.run_fd = run_fd,
		.name = name,
	};
	return 0;
}

int keeper_listener_open(struct keeper_listener *l)
{
	return l->io.added ? 0 : ev_io_add(l->k->ev, &l->io, EPOLLIN);
}

void keeper_listener_resume(struct keeper_listener *l)
{
	/* If it still cannot be watched the next client that leaves tries again. */
	if (l->k && l->io.fd >= 0)
		keeper_listener_open(l);
}

void keeper_listener_done(struct keeper_listener *l)
{
	char path[BOX_NAME_MAX + sizeof("/" SOCKET_NAME)];

	if (!l->k)
		return;
	ev_io_remove(l->k->ev, &l->io);
	fd_close(&l->io.fd);
	snprintf(path, sizeof(path), "%s/" SOCKET_NAME, l->name);
	unlinkat(l->run_fd, path, 0);
	unlinkat(l->run_fd, l->name, AT_REMOVEDIR);
	l->k = NULL;
}
