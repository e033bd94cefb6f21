/* Sending webhooks; see hooks.h. */
#include "server/hooks.h"

#include "api/gather.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/sha.h"
#include "base/str.h"
#include "core/core.h"
#include "server/post.h"
#include "server/server.h"
#include "store/webhook.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	HOOKS_LOOK_MS = 1000,
	HOOKS_TICK_MS = 100,	/* two changes of a directory so far apart have not the same time */
	NOT_TAKEN = -EREMOTEIO, /* the receiver's fault: in the webhook's own log */
};

struct hook {
	struct hooks *hooks;
	struct webhook w;
	struct webhook_state state;
	struct api_events_filter filter;
	struct ev_job job;
	bool busy, is_gone; /* is_gone: removed while it was busy */
	/* The thread's, in one turn. */
	struct poster *poster;
	uint64_t until_ms;
	int r, rows;
	bool has_moved;	  /* its cursor has, in that turn */
	struct err error; /* of r, unless it is NOT_TAKEN */
	/* The loop's. */
	int trouble; /* what was said in the log */
};

struct hooks {
	struct api *api;
	struct hooks_options options;
	struct ev_work *work;
	struct ev_timer timer;
	struct hook **list; /* owned */
	size_t count;
	uint64_t changed_ns, changed_ms; /* the records': their time, and when it was seen */
	uint64_t loaded_ms;
	bool must_load, is_stopped;
	int cancel_fd; /* owned */
	atomic_ullong delivered, failed;
};

/* ---- a delivery, in a thread ---- */

static void sign(const char *secret, const char *time, const char *body, size_t len,
		 char ret[SHA256_HEX_SIZE])
{
	uint8_t sum[SHA256_BYTES];
	struct sha_hmac mac;

	sha256_hmac_init(&mac, secret, strlen(secret));
	sha_add(&mac.sha, time, strlen(time));
	sha_add(&mac.sha, ".", 1);
	sha_add(&mac.sha, body, len);
	sha256_hmac_end(&mac, sum);
	str_hex(sum, sizeof(sum), ret);
}

static void note(struct hook *k, uint64_t seq, unsigned status, uint64_t ms, const char *error)
{
	struct json j;
	struct buf b;

	buf_init(&b, 4096);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_u64(&j, "time_ms", clock_wall_ms());
	json_kv_u64(&j, "event", seq);
	json_kv_bool(&j, "delivered", !error);
	if (status)
		json_kv_u64(&j, "status", status);
	json_kv_u64(&j, "duration_ms", ms);
	if (error)
		json_kv_str(&j, "error", error);
	json_object_end(&j);
	/* A log that cannot be written stops no delivery. */
	if (j.error == 0 && buf_append_str(&b, "\n") == 0)
		(void)webhook_log_add(&k->hooks->api->cove->state, k->w.id,
				      (const char *)buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void failed(struct hook *k, uint64_t seq, unsigned status, uint64_t ms, struct err *e)
{
	struct webhook_state *s = &k->state;
	const struct hooks_options *o = &k->hooks->options;
	uint64_t wait = o->retry_ms;

	if (status)
		err_set(e, ERR_PROTOCOL, EPROTO, "the answer was %u%s", status,
			status >= 300 && status < 400 ? ", and redirects are not followed" : "");
	note(k, seq, status, ms, e->msg);
	s->failures++;
	atomic_fetch_add(&k->hooks->failed, 1);
	for (uint64_t i = 1; i < s->failures && wait < HOOKS_LATEST_MS; i++)
		wait *= 2;
	s->next_ms = clock_wall_ms() + (wait < HOOKS_LATEST_MS ? wait : HOOKS_LATEST_MS);
	str_copy(s->reason, sizeof(s->reason), e->msg);
	if (s->failures >= o->failures_max)
		s->disabled_ms = clock_wall_ms();
	k->r = NOT_TAKEN;
}

static void deliver(struct hook *k, uint64_t seq, const char *body, size_t len)
{
	uint64_t began = clock_mono_ms();
	char fields[512], seconds[24], sum[SHA256_HEX_SIZE], type[32];
	const char *at = strstr(body, "\"type\":\"");
	unsigned status = 0;
	struct err e = {0};
	int r;

	at = at ? at + 8 : "\"";
	snprintf(type, sizeof(type), "%.*s", (int)strcspn(at, "\""), at);
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)clock_wall_ms() / 1000);
	sign(k->w.secret, seconds, body, len, sum);
	snprintf(fields, sizeof(fields),
		 "Content-Type: application/json\r\nCove-Event-Id: %llu\r\nCove-Event-Type: %s\r\n"
		 "Cove-Webhook-Id: %s\r\nCove-Signature: t=%s,v1=%s\r\n",
		 (unsigned long long)seq, type, k->w.id, seconds, sum);
	r = post_send(k->poster,
		      &(struct post){.url = k->w.url,
				     .fields = fields,
				     .body = body,
				     .len = len,
				     .only_public = k->w.owner[0],
				     .cancel_fd = k->hooks->cancel_fd},
		      &status, &e);
	if (e.code == ECANCELED && r < 0) {
		k->r = r; /* it was not its fault */
		return;
	}
	if (r < 0 || status < 200 || status >= 300) {
		failed(k, seq, r < 0 ? 0 : status, clock_mono_ms() - began, &e);
		return;
	}
	note(k, seq, status, clock_mono_ms() - began, NULL);
	k->state.delivered++;
	atomic_fetch_add(&k->hooks->delivered, 1);
	k->state.failures = k->state.next_ms = 0;
	k->state.reason[0] = 0;
}

