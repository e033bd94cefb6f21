/*
 * Giving the files of boxes in a host directory back; see workspace.h.
 *
 * As root, files of box ids are found by their number (storage/share.h). An ordinary user has no
 * rights over files of subordinate ids, so the walk is done by a process in a user namespace that
 * maps them, as its root: what is not mapped there, it cannot change.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "storage/share.h"
#include "storage/tree.h"
#include "store/inside.h"
#include "store/own.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

struct chown_job {
	struct inside_job job;
	int dir_fd;
	struct tree_given given;
};

static int chown_inside(struct inside_job *job)
{
	const struct tree_give to = {.kind = TREE_GIVE_MAPPED, .uid = IDS_USER, .gid = IDS_USER};
	struct chown_job *j = (struct chown_job *)(void *)job;

	return tree_give(j->dir_fd, &to, &j->given, &job->err);
}

/* The directory itself: a link in its place may be a box's doing. */
static int open_given(const char *dir, struct err *e)
{
	char path[BOX_PATH_MAX];
	int fd;

	if (!*dir || !str_copy(path, sizeof(path), dir))
		return err_set(e, ERR_INVALID, EINVAL, "a path is empty or too long");
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(e, ERR_INVALID, ENOTDIR,
			       "'%.140s' is not a directory (a link is not followed)", dir);
	return fd < 0 ? err_errno(e, errno, "open '%.140s'", dir) : fd;
}

int workspace_chown(const struct state *s, const struct ids *ids, const char *dir,
		    uint64_t *ret_changed, struct err *e)
{
	autoclose int fd = open_given(dir, e);
	struct tree_give to = {.kind = TREE_GIVE_RANGES};
	struct chown_job job = {.job.run = chown_inside, .dir_fd = fd};
	struct tree_given given = {0};
	struct stat st;
	int r = fd < 0 ? fd : own_refuse_fd(s, dir, fd, e);

	if (r < 0)
		return r;
	if (ids->kind == IDS_RANGE && fstat(fd, &st) < 0) {
		r = err_errno(e, errno, "look at the directory");
	} else if (ids->kind == IDS_RANGE) {
		to.uid = share_is_box_id(st.st_uid) ? 0 : st.st_uid;
		to.gid = share_is_box_id(st.st_gid) ? 0 : st.st_gid;
		r = tree_give(fd, &to, &given, e);
	} else if (ids->kind == IDS_SUBORDINATE) {
		r = inside_run(ids, &job.job, sizeof(job), e);
		given = job.given;
	}
	/* With a single id all that a box writes is the caller's. */
	if (r < 0) {
		err_prefix(e, "'%.80s'", dir);
		return r;
	}
	if (given.left > 0)
		return err_set(e, ERR_INTERNAL, given.why,
			       "%" PRIu64 " files were given back in '%.100s', %" PRIu64
			       " could not be",
			       given.changed, dir, given.left);
	*ret_changed = given.changed;
	return 0;
}
