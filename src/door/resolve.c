/*
 * The door's own resolver; see resolve.h.
 *
 * Everyone who wants the same name shares one lookup. A lookup asks one server for A and AAAA at
 * once, over a UDP socket of its own that is connected to that server: the kernel chose its port at
 * random and takes answers from no other. An answer that was cut is asked for again over TCP. A
 * server that says nothing in time, or that it failed, is followed by the next; each is tried
 * twice.
 *
 *	waiting --both answered--> done --deferred--> on_done of each, freed
 *	        --time, failure--> the next server, or done with -ETIMEDOUT or -EAGAIN
 *
 * What comes at once (from /etc/hosts, or known already) takes the same way, so that on_done never
 * comes from within resolve_start.
 */
#include "door/resolve.h"

#include "base/dns.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/rand.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	SERVERS_MAX = 3,
	ROUNDS = 2,
	TRY_MS = 2500,
	HOSTS_FILE_MAX = 4 << 20,
	HOSTS_MAX = 65536,
	CONF_FILE_MAX = 64 << 10,
	KNOWN_MAX = DOOR_LOOKUPS_MAX,
	TTL_MIN_S = 1,
	TTL_MAX_S = 300,
	EACH_MAX = RESOLVE_ADDRS_MAX / 2, /* of one family */
};

/* One of the two questions of a lookup. */
struct question {
	struct lookup *lookup;
	struct dns_question q;
	bool answered;
	struct dns_answer answer;
	/* Over TCP, where an answer was cut. */
	struct ev_io tcp; /* fd owned, -1 */
	uint8_t *message; /* owned: two bytes of length, then the message */
	size_t sent, got;
};

struct lookup {
	struct resolver *resolver;
	struct lookup *next;
	struct host name;
	struct resolve *first, **last;
	struct question ask[2];
	struct ev_io udp; /* fd owned, -1 */
	struct ev_timer timer;
	struct ev_defer deliver;
	unsigned tries;
	bool server_failed, done, delivering;
	int r;
	struct resolved addrs[RESOLVE_ADDRS_MAX];
	size_t count;
	uint32_t ttl_s;
};

struct hosts_line {
	char name[DNS_NAME_MAX + 1];
	struct resolved addr;
};

struct known {
	char name[DNS_NAME_MAX + 1]; /* "": free */
	uint64_t until_ms;
	size_t count;
	struct resolved addrs[RESOLVE_ADDRS_MAX];
};

struct resolver {
	struct ev *ev;
	struct sockaddr_storage servers[SERVERS_MAX];
	unsigned server_count;
	struct sockaddr_storage own; /* the policy's, instead of them */
	struct hosts_line *hosts;    /* owned */
	size_t host_count;
	struct lookup *lookups; /* owned */
	unsigned lookup_count;
	struct known *known; /* owned; KNOWN_MAX */
};

/* ---- the host's files ---- */

static int parse_address(const char *text, struct resolved *ret)
{
	struct host h;

	if (host_parse(&h, text) < 0 || !h.is_address)
		return -EINVAL;
	ret->family = h.family;
	memcpy(ret->addr, h.addr, sizeof(ret->addr));
	return 0;
}

static void add_server(struct resolver *r, const struct resolved *a)
{
	(void)addr_socket(&r->servers[r->server_count++], a->family, a->addr, 53);
}

/* "nameserver ADDRESS" lines; without any it is this host, as for everyone else. */
static int read_conf(struct resolver *r)
{
	autofree char *text = NULL;
	char *line, *rest, *word, *more;
	struct resolved a;
	autoclose int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	/* Often a link, so fd_read_file would refuse it. */
	text = calloc(1, CONF_FILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	if (fd >= 0 && fd_read_full(fd, text, CONF_FILE_MAX) < 0)
		text[0] = 0;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		line[strcspn(line, "#;")] = 0;
		word = strtok_r(line, " \t\r", &more);
		if (!word || strcmp(word, "nameserver") != 0 || r->server_count == SERVERS_MAX)
			continue;
		word = strtok_r(NULL, " \t\r", &more);
		if (word && parse_address(word, &a) == 0)
			add_server(r, &a);
	}
	if (r->server_count == 0)
		add_server(r, &(struct resolved){AF_INET, {127, 0, 0, 1}});
	return 0;
}

