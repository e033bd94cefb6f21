/* What a box asks for itself; see ctl.h. */
#include "keeper/ctl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "keeper/saver.h"
#include "store/net.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SECOND_MS = 1000, REQUEST_MAX = 512 };

/* ---- an answer: lines of "key value", or one object of JSON ---- */

struct ctl_text {
	struct buf text;
	struct json json;
	bool is_json;
	int r;
};

static void text_begin(struct ctl_text *t, bool is_json)
{
	*t = (struct ctl_text){.is_json = is_json};
	buf_init(&t->text, CTL_TEXT_MAX);
	json_init(&t->json, &t->text);
	if (is_json)
		json_object_begin(&t->json);
}

static void put_u64(struct ctl_text *t, const char *key, uint64_t v)
{
	if (t->is_json)
		json_kv_u64(&t->json, key, v);
	else if (t->r == 0)
		t->r = buf_printf(&t->text, "%s %" PRIu64 "\n", key, v);
}

/* NULL: there is none. */
static void put_str(struct ctl_text *t, const char *key, const char *v)
{
	if (t->is_json) {
		json_kv_str(&t->json, key, v);
		return;
	}
	if (t->r == 0)
		t->r = buf_printf(&t->text, "%s ", key);
	if (t->r == 0)
		t->r = str_escape(&t->text, v ? v : "none", strlen(v ? v : "none"));
	if (t->r == 0)
		t->r = buf_append(&t->text, "\n", 1);
}

/* A number, where there is one. */
static void put_known(struct ctl_text *t, const char *key, uint64_t v, bool is_known)
{
	if (is_known)
		put_u64(t, key, v);
	else
		put_str(t, key, NULL);
}

/* Ends it too. */
static void answer_text(struct keeper *k, uint32_t id, struct ctl_text *t)
{
	struct wire_ctl_answer m = {0};

	if (t->is_json) {
		json_object_end(&t->json);
		t->r = t->json.error;
		if (t->r == 0)
			t->r = buf_append(&t->text, "\n", 1);
	}
	m.text = t->r == 0 ? buf_cstr(&t->text) : NULL;
	if (!m.text)
		m = (struct wire_ctl_answer){ERR_FULL, ENOMEM, "no memory for the answer"};
	keeper_sent_init(k, wire_ctl_answer_encode(&k->init.out, id, 0, &m));
	buf_done(&t->text);
}

static void answer_error(struct keeper *k, uint32_t id, const struct err *e)
{
	struct wire_ctl_answer m = {e->kind, (uint64_t)e->code, e->msg};

	keeper_sent_init(k, wire_ctl_answer_encode(&k->init.out, id, 0, &m));
}

/* ---- info ---- */

/* Notes are for who runs the box, and may speak of the host: only what each is about is said. */
static bool has_note(struct keeper *k, const char *word)
{
	const char *at = buf_cstr(&k->notes);
	size_t n = strlen(word);

	while (at && *at) {
		if (strncmp(at, word, n) == 0 && at[n] == ':')
			return true;
		at = strchrnul(at, '\n');
		at += *at == '\n';
	}
	return false;
}

static void put_limits(struct keeper *k, struct ctl_text *t)
{
	const struct spec *s = k->ctl->spec;
	char missing[256] = "";

	for (unsigned i = 0; i < LIMIT_COUNT; i++) {
		enum limit_id id = (enum limit_id)i;
		size_t n = strlen(missing);

		put_known(t, limit_key(id), s->limits[i], s->limits[i] > 0);
		if (s->limits[i] && has_note(k, limit_word(id)))
			snprintf(missing + n, sizeof(missing) - n, "%s%s", n ? "," : "",
				 limit_key(id));
	}
	put_str(t, "not_enforced", missing[0] ? missing : NULL);
}

static void on_info(struct keeper *k, uint32_t id, bool is_json)
{
	const struct spec *s = k->ctl->spec;
	struct ctl_text t;

	text_begin(&t, is_json);
	put_str(&t, "name", str_plain_name(s->name));
	put_str(&t, "image", s->image);
	put_str(&t, "wall", s->wall);
	put_str(&t, "storage", k->storage);
	/* Where a directory of the host is there is none of the box's business. */
	put_str(&t, "workspace",
		s->workspace				? str_plain_name(s->workspace)
		: s->workspace_dir && s->workspace_copy ? "a copy of a host directory"
		: s->workspace_dir			? "a host directory"
							: NULL);
	put_str(&t, "persistence", s->persistence == PERSIST_BOX ? "box" : "workspace");
	put_str(&t, "network", net_is_closed(s->net) ? "closed" : s->net);
	put_str(&t, "root_inside",
		s->strict || (k->ids && strcmp(k->ids, "single") == 0) ? "no" : "yes");
	put_str(&t, "ctl", s->ctl);
	put_u64(&t, "created_ms", s->created_ms);
	put_u64(&t, "started_ms", k->started_ms);
	put_limits(k, &t);
	answer_text(k, id, &t);
}

