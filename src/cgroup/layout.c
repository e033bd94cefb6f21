/*
 * Finding the cgroup trees; see layout.h.
 *
 * Mounts are taken from mountinfo by type and options, never by the name of a directory: v1
 * controllers are mounted one by one, in pairs (cpu,cpuacct) or in any other company. As root the
 * mount itself is used. An ordinary user has only the group it runs in, and that only where it was
 * delegated.
 */
#include "cgroup/layout.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define BOXES_DIR "cove"

static const char *const controllers[LAYOUT_COUNT] = {
	[LAYOUT_MEMORY] = "memory", [LAYOUT_CPU] = "cpu",	  [LAYOUT_PIDS] = "pids",
	[LAYOUT_IO] = "blkio",	    [LAYOUT_FREEZER] = "freezer", [LAYOUT_CPUACCT] = "cpuacct",
};

/* One mount, pointing into the line. */
struct mount {
	char *root, *point, *options, *type, *super;
};

/* Is word one of those between commas? */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == ','))
			return true;
	}
	return false;
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

/* mountinfo writes space, tab, newline and backslash as \ooo. A NUL cannot be in a path. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && is_octal(s + 1)) {
			*to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
			if (*to == 0)
				break;
		} else {
			*to = *s++;
		}
	}
	*to = 0;
}

/* "36 35 98:0 /root /point rw,noatime shared:1 - type source rw,super" */
static bool parse_mount(char *line, struct mount *ret)
{
	char *fields[6] = {NULL}, *rest, *source;

	for (size_t i = 0; i < 6; i++)
		fields[i] = strsep(&line, " ");
	if (!line)
		return false;
	rest = str_starts(line, "- ") ? line + 2 : strstr(line, " - ");
	if (!rest)
		return false;
	rest += rest == line + 2 ? 0 : 3;
	ret->root = fields[3];
	ret->point = fields[4];
	ret->options = fields[5];
	ret->type = strsep(&rest, " ");
	source = strsep(&rest, " ");
	ret->super = rest;
	if (!source || !ret->super || ret->root[0] != '/' || ret->point[0] != '/')
		return false;
	unescape(ret->root);
	unescape(ret->point);
	return true;
}

/* The path of this process's group: "N:controllers:/path", and "0::/path" for v2 (NULL). */
static bool find_own(const char *self_cgroup, const char *controller, char *ret, size_t size)
{
	for (const char *at = self_cgroup; at && *at; at = strchr(at, '\n')) {
		const char *list, *path, *end;
		char names[128];

		at += *at == '\n';
		end = strchrnul(at, '\n');
		list = memchr(at, ':', (size_t)(end - at));
		path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
		if (!path || (size_t)(path - list) > sizeof(names) || (size_t)(end - path) > size ||
		    path[1] != '/')
			continue;
		snprintf(names, sizeof(names), "%.*s", (int)(path - list - 1), list + 1);
		if (controller ? !has_word(names, controller) : names[0] != 0)
			continue;
		snprintf(ret, size, "%.*s", (int)(end - path - 1), path + 1);
		return true;
	}
	return false;
}

static bool mount_dir(const struct layout *l, const struct mount *m, char *ret)
{
	int n = snprintf(ret, LAYOUT_PATH_MAX, "%s%s", l->root, m->point);

	return n > 0 && n < LAYOUT_PATH_MAX;
}

/* A keeper, and its launcher, are in a group below the one that their caller was in. */
static void leave_helper_group(char *own)
{
	char *last = strrchr(own, '/'), box[LAYOUT_PATH_MAX];
	size_t n = strlen("/" BOXES_DIR);

	if (!last || !cgroup_helper_box(last + 1, box, sizeof(box)) || (size_t)(last - own) < n ||
	    strncmp(last - n, "/" BOXES_DIR, n) != 0)
		return;
	last[-(ssize_t)n] = 0;
}

/* The group as a directory below the mount's point. A mount may show only a part of its tree. */
static bool own_dir(const struct layout *l, const struct mount *m, char *own, char *ret)
{
	size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root), len;
	char with_root[LAYOUT_PATH_MAX];

	if (strncmp(own, m->root, n) != 0 || (n > 0 && own[n] != '/' && own[n] != 0))
		return false;
	own += n;
	/* Outside of what this cgroup namespace shows. */
	if (str_starts(own, "/.."))
		return false;
	/* Where an earlier call moved the callers to make room for limits. */
	leave_helper_group(own);
	len = strlen(own);
	if (len >= strlen("/" CALLERS_DIR) &&
	    strcmp(own + len - strlen("/" CALLERS_DIR), "/" CALLERS_DIR) == 0)
		own[len - strlen("/" CALLERS_DIR)] = 0;
	if (!mount_dir(l, m, with_root))
		return false;
	if (own[0] == 0 || strcmp(own, "/") == 0)
		return str_copy(ret, LAYOUT_PATH_MAX, with_root);
	return path_join(ret, LAYOUT_PATH_MAX, with_root, own + 1);
}

