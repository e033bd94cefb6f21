/*
 * Policies and grants of boxes, and talking to their doors.
 *
 * What holds for a box is on disk before its door reads it again; a door that does not run reads it
 * when it starts. Every change is in the audit log with who asked: by its door, or, where the box
 * does not run, from here.
 */
#include "core/door.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sha.h"
#include "base/str.h"
#include "core/life.h"
#include "core/round.h"
#include "core/view.h"
#include "core/watch.h"
#include "store/audit.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DOOR_WAIT_MS = 15000 };

/* ---- its door ---- */

/* An answer. -EBADMSG: it is not one to the verb. 1: no more is wanted, of any box. */
typedef int on_said(void *arg, const char *box, const struct wire_frame *f);

struct door_verb {
	const char *box, *const *words; /* box NULL: all that run */
	const char *by;			/* may be NULL */
	on_said *on_say;
	void *arg;
};

struct telling {
	struct core_round round;
	const struct door_verb *verb;
	int r; /* of the box that failed first */
	struct err why;
};

static int encode_verb(struct core_round *round, struct buf *out, uint32_t id)
{
	const struct door_verb *v = container(round, struct telling, round)->verb;
	struct wire_door m = {.by = v->by};
	struct buf list;
	int r = 0;

	buf_init(&list, 64 << 10);
	for (size_t i = 0; v->words[i] && r == 0; i++)
		r = wire_list_add(&list, v->words[i]);
	m.argv = wire_list_of(&list);
	if (r == 0)
		r = wire_door_encode(out, id, 0, &m);
	buf_done(&list);
	return r;
}

static int on_door_frame(struct core_round *round, size_t i, struct core_request *q,
			 const struct wire_frame *f, struct err *e)
{
	const struct door_verb *v = container(round, struct telling, round)->verb;
	const char *box = round->boxes[i];
	int r;

	if (f->type != WIRE_SAY)
		return f->type == WIRE_OK ? 1 : core_unexpected(q, f, e);
	r = v->on_say(v->arg, box, f);
	round->stopped = r > 0;
	if (r == -EBADMSG)
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the door of box '%s' does not answer as this Cove expects: "
			       "start the box again",
			       box);
	return r < 0 ? err_errno(e, -r, "hear the door of box '%s'", box) : r;
}

static void on_door_end(struct core_round *round, size_t i, int r, const struct err *e)
{
	struct telling *t = container(round, struct telling, round);

	if (r == 0 || t->r < 0)
		return;
	/* Of all boxes, one that ends meanwhile or has no door has nothing to say. */
	if (!t->verb->box &&
	    (e->kind == ERR_CONFLICT || e->kind == ERR_INTERRUPTED || e->kind == ERR_NOT_FOUND))
		return;
	t->r = r;
	t->why = *e;
	if (!t->verb->box && !strstr(t->why.msg, round->boxes[i]))
		err_prefix(&t->why, "%s", round->boxes[i]);
}

/* Sends one verb, and gives each answer to on_say. The first failure is the result; of all boxes,
 * when the others have been heard. */
static int tell(struct cove *cove, const struct door_verb *v, struct err *e)
{
	struct telling t = {
		.round = {.encode = encode_verb, .on_frame = on_door_frame, .on_end = on_door_end},
		.verb = v};
	autoclose int box_fd = -1;
	char **names = NULL;
	size_t count = 1;
	int r = v->box ? box_open_dir(cove, v->box, &box_fd, e)
		       : state_names(cove->state.run_fd, &names, &count);

	if (r < 0)
		return v->box ? r : err_errno(e, -r, "list the boxes that run");
	r = core_round_run(&t.round, cove, v->box ? &v->box : (const char *const *)(void *)names,
			   count, DOOR_WAIT_MS, e);
	if (!v->box)
		state_names_free(names, count);
	if (r == 0 && t.r < 0 && e)
		*e = t.why;
	return r < 0 ? r : t.r;
}

