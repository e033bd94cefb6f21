/* C7, D2, D3, D5, D12 to D14 from inside: ways out that are not the door, and its own sockets. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	REDIRECT_PORT = 61128, /* src/guest/redirect.h */
	PROXY_PORT = 3128,     /* src/guest/redirect.h */
	STUB_ADDR = 0x7f000035,
	CONNECT_MS = 60000,
	ANSWER_MS = 60000,
};

/* ---- connections ---- */

enum reached { NOBODY, CUT, SILENT, ANSWERED };
static const char *const reached_names[] = {"nobody", "cut", "silent", "answered"};

union where {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t where_len(const union where *w)
{
	return w->any.sa_family == AF_INET ? sizeof(w->v4) : sizeof(w->v6);
}

static union where place(const char *text, unsigned port)
{
	union where w = {.v6.sin6_family = AF_INET6};

	if (inet_pton(AF_INET6, text, &w.v6.sin6_addr) == 1) {
		w.v6.sin6_port = htons((uint16_t)port);
		if (IN6_IS_ADDR_LINKLOCAL(&w.v6.sin6_addr))
			w.v6.sin6_scope_id = 1;
		return w;
	}
	w = (union where){.v4.sin_family = AF_INET};
	w.v4.sin_port = htons((uint16_t)port);
	inet_pton(AF_INET, text, &w.v4.sin_addr);
	return w;
}

/* A connected socket, or -errno. */
static int dial(int fd, const union where *to)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	int code = 0;
	socklen_t len = sizeof(code);

	if (fd < 0)
		return -errno;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (connect(fd, &to->any, where_len(to)) == 0)
		return fd;
	if (errno != EINPROGRESS)
		return -errno;
	if (poll(&wait, 1, CONNECT_MS) != 1)
		return -ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len);
	return code ? -code : fd;
}