/* ---- budget ---- */

struct left_keys {
	const char *used, *limit, *left;
};

static void put_left(struct ctl_text *t, const struct left_keys *keys, uint64_t used,
		     uint64_t limit)
{
	bool is_known = used != WIRE_UNKNOWN;

	put_known(t, keys->used, used, is_known);
	put_known(t, keys->limit, limit, limit > 0);
	put_known(t, keys->left, limit > used ? limit - used : 0, limit > 0 && is_known);
}

#define KEYS(name, unit) \
	(&(const struct left_keys){name unit, name "_limit" unit, name "_left" unit})

static void on_budget(struct keeper *k, uint32_t id, bool is_json)
{
	struct keeper_budget b = {.ttl_left_ms = UINT64_MAX, .idle_left_ms = UINT64_MAX};
	const uint64_t *limits = k->ctl->spec->limits;
	struct wire_stats m;
	struct ctl_text t;

	keeper_stats_read(k, &m);
	if (k->ctl->on_budget)
		k->ctl->on_budget(k, &b);
	text_begin(&t, is_json);
	put_known(&t, "ttl_left_ms", b.ttl_left_ms, b.ttl_left_ms != UINT64_MAX);
	put_known(&t, "idle_left_ms", b.idle_left_ms, b.idle_left_ms != UINT64_MAX);
	put_u64(&t, "uptime_ms", m.uptime_ms);
	put_u64(&t, "cpu_us", m.cpu_us);
	put_known(&t, "cpu_limit_milli", m.cpu_limit_milli, m.cpu_limit_milli > 0);
	put_left(&t, KEYS("mem", "_bytes"), m.mem_bytes, m.mem_limit_bytes);
	put_left(&t, KEYS("pids", ""), m.pids, m.pids_limit);
	put_left(&t, KEYS("disk", "_bytes"), b.own.is_there ? b.own.bytes : WIRE_UNKNOWN,
		 b.own.limit_bytes);
	if (b.workspace.is_there)
		put_left(&t, KEYS("workspace", "_bytes"), b.workspace.bytes,
			 b.workspace.limit_bytes);
	put_left(&t, KEYS("net", "_bytes"), m.net_up_bytes + m.net_down_bytes,
		 limits[LIMIT_NET_BYTES]);
	answer_text(k, id, &t);
}

/* ---- snapshot ---- */

static void tell_snapshot(struct keeper *k, const struct saver_answer *a)
{
	char cause[300], by[48];
	struct event ev = {.kind = EVENT_SNAPSHOT,
			   .at_ms = clock_wall_ms(),
			   .box = k->name,
			   .cause = cause,
			   .by = by};

	if (a->error.kind)
		snprintf(cause, sizeof(cause), "not made: %s", a->error.msg);
	else
		snprintf(cause, sizeof(cause), "%s, frozen %" PRIu64 " ms", a->name,
			 a->frozen_us / 1000);
	snprintf(by, sizeof(by), "uid %" PRIu64 " inside", k->ctl->pending_uid);
	keeper_event(k, &ev);
}

static void on_saved(struct keeper *k, const struct saver_answer *a)
{
	struct keeper_ctl *c = k->ctl;
	uint32_t id = c->pending_id;
	struct ctl_text t;
	struct err e;

	if (!id)
		return;
	/* Asking too soon is no attempt. */
	if (a->error.kind != ERR_LIMIT)
		tell_snapshot(k, a);
	c->pending_id = 0;
	if (!k->linked)
		return;
	if (a->error.kind) {
		e = a->error;
		/* Other sentences may speak of the host. */
		if (e.kind != ERR_LIMIT && e.kind != ERR_EXISTS && e.kind != ERR_CONFLICT &&
		    e.kind != ERR_INVALID)
			err_set(&e, e.kind, e.code,
				"the snapshot was not made: the box's owner finds the reason in "
				"its events");
		answer_error(k, id, &e);
		return;
	}
	text_begin(&t, c->pending_json);
	put_str(&t, "name", str_plain_name(a->name));
	put_u64(&t, "frozen_us", a->frozen_us);
	put_u64(&t, "total_us", a->total_us);
	put_u64(&t, "snapshots_left", a->left);
	answer_text(k, id, &t);
}