static int take_status(void *arg, const char *box, const struct wire_frame *f)
{
	struct net_door *d = arg;
	struct wire_door_status *m = &d->status;

	if (wire_door_status_decode(f, m) < 0 || !m->policy)
		return -EBADMSG;
	str_copy(d->policy, sizeof(d->policy), m->policy);
	str_copy(d->trouble, sizeof(d->trouble), m->trouble ? m->trouble : "");
	m->policy = d->policy;
	m->trouble = m->trouble ? d->trouble : NULL;
	return 0;
}

int net_door_status(struct cove *cove, const char *box, struct net_door *ret, struct err *e)
{
	static const char *const words[] = {"status", NULL};
	int r;

	*ret = (struct net_door){0};
	r = tell(cove, &(struct door_verb){box, words, NULL, take_status, ret}, e);
	if (r == 0 && !ret->status.policy)
		r = err_set(e, ERR_PROTOCOL, EPROTO, "the door of box '%s' said nothing", box);
	return r;
}

/* A door of an older Cove says it otherwise, and nothing depends on it. */
static int take_cut(void *arg, const char *box, const struct wire_frame *f)
{
	struct wire_cut m;

	if (wire_cut_decode(f, &m) == 0)
		*(uint64_t *)arg = m.connections;
	return 0;
}

static bool is_stopped(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTCONN;
}

/* A box that may have a network, as its directory. Its owner (may be NULL) is empty where it is the
 * operator's. */
static int open_networked(struct cove *cove, const char *box, char ret_owner[KEY_ID_SIZE],
			  int *ret_fd, struct err *e)
{
	struct record record;
	int r = record_load(&cove->state, box, &record, e);

	if (r < 0)
		return r;
	if (ret_owner)
		str_copy(ret_owner, KEY_ID_SIZE, record.spec.owner ? record.spec.owner : "");
	if (net_is_closed(record.spec.net))
		r = err_set(e, ERR_CONFLICT, ENETUNREACH,
			    "box '%s' was made without a network (--net closed): make it anew with "
			    "--net to give it one",
			    box);
	record_done(&record);
	return r < 0 ? r : box_open_dir(cove, box, ret_fd, e);
}

/* The same, where a box that does not run, or never has a door, cannot do it. */
static int tell_running(struct cove *cove, const struct door_verb *v, struct err *e)
{
	autoclose int box_fd = -1;
	int r = open_networked(cove, v->box, NULL, &box_fd, e);

	if (r < 0)
		return r;
	r = tell(cove, v, e);
	if (is_stopped(r) && e->kind == ERR_CONFLICT)
		return err_set(e, ERR_CONFLICT, ENOTCONN,
			       "box '%s' is not running, so nothing of it waits at its door: "
			       "cove start %s",
			       v->box, v->box);
	return r;
}

/* What its door would have recorded, of a box that does not run and whose operation
 * lock we hold. */
static int note_change(struct cove *cove, const char *box, int box_fd, struct audit_row *row,
		       struct err *e)
{
	struct record record;
	int r = core_wait_free(cove, box, box_fd, STOP_WAIT_MS);

	if (r < 0)
		return err_errno(e, -r, "wait for the end of box '%s'", box);
	r = record_load(&cove->state, box, &record, e);
	if (r < 0)
		return r;
	row->time_ms = clock_wall_ms();
	r = audit_note(&cove->state, box, record.spec.created_ms, row, e);
	record_done(&record);
	return r;
}

/* Tells a running box's door to read its files again, and to record why. One that does not run has
 * nothing to read: its row is written here, with the operation lock held so that none starts it,
 * and a door with it, meanwhile. */
static int reload(struct cove *cove, const char *box, const char *const *words,
		  struct audit_row *row, uint64_t *ret_cut, struct err *e)
{
	const struct door_verb verb = {box, words, row->by, take_cut, ret_cut};
	autoclose int box_fd = -1;
	int r = tell(cove, &verb, e);

