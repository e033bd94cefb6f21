/* A: paths that could lead to a host file, descriptors that were left open, devices, handles. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

CASE(A1_absolute_path, "A1", AS_BOTH, "the canary's absolute path is not there")
{
	return has_canary(AT_FDCWD, canary_path()) ? broke("read %s", canary_path())
						   : held("not there");
}

CASE(A1_write_absolute_path, "A1", AS_BOTH, "the canary cannot be opened for writing by its path")
{
	return can_write(canary_path()) ? broke("opened for writing") : held("not there");
}

CASE(A1_dotdot_chain, "A1", AS_BOTH, "no chain of ../ leads above /")
{
	char path[4096] = "";
	size_t used = 0;

	for (int depth = 1; depth <= 64; depth++) {
		used += (size_t)snprintf(path + used, sizeof(path) - used, "../");
		snprintf(path + used, sizeof(path) - used, "%s", canary_path());
		if (has_canary(AT_FDCWD, path))
			return broke("%d times ../", depth);
		path[used] = 0;
	}
	return held("64 deep");
}

CASE(A1_dotdot_from_root_descriptor, "A1", AS_BOTH, "openat(/, ..) stays at /")
{
	int root = open("/", O_PATH | O_DIRECTORY);
	struct stat a, b;

	for (int i = 0; i < 8 && root >= 0; i++) {
		int up = openat(root, "..", O_PATH | O_DIRECTORY);

		if (up < 0)
			break;
		close(root);
		root = up;
	}
	if (has_canary(root, canary_path() + 1))
		return broke("the canary is below /..");
	if (fstat(root, &a) < 0 || stat("/", &b) < 0 || a.st_ino != b.st_ino ||
	    a.st_dev != b.st_dev)
		return broke("/.. is another directory than /");
	return held("/.. is /");
}

CASE(A1_chroot_fchdir_escape, "A1", AS_BOTH,
     "chroot is refused, or leaving it by a held directory ends at the box's root")
{
	char dir[256];
	int old = open("/", O_RDONLY | O_DIRECTORY);
	int r;

	snprintf(dir, sizeof(dir), "%s/jail", scratch_dir());
	mkdir(dir, 0700);
	r = chroot(dir);
	if (r < 0) {
		rmdir(dir);
		return held("chroot: %s", strerror(errno));
	}
	if (fchdir(old) == 0)
		for (int i = 0; i < 64; i++)
			if (chdir("..") < 0)
				break;
	if (chroot(".") == 0 && has_canary(AT_FDCWD, canary_path()))
		return broke("out by chroot in chroot");
	return broke("chroot is allowed: CAP_SYS_CHROOT is not in the list");
}

static int through(const char *prefix)
{
	char path[4400];

	snprintf(path, sizeof(path), "%s%s", prefix, canary_path());
	return has_canary(AT_FDCWD, path) ? broke("read %s", path) : held("not there");
}

CASE(A2_proc_1_root, "A2", AS_BOTH, "/proc/1/root does not lead to the host")
{
	return through("/proc/1/root");
}

CASE(A2_proc_1_cwd, "A2", AS_BOTH, "/proc/1/cwd does not lead to the host")
{
	return through("/proc/1/cwd");
}

CASE(A2_proc_self_root, "A2", AS_BOTH, "/proc/self/root is the box's root")
{
	return through("/proc/self/root");
}

CASE(A2_proc_self_cwd, "A2", AS_BOTH, "/proc/self/cwd and ../ from it stay inside")
{
	return through("/proc/self/cwd/../../../../../../..");
}

CASE(A2_thread_root, "A2", AS_BOTH, "/proc/thread-self and /proc/self/task/*/root stay inside")
{
	static const char *const links[] = {"root", "cwd"};
	char dir[300], path[5000];
	struct stat own, seen;
	unsigned looked = 0;
	struct dirent *d;
	DIR *tasks;

	if (stat("/", &own) < 0 || stat("/proc/thread-self/root/", &seen) < 0)
		return broke("its own root cannot be seen: %s", strerror(errno));
	if (own.st_ino != seen.st_ino || own.st_dev != seen.st_dev)
		return broke("/proc/thread-self/root is another directory than /");
	tasks = opendir("/proc/self/task");
	while (tasks && (d = readdir(tasks)))
		for (int i = 0; i < 4 && d->d_name[0] != '.'; i++) {
			snprintf(dir, sizeof(dir), i < 2 ? "/proc/self/task/%s" : "/proc/1/task/1",
				 d->d_name);
			snprintf(path, sizeof(path), "%s/%s%s", dir, links[i % 2], canary_path());
			looked++;
			if (has_canary(AT_FDCWD, path))
				return broke("read %s", path);
		}
	if (tasks)
		closedir(tasks);
	return looked ? held("%u links", looked) : broke("not even its own task was seen");
}

