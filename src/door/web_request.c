/*
 * A request of the box: read, judged, given its credential, written down; see web.h. What is denied
 * is answered here.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "door/answer.h"
#include "door/credential.h"
#include "door/web_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- audit rows ---- */

/* About the request; what comes next waits until it is written. */
static void record(struct web *w, const char *verdict, const char *reason)
{
	struct audit_row row = web_row(w, "request", verdict, reason);

	row.method = w->req.is_there ? w->req.head.method : NULL;
	row.path = w->req.path;
	row.rule = w->req.verdict.rule ? w->req.verdict.rule->name : NULL;
	if (!w->req.denied && w->req.injection && injection_names(w->req.injection)[0])
		row.credential = injection_names(w->req.injection);
	if (w->req.denied)
		door_deny(w->config.door, &w->call, &row, w->req.why);
	else
		broker_record(w->config.door->broker, &w->call, &row);
}

/* ---- answers of our own ---- */

/* Nothing was said to the box yet. Then the next request, or the end: the connection goes on only
 * where no body is on its way. */
static void answer_box(struct web *w, unsigned status, const struct err *e)
{
	struct answer a = {.status = status,
			   .host = w->config.host.text,
			   .port = w->config.port,
			   .rule = w->req.verdict.rule ? w->req.verdict.rule->name : NULL,
			   .is_head = w->req.is_there && strcmp(w->req.head.method, "HEAD") == 0};

	/* A body of which a part was read and not passed on would be taken for the next request. */
	w->keep_box = w->keep_box && w->req.is_there &&
		      (w->req.is_sent || (w->state != WEB_MOVE && w->req.body.ended));
	a.keeps = w->keep_box;
	if (answer_write(&w->box.out, &a, e) < 0)
		w->keep_box = false;
	/* An upstream that this request did not go to is as good as before. */
	w->req.is_sent = w->state == WEB_HEAD || w->state == WEB_DECIDE;
	web_next(w);
}

/* It is answered when the row is written: a box that is denied a thousand times at once would
 * otherwise write rows faster than the broker takes them. */
static void deny(struct web *w, enum denial why, unsigned status, const struct err *e)
{
	w->req.why = why;
	w->req.denied = status;
	w->req.denial = *e;
	w->state = WEB_DECIDE;
	web_limit(w, 0);
	record(w, "deny", e->msg);
}

/* It was allowed and did not work. */
void web_fail(struct web *w, const struct err *e)
{
	if (!w->req.is_there || w->resp.is_there || w->req.is_stale || w->box.is_broken ||
	    w->box.write_closed) {
		web_cut(w, e);
		return;
	}
	web_record_end(w, "failed", e->msg);
	w->up.keeps = false;
	answer_box(w, answer_status(e), e);
}

/* ---- deciding ---- */

static bool judges_paths(const struct web *w)
{
	return policy_has_paths(w->config.door->policy, &w->config.host, w->config.port);
}

/* The path in its one form, which rules see, also those that come while the request is under way.
 * It is sent in that form only where a rule looks at it, and must have one only there. Escapes that
 * change nothing about which path it is stay as they are: signed addresses have them. */
static int take_path(struct web *w, const struct http_target *t, struct err *e)
{
	bool by_path = judges_paths(w);
	struct buf normal;
	int r, rc = 0;

	buf_init(&normal, DOOR_HEAD_MAX);
	if (t->path[0] == '/')
		r = http_path_normalise(t->path, t->path_len, &normal);
	else
		r = buf_append(&normal, t->path, t->path_len);
	if (r == 0)
		w->req.normal = strndup((const char *)buf_data(&normal), buf_len(&normal));
	if (r != -EINVAL)
		rc = r == 0 && !w->req.normal ? -ENOMEM : r;
	buf_done(&normal);
	if (rc == 0 && r == -EINVAL && by_path)
		return err_set(
			e, ERR_INVALID, 400,
			"the path could be read in more than one way, so no rule about paths "
			"can judge it");
	w->req.path =
		by_path && w->req.normal && !http_path_spells(t->path, t->path_len, w->req.normal)
			? strdup(w->req.normal)
			: strndup(t->path, t->path_len);
	w->req.query = t->query ? strdup(t->query) : NULL;
	return rc == 0 && w->req.path && (w->req.query || !t->query)
		       ? 0
		       : err_errno(e, ENOMEM, "look at a request");
}

