/*
 * The proxy's life; see door.h.
 *
 * Set-up, in this order, because each step needs what the later ones take away: the configuration;
 * no core dumps and no tracing; the broker, which is forked; the host's certificates, the box's
 * authority and the resolver's files, which are read; the policy, from the broker; then the door
 * confines itself and says HELLO. Frames that came meanwhile wait in the socket.
 *
 * It ends when the keeper's link closes or the broker is gone. Either way every connection is cut.
 */
#include "door/door.h"

#include "base/clock.h"
#include "base/coredump.h"
#include "base/fd.h"
#include "base/limits.h"
#include "door/ask.h"
#include "door/confine.h"
#include "filter/filter.h"
#include "store/net.h"
#include "wire/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { CA_BYTES_MAX = 64 << 10 };

/* ---- limits of the whole box ---- */

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

uint64_t door_bytes_max(const struct door *d)
{
	return lower(d->config.bytes_max, policy_limits(d->policy)->bytes);
}

uint64_t door_conns_max(const struct door *d)
{
	return lower(d->config.conns_max, policy_limits(d->policy)->connections);
}

/* How long the broker may not know of bytes that were counted. */
enum { USED_MS = 250 };

void door_say_used(struct door *d)
{
	uint64_t bytes = d->bytes_up + d->bytes_down;
	struct buf text;

	ev_timer_stop(d->ev, &d->used);
	do {
		buf_init(&text, BROKER_USED_MAX);
		if (bytes > d->said_bytes && door_bytes_max(d) > 0 &&
		    buf_printf(&text, "0 %llu 0 \n", (unsigned long long)bytes) == 0)
			d->said_bytes = bytes;
		ledger_report(&d->ledger, &text);
		if (buf_len(&text) > 0)
			broker_say_used(d->broker, (const char *)buf_data(&text), buf_len(&text));
		/* What did not fit is said next. */
		bytes = buf_len(&text);
		buf_done(&text);
	} while (bytes > BROKER_USED_MAX / 2);
}

static void on_used(struct ev_timer *t)
{
	door_say_used(container(t, struct door, used));
}

void door_decide(const struct door *d, const struct subject *s, struct verdict *ret)
{
	decision_make(d->policy, d->grants, s, clock_wall_ms(), ret);
}

bool door_take(struct door *d, const struct rule *r)
{
	bool has_one =
		!r || (ledger_take(&d->ledger, r, clock_wall_ms()) && grants_spend(d->grants, r));

	/* Before what it was taken for: a door that dies then has still used it. */
	if (has_one && r && r->rate_count)
		door_say_used(d);
	return has_one;
}

void door_give_back(struct door *d, const struct rule *r)
{
	ledger_give_back(&d->ledger, r);
	grants_give_back(d->grants, r);
}

bool door_count(struct door *d, const struct rule *r, uint64_t up, uint64_t down)
{
	uint64_t max = door_bytes_max(d);
	bool fits = !r || ledger_count(&d->ledger, r, up, down);

	d->bytes_up += up;
	d->bytes_down += down;
	if (!d->used.armed && (max > 0 || (r && (r->bytes_up || r->bytes_down)))) {
		d->used.on_timer = on_used;
		ev_timer_set(d->ev, &d->used, USED_MS);
	}
	return fits && (max == 0 || d->bytes_up + d->bytes_down <= max);
}

uint64_t door_room(const struct door *d, const struct rule *r, bool is_up)
{
	uint64_t max = door_bytes_max(d), used = d->bytes_up + d->bytes_down;
	uint64_t room = r ? ledger_room(&d->ledger, r, is_up) : UINT64_MAX;
	uint64_t left = used < max ? max - used : 0;

	return max > 0 && left < room ? left : room;
}

/* ---- frames ---- */

