/*
 * Addresses that must not be dialled without a rule: see addr_refused in host.h.
 *
 * Two tables, first match wins, so the more telling name stands first. In IPv6 only what is
 * assigned to the public internet (2000::/3) passes at all; the forms that carry an IPv4 address
 * (6to4, NAT64) are what their IPv4 address is. The host's own addresses are read by getifaddrs and
 * replaced as a whole; as long as they could not be read nothing passes.
 */
#include "net/host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct block {
	uint8_t addr[16];
	unsigned bits;
	const char *what;
};

const char addr_metadata[] = "a cloud's metadata service";

static const struct block blocks4[] = {
	{{169, 254, 169, 254}, 32, addr_metadata},
	{{100, 100, 100, 200}, 32, addr_metadata},
	{{192, 0, 0, 192}, 32, addr_metadata},
	{{168, 63, 129, 16}, 32, addr_metadata},
	{{0}, 8, "an unspecified address"},
	{{127}, 8, "a loopback address"},
	{{10}, 8, "a private address"},
	{{172, 16}, 12, "a private address"},
	{{192, 168}, 16, "a private address"},
	{{100, 64}, 10, "a shared address"},
	{{169, 254}, 16, "a link-local address"},
	{{198, 18}, 15, "a benchmark address"},
	{{192, 0, 2}, 24, "a documentation address"},
	{{198, 51, 100}, 24, "a documentation address"},
	{{203, 0, 113}, 24, "a documentation address"},
	{{192, 0, 0}, 24, "a reserved address"},
	{{192, 88, 99}, 24, "a reserved address"},
	{{224}, 4, "a multicast address"},
	{{255, 255, 255, 255}, 32, "the broadcast address"},
	{{240}, 4, "a reserved address"},
};

static const struct block blocks6[] = {
	{{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, addr_metadata},
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, addr_metadata},
	{{0}, 128, "an unspecified address"},
	{{[15] = 1}, 128, "a loopback address"},
	{{0xfc}, 7, "a unique local address"},
	{{0xfe, 0x80}, 10, "a link-local address"},
	{{0xfe, 0xc0}, 10, "a site-local address"},
	{{0xff}, 8, "a multicast address"},
	{{0x20, 0x01, 0x0d, 0xb8}, 32, "a documentation address"},
	{{0x3f, 0xff}, 20, "a documentation address"},
	{{0x20, 0x01, 0, 0}, 32, "a Teredo address"},
	{{0x20, 0x01, 0, 2, 0, 0}, 48, "a benchmark address"},
	{{0x20, 0x01, 0}, 23, "a reserved address"},
};

static const struct cidr nat64 = {AF_INET6, {0x00, 0x64, 0xff, 0x9b}, 96};
static const struct cidr six_to_four = {AF_INET6, {0x20, 0x02}, 16};
static const struct cidr public6 = {AF_INET6, {0x20}, 3};

/* The host's own: a table that addr_own_load replaces. */
static struct cidr *own; /* owned */
static size_t own_count;
static bool own_loaded;

static const char *find_block(const struct block *blocks, size_t n, int family, const uint8_t *addr)
{
	for (size_t i = 0; i < n; i++) {
		struct cidr c = {.family = family, .bits = blocks[i].bits};

		memcpy(c.addr, blocks[i].addr, sizeof(c.addr));
		if (cidr_has(&c, family, addr))
			return blocks[i].what;
	}
	return NULL;
}

/* The IPv4 address that an IPv6 address stands for, or NULL. */
static const uint8_t *embedded4(const uint8_t *addr)
{
	struct cidr mapped = {AF_INET, {0}, 0};

	if (cidr_has(&mapped, AF_INET6, addr) || cidr_has(&nat64, AF_INET6, addr))
		return addr + 12;
	return cidr_has(&six_to_four, AF_INET6, addr) ? addr + 2 : NULL;
}

const char *addr_special(int family, const uint8_t *addr)
{
	const char *what;

	if (family == AF_INET)
		return find_block(blocks4, sizeof(blocks4) / sizeof(blocks4[0]), AF_INET, addr);
	if (family != AF_INET6)
		return "an address of an unknown kind";
	if (embedded4(addr))
		return addr_special(AF_INET, embedded4(addr));
	what = find_block(blocks6, sizeof(blocks6) / sizeof(blocks6[0]), AF_INET6, addr);
	if (!what && !cidr_has(&public6, AF_INET6, addr))
		what = "a reserved address";
	return what;
}

const char *addr_refused(int family, const uint8_t *addr)
{
	const char *what = addr_special(family, addr);

	if (what)
		return what;
	if (family == AF_INET6 && embedded4(addr))
		return addr_refused(AF_INET, embedded4(addr));
	if (!own_loaded)
		return "an address that could not be checked against the host's own";
	for (size_t i = 0; i < own_count; i++)
		if (cidr_has(&own[i], family, addr))
			return "an address of the host itself";
	return NULL;
}

static bool own_add(struct cidr *c, const struct sockaddr *sa)
{
	if (!sa)
		return false;
	*c = (struct cidr){.family = sa->sa_family};
	if (sa->sa_family == AF_INET) {
		c->bits = 32;
		memcpy(c->addr, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return true;
	}
	c->bits = 128;
	if (sa->sa_family == AF_INET6)
		memcpy(c->addr, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	return sa->sa_family == AF_INET6;
}

int addr_own_load(void)
{
	struct ifaddrs *list = NULL;
	struct cidr *fresh;
	size_t n = 0;

	own_loaded = false;
	if (getifaddrs(&list) < 0)
		return -errno;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		n++;
	fresh = calloc(n ? n : 1, sizeof(*fresh));
	if (!fresh) {
		freeifaddrs(list);
		return -ENOMEM;
	}
	n = 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		n += own_add(&fresh[n], i->ifa_addr);
	freeifaddrs(list);
	free(own);
	own = fresh;
	own_count = n;
	own_loaded = true;
	return 0;
}

socklen_t addr_socket(struct sockaddr_storage *ret, int family, const uint8_t *addr, uint16_t port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	*ret = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
	if (family == AF_INET) {
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, addr, sizeof(v4->sin_addr));
		return sizeof(*v4);
	}
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, addr, sizeof(v6->sin6_addr));
	return sizeof(*v6);
}
