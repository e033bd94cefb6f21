/*
 * The keeper's side of the door; see door.h.
 *
 *	off ---init asks, or a client's change---> starting ---HELLO---> up
 *	 ^                                            |                   |
 *	 +--- no door, no HELLO in DOOR_START_MS -----+                   |
 *	 +--- its link ended, it broke a rule, it took nothing -----------+
 *
 * On the way back to off every stream of the door's ends (relay.h). A door that could not be
 * started is tried again by the first request after KEEPER_DOOR_RETRY_MS, so that a box cannot keep
 * the host busy with starting it.
 *
 * When the box ends the link is closed, which makes the door write its last audit rows and end. The
 * end of the box is not reported before the rows are in the log: until the door has exited or,
 * where it was killed and its broker goes on by itself, until the launcher is gone.
 */
#include "keeper/door.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "keeper/exec.h"
#include "keeper/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum keeper_door_state { DOOR_OFF, DOOR_STARTING, DOOR_UP, DOOR_STATE_COUNT };

struct keeper_door {
	struct keeper *k;
	const char *policy; /* borrowed */
	int launcher_fd;    /* owned; -1 when it is gone */
	struct ev_io launcher;
	struct cgroup_meter meter; /* what all doors used */
	enum keeper_door_state state;
	struct wire_link link;
	bool linked;
	struct buf waiting; /* frames for a door that is not up yet */
	struct keeper_gate gate;
	struct ev_timer timer; /* starting: for HELLO; ending: for its rows */
	uint32_t start_number; /* of the last start; 0: there was none */
	uint64_t retry_ms;     /* ev_now: no new start before */
	struct err failure;    /* of the last start */
	uint32_t ended_number; /* the start whose end the record has already */
	char why[80];	       /* why we ended it, for the journal */
	bool has_rows;	       /* a door may have audit rows that are not written yet */
	bool is_ending;
	void (*on_over)(struct keeper *k); /* NULL: nothing is waited for */
};

static void door_event(struct keeper_door *d, const char *cause)
{
	struct event ev = {
		.kind = EVENT_DOOR, .at_ms = clock_wall_ms(), .box = d->k->name, .cause = cause};

	keeper_event(d->k, &ev);
}

/* ---- the end of a door ---- */

/* Everything that went through it, or waited for it, ends with this reason. */
static void become_off(struct keeper_door *d, const struct err *e)
{
	d->state = DOOR_OFF;
	ev_timer_stop(d->k->ev, &d->timer);
	if (d->linked)
		wire_link_done(&d->link);
	d->linked = d->gate.paused_by_init = false;
	buf_done(&d->waiting);
	buf_init(&d->waiting, WIRE_OUT_MAX);
	keeper_relays_end(d->k, PARTY_DOOR, e);
	keeper_gate_resume_init(&d->gate);
}

/* The keeper's own decision; the record says why when the launcher has it reaped. */
void keeper_door_kill(struct keeper_door *d, const char *why)
{
	struct err e;

	err_set(&e, ERR_INTERRUPTED, ECONNRESET, "the box's door was ended: %s", why);
	str_copy(d->why, sizeof(d->why), why);
	launcher_send(d->launcher_fd, &(struct launcher_msg){.type = LAUNCHER_KILL});
	become_off(d, &e);
}

static void fail_start(struct keeper_door *d, const struct err *e)
{
	struct err copy = *e;

	d->failure = copy;
	d->ended_number = d->start_number;
	d->retry_ms = ev_now(d->k->ev) + KEEPER_DOOR_RETRY_MS;
	door_event(d, copy.msg);
	launcher_send(d->launcher_fd, &(struct launcher_msg){.type = LAUNCHER_KILL});
	become_off(d, &copy);
}

/* ---- to the door ---- */

static size_t door_queued(const struct keeper_door *d)
{
	return d->state == DOOR_UP ? wire_link_queued(&d->link) : buf_len(&d->waiting);
}

void keeper_door_send(struct keeper_door *d, const struct wire_frame *f, uint32_t id)
{
	bool up = d->state == DOOR_UP;
	struct buf *out = up ? &d->link.out : &d->waiting;
	int r;

	if (up && f->type != WIRE_DATA)
		wire_link_write_lent(&d->link);
	r = up && f->type == WIRE_DATA
		    ? wire_link_pass(&d->link, &d->k->init, f)
		    : wire_encode(out, f->type, f->stream, id, f->payload, f->len);
	if (r < 0) {
		keeper_door_kill(d, "it took nothing");
		return;
	}
	if (up)
		wire_link_flush(&d->link);
	keeper_gate_pause_init(&d->gate, door_queued(d), KEEPER_DOOR_QUEUE);
}

