/* A9, A10, A23: taking masks and read-only mounts off, new mounts, nested namespaces. */
#include "attack.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

CASE(A9_umount_masks, "A9", AS_BOTH, "no mask in /proc can be unmounted, detached or expired")
{
	static const char *const masks[] = {"/proc/kcore", "/proc/keys", "/proc/timer_list",
					    "/proc/sys", "/proc"};

	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		if (access(masks[i], F_OK) < 0)
			continue;
		if (umount2(masks[i], 0) == 0 || umount2(masks[i], MNT_DETACH) == 0 ||
		    umount2(masks[i], MNT_EXPIRE) == 0)
			return broke("%s is off", masks[i]);
		if (!is_refusal(errno))
			return broke("%s: %s", masks[i], strerror(errno));
	}
	return held("refused");
}

CASE(A9_umount_root, "A9", AS_BOTH, "/ cannot be detached to see what is below")
{
	return refused("umount2 /", umount2("/", MNT_DETACH));
}

CASE(A9_remount_writable, "A9", AS_BOTH, "a read-only mount cannot be remounted read-write")
{
	static const char *const places[] = {"/proc/sys", "/attack", "/proc", "/dev/null", "/"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (mount(NULL, places[i], NULL, MS_REMOUNT, NULL) == 0 ||
		    mount(NULL, places[i], NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
			return broke("remounted %s", places[i]);
	return refused("remount", mount(NULL, "/", NULL, MS_REMOUNT, NULL));
}

CASE(A9_mount_setattr, "A9", AS_BOTH, "mount_setattr cannot clear read-only")
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attr = {.clear = 1};

	return refused("mount_setattr",
		       syscall(NR_mount_setattr, AT_FDCWD, "/attack", 0, &attr, sizeof(attr)));
}

CASE(A9_bind_over, "A9", AS_BOTH, "nothing can be bound over a mask or anywhere")
{
	return refused("bind", mount("/tmp", "/proc/sys", NULL, MS_BIND, NULL));
}

CASE(A9_move_mount, "A9", AS_BOTH, "a mask cannot be moved away")
{
	if (mount("/proc/sys", "/tmp", NULL, MS_MOVE, NULL) == 0)
		return broke("MS_MOVE worked");
	return refused("move_mount",
		       syscall(NR_move_mount, AT_FDCWD, "/proc/sys", AT_FDCWD, "/tmp", 0));
}

CASE(A9_open_tree_clone, "A9", AS_BOTH,
     "open_tree(OPEN_TREE_CLONE) gives no copy without its masks")
{
	return refused("open_tree", syscall(NR_open_tree, AT_FDCWD, "/proc", 1));
}

CASE(A9_second_proc, "A9", AS_BOTH, "no second /proc can be mounted")
{
	return refused("mount proc", mount("proc", "/tmp", "proc", 0, NULL));
}

CASE(A9_mount_sysfs, "A9", AS_BOTH, "no sysfs can be mounted")
{
	return refused("mount sysfs", mount("sysfs", "/tmp", "sysfs", 0, NULL));
}

CASE(A9_mount_cgroup, "A9", AS_BOTH, "no cgroup filesystem can be mounted (release_agent)")
{
	if (mount("c", "/tmp", "cgroup", 0, "memory") == 0)
		return broke("cgroup v1 mounted");
	return refused("mount cgroup2", mount("c", "/tmp", "cgroup2", 0, NULL));
}

CASE(A9_mount_tmpfs, "A9", AS_BOTH, "no tmpfs can be mounted over anything")
{
	return refused("mount tmpfs", mount("t", "/tmp", "tmpfs", 0, NULL));
}

CASE(A9_mount_overlay, "A9", AS_BOTH, "no overlay can be mounted over a lower of choice")
{
	return refused("mount overlay",
		       mount("o", "/tmp", "overlay", 0, "lowerdir=/usr:/etc,userxattr"));
}

CASE(A9_pivot_root, "A9", AS_BOTH, "pivot_root is refused")
{
	return refused("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
}

CASE(A9_masks_are_there, "A9", AS_BOTH, "what is masked in /proc shows no byte")
{
	static const char *const files[] = {
		"kcore",       "keys",	     "latency_stats", "timer_list",   "timer_stats",
		"sched_debug", "interrupts", "kallsyms",      "kmsg",	      "slabinfo",
		"vmallocinfo", "cmdline",    "config.gz",     "sysrq-trigger"};
	unsigned looked = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[64], text[64];
		struct statfs fs;
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		if (stat(path, &st) < 0)
			continue;
		looked++;
		if (statfs(path, &fs) < 0 || fs.f_type == 0x9fa0 /* proc */)
			return broke("%s is the kernel's own file", path);
		if (slurp(path, text, sizeof(text)) > 0)
			return broke("%s can be read", path);
		if (!S_ISREG(st.st_mode) || !(fs.f_flags & ST_RDONLY))
			return broke("%s is not an empty read-only file", path);
		if (open(path, O_WRONLY | O_CLOEXEC) >= 0 || chmod(path, 0666) == 0)
			return broke("%s can be changed", path);
	}
	return looked ? held("%u of them are empty files", looked) : broke("no mask at all");
}

CASE(A9_masked_directories_are_empty, "A9", AS_BOTH,
     "masked directories hold nothing and take nothing")
{
	static const char *const dirs[] = {"/proc/acpi", "/proc/asound", "/proc/scsi"};
	unsigned looked = 0;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		struct stat st;

		if (stat(dirs[i], &st) < 0)
			continue;
		looked++;
		if (st.st_nlink > 2)
			return broke("%s has directories", dirs[i]);
		if (mkdir("/proc/acpi/x", 0700) == 0)
			return broke("%s can be written", dirs[i]);
	}
	return looked ? held("%u", looked) : not_applicable("this kernel has none of them");
}

CASE(A9_read_only_parts_are_read_only, "A9", AS_BOTH,
     "/proc/sys, bus, fs and irq are mounts of their own, read-only")
{
	static const char *const parts[] = {"/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct statvfs st;

		if (statvfs(parts[i], &st) < 0)
			continue;
		if (!(st.f_flag & ST_RDONLY))
			return broke("%s is not read-only", parts[i]);
	}
	return held("read-only");
}

CASE(A9_nodev_nosuid_mounts, "A9", AS_BOTH, "/, /tmp, /dev/shm and given directories are nodev")
{
	static const char *const places[] = {"/", "/tmp", "/dev/shm", "/attack"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct statvfs st;

		if (statvfs(places[i], &st) == 0 && !(st.f_flag & 4 /* ST_NODEV */))
			return broke("%s takes devices", places[i]);
	}
	return held("nodev");
}

CASE(A10_unshare_user_and_mount, "A10", AS_BOTH,
     "unshare(NEWUSER|NEWNS) is refused, so no bind can be detached by an old descriptor")
{
	int dir = open("/proc/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = unshare(CLONE_NEWUSER | CLONE_NEWNS);

	if (r == 0) {
		fchdir(dir);
		return broke("unshared; detach: %d", umount2(".", MNT_DETACH));
	}
	/* Both locks answer: the filter with EPERM, the sysctl with ENOSPC. */
	return errno == EPERM || errno == ENOSPC || errno == ENOSYS ? held("%s", strerror(errno))
								    : broke("%s", strerror(errno));
}

CASE(A10_user_namespaces_are_off, "A10", AS_BOTH,
     "user.max_user_namespaces is 0: a second lock behind the filter")
{
	char text[32];

	if (slurp("/proc/sys/user/max_user_namespaces", text, sizeof(text)) <= 0)
		return not_applicable("no such sysctl here");
	return text[0] == '0' ? held("0") : broke("it is %s", text);
}

CASE(A23_no_propagation, "A23", AS_BOTH,
     "no mount of the box is shared with or a slave of the host")
{
	static char text[1 << 18];

	if (slurp("/proc/self/mountinfo", text, sizeof(text)) <= 0)
		return broke("no mountinfo");
	if (strstr(text, " shared:") || strstr(text, " master:") || strstr(text, "propagate_from:"))
		return broke("a mount propagates");
	return held("all private");
}

static bool is_expected_mount(const char *at)
{
	static const char *const starts[] = {"/proc",	"/dev",	      "/sys",	 "/etc/",
					     "/attack", "/workspace", "/usr",	 "/bin",
					     "/sbin",	"/lib",	      "/shared", "/given",
					     "/tmp",	"/run",	      "/count",	 "/prepared"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(at, starts[i], strlen(starts[i])) == 0)
			return true;
	return strcmp(at, "/") == 0;
}

CASE(A23_old_root_is_gone, "A23", AS_BOTH, "nothing is mounted but what the plan names")
{
	static char text[1 << 18];

	if (slurp("/proc/self/mountinfo", text, sizeof(text)) <= 0)
		return broke("no mountinfo");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char at[512] = "";

		if (sscanf(line, "%*d %*d %*s %*s %511s", at) == 1 && !is_expected_mount(at))
			return broke("%s is mounted", at);
	}
	return held("only its own");
}

CASE(A23_canary_below_any_mount, "A23", AS_BOTH,
     "no mount of the box holds the canary's path below it")
{
	static char text[1 << 18];
	unsigned looked = 0;

	if (slurp("/proc/self/mountinfo", text, sizeof(text)) <= 0)
		return broke("no mountinfo");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char at[512] = "", path[5000];

		if (sscanf(line, "%*d %*d %*s %*s %511s", at) != 1)
			continue;
		looked++;
		snprintf(path, sizeof(path), "%s%s", at, canary_path());
		if (has_canary(AT_FDCWD, path))
			return broke("read %s", path);
	}
	return held("%u mounts", looked);
}

