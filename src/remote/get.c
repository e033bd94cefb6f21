/*
 * Files out of a server's box. A directory comes as a tar, whose entries are the word of a hostile
 * machine twice over: where they go on this host is decided by core/onto_host.h, as for a box here.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/onto_host.h"
#include "remote/files.h"
#include "store/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_MS = 250, LEFT_OUT_MAX = 65536 };

/* ---- small questions ---- */

static void begin(struct remote_request *q, struct cove_box *box, const char *method,
		  const char *route, const char *path)
{
	remote_begin(q, box->cove, method, route, box->name);
	remote_query(q, "path", path);
}

static int stat_path(struct cove_box *box, const char *path, struct cove_file_info *ret,
		     struct err *e)
{
	struct remote_request q;
	json_t *o = NULL;
	const char *type;
	int r;

	begin(&q, box, "GET", "/v1/boxes/{}/files/stat", path);
	r = remote_call(&q, &o, e);
	type = remote_text(o, "type");
	if (r == 0 && !type)
		r = err_set(e, ERR_PROTOCOL, EPROTO, "the server does not say what is there");
	if (r == 0) {
		const char *target = remote_text(o, "target");

		*ret = (struct cove_file_info){.type = type[0],
					       .name = strdup(path_base(path)),
					       .target = target ? strdup(target) : NULL,
					       .mode = (unsigned)remote_number(o, "mode"),
					       .uid = (unsigned)remote_number(o, "uid"),
					       .gid = (unsigned)remote_number(o, "gid"),
					       .size = remote_number(o, "size"),
					       .mtime_ns = remote_number(o, "mtime_ns")};
		if (!ret->name || !ret->target != !target) {
			free(ret->name);
			free(ret->target);
			r = err_errno(e, ENOMEM, "keep what is there");
		}
	}
	json_decref(o);
	return r;
}

int cove_stat(struct cove_box *box, const char *path, struct cove_file_info *ret,
	      struct cove_error *err)
{
	struct err e = {0};

	return remote_return(stat_path(box, path, ret, &e), &e, err);
}

/* What "path/." is, a link leads to. */
int remote_probe(struct cove_box *box, const char *path, char *ret_type, struct err *e)
{
	struct cove_file_info info;
	char below[BOX_PATH_MAX];
	struct err ignored = {0}; /* a link that leads nowhere is a link */
	int r = stat_path(box, path, &info, e);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	*ret_type = info.type;
	free(info.name);
	free(info.target);
	if (*ret_type != 'l' || !path_join(below, sizeof(below), path, "."))
		return 1;
	if (stat_path(box, below, &info, &ignored) == 0) {
		*ret_type = info.type;
		free(info.name);
		free(info.target);
	}
	return 1;
}

int remote_make_dir(struct cove_box *box, const char *path, unsigned mode,
		    const struct cove_copy *how, struct err *e)
{
	struct remote_request q;
	char octal[16];

	snprintf(octal, sizeof(octal), "%o", (mode | 0700) & 0777);
	begin(&q, box, "POST", "/v1/boxes/{}/files/mkdir", path);
	remote_query(&q, "user", how ? how->user : NULL);
	q.repeats = true;
	json_kv_str(remote_object(&q), "mode", octal);
	return remote_call(&q, NULL, e);
}

/* ---- what comes ---- */

struct fetch {
	struct remote_answer a;
	struct cove_copy how;
	struct onto_host *to; /* owned */
	char prefix[NAME_MAX + 1];
	struct tar tar;
};

static int report(struct fetch *f, struct err *e)
{
	if (!f->how.progress ||
	    f->how.progress(f->how.arg, f->to ? f->to->bytes : 0, f->to ? f->to->files : 0))
		return 0;
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "the copy was given up");
}

static int checked(int r, struct err *e)
{
	if (r != ONTO_UNEXPECTED)
		return r;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the server sent files in an order that cannot be");
}

/* The archive's names begin with that of the directory. */
static const char *below(const struct fetch *f, const char *path)
{
	size_t n = strlen(f->prefix);

	if (n == 0 || strncmp(path, f->prefix, n) != 0 || (path[n] && path[n] != '/'))
		return path;
	return path[n] ? path + n + 1 : "";
}

