/* What a box has inside, made in namespaces of the test's own. */
#include "guest/guest.h"

#include "base/fd.h"
#include "guest/mount.h"
#include "guest/setup.h"
#include "guest/target.h"
#include "old_kernel.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define TMPFS_IS 0x01021994

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Runs the rest of the test as PID 1 of new namespaces, as root with one id. */
static void enter(void)
{
	char map[64];
	int uid = (int)geteuid(), gid = (int)getegid(), status;
	pid_t pid;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS) < 0)
		SKIP("no namespaces here");
	write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %d 1", uid);
	write_text("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %d 1", gid);
	write_text("/proc/self/gid_map", map);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	pid = fork();
	if (pid == 0)
		return;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void make_scratch(struct guest *g)
{
	int place;

	*g = GUEST_NONE;
	place = open("/mnt", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(place >= 0);
	CHECK_EQ(guest_scratch_make(g, place), 0);
	close(place);
}

static bool is_on_tmpfs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_IS;
}

static size_t bytes_of(const char *path)
{
	char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	CHECK(n >= 0);
	close(fd);
	return (size_t)n;
}

TEST(masks_cover_files_with_nothing_and_directories_with_an_empty_one)
{
	static const char *const shown[] = {"proc/version", "proc/filesystems", "proc/sys",
					    "proc/self", "proc/vmstat"};
	struct guest g;
	unsigned files = 0, dirs = 0;

	enter();
	make_scratch(&g);
	if (guest_proc_make(&g) == -EPERM)
		SKIP("the host's own /proc is partly hidden");
	CHECK(!is_on_tmpfs("proc/kmsg") && !is_on_tmpfs("proc/bus"));
	CHECK_EQ(guest_covers_hold(), 0);
	CHECK_EQ(guest_proc_mask(&g), 0);
	DIR *dir = opendir("proc");
	CHECK(dir != NULL);
	for (struct dirent *d; (d = readdir(dir));) {
		char path[300];
		struct stat st;

		snprintf(path, sizeof(path), "proc/%s", d->d_name);
		if (d->d_name[0] == '.' || !is_on_tmpfs(path) || stat(path, &st) < 0)
			continue;
		CHECK_EQ(open(path, O_WRONLY | O_CLOEXEC), -1);
		if (S_ISDIR(st.st_mode)) {
			DIR *below = opendir(path);
			int count = 0;

			while (below && readdir(below))
				count++;
			CHECK_EQ(count, 2);
			closedir(below);
			dirs++;
		} else {
			CHECK_EQ(bytes_of(path), 0);
			files++;
		}
	}
	closedir(dir);
	CHECK(files > 5 && dirs > 1);
	CHECK(is_on_tmpfs("proc/kmsg") && is_on_tmpfs("proc/interrupts") &&
	      is_on_tmpfs("proc/bus"));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		CHECK(!is_on_tmpfs(shown[i]));
}

