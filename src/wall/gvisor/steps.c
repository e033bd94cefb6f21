/*
 * The steps of the new process on its way to runsc; see gvisor.h.
 *
 * The namespaces, ids and groups are those of a native box, and so are the first steps: the
 * scratch, an outer /proc and /dev for runsc itself, loopback, rules and routes, the overlay. From
 * there on it is another box: the scratch becomes the root of all that runsc ever sees, and the
 * bundle says what belongs into the box. gVisor's own kernel makes the box's /proc, /sys and /dev.
 *
 * Small files and the trust store lie over the image's in the box's tree, as mounts that runsc's
 * gofer takes along. A directory of the caller's has its place there too, so that links lead
 * nowhere that they would not in a native box, but is a mount of the bundle's: gVisor expects that
 * no one else changes the tree, and asks anew for what is in such a mount. A part of one that is
 * mounted once more, read-only, lies on it outside, where the host's kernel holds it.
 */
#include "base/caps.h"
#include "base/fd.h"
#include "guest/mount.h"
#include "guest/open.h"
#include "guest/redirect.h"
#include "wall/gvisor/gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gvisor_build *build_of(struct enter *n)
{
	return n->plan->own;
}

/* For the bundle: runsc itself reads the outer /proc. */
static int step_own_proc(struct enter *n, const struct step *s)
{
	return enter_own_proc(n, false);
}

/* init listens inside, through gVisor, in the network that these rules are for. */
static int step_lead(struct enter *n, const struct step *s)
{
	int r = guest_redirect_lead();

	n->net.missing = r < 0 ? -r : 0;
	build_of(n)->is_led = r == 0;
	return enter_tell_net(n);
}

/* The overlay holds what it was made of. */
static int step_hide_layers(struct enter *n, const struct step *s)
{
	char place[ENTER_LOWER_NAME];

	for (size_t i = 0; i < n->plan->config->lower_count; i++)
		if (umount2(enter_lower_name(i, place), MNT_DETACH) < 0)
			return -errno;
	return umount2("rw", MNT_DETACH) < 0 ? -errno : 0;
}

/* ---- what the caller shares ---- */

/* Of the configuration; NULL for what the host's image brings. */
static const struct wall_mount *find_mount(const struct wall_config *c, const char *dst)
{
	for (size_t i = 0; i < c->mount_count; i++)
		if (c->mounts[i].dst == dst)
			return &c->mounts[i];
	return NULL;
}

/* What the host's image brings is in the tree only. */
static bool is_below_another(const struct enter *n, const char *dst)
{
	for (size_t i = 0; i < n->given_count; i++) {
		size_t len = strlen(n->given[i].dst);

		if (find_mount(n->plan->config, n->given[i].dst) &&
		    strncmp(dst, n->given[i].dst, len) == 0 && dst[len] == '/')
			return true;
	}
	return false;
}

static int make_place(const char *path, bool is_dir)
{
	autoclose int file = -1;

	if (is_dir)
		return mkdir(path, 0755) < 0 ? -errno : 0;
	file = openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return file < 0 ? -errno : 0;
}

/* All are in their place in the box's tree, by the rules for such places. From there they are moved
 * beside it, with what lies on them, for the bundle, and an empty place is left: runsc would mount
 * each on itself, and what is mounted on can be neither moved nor removed, wherever it is seen. */
