/* Pieces of a box's way to running; see life.h. */
#include "core/life.h"

#include "base/fd.h"
#include "keeper/config.h"
#include "store/net.h"

#include <fcntl.h>

int life_image(struct cove *cove, const char *name, struct image *ret, struct err *e)
{
	int r = image_find(&cove->state, name, ret, e);

	if (r < 0 || !ret->is_host)
		return r;
	r = core_ids(cove, e);
	return r < 0 ? r : image_host_prepare(&cove->state, &cove->ids, ret, e);
}

int life_spawn(struct cove *cove, struct ev *ev, const struct life_start *start,
	       struct core_conn **ret, struct err *e)
{
	const struct image *image = start->image;
	struct keeper_config config = {
		.home = cove->state.home,
		.run = cove->state.run,
		.init_path = cove->init_path,
		.door_path = cove->door_path[0] ? cove->door_path : NULL,
		.wall_program = cove->wall_program,
		.image_root = image->root,
		.image_user = image->user,
		.image_is_host = image->is_host,
		.visit = start->visit,
		.spec = *start->spec,
	};
	autoclose int lock = start->lock_fd;
	int fd = -1;
	int r = net_is_closed(start->spec->net) ? 0 : spawn_find_door(cove, e);

	if (r == 0)
		r = spawn_keeper(cove, &config, &fd, e);
	if (r == 0)
		r = core_conn_new(ev, fd, ret, e);
	if (r < 0)
		return r;
	(*ret)->first = true;
	(*ret)->visit = start->visit;
	(*ret)->start_lock_fd = take_fd(lock);
	return 0;
}
