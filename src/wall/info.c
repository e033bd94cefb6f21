/* The list of walls; see info.h. */
#include "wall/info.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWER_MS = 10000 }; /* until a program that was asked counts as hung */

const struct wall_info wall_native_info = {
	.name = "native",
	.flags = WALL_SHARED_KERNEL | WALL_ROOT_INSIDE | WALL_GROUPED | WALL_EXEC_GROUPS |
		 WALL_PROC_FILES | WALL_HOST_MOUNTS | WALL_FREEZE | WALL_MEASURE | WALL_TRACING |
		 WALL_CTL | WALL_PREMADE,
	.strength = 10,
	.holds = "namespaces on the host's kernel",
};

const struct wall_info wall_gvisor_info = {
	.name = "gvisor",
	.flags = WALL_ROOT_INSIDE | WALL_GROUPED | WALL_PROC_FILES | WALL_HOST_MOUNTS |
		 WALL_FREEZE | WALL_MEASURE | WALL_CTL,
	.strength = 20,
	.pids_each = 4,
	.pids_more = 256,
	.program = "runsc",
	.current = "\n  -allow-suid",
	.old = "sudo, terminals, --pids, ls (its runsc is old)",
	.holds = "a kernel of its own, within namespaces",
};

#ifdef COVE_TEST_WALLS
const struct wall_info wall_plain_info = {
	.name = "plain",
	.flags = WALL_SHARED_KERNEL | WALL_ROOT_INSIDE,
	.strength = 1,
	.holds = "only what init can do itself, for tests",
};
#endif

#define WALL_INFO_ROW(name) &wall_##name##_info,
static const struct wall_info *const infos[] = {WALLS(WALL_INFO_ROW)};

const struct wall_info *wall_info_find(const char *name)
{
	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++)
		if (strcmp(infos[i]->name, name) == 0)
			return infos[i];
	return NULL;
}

const struct wall_info *wall_info_at(size_t i)
{
	return i < sizeof(infos) / sizeof(infos[0]) ? infos[i] : NULL;
}

void wall_lacks(const struct wall_info *w, char *ret, size_t size)
{
	static const struct {
		unsigned flag;
		const char *what;
	} words[] = {{WALL_ROOT_INSIDE, "root inside"},
		     {WALL_GROUPED, "limits by group"},
		     {WALL_EXEC_GROUPS, "figures per command"},
		     {WALL_PROC_FILES, "its own figures in /proc"},
		     {WALL_HOST_MOUNTS, "directories of the host"},
		     {WALL_FREEZE, "pause"},
		     {WALL_MEASURE, "stats"},
		     {WALL_TRACING, "--ptrace"},
		     {WALL_CTL, "--ctl"}};
	size_t len = 0;

	ret[0] = 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!(w->flags & words[i].flag) && len < size)
			len += (size_t)snprintf(ret + len, size - len, "%s%s", len ? ", " : "",
						words[i].what);
}

#define WALL_NAME(name) ", " #name
const char *wall_names(void)
{
	return &WALLS(WALL_NAME)[2];
}

/* 0, or -errno: -EPERM where others may have written it. */
static int check_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IXOTH))
		return -EACCES;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

/* Can somebody else replace a name on this way, which has no links? In a sticky directory only who
 * owns a name, and that is looked at. */
static int check_way(const char *path)
{
	char dir[PATH_MAX];
	struct stat st;

	str_copy(dir, sizeof(dir), path);
	for (char *end = dir + strlen(dir); end; end = strrchr(dir, '/')) {
		*end = 0;
		if (stat(dir[0] ? dir : "/", &st) < 0)
			return -errno;
		if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
		    (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX)))
			return -EPERM;
		if (!dir[0])
			break;
	}
	return 0;
}

/* Where it really is: from then on no link decides. Neither the directory that it was found in nor
 * the way to it may be somebody else's. */
static int try_program(const char *dir, size_t len, const char *program, char *ret)
{
	char named[PATH_MAX], place[PATH_MAX], real[PATH_MAX];
	int r;

	/* A relative directory of PATH is whatever the caller happens to stand in. */
	if (len == 0 || dir[0] != '/' ||
	    snprintf(ret, BOX_PATH_MAX, "%.*s/%s", (int)len, dir, program) >= (int)BOX_PATH_MAX)
		return -ENOENT;
	snprintf(named, sizeof(named), "%.*s", (int)len, dir);
	if (!realpath(ret, real))
		return -errno;
	r = realpath(named, place) ? check_way(place) : -errno;
	if (r == 0)
		r = check_way(real);
	if (r == 0 && !str_copy(ret, BOX_PATH_MAX, real))
		r = -ENAMETOOLONG;
	return r < 0 ? r : check_program(ret);
}

