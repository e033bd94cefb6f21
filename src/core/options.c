/* From a caller's options to a spec: defaults, fresh names, paths made absolute, limits. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/core.h"
#include "core/walls.h"
#include "store/image.h"
#include "wall/info.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

/* What a box may use where its maker did not say. */
#define DEFAULT_MEM   (2ull << 30)
#define DEFAULT_CPUS  2u
#define DEFAULT_PIDS  1024u
#define DEFAULT_DISK  (10ull << 30)
#define DEFAULT_FILES 65536u

static const char *const adjectives[] = {
	"amber", "bold",  "brave", "brisk", "calm",  "clear", "cosy",  "deft",
	"eager", "fair",  "fleet", "fond",  "glad",  "keen",  "kind",  "light",
	"lucid", "merry", "mild",  "neat",  "noble", "plain", "proud", "quick",
	"quiet", "sharp", "smart", "snug",  "still", "sunny", "swift", "warm",
};
static const char *const animals[] = {
	"badger", "bear",  "bee",   "bison", "crane", "crow",  "deer",	"dove",
	"duck",	  "eagle", "elk",   "finch", "fox",   "goose", "hare",	"hawk",
	"heron",  "ibis",  "koala", "lark",  "lynx",  "mole",  "moose", "otter",
	"owl",	  "panda", "raven", "robin", "seal",  "stork", "swan",	"wren",
};

/* Of a box of an API key (owner) in its namespace. */
static void fresh_name(const char *owner, char ret[BOX_NAME_MAX + 1])
{
	uint8_t pick[2];
	char hex[5];

	rand_bytes(pick, sizeof(pick));
	rand_hex(hex, 2);
	snprintf(ret, BOX_NAME_MAX + 1, "%.8s%s%s-%s-%s", owner ? owner : "", owner ? "_" : "",
		 adjectives[pick[0] % 32], animals[pick[1] % 32], hex);
}

static int add_list(const char *const *given, const char **ret, size_t *ret_count, size_t max,
		    const char *what, struct err *e)
{
	for (size_t i = 0; given && given[i]; i++) {
		if (i == max)
			return err_set(e, ERR_LIMIT, E2BIG, "more than %zu %s", max, what);
		ret[i] = given[i];
		*ret_count = i + 1;
	}
	return 0;
}

static int keep(struct core_spec *s, char *text, struct err *e)
{
	if (!text)
		return err_errno(e, ENOMEM, "make a box");
	s->text[s->text_count++] = text;
	return 0;
}

/* Whose it is now: the box's files there are theirs, so it has to stay so. */
static int note_owner(struct core_spec *s, const char *path, const char **ret, struct err *e)
{
	char text[32];
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_errno(e, errno, "look at '%.140s'", path);
	snprintf(text, sizeof(text), "%u:%u", st.st_uid, st.st_gid);
	r = keep(s, strdup(text), e);
	if (r == 0)
		*ret = s->text[s->text_count - 1];
	return r;
}

static bool is_within_one(const char *real, const char *const *roots)
{
	for (; *roots; roots++)
		if (path_is_within(real, *roots))
			return true;
	return false;
}

/* Of a caller who may give some directories only. The way to a path stays below one of them at each
 * step: not even whether something else is there shows, also where a box made a link that asks.
 * -ENOENT and -ENOTDIR are of what is below; -EXDEV of all else, be it there or not. */
static int check_way(const char *given, const char *const *roots)
{
	for (; *roots; roots++) {
		autoclose int root_fd = -1, fd = -1;
		const char *rest;

		if (!path_is_within(given, *roots))
			continue;
		rest = given + strlen(*roots);
		rest += strspn(rest, "/");
		root_fd = open(*roots, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root_fd >= 0)
			fd = fd_openat2(root_fd, *rest ? rest : ".", O_PATH | O_CLOEXEC, 0,
					FD_BENEATH | FD_NO_MAGICLINKS);
		if (fd == -ENOENT || fd == -ENOTDIR)
			return fd;
		if (fd >= 0)
			return 0;
	}
	return -EXDEV;
}

/* A host path without its links; owned. What counts is the one that is kept and opened later: who
 * looked before may have seen another. */
static int resolve(const char *given, const char *const *roots, char **ret)
{
	int r = roots ? check_way(given, roots) : 0;
	char *real;

	if (r < 0)
		return r;
	real = realpath(given, NULL);
	if (real && (!roots || is_within_one(real, roots))) {
		*ret = real;
		return 0;
	}
	r = roots ? -EXDEV : -errno;
	free(real);
	return r;
}

