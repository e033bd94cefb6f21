/* The resolver in a box, and names behind synthetic addresses. */
#include "exec_client.h"
#include "net_client.h"
#include "tap.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"
#include "guest/redirect.h"
#include "init/net_parts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Asks, lets the door answer with an error of that kind (0: OK), and returns the code. */
static enum dns_code resolve(struct rig *r, int fd, const char *name, uint16_t type, int kind,
			     struct dns_answer *ret)
{
	struct way *w;

	dns_ask(fd, name, type, 7);
	w = rig_way(r, r->count);
	CHECK_EQ(w->type, WIRE_NAME);
	CHECK_STR(w->host, name);
	if (kind)
		way_error(r, w, kind);
	else
		way_ok(r, w);
	return dns_hear(r, fd, name, type, 7, ret);
}

NET_TEST(an_allowed_name_has_its_own_address)
{
	static const uint8_t first[4] = {198, 18, 0, 1}, second[4] = {198, 18, 0, 2};
	int fd = dns_socket(r);
	struct dns_answer a;

	CHECK_EQ(resolve(r, fd, "one.example", DNS_A, 0, &a), DNS_OK);
	CHECK_EQ(a.count, 1);
	CHECK_MEM(a.addrs[0], first, 4);
	CHECK_EQ(resolve(r, fd, "two.example", DNS_A, 0, &a), DNS_OK);
	CHECK_MEM(a.addrs[0], second, 4);
	CHECK_EQ(resolve(r, fd, "one.example", DNS_A, 0, &a), DNS_OK);
	CHECK_MEM(a.addrs[0], first, 4);
	CHECK_EQ(resolve(r, fd, "one.example", DNS_AAAA, 0, &a), DNS_OK);
	CHECK_EQ(a.count, 0);
	close(fd);
}

NET_TEST(what_the_door_says_of_others)
{
	int fd = dns_socket(r);
	struct dns_answer a;

	for (int v6 = 0; v6 < 2; v6++) {
		uint16_t type = v6 ? DNS_AAAA : DNS_A;

		CHECK_EQ(resolve(r, fd, "no.example", type, ERR_DENIED, &a), DNS_NXDOMAIN);
		CHECK_EQ(resolve(r, fd, "no.example", type, ERR_NOT_FOUND, &a), DNS_NXDOMAIN);
		CHECK_EQ(resolve(r, fd, "no.example", type, ERR_TIMEOUT, &a), DNS_SERVFAIL);
		CHECK_EQ(resolve(r, fd, "no.example", type, ERR_LIMIT, &a), DNS_SERVFAIL);
		CHECK_EQ(a.count, 0);
	}
	/* Nothing of that is remembered against it. */
	CHECK_EQ(resolve(r, fd, "no.example", DNS_A, 0, &a), DNS_OK);
	CHECK_EQ(a.count, 1);
	close(fd);
}

NET_TEST(some_questions_go_no_further)
{
	static const uint16_t types[] = {DNS_NS, DNS_SOA, 12, 15, 16, 33, 64, 65, 255, 65535};
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	int fd = dns_socket(r);
	struct dns_answer a;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		dns_ask(fd, "some.example", types[i], 1);
		CHECK_EQ(dns_hear(r, fd, "some.example", types[i], 1, &a), DNS_OK);
		CHECK_EQ(a.count, 0);
	}
	dns_ask(fd, "localhost", DNS_A, 2);
	CHECK_EQ(dns_hear(r, fd, "localhost", DNS_A, 2, &a), DNS_OK);
	CHECK_MEM(a.addrs[0], v4, 4);
	dns_ask(fd, "x.localhost", DNS_AAAA, 3);
	CHECK_EQ(dns_hear(r, fd, "x.localhost", DNS_AAAA, 3, &a), DNS_OK);
	CHECK_MEM(a.addrs[0], v6, 16);
	dns_ask(fd, "", DNS_A, 4);
	CHECK_EQ(dns_hear(r, fd, "", DNS_A, 4, &a), DNS_OK);
	CHECK_EQ(a.count, 0);
	CHECK_EQ(r->count, 0);
	/* And these do. */
	CHECK_EQ(resolve(r, fd, "localhost.example", DNS_A, ERR_DENIED, &a), DNS_NXDOMAIN);
	CHECK_EQ(resolve(r, fd, "notlocalhost", DNS_A, ERR_DENIED, &a), DNS_NXDOMAIN);
	close(fd);
}

