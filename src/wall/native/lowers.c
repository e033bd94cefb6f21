/* Overlays among the mounts of a box; see lowers.h. */
#include "wall/native/lowers.h"

#include "base/path.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below the scratch: short names of ours. Options: mount(2) takes a page. */
enum { LOWERS_PATH = 96, OPTIONS_MAX = 4000 };

/* A directory of what is below the current directory and not the box's, made if it is missing. */
static int make_dir(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* upper/ and work/ in dir. A new upper/ is what the directory below it is, seen from the box, and
 * has its name when it is whole. */
static int make_upper(const char *dir, const struct wall_lower *lower, const char *lower_place)
{
	char upper[LOWERS_PATH], fresh[LOWERS_PATH], work[LOWERS_PATH];
	struct stat st, have;
	int r = make_dir(dir, 0755); /* the host finds upper/ in there */

	if (!path_join(upper, sizeof(upper), dir, "upper") ||
	    !path_join(fresh, sizeof(fresh), dir, "fresh") ||
	    !path_join(work, sizeof(work), dir, "work"))
		return -ENAMETOOLONG;
	if (r == 0)
		r = make_dir(work, 0700);
	if (r < 0)
		return r;
	if (lstat(upper, &have) == 0)
		return S_ISDIR(have.st_mode) ? 0 : -ENOTDIR;
	r = make_dir(fresh, 0700);
	if (r < 0)
		return r;
	if (lstat(lower_place, &st) < 0 ||
	    lchown(fresh, lower->owned ? st.st_uid : IDS_USER,
		   lower->owned ? st.st_gid : IDS_USER) < 0 ||
	    chmod(fresh, st.st_mode & 01777) < 0 || rename(fresh, upper) < 0)
		return -errno;
	return 0;
}

/* Attaches what the overlay is made of below place; ":PLACE/0:PLACE/1..." is added to options. */
static int attach_lowers(const struct plan_source *sources, size_t count, const char *place,
			 struct buf *options)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		char at[LOWERS_PATH];

		snprintf(at, sizeof(at), "%s/%zu", place, i);
		if (mkdir(at, 0700) < 0)
			return -errno;
		r = mount_attach(sources[i].fd, AT_FDCWD, at);
		if (r == 0)
			r = buf_printf(options, "%s%s", i ? ":" : "", at);
	}
	return r;
}

/* The overlay holds what it was made of. */
static void hide_lowers(size_t count, const char *place)
{
	char at[LOWERS_PATH];

	for (size_t i = 0; i < count; i++) {
		snprintf(at, sizeof(at), "%s/%zu", place, i);
		umount2(at, MNT_DETACH);
	}
	snprintf(at, sizeof(at), "%s/rw", place);
	umount2(at, MNT_DETACH);
}

static int mount_all(const struct wall_mount *m, const struct plan_source *sources,
		     const char *place, bool throw_away, struct buf *options)
{
	bool has_own = m->volume || m->upper_in_src;
	char at[LOWERS_PATH], dir[LOWERS_PATH], lower[LOWERS_PATH];
	int r = buf_append_str(options, "lowerdir=");

	snprintf(at, sizeof(at), "%s/rw", place);
	if (!path_join(dir, sizeof(dir), has_own ? at : "rw", m->upper))
		return -ENAMETOOLONG;
	snprintf(lower, sizeof(lower), "%s/0", place);
	if (mkdir(place, 0700) < 0 || (has_own && mkdir(at, 0700) < 0))
		return -errno;
	if (r == 0 && has_own)
		r = mount_attach(sources[0].fd, AT_FDCWD, at);
	if (r == 0)
		r = attach_lowers(sources + has_own, m->lower_count, place, options);
	if (r == 0)
		r = make_upper(dir, &m->lowers[0], lower);
	/* A volatile one is never mounted again: what outlives the box, as a workspace, is none. */
	if (r == 0)
		r = buf_printf(options, ",upperdir=%s/upper,workdir=%s/work,userxattr%s", dir, dir,
			       throw_away && !has_own ? ",volatile" : "");
	snprintf(at, sizeof(at), "%s/all", place);
	if (r == 0 && mkdir(at, 0700) < 0)
		r = -errno;
	if (r == 0)
		r = buf_cstr(options)
			    ? mount_here("overlay", at, MS_NODEV | MS_NOSUID, buf_cstr(options))
			    : -ENOBUFS;
	return r;
}

int lowers_mount(const struct wall_mount *m, const struct plan_source *sources, const char *place,
		 bool throw_away)
{
	char all[LOWERS_PATH];
	struct buf options;
	int r, fd;

	buf_init(&options, OPTIONS_MAX);
	r = mount_all(m, sources, place, throw_away, &options);
	buf_done(&options);
	hide_lowers(m->lower_count, place);
	if (r < 0)
		return r;
	snprintf(all, sizeof(all), "%s/all", place);
	fd = openat(AT_FDCWD, all, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