/* Says something and sees whether anybody answers. */
static enum reached converse(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char answer[512];

	if (send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
		return CUT;
	if (poll(&wait, 1, ANSWER_MS) != 1)
		return SILENT;
	return recv(fd, answer, sizeof(answer), 0) > 0 ? ANSWERED : CUT;
}

static enum reached reach_by(int type, int protocol, const union where *to)
{
	int fd = socket(to->any.sa_family, type, protocol);
	enum reached r = NOBODY;

	if (dial(fd, to) >= 0)
		r = converse(fd);
	if (fd >= 0)
		close(fd);
	return r;
}

static int no_tcp(const char *address, unsigned port)
{
	union where to = place(address, port);
	enum reached r = reach_by(SOCK_STREAM, 0, &to);

	return r == NOBODY || r == CUT ? held("%s: %s", address, reached_names[r])
				       : broke("%s: %s", address, reached_names[r]);
}

#define NO_TCP(id, line, address, port, held_) \
	CASE(id, line, AS_BOTH, held_)         \
	{                                      \
		return no_tcp(address, port);  \
	}

NO_TCP(D2_tcp4_directly, "D2", "192.0.2.1", 80, "TCP to an IPv4 address that no rule names is cut")
NO_TCP(D2_tcp6_directly, "D2", "2001:db8::1", 80,
       "TCP to an IPv6 address that no rule names is cut")
NO_TCP(D2_tcp_high_port, "D2", "198.51.100.7", 31337, "nor on another port")
NO_TCP(D2_public_resolver, "D2", "192.0.2.53", 853, "nor DNS over TLS")
NO_TCP(D3_metadata, "D3", "169.254.169.254", 80, "the metadata address does not answer")
NO_TCP(D3_metadata_v6, "D3", "fd00:ec2::254", 80, "nor the IPv6 one")
NO_TCP(D3_metadata_other_cloud, "D3", "100.100.100.200", 80, "nor that of another cloud")
NO_TCP(D3_private_10, "D3", "10.0.0.2", 80, "10/8 does not answer")
NO_TCP(D3_private_172, "D3", "172.17.0.1", 80, "172.16/12 does not answer")
NO_TCP(D3_private_192, "D3", "192.168.0.1", 80, "192.168/16 does not answer")
NO_TCP(D3_link_local_v6, "D3", "fe80::1", 80, "fe80::1%lo does not answer")
NO_TCP(D3_unique_local_v6, "D3", "fd00::1", 80, "fd00::/8 does not answer")
NO_TCP(D3_nat64, "D3", "64:ff9b::7f00:1", 80, "NAT64 of 127.0.0.1 does not answer")
NO_TCP(D3_nat64_metadata, "D3", "64:ff9b::a9fe:a9fe", 80, "nor NAT64 of the metadata address")
NO_TCP(D3_6to4, "D3", "2002:7f00:1::1", 80, "6to4 of 127.0.0.1 does not answer")
NO_TCP(D3_mapped_private, "D3", "::ffff:10.0.0.2", 80,
       "IPv4-mapped private addresses do not answer")
NO_TCP(D3_mapped_metadata, "D3", "::ffff:169.254.169.254", 80, "nor the mapped metadata address")
NO_TCP(D3_compatible_v4, "D3", "::127.0.0.1", 80, "nor IPv4-compatible ones")
NO_TCP(D3_teredo, "D3", "2001:0:7f00:1::1", 80, "nor Teredo")
NO_TCP(D3_broadcast, "D3", "255.255.255.255", 80, "nor broadcast")
NO_TCP(D3_multicast, "D3", "224.0.0.1", 80, "nor multicast")
NO_TCP(D3_multicast_v6, "D3", "ff02::1", 80, "nor IPv6 multicast")
NO_TCP(D3_synthetic_first, "D3", "198.18.0.1", 80,
       "a synthetic address that may never have been given out")
NO_TCP(D3_synthetic_last, "D3", "198.19.255.254", 80, "nor the last of them")

CASE(D3_host_port_everywhere, "D3", AS_BOTH,
     "the port of the host's listener cannot be reached under any address of a loopback")
{
	static const char *const texts[] = {"127.0.0.1",
					    "127.0.0.2",
					    "127.255.255.254",
					    "0.0.0.0",
					    "0.0.0.1",
					    "::1",
					    "::",
					    "::ffff:127.0.0.1",
					    "::ffff:0.0.0.0",
					    "64:ff9b::7f00:1",
					    "2002:7f00:1::",
					    "::7f00:1",
					    "64:ff9b:1::7f00:1",
					    "198.18.0.0",
					    "198.19.255.255",
					    "::ffff:0:127.0.0.1",
					    "fe80::7f00:1",
					    "fec0::7f00:1",
					    "100::7f00:1",
					    "100.64.0.1"};
	unsigned port = (unsigned)canary_number("CANARY_PORT");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		union where to = place(texts[i], port);
		enum reached r = reach_by(SOCK_STREAM, 0, &to);

		if (r == ANSWERED || r == SILENT)
			return broke("%s: %s", texts[i], reached_names[r]);
	}
	return held("%zu addresses", sizeof(texts) / sizeof(texts[0]));
}

CASE(D3_synthetic_scan, "D3", AS_USER,
     "addresses that mean no name lead nowhere, however many are tried")
{
	unsigned tried = 0;

	for (uint32_t at = 0xc6120000; at < 0xc6140000; at += 1021) {
		union where to = place("0.0.0.0", 80);
		enum reached r;

		to.v4.sin_addr.s_addr = htonl(at);
		r = reach_by(SOCK_STREAM, 0, &to);
		if (r == ANSWERED || r == SILENT)
			return broke("%08x: %s", at, reached_names[r]);
		tried++;
	}
	return held("%u addresses", tried);
}

/* ---- what is not TCP ---- */

