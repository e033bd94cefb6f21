/* A door's proxy on a bench; see door_rig.h. */
#include "door_rig.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/policy_form.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct rig rig;

/* ---- the broker's double ---- */

struct broker {
	struct ev_defer defer;
	struct broker_call *first, **last;
};

static struct broker the_broker;

static void broker_answer(struct ev_defer *d)
{
	for (unsigned n = 64; n > 0 && the_broker.first; n--) {
		struct broker_call *c = the_broker.first;
		struct err e = {0};
		bool is_row = c->id == 1;

		the_broker.first = c->next;
		if (!the_broker.first)
			the_broker.last = &the_broker.first;
		c->id = 0;
		if (is_row && rig.record_fails)
			err_set(&e, ERR_FULL, ENOSPC, "disk full");
		c->on_answer(c, e.kind ? -ENOSPC : 0, &e);
	}
	if (the_broker.first)
		ev_defer(rig.door.ev, d);
}

static void broker_queue(struct broker_call *c, uint32_t id)
{
	c->id = id;
	c->next = NULL;
	*the_broker.last = c;
	the_broker.last = &c->next;
	ev_defer(rig.door.ev, &the_broker.defer);
}

void broker_free(struct broker *k)
{
}

bool broker_memory_is_locked(const struct broker *k)
{
	return true;
}

const struct err *broker_trouble(const struct broker *k)
{
	static const struct err none;

	return &none;
}

void broker_watch(struct broker *k, void (*on_gone)(void *arg), void (*on_room)(void *arg),
		  void *arg)
{
}

bool broker_is_busy(struct broker *k)
{
	return false;
}

int broker_start(struct broker **ret, struct ev *ev, const struct door_config *config,
		 struct err *e)
{
	the_broker = (struct broker){.defer.on_defer = broker_answer};
	the_broker.last = &the_broker.first;
	*ret = &the_broker;
	return 0;
}

static void give_text(struct broker_call *c, const char *text)
{
	c->text = strdup(text ? text : "");
	c->len = strlen(c->text);
}

void broker_ask(struct broker *k, struct broker_call *c, enum broker_verb verb)
{
	struct buf text;

	buf_init(&text, USED_TEXT_MAX);
	CHECK_EQ(used_write(&rig.used, &text), 0);
	give_text(c, verb == BROKER_POLICY   ? rig.policy
		     : verb == BROKER_GRANTS ? rig.grants
					     : buf_cstr(&text));
	buf_done(&text);
	broker_queue(c, 2);
}

void broker_say_used(struct broker *k, const char *text, size_t len)
{
	CHECK_EQ(used_add(&rig.used, text, len), 0);
}

void broker_ask_secret(struct broker *k, struct broker_call *c, const char *name)
{
	broker_queue(c, 3);
}

static void copy(char *to, size_t size, const char *from)
{
	str_copy(to, size, from ? from : "");
}

void broker_record(struct broker *k, struct broker_call *c, const struct audit_row *row)
{
	struct rig_row *r = &rig.rows[rig.row_count];

	CHECK(rig.row_count < RIG_ROWS_MAX);
	CHECK(row->kind && row->verdict);
	if (!rig.record_fails) {
		rig.row_count++;
		copy(r->kind, sizeof(r->kind), row->kind);
		copy(r->verdict, sizeof(r->verdict), row->verdict);
		copy(r->host, sizeof(r->host), row->host);
		copy(r->rule, sizeof(r->rule), row->rule);
		copy(r->reason, sizeof(r->reason), row->reason);
		copy(r->address, sizeof(r->address), row->address);
		copy(r->by, sizeof(r->by), row->by);
		r->seq = rig.row_count;
		r->about = row->about;
		r->port = row->port;
		r->up = row->bytes_up;
		r->down = row->bytes_down;
	}
	if (!c)
		return;
	c->seq = rig.row_count;
	broker_queue(c, 1);
}

