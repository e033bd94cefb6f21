/* The door's resolver against a server on loopback that answers rightly, wrongly, late, cut or not
 * at all. */
#include "tap.h"

#include "base/dns.h"
#include "base/fd.h"
#include "base/limits.h"
#include "door/resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct ev *ev;
static struct resolver *resolver;
static struct ev_io server, listener;
static unsigned asked, asked_tcp; /* questions that came */

struct wish {
	struct resolve q;
	int r, calls;
	size_t count;
	struct resolved first, last;
};

static unsigned waiting;

static void on_done(struct resolve *q, int r, const struct resolved *addrs, size_t count)
{
	struct wish *w = container(q, struct wish, q);

	w->calls++;
	w->r = r;
	w->count = count;
	if (count > 0) {
		w->first = addrs[0];
		w->last = addrs[count - 1];
	}
	if (--waiting == 0)
		ev_quit(ev);
}

/* The answer that a name asks for by itself. Returns its length, 0 for silence. */
static int answer_for(const struct dns_question *q, bool tcp, uint8_t *out, size_t size)
{
	uint8_t addrs[3][16] = {{127, 0, 0, 9}, {127, 0, 0, 10}, {127, 0, 0, 11}};
	struct dns_question other = *q;
	size_t count = q->type == DNS_A ? 3 : 0;
	int n;

	if (strncmp(q->name, "none.", 5) == 0)
		return dns_answer_format(q, DNS_NXDOMAIN, NULL, 0, 1, out, size);
	if (strncmp(q->name, "fails.", 6) == 0)
		return dns_answer_format(q, DNS_SERVFAIL, NULL, 0, 1, out, size);
	if (strncmp(q->name, "empty.", 6) == 0)
		return dns_answer_format(q, DNS_OK, NULL, 0, 1, out, size);
	if (strncmp(q->name, "silent.", 7) == 0)
		return 0;
	if (strncmp(q->name, "six.", 4) == 0) {
		static const uint8_t six[1][16] = {{0xfe, 0x80, [15] = 1}};

		count = q->type == DNS_AAAA;
		return dns_answer_format(q, DNS_OK, six, count, 60, out, size);
	}
	if (strncmp(q->name, "wrongid.", 8) == 0)
		other.id ^= 1;
	if (strncmp(q->name, "wrongname.", 10) == 0)
		other.name[0] = 'v';
	if (strncmp(q->name, "garbage.", 8) == 0) {
		memset(out, 0xc0, 40);
		return 40;
	}
	n = dns_answer_format(&other, DNS_OK, addrs, count, 60, out, size);
	if (strncmp(q->name, "cut.", 4) == 0 && !tcp)
		out[2] |= 2;
	return n;
}

static void on_server(struct ev_io *io, uint32_t events)
{
	uint8_t in[DNS_MESSAGE_MAX], out[DNS_MESSAGE_MAX];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct dns_question q;
	ssize_t n = recvfrom(io->fd, in, sizeof(in), 0, (void *)&from, &len);
	int out_len;

	CHECK(n > 0);
	CHECK_EQ(dns_question_parse(&q, in, (size_t)n), 0);
	asked++;
	out_len = answer_for(&q, false, out, sizeof(out));
	CHECK(out_len >= 0);
	if (out_len > 0)
		CHECK_EQ(sendto(io->fd, out, (size_t)out_len, 0, (void *)&from, len), out_len);
}

/* Answers in pieces, so that the reader has to wait for the rest; in a process of its own, because
 * it waits too. */
