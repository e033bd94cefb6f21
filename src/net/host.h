/*
 * Names and addresses as rules and clients write them, in one form each: the string that is judged
 * is the string that is dialled.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* A destination. Exactly one spelling: a name is lower case letters, digits, dashes, dots (and
 * underscores within labels), at most 253 bytes, no dot at either end, no empty label, and its last
 * label is not a number; an address is inet_ntop's form. */
struct host {
	char text[DNS_NAME_MAX + 1];
	bool is_address;
	int family;	  /* AF_INET or AF_INET6, for an address */
	uint8_t addr[16]; /* network order; IPv4 in the first four */
};

/* -EINVAL for everything else: empty, NUL, space, control bytes, user information, a port, brackets
 * (host_parse_authority takes those), percent signs, non-ASCII (IDN must come as punycode), and the
 * odd spellings of IPv4 (127.1, 0x7f.1, 2130706433, octal). One dot at the end of a name is
 * dropped. An IPv4-mapped IPv6 address becomes the IPv4 address. */
int host_parse(struct host *ret, const char *text);
/* "name", "name:443", "1.2.3.4:443", "[::1]:443", "::1". *ret_port is 0 where there is none. */
int host_parse_authority(struct host *ret, const char *text, uint16_t *ret_port);

/* The name by which a box reaches this host's own loopback. It is in no DNS: the door alone knows
 * it, and only for a rule that names it, with ports. */
#define HOST_LOOPBACK_NAME "host.cove.internal"
bool host_is_loopback_name(const struct host *h);

/* A network: "10.0.0.0/8", "fd00::/8", or a single address. Bits beyond the prefix must be 0. */
struct cidr {
	int family;
	uint8_t addr[16];
	unsigned bits;
};
int cidr_parse(struct cidr *ret, const char *text);
bool cidr_has(const struct cidr *c, int family, const uint8_t *addr);

/* As system calls have it; returns its length. */
socklen_t addr_socket(struct sockaddr_storage *ret, int family, const uint8_t *addr, uint16_t port);

/* May this address be dialled without `private: true`? Not: unspecified, loopback, private, shared
 * (100.64/10), link-local, metadata (169.254.169.254, fd00:ec2::254, 100.100.100.200), benchmark
 * (198.18/15, which are the box's synthetic ones), documentation, multicast, broadcast, reserved,
 * unique local, site-local, anything else in IPv6 outside 2000::/3, 6to4 and NAT64 and IPv4-mapped
 * forms of any of these, Teredo, and any address of the host's own. Returns NULL if it may, else
 * what it is ("a loopback address"). */
const char *addr_refused(int family, const uint8_t *addr);
extern const char addr_metadata[]; /* what it returns for a metadata service */
/* The same without the host's own: what an address is anywhere. */
const char *addr_special(int family, const uint8_t *addr);
/* Reads the host's own addresses again (getifaddrs); at start and before each check that follows a
 * change. 0 or -errno: then everything is refused. */
int addr_own_load(void);
