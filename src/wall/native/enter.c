/*
 * The new process's side; see enter.h.
 *
 *	join groups -> the namespaces that take long -> wait for ids -> become box root
 *	-> (not root on the host: open sources) -> the plan's steps
 *	-> descriptors in place -> exec cove-init from its sealed memfd
 *
 * The tree is built on guest.h's scratch, mounted over the host's /dev in this namespace:
 *
 *	scratch/lower	the image, read-only	scratch/rw	boxes/<id>, for upper and work
 *	scratch/root	the overlay; pivot_root makes it / and throws everything else away
 *
 * The overlay is mounted here, inside the user namespace, as root and as an ordinary user alike:
 * one way to do it, and the mount belongs to the box. Destinations inside the tree are opened with
 * RESOLVE_IN_ROOT, because a box that is started again brings a tree it has written itself.
 */
#include "wall/native/enter.h"

#include "base/fd.h"
#include "base/pass.h"
#include "base/str.h"
#include "guest/hold.h"
#include "guest/mount.h"
#include "guest/redirect.h"
#include "guest/target.h"
#include "guest/trust.h"
#include "wall/native/hold.h"
#include "wall/native/lowers.h"
#include "wall/native/park.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

/* ---- steps ---- */

static int step_scratch(struct enter *n, const struct step *s)
{
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	n->guest.scratch = take_fd(n->plan->scratch);
	n->guest.has_dev = n->plan->has_nodes;
	r = guest_scratch_make(&n->guest, AT_FDCWD);
	if (r == 0 &&
	    (mkdir("lower", 0700) < 0 || mkdir("rw", 0700) < 0 || mkdir("root", 0700) < 0))
		r = -errno;
	return r;
}

/* upper and work on a disk, or in memory that goes with the box. */
static int attach_rw(struct enter *n)
{
	const struct volume *layer = n->plan->config->layer;
	struct plan_source *rw = &n->plan->sources[PLAN_RW];
	char options[96];
	int r = rw->late ? pass_receive(n->go, &rw->fd, 1) : 0;

	if (r < 0)
		return r;
	if (!rw->absent)
		return mount_attach(rw->fd, AT_FDCWD, "rw");
	/* 0 inodes: as many as the kernel thinks fit, which nr_inodes=0 is not. */
	snprintf(options, sizeof(options),
		 layer->inodes ? "mode=0755,size=%llu,nr_inodes=%llu" : "mode=0755,size=%llu",
		 (unsigned long long)layer->bytes, (unsigned long long)layer->inodes);
	r = mount_here("tmpfs", "rw", MS_NODEV, options);
	if (r == 0 && (mkdir("rw/upper", 0755) < 0 || mkdir("rw/work", 0755) < 0))
		r = -errno;
	return r;
}

const char *enter_lower_name(size_t i, char ret[ENTER_LOWER_NAME])
{
	if (i == 0)
		return "lower";
	snprintf(ret, ENTER_LOWER_NAME, "lower%zu", i);
	return ret;
}

/* Attaches them, top first, and appends their names to the mount's options. */
static int attach_lowers(struct enter *n, struct buf *options)
{
	const struct wall_config *c = n->plan->config;
	char place[ENTER_LOWER_NAME];
	int fds[SPEC_LAYER_MAX], r = 0;

	for (size_t i = 0; i < c->lower_count && r == 0; i++) {
		const char *name = enter_lower_name(i, place);

		fds[i] = n->plan->sources[PLAN_LOWER + i].fd;
		if (i > 0 && mkdir(name, 0700) < 0)
			return -errno;
		r = mount_attach(fds[i], AT_FDCWD, name);
	}
	if (r == 0 && c->net.on && c->net.trust_pem)
		r = guest_trust_layer(&n->guest, fds, c->lower_count, c->net.trust_pem);
	if (r == 0)
		r = buf_printf(options, "lowerdir=%s",
			       n->guest.trust_layer ? GUEST_TRUST_LAYER ":" : "");
	for (size_t i = 0; i < c->lower_count && r == 0; i++)
		r = buf_printf(options, "%s%s", i ? ":" : "", enter_lower_name(i, place));
	return r;
}

