/* The way to the door, tried in a network namespace of the test's own. */
#include "tap.h"

#include "base/fd.h"
#include "guest/redirect.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { ORIGINAL_DST = 80, WAIT_MS = 60000 };

static struct guest_redirect net;

static void into_namespace(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int sock;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		SKIP("no user and network namespaces here");
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(sock >= 0 && ioctl(sock, SIOCSIFFLAGS, &lo) == 0);
	close(sock);
}

static void set_up(void)
{
	into_namespace();
	CHECK_EQ(guest_redirect_make(&net), 0);
	if (net.missing)
		SKIP("this kernel has no nftables");
}

static int fd_of(const char *option, int nth)
{
	for (size_t i = 0; i < net.count; i++)
		if (strcmp(net.options[i], option) == 0 && nth-- == 0)
			return net.fds[i];
	return -1;
}

/* An address of either family, from text. */
union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t parse(union address *ret, const char *text, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		return sizeof(ret->v4);
	}
	CHECK_EQ(inet_pton(AF_INET6, text, &ret->v6.sin6_addr), 1);
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(port);
	ret->v6.sin6_scope_id = text[0] == 'f' && text[1] != 'd' ? 1 : 0;
	return sizeof(ret->v6);
}

static int try_connect(const char *text, uint16_t port)
{
	union address to;
	socklen_t len = parse(&to, text, port);
	int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	if (connect(fd, &to.any, len) < 0) {
		int code = errno;

		close(fd);
		return -code;
	}
	return fd;
}

static int accept_one(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void check_original(int fd, const char *text, uint16_t port)
{
	union address want, got;
	socklen_t len = sizeof(got);

	parse(&want, text, port);
	memset(&got, 0, sizeof(got));
	if (want.any.sa_family == AF_INET) {
		CHECK_EQ(getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &got, &len), 0);
		CHECK_EQ(got.v4.sin_addr.s_addr, want.v4.sin_addr.s_addr);
		CHECK_EQ(ntohs(got.v4.sin_port), port);
	} else {
		CHECK_EQ(getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &got, &len), 0);
		CHECK_MEM(&got.v6.sin6_addr, &want.v6.sin6_addr, 16);
		CHECK_EQ(ntohs(got.v6.sin6_port), port);
	}
}

static void check_redirected(const char *text, uint16_t port, int listener, const char *original)
{
	int client = try_connect(text, port), server;
	char got[5] = "";

	CHECK(client >= 0);
	server = accept_one(listener);
	CHECK(server >= 0);
	check_original(server, original, port);
	CHECK_EQ(send(client, "ping", 4, 0), 4);
	CHECK_EQ(recv(server, got, 4, MSG_WAITALL), 4);
	CHECK_EQ(send(server, "pong", 4, 0), 4);
	CHECK_EQ(recv(client, got, 4, MSG_WAITALL), 4);
	CHECK_STR(got, "pong");
	close(client);
	close(server);
}

TEST(all_tcp_comes_to_the_redirect)
{
	static const char *const v4[] = {"192.0.2.7",	    "10.0.0.1",	  "8.8.8.8",
					 "169.254.169.254", "198.18.0.1", "192.168.1.1",
					 "172.17.0.1",	    "100.64.0.1", "126.255.255.255",
					 "128.0.0.1",	    "1.0.0.127"};
	static const uint16_t ports[] = {
		1, 22, 53, 80, 443, 3128, 5432, 65535, GUEST_REDIRECT_PORT};
	char mapped[64];

	set_up();
	for (size_t i = 0; i < sizeof(v4) / sizeof(v4[0]); i++)
		check_redirected(v4[i], 443, fd_of("--net-redirect", 0), v4[i]);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		check_redirected("192.0.2.9", ports[i], fd_of("--net-redirect", 0), "192.0.2.9");
	for (size_t i = 0; i < sizeof(v4) / sizeof(v4[0]); i++) {
		snprintf(mapped, sizeof(mapped), "::ffff:%s", v4[i]);
		check_redirected(mapped, 80, fd_of("--net-redirect", 0), v4[i]);
	}
}

TEST(all_tcp_over_ipv6_too)
{
	static const char *const v6[] = {"2001:db8::1", "2606:4700::1111", "fd00::1",
					 "64:ff9b::1",	"2002:7f00:1::1",  "::2",
					 "fe80::1"};

	set_up();
	if (fd_of("--net-redirect", 1) < 0)
		SKIP("no IPv6 here");
	for (size_t i = 0; i < sizeof(v6) / sizeof(v6[0]); i++)
		check_redirected(v6[i], 443, fd_of("--net-redirect", 1), v6[i]);
}

static int listen_on(const char *text, uint16_t port)
{
	union address at;
	socklen_t len = parse(&at, text, port);
	int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, &at.any, len), 0);
	CHECK_EQ(listen(fd, 4), 0);
	return fd;
}

