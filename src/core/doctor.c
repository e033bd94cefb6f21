/*
 * Checks of this host; see doctor.h.
 *
 * What the kernel says it can do and what it lets us do are different things, so namespaces,
 * overlay, id-mapped mounts, cgroups and writing to the state directory are tried, in a child or on
 * descriptors that go away by themselves. Nothing is left on disk, not even the state directory.
 * One table lists the checks; each fills its own line.
 */
#include "core/doctor.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "core/core.h"
#include "store/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT_BYTES_MAX = 64 << 10, PROBE_UID = 200000 };

/* Filesystems that cannot hold the writable layer of an overlay. */
#define FS_OVERLAY 0x794c7630
#define FS_NFS	   0x6969
#define FS_FUSE	   0x65735546

struct doctor {
	struct cove cove; /* the state directory, where it can be opened */
	struct err state_error;
	int place_fd; /* owned; the state directory, or before it is made what is above it; or -1 */
};

/* The nearest directory above a path that is there. */
static int open_above(const char *path, int *ret_fd, struct err *e)
{
	char above[sizeof(((struct state *)0)->home)];
	int fd = -1;

	str_copy(above, sizeof(above), path);
	do {
		char *slash = strrchr(above, '/');

		slash[slash == above] = 0;
		fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} while (fd < 0 && errno == ENOENT && above[1]);
	if (fd < 0)
		return err_errno(e, errno, "open '%.140s'", above);
	*ret_fd = fd;
	return 0;
}

static void find_place(struct doctor *d, const char *home)
{
	struct state *s = &d->cove.state;

	d->place_fd = -1;
	if (state_open(s, home, false, &d->state_error) < 0)
		return;
	if (s->home_fd >= 0)
		d->place_fd = fcntl(s->home_fd, F_DUPFD_CLOEXEC, 3);
	else
		open_above(s->home, &d->place_fd, &d->state_error);
}

