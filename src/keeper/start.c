/*
 * Bringing a box up; see life.h.
 *
 *	lock -> ids -> cgroup -> volume -> mounts -> the wall begins: a process builds the box
 *	     -> the box's disk -> the wall finishes -> (one that is made ahead waits: premade.c)
 *	     -> live record, old commands, socket, the box's
 *	     files in /proc, the keeper's own walls -> init runs
 *
 * What can be done beside the new process is done there: there is more than one processor.
 */
#include "base/fd.h"
#include "base/path.h"
#include "base/sha.h"
#include "base/str.h"
#include "cgroup/view.h"
#include "keeper/confine.h"
#include "keeper/life.h"
#include "keeper/mounts.h"
#include "keeper/oom.h"
#include "keeper/saver.h"
#include "store/premade.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	INIT_BYTES_MAX = 16 << 20,
	INIT_ARGS_MAX = 27 + 2 * (2 * SPEC_ENV_MAX + SPEC_MOUNT_MAX + NETWORK_ENV_COUNT)
};

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

static int open_dirs(struct keeper_life *l, struct err *e)
{
	const struct keeper_config *c = &l->config;
	char path[sizeof(l->st.home) + 8], hex[65], group[PREMADE_NAME_SIZE];
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

	if (!str_copy(l->st.home, sizeof(l->st.home), c->home) ||
	    !str_copy(l->st.run, sizeof(l->st.run), c->run))
		return err_set(e, ERR_INVALID, ENAMETOOLONG,
			       "the state directory's path is too long");
	sha256_hex(c->home, strlen(c->home), hex);
	snprintf(l->st.tag, sizeof(l->st.tag), "%.8s", hex);
	if (c->premade)
		premade_name(c->premade, group);
	snprintf(l->cgroup_name, sizeof(l->cgroup_name), "%s-%s", l->st.tag,
		 c->premade ? group : c->spec.name);
	l->st.home_fd = fd_open(c->home, flags);
	if (l->st.home_fd < 0)
		return err_errno(e, errno, "open '%s'", c->home);
	snprintf(path, sizeof(path), "%s/boxes", c->home);
	l->st.boxes_fd = fd_open(path, flags);
	if (l->st.boxes_fd < 0)
		return err_errno(e, errno, "open '%s'", path);
	l->st.run_fd = fd_open(c->run, flags);
	if (l->st.run_fd < 0)
		return err_errno(e, errno, "open '%s'", c->run);
	l->box_fd =
		openat(l->st.boxes_fd, c->premade ? c->premade : c->spec.name, flags | O_NOFOLLOW);
	if (l->box_fd < 0)
		return err_errno(e, errno, "open the directory of box '%s'", c->spec.name);
	return 0;
}

static int take_ids(struct keeper_life *l, struct err *e)
{
	static const char *const kinds[] = {
		[IDS_RANGE] = "range", [IDS_SUBORDINATE] = "subordinate", [IDS_SINGLE] = "single"};
	char why[200] = "";
	int r = ids_detect(&l->ids, why, sizeof(why), e);

	if (r < 0)
		return r;
	l->k.ids = kinds[l->ids.kind];
	if (why[0])
		keeper_note(&l->k, "%s", why);
	if (l->ids.kind != IDS_RANGE)
		return 0;
	return ids_range_take(&l->ids, state_machine_run_dir(), &l->range_fd, e);
}

static int copy_file(int to, int from)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > INIT_BYTES_MAX)
		return -EINVAL;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

/* init's program where nothing in the box can reach or change it. */
static int seal_init(const char *path, int *ret_fd, struct err *e)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	autoclose int from = fd_open(path, O_RDONLY);
	autoclose int fd = -1;
	int r;

	if (from < 0)
		return err_set(e, ERR_UNSUPPORTED, errno,
			       "the program cove-init is missing at '%s': install Cove again",
			       path);
	fd = sys_memfd_create("cove-init", flags | MFD_EXEC);
	if (fd == -EINVAL) /* a kernel before 6.3 */
		fd = sys_memfd_create("cove-init", flags);
	if (fd < 0)
		return err_errno(e, -fd, "make a memory file for cove-init");
	r = copy_file(fd, from);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "copy cove-init from '%s'", path);
	*ret_fd = take_fd(fd);
	return 0;
}