static int step_give(struct enter *n, const struct step *s)
{
	struct gvisor_build *g = build_of(n);

	if (mkdir("given", 0755) < 0)
		return -errno;
	for (size_t i = 0; i < n->given_count; i++) {
		const struct wall_mount *m = find_mount(g->config, n->given[i].dst);
		struct gvisor_given *to = &g->given[g->given_count];
		struct stat st;
		int r;

		if (!m || is_below_another(n, m->dst))
			continue;
		*to = (struct gvisor_given){.dst = m->dst, .read_only = m->read_only};
		snprintf(to->source, sizeof(to->source), "/given/%zu", g->given_count++);
		if (fstat(n->given[i].fd, &st) < 0)
			return -errno;
		r = make_place(to->source + 1, S_ISDIR(st.st_mode));
		if (r == 0)
			r = mount_attach(n->given[i].fd, AT_FDCWD, to->source + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- runsc ---- */

/* Where /tmp is empty runsc puts a file system in memory there. It is the box's, on its disk, and
 * kept: so there is a file in it until init runs. */
static int step_start_file(struct enter *n, const struct step *s)
{
	autoclose int dir = guest_open_at(n->guest.root, "/tmp", O_PATH | O_DIRECTORY,
					  FD_IN_ROOT | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	const char *name = strrchr(GVISOR_START, '/') + 1;
	autoclose int file = -1;
	struct stat st;

	if (dir < 0) /* none, or something that the box made of it */
		return 0;
	file = openat(dir, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
	if (file < 0 && errno != EEXIST)
		return -errno;
	/* An empty one is of a start that was killed; another is the box's. */
	build_of(n)->has_start_file =
		file >= 0 || (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			      S_ISREG(st.st_mode) && st.st_size == 0);
	return 0;
}

static int step_bundle(struct enter *n, const struct step *s)
{
	autoclose int file = -1;
	struct buf text;
	int r;

	if (mkdir("bundle", 0700) < 0 || mkdir("state", 0700) < 0 || mkdir("tmp", 0700) < 0)
		return -errno;
	file = openat(AT_FDCWD, "bundle/config.json", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
		      0600);
	if (file < 0)
		return -errno;
	buf_init(&text, GVISOR_BUNDLE_MAX);
	r = gvisor_bundle_write(build_of(n), &text);
	if (r == 0)
		r = fd_write_full(file, buf_data(&text), buf_len(&text));
	buf_done(&text);
	return r;
}

/* By a name of its own: it looks itself up by that. */
static int step_program(struct enter *n, const struct step *s)
{
	autoclose int place =
		openat(AT_FDCWD, &GVISOR_PROGRAM[1], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);

	return place < 0
		       ? -errno
		       : mount_attach(n->plan->sources[s->source].fd, AT_FDCWD, &GVISOR_PROGRAM[1]);
}

/* A runsc that takes no descriptor for it gets init's program as a file of the box's, from a file
 * system of its own: nothing on the scratch can be executed. */
static int step_init(struct enter *n, const struct step *s)
{
	const struct gvisor_build *g = build_of(n);

	return g->runsc.has & GVISOR_SETTINGS
		       ? 0
		       : guest_put_program("init", strrchr(GVISOR_INIT, '/') + 1, g->init, 16);
}

/* The same of what the box asks with, for the bundle. */
static int step_ctl(struct enter *n, const struct step *s)
{
	return guest_put_program(&GVISOR_CTL[1], GUEST_CTL_PROGRAM, n->plan->config->ctl_fd,
				 GUEST_CTL_MIB);
}

static int step_pivot(struct enter *n, const struct step *s)
{
	return fchdir(n->guest.scratch) < 0 ? -errno : mount_pivot_here();
}

/* runsc's own arguments; at most so many, with the last. */
enum { RUNSC_ARGS = 20 };

static void make_arguments(const struct gvisor_build *g, const char *argv[RUNSC_ARGS])
{
	const struct gvisor_program *p = &g->runsc;
	size_t n = 0;

	argv[n++] = "runsc";
	argv[n++] = "--root=/state";
	argv[n++] = "--platform";
	argv[n++] = gvisor_platform(p);
	argv[n++] = g->config->net.on ? "--network=host" : "--network=none";
	argv[n++] = "--overlay2=none";
	argv[n++] = "--ignore-cgroups";
	argv[n++] = "--host-uds=none";
	argv[n++] = "--host-fifo=none";
	if (p->has & GVISOR_SETTINGS)
		argv[n++] = "--host-settings=ignore";
	if (p->has & GVISOR_GOFER_NET)
		argv[n++] = "--gofer-network-namespace=host";
	/* What the caller shares only the gofer reaches, in whose namespace a part that is mounted
	 * once more, read-only, is a mount that cannot be moved away. The sandbox's has none. */
	if (p->has & GVISOR_DIRECTFS && g->config->mount_count > 0)
		argv[n++] = "--directfs=false";
	if (p->has & GVISOR_SUID)
		argv[n++] = g->config->strict ? "--allow-suid=false" : "--allow-suid";
	argv[n++] = "run";
	argv[n++] = "--bundle=/bundle";
	if (p->has & GVISOR_SETTINGS)
		argv[n++] = "--exec-fd=3";
	argv[n++] = "box";
	argv[n] = NULL;
}

/* What runsc needs to set up its parts, and those to serve the box's files, trace its programs and
 * bind ports; in the box's user namespace. It would give the sandbox CAP_NET_ADMIN too, over the
 * rules that lead to the door. */
#define RUNSC_CAPS                                                                             \
	(CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) |       \
	 CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETGID) | \
	 CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETPCAP) | CAP_BIT(CAP_NET_BIND_SERVICE) |          \
	 CAP_BIT(CAP_SYS_CHROOT) | CAP_BIT(CAP_SYS_PTRACE) | CAP_BIT(CAP_SYS_ADMIN))

/* 0 and 1 the wire, 2 what is complained about, 3 init's program, which gVisor takes in; then the
 * status, which exec closes; all else closed. */
static int become_runsc(struct enter *n, int wire, int *status)
{
	enum { STATUS = 4, HIGH = 64 };
	const struct gvisor_build *g = build_of(n);
	const char *argv[RUNSC_ARGS];
	char *env[] = {NULL};
	int from[] = {wire, wire, g->errors[1], g->init, *status};
	int r;

	make_arguments(g, argv);
	/* Without a network its parts are in a user namespace more, with a root of its own. */
	r = caps_bound(RUNSC_CAPS | (g->config->net.on ? 0 : CAP_BIT(CAP_SETFCAP)));
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (r == 0 && plan_is_shared(g->config))
		r = gvisor_hold_modes();
	if (r < 0)
		return r;
	for (int i = 0; i <= STATUS; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, HIGH);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i <= STATUS; i++)
		if ((i < STATUS ? dup2(from[i], i) : dup3(from[i], i, O_CLOEXEC)) < 0)
			return -errno;
	*status = STATUS;
	r = sys_close_range(STATUS + 1, ~0u, 0);
	if (r < 0)
		return r;
	execve(GVISOR_PROGRAM, (char *const *)(uintptr_t)argv, env);
	return -errno;
}

/* ---- the plan ---- */

static void add(struct plan *p, enum step_kind kind)
{
	plan_add(p, (struct step){.kind = kind, .source = -1});
}

static void add_own(struct plan *p, int (*run)(struct enter *n, const struct step *s),
		    const char *what)
{
	plan_add(p, (struct step){.kind = STEP_OTHER, .source = -1, .run = run, .what = what});
}

int gvisor_plan(struct plan *p, const struct wall_config *c, struct err *e)
{
	int r = plan_init(p, c, e);

	if (r < 0)
		return r;
	p->become = become_runsc;
	p->tree_in_proc = "root" GVISOR_TREE;
	add(p, STEP_SCRATCH);
	add(p, STEP_DEV);
	add(p, STEP_PROC);
	add_own(p, step_own_proc, "make the box's own files in /proc");
	add(p, STEP_LOOPBACK);
	if (c->net.on)
		add_own(p, step_lead, "make the way to the door");
	add(p, STEP_ROOT);
	plan_files(p);
	if (c->image_is_host)
		plan_host_dirs(p);
	plan_mounts(p);
	add_own(p, step_hide_layers, "take the layers out of sight");
	add_own(p, step_give, "lay out what is shared");
	if (c->net.on && c->net.trust_pem)
		add(p, STEP_TRUST);
	add_own(p, step_start_file, "keep /tmp on the box's disk");
	add_own(p, step_bundle, "write the bundle for runsc");
	plan_add(p, (struct step){.kind = STEP_OTHER,
				  .source = plan_add_source(
					  p, (struct plan_source){.path = c->program,
								  .attrs = MA_RDONLY | MA_NOSUID |
									   MA_NODEV}),
				  .run = step_program,
				  .what = "put the wall's own program in place"});
	add_own(p, step_init, "put init's program in place");
	if (c->ctl_fd > 0)
		add_own(p, step_ctl, "put cove-ctl in place");
	add_own(p, step_pivot, "leave the host's root");
	add(p, STEP_KEYRING);
	if (c->limits.cpus)
		add(p, STEP_CPUS);
	return 0;
}
