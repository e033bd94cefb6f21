/*
 * What the kernel can do, and what it lets this caller do; see doctor.h. The two are different
 * things, so namespaces, overlay and id-mapped mounts are tried.
 */
#include "base/coredump.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "doctor/checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROBE_UID = 200000, MEMFD_CLOEXEC = 1 };

/* ---- what can only be tried ---- */

static int write_text(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

static int enter_user_ns(void)
{
	char uids[64], gids[64];
	int r;

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	r = write_text("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_text("/proc/self/uid_map", uids);
	return r < 0 ? r : write_text("/proc/self/gid_map", gids);
}

static int try_in_child(int (*try)(void))
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-try());
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static bool file_is(const char *path, const char *value)
{
	autofree char *text = NULL;

	return fd_read_file(AT_FDCWD, path, 64, &text, NULL) == 0 &&
	       strncmp(text, value, strlen(value)) == 0;
}

/* ---- the kernel itself ---- */

void doctor_check_kernel(struct doctor *d, struct doctor_check *c)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	doctor_found(c, "Linux %.100s, %.20s", u.release, u.machine);
	if (major * 1000 + minor < 5012)
		doctor_set(c, DOCTOR_MISSING,
			   "boxes need openat2, id-mapped mounts and overlay in user namespaces",
			   "use Linux 5.12 or later; 5.19 for everything (Debian 12 has 6.1)");
	else if (major * 1000 + minor < 5019)
		doctor_set(c, DOCTOR_LIMITED,
			   "overlay on id-mapped layers needs 5.19: as root boxes may not start",
			   "use Linux 5.19 or later (Debian 12 has 6.1)");
}

/* A program can be executed from a memory file unless the sysctl vm.memfd_noexec says no. */
static bool has_memfd_exec(void)
{
	autoclose int fd = sys_memfd_create("cove-doctor", MEMFD_CLOEXEC);
	struct stat st;

	return fd >= 0 && !file_is("/proc/sys/vm/memfd_noexec", "2") && fstat(fd, &st) == 0;
}

static bool has_pidfd(void)
{
	autoclose int fd = sys_pidfd_open(getpid());

	return fd >= 0;
}

static bool has_openat2(void)
{
	autoclose int fd = fd_openat2(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0, FD_NO_MAGICLINKS);

	return fd >= 0;
}

static bool has_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 && errno != ENOSYS && errno != EPERM;
}

static bool has_close_range(void)
{
	return sys_close_range(~0u, ~0u, 0) == 0;
}

static bool has_mount_api(void)
{
	return syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno != ENOSYS &&
	       errno != EPERM;
}

static const struct {
	const char *name;
	bool (*has)(void);
} calls[] = {{"openat2", has_openat2},	   {"clone3", has_clone3},
	     {"pidfd", has_pidfd},	   {"close_range", has_close_range},
	     {"mount API", has_mount_api}, {"exec from memory", has_memfd_exec}};

void doctor_check_calls(struct doctor *d, struct doctor_check *c)
{
	char have[120] = "", lack[120] = "";

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		char *list = calls[i].has() ? have : lack;
		size_t n = strlen(list);

		snprintf(list + n, sizeof(have) - n, "%s%s", n > 0 ? ", " : "", calls[i].name);
	}
	if (!lack[0]) {
		doctor_found(c, "%s", have);
		return;
	}
	doctor_found(c, "not allowed or not there: %s", lack);
	doctor_set(c, DOCTOR_MISSING, "boxes cannot be started",
		   strstr(lack, "memory") ? "sysctl -w vm.memfd_noexec=0"
					  : "use Linux 5.12 or later, and nothing (a container's "
					    "seccomp profile) that forbids them");
}

/* ---- namespaces and ids ---- */