static void on_saver(struct ev_io *io, uint32_t events)
{
	struct keeper_ctl *c = container(io, struct keeper_ctl, saver);
	struct saver_answer a;
	int r = saver_receive(c->saver_fd, &a);

	if (r == 0)
		return;
	if (r < 0) {
		a = (struct saver_answer){0};
		err_set(&a.error, ERR_INTERNAL, 0,
			"what makes snapshots is gone: stop and start the box");
		ev_io_remove(c->k->ev, &c->saver);
		fd_close(&c->saver_fd);
	}
	on_saved(c->k, &a);
}

static void on_snapshot(struct keeper *k, uint32_t id, const struct wire_ctl *m)
{
	struct keeper_ctl *c = k->ctl;
	struct err e;

	if (c->pending_id)
		err_set(&e, ERR_CONFLICT, EBUSY, "a snapshot of this box is being made");
	else if (c->saver_fd < 0 || saver_ask(c->saver_fd, m->name) < 0)
		err_set(&e, ERR_INTERNAL, 0,
			"what makes snapshots is gone: stop and start the box");
	else {
		c->pending_id = id;
		c->pending_json = m->json != 0;
		c->pending_uid = m->uid;
		return;
	}
	answer_error(k, id, &e);
}

int keeper_ctl_take_saver(struct keeper *k, int fd)
{
	struct keeper_ctl *c = k->ctl;

	c->k = k;
	c->saver_fd = fd;
	c->saver = (struct ev_io){.on_event = on_saver, .fd = fd};
	return ev_io_add(k->ev, &c->saver, EPOLLIN);
}

void keeper_ctl_done(struct keeper_ctl *c)
{
	if (!c->k)
		return;
	ev_io_remove(c->k->ev, &c->saver);
	fd_close(&c->saver_fd);
	c->pending_id = 0;
}

/* ---- the whole ---- */

/* What an honest init never sends. */
static bool is_whole(const struct wire_frame *f, struct wire_ctl *ret)
{
	if (f->id == 0 || f->len > REQUEST_MAX || wire_ctl_decode(f, ret) < 0 ||
	    ret->verb >= WIRE_CTL_VERB_COUNT)
		return false;
	return ret->verb == WIRE_CTL_SNAPSHOT ? ret->name && wire_ctl_is_name(ret->name)
					      : !ret->name;
}

static bool is_too_often(struct keeper *k)
{
	struct keeper_ctl *c = k->ctl;
	uint64_t now = ev_now(k->ev);

	if (now >= c->second_ms + SECOND_MS) {
		c->second_ms = now;
		c->second_count = 0;
	}
	return ++c->second_count > KEEPER_CTL_PER_S;
}

static int check(struct keeper *k, const struct wire_ctl *m, struct err *e)
{
	const char *verb = wire_ctl_verb_name((enum wire_ctl_verb)m->verb);

	if (is_too_often(k))
		return err_set(e, ERR_LIMIT, EAGAIN, "more than %u requests a second",
			       KEEPER_CTL_PER_S);
	if (!(k->ctl->may.verbs & 1u << m->verb))
		return err_set(e, ERR_DENIED, EPERM,
			       "this box may not ask for '%s': its owner says what it may, with "
			       "cove create --ctl",
			       verb);
	if (k->ending)
		return err_set(e, ERR_CONFLICT, EBUSY, "the box is ending");
	return 0;
}

void keeper_ctl_frame(struct keeper *k, const struct wire_frame *f)
{
	struct wire_ctl m;
	struct err e;

	if (!k->ctl || !is_whole(f, &m) || f->id == k->ctl->pending_id) {
		keeper_broken(k, "a request of the box's own that it cannot make");
		return;
	}
	if (check(k, &m, &e) < 0)
		answer_error(k, f->id, &e);
	else if (m.verb == WIRE_CTL_INFO)
		on_info(k, f->id, m.json != 0);
	else if (m.verb == WIRE_CTL_BUDGET)
		on_budget(k, f->id, m.json != 0);
	else
		on_snapshot(k, f->id, &m);
}
