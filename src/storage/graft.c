/*
 * A merge of three trees as a layer; see graft.h.
 *
 * How it works: what differs between base and theirs is listed (diff.h), and each path of it is
 * looked up in ours. What is taken is copied into the layer: a file whole, a link, a directory with
 * its mode and owner, and where something goes a whiteout, of a directory one for all of it.
 * Directories on the way are those of ours, so that nothing else about them changes.
 *
 * The layer is written relative to its root, where no one else writes, and sources are read as
 * stack.h says.
 */
#include "storage/graft.h"

#include "base/fd.h"
#include "base/inodes.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { COPY_BYTES = 128 << 10 };
#define GRAFT_STAY (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV)

struct grafting {
	const struct graft_job *job;
	bool has_conflict;
	char gone[STACK_PATH_MAX + 1]; /* a directory that goes: what is below went with it */
	bool has_gone;
	char made[STACK_PATH_MAX +
		  1]; /* a directory that is taken: it is there for what is below */
	bool has_made;
	struct inodes linked; /* files with several names, and where in the layer each is */
	uint64_t written;
	/* What a change is looked up in: ours, the directories that changes are in, and those on
	 * the way to one that is written. */
	struct stack_finder ours, base_dirs, our_dirs, our_way, their_way;
	char *bytes;   /* owned */
	bool is_there; /* ours has something at the path that is looked at */
};

/* ---- attributes ---- */

static bool is_carried(const char *name)
{
	return (str_starts(name, "user.") && !str_starts(name, "user.overlay.")) ||
	       strcmp(name, "security.capability") == 0 || str_starts(name, "system.posix_acl_");
}

static int copy_attrs(struct grafting *g, int from, int to)
{
	autofree char *names = malloc(DIFF_ATTRS_MAX);
	ssize_t len = names ? flistxattr(from, names, DIFF_ATTRS_MAX) : -1, n;

	if (!names)
		return -ENOMEM;
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *at = names; at < names + len; at += strlen(at) + 1) {
		if (!is_carried(at))
			continue;
		n = fgetxattr(from, at, g->bytes, COPY_BYTES);
		if (n < 0 || fsetxattr(to, at, g->bytes, (size_t)n, 0) < 0)
			return -errno;
	}
	return 0;
}

/* Owner first: changing it takes set-user-ID bits and capabilities away. */
static int copy_meta(struct grafting *g, int from, int to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r;

	if (fchown(to, st->st_uid, st->st_gid) < 0 || fchmod(to, st->st_mode & 07777) < 0)
		return -errno;
	r = from < 0 ? 0 : copy_attrs(g, from, to);
	if (r == 0 && futimens(to, times) < 0)
		r = -errno;
	return r;
}

/* ---- directories ---- */

static int open_dir(const struct stack *s, const struct stack_entry *e, const char *path)
{
	return fd_openat2(s->layers[e->layer].fd, *path ? path : ".",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, GRAFT_STAY);
}

