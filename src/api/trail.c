/*
 * Who did what over HTTP, in an audit log of its own for each run of a server (store/audit.h; box
 * "cove-api"): one row for each request that changes something or runs something, and for each that
 * a key was refused. What changes authority (policies, grants, answers, secrets, webhooks) is on
 * the disk before its answer goes out; the rest is there after kill -9, and on the disk a moment
 * later. Requests without a key are in the server's own log alone: whoever reaches the port could
 * fill this one.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/core.h"
#include "store/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TRAIL_NAME "cove-api"

struct api_trail {
	struct api *api;
	pthread_mutex_t lock, syncing; /* the second one is taken first */
	struct audit_writer w;
	bool is_open, has_failed;
	uint64_t created_ns;
};

int api_trail_new(struct api *a)
{
	struct api_trail *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->api = a;
	t->created_ns = clock_ns_of(CLOCK_REALTIME);
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->syncing, NULL);
	a->trail = t;
	return 0;
}

void api_trail_free(struct api_trail *t)
{
	if (!t)
		return;
	if (t->is_open && audit_sync(&t->w, NULL) < 0)
		t->has_failed = true; /* the rows are there, as after kill -9 */
	if (t->is_open)
		audit_close(&t->w);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->syncing);
	free(t);
}

static bool is_noted(const struct api_call *c)
{
	const unsigned changes = KEY_RUN | KEY_IMAGES | KEY_NETWORK | KEY_SECRETS | KEY_ADMIN;

	/* What goes to a program in a box is in the server's log: it may be much, and anybody's. */
	if (c->is_noted || !c->api->trail || c->port)
		return false;
	if (!c->route)
		return c->who.key && c->status == 403;
	return c->route->scope & changes &&
	       (strcmp(c->method, "GET") != 0 || c->route->socket || c->status == 403);
}

static bool changes_authority(const struct api_call *c)
{
	return c->route && c->route->scope & (KEY_NETWORK | KEY_SECRETS | KEY_ADMIN);
}

/* The box of the path, as it is called on this machine. */
static const char *box_of(const struct api_call *c, char ret[KEY_NAME_SIZE])
{
	struct err e;

	for (size_t i = 0; i < c->param_count; i++) {
		if (c->params[i].name_len != 3 || memcmp(c->params[i].name, "box", 3) != 0)
			continue;
		/* Without a key it is in no namespace. */
		if (c->who.is_operator || !c->who.key)
			return c->params[i].value;
		return key_name_in(c->who.key->id, KEY_OF_BOX, c->params[i].value, ret, &e) < 0
			       ? c->params[i].value
			       : ret;
	}
	return c->made[0] ? c->made : NULL;
}

static void trouble(struct api_trail *t, int r)
{
	const struct api_options *o = &t->api->options;

	if (!t->has_failed && o->on_trouble)
		o->on_trouble(o->arg, "the audit log of requests cannot be written", r);
	t->has_failed = true;
}

/* With the lock. */
static int add(struct api_trail *t, struct audit_row *row)
{
	int r = 0;

	if (!t->is_open) {
		r = audit_open(&t->w, &t->api->cove->state, TRAIL_NAME, t->created_ns, NULL);
		t->is_open = r == 0;
	}
	return r < 0 ? r : audit_append(&t->w, row, NULL);
}

static int note(struct api_call *c)
{
	struct api_trail *t = c->api->trail;
	unsigned status = c->status ? c->status : 200;
	char box[KEY_NAME_SIZE];
	struct audit_row row = {
		.kind = "api",
		.method = c->method,
		.path = c->path,
		.host = box_of(c, box),
		.rule = c->asked ? c->asked->id : NULL,
		.verdict = status < 400	   ? "allow"
			   : status == 403 ? "deny"
					   : "failed",
		.reason = c->id,
		.status = status,
		.duration_ms = (clock_mono_ns() - c->began_ns) / 1000000,
		.credential = c->who.key ? c->who.key->id : NULL,
		.by = c->who.by,
	};
	int r;

	if (!is_noted(c))
		return 0;
	c->is_noted = true;
	pthread_mutex_lock(&t->lock);
	r = add(t, &row);
	if (r < 0)
		trouble(t, r);
	else
		t->has_failed = false;
	pthread_mutex_unlock(&t->lock);
	return r;
}

void api_trail_note(struct api_call *c)
{
	(void)note(c); /* it was said: the answer does not wait for this row */
}

/* The lock is not held while the disk is awaited: a copy of the writer does that, whose file stays
 * open. */
static int sync_now(struct api_trail *t)
{
	struct audit_writer copy;
	int r = 0;

	pthread_mutex_lock(&t->lock);
	if (!t->is_open || !t->w.dirty) {
		pthread_mutex_unlock(&t->lock);
		return 0;
	}
	copy = t->w;
	copy.fd = fcntl(t->w.fd, F_DUPFD_CLOEXEC, 0);
	r = copy.fd < 0 ? -errno : 0;
	pthread_mutex_unlock(&t->lock);
	if (r == 0)
		r = audit_sync(&copy, NULL);
	fd_close(&copy.fd);
	pthread_mutex_lock(&t->lock);
	t->w.is_listed |= copy.is_listed;
	if (r == 0 && t->w.at.rows == copy.at.rows)
		t->w.dirty = false;
	if (r < 0)
		trouble(t, r);
	pthread_mutex_unlock(&t->lock);
	return r;
}

int api_trail_sync(struct api *a)
{
	int r;

	pthread_mutex_lock(&a->trail->syncing);
	r = sync_now(a->trail);
	pthread_mutex_unlock(&a->trail->syncing);
	return r;
}

int api_trail_before_reply(struct api_call *c, struct err *e)
{
	int r;

	if (!changes_authority(c) || !is_noted(c))
		return 0;
	r = note(c);
	if (r == 0)
		r = api_trail_sync(c->api);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r,
			       "it was done, but its row in the audit log could not be written "
			       "(%s): make room on the server's disk",
			       strerror(-r))
		     : 0;
}