static const char *user_ns_remedy(void)
{
	if (file_is("/proc/sys/user/max_user_namespaces", "0\n"))
		return "sysctl -w user.max_user_namespaces=65536";
	if (file_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		return "sysctl -w kernel.unprivileged_userns_clone=1";
	if (file_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor "
		       "profile that allows userns for cove-keeper";
	return "allow user namespaces in the container or service that Cove runs in, or run it as "
	       "root";
}

void doctor_check_user_ns(struct doctor *d, struct doctor_check *c)
{
	autofree char *max = NULL;
	int r = try_in_child(enter_user_ns);

	if (r < 0) {
		doctor_found(c, "making a user namespace fails: %s", strerror(-r));
		doctor_set(c, DOCTOR_MISSING, "a box cannot have ids of its own", user_ns_remedy());
		return;
	}
	if (fd_read_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", 64, &max, NULL) < 0)
		max = NULL;
	if (max)
		max[strcspn(max, "\n")] = 0;
	doctor_found(c, "can be made, at most %.20s", max ? max : "as many as the kernel allows");
}

static int try_all_ns(void)
{
	int r = geteuid() == 0 ? 0 : enter_user_ns();

	if (r < 0)
		return r;
	return unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		       CLONE_NEWCGROUP) < 0
		       ? -errno
		       : 0;
}

void doctor_check_namespaces(struct doctor *d, struct doctor_check *c)
{
	int r = try_in_child(try_all_ns);

	if (r == 0) {
		doctor_found(c, "mount, pid, net, ipc, uts and cgroup can be made");
		return;
	}
	doctor_found(c, "making the other namespaces fails: %s", strerror(-r));
	doctor_set(c, DOCTOR_MISSING, "a box cannot be separated from the host",
		   "run Cove where nothing (seccomp, a container) forbids unshare(2)");
}

void doctor_check_ids(struct doctor *d, struct doctor_check *c)
{
	char why[160] = "";
	struct ids ids;
	struct err e = {0};

	if (ids_detect(&ids, why, sizeof(why), &e) < 0) {
		doctor_found(c, "%s", e.msg);
		doctor_set(c, DOCTOR_MISSING, "boxes cannot be started", "see the message");
	} else if (ids.kind == IDS_RANGE) {
		doctor_found(c, "root: a range of 65536 ids for every box");
	} else if (ids.kind == IDS_SUBORDINATE) {
		doctor_found(c, "subordinate ids and newuidmap: root inside boxes");
	} else {
		/* What comes after the colon is the remedy again. */
		doctor_found(c, "%.*s", (int)strcspn(why, ":"), why);
		if (!c->found[0])
			doctor_found(c, "only one id can be mapped");
		doctor_set(c, DOCTOR_LIMITED,
			   "no root inside boxes: sudo and package installation do not work",
			   "apt install uidmap; usermod --add-subuids 100000-165535 --add-subgids "
			   "100000-165535 $USER");
	}
}

/* A root in a container lacks some, and finds out late. */
void doctor_check_caps(struct doctor *d, struct doctor_check *c)
{
	static const struct {
		unsigned bit;
		const char *name, *without;
	} wanted[] = {
		{21, "CAP_SYS_ADMIN", "boxes cannot be started as root"},
		{6, "CAP_SETGID", "boxes cannot be started as root"},
		{7, "CAP_SETUID", "boxes cannot be started as root"},
		{24, "CAP_SYS_RESOURCE", "limits above the caller's own cannot be given"},
	};
	autofree char *status = NULL;
	unsigned long long have = 0;
	const char *line;

	if (geteuid() != 0) {
		doctor_found(c, "an ordinary user: none needed");
		return;
	}
	if (fd_read_file(AT_FDCWD, "/proc/self/status", 16384, &status, NULL) == 0 &&
	    (line = strstr(status, "\nCapEff:")))
		sscanf(line, "\nCapEff: %llx", &have);
	doctor_found(c, "root with all that Cove uses");
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (have & 1ull << wanted[i].bit)
			continue;
		doctor_found(c, "root without %s", wanted[i].name);
		if (wanted[i].bit == 24) /* Cove takes rlimits as it finds them. */
			return;
		doctor_set(c, DOCTOR_MISSING, wanted[i].without,
			   "give the container or service that capability, or run as a user");
		return;
	}
}

/* ---- filesystems ---- */

static int overlay_on_tmpfs(void)
{
	static const char *const dirs[] = {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (mkdir(dirs[i], 0700) < 0)
			return -errno;
	}
	return mount("overlay", "/tmp/merged", "overlay", 0,
		     "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr") < 0
		       ? -errno
		       : 0;
}

static int try_overlay_as_user(void)
{
	int r = enter_user_ns();

	return r < 0 ? r : overlay_on_tmpfs();
}

void doctor_check_overlay(struct doctor *d, struct doctor_check *c)
{
	int as_user = try_in_child(try_overlay_as_user);
	int r = geteuid() == 0 ? try_in_child(overlay_on_tmpfs) : as_user;

	if (r == 0) {
		doctor_found(c, "can be mounted, %s",
			     as_user == 0 ? "also in a user namespace (userxattr)"
					  : "but not in a user namespace");
		return;
	}
	doctor_found(c, "mounting an overlay fails: %s", strerror(-r));
	doctor_set(c, DOCTOR_MISSING, "a box's writes cannot be laid over its image",
		   "modprobe overlay; in a container, allow mounting overlay");
}

/* Clones the mount of the state directory with an id map: nothing is attached anywhere. */
static int try_idmap(struct doctor *d, struct err *e)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	struct ids ids = d->cove.ids;
	autoclose int ns = -1, tree = -1;

	ids.uid_base = PROBE_UID;
	ns = ids_mount_ns(&ids, 0, 0, e);
	if (ns < 0)
		return ns;
	tree = (int)syscall(SYS_open_tree, d->place_fd, "",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0)
		return err_errno(e, errno, "clone a mount");
	attr.userns_fd = (uint64_t)ns;
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(e, errno, "map the ids of a mount");
	return 0;
}

