/*
 * Files into a box.
 *
 * The host's tree is read by host_walk.c; links are sent as links. Everything is one pipelined
 * request: frames are built in place in the connection's queue (a file is read straight into its
 * DATA frame) and written in batches; we stop only when the window is used up. An error that the
 * box reports is met there, or at the end.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/host_walk.h"
#include "core/transfer.h"
#include "store/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PUT_BATCH = 4 * WIRE_DATA_MAX };

static int send_batch(struct transfer *t, size_t least, struct err *e)
{
	return buf_len(core_out(t->conn)) > least ? core_conn_flush(t->conn, e) : 0;
}

static int send_entry(struct transfer *t, const struct wire_entry *m, struct err *e)
{
	if (wire_entry_encode(core_out(t->conn), t->call.q.id, 0, m) < 0)
		return err_errno(e, ENOBUFS, "queue a file");
	return send_batch(t, PUT_BATCH, e);
}

/* Waits for credit; or for OK when all was sent: 1. */
static int await(struct transfer *t, bool until_ok, struct err *e)
{
	struct wire_credit m;
	struct wire_frame f;
	int r = core_conn_flush(t->conn, e);

	while (r == 0) {
		r = transfer_next(t, &f, e);
		if (r < 0)
			return r;
		if (f.type == WIRE_OK && until_ok)
			return 1;
		if (f.type != WIRE_CREDIT || f.stream != WIRE_STDIN ||
		    wire_credit_decode(&f, &m) < 0 || wire_flow_credit(&t->flow, m.bytes) < 0)
			return core_unexpected(&t->call.q, &f, e);
		r = t->flow.left > 0 && !until_ok ? 1 : 0;
	}
	return r < 0 ? r : 0;
}

/* Where a file's bytes are: behind a descriptor, or (-1) in memory. */
struct put_source {
	int fd;
	const char *data;
	size_t len;
	const char *shown;
	bool waits; /* a read of it may wait: no file */
	bool sparse;
	off_t size, at, data_end; /* if it is; as in init/files_get.c */
};

/* -ECANCELED: the caller gave up while there was nothing to read. */
static ssize_t read_some(struct transfer *t, struct put_source *s, void *p, size_t n)
{
	struct pollfd wait = {.fd = s->fd, .events = POLLIN};

	while (s->waits && t->how.progress && poll(&wait, 1, TRANSFER_REPORT_MS) <= 0)
		if (transfer_report(t, NULL) < 0)
			return -ECANCELED;
	if (s->fd < 0) {
		n = n < s->len ? n : s->len;
		if (n > 0) {
			memcpy(p, s->data, n);
			s->data += n;
			s->len -= n;
		}
		return (ssize_t)n;
	}
	for (;;) {
		ssize_t got = read(s->fd, p, n);

		if (got >= 0)
			return got;
		if (errno == EAGAIN)
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return -errno;
	}
}

static int read_failed(const struct put_source *s, ssize_t n, struct err *e)
{
	return n == -ECANCELED ? transfer_given_up(e)
			       : err_errno(e, (int)-n, "read '%.150s'", s->shown);
}

/* Reads up to one frame's worth straight into the queue. Returns the bytes, 0 at the end. */
static ssize_t send_data(struct transfer *t, struct put_source *s, struct err *e)
{
	size_t want = t->flow.left < WIRE_DATA_MAX ? (size_t)t->flow.left : WIRE_DATA_MAX;
	struct buf *out = core_out(t->conn);
	uint8_t *space;
	ssize_t n;
	size_t at;

	if (s->sparse && (off_t)want > s->data_end - s->at)
		want = (size_t)(s->data_end - s->at);
	if (wire_encode_begin(out, &at) < 0 || !(space = buf_reserve(out, want)))
		return err_errno(e, ENOMEM, "queue a file's bytes");
	n = read_some(t, s, space, want);
	if (n <= 0) {
		/* Takes the begun header back: it is the last thing in the queue. */
		out->len = at;
		return n;
	}
	buf_commit(out, (size_t)n);
	if (wire_encode_end(out, at, WIRE_DATA, WIRE_STDIN, t->call.q.id) < 0)
		return err_errno(e, EMSGSIZE, "queue a file's bytes");
	t->flow.left -= (uint64_t)n;
	s->at += n;
	t->bytes += (uint64_t)n;
	return n;
}

/* Passes over a hole and finds where the next one begins. What is added to the file behind the size
 * that it had is read on. */