static int add_host(struct resolver *r, const char *name, const struct resolved *a)
{
	struct hosts_line *grown;
	struct host h;

	if (host_parse(&h, name) < 0 || h.is_address || r->host_count == HOSTS_MAX)
		return 0;
	if ((r->host_count & (r->host_count + 1)) == 0 || !r->hosts) {
		grown = realloc(r->hosts, (2 * r->host_count + 2) * sizeof(*r->hosts));
		if (!grown)
			return -ENOMEM;
		r->hosts = grown;
	}
	r->hosts[r->host_count].addr = *a;
	memcpy(r->hosts[r->host_count++].name, h.text, sizeof(h.text));
	return 0;
}

static int read_hosts(struct resolver *r)
{
	autofree char *text = NULL;
	char *line, *rest, *word, *more;
	struct resolved a;
	size_t len;
	int rc = fd_read_file(AT_FDCWD, "/etc/hosts", HOSTS_FILE_MAX, &text, &len);

	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	rc = 0;
	for (rest = text; (line = strsep(&rest, "\n")) && rc == 0;) {
		line[strcspn(line, "#")] = 0;
		word = strtok_r(line, " \t\r", &more);
		if (!word || parse_address(word, &a) < 0)
			continue;
		while (rc == 0 && (word = strtok_r(NULL, " \t\r", &more)))
			rc = add_host(r, word, &a);
	}
	return rc;
}

void resolver_use(struct resolver *r, const struct sockaddr_storage *server)
{
	r->own = *server;
	memset(r->known, 0, KNOWN_MAX * sizeof(*r->known));
}

int resolver_new(struct resolver **ret, struct ev *ev, struct err *e)
{
	struct resolver *r = calloc(1, sizeof(*r));
	int rc = r ? 0 : -ENOMEM;

	if (r) {
		r->ev = ev;
		r->known = calloc(KNOWN_MAX, sizeof(*r->known));
		rc = r->known ? read_hosts(r) : -ENOMEM;
	}
	if (rc == 0)
		rc = read_conf(r);
	if (rc < 0) {
		resolver_free(r);
		return err_errno(e, -rc, "prepare to resolve names");
	}
	*ret = r;
	return 0;
}

/* ---- the end of a lookup ---- */

static void stop_tcp(struct question *q)
{
	ev_io_remove(q->lookup->resolver->ev, &q->tcp);
	fd_close(&q->tcp.fd);
	free(q->message);
	q->message = NULL;
	q->sent = q->got = 0;
}

static void stop_asking(struct lookup *l)
{
	ev_timer_stop(l->resolver->ev, &l->timer);
	ev_io_remove(l->resolver->ev, &l->udp);
	fd_close(&l->udp.fd);
	for (int i = 0; i < 2; i++)
		stop_tcp(&l->ask[i]);
}

static void lookup_free(struct lookup *l)
{
	struct resolver *r = l->resolver;
	stop_asking(l);
	ev_defer_cancel(r->ev, &l->deliver);
	list_remove(&r->lookups, l);
	r->lookup_count--;
	free(l);
}

static void on_deliver(struct ev_defer *d)
{
	struct lookup *l = container(d, struct lookup, deliver);

	l->delivering = true; /* whoever asks now has to ask anew */
	while (l->first) {
		struct resolve *q = l->first;

		l->first = q->next;
		q->lookup = NULL;
		q->on_done(q, l->r, l->addrs, l->count);
	}
	lookup_free(l);
}

static void finish(struct lookup *l, int r)
{
	stop_asking(l);
	l->done = true;
	l->r = r;
	ev_defer(l->resolver->ev, &l->deliver);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (r->lookups) {
		for (struct resolve *q = r->lookups->first; q; q = q->next)
			q->lookup = NULL;
		lookup_free(r->lookups);
	}
	free(r->hosts);
	free(r->known);
	free(r);
}

void resolve_cancel(struct resolve *q)
{
	struct lookup *l = q->lookup;
	struct resolve **at;

	if (!l)
		return;
	for (at = &l->first; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	if (l->last == &q->next)
		l->last = at;
	q->lookup = NULL;
	/* A lookup without a waiter goes on: its answer is worth keeping. */
}

/* ---- what is known already ---- */

static void remember(struct lookup *l)
{
	struct resolver *r = l->resolver;
	uint32_t ttl_s = l->ttl_s < TTL_MIN_S	? TTL_MIN_S
			 : l->ttl_s > TTL_MAX_S ? TTL_MAX_S
						: l->ttl_s;
	struct known *k = &r->known[0];

	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (strcmp(r->known[i].name, l->name.text) == 0) {
			k = &r->known[i];
			break;
		}
		if (r->known[i].until_ms < k->until_ms)
			k = &r->known[i];
	}
	memcpy(k->name, l->name.text, sizeof(k->name));
	k->until_ms = ev_now(r->ev) + 1000ull * ttl_s;
	k->count = l->count;
	memcpy(k->addrs, l->addrs, sizeof(k->addrs));
}

