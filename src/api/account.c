/*
 * Memory of bodies that are held as a whole. What counts is their text, as it grows; what is made
 * of it is a small multiple (in.h bounds the values).
 */
#include "api/call.h"
#include "api/form.h"

#include "base/limits_server.h"
#include "base/str.h"

#include <errno.h>

static bool has_room(const struct api_call *c, size_t bytes)
{
	uint64_t own = bytes, all = bytes;

	for (const struct api_call *at = c->api->calls; at; at = at->next) {
		if (at == c || at->who.is_operator != c->who.is_operator)
			continue;
		all += at->held;
		own += api_same_key(at, c) ? at->held : 0;
	}
	return all <= API_BODIES_KEYS_MAX && (c->who.is_operator || own <= API_BODIES_KEY_MAX);
}

/* In steps that double: all calls are looked at for a few of its bytes only. */
int api_body_hold(struct api_call *c, size_t bytes, struct err *e)
{
	size_t held = c->held ? c->held : API_BODY_SMALL_MAX;

	if (bytes <= held)
		return 0;
	while (held < bytes)
		held *= 2;
	if (!has_room(c, held))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "the bodies of requests that are under way hold as much memory as "
			       "they may, %u MiB of a key, %u MiB together: ask again when some "
			       "have ended",
			       API_BODIES_KEY_MAX >> 20, API_BODIES_KEYS_MAX >> 20);
	c->held = held;
	return 0;
}

int api_body_hold_all(struct api_call *c, struct err *e)
{
	uint64_t bytes = c->route->body_max;
	const char *length;

	if (bytes == 0 || api_body_is(c, "multipart/form-data"))
		return 0;
	length = http_head_find(&c->head, "Content-Length");
	if (length)
		(void)str_parse_u64(length, bytes, &bytes);
	return api_body_hold(c, (size_t)bytes, e);
}