/* Nothing of the door is left to wait for. */
static void be_over(struct keeper_door *d)
{
	void (*on_over)(struct keeper * k) = d->on_over;

	d->has_rows = false;
	d->on_over = NULL;
	ev_timer_stop(d->k->ev, &d->timer);
	if (on_over)
		on_over(d->k);
}

static void on_timer(struct ev_timer *t)
{
	struct keeper_door *d = container(t, struct keeper_door, timer);
	struct err e;

	if (d->is_ending) {
		be_over(d);
	} else if (d->state == DOOR_STARTING) {
		err_set(&e, ERR_TIMEOUT, ETIMEDOUT,
			"the box's door was not there within %u s of its start",
			DOOR_START_MS / 1000);
		fail_start(d, &e);
	}
}

/* One that is starting has a timer of its own. */
static void on_stalled(struct keeper_gate *g)
{
	struct keeper_door *d = container(g, struct keeper_door, gate);

	if (d->state == DOOR_UP)
		keeper_door_kill(d, "it took nothing");
}

static void on_drained(struct wire_link *l)
{
	struct keeper_door *d = container(l, struct keeper_door, link);

	if (d->state == DOOR_UP)
		keeper_gate_resume_init(&d->gate);
}

/* ---- from the door ---- */

/* Of a stream that init asked for: it has the same id on both links. */
void keeper_door_pass_to_init(struct keeper_door *d, const struct wire_frame *f)
{
	struct keeper *k = d->k;

	if (!k->linked)
		return;
	if (f->type != WIRE_DATA)
		wire_link_write_lent(&k->init);
	keeper_sent_init(k, f->type == WIRE_DATA ? wire_link_pass(&k->init, &d->link, f)
						 : wire_encode(&k->init.out, f->type, f->stream,
							       f->id, f->payload, f->len));
	if (d->linked)
		keeper_gate_pause_link(&d->gate);
}

void keeper_door_init_drained(struct keeper_door *d)
{
	keeper_gate_resume_link(&d->gate);
}

static void on_hello(struct keeper_door *d, const struct wire_frame *f)
{
	struct wire_peer peer;
	struct wire_hello m;
	struct err e;
	int r;

	if (f->type != WIRE_HELLO || wire_hello_decode(f, &m) < 0)
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "the box's door did not say HELLO");
	else
		r = wire_hello_agree(&m, "the box's door", "install Cove again", &peer, &e);
	if (r < 0) {
		fail_start(d, &e);
		return;
	}
	d->state = DOOR_UP;
	ev_timer_stop(d->k->ev, &d->timer);
	if (buf_append(&d->link.out, buf_data(&d->waiting), buf_len(&d->waiting)) < 0) {
		keeper_door_kill(d, "no memory");
		return;
	}
	buf_done(&d->waiting);
	buf_init(&d->waiting, WIRE_OUT_MAX);
	wire_link_flush(&d->link);
	keeper_gate_resume_init(&d->gate);
	keeper_gate_pause_init(&d->gate, door_queued(d), KEEPER_DOOR_QUEUE);
}

/* Its own reason: why it cannot start, or why it ends. */
static void on_reason(struct keeper_door *d, const struct wire_frame *f)
{
	struct wire_error m;
	struct err e = {0};

	if (wire_error_decode(f, &m) < 0) {
		keeper_door_kill(d, "it broke the protocol");
		return;
	}
	keeper_error_from_box(&m, &e);
	if (d->state == DOOR_STARTING) {
		fail_start(d, &e);
	} else {
		str_copy(d->why, sizeof(d->why), e.msg);
		become_off(d, &e);
	}
}

static void on_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct keeper_door *d = container(l, struct keeper_door, link);
	struct wire_denied denied;

	if (!wire_type_is_known(f->type))
		return; /* a newer door's */
	else if (f->type == WIRE_ERROR && f->id == 0)
		on_reason(d, f);
	else if (d->state == DOOR_STARTING)
		on_hello(d, f);
	else if (f->id & (KEEPER_REQUEST_BIT | WIRE_NET_BIT))
		keeper_relay_from_door(d->k, f);
	else if (f->type == WIRE_DENIED && f->id == 0 && wire_denied_decode(f, &denied) == 0)
		keeper_denied(d->k, &denied);
	else
		keeper_door_kill(d, "it broke the protocol");
}