/* init's arguments; the strings made here are owned and stand in `made`. */
struct init_args {
	const char *argv[INIT_ARGS_MAX + 1];
	size_t count;
	char *made[SPEC_MOUNT_MAX];
	size_t made_count;
	char disk[24], pids[24];
	struct cgroup_said said;
};

static void args_add(struct init_args *a, const char *option, const char *value)
{
	ASSERT(a->count + 2 <= INIT_ARGS_MAX);
	a->argv[a->count++] = option;
	if (value)
		a->argv[a->count++] = value;
}

bool keeper_life_renews(const struct keeper_life *l)
{
	return l->config.spec.renew &&
	       faccessat(l->box_fd, BOX_RENEWED_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static bool is_strict(const struct keeper_life *l)
{
	return l->config.spec.strict || !(l->wall->info->flags & WALL_ROOT_INSIDE);
}

static int args_make(struct init_args *a, struct keeper_life *l, const struct keeper_mounts *m,
		     struct err *e)
{
	const struct spec *s = &l->config.spec;
	bool is_single = l->ids.kind == IDS_SINGLE;
	/* With one id there is no choice; init refuses a user that the caller asks for. */
	const char *user = s->user ? s->user : is_single ? NULL : s->base_user;
	const char *cwd = s->cwd ? s->cwd : m->workspace[0] ? WORKSPACE_DST : s->base_cwd;
	struct cgroup_limits grouped = keeper_limits_grouped(l);

	args_add(a, "cove-init", NULL);
	if (user && *user)
		args_add(a, "--user", user);
	if (cwd)
		args_add(a, "--cwd", cwd);
	if (cwd && cwd == s->base_cwd)
		args_add(a, "--make-cwd", NULL);
	if (is_single)
		args_add(a, "--single", NULL);
	if (is_strict(l))
		args_add(a, "--strict", NULL);
	if (s->one_shot)
		args_add(a, "--once", NULL);
	else if (l->config.soon)
		args_add(a, "--soon", NULL);
	if (keeper_life_renews(l))
		args_add(a, "--renew", NULL);
	/* What init has to know of limits, to say what was hit. */
	if (l->volume.bytes > 0) {
		snprintf(a->disk, sizeof(a->disk), "%" PRIu64, l->volume.bytes);
		args_add(a, "--disk-limit", a->disk);
		if (m->volume.mount_fd >= 0)
			args_add(a, "--disk", WORKSPACE_DST);
		if (l->volume.ops->flags & STORAGE_QUOTA)
			args_add(a, "--disk-quota", NULL);
	}
	if (s->limits[LIMIT_PIDS] && keeper_limits_hold(l, LIMIT_PIDS)) {
		snprintf(a->pids, sizeof(a->pids), "%" PRIu64, s->limits[LIMIT_PIDS]);
		args_add(a, "--pids-limit", a->pids);
		if (l->wall->info->pids_each && s->limits_asked & 1u << LIMIT_PIDS &&
		    !s->best_effort)
			args_add(a, "--pids-must", NULL);
	}
	cgroup_view_say(&l->cgroup, &grouped, &a->said);
	if (a->said.memory[0])
		args_add(a, "--memory-max", a->said.memory);
	if (a->said.cpu[0])
		args_add(a, "--cpu-max", a->said.cpu);
	/* Of two the later wins. */
	if (!s->ptrace) /* which finding leaks needs: a program that tries would fail at its end */
		args_add(a, "--env", "LSAN_OPTIONS=detect_leaks=0");
	if (l->k.ctl)
		args_add(a, "--ctl", WIRE_CTL_SOCKET);
	for (size_t i = 0; i < NETWORK_ENV_COUNT && l->network.cert; i++)
		args_add(a, "--env", keeper_network_env[i]);
	for (size_t i = 0; i < s->base_env_count; i++)
		args_add(a, "--env", s->base_env[i]);
	for (size_t i = 0; i < s->env_count; i++)
		args_add(a, "--env", s->env[i]);
	for (size_t i = 0; i < s->mount_count; i++) {
		char *pair;

		if (!s->mounts[i].env)
			continue;
		if (asprintf(&pair, "%s=%s", s->mounts[i].env, s->mounts[i].dst) < 0)
			return err_errno(e, ENOMEM, "prepare the box's environment");
		a->made[a->made_count++] = pair;
		args_add(a, "--env", pair);
	}
	return 0;
}

/* Everything the wall needs until init runs. On the heap: it is large and soon over. */
struct ready {
	struct keeper_mounts mounts;
	struct init_args args;
	struct wall_config config;
	struct init_args args_then; /* of one that was made ahead: once it is somebody's */
	struct wall_config config_then;
	char box_dir[sizeof(((struct state *)0)->home) + BOX_NAME_MAX + 8];
	char program[BOX_PATH_MAX]; /* of the wall */
	int ctl_fd;		    /* owned */
};

/* From here on the keeper does only what it has to for a box that runs; it has not yet heard a word
 * from init. */
static int confine(struct keeper_life *l, struct err *e)
{
	const struct confine c = {
		.ids = &l->ids,
		.cgroup = l->has_cgroup ? &l->cgroup : NULL,
		.own_group = l->has_own_group ? &l->own_group : NULL,
		.name = l->config.spec.name,
		.boxes_fd = l->st.boxes_fd,
		.box_fd = l->box_fd,
		.run_fd = l->st.run_fd,
		.volume_fd = l->volume.pool.dir_fd >= 0 ? l->volume.pool.dir_fd
			     : l->volume.throw_away	? l->volume.stat_fd
							: -1,
		.volumes_fd = l->volume.pool.all_fd,
		.workspace_fd = l->workspace.pool.used_fd >= 0 ? l->workspace.stat_fd : -1,
	};
	int r = confine_keeper(&c, e);

	if (r > 0)
		keeper_note(&l->k, "%s", e->msg);
	return r < 0 ? r : 0;
}

/* Is there something to do, once init runs, that one who is confined cannot? */
static bool needs_init(const struct keeper_life *l)
{
	return l->ids.kind == IDS_SUBORDINATE || l->volume.ops->flags & STORAGE_MEMORY ||
	       l->volume.pool.eased;
}

/* Of a box that may ask for snapshots of itself. */
static int start_saver(struct keeper_life *l, struct err *e)
{
	const struct saver_config c = {.program = l->config.save_path,
				       .home = l->st.home,
				       .run = l->st.run,
				       .box = l->config.spec.name,
				       .keep = l->ctl.may.snapshots,
				       .own_group = l->own_group};
	int fd, r;

	if (!l->k.ctl || !l->ctl.may.snapshots)
		return 0;
	if (!c.program)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "the program cove-save is missing: install Cove again");
	r = saver_start(&c, &fd, e);
	if (r < 0)
		return r;
	r = keeper_ctl_take_saver(&l->k, fd);
	return r < 0 ? err_errno(e, -r, "watch the saver") : 0;
}

/* Of one that was made ahead, once more. */
static int write_proc_files(struct keeper_life *l, struct err *e)
{
	const struct spec *s = &l->config.spec;
	uint64_t mem = keeper_limits_hold(l, LIMIT_MEM) ? s->limits[LIMIT_MEM] : 0;
	bool asked = s->limits_asked & 1u << LIMIT_MEM;

	if (l->proc_files.fd[0] >= 0)
		return proc_files_again(&l->proc_files, mem, asked, keeper_limits_cpus(l), e);
	return proc_files_open(&l->proc_files, l->host.proc_fds, mem, asked, keeper_limits_cpus(l),
			       !(l->wall->info->flags & WALL_SHARED_KERNEL), e);
}

/* The keeper's own work, beside the new process. */
static int prepare_keeper(struct keeper_life *l, struct err *e)
{
	bool durable = !l->config.spec.one_shot;
	int r = l->config.visit ? record_write_visit(l->lock_fd, durable, e)
				: record_write_live(l->lock_fd, durable, e);
	char what[BOX_NAME_MAX + 32];

	snprintf(what, sizeof(what), "start box '%s' in", l->config.spec.name);
	if (r == -ENOSPC || r == -EDQUOT)
		r = state_error(&l->st, -r, what, e);
	keeper_limits_join_own_group(l);
	if (r == 0)
		r = keeper_network_start(l, e);
	if (r == 0)
		r = start_saver(l, e);
	if (r == 0)
		r = keeper_load(&l->k, e);
	if (r == 0 && !l->config.visit)
		r = keeper_listener_init(&l->listener, &l->k, l->st.run_fd, l->config.spec.name, e);
	if (r == 0)
		r = write_proc_files(l, e);
	if (r < 0)
		return r;
	l->k.init_pid = l->box.pid;
	return needs_init(l) ? 0 : confine(l, e);
}

static int find_program(const struct keeper_life *l, char ret[BOX_PATH_MAX], struct err *e)
{
	if (!l->config.wall_program)
		return l->wall->info->program ? wall_program_find(l->wall->info, l->st.home, ret, e)
					      : 0;
	return str_copy(ret, BOX_PATH_MAX, l->config.wall_program)
		       ? 0
		       : err_errno(e, ENAMETOOLONG, "find the wall's program");
}

/* What the box may ask for itself; nothing in a visit, in which nothing of it runs. */
static int prepare_ctl(struct keeper_life *l, int *ret_fd, struct err *e)
{
	const struct spec *s = &l->config.spec;
	int r = wire_ctl_set_parse(s->ctl, &l->ctl.may, e);

	if (r < 0 || !l->ctl.may.verbs || l->config.visit)
		return r;
	if (!(l->wall->info->flags & WALL_CTL))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--ctl: a box behind wall '%s' cannot be given cove-ctl",
			       l->wall->info->name);
	*ret_fd = l->config.ctl_path ? fd_open(l->config.ctl_path, O_RDONLY) : -1;
	if (*ret_fd < 0)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "the program cove-ctl is missing: install Cove again");
	l->ctl.spec = s;
	l->ctl.saver_fd = -1;
	l->k.ctl = &l->ctl;
	return 0;
}

