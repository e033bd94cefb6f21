/*
 * Files out of a box: the frames of a get. Where things go on this host is onto_host.h's.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "core/onto_host.h"
#include "core/tar_out.h"
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct get {
	struct transfer t;
	struct onto_host *to; /* owned */
};

static int take_entry(struct get *g, const struct wire_frame *f, struct err *e)
{
	struct wire_entry m;
	int r;

	if (wire_entry_decode(f, &m) < 0 || !m.path)
		return core_unexpected(&g->t.call.q, f, e);
	g->to->bytes = g->t.bytes;
	r = onto_host_entry(g->to, &m, e);
	if (r < 0 && g->to->has_owner)
		core_hint_owner(g->t.box->cove, g->to->owner, e);
	return r;
}

/* 1: it was the last. */
static int take_frame(struct get *g, const struct wire_frame *f, struct err *e)
{
	int r = ONTO_UNEXPECTED;

	if (f->type == WIRE_ENTRY)
		r = take_entry(g, f, e);
	else if (f->type == WIRE_DATA && f->stream == WIRE_STDOUT)
		r = onto_host_data(g->to, f->payload, f->len, e);
	else if (f->type == WIRE_EOF)
		r = onto_host_file_end(g->to, e);
	else if (f->type == WIRE_OK)
		r = onto_host_end(g->to, e);
	if (r == ONTO_UNEXPECTED)
		return core_unexpected(&g->t.call.q, f, e);
	g->t.files = g->to->files;
	if (r == 0 && f->type == WIRE_DATA)
		r = transfer_took(&g->t, f->len, e);
	return r == 0 && f->type == WIRE_OK ? 1 : r;
}

static int get(struct get *g, struct cove_box *box, const char *box_path, const char *host_path,
	       struct err *e)
{
	struct wire_file m = {.op = FILE_GET, .path = box_path, .user = g->t.how.user};
	struct wire_frame f;
	int r = onto_host_find(g->to, host_path, box_path, e);

	m.skip = g->t.how.on_skipped != NULL;
	m.links = m.holes = !g->to->in_place;
	if (r == 0)
		r = transfer_begin(&g->t, box, &m, e);
	if (r < 0)
		return r;
	do {
		r = transfer_next(&g->t, &f, e);
		if (r > 0)
			r = take_frame(g, &f, e);
	} while (r == 0);
	if (r > 0)
		transfer_report(&g->t, NULL); /* too late to give it up */
	return transfer_end(&g->t, r < 0 ? r : (int)g->to->left_out);
}

int cove_get(struct cove_box *box, const char *box_path, const char *host_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	struct get *g = calloc(1, sizeof(*g));
	struct err e = {0};
	int r;

	if (g)
		g->to = onto_host_new(&g->t.how);
	if (!g || !g->to) {
		free(g);
		return core_return(box->cove, box->name, err_errno(&e, ENOMEM, "copy"), &e, err);
	}
	r = transfer_init(&g->t, how, &e);
	if (r == 0)
		r = get(g, box, box_path, host_path, &e);
	onto_host_free(g->to);
	free(g);
	return core_return(box->cove, box->name, r, &e, err);
}

/* ---- one file, to a descriptor or to memory ---- */

struct sink {
	const char *path; /* borrowed; in the box */
	int fd;
	bool waits;	    /* a write to it may wait: no file */
	bool is_fresh;	    /* an empty file, from its beginning on: holes stay holes */
	bool is_hole;	    /* it ends in one */
	struct buf bytes;   /* when fd is -1; otherwise what is to be written, of a tar */
	bool is_tar;	    /* it is a directory */
	struct tar_out tar; /* then */
};

/* What a pipe takes at once when it is ready. */
enum { SINK_PIECE = 4096 };