static int send_hole(struct transfer *t, struct put_source *s, struct err *e)
{
	off_t data = lseek(s->fd, s->at, SEEK_DATA), hole;
	struct wire_entry m = {.type = 'z', .path = ""};

	if (data < 0)
		data = errno == ENXIO && s->size > s->at ? s->size : s->at;
	hole = data < s->size ? lseek(s->fd, data, SEEK_HOLE) : -1;
	if (lseek(s->fd, data, SEEK_SET) < 0)
		return err_errno(e, errno, "read '%.150s'", s->shown);
	m.size = (uint64_t)(data - s->at);
	s->at = data;
	s->data_end = hole;
	s->sparse = hole > data;
	return m.size > 0 ? send_entry(t, &m, e) : 0;
}

static int send_content(struct transfer *t, struct put_source *s, struct err *e)
{
	ssize_t n = 1;
	int r = 0;

	while (n > 0) {
		if (t->flow.left == 0) {
			r = transfer_report(t, e);
			if (r == 0)
				r = await(t, false, e);
			if (r < 0)
				return r;
		}
		if (s->sparse && s->at >= s->data_end)
			r = send_hole(t, s, e);
		if (r < 0)
			return r;
		n = send_data(t, s, e);
		if (n < 0)
			return read_failed(s, n, e);
		r = send_batch(t, PUT_BATCH, e);
		if (r < 0)
			return r;
	}
	if (wire_encode(core_out(t->conn), WIRE_EOF, WIRE_STDIN, t->call.q.id, NULL, 0) < 0)
		return err_errno(e, ENOBUFS, "queue a file's end");
	t->files++;
	return 0;
}

static int finish(struct transfer *t, struct err *e)
{
	struct wire_entry end = {.type = 'E'};
	int r = send_entry(t, &end, e);

	if (r == 0)
		r = await(t, true, e);
	if (r >= 0)
		transfer_report(t, NULL); /* too late to give it up */
	return r < 0 ? r : 0;
}