void broker_cancel(struct broker *k, struct broker_call *c)
{
	for (struct broker_call **at = &the_broker.first; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	the_broker.last = &the_broker.first;
	while (*the_broker.last)
		the_broker.last = &(*the_broker.last)->next;
	c->id = 0;
}

/* ---- the resolver's double ---- */

struct lookup {
	struct ev_defer defer;
	struct resolve *q;
	bool is_nowhere;
};

static void lookup_done(struct ev_defer *d)
{
	struct lookup *l = container(d, struct lookup, defer);
	struct resolve *q = l->q;
	bool is_nowhere = l->is_nowhere;

	free(l);
	q->lookup = NULL;
	if (is_nowhere)
		q->on_done(q, -ENOENT, NULL, 0);
	else
		q->on_done(q, 0, rig.addrs, rig.addr_count);
}

int resolver_new(struct resolver **ret, struct ev *ev, struct err *e)
{
	*ret = NULL;
	return 0;
}

void resolver_use(struct resolver *r, const struct sockaddr_storage *server)
{
}

void resolver_free(struct resolver *r)
{
}

bool resolver_knows(struct resolver *r, const struct host *name)
{
	return name->is_address || rig.knows;
}

int resolve_start(struct resolver *r, struct resolve *q, const struct host *name)
{
	struct lookup *l = calloc(1, sizeof(*l));

	CHECK(l && !name->is_address);
	rig.lookups++;
	l->defer.on_defer = lookup_done;
	l->q = q;
	l->is_nowhere = strcmp(name->text, "nowhere.test") == 0;
	q->lookup = l;
	ev_defer(rig.door.ev, &l->defer);
	return 0;
}

void resolve_cancel(struct resolve *q)
{
	if (!q->lookup)
		return;
	ev_defer_cancel(rig.door.ev, &q->lookup->defer);
	free(q->lookup);
	q->lookup = NULL;
}

/* ---- web's double ---- */

struct web {
	struct channel *box;
};

static void web_ready(struct channel *c, unsigned what)
{
	size_t have = strlen(rig.web_first);
	ssize_t n = channel_read(c, rig.web_first + have, sizeof(rig.web_first) - 1 - have);

	if (n <= 0 && n != -EAGAIN)
		channel_want(c, 0);
}

int web_new(struct web **ret, const struct web_config *c, struct channel *box, const void *first,
	    size_t n, struct err *e)
{
	struct web *w = calloc(1, sizeof(*w));

	CHECK(w && n < sizeof(rig.web_first));
	if (n)
		memcpy(rig.web_first, first, n);
	rig.web_tls = c->tls;
	rig.web_proxied = c->proxied;
	rig.web_asked = c->asked;
	rig.web_host = c->host;
	rig.webs++;
	w->box = box;
	box->owner = w;
	box->on_ready = web_ready;
	channel_want(box, CHANNEL_IN);
	*ret = w;
	rig.web_ups += c->up != NULL;
	channel_free(c->up, true);
	return 0;
}

bool web_judge_again(struct web *w)
{
	return rig.web_allows;
}

void web_free(struct web *w)
{
	if (!w)
		return;
	rig.webs--;
	channel_free(w->box, true);
	free(w);
}

/* ---- the keeper's end ---- */

static void box_data(struct seen *s, const struct wire_frame *f)
{
	struct wire_credit m;

	CHECK(s->ok && !s->eof && !s->cancelled && f->stream == WIRE_STDIN);
	CHECK(f->len <= s->in.left);
	s->in.left -= f->len;
	if (buf_len(&s->data) == s->bytes && s->bytes + f->len <= s->data.max)
		CHECK_EQ(buf_append(&s->data, f->payload, f->len), 0);
	s->bytes += f->len;
	if (s->hold)
		return;
	m.bytes = wire_flow_took(&s->in, f->len);
	s->in.left += m.bytes;
	if (m.bytes && !s->eof) {
		CHECK_EQ(wire_credit_encode(&rig.box.out, f->id, WIRE_STDIN, &m), 0);
		wire_link_flush(&rig.box);
	}
}

static void box_verb_frame(const struct wire_frame *f)
{
	struct wire_error error;

	if (f->type == WIRE_SAY) {
		CHECK(f->len <= sizeof(rig.said_payload));
		rig.says++;
		rig.said = *f;
		memcpy(rig.said_payload, f->payload, f->len);
		rig.said.payload = rig.said_payload;
	} else if (f->type == WIRE_OK) {
		rig.verb_ok++;
	} else {
		CHECK_EQ(f->type, WIRE_ERROR);
		CHECK_EQ(wire_error_decode(f, &error), 0);
		rig.verb_failed++;
	}
}

static void box_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct seen *s = &rig.ids[f->id & (WIRE_NET_BIT - 1)];
	struct wire_denied denied;
	struct wire_credit m;

	if (f->id & 0x80000000u && !rig.ids_again) {
		box_verb_frame(f);
		return;
	}
	if (rig.ids_again)
		return;
	if (f->type == WIRE_DENIED) {
		CHECK_EQ(f->id, 0);
		CHECK_EQ(wire_denied_decode(f, &denied), 0);
		copy(rig.denied, sizeof(rig.denied), denied.host ? denied.host : "");
		copy(rig.denied_remedy, sizeof(rig.denied_remedy), denied.remedy);
		rig.denied_port = denied.port;
		rig.denied_exec = denied.exec_id;
		rig.denials++;
		return;
	}
	CHECK((f->id & (WIRE_NET_BIT - 1)) < RIG_IDS_MAX);
	if (f->type == WIRE_OK) {
		CHECK(!s->ok && !s->failed);
		s->ok = true;
	} else if (f->type == WIRE_ERROR) {
		CHECK_EQ(wire_error_decode(f, &s->error), 0);
		CHECK(!s->failed && !s->cancelled);
		copy(s->msg, sizeof(s->msg), s->error.msg);
		s->failed = true;
	} else if (f->type == WIRE_CANCEL) {
		CHECK(!s->failed && !s->cancelled);
		s->cancelled = true;
	} else if (f->type == WIRE_EOF) {
		CHECK(!s->eof && f->stream == WIRE_STDIN);
		s->eof = true;
	} else if (f->type == WIRE_CREDIT) {
		CHECK_EQ(wire_credit_decode(f, &m), 0);
		CHECK_EQ(wire_flow_credit(&s->out, m.bytes), 0);
	} else {
		CHECK_EQ(f->type, WIRE_DATA);
		box_data(s, f);
	}
}

