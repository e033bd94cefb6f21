/*
 * Which host ids a box's ids are; see ids.h.
 *
 * A range is a slot of 65,536 ids between IDS_SLOT_FIRST and IDS_SLOT_LAST, a region that neither
 * /etc/subuid's usual numbers nor systemd's allocate from (the two slots above are systemd's range
 * for foreign files, and our own for host directories, share.h), and below 2^31, where old tools
 * still see a sign. A slot is one byte of a file that all boxes of the machine share, and is taken
 * by locking that byte (F_OFD_SETLK); the search begins at a random slot, so that a range given
 * back is rarely used again at once.
 */
#include "storage/ids.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "storage/share.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { SUBID_FILE_MAX = 1 << 20 };

/* ---- finding subordinate ids ---- */

/* The name of a uid in /etc/passwd. Read by hand: programs are linked without NSS. */
static bool passwd_name(uid_t uid, char *ret, size_t size)
{
	autofree char *text = NULL;
	char *line, *rest;

	if (fd_read_file(AT_FDCWD, "/etc/passwd", SUBID_FILE_MAX, &text, NULL) < 0)
		return false;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *name_end = strchr(line, ':'),
		     *id = name_end ? strchr(name_end + 1, ':') : NULL;
		char *id_end = id ? strchr(id + 1, ':') : NULL;
		uint64_t v;

		if (!id_end)
			continue;
		*name_end = *id_end = 0;
		if (str_parse_u64(id + 1, UINT32_MAX, &v) && v == uid)
			return str_copy(ret, size, line);
	}
	return false;
}

/* The first range of at least IDS_COUNT - 1 ids that the file gives to this user. */
static bool subid_find(const char *path, uid_t uid, uint32_t *ret_first)
{
	autofree char *text = NULL;
	char name[256] = "", number[16], *line, *rest;

	if (fd_read_file(AT_FDCWD, path, SUBID_FILE_MAX, &text, NULL) < 0)
		return false;
	passwd_name(uid, name, sizeof(name));
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
		uint64_t from, n;

		if (!count)
			continue;
		*first++ = *count++ = 0;
		if (strcmp(line, number) != 0 && (!name[0] || strcmp(line, name) != 0))
			continue;
		if (str_parse_u64(first, UINT32_MAX - IDS_COUNT, &from) &&
		    str_parse_u64(count, UINT32_MAX, &n) && n >= IDS_COUNT - 1) {
			*ret_first = (uint32_t)from;
			return true;
		}
	}
	return false;
}

