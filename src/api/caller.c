/*
 * Who asks, and what is theirs; see caller.h.
 *
 * On the Unix socket the server's own user (and root) is the operator. Everybody else brings a
 * token: "Authorization: Bearer", or "X-API-Key" as other clients have it. One with the scope admin
 * is an operator too, over the network.
 */
#include "api/call.h"

#include "base/str.h"
#include "store/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *token_of(const struct http_head *h)
{
	const char *v = http_head_find(h, "Authorization");

	if (!v)
		return http_head_find(h, "X-API-Key");
	if (strncasecmp(v, "Bearer ", 7) != 0)
		return NULL;
	return v + 7 + strspn(v + 7, " ");
}

int api_caller_none(struct err *e)
{
	return err_set(e, ERR_DENIED, EKEYREJECTED,
		       "a key is needed: Authorization: Bearer TOKEN; `cove key create NAME` on "
		       "the server's machine makes one");
}

int api_caller_take(struct api_call *c, const char *token, struct err *e)
{
	struct api_caller *w = &c->who;
	int r;

	w->key = calloc(1, sizeof(*w->key));
	if (!w->key)
		return err_errno(e, ENOMEM, "look at the key");
	r = key_find(&c->api->cove->state, token, strlen(token), w->key, e);
	if (r == -ENOENT)
		return err_set(e, ERR_DENIED, EKEYREJECTED, "there is no such key");
	if (r == -EKEYREVOKED)
		return err_set(e, ERR_DENIED, EKEYREJECTED, "this key was revoked");
	if (r < 0)
		return r;
	snprintf(w->by, sizeof(w->by), "key %s", w->key->name);
	w->is_operator = key_may(w->key, KEY_ADMIN);
	return 0;
}

bool api_caller_is_local(struct api_call *c, const struct api_client_info *client)
{
	struct api_caller *w = &c->who;

	if (!client->is_local || (client->peer_uid != geteuid() && client->peer_uid != 0))
		return false;
	w->is_operator = true;
	snprintf(w->by, sizeof(w->by), "uid %u", (unsigned)client->peer_uid);
	return true;
}

int api_caller_find(struct api_call *c, const struct api_client_info *client, struct err *e)
{
	const char *token = token_of(&c->head);

	str_copy(c->who.by, sizeof(c->who.by), "no key");
	if (http_head_count(&c->head, "Authorization") + http_head_count(&c->head, "X-API-Key") > 1)
		return err_set(e, ERR_DENIED, EKEYREJECTED, "the request has more than one key");
	if (!token && api_caller_is_local(c, client))
		return 0;
	return token ? api_caller_take(c, token, e) : api_caller_none(e);
}

void api_caller_done(struct api_caller *w)
{
	if (w->key)
		key_done(w->key);
	free(w->key);
	w->key = NULL;
}

bool api_call_is_known(const struct api_call *c)
{
	return c->who.is_operator || (c->who.key && c->status != 401);
}

int api_caller_may(const struct api_caller *w, unsigned scope, struct err *e)
{
	if (w->is_operator || scope == 0)
		return 0;
	/* Who may look at boxes may look at figures of its own. */
	if (scope == KEY_METRICS && key_may(w->key, KEY_READ))
		return 0;
	for (size_t i = 0; key_scope_name(i); i++)
		if (scope & 1u << i && !key_may(w->key, (enum key_scope)(1u << i)))
			return err_set(e, ERR_DENIED, EACCES,
				       "key '%s' has not the scope '%s': cove key create NAME "
				       "--scope %s,...",
				       w->key->name, key_scope_name(i), key_scope_name(i));
	return 0;
}

const char *api_owner(const struct api_call *c)
{
	return c->who.is_operator ? NULL : c->who.key->id;
}

int api_name(struct api_call *c, enum key_kind kind, const char *name, const char **ret,
	     struct err *e)
{
	char full[KEY_NAME_SIZE];
	int r;

	*ret = name;
	if (!name || c->who.is_operator)
		return 0;
	r = key_name_in(c->who.key->id, kind, name, full, e);
	if (r < 0)
		return r;
	*ret = api_memory_printf(&c->memory, "%s", full);
	return *ret ? 0 : err_errno(e, ENOMEM, "read the request");
}

bool api_name_shown(const struct api_call *c, enum key_kind kind, const char *name,
		    const char **ret_shown)
{
	const char *shown = c->who.is_operator ? name : key_name_out(c->who.key->id, kind, name);

	if (ret_shown)
		*ret_shown = shown;
	return shown;
}

/* The id is 8 random digits: with what follows it in a name it stands for nothing else. */
size_t api_hide_id(const char *id, char *text, size_t len)
{
	size_t to = 0, n = KEY_ID_SIZE - 1;

	if (!*id)
		return len;
	for (size_t from = 0; from < len;) {
		if (len - from > n && memcmp(text + from, id, n) == 0 &&
		    memchr("_/.", text[from + n], 3)) {
			from += n + 1;
			continue;
		}
		text[to++] = text[from++];
	}
	return to;
}

size_t api_hide(const struct api_call *c, char *text, size_t len)
{
	const char *id = api_owner(c);

	return api_hide_id(id ? id : "", text, len);
}

void api_caller_hide(const struct api_call *c, struct buf *b)
{
	if (c->who.key && buf_len(b) > 0)
		b->len = api_hide(c, (char *)(uintptr_t)buf_data(b), buf_len(b));
}
