/*
 * Files into a server's box: a tree of this host (core/host_walk.h) goes as a tar while it is read.
 * Hard links stay links; holes are zeros.
 *
 * One file goes as a tar too, into its directory: so it keeps its mode and time.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/carry.h"
#include "core/host_walk.h"
#include "remote/files.h"
#include "store/tar_write.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADS_MAX = 64 << 10, READ_PIECE = 128 << 10, REPORT_MS = 250 };

/* One tree under way. */
struct sending {
	struct remote_upload up;
	struct cove_copy how;
	struct buf heads;
	char name[NAME_MAX + 1]; /* of a file, instead of an empty path */
	struct host_walk walk;
	uint64_t bytes, files;
};

static int given_up(struct err *e)
{
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "the copy was given up");
}

static int report(struct sending *p, struct err *e)
{
	if (!p->how.progress || p->how.progress(p->how.arg, p->bytes, p->files))
		return 0;
	return given_up(e);
}

/* ---- as a tar ---- */

static int send_heads(struct sending *p, struct err *e)
{
	int r = remote_upload_piece(&p->up, buf_data(&p->heads), buf_len(&p->heads), e);

	buf_clear(&p->heads);
	return r;
}

static int send_entry(struct sending *p, enum tar_type type, const struct stat *st,
		      const char *target, struct err *e)
{
	struct tar_entry entry = {.type = type,
				  .path = *p->walk.path ? p->walk.path : p->name,
				  .target = target,
				  .mode = type == TAR_SYMLINK ? 0777 : st->st_mode & 0777,
				  .size = type == TAR_FILE ? (uint64_t)st->st_size : 0};

	if (st->st_mtim.tv_sec > 0) {
		entry.mtime_s = (uint64_t)st->st_mtim.tv_sec;
		entry.mtime_ns = (unsigned)st->st_mtim.tv_nsec;
	}
	if (tar_write_entry(&p->heads, &entry) < 0)
		return err_errno(e, ENOMEM, "send '%.150s'", p->walk.path);
	return send_heads(p, e);
}

/* A tar has said the size before: what a file lost since is an error, what it gained stays out. */
static int send_content(struct sending *p, int fd, uint64_t size, struct err *e)
{
	autofree uint8_t *piece = malloc(READ_PIECE);
	uint64_t left = size;
	int r = piece ? 0 : err_errno(e, ENOMEM, "send '%.150s'", p->walk.path);

	while (r == 0 && left > 0) {
		ssize_t n = fd_read_full(fd, piece, left < READ_PIECE ? (size_t)left : READ_PIECE);

		if (n < 0)
			return err_errno(e, (int)-n, "read '%.150s'", p->walk.path);
		if (n == 0)
			return err_set(e, ERR_CONFLICT, EAGAIN,
				       "'%.100s' became shorter while it was copied: copy it again",
				       p->walk.path);
		r = remote_upload_piece(&p->up, piece, (size_t)n, e);
		left -= (uint64_t)n;
		p->bytes += (uint64_t)n;
		if (r == 0)
			r = report(p, e);
	}
	p->files++;
	if (r == 0 && tar_write_pad(&p->heads, size) < 0)
		r = err_errno(e, ENOMEM, "send '%.150s'", p->walk.path);
	return r;
}

static int on_entry(void *arg, const struct host_entry *from, struct err *e)
{
	enum tar_type type = from->type == 'd'	 ? TAR_DIR
			     : from->type == 'l' ? TAR_SYMLINK
			     : from->type == 'h' ? TAR_HARDLINK
						 : TAR_FILE;
	struct sending *p = arg;
	int r = send_entry(p, type, from->st, from->target, e);

	if (r != 0 || type != TAR_FILE)
		return r;
	return send_content(p, from->fd, (uint64_t)from->st->st_size, e);
}

/* ---- the request ---- */

static int begin(struct sending *p, struct cove_box *box, const char *target, unsigned mode,
		 const struct cove_copy *how, struct err *e)
{
	struct remote_request q;
	char octal[16];
	int r = 0;

	*p = (struct sending){0};
	if (how)
		r = core_copy_sized(&p->how, sizeof(p->how), how, e);
	if (r < 0)
		return r;
	snprintf(octal, sizeof(octal), "%o", mode & 0777);
	remote_begin(&q, box->cove, "PUT", "/v1/boxes/{}/files", box->name);
	remote_query(&q, "path", target);
	remote_query(&q, "user", p->how.user);
	remote_query(&q, "mode", mode ? octal : NULL);
	buf_init(&p->heads, HEADS_MAX);
	return remote_upload_begin(&q, &p->up, e);
}

/* r > 0: the server had enough. How many entries were left out. */
static int end(struct sending *p, int r, struct err *e)
{
	struct remote_answer a;
	json_t *o = NULL;

	buf_done(&p->heads);
	if (r < 0) {
		remote_upload_drop(&p->up);
		return r;
	}
	r = remote_upload_end(&p->up, &a, e);
	if (r == 0)
		r = remote_answer_json(&a, &o, e);
	if (r == 0) {
		r = (int)(remote_number(o, "left_out") + p->walk.left_out);
		(void)report(p, NULL); /* too late to give it up */
	}
	json_decref(o);
	return r;
}