static struct wall_limits limits_of(const struct keeper_life *l)
{
	const uint64_t *limits = l->config.spec.limits;

	return (struct wall_limits){.files = limits[LIMIT_FILES],
				    .mem_bytes = limits[LIMIT_MEM],
				    .cpus = keeper_limits_cpus(l)};
}

static int configure_wall(struct keeper_life *l, struct ready *r, int init_fd, struct err *e)
{
	int rc = find_program(l, r->program, e);

	if (rc == 0)
		rc = keeper_mounts_make(&r->mounts, &l->config, &l->st, e);
	keeper_note(&l->k, "%s", r->mounts.note);
	for (size_t i = 0; i < r->mounts.pin_count && rc == 0; i++)
		if (r->mounts.pins[i].read_only &&
		    buf_printf(&l->k.pinned, "%s\n", r->mounts.pins[i].dst) < 0)
			rc = err_errno(e, ENOMEM, "list what is read-only");
	if (rc == 0)
		rc = prepare_ctl(l, &r->ctl_fd, e);
	if (rc == 0)
		rc = keeper_network_prepare(l, e);
	if (rc == 0)
		rc = args_make(&r->args, l, &r->mounts, e);
	if (rc < 0)
		return rc;
	snprintf(r->box_dir, sizeof(r->box_dir), "%s/boxes/%s", l->st.home,
		 l->config.premade ? l->config.premade : l->config.spec.name);
	l->host.ids = &l->ids;
	l->host.cgroup = &l->cgroup;
	r->config = (struct wall_config){
		.name = str_plain_name(l->config.spec.name),
		.layer = &l->volume,
		.box_dir = r->box_dir,
		.lowers = l->config.lowers,
		.lower_count = l->config.lower_count,
		.image_is_host = l->config.image_is_host,
		.throw_away = l->config.spec.one_shot,
		.strict = is_strict(l),
		.ptrace = l->config.spec.ptrace,
		.limits = limits_of(l),
		.net = {.on = l->network.cert, .trust_pem = l->network.cert},
		.mounts = r->mounts.list,
		.mount_count = r->mounts.count,
		.secrets = l->config.secrets,
		.secret_count = l->config.secret_count,
		.parks = l->config.premade,
		.init_fd = init_fd,
		.ctl_fd = r->ctl_fd,
		.init_argv = (char *const *)(uintptr_t)r->args.argv,
		.program = r->program,
		.state_dir = l->st.home,
		.host = &l->host,
	};
	return 0;
}