static int no_datagram(const char *address, unsigned port, int type, int protocol)
{
	union where to = place(address, port);
	int fd = socket(to.any.sa_family, type, protocol);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char answer[512];
	ssize_t n;

	if (fd < 0)
		return held("no socket: %s", strerror(errno));
	n = sendto(fd, "\x12\x34\x01\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", 19, 0, &to.any,
		   where_len(&to));
	if (n < 0) {
		n = errno;
		close(fd);
		return held("%s: %s", address, strerror((int)n));
	}
	n = poll(&wait, 1, 2000) == 1 ? recv(fd, answer, sizeof(answer), MSG_DONTWAIT) : 0;
	close(fd);
	return n > 0 ? broke("%s port %u answered", address, port) : broke("%s took it", address);
}

#define NO_DATAGRAM(id, line, address, port, type, protocol, held_) \
	CASE(id, line, AS_BOTH, held_)                              \
	{                                                           \
		return no_datagram(address, port, type, protocol);  \
	}

NO_DATAGRAM(D2_udp4, "D2", "192.0.2.1", 9, SOCK_DGRAM, 0, "UDP over IPv4 goes nowhere")
NO_DATAGRAM(D2_udp6, "D2", "2001:db8::1", 9, SOCK_DGRAM, 0, "UDP over IPv6 goes nowhere")
NO_DATAGRAM(D2_udp_private, "D2", "10.0.0.2", 161, SOCK_DGRAM, 0, "nor to a private address")
NO_DATAGRAM(D2_udp_synthetic, "D2", "198.18.0.1", 443, SOCK_DGRAM, 0, "nor to a synthetic one")
NO_DATAGRAM(D12_quic, "D12", "192.0.2.1", 443, SOCK_DGRAM, 0, "QUIC (UDP 443) goes nowhere")
NO_DATAGRAM(D12_quic6, "D12", "2001:db8::1", 443, SOCK_DGRAM, 0, "nor over IPv6")
NO_DATAGRAM(D5_dns_directly, "D5", "192.0.2.53", 53, SOCK_DGRAM, 0,
	    "a resolver outside cannot be asked")
NO_DATAGRAM(D5_dns_directly6, "D5", "2001:db8::53", 53, SOCK_DGRAM, 0, "nor over IPv6")
NO_DATAGRAM(D5_mdns, "D5", "224.0.0.251", 5353, SOCK_DGRAM, 0, "nor by multicast (mDNS)")
NO_DATAGRAM(D5_llmnr, "D5", "ff02::1:3", 5355, SOCK_DGRAM, 0, "nor by LLMNR")
NO_DATAGRAM(D2_udplite, "D2", "192.0.2.1", 9, SOCK_DGRAM, 136, "UDP-Lite goes nowhere")
NO_DATAGRAM(D2_sctp, "D2", "192.0.2.1", 9, SOCK_SEQPACKET, 132, "SCTP goes nowhere")
NO_DATAGRAM(D2_sctp_stream, "D2", "192.0.2.1", 9, SOCK_STREAM, 132, "nor as a stream")
NO_DATAGRAM(D2_dccp, "D2", "192.0.2.1", 9, 6, 33, "DCCP goes nowhere")
NO_DATAGRAM(D13_ping, "D13", "192.0.2.1", 0, SOCK_DGRAM, IPPROTO_ICMP, "an ICMP echo goes nowhere")
NO_DATAGRAM(D13_ping6, "D13", "2001:db8::1", 0, SOCK_DGRAM, IPPROTO_ICMPV6, "nor over IPv6")
NO_DATAGRAM(D13_neighbour_advertisement, "D13", "ff02::1", 0, SOCK_RAW, IPPROTO_ICMPV6,
	    "router and neighbour advertisements cannot be sent")
NO_DATAGRAM(D13_any_protocol, "D13", "192.0.2.1", 0, SOCK_RAW, 47, "nor another protocol (GRE)")