void door_reply(struct door *d, uint32_t id, int r, const struct err *e)
{
	struct wire_error m = {.kind = e->kind, .code = (uint64_t)e->code, .msg = e->msg};

	if (r >= 0)
		wire_link_send(&d->keeper, WIRE_OK, 0, id, NULL, 0);
	else if (wire_error_encode(&d->keeper.out, id, 0, &m) == 0)
		wire_link_flush(&d->keeper);
}

static bool is_box_id(uint32_t id)
{
	return (id & ~(WIRE_NET_BIT - 1)) == WIRE_NET_BIT;
}

bool door_frame(struct door *d, const struct wire_frame *f)
{
	struct wire_connect connect;
	struct wire_name name;
	struct wire_door verb;

	switch (f->type) {
	case WIRE_HELLO:
		return true;
	case WIRE_NAME:
		if (!is_box_id(f->id) || wire_name_decode(f, &name) < 0)
			return false;
		name_start(d, f->id, &name);
		return true;
	case WIRE_CONNECT:
		if (!is_box_id(f->id) || wire_connect_decode(f, &connect) < 0 ||
		    exchange_has(&d->exchange, f->id))
			return false;
		door_conn_start(d, f->id, &connect);
		return true;
	case WIRE_DOOR:
		if (is_box_id(f->id) || wire_door_decode(f, &verb) < 0)
			return false;
		control_start(d, f->id, &verb);
		return true;
	case WIRE_CANCEL:
		/* What is over already may still be given up. */
		if (!exchange_frame(&d->exchange, f))
			(void)name_cancel(d, f->id);
		return true;
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_CREDIT:
		(void)exchange_frame(&d->exchange, f);
		return true;
	default:
		wire_link_flush(&d->keeper);
		return !wire_type_is_known(f->type) && wire_unknown_encode(&d->keeper.out, f) == 0;
	}
}

/* Whoever asks without taking the answers is not listened to until he does; nor is he while there
 * is more to write down than the broker can. */
static bool may_listen(struct door *d)
{
	return !broker_is_busy(d->broker) && wire_link_queued(&d->keeper) <= 2 * DOOR_LINK_QUEUE;
}

static void listen_again(void *arg)
{
	struct door *d = arg;

	if (d->is_open && may_listen(d))
		wire_link_pause(&d->keeper, false);
}

static void on_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct door *d = container(l, struct door, keeper);

	if (!door_frame(d, f))
		ev_quit(d->ev);
	if (!may_listen(d))
		wire_link_pause(l, true);
}

static void on_close(struct wire_link *l, int error)
{
	ev_quit(container(l, struct door, keeper)->ev);
}

static void on_drained(struct wire_link *l)
{
	struct door *d = container(l, struct door, keeper);

	listen_again(d);
	exchange_drained(&d->exchange);
}

/* ---- set-up ---- */

static void say_error(struct door *d, const struct err *e)
{
	fprintf(stderr, "cove-door: %s\n", e->msg);
	if (d->keeper.ev)
		door_reply(d, 0, -EIO, e);
}

/* The policy is there, or is closed: nothing is needed from the host any more. */
static void on_policy(struct door *d, void *arg, struct err *trouble)
{
	struct wire_hello m = wire_hello_ours();
	struct err e = {0};
	int r = confine_door(&e);

	if (r < 0) {
		say_error(d, &e);
		d->failed = true;
		ev_quit(d->ev);
		return;
	}
	m.pid = (uint64_t)getpid();
	m.name = d->config.box;
	m.notes = r > 0 ? e.msg : NULL;
	if (wire_hello_encode(&d->keeper.out, 0, 0, &m) < 0)
		ev_quit(d->ev);
	d->is_open = true;
	wire_link_pause(&d->keeper, false);
	wire_link_flush(&d->keeper);
}

static void on_broker_gone(void *arg)
{
	struct door *d = arg;

	/* Nothing passes unrecorded. */
	d->failed = true;
	ev_quit(d->ev);
}