static int on_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	static const char types[] = {[TAR_FILE] = 'f',	   [TAR_DIR] = 'd',  [TAR_SYMLINK] = 'l',
				     [TAR_HARDLINK] = 'h', [TAR_FIFO] = 'o', [TAR_OTHER] = 'o'};
	struct fetch *f = arg;
	/* A tar does not say how many names a file has: any may come again. */
	const struct wire_entry m = {.type = (uint64_t)types[entry->type],
				     .path = below(f, entry->path),
				     .target = entry->type == TAR_HARDLINK ? below(f, entry->target)
									   : entry->target,
				     .mode = entry->mode,
				     .size = entry->size,
				     .links = 2,
				     .mtime_ns = entry->mtime_s * 1000000000u + entry->mtime_ns};

	return checked(onto_host_entry(f->to, &m, e), e);
}

static int on_data(void *arg, const void *p, size_t n, struct err *e)
{
	struct fetch *f = arg;

	f->to->bytes += n;
	return checked(onto_host_data(f->to, p, n, e), e);
}

static int on_file_end(void *arg, struct err *e)
{
	struct fetch *f = arg;

	return f->to->file_fd >= 0 ? checked(onto_host_file_end(f->to, e), e) : 0;
}

static int begin_get(struct fetch *f, struct cove_box *box, const char *path,
		     const struct cove_copy *how, struct err *e)
{
	struct remote_request q;
	int r = 0;

	if (how)
		r = core_copy_sized(&f->how, sizeof(f->how), how, e);
	if (r < 0)
		return r;
	begin(&q, box, "GET", "/v1/boxes/{}/files", path);
	remote_query(&q, "user", f->how.user);
	return remote_open(&q, NULL, &f->a, e);
}

/* Each piece to take; -1 of the time is for the caller's progress. */
static int read_all(struct fetch *f,
		    int (*take)(struct fetch *f, const void *p, size_t n, struct err *e),
		    struct err *e)
{
	const void *p;
	size_t n;
	int r;

	for (;;) {
		r = remote_answer_next(&f->a, REPORT_MS, &p, &n, e);
		if (r > 0)
			r = take(f, p, n, e);
		else if (r == 0)
			return 0;
		if (r < 0 && r != -EAGAIN) {
			if (remote_is_lost(r))
				err_set(e, ERR_INTERRUPTED, ECONNRESET,
					"the copy was cut: the box, or the server, has ended it");
			return r;
		}
		r = report(f, e);
		if (r < 0)
			return r;
	}
}

static int take_tar(struct fetch *f, const void *p, size_t n, struct err *e)
{
	return tar_feed(&f->tar, p, n, e);
}

static int take_file(struct fetch *f, const void *p, size_t n, struct err *e)
{
	return on_data(f, p, n, e);
}

static bool is_tar(const struct remote_answer *a)
{
	const char *type = http_head_find(&a->head, "Content-Type");

	return type && strcmp(type, "application/x-tar") == 0;
}

/* What the server could not read is in its trailers: the same as a box here says of it. */
static int take_left_out(struct fetch *f, struct err *e)
{
	const struct http_head *t = &f->a.body.trailers;
	struct buf path, why;
	const char *said = http_head_find(t, "Cove-Left-Out");
	uint64_t count;

	if (!said)
		return 0;
	if (!str_parse_u64(said, LEFT_OUT_MAX, &count))
		count = LEFT_OUT_MAX;
	if (!f->how.on_skipped)
		return err_set(e, ERR_DENIED, EACCES,
			       "%llu entries below the path cannot be read; the rest is there",
			       (unsigned long long)count);
	buf_init(&path, BOX_PATH_MAX);
	buf_init(&why, BOX_PATH_MAX);
	for (size_t i = 0; i < t->field_count && count > 0; i++) {
		struct wire_entry m = {.type = 'x'};

		buf_clear(&path);
		buf_clear(&why);
		if (!http_name_is(t->fields[i].name, "Cove-Left-Out-Name") ||
		    http_query_find(t->fields[i].value, "path", &path) <= 0)
			continue;
		if (http_query_find(t->fields[i].value, "why", &why) > 0)
			m.target = buf_cstr(&why);
		m.path = buf_cstr(&path);
		onto_host_skipped(&f->how, &m);
		count--;
	}
	for (; count > 0; count--) /* which the server did not name */
		onto_host_skipped(&f->how, &(struct wire_entry){.type = 'x', .path = "..."});
	buf_done(&path);
	buf_done(&why);
	return 0;
}