CASE(D2_broadcast_udp, "D2", AS_BOTH, "a broadcast goes nowhere")
{
	union where to = place("255.255.255.255", 67);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	return failed("sendto", sendto(fd, "x", 1, 0, &to.any, sizeof(to.v4)));
}

CASE(D2_udp_to_the_hosts_port, "D2", AS_BOTH, "datagrams do not reach the host's loopback")
{
	static const char *const texts[] = {"127.0.0.1", "0.0.0.0", "::1", "::ffff:127.0.0.1"};
	unsigned port = (unsigned)canary_number("CANARY_UDP");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		union where to = place(texts[i], port);
		int fd = socket(to.any.sa_family, SOCK_DGRAM, 0);

		/* Its own loopback takes it; the canary says whether it came through. */
		if (fd >= 0 && sendto(fd, "x", 1, 0, &to.any, where_len(&to)) < 0 &&
		    errno != ECONNREFUSED && errno != EPERM && errno != ENETUNREACH)
			return broke("%s: %s", texts[i], strerror(errno));
		close(fd);
	}
	return held("4 addresses");
}

CASE(D13_traceroute, "D13", AS_BOTH, "no router's answer comes to a datagram with a TTL of one")
{
	union where to = place("192.0.2.1", 33434);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), ttl = 1, on = 1;
	char data[256];
	struct iovec io = {data, sizeof(data)};
	char control[512];
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};

	setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	sendto(fd, "x", 1, 0, &to.any, sizeof(to.v4));
	for (int i = 0; i < 20; i++) {
		if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
			for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
				struct sockaddr_in from;

				if (c->cmsg_level != IPPROTO_IP ||
				    c->cmsg_len < CMSG_LEN(16 + sizeof(from)))
					continue;
				memcpy(&from, CMSG_DATA(c) + 16, sizeof(from));
				if (from.sin_family == AF_INET &&
				    ntohl(from.sin_addr.s_addr) >> 24 != 127)
					return broke("%s answered", inet_ntoa(from.sin_addr));
			}
		usleep(10000);
	}
	return held("nobody but this box answers");
}

/* ---- socket options that lead past a redirect ---- */

/* The host's listener by a socket that has been prepared: never answered. */
static int not_past(int fd, const char *what)
{
	union where to = place("192.0.2.1", 80);
	int r = dial(fd, &to);
	enum reached got = r < 0 ? NOBODY : converse(fd);

	close(fd);
	if (got == ANSWERED || got == SILENT)
		return broke("%s: %s", what, reached_names[got]);
	return held("%s: %s", what, r < 0 ? strerror(-r) : reached_names[got]);
}

static int with_option(int level, int option, const void *value, socklen_t len, const char *what)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (setsockopt(fd, level, option, value, len) < 0) {
		int code = errno;

		close(fd);
		return held("%s: %s", what, strerror(code));
	}
	return not_past(fd, what);
}

