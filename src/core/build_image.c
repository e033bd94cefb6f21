/* Writing the image of a build; see build.h. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_items(struct image_items *to, const struct build_words *from, const char *what,
		     struct err *e)
{
	if (from->count > IMAGE_ITEMS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "an image has at most %u %s",
			       (unsigned)IMAGE_ITEMS_MAX, what);
	for (size_t i = 0; i < from->count; i++)
		to->at[i] = from->list[i];
	to->count = from->count;
	return 0;
}

static int set_config(struct image_config *to, const struct build_config *from, struct err *e)
{
	int r;

	to->user = from->user;
	to->cwd = from->cwd;
	to->stop_signal = from->stop_signal;
	r = set_items(&to->env, &from->env, "variables", e);
	if (r == 0)
		r = set_items(&to->entrypoint, &from->entrypoint, "words in ENTRYPOINT", e);
	if (r == 0)
		r = set_items(&to->cmd, &from->cmd, "words in CMD", e);
	if (r == 0)
		r = set_items(&to->shell, &from->shell, "words in SHELL", e);
	if (r == 0)
		r = set_items(&to->labels, &from->labels, "labels", e);
	if (r == 0)
		r = set_items(&to->ports, &from->ports, "ports", e);
	return r < 0 ? r : set_items(&to->volumes, &from->volumes, "volumes", e);
}

/* Of a long history the newest steps. */
static void set_history(struct image *im, const struct build_made *m)
{
	size_t skip = m->history_count > IMAGE_ITEMS_MAX ? m->history_count - IMAGE_ITEMS_MAX : 0;

	for (size_t i = skip; i < m->history_count; i++)
		im->history[im->history_count++] =
			(struct image_step){.created_ms = m->history[i].created_ms,
					    .empty = m->history[i].empty,
					    .by = m->history[i].by};
}

static int set_name(struct build *b, struct image *im, struct err *e)
{
	char hash[65];

	if (b->o.name)
		return image_name_clean(b->o.name, im->name, e);
	build_layers_hash(&b->stages[b->plan.target].layers, hash);
	snprintf(im->name, sizeof(im->name), "%.12s", hash);
	return 0;
}

static int fill(struct build *b, struct image *im, struct err *e)
{
	struct build_made *m = &b->stages[b->plan.target];
	int r = set_name(b, im, e);

	if (r == 0 && m->layers.count == 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "the image would hold nothing: no step made a "
			    "file");
	if (r == 0)
		r = set_config(&im->config, &m->config, e);
	for (size_t i = 0; i < m->layers.count && r == 0; i++) {
		struct layer_meta meta;

		im->layers[i] = m->layers.list[i];
		r = layer_read(&b->cove->state, im->layers[i], &meta);
		im->bytes += r == 0 ? meta.bytes : 0;
		if (r < 0)
			err_errno(e, -r, "read layer %.12s", im->layers[i]);
	}
	im->layer_count = m->layers.count;
	im->platform = b->platform;
	im->created_ms = clock_wall_ms();
	set_history(im, m);
	return r;
}

int build_image_write(struct build *b, struct cove_build_result *ret, struct err *e)
{
	struct image *im = calloc(1, sizeof(*im));
	struct image *written = calloc(1, sizeof(*written));
	int lock = -1;
	int r = im && written ? fill(b, im, e) : err_errno(e, ENOMEM, "write the image");

	if (r == 0)
		r = layers_lock(&b->cove->state, &lock, e);
	if (r == 0)
		r = b->leaves_nothing ? image_write(&b->cove->state, im, e)
				      : image_write_keeping(&b->cove->state, im, e);
	fd_close(&lock);
	if (r == 0)
		r = image_find(&b->cove->state, im->name, written, e);
	if (r == 0) {
		str_copy(ret->name, sizeof(ret->name), written->name);
		str_copy(ret->id, sizeof(ret->id), written->id);
		ret->bytes = written->bytes;
		ret->steps = b->steps;
		ret->cached = b->cached;
	}
	if (written)
		image_done(written);
	free(written);
	free(im);
	return r;
}
