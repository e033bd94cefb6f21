/* Pieces of a box's way to running; see life.h. */
#include "core/life.h"

#include "base/fd.h"
#include "base/pass.h"
#include "keeper/config.h"
#include "store/key.h"
#include "store/layer.h"
#include "store/net.h"
#include "wire/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int life_find_image(struct cove *cove, const char *owner, const char *name, struct image *ret,
		    struct err *e)
{
	int r = image_find(&cove->state, name, ret, e);

	if (r == 0 && !key_may_use_image(owner, ret->name))
		return err_set(e, ERR_DENIED, EACCES,
			       "boxes of the API key %s may not stand on the image '%.80s'", owner,
			       ret->name);
	return r;
}

int life_image(struct cove *cove, struct spec *spec, struct image *ret, struct err *e)
{
	int r = life_find_image(cove, spec->owner, spec->image, ret, e);

	if (r < 0)
		return r;
	spec->base_user = ret->config.user ? ret->config.user : "root";
	spec->base_cwd = ret->config.cwd;
	spec->layer_count = ret->layer_count;
	memcpy(spec->layers, ret->layers, ret->layer_count * sizeof(spec->layers[0]));
	spec->base_env_count = ret->config.env.count;
	memcpy(spec->base_env, ret->config.env.at,
	       ret->config.env.count * sizeof(spec->base_env[0]));
	return 0;
}

/* The trees of a box's layers. Without layers of its own: those of its image as it is now. */
struct life_lowers {
	char *paths[SPEC_LAYER_MAX]; /* owned; top first */
	size_t count;
	struct image image;
	bool is_host;
};

static void lowers_done(struct life_lowers *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->paths[i]);
	image_done(&l->image);
}

static int add_lower(struct cove *cove, struct life_lowers *l, const char *id, const char *box,
		     struct err *e)
{
	char path[BOX_PATH_MAX];
	int r = layer_root(&cove->state, id, path, sizeof(path));

	if (r == -ENOENT)
		return err_set(e, ERR_DAMAGED, ENOENT,
			       "a layer that box '%s' stands on is gone (%.12s): 'cove system "
			       "verify' tells what else is; make the box anew",
			       box, id);
	if (r < 0)
		return err_errno(e, -r, "find layer '%.12s'", id);
	/* An image may have a layer twice, and overlay takes none twice. All that the lower one
	 * has the upper one has too. */
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->paths[i], path) == 0)
			return 0;
	if (l->count == SPEC_LAYER_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "box '%s' stands on more than %u layers", box,
			       SPEC_LAYER_MAX);
	l->paths[l->count] = strdup(path);
	return l->paths[l->count] ? (l->count++, 0) : err_errno(e, ENOMEM, "start box '%s'", box);
}

static int lowers_find(struct cove *cove, struct spec *spec, struct life_lowers *ret, struct err *e)
{
	const char *const *ids = spec->layers;
	size_t count = spec->layer_count;
	int r = 0;

	/* What a snapshot of a box of the host's image holds is above its skeleton. */
	if (count > 0 && strcmp(spec->image, IMAGE_HOST) == 0)
		for (; count > 0 && r == 0; count--)
			r = add_lower(cove, ret, ids[count - 1], spec->name, e);
	if (r == 0 && count == 0) {
		r = life_find_image(cove, spec->owner, spec->image, &ret->image, e);
		ret->is_host = ret->image.is_host;
		if (r == 0 && ret->is_host)
			r = core_ids(cove, e);
		if (r == 0 && ret->is_host)
			r = image_host_prepare(&cove->state, &cove->ids, &ret->image, e);
		ids = ret->image.layers;
		count = ret->image.layer_count;
		spec->base_user = ret->image.config.user;
	}
	for (size_t i = count; i > 0 && r == 0; i--)
		r = add_lower(cove, ret, ids[i - 1], spec->name, e);
	return r;
}

static int find_ctl(struct cove *cove, struct keeper_config *c, struct err *e)
{
	struct wire_ctl_set may;
	int r = wire_ctl_set_parse(c->spec.ctl, &may, e);

	if (r == 0)
		r = spawn_find_ctl(cove, may.snapshots > 0, e);
	c->ctl_path = cove->ctl_path;
	if (may.snapshots)
		c->save_path = cove->save_path;
	return r;
}

/* To one that waits for it. */
static int tell_keeper(int sock, const struct keeper_config *config, struct err *e)
{
	autoclose int fd = -1;
	int r = keeper_config_write(config, &fd, e);

	if (r < 0)
		return r;
	r = pass_send(sock, &fd, 1);
	return r < 0 ? err_errno(e, -r, "start a box that was made ahead") : 0;
}

int life_spawn_keeper(struct cove *cove, const struct life_start *start, int *ret_fd, struct err *e)
{
	struct life_lowers lowers = {0};
	struct keeper_config config = {
		.home = cove->state.home,
		.run = cove->state.run,
		.init_path = cove->init_path,
		.door_path = cove->door_path[0] ? cove->door_path : NULL,
		.wall_program = cove->wall_program,
		.premade = start->premade,
		.visit = start->visit || start->keep,
		.soon = start->soon,
		.spec = *start->spec,
	};
	autoclose int warm_fd = start->warm_fd;
	unsigned counted = 0;
	int r = net_is_closed(start->spec->net) ? 0 : spawn_find_door(cove, e);

	if (r == 0)
		r = key_counted_limits(&cove->state, start->spec->owner, &counted, e);
	config.counted = counted;
	config.secret_count = start->secret_count;
	if (start->secret_count > 0)
		memcpy(config.secrets, start->secrets,
		       start->secret_count * sizeof(config.secrets[0]));
	config.spec.one_shot = config.spec.one_shot && !start->keep;
	if (r == 0 && start->spec->ctl && !start->visit)
		r = find_ctl(cove, &config, e);
	if (r == 0)
		r = lowers_find(cove, &config.spec, &lowers, e);
	config.image_is_host = lowers.is_host;
	config.lower_count = lowers.count;
	memcpy(config.lowers, lowers.paths, lowers.count * sizeof(config.lowers[0]));
	if (r == 0 && warm_fd < 0)
		r = spawn_keeper(cove, &config, ret_fd, e);
	else if (r == 0)
		r = tell_keeper(warm_fd, &config, e);
	if (r == 0 && warm_fd >= 0)
		*ret_fd = take_fd(warm_fd);
	lowers_done(&lowers);
	return r;
}

int life_spawn(struct cove *cove, struct ev *ev, const struct life_start *start,
	       struct core_conn **ret, struct err *e)
{
	autoclose int lock = start->lock_fd;
	int fd = -1, r = life_spawn_keeper(cove, start, &fd, e);

	if (r == 0)
		r = core_conn_new(ev, fd, ret, e);
	if (r < 0)
		return r;
	(*ret)->first = true;
	(*ret)->visit = start->visit || start->keep;
	(*ret)->start_lock_fd = take_fd(lock);
	return 0;
}
