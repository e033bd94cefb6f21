/* The child that reads what a box changed in a host directory; see merge_send.h. */
#include "core/merge_send.h"

#include "base/fd.h"
#include "base/inodes.h"
#include "core/merge.h"
#include "core/reader.h"
#include "storage/diff.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DATA_STEP = 64 << 10 };

struct sending {
	const struct merge_send *job;
	int out;
	char way[STACK_PATH_MAX + 1]; /* the directory that was sent last, with those above */
	size_t hides_from;    /* its length up to the first that hides the host's; 0: none */
	struct inodes linked; /* files with several names that were sent */
};

/* What has this attribute overlayfs copied from the directory, from the file that it names; else
 * the box made it. */
static uint8_t find_origin(int fd, uint8_t ret[ORIGIN_MAX])
{
	ssize_t n = fgetxattr(fd, "user.overlay.origin", ret, ORIGIN_MAX);

	return n > ORIGIN_HANDLE ? (uint8_t)n : 0;
}

/* What the box wrote has this directory as; where it wrote nothing, the host's shows. */
static int send_dir(struct sending *s, size_t len)
{
	autoclose int fd =
		fd_openat2(s->job->tree->copy[0].fd, s->way, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			   FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	struct merge_dir d = {0};
	char opaque = 0;

	if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
		return fd;
	if (fd >= 0) {
		d.origin_len = find_origin(fd, d.origin);
		(void)fgetxattr(fd, "user.overlay.opaque", &opaque, 1);
	}
	if (!s->hides_from && (fd == -ENOTDIR || fd == -ELOOP || opaque == 'y'))
		s->hides_from = len;
	d.hides = s->hides_from != 0;
	return reader_send(s->out, MERGE_DIR, &d, sizeof(d), s->way, len);
}

/* The directories on the way to a path, each once. */
static int send_way(struct sending *s, const char *path)
{
	int r = 0;

	for (size_t len = 0; path[len] && r == 0; len++) {
		if (path[len] != '/' ||
		    (strncmp(s->way, path, len) == 0 && (s->way[len] == '/' || s->way[len] == 0)))
			continue;
		if (s->hides_from >= len || strncmp(s->way, path, s->hides_from) != 0 ||
		    path[s->hides_from] != '/')
			s->hides_from = 0;
		memcpy(s->way, path, len);
		s->way[len] = 0;
		r = send_dir(s, len);
	}
	return r;
}

static int send_file(struct sending *s, int fd, off_t size)
{
	uint8_t bytes[sizeof(uint64_t) + DATA_STEP];
	int r = 0;

	for (off_t at = lseek(fd, 0, SEEK_DATA); at >= 0 && at < size && r == 0;) {
		off_t stop = lseek(fd, at, SEEK_HOLE);

		stop = stop < 0 || stop > size ? size : stop;
		while (at < stop && r == 0) {
			size_t want = stop - at < DATA_STEP ? (size_t)(stop - at) : DATA_STEP;
			ssize_t n = pread(fd, bytes + sizeof(uint64_t), want, at);
			uint64_t offset = (uint64_t)at;

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : -ESTALE;
			memcpy(bytes, &offset, sizeof(offset));
			r = reader_send(s->out, MERGE_DATA, bytes, sizeof(offset) + (size_t)n, NULL,
					0);
			at += n;
		}
		at = lseek(fd, at, SEEK_DATA);
	}
	return r;
}

/* Did its bytes come under another name? What is left out by its name brings none. */
static int is_sent(struct sending *s, const struct merge_head *h, const char *path)
{
	int r;

	if (!h->ino || inodes_find(&s->linked, h->dev, h->ino))
		return h->ino != 0;
	r = merge_why_left_out(s->job->tree->copy[1].fd, path, h->after_mode, NULL, s->job->trusted)
		    ? 0
		    : inodes_add(&s->linked, h->dev, h->ino, "");
	return r == -ENOSPC ? -E2BIG : r;
}

static uint64_t ctime_of(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;
}

static int on_tree_change(void *arg, const struct diff_change *c)
{
	struct sending *s = arg;
	const struct stack after = {.layers = s->job->tree->copy,
				    .count = s->job->tree->copy_count};
	struct merge_head h = {.kind = (uint8_t)c->kind,
			       .what = (uint8_t)c->what,
			       .deep = c->deep,
			       .before_mode = c->before ? c->before->st.st_mode : 0,
			       .after_mode = c->after ? c->after->st.st_mode : 0,
			       .size = c->after ? (uint64_t)c->after->st.st_size : 0,
			       .box_ino = c->after ? c->after->st.st_ino : 0,
			       .box_ctime_ns = c->after ? ctime_of(&c->after->st) : 0};
	bool is_new = c->kind == DIFF_ADDED || c->what & (DIFF_TYPE | DIFF_CONTENT);
	autoclose int fd = -1;
	char target[MERGE_LINK_MAX + 1];
	ssize_t n;
	int r = c->before && !c->deep ? send_way(s, c->path) : 0;

	if (r < 0)
		return r;
	if (c->after && !c->deep && S_ISREG(c->after->st.st_mode)) {
		fd = stack_open_file(&after, c->after, c->path);
		if (fd < 0)
			return fd;
		h.origin_len = find_origin(fd, h.origin);
		h.birth_ns = fd_birth_ns(fd);
	}
	if (fd >= 0 && is_new && c->after->st.st_nlink > 1) {
		h.dev = c->after->st.st_dev;
		h.ino = c->after->st.st_ino;
	}
	r = reader_send(s->out, MERGE_CHANGE, &h, sizeof(h), c->path, strlen(c->path));
	if (r == 0 && c->after && S_ISLNK(c->after->st.st_mode) && !c->deep) {
		n = stack_read_link(&after, c->after, c->path, target, sizeof(target));
		r = n < 0 ? (int)n : reader_send(s->out, MERGE_LINK, target, (size_t)n, NULL, 0);
	}
	if (r == 0 && fd >= 0 && is_new && s->job->wants_data) {
		r = is_sent(s, &h, c->path);
		if (r == 0)
			r = send_file(s, fd, c->after->st.st_size);
	}
	return r < 0 ? r : reader_send(s->out, MERGE_END, NULL, 0, NULL, 0);
}

int merge_send(const struct merge_send *m, int out, struct err *e)
{
	size_t count = m->tree->copy_count;
	const struct stack before = {.layers = m->tree->copy + count - 1, .count = 1};
	const struct stack after = {.layers = m->tree->copy, .count = count};
	struct sending s = {.job = m, .out = out};
	const struct diff_job job = {.before = &before,
				     .after = &after,
				     .only = m->only,
				     .only_count = m->only_count,
				     .on_change = on_tree_change,
				     .arg = &s};
	int r = diff_trees(&job, e);

	inodes_done(&s.linked);
	return r;
}
