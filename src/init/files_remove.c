/*
 * Remove: one name, or a tree.
 *
 * A tree is walked depth first; every name is unlinked relative to its open directory, and only
 * what says it is a directory is opened, without following a link or entering another mount. A
 * directory that was filled again while we emptied it is read again, REFILLS_MAX times in all.
 * Each turn of the loop removes a bounded number of names.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/path.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>

enum { NAMES_PER_TURN = 64, REFILLS_MAX = 64 };

struct removal {
	struct file_op op;
	struct init_place place; /* of the tree's root */
	struct init_walk walk;
	unsigned refills;
};

static struct removal *removal_of(struct file_op *op)
{
	return (struct removal *)op;
}

static int open_dir(struct removal *m, int dir_fd, const char *name, struct err *e)
{
	int fd = guest_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK,
			       FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd == -EXDEV)
		return file_error(&m->op, EBUSY, "remove a mount point", m->walk.path, e);
	if (fd < 0)
		return file_error(&m->op, -fd, "remove", m->walk.path, e);
	r = init_walk_down(&m->walk, fd);
	if (r == -ELOOP)
		return err_set(e, ERR_LIMIT, ELOOP, "'%.120s' is more than %u directories deep",
			       m->op.path, INIT_DEPTH_MAX);
	return r < 0 ? file_error(&m->op, -r, "remove", m->walk.path, e) : 0;
}

static int remove_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct removal *rm = removal_of(op);
	int r;

	rm->place = PLACE_NONE;
	r = init_place_find(op->path, 0, &rm->place);
	if (r == -ENOENT || r == -ENOTDIR)
		return FILE_DONE;
	if (r < 0)
		return file_error(op, -r, "remove", "", e);
	if (rm->place.name[0] == '.' && !rm->place.name[1])
		return file_error(op, EINVAL, "remove", "", e);
	if (unlinkat(rm->place.dir_fd, rm->place.name, 0) == 0 || errno == ENOENT)
		return FILE_DONE;
	if (errno != EISDIR)
		return file_error(op, errno, "remove", "", e);
	if (unlinkat(rm->place.dir_fd, rm->place.name, AT_REMOVEDIR) == 0)
		return FILE_DONE;
	if (errno != ENOTEMPTY || !m->recursive)
		return file_error(op, errno, "remove", "", e);
	r = open_dir(rm, rm->place.dir_fd, rm->place.name, e);
	if (r < 0)
		return r;
	return rm->walk.top ? FILE_AGAIN : FILE_DONE;
}

static int remove_next(struct removal *m, struct err *e)
{
	const char *name;
	int r = init_walk_next(&m->walk, &name);

	if (r < 0)
		return file_error(&m->op, -r, "read the directory", m->walk.path, e);
	if (r == 0) { /* the directory has no more names: it goes, too */
		int up = init_walk_parent_fd(&m->walk);

		name = up >= 0 ? path_base(m->walk.path) : m->place.name;
		if (unlinkat(up >= 0 ? up : m->place.dir_fd, name, AT_REMOVEDIR) == 0 ||
		    errno == ENOENT) {
			init_walk_up(&m->walk);
			return m->walk.top ? FILE_AGAIN : FILE_DONE;
		}
		if (errno == ENOTEMPTY && m->refills++ < REFILLS_MAX &&
		    init_walk_rewind(&m->walk) == 0)
			return FILE_AGAIN;
		return file_error(&m->op, errno, "remove", m->walk.path, e);
	}
	if (unlinkat(init_walk_fd(&m->walk), name, 0) == 0 || errno == ENOENT)
		return FILE_AGAIN;
	if (errno != EISDIR)
		return file_error(&m->op, errno, "remove", m->walk.path, e);
	r = open_dir(m, init_walk_fd(&m->walk), name, e);
	return r < 0 ? r : FILE_AGAIN;
}

static int remove_turn(struct file_op *op, struct err *e)
{
	int r = FILE_AGAIN;

	for (int i = 0; i < NAMES_PER_TURN && r == FILE_AGAIN; i++)
		r = remove_next(removal_of(op), e);
	return r;
}

static void remove_stop(struct file_op *op)
{
	init_walk_done(&removal_of(op)->walk);
	init_place_done(&removal_of(op)->place);
}

const struct file_kind file_remove = {
	.size = sizeof(struct removal),
	.start = remove_start,
	.turn = remove_turn,
	.stop = remove_stop,
};
