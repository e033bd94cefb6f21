/* Webhooks, as a caller sees them. */
#include "base/str.h"
#include "core/core.h"
#include "store/webhook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int fill(struct webhook *w, const struct cove_webhook_options *o, struct err *e)
{
	const struct {
		const char *what, *text;
		char *to;
		size_t size;
	} texts[] = {{"a URL", o->url, w->url, sizeof(w->url)},
		     {"types", o->types, w->types, sizeof(w->types)},
		     {"a box", o->box, w->box, sizeof(w->box)},
		     {"a label", o->label, w->label, sizeof(w->label)},
		     {"an owner", o->owner, w->owner, sizeof(w->owner)}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].text && !str_copy(texts[i].to, texts[i].size, texts[i].text))
			return err_set(e, ERR_INVALID, ENAMETOOLONG, "%s of at most %zu bytes",
				       texts[i].what, texts[i].size - 1);
	if (w->owner[0] && !str_is_key_id(w->owner))
		return err_set(e, ERR_INVALID, EINVAL, "'%s' is no key's id", w->owner);
	return 0;
}

int cove_webhook_create(struct cove *cove, const struct cove_webhook_options *options,
			struct cove_webhook_made *ret, struct cove_error *err)
{
	struct cove_webhook_options o;
	struct webhook w = {0};
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0)
		r = fill(&w, &o, &e);
	if (r == 0)
		r = webhook_make(&cove->state, &w, &e);
	if (r == 0) {
		str_copy(ret->id, sizeof(ret->id), w.id);
		str_copy(ret->secret, sizeof(ret->secret), w.secret);
	}
	explicit_bzero(&w, sizeof(w));
	return core_return(cove, NULL, r, &e, err);
}

static int fill_info(struct cove *cove, struct cove_webhook_info *i, const struct webhook *w,
		     struct err *e)
{
	struct webhook_state s;
	int r = webhook_state_read(&cove->state, w, &s);

	if (r < 0)
		return err_errno(e, -r, "read webhook '%s'", w->id);
	*i = (struct cove_webhook_info){.created_ms = w->created_ms,
					.cursor = s.cursor,
					.delivered = s.delivered,
					.failures = s.failures,
					.next_ms = s.next_ms,
					.disabled_ms = s.disabled_ms};
	str_copy(i->id, sizeof(i->id), w->id);
	str_copy(i->url, sizeof(i->url), w->url);
	str_copy(i->types, sizeof(i->types), w->types);
	str_copy(i->box, sizeof(i->box), w->box);
	str_copy(i->label, sizeof(i->label), w->label);
	str_copy(i->owner, sizeof(i->owner), w->owner);
	str_copy(i->reason, sizeof(i->reason), s.reason);
	return 0;
}

int cove_webhooks(struct cove *cove, const char *owner, struct cove_webhook_info **ret,
		  struct cove_error *err)
{
	struct cove_webhook_info *infos = NULL;
	struct webhook *list = NULL;
	size_t count = 0;
	struct err e = {0};
	int n = 0, r = webhook_list(&cove->state, &list, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? 0 : err_errno(&e, ENOMEM, "list the webhooks");
	}
	for (size_t i = 0; i < count && r == 0; i++)
		if (!owner || strcmp(owner, list[i].owner) == 0)
			r = fill_info(cove, &infos[n++], &list[i], &e);
	if (list)
		explicit_bzero(list, count * sizeof(*list));
	free(list);
	if (r == 0)
		*ret = infos;
	else
		free(infos);
	return core_return(cove, NULL, r < 0 ? r : n, &e, err);
}

int cove_webhook_remove(struct cove *cove, const char *id, const char *owner,
			struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, webhook_remove(&cove->state, id, owner, &e), &e, err);
}

int cove_webhook_enable(struct cove *cove, const char *id, const char *owner,
			struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, webhook_enable(&cove->state, id, owner, &e), &e, err);
}

int cove_webhook_log(struct cove *cove, const char *id, const char *owner, char **ret,
		     struct cove_error *err)
{
	struct webhook w;
	struct err e = {0};
	int r = webhook_read(&cove->state, id, owner, &w, &e);

	explicit_bzero(&w, sizeof(w));
	if (r == 0) {
		r = webhook_log_read(&cove->state, id, ret);
		if (r < 0)
			err_errno(&e, -r, "read the deliveries of webhook '%s'", id);
	}
	return core_return(cove, NULL, r, &e, err);
}
