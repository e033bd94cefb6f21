/* A server's snapshots, and what is made of them. */
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cove_snapshot_create(struct cove *cove, const char *box,
			 const struct cove_snapshot_options *given, struct cove_snapshot_info *ret,
			 struct cove_error *err)
{
	struct cove_snapshot_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/boxes/{}/snapshots", box);
	remote_put_str(remote_object(&q), "name", o.name);
	remote_put_amount(&q.json, "keep", o.keep);
	remote_put_amount(&q.json, "max_age", o.max_age_ms);
	remote_put_bool(&q.json, "no_freeze", o.no_freeze);
	r = remote_call(&q, &answer, &e);
	*ret = (struct cove_snapshot_info){0};
	remote_take(answer, view_snapshot_fields, ret);
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_snapshot_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/snapshots/{}", name);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_snapshot_tag(struct cove *cove, const char *name, const char *tag, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", "/v1/snapshots/{}/tags", name);
	q.repeats = true;
	json_kv_str(remote_object(&q), "tag", tag);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_snapshot_rule(struct cove *cove, const char *of, const struct cove_snapshot_rule *set,
		       struct cove_snapshot_rule *ret, struct cove_error *err)
{
	bool of_image = str_starts(of, "image:");
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, set ? "PUT" : "GET",
		     of_image ? "/v1/images/{}/snapshot-rule" : "/v1/boxes/{}/snapshot-rule",
		     of_image ? of + strlen("image:") : of);
	q.repeats = true;
	if (set) {
		json_kv_u64(remote_object(&q), "keep", set->keep);
		json_kv_u64(&q.json, "max_age", set->max_age_ms);
	}
	r = remote_call(&q, &o, &e);
	if (r == 0 && ret)
		*ret = (struct cove_snapshot_rule){.keep = remote_number(o, "keep"),
						   .max_age_ms = remote_number(o, "max_age_ms"),
						   .of_image = remote_is(o, "of_image")};
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_snapshot_prune(struct cove *cove, const char *box, uint64_t *ret_removed,
			struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "POST", "/v1/snapshots/prune");
	q.repeats = true;
	remote_put_str(remote_object(&q), "box", box);
	r = remote_call(&q, &o, &e);
	if (r == 0 && ret_removed)
		*ret_removed = remote_number(o, "removed");
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_rollback(struct cove *cove, const char *box, const char *snapshot,
		  const struct cove_rollback_options *given, struct cove_rollback *ret,
		  struct cove_error *err)
{
	struct cove_rollback_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const char *hosts;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/boxes/{}/rollback", box);
	json_kv_str(remote_object(&q), "snapshot", snapshot);
	remote_put_bool(&q.json, "keep_workspace", o.keep_workspace);
	remote_put_bool(&q.json, "foreign", o.foreign);
	r = remote_call(&q, &answer, &e);
	hosts = remote_text(answer, "hosts");
	ret->sent = remote_number(answer, "sent");
	ret->started = remote_is(answer, "started");
	ret->sent_unknown = remote_is(answer, "sent_unknown");
	ret->host_dirs = remote_number(answer, "host_dirs");
	str_copy(ret->hosts, sizeof(ret->hosts), hosts ? hosts : "");
	json_decref(answer);
	return remote_return(r, &e, err);
}

static int take_names(const json_t *o, char (**ret)[64], struct err *e)
{
	const json_t *list = json_object_get(o, "boxes");
	size_t count = json_array_size(list);
	char(*names)[64] = calloc(count + 1, sizeof(*names));

	if (!names)
		return err_errno(e, ENOMEM, "keep the names of the boxes");
	for (size_t i = 0; i < count; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		str_copy(names[i], sizeof(names[i]), name ? name : "?");
	}
	*ret = names;
	return (int)count;
}

int cove_fork(struct cove *cove, const char *source, const struct cove_fork_options *given,
	      char (**ret)[64], struct cove_error *err)
{
	struct cove_fork_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	bool is_snapshot = str_starts(source, "snapshot:"), is_box = str_starts(source, "box:");
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	/* A name alone is a box's before it is a snapshot's. */
	if (!is_snapshot && !is_box) {
		remote_begin(&q, cove, "GET", "/v1/boxes/{}", source);
		r = remote_call(&q, NULL, &e);
		is_snapshot = r == -ENOENT;
		if (r < 0 && !is_snapshot)
			return remote_return(r, &e, err);
		e = (struct err){0};
	}
	remote_begin(&q, cove, "POST", "/v1/forks");
	q.cancel_fd = o.cancel_fd;
	json_kv_str(remote_object(&q), is_snapshot ? "snapshot" : "box",
		    str_starts(source, "snapshot:") ? source + strlen("snapshot:")
		    : is_box			    ? source + strlen("box:")
						    : source);
	remote_put_str(&q.json, "name", o.name);
	remote_put_str(&q.json, "prefix", o.prefix);
	remote_put_amount(&q.json, "count", o.count);
	remote_put_bool(&q.json, "no_freeze", o.no_freeze);
	r = remote_call(&q, &answer, &e);
	if (r == 0 && o.ret_copy_left_out)
		*o.ret_copy_left_out = remote_is(answer, "copy_left_out");
	if (r == 0)
		r = take_names(answer, ret, &e);
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_image_save(struct cove *cove, const char *box, const char *image, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", "/v1/boxes/{}/image", box);
	json_kv_str(remote_object(&q), "image", image);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}