static void answer_tcp(int fd)
{
	uint8_t in[DNS_MESSAGE_MAX], out[DNS_MESSAGE_MAX];
	struct dns_question q;
	uint16_t len;
	int n;

	CHECK_EQ(recv(fd, &len, 2, MSG_WAITALL), 2);
	CHECK_EQ(recv(fd, in, ntohs(len), MSG_WAITALL), ntohs(len));
	CHECK_EQ(dns_question_parse(&q, in, ntohs(len)), 0);
	n = answer_for(&q, true, out, sizeof(out));
	CHECK(n > 0);
	len = htons((uint16_t)n);
	CHECK_EQ(send(fd, &len, 1, 0), 1);
	CHECK_EQ(send(fd, (uint8_t *)&len + 1, 1, 0), 1);
	CHECK_EQ(send(fd, out, (size_t)n, 0), n);
}

static void on_listener(struct ev_io *io, uint32_t events)
{
	autoclose int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);
	pid_t pid;

	CHECK(fd >= 0);
	asked_tcp++;
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		answer_tcp(fd);
		_exit(0);
	}
}

static void set_up(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage to = {0};
	socklen_t len = sizeof(at);
	struct err e;

	CHECK_EQ(ev_new(&ev), 0);
	/* One port for both: the one that UDP got may be taken for TCP. */
	for (int i = 0;; i++) {
		at.sin_port = 0;
		server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		CHECK_EQ(bind(server.fd, (void *)&at, sizeof(at)), 0);
		CHECK_EQ(getsockname(server.fd, (void *)&at, &len), 0);
		listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listener.fd, (void *)&at, sizeof(at)) == 0)
			break;
		CHECK(i < 100);
		fd_close(&server.fd);
		fd_close(&listener.fd);
	}
	CHECK_EQ(listen(listener.fd, 16), 0);
	server.on_event = on_server;
	listener.on_event = on_listener;
	CHECK_EQ(ev_io_add(ev, &server, EPOLLIN), 0);
	CHECK_EQ(ev_io_add(ev, &listener, EPOLLIN), 0);
	CHECK_EQ(resolver_new(&resolver, ev, &e), 0);
	memcpy(&to, &at, sizeof(at));
	resolver_use(resolver, &to);
}

static void tear_down(void)
{
	resolver_free(resolver);
	ev_io_remove(ev, &server);
	ev_io_remove(ev, &listener);
	fd_close(&server.fd);
	fd_close(&listener.fd);
	ev_free(ev);
}

#define RESOLVE_TEST(name) TEST_IN(name, (void), set_up(); body(); tear_down();)

static void wish_start(struct wish *w, const char *name)
{
	struct host h;

	*w = (struct wish){.q.on_done = on_done};
	CHECK_EQ(host_parse(&h, name), 0);
	CHECK_EQ(resolve_start(resolver, &w->q, &h), 0);
	CHECK_EQ(w->calls, 0);
	waiting++;
}

static void wish_run(struct wish *w, const char *name)
{
	wish_start(w, name);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w->calls, 1);
}

RESOLVE_TEST(a_name_has_its_addresses)
{
	struct wish w;

	wish_run(&w, "right.test");
	CHECK_EQ(w.r, 0);
	CHECK_EQ(w.count, 3);
	CHECK_EQ(w.first.family, AF_INET);
	CHECK_EQ(w.first.addr[3], 9);
	CHECK_EQ(w.last.addr[3], 11);
	CHECK_EQ(asked, 2);
	wish_run(&w, "six.test");
	CHECK_EQ(w.count, 1);
	CHECK_EQ(w.first.family, AF_INET6);
}

RESOLVE_TEST(an_answer_is_kept_and_forgotten_with_another_server)
{
	struct sockaddr_storage none = {0};
	struct wish w;

	wish_run(&w, "right.test");
	wish_run(&w, "right.test");
	CHECK_EQ(w.count, 3);
	CHECK_EQ(asked, 2);
	resolver_use(resolver, &none);
	wish_run(&w, "127.0.0.1");
	CHECK_EQ(w.count, 1);
	CHECK_EQ(asked, 2);
}

RESOLVE_TEST(an_address_and_localhost_ask_nobody)
{
	struct wish w;

	wish_run(&w, "192.0.2.7");
	CHECK_EQ(w.r, 0);
	CHECK_EQ(w.first.addr[3], 7);
	wish_run(&w, "localhost");
	CHECK_EQ(w.r, 0);
	CHECK_EQ(asked, 0);
}