static int get_tree(struct fetch *f, struct err *e)
{
	static const struct tar_ops ops = {on_entry, on_data, on_file_end};
	int r;

	tar_init(&f->tar, &ops, f);
	r = read_all(f, take_tar, e);
	if (r == 0)
		r = tar_finish(&f->tar, e);
	tar_done(&f->tar);
	return r;
}

static int get_file(struct fetch *f, const struct cove_file_info *info, struct err *e)
{
	const struct wire_entry m = {
		.type = 'f', .path = "", .mode = info->mode & 0777, .mtime_ns = info->mtime_ns};
	int r = checked(onto_host_entry(f->to, &m, e), e);

	if (r == 0)
		r = read_all(f, take_file, e);
	return r == 0 ? checked(onto_host_file_end(f->to, e), e) : r;
}

/* "a/b/" -> "b": what the server's archive begins with. */
static void set_prefix(struct fetch *f, const char *box_path)
{
	char path[BOX_PATH_MAX];

	if (!str_copy(path, sizeof(path), box_path))
		return;
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	if (strcmp(path, "~") != 0 && path_is_safe_relative(path_base(path)))
		str_copy(f->prefix, sizeof(f->prefix), path_base(path));
}

static int get(struct fetch *f, struct cove_box *box, const char *box_path, const char *host_path,
	       const struct cove_copy *how, struct err *e)
{
	struct cove_file_info info = {0};
	int r = onto_host_find(f->to, host_path, box_path, e);

	if (r == 0)
		r = stat_path(box, box_path, &info, e);
	if (r == 0)
		r = begin_get(f, box, box_path, how, e);
	if (r == 0) {
		set_prefix(f, box_path);
		r = is_tar(&f->a) ? get_tree(f, e) : get_file(f, &info, e);
	}
	if (r == 0)
		r = checked(onto_host_end(f->to, e), e);
	if (r == 0)
		r = take_left_out(f, e);
	remote_answer_done(&f->a);
	if (r == 0)
		(void)report(f, NULL); /* too late to give it up */
	free(info.name);
	free(info.target);
	return r < 0 ? r : (int)f->to->left_out;
}

int cove_get(struct cove_box *box, const char *box_path, const char *host_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	struct fetch *f = calloc(1, sizeof(*f));
	struct err e = {0};
	int r;

	if (f)
		f->to = onto_host_new(&f->how);
	if (f && f->to)
		r = get(f, box, box_path, host_path, how, &e);
	else
		r = err_errno(&e, ENOMEM, "copy");
	if (f)
		onto_host_free(f->to);
	free(f);
	return remote_return(r, &e, err);
}

/* ---- as a stream ---- */

struct stream_out {
	struct fetch f;
	int fd;
	uint64_t bytes;
};

static int take_stream(struct fetch *f, const void *p, size_t n, struct err *e)
{
	int r = onto_host_write(container(f, struct stream_out, f)->fd, p, n);

	return r < 0 ? err_errno(e, -r, "write the file's bytes") : 0;
}

int cove_get_fd(struct cove_box *box, const char *box_path, int fd, const struct cove_copy *how,
		struct cove_error *err)
{
	struct stream_out *s = calloc(1, sizeof(*s));
	struct err e = {0};
	int r = s ? begin_get(&s->f, box, box_path, how, &e) : err_errno(&e, ENOMEM, "copy");

	if (r == 0) {
		s->fd = fd;
		r = read_all(&s->f, take_stream, &e);
		if (r == 0)
			r = take_left_out(&s->f, &e);
		remote_answer_done(&s->f.a);
	}
	free(s);
	return remote_return(r, &e, err);
}