static bool is_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Into a file that was empty: where it reads as zeros anyway nothing is written. */
static int sink_write_sparse(struct sink *s, const uint8_t *p, size_t n)
{
	if (n == 0)
		return 0;
	if (!is_zero(p, n)) {
		s->is_hole = false;
		return onto_host_write(s->fd, p, n);
	}
	s->is_hole = true;
	return lseek(s->fd, (off_t)n, SEEK_CUR) < 0 ? -errno : 0;
}

/* A hole at its end is part of it. */
static int sink_end_hole(struct sink *s)
{
	off_t at = s->is_hole ? lseek(s->fd, 0, SEEK_CUR) : 0;

	return at < 0 || (s->is_hole && ftruncate(s->fd, at) < 0) ? -errno : 0;
}

/* -ECANCELED: the caller gave up while there was no room. */
static int sink_write(struct transfer *t, struct sink *s, const uint8_t *p, size_t n)
{
	struct pollfd wait = {.fd = s->fd, .events = POLLOUT};
	int r = 0;

	if (s->is_fresh)
		return sink_write_sparse(s, p, n);
	if (!s->waits || !t->how.progress)
		return onto_host_write(s->fd, p, n);
	while (r == 0 && n > 0) {
		size_t piece = n < SINK_PIECE ? n : SINK_PIECE;

		if (poll(&wait, 1, TRANSFER_REPORT_MS) <= 0) {
			r = transfer_report(t, NULL) < 0 ? -ECANCELED : 0;
			continue;
		}
		r = onto_host_write(s->fd, p, piece);
		p += piece;
		n -= piece;
	}
	return r;
}

static int sink_failed(int r, const char *what, struct err *e)
{
	return r == -ECANCELED ? transfer_given_up(e) : err_errno(e, -r, "write %s", what);
}

static int sink_flush(struct transfer *t, struct sink *s, int r, struct err *e)
{
	int written = r < 0 ? 0 : sink_write(t, s, buf_data(&s->bytes), buf_len(&s->bytes));

	buf_clear(&s->bytes);
	return written < 0 ? sink_failed(written, "the tar", e) : r;
}

/* The same for a directory: all of its entries. */
static int sink_tar_frame(struct transfer *t, struct sink *s, const struct wire_frame *f,
			  struct err *e)
{
	struct wire_entry m;
	int r = 0;

	if (f->type == WIRE_ENTRY && !s->tar.in_file) {
		if (wire_entry_decode(f, &m) < 0 || !m.path)
			return core_unexpected(&t->call.q, f, e);
		if (m.type == 'x' && t->how.on_skipped)
			onto_host_skipped(&t->how, &m);
		else
			r = tar_out_entry(&s->tar, &m, e);
		t->left_out += r > 0;
		return sink_flush(t, s, r < 0 ? r : 0, e);
	}
	if (f->type == WIRE_DATA && s->tar.in_file) {
		r = sink_flush(t, s, tar_out_data(&s->tar, f->payload, f->len, e), e);
		return r < 0 ? r : transfer_took(t, f->len, e);
	}
	if (f->type == WIRE_EOF && s->tar.in_file) {
		do
			r = sink_flush(t, s, tar_out_pad(&s->tar, e), e);
		while (r > 0);
		t->files++;
		return r < 0 ? r : sink_flush(t, s, tar_out_file_end(&s->tar, e), e);
	}
	if (f->type != WIRE_OK || s->tar.in_file)
		return core_unexpected(&t->call.q, f, e);
	r = sink_flush(t, s, tar_out_end(&s->tar, e), e);
	if (r < 0)
		return r;
	r = sink_end_hole(s);
	return r < 0 ? sink_failed(r, "the tar", e) : 1;
}

/* ENTRY of a file, DATA, EOF, OK, and nothing else. 1 at the end. */
static int sink_frame(struct transfer *t, struct sink *s, int *step, const struct wire_frame *f,
		      struct err *e)
{
	struct wire_entry m;
	int r;

