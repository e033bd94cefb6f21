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

/* Texts of steps; they stay until the image is written. */
struct save_texts {
	char from[IMAGE_NAME_MAX + 8], by[BOX_NAME_MAX + 32];
};

/* How programs are run in it: as its image says, or where that is gone as the box's record does. */
static void take_config(const struct spec *spec, const struct image *from, struct image *im)
{
	if (from->text) {
		im->config = from->config;
		im->platform = from->platform;
		return;
	}
	im->config.user = spec->base_user;
	im->config.cwd = spec->base_cwd;
	im->config.env.count = spec->base_env_count;
	memcpy(im->config.env.at, spec->base_env, spec->base_env_count * sizeof(char *));
}

static bool stands_on(const struct spec *spec, const struct image *from)
{
	bool same = from->text && from->layer_count <= spec->layer_count;

	for (size_t i = 0; same && i < from->layer_count; i++)
		same = strcmp(spec->layers[i], from->layers[i]) == 0;
	return same;
}

static void add_steps(struct image *im, size_t count, const char *by, uint64_t created_ms)
{
	for (size_t i = 0; i < count && im->history_count < IMAGE_ITEMS_MAX; i++)
		im->history[im->history_count++] =
			(struct image_step){.created_ms = created_ms, .by = by};
}

/* As many steps as layers, in their order: readers count them. An image may say less, and what
 * snapshots kept of the box are layers above the image's. One that was replaced meanwhile tells
 * nothing of this box. */
static void take_history(const struct spec *spec, const struct image *from,
			 const struct save_texts *texts, struct image *im)
{
	bool same = stands_on(spec, from);
	size_t below = same ? from->layer_count : 0, said = 0;

	for (size_t i = 0; same && i < from->history_count; i++)
		said += !from->history[i].empty;
	add_steps(im, below - (said < below ? said : below), texts->from, from->created_ms);
	for (size_t i = 0; same && i < from->history_count && im->history_count < IMAGE_ITEMS_MAX;
	     i++)
		im->history[im->history_count++] = from->history[i];
	add_steps(im, spec->layer_count - below + 1, texts->by, im->created_ms);
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
	struct save_texts texts;
	int r = im ? layers_lock(&cove->state, &lock_fd, e) : err_errno(e, ENOMEM, "save an image");

	if (r < 0)
		return r;
	(void)image_find(&cove->state, c->record.spec.image, from, NULL);
	r = commit_place(c, e);
	if (r == 0) {
		str_copy(im->name, sizeof(im->name), name);
		im->created_ms = clock_wall_ms();
		take_config(&c->record.spec, from, im);
		snprintf(texts.from, sizeof(texts.from), "FROM %s", from->name);
		snprintf(texts.by, sizeof(texts.by), "cove image save %s", c->box);
		take_history(&c->record.spec, from, &texts, im);
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