TEST(what_is_read_only_cannot_be_written_by_its_owner)
{
	struct guest g;

	enter();
	make_scratch(&g);
	if (guest_proc_make(&g) == -EPERM)
		SKIP("the host's own /proc is partly hidden");
	write_text("proc/sys/net/ipv4/ip_unprivileged_port_start", "5");
	for (size_t i = 0; guest_proc_read_only_paths[i]; i++)
		CHECK_EQ(guest_proc_read_only(&g, guest_proc_read_only_paths[i]), 0);
	CHECK_EQ(guest_proc_read_only(&g, "not-there"), 0);
	CHECK_EQ(open("proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC), -1);
	CHECK_EQ(errno, EROFS);
	CHECK_EQ(open("proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC), -1);
}

/* A tree that a hostile box wrote: a small file goes where it belongs, or nowhere. */
TEST(a_small_file_over_whatever_the_tree_has)
{
	struct guest g;

	enter();
	make_scratch(&g);
	CHECK_EQ(mkdir("root", 0755), 0);
	CHECK_EQ(mkdir("root/etc", 0755), 0);
	CHECK_EQ(symlink("../../../../nowhere/resolv.conf", "root/etc/resolv.conf"), 0);
	CHECK_EQ(symlink("/", "root/away"), 0);
	g.root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(guest_put_file(&g, "/etc/hosts", "hosts\n"), 0);
	CHECK_EQ(bytes_of("root/etc/hosts"), 6);
	CHECK_EQ(guest_put_file(&g, "/etc/resolv.conf", "resolver\n"), 0);
	CHECK_EQ(bytes_of("root/etc/resolv.conf"), 9);
	CHECK_EQ(guest_put_file(&g, "/away/hostname", "x"), 0);
	CHECK_EQ(bytes_of("root/hostname"), 1);
	CHECK(access("/hostname", F_OK) < 0);
	CHECK_EQ(mkdir("root/etc/dir", 0755), 0);
	CHECK(guest_put_file(&g, "/etc/dir", "x") < 0);
}

/* With an id of its own namespace only, it may make none that work; then no device works there. */
TEST(scratch_without_nodes_has_no_devices)
{
	bool has_nodes = true;
	struct statvfs fs;
	int fd;

	enter();
	fd = guest_scratch_new(GUEST_OWN_UID, 0, &has_nodes);
	CHECK(fd >= 0 && !has_nodes);
	CHECK_EQ(fstatvfs(fd, &fs), 0);
	CHECK_EQ(fs.f_flag & (ST_NODEV | ST_NOSUID | ST_NOEXEC), ST_NODEV | ST_NOSUID | ST_NOEXEC);
	CHECK_EQ(fs.f_blocks * fs.f_frsize, 64u << 20);
	CHECK_EQ(fs.f_files, 16384);
	close(fd);
}

TEST(dev_has_nodes_links_and_mounts)
{
	static const char *const links[] = {"fd", "stdin", "stdout", "stderr", "ptmx"};
	int devices[GUEST_DEVICES];
	struct stat st, dev;
	struct guest g;

	enter();
	make_scratch(&g);
	for (int i = 0; i < GUEST_DEVICES; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/dev/%s", guest_devices[i].name);
		devices[i] = mount_clone(AT_FDCWD, path, false);
		CHECK(devices[i] >= 0);
	}
	CHECK_EQ(guest_dev_make(&g, &(struct guest_dev){.has_nodes = false,
							.devices = devices,
							.mem_bytes = 8 << 20,
							.single = true}),
		 0);
	for (int i = 0; i < GUEST_DEVICES; i++) {
		CHECK_EQ(fstatat(g.dev, guest_devices[i].name, &st, 0), 0);
		CHECK(S_ISCHR(st.st_mode));
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		CHECK_EQ(fstatat(g.dev, links[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		CHECK(S_ISLNK(st.st_mode));
	}
	CHECK(is_on_tmpfs("dev/shm") && is_on_tmpfs("dev/cove") && !is_on_tmpfs("dev/pts"));
	/* One file system more for the machine, not three. */
	CHECK_EQ(fstat(g.scratch, &st), 0);
	CHECK_EQ(fstat(g.dev, &dev), 0);
	CHECK_EQ(dev.st_dev, st.st_dev);
	CHECK_EQ(dev.st_mode & 07777, 0755);
	CHECK_EQ(fstatat(g.dev, "cove", &st, 0), 0);
	CHECK_EQ(dev.st_dev, st.st_dev);
	CHECK_EQ(st.st_mode & 07777, 01733);
}

/* The tree of a box with links of all kinds, as this process's root. */
static void enter_tree(void)
{
	CHECK_EQ(mount("t", "/mnt", "tmpfs", 0, "mode=755"), 0);
	CHECK_EQ(chdir("/mnt"), 0);
	CHECK_EQ(system("mkdir -p dev etc/ssl/certs share; echo A > etc/real.pem; "
			"ln -s ../../../../etc/real.pem etc/ssl/certs/ca-certificates.crt; "
			"ln -s ../run/none/resolv.conf etc/resolv.conf; ln -s /proc/1/root magic"),
		 0);
	for (int i = 0; i < GUEST_DEVICES; i++) {
		char from[32];

		snprintf(from, sizeof(from), "/dev/%s", guest_devices[i].name);
		CHECK_EQ(mknod(from + 1, S_IFREG | 0644, 0), 0);
		CHECK_EQ(mount(from, from + 1, NULL, MS_BIND, NULL), 0);
	}
	/* A shared directory of the same filesystem: only the mount tells. */
	CHECK_EQ(mount("share", "share", NULL, MS_BIND, NULL), 0);
	CHECK_EQ(symlink("/etc", "share/link"), 0);
	CHECK_EQ(chroot("."), 0);
	CHECK_EQ(chdir("/"), 0);
}

/* init --guest where the kernel has no openat2. */
TEST(insides_are_made_without_openat2)
{
	struct guest_setup c = {.name = "demo", .single = true, .net = true, .trust_pem = "B\n"};
	struct guest_redirect net;
	char notes[512] = "";
	struct err e = {0};
	int root;

	enter();
	enter_tree();
	become_old();
	if (guest_setup_run(&c, &net, notes, sizeof(notes), &e) == -EPERM)
		SKIP("the host's own /proc is partly hidden");
	CHECK_STR(e.msg, "");
	CHECK_EQ(bytes_of("/etc/resolv.conf"), strlen("nameserver " GUEST_DNS_ADDR "\n"));
	CHECK_EQ(bytes_of("/etc/hostname"), 4);
	CHECK_EQ(bytes_of("/etc/real.pem"), strlen("A\n\nB\n")); /* through its link */
	CHECK_EQ(bytes_of("/dev/cove-trust/box.pem"), 2);
	CHECK(is_on_tmpfs("/proc/kmsg"));
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(guest_target_open(root, "/share/link/x", true), -ELOOP);
	CHECK(guest_target_open(root, "/magic/etc", true) < 0);
	CHECK(guest_target_open(root, "/proc/self/cwd", true) < 0);
	CHECK(access("/etc/x", F_OK) < 0);
	/* What a link leads into that the box is run by, whether it is there or not. */
	CHECK(symlink("/dev/none", "/away") == 0 && symlink("/none", "/lost") == 0);
	CHECK_EQ(guest_target_open(root, "/away", true), -ELOOP);
	CHECK_EQ(guest_target_open(root, "/lost", true), -ENOENT);
}

TEST(hosts_of_a_name)
{
	char text[GUEST_HOSTS_MAX], name[300];

	guest_format_hosts(text, "demo");
	CHECK(strstr(text, "127.0.0.1 localhost\n") && strstr(text, "127.0.1.1 demo\n"));
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	guest_format_hosts(text, name);
	CHECK(strlen(text) < sizeof(text));
}

TAP_MAIN