/* A box that is to be frozen as its time is over: can it be? It is not frozen
 * now, and what thaws it is there. */
static int check_expiry(struct keeper_life *l, struct err *e)
{
	struct spec *s = &l->config.spec;
	char why[sizeof(e->msg)];

	if (s->expiry != EXPIRE_PAUSE || l->config.visit)
		return 0;
	if (!(l->wall->info->flags & WALL_FREEZE))
		snprintf(why, sizeof(why), "wall '%s' cannot pause a box", l->wall->info->name);
	else if (cgroup_freeze(&l->cgroup, false, e) == 0)
		return 0;
	else
		str_copy(why, sizeof(why), e->msg);
	if (!s->best_effort)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "--expire pause: %s", why);
	keeper_note(&l->k, "expire: it is stopped instead of paused: %s", why);
	s->expiry = EXPIRE_STOP;
	return 0;
}

/* A box that is made ahead waits here; then comes what it is. */
static int park(struct keeper_life *l, struct ready *r, struct err *e)
{
	int rc;

	if (!l->config.premade)
		return 0;
	keeper_limits_join_own_group(l);
	rc = write_proc_files(l, e);
	if (rc == 0)
		rc = l->wall->park(&l->box, e);
	if (rc == 0)
		rc = keeper_premade_await(l, e);
	if (rc == 0)
		rc = check_expiry(l, e);
	if (rc == 0)
		rc = args_make(&r->args_then, l, &r->mounts, e);
	if (rc < 0)
		return rc;
	r->config_then = r->config;
	r->config_then.name = str_plain_name(l->config.spec.name);
	r->config_then.limits = limits_of(l);
	r->config_then.init_argv = (char *const *)(uintptr_t)r->args_then.argv;
	return l->wall->resume(&l->box, &r->config_then, e);
}