static uint64_t mtime_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0
		       ? 0
		       : (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

/* One tree on its way. */
struct put_walk {
	struct transfer *t;
	struct host_walk walk;
};

static void on_denied(void *arg, uid_t owner, struct err *e)
{
	const struct put_walk *p = arg;

	core_hint_owner(p->t->box->cove, owner, e);
}

static int on_entry(void *arg, const struct host_entry *from, struct err *e)
{
	struct put_walk *p = arg;
	const struct stat *st = from->st;
	struct put_source source = {.fd = from->fd, .shown = p->walk.path, .size = st->st_size};
	struct wire_entry m = {
		.type = (uint64_t)from->type, .path = p->walk.path, .target = from->target};
	int r;

	if (from->type == 'h')
		return send_entry(p->t, &m, e);
	m.mode = from->type == 'l' ? 0777 : st->st_mode & 0777;
	m.size = from->type == 'l' ? 0 : (uint64_t)st->st_size;
	m.mtime_ns = mtime_ns(st);
	if (from->type != 'f')
		return send_entry(p->t, &m, e);
	source.sparse = p->walk.has_hard_links && st->st_blocks < st->st_size / 512;
	if (st->st_size > (off_t)PUT_BATCH)
		posix_fadvise(from->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	r = send_entry(p->t, &m, e);
	return r < 0 ? r : send_content(p->t, &source, e);
}

/* Where it goes: inside an existing directory, as with cp -r. */
int put_target(struct cove_box *box, const char *host_path, const char *box_path,
	       const struct cove_copy *how, bool makes_dir, char ret[BOX_PATH_MAX], struct err *e)
{
	char full[BOX_PATH_MAX], type = 0;
	size_t len = strlen(box_path);
	const char *base;
	bool is_dir;
	int r;

	if (!*box_path || len >= BOX_PATH_MAX || !str_copy(full, sizeof(full), host_path))
		return err_set(e, ERR_INVALID, EINVAL, "a path is empty or too long");
	for (size_t n = strlen(full); n > 1 && full[n - 1] == '/'; n--)
		full[n - 1] = 0;
	base = path_base(full);
	r = files_probe(box, box_path, how, &type, e);
	if (r < 0)
		return r;
	is_dir = r > 0 ? type == 'd' : makes_dir && box_path[len - 1] == '/';
	str_copy(ret, BOX_PATH_MAX, box_path);
	if (!is_dir || strcmp(base, ".") == 0 || strcmp(base, "..") == 0 || strcmp(base, "/") == 0)
		return 0;
	if (!path_join(ret, BOX_PATH_MAX, box_path, base))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "'%.150s' is too long a path",
			       box_path);
	return 0;
}

int put_open(struct cove_box *box, const char *host_path, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;
	int r;

	if (!host_path)
		return err_set(e, ERR_INVALID, EINVAL, "a path is missing");
	fd = open(host_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = err_errno(e, errno, "read '%.100s'", host_path);
		if (stat(host_path, &st) == 0)
			core_hint_owner(box->cove, st.st_uid, e);
		return r;
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(
			e, ERR_INVALID, EINVAL,
			"'%.150s' is neither a file nor a directory; give its bytes on stdin",
			host_path);
	*ret_fd = take_fd(fd);
	return 0;
}

static int put_fd_at(struct cove_box *box, int fd, const char *target, const struct cove_copy *how,
		     struct err *e)
{
	struct wire_file m = {.op = FILE_PUT, .path = target};
	struct transfer t;
	struct put_walk p = {.t = &t};
	int r = transfer_init(&t, how, e);

	m.user = t.how.user;
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	p.walk.on_entry = on_entry;
	p.walk.on_denied = on_denied;
	p.walk.arg = &p;
	p.walk.how = &t.how;
	/* Such a box knows holes, too. */
	p.walk.has_hard_links = t.conn->peer.features & WIRE_FEATURE_COPY;
	r = host_walk(&p.walk, fd, e);
	if (r == 0)
		r = finish(&t, e);
	return transfer_end(&t, r < 0 ? r : (int)p.walk.left_out);
}

int put_at(struct cove_box *box, const char *host_path, const char *target,
	   const struct cove_copy *how, struct err *e)
{
	autoclose int fd = -1;
	int r = put_open(box, host_path, &fd, e);

	return r < 0 ? r : put_fd_at(box, fd, target, how, e);
}

static int put(struct cove_box *box, const char *host_path, const char *box_path,
	       const struct cove_copy *how, struct err *e)
{
	autoclose int fd = -1;
	char target[BOX_PATH_MAX];
	int r = put_open(box, host_path, &fd, e);

	if (r == 0)
		r = put_target(box, host_path, box_path, how, false, target, e);
	return r < 0 ? r : put_fd_at(box, fd, target, how, e);
}

int cove_put(struct cove_box *box, const char *host_path, const char *box_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	struct err e = {0};
	int r = put(box, host_path, box_path, how, &e);

	return core_return(box->cove, box->name, r, &e, err);
}

static int put_one(struct cove_box *box, const char *box_path, unsigned mode, struct put_source *s,
		   const struct cove_copy *how, struct err *e)
{
	struct wire_file m = {.op = FILE_PUT, .path = box_path};
	struct wire_entry entry = {.type = 'f', .path = "", .mode = mode & 0777};
	struct transfer t;
	int r = transfer_init(&t, how, e);

	m.user = t.how.user;
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	r = send_entry(&t, &entry, e);
	if (r == 0)
		r = send_content(&t, s, e);
	if (r == 0)
		r = finish(&t, e);
	return transfer_end(&t, r);
}

/* ---- a tar stream into a directory ---- */

/* The reader refuses what leads out of the archive, and init what leads out of the directory. */
struct put_tar {
	struct transfer *t;
	char dir[BOX_PATH_MAX]; /* the last one that is known to be there */
	bool in_file;
};

static int put_tar_dir(struct put_tar *p, const char *path, unsigned mode, uint64_t mtime_ns,
		       struct err *e)
{
	struct wire_entry m = {.type = 'd', .path = path, .mode = mode, .mtime_ns = mtime_ns};

	str_copy(p->dir, sizeof(p->dir), path);
	return send_entry(p->t, &m, e);
}

/* Directories on the way that have no entry of their own, as `tar c a/b` writes it. */
static int put_tar_parents(struct put_tar *p, const char *path, struct err *e)
{
	char part[BOX_PATH_MAX];
	int r = 0;

	for (const char *at = strchr(path, '/'); at && r == 0; at = strchr(at + 1, '/')) {
		size_t n = (size_t)(at - path);

		memcpy(part, path, n);
		part[n] = 0;
		if (strncmp(p->dir, part, n) != 0 || (p->dir[n] != 0 && p->dir[n] != '/'))
			r = put_tar_dir(p, part, 0755, 0, e);
	}
	return r;
}

static int on_tar_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	static const char types[] = {
		[TAR_FILE] = 'f', [TAR_DIR] = 'd', [TAR_SYMLINK] = 'l', [TAR_HARDLINK] = 'h'};
	struct put_tar *p = arg;
	struct wire_entry m = {.path = entry->path,
			       .target = entry->target,
			       .mode = entry->mode & 0777,
			       .size = entry->size,
			       .mtime_ns = entry->mtime_s * 1000000000u + entry->mtime_ns};
	int r;

	if (entry->type == TAR_OTHER || entry->type == TAR_FIFO) {
		p->t->left_out++;
		return 0;
	}
	if (!*entry->path)
		return entry->type == TAR_DIR ? 0
					      : err_set(e, ERR_INVALID, EINVAL,
							"the tar has a file without a name");
	if (strlen(entry->path) >= BOX_PATH_MAX)
		return err_set(e, ERR_LIMIT, ENAMETOOLONG, "a path in the tar is too long");
	r = put_tar_parents(p, entry->path, e);
	if (r < 0)
		return r;
	if (entry->type == TAR_DIR)
		return put_tar_dir(p, entry->path, (unsigned)m.mode, m.mtime_ns, e);
	p->in_file = entry->type == TAR_FILE;
	m.type = (uint64_t)types[entry->type];
	return send_entry(p->t, &m, e);
}

static int on_tar_data(void *arg, const void *data, size_t n, struct err *e)
{
	struct transfer *t = ((struct put_tar *)arg)->t;
	int r = 0;

	for (size_t part; r == 0 && n > 0; n -= part, data = (const char *)data + part) {
		if (t->flow.left == 0) {
			r = transfer_report(t, e);
			if (r == 0)
				r = await(t, false, e);
			if (r < 0)
				return r;
		}
		part = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;
		part = part < t->flow.left ? part : (size_t)t->flow.left;
		if (wire_encode(core_out(t->conn), WIRE_DATA, WIRE_STDIN, t->call.q.id, data,
				part) < 0)
			return err_errno(e, ENOBUFS, "queue a file's bytes");
		t->flow.left -= part;
		t->bytes += part;
		r = send_batch(t, PUT_BATCH, e);
	}
	return r;
}

static int on_tar_end(void *arg, struct err *e)
{
	struct put_tar *p = arg;
	struct transfer *t = p->t;

	if (!p->in_file)
		return 0;
	p->in_file = false;
	t->files++;
	return wire_encode(core_out(t->conn), WIRE_EOF, WIRE_STDIN, t->call.q.id, NULL, 0) < 0
		       ? err_errno(e, ENOBUFS, "queue a file's end")
		       : 0;
}

static int feed_tar(struct put_tar *p, struct put_source *s, struct err *e)
{
	static const struct tar_ops ops = {on_tar_entry, on_tar_data, on_tar_end};
	uint8_t *data = malloc(WIRE_DATA_MAX);
	struct tar tar;
	ssize_t n = 1;
	int r = data ? 0 : err_errno(e, ENOMEM, "read a tar");

	tar_init(&tar, &ops, p);
	while (r == 0 && n > 0) {
		n = read_some(p->t, s, data, WIRE_DATA_MAX);
		if (n < 0)
			r = read_failed(s, n, e);
		else
			r = n > 0 ? tar_feed(&tar, data, (size_t)n, e) : tar_finish(&tar, e);
	}
	tar_done(&tar);
	free(data);
	if (r < 0 && p->t->files + p->t->left_out == 0 && strstr(e->msg, "not a tar"))
		err_prefix(e, "a directory takes a tar, uncompressed");
	return r;
}

static int put_tar(struct cove_box *box, const char *box_path, struct put_source *s,
		   const struct cove_copy *how, struct err *e)
{
	struct wire_file m = {.op = FILE_PUT, .path = box_path};
	struct transfer t;
	struct put_tar p = {.t = &t};
	int r = transfer_init(&t, how, e);

	m.user = t.how.user;
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	r = put_tar_dir(&p, "", 0755, 0, e);
	if (r == 0)
		r = feed_tar(&p, s, e);
	if (r == 0)
		r = finish(&t, e);
	return transfer_end(&t, r < 0 ? r : (int)t.left_out);
}

int put_stream(struct cove_box *box, int fd, const char *box_path, unsigned mode,
	       const struct cove_copy *how, struct err *e)
{
	struct put_source s = {.fd = fd, .shown = "the given descriptor"};
	char type = 0;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? err_errno(e, errno, "read the given descriptor") : 0;

	s.waits = r == 0 && !S_ISREG(st.st_mode);
	if (r == 0)
		r = files_probe(box, box_path, how, &type, e);
	if (r < 0)
		return r;
	return r == 1 && type == 'd' ? put_tar(box, box_path, &s, how, e)
				     : put_one(box, box_path, mode, &s, how, e);
}

int cove_put_fd(struct cove_box *box, int fd, const char *box_path, unsigned mode,
		const struct cove_copy *how, struct cove_error *err)
{
	struct err e = {0};
	int r = put_stream(box, fd, box_path, mode, how, &e);

	return core_return(box->cove, box->name, r, &e, err);
}

int cove_put_data(struct cove_box *box, const char *box_path, const void *data, size_t len,
		  unsigned mode, struct cove_error *err)
{
	struct put_source s = {.fd = -1, .data = data, .len = len};
	struct err e = {0};
	int r = put_one(box, box_path, mode, &s, NULL, &e);

	return core_return(box->cove, box->name, r, &e, err);
}

int carry_return(struct cove_box *box, int r, const struct err *e, struct cove_error *err)
{
	return core_return(box->cove, box->name, r, e, err);
}
