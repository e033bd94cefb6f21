/* Forwardings that live with their box; see forwards.h. A name is "ADDRESS,LOCAL,PORT". */
#include "core/forwards.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACE "ports"

/* What listens here, which is one thing however it is written: the part before the second comma. */
static size_t local_part(const char *name)
{
	const char *comma = strchr(name, ',');

	comma = comma ? strchr(comma + 1, ',') : NULL;
	return comma ? (size_t)(comma - name) + 1 : strlen(name);
}

static bool parse_name(const char *name, struct cove_forward_info *ret)
{
	struct in6_addr any;
	char text[FORWARD_NAME_MAX], *local, *port;
	uint64_t a, b;

	*ret = (struct cove_forward_info){0};
	if (!str_copy(text, sizeof(text), name) || !(local = strchr(text, ',')) ||
	    !(port = strchr(local + 1, ',')))
		return false;
	*local++ = *port++ = 0;
	if ((inet_pton(AF_INET, text, &any) != 1 && inet_pton(AF_INET6, text, &any) != 1) ||
	    !str_parse_u64(local, UINT16_MAX, &a) || !str_parse_u64(port, UINT16_MAX, &b) || !a ||
	    !b)
		return false;
	str_copy(ret->address, sizeof(ret->address), text);
	ret->local_port = (unsigned)a;
	ret->port = (unsigned)b;
	return true;
}

/* The process that holds the lock of a file, 0: none. A file that is gone has no holder. */
static pid_t holder_of(int dir_fd, const char *name)
{
	autoclose int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0)
		return 0;
	return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

/* -ENOENT: nothing was ever forwarded. */
static int open_place(struct cove *cove, const char *box, bool make, int *ret_fd, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, box, &box_fd, e), fd;

	if (r < 0)
		return r;
	if (make && mkdirat(box_fd, PLACE, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "write down the ports of box '%s'", box);
	fd = openat(box_fd, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		*ret_fd = -1;
		return 0;
	}
	if (fd < 0)
		return err_errno(e, errno, "look at the ports of box '%s'", box);
	*ret_fd = fd;
	return 0;
}

void forward_mark_listens(const struct forward_mark *m)
{
	int fd = m->dir_fd < 0 ? -1 : openat(m->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = local_part(m->name);
	struct dirent *d;

	if (!dir) {
		fd_close(&fd);
		return;
	}
	while ((d = readdir(dir)) != NULL)
		if (strncmp(d->d_name, m->name, n) == 0 && strcmp(d->d_name, m->name) != 0 &&
		    !holder_of(m->dir_fd, d->d_name))
			unlinkat(m->dir_fd, d->d_name, 0);
	closedir(dir);
}

int forward_mark_make(struct cove_box *box, const char *address, unsigned port, unsigned local_port,
		      bool wait, struct forward_mark *ret, struct err *e)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	struct forward_mark m = FORWARD_MARK_NONE;
	int locked, r = open_place(box->cove, box->name, true, &m.dir_fd, e);

	if (r == 0 && m.dir_fd < 0)
		r = err_set(e, ERR_CONFLICT, ENOENT, "box '%s' is being removed", box->name);
	if (r < 0)
		return r;
	snprintf(m.name, sizeof(m.name), "%.60s,%u,%u", address, local_port, port);
	m.fd = openat(m.dir_fd, m.name, flags | O_EXCL, 0600);
	m.is_new = m.fd >= 0;
	if (m.fd < 0)
		m.fd = openat(m.dir_fd, m.name, flags, 0600);
	if (m.fd < 0)
		r = err_errno(e, errno, "write down port %u of box '%s'", port, box->name);
	do
		locked = r == 0 ? fcntl(m.fd, wait ? F_SETLKW : F_SETLK, &lock) : 0;
	while (locked < 0 && errno == EINTR);
	if (locked < 0)
		r = err_set(e, ERR_CONFLICT, EBUSY,
			    "port %u of %.60s leads to port %u of box '%s' already", local_port,
			    address, port, box->name);
	if (r < 0)
		forward_mark_done(&m, false);
	else
		*ret = m;
	return r;
}

void forward_mark_done(struct forward_mark *m, bool forget)
{
	if (forget && m->is_new && m->fd >= 0)
		unlinkat(m->dir_fd, m->name, 0);
	fd_close(&m->fd);
	fd_close(&m->dir_fd);
}

static int by_local(const void *a, const void *b)
{
	const struct cove_forward_info *x = a, *y = b;

	return x->local_port != y->local_port
		       ? (x->local_port > y->local_port) - (x->local_port < y->local_port)
		       : strcmp(x->address, y->address);
}

static int list(struct cove *cove, const char *box, struct cove_forward_info **ret, struct err *e)
{
	autofree struct cove_forward_info *found = calloc(PORTS_MAX, sizeof(*found));
	int dir_fd = -1, r = open_place(cove, box, false, &dir_fd, e), count = 0;
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	struct dirent *d;

	if (r < 0)
		return r;
	if (!found || (dir_fd >= 0 && !dir)) {
		fd_close(&dir_fd);
		return err_errno(e, ENOMEM, "list the ports of box '%s'", box);
	}
	while (dir && count < (int)PORTS_MAX && (d = readdir(dir)) != NULL) {
		if (!parse_name(d->d_name, &found[count]))
			continue;
		found[count].pid = (unsigned)holder_of(dirfd(dir), d->d_name);
		found[count].is_live = found[count].pid > 0;
		count++;
	}
	if (dir)
		closedir(dir);
	qsort(found, (size_t)count, sizeof(*found), by_local);
	*ret = take_ptr(found);
	return count;
}

/* The lock names the process; it is asked again once a descriptor stands for that process, so that
 * no other with the same number is ended. */
static void end_holder(int dir_fd, const char *name)
{
	pid_t pid = holder_of(dir_fd, name);
	autoclose int pid_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (pid_fd >= 0 && holder_of(dir_fd, name) == pid)
		(void)syscall(SYS_pidfd_send_signal, pid_fd, SIGTERM, NULL, 0);
}

static int end(struct cove *cove, const char *box, unsigned local_port, struct err *e)
{
	autofree struct cove_forward_info *found = NULL;
	int count = list(cove, box, &found, e), ended = 0, r;
	autoclose int dir_fd = -1;
	char name[FORWARD_NAME_MAX];

	r = count > 0 ? open_place(cove, box, false, &dir_fd, e) : count;
	for (int i = 0; i < count && r == 0 && dir_fd >= 0; i++) {
		const struct cove_forward_info *f = &found[i];

		if (local_port && f->local_port != local_port)
			continue;
		snprintf(name, sizeof(name), "%s,%u,%u", f->address, f->local_port, f->port);
		end_holder(dir_fd, name);
		if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
			r = err_errno(e, errno, "forget port %u of box '%s'", f->port, box);
		ended++;
	}
	if (r < 0)
		return r;
	if (local_port && ended == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "port %u of this host leads to no box '%s' in the background; `cove "
			       "port %s` lists what does",
			       local_port, box, box);
	return ended;
}

int cove_forwards(struct cove *cove, const char *box, struct cove_forward_info **ret,
		  struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, box, list(cove, box, ret, &e), &e, err);
}

int cove_forward_end(struct cove *cove, const char *box, unsigned local_port,
		     struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, box, end(cove, box, local_port, &e), &e, err);
}