/* From the next event on nothing goes to whoever had a key that was removed. */
static bool has_owner(struct hook *k)
{
	struct key key = {0};
	bool is_gone;
	int r = 0;

	if (k->w.owner[0])
		r = key_read(&k->hooks->api->cove->state, k->w.owner, &key, &k->error);
	is_gone = r == -ENOENT || key.revoked_ms;
	key_done(&key);
	if (is_gone) {
		k->state.disabled_ms = clock_wall_ms();
		str_copy(k->state.reason, sizeof(k->state.reason), "its key was removed");
		r = -EKEYREVOKED;
	}
	/* Of one that cannot be read nothing is known: later again. */
	k->r = r;
	return r == 0;
}

static int write_state(struct hook *k)
{
	int r = webhook_state_write(&k->hooks->api->cove->state, k->w.id, &k->state);

	return r < 0 ? err_errno(&k->error, -r, "keep how far it is") : 0;
}

static bool on_row(void *arg, uint64_t seq, char *row, size_t len)
{
	struct hook *k = arg;

	k->rows++;
	if (!has_owner(k))
		return false;
	if (api_events_pass(&k->filter, row, len)) {
		len = api_hide_id(k->w.owner, row, len);
		row[len] = 0;
		deliver(k, seq, row, len);
		if (k->r == 0) {
			k->state.cursor = seq;
			k->r = write_state(k);
		}
	} else {
		k->state.cursor = seq;
	}
	return k->r == 0 && k->rows < HOOKS_ROWS && clock_mono_ms() < k->until_ms;
}

static void on_run(struct ev_job *j, void *poster)
{
	struct hook *k = container(j, struct hook, job);
	struct webhook_state *now = &k->state;
	uint64_t cursor = now->cursor, failures = now->failures;
	struct feed_reader reader;
	int n = 1;

	k->poster = poster;
	k->until_ms = clock_mono_ms() + HOOKS_BATCH_MS;
	k->rows = 0;
	k->r = poster ? 0 : err_errno(&k->error, ENOMEM, "begin to send");
	feed_reader_init(&reader, &k->hooks->api->cove->state, cursor);
	while (n > 0 && k->r == 0 && k->rows < HOOKS_ROWS && clock_mono_ms() < k->until_ms)
		n = feed_read(&reader, on_row, k);
	feed_reader_done(&reader);
	if (n < 0 && k->r == 0)
		k->r = err_errno(&k->error, -n, "read the events");
	k->has_moved = now->cursor != cursor;
	/* Also what was passed over, and what went wrong. */
	if (k->has_moved || now->failures != failures || now->disabled_ms)
		n = write_state(k);
	k->r = n < 0 ? n : k->r;
}