static bool find_known(struct lookup *l)
{
	struct resolver *r = l->resolver;

	for (size_t i = 0; i < r->host_count && l->count < RESOLVE_ADDRS_MAX; i++)
		if (strcmp(r->hosts[i].name, l->name.text) == 0)
			l->addrs[l->count++] = r->hosts[i].addr;
	for (size_t i = 0; i < KNOWN_MAX && l->count == 0; i++)
		if (strcmp(r->known[i].name, l->name.text) == 0 &&
		    ev_now(r->ev) < r->known[i].until_ms) {
			l->count = r->known[i].count;
			memcpy(l->addrs, r->known[i].addrs, sizeof(l->addrs));
		}
	return l->count > 0;
}

/* ---- asking ---- */

static void next_server(struct lookup *l);

/* Both questions are answered. IPv4 comes first: it works in more places. */
static void gather(struct lookup *l)
{
	static const int family[2] = {AF_INET, AF_INET6};

	l->ttl_s = TTL_MAX_S;
	for (int i = 0; i < 2; i++) {
		const struct dns_answer *a = &l->ask[i].answer;

		for (size_t n = 0; n < a->count && n < EACH_MAX; n++) {
			l->addrs[l->count].family = family[i];
			memcpy(l->addrs[l->count++].addr, a->addrs[n], 16);
		}
		if (a->count > 0 && a->ttl_s < l->ttl_s)
			l->ttl_s = a->ttl_s;
	}
	if (l->count > 0)
		remember(l);
	finish(l, l->count > 0 ? 0 : -ENOENT);
}

static int start_tcp(struct question *q);

/* What one answer means for its lookup; the lookup may be over afterwards. */
static void take_answer(struct question *q, const struct dns_answer *a, bool over_tcp)
{
	struct lookup *l = q->lookup;

	if (a->cut && !over_tcp) {
		if (!q->message && start_tcp(q) < 0)
			next_server(l);
		return;
	}
	if (a->cut || (a->code != DNS_OK && a->code != DNS_NXDOMAIN)) {
		l->server_failed = true;
		next_server(l);
		return;
	}
	q->answer = *a;
	q->answered = true;
	if (a->code == DNS_NXDOMAIN)
		finish(l, -ENOENT);
	else if (l->ask[0].answered && l->ask[1].answered)
		gather(l);
}

/* The length and then the answer; 1 when it is all there. */
static int read_tcp(struct question *q)
{
	size_t want = q->got < 2 ? 2 : 2u + (q->message[0] << 8 | q->message[1]);
	ssize_t n;

	if (want > DNS_MESSAGE_MAX + 2)
		return -EMSGSIZE;
	if (q->got == want)
		return 1;
	n = recv(q->tcp.fd, q->message + q->got, want - q->got, 0);
	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -ECONNRESET;
	q->got += (size_t)n;
	return q->got > 2 && q->got == want;
}

static int write_tcp(struct question *q)
{
	size_t len = 2u + (q->message[0] << 8 | q->message[1]);
	ssize_t n = send(q->tcp.fd, q->message + q->sent, len - q->sent, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	q->sent += (size_t)n;
	if (q->sent < len)
		return 0;
	return ev_io_set(q->lookup->resolver->ev, &q->tcp, EPOLLIN);
}

static void on_tcp(struct ev_io *io, uint32_t events)
{
	struct question *q = container(io, struct question, tcp);
	struct dns_answer a;
	int r = q->tcp.events & EPOLLOUT ? write_tcp(q) : read_tcp(q);

	if (r == 0)
		return;
	if (r > 0)
		r = dns_answer_parse(&a, &q->q, q->message + 2, q->got - 2);
	if (r < 0) {
		next_server(q->lookup);
		return;
	}
	stop_tcp(q);
	take_answer(q, &a, true);
}

static const struct sockaddr_storage *server_of(const struct lookup *l)
{
	const struct resolver *r = l->resolver;

	return r->own.ss_family ? &r->own : &r->servers[(l->tries - 1) % r->server_count];
}

static socklen_t address_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static int start_tcp(struct question *q)
{
	const struct sockaddr_storage *to = server_of(q->lookup);
	int n;

	q->message = calloc(1, DNS_MESSAGE_MAX + 2);
	if (!q->message)
		return -ENOMEM;
	n = dns_question_format(&q->q, q->message + 2, DNS_MESSAGE_MAX);
	if (n < 0)
		return n;
	q->message[0] = (uint8_t)(n >> 8);
	q->message[1] = (uint8_t)n;
	q->sent = q->got = 0;
	q->tcp.fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->tcp.fd < 0)
		return -errno;
	if (connect(q->tcp.fd, (const void *)to, address_len(to)) < 0 && errno != EINPROGRESS)
		return -errno;
	q->tcp.on_event = on_tcp;
	return ev_io_add(q->lookup->resolver->ev, &q->tcp, EPOLLOUT);
}

