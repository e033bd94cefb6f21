/* B8, B10, B22, C7: socket families, raw sockets, host listeners, passed descriptors, floods. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAMILY_END = 46, NETLINK = 16 };

static bool may_have(int family)
{
	return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == NETLINK;
}

CASE(B8_every_family_and_type, "B8", AS_BOTH, "only UNIX, INET, INET6 and NETLINK sockets exist")
{
	unsigned tried = 0;

	for (int family = 0; family < FAMILY_END; family++)
		for (int type = 0; type <= 10; type++) {
			int fd;

			if (may_have(family))
				continue;
			tried++;
			fd = socket(family, type, 0);
			if (fd >= 0)
				return broke("family %d type %d", family, type);
			if (!is_refusal(errno) && errno != EAFNOSUPPORT)
				return broke("family %d type %d: %s", family, type,
					     strerror(errno));
		}
	return held("%u pairs", tried);
}

CASE(B8_families_are_filtered, "B8", AS_BOTH,
     "the filter answers for packet sockets, where the kernel would say EPERM")
{
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0)
		return broke("AF_PACKET opened");
	return errno == EAFNOSUPPORT ? held("EAFNOSUPPORT") : broke("%s", strerror(errno));
}

static int family(const char *name, int number, int type, int protocol)
{
	int fd = socket(number, type, protocol);

	if (fd >= 0)
		return broke("%s opened", name);
	return is_refusal(errno) || errno == EAFNOSUPPORT ? held("%s: %s", name, strerror(errno))
							  : broke("%s: %s", name, strerror(errno));
}

#define FAMILY(id, name, number, type, protocol)               \
	CASE(B8_##id, "B8", AS_BOTH, name " cannot be opened") \
	{                                                      \
		return family(name, number, type, protocol);   \
	}

FAMILY(af_packet, "AF_PACKET", AF_PACKET, SOCK_RAW, 0x0300)
FAMILY(af_alg, "AF_ALG", 38, SOCK_SEQPACKET, 0)
FAMILY(af_xdp, "AF_XDP", 44, SOCK_RAW, 0)
FAMILY(af_tipc, "AF_TIPC", 30, SOCK_RDM, 0)
FAMILY(af_key, "AF_KEY", 15, SOCK_RAW, 2)
FAMILY(af_bluetooth, "AF_BLUETOOTH", 31, SOCK_RAW, 1)
FAMILY(af_can, "AF_CAN", 29, SOCK_RAW, 1)
FAMILY(af_rds, "AF_RDS", 21, SOCK_SEQPACKET, 0)
FAMILY(af_kcm, "AF_KCM", 41, SOCK_DGRAM, 0)
FAMILY(af_smc, "AF_SMC", 43, SOCK_STREAM, 0)

CASE(B8_raw_sockets, "B8", AS_BOTH, "raw IP and ICMP sockets cannot be opened")
{
	if (socket(AF_INET, SOCK_RAW, IPPROTO_RAW) >= 0 || socket(AF_INET, SOCK_RAW, 1) >= 0)
		return broke("raw IPv4");
	if (socket(AF_INET6, SOCK_RAW, 58) >= 0)
		return broke("raw IPv6");
	return held("%s", strerror(errno));
}

CASE(B8_netlink_protocols, "B8", AS_BOTH, "of netlink only ROUTE can be opened")
{
	for (int protocol = 1; protocol <= 22; protocol++) {
		if (socket(NETLINK, SOCK_RAW, protocol) >= 0)
			return broke("protocol %d", protocol);
		if (!is_refusal(errno) && errno != EAFNOSUPPORT)
			return broke("protocol %d reached the kernel: %s", protocol,
				     strerror(errno));
	}
	return held("%s", strerror(errno));
}

CASE(B8_family_high_bits, "B8", AS_BOTH, "a family with its high bits set is not taken for another")
{
	long fd = syscall(SYS_socket, 0x100000026ul, SOCK_SEQPACKET, 0);

	return failed("AF_ALG with bit 32", fd);
}

CASE(B8_socketpair_family, "B8", AS_BOTH, "socketpair makes nothing but UNIX pairs")
{
	int pair[2];

	return failed("socketpair TIPC", socketpair(30, SOCK_SEQPACKET, 0, pair));
}

CASE(B8_tcp_ulp, "B8", AS_BOTH, "TCP_ULP (kernel TLS, espintcp) cannot be set")
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return refused("TCP_ULP", setsockopt(fd, IPPROTO_TCP, 31, "tls", 4));
}

CASE(B8_route_cannot_be_changed, "B8", AS_BOTH, "no device, address or route can be added")
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = 0};

	return failed("take lo down", ioctl(fd, SIOCSIFFLAGS, &request));
}

CASE(B10_vsock, "B10", AS_BOTH, "AF_VSOCK fails at socket(): no way to CID 2 or 1")
{
	return family("AF_VSOCK", 40, SOCK_STREAM, 0);
}

CASE(B10_vsock_datagram, "B10", AS_BOTH, "AF_VSOCK datagrams fail at socket()")
{
	return family("AF_VSOCK", 40, SOCK_DGRAM, 0);
}

static int reach(uint32_t address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	int code = 0;
	socklen_t len = sizeof(code);
	char byte;

	to.sin_port = htons((uint16_t)canary_number("CANARY_PORT"));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 &&
	    (errno != EINPROGRESS || poll(&wait, 1, 60000) != 1 ||
	     getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0 || code != 0)) {
		close(fd);
		return -1;
	}
	/* The box's own end of the door takes every connection, and cuts it: nobody was reached. */
	wait.events = POLLIN;
	code = poll(&wait, 1, 60000) == 1 && recv(fd, &byte, 1, 0) <= 0 ? -1 : 0;
	close(fd);
	return code;
}

