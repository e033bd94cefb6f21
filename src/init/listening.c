/*
 * What listens in the box: FILE_LISTEN, one ENTRY for each socket that waits for connections.
 *
 * The kernel's own tables say which there are, and the descriptors of processes whose they are.
 * Only a process of the same user may look at those, so init looks as each in turn. All of it
 * belongs to the box: what stands in place of /proc there is not read, and the work is bounded.
 * Init's own sockets, which the box's network leads through, are left out.
 */
#include "init/listening.h"

#include "base/fd.h"
#include "base/str.h"
#include "init/files.h"
#include "init/fsids.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	TABLE_BYTES = 4 << 20, /* some 25,000 connections */
	SOCKETS_MAX = 1024,
	LINKS_MAX = 32768, /* descriptors that are looked at */
	STATE_LISTEN = 10,
	MAGIC_OF_PROC = 0x9fa0,
};

struct listening_op {
	struct file_op op;
	struct listening *found; /* owned */
	size_t count;
};

/* Groups of eight hex digits are words of this machine, in network order. */
static bool parse_address(const char *text, size_t digits, struct listening *ret)
{
	uint32_t words[4] = {0};

	if (digits != 8 && digits != 32)
		return false;
	for (size_t i = 0; i < digits; i++) {
		char c = text[i];
		unsigned v = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
			     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
			     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
						    : 16;

		if (v > 15)
			return false;
		words[i / 8] = words[i / 8] << 4 | v;
	}
	return inet_ntop(digits == 8 ? AF_INET : AF_INET6, words, ret->address,
			 sizeof(ret->address)) != NULL;
}

bool init_listening_parse(const char *line, struct listening *ret)
{
	unsigned port, state;
	unsigned long long inode;
	char address[40];

	*ret = (struct listening){0};
	if (sscanf(line,
		   " %*u: %39[0-9A-Fa-f]:%4x %*39[0-9A-Fa-f]:%*x %2x %*x:%*x %*x:%*x %*x %*u "
		   "%*u %llu",
		   address, &port, &state, &inode) != 4)
		return false;
	ret->port = (uint16_t)port;
	ret->inode = inode;
	return state == STATE_LISTEN && port > 0 && parse_address(address, strlen(address), ret);
}

/* A file of the real /proc, or nothing: the box's root may have put something else there. */
static int open_proc(const char *path, int flags)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
	struct statfs fs;

	if (fd < 0)
		return -errno;
	if (fstatfs(fd, &fs) < 0 || fs.f_type != MAGIC_OF_PROC)
		return -ENOENT;
	return take_fd(fd);
}

static int add_table(struct listening_op *l, const char *path)
{
	autoclose int fd = open_proc(path, 0);
	autofree char *text = NULL;
	char *line, *rest;
	ssize_t n;

	/* Without IPv6 there is no table of it. */
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	text = malloc(TABLE_BYTES + 1);
	if (!text)
		return -ENOMEM;
	n = fd_read_full(fd, text, TABLE_BYTES);
	if (n < 0 || n == TABLE_BYTES)
		return n < 0 ? (int)n : -E2BIG;
	text[n] = 0;
	for (line = text; *line; line = rest) {
		rest = line + strcspn(line, "\n");
		if (*rest)
			*rest++ = 0;
		if (l->count < SOCKETS_MAX && init_listening_parse(line, &l->found[l->count]))
			l->count++;
	}
	return 0;
}

/* The sockets among the descriptors of one process. Returns how many were looked at. */
static unsigned add_owner(struct listening_op *l, int proc_fd, pid_t pid, unsigned left)
{
	autoclose int fd = openat(proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	unsigned seen = 0;

	if (!dir)
		return 0;
	while (seen < left && (d = readdir(dir)) != NULL) {
		unsigned long long inode;
		char link[64];
		ssize_t n = readlinkat(fd, d->d_name, link, sizeof(link) - 1);

		seen++;
		link[n > 0 ? n : 0] = 0;
		if (sscanf(link, "socket:[%llu]", &inode) != 1)
			continue;
		for (size_t i = 0; i < l->count; i++)
			if (l->found[i].inode == inode && !l->found[i].pid)
				l->found[i].pid = pid;
	}
	take_fd(fd);
	closedir(dir);
	return seen;
}

static void name_program(struct listening *s)
{
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)s->pid);
	{
		autoclose int fd = open_proc(path, 0);

		n = fd < 0 ? 0 : read(fd, s->program, sizeof(s->program) - 1);
	}
	s->program[n > 0 ? n : 0] = 0;
	s->program[strcspn(s->program, "\n")] = 0;
}

static void add_owners(struct listening_op *l)
{
	autoclose int proc_fd = open_proc("/proc", O_DIRECTORY);
	DIR *dir = proc_fd < 0 ? NULL : fdopendir(proc_fd);
	unsigned left = LINKS_MAX;
	struct dirent *d;

	while (dir && left > 0 && (d = readdir(dir)) != NULL) {
		autoclose int fd = -1;
		struct stat st;
		uint64_t pid;

		if (!str_parse_u64(d->d_name, INT32_MAX, &pid))
			continue;
		fd = openat(proc_fd, d->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			continue;
		if (l->op.in->single) {
			left -= add_owner(l, fd, (pid_t)pid, left);
		} else if (fs_ids_enter_proc(st.st_uid, st.st_gid)) {
			left -= add_owner(l, fd, (pid_t)pid, left);
			fs_ids_leave();
		}
	}
	take_fd(proc_fd);
	if (dir)
		closedir(dir);
	for (size_t i = 0; i < l->count; i++)
		if (l->found[i].pid)
			name_program(&l->found[i]);
}

static int listening_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	/* As init itself: the next turn is none of the user's. */
	op->streaming = true;
	return FILE_AGAIN;
}

static int listening_stream(struct file_op *op, struct err *e)
{
	struct listening_op *l = container(op, struct listening_op, op);
	int r;

	if (!init_has_room(op->in))
		return FILE_WAIT;
	l->found = calloc(SOCKETS_MAX, sizeof(*l->found));
	if (!l->found)
		return err_set(e, ERR_FULL, ENOMEM, "no memory to look at sockets");
	r = add_table(l, "/proc/self/net/tcp");
	if (r == 0)
		r = add_table(l, "/proc/self/net/tcp6");
	if (r < 0)
		return err_set(e, err_kind_of(-r), -r, "what listens in the box cannot be read: %s",
			       strerror(-r));
	add_owners(l);
	for (size_t i = 0; i < l->count && r == 0; i++) {
		const struct listening *s = &l->found[i];
		struct wire_entry entry = {.type = 't',
					   .path = s->address,
					   .target = s->program[0] ? s->program : NULL,
					   .size = s->port,
					   .links = (uint64_t)s->pid};

		if (s->pid != getpid())
			r = wire_entry_encode(&op->in->link.out, op->id, 0, &entry);
	}
	wire_link_flush(&op->in->link);
	return r < 0 ? err_set(e, ERR_LIMIT, ENOBUFS, "too much listens in the box to be listed")
		     : FILE_DONE;
}

static void listening_stop(struct file_op *op)
{
	free(container(op, struct listening_op, op)->found);
}

const struct file_kind file_listen = {
	.size = sizeof(struct listening_op),
	.start = listening_start,
	.stop = listening_stop,
	.stream = listening_stream,
};
