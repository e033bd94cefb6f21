/*
 * Texts in a file replaced, in a copy of init (work.h).
 *
 * How it works
 *
 *	read   the whole file, which must look like text and be as the asker says it is
 *	replace in memory, one edit after the other; the first that does not fit ends it all
 *	write  beside it under a name of its own, with its mode, owner and attributes
 *	look   whether the file is still the one that was read, and rename
 *
 * So a reader sees the old or the new content, and an edit that failed changed nothing. A final
 * link is followed. Other names of the file (hard links) keep the old content; an owner that the
 * user may not give files to is lost, as with most editors.
 *
 * A text is looked for as it was sent; where it has lines and is not there, with their ends as
 * CRLF, then as LF, and what replaces it gets the same. What is put into a file whose lines all end
 * with CRLF gets such ends too, unless the asker's old text shows that it knows of them.
 *
 * From the new name to the rename the process does not heed SIGTERM, by which an asker that gives
 * up ends it: so no temporary name stays, but where the box itself stops or kills the process then.
 */
#include "init/work.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/sha.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

enum { ATTRS_MAX = 64 << 10, READ_STEP = 1 << 20 };

struct edit_text {
	char *p; /* owned */
	size_t len;
};

struct editing {
	struct work *w;
	struct init_place place;
	int fd; /* owned; the file as it was */
	struct stat st;
	struct edit_text now;
	bool all_crlf;	 /* every line of the file ends so */
	unsigned number; /* of the edit at work, from 1 on */
};

static void text_done(struct edit_text *t)
{
	free(t->p);
	*t = (struct edit_text){0};
}

/* ---- the file ---- */

static int open_file(struct editing *d, struct err *e)
{
	const struct file_op *op = d->w->op;
	int r = init_place_find(op->path, PLACE_FOLLOW, &d->place);

	if (r < 0)
		return file_error(op, -r, "edit", "", e);
	if (fstatat(d->place.dir_fd, d->place.name, &d->st, AT_SYMLINK_NOFOLLOW) < 0)
		return file_error(op, errno, "edit", "", e);
	if (!S_ISREG(d->st.st_mode))
		return file_error_type(op, d->st.st_mode, "", e);
	if (faccessat(d->place.dir_fd, d->place.name, W_OK, 0) < 0)
		return file_error(op, errno, "edit", "", e);
	d->fd = openat(d->place.dir_fd, d->place.name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &d->st) < 0)
		return file_error(op, errno, "edit", "", e);
	if (!S_ISREG(d->st.st_mode))
		return file_error_type(op, d->st.st_mode, "", e);
	return 0;
}

static int read_file(struct editing *d, struct err *e)
{
	const struct file_op *op = d->w->op;
	size_t room = (size_t)d->st.st_size + 1;
	ssize_t n;

	if (d->st.st_size > (off_t)INIT_EDIT_FILE)
		return err_set(e, ERR_LIMIT, EFBIG, "'%.120s' has over %u MiB: too much to edit",
			       op->path, INIT_EDIT_FILE >> 20);
	d->now.p = malloc(room);
	if (!d->now.p)
		return err_errno(e, ENOMEM, "edit a file");
	n = fd_read_full(d->fd, d->now.p, room);
	if (n < 0)
		return file_error(op, (int)-n, "read", "", e);
	if (n != d->st.st_size)
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "'%.120s' was changed while it was read: nothing was edited",
			       op->path);
	d->now.len = (size_t)n;
	return 0;
}

static int check_file(struct editing *d, struct err *e)
{
	const struct wire_file *m = d->w->m;
	const struct edit_text *t = &d->now;
	size_t seen = t->len < INIT_SNIFF_BYTES ? t->len : INIT_SNIFF_BYTES;
	bool is_other;
	char hex[65];

	sha256_hex(t->p, t->len, hex);
	is_other = m->if_sha256 && strcmp(m->if_sha256, hex) != 0;
	if (m->if_mtime_ns)
		is_other = is_other || m->if_mtime_ns != work_mtime_ns(&d->st) ||
			   m->if_size != (uint64_t)d->st.st_size;
	if (is_other)
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "'%.120s' is not as it was: read it again, then edit",
			       d->w->op->path);
	if (memchr(t->p, 0, t->len) || work_is_binary(t->p, seen, seen == t->len))
		return err_set(e, ERR_INVALID, EILSEQ, "'%.120s' is not text", d->w->op->path);
	return 0;
}

/* ---- the texts ---- */

