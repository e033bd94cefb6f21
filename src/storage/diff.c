/*
 * Comparing two stacks of layers; see diff.h.
 *
 * How it works
 *
 * Both trees are walked together, one directory at a time. A directory is known by its path and,
 * for each side, by the set of layers that are a part of it. The names that have to be looked at
 * are those in layers which only one of the sides has; a name that is only in layers which both
 * have is the same on both, unless the sets of these differ (one side hides them behind an opaque
 * directory or a file): then their names are looked at, too. So a directory in which only common
 * layers take part, the same ones on both sides, is never opened.
 *
 * Of the directories on the way down only the names are held, and the paths: the directories are
 * opened again on the way up. Depth costs memory, which is bounded, and no descriptors.
 */
#include "storage/diff.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SIDES = 2, READ_BYTES = 64 << 10, SEEN_STEP = 256 };

/* A directory on the way down. */
struct diff_frame {
	struct stack_set in[SIDES];
	struct stack_names names;
	size_t next;	 /* name */
	size_t path_len; /* of the directory */
	bool is_deep;	 /* something in it has too long a path, which was said */
};

struct differ {
	const struct diff_job *job;
	const struct stack *side[SIDES];
	size_t common;		   /* layers at the bottom that both have */
	struct diff_frame *frames; /* owned */
	size_t depth, room;
	size_t held;
	uint64_t seen;
	char path[STACK_PATH_MAX + 1];
	struct stack_dir dir[SIDES]; /* of the last frame, while is_open */
	bool is_open;
	uint8_t *bytes; /* owned; for contents */
};

/* ---- which layers ---- */

static bool is_same_dir(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static size_t count_common(const struct stack *a, const struct stack *b)
{
	size_t n = 0;

	while (n < a->count && n < b->count &&
	       is_same_dir(a->layers[a->count - 1 - n].fd, b->layers[b->count - 1 - n].fd))
		n++;
	return n;
}

/* How many layers the side has above those. */
static size_t own_count(const struct differ *d, int side)
{
	return d->side[side]->count - d->common;
}

static bool has_own(const struct differ *d, int side, const struct stack_set *in)
{
	for (size_t i = 0; i < own_count(d, side); i++)
		if (stack_set_has(in, i))
			return true;
	return false;
}

static bool has_any(const struct differ *d, int side, const struct stack_set *in)
{
	for (size_t i = 0; i < d->side[side]->count; i++)
		if (stack_set_has(in, i))
			return true;
	return false;
}

/* Do both sides show the same of the common layers? */
static bool is_common_same(const struct differ *d, const struct stack_set in[SIDES])
{
	for (size_t i = 0; i < d->common; i++)
		if (stack_set_has(&in[0], own_count(d, 0) + i) !=
		    stack_set_has(&in[1], own_count(d, 1) + i))
			return false;
	return true;
}

/* The same file of the same layer. */
static bool is_one(const struct differ *d, const struct stack_entry *a, const struct stack_entry *b)
{
	return a->layer >= own_count(d, 0) && b->layer >= own_count(d, 1) &&
	       a->layer - own_count(d, 0) == b->layer - own_count(d, 1);
}

/* ---- contents ---- */

/* Where the next data is from `at` on; size where there is none. */
static off_t next_data(int fd, off_t at, off_t size)
{
	off_t data = lseek(fd, at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? size : at; /* a file system without holes: all of it */
	return data < size ? data : size;
}

static int read_part(int fd, uint8_t *to, size_t n, off_t at)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, to + got, n - got, at + (off_t)got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ESTALE; /* it was larger a moment ago */
		got += (size_t)r;
	}
	return 0;
}

static int same_content(int a, int b, uint8_t *bytes)
{
	struct stat x, y;
	int r = 0;

	if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
		return -errno;
	if (x.st_size != y.st_size)
		return 0;
	for (off_t at = 0; at < x.st_size;) {
		off_t in_a = next_data(a, at, x.st_size), in_b = next_data(b, at, x.st_size);
		size_t n = READ_BYTES;

		at = in_a < in_b ? in_a : in_b;
		if ((off_t)n > x.st_size - at)
			n = (size_t)(x.st_size - at);
		if (n == 0)
			break;
		r = read_part(a, bytes, n, at);
		if (r == 0)
			r = read_part(b, bytes + READ_BYTES, n, at);
		if (r < 0)
			return r;
		if (memcmp(bytes, bytes + READ_BYTES, n) != 0)
			return 0;
		at += (off_t)n;
	}
	return 1;
}