static int fail_elsewhere(const char *given, struct err *e)
{
	return err_set(e, ERR_DENIED, EACCES,
		       "'%.140s' is not below a directory of this host that may be given to a box",
		       given);
}

/* Links in a source are followed now, as its user means them, and never again: whoever may write to
 * a part of the path could lead a later start elsewhere. */
static int resolve_source(struct core_spec *s, struct spec_mount *m, const char *const *roots,
			  struct err *e)
{
	char *real;
	int r;

	if (!path_is_absolute(m->src))
		return 0;
	r = resolve(m->src, roots, &real);
	if (r == -EXDEV)
		return fail_elsewhere(m->src, e);
	if (r < 0)
		return err_errno(e, -r, "mount source '%.140s'", m->src);
	r = keep(s, real, e);
	if (r < 0)
		return r;
	m->src = real;
	return note_owner(s, real, &m->owner, e);
}

static int add_mounts(struct core_spec *s, const struct cove_box_options *o, struct err *e)
{
	const char *const *given = o->mounts;
	struct spec *spec = &s->spec;
	int r;

	for (size_t i = 0; given && given[i]; i++) {
		if (i == SPEC_MOUNT_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "more than %u mounts", SPEC_MOUNT_MAX);
		r = keep(s, strdup(given[i]), e);
		if (r == 0)
			r = spec_mount_parse(&spec->mounts[i], s->text[s->text_count - 1], e);
		if (r == 0)
			r = resolve_source(s, &spec->mounts[i], o->mount_roots, e);
		if (r < 0)
			return r;
		spec->mount_count = i + 1;
	}
	return 0;
}

/* A name, or a host directory, which must be there: a typing error should not make one. */
static int set_workspace(struct core_spec *s, const struct cove_box_options *o, struct err *e)
{
	const char *given = o->workspace;
	struct stat st;
	char *path;
	int r;

	if (!given)
		return 0;
	if (!strchr(given, '/') && strcmp(given, ".") != 0 && strcmp(given, "..") != 0) {
		s->spec.workspace = given;
		return 0;
	}
	r = resolve(given, o->mount_roots, &path);
	if (r == -EXDEV)
		return fail_elsewhere(given, e);
	if (r < 0)
		return err_errno(e, -r, "workspace directory '%s' (make it first: mkdir -p)",
				 given);
	r = keep(s, path, e);
	if (r < 0)
		return r;
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "workspace '%s' is not a directory", given);
	s->spec.workspace_dir = path;
	return note_owner(s, path, &s->spec.workspace_owner, e);
}

static int set_persistence(struct spec *spec, const char *given, struct err *e)
{
	if (!given || strcmp(given, "workspace") == 0)
		spec->persistence = PERSIST_WORKSPACE;
	else if (strcmp(given, "box") == 0 || strcmp(given, "sandbox") == 0)
		spec->persistence = PERSIST_BOX;
	else
		return err_set(e, ERR_INVALID, EINVAL,
			       "persistence is 'workspace' or 'box', not '%.40s'", given);
	return 0;
}

/* 0 is the default, or what this host has, and is kept where it can be; the rest is the caller's
 * word. */
static void set_limits(struct spec *spec, const struct cove_box_options *o)
{
	const uint64_t given[LIMIT_COUNT] = {
		[LIMIT_MEM] = o->mem_bytes,	  [LIMIT_CPUS] = o->cpu_milli,
		[LIMIT_PIDS] = o->pids,		  [LIMIT_DISK] = o->disk_bytes,
		[LIMIT_FILES] = o->files,	  [LIMIT_IO] = o->io_bytes,
		[LIMIT_TTL] = o->ttl_ms,	  [LIMIT_IDLE] = o->idle_ms,
		[LIMIT_NET_BYTES] = o->net_bytes, [LIMIT_NET_CONNS] = o->net_conns,
	};
	cpu_set_t set;
	struct sysinfo info;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
	uint64_t mem = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;

	spec->limits[LIMIT_MEM] = mem > 0 && mem < DEFAULT_MEM ? mem : DEFAULT_MEM;
	spec->limits[LIMIT_CPUS] =
		(cpus > 0 && cpus < (int)DEFAULT_CPUS ? (uint64_t)cpus : DEFAULT_CPUS) * 1000;
	spec->limits[LIMIT_PIDS] = DEFAULT_PIDS;
	spec->limits[LIMIT_DISK] = DEFAULT_DISK;
	spec->limits[LIMIT_FILES] = DEFAULT_FILES;
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		if (given[i] == 0)
			continue;
		spec->limits[i] = given[i] == COVE_UNLIMITED ? 0 : given[i];
		spec->limits_asked |= 1u << i;
	}
}

