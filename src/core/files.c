/* Small file operations: one request, a few entries back. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "core/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int transfer_init(struct transfer *t, const struct cove_copy *how, struct err *e)
{
	*t = (struct transfer){0};
	return how ? core_copy_sized(&t->how, sizeof(t->how), how, e) : 0;
}

int transfer_begin(struct transfer *t, struct cove_box *box, const struct wire_file *m,
		   struct err *e)
{
	uint32_t feature = 0;
	int r;

	if (!m->path || !*m->path || strlen(m->path) >= BOX_PATH_MAX ||
	    (m->to && strlen(m->to) >= BOX_PATH_MAX))
		return err_set(e, ERR_INVALID, EINVAL, "a path in a box has 1 to %u bytes",
			       BOX_PATH_MAX - 1);
	r = box_conn_get(box, &t->conn, e);
	if (m->op >= FILE_READ)
		feature = WIRE_FEATURE_TOOLS;
	else if (m->op == FILE_GET && (m->from || m->bytes))
		feature = WIRE_FEATURE_RANGES;
	if (r == 0 && feature) {
		r = core_file_check(t->conn, feature, e);
		if (r < 0)
			box_conn_put(box, take_ptr(t->conn));
	}
	if (r < 0)
		return r;
	t->box = box;
	core_call_begin(&t->call, t->conn);
	wire_flow_init(&t->flow);
	r = wire_file_encode(core_out(t->conn), t->call.q.id, 0, m);
	if (r == 0 && m->op != FILE_PUT)
		r = core_conn_flush(t->conn, e);
	return r < 0 ? transfer_end(t, r) : 0;
}

int transfer_end(struct transfer *t, int r)
{
	/* For a request that is over this says nothing new. */
	core_call_end(&t->call, r >= 0);
	if (r < 0)
		core_conn_flush(t->conn, NULL);
	box_conn_put(t->box, t->conn);
	t->conn = NULL;
	return r;
}

int transfer_next(struct transfer *t, struct wire_frame *ret, struct err *e)
{
	int r;

	while ((r = core_call_next(&t->call, t->how.progress ? TRANSFER_REPORT_MS : -1, ret, e)) ==
	       0) {
		r = transfer_report(t, e);
		if (r < 0)
			break;
	}
	return r;
}

int transfer_report(struct transfer *t, struct err *e)
{
	if (!t->how.progress || t->how.progress(t->how.arg, t->bytes, t->files))
		return 0;
	return transfer_given_up(e);
}

int transfer_given_up(struct err *e)
{
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "the copy was given up");
}

int transfer_took(struct transfer *t, size_t n, struct err *e)
{
	struct wire_credit m = {.bytes = wire_flow_took(&t->flow, n)};
	int r;

	t->bytes += n;
	if (m.bytes == 0)
		return 0;
	r = transfer_report(t, e);
	if (r < 0)
		return r;
	if (wire_credit_encode(core_out(t->conn), t->call.q.id, WIRE_STDOUT, &m) < 0)
		return err_errno(e, ENOBUFS, "queue credit");
	return core_conn_flush(t->conn, e);
}

static void info_done(struct cove_file_info *i)
{
	free(i->name);
	free(i->target);
}

/* The name is the box's word, so it must be one. */
static int take_info(struct core_call *c, const struct wire_frame *f, const char *name,
		     struct cove_file_info *ret, struct err *e)
{
	struct wire_entry m;

	if (f->type != WIRE_ENTRY || wire_entry_decode(f, &m) < 0)
		return core_unexpected(&c->q, f, e);
	if (!name && (!m.path || !path_is_safe_relative(m.path) || strchr(m.path, '/')))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box named a file that is no name");
	if (m.target && strlen(m.target) >= BOX_PATH_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box named a link that cannot be");
	*ret = (struct cove_file_info){
		.type = m.type == 'f' || m.type == 'd' || m.type == 'l' ? (char)m.type : 'o',
		.name = strdup(name ? name : m.path),
		.target = m.target ? strdup(m.target) : NULL,
		.mode = (unsigned)(m.mode & 07777),
		.uid = (unsigned)m.uid,
		.gid = (unsigned)m.gid,
		.size = m.size,
		.mtime_ns = m.mtime_ns,
	};
	if (ret->name && !ret->target == !m.target)
		return 0;
	info_done(ret);
	return err_errno(e, ENOMEM, "keep what the box said of a file");
}

/* how may be NULL; m has its user. */
static int stat_box(struct cove_box *box, const struct wire_file *m, const struct cove_copy *how,
		    struct cove_file_info *ret, struct err *e)
{
	struct transfer t;
	struct wire_frame f;
	int r = transfer_init(&t, how, e);