static int mount_root(struct enter *n, struct buf *options)
{
	/* An overlay syncs the whole filesystem below it when it goes, unless it is volatile; and a
	 * volatile one cannot be mounted again, which a box that is thrown away never is. */
	const struct wall_config *c = n->plan->config;
	struct statvfs fs;
	int r;

	n->guest.is_new = c->throw_away;
	r = attach_lowers(n, options);
	if (r == 0)
		r = attach_rw(n);
	if (r < 0)
		return r;
	/* Where the keeper could only make them as the caller. */
	if (n->plan->ids->kind == IDS_SUBORDINATE && !n->plan->sources[PLAN_RW].absent &&
	    (chown("rw/upper", 0, 0) < 0 || chown("rw/work", 0, 0) < 0))
		return -errno;
	r = buf_printf(options, ",upperdir=rw/upper,workdir=rw/work,userxattr%s",
		       c->throw_away ? ",volatile" : "");
	if (r == 0)
		r = mount_here("overlay", "root", MS_NODEV, buf_cstr(options));
	if (r < 0)
		return r;
	n->guest.root = openat(AT_FDCWD, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->guest.root < 0)
		return -errno;
	/* An overlay that finds no room for its own directory is mounted all the same. */
	return fstatvfs(n->guest.root, &fs) == 0 && fs.f_flag & ST_RDONLY ? -ENOSPC : 0;
}

static int step_root(struct enter *n, const struct step *s)
{
	struct buf options; /* mount(2) takes a page of them, and this is much less */
	int r;

	buf_init(&options, 4000);
	r = mount_root(n, &options);
	buf_done(&options);
	return r;
}