CASE(A9_statmount_listmount, "A9", AS_BOTH, "statmount and listmount tell nothing of host mounts")
{
	struct {
		uint32_t size, spare;
		uint64_t id, param, ns;
	} request = {.size = 24, .id = ~0ull};
	uint64_t ids[64];
	long n = syscall(NR_listmount, &request, ids, 64, 0);

	if (n < 0)
		return held("%s", strerror(errno));
	return broke("listmount gave %ld ids", n);
}

CASE(A9_fsopen, "A9", AS_BOTH, "fsopen is refused")
{
	return refused("fsopen", syscall(NR_fsopen, "proc", 0));
}

CASE(A9_fspick, "A9", AS_BOTH, "fspick is refused")
{
	return refused("fspick", syscall(NR_fspick, AT_FDCWD, "/", 0));
}

CASE(A9_fsconfig, "A9", AS_BOTH, "fsconfig is refused")
{
	return refused("fsconfig", syscall(NR_fsconfig, -1, 0, NULL, NULL, 0));
}

CASE(A9_fsmount, "A9", AS_BOTH, "fsmount is refused")
{
	return refused("fsmount", syscall(NR_fsmount, -1, 0, 0));
}

/* A process may be in 16 Landlock layers at most: how many fit tells how many there were. */
CASE(A29_landlock_layer, "A9", AS_BOTH,
     "a command is in a Landlock domain from its start, as a second wall")
{
	struct {
		uint64_t fs, net, scoped;
	} rules = {.fs = 1 << 13}; /* making block devices */
	int set = (int)syscall(NR_landlock_create_ruleset, &rules, 8, 0);
	int added = 0;

	if (set < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP
			       ? not_applicable("this kernel has no Landlock")
			       : broke("landlock_create_ruleset: %s", strerror(errno));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	while (added < 20 && syscall(NR_landlock_restrict_self, set, 0) == 0)
		added++;
	return added < 16 ? held("%d more layers fit", added) : broke("it was in none");
}