static void box_closed(struct wire_link *l, int error)
{
	rig.link_closed = true;
}

static void door_on_frame(struct wire_link *l, const struct wire_frame *f)
{
	if (!door_frame(&rig.door, f))
		shutdown(l->rfd, SHUT_RDWR);
}

static void door_on_close(struct wire_link *l, int error)
{
}

static void door_on_drained(struct wire_link *l)
{
	exchange_drained(&rig.door.exchange);
}

/* ---- the bench ---- */

static void on_moment(struct ev_timer *t)
{
	ev_quit(rig.door.ev);
}

void rig_step(void)
{
	struct ev_timer t = {.on_timer = on_moment};

	ev_timer_set(rig.door.ev, &t, 1);
	CHECK_EQ(ev_run(rig.door.ev), 0);
	ev_timer_stop(rig.door.ev, &t);
}

void rig_settle(void)
{
	for (unsigned i = 0; i < 20; i++)
		rig_step();
}

static void reloaded(struct door *d, void *arg, struct err *e)
{
	*(bool *)arg = true;
}

void rig_reload(const char *policy)
{
	bool done = false;

	rig.policy = policy;
	door_reload(&rig.door, &(struct policy_change){0}, reloaded, &done);
	UNTIL(done);
}

void rig_open(const char *policy)
{
	struct door *d = &rig.door;
	struct err e;
	int pair[2];

	tap_state.at_end = rig_close;
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(ev_new(&d->ev), 0);
	CHECK_EQ(broker_start(&d->broker, d->ev, &d->config, &e), 0);
	d->config.box = "box";
	d->config.policy = "file";
	d->policy = policy_closed();
	d->keeper.on_frame = door_on_frame;
	d->keeper.on_close = door_on_close;
	d->keeper.on_drained = door_on_drained;
	rig.box.on_frame = box_frame;
	rig.box.on_close = box_closed;
	CHECK_EQ(wire_link_init(&d->keeper, d->ev, pair[0], pair[0]), 0);
	CHECK_EQ(wire_link_init(&rig.box, d->ev, pair[1], pair[1]), 0);
	exchange_init(&d->exchange, d->ev, &d->keeper);
	for (unsigned i = 0; i < RIG_IDS_MAX; i++) {
		buf_init(&rig.ids[i].data, 1 << 20);
		wire_flow_init_net(&rig.ids[i].in);
		wire_flow_init_net(&rig.ids[i].out);
	}
	rig.addrs[0] = (struct resolved){AF_INET, {127, 0, 0, 1}};
	rig.addr_count = 1;
	rig_reload(policy);
}

void rig_close(void)
{
	struct door *d = &rig.door;

	tap_state.at_end = NULL;
	door_conns_free(d);
	names_free(d);
	asks_free(d);
	reloads_free(d);
	exchange_done(&d->exchange);
	policy_free(d->policy);
	grants_free(d->grants);
	ledger_done(&d->ledger);
	tls_free(d->tls);
	wire_link_done(&d->keeper);
	wire_link_done(&rig.box);
	ev_defer_cancel(d->ev, &the_broker.defer);
	ev_timer_stop(d->ev, &d->used);
	ev_free(d->ev);
	used_done(&rig.used);
	for (unsigned i = 0; i < RIG_IDS_MAX; i++)
		buf_done(&rig.ids[i].data);
	memset(&rig, 0, sizeof(rig));
}

static void connect_frame(unsigned n, const struct wire_connect *m)
{
	CHECK_EQ(wire_connect_encode(&rig.box.out, RIG_ID(n), 0, m), 0);
	wire_link_flush(&rig.box);
}