/* A copy with all ends of lines as CRLF or LF. */
static int with_ends(const char *s, bool crlf, struct edit_text *ret)
{
	char *to = malloc(2 * strlen(s) + 1), *at = to;

	if (!to)
		return -ENOMEM;
	for (; *s; s++) {
		if (s[0] == '\r' && s[1] == '\n')
			continue;
		if (*s == '\n' && crlf)
			*at++ = '\r';
		*at++ = *s;
	}
	*at = '\0';
	*ret = (struct edit_text){.p = to, .len = (size_t)(at - to)};
	return 0;
}

static size_t count_of(const struct edit_text *in, const struct edit_text *what)
{
	const char *at = in->p, *end = in->p + in->len;
	size_t count = 0;

	while ((at = memmem(at, (size_t)(end - at), what->p, what->len))) {
		at += what->len;
		count++;
	}
	return count;
}

static bool is_all_crlf(const struct edit_text *t)
{
	const char *at = t->p, *end = t->p + t->len;
	bool any = false;

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		if (at == t->p || at[-1] != '\r')
			return false;
		any = true;
		at++;
	}
	return any;
}

/* Every occurrence; count is how many there are. */
static int replace_all(struct editing *d, const struct edit_text *old, const struct edit_text *new,
		       size_t count, struct err *e)
{
	const char *at = d->now.p, *end = d->now.p + d->now.len, *next;
	size_t kept = d->now.len - count * old->len;
	char *to, *out;

	if (new->len > 0 && count > (INIT_EDIT_FILE - kept) / new->len)
		return err_set(e, ERR_LIMIT, EFBIG, "'%.120s' would have over %u MiB",
			       d->w->op->path, INIT_EDIT_FILE >> 20);
	to = out = malloc(kept + count * new->len + 1);
	if (!to)
		return err_errno(e, ENOMEM, "edit a file");
	while ((next = memmem(at, (size_t)(end - at), old->p, old->len))) {
		memcpy(out, at, (size_t)(next - at));
		out += next - at;
		memcpy(out, new->p, new->len);
		out += new->len;
		at = next + old->len;
	}
	memcpy(out, at, (size_t)(end - at));
	out += end - at;
	free(d->now.p);
	d->now = (struct edit_text){.p = to, .len = (size_t)(out - to)};
	d->w->summary.count += count;
	return 0;
}

static void note_line(struct editing *d, const struct edit_text *old)
{
	const char *first = memmem(d->now.p, d->now.len, old->p, old->len);
	uint64_t line = 1;

	for (const char *p = d->now.p; p < first; p++)
		line += *p == '\n';
	d->w->summary.first = line;
}

/* Finds the form of old that is there. *new gets the same form. */
static int choose(const struct editing *d, const char *old, const char *new,
		  struct edit_text found[2], size_t *ret_count)
{
	const bool crlf[] = {true, false};
	struct edit_text sent = {.p = (char *)(uintptr_t)old, .len = strlen(old)};
	bool knows = strchr(old, '\r') || strchr(new, '\r');
	int r;

	*ret_count = count_of(&d->now, &sent);
	if (*ret_count > 0) {
		found[0].p = strdup(old);
		found[0].len = sent.len;
		if (d->all_crlf && !knows)
			return found[0].p ? with_ends(new, true, &found[1]) : -ENOMEM;
		found[1].p = strdup(new);
		found[1].len = strlen(new);
		return found[0].p && found[1].p ? 0 : -ENOMEM;
	}
	for (int i = 0; i < 2 && *ret_count == 0 && strchr(old, '\n'); i++) {
		text_done(&found[0]);
		r = with_ends(old, crlf[i], &found[0]);
		if (r < 0)
			return r;
		*ret_count = count_of(&d->now, &found[0]);
		if (*ret_count > 0)
			return with_ends(new, crlf[i], &found[1]);
	}
	return 0;
}

static int edit_once(struct editing *d, bool all, const char *old, const char *new, struct err *e)
{
	struct edit_text found[2] = {0};
	size_t count = 0;
	int r = *old ? choose(d, old, new, found, &count) : -EINVAL;

	if (r < 0)
		err_errno(e, -r, "edit a file");
	else if (count == 0)
		r = err_set(e, ERR_NOT_FOUND, ENODATA, "edit %u: its text is not in '%.120s'",
			    d->number, d->w->op->path);
	else if (count > 1 && !all)
		r = err_set(e, ERR_CONFLICT, ENOTUNIQ,
			    "edit %u: its text is in '%.120s' %zu times: give more of what is "
			    "around it, or replace all",
			    d->number, d->w->op->path, count);
	else if (d->number == 1)
		note_line(d, &found[0]);
	if (r == 0)
		r = replace_all(d, &found[0], &found[1], count, e);
	text_done(&found[0]);
	text_done(&found[1]);
	return r;
}