/* ---- which are due, in the loop ---- */

static void hook_free(struct hook *k)
{
	explicit_bzero(&k->w, sizeof(k->w));
	free(k);
}

/* *ret is NULL for one of types that are not known here: it gets nothing. */
static int hook_new(struct hooks *h, const struct webhook *w, struct hook **ret)
{
	struct hook *k = calloc(1, sizeof(*k));
	struct err e;
	int r;

	*ret = NULL;
	if (!k)
		return -ENOMEM;
	k->hooks = h;
	k->w = *w;
	r = webhook_state_read(&h->api->cove->state, w, &k->state);
	if (r < 0 || api_events_types(k->w.types, &k->filter.types, &e) < 0) {
		hook_free(k);
		return r;
	}
	str_copy(k->filter.owner, sizeof(k->filter.owner), w->owner);
	k->filter.box = k->w.box[0] ? k->w.box : NULL;
	k->filter.label = k->w.label[0] ? k->w.label : NULL;
	*ret = k;
	return 0;
}

static struct hook *take_known(struct hooks *h, const char *id)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->list[i] && strcmp(h->list[i]->w.id, id) == 0)
			return take_ptr(h->list[i]);
	return NULL;
}

/* Of those that are there what is under way goes on; the others are let go. The records are read
 * when their directory has another time, and once more after the tick in which it got that. */
static void reload(struct hooks *h)
{
	struct webhook *now = NULL;
	struct hook **list;
	size_t count = 0, n = 0;
	uint64_t changed = webhook_changed_ns(&h->api->cove->state), now_ms = clock_mono_ms();
	bool is_whole = true;

	if (changed != h->changed_ns) {
		h->changed_ns = changed;
		h->changed_ms = now_ms;
	} else if (!h->must_load && h->loaded_ms >= h->changed_ms + HOOKS_TICK_MS) {
		return;
	}
	h->must_load = true;
	if (webhook_list(&h->api->cove->state, &now, &count, NULL) < 0)
		return;
	list = calloc(count + h->count + 1, sizeof(struct hook *));
	for (size_t i = 0; list && i < count; i++) {
		struct hook *k = take_known(h, now[i].id);

		/* It may have been enabled again. */
		if (k && !k->busy && k->state.disabled_ms)
			(void)webhook_state_read(&h->api->cove->state, &k->w, &k->state);
		if (!k && hook_new(h, &now[i], &k) < 0)
			is_whole = false;
		if (k)
			list[n++] = k;
	}
	if (list) {
		for (size_t i = 0; i < h->count; i++) {
			struct hook *k = h->list[i];

			if (k && k->busy) {
				k->is_gone = true;
				list[n++] = k;
			} else if (k) {
				hook_free(k);
			}
		}
		free(h->list);
		h->list = list;
		h->count = n;
		h->loaded_ms = now_ms;
		h->must_load = !is_whole;
	}
	explicit_bzero(now, count * sizeof(*now));
	free(now);
}

/* Whatever kept it from going on may do so for long: what has come no further waits, as after a
 * first failure, and the log has it once. */
static void pause_stuck(struct hook *k)
{
	uint64_t now_ms = clock_wall_ms();
	/* Of one that was removed meanwhile there is no place for its state. */
	bool is_trouble = k->r < 0 && k->r != NOT_TAKEN && k->r != -ECANCELED &&
			  k->r != -EKEYREVOKED && k->r != -ENOENT;

	if (is_trouble && k->r != k->trouble)
		server_log("error", "webhook %s waits: %s", k->w.id, k->error.msg);
	k->trouble = is_trouble ? k->r : 0;
	if ((k->r < 0 || !k->has_moved) && k->state.next_ms <= now_ms)
		k->state.next_ms = now_ms + k->hooks->options.retry_ms;
}