/* A directory of the layer with what it is in a stack; one that is there stays as it is. */
static int make_dir(struct grafting *g, int parent, const char *name, const struct stack *s,
		    const char *path, const struct stack_entry *e)
{
	autoclose int from = open_dir(s, e, path), to = -1;

	if (from < 0)
		return from;
	if (mkdirat(parent, name, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	to = fd_openat2(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, GRAFT_STAY);
	return to < 0 ? to : copy_meta(g, from, to, &e->st);
}

/* The layer's own root is what that of ours is, if there is any: what a box writes above it takes
 * owner and mode from that. */
static int set_root(struct grafting *g)
{
	const struct stack *s = g->job->ours;
	struct stack_entry e;
	int r = stack_find(s, "", &e);
	autoclose int from = r < 0 ? -1 : open_dir(s, &e, "");

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return from < 0 ? from : copy_meta(g, from, g->job->layer_fd, &e.st);
}

/* As ours has it; where ours has none, as theirs. */
static int make_on_way(struct grafting *g, int parent, const char *name, const char *path)
{
	const struct stack *s = g->job->ours;
	struct stack_entry e;
	int r = stack_finder_find(&g->our_way, path, &e);

	if (r == -ENOENT || (r == 0 && !S_ISDIR(e.st.st_mode))) {
		s = g->job->theirs;
		r = stack_finder_find(&g->their_way, path, &e);
	}
	if (r == 0 && !S_ISDIR(e.st.st_mode))
		r = -ENOTDIR;
	return r < 0 ? r : make_dir(g, parent, name, s, path, &e);
}

/* The layer's directory that path lies in, made where it is missing. */
static int open_parent(struct grafting *g, const char *path, const char **ret_name)
{
	char text[STACK_PATH_MAX + 1], *at = text;
	autoclose int fd = fd_copy(g->job->layer_fd, 3);

	if (!str_copy(text, sizeof(text), path))
		return -ENAMETOOLONG;
	for (char *slash; fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
		int next, r;

		*slash = 0;
		next = fd_openat2(fd, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, GRAFT_STAY);
		if (next == -ENOENT) {
			r = make_on_way(g, fd, at, text);
			next = r < 0 ? r
				     : fd_openat2(fd, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
						  GRAFT_STAY);
		}
		*slash = '/';
		close(fd);
		fd = next;
	}
	*ret_name = path + (at - text);
	return take_fd(fd);
}

/* ---- files ---- */

static int copy_part(struct grafting *g, int from, int to, off_t at, off_t end)
{
	while (at < end) {
		size_t want = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
		ssize_t n = pread(from, g->bytes, want, at), done = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		g->written += (uint64_t)n;
		if (g->job->bytes_max && g->written > g->job->bytes_max)
			return -EDQUOT;
		while (done < n) {
			ssize_t put = pwrite(to, g->bytes + done, (size_t)(n - done), at + done);

			if (put < 0 && errno != EINTR)
				return -errno;
			done += put > 0 ? put : 0;
		}
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_bytes(struct grafting *g, int from, int to, off_t size)
{
	off_t at = lseek(from, 0, SEEK_DATA), end;
	int r = ftruncate(to, size) < 0 ? -errno : 0;

	while (at >= 0 && at < size && r == 0) {
		end = lseek(from, at, SEEK_HOLE);
		end = end < 0 || end > size ? size : end;
		r = copy_part(g, from, to, at, end);
		at = lseek(from, end, SEEK_DATA);
	}
	return r;
}

/* Another name of a file that the layer has already. -ENOENT: it has it not, or the kernel cannot
 * link across directories here (Landlock before ABI 2). */
static int put_name(struct grafting *g, int parent, const char *name, const struct stack_entry *e)
{
	const char *first =
		e->st.st_nlink > 1 ? inodes_find(&g->linked, e->st.st_dev, e->st.st_ino) : NULL;

	if (!first)
		return -ENOENT;
	if (linkat(g->job->layer_fd, first, parent, name, 0) == 0)
		return 0;
	return errno == EXDEV || errno == EMLINK || errno == ENAMETOOLONG ? -ENOENT : -errno;
}

static int put_file(struct grafting *g, int parent, const char *name, const char *path,
		    const struct stack_entry *e)
{
	autoclose int from = -1, to = -1;
	int r = put_name(g, parent, name, e);

	if (r != -ENOENT)
		return r;
	from = stack_open_file(g->job->theirs, e, path);
	if (from < 0)
		return from;
	to = fd_openat2(parent, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600,
			GRAFT_STAY);
	if (to < 0)
		return to;
	r = copy_bytes(g, from, to, e->st.st_size);
	if (r == 0)
		r = copy_meta(g, from, to, &e->st);
	/* One that does not fit any more is a file of its own, which bytes_max bounds. */
	if (r == 0 && e->st.st_nlink > 1 && !inodes_find(&g->linked, e->st.st_dev, e->st.st_ino))
		r = inodes_add(&g->linked, e->st.st_dev, e->st.st_ino, path);
	return r == -ENOSPC ? 0 : r;
}

static int put_link(struct grafting *g, int parent, const char *name, const char *path,
		    const struct stack_entry *e)
{
	const struct timespec times[2] = {e->st.st_atim, e->st.st_mtim};
	ssize_t n = stack_read_link(g->job->theirs, e, path, g->bytes, COPY_BYTES);

	if (n < 0)
		return (int)n;
	if (symlinkat(g->bytes, parent, name) < 0 ||
	    fchownat(parent, name, e->st.st_uid, e->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* A FIFO or a socket, which is nothing but its name; devices an unprivileged one cannot make. */
static int put_node(int parent, const char *name, const struct stack_entry *e)
{
	if (mknodat(parent, name, e->st.st_mode & (S_IFMT | 07777), e->st.st_rdev) < 0 ||
	    fchownat(parent, name, e->st.st_uid, e->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int put(struct grafting *g, const struct diff_change *c)
{
	const char *name;
	autoclose int parent = open_parent(g, c->path, &name);

	if (parent < 0)
		return parent;
	if (!c->after)
		return mknodat(parent, name, S_IFCHR, 0) < 0 ? -errno : 0;
	if (S_ISDIR(c->after->st.st_mode))
		return make_dir(g, parent, name, g->job->theirs, c->path, c->after);
	if (S_ISREG(c->after->st.st_mode))
		return put_file(g, parent, name, c->path, c->after);
	if (S_ISLNK(c->after->st.st_mode))
		return put_link(g, parent, name, c->path, c->after);
	return put_node(parent, name, c->after);
}

/* ---- judging ---- */

static int stop_at_first(void *arg, const struct diff_change *c)
{
	bool *is_found = arg;

	*is_found = c->kind != DIFF_REMOVED;
	return *is_found ? -ECANCELED : 0;
}

/* Has ours anything at or below a path that base has not so? */
static int has_more(struct grafting *g, const char *path, bool *ret, struct err *e)
{
	const char *const only[] = {path};
	const struct diff_job job = {.before = g->job->base,
				     .after = g->job->ours,
				     .only = only,
				     .only_count = 1,
				     .on_change = stop_at_first,
				     .arg = ret};
	int r;

	*ret = false;
	r = diff_trees(&job, e);
	return *ret ? 0 : r;
}

/* In base its directory is there: ours has removed it, or made it something else. */
static int lost_parent(struct grafting *g, const char *path, bool *ret)
{
	char text[STACK_PATH_MAX + 1], *slash;
	struct stack_entry was, is;
	int r;

	*ret = false;
	if (!str_copy(text, sizeof(text), path) || !(slash = strrchr(text, '/')))
		return 0;
	*slash = 0;
	r = stack_finder_find(&g->base_dirs, text, &was);
	if (r == -ENOENT || (r == 0 && !S_ISDIR(was.st.st_mode)))
		return 0;
	if (r == 0)
		r = stack_finder_find(&g->our_dirs, text, &is);
	*ret = r == -ENOENT || (r == 0 && !S_ISDIR(is.st.st_mode));
	return r == -ENOENT ? 0 : r;
}

/* Has ours something else where the path needs a directory? Base may have nothing there. */
static int is_in_way(struct grafting *g, const char *path, bool *ret)
{
	char text[STACK_PATH_MAX + 1], *slash;
	struct stack_entry is;
	int r = -ENOENT;

	*ret = false;
	if ((g->has_made && path_is_within(path, g->made)) || !str_copy(text, sizeof(text), path))
		return 0;
	while (r == -ENOENT && (slash = strrchr(text, '/'))) {
		*slash = 0;
		r = stack_finder_find(&g->our_dirs, text, &is);
	}
	*ret = r == 0 && !S_ISDIR(is.st.st_mode);
	return r == -ENOENT ? 0 : r;
}

/* The same on both sides? x or y NULL: there is none. */
static int is_same(const struct stack *a, const struct stack_entry *x, const struct stack *b,
		   const struct stack_entry *y, const char *path)
{
	int r;

	if (!x || !y)
		return !x && !y;
	r = diff_entries(a, x, b, y, path);
	return r < 0 ? r : r == 0;
}

/* Why a change cannot simply be taken; NULL: it can. *ret_needless: ours has it already. */
static int find_conflict(struct grafting *g, const struct diff_change *c, bool *ret_needless,
			 const char **ret_why, struct err *e)
{
	const struct graft_job *j = g->job;
	struct stack_entry found;
	const struct stack_entry *now = &found;
	bool is_lost, is_blocked = false, is_more = false;
	int r = stack_finder_find(&g->ours, c->path, &found);

	*ret_why = NULL;
	*ret_needless = false;
	g->is_there = r == 0;
	if (r == -ENOENT)
		now = NULL;
	else if (r < 0)
		return r;
	r = is_same(j->ours, now, j->theirs, c->after, c->path);
	if (r != 0) {
		*ret_needless = r > 0;
		return r < 0 ? r : 0;
	}
	r = is_same(j->base, c->before, j->ours, now, c->path);
	if (r < 0)
		return r;
	/* Directories that both have are not contents. */
	if (r == 0 && !(now && c->before && c->after && S_ISDIR(now->st.st_mode) &&
			S_ISDIR(c->before->st.st_mode) && S_ISDIR(c->after->st.st_mode) &&
			!(c->what & (DIFF_MODE | DIFF_OWNER))))
		*ret_why = "both changed it";
	r = lost_parent(g, c->path, &is_lost);
	if (r < 0)
		return r;
	if (is_lost)
		*ret_why = "its directory is gone on the other side";
	else if (c->after)
		r = is_in_way(g, c->path, &is_blocked);
	if (r < 0)
		return r;
	if (is_blocked)
		*ret_why = "the other side has something else in place of its directory";
	/* A directory that goes takes all of it along. */
	if (!*ret_why && c->before && S_ISDIR(c->before->st.st_mode) &&
	    (!c->after || !S_ISDIR(c->after->st.st_mode))) {
		r = has_more(g, c->path, &is_more, e);
		if (r == 0 && is_more)
			*ret_why = "the other side has changes in it";
	}
	return r;
}

static int say(struct grafting *g, enum graft_state state, const struct diff_change *c,
	       const char *why)
{
	/* What is new in a fork may take the place of something in its box. */
	bool replaces = state == GRAFT_TAKEN && c->kind == DIFF_ADDED && g->is_there;
	const struct graft_item item = {.state = state,
					.kind = replaces ? DIFF_CHANGED : c->kind,
					.path = c->path,
					.why = why};

	g->has_conflict |= state == GRAFT_CONFLICT;
	return g->job->on_item(g->job->arg, &item);
}

static bool goes_away(const struct diff_change *c)
{
	return c->before && S_ISDIR(c->before->st.st_mode) &&
	       (!c->after || !S_ISDIR(c->after->st.st_mode));
}

static int take(struct grafting *g, const struct diff_change *c)
{
	int r = say(g, GRAFT_TAKEN, c, NULL);

	if (c->after && S_ISDIR(c->after->st.st_mode) &&
	    !(g->has_made && path_is_within(c->path, g->made)))
		g->has_made = str_copy(g->made, sizeof(g->made), c->path);
	if (r < 0 || g->job->layer_fd < 0 || g->has_conflict)
		return r;
	/* Below a directory that went nothing is left to be hidden. */
	if (!c->after && g->has_gone && path_is_within(c->path, g->gone))
		return 0;
	if (goes_away(c))
		g->has_gone = str_copy(g->gone, sizeof(g->gone), c->path);
	return put(g, c);
}

struct grafting_arg {
	struct grafting *g;
	struct err *e;
};

static int on_change(void *arg, const struct diff_change *c)
{
	struct grafting *g = ((struct grafting_arg *)arg)->g;
	const char *why = NULL;
	bool is_needless = false;
	int r = 0;

	if (c->deep)
		return say(g, GRAFT_LEFT_OUT, c, "its path is too long");
	r = find_conflict(g, c, &is_needless, &why, ((struct grafting_arg *)arg)->e);
	if (r < 0 || is_needless)
		return r;
	if (why && g->job->prefer == GRAFT_NEITHER)
		return say(g, GRAFT_CONFLICT, c, why);
	if (why && g->job->prefer == GRAFT_OURS)
		return say(g, GRAFT_LEFT_OUT, c, why);
	return take(g, c);
}

int graft(const struct graft_job *job, struct err *e)
{
	struct grafting g = {.job = job, .bytes = malloc(COPY_BYTES)};
	struct grafting_arg arg = {.g = &g, .e = e};
	const struct diff_job differ = {.before = job->base,
					.after = job->theirs,
					.only = job->only,
					.only_count = job->only_count,
					.on_change = on_change,
					.arg = &arg};
	int r = g.bytes ? 0 : err_errno(e, ENOMEM, "merge");

	stack_finder_init(&g.ours, job->ours);
	stack_finder_init(&g.base_dirs, job->base);
	stack_finder_init(&g.our_dirs, job->ours);
	stack_finder_init(&g.our_way, job->ours);
	stack_finder_init(&g.their_way, job->theirs);
	if (r == 0 && job->layer_fd >= 0) {
		r = set_root(&g);
		if (r < 0)
			r = err_errno(e, -r, "make the layer");
	}
	if (r == 0)
		r = diff_trees(&differ, e);
	if (r == -EDQUOT && job->bytes_max && g.written > job->bytes_max)
		r = err_set(e, ERR_LIMIT, EDQUOT,
			    "what is to be merged holds more than the fork's disk does (--disk): "
			    "many names of one file, each of which would become a file");
	stack_finder_done(&g.ours);
	stack_finder_done(&g.base_dirs);
	stack_finder_done(&g.our_dirs);
	stack_finder_done(&g.our_way);
	stack_finder_done(&g.their_way);
	inodes_done(&g.linked);
	free(g.bytes);
	return r;
}
