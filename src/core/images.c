/* Images, for callers of the library; store/image.h does the work. */
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/core.h"
#include "core/view.h"
#include "store/image.h"
#include "store/layer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cove_images(struct cove *cove, struct cove_image_info **ret, struct cove_error *err)
{
	struct cove_image_info *infos = NULL;
	struct image *images = NULL;
	size_t count = 0;
	struct err e = {0};
	int r = image_list(&cove->state, &images, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list images");
	}
	for (size_t i = 0; infos && i < count; i++) {
		str_copy(infos[i].name, sizeof(infos[i].name), images[i].name);
		str_copy(infos[i].id, sizeof(infos[i].id), images[i].id);
		str_copy(infos[i].user, sizeof(infos[i].user),
			 images[i].config.user ? images[i].config.user : "root");
		infos[i].layers = images[i].layer_count;
		infos[i].created_ms = images[i].created_ms;
		infos[i].bytes = images[i].bytes;
	}
	image_list_free(images, count);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
}

int cove_image_import(struct cove *cove, const char *name, const char *user, int tar_fd,
		      struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = image_import(&cove->state, &cove->ids, name, user, tar_fd, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_image_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = image_remove(&cove->state, &cove->ids, name, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_image_tag(struct cove *cove, const char *name, const char *tag, struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = image_tag(&cove->state, &cove->ids, name, tag, &e);
	return core_return(cove, NULL, r, &e, err);
}

/* ---- inspect ---- */

static void put_items(struct json *j, const char *key, const struct image_items *items)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < items->count; i++)
		json_str(j, items->at[i]);
	json_array_end(j);
}

static void put_config(struct json *j, const struct image_config *c)
{
	json_key(j, "config");
	json_object_begin(j);
	json_kv_str(j, "user", c->user ? c->user : "root");
	json_kv_str(j, "cwd", c->cwd);
	json_kv_str(j, "stop_signal", c->stop_signal);
	put_items(j, "env", &c->env);
	put_items(j, "entrypoint", &c->entrypoint);
	put_items(j, "cmd", &c->cmd);
	put_items(j, "shell", &c->shell);
	put_items(j, "labels", &c->labels);
	put_items(j, "ports", &c->ports);
	put_items(j, "volumes", &c->volumes);
	json_object_end(j);
}

static void put_layers(struct cove *cove, struct json *j, const struct image *im)
{
	json_key(j, "layers");
	json_array_begin(j);
	for (size_t i = 0; i < im->layer_count; i++) {
		struct layer_meta meta;
		bool is_there = layer_read(&cove->state, im->layers[i], &meta) == 0;

		json_object_begin(j);
		json_kv_str(j, "id", im->layers[i]);
		json_kv_bool(j, "is_there", is_there);
		view_known_u64(j, "bytes", is_there ? meta.bytes : 0);
		view_known_u64(j, "files", is_there ? meta.files : 0);
		view_known_u64(j, "created_ms", is_there ? meta.created_ms : 0);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_history(struct json *j, const struct image *im)
{
	json_key(j, "history");
	json_array_begin(j);
	for (size_t i = 0; i < im->history_count; i++) {
		json_object_begin(j);
		view_known_u64(j, "created_ms", im->history[i].created_ms);
		json_kv_bool(j, "empty", im->history[i].empty);
		json_kv_str(j, "by", im->history[i].by);
		json_object_end(j);
	}
	json_array_end(j);
}

static int format_image(struct cove *cove, const struct image *im, char **ret)
{
	struct buf out;
	struct json j;

	buf_init(&out, 8u << 20);
	json_init(&j, &out);
	json_object_begin(&j);
	json_kv_str(&j, "name", im->name);
	json_kv_str(&j, "id", im->id[0] ? im->id : NULL);
	json_kv_str(&j, "digest", im->digest);
	json_kv_str(&j, "config_digest", im->config_digest);
	json_kv_str(&j, "platform", im->platform);
	json_kv_str(&j, "source", im->source);
	json_kv_bool(&j, "is_host", im->is_host);
	view_known_u64(&j, "created_ms", im->created_ms);
	view_known_u64(&j, "bytes", im->bytes);
	put_layers(cove, &j, im);
	put_config(&j, &im->config);
	put_history(&j, im);
	json_object_end(&j);
	*ret = j.error ? NULL : strdup(buf_cstr(&out));
	buf_done(&out);
	return *ret ? 0 : j.error ? j.error : -ENOMEM;
}

int cove_image_inspect(struct cove *cove, const char *name, char **ret_json, struct cove_error *err)
{
	struct image im;
	struct err e = {0};
	int r = image_find(&cove->state, name, &im, &e);

	if (r == 0) {
		r = format_image(cove, &im, ret_json);
		if (r < 0)
			err_errno(&e, -r, "describe image '%.100s'", name);
	}
	image_done(&im);
	return core_return(cove, NULL, r, &e, err);
}

static void fill_layer(struct cove *cove, struct cove_image_step *s, const char *id)
{
	struct layer_meta meta;

	str_copy(s->layer, sizeof(s->layer), id);
	if (layer_read(&cove->state, id, &meta) < 0)
		return;
	s->bytes = meta.bytes;
	if (!s->created_ms)
		s->created_ms = meta.created_ms;
}

/* Steps that made a layer belong to the layers in their order; layers that no step tells of stand
 * alone. Oldest first; returns the count. */
static size_t fill_steps(struct cove *cove, const struct image *im, struct cove_image_step *ret)
{
	size_t layer = 0, count = 0;

	for (size_t i = 0; i < im->history_count; i++) {
		struct cove_image_step *s = &ret[count++];

		str_copy(s->by, sizeof(s->by), im->history[i].by);
		s->created_ms = im->history[i].created_ms;
		if (!im->history[i].empty && layer < im->layer_count)
			fill_layer(cove, s, im->layers[layer++]);
	}
	while (layer < im->layer_count)
		fill_layer(cove, &ret[count++], im->layers[layer++]);
	return count;
}

int cove_image_history(struct cove *cove, const char *name, struct cove_image_step **ret,
		       struct cove_error *err)
{
	struct cove_image_step *steps = NULL;
	struct image im;
	struct err e = {0};
	int r = image_find(&cove->state, name, &im, &e);
	size_t count = 0;

	if (r == 0)
		steps = calloc(im.history_count + im.layer_count + 1, sizeof(*steps));
	if (r == 0 && !steps)
		r = err_errno(&e, ENOMEM, "list the steps of an image");
	if (r == 0)
		count = fill_steps(cove, &im, steps);
	for (size_t i = 0; i < count / 2; i++) {
		struct cove_image_step newer = steps[count - 1 - i];

		steps[count - 1 - i] = steps[i];
		steps[i] = newer;
	}
	image_done(&im);
	if (r == 0) {
		*ret = steps;
		r = (int)count;
	}
	return core_return(cove, NULL, r, &e, err);
}

/* ---- what it runs ---- */

static void add_items(const char **argv, size_t *count, const struct image_items *items)
{
	for (size_t i = 0; i < items->count; i++)
		argv[(*count)++] = items->at[i];
}

/* The pointers, and behind them the texts. */
static const char **pack_argv(const char *const *argv, size_t count)
{
	size_t bytes = (count + 1) * sizeof(*argv);
	const char **ret;
	char *at;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(argv[i]) + 1;
	ret = malloc(bytes);
	if (!ret)
		return NULL;
	at = (char *)(ret + count + 1);
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(argv[i]) + 1;

		memcpy(at, argv[i], n);
		ret[i] = at;
		at += n;
	}
	ret[count] = NULL;
	return ret;
}

int cove_image_argv(struct cove *cove, const char *image, const char *entrypoint,
		    const char *const *args, const char ***ret, struct cove_error *err)
{
	autofree const char **argv = NULL;
	size_t count = 0, given = 0;
	struct image im;
	struct err e = {0};
	int r = image_find(&cove->state, image ? image : IMAGE_DEFAULT, &im, &e);

	while (args && args[given])
		given++;
	argv = r == 0 ? calloc(given + 2 * IMAGE_ITEMS_MAX + 1, sizeof(*argv)) : NULL;
	if (r == 0 && !argv)
		r = err_errno(&e, ENOMEM, "make a command");
	if (r == 0) {
		if (!entrypoint)
			add_items(argv, &count, &im.config.entrypoint);
		else if (*entrypoint)
			argv[count++] = entrypoint;
		for (size_t i = 0; i < given; i++)
			argv[count++] = args[i];
		if (given == 0 && !entrypoint)
			add_items(argv, &count, &im.config.cmd);
		*ret = pack_argv(argv, count);
		r = *ret ? 0 : err_errno(&e, ENOMEM, "make a command");
	}
	image_done(&im);
	return core_return(cove, NULL, r, &e, err);
}