void doctor_check_idmap(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (d->place_fd < 0 || core_ids(&d->cove, &e) < 0) {
		doctor_found(c, "not tried: there is no place for a state directory");
		doctor_set(c, DOCTOR_LIMITED, "it is not known whether boxes can be started",
			   "see state_directory");
	} else if (d->cove.ids.kind != IDS_RANGE) {
		doctor_found(c, "not needed by an ordinary user");
	} else if (try_idmap(d, &e) < 0) {
		doctor_found(c, "id-mapped mounts fail: %.120s", e.msg);
		doctor_set(c, DOCTOR_MISSING, "layers cannot be shown with the ids of a box",
			   "put COVE_HOME on ext4, XFS or btrfs, or use a newer kernel");
	} else {
		doctor_found(c, "work on the state directory");
	}
}

/* ---- filters ---- */

void doctor_check_seccomp(struct doctor *d, struct doctor_check *c)
{
	static const uint32_t actions[] = {SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]) < 0) {
			doctor_found(c, "no system call filter: %s", strerror(errno));
			doctor_set(c, DOCTOR_MISSING,
				   "a box could reach every system call of this kernel",
				   "use a kernel built with CONFIG_SECCOMP_FILTER");
			return;
		}
	}
	doctor_found(c, "filter with errno and kill: boxes call only what is on the list");
}

void doctor_check_landlock(struct doctor *d, struct doctor_check *c)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi > 0) {
		doctor_found(c, "ABI %ld: a second wall around the filesystem", abi);
		return;
	}
	if (errno != EOPNOTSUPP && errno != ENOSYS) {
		doctor_found(c, "asking for it is refused: %s", strerror(errno));
		doctor_set(c, DOCTOR_MISSING, "boxes do not start rather than with a wall less",
			   "allow landlock_create_ruleset, landlock_add_rule and "
			   "landlock_restrict_self in the container or service that Cove runs in");
		return;
	}
	doctor_found(c, errno == EOPNOTSUPP ? "in the kernel, but switched off at boot"
					    : "not in this kernel");
	doctor_set(c, DOCTOR_LIMITED, "boxes have one wall less",
		   errno == EOPNOTSUPP
			   ? "boot with lsm=landlock,... (what /sys/kernel/security/lsm "
			     "lists, landlock first)"
			   : "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK");
}