static int edit_all(struct editing *d, struct err *e)
{
	const struct wire_list *l = &d->w->m->edits;
	uint32_t pos = 0;
	const char *how;
	int r = 0;

	if (l->count == 0 || l->count % 3 || l->count / 3 > INIT_EDITS_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "an edit has 1 to %u replacements",
			       INIT_EDITS_MAX);
	while (r == 0 && (how = wire_list_next(l, &pos))) {
		const char *old = wire_list_next(l, &pos), *new = wire_list_next(l, &pos);

		d->number++;
		d->all_crlf = is_all_crlf(&d->now);
		r = edit_once(d, strcmp(how, "all") == 0, old, new, e);
		if (r == 0 && work_is_late(d->w))
			r = work_fail_late(d->w, e);
	}
	return r;
}

/* ---- writing ---- */

/* Where possible, so nothing of this is an error. */
static void copy_attrs(int from, int to)
{
	char *names = malloc(ATTRS_MAX), *value = malloc(ATTRS_MAX);
	ssize_t n = names ? flistxattr(from, names, ATTRS_MAX) : -1, len;

	for (const char *at = names; value && n > 0 && at < names + n; at += strlen(at) + 1) {
		len = fgetxattr(from, at, value, ATTRS_MAX);
		if (len >= 0 && fsetxattr(to, at, value, (size_t)len, 0) < 0)
			continue;
	}
	free(names);
	free(value);
}

static int make_new(const struct editing *d, int fd)
{
	mode_t mode = d->st.st_mode & 07777;
	struct stat st;
	int r = fd_write_full(fd, d->now.p, d->now.len);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* The owner may not be the user's to give; then perhaps the group is, or neither. */
	if ((st.st_uid != d->st.st_uid || st.st_gid != d->st.st_gid) &&
	    fchown(fd, d->st.st_uid, d->st.st_gid) < 0 && fchown(fd, (uid_t)-1, d->st.st_gid) < 0)
		mode &= 0777;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != d->st.st_uid || st.st_gid != d->st.st_gid)
		mode &= 0777;
	copy_attrs(d->fd, fd);
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

static bool is_still_there(const struct editing *d)
{
	struct stat st;

	return fstatat(d->place.dir_fd, d->place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == d->st.st_dev && st.st_ino == d->st.st_ino &&
	       st.st_size == d->st.st_size && work_mtime_ns(&st) == work_mtime_ns(&d->st);
}

static int put_in_place(struct editing *d, const char *tmp, int fd, struct err *e)
{
	struct stat st;
	int r = make_new(d, fd);

	if (r < 0)
		return file_error(d->w->op, -r, "write", "", e);
	if (!is_still_there(d))
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "'%.120s' was changed meanwhile: nothing was edited",
			       d->w->op->path);
	if (renameat(d->place.dir_fd, tmp, d->place.dir_fd, d->place.name) < 0)
		return file_error(d->w->op, errno, "replace", "", e);
	if (fstat(fd, &st) == 0) {
		d->w->summary.size = (uint64_t)st.st_size;
		d->w->summary.mtime_ns = work_mtime_ns(&st);
	}
	return 0;
}

static int write_file(struct editing *d, struct err *e)
{
	char tmp[32], token[17];
	autoclose int fd = -1;
	sigset_t term;
	int r;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	rand_hex(token, 8);
	snprintf(tmp, sizeof(tmp), ".cove-put-%s", token);
	fd = openat(d->place.dir_fd, tmp,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	if (fd < 0)
		return file_error(d->w->op, errno, "write a file beside", "", e);
	r = put_in_place(d, tmp, fd, e);
	if (r < 0)
		unlinkat(d->place.dir_fd, tmp, 0);
	return r;
}

int tool_edit(struct work *w, struct err *e)
{
	struct editing d = {.w = w, .place = PLACE_NONE, .fd = -1};
	static char hex[65]; /* the summary borrows it */
	int r = open_file(&d, e);

	if (r == 0)
		r = read_file(&d, e);
	if (r == 0)
		r = check_file(&d, e);
	if (r == 0)
		r = edit_all(&d, e);
	if (r == 0)
		r = write_file(&d, e);
	if (r == 0) {
		sha256_hex(d.now.p, d.now.len, hex);
		w->summary.sha256 = hex;
	}
	text_done(&d.now);
	fd_close(&d.fd);
	init_place_done(&d.place);
	return r;
}
