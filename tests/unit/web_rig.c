/* A web between two sockets; see web_rig.h. */
#include "web_rig.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "net/channel_tcp.h"

#include <fcntl.h>
#include <sys/socket.h>

struct wr wr;

/* ---- the broker's double ---- */

struct broker {
	struct ev_defer defer;
	struct broker_call *first;
};

static struct broker the_broker;

static void broker_answer(struct ev_defer *d)
{
	struct broker_call *c = the_broker.first;
	struct err e = {0};

	if (!c || (wr.hold_secrets && c->secret.data))
		return;
	the_broker.first = c->next;
	if (c->id == 2)
		err_set(&e, ERR_NOT_FOUND, ENOENT, "there is no secret");
	if (c->id == 1 && wr.record_fails)
		err_set(&e, ERR_FULL, ENOSPC, "disk full");
	c->id = 0;
	if (the_broker.first)
		ev_defer(wr.door.ev, d);
	c->on_answer(c, e.kind ? -e.code : 0, &e);
}

static void broker_queue(struct broker_call *c, uint32_t id)
{
	struct broker_call **at = &the_broker.first;

	CHECK_EQ(c->id, 0);
	while (*at)
		at = &(*at)->next;
	c->id = id;
	c->next = NULL;
	*at = c;
	ev_defer(wr.door.ev, &the_broker.defer);
}

struct ev *broker_ev(const struct broker *k)
{
	return wr.door.ev;
}

void broker_ask_secret(struct broker *k, struct broker_call *c, const char *name)
{
	for (size_t i = 0; i < 4 && wr.secrets[i].name; i++) {
		const struct wr_secret *s = &wr.secrets[i];

		if (strcmp(s->name, name) == 0) {
			CHECK_EQ(secret_init(&c->secret, s->value,
					     s->len ? s->len : strlen(s->value)),
				 0);
			broker_queue(c, 3);
			return;
		}
	}
	broker_queue(c, 2);
}

static void copy(char *to, size_t size, const char *from)
{
	str_copy(to, size, from ? from : "");
}

void broker_record(struct broker *k, struct broker_call *c, const struct audit_row *row)
{
	struct wr_row *r = &wr.rows[wr.row_count];

	CHECK(wr.row_count < WR_ROWS);
	if (!wr.record_fails) {
		*r = (struct wr_row){.about = row->about,
				     .up = row->bytes_up,
				     .down = row->bytes_down,
				     .status = row->status};
		copy(r->kind, sizeof(r->kind), row->kind);
		copy(r->verdict, sizeof(r->verdict), row->verdict);
		copy(r->reason, sizeof(r->reason), row->reason);
		copy(r->credential, sizeof(r->credential), row->credential);
		copy(r->method, sizeof(r->method), row->method);
		copy(r->path, sizeof(r->path), row->path);
		copy(r->rule, sizeof(r->rule), row->rule);
		r->seq = ++wr.row_count;
	}
	if (!c)
		return;
	c->seq = wr.row_count;
	broker_queue(c, 1);
}

void broker_cancel(struct broker *k, struct broker_call *c)
{
	for (struct broker_call **at = &the_broker.first; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			secret_done(&c->secret);
			break;
		}
	c->id = 0;
}

void door_decide(const struct door *d, const struct subject *s, struct verdict *ret)
{
	decision_make(d->policy, d->grants, s, clock_wall_ms(), ret);
}

bool door_take(struct door *d, const struct rule *r)
{
	return !r || ledger_take(&d->ledger, r, clock_wall_ms());
}

bool door_count(struct door *d, const struct rule *r, uint64_t up, uint64_t down)
{
	d->bytes_up += up;
	d->bytes_down += down;
	return !r || ledger_count(&d->ledger, r, up, down);
}

uint64_t door_room(const struct door *d, const struct rule *r, bool is_up)
{
	return UINT64_MAX;
}

void door_say_used(struct door *d)
{
}

/* ---- channels ---- */

struct wire {
	struct channel channel;
	struct ev_io io;
	struct wr_end *end;
};

static struct wire *wire_of(struct channel *c)
{
	return container(c, struct wire, channel);
}

static size_t part(size_t n)
{
	return wr.chunk && n > wr.chunk ? wr.chunk : n;
}

static ssize_t wire_read(struct channel *c, void *p, size_t n)
{
	ssize_t r = recv(wire_of(c)->io.fd, p, part(n), MSG_DONTWAIT);

	if (r == 0 && wire_of(c)->end->break_end)
		return -ECONNRESET;
	return r < 0 ? -errno : r;
}