static int compare_files(struct differ *d, const struct stack_entry e[SIDES])
{
	autoclose int a = stack_open_file(d->side[0], &e[0], d->path);
	autoclose int b = a < 0 ? a : stack_open_file(d->side[1], &e[1], d->path);

	return b < 0 ? b : same_content(a, b, d->bytes);
}

static int compare_links(struct differ *d, const struct stack_entry e[SIDES])
{
	char *a = (char *)d->bytes, *b = a + READ_BYTES;
	ssize_t n = stack_read_link(d->side[0], &e[0], d->path, a, READ_BYTES), m;

	if (n < 0)
		return (int)n;
	m = stack_read_link(d->side[1], &e[1], d->path, b, READ_BYTES);
	if (m < 0)
		return (int)m;
	return n == m && memcmp(a, b, (size_t)n) == 0;
}

/* ---- attributes ---- */

/* Files and directories only: what they are open with is their own. */
static int open_for_attrs(const struct stack *s, const struct stack_entry *e, const char *path)
{
	if (S_ISREG(e->st.st_mode))
		return stack_open_file(s, e, path);
	return fd_openat2(s->layers[e->layer].fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			  FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
}

/* Those that belong to the file and not to how it is stored. */
static bool is_compared(const char *name)
{
	return (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) ||
	       strcmp(name, "security.capability") == 0 ||
	       strncmp(name, "system.posix_acl_", 17) == 0;
}

/* Has b all that a has? *ret_count: how many those are. */
static int attrs_within(int a, int b, size_t *ret_count)
{
	autofree char *names = malloc(DIFF_ATTRS_MAX), *x = malloc(DIFF_ATTRS_MAX),
		      *y = malloc(DIFF_ATTRS_MAX);
	ssize_t len, n, m;

	*ret_count = 0;
	if (!names || !x || !y)
		return -ENOMEM;
	len = flistxattr(a, names, DIFF_ATTRS_MAX);
	if (len < 0)
		return errno == EOPNOTSUPP ? 1 : -errno;
	for (const char *at = names; at < names + len; at += strlen(at) + 1) {
		if (!is_compared(at))
			continue;
		n = fgetxattr(a, at, x, DIFF_ATTRS_MAX);
		m = fgetxattr(b, at, y, DIFF_ATTRS_MAX);
		if (n < 0 || n != m || memcmp(x, y, (size_t)n) != 0)
			return 0;
		++*ret_count;
	}
	return 1;
}

static int compare_attrs(struct differ *d, const struct stack_entry e[SIDES])
{
	autoclose int a = -1, b = -1;
	size_t in_a, in_b;
	int r;

	if (!S_ISREG(e[0].st.st_mode) && !S_ISDIR(e[0].st.st_mode))
		return 1;
	a = open_for_attrs(d->side[0], &e[0], d->path);
	b = a < 0 ? a : open_for_attrs(d->side[1], &e[1], d->path);
	if (b < 0)
		return b;
	r = attrs_within(a, b, &in_a);
	if (r > 0)
		r = attrs_within(b, a, &in_b);
	return r;
}

/* ---- one name ---- */

static bool is_foreign(const struct differ *d, int side, const struct stack_entry *e)
{
	return d->side[side]->layers[e->layer].foreign;
}

/* What differs between two entries of one path, or -errno. */
static int compare(struct differ *d, const struct stack_entry e[SIDES])
{
	const struct stat *a = &e[0].st, *b = &e[1].st;
	unsigned what = 0;
	int same = 1;

	if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
		return DIFF_TYPE;
	if (is_one(d, &e[0], &e[1]))
		return 0;
	if (!S_ISLNK(a->st_mode) && (a->st_mode & 07777) != (b->st_mode & 07777))
		what |= DIFF_MODE;
	if ((a->st_uid != b->st_uid || a->st_gid != b->st_gid) &&
	    is_foreign(d, 0, &e[0]) == is_foreign(d, 1, &e[1]))
		what |= DIFF_OWNER;
	if (S_ISREG(a->st_mode))
		same = a->st_size != b->st_size ? 0 : compare_files(d, e);
	else if (S_ISLNK(a->st_mode))
		same = compare_links(d, e);
	else if (S_ISCHR(a->st_mode) || S_ISBLK(a->st_mode))
		same = a->st_rdev == b->st_rdev;
	if (same < 0)
		return same;
	if (!same)
		what |= DIFF_CONTENT;
	same = compare_attrs(d, e);
	if (same < 0)
		return same;
	return (int)(what | (same ? 0 : DIFF_ATTRS));
}

/* Is the path one that is asked for, or below one? *ret_above: such a one is below it. */
static bool is_wanted(const struct differ *d, bool *ret_above)
{
	const struct diff_job *j = d->job;
	bool wanted = !j->only;

	*ret_above = false;
	for (size_t i = 0; i < j->only_count && !wanted; i++) {
		wanted = path_is_within(d->path, j->only[i]);
		*ret_above |= path_is_within(j->only[i], d->path);
	}
	return wanted;
}

static int emit(struct differ *d, unsigned what, const struct stack_entry *before,
		const struct stack_entry *after, bool deep)
{
	const struct diff_change c = {
		.kind = !before	 ? DIFF_ADDED
			: !after ? DIFF_REMOVED
				 : DIFF_CHANGED,
		.what = what,
		.path = d->path,
		.before = before,
		.after = after,
		.deep = deep,
	};

	return d->job->on_change(d->job->arg, &c);
}

/* ---- directories ---- */

static void close_dirs(struct differ *d)
{
	for (int i = 0; d->is_open && i < SIDES; i++)
		stack_dir_done(&d->dir[i]);
	d->is_open = false;
}

static void open_dirs(struct differ *d)
{
	const struct diff_frame *f = &d->frames[d->depth - 1];

	d->path[f->path_len] = 0;
	if (d->is_open)
		return;
	for (int i = 0; i < SIDES; i++)
		stack_dir_init(&d->dir[i], d->side[i], d->path, &f->in[i]);
	d->is_open = true;
}

/* The names of one side's layers from `first` on, up to `end`. */
static int gather(struct differ *d, int side, size_t first, size_t end, struct stack_names *to)
{
	int r = 0;

	for (size_t i = first; i < end && r == 0; i++)
		if (stack_set_has(&d->dir[side].in, i))
			r = stack_dir_names(&d->dir[side], i, to);
	return r;
}

/* Goes into the directory at d->path, which is made of these layers. */
static int push(struct differ *d, const struct stack_set in[SIDES])
{
	bool all = !is_common_same(d, in);
	struct diff_frame *f;
	int r = 0;

	if (!all && !has_own(d, 0, &in[0]) && !has_own(d, 1, &in[1]))
		return 0;
	if (d->depth == d->room) {
		size_t room = d->room ? d->room * 2 : 16;
		struct diff_frame *grown = realloc(d->frames, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		d->frames = grown;
		d->room = room;
	}
	close_dirs(d);
	f = &d->frames[d->depth++];
	*f = (struct diff_frame){.in = {in[0], in[1]}, .path_len = strlen(d->path)};
	f->names.held = &d->held;
	open_dirs(d);
	for (int i = 0; i < SIDES && r == 0; i++)
		r = gather(d, i, 0, all ? d->side[i]->count : own_count(d, i), &f->names);
	return r < 0 ? r : stack_names_sort(&f->names);
}

static void pop(struct differ *d)
{
	close_dirs(d);
	stack_names_done(&d->frames[--d->depth].names);
}

/* Which layers the subdirectory is made of on each side that has one. */
static int enter_sets(struct differ *d, const char *name, const struct stack_entry e[SIDES],
		      const bool has[SIDES], struct stack_set ret[SIDES])
{
	int r = 0;

	for (int i = 0; i < SIDES && r == 0; i++) {
		ret[i] = (struct stack_set){0};
		if (has[i] && S_ISDIR(e[i].st.st_mode))
			r = stack_dir_enter(&d->dir[i], name, &e[i], &ret[i]);
	}
	return r;
}

/* Adds the name to the path: false where it does not fit. */
static bool path_push(struct differ *d, const char *name)
{
	size_t len = strlen(d->path), n = strlen(name);

	if (len + n + 2 > sizeof(d->path))
		return false;
	if (len)
		d->path[len++] = '/';
	memcpy(d->path + len, name, n + 1);
	return true;
}

static int visit(struct differ *d, const char *name)
{
	struct stack_entry e[SIDES];
	struct stack_set in[SIDES] = {0};
	struct diff_frame *f = &d->frames[d->depth - 1];
	bool has[SIDES], above, wanted;
	int r = 0, what = 0;

	for (int i = 0; i < SIDES; i++) {
		r = stack_dir_find(&d->dir[i], name, &e[i]);
		if (r < 0 && r != -ENOENT)
			return r;
		has[i] = r == 0;
	}
	if (!has[0] && !has[1])
		return 0;
	/* While its parent's directories are open and the path is still the parent's. */
	r = enter_sets(d, name, e, has, in);
	if (r < 0)
		return r;
	if (!path_push(d, name)) { /* the parent is named instead, once */
		if (f->is_deep)
			return 0;
		f->is_deep = true;
		return emit(d, 0, has[0] ? &e[0] : NULL, has[1] ? &e[1] : NULL, true);
	}
	wanted = is_wanted(d, &above);
	if (has[0] && has[1] && wanted)
		what = compare(d, e);
	if (what < 0)
		return what;
	if (wanted && (what || !has[0] || !has[1]))
		r = emit(d, (unsigned)what, has[0] ? &e[0] : NULL, has[1] ? &e[1] : NULL, false);
	if (r == 0 && (wanted || above) && (has_any(d, 0, &in[0]) || has_any(d, 1, &in[1])))
		r = push(d, in);
	return r;
}

static int walk(struct differ *d)
{
	int r = 0;

	while (d->depth > 0 && r == 0) {
		struct diff_frame *f = &d->frames[d->depth - 1];

		if (f->next == f->names.count) {
			pop(d);
			continue;
		}
		if (++d->seen % SEEN_STEP == 0 && d->job->on_progress)
			r = d->job->on_progress(d->job->arg, d->seen);
		open_dirs(d);
		if (r == 0)
			r = visit(d, f->names.list[f->next++]);
	}
	return r;
}

static int explain(const struct differ *d, int r, struct err *e)
{
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "the directories on the way to '%.100s' have more names than %u MiB",
			       d->path, STACK_NAMES_MAX >> 20);
	return err_errno(e, -r, "compare '%.140s'", d->path);
}

int diff_entries(const struct stack *a, const struct stack_entry *x, const struct stack *b,
		 const struct stack_entry *y, const char *path)
{
	const struct stack_entry both[SIDES] = {*x, *y};
	struct differ *d = calloc(1, sizeof(*d));
	int r;

	if (d)
		d->bytes = malloc((size_t)2 * READ_BYTES);
	if (!d || !d->bytes || !str_copy(d->path, sizeof(d->path), path)) {
		r = d && d->bytes ? -ENAMETOOLONG : -ENOMEM;
	} else {
		d->side[0] = a;
		d->side[1] = b;
		d->common = count_common(a, b);
		r = compare(d, both);
	}
	if (d)
		free(d->bytes);
	free(d);
	return r;
}

int diff_trees(const struct diff_job *job, struct err *e)
{
	struct differ *d;
	struct stack_set in[SIDES];
	int r;

	if (job->before->count > STACK_LAYERS_MAX || job->after->count > STACK_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %u layers", STACK_LAYERS_MAX);
	d = calloc(1, sizeof(*d));
	if (d)
		d->bytes = malloc((size_t)2 * READ_BYTES);
	if (!d || !d->bytes) {
		free(d);
		return err_errno(e, ENOMEM, "compare");
	}
	d->job = job;
	d->side[0] = job->before;
	d->side[1] = job->after;
	d->common = count_common(job->before, job->after);
	for (int i = 0; i < SIDES; i++)
		stack_root_set(d->side[i], &in[i]);
	r = push(d, in);
	if (r == 0)
		r = walk(d);
	if (r < 0)
		explain(d, r, e);
	while (d->depth > 0)
		pop(d);
	close_dirs(d);
	free(d->frames);
	free(d->bytes);
	free(d);
	return r;
}