CASE(B22_host_loopback, "B22", AS_BOTH, "the host's loopback listener cannot be reached")
{
	static const uint32_t addresses[] = {0x7f000001, 0x00000000, 0x7f000101, 0x7fffffff,
					     0x0a000002, 0xc0a80001, 0xac110001, 0xa9fea9fe};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (reach(addresses[i]) == 0)
			return broke("reached by %08x", addresses[i]);
	return held("8 addresses");
}

CASE(B22_host_loopback_v6, "B22", AS_BOTH, "nor by ::1 and mapped addresses")
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6};
	static const char *const names[] = {"::1", "::ffff:127.0.0.1", "::"};

	to.sin6_port = htons((uint16_t)canary_number("CANARY_PORT"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int fd = socket(AF_INET6, SOCK_STREAM, 0);

		inet_pton(AF_INET6, names[i], &to.sin6_addr);
		if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			return broke("reached by %s", names[i]);
		close(fd);
	}
	return held("3 addresses");
}

CASE(B22_host_abstract_socket, "B22", AS_BOTH, "the host's abstract socket cannot be reached")
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *name = canary_text("CANARY_ABSTRACT");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(to.sun_path + 1, name, strlen(name));
	return failed("connect", connect(fd, (struct sockaddr *)&to,
					 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
						     strlen(name))));
}

CASE(B22_well_known_sockets, "B22", AS_BOTH,
     "no docker, containerd, dbus or Cove socket is visible")
{
	static const char *const paths[] = {"/run/docker.sock",
					    "/var/run/docker.sock",
					    "/run/dbus/system_bus_socket",
					    "/run/containerd/containerd.sock",
					    "/run/systemd/private",
					    "/run/cove",
					    "/run/user/0",
					    "/run/podman/podman.sock"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], F_OK) == 0)
			return broke("%s is there", paths[i]);
	return held("none");
}

CASE(B22_passed_directory_descriptor, "B22", AS_BOTH,
     "a directory descriptor passed over a socket opens nothing outside")
{
	int pair[2], dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), got = -1;
	char control[CMSG_SPACE(sizeof(int))] = "", byte = 'x';
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return broke("no socketpair: %s", strerror(errno));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &dir, sizeof(int));
	if (sendmsg(pair[0], &m, 0) != 1 || recvmsg(pair[1], &m, 0) != 1)
		return broke("not passed: %s", strerror(errno));
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return has_canary(got, canary_path() + 1) ? broke("read the canary") : held("inside");
}

CASE(B22_forged_credentials, "B22", AS_BOTH, "SCM_CREDENTIALS cannot claim pid 1 or another uid")
{
	struct {
		int pid;
		unsigned uid, gid;
	} who = {1, 12345, 12345};
	int pair[2], on = 1;
	char control[CMSG_SPACE(sizeof(who))] = "", byte = 'x';
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return broke("no socketpair");
	setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = 2; /* SCM_CREDENTIALS */
	c->cmsg_len = CMSG_LEN(sizeof(who));
	memcpy(CMSG_DATA(c), &who, sizeof(who));
	return failed("sendmsg as pid 1", sendmsg(pair[0], &m, 0));
}

CASE(B22_wire_is_out_of_reach, "B22", AS_BOTH, "no command holds init's socket to the keeper")
{
	char text[8192];
	int type;
	socklen_t len = sizeof(type);

	for (int fd = 0; fd < 256; fd++)
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0)
			return broke("descriptor %d is a socket", fd);
	if (slurp("/proc/net/unix", text, sizeof(text)) > 0 && strstr(text, "keeper"))
		return broke("/proc/net/unix names the keeper");
	return held("no socket");
}

/* One instruction that lets everything pass. */
struct tiny_program {
	struct {
		unsigned short code;
		unsigned char jt, jf;
		unsigned k;
	} op;
	struct {
		unsigned short count;
		void *ops;
	} program;
};

