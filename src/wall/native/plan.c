/* The plan of a native box; see plan.h. */
#include "wall/native/plan.h"

#include "base/fd.h"
#include "base/rand.h"
#include "filter/landlock.h"
#include "guest/mount.h"
#include "guest/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const char *const host_dirs[PLAN_HOST_DIRS] = {"/usr",	"/bin",	  "/sbin",  "/lib",
						      "/lib32", "/lib64", "/libx32"};

void plan_add(struct plan *p, struct step s)
{
	ASSERT(p->step_count < PLAN_STEPS_MAX);
	p->steps[p->step_count++] = s;
}

static void add_step(struct plan *p, enum step_kind kind, const char *a, const char *b, int source)
{
	plan_add(p, (struct step){.kind = kind, .a = a, .b = b, .source = source});
}

int plan_add_source(struct plan *p, struct plan_source s)
{
	ASSERT(p->source_count < PLAN_SOURCES_MAX);
	s.fd = -1;
	p->sources[p->source_count] = s;
	return p->source_count++;
}

static void plan_devices(struct plan *p)
{
	p->first_device = p->source_count;
	for (size_t i = 0; i < GUEST_DEVICES; i++) {
		snprintf(p->device_paths[i], sizeof(p->device_paths[i]), "/dev/%s",
			 guest_devices[i].name);
		plan_add_source(p, (struct plan_source){
					   .path = p->device_paths[i],
					   .device = guest_devices[i].number,
					   .attrs = MA_NOSUID | MA_NOEXEC,
				   });
	}
}