static int start_wall(struct keeper_life *l, struct ready *r, struct err *e)
{
	autoclose int init_fd = -1;
	int rc = seal_init(l->config.init_path, &init_fd, e);

	if (rc == 0)
		rc = configure_wall(l, r, init_fd, e);
	if (rc < 0)
		return rc;
	rc = l->wall->begin(&r->config, &l->box, e);
	if (rc == 0)
		rc = l->wall->finish(&l->box, e);
	if (rc == 0)
		rc = park(l, r, e);
	l->workspace = volume_take_measure(&r->mounts.volume);
	l->workspace_fd = take_fd(r->mounts.stack_fd);
	if (rc == 0)
		rc = prepare_keeper(l, e);
	if (rc == 0)
		rc = l->wall->await(&l->box, e);
	keeper_config_forget(&l->config);
	if (rc < 0)
		l->wall->abort(&l->box);
	return rc;
}

static int start_init(struct keeper_life *l, struct err *e)
{
	autofree struct ready *ready = calloc(1, sizeof(*ready));
	const char *line = l->box.report.missing;
	bool is_free;
	int r;

	if (!ready)
		return err_errno(e, ENOMEM, "start the box");
	keeper_mounts_init(&ready->mounts);
	ready->ctl_fd = -1;
	r = start_wall(l, ready, e);
	for (size_t i = 0; i < ready->args.made_count; i++)
		free(ready->args.made[i]);
	for (size_t i = 0; i < ready->args_then.made_count; i++)
		free(ready->args_then.made[i]);
	keeper_mounts_done(&ready->mounts);
	fd_close(&ready->ctl_fd);
	fd_close(&l->st.workspaces_fd);
	fd_close(&l->volume.mount_fd); /* the box has it now */
	if (r < 0)
		return r;
	/* What the kernel could not give the box is noted like a limit that it could not keep. */
	for (size_t n; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		keeper_note(&l->k, "%.*s", (int)n, line);
	}
	l->k.walls = l->box.report.walls;
	l->k.network = l->box.network ? l->box.network : "none";
	r = ev_child_add(l->ev, &l->child, l->box.pid, l->box.pidfd);
	if (r < 0) {
		l->wall->abort(&l->box);
		return err_errno(e, -r, "watch the box's first process");
	}
	l->has_child = true;
	is_free = needs_init(l);
	r = volume_tighten(&l->volume, e);
	if (r == 0 && is_free)
		r = confine(l, e);
	if (r < 0)
		return r;
	r = keeper_connect(&l->k, l->box.rfd, l->box.wfd);
	return r < 0 ? err_errno(e, -r, "watch the box's wire") : 0;
}

