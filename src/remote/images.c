/* A server's images, by name. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cove_image_inspect(struct cove *cove, const char *name, char **ret_json, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "GET", "/v1/images/{}", name);
	return remote_return(remote_call_text(&q, ret_json, &e), &e, err);
}

int cove_image_tag(struct cove *cove, const char *name, const char *tag, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", "/v1/images/{}/tags", name);
	q.repeats = true;
	json_kv_str(remote_object(&q), "tag", tag);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_image_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/images/{}", name);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- what it runs ---- */

static size_t add_items(const char **argv, size_t at, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list) && i < IMAGE_ITEMS_MAX; i++)
		if (json_is_string(json_array_get(list, i)))
			argv[at++] = json_string_value(json_array_get(list, i));
	return at;
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
	at = ret ? (char *)(ret + count + 1) : NULL;
	for (size_t i = 0; i < count && ret; i++) {
		ret[i] = at;
		at = mempcpy(at, argv[i], strlen(argv[i]) + 1);
	}
	if (ret)
		ret[count] = NULL;
	return ret;
}

/* An image that is not known here is the error of the box that would be made of it. */
int cove_image_argv(struct cove *cove, const char *image, const char *entrypoint,
		    const char *const *args, const char ***ret, struct cove_error *err)
{
	autofree const char **argv = NULL;
	size_t count = 0, given = 0;
	struct remote_request q;
	struct err e = {0};
	const json_t *config;
	json_t *o = NULL;
	int r;

	while (args && args[given])
		given++;
	remote_begin(&q, cove, "GET", "/v1/images/{}", image ? image : "base");
	r = remote_call(&q, &o, &e);
	if (r < 0 && e.kind != ERR_NOT_FOUND)
		return remote_return(r, &e, err);
	config = json_object_get(o, "config");
	argv = calloc(given + 2 * IMAGE_ITEMS_MAX + 1, sizeof(*argv));
	if (argv) {
		if (!entrypoint)
			count = add_items(argv, count, json_object_get(config, "entrypoint"));
		else if (*entrypoint)
			argv[count++] = entrypoint;
		for (size_t i = 0; i < given; i++)
			argv[count++] = args[i];
		if (given == 0 && !entrypoint)
			count = add_items(argv, count, json_object_get(config, "cmd"));
	}
	*ret = argv ? pack_argv(argv, count) : NULL;
	json_decref(o);
	return remote_return(*ret ? 0 : err_errno(&e, ENOMEM, "make a command"), &e, err);
}