NET_TEST(garbage_is_answered_or_dropped)
{
	static const uint8_t formerr[] = {0x12, 0x34, 0x01, 0, 0, 9, 0, 0, 0, 0, 0, 0};
	static const uint8_t notimp[] = {0x12, 0x35, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	static const uint8_t answer[] = {0x12, 0x36, 0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	int fd = dns_socket(r);
	uint8_t big[9000] = {0}, in[64];
	struct dns_answer a;

	CHECK_EQ(send(fd, "", 0, 0), 0);
	CHECK_EQ(send(fd, big, 11, 0), 11);
	CHECK_EQ(send(fd, big, sizeof(big), 0), sizeof(big));
	CHECK_EQ(send(fd, answer, sizeof(answer), 0), sizeof(answer));
	CHECK_EQ(send(fd, formerr, sizeof(formerr), 0), sizeof(formerr));
	tcp_read(r, fd, in, 12);
	CHECK(in[1] == 0x34 && (in[3] & 15) == DNS_FORMERR);
	CHECK_EQ(send(fd, notimp, sizeof(notimp), 0), sizeof(notimp));
	tcp_read(r, fd, in, 12);
	CHECK(in[1] == 0x35 && (in[3] & 15) == DNS_NOTIMP);
	CHECK_EQ(r->count, 0);
	CHECK_EQ(resolve(r, fd, "fine.example", DNS_A, 0, &a), DNS_OK);
	close(fd);
}

/* Everybody who asks for a name at the same time waits for one answer of the door. */
NET_TEST(one_ask_for_many_askers)
{
	int fds[50];
	struct dns_answer a;
	struct way *w;

	for (int i = 0; i < 50; i++) {
		fds[i] = dns_socket(r);
		dns_ask(fds[i], "busy.example", i % 2 ? DNS_AAAA : DNS_A, (uint16_t)i);
	}
	w = rig_way(r, 0);
	/* Another name behind them: all of them have been read. */
	CHECK_EQ(resolve(r, fds[0], "other.example", DNS_A, ERR_DENIED, &a), DNS_NXDOMAIN);
	CHECK_EQ(r->count, 2);
	close(fds[49]); /* one does not wait */
	way_ok(r, w);
	for (int i = 0; i < 49; i++) {
		CHECK_EQ(dns_hear(r, fds[i], "busy.example", i % 2 ? DNS_AAAA : DNS_A, (uint16_t)i,
				  &a),
			 DNS_OK);
		CHECK_EQ(a.count, i % 2 ? 0 : 1);
		close(fds[i]);
	}
	CHECK_EQ(r->count, 2);
}

/* More names than can be asked for at once: the rest waits in the socket. */
NET_TEST(three_hundred_questions_at_once)
{
	enum { NAMES = 300 };
	static int fds[NAMES];
	struct dns_answer a;
	char name[32];

	for (int i = 0; i < NAMES; i++) {
		/* No more at once than a socket holds: the kernel drops the rest, rightly. */
		if (i == 100 || i == 200 || i == INIT_ASKED_MAX)
			rig_way(r, (unsigned)i - 1);
		fds[i] = dns_socket(r);
		snprintf(name, sizeof(name), "n%d.example", i);
		dns_ask(fds[i], name, DNS_A, (uint16_t)i);
	}
	CHECK_EQ(r->count, INIT_ASKED_MAX);
	for (unsigned i = 0; i < NAMES; i++)
		way_ok(r, rig_way(r, i));
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%d.example", i);
		CHECK_EQ(dns_hear(r, fds[i], name, DNS_A, (uint16_t)i, &a), DNS_OK);
		CHECK_EQ(a.count, 1);
		close(fds[i]);
	}
}

/* ---- over TCP ---- */

static size_t tcp_question(uint8_t *out, size_t size, const char *name, uint16_t id)
{
	struct dns_question q = {.id = id, .type = DNS_A, .recursion = true};
	int n;

	snprintf(q.name, sizeof(q.name), "%s", name);
	n = dns_question_format(&q, out + 2, size - 2);
	CHECK(n > 0);
	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	return (size_t)n + 2;
}

static void tcp_answer(struct rig *r, int fd, const char *name, uint16_t id, enum dns_code code)
{
	struct dns_question q = {.id = id, .type = DNS_A, .recursion = true};
	uint8_t head[2], in[512];
	struct dns_answer a;
	size_t n;

	snprintf(q.name, sizeof(q.name), "%s", name);
	tcp_read(r, fd, head, 2);
	n = (size_t)(head[0] << 8 | head[1]);
	CHECK(n <= sizeof(in));
	tcp_read(r, fd, in, n);
	CHECK_EQ(dns_answer_parse(&a, &q, in, n), 0);
	CHECK_EQ(a.code, code);
}

NET_TEST(questions_over_tcp)
{
	int fd = tcp_connect(r->dns_port);
	uint8_t out[1024];
	size_t n = tcp_question(out, sizeof(out), "slow.example", 1), m;

	/* Byte by byte; then two at once; then one more after an answer. */
	for (size_t i = 0; i < n; i++)
		tcp_write(r, fd, out + i, 1);
	way_ok(r, rig_way(r, 0));
	tcp_answer(r, fd, "slow.example", 1, DNS_OK);
	n = tcp_question(out, sizeof(out), "a.example", 2);
	m = tcp_question(out + n, sizeof(out) - n, "b.example", 3);
	tcp_write(r, fd, out, n + m);
	way_error(r, rig_way(r, 1), ERR_DENIED);
	tcp_answer(r, fd, "a.example", 2, DNS_NXDOMAIN);
	way_error(r, rig_way(r, 2), ERR_NOT_FOUND);
	tcp_answer(r, fd, "b.example", 3, DNS_NXDOMAIN);
	n = tcp_question(out, sizeof(out), "localhost", 4);
	tcp_write(r, fd, out, n);
	tcp_answer(r, fd, "localhost", 4, DNS_OK);
	close(fd);
}

NET_TEST(tcp_clients_that_leave_or_lie)
{
	uint8_t out[1024];
	size_t n = tcp_question(out, sizeof(out), "gone.example", 1);
	int fd = tcp_connect(r->dns_port);
	struct way *w;
	struct dns_answer a;

	/* Gone while the door thinks. */
	tcp_write(r, fd, out, n);
	w = rig_way(r, 0);
	close(fd);
	way_ok(r, w);
	/* An empty question, a long one, and what is none: closed. */
	fd = tcp_connect(r->dns_port);
	tcp_write(r, fd, "\0\0", 2);
	CHECK_EQ(tcp_next(r, fd), 0);
	close(fd);
	fd = tcp_connect(r->dns_port);
	tcp_write(r, fd, "\xff\xff", 2);
	CHECK_EQ(tcp_next(r, fd), 0);
	close(fd);
	fd = tcp_connect(r->dns_port);
	tcp_write(r, fd,
		  "\0\x03"
		  "abc",
		  5);
	CHECK_EQ(tcp_next(r, fd), 0);
	close(fd);
	fd = dns_socket(r);
	CHECK_EQ(resolve(r, fd, "fine.example", DNS_A, 0, &a), DNS_OK);
	close(fd);
}

NET_TEST(tcp_clients_are_bounded)
{
	enum { CLIENTS = INIT_DNS_TCP_MAX + 20 };
	uint8_t out[64];
	size_t n = tcp_question(out, sizeof(out), "localhost", 1);
	static int fds[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		fds[i] = tcp_connect(r->dns_port);
	/* Those beyond wait until others leave. */
	for (int i = 0; i < CLIENTS; i++) {
		tcp_write(r, fds[i], out, n);
		tcp_answer(r, fds[i], "localhost", 1, DNS_OK);
		close(fds[i]);
	}
}

/* ---- the table ---- */

TEST(names_keep_their_addresses_until_the_table_is_full)
{
	struct names n;
	uint32_t addr, again;
	char name[32];

	names_init(&n, INIT_NAMES_MAX);
	CHECK(!names_find(&n, 0xc6120001));
	for (uint32_t i = 0; i < INIT_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.x", i);
		CHECK_EQ(names_give(&n, name, 1000, &addr), 0);
		CHECK_EQ(addr, 0xc6120001 + i);
		CHECK(names_is_synthetic(addr));
		CHECK_STR(names_find(&n, addr), name);
		CHECK(!names_find(&n, addr + 1));
	}
	CHECK_EQ(names_give(&n, "one.more", 1000, &addr), -ENOSPC);
	for (uint32_t i = 0; i < INIT_NAMES_MAX; i += 7) {
		snprintf(name, sizeof(name), "n%u.x", i);
		CHECK_EQ(names_give(&n, name, 1000, &again), 0);
		CHECK_EQ(again, 0xc6120001 + i);
	}
	CHECK(!names_find(&n, 0xc6120000));
	CHECK(!names_find(&n, 0x7f000001));
	CHECK(!names_is_synthetic(0xc6140000) && names_is_synthetic(0xc613ffff));
	/* A box that asks for ever: every name has an address once the others' time is over. */
	for (uint32_t i = 0; i < 3 * INIT_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "later%u.x", i);
		CHECK_EQ(names_give(&n, name, 1000 + INIT_NAME_MS * (1 + i / 9000), &addr), 0);
		CHECK_STR(names_find(&n, addr), name);
	}
	CHECK_EQ(n.count, INIT_NAMES_MAX);
	names_done(&n);
}

TEST(the_least_recently_used_name_gives_its_address_away)
{
	static const char *const first[] = {"a", "b", "c", "d"};
	uint64_t late = INIT_NAME_MS + 10;
	struct names n;
	uint32_t addrs[4], addr;

	names_init(&n, 4);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(names_give(&n, first[i], i, &addrs[i]), 0);
	CHECK_EQ(names_give(&n, "e", INIT_NAME_MS - 1, &addr), -ENOSPC);
	/* Two connections to a, of which one ends; b is asked for again; c is the oldest then. */
	names_hold(&n, addrs[0]);
	names_hold(&n, addrs[0]);
	names_release(&n, addrs[0], 5);
	CHECK_EQ(names_give(&n, "b", 9, &addr), 0);
	CHECK_EQ(addr, addrs[1]);
	CHECK_EQ(names_give(&n, "e", late, &addr), 0);
	CHECK_EQ(addr, addrs[2]);
	CHECK_STR(names_find(&n, addr), "e");
	CHECK_EQ(names_give(&n, "c", late, &addr), 0);
	CHECK_EQ(addr, addrs[3]);
	CHECK_EQ(names_give(&n, "f", late, &addr), 0);
	CHECK_EQ(addr, addrs[1]);
	/* All others are new, and a has a connection, however old it is. */
	CHECK_EQ(names_give(&n, "g", late, &addr), -ENOSPC);
	CHECK_STR(names_find(&n, addrs[0]), "a");
	CHECK_EQ(names_give(&n, "a", late, &addr), 0);
	CHECK_EQ(addr, addrs[0]);
	/* Its time begins with the end of the last connection. */
	names_release(&n, addrs[0], 2 * late);
	for (int i = 0; i < 3; i++) {
		char name[] = {(char)('h' + i), '\0'};

		CHECK_EQ(names_give(&n, name, 2 * late, &addr), 0);
		CHECK(addr != addrs[0]);
	}
	CHECK_EQ(names_give(&n, "z", 2 * late + INIT_NAME_MS, &addr), 0);
	CHECK_EQ(addr, addrs[0]);
	names_done(&n);
}

/* ---- all of it, with the real redirect ---- */

static struct rig *start_redirected(int group)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	struct rig_fds fds = {0};
	struct guest_redirect net;
	struct rig *r;
	int sock;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		SKIP("no user and network namespaces here");
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(sock >= 0 && ioctl(sock, SIOCSIFFLAGS, &lo) == 0);
	close(sock);
	CHECK_EQ(guest_redirect_make(&net), 0);
	if (net.missing)
		SKIP("this kernel has no nftables");
	if (group >= 0) {
		fds.fd[fds.count] = group;
		fds.option[fds.count++] = "--cgroup";
	}
	for (size_t i = 0; i < net.count; i++) {
		fds.fd[fds.count] = net.fds[i];
		fds.option[fds.count++] = net.options[i];
	}
	r = rig_start_with(&fds);
	for (size_t i = 0; i < net.count; i++)
		close(net.fds[i]);
	return r;
}

