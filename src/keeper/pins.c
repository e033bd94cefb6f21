/*
 * What in a shared host directory makes the host run something; see mounts.h.
 *
 * A hook, an editor's task or an agent's settings that a box writes would run outside of it, as the
 * caller. What is there of that at the top of a directory is shown read-only, each as a mount of
 * its own: a mount point can be neither renamed nor removed, and root inside may not unmount it.
 * Its parent is a mount point too, so that the whole of .git cannot be moved away and made anew.
 *
 * This is a guard against accidents and no wall: what is not there yet can be made, other programs
 * of the project (a Makefile) can be changed, and deeper directories are not looked at. Links at
 * these names are neither followed nor pinned.
 */
#include "base/fd.h"
#include "base/path.h"
#include "keeper/mounts.h"
#include "store/guarded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Not through a link, and a directory or a file. */
static bool look(int dir_fd, const char *path, struct stat *ret)
{
	autoclose int fd = fd_openat2(dir_fd, path, O_PATH | O_NOFOLLOW, 0,
				      FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);

	return fd >= 0 && fstat(fd, ret) == 0 && (S_ISDIR(ret->st_mode) || S_ISREG(ret->st_mode));
}

static char *join(const char *dir, const char *name)
{
	char path[BOX_PATH_MAX];

	return path_join(path, sizeof(path), dir, name) ? strdup(path) : NULL;
}

static int pin(struct keeper_mounts *m, const struct wall_mount *of, const char *path,
	       bool read_only, struct err *e)
{
	char *dst = join(of->dst, path), *below = of->beneath ? join(of->beneath, path) : NULL;

	if (m->pin_count == WALL_PINS_MAX) {
		free(dst);
		free(below);
		return err_set(
			e, ERR_LIMIT, E2BIG,
			"more than %u files of shared directories are to be read-only in the "
			"box (hooks, settings of editors and agents): share fewer directories",
			WALL_PINS_MAX);
	}
	m->pins[m->pin_count].dst = dst;
	m->pins[m->pin_count].read_only = read_only;
	m->pins[m->pin_count++].below = below;
	if (!dst || (of->beneath && !below))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the path of '%s' is too long", path);
	m->list[m->count++] = (struct wall_mount){.src = of->src,
						  .beneath = below ? below : path,
						  .dst = dst,
						  .uid = of->uid,
						  .gid = of->gid,
						  .read_only = read_only};
	return 0;
}

int keeper_pins_add(struct keeper_mounts *m, int dir_fd, const struct wall_mount *of, struct err *e)
{
	const char *parent = NULL;
	struct stat st;
	int r = 0;

	for (const struct guarded *g = guarded_list; g->path && r == 0; g++) {
		const char *in = g->parent;

		if (!look(dir_fd, g->path, &st) || (g->file_only && !S_ISREG(st.st_mode)))
			continue;
		if (in && (!parent || strcmp(in, parent) != 0) && look(dir_fd, in, &st))
			r = pin(m, of, in, false, e);
		parent = in ? in : parent;
		if (r == 0)
			r = pin(m, of, g->path, true, e);
	}
	return r;
}

void keeper_pins_done(struct keeper_mounts *m)
{
	for (size_t i = 0; i < m->pin_count; i++) {
		free(m->pins[i].dst);
		free(m->pins[i].below);
	}
	m->pin_count = 0;
}