#define WITH_NUMBER(id, level, option, number, held_)                              \
	CASE(id, "D2", AS_BOTH, held_)                                             \
	{                                                                          \
		int value = number;                                                \
                                                                                   \
		return with_option(level, option, &value, sizeof(value), #option); \
	}

WITH_NUMBER(D2_so_mark, SOL_SOCKET, SO_MARK, 1, "a mark does not lead past the redirect")
WITH_NUMBER(D2_dont_route, SOL_SOCKET, SO_DONTROUTE, 1, "SO_DONTROUTE does not")
WITH_NUMBER(D2_transparent, IPPROTO_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT does not")
WITH_NUMBER(D2_freebind, IPPROTO_IP, IP_FREEBIND, 1, "IP_FREEBIND does not")
WITH_NUMBER(D2_unicast_interface, IPPROTO_IP, 50, 1, "IP_UNICAST_IF does not")
WITH_NUMBER(D2_type_of_service, IPPROTO_IP, IP_TOS, 0xfc, "nor a type of service")
WITH_NUMBER(D2_priority, SOL_SOCKET, SO_PRIORITY, 6, "nor a priority")
WITH_NUMBER(D2_repair, IPPROTO_TCP, 19, 1, "TCP_REPAIR is refused or does not")
WITH_NUMBER(D2_fast_open_connect, IPPROTO_TCP, 30, 1, "TCP_FASTOPEN_CONNECT does not")

CASE(D2_bind_to_device, "D2", AS_BOTH, "SO_BINDTODEVICE does not lead past the redirect")
{
	return with_option(SOL_SOCKET, SO_BINDTODEVICE, "lo", 3, "SO_BINDTODEVICE");
}

CASE(D2_source_route, "D2", AS_BOTH, "a loose source route does not lead past the redirect")
{
	static const unsigned char lsrr[] = {0x83, 7, 4, 127, 0, 0, 1, 0};

	return with_option(IPPROTO_IP, IP_OPTIONS, lsrr, sizeof(lsrr), "IP_OPTIONS");
}

CASE(D2_extension_headers, "D2", AS_BOTH,
     "IPv6 extension headers do not hide TCP from the redirect")
{
	static const unsigned char pad[8] = {0, 0, 1, 4, 0, 0, 0, 0};
	union where to = place("2001:db8::1", 80);
	int fd = socket(AF_INET6, SOCK_STREAM, 0), r;
	enum reached got;

	/* Needs CAP_NET_RAW for hop-by-hop; destination options too. */
	if (setsockopt(fd, IPPROTO_IPV6, 54, pad, sizeof(pad)) < 0 &&
	    setsockopt(fd, IPPROTO_IPV6, 59, pad, sizeof(pad)) < 0) {
		r = errno;
		close(fd);
		return held("refused: %s", strerror(r));
	}
	r = dial(fd, &to);
	got = r < 0 ? NOBODY : converse(fd);
	close(fd);
	return got == ANSWERED || got == SILENT ? broke("%s", reached_names[got])
						: held("%s", reached_names[got]);
}

CASE(D2_fast_open_data, "D2", AS_BOTH, "data in the first segment (MSG_FASTOPEN) is redirected too")
{
	union where to = place("192.0.2.1", 80);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char answer[64];
	ssize_t n = sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, &to.any, sizeof(to.v4));

	if (n < 0) {
		n = errno;
		close(fd);
		return held("%s", strerror((int)n));
	}
	n = poll(&wait, 1, ANSWER_MS) == 1 ? recv(fd, answer, sizeof(answer), 0) : -2;
	close(fd);
	return n > 0 || n == -2 ? broke("not cut (%zd)", n) : held("cut");
}

CASE(D2_multipath, "D2", AS_BOTH, "MPTCP is redirected as TCP is, or there is none")
{
	union where to = place("192.0.2.1", 80);
	enum reached r = reach_by(SOCK_STREAM, 262, &to);

	return r == NOBODY || r == CUT ? held("%s", reached_names[r])
				       : broke("%s", reached_names[r]);
}

CASE(D2_nonlocal_source, "D2", AS_BOTH, "a source address that is not the box's cannot be used")
{
	union where from = place("192.0.2.77", 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
	if (bind(fd, &from.any, sizeof(from.v4)) < 0) {
		close(fd);
		return held("bind: %s", strerror(errno));
	}
	return not_past(fd, "bound elsewhere");
}

/* ---- the box's network itself ---- */

struct request {
	unsigned len;
	unsigned short type, flags;
	unsigned sequence, port;
	unsigned char body[64];
};

/* The kernel's answer to a routing message: 0, or a negative errno. */
static int route_request(unsigned short type, unsigned short flags, const void *body, size_t n)
{
	struct request q = {.len = (unsigned)(16 + n), .type = type, .sequence = 1};
	struct {
		unsigned len;
		unsigned short type, flags;
		unsigned sequence, port;
		int code;
		char rest[512];
	} a;
	int fd = socket(16, SOCK_RAW, 0), r = -EIO;

	if (fd < 0)
		return -errno;
	q.flags = (unsigned short)(0x0005 | flags); /* request, acknowledge */
	memcpy(q.body, body, n);
	if (send(fd, &q, q.len, 0) < 0)
		r = -errno;
	else if (recv(fd, &a, sizeof(a), 0) >= 20)
		r = a.type == 2 ? a.code : -EBADMSG;
	close(fd);
	return r;
}

static int route_refused(const char *what, unsigned short type, unsigned short flags,
			 const void *body, size_t n)
{
	errno = -route_request(type, flags, body, n);
	return refused(what, errno == 0 ? 0 : -1);
}

#define ROUTE(id, what, type, flags, ...)                                    \
	CASE(D13_##id, "D13", AS_BOTH, what " is refused")                   \
	{                                                                    \
		static const unsigned char body[] = {__VA_ARGS__};           \
                                                                             \
		return route_refused(what, type, flags, body, sizeof(body)); \
	}

/* family dst src tos table protocol scope type flags; then attributes: len, type, value */
ROUTE(add_route, "adding a route", 24, 0x600, 2, 32, 0, 0, 254, 3, 253, 1, 0, 0, 0, 0, 8, 0, 1, 0,
      192, 0, 2, 1, 8, 0, 4, 0, 1, 0, 0, 0)
ROUTE(delete_route, "deleting the default route", 25, 0, 2, 0, 0, 0, 254, 0, 253, 1, 0, 0, 0, 0)
ROUTE(add_local_route, "making an address local", 24, 0x600, 2, 32, 0, 0, 255, 2, 254, 2, 0, 0, 0,
      0, 8, 0, 1, 0, 198, 18, 0, 1, 8, 0, 4, 0, 1, 0, 0, 0)
ROUTE(add_address, "adding an address", 20, 0x600, 2, 32, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 198, 18, 0,
      1)
ROUTE(delete_address, "deleting 127.0.0.1", 21, 0, 2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 127, 0, 0, 1)
ROUTE(add_rule, "adding a routing rule", 32, 0x600, 2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0)
ROUTE(add_neighbour, "adding a neighbour (ARP spoof)", 28, 0x600, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0,
      0, 8, 0, 1, 0, 192, 0, 2, 1)
ROUTE(take_lo_down, "taking lo down", 19, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
ROUTE(add_dummy, "adding a device", 16, 0x600, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16,
      0, 18, 0, 9, 0, 1, 0, 'd', 'u', 'm', 'm', 'y', 0, 0, 0)
ROUTE(add_filter, "adding a traffic filter", 44, 0x600, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      0, 0, 0, 0, 0)

CASE(D13_netfilter_socket, "D13", AS_BOTH, "the redirect's rules cannot be spoken to")
{
	return failed("NETLINK_NETFILTER", socket(16, SOCK_RAW, 12));
}

CASE(D13_packet_socket, "D13", AS_BOTH, "no packet socket: nothing is sniffed, no ARP is spoofed")
{
	return failed("AF_PACKET", socket(AF_PACKET, SOCK_DGRAM, htons(0x0806)));
}

CASE(D13_hardware_address, "D13", AS_BOTH, "a device's hardware address cannot be changed")
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request = {.ifr_name = "lo"};

	request.ifr_hwaddr.sa_family = 1;
	return failed("SIOCSIFHWADDR", ioctl(fd, SIOCSIFHWADDR, &request));
}

CASE(D13_tunnel_device, "D13", AS_BOTH, "no tunnel device can be made")
{
	int fd = open("/dev/net/tun", O_RDWR);
	struct ifreq request = {.ifr_name = "out0", .ifr_flags = 1};

	if (fd < 0)
		return held("no /dev/net/tun: %s", strerror(errno));
	return failed("TUNSETIFF", ioctl(fd, 0x400454ca, &request));
}

CASE(D13_only_loopback, "D13", AS_BOTH, "the only device is lo")
{
	struct if_nameindex *list = if_nameindex();
	char extra[64] = "";

	for (struct if_nameindex *i = list; i && i->if_index; i++)
		if (strcmp(i->if_name, "lo") != 0 && strcmp(i->if_name, "tunl0") != 0 &&
		    strcmp(i->if_name, "sit0") != 0)
			snprintf(extra, sizeof(extra), "%s", i->if_name);
	if_freenameindex(list);
	return *extra ? broke("there is %s", extra) : held("lo");
}

/* ---- the door's own sockets ---- */

static int no_use(const char *address, unsigned port)
{
	union where to = place(address, port);
	enum reached r = reach_by(SOCK_STREAM, 0, &to);

	return r == NOBODY || r == CUT ? held("%s", reached_names[r])
				       : broke("%s", reached_names[r]);
}

CASE(D14_redirect_port, "D14", AS_BOTH,
     "the redirect's port, used directly, leads nowhere and not to itself")
{
	return no_use("127.0.0.1", REDIRECT_PORT);
}

CASE(D14_redirect_port_v6, "D14", AS_BOTH, "nor over IPv6")
{
	return no_use("::1", REDIRECT_PORT);
}

CASE(D14_redirect_port_by_any, "D14", AS_BOTH, "nor by 0.0.0.0")
{
	return no_use("0.0.0.0", REDIRECT_PORT);
}

CASE(D14_redirect_port_many, "D14", AS_USER, "a hundred times is as good as once")
{
	for (int i = 0; i < 100; i++) {
		union where to = place("127.0.0.1", REDIRECT_PORT);
		enum reached r = reach_by(SOCK_STREAM, 0, &to);

		if (r == ANSWERED || r == SILENT)
			return broke("%d: %s", i, reached_names[r]);
	}
	return held_by_init("all cut");
}

/* Neither with nor without the options that share an address. */
static int cannot_bind(const char *address, unsigned port, int type)
{
	static const int options[] = {0, SO_REUSEADDR, SO_REUSEPORT};
	int on = 1;

	for (size_t i = 0; i < 3; i++) {
		union where at = place(address, port);
		int fd = socket(at.any.sa_family, type, 0), r;

		if (options[i])
			setsockopt(fd, SOL_SOCKET, options[i], &on, sizeof(on));
		r = bind(fd, &at.any, where_len(&at));
		if (r == 0 && type == SOCK_STREAM)
			r = listen(fd, 1);
		close(fd);
		if (r == 0)
			return broke("bound to %s port %u", address, port);
	}
	return held("%s", strerror(errno));
}

#define CANNOT_BIND(id, address, port, type, held_)      \
	CASE(id, "D14", AS_BOTH, held_)                  \
	{                                                \
		return cannot_bind(address, port, type); \
	}

CANNOT_BIND(D14_take_stub_udp, "127.0.0.53", 53, SOCK_DGRAM, "nobody can take the resolver's place")
CANNOT_BIND(D14_take_stub_tcp, "127.0.0.53", 53, SOCK_STREAM, "nor over TCP")
CANNOT_BIND(D14_take_stub_any, "0.0.0.0", 53, SOCK_DGRAM, "nor by the address of all")
CANNOT_BIND(D14_take_proxy, "127.0.0.1", PROXY_PORT, SOCK_STREAM,
	    "nobody can take the proxy's place")
CANNOT_BIND(D14_take_redirect, "127.0.0.1", REDIRECT_PORT, SOCK_STREAM, "nor the redirect's")
CANNOT_BIND(D14_take_redirect_any, "0.0.0.0", REDIRECT_PORT, SOCK_STREAM,
	    "nor by the address of all")
CANNOT_BIND(D14_take_redirect_v6, "::1", REDIRECT_PORT, SOCK_STREAM, "nor the redirect's over IPv6")

CASE(D14_no_socket_in_sight, "D14", AS_BOTH, "no path in the box is a socket of keeper or door")
{
	char text[16384];
	ssize_t n = slurp("/proc/net/unix", text, sizeof(text));

	if (n > 0 && (strstr(text, "keeper") || strstr(text, "door") || strstr(text, "cove")))
		return broke("/proc/net/unix names one");
	if (access(canary_text("CANARY_HOME"), F_OK) == 0)
		return broke("the state directory is there");
	return held("none");
}

/* ---- floods ---- */

enum { IDLE = 1000, QUESTIONS = 20000, STORM = 3000 };

static void raise_files(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* Is a name that no rule allows still not there, says the stub? */
static int stub_answers(void)
{
	static const char q[] = "\x77\x01\x01\0\0\1\0\0\0\0\0\0\6denied\7example\0\0\1\0\1";
	union where to = place("127.0.0.53", 53);
	unsigned char answer[512];

	for (int i = 0; i < 40; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t n = -1;

		sendto(fd, q, sizeof(q) - 1, 0, &to.any, sizeof(to.v4));
		if (poll(&wait, 1, 1000) == 1)
			n = recv(fd, answer, sizeof(answer), 0);
		close(fd);
		if (n >= 12 && answer[0] == 0x77 && answer[1] == 1)
			return (answer[3] & 15) == 3 ? 0 : answer[3] & 15;
	}
	return -1;
}

static int door_works(const char *text)
{
	int code = stub_answers();

	if (code)
		return broke("%s, and then the resolver says %d", text, code);
	return held_by_init(text);
}

CASE(C7_stub_flood, "C7", AS_USER | SMALL,
     "20,000 questions for other names at once: the resolver answers afterwards, init lives")
{
	union where to = place("127.0.0.53", 53);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	char q[64];

	for (int i = 0; i < QUESTIONS; i++) {
		int n = snprintf(q + 12, sizeof(q) - 12,
				 "\x08n%07d\x07"
				 "example",
				 i) +
			12;

		memcpy(q, "\x55\x55\x01\0\0\1\0\0\0\0\0\0", 12);
		memcpy(q + n, "\0\0\1\0\1", 5);
		sendto(fd, q, (size_t)n + 5, 0, &to.any, sizeof(to.v4));
	}
	close(fd);
	return door_works("flooded");
}

CASE(C7_stub_connections, "C7", AS_USER | SMALL,
     "300 idle connections to the resolver do not stop it")
{
	union where to = place("127.0.0.53", 53);
	int opened = 0;

	raise_files();
	for (int i = 0; i < 300; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (dial(fd, &to) >= 0 && send(fd, "\0", 1, MSG_NOSIGNAL) == 1)
			opened++;
		else
			break;
	}
	return opened > 0 ? door_works("open") : broke("none could be opened: %s", strerror(errno));
}

CASE(C7_connection_storm, "C7", AS_USER | SMALL,
     "3,000 connections one after another to what is denied: the door answers afterwards")
{
	union where to = place("192.0.2.1", 80);

	raise_files();
	for (int i = 0; i < STORM; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

		if (fd >= 0) {
			connect(fd, &to.any, sizeof(to.v4));
			close(fd);
		}
	}
	return door_works("all dropped");
}

CASE(C7_slowloris, "C7", AS_USER | SMALL,
     "1,000 idle connections with half a request each do not hurt the box, and names are answered")
{
	union where to = place("127.0.0.1", PROXY_PORT);
	int opened = 0;

	raise_files();
	for (int i = 0; i < IDLE; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (dial(fd, &to) < 0)
			break;
		opened +=
			send(fd, "GET http://denied.example/ HTTP/1.1\r\nX-", 39, MSG_NOSIGNAL) > 0;
	}
	if (opened < 100)
		return broke("only %d connections: %s", opened, strerror(errno));
	return door_works("idle");
}