static void on_close(struct wire_link *l, int error)
{
	struct keeper_door *d = container(l, struct keeper_door, link);
	struct err e;

	if (error == -EBADMSG) {
		keeper_door_kill(d, "it broke the protocol");
		return;
	}
	if (d->state == DOOR_STARTING) {
		err_set(&e, ERR_INTERNAL, ECONNRESET, "the box's door ended before it was ready");
		fail_start(d, &e);
	} else {
		err_set(&e, ERR_INTERRUPTED, ECONNRESET,
			"the box's door ended; the next request starts another");
		become_off(d, &e);
	}
}

/* ---- the launcher ---- */

static void tell_end(struct keeper_door *d, int status)
{
	char cause[120];

	if (d->why[0])
		snprintf(cause, sizeof(cause), "ended: %s", d->why);
	else if (WIFSIGNALED(status))
		snprintf(cause, sizeof(cause), "ended (signal %d)", WTERMSIG(status));
	else
		snprintf(cause, sizeof(cause), "ended (status %d)", WEXITSTATUS(status));
	d->why[0] = 0;
	door_event(d, cause);
}

static void launcher_gone(struct keeper_door *d)
{
	ev_io_remove(d->k->ev, &d->launcher);
	fd_close(&d->launcher_fd);
	if (d->state == DOOR_STARTING && !d->linked) {
		struct err e;

		err_set(&e, ERR_INTERNAL, EPIPE,
			"the box's launcher is gone: stop and start the box");
		fail_start(d, &e);
	}
	if (d->is_ending)
		be_over(d);
}

static void on_launcher(struct ev_io *io, uint32_t events)
{
	struct keeper_door *d = container(io, struct keeper_door, launcher);
	struct launcher_gift gift;
	struct launcher_msg n;
	int r = launcher_receive(d->launcher_fd, &n, &gift);
	struct err e = {0};
	bool is_now;

	if (r < 0)
		launcher_gone(d);
	if (r <= 0)
		return;
	is_now = d->state == DOOR_STARTING && !d->linked && n.number == d->start_number;
	/* A door that exits has waited for its rows; one that was killed has not. */
	if (n.type == LAUNCHER_STARTED)
		d->has_rows = true;
	else if (n.type == LAUNCHER_ENDED && WIFEXITED(n.status))
		d->has_rows = false;
	if (n.type == LAUNCHER_STARTED && is_now && gift.link >= 0) {
		cgroup_meter_done(&d->meter);
		d->meter = gift.meter;
		d->link = (struct wire_link){
			.on_frame = on_frame, .on_close = on_close, .on_drained = on_drained};
		r = wire_link_init(&d->link, d->k->ev, gift.link, gift.link);
		d->linked = true;
		if (r < 0) {
			err_errno(&e, -r, "watch the door's link");
			fail_start(d, &e);
		}
		return;
	}
	launcher_gift_done(&gift);
	if (n.type == LAUNCHER_FAILED && is_now) {
		err_set(&e, ERR_UNSUPPORTED, n.status, "%s", n.why);
		fail_start(d, &e);
	} else if (d->is_ending) {
		if (!d->has_rows)
			be_over(d);
	} else if (n.type == LAUNCHER_ENDED && n.number != d->ended_number) {
		tell_end(d, n.status);
	}
}