/* Can something be written there? What is tried has no name and is gone when it is closed. */
static int try_write(int dir_fd)
{
	autoclose int fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd_write_full(fd, "x", 1);
	if (errno != EOPNOTSUPP)
		return -errno;
	return faccessat(dir_fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

static void set(struct doctor_check *c, enum doctor_status status, const char *consequence,
		const char *remedy)
{
	c->status = status;
	str_copy(c->consequence, sizeof(c->consequence), consequence);
	str_copy(c->remedy, sizeof(c->remedy), remedy);
}

/* ---- what can only be tried ---- */

static int write_text(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* A user namespace with ourselves as its root. */
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

static int try_user_ns(void)
{
	return enter_user_ns();
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

static int try_overlay(void)
{
	static const char *const dirs[] = {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"};
	int r = geteuid() == 0 ? 0 : enter_user_ns();

	if (r < 0)
		return r;
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

/* Runs try() in a child: what it enters and mounts ends with it. */
static int probe(int (*try)(void))
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

/* ---- the checks ---- */

static void check_kernel(struct doctor *d, struct doctor_check *c)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	snprintf(c->found, sizeof(c->found), "Linux %.100s", u.release);
	if (major * 1000 + minor < 5012)
		set(c, DOCTOR_MISSING,
		    "boxes need openat2, id-mapped mounts and overlay in user namespaces",
		    "use Linux 5.12 or later; 5.19 for everything (Debian 12 has 6.1)");
	else if (major * 1000 + minor < 5019)
		set(c, DOCTOR_LIMITED,
		    "overlay on id-mapped layers needs 5.19: as root boxes may not start",
		    "use Linux 5.19 or later (Debian 12 has 6.1)");
}

static bool sysctl_is(const char *path, const char *value)
{
	autofree char *text = NULL;

	return fd_read_file(AT_FDCWD, path, 64, &text, NULL) == 0 &&
	       strncmp(text, value, strlen(value)) == 0;
}

static const char *user_ns_remedy(void)
{
	if (sysctl_is("/proc/sys/user/max_user_namespaces", "0\n"))
		return "sysctl -w user.max_user_namespaces=65536";
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		return "sysctl -w kernel.unprivileged_userns_clone=1";
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor "
		       "profile "
		       "that allows userns for cove-keeper";
	return "allow user namespaces in the container or service that Cove runs in, or run it as "
	       "root";
}

static void check_user_ns(struct doctor *d, struct doctor_check *c)
{
	int r = probe(try_user_ns);

	snprintf(c->found, sizeof(c->found),
		 r == 0 ? "user namespaces can be made" : "making a user namespace fails: %s",
		 strerror(-r));
	if (r < 0)
		set(c, DOCTOR_MISSING, "a box cannot have ids of its own", user_ns_remedy());
}

static void check_namespaces(struct doctor *d, struct doctor_check *c)
{
	int r = probe(try_all_ns);

	snprintf(c->found, sizeof(c->found),
		 r == 0 ? "mount, pid, net, ipc, uts and cgroup namespaces can be made"
			: "making the other namespaces fails: %s",
		 strerror(-r));
	if (r < 0)
		set(c, DOCTOR_MISSING, "a box cannot be separated from the host",
		    "run Cove where nothing (seccomp, a container) forbids unshare(2)");
}

static void check_ids(struct doctor *d, struct doctor_check *c)
{
	char why[160] = "";
	struct ids ids;
	struct err e = {0};

	if (ids_detect(&ids, why, sizeof(why), &e) < 0) {
		str_copy(c->found, sizeof(c->found), e.msg);
		set(c, DOCTOR_MISSING, "boxes cannot be started", "see the message");
	} else if (ids.kind == IDS_RANGE) {
		str_copy(c->found, sizeof(c->found), "root: a range of 65536 ids for every box");
	} else if (ids.kind == IDS_SUBORDINATE) {
		str_copy(c->found, sizeof(c->found),
			 "subordinate ids and newuidmap: root inside boxes");
	} else {
		str_copy(c->found, sizeof(c->found), why[0] ? why : "only one id can be mapped");
		set(c, DOCTOR_LIMITED,
		    "no root inside boxes: sudo and package installation do not work",
		    "apt install uidmap; usermod --add-subuids 100000-165535 --add-subgids "
		    "100000-165535 $USER");
	}
}

static void check_overlay(struct doctor *d, struct doctor_check *c)
{
	int r = probe(try_overlay);

	snprintf(c->found, sizeof(c->found),
		 r == 0 ? "overlay can be mounted" : "mounting an overlay fails: %s", strerror(-r));
	if (r < 0)
		set(c, DOCTOR_MISSING, "a box's writes cannot be laid over its image",
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

static void check_idmap(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (d->place_fd < 0 || core_ids(&d->cove, &e) < 0) {
		str_copy(c->found, sizeof(c->found),
			 "not tried: there is no place for a state directory");
		set(c, DOCTOR_LIMITED, "it is not known whether boxes can be started",
		    "see state_directory");
	} else if (d->cove.ids.kind != IDS_RANGE) {
		str_copy(c->found, sizeof(c->found), "not needed by an ordinary user");
	} else if (try_idmap(d, &e) < 0) {
		snprintf(c->found, sizeof(c->found), "id-mapped mounts fail: %.120s", e.msg);
		set(c, DOCTOR_MISSING, "layers cannot be shown with the ids of a box",
		    "put COVE_HOME on ext4, XFS or btrfs, or use a newer kernel");
	} else {
		str_copy(c->found, sizeof(c->found),
			 "id-mapped mounts work on the state directory");
	}
}

static void check_cgroup(struct doctor *d, struct doctor_check *c)
{
	char name[40];
	struct cgroup_limits none = {0};
	struct cgroup group;
	struct err e = {0};
	int r;

	snprintf(name, sizeof(name), "doctor-%d", (int)getpid());
	r = cgroup_make(name, &none, geteuid(), getegid(), &group, &e);
	if (r == 0 && group.fd >= 0 && faccessat(group.fd, "cgroup.kill", F_OK, 0) == 0) {
		str_copy(c->found, sizeof(c->found),
			 "cgroup v2: a command's tree is frozen and killed as one");
	} else {
		snprintf(c->found, sizeof(c->found), "%.150s",
			 r < 0			     ? e.msg
			 : group.why[CGROUP_TREE][0] ? group.why[CGROUP_TREE]
						     : "no cgroup.kill");
		set(c, DOCTOR_LIMITED,
		    "the end of a command's tree is found by walking its descendants, which is not "
		    "exact",
		    geteuid() == 0 ? "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with "
				     "systemd.unified_cgroup_hierarchy=1"
				   : "run it in a delegated group: systemd-run --user --scope -p "
				     "Delegate=yes");
	}
	cgroup_done(&group);
	if (r == 0)
		cgroup_remove(name, NULL);
}

static void check_state(struct doctor *d, struct doctor_check *c)
{
	const struct state *s = &d->cove.state;
	struct statvfs space = {0};
	struct statfs fs = {0};
	int r;

	if (d->place_fd < 0 || fstatfs(d->place_fd, &fs) < 0 || fstatvfs(d->place_fd, &space) < 0) {
		str_copy(c->found, sizeof(c->found), d->state_error.msg);
		set(c, DOCTOR_MISSING, "there is no place to keep boxes",
		    "set COVE_HOME to a directory of your own on a local disk");
		return;
	}
	r = try_write(d->place_fd);
	if (r < 0) {
		snprintf(c->found, sizeof(c->found), "%.110s cannot be %s: %s", s->home,
			 s->home_fd < 0 ? "made" : "written to", strerror(-r));
		set(c, DOCTOR_MISSING, "boxes cannot be made or started",
		    "set COVE_HOME to a directory of your own on a local disk");
		return;
	}
	snprintf(c->found, sizeof(c->found), "%.110s%s, %llu MiB free", s->home,
		 s->home_fd < 0 ? " (not made yet)" : "",
		 (unsigned long long)space.f_bavail * space.f_frsize >> 20);
	if (fs.f_type == FS_OVERLAY || fs.f_type == FS_NFS || fs.f_type == FS_FUSE)
		set(c, DOCTOR_MISSING,
		    "this kind of filesystem cannot hold the writable layer of a box",
		    "set COVE_HOME to a directory on ext4, XFS, btrfs or tmpfs");
	else if (space.f_bavail * space.f_frsize < (1ull << 30))
		set(c, DOCTOR_LIMITED, "boxes will soon run out of space",
		    "free some space, or set COVE_HOME to another disk");
}

static void check_image(struct doctor *d, struct doctor_check *c)
{
	struct image image;
	struct err e = {0};

	if (d->place_fd >= 0 && image_find(&d->cove.state, IMAGE_DEFAULT, &image, &e) == 0) {
		snprintf(c->found, sizeof(c->found), "image '%s', %llu MiB", image.name,
			 (unsigned long long)image.bytes >> 20);
		return;
	}
	str_copy(c->found, sizeof(c->found), "there is no image '" IMAGE_DEFAULT "'");
	set(c, DOCTOR_LIMITED, "boxes can only use this machine's own programs (--image host)",
	    "cove image make");
}

static void check_programs(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (spawn_find_programs(&d->cove, &e) == 0) {
		snprintf(c->found, sizeof(c->found), "%.75s and %.75s", d->cove.keeper_path,
			 d->cove.init_path);
		return;
	}
	str_copy(c->found, sizeof(c->found), e.msg);
	set(c, DOCTOR_MISSING, "boxes cannot be started",
	    "make install, or set COVE_LIBEXEC to where the programs are");
}

static const struct {
	const char *name;
	void (*run)(struct doctor *d, struct doctor_check *c);
} checks[] = {
	{"kernel", check_kernel},	  {"user_namespaces", check_user_ns},
	{"namespaces", check_namespaces}, {"ids", check_ids},
	{"overlay", check_overlay},	  {"idmapped_mounts", check_idmap},
	{"cgroup", check_cgroup},	  {"state_directory", check_state},
	{"base_image", check_image},	  {"programs", check_programs},
};
_Static_assert(sizeof(checks) / sizeof(checks[0]) <= DOCTOR_CHECKS_MAX, "they fit the report");

enum doctor_status doctor_run(const char *home, struct doctor_report *ret)
{
	enum doctor_status worst = DOCTOR_OK;
	struct doctor d = {0};

	find_place(&d, home);
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct doctor_check *c = &ret->checks[ret->count++];

		c->name = checks[i].name;
		checks[i].run(&d, c);
		if (c->status > worst)
			worst = c->status;
	}
	fd_close(&d.place_fd);
	state_close(&d.cove.state);
	return worst;
}

const char *doctor_status_name(enum doctor_status status)
{
	static const char *const names[] = {"ok", "limited", "missing"};

	return names[status];
}

char *doctor_json(const struct doctor_report *report)
{
	enum doctor_status worst = DOCTOR_OK;
	struct json j;
	struct buf b;
	const char *text;
	char *copy;

	buf_init(&b, REPORT_BYTES_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	json_key(&j, "checks");
	json_array_begin(&j);
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *c = &report->checks[i];

		json_object_begin(&j);
		json_kv_str(&j, "name", c->name);
		json_kv_str(&j, "status", doctor_status_name(c->status));
		json_kv_str(&j, "found", c->found);
		json_kv_str(&j, "consequence", c->consequence[0] ? c->consequence : NULL);
		json_kv_str(&j, "remedy", c->remedy[0] ? c->remedy : NULL);
		json_object_end(&j);
		if (c->status > worst)
			worst = c->status;
	}
	json_array_end(&j);
	json_kv_str(&j, "status", doctor_status_name(worst));
	json_object_end(&j);
	text = j.error == 0 ? buf_cstr(&b) : NULL;
	copy = text ? strdup(text) : NULL;
	buf_done(&b);
	return copy;
}