	if (is_stopped(r)) {
		r = box_open_dir(cove, box, &box_fd, e);
		if (r == 0)
			r = core_wait_lock(cove, box, box_fd, START_WAIT_MS, e);
		if (r < 0) {
			err_prefix(e, "it is kept, but not in the audit log");
			return r;
		}
		r = tell(cove, &verb, e);
	}
	if (is_stopped(r)) {
		r = note_change(cove, box, box_fd, row, e);
		if (r < 0)
			err_prefix(e, "it is kept, but not in the audit log");
	} else if (r < 0) {
		err_prefix(e, "it is kept, and holds from the door's next start on");
	}
	return r;
}

/* ---- the public face ---- */

/* "# live: allow x.org until 17:20:05". What is over is not said. */
static int put_live(struct buf *text, char *line, uint64_t now_ms)
{
	time_t now = (time_t)(now_ms / 1000), until;
	struct net_grant g;
	const char *verdict;
	char when[32] = "";
	struct tm a, b;

	if (net_grant_parse(line, &g) < 0 || (g.until_ms && g.until_ms <= now_ms))
		return 0;
	verdict = g.allow ? "allow" : "deny";
	if (g.until_ms == 0)
		return buf_printf(text, "# live: %s %s for ever\n", verdict, g.pattern);
	until = (time_t)(g.until_ms / 1000);
	/* The day only where it is another. */
	if (localtime_r(&until, &a) && localtime_r(&now, &b) &&
	    strftime(when, sizeof(when),
		     a.tm_year == b.tm_year && a.tm_yday == b.tm_yday ? "%H:%M:%S"
								      : "%Y-%m-%d %H:%M:%S",
		     &a) == 0)
		when[0] = 0;
	return buf_printf(text, "# live: %s %s until %s\n", verdict, g.pattern, when);
}

/* The text comes from the door: it stays within its line. */
static int put_once(void *arg, const char *box, const struct wire_frame *f)
{
	struct buf *b = arg;
	struct wire_say m;
	int r = wire_say_decode(f, &m) < 0 || !m.text ? -EBADMSG : buf_append_str(b, "# live: ");

	if (r == 0)
		r = str_escape(b, m.text, strlen(m.text));
	return r == 0 ? buf_append_str(b, " for the next connection\n") : r;
}

/* Grants stand above as comments: they are rules, but not of this text. */
static int box_text(struct cove *cove, const char *box, char **ret, struct err *e)
{
	static const char *const words[] = {"grants", NULL};
	autofree char *policy = NULL, *grants = NULL;
	autoclose int fd = -1;
	struct record record = {0};
	struct err said = {0};
	size_t len = 0, grants_len = 0;
	char *line, *rest;
	struct buf text;
	int r = record_load(&cove->state, box, &record, e);

	if (r == 0)
		r = box_open_dir(cove, box, &fd, e);
	if (r < 0)
		return r;
	r = fd_read_file(fd, NET_POLICY_FILE, DOOR_POLICY_MAX, &policy, &len);
	if (r == -ENOENT)
		r = net_preset_text(cove,
				    net_is_closed(record.spec.net) ? "closed" : record.spec.net,
				    &policy, e);
	else if (r < 0)
		err_errno(e, -r, "read the policy of '%s'", box);
	/* The operator's file, which has no name in the box: its comments are for the operator. */
	if (policy && record.spec.owner && faccessat(fd, NET_POLICY_NAME_FILE, F_OK, 0) < 0)
		net_drop_comments(policy);
	record_done(&record);
	if (r < 0)
		return r;
	r = fd_read_file(fd, NET_GRANTS_FILE, DOOR_POLICY_MAX, &grants, &grants_len);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "read the grants of '%s'", box);
	buf_init(&text, 3 * DOOR_POLICY_MAX);
	r = 0;
	for (rest = grants; r == 0 && (line = strsep(&rest, "\n"));)
		r = put_live(&text, line, clock_wall_ms());
	/* Grants for once are only in the door. One that does not run, or is of an older Cove, has
	 * none to tell; and a policy can be read without it. */
	if (tell(cove, &(struct door_verb){box, words, NULL, put_once, &text}, &said) < 0)
		log_debug("the grants for once of '%s': %s", box, said.msg);
	if (r == 0)
		r = buf_append_str(&text, policy);
	*ret = r == 0 ? strdup(buf_cstr(&text)) : NULL;
	buf_done(&text);
	return *ret ? 0 : err_errno(e, ENOMEM, "show the policy of '%s'", box);
}

