/*
 * What looking into HTTPS costs: a client, the door's web and an upstream, each a process of its
 * own, TLS 1.3 over loopback on both sides. Rows are kept in memory, so this is the cost of TLS
 * twice and of HTTP read and written anew. One line per thing, straight and through the door:
 *
 *	small      requests on one connection: median and 99th percentile
 *	down, up   one large body; also per second of the door's processor time
 *	secret     the same with a credential that every answer is searched for
 *	new        a connection for each request
 */
#include "door/web.h"
#include "base/clock.h"
#include "base/fd.h"
#include "net/ca.h"
#include "net/channel_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 4000, FRESH = 300, BODY_MIB = 1024 };
#define BODY ((uint64_t)BODY_MIB << 20)

static uint8_t block[65536];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench web: %s\n", what);
	exit(1);
}

static int listen_any(uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 64) == 0 &&
		     getsockname(fd, (struct sockaddr *)&a, &len) == 0,
	     "listen");
	*ret_port = ntohs(a.sin_port);
	return fd;
}

/* ---- the upstream: one process for each connection ---- */

struct server {
	char head[4096];
	size_t len;
	uint64_t take, send;
	struct ev *ev;
	bool has_head;
};

static void take_head(struct server *s)
{
	char *end = memmem(s->head, s->len, "\r\n\r\n", 4), *length;
	size_t used;

	if (!end || s->take || s->send)
		return;
	used = (size_t)(end - s->head) + 4;
	length = memmem(s->head, used, "Content-Length: ", 16);
	s->send = memcmp(s->head, "GET /large", 10) == 0 ? BODY : 2;
	s->take = length ? strtoull(length + 16, NULL, 10) : 0;
	s->take -= s->len - used < s->take ? s->len - used : s->take;
	s->len = 0;
	s->has_head = true;
}

static void serve_read(struct channel *c, struct server *s)
{
	ssize_t r = s->take ? channel_read(c, block, sizeof(block))
			    : channel_read(c, s->head + s->len, sizeof(s->head) - s->len);

	if (r == -EAGAIN)
		return;
	if (r <= 0)
		_exit(0);
	if (s->take) {
		s->take -= (uint64_t)r;
	} else {
		s->len += (size_t)r;
		take_head(s);
	}
}

static void serve_write(struct channel *c, struct server *s)
{
	char head[128];
	ssize_t r;

	if (s->has_head) {
		int n = snprintf(head, sizeof(head),
				 "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
				 (unsigned long long)s->send);

		must(channel_write(c, head, (size_t)n) == n, "head");
		s->has_head = false;
	}
	r = channel_write(c, block, s->send < sizeof(block) ? s->send : sizeof(block));
	must(r > 0 || r == -EAGAIN, c->error.msg);
	s->send -= r > 0 ? (uint64_t)r : 0;
}

static void serve_ready(struct channel *c, unsigned what)
{
	struct server *s = c->owner;

	if (what & CHANNEL_IN)
		serve_read(c, s);
	if (s->send && !s->take)
		serve_write(c, s);
	channel_want(c, s->send && !s->take ? CHANNEL_OUT : CHANNEL_IN);
}

static void serve(int fd, const char *pem)
{
	struct server s = {0};
	struct channel *c;
	struct tls *t;

	must(ev_new(&s.ev) == 0 && tls_new(&t, pem, NULL) == 0, "upstream");
	must(channel_tcp_take(&c, s.ev, fd) == 0, "socket");
	c = channel_tls_accept(t, s.ev, c, "up.test", NULL);
	c->owner = &s;
	c->on_ready = serve_ready;
	channel_want(c, CHANNEL_IN);
	ev_run(s.ev);
	_exit(0);
}

static void upstream(int fd, const char *pem)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		must(one >= 0, "accept");
		if (fork() == 0)
			serve(one, pem);
		close(one);
	}
}

/* ---- the door ---- */

struct broker {
	struct ev *ev;
	struct ev_defer defer;
	struct broker_call *first;
};

struct ev *broker_ev(const struct broker *k)
{
	return k->ev;
}

static void broker_answer(struct ev_defer *d)
{
	struct broker *k = container(d, struct broker, defer);
	struct broker_call *c = k->first;
	struct err e = {0};

	k->first = c->next;
	if (k->first)
		ev_defer(k->ev, d);
	c->id = 0;
	c->on_answer(c, 0, &e);
}

static void broker_queue(struct broker *k, struct broker_call *c)
{
	c->id = 1;
	c->next = k->first;
	k->first = c;
	ev_defer(k->ev, &k->defer);
}

void broker_ask_secret(struct broker *k, struct broker_call *c, const char *name)
{
	must(secret_init(&c->secret, "sk-0123456789abcdefghijklmnopqrstuvwxyz", 39) == 0, "secret");
	broker_queue(k, c);
}

