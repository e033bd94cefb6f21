/*
 * Whose a connection is; see net_parts.h.
 *
 * The kernel is asked for exactly the client's socket (SOCK_DIAG, one request, one answer, which is
 * in the queue when the request returns), and says which v2 group it was made in. That group's
 * number is the inode of work/e<ID>. A number is never used for another group, so the last answer
 * can be remembered: most connections of one time come from one command.
 *
 * Where any of this is not to be had no command is named; that is no error.
 */
#include "base/fd.h"
#include "base/str.h"
#include "init/net_parts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* linux/sock_diag.h, inet_diag.h */
enum { BY_FAMILY = 20, REQUEST = 1, ATTR_CGROUP = 21, AGAIN_MAX = 8 };

struct diag_id {
	uint16_t sport, dport; /* network order */
	uint8_t src[16], dst[16];
	uint32_t device, cookie[2];
};

struct diag_request {
	struct {
		uint32_t len;
		uint16_t type, flags;
		uint32_t sequence, port;
	} head;
	uint8_t family, protocol, extensions, pad;
	uint32_t states;
	struct diag_id id;
};

/* The answer: head, then this, then attributes. */
struct diag_answer {
	uint8_t family, state, timer, retransmits;
	struct diag_id id;
	uint32_t expires, rqueue, wqueue, uid, inode;
};

struct attr {
	uint16_t len, type;
};

static void put_addr(const union net_addr *a, uint8_t *ret, uint16_t *ret_port)
{
	if (a->any.sa_family == AF_INET) {
		memcpy(ret, &a->v4.sin_addr, 4);
		*ret_port = a->v4.sin_port;
	} else {
		memcpy(ret, &a->v6.sin6_addr, 16);
		*ret_port = a->v6.sin6_port;
	}
}

/* The group in an answer, or 0. */
static uint64_t find_group(const uint8_t *p, size_t n)
{
	size_t at = sizeof(((struct diag_request *)0)->head) + sizeof(struct diag_answer);
	uint16_t type;
	struct attr a;
	uint64_t group;

	if (n < at)
		return 0;
	memcpy(&type, p + 4, sizeof(type));
	if (type != BY_FAMILY)
		return 0;
	while (at + sizeof(a) <= n) {
		memcpy(&a, p + at, sizeof(a));
		if (a.len < sizeof(a) || a.len > n - at)
			return 0;
		if (a.type == ATTR_CGROUP && a.len == sizeof(a) + sizeof(group)) {
			memcpy(&group, p + at + sizeof(a), sizeof(group));
			return group;
		}
		at += (a.len + 3u) & ~3u;
	}
	return 0;
}

/* Looks through work/ for the directory with that number. */
static uint64_t find_command(int work_fd, uint64_t group)
{
	autoclose int fd = openat(work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint8_t entries[4096] __attribute__((aligned(8)));
	uint64_t id;
	long n;

	if (fd < 0)
		return 0;
	while ((n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (long at = 0; at < n;) {
			const struct fd_dirent *d = (const void *)(entries + at);

			if (d->ino == group && d->name[0] == 'e' &&
			    str_parse_u64(d->name + 1, UINT32_MAX, &id))
				return id;
			at += d->reclen;
		}
	return 0;
}

uint64_t owner_find(struct owner *o, const union net_addr *from, const union net_addr *to)
{
	struct diag_request q = {
		.head = {.len = sizeof(q), .type = BY_FAMILY, .flags = REQUEST, .sequence = 1},
		.family = (uint8_t)from->any.sa_family,
		.protocol = IPPROTO_TCP,
		.states = ~0u,
		.id = {.cookie = {~0u, ~0u}},
	};
	uint8_t answer[1024] __attribute__((aligned(4)));
	uint64_t group;
	ssize_t n;

	if (o->diag_fd < 0 || o->work_fd < 0)
		return 0;
	/* What an earlier request may have left would be taken for this one's answer. */
	for (int i = 0; i < AGAIN_MAX; i++)
		if (recv(o->diag_fd, answer, sizeof(answer), MSG_DONTWAIT) < 0)
			break;
	put_addr(from, q.id.src, &q.id.sport);
	put_addr(to, q.id.dst, &q.id.dport);
	if (send(o->diag_fd, &q, sizeof(q), MSG_DONTWAIT) != sizeof(q))
		return 0;
	n = recv(o->diag_fd, answer, sizeof(answer), MSG_DONTWAIT);
	group = n > 0 ? find_group(answer, (size_t)n) : 0;
	if (group == 0)
		return 0;
	if (group != o->last_group) {
		o->last_group = group;
		o->last_id = find_command(o->work_fd, group);
	}
	return o->last_id;
}