RESOLVE_TEST(names_that_are_not_there)
{
	struct wish w;

	wish_run(&w, "none.test");
	CHECK_EQ(w.r, -ENOENT);
	wish_run(&w, "empty.test");
	CHECK_EQ(w.r, -ENOENT);
	CHECK_EQ(w.count, 0);
}

RESOLVE_TEST(a_server_that_fails_is_tried_again_and_then_given_up)
{
	struct wish w;

	wish_run(&w, "fails.test");
	CHECK_EQ(w.r, -EAGAIN);
	CHECK(asked >= 4);
}

RESOLVE_TEST(a_cut_answer_is_asked_for_over_tcp)
{
	struct wish w;

	wish_run(&w, "cut.test");
	CHECK_EQ(w.r, 0);
	CHECK_EQ(w.count, 3);
	CHECK_EQ(asked_tcp, 2);
}

static uint64_t fake_now;

static uint64_t tell_now(void *arg)
{
	fake_now += 400; /* time passes while the loop turns */
	return fake_now;
}

/* A forger's answer counts as none: with the clock driven, the lookup ends in a time-out. */
static void check_ignored(const char *name)
{
	struct wish w;
	struct wish again[40];

	set_up();
	ev_set_clock(ev, tell_now, NULL);
	wish_start(&w, name);
	/* Other lookups keep the loop turning. */
	for (int i = 0; i < 40; i++) {
		char other[32];

		snprintf(other, sizeof(other), "right%d.test", i);
		wish_start(&again[i], other);
	}
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.calls, 1);
	CHECK_EQ(w.r, -ETIMEDOUT);
	CHECK_EQ(w.count, 0);
	tear_down();
}

TEST(an_answer_with_another_id_is_none)
{
	check_ignored("wrongid.test");
}

TEST(an_answer_to_another_question_is_none)
{
	check_ignored("wrongname.test");
}

TEST(garbage_is_no_answer)
{
	check_ignored("garbage.test");
}

TEST(silence_ends)
{
	check_ignored("silent.test");
}

RESOLVE_TEST(who_asks_for_the_same_shares_the_answer)
{
	struct wish w[100];

	for (int i = 0; i < 100; i++)
		wish_start(&w[i], "right.test");
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(w[i].count, 3);
	CHECK_EQ(asked, 2);
}

TEST(lookups_are_bounded)
{
	struct wish *w = calloc(DOOR_LOOKUPS_MAX, sizeof(*w)), one = {.q.on_done = on_done};
	struct host h;
	char name[32];

	set_up();
	for (unsigned i = 0; i < DOOR_LOOKUPS_MAX; i++) {
		snprintf(name, sizeof(name), "silent.n%u.test", i);
		wish_start(&w[i], name);
	}
	CHECK_EQ(host_parse(&h, "onemore.test"), 0);
	CHECK_EQ(resolve_start(resolver, &one.q, &h), -ENOBUFS);
	tear_down();
	free(w);
}

RESOLVE_TEST(cancelled_is_never_told)
{
	struct wish a, b;

	wish_start(&a, "right.test");
	wish_start(&b, "right.test");
	resolve_cancel(&a.q);
	resolve_cancel(&a.q);
	waiting--;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(a.calls, 0);
	CHECK_EQ(b.count, 3);
}

static struct wish nested;

static void on_done_asks_again(struct resolve *q, int r, const struct resolved *addrs, size_t count)
{
	on_done(q, r, addrs, count);
	wish_start(&nested, "right.test");
	CHECK_EQ(nested.calls, 0);
}

RESOLVE_TEST(asking_from_within_an_answer)
{
	struct wish w;

	wish_start(&w, "right.test");
	w.q.on_done = on_done_asks_again;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(w.count, 3);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(nested.count, 3);
}

TAP_MAIN