void broker_record(struct broker *k, struct broker_call *c, const struct audit_row *row)
{
	if (!c)
		return;
	c->seq = 1;
	broker_queue(k, c);
}

void broker_cancel(struct broker *k, struct broker_call *c)
{
	for (struct broker_call **at = &k->first; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	c->id = 0;
}

void door_decide(const struct door *d, const struct subject *s, struct verdict *ret)
{
	decision_make(d->policy, d->grants, s, clock_wall_ms(), ret);
}

bool door_count(struct door *d, const struct rule *r, uint64_t up, uint64_t down)
{
	return !r || ledger_count(&d->ledger, r, up, down);
}

bool door_take(struct door *d, const struct rule *r)
{
	return !r || ledger_take(&d->ledger, r, clock_wall_ms());
}

uint64_t door_room(const struct door *d, const struct rule *r, bool is_up)
{
	return r ? ledger_room(&d->ledger, r, is_up) : UINT64_MAX;
}

void door_say_used(struct door *d)
{
}

/* Whatever the name, it is the upstream on loopback. */
bool resolver_knows(struct resolver *r, const struct host *name)
{
	return true;
}

int resolve_start(struct resolver *r, struct resolve *q, const struct host *name)
{
	q->on_done(q, 0, &(struct resolved){AF_INET, {127, 0, 0, 1}}, 1);
	return 0;
}

void resolve_cancel(struct resolve *q)
{
}

static void seat_done(void *arg)
{
	struct web **seat = arg;

	web_free(*seat);
	free(seat);
}

struct reception {
	struct ev_io io;
	struct door *door;
	uint16_t up_port;
};

static void on_client(struct ev_io *io, uint32_t events)
{
	struct reception *r = container(io, struct reception, io);
	struct web **seat = calloc(1, sizeof(*seat));
	struct web_config c = {.door = r->door,
			       .port = r->up_port,
			       .tls = true,
			       .on_done = seat_done,
			       .arg = seat};
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct channel *box;

	must(seat && fd >= 0 && host_parse(&c.host, "up.test") == 0, "accept");
	must(channel_tcp_take(&box, r->door->ev, fd) == 0, "socket");
	box = channel_tls_accept(r->door->tls, r->door->ev, box, "up.test", NULL);
	must(box && web_new(seat, &c, box, NULL, 0, NULL) == 0, "web");
}

static void run_door(int fd, uint16_t up_port, const char *pem)
{
	static const char text[] = "version: 1\nrules:\n"
				   "  - name: plain\n    allow: up.test\n    tls: intercept\n"
				   "    ports: any\n    private: true\n"
				   "  - name: secret\n    allow: up.test\n    query: [\"secret\"]\n"
				   "    ports: any\n    private: true\n"
				   "    inject: {headers: {Authorization: "
				   "\"Bearer {{ secret.TOK }}\"}}\n";
	static struct broker broker = {.defer.on_defer = broker_answer};
	static struct door door = {.broker = &broker};
	struct reception r = {
		.io = {.fd = fd, .on_event = on_client}, .door = &door, .up_port = up_port};
	struct err e;

	must(ev_new(&door.ev) == 0 && tls_new(&door.tls, pem, NULL) == 0, "door");
	tcp_room_init(&door.tcp_room);
	broker.ev = door.ev;
	door.config.box = "bench";
	if (policy_parse(&door.policy, "bench", text, sizeof(text) - 1, &e) < 0)
		must(false, e.msg);
	must(ev_io_add(door.ev, &r.io, EPOLLIN) == 0, "listen");
	ev_run(door.ev);
	_exit(0);
}

/* ---- the client ---- */

struct target {
	const char *name;
	uint16_t port;
	clockid_t clock; /* of the door's processor time; 0: there is none */
};

static SSL_CTX *ctx;

static SSL *client(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	SSL *ssl = SSL_new(ctx);

	must(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	must(ssl && SSL_set_fd(ssl, fd) && SSL_set_tlsext_host_name(ssl, "up.test") &&
		     SSL_set1_host(ssl, "up.test") && SSL_connect(ssl) == 1,
	     "TLS");
	return ssl;
}

static void client_close(SSL *ssl)
{
	int fd = SSL_get_fd(ssl);

	SSL_shutdown(ssl);
	SSL_free(ssl);
	close(fd);
}

/* One exchange. Returns the bytes of the answer's body. */
static uint64_t ask(SSL *ssl, const char *head, uint64_t send)
{
	uint64_t length, have;
	int n = SSL_write(ssl, head, (int)strlen(head));
	char *end;

	while (send > 0 && n > 0) {
		n = SSL_write(ssl, block, (int)(send < sizeof(block) ? send : sizeof(block)));
		send -= n > 0 ? (uint64_t)n : 0;
	}
	n = SSL_read(ssl, block, sizeof(block));
	must(n > 0, "no answer");
	end = memmem(block, (size_t)n, "\r\n\r\n", 4);
	must(end && memcmp(block, "HTTP/1.1 200", 12) == 0, "not that answer");
	length = strtoull((char *)memmem(block, (size_t)n, "Content-Length: ", 16) + 16, NULL, 10);
	have = (uint64_t)((char *)block + n - end - 4);
	while (have < length && (n = SSL_read(ssl, block, sizeof(block))) > 0)
		have += (uint64_t)n;
	must(have == length, "half an answer");
	return length;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void bench_small(const struct target *t, const char *what, const char *head, bool fresh)
{
	static double took[SMALL];
	unsigned count = fresh ? FRESH : SMALL;
	SSL *ssl = fresh ? NULL : client(t->port);

	for (unsigned i = 0; i < count; i++) {
		double at = now();

		if (fresh)
			ssl = client(t->port);
		ask(ssl, head, 0);
		took[i] = now() - at;
		if (fresh)
			client_close(ssl);
	}
	qsort(took, count, sizeof(*took), by_size);
	printf("%-7s %-7s p50 %.3f ms, p99 %.3f ms\n", what, t->name, took[count / 2] * 1e3,
	       took[count * 99 / 100] * 1e3);
	if (!fresh)
		client_close(ssl);
}

static double door_seconds(const struct target *t)
{
	struct timespec s = {0};

	if (t->clock)
		clock_gettime(t->clock, &s);
	return (double)s.tv_sec + (double)s.tv_nsec / 1e9;
}

static void bench_large(const struct target *t, const char *what, const char *head, uint64_t send)
{
	SSL *ssl = client(t->port);
	double at, cpu;

	ask(ssl, "GET /small HTTP/1.1\r\nHost: up.test\r\n\r\n", 0);
	at = now();
	cpu = door_seconds(t);
	ask(ssl, head, send);
	at = now() - at;
	cpu = door_seconds(t) - cpu;
	printf("%-7s %-7s %.0f MB/s", what, t->name, (double)BODY / at / 1e6);
	if (t->clock)
		printf(", %.0f MB per second of the door's", (double)BODY / cpu / 1e6);
	printf("\n");
	client_close(ssl);
}

static void bench_target(const struct target *t)
{
	char post[128];

	snprintf(post, sizeof(post),
		 "POST /up HTTP/1.1\r\nHost: up.test\r\nContent-Length: %llu\r\n\r\n",
		 (unsigned long long)BODY);
	bench_small(t, "small", "GET /small HTTP/1.1\r\nHost: up.test\r\n\r\n", false);
	bench_small(t, "new", "GET /small HTTP/1.1\r\nHost: up.test\r\n\r\n", true);
	bench_large(t, "down", "GET /large HTTP/1.1\r\nHost: up.test\r\n\r\n", 0);
	bench_large(t, "up", post, BODY);
	if (!t->clock)
		return;
	bench_small(t, "secret", "GET /small?secret HTTP/1.1\r\nHost: up.test\r\n\r\n", false);
	bench_large(t, "secret", "GET /large?secret HTTP/1.1\r\nHost: up.test\r\n\r\n", 0);
}

int main(void)
{
	char path[] = "/tmp/cove-bench-web-XXXXXX";
	struct target straight = {.name = "direct"}, door = {.name = "door"};
	int up_fd = listen_any(&straight.port), door_fd = listen_any(&door.port), fd;
	pid_t up_pid, door_pid;
	struct buf pem;

	buf_init(&pem, CA_PEM_MAX);
	must(ca_make(&pem, NULL) == 0 && buf_cstr(&pem), "ca_make");
	fd = mkstemp(path);
	must(fd >= 0 && fd_write_full(fd, buf_data(&pem), buf_len(&pem)) == 0, path);
	close(fd);
	setenv("SSL_CERT_FILE", path, 1);
	unsetenv("SSL_CERT_DIR");
	fflush(stdout);
	up_pid = fork();
	if (up_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		upstream(up_fd, buf_cstr(&pem));
	}
	door_pid = fork();
	if (door_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_door(door_fd, straight.port, buf_cstr(&pem));
	}
	ctx = SSL_CTX_new(TLS_client_method());
	must(up_pid > 0 && door_pid > 0 && ctx && SSL_CTX_load_verify_file(ctx, path) == 1,
	     "start");
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	must(clock_getcpuclockid(door_pid, &door.clock) == 0, "clock");
	bench_target(&straight);
	bench_target(&door);
	kill(door_pid, SIGKILL);
	kill(up_pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	unlink(path);
	SSL_CTX_free(ctx);
	buf_done(&pem);
	return 0;
}