	if (r == 0)
		r = transfer_begin(&t, box, m, e);
	if (r < 0)
		return r;
	r = transfer_next(&t, &f, e);
	if (r > 0)
		r = take_info(&t.call, &f, path_base(m->path), ret, e);
	if (r == 0) {
		r = core_call_wait_ok(&t.call, -1, e);
		if (r < 0)
			info_done(ret);
	}
	return transfer_end(&t, r);
}

int files_probe(struct cove_box *box, const char *path, const struct cove_copy *how, char *ret_type,
		struct err *e)
{
	struct wire_file m = {
		.op = FILE_STAT, .path = path, .user = how ? how->user : NULL, .follow = 1};
	struct cove_file_info info;
	int r = stat_box(box, &m, how, &info, e);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	*ret_type = info.type;
	info_done(&info);
	return 1;
}

int core_stat_target(struct cove_box *box, const char *path, const char *user,
		     struct cove_file_info *ret, struct err *e)
{
	struct wire_file m = {.op = FILE_STAT, .path = path, .user = user, .follow = 1};

	return stat_box(box, &m, NULL, ret, e);
}

int cove_stat(struct cove_box *box, const char *path, struct cove_file_info *ret,
	      struct cove_error *err)
{
	struct err e = {0};
	int r = stat_box(box, &(struct wire_file){.op = FILE_STAT, .path = path}, NULL, ret, &e);

	return core_return(box->cove, box->name, r, &e, err);
}

void cove_file_info_free(struct cove_file_info *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		info_done(&list[i]);
	free(list);
}

struct info_list {
	struct cove_file_info *items; /* owned */
	size_t count, cap;
	size_t bytes; /* as they came */
};

static int add_info(struct info_list *l, struct core_call *c, const struct wire_frame *f,
		    struct err *e)
{
	int r;

	l->bytes += f->len;
	if (l->bytes > LIST_BYTES_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the directory's listing is over %u MiB",
			       LIST_BYTES_MAX >> 20);
	if (l->count == LIST_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the directory has more than %u entries",
			       LIST_ENTRIES_MAX);
	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		void *grown = reallocarray(l->items, cap, sizeof(*l->items));

		if (!grown)
			return err_errno(e, ENOMEM, "list a directory");
		l->items = grown;
		l->cap = cap;
	}
	r = take_info(c, f, NULL, &l->items[l->count], e);
	if (r == 0)
		l->count++;
	return r;
}

static int list_dir(struct cove_box *box, const char *path, struct cove_file_info **ret,
		    struct err *e)
{
	struct wire_file m = {.op = FILE_LIST, .path = path};
	struct transfer t = {0};
	struct info_list list = {0};
	struct wire_frame f;
	int r = transfer_begin(&t, box, &m, e);

	if (r < 0)
		return r;
	while ((r = transfer_next(&t, &f, e)) > 0 && f.type != WIRE_OK) {
		r = add_info(&list, &t.call, &f, e);
		if (r < 0)
			break;
	}
	if (r < 0) {
		cove_file_info_free(list.items, list.count);
		return transfer_end(&t, r);
	}
	*ret = list.items;
	return transfer_end(&t, (int)list.count);
}

int cove_list_dir(struct cove_box *box, const char *path, struct cove_file_info **ret,
		  struct cove_error *err)
{
	struct err e = {0};
	int r = list_dir(box, path, ret, &e);

	return core_return(box->cove, box->name, r, &e, err);
}

/* An operation that only succeeds or fails. */
static int simple(struct cove_box *box, const struct wire_file *m, struct cove_error *err)
{
	struct transfer t = {0};
	struct err e = {0};
	int r = transfer_begin(&t, box, m, &e);

	if (r == 0)
		r = transfer_end(&t, core_call_wait_ok(&t.call, -1, &e));
	return core_return(box->cove, box->name, r, &e, err);
}

int cove_mkdir(struct cove_box *box, const char *path, unsigned mode, struct cove_error *err)
{
	return simple(box,
		      &(struct wire_file){.op = FILE_MKDIR, .path = path, .mode = mode & 07777},
		      err);
}

int cove_move(struct cove_box *box, const char *from, const char *to, struct cove_error *err)
{
	return simple(box, &(struct wire_file){.op = FILE_MOVE, .path = from, .to = to}, err);
}

int cove_unlink(struct cove_box *box, const char *path, bool recursive, struct cove_error *err)
{
	return simple(box,
		      &(struct wire_file){.op = FILE_REMOVE, .path = path, .recursive = recursive},
		      err);
}

int cove_chmod(struct cove_box *box, const char *path, unsigned mode, struct cove_error *err)
{
	return simple(box,
		      &(struct wire_file){.op = FILE_CHMOD, .path = path, .mode = mode & 07777},
		      err);
}
