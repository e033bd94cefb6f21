/*
 * A key that is revoked is refused from the next request on, as its record is read for each. What
 * it has open (a stream, a socket, a request that waits) is cut here: when something changes in
 * the directory of keys, the key of each call under way is looked at once more.
 */
#include "api/call.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct api_revoker {
	struct api *api;
	struct ev_io io; /* its fd is owned */
};

/* One that cannot be read just now is not known to be revoked; no new request gets past it. */
static bool was_revoked(struct api *a, const struct key *key)
{
	struct key now = {0};
	struct err e;
	int r = key_read(&a->cove->state, key->id, &now, &e);
	bool revoked = r == -ENOENT || (r == 0 && now.revoked_ms);

	key_done(&now);
	return revoked;
}

static void on_keys(struct ev_io *io, uint32_t events)
{
	struct api_revoker *v = container(io, struct api_revoker, io);
	struct api_call *next;
	char drop[4096];

	while (read(io->fd, drop, sizeof(drop)) > 0)
		;
	/* on_cut frees nothing at once. */
	for (struct api_call *c = v->api->calls; c; c = next) {
		next = c->next;
		if (c->sink && c->sink->on_cut && c->state != API_OVER && c->who.key &&
		    was_revoked(v->api, c->who.key))
			c->sink->on_cut(c->sink, c);
	}
}

int api_revoker_new(struct api *a, struct err *e)
{
	struct api_revoker *v = calloc(1, sizeof(*v));
	int r = v ? 0 : err_errno(e, ENOMEM, "watch the keys");

	if (r == 0) {
		v->api = a;
		v->io = (struct ev_io){.on_event = on_keys, .fd = -1};
		r = key_watch(&a->cove->state, &v->io.fd, e);
	}
	if (r == 0 && (r = ev_io_add(a->ev, &v->io, EPOLLIN)) < 0) {
		close(v->io.fd);
		err_errno(e, -r, "watch the keys");
	}
	if (r < 0)
		free(v);
	else
		a->revoker = v;
	return r;
}

void api_revoker_free(struct api *a)
{
	struct api_revoker *v = a->revoker;

	if (!v)
		return;
	ev_io_remove(a->ev, &v->io);
	close(v->io.fd);
	free(v);
	a->revoker = NULL;
}