static void on_run_done(struct ev_job *j)
{
	struct hook *k = container(j, struct hook, job);
	struct hooks *h = k->hooks;

	k->busy = false;
	pause_stuck(k);
	/* The next look lets it go; or finds that it was enabled again since. */
	if (k->is_gone || k->r == -ENOENT || k->state.disabled_ms)
		h->must_load = true;
	hooks_wake(h);
}

static unsigned busy_of(const struct hooks *h, const char *owner)
{
	unsigned n = 0;

	for (size_t i = 0; i < h->count; i++)
		n += h->list[i]->busy && strcmp(h->list[i]->w.owner, owner) == 0;
	return n;
}

void hooks_wake(struct hooks *h)
{
	uint64_t now_ms = clock_wall_ms(), soonest = HOOKS_LOOK_MS, oldest, newest;

	if (!h || h->is_stopped)
		return;
	reload(h);
	/* Where another server writes the events it sends them, too. */
	if (h->count > 0 && api_gather_writes(h->api) &&
	    feed_range(&h->api->cove->state, &oldest, &newest) == 0)
		for (size_t i = 0; i < h->count; i++) {
			struct hook *k = h->list[i];

			if (k->busy || k->is_gone || k->state.disabled_ms ||
			    k->state.cursor >= newest)
				continue;
			if (k->state.next_ms > now_ms) {
				if (k->state.next_ms - now_ms < soonest)
					soonest = k->state.next_ms - now_ms;
				continue;
			}
			if (k->w.owner[0] && busy_of(h, k->w.owner) >= HOOKS_OF_KEY)
				continue;
			k->job = (struct ev_job){.on_run = on_run, .on_done = on_run_done};
			k->busy = ev_work_push(h->work, &k->job) == 0;
		}
	ev_timer_set(h->api->ev, &h->timer, soonest);
}

static void on_look(struct ev_timer *t)
{
	hooks_wake(container(t, struct hooks, timer));
}

void hooks_counts(const struct hooks *h, uint64_t *ret_delivered, uint64_t *ret_failed)
{
	*ret_delivered = h ? atomic_load(&h->delivered) : 0;
	*ret_failed = h ? atomic_load(&h->failed) : 0;
}

/* ---- begin and end ---- */

static void *state_new(void *arg)
{
	struct poster *p = NULL;

	return poster_new(&p, NULL) < 0 ? NULL : p;
}

static void state_free(void *state)
{
	poster_free(state);
}

int hooks_new(struct hooks **ret, struct api *api, const struct hooks_options *o, struct err *e)
{
	const struct ev_work_options work = {.threads_max = HOOKS_THREADS,
					     .queue_max = WEBHOOKS_MAX,
					     .idle_ms = 10000,
					     .state_new = state_new,
					     .state_free = state_free};
	struct hooks *h = calloc(1, sizeof(*h));
	int r = h ? 0 : -ENOMEM;

	if (r == 0) {
		h->api = api;
		h->options = *o;
		h->timer.on_timer = on_look;
		h->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = h->cancel_fd < 0 ? -errno : ev_work_new(api->ev, &work, &h->work);
	}
	if (r < 0) {
		hooks_stop(h);
		hooks_free(h);
		return err_errno(e, -r, "begin to send webhooks");
	}
	*ret = h;
	hooks_wake(h);
	return 0;
}

void hooks_stop(struct hooks *h)
{
	const uint64_t one = 1;

	if (!h)
		return;
	h->is_stopped = true;
	ev_timer_stop(h->api->ev, &h->timer);
	if (h->cancel_fd >= 0 && write(h->cancel_fd, &one, sizeof(one)) < 0)
		server_log("error", "webhooks under way are waited for: %s",
			   strerrordesc_np(errno));
	ev_work_free(take_ptr(h->work));
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->count; i++)
		hook_free(h->list[i]);
	free(h->list);
	fd_close(&h->cancel_fd);
	free(h);
}