static void take_mount(struct layout *l, enum layout_tree t, const struct mount *m,
		       const char *self_cgroup)
{
	struct layout_dir d = {.is_readonly =
				       has_word(m->options, "ro") || has_word(m->super, "ro")};
	char own[LAYOUT_PATH_MAX] = "/";

	/* The first one counts, unless only a later one can be written to. */
	if (layout_has(l, t) && (!l->dir[t].is_readonly || d.is_readonly))
		return;
	if (l->is_root) {
		if (!mount_dir(l, m, d.path))
			return;
	} else if (!find_own(self_cgroup, controllers[t], own, sizeof(own)) ||
		   !own_dir(l, m, own, d.path)) {
		return;
	}
	l->dir[t] = d;
}

void layout_parse(char *mountinfo, char *self_cgroup, const char *root, bool is_root,
		  struct layout *ret)
{
	char *line;

	memset(ret, 0, sizeof(*ret));
	ret->is_root = is_root;
	str_copy(ret->root, sizeof(ret->root), root);
	while ((line = strsep(&mountinfo, "\n"))) {
		struct mount m;

		/* There may be thousands of other mounts. */
		if (!strstr(line, " - cgroup") || !parse_mount(line, &m))
			continue;
		if (strcmp(m.type, "cgroup2") == 0)
			take_mount(ret, LAYOUT_V2, &m, self_cgroup);
		for (int t = LAYOUT_V2 + 1; t < LAYOUT_COUNT && strcmp(m.type, "cgroup") == 0; t++)
			if (has_word(m.super, controllers[t]))
				take_mount(ret, (enum layout_tree)t, &m, self_cgroup);
	}
}

void layout_find(struct layout *ret)
{
	autofree char *mounts = NULL, *own = NULL;
	bool is_root = geteuid() == 0;
	char none[] = "";

	if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", CGROUP_MOUNTS_MAX, &mounts, NULL) < 0)
		mounts = NULL;
	if (!is_root && fd_read_file(AT_FDCWD, "/proc/self/cgroup", 65536, &own, NULL) < 0)
		own = NULL;
	layout_parse(mounts ? mounts : none, own ? own : none, "", is_root, ret);
}

const struct cgroup_kind *layout_kind(enum layout_tree t)
{
	return t == LAYOUT_V2 ? &cgroup_v2 : &cgroup_v1;
}

bool layout_has(const struct layout *l, enum layout_tree t)
{
	return l->dir[t].path[0] != 0;
}

bool layout_is_repeat(const struct layout *l, enum layout_tree t)
{
	for (int i = 0; i < (int)t; i++)
		if (strcmp(l->dir[i].path, l->dir[t].path) == 0)
			return true;
	return false;
}

const char *layout_name(const struct layout *l)
{
	bool v1 = false;

	for (int t = LAYOUT_MEMORY; t <= LAYOUT_IO; t++)
		v1 = v1 || layout_has(l, (enum layout_tree)t);
	if (layout_has(l, LAYOUT_V2))
		return v1 ? "hybrid" : "v2";
	return v1 ? "v1" : "none";
}

/* Something may be mounted over it. */
static int check_kind(const struct layout *l, enum layout_tree t, int fd)
{
	struct statfs fs;

	if (l->root[0] || l->dir[t].is_checked)
		return 0;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return (long)fs.f_type == layout_kind(t)->magic ? 0 : -ENOENT;
}

int layout_open_parent(const struct layout *l, enum layout_tree t)
{
	autoclose int fd = -1;
	int r;

	if (!layout_has(l, t))
		return -ENOENT;
	fd = fd_open(l->dir[t].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	r = fd < 0 ? -errno : check_kind(l, t, fd);
	return r < 0 ? r : take_fd(fd);
}

int layout_open(const struct layout *l, enum layout_tree t, bool make)
{
	autoclose int fd = -1;
	char path[LAYOUT_PATH_MAX + 8];
	int r;

	if (!layout_has(l, t))
		return -ENOENT;
	if (make && l->dir[t].is_readonly)
		return -EROFS;
	snprintf(path, sizeof(path), "%s/" BOXES_DIR, l->dir[t].path);
	fd = fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && make) {
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (fd >= 0 && layout_kind(t)->on_boxes_made)
			layout_kind(t)->on_boxes_made(t, fd);
	}
	r = fd < 0 ? -errno : check_kind(l, t, fd);
	return r < 0 ? r : take_fd(fd);
}