static ssize_t wire_write(struct channel *c, const void *p, size_t n)
{
	ssize_t r = send(wire_of(c)->io.fd, p, part(n), MSG_DONTWAIT | MSG_NOSIGNAL);
	struct wr_end *end = wire_of(c)->end;

	if (r >= 0 && end->write_count < WR_WRITES)
		end->writes[end->write_count++] = (size_t)r;
	return r < 0 ? -errno : r;
}

static int wire_finish(struct channel *c)
{
	return shutdown(wire_of(c)->io.fd, SHUT_WR) < 0 ? -errno : 0;
}

static void wire_want(struct channel *c, unsigned what)
{
	uint32_t events = (what & CHANNEL_IN ? EPOLLIN : 0) | (what & CHANNEL_OUT ? EPOLLOUT : 0);

	if (!what)
		ev_io_remove(wr.door.ev, &wire_of(c)->io);
	else if (!wire_of(c)->io.added)
		CHECK_EQ(ev_io_add(wr.door.ev, &wire_of(c)->io, events), 0);
	else
		CHECK_EQ(ev_io_set(wr.door.ev, &wire_of(c)->io, events), 0);
}

static void wire_free(struct channel *c, bool abort)
{
	struct wire *w = wire_of(c);

	*(abort ? &w->end->cut : &w->end->freed) = true;
	ev_io_remove(wr.door.ev, &w->io);
	close(w->io.fd);
	free(w);
}

static void wire_event(struct ev_io *io, uint32_t events)
{
	struct wire *w = container(io, struct wire, io);
	unsigned what = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_IN;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_OUT;
	what &= w->channel.wanted;
	w->end->turns++;
	if (what)
		w->channel.on_ready(&w->channel, what);
}

static struct channel *wire_new(struct wr_end *end)
{
	static const struct channel_ops ops = {.read = wire_read,
					       .write = wire_write,
					       .finish = wire_finish,
					       .want = wire_want,
					       .free = wire_free};
	struct wire *w = calloc(1, sizeof(*w));
	int pair[2];