void web_judge(struct web *w, const char *query)
{
	struct request r = {.method = w->req.head.method,
			    .path = w->req.normal ? w->req.normal : w->req.path,
			    .query = query,
			    .websocket = w->req.websocket};

	door_decide(w->config.door,
		    &(struct subject){SUBJECT_REQUEST, &w->config.host, w->config.port, &r},
		    &w->req.verdict);
}

bool web_is_unfit(const struct web *w)
{
	return (!w->req.normal && judges_paths(w)) ||
	       (w->req.has_fetch_body && w->req.verdict.action != ACTION_DENY &&
		w->req.verdict.rule && w->req.verdict.rule->by_method);
}

void web_on_recorded(struct broker_call *c, int r, struct err *e)
{
	struct web *w = container(c, struct web, call);
	struct err said;

	if (w->state != WEB_DECIDE)
		return;
	if (r < 0) {
		err_set(&said, e->kind, e->code,
			"the request could not be recorded, so it is not sent; see `cove inspect`");
		web_fail(w, &said);
	} else if (w->req.denied) {
		answer_box(w, w->req.denied, &w->req.denial);
	} else {
		w->req.seq = c->seq;
		web_send_request(w);
	}
	web_run(w);
}

static void record_allowed(struct web *w)
{
	w->req.started_ms = ev_now(w->config.door->ev);
	record(w, "allow", w->req.was_asked ? "a person allowed it" : NULL);
}

static void on_injected(void *arg, int r, struct err *e)
{
	struct web *w = arg;
	bool is_there = r == 0;

	if (w->state != WEB_DECIDE)
		return;
	/* Beside a certificate of ours alone the box's own credentials stay: they say who asks. */
	w->req.is_stripped = w->req.verdict.rule && w->req.verdict.rule->inject_count > 0;
	w->req.kept_count = w->req.is_stripped ? w->req.verdict.rule->kept_count : 0;
	if (r == 0 && w->req.is_stripped &&
	    credentials_remove(&w->req.head, w->req.verdict.rule) < 0)
		r = err_errno(e, ENOMEM, "remove the box's own credentials");
	if (r == 0)
		r = injection_apply(w->req.injection, &w->req.head, e);
	if (r < 0) {
		deny(w, DENIAL_CREDENTIAL, 502, e);
		/* Where it is kept, and how it is fetched, is no business of the box. */
		if (!is_there)
			err_set(&w->req.denial, e->kind, e->code,
				"rule '%.60s': its credential cannot be had now; the audit log "
				"says why",
				w->req.verdict.rule ? w->req.verdict.rule->name : "");
		web_run(w);
		return;
	}
	record_allowed(w);
}

void web_allowed(struct web *w)
{
	const struct rule *rule = w->req.verdict.rule;
	struct err e = {0};
	int r;

	w->state = WEB_DECIDE;
	web_limit(w, 0);
	if (!door_take(w->config.door, rule)) {
		err_set(&e, ERR_LIMIT, EDQUOT, "the rate of '%.60s' is used up", rule->name);
		deny(w, DENIAL_BUDGET, 429, &e);
	} else if (!rule || !rule_injects(rule)) {
		record_allowed(w);
	} else if (!w->config.tls && !rule->plain_http) {
		err_set(&e, ERR_DENIED, EACCES,
			"'%.60s' adds a credential, and this connection has no TLS that proves who "
			"gets it: use https",
			rule->name);
		deny(w, DENIAL_CREDENTIAL, 403, &e);
	} else if ((r = injection_start(&w->req.injection, w->config.door->broker, rule,
					on_injected, w)) < 0) {
		err_errno(&e, -r, "prepare what '%.60s' injects", rule->name);
		deny(w, DENIAL_CREDENTIAL, 502, &e);
	}
}

void web_on_answer(struct ask_wait *wait, bool is_allowed, const char *by)
{
	struct web *w = container(wait, struct web, wait);
	struct err e;

	if (w->state != WEB_DECIDE)
		return;
	if (is_allowed) {
		w->req.was_asked = true;
		w->req.asked_until_ms = wait->until_ms;
		web_allowed(w);
	} else {
		err_set(&e, ERR_DENIED, EACCES,
			by ? "%s %.120s was denied by %.40s"
			   : "%s %.120s: it was not allowed in time",
			w->req.head.method, w->req.path, by);
		deny(w, DENIAL_PERSON, 403, &e);
	}
	web_run(w);
}