/* A tar of what is at fd, to a directory that is there. name: of a file in it. */
static int put_tree(struct cove_box *box, int fd, const char *dir, const char *name,
		    const struct cove_copy *how, struct err *e)
{
	struct sending p;
	int r = begin(&p, box, dir, 0, how, e);

	if (r < 0)
		return r;
	str_copy(p.name, sizeof(p.name), name);
	p.walk.on_entry = on_entry;
	p.walk.arg = &p;
	p.walk.how = &p.how;
	p.walk.has_hard_links = true;
	r = host_walk(&p.walk, fd, e);
	if (r == 0 && tar_write_end(&p.heads) < 0)
		r = err_errno(e, ENOMEM, "send a copy");
	if (r == 0)
		r = send_heads(&p, e);
	return end(&p, r, e);
}

/* The bytes of a descriptor, as they are. */
static int put_bytes(struct cove_box *box, int fd, const char *target, unsigned mode,
		     const struct cove_copy *how, struct err *e)
{
	autofree uint8_t *piece = malloc(READ_PIECE);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct sending p;
	ssize_t n = 1;
	int r = piece ? begin(&p, box, target, mode, how, e) : err_errno(e, ENOMEM, "send a file");

	if (r < 0)
		return r;
	while (r == 0 && n != 0) {
		r = report(&p, e);
		if (r < 0 || poll(&wait, 1, REPORT_MS) <= 0)
			continue;
		n = read(fd, piece, READ_PIECE);
		if (n > 0)
			r = remote_upload_piece(&p.up, piece, (size_t)n, e);
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			r = err_errno(e, errno, "read what is to be sent");
		p.bytes += n > 0 ? (uint64_t)n : 0;
	}
	p.files = 1;
	return end(&p, r, e);
}

/* ---- where it goes ---- */

int put_open(struct cove_box *box, const char *host_path, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;

	if (!host_path)
		return err_set(e, ERR_INVALID, EINVAL, "a path is missing");
	fd = open(host_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "read '%.100s'", host_path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(
			e, ERR_INVALID, EINVAL,
			"'%.150s' is neither a file nor a directory; give its bytes on stdin",
			host_path);
	*ret_fd = take_fd(fd);
	return 0;
}

/* Inside an existing directory, as with cp -r. */
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
	r = remote_probe(box, box_path, &type, e);
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

/* "a/b/" -> "a" and "b"; "b" -> "." and "b". False: there is no name in it. */
static bool split(const char *path, char dir[BOX_PATH_MAX], char name[NAME_MAX + 1])
{
	size_t n;
	char *slash;

	if (!str_copy(dir, BOX_PATH_MAX, path))
		return false;
	for (n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--)
		dir[n - 1] = 0;
	slash = strrchr(dir, '/');
	if (!path_is_safe_relative(path_base(dir)) ||
	    !str_copy(name, NAME_MAX + 1, path_base(dir)) || strcmp(name, "~") == 0)
		return false;
	if (!slash)
		str_copy(dir, BOX_PATH_MAX, ".");
	else
		slash[slash == dir ? 1 : 0] = 0;
	return true;
}

int put_at(struct cove_box *box, const char *host_path, const char *target,
	   const struct cove_copy *how, struct err *e)
{
	char dir[BOX_PATH_MAX], name[NAME_MAX + 1], type = 0;
	autoclose int fd = -1;
	struct stat st;
	int r = put_open(box, host_path, &fd, e);

	if (r == 0 && fstat(fd, &st) < 0)
		r = err_errno(e, errno, "read '%.100s'", host_path);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode)) {
		r = remote_probe(box, target, &type, e);
		if (r > 0 && type != 'd')
			return err_set(e, ERR_EXISTS, ENOTDIR,
				       "'%.150s' exists and is not a directory", target);
		if (r == 0)
			r = remote_make_dir(box, target, st.st_mode & 0777, how, e);
		return r < 0 ? r : put_tree(box, fd, target, "", how, e);
	}
	/* What is unpacked takes a link's place; what is written goes through it, as with cp. */
	r = remote_probe(box, target, &type, e);
	if (r < 0)
		return r;
	if ((r == 0 || type != 'l') && split(target, dir, name) &&
	    remote_probe(box, dir, &type, e) > 0 && type == 'd')
		return put_tree(box, fd, dir, name, how, e);
	return put_bytes(box, fd, target, st.st_mode & 0777, how, e);
}

int put_stream(struct cove_box *box, int fd, const char *box_path, unsigned mode,
	       const struct cove_copy *how, struct err *e)
{
	return put_bytes(box, fd, box_path, mode, how, e);
}

int cove_put(struct cove_box *box, const char *host_path, const char *box_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	char target[BOX_PATH_MAX];
	struct err e = {0};
	int r = put_target(box, host_path, box_path, how, false, target, &e);

	if (r == 0)
		r = put_at(box, host_path, target, how, &e);
	return remote_return(r, &e, err);
}

int cove_put_fd(struct cove_box *box, int fd, const char *box_path, unsigned mode,
		const struct cove_copy *how, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(put_bytes(box, fd, box_path, mode, how, &e), &e, err);
}

int carry_return(struct cove_box *box, int r, const struct err *e, struct cove_error *err)
{
	return remote_return(r, e, err);
}
