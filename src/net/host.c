/*
 * Names and addresses in one form each; see host.h.
 *
 * Whatever looks like an address must be one in the usual form: a text with a colon is IPv6 for
 * inet_pton, a text whose last label is a number (decimal, or hexadecimal with 0x) is dotted IPv4
 * with four plain numbers. So the odd spellings that some resolvers take for an address (127.1,
 * 0x7f.1, 2130706433, 0177.0.0.1) are neither a name nor an address here.
 */
#include "net/host.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum { LABEL_MAX = 63, MAPPED_BITS = 96 };

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* IPv4 in IPv6 is the IPv4 address: what is dialled is the same. */
static bool unmap(int *family, uint8_t addr[16])
{
	if (*family != AF_INET6 || memcmp(addr, mapped_prefix, sizeof(mapped_prefix)) != 0)
		return false;
	memmove(addr, addr + 12, 4);
	memset(addr + 4, 0, 12);
	*family = AF_INET;
	return true;
}

static int parse_address(struct host *ret, const char *text)
{
	struct host h = {.is_address = true};

	h.family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(h.family, text, h.addr) != 1)
		return -EINVAL;
	(void)unmap(&h.family, h.addr);
	if (!inet_ntop(h.family, h.addr, h.text, sizeof(h.text)))
		return -EINVAL;
	*ret = h;
	return 0;
}

/* Digits only, or 0x and hexadecimal digits only (also none): some resolvers take it for a number.
 */
static bool is_number(const char *label)
{
	size_t n = strspn(label, "0123456789");

	if (label[0] == '0' && lower(label[1]) == 'x')
		return !label[2 + strspn(label + 2, "0123456789abcdefABCDEF")];
	return n > 0 && !label[n];
}

static bool is_name(const char *text)
{
	for (const char *p = text;;) {
		size_t n = strcspn(p, ".");

		if (n == 0 || n > LABEL_MAX || p[0] == '-' || p[n - 1] == '-' ||
		    strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-_") != n)
			return false;
		if (!p[n])
			return !is_number(p);
		p += n + 1;
	}
}

int host_parse(struct host *ret, const char *text)
{
	struct host h = {0};
	size_t n = strlen(text);
	const char *last;

	if (strchr(text, ':'))
		return parse_address(ret, text);
	last = strrchr(text, '.');
	if (n <= DNS_NAME_MAX && last && is_number(last + 1))
		return parse_address(ret, text);
	if (n > 0 && text[n - 1] == '.')
		n--;
	if (n == 0 || n > DNS_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		h.text[i] = lower(text[i]);
	if (!is_name(h.text))
		return -EINVAL;
	*ret = h;
	return 0;
}

/* 1 to 65535, one spelling each. */
static int parse_port(const char *text, uint16_t *ret)
{
	uint64_t port;

	if (text[0] == '0' || !str_parse_u64(text, UINT16_MAX, &port))
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

/* "[address]" or "[address]:port". */
static int parse_bracketed(struct host *ret, const char *text, uint16_t *ret_port)
{
	const char *end = strchr(text, ']');
	char inner[INET6_ADDRSTRLEN] = "";
	size_t n;

	if (!end)
		return -EINVAL;
	n = (size_t)(end - text) - 1;
	if (n >= sizeof(inner))
		return -EINVAL;
	memcpy(inner, text + 1, n);
	if (!strchr(inner, ':') || (end[1] && end[1] != ':'))
		return -EINVAL;
	if (end[1] && parse_port(end + 2, ret_port) < 0)
		return -EINVAL;
	return parse_address(ret, inner);
}

bool host_is_loopback_name(const struct host *h)
{
	return !h->is_address && strcmp(h->text, HOST_LOOPBACK_NAME) == 0;
}

int host_parse_authority(struct host *ret, const char *text, uint16_t *ret_port)
{
	const char *colon = strchr(text, ':');
	char name[DNS_NAME_MAX + 2] = "";
	uint16_t port = 0;
	int r;

	if (text[0] == '[') {
		r = parse_bracketed(ret, text, &port);
	} else if (!colon || strchr(colon + 1, ':')) {
		r = host_parse(ret, text);
	} else {
		if ((size_t)(colon - text) >= sizeof(name) || parse_port(colon + 1, &port) < 0)
			return -EINVAL;
		memcpy(name, text, (size_t)(colon - text));
		r = host_parse(ret, name);
	}
	if (r == 0)
		*ret_port = port;
	return r;
}

int cidr_parse(struct cidr *ret, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	char address[INET6_ADDRSTRLEN] = "";
	struct cidr c = {0};
	uint64_t bits;
	unsigned max;

	if (n >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, n);
	c.family = strchr(address, ':') ? AF_INET6 : AF_INET;
	bits = max = c.family == AF_INET ? 32 : 128;
	/* Without a slash it is the whole address. */
	if (inet_pton(c.family, address, c.addr) != 1 ||
	    (slash && ((slash[1] == '0' && slash[2]) || !str_parse_u64(slash + 1, max, &bits))))
		return -EINVAL;
	c.bits = (unsigned)bits;
	for (unsigned i = c.bits; i < max; i++)
		if (c.addr[i / 8] & (0x80u >> (i % 8)))
			return -EINVAL;
	if (c.bits >= MAPPED_BITS && unmap(&c.family, c.addr))
		c.bits -= MAPPED_BITS;
	*ret = c;
	return 0;
}

bool cidr_has(const struct cidr *c, int family, const uint8_t *addr)
{
	uint8_t a[16] = {0};
	unsigned whole = c->bits / 8, rest = c->bits % 8;

	memcpy(a, addr, family == AF_INET ? 4 : 16);
	(void)unmap(&family, a);
	if (family != c->family || memcmp(a, c->addr, whole) != 0)
		return false;
	return rest == 0 || (a[whole] ^ c->addr[whole]) >> (8 - rest) == 0;
}