static unsigned count_boxes(const struct doctor *d)
{
	int fd = d->cove.state.boxes_fd > 0 ? dup(d->cove.state.boxes_fd) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	unsigned count = 0;

	if (!dir) {
		fd_close(&fd);
		return 0;
	}
	rewinddir(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* The filters of boxes, keepers and doors are in memory that all programs of the kernel share. */
void doctor_check_bpf(struct doctor *d, struct doctor_check *c)
{
	enum { ROOM_WANTED = 256 };
	unsigned boxes = count_boxes(d), wanted = boxes > ROOM_WANTED ? boxes : ROOM_WANTED;
	autofree char *text = NULL;
	uint64_t limit;

	if (file_is("/proc/sys/net/core/bpf_jit_enable", "0")) {
		doctor_found(c, "programs are not translated here: no memory is shared");
		return;
	}
	if (fd_read_file(AT_FDCWD, "/proc/sys/net/core/bpf_jit_limit", 64, &text, NULL) < 0) {
		doctor_found(c, "net.core.bpf_jit_limit can be read by root only");
		return;
	}
	text[strcspn(text, "\n")] = 0;
	if (!str_parse_u64(text, UINT64_MAX, &limit))
		limit = UINT64_MAX;
	doctor_found(c, "room for the filters of about %llu boxes",
		     (unsigned long long)(limit / FILTERS_BYTES_MAX));
	if (limit / FILTERS_BYTES_MAX < wanted)
		doctor_set(c, DOCTOR_LIMITED,
			   "with many boxes, or other programs that use it, boxes do not start",
			   "sysctl -w net.core.bpf_jit_limit=268435456");
}

/* A crash in a box must start nothing on the host. */
void doctor_check_core_dumps(struct doctor *d, struct doctor_check *c)
{
	int target = coredump_target();
	bool can_refuse = try_in_child(coredump_off) == 0;

	if (target < 0) {
		doctor_found(c, "core_pattern cannot be read: %s", strerror(-target));
		doctor_set(c, DOCTOR_LIMITED, "it is not known what a crash in a box starts",
			   "show /proc/sys where Cove runs");
	} else if (target == COREDUMP_SOCKET) {
		doctor_found(c, "core_pattern is a socket (@)");
		doctor_set(
			c, DOCTOR_LIMITED,
			"a crash in a box reaches the service behind it: no limit stops that",
			"sysctl -w kernel.core_pattern=core, or a service that ignores processes "
			"in other user namespaces");
	} else if (target == COREDUMP_PROGRAM && !can_refuse) {
		doctor_found(c, "core_pattern is a program, and the limit of core files is 0");
		doctor_set(
			c, DOCTOR_LIMITED, "a crash in a box starts that program, as root",
			"a hard limit of core files of at least 1 (LimitCORE=1, or limits.conf)");
	} else {
		doctor_found(c, "%s",
			     target == COREDUMP_PROGRAM
				     ? "core_pattern is a program: no crash in a box "
				       "starts it"
				     : "core_pattern is a file: none is written of a box");
	}
}

/* Asks nf_tables for its generation, in a network of our own. */
static int try_nftables(void)
{
	struct {
		struct nlmsghdr head;
		struct nfgenmsg body;
	} ask = {.head = {.nlmsg_len = sizeof(ask),
			  .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
			  .nlmsg_flags = NLM_F_REQUEST}};
	struct timeval patience = {.tv_sec = 1};
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} answer;
	int fd, r = enter_user_ns();

	if (r == 0 && unshare(CLONE_NEWNET) < 0)
		r = -errno;
	if (r < 0)
		return r;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    send(fd, &ask, sizeof(ask), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.head))
		return -errno;
	if (answer.head.nlmsg_type == NLMSG_ERROR)
		return ((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
	return 0;
}

void doctor_check_nftables(struct doctor *d, struct doctor_check *c)
{
	int r = try_in_child(try_nftables);

	if (r == 0) {
		doctor_found(c, "answers in a new network namespace");
		return;
	}
	doctor_found(c, "does not answer in a new network namespace: %s", strerror(-r));
	doctor_set(c, DOCTOR_LIMITED,
		   "boxes reach the network only by programs that heed HTTP_PROXY and its like",
		   "modprobe nf_tables nft_chain_nat nft_redir");
}