static void ask(struct web *w)
{
	struct ask_what what = {
		.host = w->config.host.text,
		.port = w->config.port,
		.method = w->req.head.method,
		.path = w->req.path,
		.query = w->req.query,
		.rule = w->req.verdict.rule,
		.exec_id = w->config.exec_id,
		.timeout_ms = w->req.verdict.rule ? w->req.verdict.rule->ask_timeout_ms : 0};
	struct err e;

	w->state = WEB_DECIDE;
	web_limit(w, 0);
	if (ask_start(w->config.door, &w->wait, &what) == 0)
		return;
	err_set(&e, ERR_LIMIT, ENOBUFS, "too many requests wait for an answer");
	deny(w, DENIAL_LIMIT, 429, &e);
}

/* ---- the request's head ---- */

/* Its method means no content. */
static bool is_bodiless(const struct web *w)
{
	static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "DELETE"};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strcmp(w->req.head.method, methods[i]) == 0)
			return true;
	return false;
}

int web_choose_reuse(struct web *w, struct err *e)
{
	const struct rule *rule = w->req.verdict.rule;
	int r = 0;

	/* A body that no server needs to expect stands alone whatever the rule says. Expect comes
	 * with a body, or the parser has refused it. */
	w->req.is_last = w->req.websocket ||
			 (!w->req.body.ended && (is_bodiless(w) || !(rule && rule->reuse)));
	/* A WebSocket's Connection says Upgrade; one that is refused is only not used again. */
	if (w->req.is_last && !w->req.websocket)
		r = http_head_add(&w->req.head, "Connection", "close");
	return r < 0 ? err_errno(e, -r, "write a request anew") : 0;
}

/* Written anew: origin form, with the path that was judged; one Host, our own framing. */
static int rewrite(struct web *w, struct err *e)
{
	struct http_head *h = &w->req.head;
	bool usual = w->config.port == (w->config.tls ? 443 : 80);
	bool is_v6 = w->config.host.is_address && w->config.host.family == AF_INET6;
	char host[sizeof(w->config.host.text) + 16];
	struct buf target;
	int r = 0;

	if (w->req.path[0] == '/') {
		buf_init(&target, 2 * DOOR_HEAD_MAX);
		r = buf_append_str(&target, w->req.path);
		if (r == 0 && w->req.query)
			r = buf_append(&target, "?", 1);
		if (r == 0 && w->req.query)
			r = buf_append_str(&target, w->req.query);
		if (r == 0)
			r = http_head_set_target(h, buf_cstr(&target));
		buf_done(&target);
	}
	snprintf(host, sizeof(host), usual ? "%s%s%s" : "%s%s%s:%u", is_v6 ? "[" : "",
		 w->config.host.text, is_v6 ? "]" : "", w->config.port);
	http_head_strip_hop(h);
	http_head_strip_overrides(h);
	http_head_remove(h, "Host");
	if (r == 0)
		r = http_head_add(h, "Host", host);
	/* Without a length a server may wait for content, and take the next request for it. */
	if (r == 0 && w->req.framing == HTTP_NO_BODY && !is_bodiless(w))
		r = http_head_add(h, "Content-Length", "0");
	if (r == 0 && w->req.framing == HTTP_CHUNKED)
		r = http_head_add(h, "Transfer-Encoding", "chunked");
	if (r == 0 && w->req.websocket)
		r = http_head_add(h, "Connection", "Upgrade");
	if (r == 0 && w->req.websocket)
		r = http_head_add(h, "Upgrade", "websocket");
	return r < 0 ? err_errno(e, -r, "write a request anew") : 0;
}