	CHECK(w && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	*end = (struct wr_end){.fd = pair[0]};
	buf_init(&end->got, WR_GOT);
	w->channel.ops = &ops;
	w->io = (struct ev_io){.fd = pair[1], .on_event = wire_event};
	w->end = end;
	return &w->channel;
}

/* ---- the resolver's double, and an upstream's socket and TLS ---- */

static struct ev_defer lookup_later;
static struct resolve *lookup;

static void on_lookup(struct ev_defer *d)
{
	static const uint8_t public[4] = {93, 184, 216, 34}, none[4];
	struct resolved to = {.family = AF_INET};

	memcpy(to.addr, memcmp(wr.address, none, 4) ? wr.address : public, 4);
	lookup->on_done(lookup, 0, &to, 1);
}

bool resolver_knows(struct resolver *r, const struct host *name)
{
	return true;
}

int resolve_start(struct resolver *r, struct resolve *q, const struct host *name)
{
	wr.dials++;
	lookup = q;
	ev_defer(wr.door.ev, &lookup_later);
	return 0;
}

void resolve_cancel(struct resolve *q)
{
	ev_defer_cancel(wr.door.ev, &lookup_later);
}

int channel_tcp_connect(struct channel **ret, struct ev *ev, struct tcp_room *room,
			const struct tcp_address *to)
{
	if (wr.connect_error)
		return -wr.connect_error;
	CHECK(wr.up_count < WR_UPS);
	*ret = wire_new(&wr.ups[wr.up_count++]);
	return 0;
}

int channel_tcp_result(struct channel *c)
{
	return 0;
}

struct channel *channel_tls_connect(struct tls *t, struct ev *ev, struct channel *tcp,
				    const struct tls_upstream *to, struct err *e)
{
	wr.identity_cert = to->id ? to->id->cert_pem : NULL;
	return tcp;
}

static void on_done(void *arg)
{
	CHECK(!wr.done);
	wr.done = true;
	web_free(wr.web);
	wr.web = NULL;
}

static uint64_t now(void *arg)
{
	return wr.now;
}

void wr_policy(const char *text)
{
	struct policy *fresh;
	struct err e;

	if (policy_parse(&fresh, "policy", text, strlen(text), &e) < 0)
		FAIL(e.msg);
	if (wr.web) {
		struct policy *old = wr.door.policy;

		wr.door.policy = fresh;
		if (!web_judge_again(wr.web)) {
			web_free(wr.web);
			wr.web = NULL;
		}
		policy_free(old);
		return;
	}
	policy_free(wr.door.policy);
	wr.door.policy = fresh;
}

void wr_open(const char *policy, const char *first)
{
	struct web_config c = {.door = &wr.door,
			       .port = 443,
			       .tls = !wr.plain,
			       .proxied = wr.proxied,
			       .up_address = "93.184.216.34",
			       .on_done = on_done};

	tap_state.at_end = wr_close;
	CHECK_EQ(host_parse(&c.host, "up.test"), 0);
	CHECK_EQ(ev_new(&wr.door.ev), 0);
	wr.now = 1000000;
	ev_set_clock(wr.door.ev, now, NULL);
	wr.door.config.box = "box";
	wr.door.broker = &the_broker;
	the_broker = (struct broker){.defer.on_defer = broker_answer};
	lookup_later = (struct ev_defer){.on_defer = on_lookup};
	wr_policy(policy);
	if (wr.has_up)
		c.up = wire_new(&wr.ups[wr.up_count++]);
	CHECK_EQ(web_new(&wr.web, &c, wire_new(&wr.box), first, first ? strlen(first) : 0, NULL),
		 0);
}

static void end_close(struct wr_end *end)
{
	if (end->fd >= 0)
		close(end->fd);
	buf_done(&end->got);
	end->fd = -1;
}

void wr_close(void)
{
	tap_state.at_end = NULL;
	web_free(wr.web);
	CHECK(!the_broker.first);
	end_close(&wr.box);
	for (unsigned i = 0; i < wr.up_count; i++)
		end_close(&wr.ups[i]);
	asks_free(&wr.door);
	policy_free(wr.door.policy);
	ledger_done(&wr.door.ledger);
	ev_free(wr.door.ev);
	wr = (struct wr){0};
}

/* ---- the test's side ---- */

static void on_moment(struct ev_timer *t)
{
	ev_quit(wr.door.ev);
}

static bool pull(struct wr_end *end)
{
	uint8_t *to;
	ssize_t n;

	if (end->fd < 0 || end->deaf || end->ended)
		return false;
	to = buf_reserve(&end->got, 65536);
	CHECK(to);
	n = recv(end->fd, to, 65536, MSG_DONTWAIT);
	end->ended = n == 0 || (n < 0 && errno != EAGAIN);
	if (n > 0)
		buf_commit(&end->got, (size_t)n);
	return n > 0 || end->ended;
}

static bool turn(void)
{
	struct ev_timer t = {.on_timer = on_moment};
	bool moved;

	ev_timer_set(wr.door.ev, &t, 0);
	CHECK_EQ(ev_run(wr.door.ev), 0);
	ev_timer_stop(wr.door.ev, &t);
	moved = pull(&wr.box);
	for (unsigned i = 0; i < wr.up_count; i++)
		moved |= pull(&wr.ups[i]);
	return moved;
}

void wr_settle(void)
{
	for (unsigned quiet = 0; quiet < 16;)
		quiet = turn() ? 0 : quiet + 1;
}

static void says(struct wr_end *end, const void *p, size_t n)
{
	const uint8_t *at = p;

	for (unsigned tries = 0; n > 0; tries++) {
		ssize_t r = send(end->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r < 0 && errno == EPIPE)
			return;
		CHECK(tries < 1000000 && (r > 0 || errno == EAGAIN));
		if (r > 0) {
			at += r;
			n -= (size_t)r;
		}
		turn();
	}
}

void box_says_bytes(const void *p, size_t n)
{
	says(&wr.box, p, n);
}

void box_says(const char *text)
{
	says(&wr.box, text, strlen(text));
}

void up_says_bytes(unsigned i, const void *p, size_t n)
{
	CHECK(i < wr.up_count);
	says(&wr.ups[i], p, n);
}

void up_says(unsigned i, const char *text)
{
	up_says_bytes(i, text, strlen(text));
}

void box_ends(void)
{
	shutdown(wr.box.fd, SHUT_WR);
}

void up_ends(unsigned i)
{
	shutdown(wr.ups[i].fd, SHUT_WR);
}

static const char *hears(struct wr_end *end)
{
	static char *text;

	wr_settle();
	free(text);
	text = strndup((const char *)buf_data(&end->got), buf_len(&end->got));
	CHECK(text);
	buf_clear(&end->got);
	return text;
}

const char *box_hears(void)
{
	return hears(&wr.box);
}

const char *up_hears(unsigned i)
{
	wr_settle();
	CHECK(i < wr.up_count);
	return hears(&wr.ups[i]);
}

const struct wr_row *wr_row(const char *kind, const char *verdict)
{
	for (unsigned i = wr.row_count; i > 0; i--)
		if (strcmp(wr.rows[i - 1].kind, kind) == 0 &&
		    strcmp(wr.rows[i - 1].verdict, verdict) == 0)
			return &wr.rows[i - 1];
	return NULL;
}

unsigned wr_rows(const char *kind, const char *verdict)
{
	unsigned n = 0;

	for (unsigned i = 0; i < wr.row_count; i++)
		n += strcmp(wr.rows[i].kind, kind) == 0 && strcmp(wr.rows[i].verdict, verdict) == 0;
	return n;
}
