/*
 * The way to the door; see redirect.h.
 *
 *	routes	one send to the kernel's routing socket: default by lo, for IPv4 and IPv6; and
 *		127.0.1.1, see put_own_address
 *	rules	one transaction, as `nft` would print it:
 *
 *		table inet cove {
			chain untracked {
				type filter hook output priority raw
				meta l4proto != tcp notrack
				tcp sport 61128 accept
				ip daddr 127.0.0.0/8 notrack
				ip6 daddr ::1 notrack
			}
 *			chain redirect {
 *				type nat hook output priority dstnat
 *				ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :61128
 *				ip6 daddr != ::1 meta l4proto tcp redirect to :61128
 *			}
 *			chain refuse {
 *				type filter hook output priority filter
 *				ip daddr != 127.0.0.0/8 reject with icmpx port-unreachable
 *				ip6 daddr != ::1 reject with icmpx port-unreachable
 *			}
 *		}
 *
 * The last chain sees packets after the second: what was redirected goes to the loopback by then.
 * The first keeps the box's own loopback out of the kernel's table of connections, which is shared
 * by all of the host and counted as no group's memory; only what the redirect's sockets answer
 * has to be found there. Where a kernel cannot do that it goes without.
 * The rules come before the routes, so there is no moment at which anything is led elsewhere.
 *
 * The messages are encoded here: no library is linked into the keeper for two dozen attributes, and
 * musl brings no headers of the kernel's, so the numbers have their names below. Answers are in the
 * socket's queue when the send returns.
 */
#include "guest/redirect.h"

#include "base/err.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BATCH_BYTES = 4096, BACKLOG = 1024, LOOPBACK_INDEX = 1 };

/* linux/netlink.h */
enum { NETLINK_TO_ROUTES = 0, NETLINK_TO_DIAG = 4, NETLINK_TO_NETFILTER = 12 };
enum { F_REQUEST = 0x01, F_ACK = 0x04, F_CREATE = 0x400, F_APPEND = 0x800 };
enum { ATTR_NESTED = 0x8000, MESSAGE_ERROR = 2 };

struct message_head {
	uint32_t len;
	uint16_t type, flags;
	uint32_t sequence, port;
};

struct attr_head {
	uint16_t len, type;
};

struct netlink_addr {
	sa_family_t family;
	uint16_t pad;
	uint32_t port, groups;
};

/* linux/rtnetlink.h */
enum { NEW_ROUTE = 24, ATTR_OUT = 4, ATTR_SOURCE = 7 };
enum { NEW_ADDRESS = 20, ATTR_ADDRESS = 1, ATTR_LOCAL = 2, SCOPE_HOST = 254 };
enum { TABLE_MAIN = 254, PROTOCOL_BOOT = 3, SCOPE_LINK = 253, TYPE_UNICAST = 1 };

struct address_head {
	uint8_t family, prefix_len, flags, scope;
	uint32_t index;
};

struct route_head {
	uint8_t family, dst_len, src_len, tos, table, protocol, scope, type;
	uint32_t flags;
};

/* linux/netfilter/nfnetlink.h and nf_tables.h */
enum { BATCH_BEGIN = 0x10, BATCH_END = 0x11, NFTABLES = 10 };
enum { NEW_TABLE = NFTABLES << 8, NEW_CHAIN = NEW_TABLE | 3, NEW_RULE = NEW_TABLE | 6 };
enum { PROTO_INET = 1, PROTO_IPV4 = 2, PROTO_IPV6 = 10 };
enum { HOOK_OUTPUT = 3, PRIORITY_RAW = -300, PRIORITY_DSTNAT = -100, PRIORITY_FILTER = 0 };
enum { TABLE_NAME = 1 };
enum { CHAIN_TABLE = 1, CHAIN_NAME = 3, CHAIN_HOOK = 4, CHAIN_TYPE = 7 };
enum { HOOK_NUMBER = 1, HOOK_PRIORITY = 2 };
enum { RULE_TABLE = 1, RULE_CHAIN = 2, RULE_EXPRESSIONS = 4 };
enum { LIST_ELEMENT = 1, EXPR_NAME = 1, EXPR_DATA = 2, DATA_VALUE = 1 };
enum { META_TO = 1, META_KEY = 2, META_KEY_FAMILY = 15, META_KEY_PROTOCOL = 16 };
enum { PAYLOAD_TO = 1, PAYLOAD_BASE = 2, PAYLOAD_OFFSET = 3, PAYLOAD_LEN = 4, BASE_NETWORK = 1 };
enum { COMPARE_FROM = 1, COMPARE_OP = 2, COMPARE_DATA = 3, OP_EQUAL = 0, OP_OTHER = 1 };
enum { IMMEDIATE_TO = 1, IMMEDIATE_DATA = 2, REDIR_PORT = 1 };
enum { REJECT_TYPE = 1, REJECT_CODE = 2, REJECT_ANY_ICMP = 2, CODE_PORT = 1 };
enum { REGISTER = 1, REGISTER_VERDICT = 0, DATA_VERDICT = 2, VERDICT_CODE = 1, ACCEPT = 1 };
enum { BASE_TRANSPORT = 2 };

