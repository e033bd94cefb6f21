/*
 * Dialling; see dial.h.
 *
 *	start -> resolve -> check each address -> connect -> on_done
 *	                                          |   ^
 *	                                          +---+ the next one, where one failed
 *
 * An address is put into its one form before it is checked (an IPv4-mapped one is the IPv4
 * address), and that form is dialled. A deny rule that names an address or a network also holds for
 * the names that lead there. host.cove.internal is never resolved: a rule that names it lets it be
 * this host's loopback, and no answer of a resolver can make it another address. An address is
 * checked again right before it is dialled and when it is connected, since rules change meanwhile.
 */
#include "door/dial.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "net/channel_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_FRESH_MS = 1000 };

static const char denied[] = "an address that a rule denies";

/* *ret_rule: the one that denies it, or NULL. */
static const char *refused_by(struct door *door, const struct host *address, uint16_t port,
			      bool private, const struct rule **ret_rule)
{
	uint64_t now = ev_now(door->ev);
	struct verdict v;

	door_decide(door, &(struct subject){SUBJECT_CONNECTION, address, port, NULL}, &v);
	*ret_rule = v.action == ACTION_DENY ? v.rule : NULL;
	/* Without a rule it only means that none is about addresses. */
	if (*ret_rule)
		return denied;
	if (private)
		return NULL;
	if (door->own_ms == 0 || now - door->own_ms >= OWN_FRESH_MS) {
		if (addr_own_load() < 0)
			return "an address that cannot be compared with the host's own";
		door->own_ms = now;
	}
	return addr_refused(address->family, address->addr);
}

const char *dial_refused(struct door *door, const struct host *address, uint16_t port, bool private)
{
	const struct rule *rule;

	return refused_by(door, address, port, private, &rule);
}

bool dial_may_be_private(const struct rule *rule, const struct host *host)
{
	return rule && (rule->private || host_is_loopback_name(host));
}

static void finish(struct dial *d, struct channel *up)
{
	ev_timer_stop(d->door->ev, &d->timer);
	if (up)
		channel_want(up, 0);
	d->on_done(d, up, &d->error);
}

static void on_up(struct channel *c, unsigned what);

/* Of the address that is being tried: the policy may have changed since all were checked. */
static bool is_refused_now(struct dial *d)
{
	const char *why = dial_refused(d->door, &d->addrs[d->next - 1], d->port, d->private);

	if (why) {
		d->why = why == denied ? DENIAL_RULE : denial_of_address(why);
		err_set(&d->error, ERR_DENIED, EACCES, "%s %s %s", d->host.text,
			d->host.is_address ? "is" : "leads to", why);
	}
	return why;
}

/* Begins with the next address that can be begun with. */
static void try_next(struct dial *d)
{
	while (d->next < d->count) {
		const struct host *a = &d->addrs[d->next++];
		int r;

		str_copy(d->address, sizeof(d->address), a->text);
		if (is_refused_now(d))
			continue;
		r = channel_tcp_connect(&d->up, d->door->ev, &d->door->tcp_room,
					&(struct tcp_address){a->family, a->addr, d->port});
		if (r == 0) {
			d->up->owner = d;
			d->up->on_ready = on_up;
			channel_want(d->up, CHANNEL_OUT);
			ev_timer_set(d->door->ev, &d->timer,
				     d->next < d->count ? DOOR_TRY_MS : DOOR_CONNECT_MS);
			return;
		}
		d->up = NULL;
		err_errno(&d->error, -r, "connect to %s port %u", d->host.text, d->port);
	}
	finish(d, NULL);
}

static void on_up(struct channel *c, unsigned what)
{
	struct dial *d = c->owner;
	int r = channel_tcp_result(c);

	if (r == -EINPROGRESS)
		return;
	d->up = NULL;
	if (r == 0 && !is_refused_now(d)) {
		finish(d, c);
		return;
	}
	channel_free(c, true);
	if (r < 0)
		err_errno(&d->error, -r, "connect to %s port %u", d->host.text, d->port);
	try_next(d);
}

static void on_timer(struct ev_timer *t)
{
	struct dial *d = container(t, struct dial, timer);

	resolve_cancel(&d->resolve);
	channel_free(take_ptr(d->up), true);
	err_set(&d->error, ERR_TIMEOUT, ETIMEDOUT,
		"%s port %u did not accept a connection within %u s", d->host.text, d->port,
		DOOR_CONNECT_MS / 1000);
	try_next(d);
}