/* Only the start of it, without waiting: the kernel accepts for init. */
static int connect_to(const char *text, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
	int fd = socket(is4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(is4 || inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
	CHECK_EQ(is4 ? connect(fd, (struct sockaddr *)&v4, sizeof(v4))
		     : connect(fd, (struct sockaddr *)&v6, sizeof(v6)),
		 0);
	return fd;
}

TEST(where_a_connection_was_going)
{
	static const struct {
		const char *to, *host;
		uint16_t port;
	} aims[] = {
		{"192.0.2.1", "192.0.2.1", 80},
		{"10.1.2.3", "10.1.2.3", 3128},
		{"169.254.169.254", "169.254.169.254", 80},
		{"2001:db8::5", "2001:db8::5", 443},
		{"::ffff:192.0.2.9", "192.0.2.9", 22},
		{"198.20.0.1", "198.20.0.1", 1},
	};
	struct rig *r = start_redirected(-1);
	char got[3] = "";

	for (unsigned i = 0; i < sizeof(aims) / sizeof(aims[0]); i++) {
		int fd = connect_to(aims[i].to, aims[i].port);
		struct way *w = rig_way(r, i);

		CHECK_STR(w->host, aims[i].host);
		CHECK_EQ(w->port, aims[i].port);
		CHECK_EQ(w->proxy, 0);
		way_ok(r, w);
		tcp_write(r, fd, "up", 2);
		way_wait_bytes(r, w, 2);
		way_send(r, w, "dn", 2);
		tcp_read(r, fd, got, 2);
		CHECK_STR(got, "dn");
		close(fd);
		way_wait_eof(r, w);
	}
	rig_stop(r);
}

TEST(an_address_means_the_name_it_was_given_for)
{
	struct rig *r = start_redirected(-1);
	int dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct dns_answer a;
	struct way *w;

	to.sin_addr.s_addr = inet_addr("127.0.0.53");
	CHECK_EQ(connect(dns, (struct sockaddr *)&to, sizeof(to)), 0);
	CHECK_EQ(resolve(r, dns, "first.example", DNS_A, 0, &a), DNS_OK);
	CHECK_EQ(resolve(r, dns, "second.example", DNS_A, 0, &a), DNS_OK);
	fd = connect_to("198.18.0.2", 443);
	w = rig_way(r, 2);
	CHECK_STR(w->host, "second.example");
	CHECK_EQ(w->port, 443);
	close(fd);
	fd = connect_to("198.18.0.1", 22);
	w = rig_way(r, 3);
	CHECK_STR(w->host, "first.example");
	close(fd);
	/* Those that were never given out, and the redirect's own port, lead nowhere. */
	static const char *const none[] = {"198.18.0.3", "198.18.0.0", "198.19.255.255"};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		fd = connect_to(none[i], 80);
		CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
		close(fd);
	}
	fd = connect_to("127.0.0.1", GUEST_REDIRECT_PORT);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	fd = connect_to("::1", GUEST_REDIRECT_PORT);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	CHECK_EQ(r->count, 4);
	/* The proxy is beside it. */
	fd = connect_to("127.0.0.1", 3128);
	w = rig_way(r, 4);
	CHECK_EQ(w->proxy, 1);
	close(fd);
	close(dns);
	rig_stop(r);
}

/* Connects from a process in that group of the test's, and stays until it is killed. */
static pid_t connect_from(int group, const char *name, uint16_t port)
{
	pid_t pid = fork();
	char path[64];
	int fd;

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	fd = openat(group, path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "0", 1) == 1);
	tcp_connect(port);
	pause();
	_exit(0);
}

TEST(whose_a_connection_is)
{
	static const char *const groups[] = {"e77", "e4000000", "other", "e77"};
	static const uint64_t ids[] = {77, 4000000, 0, 77};
	uint16_t port = 0;
	char path[128];
	int group = group_make(path, sizeof(path)), status;
	struct rig_fds fds = {
		.fd = {group, tcp_listen(AF_INET, &port),
		       socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 4 /* NETLINK_SOCK_DIAG */)},
		.option = {"--cgroup", "--net-proxy", "--net-diag"},
		.count = 3};
	struct rig *r = rig_start_with(&fds);

	for (unsigned i = 0; i < 4; i++) {
		pid_t pid;

		CHECK(mkdirat(group, groups[i], 0755) == 0 || errno == EEXIST);
		pid = connect_from(group, groups[i], port);
		CHECK_EQ(rig_way(r, i)->exec_id, ids[i]);
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
	}
	rig_stop(r);
	group_remove(group, path);
}

TAP_MAIN