TEST(the_loopback_is_left_alone)
{
	static const char *const addrs[] = {"127.0.0.1", "127.8.9.10", "::1"};

	set_up();
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		int listener = listen_on(addrs[i], 8000);
		int client = try_connect(addrs[i], 8000), server;

		CHECK(client >= 0);
		server = accept_one(listener);
		CHECK(server >= 0);
		close(client);
		close(server);
		close(listener);
		CHECK_EQ(try_connect(addrs[i], 8001), -ECONNREFUSED);
	}
	/* The unspecified address is this host. */
	CHECK_EQ(try_connect("0.0.0.0", 8001), -ECONNREFUSED);
	CHECK_EQ(try_connect("::", 8001), -ECONNREFUSED);
}

/* libc counts addresses other than 127.0.0.1 when a program asks for what this machine could use.
 * */
TEST(a_box_has_an_ipv4_address_for_libc)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = AI_ADDRCONFIG}, *found = NULL;

	set_up();
	CHECK_EQ(getaddrinfo("127.0.1.1", NULL, &hints, &found), 0);
	freeaddrinfo(found);
}

/* What came here by itself has no other aim: it is its own, or nobody knows of any. */
TEST(the_redirect_port_itself_leads_nowhere)
{
	struct sockaddr_in got;
	socklen_t len = sizeof(got);
	int client, server;

	set_up();
	client = try_connect("127.0.0.1", GUEST_REDIRECT_PORT);
	CHECK(client >= 0);
	server = accept_one(fd_of("--net-redirect", 0));
	if (getsockopt(server, IPPROTO_IP, ORIGINAL_DST, &got, &len) < 0)
		CHECK_EQ(errno, ENOENT);
	else
		check_original(server, "127.0.0.1", GUEST_REDIRECT_PORT);
}

/* A datagram fails in the send, or in the answer that is there by then. */
static int udp_fails(const char *text, bool connected)
{
	union address to;
	socklen_t len = parse(&to, text, 53);
	autoclose int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte;

	if (connected && connect(fd, &to.any, len) < 0)
		return errno;
	if (sendto(fd, "x", 1, 0, connected ? NULL : &to.any, connected ? 0 : len) < 0)
		return errno;
	if (!connected)
		return 0;
	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* How many connections the kernel keeps of this network. */
static int tracked(void)
{
	autoclose int fd = open("/proc/sys/net/netfilter/nf_conntrack_count", O_RDONLY | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		SKIP("this kernel does not tell how many connections it tracks");
	return atoi(text);
}

TEST(the_loopback_is_nobody_elses_burden)
{
	union address to;
	socklen_t len;
	int fd, client;

	set_up();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	for (uint16_t port = 1000; port < 1100; port++) {
		len = parse(&to, "127.0.0.1", port);
		sendto(fd, "x", 1, 0, &to.any, len);
		CHECK_EQ(try_connect("127.9.9.9", port), -ECONNREFUSED);
		CHECK_EQ(try_connect("::1", port), -ECONNREFUSED);
		CHECK(udp_fails("192.0.2.1", true));
	}
	CHECK_EQ(tracked(), 0);
	client = try_connect("192.0.2.1", 80);
	CHECK(client >= 0);
	CHECK_EQ(tracked(), 1);
}

TEST(datagrams_are_refused_at_once)
{
	static const char *const addrs[] = {"8.8.8.8",	   "192.0.2.1", "198.18.0.1", "224.0.0.251",
					    "2001:db8::1", "ff02::fb",	"fe80::1"};

	set_up();
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++)
		for (int connected = 0; connected < 2; connected++) {
			int code = udp_fails(addrs[i], connected);

			if (code != EPERM && code != ECONNREFUSED && code != ENETUNREACH)
				printf("# %s: %d\n", addrs[i], code);
			CHECK(code == EPERM || code == ECONNREFUSED || code == ENETUNREACH);
		}
	CHECK_EQ(udp_fails("127.0.0.1", true), ECONNREFUSED);
}

/* The test may open raw sockets in its namespace; a box may not. Even so nothing goes beyond. */
TEST(other_protocols_go_nowhere)
{
	static const int protocols[] = {IPPROTO_ICMP, IPPROTO_UDP,  132 /* SCTP */,
					47 /* GRE */, 50 /* ESP */, IPPROTO_TCP};
	char packet[32] = {8};
	union address to;
	socklen_t len;

	set_up();
	len = parse(&to, "192.0.2.1", 0);
	for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
		autoclose int out = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocols[i]);

		CHECK(out >= 0);
		CHECK(sendto(out, packet, sizeof(packet), 0, &to.any, len) < 0);
		CHECK_EQ(errno, EPERM);
	}
}