/* Real directories are shown read-only where they are; links among them are in the skeleton. */
void plan_host_dirs(struct plan *p)
{
	for (size_t i = 0; i < PLAN_HOST_DIRS; i++) {
		struct stat st;

		if (lstat(host_dirs[i], &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		add_step(p, STEP_BIND, host_dirs[i], NULL,
			 plan_add_source(p, (struct plan_source){
						    .path = host_dirs[i],
						    .attrs = MA_RDONLY | MA_NODEV,
						    .idmap = IDMAP_BOX,
						    .idmap_optional = true,
						    .recursive = true,
					    }));
	}
}

/* The volume's own place in the box; NULL: nowhere. */
static const char *shown_at(const struct wall_config *c, const struct volume *v)
{
	for (size_t i = 0; i < c->mount_count; i++)
		if (c->mounts[i].volume == v && !c->mounts[i].beneath)
			return c->mounts[i].dst;
	return NULL;
}

/* Its volume, where it has one of its own, and then the directories below, one after the other. */
static void plan_stack(struct plan *p, const struct wall_mount *m)
{
	int first = p->source_count;

	if (m->volume || m->upper_in_src)
		plan_add_source(
			p, (struct plan_source){.path = m->src,
						.mount_fd = m->volume ? m->volume->mount_fd : -1,
						.attrs = MA_NOSUID | MA_NODEV,
						.idmap = IDMAP_BOX});
	for (size_t i = 0; i < m->lower_count; i++) {
		const struct wall_lower *l = &m->lowers[i];

		plan_add_source(p, (struct plan_source){
					   .path = l->path,
					   .no_links = true,
					   .attrs = MA_RDONLY | MA_NOSUID | MA_NODEV,
					   .idmap = l->owned ? IDMAP_BOX : IDMAP_OWNER,
					   .uid = l->uid,
					   .gid = l->gid,
				   });
	}
	add_step(p, STEP_STACK, m->dst, NULL, first);
}

void plan_mounts(struct plan *p)
{
	for (size_t i = 0; i < p->config->mount_count; i++) {
		const struct wall_mount *m = &p->config->mounts[i];

		if (m->lowers) {
			plan_stack(p, m);
			continue;
		}
		/* Below a detached mount nothing can be cloned before kernel 6.15. */
		if (m->beneath && (m->volume || m->beneath_dst)) {
			add_step(p, STEP_BIND_IN,
				 m->beneath_dst ? p->config->mounts[0].dst
						: shown_at(p->config, m->volume),
				 m->beneath, (int)i);
			continue;
		}
		add_step(
			p, STEP_BIND, m->dst, NULL,
			plan_add_source(p, (struct plan_source){
						   .path = m->src,
						   .mount_fd = m->volume ? m->volume->mount_fd : -1,
						   .beneath = m->beneath,
						   .no_links = !m->owned,
						   .attrs = MA_NOSUID | MA_NODEV |
							    (m->read_only ? MA_RDONLY : 0),
						   .idmap = m->owned ? IDMAP_BOX : IDMAP_OWNER,
						   .uid = m->uid,
						   .gid = m->gid,
						   .recursive = !m->volume,
					   }));
	}
}

/* Only the caller can be charged for an ordinary user's box; where it has one id only, the
 * maxima of its namespace hold for all of it. */
static bool is_nested(const struct plan *p)
{
	return p->ids->kind == IDS_SUBORDINATE;
}

/* A box's part of what its caller has. */
static void plan_share(struct plan *p)
{
	nest_share("/proc/sys/fs/inotify/max_user_instances", p->instances);
	nest_share("/proc/sys/fs/inotify/max_user_watches", p->watches);
	if (p->instances[0])
		add_step(p, STEP_SYSCTL, "user/max_inotify_instances", p->instances, -1);
	if (p->watches[0])
		add_step(p, STEP_SYSCTL, "user/max_inotify_watches", p->watches, -1);
	/* Its network is the outer namespace's, where root inside has no say about ports. */
	if (is_nested(p))
		add_step(p, STEP_SYSCTL, "net/ipv4/ip_unprivileged_port_start", "0", -1);
}

/* On the scratch; it is shown when it is whole. */
static void plan_proc(struct plan *p)
{
	add_step(p, STEP_PROC, NULL, NULL, -1);
	/* No user namespace inside a box: a second lock beside the capabilities. */
	add_step(p, STEP_SYSCTL, "user/max_user_namespaces", is_nested(p) ? "1" : "0", -1);
	if (p->ids->kind != IDS_RANGE)
		plan_share(p);
	add_step(p, STEP_OWN_PROC, NULL, NULL, -1);
	add_step(p, STEP_MASKS, NULL, NULL, -1);
	for (size_t i = 0; guest_proc_read_only_paths[i]; i++)
		add_step(p, STEP_READONLY, guest_proc_read_only_paths[i], NULL, -1);
}

bool plan_is_shared(const struct wall_config *c)
{
	for (size_t i = 0; i < c->mount_count; i++)
		if (!c->mounts[i].owned && !c->mounts[i].read_only && !c->mounts[i].lowers)
			return true;
	return false;
}

/* What the box holds, and what holds the box, once nothing of the host is in sight. */
static int plan_hold(struct plan *p, struct err *e)
{
	add_step(p, STEP_KEYRING, NULL, NULL, -1);
	add_step(p, STEP_RLIMITS, NULL, NULL, -1);
	if (is_nested(p))
		add_step(p, STEP_NEST, NULL, NULL, -1);
	if (p->config->limits.cpus)
		add_step(p, STEP_CPUS, NULL, NULL, -1);
	p->landlock_abi = landlock_abi();
	if (p->landlock_abi < 0)
		return landlock_refused(-p->landlock_abi, e);
	if (p->landlock_abi > 0)
		add_step(p, STEP_LANDLOCK, NULL, NULL, -1);
	/* What is written to a directory of the host is there as it was written, set-user-ID bits
	 * too. */
	p->filter = p->config->ptrace ? FILTER_BOX_PTRACE : FILTER_BOX;
	if (plan_is_shared(p->config))
		p->filter |= FILTER_BOX_SHARED;
	rand_bytes(p->secret, sizeof(p->secret));
	add_step(p, STEP_SECCOMP, p->filter & FILTER_BOX_SHARED ? "shared" : NULL, NULL, -1);
	add_step(p, STEP_CAPS, NULL, NULL, -1);
	return 0;
}

static int check_mounts(const struct wall_config *c, struct err *e)
{
	size_t lowers = 0;

	if (c->lower_count == 0 || c->lower_count > SPEC_LAYER_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "a box stands on 1 to %u layers",
			       SPEC_LAYER_MAX);
	if (c->mount_count > WALL_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %u mounts", WALL_MOUNTS_MAX);
	for (size_t i = 0; i < c->mount_count; i++) {
		const struct wall_mount *m = &c->mounts[i];

		if (m->volume && (m->beneath ? !shown_at(c, m->volume) : m->volume->mount_fd < 0))
			return err_set(e, ERR_INVALID, EINVAL,
				       "the mount at '%s' has no usable source", m->dst);
		lowers += m->lowers ? m->lower_count : 0;
		if (m->lowers && (m->lower_count == 0 || !m->upper || lowers > WALL_LOWERS_MAX))
			return err_set(e, ERR_LIMIT, E2BIG,
				       "the mount at '%s' is a stack of none, or with others of "
				       "more than %u directories",
				       m->dst, WALL_LOWERS_MAX);
	}
	return 0;
}

int plan_init(struct plan *p, const struct wall_config *c, struct err *e)
{
	bool in_memory = c->layer->ops->flags & STORAGE_MEMORY;
	int r = check_mounts(c, e);

	*p = (struct plan){.config = c,
			   .ids = c->host->ids,
			   .scratch = -1,
			   .box_ns = -1,
			   .view_fd = {-1, -1, -1},
			   .tree_in_proc = "root",
			   .own = p->own};
	if (r < 0)
		return r;
	plan_add_source(p, (struct plan_source){.path = c->box_dir,
						.mount_fd = c->layer->mount_fd,
						.absent = in_memory,
						.late = volume_is_late(c->layer) && !in_memory,
						.attrs = MA_NODEV,
						.idmap = IDMAP_BOX});
	for (size_t i = 0; i < c->lower_count; i++)
		plan_add_source(p, (struct plan_source){.path = c->lowers[i],
							.attrs = MA_RDONLY | MA_NODEV,
							.idmap = IDMAP_BOX});
	plan_devices(p);
	guest_format_hosts(p->hosts, c->name);
	return 0;
}

void plan_files(struct plan *p)
{
	add_step(p, STEP_FILE, "/etc/hosts", p->hosts, -1);
	add_step(p, STEP_FILE, "/etc/hostname", p->config->name, -1);
	if (p->config->net.on)
		add_step(p, STEP_FILE, "/etc/resolv.conf", "nameserver " GUEST_DNS_ADDR "\n", -1);
	for (size_t i = 0; i < p->config->secret_count; i++)
		add_step(p, STEP_SECRET, p->config->secrets[i].path, NULL, (int)i);
}

int plan_make(struct plan *p, const struct wall_config *c, struct err *e)
{
	int r = plan_init(p, c, e);

	if (r < 0)
		return r;
	p->init_fd_count = init_fds_list(c->host->cgroup, p->init_fds, &p->forks_untold);
	add_step(p, STEP_SCRATCH, NULL, NULL, -1);
	add_step(p, STEP_DEV, NULL, NULL, -1);
	if (c->ctl_fd > 0)
		add_step(p, STEP_CTL, NULL, NULL, -1);
	plan_proc(p);
	add_step(p, STEP_LOOPBACK, NULL, NULL, -1);
	if (c->net.on)
		add_step(p, STEP_NET, NULL, NULL, -1);
	/* From here on a layer is needed, which may come late. */
	add_step(p, STEP_ROOT, NULL, NULL, -1);
	add_step(p, STEP_SHOW_DEV, NULL, NULL, -1);
	add_step(p, STEP_SHOW_PROC, NULL, NULL, -1);
	if (c->host->cgroup->view)
		add_step(p, STEP_GROUPS, NULL, NULL, -1);
	plan_files(p);
	if (c->image_is_host)
		plan_host_dirs(p);
	plan_mounts(p);
	if (c->net.on && c->net.trust_pem)
		add_step(p, STEP_TRUST, NULL, NULL, -1);
	if (c->parks)
		add_step(p, STEP_PARK, NULL, NULL, -1);
	add_step(p, STEP_HOSTNAME, NULL, NULL, -1);
	add_step(p, STEP_PIVOT, NULL, NULL, -1);
	return plan_hold(p, e);
}

void plan_done(struct plan *p)
{
	int *all[PLAN_SOURCES_MAX + INIT_FDS_MAX + CGROUP_VIEWS_MAX + 2];
	size_t n = 0;

	for (int i = 0; i < p->source_count; i++)
		all[n++] = &p->sources[i].fd;
	for (size_t i = 0; i < p->init_fd_count; i++)
		all[n++] = &p->init_fds[i].fd;
	for (size_t i = 0; i < CGROUP_VIEWS_MAX; i++)
		all[n++] = &p->view_fd[i];
	all[n++] = &p->scratch;
	all[n++] = &p->box_ns;
	fd_close_all(all, n);
}

static int not_given(const struct plan_source *s, int r, struct err *e)
{
	if (r == -ELOOP)
		return err_set(e, ERR_DENIED, ELOOP, "'%s' leads through a link", s->path);
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "'%s' on the host does not exist",
			       s->path);
	return err_errno(e, -r, "give '%s' to the box", s->path);
}

/* A detached mount of what is at the path, or below it. */
static int clone_source(const struct plan_source *s, struct err *e)
{
	const uint64_t resolve = s->no_links ? FD_NO_SYMLINKS | FD_NO_MAGICLINKS : 0;
	autoclose int top = -1, below = -1;
	int fd;

	if (s->no_links || s->beneath) {
		top = fd_openat2(AT_FDCWD, s->path, O_PATH, 0, resolve);
		if (top < 0)
			return not_given(s, top, e);
	}
	if (s->beneath) {
		below = fd_openat2(top, s->beneath, O_PATH, 0,
				   resolve | FD_BENEATH | FD_NO_MAGICLINKS);
		if (below == -EXDEV || below == -ELOOP)
			return err_set(e, ERR_DENIED, EXDEV, "'%s' in '%s' leads through a link",
				       s->beneath, s->path);
		if (below < 0)
			return err_errno(e, -below, "open '%s' in '%s'", s->beneath, s->path);
	}
	fd = top < 0 ? mount_clone(AT_FDCWD, s->path, s->recursive)
		     : mount_clone(below < 0 ? top : below, "", s->recursive);
	return fd < 0 ? not_given(s, fd, e) : fd;
}

static int open_source(struct plan_source *s, struct err *e)
{
	struct stat st;

	if (s->mount_fd > 0) {
		s->fd = fd_copy(s->mount_fd, 3);
		if (s->fd < 0)
			return err_errno(e, -s->fd, "hold the volume '%s'", s->path);
	} else {
		s->fd = clone_source(s, e);
		if (s->fd < 0)
			return s->fd;
	}
	if (fstat(s->fd, &st) < 0)
		return err_errno(e, errno, "look at '%s'", s->path);
	s->is_dir = S_ISDIR(st.st_mode);
	if (!s->device && !s->is_dir && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, EINVAL, "'%s' is neither a directory nor a file",
			       s->path);
	if (s->device &&
	    (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(s->device >> 8, s->device & 0xff)))
		return err_set(e, ERR_DENIED, EINVAL,
			       "'%s' on this host is not the device it should be", s->path);
	return 0;
}

int plan_open_sources(struct plan *p, struct err *e)
{
	int r = 0;

	/* Only who is root in the first user namespace, and may, can make nodes that work; others
	 * get the host's. */
	if (p->ids->kind == IDS_RANGE) {
		p->scratch = guest_scratch_new(ids_host_uid(p->ids, 0), ids_host_gid(p->ids, 0),
					       &p->has_nodes);
		if (p->scratch < 0)
			return err_errno(e, -p->scratch, "make the box's devices");
	}
	for (int i = 0; i < p->source_count && r == 0; i++) {
		struct plan_source *s = &p->sources[i];

		if (s->absent || s->late || (s->device && p->has_nodes))
			continue;
		r = open_source(s, e);
		if (r < 0)
			return r;
		/* Attributes of the rest are set with their id map, in one call. */
		if (p->ids->kind == IDS_RANGE && s->idmap != IDMAP_NONE)
			continue;
		r = mount_set(s->fd, s->attrs, -1);
		if (r < 0)
			return err_errno(e, -r, "set mount flags of '%s'", s->path);
	}
	return r;
}

static int idmap_source(struct plan *p, struct plan_source *s, struct err *e)
{
	autoclose int own = -1;
	int ns = p->box_ns, r;

	/* Root hands a directory of somebody in: what the box writes is that somebody's. */
	if (s->idmap == IDMAP_OWNER) {
		own = ids_mount_ns(p->ids, s->uid, s->gid, e);
		if (own < 0)
			return own;
		ns = own;
	}
	r = mount_set(s->fd, s->attrs, ns);
	if (r < 0 && s->idmap_optional)
		r = mount_set(s->fd, s->attrs, -1);
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, -r,
			       "the filesystem of '%s' cannot be id-mapped (kernel 5.19 or later, "
			       "and ext4, xfs, "
			       "btrfs or tmpfs): set COVE_HOME to a directory on one that can",
			       s->path);
	return r < 0 ? err_errno(e, -r, "id-map '%s'", s->path) : 0;
}

int plan_find_init_fds(struct plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < p->init_fd_count && r == 0; i++)
		r = init_fd_find(&p->init_fds[i], e);
	return r;
}

int plan_open_groups(struct plan *p, struct err *e)
{
	const struct cgroup_view *v = p->config->host->cgroup->view;
	int r = 0;

	for (size_t i = 0; i < p->init_fd_count && r == 0; i++)
		r = init_fd_open(&p->init_fds[i], e);
	for (unsigned i = 0; v && i < v->count && r == 0; i++) {
		p->view_fd[i] = mount_clone(AT_FDCWD, v->at[i].path, false);
		if (p->view_fd[i] < 0)
			r = err_errno(e, -p->view_fd[i], "show the box its cgroup '%s'",
				      v->at[i].path);
	}
	return r;
}

int plan_idmap_sources(struct plan *p, struct err *e)
{
	for (int i = 0; i < p->source_count; i++) {
		struct plan_source *s = &p->sources[i];
		int r = 0;

		if (s->idmap != IDMAP_NONE && !s->absent && !s->late)
			r = idmap_source(p, s, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int plan_open_late(struct plan *p, struct err *e)
{
	struct plan_source *s = &p->sources[PLAN_RW];
	int r;

	s->mount_fd = p->config->layer->mount_fd;
	r = open_source(s, e);
	return r < 0 ? r : idmap_source(p, s, e);
}
