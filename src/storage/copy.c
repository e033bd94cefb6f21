/*
 * Copying a tree that a box writes to; see copy.h.
 *
 * How it works
 *
 * A pass walks the tree and its copy side by side. What was copied before, under the same name, and
 * has the times, size and inode that it had then, is as it was; all else is copied anew. A file is
 * replaced, never changed in place. In a directory that changed, names that are gone from the tree
 * are deleted from the copy.
 *
 * Times have a grain, and pages that a process has mapped and already written to can change without
 * any. So a live pass first writes all that is dirty to disk, which makes the kernel notice the
 * next write to each page; and what changed since just before that is remembered as changed, so
 * that the next pass copies it again.
 *
 * A file with several names is linked to its first copy, which also has a name in links_fd: its
 * inode's number. In unchanged directories only files with one name are taken on trust, since the
 * others may have been copied anew elsewhere.
 *
 * Of the first HELD levels both directories stay open, so that a box which moves directories about
 * does not end a live pass; further down one comes back by "..", and checks where that led.
 */
#include "storage/copy_parts.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "storage/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

enum { HELD = 48, GRAIN_NS = 50 * 1000 * 1000, TICKS = 64, NAMES_BYTES = 32768 };

struct copy_level {
	int from, to;	/* owned; -1 where they are not held */
	struct stat st; /* of the directory, as it was entered */
	uint64_t to_ino;
	int64_t off;  /* to go on reading it */
	bool is_new;  /* the copy of it was made in this pass */
	bool is_same; /* it has the names that it had in the last */
	bool touched; /* the copy of it has to get its times again */
};

struct copy_walk {
	struct copy_run run;
	struct copy_level *levels; /* owned; the last is the current one */
	size_t depth, room;
	uint64_t seen;
	size_t pos, len; /* in names */
	_Alignas(8) char names[NAMES_BYTES];
};

int copy_tick(struct copy_run *c)
{
	if (c->deadline_ms == 0 || ++c->ticks % TICKS != 0)
		return 0;
	return clock_mono_ms() >= c->deadline_ms ? -ETIMEDOUT : 0;
}

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static bool is_same(const struct copy_entry *e, const struct stat *st)
{
	return e && e->ctime_ns == ns_of(&st->st_ctim) && e->mtime_ns == ns_of(&st->st_mtim) &&
	       e->size == (uint64_t)st->st_size;
}

static int remember(struct copy_run *c, const struct stat *st, uint64_t to_ino)
{
	struct copy_entry e = {.ino = st->st_ino,
			       .ctime_ns = ns_of(&st->st_ctim),
			       .mtime_ns = ns_of(&st->st_mtim),
			       .size = (uint64_t)st->st_size,
			       .to_ino = to_ino};

	if (c->kind == COPY_LIVE && e.ctime_ns >= c->fresh_ns)
		e.ctime_ns = INT64_MIN;
	return copy_table_put(&c->table, &e);
}

static void count(struct copy_run *c, const struct stat *st)
{
	uint64_t shares = S_ISDIR(st->st_mode) || st->st_nlink < 1 ? 1 : st->st_nlink;

	c->counts.names++;
	c->counts.bytes += (uint64_t)st->st_blocks * 512 / shares;
}

/* ---- files ---- */

static int remove_name(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	return tree_remove(dir_fd, name, NULL);
}

static void link_name(const struct stat *st, char ret[24])
{
	snprintf(ret, 24, "%llx", (unsigned long long)st->st_ino);
}

/* The first copy of a file with several names. */
static int keep_first(struct copy_run *c, const char *name, const struct stat *st)
{
	char first[24];

	link_name(st, first);
	unlinkat(c->copy->links_fd, first, 0);
	if (linkat(c->to, name, c->copy->links_fd, first, 0) < 0 && errno != EMLINK)
		return -errno;
	return 0;
}

/* 1 if it is another name of what was copied, and has become that. */
static int link_first(struct copy_run *c, const char *name, const struct stat *st)
{
	char first[24];

	link_name(st, first);
	if (linkat(c->copy->links_fd, first, c->to, name, 0) == 0)
		return 1;
	/* Too many names: this one begins anew. */
	return errno == ENOENT || errno == EMLINK ? 0 : -errno;
}