int cove_policy_text(struct cove *cove, const char *box, const char *preset, char **ret_text,
		     struct cove_error *err)
{
	char policy[NET_NAME_MAX] = "";
	struct err e = {0};
	size_t len;
	int r = box || preset ? 0 : net_default(&cove->state, policy, &e);

	if (box)
		r = box_text(cove, box, ret_text, &e);
	else if (r == 0 && !preset && strcmp(policy, "file") == 0)
		r = net_default_text(&cove->state, ret_text, &len, &e);
	else if (r == 0)
		r = net_preset_text(cove, preset ? preset : policy, ret_text, &e);
	return core_return(cove, box, r, &e, err);
}

static int apply(struct cove *cove, const char *box, const char *net, const char *by,
		 uint64_t *ret_cut, struct err *e)
{
	char reason[80] = "sha256:";
	struct audit_row row = {.kind = "policy", .verdict = "allow", .reason = reason, .by = by};
	const char *words[] = {"reload", "policy", NULL, NULL};
	struct net_choice choice;
	char owner[KEY_ID_SIZE];
	autoclose int fd = -1;
	int r = open_networked(cove, box, owner, &fd, e);

	if (r == 0)
		r = net_choose(cove, net, owner[0] ? owner : NULL, &choice, e);
	if (r < 0)
		return r;
	row.rule = words[2] = choice.text ? net : choice.policy;
	if (!choice.text) {
		r = net_preset_text(cove, choice.policy, &choice.text, e);
		choice.len = r == 0 ? strlen(choice.text) : 0;
	}
	if (r == 0)
		r = net_policy_write(&cove->state, fd, row.rule, choice.text, choice.len, e);
	if (r == 0)
		r = net_grants_clear(fd, e);
	if (r == 0)
		sha256_hex(choice.text, choice.len, reason + strlen(reason));
	if (r == 0)
		r = reload(cove, box, words, &row, ret_cut, e);
	net_choice_done(&choice);
	return r;
}

int cove_policy_apply(struct cove *cove, const char *box, const char *net, const char *by,
		      uint64_t *ret_cut, struct cove_error *err)
{
	uint64_t cut = 0;
	struct err e = {0};
	int r = apply(cove, box, net ? net : "balanced", by ? by : "cove policy apply", &cut, &e);

	if (ret_cut)
		*ret_cut = cut;
	return core_return(cove, box, r, &e, err);
}

int cove_policy_set_default(struct cove *cove, const char *net, struct cove_error *err)
{
	struct net_choice choice;
	struct err e = {0};
	int r = net_choose(cove, net ? net : "balanced", NULL, &choice, &e);

	if (r == 0) {
		r = state_make(&cove->state, &e);
		if (r == 0)
			r = net_set_default(&cove->state, choice.policy, choice.text, choice.len,
					    &e);
		net_choice_done(&choice);
	}
	return core_return(cove, NULL, r, &e, err);
}

