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

int cove_image_history(struct cove *cove, const char *name, struct cove_image_step **ret,
		       struct cove_error *err)
{
	static const struct wire_named_field fields[] = {FIELD_ALWAYS(cove_image_step, created_ms),
							 FIELD_ALWAYS(cove_image_step, bytes),
							 FIELD_ALWAYS(cove_image_step, layer),
							 FIELD_ALWAYS(cove_image_step, by),
							 {0}};

	return remote_rows(cove, "/v1/images/{}/history", "steps", name, fields, sizeof(**ret),
			   (void **)ret, err);
}

/* ---- what takes long: progress, and one result ---- */

struct progress {
	bool (*on_progress)(void *arg, const json_t *o);
	void *arg;
	json_t *result; /* owned */
	bool given_up;
};

static bool on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct progress *p = arg;
	json_t *o = json_loadb(data, len, 0, NULL);

	if (strcmp(name, "result") == 0 && json_is_object(o)) {
		json_decref(p->result);
		p->result = o;
		return false;
	}
	p->given_up = strcmp(name, "progress") == 0 && !p->on_progress(p->arg, o);
	json_decref(o);
	return !p->given_up;
}

/* The server ends what it does when we go. */
static int follow(struct remote_request *q, struct progress *p, struct err *e)
{
	int r = remote_call_events(q, on_event, p, e);

	if (r == 0 && !p->result)
		return err_set(e, ERR_INTERRUPTED, ECANCELED,
			       p->given_up ? "it was given up"
					   : "the server did not say how it ended");
	return r;
}

static bool on_pull(void *arg, const json_t *o)
{
	const struct cove_pull *how = arg;
	const struct cove_pull_progress p = {.size_of_this = sizeof(p),
					     .is_unpacking = remote_is(o, "unpacking"),
					     .layer = remote_text(o, "layer"),
					     .have = remote_number(o, "have"),
					     .size = remote_number(o, "size"),
					     .is_done = remote_is(o, "done"),
					     .was_there = remote_is(o, "there"),
					     .layers = remote_number(o, "layers"),
					     .layers_done = remote_number(o, "layers_done"),
					     .all_have = remote_number(o, "all_have"),
					     .all_size = remote_number(o, "all_size"),
					     .fetched = remote_number(o, "fetched")};

	return !how->on_progress || how->on_progress(how->arg, &p);
}

int cove_image_pull(struct cove *cove, const char *ref, const struct cove_pull *given,
		    struct cove_pulled *ret, struct cove_error *err)
{
	struct cove_pull how;
	struct progress p = {.on_progress = on_pull, .arg = &how};
	struct remote_request q;
	struct err e = {0};
	const char *name, *digest;
	int r = core_copy_sized(&how, sizeof(how), given, &e);

	if (r == 0 && how.ca)
		r = remote_absent(&e, "--ca");
	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/images/pull");
	q.cancel_fd = how.cancel_fd;
	json_kv_str(remote_object(&q), "ref", ref);
	remote_put_str(&q.json, "name", how.name);
	remote_put_str(&q.json, "platform", how.platform);
	remote_put_bool(&q.json, "insecure", how.insecure);
	remote_put_amount(&q.json, "stall", how.stall_ms);
	r = follow(&q, &p, &e);
	name = remote_text(p.result, "name");
	digest = remote_text(p.result, "digest");
	str_copy(ret->image, sizeof(ret->image), name ? name : "");
	str_copy(ret->digest, sizeof(ret->digest), digest ? digest : "");
	ret->bytes = remote_number(p.result, "bytes");
	ret->fetched = remote_number(p.result, "fetched");
	ret->layers = remote_number(p.result, "layers");
	ret->layers_there = remote_number(p.result, "layers_there");
	json_decref(p.result);
	return remote_return(r, &e, err);
}