void box_connect(unsigned n, const char *host, unsigned port)
{
	connect_frame(n, &(struct wire_connect){.host = host, .port = port, .exec_id = 7});
}

void box_proxy(unsigned n)
{
	connect_frame(n, &(struct wire_connect){.proxy = 1});
}

void box_name(unsigned n, const char *name)
{
	CHECK_EQ(wire_name_encode(&rig.box.out, RIG_ID(n), 0, &(struct wire_name){name}), 0);
	wire_link_flush(&rig.box);
}

void box_send(unsigned n, const void *p, size_t len)
{
	rig.ids[n].out.left -= len;
	CHECK_EQ(wire_link_send(&rig.box, WIRE_DATA, WIRE_STDOUT, RIG_ID(n), p, len), 0);
}

void box_eof(unsigned n)
{
	CHECK_EQ(wire_link_send(&rig.box, WIRE_EOF, WIRE_STDOUT, RIG_ID(n), NULL, 0), 0);
}

void box_cancel(unsigned n)
{
	CHECK_EQ(wire_link_send(&rig.box, WIRE_CANCEL, 0, RIG_ID(n), NULL, 0), 0);
}

void box_verb(const char *a, const char *b, const char *c, const char *d, const char *e)
{
	const char *words[] = {a, b, c, d, e};
	struct wire_door m = {.by = "tester"};
	struct buf list;

	buf_init(&list, 4096);
	for (size_t i = 0; i < 5 && words[i]; i++)
		CHECK_EQ(wire_list_add(&list, words[i]), 0);
	m.argv = wire_list_of(&list);
	CHECK_EQ(wire_door_encode(&rig.box.out, 0x80000001u, 0, &m), 0);
	wire_link_flush(&rig.box);
	buf_done(&list);
}

const struct rig_row *rig_row(const char *kind, const char *verdict)
{
	for (unsigned i = rig.row_count; i > 0; i--)
		if (strcmp(rig.rows[i - 1].kind, kind) == 0 &&
		    strcmp(rig.rows[i - 1].verdict, verdict) == 0)
			return &rig.rows[i - 1];
	return NULL;
}

unsigned rig_rows(const char *kind, const char *verdict)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rig.row_count; i++)
		n += strcmp(rig.rows[i].kind, kind) == 0 &&
		     strcmp(rig.rows[i].verdict, verdict) == 0;
	return n;
}

/* ---- upstreams ---- */

static void echo(int fd)
{
	static char p[65536];
	ssize_t n;

	while ((n = read(fd, p, sizeof(p))) > 0)
		if (fd_write_full(fd, p, (size_t)n) < 0)
			return;
	shutdown(fd, SHUT_WR);
}

static void flood(int fd)
{
	static char p[65536];

	for (unsigned i = 0; i < 128; i++) {
		memset(p, (int)i, sizeof(p));
		if (fd_write_full(fd, p, sizeof(p)) < 0)
			return;
	}
	shutdown(fd, SHUT_WR);
	while (read(fd, p, sizeof(p)) > 0)
		;
}

static void sink(int fd, bool speaks)
{
	static char p[65536];
	unsigned long long all = 0;
	ssize_t n;

	while ((n = read(fd, p, sizeof(p))) > 0)
		all += (unsigned long long)n;
	n = snprintf(p, sizeof(p), "%llu", all);
	if (speaks)
		(void)fd_write_full(fd, p, (size_t)n);
}

static void serve(int fd, enum upstream what)
{
	struct linger cut = {.l_onoff = 1};
	char byte;

	switch (what) {
	case UP_GREET:
		(void)fd_write_full(fd, "220 hello\r\n", 11);
		echo(fd);
		break;
	case UP_ECHO:
		echo(fd);
		break;
	case UP_FLOOD:
		flood(fd);
		break;
	case UP_SINK:
		sink(fd, true);
		break;
	case UP_RESET:
		(void)!read(fd, &byte, 1);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &cut, sizeof(cut));
		break;
	case UP_HALF:
		shutdown(fd, SHUT_WR);
		sink(fd, false);
		break;
	case UP_MUTE:
		pause();
		break;
	}
	close(fd);
}

unsigned upstream_start(enum upstream what)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 512) == 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	if (fork() == 0) {
		signal(SIGCHLD, SIG_IGN);
		for (int c; (c = accept(fd, NULL, NULL)) >= 0; close(c))
			if (fork() == 0) {
				close(fd);
				serve(c, what);
				_exit(0);
			}
		_exit(0);
	}
	close(fd);
	return ntohs(a.sin_port);
}
