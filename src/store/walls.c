/* What is kept of walls; see walls.h. */
#include "store/walls.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALLS_DIR  "walls"
#define TRIED_FILE "tried"
#define KNOWN_FILE "known"
#define MIN_FILE   "min"
#define NEW_FILE   ".new"

enum { TRIED_MAX = WALLS_VERSION_MAX + 32, COPY_STEP = 1 << 20, PROGRAM_MAX = 1 << 30 };

/* walls/, or walls/<name>/; -errno. */
static int open_dir(struct state *s, const char *name, bool make)
{
	autoclose int dir = s->home_fd < 0 ? -ENOENT : fd_open_below(s->home_fd, WALLS_DIR, make);

	if (dir < 0 || !name)
		return dir < 0 ? dir : take_fd(dir);
	return fd_open_below(dir, name, make);
}

static int read_small(struct state *s, const char *name, const char *file, size_t max, char **ret)
{
	autoclose int dir = open_dir(s, name, false);

	return dir < 0 ? dir : fd_read_file(dir, file, max, ret, NULL);
}

int walls_tried(struct state *s, const char *name, struct walls_tried *ret, struct err *e)
{
	autofree char *text = NULL;
	int r = read_small(s, name, TRIED_FILE, TRIED_MAX, &text);
	char *version = r == 0 ? strchr(text, ' ') : NULL;

	if (r == -ENOENT)
		return r;
	if (version) {
		*version++ = 0;
		version[strcspn(version, "\n")] = 0;
	}
	if (r == 0 && (!version || !str_parse_u64(text, UINT64_MAX, &ret->start_us) ||
		       !str_copy(ret->version, sizeof(ret->version), version)))
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "what was noted of wall '%s' cannot be read; `cove wall add %s` "
			       "notes it again",
			       name, name);
	return r < 0 ? err_errno(e, -r, "read what is known of wall '%s'", name) : 0;
}

int walls_set_tried(struct state *s, const char *name, const struct walls_tried *t, struct err *e)
{
	autoclose int dir = open_dir(s, name, true);
	char text[TRIED_MAX];
	int n = snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)t->start_us,
			 t->version);
	int r = dir < 0 ? dir : fd_write_file(dir, TRIED_FILE, text, (size_t)n, 0600, true);

	return r < 0 ? state_error(s, -r, "keep what is known of a wall", e) : 0;
}

static int copy(int from, int to, off_t len)
{
	ssize_t n = 1;

	for (; len > 0 && n != 0; len -= n > 0 ? n : 0) {
		n = sendfile(to, from, NULL, len < COPY_STEP ? (size_t)len : COPY_STEP);
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	if (n == 0)
		return -EIO; /* it became shorter meanwhile */
	return fchmod(to, 0755) < 0 || fsync(to) < 0 ? -errno : 0;
}

static int unlink_if_there(int dir, const char *file)
{
	return unlinkat(dir, file, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int walls_lock(struct state *s, struct err *e)
{
	autoclose int dir = open_dir(s, NULL, true);
	int r = dir < 0 ? dir : 0;

	while (r == 0 && flock(dir, LOCK_EX) < 0)
		if (errno != EINTR)
			r = -errno;
	return r < 0 ? state_error(s, -r, "lock walls in", e) : take_fd(dir);
}

static void drop_if_empty(struct state *s, const char *name)
{
	autoclose int walls = open_dir(s, NULL, false);

	if (walls >= 0)
		unlinkat(walls, name, AT_REMOVEDIR);
}

void walls_unstage(struct state *s, const char *name)
{
	autoclose int dir = open_dir(s, name, false);

	if (dir >= 0) {
		unlinkat(dir, NEW_FILE, 0);
		unlinkat(dir, KNOWN_FILE, 0); /* what the wall asked it */
	}
	drop_if_empty(s, name);
}

int walls_stage(struct state *s, const char *name, int fd, char ret[BOX_PATH_MAX], struct err *e)
{
	autoclose int dir = -1, to = -1;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "look at the program of a wall");
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > PROGRAM_MAX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "the program of a wall is a file of at most %d MiB",
			       PROGRAM_MAX >> 20);
	if (snprintf(ret, BOX_PATH_MAX, "%s/" WALLS_DIR "/%s/" NEW_FILE, s->home, name) >=
	    (int)BOX_PATH_MAX)
		return err_errno(e, ENAMETOOLONG, "keep the program of a wall");
	dir = open_dir(s, name, true);
	r = dir < 0 ? dir : unlink_if_there(dir, NEW_FILE); /* that a killed call left */
	if (r == 0) {
		to = openat(dir, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			    0700);
		r = to < 0 ? -errno : copy(fd, to, st.st_size);
	}
	if (r < 0)
		walls_unstage(s, name);
	return r < 0 ? state_error(s, -r, "copy the program of a wall to", e) : 0;
}

int walls_place(struct state *s, const char *name, const char *program, struct err *e)
{
	autoclose int dir = open_dir(s, name, false);
	int r = dir < 0 ? dir : renameat(dir, NEW_FILE, dir, program) < 0 ? -errno : 0;

	return r < 0 ? state_error(s, -r, "keep the program of a wall in", e) : 0;
}

int walls_remove(struct state *s, const char *name, bool *ret, struct err *e)
{
	autoclose int walls = open_dir(s, NULL, false), dir = open_dir(s, name, false);
	char **files = NULL;
	size_t count = 0;
	int r = dir < 0 ? dir : state_all_names(dir, &files, &count);

	*ret = false;
	for (size_t i = 0; i < count && r == 0; i++) {
		*ret = *ret || strcmp(files[i], KNOWN_FILE) != 0; /* a cache */
		if (unlinkat(dir, files[i], 0) < 0 && errno != ENOENT)
			r = -errno;
	}
	state_names_free(files, count);
	if (r == 0)
		r = unlink_if_there(dir, NEW_FILE);
	if (r == 0 && unlinkat(walls, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r < 0 && r != -ENOENT ? state_error(s, -r, "remove the program of a wall", e) : 0;
}

int walls_min(struct state *s, char ret[WALLS_NAME_MAX], struct err *e)
{
	autofree char *text = NULL;
	int r = read_small(s, NULL, MIN_FILE, WALLS_NAME_MAX - 1, &text);

	ret[0] = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "read which wall boxes must have at least");
	text[strcspn(text, "\n")] = 0;
	if (!text[0])
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "which wall boxes must have at least cannot be read; `cove wall min "
			       "NAME` (or 'any') says it anew");
	str_copy(ret, WALLS_NAME_MAX, text);
	return 0;
}

int walls_set_min(struct state *s, const char *name, struct err *e)
{
	autoclose int dir = open_dir(s, NULL, name != NULL);
	char text[WALLS_NAME_MAX + 1];
	int n = snprintf(text, sizeof(text), "%s\n", name ? name : "");
	int r = dir < 0 ? dir : 0;

	if (r == 0 && name)
		r = fd_write_file(dir, MIN_FILE, text, (size_t)n, 0600, true);
	else if (r == 0 && unlinkat(dir, MIN_FILE, 0) < 0)
		r = -errno;
	return r < 0 && (name || r != -ENOENT)
		       ? state_error(s, -r, "keep the weakest wall that may be", e)
		       : 0;
}