static int grant(struct cove *cove, const char *box, const struct cove_grant *g, uint64_t *ret_cut,
		 struct err *e)
{
	char time[24], reason[48];
	const char *words[] = {g->once ? "once" : "reload",
			       g->allow ? "allow" : "deny",
			       g->pattern,
			       g->for_ms ? "for" : NULL,
			       time,
			       NULL};
	struct audit_row row = {.kind = "grant",
				.host = g->pattern,
				.verdict = words[1],
				.reason = g->for_ms ? reason : NULL,
				.by = g->by};
	uint64_t now = clock_wall_ms();
	struct net_grant fresh = {.allow = g->allow,
				  .pattern = g->pattern,
				  .until_ms = g->for_ms ? now + g->for_ms : 0};
	autoclose int fd = -1;
	int r = open_networked(cove, box, NULL, &fd, e);

	if (r == 0)
		r = net_check_pattern(cove, g->allow, g->pattern, e);
	if (r < 0)
		return r;
	snprintf(time, sizeof(time), "%" PRIu64, g->for_ms);
	snprintf(reason, sizeof(reason), "for %" PRIu64 " s", g->for_ms / 1000);
	if (g->once) {
		words[3] = NULL;
		return tell_running(cove, &(struct door_verb){box, words, g->by, take_cut, ret_cut},
				    e);
	}
	r = net_grant_add(&cove->state, fd, &fresh, now, e);
	return r < 0 ? r : reload(cove, box, words, &row, ret_cut, e);
}

int cove_grant(struct cove *cove, const char *box, const struct cove_grant *given,
	       uint64_t *ret_cut, struct cove_error *err)
{
	struct cove_grant g;
	uint64_t cut = 0;
	struct err e = {0};
	int r = core_copy_sized(&g, sizeof(g), given, &e);

	if (r == 0)
		r = grant(cove, box, &g, &cut, &e);
	if (ret_cut)
		*ret_cut = cut;
	return core_return(cove, box, r, &e, err);
}

struct listing {
	bool names_box;
	cove_on_ask *on_ask;
	void *arg;
};

/* 1 stops. */
static int on_ask(void *arg, const char *box, const struct wire_frame *f)
{
	struct listing *l = arg;
	struct wire_ask m;
	struct cove_ask ask;

	if (wire_ask_decode(f, &m) < 0 || !m.host)
		return -EBADMSG;
	ask = (struct cove_ask){.box = l->names_box ? box : NULL,
				.id = m.id,
				.host = m.host,
				.port = m.port,
				.method = m.method,
				.path = m.path,
				.query = m.query,
				.rule = m.rule,
				.exec_id = m.exec_id,
				.since_ms = m.since_ms,
				.left_ms = m.left_ms,
				.requests = m.requests};
	return !l->on_ask || l->on_ask(l->arg, &ask) ? 0 : 1;
}

int cove_asks(struct cove *cove, const char *box, cove_on_ask *on_shown, void *arg,
	      struct cove_error *err)
{
	static const char *const words[] = {"asks", NULL};
	struct listing listing = {.names_box = true, .on_ask = on_shown, .arg = arg};
	const struct door_verb verb = {box, words, NULL, on_ask, &listing};
	struct err e = {0};
	int r = box ? tell_running(cove, &verb, &e) : tell(cove, &verb, &e);

	return core_return(cove, box, r, &e, err);
}

int cove_answer(struct cove *cove, const char *box, const struct cove_answer *given,
		cove_on_ask *on_scope, void *arg, struct cove_error *err)
{
	struct listing scope = {.on_ask = on_scope, .arg = arg};
	char number[24], time[24];
	struct cove_answer a = {0};
	struct err e = {0};
	int r = core_copy_sized(&a, sizeof(a), given, &e);
	const char *words[] = {
		"answer", number, a.allow ? "allow" : "deny", a.for_ms ? "for" : NULL, time, NULL};

	snprintf(number, sizeof(number), "%" PRIu64, a.id);
	snprintf(time, sizeof(time), "%" PRIu64, a.for_ms);
	if (r == 0)
		r = tell_running(cove, &(struct door_verb){box, words, a.by, on_ask, &scope}, &e);
	return core_return(cove, box, r, &e, err);
}
