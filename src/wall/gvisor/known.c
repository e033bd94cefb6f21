/*
 * What a runsc can do; see gvisor.h.
 *
 * Asking costs as much as a fifth of a start, so the answers are kept in walls/gvisor/known below
 * the state directory: a line with the program's identity, what it has, and its version. A file
 * that is missing, of another program or not readable means that it is asked again. Which platform
 * runs on this host no question answers: that is learned from the first boxes.
 */
#include "base/fd.h"
#include "base/str.h"
#include "wall/gvisor/gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* FORM goes up with every bit that is added. */
enum { FORM = 3, KEY_MAX = 128, LINE_MAX_BYTES = 512, FLAGS_MAX = 256 << 10 };

/* What the text of `runsc flags` has where it can do that. */
static const struct {
	unsigned bit;
	const char *text;
} features[] = {
	{GVISOR_SUID, "\n  -allow-suid"},
	{GVISOR_SETTINGS, "\n  -host-settings"},
	{GVISOR_GOFER_NET, "\n  -gofer-network-namespace"},
	{GVISOR_SYSTRAP, "systrap"},
	{GVISOR_DIRECTFS, "\n  -directfs"},
};

static void make_key(const struct stat *st, char ret[KEY_MAX])
{
	/* The form first: one that asked for less is asked anew. */
	snprintf(ret, KEY_MAX, "form%d:%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64 ".%lx", FORM,
		 (uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
		 (uint64_t)st->st_ctim.tv_sec, (unsigned long)st->st_ctim.tv_nsec);
}

/* False: of another program, or no such line. */
static bool read_line(char *text, const char *key, struct gvisor_program *ret)
{
	char *end = strchr(text, '\n'); /* one that was cut off has none */
	size_t n = strlen(key);
	unsigned has;
	int at = 0;

	if (!end || strncmp(text, key, n) != 0 || text[n] != ' ' ||
	    sscanf(text + n + 1, "%8x %n", &has, &at) != 1 || at == 0)
		return false;
	ret->has = has;
	*end = 0;
	return str_copy(ret->version, sizeof(ret->version), text + n + 1 + at);
}

static bool read_known(const char *path, const char *key, struct gvisor_program *ret)
{
	autofree char *text = NULL;

	return fd_read_file(AT_FDCWD, path, LINE_MAX_BYTES, &text, NULL) == 0 &&
	       read_line(text, key, ret);
}

/* Always as long, for the same program: so it can be written over. */
static int write_line(int fd, const char *key, const struct gvisor_program *p)
{
	char line[LINE_MAX_BYTES];
	int n = snprintf(line, sizeof(line), "%s %08x %s\n", key, p->has, p->version);

	return pwrite(fd, line, (size_t)n, 0) == n ? 0 : -EIO;
}

/* Whole or not at all. Where it cannot be kept it is asked again next time, which is all. */
static void write_known(const char *home, const char *path, const char *key,
			const struct gvisor_program *p)
{
	char dir[BOX_PATH_MAX], temp[BOX_PATH_MAX + 48];
	autoclose int fd = -1;

	snprintf(dir, sizeof(dir), "%s/walls", home);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return;
	snprintf(dir, sizeof(dir), "%s/walls/gvisor", home);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return;
	snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
	fd = open(temp, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write_line(fd, key, p) < 0 || rename(temp, path) < 0)
		unlink(temp);
}

static int ask(const char *program, struct gvisor_program *ret, struct err *e)
{
	autofree char *text = NULL;
	int r = wall_program_ask(program, "flags", FLAGS_MAX, &text, e);

	if (r < 0)
		return r;
	ret->has = 0;
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
		if (strstr(text, features[i].text))
			ret->has |= features[i].bit;
	return wall_program_version(program, ret->version, sizeof(ret->version), e);
}

int gvisor_know(const struct wall_config *c, int fd, struct gvisor_program *ret, int *ret_note,
		struct err *e)
{
	char key[KEY_MAX], path[BOX_PATH_MAX + 24];
	struct stat st;
	int r = 0;

	*ret_note = -1;
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "look at '%.100s'", c->program);
	make_key(&st, key);
	snprintf(path, sizeof(path), "%s/walls/gvisor/known", c->state_dir);
	if (!read_known(path, key, ret)) {
		r = ask(c->program, ret, e);
		if (r == 0)
			write_known(c->state_dir, path, key, ret);
	}
	if (r == 0 && !(ret->has & GVISOR_RAN)) /* who learns it may open nothing any more */
		*ret_note = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return r;
}

bool gvisor_learn(int note, int fd, struct gvisor_program *p, bool came_up)
{
	char key[KEY_MAX], line[LINE_MAX_BYTES] = "";
	struct gvisor_program now;
	struct stat st;

	if (note < 0 || fstat(fd, &st) < 0 || (!came_up && !(p->has & GVISOR_SYSTRAP)))
		return false;
	make_key(&st, key);
	/* Another box may have come up meanwhile. */
	if (pread(note, line, sizeof(line) - 1, 0) <= 0 || !read_line(line, key, &now) ||
	    now.has & GVISOR_RAN)
		return false;
	p->has = came_up ? p->has | GVISOR_RAN : p->has ^ GVISOR_PTRACE;
	return write_line(note, key, p) == 0 && !came_up;
}