/* -EACCES is fine too: the program may be setuid and still executable. */
static bool has_program(const char *name)
{
	static const char *const dirs[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"};
	char path[64];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

int ids_detect(struct ids *ret, char *why, size_t why_size, struct err *e)
{
	*ret = (struct ids){.caller_uid = getuid(), .caller_gid = getgid(), .kind = IDS_SINGLE};
	if (why_size)
		why[0] = 0;
	if (geteuid() != ret->caller_uid || getegid() != ret->caller_gid)
		return err_set(e, ERR_DENIED, EPERM, "cove must not be installed setuid or setgid");
	if (ret->caller_uid == 0) {
		ret->kind = IDS_RANGE;
		return 0;
	}
	if (!has_program("newuidmap") || !has_program("newgidmap")) {
		snprintf(why, why_size, "newuidmap is missing: install the package 'uidmap'");
		return 0;
	}
	if (!subid_find("/etc/subuid", ret->caller_uid, &ret->sub_uid) ||
	    !subid_find("/etc/subgid", ret->caller_uid, &ret->sub_gid)) {
		snprintf(why, why_size,
			 "no subordinate ids: usermod --add-subuids 100000-165535 --add-subgids "
			 "100000-165535 <user>");
		return 0;
	}
	ret->kind = IDS_SUBORDINATE;
	return 0;
}

/* ---- ranges ---- */

int ids_range_take(struct ids *ids, const char *run_dir, int *ret_lock_fd, struct err *e)
{
	enum { FLAGS = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW };
	const unsigned slots = IDS_SLOT_LAST - IDS_SLOT_FIRST + 1;
	autoclose int fd = -1;
	char path[512], older[520];
	uint32_t start;

	snprintf(path, sizeof(path), "%s/" IDS_RANGES_FILE, run_dir);
	fd = openat(AT_FDCWD, path, FLAGS, 0600);
	if (fd < 0 && errno == ENOENT) {
		if (mkdir(run_dir, 0700) < 0 && errno != EEXIST)
			return err_errno(e, errno, "make '%s'", run_dir);
		fd = openat(AT_FDCWD, path, FLAGS, 0600);
	}
	if (fd < 0)
		return err_errno(e, errno, "open '%s'", path);
	rand_bytes(&start, sizeof(start));
	for (unsigned i = 0; i < slots; i++) {
		unsigned slot = IDS_SLOT_FIRST + (start % slots + i) % slots;
		struct flock l = {.l_type = F_WRLCK, .l_start = (off_t)slot, .l_len = 1};

		/* A box of a Cove that had a file for each range may still run. */
		snprintf(older, sizeof(older), "%s/.ranges/%x", run_dir, slot);
		if (access(older, F_OK) == 0)
			continue;
		if (fcntl(fd, F_OFD_SETLK, &l) == 0) {
			ids->uid_base = (uid_t)slot << 16;
			*ret_lock_fd = take_fd(fd);
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(e, errno, "take a uid range in '%s'", path);
	}
	return err_set(e, ERR_LIMIT, EAGAIN, "all %u uid ranges are in use: stop some boxes",
		       slots);
}

/* ---- mapping ---- */

static uint32_t host_id(const struct ids *ids, uint32_t inside, uint32_t sub, uint32_t caller)
{
	if (ids->kind == IDS_RANGE)
		return ids->uid_base + inside;
	if (ids->kind == IDS_SINGLE || inside == IDS_USER)
		return caller;
	return sub + inside - (inside > IDS_USER);
}

uid_t ids_host_uid(const struct ids *ids, uid_t inside)
{
	return host_id(ids, inside, ids->sub_uid, ids->caller_uid);
}

gid_t ids_host_gid(const struct ids *ids, gid_t inside)
{
	return host_id(ids, inside, ids->sub_gid, ids->caller_gid);
}

bool ids_is_box_uid(const struct ids *ids, uid_t host)
{
	if (ids->kind == IDS_RANGE)
		return share_is_box_id(host);
	return ids->kind == IDS_SUBORDINATE && host - ids->sub_uid < IDS_COUNT - 1;
}

static int write_map(pid_t pid, const char *file, const char *text, struct err *e)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	autoclose int fd = fd_open(path, O_WRONLY);
	if (fd < 0)
		return err_errno(e, errno, "open '%s'", path);
	r = fd_write_full(fd, text, strlen(text));
	return r < 0 ? err_errno(e, -r, "write '%s'", path) : 0;
}

/* newuidmap PID 0 SUB 1000 1000 CALLER 1 1001 SUB+1000 REST */
static int start_mapper(const char *program, pid_t pid, uint32_t sub, uint32_t caller,
			pid_t *ret_child, struct err *e)
{
	char number[4][12];
	char *argv[] = {(char *)(uintptr_t)program,
			number[0],
			"0",
			number[1],
			"1000",
			"1000",
			number[2],
			"1",
			"1001",
			number[3],
			"64535",
			NULL};
	int r;

	snprintf(number[0], sizeof(number[0]), "%d", (int)pid);
	snprintf(number[1], sizeof(number[1]), "%u", sub);
	snprintf(number[2], sizeof(number[2]), "%u", caller);
	snprintf(number[3], sizeof(number[3]), "%u", sub + IDS_USER);
	r = child_start(program, argv, (int[]){-1, -1, -1}, ret_child);
	return r < 0 ? err_errno(e, -r, "run %s", program) : 0;
}

static int await_mapper(const char *program, pid_t child, struct err *e)
{
	int status = child_wait(child);

	if (status < 0)
		return err_errno(e, -status, "wait for %s", program);
	if (status != 0)
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "%s refused to map ids: check /etc/subuid, /etc/subgid and that it "
			       "is setuid root",
			       program);
	return 0;
}

/* Neither of the two waits for the other. */
static int run_mappers(const struct ids *ids, pid_t pid, struct err *e)
{
	static const char uids[] = "newuidmap", gids[] = "newgidmap";
	pid_t child[2];
	int r[2];

	r[0] = start_mapper(uids, pid, ids->sub_uid, ids->caller_uid, &child[0], e);
	if (r[0] < 0)
		return r[0];
	r[1] = start_mapper(gids, pid, ids->sub_gid, ids->caller_gid, &child[1], e);
	/* The first failure is reported, and both are waited for. */
	r[0] = await_mapper(uids, child[0], r[1] < 0 ? NULL : e);
	if (r[1] == 0)
		r[1] = await_mapper(gids, child[1], r[0] < 0 ? NULL : e);
	return r[0] < 0 ? r[0] : r[1];
}

int ids_map_process(const struct ids *ids, pid_t pid, struct err *e)
{
	char text[64];
	int r;

	switch (ids->kind) {
	case IDS_RANGE:
		snprintf(text, sizeof(text), "0 %u %d", (unsigned)ids->uid_base, IDS_COUNT);
		r = write_map(pid, "uid_map", text, e);
		return r < 0 ? r : write_map(pid, "gid_map", text, e);
	case IDS_SUBORDINATE:
		return run_mappers(ids, pid, e);
	default:
		r = write_map(pid, "setgroups", "deny", e);
		snprintf(text, sizeof(text), "%d %u 1", IDS_USER, (unsigned)ids->caller_uid);
		if (r == 0)
			r = write_map(pid, "uid_map", text, e);
		snprintf(text, sizeof(text), "%d %u 1", IDS_USER, (unsigned)ids->caller_gid);
		return r < 0 ? r : write_map(pid, "gid_map", text, e);
	}
}

/* ---- namespaces made for a moment ---- */

enum { INSIDE_FAILED = 126 };

/* A process in namespaces of its own. Each side has one end of a socket: the process tells the
 * errno of its entering, the caller "g" for go when the ids are mapped. */
struct ids_inside {
	const struct ids *ids;
	int flags, ns_fd;
	int (*fn)(void *arg);
	void *arg;
	int ours, its;
	struct child_forked child;
};

static int run_inside(void *arg)
{
	struct ids_inside *in = arg;
	pid_t parent = getppid();
	int code = 0;
	char word;

	prctl(PR_SET_DUMPABLE, 1); /* or the files its map is written to are root's */
	fd_close(&in->ours);
	if (in->ns_fd > 0 && setns(in->ns_fd, CLONE_NEWUSER) < 0)
		code = errno;
	else if (in->flags && unshare(in->flags) < 0)
		code = errno;
	if (fd_write_full(in->its, &code, sizeof(code)) < 0 || code != 0)
		return INSIDE_FAILED;
	if (read(in->its, &word, 1) != 1 || word != 'g')
		return INSIDE_FAILED;
	if (in->ids->kind == IDS_SUBORDINATE && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		return INSIDE_FAILED;
	child_end_with(parent);
	return in->fn(in->arg) & 127;
}

/* fork and unshare rather than clone3, because libc must know about a fork whose child goes on to
 * allocate memory. */
static int inside_start(struct ids_inside *in, struct err *e)
{
	int pair[2], code = 0, r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "make a socket pair");
	in->ours = pair[0];
	in->its = pair[1];
	r = child_fork(run_inside, in, &in->child);
	fd_close(&in->its);
	if (r < 0) {
		fd_close(&in->ours);
		return err_errno(e, -r, "fork");
	}
	if (fd_read_full(in->ours, &code, sizeof(code)) != (ssize_t)sizeof(code))
		code = ECHILD;
	if (code == 0)
		return 0;
	fd_close(&in->ours);
	child_forked_wait(&in->child);
	return err_set(e, ERR_UNSUPPORTED, code,
		       "cannot make a user namespace (%s): see `cove doctor`", strerror(code));
}

/* Lets it go on, or end, and waits for its end. A word says which: another thread's fork may have
 * a copy of our end. */
static int inside_finish(struct ids_inside *in, bool go)
{
	(void)send(in->ours, go ? "g" : "n", 1, MSG_NOSIGNAL); /* one that died is waited for */
	fd_close(&in->ours);
	return child_forked_wait(&in->child);
}

int ids_mount_ns(const struct ids *ids, uid_t owner_uid, gid_t owner_gid, struct err *e)
{
	struct ids_inside in = {.ids = ids, .flags = CLONE_NEWUSER};
	char path[64], text[SHARE_MAP_TEXT];
	int r = inside_start(&in, e), fd = -1;

	if (r < 0)
		return r;
	share_map_format(SHARE_UIDS, ids->uid_base, owner_uid, text);
	r = write_map(in.child.pid, "uid_map", text, e);
	share_map_format(SHARE_GIDS, ids->uid_base, owner_gid, text);
	if (r == 0)
		r = write_map(in.child.pid, "gid_map", text, e);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)in.child.pid);
		fd = fd_open(path, O_RDONLY);
		r = fd < 0 ? err_errno(e, errno, "open '%s'", path) : 0;
	}
	inside_finish(&in, false);
	return r < 0 ? r : fd;
}

int ids_run_inside(const struct ids *ids, int (*fn)(void *arg), void *arg, struct err *e)
{
	bool map = ids->kind != IDS_RANGE && ids->ns_fd <= 0;
	struct ids_inside in = {.ids = ids,
				.flags = (map ? CLONE_NEWUSER : 0) |
					 (ids->kind != IDS_RANGE ? CLONE_NEWNS : 0),
				.ns_fd = ids->ns_fd,
				.fn = fn,
				.arg = arg};
	int r = inside_start(&in, e), status;

	if (r < 0)
		return r;
	r = map ? ids_map_process(ids, in.child.pid, e) : 0;
	status = inside_finish(&in, r == 0);
	if (r < 0)
		return r;
	if (status > INSIDE_FAILED) /* a signal */
		return err_set(e, ERR_INTERNAL, EINTR, "the helper process was killed");
	if (status < 0)
		return err_errno(e, -status, "wait for the helper process");
	return status == INSIDE_FAILED ? err_set(e, ERR_INTERNAL, EPERM, "become box root")
				       : status;
}