static int step_proc(struct enter *n, const struct step *s)
{
	int r = guest_proc_make(&n->guest);

	if (r == 0 && n->plan->ids->kind == IDS_SUBORDINATE) {
		n->self = openat(n->guest.proc, "1", O_PATH | O_DIRECTORY | O_CLOEXEC);
		n->sys = openat(n->guest.proc, "sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (n->self < 0 || n->sys < 0)
			return -errno;
	}
	return r;
}

static int step_show_proc(struct enter *n, const struct step *s)
{
	return guest_proc_show(&n->guest);
}

static int step_sysctl(struct enter *n, const struct step *s)
{
	char path[128];

	snprintf(path, sizeof(path), "sys/%s", s->a);
	autoclose int fd = openat(n->guest.proc, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_write_full(fd, s->b, strlen(s->b));
}

/* They are opened for writing before the mount that is shown becomes read-only: it is another mount
 * of the same directory. */
int enter_own_proc(struct enter *n, bool cover)
{
	int fds[WALL_PROC_FILE_COUNT], r = 0;

	for (int i = 0; i < WALL_PROC_FILE_COUNT && r == 0; i++) {
		char path[64];

		snprintf(path, sizeof(path), "covers/%s", wall_proc_names[i]);
		fds[i] = openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0444);
		r = fds[i] < 0 ? -errno : 0;
	}
	if (r == 0)
		r = guest_covers_hold();
	for (int i = 0; cover && i < WALL_PROC_FILE_COUNT && r == 0; i++)
		r = guest_proc_cover(wall_proc_names[i]);
	return r < 0 ? r : pass_send(n->go, fds, WALL_PROC_FILE_COUNT);
}

static int step_own_proc(struct enter *n, const struct step *s)
{
	return enter_own_proc(n, true);
}

static int step_masks(struct enter *n, const struct step *s)
{
	return guest_proc_mask(&n->guest);
}

static int step_readonly(struct enter *n, const struct step *s)
{
	return guest_proc_read_only(&n->guest, s->a);
}

static int step_dev(struct enter *n, const struct step *s)
{
	const struct plan *p = n->plan;
	int devices[GUEST_DEVICES];

	for (int i = 0; i < GUEST_DEVICES; i++)
		devices[i] = p->sources[p->first_device + i].fd;
	return guest_dev_make(&n->guest,
			      &(struct guest_dev){.has_nodes = p->has_nodes,
						  .devices = devices,
						  .mem_bytes = p->config->limits.mem_bytes,
						  .single = p->ids->kind == IDS_SINGLE});
}

static int step_ctl(struct enter *n, const struct step *s)
{
	return guest_put_program(&GUEST_CTL_DIR[1], GUEST_CTL_PROGRAM, n->plan->config->ctl_fd,
				 GUEST_CTL_MIB);
}

static int step_show_dev(struct enter *n, const struct step *s)
{
	return guest_dev_show(&n->guest);
}

static int step_file(struct enter *n, const struct step *s)
{
	return guest_put_file(&n->guest, s->a, s->b);
}

static int step_secret(struct enter *n, const struct step *s)
{
	const struct wall_secret *secret = &n->plan->config->secrets[s->source];

	return guest_put_secret(&n->guest, s->source,
				&(struct guest_secret){.path = s->a,
						       .data = secret->data,
						       .len = secret->len,
						       .mode = secret->mode,
						       .uid = secret->uid,
						       .gid = secret->gid});
}

/* The place of one that lies below another is found from that one, not by its path: links of the
 * box's own could have led the other elsewhere, and this one, which makes a part of it read-only,
 * would not be there. */
static int attach_given(struct enter *n, int mount, const char *dst, bool is_dir)
{
	const char *rest = NULL;
	int top = -1, r;

	for (size_t i = 0, longest = 0; i < n->given_count; i++) {
		size_t len = strlen(n->given[i].dst);

		if (len <= longest || strncmp(dst, n->given[i].dst, len) != 0 || dst[len] != '/')
			continue;
		longest = len;
		top = n->given[i].fd;
		rest = dst + len;
	}
	if (rest) {
		autoclose int place = guest_target_below(top, rest, is_dir);

		r = place < 0 ? place : mount_attach(mount, place, "");
	} else {
		r = guest_attach(&n->guest, mount, dst, is_dir);
	}
	if (r < 0)
		return r;
	n->given[n->given_count].dst = dst;
	n->given[n->given_count++].fd = mount;
	return 0;
}

static int step_bind(struct enter *n, const struct step *s)
{
	const struct plan_source *src = &n->plan->sources[s->source];

	return attach_given(n, src->fd, s->a, src->is_dir);
}

/* Mounted on the scratch, and then moved to its place in the box. */
static int step_stack(struct enter *n, const struct step *s)
{
	const struct wall_config *c = n->plan->config;
	const struct wall_mount *m = c->mounts;
	char place[16];
	int fd, r;

	while (m->dst != s->a)
		m++;
	snprintf(place, sizeof(place), "stack%u", (unsigned)(m - c->mounts));
	fd = lowers_mount(m, &n->plan->sources[s->source], place, c->throw_away);
	if (fd < 0)
		return fd;
	r = attach_given(n, fd, s->a, true);
	if (r < 0)
		close(fd);
	return r;
}

/* A place of the box's own tree that an earlier mount brought; the keeper has made what was missing
 * there. */
static int step_bind_in(struct enter *n, const struct step *s)
{
	const struct wall_mount *m = &n->plan->config->mounts[s->source];
	autoclose int top = guest_target_open(n->guest.root, s->a, true);
	autoclose int place =
		top < 0 ? top : fd_openat2(top, s->b, O_PATH, 0, FD_BENEATH | FD_NO_MAGICLINKS);
	autoclose int copy = place < 0 ? place : mount_clone(place, "", false);
	struct stat st;
	int r;

	if (copy < 0)
		return copy;
	if (fstat(copy, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL;
	r = mount_set(copy, MA_NOSUID | MA_NODEV | (m->read_only ? MA_RDONLY : 0), -1);
	return r < 0 ? r : attach_given(n, take_fd(copy), m->dst, S_ISDIR(st.st_mode));
}

/* The whole becomes read-only in one call. Of v2 the first process is in init/, beside work/: a
 * path that /proc/self/cgroup names begins with "/../work" and, joined to the place of the mount,
 * leads to the link. */
static int step_groups(struct enter *n, const struct step *s)
{
	static const char top[] = "sys/fs/cgroup";
	const struct cgroup_view *v = n->plan->config->host->cgroup->view;
	autoclose int sys = guest_sys_make(&n->guest);
	int r = sys < 0 ? sys : 0;

	for (unsigned i = 0; i < v->count && r == 0; i++) {
		char place[64];

		snprintf(place, sizeof(place), "%s/%s", top, v->at[i].name);
		if (v->at[i].name[0] ? mkdir(place, 0555) < 0
				     : symlink("cgroup", "sys/fs/work") < 0)
			return -errno;
		r = mount_attach(n->plan->view_fd[i], AT_FDCWD, place);
	}
	if (r == 0)
		r = mount_set(sys, MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
	return r < 0 ? r : guest_attach(&n->guest, sys, "/sys", true);
}

static int step_trust(struct enter *n, const struct step *s)
{
	return guest_trust_show(&n->guest, n->plan->config->net.trust_pem);
}

static int step_hostname(struct enter *n, const struct step *s)
{
	const char *name = n->plan->config->name;

	return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

static int step_park(struct enter *n, const struct step *s)
{
	return park_wait(n);
}

static int step_loopback(struct enter *n, const struct step *s)
{
	return guest_loopback_up();
}

/* The keeper hears for which errno there is no redirect; 0: there is. */
static int step_net(struct enter *n, const struct step *s)
{
	int r = guest_redirect_make(&n->net);

	return r < 0 ? r : enter_tell_net(n);
}

int enter_tell_net(struct enter *n)
{
	uint8_t missing = (uint8_t)n->net.missing;

	return fd_write_full(n->go, &missing, sizeof(missing));
}

static int step_pivot(struct enter *n, const struct step *s)
{
	return fchdir(n->guest.root) < 0 ? -errno : mount_pivot_here();
}

static int step_keyring(struct enter *n, const struct step *s)
{
	enum { JOIN_SESSION = 1 };

	/* A kernel without keys has none to share. */
	if (syscall(SYS_keyctl, JOIN_SESSION, NULL) < 0 && errno != ENOSYS)
		return -errno;
	return 0;
}

static int step_rlimits(struct enter *n, const struct step *s)
{
	return guest_hold_rlimits(n->plan->config->limits.files, n->plan->ids->kind != IDS_RANGE);
}

static int step_nest(struct enter *n, const struct step *s)
{
	return nest_enter(n->self, n->sys);
}

static int step_cpus(struct enter *n, const struct step *s)
{
	return hold_cpus(n->plan->config->limits.cpus);
}

static int step_landlock(struct enter *n, const struct step *s)
{
	int dirs[INIT_FDS_MAX + 1];
	size_t count = 0;

	dirs[count++] = n->guest.root; /* which is / now */
	for (size_t i = 0; i < n->plan->init_fd_count; i++)
		if (!n->plan->init_fds[i].file)
			dirs[count++] = n->plan->init_fds[i].fd;
	return hold_landlock(n->plan->landlock_abi, dirs, count);
}

static int step_seccomp(struct enter *n, const struct step *s)
{
	return filter_load(n->plan->filter, n->plan->secret);
}

static int step_caps(struct enter *n, const struct step *s)
{
	return guest_hold_caps(n->plan->config->strict);
}

static const struct {
	int (*run)(struct enter *n, const struct step *s);
	const char *what;
} table[STEP_KIND_COUNT] = {
	[STEP_SCRATCH] = {step_scratch, "make a scratch mount"},
	[STEP_ROOT] = {step_root, "mount the box's root (overlay)"},
	[STEP_PROC] = {step_proc, "mount /proc"},
	[STEP_SYSCTL] = {step_sysctl, "set sysctl"},
	[STEP_OWN_PROC] = {step_own_proc, "make the box's own files in /proc"},
	[STEP_MASKS] = {step_masks, "mask parts of /proc"},
	[STEP_READONLY] = {step_readonly, "make read-only /proc/"},
	[STEP_DEV] = {step_dev, "make /dev"},
	[STEP_CTL] = {step_ctl, "put cove-ctl in place"},
	[STEP_SHOW_DEV] = {step_show_dev, "put /dev in its place"},
	[STEP_FILE] = {step_file, "put file"},
	[STEP_SECRET] = {step_secret, "put secret"},
	[STEP_BIND] = {step_bind, "mount at"},
	[STEP_STACK] = {step_stack, "mount a copy-on-write view at"},
	[STEP_BIND_IN] = {step_bind_in, "mount a part of"},
	[STEP_SHOW_PROC] = {step_show_proc, "put /proc in its place"},
	[STEP_GROUPS] = {step_groups, "show the box its cgroup"},
	[STEP_TRUST] = {step_trust, "make the box trust its door"},
	[STEP_HOSTNAME] = {step_hostname, "set hostname"},
	[STEP_PARK] = {step_park, "go on with what was made ahead"},
	[STEP_LOOPBACK] = {step_loopback, "bring loopback up"},
	[STEP_NET] = {step_net, "make the way to the door"},
	[STEP_PIVOT] = {step_pivot, "leave the host's root"},
	[STEP_KEYRING] = {step_keyring, "join a new keyring"},
	[STEP_RLIMITS] = {step_rlimits, "set limits"},
	[STEP_NEST] = {step_nest, "enter a user namespace within the box's"},
	[STEP_CPUS] = {step_cpus, "choose processors"},
	[STEP_LANDLOCK] = {step_landlock, "apply Landlock"},
	[STEP_SECCOMP] = {step_seccomp, "load the system-call filter"},
	[STEP_CAPS] = {step_caps, "drop capabilities"},
};

/* Where a step fails for a reason people meet, the remedy. */
static const char *remedy(enum step_kind kind, int code)
{
	if (kind == STEP_ROOT && (code == EINVAL || code == EPERM || code == EOPNOTSUPP))
		return " (overlayfs in a user namespace needs kernel 5.11 and COVE_HOME on a local "
		       "disk "
		       "that is not itself an overlay: set COVE_HOME)";
	if (kind == STEP_STACK && (code == EINVAL || code == EPERM || code == EOPNOTSUPP))
		return " (overlayfs needs a directory without other mounts in it, on a file system "
		       "that it takes as a lower layer)";
	if (kind == STEP_PROC && code == EPERM)
		return " (the host's own /proc is partly hidden, as inside another container)";
	if (kind == STEP_SECCOMP && (code == EINVAL || code == ENOSYS))
		return " (this kernel has no seccomp filters: CONFIG_SECCOMP_FILTER)";
	if ((kind == STEP_BIND || kind == STEP_BIND_IN) && code == ELOOP)
		return " (a link below a shared directory is not followed: name the place itself)";
	if (code == ENOSPC)
		return " (the disk of COVE_HOME is full, or its pool)";
	return "";
}

static int run_steps(struct enter *n, struct err *e)
{
	for (int i = 0; i < n->plan->step_count; i++) {
		const struct step *s = &n->plan->steps[i];
		bool is_other = s->kind == STEP_OTHER;
		const char *what = is_other ? s->what : table[s->kind].what;
		int r = is_other ? s->run(n, s) : table[s->kind].run(n, s);

		if (r < 0)
			return err_set(e, err_kind_of(-r), -r, "%s%s%s: %s%s", what,
				       s->a && what[strlen(what) - 1] != '/' ? " " : "",
				       s->a ? s->a : "", strerror(-r), remedy(s->kind, -r));
	}
	return 0;
}

int enter_explain(int code, struct err *e)
{
	if (code == EPERM || code == EACCES)
		return err_set(
			e, ERR_UNSUPPORTED, code,
			"this host does not let you make user namespaces: sysctl -w "
			"kernel.unprivileged_userns_clone=1 (Debian) or "
			"kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or run as root");
	if (code == ENOSPC || code == EUSERS)
		return err_set(e, ERR_UNSUPPORTED, code,
			       "no more user namespaces on this host: raise "
			       "user.max_user_namespaces (sysctl -w "
			       "user.max_user_namespaces=15000)");
	if (code == EINVAL || code == ENOSYS)
		return err_set(e, ERR_UNSUPPORTED, code,
			       "this kernel lacks a namespace that a box needs: see `cove doctor`");
	if (code == EAGAIN)
		return err_set(e, ERR_LIMIT, code,
			       "too many processes on this host to start a box");
	return err_errno(e, code, "make the box's namespaces");
}

static int become_box_root(const struct ids *ids, struct err *e)
{
	if (ids->kind != IDS_SINGLE &&
	    (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
	     syscall(SYS_setresuid, 0, 0, 0) < 0))
		return err_errno(e, errno, "become the box's root");
	/* In the box's group by birth: from here its path is the root of what the box sees. */
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_errno(e, errno, "make a cgroup namespace");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_errno(e, errno, "tie the box to its keeper");
	umask(022);
	return 0;
}

/* The keeper's arguments for init, and an option for each descriptor that it is given. */
static char **init_arguments(const struct enter *n)
{
	const struct plan *p = n->plan;
	char *const *from = p->config->init_argv;
	size_t count = 0;
	char **argv;

	while (from[count])
		count++;
	argv = calloc(count + p->init_fd_count + n->net.count + 1, sizeof(*argv));
	if (!argv)
		return NULL;
	memcpy(argv, from, count * sizeof(*argv));
	for (size_t i = 0; i < p->init_fd_count; i++)
		argv[count++] = (char *)(uintptr_t)p->init_fds[i].option;
	for (size_t i = 0; i < n->net.count; i++)
		argv[count + i] = (char *)(uintptr_t)n->net.options[i];
	return argv;
}

/* 0 and 1 the wire, 2 nothing, from 3 on what init is given; then its program and the status, which
 * exec closes; all else closed. */
static int place_descriptors(const struct enter *n, const struct enter_fds *fds, int *ret_program,
			     int *ret_status)
{
	enum { LOW = 3, HIGH = 64 };
	int null = fd_open("/dev/null", O_RDWR);
	int from[LOW + INIT_FDS_MAX + GUEST_REDIRECT_FDS + 2] = {fds->wire, fds->wire, null};
	int count = LOW;

	for (size_t i = 0; i < n->plan->init_fd_count; i++)
		from[count++] = n->plan->init_fds[i].fd;
	for (size_t i = 0; i < n->net.count; i++)
		from[count++] = n->net.fds[i];
	*ret_program = count;
	from[count++] = n->plan->config->init_fd;
	*ret_status = count;
	from[count++] = fds->status;
	for (int i = 0; i < count; i++) {
		if (from[i] >= count)
			continue; /* not in the way */
		from[i] = fd_copy(from[i], HIGH);
		if (from[i] < 0)
			return from[i];
	}
	for (int i = 0; i < count; i++)
		if ((i < *ret_program ? dup2(from[i], i) : dup3(from[i], i, O_CLOEXEC)) < 0)
			return -errno;
	return sys_close_range((unsigned)count, ~0u, 0);
}

static void fail(int status_fd, const struct err *e)
{
	if (fd_write_full(status_fd, e, sizeof(*e)) < 0)
		_exit(125);
	_exit(1);
}

/* In the environment, which only init can read: it is not dumpable. */
#define SECRET_NAME "COVE_SECRET="

void enter_box(struct plan *p, const struct enter_fds *fds)
{
	struct enter n = {.plan = p, .guest = GUEST_NONE, .go = fds->go};
	const struct cgroup *cg = p->config->host->cgroup;
	char secret[sizeof(SECRET_NAME) + 2 * FILTER_SECRET_BYTES];
	char *env[] = {secret, NULL}, **argv, *at;
	struct err e = {0};
	int status = fds->status, program, r;
	sigset_t none;
	char go;

	fd_leave_open(); /* exec closes them all, and so does place_descriptors before */
	at = stpcpy(secret, SECRET_NAME);
	str_hex(p->secret, sizeof(p->secret), at);
	/* The groups that a process cannot be born in. */
	for (size_t i = 0; i < cg->join_count; i++)
		if (write(cg->join_fd[i], "0", 1) != 1) {
			err_errno(&e, errno, "join the box's cgroup");
			fail(status, &e);
		}
	/* Owned by the box's user namespace, which this process is in from birth. The cgroup
	 * namespace comes with the ids. */
	if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
		enter_explain(errno, &e);
		fail(status, &e);
	}
	if (read(fds->go, &go, 1) != 1)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (p->ids->kind != IDS_RANGE &&
	    (plan_open_sources(p, &e) < 0 || plan_open_groups(p, &e) < 0))
		fail(status, &e);
	if (become_box_root(p->ids, &e) < 0)
		fail(status, &e);
	for (size_t i = 0; i < p->init_fd_count && p->ids->kind != IDS_RANGE; i++)
		init_fd_take(&p->init_fds[i]);
	if (run_steps(&n, &e) < 0)
		fail(status, &e);
	if (p->become) {
		r = p->become(&n, fds->wire, &status);
		err_set(&e, ERR_UNSUPPORTED, -r, "the wall's own program cannot be run: %s",
			strerror(-r));
		fail(status, &e);
	}
	argv = init_arguments(&n);
	r = argv ? place_descriptors(&n, fds, &program, &status) : -ENOMEM;
	if (r == 0)
		r = sys_execveat(program, argv, env);
	err_set(&e, ERR_UNSUPPORTED, -r, "cove-init cannot be run here (%s): install Cove again",
		strerror(-r));
	fail(status, &e);
	_exit(1);
}