static int try_bind(const char *text, int type, uint16_t port, int share)
{
	union address at;
	socklen_t len = parse(&at, text, port);
	autoclose int fd = socket(at.any.sa_family, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	if (share)
		CHECK_EQ(setsockopt(fd, SOL_SOCKET, share, &(int){1}, sizeof(int)), 0);
	if (bind(fd, &at.any, len) < 0 || (type == SOCK_STREAM && listen(fd, 4) < 0))
		return -errno;
	return 0;
}

TEST(nobody_else_gets_the_ports)
{
	static const struct {
		const char *addr;
		int type;
		uint16_t port;
	} taken[] = {
		{"127.0.0.1", SOCK_STREAM, GUEST_REDIRECT_PORT},
		{"0.0.0.0", SOCK_STREAM, GUEST_REDIRECT_PORT},
		{"::1", SOCK_STREAM, GUEST_REDIRECT_PORT},
		{"::", SOCK_STREAM, GUEST_REDIRECT_PORT},
		{"127.0.0.1", SOCK_STREAM, 3128},
		{"0.0.0.0", SOCK_STREAM, 3128},
		{"127.0.0.53", SOCK_DGRAM, 53},
		{"0.0.0.0", SOCK_DGRAM, 53},
		{"127.0.0.53", SOCK_STREAM, 53},
		{"0.0.0.0", SOCK_STREAM, 53},
	};
	static const int shares[] = {0, SO_REUSEADDR, SO_REUSEPORT};

	set_up();
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		for (size_t j = 0; j < sizeof(shares) / sizeof(shares[0]); j++)
			CHECK_EQ(try_bind(taken[i].addr, taken[i].type, taken[i].port, shares[j]),
				 -EADDRINUSE);
	CHECK_EQ(try_bind("127.0.0.1", SOCK_STREAM, 8080, 0), 0);
}

TEST(the_sockets_come_in_order)
{
	static const char *const order[] = {"--net-proxy", "--net-dns",	     "--net-dns-tcp",
					    "--net-diag",  "--net-redirect", "--net-redirect"};

	set_up();
	for (size_t i = 0; i < net.count; i++) {
		CHECK_STR(net.options[i], order[i]);
		CHECK(fcntl(net.fds[i], F_GETFD) == FD_CLOEXEC);
		CHECK(fcntl(net.fds[i], F_GETFL) & O_NONBLOCK);
	}
}

TEST(a_second_time_there_is_nothing_to_have)
{
	struct guest_redirect again;

	set_up();
	CHECK_EQ(guest_redirect_make(&again), -EADDRINUSE);
	CHECK_EQ(again.count, 0);
}

/* Without the right to change the namespace there is no redirect, and that is told; the proxy is
 * there, and nothing else is reachable. */
TEST(without_rules_there_is_the_proxy_alone)
{
	enum { NET_ADMIN = 12, VERSION_3 = 0x20080522 };
	struct {
		uint32_t version;
		int pid;
	} head = {.version = VERSION_3};
	struct {
		uint32_t effective, permitted, inheritable;
	} caps[2];

	into_namespace();
	CHECK_EQ(syscall(SYS_capget, &head, caps), 0);
	caps[0].effective &= ~(1u << NET_ADMIN);
	CHECK_EQ(syscall(SYS_capset, &head, caps), 0);
	CHECK_EQ(guest_redirect_make(&net), 0);
	CHECK_EQ(net.missing, EPERM);
	CHECK(fd_of("--net-redirect", 0) < 0);
	CHECK_EQ(try_connect("192.0.2.1", 443), -ENETUNREACH);
	CHECK_EQ(try_connect("127.0.0.1", GUEST_REDIRECT_PORT), -ECONNREFUSED);
	CHECK(try_connect("127.0.0.1", 3128) >= 0);
}

/* Rules from outside, sockets from inside, as behind a wall with a kernel of its own. */
TEST(the_two_halves_are_the_whole)
{
	struct guest_redirect again;
	int r;

	into_namespace();
	r = guest_redirect_lead();
	if (r < 0)
		SKIP("no nftables here");
	CHECK_EQ(guest_redirect_listen(true, &net), 0);
	CHECK(fd_of("--net-redirect", 0) >= 0);
	CHECK(try_connect("192.0.2.1", 443) >= 0);
	CHECK(try_connect("127.0.0.1", 3128) >= 0);
	CHECK_EQ(guest_redirect_listen(true, &again), -EADDRINUSE);
	CHECK_EQ(again.count, 0);
}

TEST(without_rules_init_listens_for_the_proxy_alone)
{
	into_namespace();
	CHECK_EQ(guest_redirect_listen(false, &net), 0);
	CHECK(fd_of("--net-redirect", 0) < 0);
	CHECK(try_connect("127.0.0.1", 3128) >= 0);
	CHECK_EQ(try_connect("192.0.2.1", 443), -ENETUNREACH);
}

TAP_MAIN