static int take_request(struct web *w, struct err *e)
{
	const char *method = w->req.head.method;
	struct http_target t;
	struct host host;
	int r = http_body_init_request(&w->req.body, &w->req.head, &door_http_limits, e);

	w->req.websocket = http_head_has_token(&w->req.head, "Connection", "upgrade") &&
			   http_head_has_token(&w->req.head, "Upgrade", "websocket");
	w->req.has_fetch_body =
		!w->req.body.ended && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);

	w->req.framing = w->req.body.framing;
	w->req.was_asked = ask_holds(w->config.asked, w->config.asked_until_ms);
	w->req.asked_until_ms = w->config.asked_until_ms;
	/* A proxy's next request may be for another host, which is another connection of ours. */
	w->keep_box = r == 0 && w->req.head.minor > 0 && !w->config.proxied &&
		      !http_head_has_token(&w->req.head, "Connection", "close");
	if (r < 0)
		return r;
	/* Methods are written in upper case, since there are servers that do so with what they get:
	 * "get" would be judged as one and done as the other. WEBSOCKET is a word of rules. */
	if (method[strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")] ||
	    strcmp(method, "WEBSOCKET") == 0)
		return err_set(e, ERR_INVALID, 400, "a method that is not known to be one");
	r = http_target_parse(&w->req.head, &t, e);
	if (r < 0)
		return r;
	if (strcmp(method, "CONNECT") == 0)
		return err_set(e, ERR_INVALID, 400, "CONNECT within a connection");
	/* Every request must be for the host that the connection is for. */
	if (host_parse(&host, t.host) < 0 || strcmp(host.text, w->config.host.text) != 0 ||
	    (t.port && t.port != w->config.port))
		return err_set(e, ERR_DENIED, 421,
			       "this connection is for %.100s, and the request for %.100s",
			       w->config.host.text, t.host);
	if (t.scheme[0] && (strcmp(t.scheme, "https") == 0) != w->config.tls)
		return err_set(e, ERR_INVALID, 400, "the scheme is not that of the connection");
	r = take_path(w, &t, e);
	if (r < 0)
		return r;
	if (w->req.websocket && ws_check_request(&w->req.head, e) < 0)
		return err_set(e, ERR_INVALID, 400, "%s", e->msg);
	web_judge(w, t.query);
	if (web_is_unfit(w))
		return err_set(e, ERR_INVALID, 400,
			       "%s with a body: '%.60s' lists methods, and this one fetches",
			       method, w->req.verdict.rule->name);
	return rewrite(w, e);
}

/* Not a whole head yet. */
static int await_more(struct web *w)
{
	size_t n = buf_len(&w->box.in);
	struct err e = w->box.error;

	if (!w->box.ended) {
		/* From its first byte on, however slowly the others come. */
		if (n > 0 && w->limit_ms != DOOR_HEAD_MS)
			web_limit(w, DOOR_HEAD_MS);
		return 0;
	}
	if (n > 0 && !w->box.is_broken)
		err_set(&e, ERR_PROTOCOL, EBADMSG, "half a request");
	if (n > 0 || (w->box.is_broken && !w->had_request)) {
		web_cut(w, &e);
		return -1;
	}
	w->keep_box = false;
	web_next(w);
	return 1;
}

/* One head. 1: there was one, 0: not yet, negative: over. */
int web_read_request(struct web *w)
{
	const struct verdict *v = &w->req.verdict;
	struct request shown;
	enum denial why;
	struct err e = {0};
	size_t used;
	int r = http_request_parse(&w->req.head, buf_data(&w->box.in), buf_len(&w->box.in),
				   &door_http_limits, &used, &e);

	if (r == 0)
		return await_more(w);
	/* Whoever begins with it means HTTP/2 without having agreed on it. */
	if (r < 0 && e.code == 505)
		err_set(&e, ERR_INVALID, 505,
			"the door reads HTTP/1.1, and this is HTTP/2 (as gRPC speaks it): give "
			"%.100s a rule with tls: pass",
			w->config.host.text);
	w->req.is_there = r > 0;
	w->had_request = true;
	if (r > 0) {
		buf_consume(&w->box.in, used);
		r = take_request(w, &e);
	}
	if (r < 0) {
		/* The status is in the code; what follows on the connection cannot be trusted. */
		w->keep_box = false;
		deny(w, DENIAL_FORM, answer_status(&e), &e);
	} else if (v->action == ACTION_DENY) {
		if (v->rule && v->rule->once)
			(void)door_take(w->config.door, v->rule);
		shown = (struct request){.method = w->req.head.method, .path = w->req.path};
		why = door_explain(
			w->config.door, v,
			&(struct subject){SUBJECT_REQUEST, &w->config.host, w->config.port, &shown},
			&e);
		deny(w, why, 403, &e);
	} else if (v->action == ACTION_ASK && !w->req.was_asked) {
		ask(w);
	} else {
		web_allowed(w);
	}
	return 1;
}