CASE(B8_packet_filter, "B8", AS_BOTH,
     "no socket takes a program, whose memory all of the host share, by any option or upper half")
{
	static const struct {
		long option;
		const char *name;
	} options[] = {{26, "SO_ATTACH_FILTER"},
		       {50, "SO_ATTACH_BPF"},
		       {51, "SO_ATTACH_REUSEPORT_CBPF"},
		       {52, "SO_ATTACH_REUSEPORT_EBPF"}};
	struct tiny_program tiny = {.op = {0x06, 0, 0, 0xffff}, .program = {1, &tiny.op}};
	static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
	const long high = 1l << 32;
	int none = -1;

	for (size_t i = 0; i < 4 * 3; i++) {
		int fd = socket(families[i / 4], SOCK_DGRAM, 0);
		long option = options[i % 4].option;
		void *value = option == 26 || option == 51 ? (void *)&tiny.program : (void *)&none;
		long length = value == &none ? sizeof(none) : sizeof(tiny.program);

		for (int upper = 0; upper < 2 && fd >= 0; upper++) {
			long more = upper ? high : 0;

			if (syscall(SYS_setsockopt, fd, more | SOL_SOCKET, more | option, value,
				    length) == 0 ||
			    !is_refusal(errno))
				return broke("%s: %s", options[i % 4].name, strerror(errno));
		}
		close(fd);
	}
	return held("refused");
}

CASE(B8_netfilter_sockopts, "B8", AS_BOTH, "the old iptables and arptables calls are refused")
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char entry[256] = "filter";
	socklen_t len = sizeof(entry);

	return failed("IPT_SO_GET_INFO", getsockopt(fd, IPPROTO_IP, 64, entry, &len));
}

CASE(B8_multicast_out, "B8", AS_BOTH, "a datagram to the outside has nowhere to go")
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
	return failed("sendto", sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
}

/* ---- C7: the only network that a box has is its own loopback ---- */

enum { SOCKETS = 70000, FLOOD = 200000, FLOOD_MAX = 64 << 20 };

/* A listener and a connection to it; 0, or the error. */
static int connect_to_itself(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client, code = 0;
	socklen_t len = sizeof(at);

	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || client < 0 || bind(listener, (struct sockaddr *)&at, len) < 0 ||
	    listen(listener, 4) < 0 || getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    connect(client, (struct sockaddr *)&at, len) < 0)
		code = errno;
	close(client);
	close(listener);
	return code;
}

static int socket_storm(void *arg)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rlimit files;
	int made = 0, score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Sockets are the kernel's memory and no process's own: this is the one to be chosen. */
	if (write(score, "1000", 4) < 0)
		return 97;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (; made < SOCKETS; made++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			break;
		/* Ports run out before descriptors do; what counts is the socket. */
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
			listen(fd, 4);
	}
	if (made == SOCKETS)
		return 0;
	return made > 0 ? errno : 98;
}

CASE(C7_sockets_on_loopback, "C7", AS_USER | SMALL | OOM,
     "65,000 sockets end at the limit of open files or of memory, and loopback works afterwards")
{
	int status = in_child(socket_storm, NULL, 60), code = connect_to_itself();
	int said = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (code)
		return broke("loopback does not work afterwards: %s", strerror(code));
	if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return held("ended by the kernel");
	if (said == EMFILE || said == ENFILE || said == ENOMEM || said == ENOBUFS)
		return held("%s", strerror(said));
	return broke("%d sockets: status %x", SOCKETS, status);
}

CASE(C7_datagram_flood, "C7", AS_USER | SMALL,
     "a flood of datagrams that nobody reads is dropped: a queue is bounded whatever is asked for")
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int in = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int out = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int huge = 1 << 30, sent = 0;
	socklen_t len = sizeof(at);
	static char data[1400];
	long kept = 0;

	setsockopt(in, SOL_SOCKET, SO_RCVBUF, &huge, sizeof(huge));
	if (bind(in, (struct sockaddr *)&at, len) < 0 ||
	    getsockname(in, (struct sockaddr *)&at, &len) < 0)
		return broke("bind: %s", strerror(errno));
	for (int i = 0; i < FLOOD; i++)
		sent += sendto(out, data, sizeof(data), 0, (struct sockaddr *)&at, len) > 0;
	for (ssize_t n; (n = recv(in, data, sizeof(data), 0)) > 0;)
		kept += n;
	if (sent == 0 || kept == 0)
		return broke("%d sent, %ld bytes kept: %s", sent, kept, strerror(errno));
	return kept < FLOOD_MAX ? held("%d sent, %ld bytes kept", sent, kept)
				: broke("%ld bytes were kept", kept);
}