	if (s->is_tar)
		return sink_tar_frame(t, s, f, e);
	if (f->type == WIRE_ENTRY && *step == 0) {
		if (wire_entry_decode(f, &m) < 0 || !m.path)
			return core_unexpected(&t->call.q, f, e);
		s->is_tar = m.type == 'd' && s->fd >= 0;
		if (s->is_tar)
			return sink_tar_frame(t, s, f, e);
		if (m.type != 'f')
			return err_set(e, ERR_INVALID, m.type == 'd' ? EISDIR : EINVAL,
				       "'%.150s' is %s", s->path,
				       m.type == 'd' ? "a directory" : "not a regular file");
		*step = 1;
		return 0;
	}
	if (f->type == WIRE_DATA && *step == 1) {
		r = s->fd >= 0 ? sink_write(t, s, f->payload, f->len)
			       : buf_append(&s->bytes, f->payload, f->len);
		if (r == -ENOBUFS)
			return err_set(e, ERR_LIMIT, EFBIG, "the file is larger than %zu bytes",
				       s->bytes.max);
		return r < 0 ? sink_failed(r, "the file's bytes", e) : transfer_took(t, f->len, e);
	}
	if (f->type == WIRE_EOF && *step == 1) {
		*step = 2;
		t->files++;
		r = sink_end_hole(s);
		return r < 0 ? sink_failed(r, "the file's bytes", e) : 0;
	}
	return f->type == WIRE_OK && *step == 2 ? 1 : core_unexpected(&t->call.q, f, e);
}

static int get_one(struct cove_box *box, const char *path, struct sink *s,
		   const struct cove_copy *how, struct err *e)
{
	struct wire_file m = {.op = FILE_GET, .path = path};
	struct transfer t;
	struct wire_frame f;
	int step = 0, r = transfer_init(&t, how, e);

	s->path = path;
	m.user = t.how.user;
	m.from = t.how.from;
	m.bytes = t.how.bytes;
	m.links = s->fd >= 0;
	m.skip = t.how.on_skipped != NULL;
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	do {
		r = transfer_next(&t, &f, e);
		if (r > 0)
			r = sink_frame(&t, s, &step, &f, e);
	} while (r == 0);
	if (r > 0)
		transfer_report(&t, NULL); /* too late to give it up */
	return transfer_end(&t, r < 0 ? r : (int)t.left_out);
}

static bool is_fresh(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_APPEND) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0 && lseek(fd, 0, SEEK_CUR) == 0;
}

int cove_get_fd(struct cove_box *box, const char *box_path, int fd, const struct cove_copy *how,
		struct cove_error *err)
{
	struct sink *s = calloc(1, sizeof(*s));
	struct err e = {0};
	struct stat st;
	int r = s ? 0 : err_errno(&e, ENOMEM, "copy");

	if (r == 0) {
		s->fd = fd;
		s->waits = fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
		s->is_fresh = !s->waits && is_fresh(fd);
		buf_init(&s->bytes, INIT_UNSIZED_MAX + (1u << 20));
		tar_out_init(&s->tar, &s->bytes, box_path);
		r = get_one(box, box_path, s, how, &e);
		tar_out_done(&s->tar);
		buf_done(&s->bytes);
	}
	free(s);
	return core_return(box->cove, box->name, r, &e, err);
}

int cove_get_data(struct cove_box *box, const char *box_path, size_t max, void **ret,
		  size_t *ret_len, struct cove_error *err)
{
	struct sink s = {.fd = -1};
	struct err e = {0};
	char *copy = NULL;
	size_t len;
	int r;

	buf_init(&s.bytes, max);
	r = get_one(box, box_path, &s, NULL, &e);
	len = buf_len(&s.bytes);
	if (r == 0 && !(copy = calloc(1, len + 1)))
		r = err_errno(&e, ENOMEM, "keep the file's bytes");
	if (r == 0) {
		if (len > 0)
			memcpy(copy, buf_data(&s.bytes), len);
		*ret_len = len;
		*ret = copy;
	}
	buf_done(&s.bytes);
	return core_return(box->cove, box->name, r, &e, err);
}
