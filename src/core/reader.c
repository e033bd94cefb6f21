/*
 * A confined child that reads trees; see reader.h.
 *
 * There are two processes: ids_run_inside waits for the one that reads, so another waits for it,
 * while the caller reads the pipe. Both end when the caller does.
 */
#include "core/reader.h"

#include "base/caps.h"
#include "base/child.h"
#include "base/fd.h"
#include "filter/filter.h"
#include "filter/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { FRAME_ERROR = 0, DIRS_MAX = 1024, READ = LANDLOCK_READ_FILE | LANDLOCK_READ_DIR };

/* Of all the box's ids: to read their files; who makes a layer gives files to them as well. */
#define READ_CAPS CAP_BIT(CAP_DAC_READ_SEARCH)
#define WRITE_CAPS                                                                          \
	(READ_CAPS | CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | \
	 CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_SETFCAP))

struct frame_head {
	uint32_t len;
	uint8_t type;
} __attribute__((packed));

/* What both processes work with. */
struct tree_reading {
	const struct tree_reader *r;
	const struct ids *ids;
	int pipe[2];
};

int reader_send(int out, uint8_t type, const void *head, size_t head_len, const void *data,
		size_t len)
{
	struct frame_head h = {.len = (uint32_t)(head_len + len), .type = type};
	int r;

	if (head_len + len > READER_FRAME_MAX)
		return -EMSGSIZE;
	r = fd_write_full(out, &h, sizeof(h));
	if (r == 0)
		r = fd_write_full(out, head, head_len);
	return r < 0 || len == 0 ? r : fd_write_full(out, data, len);
}

/* ---- the child ---- */

static int hold_files(const struct tree_reader *r)
{
	/* What a sanitizer's report is made from. */
	static const char *const reports[] = {"/proc", "/usr", "/lib", "/lib64"};
	autoclose int set = -1;
	int abi = landlock_abi(), rc = 0;

	if (abi < 1)
		return abi;
	set = landlock_new(abi, LANDLOCK_BIND_TCP | LANDLOCK_CONNECT_TCP,
			   LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS);
	if (set < 0)
		return set;
	for (size_t i = 0; i < r->dir_count && rc == 0; i++)
		if (r->dirs[i] >= 0)
			rc = landlock_allow(set, abi, r->dirs[i], READ);
	for (size_t i = 0; i < r->layer_count && rc == 0; i++)
		rc = landlock_allow_all(set, abi, r->layers[i]);
	for (size_t i = 0; FILTER_IS_SANITIZED && i < sizeof(reports) / sizeof(reports[0]); i++) {
		autoclose int fd = open(reports[i], O_PATH | O_CLOEXEC);

		if (fd >= 0 && rc == 0)
			rc = landlock_allow(set, abi, fd, READ);
	}
	return rc < 0 ? rc : landlock_enter(set);
}

/* Where the kernel has no Landlock, only its ids and capabilities say which files it may open, and
 * how: the filter does not see what openat2 asks for. See THREAT_MODEL.md. */
static int confine(const struct tree_reading *g, struct err *e)
{
	size_t count = g->r->dir_count, more = g->r->layer_count;
	int keep[DIRS_MAX + 2], r;

	if (count + more > DIRS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %d layers", DIRS_MAX);
	memcpy(keep, g->r->dirs, count * sizeof(*keep));
	if (more)
		memcpy(keep + count, g->r->layers, more * sizeof(*keep));
	keep[count + more] = g->pipe[1];
	keep[count + more + 1] = FILTER_IS_SANITIZED ? STDERR_FILENO : -1;
	r = child_close_but(0, keep, count + more + 2);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0) {
		r = caps_lock();
		if (r == -EPERM) /* who may not set them has nothing to gain */
			r = 0;
	}
	if (r == 0)
		r = caps_keep(more ? WRITE_CAPS : READ_CAPS, 0, NULL);
	if (r == 0)
		r = hold_files(g->r);
	if (r == 0)
		r = filter_load(more ? FILTER_WRITER : FILTER_READER, NULL);
	return r < 0 ? err_errno(e, -r, "confine the process that reads the box's files") : 0;
}

static int read_inside(void *arg)
{
	const struct tree_reading *g = arg;
	struct err e = {0};
	int r = confine(g, &e);

	if (r == 0)
		r = g->r->run(g->r->arg, g->pipe[1], &e);
	if (r == 0)
		return 0;
	if (e.kind == ERR_NONE)
		err_errno(&e, -r, "read the box's files");
	return reader_send(g->pipe[1], FRAME_ERROR, &e, sizeof(e), NULL, 0) < 0 ? 2 : 1;
}

/* Between the two. */
static int read_beside(void *arg)
{
	const struct tree_reading *g = arg;
	struct err e = {0};
	int r;

	close(g->pipe[0]);
	r = ids_run_inside(g->ids, read_inside, arg, &e);
	if (r >= 0)
		return r;
	return reader_send(g->pipe[1], FRAME_ERROR, &e, sizeof(e), NULL, 0) < 0 ? 2 : 1;
}

/* ---- the caller ---- */

static int take_error(const uint8_t *data, size_t len, struct err *e)
{
	struct err got;

	if (len != sizeof(got))
		return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
	memcpy(&got, data, sizeof(got));
	got.msg[sizeof(got.msg) - 1] = 0;
	if ((unsigned)got.kind >= ERR_KIND_COUNT || got.kind == ERR_NONE || got.code < 0)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
	if (e)
		*e = got;
	return got.code ? -got.code : -EIO;
}

/* 1: a frame was taken, 0: the end. */
static int next_frame(const struct tree_reader *r, int fd, uint8_t *bytes, struct err *e)
{
	struct frame_head h;
	ssize_t n = fd_read_full(fd, &h, sizeof(h));
	int rc;

	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(h) || h.len > READER_FRAME_MAX ||
	    fd_read_full(fd, bytes, h.len) != (ssize_t)h.len)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
	if (h.type == FRAME_ERROR)
		return take_error(bytes, h.len, e);
	rc = r->on_frame(r->arg, h.type, bytes, h.len, e);
	return rc < 0 ? rc : 1;
}

int reader_run(const struct ids *ids, const struct tree_reader *r, struct err *e)
{
	struct tree_reading g = {.r = r, .ids = ids};
	autofree uint8_t *bytes = malloc(READER_FRAME_MAX);
	struct child_forked child;
	int rc, status;

	if (!bytes)
		return err_errno(e, ENOMEM, "read the box's files");
	if (pipe2(g.pipe, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make a pipe");
	rc = child_fork(read_beside, &g, &child);
	fd_close(&g.pipe[1]);
	if (rc < 0) {
		fd_close(&g.pipe[0]);
		return err_errno(e, -rc, "start a helper process");
	}
	while ((rc = next_frame(r, g.pipe[0], bytes, e)) > 0)
		;
	fd_close(&g.pipe[0]); /* what it still writes fails, and it ends */
	status = child_forked_wait(&child);
	if (rc == 0 && status != 0)
		return err_set(e, ERR_INTERNAL, EIO,
			       "the helper process that reads the box's files ended early");
	return rc;
}
