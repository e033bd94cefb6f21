/* Descriptors over a socket; see pass.h. */
#include "base/pass.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(PASS_MAX * sizeof(int))];
};

/* An end that went with something unread in it leaves a reset. */
static int failure(int code)
{
	return code == ECONNRESET ? -EPIPE : -code;
}

int pass_send(int sock, const int *fds, size_t count)
{
	union control control = {0};
	struct iovec one = {.iov_base = "f", .iov_len = 1};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	ASSERT(count > 0 && count <= PASS_MAX);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : failure(errno);
}

int pass_receive(int sock, int *ret_fds, size_t count)
{
	union control control = {0};
	char byte;
	struct iovec one = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fds[PASS_MAX];
	size_t got;
	ssize_t n;

	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return failure(errno);
	c = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -EPIPE;
	got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), got * sizeof(int));
	if (got == count) {
		memcpy(ret_fds, fds, sizeof(int) * count);
		return 0;
	}
	for (size_t i = 0; i < got; i++)
		close(fds[i]);
	return -EPIPE;
}