/* Keeps the addresses that may be dialled; the first that may not is the reason if none may. */
static void take_addresses(struct dial *d, const struct resolved *addrs, size_t count)
{
	const struct rule *once = NULL, *rule = NULL;
	const char *why = NULL;

	d->addrs = calloc(count, sizeof(*d->addrs));
	for (size_t i = 0; i < count && d->addrs; i++) {
		struct host *a = &d->addrs[d->count];
		char text[INET6_ADDRSTRLEN];
		const char *refused = "not an address";

		if (inet_ntop(addrs[i].family, addrs[i].addr, text, sizeof(text)) &&
		    host_parse(a, text) == 0)
			refused = refused_by(d->door, a, d->port, d->private, &rule);
		if (!refused)
			d->count++;
		else if (!why)
			why = refused;
		if (rule && rule->once)
			once = rule;
	}
	/* It is used up by the whole connection, not by one of its addresses. */
	if (once && d->count == 0)
		(void)door_take(d->door, once);
	if (!d->addrs)
		err_set(&d->error, ERR_FULL, ENOMEM, "no memory for addresses of %s", d->host.text);
	d->why = why == denied ? DENIAL_RULE : denial_of_address(why);
	if (d->addrs && d->count == 0)
		err_set(&d->error, ERR_DENIED, EACCES, "%s %s %s%s", d->host.text,
			d->host.is_address ? "is" : "leads to", why,
			why == denied ? "" : ", and no rule says 'private: true' for it");
}

static void on_resolved(struct resolve *q, int r, const struct resolved *addrs, size_t count)
{
	struct dial *d = container(q, struct dial, resolve);

	if (r == 0 && count > 0)
		take_addresses(d, addrs, count);
	else if (r == 0 || r == -ENOENT)
		err_set(&d->error, ERR_NOT_FOUND, ENOENT, "no such name: %s", d->host.text);
	else
		err_errno(&d->error, -r, "resolve %s", d->host.text);
	try_next(d);
}

bool name_pay(struct door *d, const struct rule *r, const struct host *h, bool takes_rate,
	      struct err *e)
{
	size_t len = strlen(h->text);

	if (host_is_loopback_name(h) || resolver_knows(d->resolver, h))
		return true;
	if (door_room(d, r, true) < len) {
		err_set(e, ERR_LIMIT, EDQUOT, "%.120s: a byte budget is used up", h->text);
		return false;
	}
	if (takes_rate && r && !ledger_take_name(&d->ledger, r, clock_wall_ms())) {
		err_set(e, ERR_LIMIT, EDQUOT, "%.120s: the rate of '%.40s' is used up", h->text,
			r->name);
		return false;
	}
	(void)door_count(d, r, len, 0);
	if (takes_rate && r && r->rate_count)
		door_say_used(d);
	return true;
}

static void on_step(struct ev_defer *s)
{
	struct dial *d = container(s, struct dial, step);
	static const struct resolved loopback[] = {{.family = AF_INET, .addr = {127, 0, 0, 1}},
						   {.family = AF_INET6, .addr = {[15] = 1}}};
	struct resolved self = {.family = d->host.family};
	int r;

	if (d->error.kind != ERR_NONE) {
		finish(d, NULL);
		return;
	}
	if (d->host.is_address) {
		memcpy(self.addr, d->host.addr, sizeof(self.addr));
		on_resolved(&d->resolve, 0, &self, 1);
		return;
	}
	if (host_is_loopback_name(&d->host)) {
		on_resolved(&d->resolve, 0, loopback, sizeof(loopback) / sizeof(loopback[0]));
		return;
	}
	r = resolve_start(d->door->resolver, &d->resolve, &d->host);
	if (r == 0)
		return;
	err_errno(&d->error, -r, "resolve %s", d->host.text);
	finish(d, NULL);
}

void dial_init(struct dial *d, struct door *door)
{
	*d = (struct dial){.door = door};
	d->resolve.on_done = on_resolved;
	d->timer.on_timer = on_timer;
	d->step.on_defer = on_step;
}

void dial_start(struct dial *d, const struct host *host, uint16_t port, const struct rule *rule)
{
	dial_done(d);
	d->host = *host;
	d->port = port;
	d->private = dial_may_be_private(rule, host);
	d->error = (struct err){0};
	d->address[0] = 0;
	/* A box that resolved the name itself has paid for it; through a proxy it did not. */
	(void)name_pay(d->door, rule, host, false, &d->error);
	ev_timer_set(d->door->ev, &d->timer, DOOR_CONNECT_MS);
	ev_defer(d->door->ev, &d->step);
}

void dial_done(struct dial *d)
{
	if (!d->door)
		return;
	resolve_cancel(&d->resolve);
	ev_timer_stop(d->door->ev, &d->timer);
	ev_defer_cancel(d->door->ev, &d->step);
	channel_free(take_ptr(d->up), true);
	free(take_ptr(d->addrs));
	d->count = d->next = 0;
}