static int reset_oom_score(struct keeper_life *l, struct err *e)
{
	autoclose int fd = fd_open("/proc/self/oom_score_adj", O_RDWR);
	bool may_lower = false;
	int r = fd < 0 ? -errno : oom_reset(fd, &may_lower);

	if (r < 0)
		return err_errno(e, -r, "set the box's out-of-memory score");
	if (may_lower)
		keeper_note(&l->k, "oom score: who started the box may lower it, and so may the "
				   "box: start it from a session that may not, or as root");
	return 0;
}

/* What the wall lacks is refused where it was asked for, and noted otherwise; limits.c does so for
 * limits. */
static int find_wall(struct keeper_life *l, struct err *e)
{
	const struct spec *s = &l->config.spec;
	const char *name = s->wall ? s->wall : WALL_DEFAULT;
	unsigned flags;

	l->wall = wall_find(name);
	if (!l->wall)
		return err_set(e, ERR_UNSUPPORTED, ENOENT, "there is no wall '%s': %s", name,
			       wall_names());
	flags = l->wall->info->flags;
	if (!(flags & WALL_HOST_MOUNTS) &&
	    (s->workspace || s->workspace_dir || s->mount_count || l->config.image_is_host))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "wall '%s' cannot show directories of the host: no workspace, no "
			       "mount and no image 'host'",
			       name);
	if (s->ptrace && !(flags & WALL_TRACING) && !s->best_effort)
		return err_set(
			e, ERR_UNSUPPORTED, ENOTSUP,
			"--ptrace: behind wall '%s' a tracer could make calls that the box may "
			"not make, and end it; --best-effort starts it all the same",
			name);
	if (!(flags & WALL_ROOT_INSIDE) && !s->strict)
		keeper_note(&l->k, "root: there is none inside behind wall '%s'", name);
	if (!(flags & WALL_PROC_FILES) && flags & WALL_SHARED_KERNEL)
		keeper_note(&l->k, "/proc: memory, processors and load are the host's");
	if (flags & WALL_GROUPED && !(flags & WALL_EXEC_GROUPS))
		keeper_note(&l->k,
			    "commands: not in groups of their own; a command's tree is "
			    "ended by walking its descendants, at once: --grace is not kept");
	if (flags & WALL_MEASURE && !(flags & WALL_EXEC_GROUPS))
		l->k.ran_out = keeper_life_ran_out;
	return 0;
}

int keeper_life_start(struct keeper_life *l, struct err *e)
{
	int r = open_dirs(l, e);

	if (r == 0)
		r = reset_oom_score(l, e);
	if (r == 0)
		r = find_wall(l, e);
	if (r == 0 && !l->config.premade) /* which has no record yet */
		r = record_lock(l->box_fd, &l->lock_fd, e);
	if (r < 0)
		return r;
	l->made = true; /* and ours: no other keeper runs it */
	l->disk_asked = l->config.spec.limits[LIMIT_DISK];
	l->k.logs.box_fd = l->box_fd;
	r = take_ids(l, e);
	if (r == 0)
		r = keeper_limits_make_cgroup(l, e);
	if (r == 0 && !l->config.premade)
		r = check_expiry(l, e);
	if (r == 0)
		r = keeper_limits_open_volume(l, e);
	if (r == 0)
		r = start_init(l, e);
	fd_close(&l->st.home_fd);
	return r;
}

void keeper_life_release(struct keeper_life *l)
{
	struct err e;

	fd_close(&l->host.mounts_fd); /* it keeps the box's mounts, and these its disk */
	keeper_listener_done(&l->listener);
	if (l->has_cgroup) {
		l->has_cgroup = false;
		if (cgroup_end(&l->cgroup, l->cgroup_name, &e) < 0)
			keeper_note(&l->k, "%s", e.msg);
	}
	if (!l->volume.throw_away && !l->remove) /* or last of all: no caller waits for that */
		volume_done(&l->volume);
	volume_done(&l->workspace);
	fd_close(&l->workspace_fd);
	fd_close(&l->range_fd);
}