struct netfilter_head {
	uint8_t family, version;
	uint16_t resource; /* network order */
};

/* ---- messages ---- */

struct batch {
	uint8_t p[BATCH_BYTES] __attribute__((aligned(4)));
	size_t n;
	size_t message; /* where the last one begins */
	uint32_t sequence;
};

/* All sizes are known when this is written: the buffer holds them. The message's own length, its
 * first field, grows with it. */
static void *put(struct batch *b, const void *p, size_t n)
{
	void *at = b->p + b->n;

	ASSERT(b->n + ((n + 3) & ~3ul) <= sizeof(b->p));
	if (p)
		memcpy(at, p, n);
	b->n += (n + 3) & ~3ul;
	((struct message_head *)(void *)(b->p + b->message))->len = (uint32_t)(b->n - b->message);
	return at;
}

static void message_begin(struct batch *b, uint16_t type, uint16_t flags)
{
	struct message_head h = {
		.type = type, .flags = F_REQUEST | flags, .sequence = ++b->sequence};

	b->message = b->n;
	put(b, &h, sizeof(h));
}

static void put_attr(struct batch *b, uint16_t type, const void *p, size_t n)
{
	struct attr_head h = {.len = (uint16_t)(sizeof(h) + n), .type = type};

	put(b, &h, sizeof(h));
	put(b, p, n);
}

static void put_text(struct batch *b, uint16_t type, const char *s)
{
	put_attr(b, type, s, strlen(s) + 1);
}

static void put_number(struct batch *b, uint16_t type, uint32_t v)
{
	v = htonl(v);
	put_attr(b, type, &v, sizeof(v));
}

static size_t nest_begin(struct batch *b, uint16_t type)
{
	struct attr_head h = {.type = ATTR_NESTED | type};
	size_t at = b->n;

	put(b, &h, sizeof(h));
	return at;
}

static void nest_end(struct batch *b, size_t at)
{
	struct attr_head *h = (void *)(b->p + at);

	h->len = (uint16_t)(b->n - at);
}

/* Sends them all and reads the answers, which come in the order of the messages: the first failure,
 * or 0 once the last one was acknowledged. */