int keeper_door_ensure(struct keeper_door *d, struct err *e)
{
	struct launcher_msg n = {.type = LAUNCHER_START,
				 .bytes_used = d->k->relays.up_bytes + d->k->relays.down_bytes};

	if (d->state != DOOR_OFF)
		return 0;
	if (d->is_ending)
		return err_set(e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended", d->k->name);
	if (ev_now(d->k->ev) < d->retry_ms) {
		*e = d->failure;
		return -EAGAIN;
	}
	n.number = ++d->start_number;
	if (d->launcher_fd < 0 || launcher_send(d->launcher_fd, &n) < 0)
		return err_set(e, ERR_INTERNAL, EPIPE,
			       "the box's launcher is gone: stop and start the box");
	d->state = DOOR_STARTING;
	ev_timer_set(d->k->ev, &d->timer, DOOR_START_MS);
	return 0;
}

/* ---- control requests ---- */

/* What is true of a door that does not run is said without one. */
static bool answer_here(struct keeper_door *d, struct keeper_client *c, uint32_t id,
			const char *verb)
{
	const struct wire_door_status status = {.policy = d->policy,
						.bytes_up = d->k->relays.up_bytes,
						.bytes_down = d->k->relays.down_bytes};

	if (strcmp(verb, "status") == 0)
		keeper_client_sent(c, wire_door_status_encode(&c->link.out, id, 0, &status));
	else if (strcmp(verb, "reload") == 0)
		keeper_client_sent(c, wire_cut_encode(&c->link.out, id, 0, &(struct wire_cut){0}));
	else if (strcmp(verb, "asks") != 0)
		return false;
	keeper_client_send(c, WIRE_OK, 0, id, NULL, 0);
	return true;
}

void keeper_door_from_client(struct keeper_door *d, struct keeper_client *c,
			     const struct wire_frame *f)
{
	const char *verb;
	struct wire_door m;
	bool is_change;

	if (wire_door_decode(f, &m) < 0 || m.argv.count == 0) {
		keeper_client_break(c, "a malformed DOOR");
		return;
	}
	verb = m.argv.data;
	is_change = strcmp(verb, "once") == 0 || (strcmp(verb, "reload") == 0 && m.argv.count > 1);
	if (d->state == DOOR_OFF && !is_change && answer_here(d, c, f->id, verb))
		return;
	if (d->state == DOOR_OFF && !is_change)
		keeper_client_fail_with(c, f->id, ERR_NOT_FOUND,
					"nothing of box '%s' waits for an answer", c->k->name);
	else if (door_queued(d) > KEEPER_DOOR_QUEUE)
		keeper_client_fail_with(c, f->id, ERR_LIMIT, "the door of box '%s' is busy",
					c->k->name);
	else
		keeper_relay_ask(c, f);
}

/* ---- the whole ---- */

void keeper_door_stats(const struct keeper_door *d, struct wire_stats *m)
{
	m->net_up_bytes = d->k->relays.up_bytes;
	m->net_down_bytes = d->k->relays.down_bytes;
	m->net_conns = d->k->relays.count[RELAY_CONNECT];
	cgroup_meter_read(&d->meter, &m->door_mem_bytes, &m->door_cpu_us);
}

bool keeper_door_is_running(const struct keeper_door *d)
{
	return d->state == DOOR_UP;
}

int keeper_door_new(struct keeper_door **ret, struct keeper *k, const struct launcher_config *c,
		    struct err *e)
{
	struct keeper_door *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_errno(e, ENOMEM, "prepare the box's door");
	d->k = k;
	d->policy = c->door->policy;
	d->gate = (struct keeper_gate){.k = k, .link = &d->link, .on_stalled = on_stalled};
	d->timer.on_timer = on_timer;
	d->launcher_fd = -1;
	buf_init(&d->waiting, WIRE_OUT_MAX);
	d->meter = CGROUP_METER_NONE;
	r = launcher_start(c, &d->launcher_fd, e);
	if (r == 0) {
		d->launcher = (struct ev_io){.on_event = on_launcher, .fd = d->launcher_fd};
		r = ev_io_add(k->ev, &d->launcher, EPOLLIN);
		if (r < 0)
			err_errno(e, -r, "watch the launcher");
	}
	if (r < 0) {
		fd_close(&d->launcher_fd);
		free(d);
		return r;
	}
	k->door = d;
	*ret = d;
	return 0;
}

bool keeper_door_end(struct keeper_door *d, void (*on_over)(struct keeper *k))
{
	bool may_start = d->state == DOOR_STARTING;
	struct err e;

	if (d->is_ending)
		return !d->on_over;
	err_set(&e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended", d->k->name);
	become_off(d, &e);
	d->is_ending = true;
	if (launcher_send(d->launcher_fd, &(struct launcher_msg){.type = LAUNCHER_END}) < 0 ||
	    !(d->has_rows || may_start))
		return true;
	d->on_over = on_over;
	ev_timer_set(d->k->ev, &d->timer, KEEPER_DOOR_END_MS);
	return false;
}

void keeper_door_free(struct keeper_door *d)
{
	struct err e;

	err_set(&e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended", d->k->name);
	become_off(d, &e);
	if (d->launcher_fd >= 0)
		ev_io_remove(d->k->ev, &d->launcher);
	fd_close(&d->launcher_fd);
	cgroup_meter_done(&d->meter);
	buf_done(&d->waiting);
	d->k->door = NULL;
	free(d);
}