static int copy_anew(struct copy_run *c, const char *name, const struct stat *st, bool is_known)
{
	bool has_more = st->st_nlink > 1 && S_ISREG(st->st_mode);
	struct stat copied, to;
	int r = has_more && is_known ? link_first(c, name, st) : 0;

	if (r == 0) {
		r = copy_one(c, name, st, &copied);
		if (r == -EEXIST) { /* a name that was read twice */
			r = remove_name(c->to, name);
			if (r == 0)
				r = copy_one(c, name, st, &copied);
		}
		if (r <= 0)
			return r;
		c->counts.moved_names++;
		if (fstatat(c->to, name, &to, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		r = remember(c, &copied, to.st_ino);
		if (r == 0 && has_more)
			r = keep_first(c, name, &copied);
	}
	if (r < 0)
		return r;
	count(c, st);
	return 0;
}

static int copy_other(struct copy_walk *w, const char *name, const struct stat *st)
{
	struct copy_level *l = &w->levels[w->depth - 1];
	struct copy_run *c = &w->run;
	const struct copy_entry *e = copy_table_find(&c->table, st->st_ino);
	bool known = is_same(e, st);
	struct stat to;
	int r = 0;

	if (known && l->is_same && (st->st_nlink == 1 || !S_ISREG(st->st_mode))) {
		count(c, st);
		return 0;
	}
	if (!l->is_new && fstatat(c->to, name, &to, AT_SYMLINK_NOFOLLOW) == 0) {
		if (known && to.st_ino == e->to_ino) {
			count(c, st);
			return 0;
		}
		r = remove_name(c->to, name);
	}
	l->touched = true;
	return r < 0 ? r : copy_anew(c, name, st, known);
}

/* ---- directories ---- */

static int open_dir(int dir_fd, const char *name)
{
	return fd_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			  FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
}

static struct copy_level *push_level(struct copy_walk *w)
{
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 64;
		struct copy_level *grown =
			room > COPY_DEPTH_MAX ? NULL : realloc(w->levels, room * sizeof(*grown));

		if (!grown)
			return NULL;
		w->levels = grown;
		w->room = room;
	}
	w->levels[w->depth] = (struct copy_level){.from = -1, .to = -1};
	return &w->levels[w->depth++];
}

/* Does a directory hide what is below it, in the layers below? */
static bool is_opaque(int fd)
{
	char y;

	return fgetxattr(fd, OPAQUE, &y, 1) == 1 && y == 'y';
}

/* Is there a directory in the copy that this one is laid over, or that was made from it? */
static bool may_reuse(const struct copy_run *c, int from, const struct stat *st,
		      const struct copy_entry *e)
{
	return c->kind == COPY_OVER ? !is_opaque(from) : e && st->st_ino == e->to_ino;
}

/* The copy of a directory: that of the last pass, or a new one. */
static int open_copy(struct copy_run *c, const char *name, int from, const struct copy_entry *e,
		     bool *ret_is_new, uint64_t *ret_ino)
{
	autoclose int fd = open_dir(c->to, name);
	bool was_whiteout;
	struct stat st;
	int r;

	*ret_is_new = false;
	if (fd >= 0 && fstat(fd, &st) == 0 && may_reuse(c, from, &st, e)) {
		*ret_ino = st.st_ino;
		return take_fd(fd);
	}
	fd_close(&fd);
	was_whiteout = c->kind == COPY_OVER &&
		       fstatat(c->to, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode);
	r = remove_name(c->to, name);
	if (r < 0)
		return r;
	if (mkdirat(c->to, name, 0700) < 0)
		return -errno;
	fd = open_dir(c->to, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	/* What it stood in the place of hid what is below both. */
	if (was_whiteout && fsetxattr(fd, OPAQUE, "y", 1, 0) < 0)
		return -errno;
	*ret_is_new = true;
	*ret_ino = st.st_ino;
	c->counts.moved_names++;
	return take_fd(fd);
}

/* Lets go of the current directories; they can be come back to. */
static void leave_open(struct copy_walk *w, int64_t off)
{
	struct copy_level *l = &w->levels[w->depth - 1];

	l->off = off;
	if (w->depth <= HELD) {
		l->from = take_fd(w->run.from);
		l->to = take_fd(w->run.to);
	}
	fd_close(&w->run.from);
	fd_close(&w->run.to);
}

static int enter(struct copy_walk *w, const char *name, int64_t off)
{
	struct copy_run *c = &w->run;
	autoclose int from = open_dir(c->from, name), to = -1;
	const struct copy_entry *e;
	struct copy_level *l;
	bool is_new, same;
	uint64_t to_ino = 0;
	struct stat st;
	int r;

	if (from == -ENOENT || from == -ENOTDIR || from == -ELOOP || from == -EXDEV)
		return 0; /* gone meanwhile, or another mount: not part of this tree */
	if (from < 0 || fstat(from, &st) < 0)
		return from < 0 ? from : -errno;
	e = copy_table_find(&c->table, st.st_ino);
	same = is_same(e, &st);
	to = open_copy(c, name, from, e, &is_new, &to_ino);
	if (to < 0)
		return to;
	count(c, &st);
	if (is_new) {
		w->levels[w->depth - 1].touched = true;
		/* A pass that does not get to its end leaves something to go on with. */
		r = copy_table_put(&c->table, &(struct copy_entry){.ino = st.st_ino,
								   .ctime_ns = INT64_MIN,
								   .to_ino = to_ino});
		if (r < 0)
			return r;
	}
	leave_open(w, off);
	l = push_level(w);
	if (!l)
		return w->room * 2 > COPY_DEPTH_MAX ? -ELOOP : -ENOMEM;
	l->st = st;
	l->to_ino = to_ino;
	l->is_new = is_new;
	l->is_same = same && !is_new;
	l->touched = !l->is_same;
	c->from = take_fd(from);
	c->to = take_fd(to);
	w->pos = w->len = 0;
	return 0;
}

/* Names that the copy has and the tree has not. Directories that were read to their end only, so
 * nothing is missed. */
static int remove_gone(struct copy_run *c)
{
	autoclose int fd = open_dir(c->to, ".");
	_Alignas(8) char names[8192];
	long got;

	if (fd < 0)
		return fd;
	while ((got = syscall(SYS_getdents64, fd, names, sizeof(names))) > 0)
		for (long at = 0; at < got;) {
			const struct fd_dirent *d = (const void *)(names + at);
			struct stat st;
			int r = 0;

			at += d->reclen;
			if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
				continue;
			if (fstatat(c->from, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
			    errno == ENOENT)
				r = remove_name(c->to, d->name);
			if (r < 0)
				return r;
		}
	return got < 0 ? -errno : 0;
}

/* The current directory was read to its end. */
static int finish_dir(struct copy_walk *w)
{
	struct copy_level *l = &w->levels[w->depth - 1];
	struct copy_run *c = &w->run;
	int r = l->is_new || l->is_same || c->kind == COPY_OVER ? 0 : remove_gone(c);

	if (r == 0 && c->kind == COPY_OVER && !l->is_new)
		r = copy_clear_attrs(c, c->to);
	if (r == 0 && l->touched)
		r = copy_dir_meta(c, c->from, c->to, &l->st);
	return r < 0 ? r : remember(c, &l->st, l->to_ino);
}

static int come_back(int *fd, int below_fd, uint64_t ino, dev_t dev)
{
	struct stat st;

	if (*fd >= 0)
		return 0;
	*fd = openat(below_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st) < 0)
		return -errno;
	return st.st_ino != ino || (dev && st.st_dev != dev) ? -ESTALE : 0;
}

static int go_up(struct copy_walk *w)
{
	struct copy_run *c = &w->run;
	struct copy_level *l;
	int r;

	w->depth--;
	l = &w->levels[w->depth - 1];
	r = come_back(&l->from, c->from, l->st.st_ino, l->st.st_dev);
	if (r == 0)
		r = come_back(&l->to, c->to, l->to_ino, 0);
	fd_close(&c->from);
	fd_close(&c->to);
	c->from = take_fd(l->from);
	c->to = take_fd(l->to);
	w->pos = w->len = 0;
	if (r == 0 && lseek(c->from, l->off, SEEK_SET) < 0)
		r = -errno;
	return r;
}

/* ---- a pass ---- */

/* 1 and the next name of the current directory, 0 at its end. */
static int next_name(struct copy_walk *w, const struct fd_dirent **ret)
{
	if (w->pos >= w->len) {
		long got = syscall(SYS_getdents64, w->run.from, w->names, sizeof(w->names));

		if (got < 0 && errno != ENOENT)
			return -errno;
		if (got <= 0)
			return 0;
		w->pos = 0;
		w->len = (size_t)got;
	}
	*ret = (const struct fd_dirent *)(const void *)(w->names + w->pos);
	w->pos += (*ret)->reclen;
	return 1;
}

static int visit(struct copy_walk *w, const struct fd_dirent *d)
{
	struct copy_run *c = &w->run;
	struct stat st;

	if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
		return 0;
	if (++w->seen > COPY_NAMES_MAX)
		return -E2BIG;
	if (copy_tick(c) < 0)
		return -ETIMEDOUT;
	if (fstatat(c->from, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return enter(w, d->name, d->off);
	return copy_other(w, d->name, &st);
}

static int walk(struct copy_walk *w)
{
	const struct fd_dirent *d = NULL;
	int r;

	for (;;) {
		r = next_name(w, &d);
		if (r > 0)
			r = visit(w, d);
		else if (r == 0) {
			r = finish_dir(w);
			if (r == 0 && w->depth == 1)
				return 0;
			if (r == 0)
				r = go_up(w);
		}
		if (r < 0)
			return r;
	}
}

static int begin_walk(struct copy_walk *w)
{
	struct copy_run *c = &w->run;
	struct copy_level *l;
	struct stat to;
	int r = copy_table_open(&c->table, c->copy->table_fd);

	if (r < 0)
		return r;
	c->buf = malloc(COPY_BUF);
	c->text = malloc(2 * (size_t)COPY_XATTR_MAX);
	l = push_level(w);
	if (!c->buf || !c->text || !l)
		return -ENOMEM;
	c->from = open_dir(c->copy->from_fd, ".");
	c->to = open_dir(c->copy->to_fd, ".");
	if (c->from < 0 || c->to < 0)
		return c->from < 0 ? c->from : c->to;
	if (c->kind == COPY_LIVE) {
		c->fresh_ns = (int64_t)clock_ns_of(CLOCK_REALTIME) - GRAIN_NS;
		if (syncfs(c->from) < 0)
			return -errno;
	}
	if (fstat(c->from, &l->st) < 0 || fstat(c->to, &to) < 0)
		return -errno;
	l->to_ino = to.st_ino;
	l->is_same = is_same(copy_table_find(&c->table, l->st.st_ino), &l->st);
	l->touched = !l->is_same;
	return 0;
}

static void end_walk(struct copy_walk *w)
{
	for (size_t i = 0; i < w->depth; i++) {
		fd_close(&w->levels[i].from);
		fd_close(&w->levels[i].to);
	}
	fd_close(&w->run.from);
	fd_close(&w->run.to);
	copy_table_close(&w->run.table);
	free(w->levels);
	free(w->run.buf);
	free(w->run.text);
}

/* What the caller and the pass's process share. */
struct copy_job {
	struct copy copy;
	enum copy_kind kind;
	uint64_t deadline_ms;
	struct copy_counts counts;
	int code;
};

static int run_pass(void *arg)
{
	struct copy_job *job = arg;
	struct copy_walk *w = calloc(1, sizeof(*w));
	int r = -ENOMEM;

	umask(0);
	if (w) {
		w->run = (struct copy_run){.copy = &job->copy,
					   .kind = job->kind,
					   .deadline_ms = job->deadline_ms,
					   .from = -1,
					   .to = -1};
		r = begin_walk(w);
		if (r == 0)
			r = walk(w);
		job->counts = w->run.counts;
		end_walk(w);
	}
	free(w);
	job->code = r;
	return r < 0;
}

static int pass_failed(const struct copy *c, int code, struct err *e)
{
	if (code == -EDQUOT && c->bytes_max)
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "its files hold more than the %llu MiB of its disk (--disk), which "
			       "clones of files share: copies of them would not",
			       (unsigned long long)c->bytes_max >> 20);
	switch (code) {
	case -ETIMEDOUT:
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "what changed could not be copied in time: stop the box first");
	case -E2BIG:
		return err_set(e, ERR_LIMIT, E2BIG, "there are more than %u files to copy",
			       COPY_NAMES_MAX);
	case -ESTALE:
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "directories were moved while they were copied: try again");
	case -ECHILD:
		return err_set(e, ERR_INTERNAL, ECHILD, "the process that copies died");
	default:
		return err_errno(e, -code, "copy the box's files");
	}
}

int copy_pass(struct copy *c, const struct ids *ids, enum copy_kind kind, uint64_t deadline_ms,
	      struct err *e)
{
	struct copy_job *job =
		mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r, code;

	if (job == MAP_FAILED)
		return err_errno(e, errno, "start a process that copies");
	*job = (struct copy_job){
		.copy = *c, .kind = kind, .deadline_ms = deadline_ms, .code = -ECHILD};
	r = ids_run_inside(ids, run_pass, job, e);
	code = job->code;
	c->counts = job->counts;
	munmap(job, sizeof(*job));
	if (r < 0)
		return r;
	c->is_whole = code == 0;
	/* A box that moves directories deeper than are held: what is missing is for the next. */
	if (code == -ESTALE && kind == COPY_LIVE)
		return 0;
	return code < 0 ? pass_failed(c, code, e) : 0;
}

int copy_init(struct copy *c, int from_fd, int to_fd, int links_fd, struct err *e)
{
	int fd = sys_memfd_create("cove-copy", 1 /* MFD_CLOEXEC */);

	*c = (struct copy){.table_fd = -1};
	if (fd < 0)
		return err_errno(e, -fd, "make room for a list of files");
	*c = (struct copy){
		.from_fd = from_fd, .to_fd = to_fd, .links_fd = links_fd, .table_fd = fd};
	return 0;
}

void copy_done(struct copy *c)
{
	if (c->table_fd > 0)
		fd_close(&c->table_fd);
}