static void on_udp(struct ev_io *io, uint32_t events)
{
	struct lookup *l = container(io, struct lookup, udp);
	uint8_t message[DNS_MESSAGE_MAX];
	struct dns_answer a;

	for (int i = 0; i < 4; i++) {
		ssize_t n = recv(io->fd, message, sizeof(message), 0);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) { /* no server listens there */
			l->server_failed = true;
			next_server(l);
			return;
		}
		for (int k = 0; k < 2; k++) {
			unsigned tries = l->tries;

			if (l->ask[k].answered ||
			    dns_answer_parse(&a, &l->ask[k].q, message, (size_t)n) < 0)
				continue;
			take_answer(&l->ask[k], &a, false);
			if (l->done || l->tries != tries)
				return;
			break;
		}
	}
}

static int send_questions(struct lookup *l)
{
	static const uint16_t type[2] = {DNS_A, DNS_AAAA};
	const struct sockaddr_storage *to = server_of(l);
	uint8_t message[512];

	l->udp.fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->udp.fd < 0 || connect(l->udp.fd, (const void *)to, address_len(to)) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		struct dns_question *q = &l->ask[i].q;
		int n;

		*q = (struct dns_question){.type = type[i], .recursion = true, .edns = true};
		rand_bytes(&q->id, sizeof(q->id));
		memcpy(q->name, l->name.text, sizeof(q->name));
		l->ask[i].answered = false;
		n = dns_question_format(q, message, sizeof(message));
		if (n < 0 || send(l->udp.fd, message, (size_t)n, MSG_NOSIGNAL) < 0)
			return n < 0 ? n : -errno;
	}
	l->udp.on_event = on_udp;
	return ev_io_add(l->resolver->ev, &l->udp, EPOLLIN);
}

static void next_server(struct lookup *l)
{
	do {
		stop_asking(l);
		if (l->tries == ROUNDS * l->resolver->server_count) {
			finish(l, l->server_failed ? -EAGAIN : -ETIMEDOUT);
			return;
		}
		l->tries++;
	} while (send_questions(l) < 0 && (l->server_failed = true));
	ev_timer_set(l->resolver->ev, &l->timer, TRY_MS);
}

static void on_time(struct ev_timer *t)
{
	next_server(container(t, struct lookup, timer));
}

/* ---- the beginning ---- */

static struct lookup *lookup_find(const struct resolver *r, const char *name)
{
	for (struct lookup *l = r->lookups; l; l = l->next)
		if (!l->delivering && strcmp(l->name.text, name) == 0)
			return l;
	return NULL;
}

bool resolver_knows(struct resolver *r, const struct host *name)
{
	struct lookup l = {.resolver = r, .name = *name};

	return name->is_address || lookup_find(r, name->text) || find_known(&l);
}

int resolve_start(struct resolver *r, struct resolve *q, const struct host *name)
{
	struct lookup *l = lookup_find(r, name->text);

	ASSERT(!q->lookup);
	if (!l) {
		if (r->lookup_count == DOOR_LOOKUPS_MAX)
			return -ENOBUFS;
		l = calloc(1, sizeof(*l));
		if (!l)
			return -ENOMEM;
		*l = (struct lookup){
			.resolver = r,
			.name = *name,
			.next = r->lookups,
			.last = &l->first,
			.ask = {{.lookup = l, .tcp.fd = -1}, {.lookup = l, .tcp.fd = -1}},
			.udp.fd = -1,
			.timer.on_timer = on_time,
			.deliver.on_defer = on_deliver};
		r->lookups = l;
		r->lookup_count++;
		if (name->is_address) {
			l->addrs[l->count].family = name->family;
			memcpy(l->addrs[l->count++].addr, name->addr, sizeof(name->addr));
			finish(l, 0);
		} else if (find_known(l)) {
			finish(l, 0);
		} else {
			next_server(l);
		}
	}
	q->lookup = l;
	q->next = NULL;
	*l->last = q;
	l->last = &q->next;
	return 0;
}