/* Every descriptor of every visible process, as a directory to start from. */
CASE(A2_fd_walk, "A2", AS_BOTH, "no descriptor of any visible process leads to the canary")
{
	DIR *proc = opendir("/proc");
	struct dirent *p, *f;
	unsigned looked = 0;

	while (proc && (p = readdir(proc))) {
		char dir[300], path[5000];
		DIR *fds;

		snprintf(dir, sizeof(dir), "/proc/%s/fd", p->d_name);
		fds = p->d_name[0] >= '0' && p->d_name[0] <= '9' ? opendir(dir) : NULL;
		while (fds && (f = readdir(fds))) {
			if (f->d_name[0] == '.')
				continue;
			looked++;
			snprintf(path, sizeof(path), "%s/%s%s", dir, f->d_name, canary_path());
			if (has_canary(AT_FDCWD, path))
				return broke("read %s", path);
			snprintf(path, sizeof(path), "%s/%s/../../../../../..%s", dir, f->d_name,
				 canary_path());
			if (has_canary(AT_FDCWD, path))
				return broke("read %s", path);
		}
		if (fds)
			closedir(fds);
	}
	if (proc)
		closedir(proc);
	return looked ? held("%u descriptors", looked) : broke("not even its own were seen");
}

CASE(A2_map_files, "A2", AS_BOTH, "/proc/self/map_files names no host path")
{
	DIR *dir = opendir("/proc/self/map_files");
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		char path[400], target[4096] = "";

		snprintf(path, sizeof(path), "/proc/self/map_files/%s", d->d_name);
		if (readlink(path, target, sizeof(target) - 1) > 0 &&
		    strstr(target, canary_text("CANARY_STAGE")))
			return broke("%s", target);
	}
	return held("nothing of the host");
}

/* opendir's own descriptor is the one allowed more. */
CASE(A3_only_three_descriptors, "A3", AS_BOTH, "a fresh command has 0, 1 and 2 and no other")
{
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char path[64], target[512] = "?";

			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			if (readlink(path, target, sizeof(target) - 1) < 0)
				target[0] = '?';
			return broke("descriptor %d is open: %s", fd, target);
		}
	return held("0, 1, 2");
}

CASE(A3_no_directory_descriptor, "A3", AS_BOTH, "none of a command's descriptors is a directory")
{
	struct stat st;

	for (int fd = 0; fd < 4096; fd++)
		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			return broke("descriptor %d is a directory", fd);
	return held("none");
}

CASE(A3_standard_streams_are_pipes, "A3", AS_BOTH,
     "0, 1, 2 are pipes or null, not a host terminal, file or socket")
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (fstat(fd, &st) < 0 ||
		    !(S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && major(st.st_rdev) == 1)))
			return broke("descriptor %d has mode %o", fd, st.st_mode);
	return held("pipes");
}

CASE(A5_overwrite_own_program, "A5", AS_BOTH,
     "the program file, shown read-only from the host, cannot be opened for writing")
{
	return failed("open /proc/self/exe", open("/proc/self/exe", O_WRONLY | O_CLOEXEC));
}

CASE(A5_overwrite_init, "A5", AS_BOTH, "/proc/1/exe cannot be opened for writing")
{
	return failed("open /proc/1/exe", open("/proc/1/exe", O_WRONLY | O_CLOEXEC));
}

