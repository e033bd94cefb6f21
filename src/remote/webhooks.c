/* A server's webhooks. */
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cove_webhook_create(struct cove *cove, const struct cove_webhook_options *given,
			struct cove_webhook_made *ret, struct cove_error *err)
{
	struct cove_webhook_options o;
	struct remote_request q;
	json_t *answer = NULL;
	struct err e = {0};
	struct json *j;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/webhooks");
	j = remote_object(&q);
	json_kv_str(j, "url", o.url ? o.url : "");
	remote_put_str(j, "box", o.box);
	remote_put_str(j, "label", o.label);
	if (o.types) {
		json_key(j, "types");
		json_array_begin(j);
		for (const char *at = o.types; *at;
		     at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
			json_strn(j, at, strcspn(at, ","));
		json_array_end(j);
	}
	r = remote_call(&q, &answer, &e);
	if (r == 0) {
		const char *id = remote_text(answer, "id"), *secret = remote_text(answer, "secret");

		str_copy(ret->id, sizeof(ret->id), id ? id : "");
		str_copy(ret->secret, sizeof(ret->secret), secret ? secret : "");
	}
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_webhooks(struct cove *cove, const char *owner, struct cove_webhook_info **ret,
		  struct cove_error *err)
{
	return remote_rows(cove, "/v1/webhooks", "webhooks", NULL, view_webhook_fields,
			   sizeof(**ret), (void **)ret, err);
}

int cove_webhook_remove(struct cove *cove, const char *id, const char *owner,
			struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/webhooks/{}", id);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_webhook_enable(struct cove *cove, const char *id, const char *owner,
			struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", "/v1/webhooks/{}/enable", id);
	q.repeats = true;
	(void)remote_object(&q);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_webhook_log(struct cove *cove, const char *id, const char *owner, char **ret,
		     struct cove_error *err)
{
	struct remote_request q;
	json_t *answer = NULL, *row;
	struct err e = {0};
	struct buf b;
	size_t i;
	int r;

	remote_begin(&q, cove, "GET", "/v1/webhooks/{}", id);
	r = remote_call(&q, &answer, &e);
	buf_init(&b, REMOTE_ANSWER_MAX);
	json_array_foreach(json_object_get(answer, "deliveries"), i, row)
	{
		char *line = json_dumps(row, JSON_COMPACT);

		if (r == 0)
			r = line ? buf_printf(&b, "%s\n", line) : -ENOMEM;
		free(line);
	}
	if (r == 0) {
		*ret = strndup((const char *)buf_data(&b), buf_len(&b));
		r = *ret ? 0 : err_errno(&e, ENOMEM, "read the deliveries");
	}
	buf_done(&b);
	json_decref(answer);
	return remote_return(r, &e, err);
}