/* As a shell does: what cannot be looked at or executed is passed over. */
static bool is_elsewhere(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -EACCES;
}

int wall_program_find(const struct wall_info *w, const char *home, char ret[BOX_PATH_MAX],
		      struct err *e)
{
	const char *dirs = secure_getenv("PATH");
	char own[BOX_PATH_MAX];
	int r = -ENOENT, n = snprintf(own, sizeof(own), "%s/walls/%s", home, w->name);

	if (n < (int)sizeof(own))
		r = try_program(own, (size_t)n, w->program, ret);
	for (size_t len; is_elsewhere(r) && dirs && *dirs; dirs += len + (dirs[len] == ':')) {
		len = strcspn(dirs, ":");
		r = try_program(dirs, len, w->program, ret);
	}
	if (is_elsewhere(r))
		r = try_program("/usr/local/bin", strlen("/usr/local/bin"), w->program, ret);
	if (is_elsewhere(r))
		r = try_program("/usr/bin", strlen("/usr/bin"), w->program, ret);
	if (is_elsewhere(r))
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "wall '%s' needs the program '%s': `cove wall add %s` gets it",
			       w->name, w->program, w->name);
	if (r == -EPERM)
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.100s' belongs to somebody else, or others may write to it", ret);
	return r < 0 ? err_set(e, ERR_UNSUPPORTED, -r, "'%.100s' cannot be run by everybody", ret)
		     : 0;
}

/* Until it ends, or has said too much; -ETIMEDOUT where neither comes. */
static int read_answer(int fd, size_t max, char **ret)
{
	uint64_t now = clock_mono_ms(), until = now + ANSWER_MS;
	autofree char *text = malloc(max + 1);
	size_t have = 0;
	ssize_t n = 1;

	if (!text)
		return -ENOMEM;
	for (; n > 0 && have < max; now = clock_mono_ms()) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int r = now < until ? poll(&p, 1, (int)(until - now)) : 0;

		if (r == 0)
			return -ETIMEDOUT;
		n = r < 0 ? -1 : read(fd, text + have, max - have);
		if (n < 0 && errno != EINTR)
			return -errno;
		have += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	text[have] = 0;
	*ret = take_ptr(text);
	return 0;
}

int wall_program_ask(const char *program, const char *word, size_t max, char **ret, struct err *e)
{
	char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)word, NULL};
	autoclose int null = fd_open("/dev/null", O_RDONLY);
	int out[2], r, status;
	pid_t pid;

	if (null < 0 || pipe2(out, O_CLOEXEC) < 0)
		return err_errno(e, errno, "ask '%.100s'", program);
	r = child_start(program, argv, (const int[3]){null, out[1], out[1]}, &pid);
	close(out[1]);
	if (r == 0) {
		r = read_answer(out[0], max, ret);
		close(out[0]); /* one that says more ends by that */
		status = child_wait_for(pid, r < 0 ? 0 : ANSWER_MS);
		if (r == 0 && status != 0) {
			r = status < 0 ? status : status == 127 ? -ENOEXEC : -EPROTO;
			free(take_ptr(*ret));
		}
	} else {
		close(out[0]);
	}
	return r < 0 ? err_set(e, ERR_UNSUPPORTED, -r, "'%.100s' cannot be run: %s", program,
			       strerror(-r))
		     : 0;
}

bool wall_program_is_old(const struct wall_info *w, const char *program)
{
	enum { FLAGS_MAX = 256 << 10 };
	autofree char *text = NULL;

	return w->current && wall_program_ask(program, "flags", FLAGS_MAX, &text, NULL) == 0 &&
	       !strstr(text, w->current);
}

int wall_program_version(const char *program, char *ret, size_t size, struct err *e)
{
	enum { VERSION_TEXT = 4096 };
	static const char word[] = "version ";
	autofree char *text = NULL;
	int r = wall_program_ask(program, "--version", VERSION_TEXT, &text, e);
	char *at, *to = ret;

	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = 0;
	at = strstr(text, word);
	at = at ? at + strlen(word) : text;
	if (strcmp(at, "VERSION_MISSING") == 0 || !*at) /* built by `go install` */
		at = (char *)(uintptr_t) "unknown";
	for (; *at && to < ret + size - 1; at++)
		*to++ = *at > ' ' && *at < 127 ? *at : '?';
	*to = 0;
	return 0;
}
