/* What a server says of boxes and of what runs in them: lists, numbers, everything. */
#include "base/fd.h"
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pages {
	char *rows; /* owned */
	size_t count;
	char after[256];
};

static int take_rows(const json_t *o, const struct remote_list *list, void **ret, struct err *e)
{
	int count = remote_take_rows(o, list->key, list->fields, list->size, ret, e);

	for (int i = 0; i < count && list->on_row; i++)
		list->on_row(json_array_get(json_object_get(o, list->key), (size_t)i),
			     (char *)*ret + (size_t)i * list->size);
	return count;
}

/* One page. 1: there is another. */
static int take_page(struct cove *cove, const struct remote_list *list, struct pages *all,
		     struct err *e)
{
	void *page = NULL;
	char *grown = NULL;
	const char *next;
	struct remote_request q;
	json_t *o = NULL;
	int count = 0, r;

	remote_begin(&q, cove, "GET", list->path, list->name);
	remote_query(&q, list->query, list->value);
	remote_query(&q, "after", all->after[0] ? all->after : NULL);
	r = remote_call(&q, &o, e);
	if (r == 0)
		r = count = take_rows(o, list, &page, e);
	if (r >= 0 && all->count + (size_t)count > REMOTE_ROWS_MAX)
		r = err_set(e, ERR_LIMIT, E2BIG, "the server's list is too long");
	if (r >= 0)
		grown = reallocarray(all->rows, all->count + (size_t)count + 1, list->size);
	if (r >= 0 && !grown)
		r = err_errno(e, ENOMEM, "keep the server's list");
	if (r >= 0) {
		all->rows = grown;
		memcpy(grown + all->count * list->size, page, (size_t)count * list->size);
		all->count += (size_t)count;
		next = remote_text(o, "next");
		/* A server that always says the same would keep us for ever. */
		r = next && count > 0 && strcmp(next, all->after) != 0 &&
		    str_copy(all->after, sizeof(all->after), next);
	}
	free(page);
	json_decref(o);
	return r;
}

int remote_list_all(struct cove *cove, const struct remote_list *list, void **ret,
		    struct cove_error *err)
{
	struct pages all = {0};
	struct err e = {0};
	int r;

	do
		r = take_page(cove, list, &all, &e);
	while (r > 0);
	if (r < 0)
		free(all.rows);
	else
		*ret = all.rows;
	return remote_return(r < 0 ? r : (int)all.count, &e, err);
}

int remote_rows(struct cove *cove, const char *path, const char *key, const char *name,
		const struct wire_named_field *fields, size_t size, void **ret,
		struct cove_error *err)
{
	const struct remote_list list = {
		.path = path, .key = key, .name = name, .fields = fields, .size = size};

	return remote_list_all(cove, &list, ret, err);
}

int cove_list(struct cove *cove, struct cove_box_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/boxes", "boxes", NULL, view_box_fields, sizeof(**ret),
			   (void **)ret, err);
}

int cove_inspect(struct cove *cove, const char *name, char **ret_json, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "GET", "/v1/boxes/{}", name);
	return remote_return(remote_call_text(&q, ret_json, &e), &e, err);
}

int cove_stats(struct cove *cove, const char *name, struct cove_stats *ret, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "GET", "/v1/boxes/{}/stats", name);
	r = remote_call(&q, &o, &e);
	if (r == 0) {
		*ret = (struct cove_stats){0};
		remote_take(o, view_stats_fields, ret);
	}
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_stats_of(struct cove *cove, const char *const *names, size_t count, struct cove_stats *ret,
		  struct cove_error *errs, struct cove_error *err)
{
	for (size_t i = 0; i < count; i++)
		(void)cove_stats(cove, names[i], &ret[i], &errs[i]);
	return remote_return(0, NULL, err);
}

/* ---- what runs in them ---- */

int cove_execs(struct cove *cove, const char *box, struct cove_exec_info **ret,
	       struct cove_error *err)
{
	return remote_rows(cove, "/v1/boxes/{}/execs", "execs", box, view_exec_fields,
			   sizeof(**ret), (void **)ret, err);
}

int cove_shells(struct cove_box *box, struct cove_shell_info **ret, struct cove_error *err)
{
	return remote_rows(box->cove, "/v1/boxes/{}/shells", "shells", box->name, view_shell_fields,
			   sizeof(**ret), (void **)ret, err);
}

int cove_shell_remove(struct cove_box *box, const char *name, bool force, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, box->cove, "DELETE", "/v1/boxes/{}/shells/{}", box->name, name);
	remote_query_bool(&q, "force", force);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

struct history {
	cove_on_line *on_line;
	void *arg;
};

static bool on_history(void *arg, const char *name, const char *data, size_t len)
{
	struct history *h = arg;

	return strcmp(name, "event") != 0 || h->on_line(h->arg, data);
}

int cove_events(struct cove *cove, const char *box, bool follow, cove_on_line *on_line, void *arg,
		struct cove_error *err)
{
	struct history h = {on_line, arg};
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "GET", "/v1/boxes/{}/events", box);
	remote_query_bool(&q, "follow", follow);
	return remote_return(remote_call_events(&q, on_history, &h, &e), &e, err);
}

/* ---- what they stand on, as it is listed ---- */

int cove_images(struct cove *cove, struct cove_image_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/images", "images", NULL, view_image_fields, sizeof(**ret),
			   (void **)ret, err);
}

int cove_workspaces(struct cove *cove, struct cove_workspace_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/workspaces", "workspaces", NULL, view_workspace_fields,
			   sizeof(**ret), (void **)ret, err);
}

int cove_workspace_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/workspaces/{}", name);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- snapshots ---- */

int cove_snapshots(struct cove *cove, const char *box, struct cove_snapshot_info **ret,
		   struct cove_error *err)
{
	const struct remote_list list = {.path = "/v1/snapshots",
					 .key = "snapshots",
					 .query = "box",
					 .value = box,
					 .fields = view_snapshot_fields,
					 .size = sizeof(**ret)};

	return remote_list_all(cove, &list, (void **)ret, err);
}

int cove_snapshot_inspect(struct cove *cove, const char *name, char **ret_json,
			  struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "GET", "/v1/snapshots/{}", name);
	return remote_return(remote_call_text(&q, ret_json, &e), &e, err);
}