int layout_make(const struct layout *l, enum layout_tree t, const char *box, bool *ret_new)
{
	autoclose int fd = -1;
	char path[LAYOUT_PATH_MAX + NAME_MAX + 8];
	int r;

	if (!layout_has(l, t))
		return -ENOENT;
	if (l->dir[t].is_readonly)
		return -EROFS;
	snprintf(path, sizeof(path), "%s/" BOXES_DIR "/%s", l->dir[t].path, box);
	r = mkdir(path, 0755) < 0 ? -errno : 0;
	/* The first box ever. */
	if (r == -ENOENT) {
		autoclose int base = layout_open(l, t, true);

		r = base < 0 ? base : mkdirat(base, box, 0755) < 0 ? -errno : 0;
	}
	if (r < 0 && r != -EEXIST)
		return r;
	if (ret_new)
		*ret_new = r == 0;
	fd = fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	r = fd < 0 ? -errno : check_kind(l, t, fd);
	return r < 0 ? r : take_fd(fd);
}

int layout_remove(const struct layout *l, enum layout_tree t, const char *box, const char *below)
{
	char path[LAYOUT_PATH_MAX + NAME_MAX + 24];

	(void)layout_path(l, t, box, below, path, sizeof(path));
	return rmdir(path) < 0 ? -errno : 0;
}

bool layout_path(const struct layout *l, enum layout_tree t, const char *box, const char *below,
		 char *ret, size_t size)
{
	int n = snprintf(ret, size, "%s/" BOXES_DIR "/%s%s", l->dir[t].path, box, below);

	return n > 0 && (size_t)n < size;
}

/* The last column of /proc/cgroups: 1 if the controller was not switched off, -1 if not known. */
static int is_enabled(const struct layout *l, const char *controller)
{
	autofree char *text = NULL;
	char path[LAYOUT_PATH_MAX + 16], name[64];
	char *at, *line;

	snprintf(path, sizeof(path), "%s/proc/cgroups", l->root);
	if (fd_read_file(AT_FDCWD, path, 65536, &text, NULL) < 0)
		return -1;
	at = text;
	while ((line = strsep(&at, "\n"))) {
		int on;

		if (sscanf(line, "%63s %*d %*d %d", name, &on) == 2 && !strcmp(name, controller))
			return on != 0;
	}
	return -1;
}

void layout_why(const struct layout *l, enum cgroup_part part, char *why)
{
	const char *name = controllers[part];

	if (!l->is_root)
		snprintf(why, CGROUP_WHY_MAX,
			 "no %s controller is delegated to this user; run as root, or under "
			 "systemd-run --user --scope -p Delegate=yes",
			 part == CGROUP_IO ? "io" : name);
	else if (is_enabled(l, name) == 0)
		snprintf(why, CGROUP_WHY_MAX,
			 "the kernel's %s controller is switched off; boot without "
			 "cgroup_disable=%s",
			 name, name);
	else if (layout_has(l, LAYOUT_V2))
		snprintf(why, CGROUP_WHY_MAX,
			 "the %s controller is in no cgroup tree that Cove may "
			 "use; " CGROUP_REMEDY_V2,
			 part == CGROUP_IO ? "io" : name);
	else
		snprintf(why, CGROUP_WHY_MAX, "the %s controller is not mounted; " CGROUP_REMEDY_V2,
			 name);
}

void layout_why_errno(const struct layout *l, enum layout_tree t, int code, char *why)
{
	if (!layout_has(l, t) && l->is_root)
		snprintf(why, CGROUP_WHY_MAX,
			 "there is no cgroup mount; mount cgroup2 at "
			 "/sys/fs/cgroup");
	else if (code == EROFS)
		snprintf(why, CGROUP_WHY_MAX,
			 "cgroups are mounted read-only here (a container?); mount them writable");
	else if (!l->is_root && layout_kind(t)->not_users)
		str_copy(why, CGROUP_WHY_MAX, layout_kind(t)->not_users);
	else if (!l->is_root && (code == EACCES || code == EPERM || code == ENOENT))
		snprintf(why, CGROUP_WHY_MAX,
			 "no cgroup is delegated to this user; run as root, or under "
			 "systemd-run --user --scope -p Delegate=yes");
	else
		snprintf(why, CGROUP_WHY_MAX, "no group can be made in the cgroup tree: %s",
			 strerror(code));
}

dev_t layout_disk(const struct layout *l, dev_t dev)
{
	autofree char *text = NULL;
	char path[LAYOUT_PATH_MAX + 64];
	unsigned major_nr, minor_nr;
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u", l->root, major(dev),
			 minor(dev));

	if (major(dev) == 0 || stat(path, &st) < 0)
		return 0;
	snprintf(path + n, sizeof(path) - (size_t)n, "/partition");
	if (stat(path, &st) < 0)
		return dev;
	snprintf(path + n, sizeof(path) - (size_t)n, "/../dev");
	if (fd_read_file(AT_FDCWD, path, 64, &text, NULL) < 0 ||
	    sscanf(text, "%u:%u", &major_nr, &minor_nr) != 2)
		return 0;
	return makedev(major_nr, minor_nr);
}