CASE(A5_reopen_init_by_path_descriptor, "A5", AS_BOTH,
     "an O_PATH descriptor of /proc/1/exe cannot be reopened for writing")
{
	char path[64];
	int fd = open("/proc/1/exe", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return held("O_PATH: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return failed("reopen", open(path, O_RDWR | O_CLOEXEC));
}

/* First byte of a file that the host shows read-only, as the page cache has it now. */
static int first_byte(void)
{
	unsigned char byte = 0;
	int fd = open("/attack/attack", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, &byte, 1, 1) != 1)
		byte = 0;
	close(fd);
	return byte;
}

CASE(A5_write_through_proc_mem, "A5", AS_BOTH,
     "/proc/self/mem writes to a copy, never to the host's file behind the mapping")
{
	int file = open("/attack/attack", O_RDONLY | O_CLOEXEC);
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
	int before = first_byte();

	if (file < 0 || at == MAP_FAILED)
		return not_applicable("no read-only mount here");
	if (mem < 0 || pwrite(mem, "XX", 2, (off_t)(uintptr_t)at) != 2)
		return held("%s", strerror(errno));
	return first_byte() == before ? held("a copy was written") : broke("the file changed");
}

CASE(A5_write_through_shared_proc_mem, "A5", AS_BOTH,
     "/proc/self/mem does not write through a shared mapping of a read-only file")
{
	int file = open("/attack/attack", O_RDONLY | O_CLOEXEC);
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);

	if (file < 0 || at == MAP_FAILED)
		return not_applicable("no read-only mount here");
	return failed("write", mem < 0 ? -1 : pwrite(mem, "XX", 2, (off_t)(uintptr_t)at));
}

/* CVE-2022-0847: a page that was spliced into a pipe must not be merged into. */
CASE(A5_dirty_pipe, "A5", AS_BOTH,
     "a write after a splice does not reach the page cache of the file")
{
	int file = open("/attack/attack", O_RDONLY | O_CLOEXEC), p[2], before = first_byte();
	static char fill[4096];
	loff_t at = 0;

	if (file < 0 || pipe(p) < 0)
		return not_applicable("no read-only mount here");
	for (int i = 0; i < 16; i++)
		if (write(p[1], fill, sizeof(fill)) < 0)
			break;
	for (int i = 0; i < 16; i++)
		if (read(p[0], fill, sizeof(fill)) < 0)
			break;
	if (splice(file, &at, p[1], NULL, 1, 0) != 1)
		return held("splice: %s", strerror(errno));
	if (write(p[1], "XX", 2) != 2)
		return held("write: %s", strerror(errno));
	return first_byte() == before ? held("not merged") : broke("the file changed");
}