static int converse(int protocol, const struct batch *b, uint32_t last)
{
	autoclose int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct netlink_addr kernel = {.family = AF_NETLINK};
	uint8_t answers[4096] __attribute__((aligned(4)));
	bool done = false;
	ssize_t n;

	if (sock < 0)
		return -errno;
	if (sendto(sock, b->p, b->n, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	while (!done && (n = recv(sock, answers, sizeof(answers), MSG_DONTWAIT)) > 0)
		for (size_t at = 0; at + sizeof(struct message_head) <= (size_t)n;) {
			struct message_head h;
			int code = 0;

			memcpy(&h, answers + at, sizeof(h));
			if (h.len < sizeof(h) || h.len > (size_t)n - at)
				return -EBADMSG;
			if (h.type == MESSAGE_ERROR && h.len >= sizeof(h) + sizeof(code))
				memcpy(&code, answers + at + sizeof(h), sizeof(code));
			if (code < 0)
				return code;
			done = done || (h.type == MESSAGE_ERROR && h.sequence == last);
			at += (h.len + 3) & ~3u;
		}
	return done ? 0 : -EIO;
}

/* ---- routes ---- */

static void put_route(struct batch *b, uint8_t family, uint16_t flags)
{
	struct route_head h = {.family = family,
			       .table = TABLE_MAIN,
			       .protocol = PROTOCOL_BOOT,
			       .scope = family == AF_INET ? SCOPE_LINK : 0,
			       .type = TYPE_UNICAST};
	uint32_t out = LOOPBACK_INDEX, source = htonl(INADDR_LOOPBACK);

	message_begin(b, NEW_ROUTE, F_CREATE | flags);
	put(b, &h, sizeof(h));
	put_attr(b, ATTR_OUT, &out, sizeof(out));
	if (family == AF_INET)
		put_attr(b, ATTR_SOURCE, &source, sizeof(source));
}

/* The address of the box's own name in /etc/hosts. A machine that has none but 127.0.0.1 has no
 * IPv4 for libc: who asks it for IPv4 addresses that this machine could use (AI_ADDRCONFIG) gets
 * none. */
static void put_own_address(struct batch *b)
{
	struct address_head h = {
		.family = AF_INET, .prefix_len = 32, .scope = SCOPE_HOST, .index = LOOPBACK_INDEX};
	uint32_t address = htonl(0x7f000101);

	message_begin(b, NEW_ADDRESS, F_CREATE);
	put(b, &h, sizeof(h));
	put_attr(b, ATTR_LOCAL, &address, sizeof(address));
	put_attr(b, ATTR_ADDRESS, &address, sizeof(address));
}

/* ---- rules ---- */

static void table_message(struct batch *b, uint16_t type, uint16_t flags, uint8_t family,
			  uint16_t resource)
{
	struct netfilter_head h = {.family = family, .resource = htons(resource)};

	message_begin(b, type, flags);
	put(b, &h, sizeof(h));
}

static void put_chain(struct batch *b, const char *name, const char *type, int priority)
{
	size_t hook;

	table_message(b, NEW_CHAIN, F_CREATE, PROTO_INET, 0);
	put_text(b, CHAIN_TABLE, "cove");
	put_text(b, CHAIN_NAME, name);
	hook = nest_begin(b, CHAIN_HOOK);
	put_number(b, HOOK_NUMBER, HOOK_OUTPUT);
	put_number(b, HOOK_PRIORITY, (uint32_t)priority);
	nest_end(b, hook);
	put_text(b, CHAIN_TYPE, type);
}

static const uint8_t loopback4[4] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};

struct expr {
	size_t element, data;
};

static struct expr expr_begin(struct batch *b, const char *name)
{
	struct expr x = {.element = nest_begin(b, LIST_ELEMENT)};

	put_text(b, EXPR_NAME, name);
	x.data = nest_begin(b, EXPR_DATA);
	return x;
}

static void expr_end(struct batch *b, struct expr x)
{
	nest_end(b, x.data);
	nest_end(b, x.element);
}

static void put_value(struct batch *b, uint16_t type, const void *p, size_t n)
{
	size_t data = nest_begin(b, type);

	put_attr(b, DATA_VALUE, p, n);
	nest_end(b, data);
}

static void put_compare(struct batch *b, unsigned op, const void *p, size_t n)
{
	struct expr x = expr_begin(b, "cmp");

	put_number(b, COMPARE_FROM, REGISTER);
	put_number(b, COMPARE_OP, op);
	put_value(b, COMPARE_DATA, p, n);
	expr_end(b, x);
}

static void put_meta(struct batch *b, unsigned key, unsigned op, uint8_t value)
{
	struct expr x = expr_begin(b, "meta");

	put_number(b, META_TO, REGISTER);
	put_number(b, META_KEY, key);
	expr_end(b, x);
	put_compare(b, op, &value, 1);
}

/* So many bytes of a packet into the register. */
static void put_payload(struct batch *b, unsigned base, unsigned offset, unsigned len)
{
	struct expr x = expr_begin(b, "payload");

	put_number(b, PAYLOAD_TO, REGISTER);
	put_number(b, PAYLOAD_BASE, base);
	put_number(b, PAYLOAD_OFFSET, offset);
	put_number(b, PAYLOAD_LEN, len);
	expr_end(b, x);
}

/* Of that family, and for the loopback or (OP_OTHER) not: the first byte of an IPv4 address says
 * it, or all of an IPv6 one. */
static void put_loopback(struct batch *b, uint8_t family, unsigned op)
{
	bool is4 = family == PROTO_IPV4;
	unsigned len = is4 ? 1 : 16;

	put_meta(b, META_KEY_FAMILY, OP_EQUAL, family);
	put_payload(b, BASE_NETWORK, is4 ? 16 : 24, len);
	put_compare(b, op, is4 ? loopback4 : loopback6, len);
}

static size_t rule_begin(struct batch *b, const char *chain, uint16_t flags)
{
	table_message(b, NEW_RULE, F_CREATE | F_APPEND | flags, PROTO_INET, 0);
	put_text(b, RULE_TABLE, "cove");
	put_text(b, RULE_CHAIN, chain);
	return nest_begin(b, RULE_EXPRESSIONS);
}

static void put_redirect(struct batch *b, uint8_t family)
{
	size_t list = rule_begin(b, "redirect", 0);
	uint16_t port = htons(GUEST_REDIRECT_PORT);
	struct expr x;

	put_loopback(b, family, OP_OTHER);
	put_meta(b, META_KEY_PROTOCOL, OP_EQUAL, IPPROTO_TCP);
	x = expr_begin(b, "immediate");
	put_number(b, IMMEDIATE_TO, REGISTER);
	put_value(b, IMMEDIATE_DATA, &port, sizeof(port));
	expr_end(b, x);
	x = expr_begin(b, "redir");
	put_number(b, REDIR_PORT, REGISTER);
	expr_end(b, x);
	nest_end(b, list);
}

static void put_refuse(struct batch *b, uint8_t family, uint16_t flags)
{
	size_t list = rule_begin(b, "refuse", flags);
	uint8_t code = CODE_PORT;
	struct expr x;

	put_loopback(b, family, OP_OTHER);
	x = expr_begin(b, "reject");
	put_number(b, REJECT_TYPE, REJECT_ANY_ICMP);
	put_attr(b, REJECT_CODE, &code, sizeof(code));
	expr_end(b, x);
	nest_end(b, list);
}

static void put_notrack(struct batch *b)
{
	expr_end(b, expr_begin(b, "notrack"));
}

static void put_accept(struct batch *b)
{
	struct expr x = expr_begin(b, "immediate");
	size_t data, verdict;

	put_number(b, IMMEDIATE_TO, REGISTER_VERDICT);
	data = nest_begin(b, IMMEDIATE_DATA);
	verdict = nest_begin(b, DATA_VERDICT);
	put_number(b, VERDICT_CODE, ACCEPT);
	nest_end(b, verdict);
	nest_end(b, data);
	expr_end(b, x);
}

/* What the redirect's sockets say is looked up; all else of the loopback is not. */
static void put_untracked(struct batch *b)
{
	static const uint8_t families[] = {PROTO_IPV4, PROTO_IPV6};
	uint16_t port = htons(GUEST_REDIRECT_PORT);
	size_t list = rule_begin(b, "untracked", 0);

	put_meta(b, META_KEY_PROTOCOL, OP_OTHER, IPPROTO_TCP);
	put_notrack(b);
	nest_end(b, list);
	list = rule_begin(b, "untracked", 0);
	put_payload(b, BASE_TRANSPORT, 0, sizeof(port));
	put_compare(b, OP_EQUAL, &port, sizeof(port));
	put_accept(b);
	nest_end(b, list);
	for (size_t i = 0; i < sizeof(families); i++) {
		list = rule_begin(b, "untracked", 0);
		put_loopback(b, families[i], OP_EQUAL);
		put_notrack(b);
		nest_end(b, list);
	}
}

static int add_rules(bool untracked)
{
	struct batch b = {0};
	uint32_t last;

	table_message(&b, BATCH_BEGIN, 0, 0, NFTABLES);
	table_message(&b, NEW_TABLE, F_CREATE, PROTO_INET, 0);
	put_text(&b, TABLE_NAME, "cove");
	if (untracked) {
		put_chain(&b, "untracked", "filter", PRIORITY_RAW);
		put_untracked(&b);
	}
	put_chain(&b, "redirect", "nat", PRIORITY_DSTNAT);
	put_chain(&b, "refuse", "filter", PRIORITY_FILTER);
	put_redirect(&b, PROTO_IPV4);
	put_redirect(&b, PROTO_IPV6);
	put_refuse(&b, PROTO_IPV4, 0);
	put_refuse(&b, PROTO_IPV6, F_ACK);
	last = b.sequence;
	table_message(&b, BATCH_END, 0, 0, NFTABLES);
	return converse(NETLINK_TO_NETFILTER, &b, last);
}

/* ---- sockets ---- */

static void give(struct guest_redirect *r, int fd, const char *option)
{
	r->fds[r->count] = fd;
	r->options[r->count++] = option;
}

/* A bound socket, listening if it is a stream; without an address at ::1. Neither address nor port
 * is shared with anybody. */
static int open_bound(int type, const char *addr, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const struct sockaddr *to = addr ? (const void *)&v4 : (const void *)&v6;
	autoclose int fd = socket(to->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (addr)
		v4.sin_addr.s_addr = inet_addr(addr);
	if (bind(fd, to, addr ? sizeof(v4) : sizeof(v6)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -errno;
	return take_fd(fd);
}

/* What stub and proxy need, redirect or not. Without a diag socket the owner of a connection is not
 * known, which is all. */
static int open_plain(struct guest_redirect *r)
{
	static const struct {
		int type;
		const char *addr, *option;
		uint16_t port;
	} sockets[] = {
		{SOCK_STREAM, "127.0.0.1", "--net-proxy", GUEST_PROXY_PORT},
		{SOCK_DGRAM, GUEST_DNS_ADDR, "--net-dns", 53},
		{SOCK_STREAM, GUEST_DNS_ADDR, "--net-dns-tcp", 53},
	};
	int fd;

	for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
		fd = open_bound(sockets[i].type, sockets[i].addr, sockets[i].port);
		if (fd < 0)
			return fd;
		give(r, fd, sockets[i].option);
	}
	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_TO_DIAG);
	if (fd >= 0)
		give(r, fd, "--net-diag");
	return 0;
}

/* A kernel without IPv6 has nothing that would need to be led anywhere. */
static int open_redirect(struct guest_redirect *r, bool *ret_has_v6)
{
	autoclose int v6 = open_bound(SOCK_STREAM, NULL, GUEST_REDIRECT_PORT), v4 = -1;

	if (v6 < 0 && v6 != -EAFNOSUPPORT && v6 != -EADDRNOTAVAIL)
		return v6;
	v4 = open_bound(SOCK_STREAM, "127.0.0.1", GUEST_REDIRECT_PORT);
	if (v4 < 0)
		return v4;
	*ret_has_v6 = v6 >= 0;
	give(r, take_fd(v4), "--net-redirect");
	if (v6 >= 0)
		give(r, take_fd(v6), "--net-redirect");
	return 0;
}

static int lead(bool has_v6)
{
	struct batch routes = {0};
	int code = add_rules(true);

	if (code == -ENOENT)
		code = add_rules(false);
	if (code < 0)
		return code;
	/* A failure is told in any case, success of the last one only. */
	put_own_address(&routes);
	put_route(&routes, AF_INET, has_v6 ? 0 : F_ACK);
	if (has_v6)
		put_route(&routes, AF_INET6, F_ACK);
	return converse(NETLINK_TO_ROUTES, &routes, routes.sequence);
}

static void close_from(struct guest_redirect *r, size_t first)
{
	while (r->count > first)
		fd_close(&r->fds[--r->count]);
}

int guest_redirect_make(struct guest_redirect *ret)
{
	bool has_v6 = false;
	size_t plain;
	int r;

	*ret = (struct guest_redirect){0};
	r = open_plain(ret);
	if (r < 0) {
		close_from(ret, 0);
		return r;
	}
	plain = ret->count;
	r = open_redirect(ret, &has_v6);
	if (r == 0)
		r = lead(has_v6);
	if (r < 0)
		close_from(ret, plain);
	ret->missing = -r;
	return 0;
}

int guest_redirect_lead(void)
{
	struct guest_redirect tried = {0};
	bool has_v6 = false;
	int r = open_redirect(&tried, &has_v6);

	close_from(&tried, 0);
	return r < 0 ? r : lead(has_v6);
}

int guest_redirect_listen(bool is_led, struct guest_redirect *ret)
{
	bool has_v6;
	int r;

	*ret = (struct guest_redirect){0};
	r = open_plain(ret);
	if (r == 0 && is_led)
		r = open_redirect(ret, &has_v6);
	if (r < 0)
		close_from(ret, 0);
	return r;
}