static void on_signal(struct ev_signals *s, int sig)
{
	ev_quit(container(s, struct door, signals)->ev);
}

static int open_tls(struct door *d, struct err *e)
{
	char path[BOX_PATH_MAX];
	char *pem = NULL;
	size_t len = 0;
	int r;

	if (!d->config.ca)
		return tls_new(&d->tls, NULL, e);
	if (snprintf(path, sizeof(path), "%s/" NET_USED_DIR "/%s", d->config.home, d->config.ca) >=
	    (int)sizeof(path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the state directory's path");
	r = fd_read_file(AT_FDCWD, path, CA_BYTES_MAX, &pem, &len);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "read the box's certificate authority");
	r = tls_new(&d->tls, pem, e);
	if (pem)
		explicit_bzero(pem, len);
	free(pem);
	return r;
}

static int door_open(struct door *d, struct err *e)
{
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	r = door_config_read(&d->config, DOOR_CONFIG_FD, e);
	if (r < 0)
		return r;
	close(DOOR_CONFIG_FD);
	d->bytes_up = d->config.bytes_used;
	tcp_room_init(&d->tcp_room);
	/* Where the limit cannot be raised to 1, not being dumpable is what holds. Leaks are looked
	 * for by a process that traces this one. */
	r = coredump_off();
	if (r < 0 && r != -EPERM)
		return err_errno(e, -r, "make the door safe to hold secrets");
	if ((!FILTER_IS_SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return err_errno(e, errno, "make the door safe to hold secrets");
	r = broker_start(&d->broker, d->ev, &d->config, e);
	if (r < 0)
		return r;
	broker_watch(d->broker, on_broker_gone, listen_again, d);
	d->signals.on_signal = on_signal;
	r = ev_signals_add(d->ev, &d->signals, &set);
	if (r < 0)
		return err_errno(e, -r, "watch for signals");
	r = open_tls(d, e);
	if (r == 0)
		r = resolver_new(&d->resolver, d->ev, e);
	if (r == 0 && addr_own_load() < 0)
		r = err_set(e, ERR_INTERNAL, EIO, "read the host's own addresses");
	return r;
}

int door_run(void)
{
	static struct door door;
	struct door *d = &door;
	struct err e = {0};
	int r = ev_new(&d->ev);

	if (r < 0)
		return 1;
	d->policy = policy_closed();
	d->keeper.on_frame = on_frame;
	d->keeper.on_close = on_close;
	d->keeper.on_drained = on_drained;
	r = wire_link_init(&d->keeper, d->ev, DOOR_LINK_FD, DOOR_LINK_FD);
	if (r < 0) {
		err_errno(&e, -r, "the keeper's link");
	} else {
		wire_link_pause(&d->keeper, true);
		exchange_init(&d->exchange, d->ev, &d->keeper);
		r = door_open(d, &e);
	}
	if (r == 0) {
		door_reload(d, &(struct policy_change){0}, on_policy, NULL);
		r = ev_run(d->ev);
	} else {
		say_error(d, &e);
	}
	d->failed = d->failed || r < 0;
	d->ending = true;
	door_conns_free(d);
	names_free(d);
	asks_free(d);
	if (d->broker) {
		reloads_free(d);
		door_say_used(d);
	}
	/* The rows come first: whoever waits for the end of the door waits for them. */
	broker_free(take_ptr(d->broker));
	exchange_done(&d->exchange);
	resolver_free(d->resolver);
	tls_free(d->tls);
	policy_free(d->policy);
	grants_free(d->grants);
	ledger_done(&d->ledger);
	/* What was queued last, an ERROR perhaps, is pushed without waiting. */
	if (d->keeper.ev)
		wire_link_push(&d->keeper);
	wire_link_done(&d->keeper);
	ev_signals_remove(d->ev, &d->signals);
	ev_free(d->ev);
	door_config_done(&d->config);
	return d->failed;
}