CASE(A1_path_descriptor_upgrade, "A1", AS_BOTH,
     "a read-only mount's file opened O_PATH or O_RDONLY cannot be upgraded to writing")
{
	char path[64];
	int fd = open("/attack/attack", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return not_applicable("no read-only mount here");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return failed("reopen", open(path, O_RDWR | O_CLOEXEC));
}

CASE(A18_create_in_read_only_mount, "A18", AS_BOTH, "no file can be made in a read-only mount")
{
	if (open("/attack/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644) >= 0 || errno != EROFS)
		return broke("open O_CREAT: %s", strerror(errno));
	if (mkdir("/attack/dir", 0755) == 0 || errno != EROFS)
		return broke("mkdir: %s", strerror(errno));
	if (rename("/attack/attack", "/attack/moved") == 0 || errno != EROFS)
		return broke("rename: %s", strerror(errno));
	return held("%s", strerror(EROFS));
}

CASE(A18_replace_mount_point, "A18", AS_BOTH, "a mount point cannot be renamed away or replaced")
{
	if (rename("/attack", "/attack-old") == 0)
		return broke("renamed");
	if (rmdir("/attack") == 0)
		return broke("removed");
	return held("%s", strerror(errno));
}

CASE(A18_hosts_file_substitution, "A18", AS_BOTH,
     "files that Cove puts over the image's cannot be unlinked or renamed over")
{
	char from[256];
	int fd;

	snprintf(from, sizeof(from), "%s/hosts", scratch_dir());
	fd = open(from, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	close(fd);
	if (unlink("/etc/hosts") == 0)
		return broke("unlinked");
	if (rename(from, "/etc/hosts") == 0)
		return broke("renamed over");
	unlink(from);
	return held("%s", strerror(errno));
}

/* NULL if no such node can be made and opened in any directory that this user may write to, and
 * there was one; otherwise a sentence. */
static const char *mknod_everywhere(mode_t type, dev_t device, const char *what)
{
	static const char *const dirs[] = {"/tmp",	"/dev",	      "/dev/shm", "/dev/pts",
					   "/dev/cove", "/workspace", "/run",	  "/var/tmp",
					   "/root",	"/shared"};
	static char said[300];
	unsigned tried = 0;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char path[300];
		int fd, r, code;

		snprintf(path, sizeof(path), "%s/node", dirs[i]);
		r = mknod(path, type | 0666, device);
		code = errno;
		fd = r < 0 ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (r == 0)
			unlink(path);
		snprintf(said, sizeof(said), "%s in %s %s: %s", what, dirs[i],
			 fd >= 0 ? "opens" : "was tried", strerror(code));
		if (fd >= 0 || (r == 0 && device) ||
		    (r < 0 && access(dirs[i], W_OK) == 0 && !is_refusal(code)))
			return said;
		tried += r == 0 || access(dirs[i], W_OK) == 0;
	}
	snprintf(said, sizeof(said), "no directory to try %s in", what);
	return tried ? NULL : said;
}

static int nodes(mode_t type, const char *one, dev_t first, const char *other, dev_t second)
{
	const char *said = mknod_everywhere(type, first, one);

	if (!said && other)
		said = mknod_everywhere(type, second, other);
	return said ? broke("%s", said) : held("%s %s: nowhere", one, other ? other : "");
}

CASE(A21_mknod_char, "A21", AS_BOTH, "no character device can be made in any directory")
{
	return nodes(S_IFCHR, "null", makedev(1, 3), NULL, 0);
}

CASE(A21_mknod_kernel_memory, "A21", AS_BOTH, "no /dev/mem or /dev/kmsg can be made")
{
	return nodes(S_IFCHR, "mem", makedev(1, 1), "kmsg", makedev(1, 11));
}

CASE(A21_mknod_block, "A21", AS_BOTH, "no block device can be made in any directory")
{
	return nodes(S_IFBLK, "sda", makedev(8, 0), "loop0", makedev(7, 0));
}

CASE(A21_whiteout_node_does_not_open, "A21", AS_BOTH, "device 0:0 (a whiteout) never opens")
{
	return nodes(S_IFCHR, "0:0", 0, NULL, 0);
}

CASE(A21_dev_has_only_harmless_nodes, "A21", AS_BOTH,
     "the device nodes in /dev are the six harmless ones and terminals")
{
	DIR *dir = opendir("/dev");
	struct dirent *d;
	struct stat st;

	while (dir && (d = readdir(dir))) {
		unsigned major_no, minor_no;

		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
			continue;
		major_no = major(st.st_rdev);
		minor_no = minor(st.st_rdev);
		if (S_ISBLK(st.st_mode) || !((major_no == 1 && minor_no >= 3 && minor_no <= 9) ||
					     major_no == 5 || major_no == 136))
			return broke("/dev/%s is %u:%u", d->d_name, major_no, minor_no);
	}
	return dir ? held("six") : broke("/dev cannot be read");
}

struct handle {
	unsigned bytes;
	int type;
	unsigned char data[128];
};

CASE(A22_open_by_handle_at, "A22", AS_BOTH,
     "open_by_handle_at is refused for every guessed inode (\"shocker\")")
{
	int mount_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (uint64_t inode = 1; inode < 300; inode++) {
		struct handle h = {.bytes = 8, .type = 1};
		long fd;

		memcpy(h.data, &inode, sizeof(inode));
		fd = syscall(SYS_open_by_handle_at, mount_fd, &h, O_RDONLY);
		if (fd >= 0)
			return broke("inode %llu opened", (unsigned long long)inode);
		if (!is_refusal(errno))
			return broke("reached the filesystem: %s", strerror(errno));
	}
	return held("%s", strerror(errno));
}

CASE(A22_handle_of_host_mount, "A22", AS_BOTH,
     "a handle taken of a host directory's file cannot be turned into a descriptor")
{
	struct handle h = {.bytes = sizeof(h.data)};
	int mount_id, fd = open("/attack", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/attack", &h, &mount_id, 0) < 0)
		return held("name_to_handle_at: %s", strerror(errno));
	return failed("open_by_handle_at", syscall(SYS_open_by_handle_at, fd, &h, O_RDONLY));
}

CASE(A20_setuid_gives_no_capability, "A20", AS_ROOT,
     "a setuid-root program of the box's own making stays within the bounding set")
{
	long long bound = status_number("CapBnd", 16), effective = status_number("CapEff", 16);

	if (bound < 0 || effective < 0)
		return broke("no capability lines");
	if (bound & ~0x4fbll) /* chown dac_override fowner fsetid kill setgid setuid bind */
		return broke("bounding set is %llx", bound);
	return held("bounding set %llx, effective %llx", bound, effective);
}

CASE(A20_file_capability_xattr, "A20", AS_BOTH,
     "security.capability cannot be set, or gives nothing beyond the bounding set")
{
	/* Version 2, effective, every capability permitted. */
	static const unsigned char full[20] = {1,    0,	   0,	 2,    0xff, 0xff, 0xff,
					       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					       0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	char path[256];
	int fd, r;

	snprintf(path, sizeof(path), "%s/capfile", scratch_dir());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	close(fd);
	r = setxattr(path, "security.capability", full, sizeof(full), 0);
	unlink(path);
	return failed("setxattr security.capability", r);
}

CASE(A20_trusted_xattr, "A20", AS_BOTH, "trusted.* and security.selinux cannot be set")
{
	char path[256];
	int fd, r;

	snprintf(path, sizeof(path), "%s/xattr", scratch_dir());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	close(fd);
	r = setxattr(path, "trusted.overlay.opaque", "y", 1, 0);
	if (r == 0)
		return broke("trusted.overlay.opaque was set");
	r = setxattr(path, "security.ima", "x", 1, 0);
	unlink(path);
	return failed("setxattr security.ima", r);
}

CASE(A20_hardlink_to_image_file, "A20", AS_BOTH,
     "a hard link to an image's file does not make the image writable")
{
	char path[256];
	struct stat before, after;
	int fd;

	if (stat("/usr/bin/env", &before) < 0)
		return not_applicable("no /usr/bin/env in this image");
	snprintf(path, sizeof(path), "%s/link", scratch_dir());
	if (link("/usr/bin/env", path) < 0)
		return held("link: %s", strerror(errno));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	unlink(path);
	/* Copied up into this box's own layer where it opened: the image itself is looked at by
	 * the runner, from a second box. */
	stat("/usr/bin/env", &after);
	return after.st_size == before.st_size ? held("copied up") : broke("the file changed");
}

CASE(A24_guess_shell_directory, "A2", AS_USER, "init's own directory in /dev cannot be listed")
{
	DIR *dir = opendir("/dev/cove");
	struct dirent *d;

	if (!dir)
		return held("%s", strerror(errno));
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.')
			return broke("saw %s", d->d_name);
	return held("empty");
}

CASE(A28_overlay_xattr_on_live_tree, "A26", AS_BOTH,
     "user.overlay.redirect and opaque set from inside change nothing that is seen")
{
	char dir[256], path[300];

	snprintf(dir, sizeof(dir), "%s/ovl", scratch_dir());
	mkdir(dir, 0755);
	setxattr(dir, "user.overlay.redirect", "/../../../../etc", 16, 0);
	setxattr(dir, "user.overlay.opaque", "y", 1, 0);
	setxattr(dir, "user.overlay.origin", "xxxxxxxxxxxxxxxx", 16, 0);
	snprintf(path, sizeof(path), "%s/passwd", dir);
	if (access(path, F_OK) == 0)
		return broke("redirected to /etc");
	return held("nothing there");
}
