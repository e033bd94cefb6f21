/*
 * A fork's own identity; see renew.h.
 *
 * The box's files are those of a stranger: directories are opened without following a link, and
 * names are only unlinked or made anew in them, so that nothing is written through what another box
 * put there.
 */
#include "guest/renew.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { ID_BYTES = 16, NAMES_BYTES = 8192, ROUNDS_MAX = 1024 };

static void add_note(char *notes, size_t size, const char *what, int code)
{
	size_t have = strlen(notes);

	snprintf(notes + have, size - have, "fork: %s is that of the box it came from: %s\n", what,
		 strerror(code));
}

static int open_dir(const char *path)
{
	autoclose int root = fd_open("/", O_PATH | O_DIRECTORY);

	return root < 0 ? -errno
			: guest_open_at(root, path + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
					FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
}

/* 1: it was one that held something, and is another now. A link leads to one that is looked at
 * itself, or is the box's own business. */
static int renew_id(const char *dir, const char *name, const char *id)
{
	autoclose int dir_fd = open_dir(dir), fd = -1;
	struct stat st;

	if (dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP)
		return 0;
	if (dir_fd < 0)
		return dir_fd;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	if (unlinkat(dir_fd, name, 0) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	return fd < 0 ? -errno : fd_write_full(fd, id, strlen(id));
}

static int remove_one(const char *dir, const char *name)
{
	autoclose int dir_fd = open_dir(dir);

	if (dir_fd < 0)
		return dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP ? 0 : dir_fd;
	return unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT && errno != EISDIR ? -errno : 0;
}

/* How many of one reading of the directory went. */
static int remove_some_keys(int dir_fd)
{
	_Alignas(8) char names[NAMES_BYTES];
	int removed = 0;
	long got;

	if (lseek(dir_fd, 0, SEEK_SET) < 0)
		return -errno;
	got = syscall(SYS_getdents64, dir_fd, names, sizeof(names));
	for (long at = 0; at < got;) {
		const struct fd_dirent *d = (const void *)(names + at);

		at += d->reclen;
		if (!str_starts(d->name, "ssh_host_"))
			continue;
		if (unlinkat(dir_fd, d->name, 0) == 0)
			removed++;
		else if (errno != EISDIR)
			return -errno;
	}
	return got < 0 ? -errno : removed;
}

static int remove_keys(void)
{
	autoclose int dir_fd = open_dir("/etc/ssh");
	int all = 0, r = 1;

	if (dir_fd < 0)
		return dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP ? 0 : dir_fd;
	for (int i = 0; i < ROUNDS_MAX && r > 0; i++) {
		r = remove_some_keys(dir_fd);
		all += r > 0 ? r : 0;
	}
	return r < 0 ? r : all;
}

void guest_renew(bool *ret_keys, char *notes, size_t size)
{
	static const char *const ids[][2] = {{"/etc", "machine-id"},
					     {"/var/lib/dbus", "machine-id"}};
	static const char *const seeds[][2] = {{"/var/lib/systemd", "random-seed"},
					       {"/var/lib/urandom", "random-seed"},
					       {"/var/lib/misc", "random-seed"},
					       {"/var/lib", "random-seed"}};
	char id[2 * ID_BYTES + 2];
	int r;

	rand_hex(id, ID_BYTES);
	id[2 * ID_BYTES] = '\n';
	id[2 * ID_BYTES + 1] = 0;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		r = renew_id(ids[i][0], ids[i][1], id);
		if (r < 0)
			add_note(notes, size, "the machine id", -r);
	}
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		r = remove_one(seeds[i][0], seeds[i][1]);
		if (r < 0)
			add_note(notes, size, "the seed of random numbers", -r);
	}
	r = remove_keys();
	if (r < 0)
		add_note(notes, size, "ssh's host key", -r);
	*ret_keys = r > 0;
}

void guest_renew_keys(void)
{
	char *const argv[] = {(char[]){"ssh-keygen"}, (char[]){"-A"}, NULL};
	char *const env[] = {(char[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, NULL};

	if (access("/usr/bin/ssh-keygen", X_OK) < 0 || fork() != 0)
		return;
	signal(SIGPIPE, SIG_DFL);
	setsid();
	execve("/usr/bin/ssh-keygen", argv, env);
	_exit(127);
}
