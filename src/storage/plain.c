/*
 * Plain storage: upper/ and work/ are ordinary directories of the box's own.
 *
 * Both are to belong to the box's root, because upper/ becomes "/" of the box. Root stores what a
 * box writes with the box's own ids, so its own mkdir is already right, and with a single id
 * everything is the caller's. What an ordinary user with subordinate ids makes here is still the
 * caller's: the wall, which is inside the map anyway, gives it to the box's root.
 */
#include "storage/storage.h"

#include "base/fd.h"
#include "storage/tree.h"

#include <errno.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	mode_t mode;
} dirs[] = {{"upper", 0755}, {"work", 0700}};

enum { DIR_COUNT = sizeof(dirs) / sizeof(dirs[0]) };

static int plain_check(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	return 0;
}

static int plain_open(const struct storage_place *p, const struct ids *ids,
		      const struct storage_size *size, struct volume *ret, struct err *e)
{
	for (int i = 0; i < DIR_COUNT; i++) {
		int r = mkdirat(p->dir_fd, dirs[i].name, 0700);

		if (r < 0 && errno == EEXIST) /* of an earlier, interrupted attempt */
			continue;
		if (r < 0 || fchmodat(p->dir_fd, dirs[i].name, dirs[i].mode, 0) < 0)
			return err_errno(e, errno, "cannot make the box's directories");
	}
	*ret = VOLUME_NONE;
	ret->ops = &storage_plain;
	return 0;
}

static int plain_remove(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	int first = 0;

	for (int i = 0; i < DIR_COUNT; i++) {
		struct err why;
		int r = tree_remove_as(ids, p->dir_fd, dirs[i].name, &why);

		if (r < 0 && first == 0) {
			first = r;
			if (e)
				*e = why;
		}
	}
	return first;
}

const struct storage_ops storage_plain = {
	.name = "plain",
	.flags = 0,
	.check = plain_check,
	.open = plain_open,
	.remove = plain_remove,
};
