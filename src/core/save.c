/* A box's state as an image: one more layer, named after its content; see commit.h. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/commit.h"
#include "store/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How programs are run in it: as its image says, or where that is gone as the box's record does. */
static void take_config(const struct spec *spec, const struct image *from, struct image *im)
{
	if (from->text) {
		im->config = from->config;
		im->platform = from->platform;
		im->history_count = from->history_count;
		memcpy(im->history, from->history, sizeof(im->history));
		return;
	}
	im->config.user = spec->base_user;
	im->config.cwd = spec->base_cwd;
	im->config.env.count = spec->base_env_count;
	memcpy(im->config.env.at, spec->base_env, spec->base_env_count * sizeof(char *));
}

static int fill_layers(struct cove *cove, const struct commit *c, struct image *im, struct err *e)
{
	const struct spec *spec = &c->record.spec;
	size_t n = 0;
	int r;

	if (spec->layer_count + 1 > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "an image has at most %u layers",
			       IMAGE_LAYERS_MAX);
	for (size_t i = 0; i < spec->layer_count; i++)
		im->layers[n++] = spec->layers[i];
	im->layers[n++] = c->root.id;
	im->layer_count = n;
	r = layers_check(&cove->state, im->layers, n, e);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct layer_meta meta;

		if (layer_read(&cove->state, im->layers[i], &meta) == 0)
			im->bytes += meta.bytes;
	}
	return r;
}

static int publish(struct cove *cove, struct commit *c, const char *name, struct err *e)
{
	autofree struct image *im = calloc(2, sizeof(*im));
	struct image *from = im + 1;
	autoclose int lock_fd = -1;
	char by[BOX_NAME_MAX + 32];
	int r = im ? layers_lock(&cove->state, &lock_fd, e) : err_errno(e, ENOMEM, "save an image");

	if (r < 0)
		return r;
	(void)image_find(&cove->state, c->record.spec.image, from, NULL);
	r = commit_place(c, e);
	if (r == 0) {
		str_copy(im->name, sizeof(im->name), name);
		im->created_ms = clock_wall_ms();
		take_config(&c->record.spec, from, im);
		snprintf(by, sizeof(by), "cove image save %s", c->box);
		if (im->history_count < IMAGE_ITEMS_MAX)
			im->history[im->history_count++] =
				(struct image_step){.created_ms = im->created_ms, .by = by};
		r = fill_layers(cove, c, im, e);
	}
	if (r == 0)
		r = image_write(&cove->state, im, e);
	if (r < 0)
		layers_trash_unused(&cove->state, (const char *[]){c->root.id}, 1);
	image_done(from);
	return r;
}

int cove_image_save(struct cove *cove, const char *box, const char *image, struct cove_error *err)
{
	char name[IMAGE_NAME_MAX + 1];
	struct commit c = {0};
	struct err e = {0};
	int r = image_name_clean(image, name, &e);

	core_sweep_seldom(cove);
	if (r == 0)
		r = commit_begin(&c, cove, box, &(struct commit_options){.no_workspace = true}, &e);
	if (r == 0 && strcmp(c.record.spec.image, IMAGE_HOST) == 0)
		r = err_set(&e, ERR_UNSUPPORTED, ENOTSUP,
			    "box '%s' stands on this machine's own programs (--image host), which "
			    "are no image: use --image base",
			    box);
	if (r == 0)
		r = commit_name_by_content(&c, &e);
	if (r == 0)
		r = publish(cove, &c, name, &e);
	commit_done(&c);
	if (cove->has_ids)
		layers_sweep(&cove->state, &cove->ids);
	return core_return(cove, box, r, &e, err);
}