void core_spec_default_limits(struct spec *spec)
{
	memset(spec->limits, 0, sizeof(spec->limits));
	spec->limits_asked = 0;
	set_limits(spec, &(struct cove_box_options){0});
}

static int set_expiry(struct spec *spec, const char *given, struct err *e)
{
	if (!given)
		return 0;
	if (!expiry_parse(given, &spec->expiry))
		return err_set(e, ERR_INVALID, EINVAL,
			       "expire is 'stop', 'remove' or 'pause', not '%.40s'", given);
	if (!spec->limits[LIMIT_TTL] && !spec->limits[LIMIT_IDLE])
		return err_set(e, ERR_INVALID, EINVAL,
			       "expire says what happens when --ttl or --idle is over: give one "
			       "of them");
	return 0;
}

static int set_restart(struct spec *spec, const char *given, struct err *e)
{
	if (!given || restart_parse(given, &spec->restart))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "restart is 'no', 'on-reboot' or 'always', not '%.40s'", given);
}

int core_spec_init(struct core_spec *ret, const struct cove_box_options *o, const char *name,
		   const char *session, struct err *e)
{
	struct spec *spec = &ret->spec;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (name)
		str_copy(ret->name, sizeof(ret->name), name);
	else if (!o->name)
		fresh_name(o->owner, ret->name);
	else if (!str_copy(ret->name, sizeof(ret->name), o->name))
		return err_set(e, ERR_INVALID, EINVAL, "a box name has at most %u bytes",
			       BOX_NAME_MAX);
	spec->name = ret->name;
	r = image_name_clean(o->image ? o->image : IMAGE_DEFAULT, ret->image_name, e);
	if (r < 0)
		return r;
	spec->image = ret->image_name;
	ret->wall_open = !o->wall;
	spec->wall = o->wall ? o->wall : WALL_DEFAULT;
	r = wall_read_auto(spec->wall, &ret->wall_within_ms, e);
	if (r < 0)
		return r;
	if (r == 0)
		ret->wall_within_ms = 0;
	else
		spec->wall = WALL_DEFAULT;
	if (!wall_info_find(spec->wall))
		return err_set(e, ERR_UNSUPPORTED, ENOENT, "there is no wall '%.64s': %s",
			       spec->wall, wall_names());
	spec->user = o->user;
	spec->cwd = o->cwd;
	spec->session = session;
	spec->owner = o->owner;
	spec->one_shot = o->one_shot;
	spec->best_effort = o->best_effort;
	spec->strict = o->strict;
	spec->trust_dir = o->trust_dir;
	spec->ptrace = o->ptrace;
	spec->workspace_copy = o->copy;
	spec->ctl = o->ctl && *o->ctl ? o->ctl : NULL;
	spec->on_start = o->on_start && *o->on_start ? o->on_start : NULL;
	spec->storage = o->storage;
	ret->soon = o->runs_soon;
	spec->timeout_ms = o->timeout_ms;
	spec->created_ms = clock_wall_ms();
	set_limits(spec, o);
	r = set_workspace(ret, o, e);
	if (r == 0)
		r = set_persistence(spec, o->persistence, e);
	if (r == 0)
		r = set_expiry(spec, o->expire, e);
	if (r == 0)
		r = set_restart(spec, o->restart, e);
	if (r == 0)
		r = add_list(o->env, spec->env, &spec->env_count, SPEC_ENV_MAX, "variables", e);
	if (r == 0)
		r = add_list(o->labels, spec->labels, &spec->label_count, SPEC_LABEL_MAX, "labels",
			     e);
	if (r == 0)
		r = add_mounts(ret, o, e);
	if (r == 0 && session && !spec->workspace && !spec->workspace_dir)
		spec->workspace = ret->name;
	if (r == 0)
		r = spec_check(spec, e);
	if (r < 0)
		core_spec_done(ret);
	return r;
}

void core_spec_done(struct core_spec *s)
{
	for (size_t i = 0; i < s->text_count; i++)
		free(s->text[i]);
	s->text_count = 0;
	image_done(&s->image);
	free(take_ptr(s->policy));
}
